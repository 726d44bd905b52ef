"""The checks of tools/ find what they are for: each case is a tiny tree with one thing wrong."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent / "tools"
UNFINISHED_WORD = "TO" + "DO"


def run(tool, *arguments, env=None, stdin=None):
    command = [sys.executable, str(TOOLS / tool), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env, input=stdin)


class TreeCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class Layers(TreeCase):
    def accepts(self, name, text):
        self.write(name, text)
        result = run("check_layers.py", self.root)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.returncode, 0)

    def refuses(self, name, text, words):
        self.write(name, text)
        result = run("check_layers.py", self.root)
        self.assertIn(f"{name}:1: ", result.stdout)
        self.assertIn(words, result.stdout)
        self.assertEqual(result.returncode, 1)

    def test_accepts_the_order(self):
        self.accepts("src/core/tensor.h", "#include <vector>\n")
        self.accepts("src/ops/linear.cc", '#include "kernels/gemm.h"\n#include "core/tensor.h"\n')
        self.accepts("src/models/bert.cc", '#include "text/tokenizer.h"\n#include "ops/linear.h"\n')
        self.accepts("src/kernels/gemm_packed.cc", "#include <oneapi/dnnl/dnnl.hpp>\n")
        self.accepts("src/ops/add.cc", "auto* values = sum.data<float>();\n")
        self.accepts("apps/cli/main.cc", '#include <fmt/format.h>\n#include "longformer/model.h"\n')

    def test_a_public_header_belongs_to_the_room_that_implements_it(self):
        self.accepts("src/tasks/words.h", '#include "longformer/text.h"\n')
        self.accepts("src/ops/types.h", '#include "longformer/options.h"\n')
        self.accepts("include/longformer/model.h", '#include "longformer/text.h"\n')
        self.accepts("apps/cli/main.cc", '#include "longformer/longformer.h"\n')
        self.refuses("src/models/stack.cc", '#include "longformer/model.h"\n', "which belongs to engine")
        self.refuses("src/tasks/names.h", '#include "longformer/finetuning.h"\n', "which belongs to api")

    def test_a_public_header_has_a_row(self):
        self.refuses("src/tasks/names.h", '#include "longformer/new.h"\n', "no row in PUBLIC")
        self.refuses("include/longformer/new.h", '#include "longformer/error.h"\n', "no row in PUBLIC")

    def test_public_headers_of_lower_rooms_include_none_above(self):
        self.refuses("include/longformer/text.h", '#include "longformer/checkpoint.h"\n', "text must not include")

    def test_tasks_stand_alone(self):
        self.accepts("src/tasks/tagging/tagger.cc", '#include "engine/run/runner.h"\n#include "longformer/tasks.h"\n')
        self.accepts("src/tasks/search/search.cc", '#include "longformer/embedding.h"\n')
        self.accepts("src/tasks/multi_hop/a.cc", '#include "tasks/question_answering/answers.h"\n')
        self.refuses("src/tasks/choice/a.cc", '#include "tasks/tagging/tagger.h"\n', "must not include tasks/tagging")
        self.refuses("src/tasks/writing/a.cc", '#include "longformer/embedding.h"\n', "must not include tasks/embedding")

    def test_parts_of_the_engine_have_an_order(self):
        self.accepts("src/engine/run/runner.h", '#include "engine/reading/reading.h"\n')
        self.refuses("src/engine/frame/head.h", '#include "engine/run/runner.h"\n', "must not include engine/run")
        self.refuses("src/engine/run/model.cc", '#include "tasks/choice/a.h"\n', "engine must not include tasks")

    def test_copies_of_tensor_data_are_results(self):
        self.accepts("src/engine/run/runner.cc", "auto values = hidden.to_floats();\n")
        self.accepts("src/ops/sum.cc", "auto values = hidden.to_floats();\n")
        self.refuses("src/tasks/embedding/embedder.cc", "auto values = hidden.to_floats();\n", "copies of tensor data")

    def test_teams_come_from_one_place(self):
        self.accepts("src/core/threads.cc", "#pragma omp parallel num_threads(4)\n")
        self.accepts("src/kernels/rows.cc", "#pragma omp simd\n")
        self.refuses("src/kernels/scan.cc", "  #pragma omp parallel for\n", "only src/core/threads.*")
        self.refuses("src/ops/sum.cc", "omp_set_num_threads(1);\n", "only src/core/threads.*")

    def test_core_includes_nothing_above(self):
        self.refuses("src/core/tensor.cc", '#include "kernels/gemm.h"\n', "core must not include kernels")

    def test_ops_never_see_text_or_formats(self):
        self.refuses("src/ops/linear.cc", '#include "formats/safetensors.h"\n', "ops must not include")
        self.refuses("src/ops/embed.cc", '#include "text/tokenizer.h"\n', "ops must not include text")

    def test_kernels_do_not_include_ops(self):
        self.refuses("src/kernels/softmax.cc", '#include "ops/ops.h"\n', "kernels must not include ops")

    def test_training_does_not_know_tasks(self):
        self.refuses("src/training/loop.cc", '#include "tasks/qa.h"\n', "training must not include tasks")

    def test_text_and_formats_do_not_know_each_other(self):
        self.refuses("src/text/jsonl.cc", '#include "formats/json.h"\n', "text must not include formats")

    def test_onednn_in_one_place(self):
        self.refuses("src/ops/linear.cc", "#include <dnnl.hpp>\n", "oneDNN")
        self.refuses("src/kernels/softmax.cc", "#include <oneapi/dnnl/dnnl.hpp>\n", "oneDNN")

    def test_highway_in_kernels(self):
        self.refuses("src/models/bert.cc", '#include "hwy/highway.h"\n', "hwy belongs to kernels")

    def test_libraries_in_their_rooms(self):
        self.accepts("apps/cli/flags.cc", "#include <CLI/App.hpp>\n")
        self.refuses("src/engine/run/model.cc", "#include <CLI/App.hpp>\n", "belongs to apps")
        for header in ("md4c.h", "md4c-html.h"):
            self.refuses("src/engine/run/model.cc", f"#include <{header}>\n", "belongs to text")

    def test_boost_in_the_sockets(self):
        self.accepts("apps/server/http_session.cc", "#include <boost/asio/post.hpp>\n")
        self.refuses("apps/server/router.cc", "#include <boost/asio/post.hpp>\n", "include Boost")
        self.refuses("src/core/text.cc", "#include <boost/regex.hpp>\n", "include Boost")

    def test_apps_and_python_see_public_headers_only(self):
        self.refuses("apps/cli/main.cc", '#include "models/bert.h"\n', "public headers only")
        self.refuses("python/module.cc", '#include "core/tensor.h"\n', "public headers only")

    def test_public_headers_are_std_only(self):
        self.refuses("include/longformer/model.h", "#include <fmt/format.h>\n", "public headers")
        self.refuses("include/longformer/error.h", '#include "core/tensor.h"\n', "public headers")

    def test_tensor_data_above_ops(self):
        self.refuses("src/models/bert.cc", "float* x = t.data<float>();\n", "tensor data")
        self.refuses("src/tasks/qa.cc", "void* x = t->raw();\n", "tensor data")
        self.refuses("src/engine/run/model.cc", "x = t.template data<T>();\n", "tensor data")

    def test_unknown_room(self):
        self.write("src/misc/a.cc", "")
        self.assertIn("src/misc: not a room", run("check_layers.py", self.root).stdout)

    def test_include_without_room(self):
        self.refuses("src/core/tensor.cc", '#include "tensor.h"\n', "names its room")


class Rules(TreeCase):
    def breaches(self):
        result = run("check_rules.py", self.root)
        self.assertEqual(result.returncode, 1 if result.stdout else 0)
        return result.stdout

    def test_accepts_a_good_tree(self):
        body = "  x = 1;\n" * 70
        self.write("src/core/a.h", "#pragma once\n// a header\n")
        self.write("src/core/a.cc", f'int f() {{\n  auto s = "}}{{ \\"";\n{body}}}\nint g() {{\n{body}}}\n')
        self.write("tools/a.py", "def f():\n" + "    x = 1\n" * 70)
        self.assertEqual(self.breaches(), "")

    def test_long_file(self):
        self.write("src/core/a.cc", "int x;\n" * 701)
        self.assertIn("701 lines, at most 700", self.breaches())

    def test_long_function(self):
        body = "  if (x) { y(); }\n" * 90
        self.write("src/core/a.cc", f"namespace a {{\nclass B {{\n  void f(int x) const {{\n{body}  }}\n}};\n}}\n")
        self.assertIn("src/core/a.cc:3: a function of 92 lines", self.breaches())

    def test_long_templates_and_constructors(self):
        body = "  y();\n" * 90
        self.write("src/core/a.cc", f"template <class T>\nint f(T x) {{\n{body}}}\n")
        self.write("src/core/b.cc", f"B::B(int x) : a_(x), b_{{x}} {{\n{body}}}\n")
        self.write("src/core/c.cc", f"auto f(struct S s) -> int {{\n{body}}}\n")
        breaches = self.breaches()
        for name in ("a", "b", "c"):
            self.assertIn(f"src/core/{name}.cc:", breaches)

    def test_included_files_are_there(self):
        self.write("src/core/a.h", "#pragma once\n")
        self.write("src/core/a.cc", '#include "core/a.h"\n#include "page.inc"\n#include <vector>\n')
        self.assertEqual(self.breaches(), "")
        self.write("tests/fuzz/b.cc", '#include "core/b.h"\n')
        self.assertEqual(self.breaches(), 'tests/fuzz/b.cc: includes "core/b.h", which no file is\n')

    def test_algorithms_are_included(self):
        self.write("src/core/a.h", "#pragma once\n#include <algorithm>\n")
        self.write("src/core/a.cc", '#include "core/a.h"\nvoid f() { std::sort(a, b); }\n')
        self.assertEqual(self.breaches(), "")
        self.write("src/core/b.cc", "void f() { std::ranges::sort(a); std::iota(a, b, 0); }\n")
        self.assertIn("src/core/b.cc: uses <algorithm>", self.breaches())
        self.assertIn("src/core/b.cc: uses <numeric>", self.breaches())

    def test_tables_are_not_functions(self):
        self.write("src/text/table.cc", "const int table[] = {\n" + "  1,\n" * 100 + "};\n")
        self.assertEqual(self.breaches(), "")

    def test_long_python_function(self):
        self.write("tools/a.py", "def f():\n" + "    x = 1\n" * 90)
        self.assertIn("tools/a.py:1: a function of 91 lines", self.breaches())

    def test_unfinished_words(self):
        self.write("docs/a.md", f"one\ntwo {UNFINISHED_WORD}: three\n")
        self.assertIn("docs/a.md:2: ", self.breaches())

    def test_header_without_pragma_once(self):
        self.write("src/core/a.h", "int x;\n")
        self.assertIn("src/core/a.h: a header without #pragma once", self.breaches())

    def test_comments_name_their_thing(self):
        self.write("src/core/a.h", "#pragma once\n/// Rows of a batch.\n/// What they hold is undefined.\nint x;  ///< Whatever it is.\n")
        self.write("src/core/b.cc", 'auto text = "// What it is";  // the text\n/* The same text as before. */\n')
        self.write("tools/a.py", '"""Tools."""\n# Ofen and Withe are words.\nx = "# What"\n')
        self.write("tools/b.sh", "#!/bin/sh\n# Both files.\n")
        self.assertEqual(self.breaches(), "")
        for word in ("Of", "With", "As", "What", "Where", "Whose", "That of", "The same of", "The same as"):
            self.write("src/core/c.cc", f"int x;  // {word} a row\n")
            self.assertIn(f"src/core/c.cc:1: a comment that begins with '{word}'", self.breaches())
        self.write("src/core/c.cc", "int x;\n\n/** The same, in double. */\nint y;  ///< What it is.\n")
        self.assertIn("src/core/c.cc:3: a comment that begins with 'The same'", self.breaches())
        self.assertIn("src/core/c.cc:4: a comment that begins with 'What'", self.breaches())

    def test_docstrings_and_scripts_name_their_thing(self):
        self.write("tests/fixtures/a.py", 'def f():\n    """What is\n    returned."""\n')
        self.write("tools/b.sh", "#!/bin/sh\n\n# Where it is.\ntrue\n")
        self.write("Makefile", "all: ## With all\n")
        self.write("src/CMakeLists.txt", "set(x 1)  # As before.\n")
        for name in ("tests/fixtures/a.py:2: ", "tools/b.sh:3: ", "Makefile:1: ", "src/CMakeLists.txt:1: "):
            self.assertIn(name, self.breaches())


class Links(TreeCase):
    def setUp(self):
        super().setUp()
        self.write("docs/page.md", "# Top\n\n## <a id=\"a3\"></a>A.3 The `forward` pass\n\n## Twice\n\n## Twice\n")

    def accepts(self, name, text):
        self.write(name, text)
        result = run("check_links.py", self.root)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.returncode, 0)

    def refuses(self, name, text, words):
        self.write(name, text)
        result = run("check_links.py", self.root)
        self.assertIn(f"{name}:", result.stdout)
        self.assertIn(words, result.stdout)
        self.assertEqual(result.returncode, 1)

    def test_links_of_pages(self):
        self.accepts("README.md", "[a](docs/page.md) [b](docs/page.md#a3) ![c](docs/page.md#a3-the-forward-pass)\n")
        self.accepts("docs/own.md", "# Here\n\n[a](#here) [b](page.md#twice-1) [c](../README.md) [d](https://x.y#z)\n")
        self.accepts("docs/code.md", "`[a](gone.md)`\n\n```\n[b](gone.md)\n```\n")
        self.refuses("docs/gone.md", "one\n[a](other.md)\n", "docs/gone.md:2: other.md: there is no such file")
        self.refuses("docs/self.md", "[a](#there)\n", "#there: the file has no such anchor")

    def test_anchors_of_pages(self):
        self.refuses("README.md", "[a](docs/page.md#b1)\n", "docs/page.md#b1: the file has no such anchor")

    def test_anchors_are_counted(self):
        self.refuses("README.md", "[a](docs/page.md#twice-2)\n", "docs/page.md#twice-2: the file has no such anchor")

    def test_nothing_outside(self):
        self.refuses("README.md", "[a](../secret.md)\n", "../secret.md: there is no such file")

    def test_pictures_and_addresses_of_html(self):
        self.accepts("docs/a.svg", "")
        self.accepts("README.md", '<a href="docs/page.md"><img src="docs/a.svg"></a>\n')
        self.refuses("docs/b.md", '<img src="b.svg">\n', "b.svg: there is no such file")

    def test_citations(self):
        self.accepts("src/core/a.h", "// docs/page.md#a3, docs/page.md\n")
        self.accepts("tools/a.py", '"""As docs/page.md#a3 says.\n\nUsage:\n    a.py > out.md\n"""\n')
        self.accepts("README.md", "see `docs/page.md`\n")
        self.refuses("src/core/b.cc", "int x;  // docs/page.md#a4\n", "docs/page.md#a4: the file has no such anchor")

    def test_several_anchors_of_a_citation(self):
        self.accepts("src/core/a.h", "// docs/page.md#a3, #top and\n// #twice-1\n")
        self.refuses("src/core/b.h", "// docs/page.md#a3 to\n// #a4 or so\n", "docs/page.md#a4: the file has no such")

    def test_citations_of_files_that_do_not_exist(self):
        self.refuses("src/core/a.cc", "/* one\n   docs/spec/x.md */\n", "src/core/a.cc:2: docs/spec/x.md: there is no")
        self.refuses("docs/a.md", "see `docs/gone.md`\n", "docs/a.md:1: docs/gone.md: there is no such file")

    def test_other_names_in_comments(self):
        self.accepts("src/core/a.cc", 'auto name = "notes.md";\n')
        self.accepts("docs/run.sh", "# page.md and docs/page.md\n")
        self.refuses("src/core/b.cc", "int x;  // notes.md A.3\n", "src/core/b.cc:1: notes.md: there is no such file")

    def test_other_names_in_python(self):
        self.refuses("tools/a.py", 'def f():\n    """notes.md"""\n', "tools/a.py:2: notes.md: there is no such file")

    def test_strings_of_the_program_and_of_tests(self):
        self.accepts("tests/a.cc", 'write("docs/gone.md");\n')
        self.refuses("apps/a.cc", 'print("see docs/gone.md");\n', "docs/gone.md: there is no such file")


class Skips(TreeCase):
    def result(self, allowed, *options, has_data=False, programs=(), corpora=None):
        for program in programs:
            self.write(f"bin/{program}", "#!/bin/sh\n")
            (self.root / "bin" / program).chmod(0o755)
        self.write("allowed.txt", allowed)
        self.write(
            "report.xml",
            '<testsuite><testcase name="A.runs" status="run"/>'
            '<testcase name="A.skips" status="notrun"><skipped message="x"/></testcase></testsuite>',
        )
        env = {"PATH": str(self.root / "bin"), "OCL_ICD_VENDORS": str(self.root / "vendors")}
        if has_data:
            env["LONGFORMER_DATA"] = "/data"
        if corpora:
            self.write(f"{corpora}/stamp", "")
            env["LONGFORMER_CORPORA"] = str(self.root / corpora)
        return run("check_skips.py", *options, self.root / "allowed.txt", self.root / "report.xml", env=env)

    def test_skip_that_is_not_listed(self):
        result = self.result("# nothing\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("A.skips", result.stdout)
        self.assertNotIn("A.runs", result.stdout)

    def test_listed_skip(self):
        self.assertEqual(self.result("A.sk*  # needs a big machine\n").returncode, 0)

    def test_data_skip_only_without_data(self):
        self.assertEqual(self.result("data: A.*\n").returncode, 0)
        self.assertEqual(self.result("data: A.*\n", has_data=True).returncode, 1)

    def test_browser_skip_only_without_browser(self):
        self.assertEqual(self.result("browser: A.*\n", programs=["chromium"]).returncode, 0)
        both = ["chromium", "chromedriver"]
        self.assertEqual(self.result("browser: A.*\n", programs=both).returncode, 1)

    def test_opencl_skip_only_without_a_driver(self):
        self.assertEqual(self.result("opencl: A.*\n").returncode, 0)
        self.write("vendors/pocl.icd", "libpocl.so")
        self.assertEqual(self.result("opencl: A.*\n").returncode, 1)

    def test_a_build_may_be_unable_to_use_what_there_is(self):
        self.write("vendors/pocl.icd", "libpocl.so")
        self.assertEqual(self.result("opencl: A.*\n", "--without", "opencl").returncode, 0)
        self.assertEqual(self.result("data: A.*\n", "--without", "opencl", has_data=True).returncode, 1)

    def test_corpora_skip_only_without_java_or_packages(self):
        self.assertEqual(self.result("corpora: A.*\n").returncode, 0)
        self.assertEqual(self.result("corpora: A.*\n", corpora="venv").returncode, 0)
        self.assertEqual(self.result("corpora: A.*\n", programs=["java"], corpora="venv").returncode, 1)

    def test_empty_report(self):
        self.write("allowed.txt", "")
        self.write("empty.xml", "<testsuite/>")
        result = run("check_skips.py", self.root / "allowed.txt", self.root / "empty.xml")
        self.assertEqual(result.returncode, 1)


@unittest.skipUnless(shutil.which("git"), "git names the files")
class Tidy(TreeCase):
    """A clang-tidy that writes down what it is given and finds fault with the word `fault`."""

    def setUp(self):
        super().setUp()
        self.write("bin/clang-tidy", '''#!/bin/sh
for file; do :; done
[ "$file" = --version ] && { echo 1; exit; }
echo "$file" >>read.txt
echo "$*" >>arguments.txt
! grep fault "$file"
''')  # fmt: skip
        (self.root / "bin/clang-tidy").chmod(0o755)
        self.write(".clang-tidy", "Checks: all\n")
        self.write(".gitignore", "bin\nbuild\ncache\nread.txt\narguments.txt\n")
        self.write("src/core/deep.h", "#include <vector>\n")
        self.write("src/core/near.h", '#include "core/deep.h"\n')
        self.write("src/core/a.cc", '#include "core/near.h"\n')
        self.write("src/core/b.cc", '#include "core/near.h"\n')
        self.write("src/core/c.cc", "")
        self.write("apps/cli/flags.h", "")
        self.write("apps/cli/verb/d.cc", '#include "flags.h"\n')
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", self.root, *identity, *arguments], check=True, capture_output=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a state")

    def tidy(self, *arguments, flags="-O1"):
        """(names of the sources that clang-tidy was given, result)"""
        commands = [
            {"file": f"{self.root}/{name}.cc", "command": f"c++ {flags} {name}.cc", "directory": str(self.root)}
            for name in ("src/core/a", "src/core/b", "src/core/c", "apps/cli/verb/d")
        ]
        self.write("build/tidy/compile_commands.json", json.dumps(commands))
        self.write("read.txt", "")
        env = os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        result = run("tidy.py", "--root", self.root, "--cache", self.root / "cache", *arguments, env=env)
        read = sorted(pathlib.Path(line).stem for line in (self.root / "read.txt").read_text().split())
        return "".join(read), result

    def test_all_once(self):
        read, result = self.tidy()
        self.assertEqual((read, result.returncode), ("abcd", 0), result.stderr)
        self.assertEqual(self.tidy()[0], "")

    def test_what_is_read_again(self):
        self.tidy()
        self.write("src/core/deep.h", "#include <map>\n")
        self.assertEqual(self.tidy()[0], "ab")
        self.write("apps/cli/flags.h", "#include <map>\n")
        self.assertEqual(self.tidy()[0], "d")
        self.assertEqual(self.tidy(flags="-O2")[0], "abcd")
        self.write(".clang-tidy", "Checks: none\n")
        self.assertEqual(self.tidy(flags="-O2")[0], "abcd")

    def test_other_checks(self):
        self.tidy()
        self.assertNotIn("--checks", (self.root / "arguments.txt").read_text())
        self.assertEqual(self.tidy("--checks=-*,x")[0], "abcd")
        self.assertIn("--checks=-*,x ", (self.root / "arguments.txt").read_text())
        self.assertEqual(self.tidy("--checks=-*,x")[0], "")

    def test_a_fault_stays_one(self):
        self.write("src/core/b.cc", "fault\n")
        for _ in range(2):
            read, result = self.tidy()
            self.assertEqual(result.returncode, 1)
            self.assertIn("fault", result.stdout)
            self.assertIn("b", read)

    def test_changes_since_a_commit(self):
        self.write("src/core/c.cc", "int x;\n")
        self.write("src/core/e.cc", "")
        self.assertEqual(self.tidy("--base", "HEAD")[0], "ce")
        self.commit()
        self.assertEqual(self.tidy("--base", "HEAD")[0], "")
        self.assertEqual(self.tidy("--base", "HEAD~1", "--seconds", 60)[0], "abd")

    def test_a_header_is_read_through_one_source(self):
        self.write("src/core/deep.h", "#include <map>\n")
        self.assertEqual(self.tidy("--base", "HEAD")[0], "a")
        self.assertEqual(self.tidy("--base", "HEAD", "--seconds", 0)[0], "")
        self.assertEqual(self.tidy("--base", "HEAD", "--seconds", 60)[0], "bcd")

    def test_a_sample_ends_with_its_time(self):
        self.write("src/core/c.cc", "int x;\n")
        self.assertEqual(self.tidy("--base", "HEAD", "--seconds", 0, "--sample")[0], "")
        self.assertEqual(self.tidy("--base", "HEAD", "--seconds", 60, "--sample")[0], "abcd")

    def test_only_changed_sources_end_with_their_time(self):
        self.write("src/core/c.cc", "int x;\n")
        self.assertEqual(self.tidy("--base", "HEAD", "--seconds", 0, "--changed")[0], "")
        self.assertEqual(self.tidy("--base", "HEAD", "--seconds", 60, "--changed")[0], "c")
        self.assertEqual(self.tidy("--base", "HEAD", "--seconds", 60, "--changed")[0], "")

    def test_without_the_commit_all_are_read(self):
        read, result = self.tidy("--base", "HEAD~9")
        self.assertEqual(read, "abcd")
        self.assertIn("no commit HEAD~9", result.stdout)


class Slowest(TreeCase):
    OUTPUT = """    Start 1: A.quick
1/3 Test #1: A.quick .......   Passed    0.01 sec
2/3 Test #2: program ....***Failed    9.00 sec
3/3 Test #3: B.slow ........   Passed    3.50 sec

67% tests passed, 1 tests failed out of 3
"""

    def test_stands_before_the_summary(self):
        self.write(
            "junit-program.xml",
            '<testsuite><testcase classname="P" name="long" time="8.5"/>'
            '<testcase classname="P" name="short" time="0.5"/></testsuite>',
        )
        lines = run("slowest.py", self.root, 2, stdin=self.OUTPUT).stdout.splitlines()
        self.assertEqual(lines[-1], "67% tests passed, 1 tests failed out of 3")
        self.assertEqual([line.split()[-1] for line in lines[-4:-2]], ["P.long", "B.slow"])
        self.assertEqual(lines[:4], self.OUTPUT.splitlines()[:4])


class Parity(unittest.TestCase):
    def test_a_seed_draws_its_part_and_all_seeds_everything(self):
        sys.path.insert(0, str(TOOLS))
        import parity

        names = parity.scripts()
        self.assertEqual(parity.draw(names, "1"), parity.draw(names, "1"))
        seen = set()
        for seed in range(2000):
            for name, arguments in parity.draw(names, str(seed))[:4]:
                models = arguments[-1] if "--only" in arguments else "all"
                seen |= {(name, model) for model in models.split(",")}
        models = {name: parity.COMPARISONS[name].models for name in names}
        cards = {(n, str(i)) for n in names for i in range(models[n])} | {(n, "all") for n in names if not models[n]}
        self.assertEqual(seen, cards)


if __name__ == "__main__":
    unittest.main()
