#!/usr/bin/env python3
"""Shows that the tests notice the mistakes that are easy to make in a Longformer.

    python3 tools/mutations.py [--python PYTHON_WITH_TRANSFORMERS] [--only WORD]

Copies the tree, checks that its tests pass, then makes one wrong edit at a time, builds what it
touches, and demands that the unit tests or the comparison with `transformers` fail. Prints who
noticed. The tree itself is not touched. Exit code 1 when a mutation survives.
"""

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The tests that see a room of src/ at work.
UNIT_TESTS = {
    "kernels": ("attention_test", "attention_properties_test"),
    "ops": ("ops_test", "api_test"),
    "models": ("convert_test", "encoder_config_test", "api_test"),
    "api": ("api_test",),
}
PARITY = ["tests/parity/model_parity.py", "--count", "24", "--seed", "1", "--no-bf16"]


@dataclasses.dataclass
class Mutation:
    name: str
    file: str
    find: str
    replace: str

    @property
    def tests(self):
        return UNIT_TESTS[self.file.split("/")[1]]


MUTATIONS = (
    Mutation(
        "window one wider on both sides",
        "src/models/longformer_attention.cc",
        "config.windows[static_cast<std::size_t>(layer)] / 2",
        "config.windows[static_cast<std::size_t>(layer)] / 2 + 1",
    ),
    Mutation(
        "window one wider on the right, in the kernel",
        "src/kernels/attention/tasks.cc",
        "own + reach_right + 1, lane.window.begin",
        "own + reach_right + 2, lane.window.begin",
    ),
    Mutation(
        "globals counted twice",
        "src/kernels/attention/tasks.cc",
        "for (const Index row : spec.rows->global_keys) in_windows_[row] = 0;",
        "for (const Index row : spec.rows->global_keys) in_windows_[row] = 1;",
    ),
    Mutation(
        "query taken for query_global",
        "src/models/longformer_attention.cc",
        'self_attention_name(layer) + part + "_global";',
        'self_attention_name(layer) + part + (part == "query" ? "" : "_global");',
    ),
    Mutation(
        "query_global taken for query",
        "src/models/self_attention.cc",
        'std::array{"query", "key", "value"}[i]',
        'std::array{config.windows.empty() ? "query" : "query_global", "key", "value"}[i]',
    ),
    Mutation(
        "a hole in the mask ignored, padding at the end not",
        "src/engine/run/model.cc",
        "if (document.attention_mask[t] != 0) continue;",
        "const auto rest = document.attention_mask.subspan(t);\n"
        "      if (std::find(rest.begin(), rest.end(), 1) != rest.end()) continue;",
    ),
    Mutation(
        "a hole in the mask ignored by global rows",
        "src/kernels/attention/global_attention.cc",
        "if (!masked(in, first + j)) continue;",
        "if (j >= 0) continue;",
    ),
    Mutation(
        "positions shifted by one",
        "src/models/config.h",
        "model_type == ModelType::bert ? 0 : pad_token_id + 1;",
        "model_type == ModelType::bert ? 0 : pad_token_id + 2;",
    ),
    Mutation(
        "positions that count padding tokens",
        "src/models/encoder.cc",
        "rows.push_back(is_padding ? pad : next++);",
        "rows.push_back(is_padding ? pad : next);\n    ++next;",
    ),
)


def copy_tree(to, committed):
    """The files of the last commit, or the files as they are."""
    git = ["git", "-C", str(ROOT)]
    to.mkdir(parents=True)
    if committed:
        archive = subprocess.run([*git, "archive", "HEAD"], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", to], input=archive, check=True)
        return
    listing = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    for name in names.split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


class Tree:
    """A copy of the project with a build folder of its own."""

    def __init__(self, folder, options):
        self.root = folder / "tree"
        self.build_folder = folder / "build"
        self.options = options
        self.environment = os.environ | {
            "PYTHONPATH": str(self.build_folder / "python"),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Objects of an earlier run serve again, whatever its temporary folder was called.
            "CCACHE_BASEDIR": str(folder),
            "CCACHE_NOHASHDIR": "1",
        }
        copy_tree(self.root, options.committed)
        configure = ["cmake", "-S", self.root, "-B", self.build_folder, "-G", "Ninja"]
        configure += ["-DLONGFORMER_TESTS=ON", "-DLONGFORMER_PYTHON=ON", "-DLONGFORMER_CLI=OFF"]
        configure += [
            "-DLONGFORMER_WERROR=OFF",
            f"-DPython_EXECUTABLE={shutil.which(options.python)}",
        ]
        self.run(configure, must_pass=True)

    def run(self, command, must_pass=False):
        done = subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True
        )
        if must_pass and done.returncode != 0:
            sys.exit(f"mutations: {command[0]} failed:\n{(done.stdout + done.stderr)[-4000:]}")
        return done

    def build(self, tests):
        targets = [*sorted({self.room(t) + "_test" for t in tests}), "longformer_python"]
        command = ["cmake", "--build", self.build_folder, "-j", str(self.options.jobs)]
        self.run([*command, "--target", *targets], must_pass=True)

    def failing(self, tests):
        """Names of the unit tests that fail, and the finished comparison."""
        failing = [t for t in tests if self.run(self.command(t)).returncode != 0]
        return failing, self.run([self.options.python, *PARITY])

    def room(self, test):
        """The room of tests/ROOM/TEST.cc."""
        return next((self.root / "tests").glob(f"*/{test}.cc")).parent.name

    def command(self, test):
        program = self.build_folder / "tests" / f"{self.room(test)}_test"
        return [program, f"--file={test}", "--gtest_brief=1"]


def edited(tree, mutation):
    """The text of the file before and after; the place to edit must be found exactly once."""
    text = (tree.root / mutation.file).read_text()
    count = text.count(mutation.find)
    if count != 1:
        sys.exit(
            f"mutations: {mutation.name}: expected the text to edit once in {mutation.file}, "
            f"found it {count} times"
        )
    return text, text.replace(mutation.find, mutation.replace)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", default=sys.executable, help="a Python that has transformers and nanobind"
    )
    parser.add_argument("--only", default="", help="mutations whose name contains this")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--committed", action="store_true", help="mutate the last commit")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(pathlib.Path(folder), options)
        for mutation in MUTATIONS:
            edited(tree, mutation)
        tests = sorted({t for mutation in MUTATIONS for t in mutation.tests})
        tree.build(tests)
        programs, parity = tree.failing(tests)
        if programs or parity.returncode != 0:
            sys.exit(
                f"mutations: the tests fail without any: {' '.join(programs)}\n"
                f"{parity.stdout[-3000:]}{parity.stderr[-2000:]}"
            )
        print(
            "| mutation | failing unit tests | failing comparisons with transformers | seconds |\n"
            "|---|---|---|---|"
        )
        survivors = []
        for mutation in (m for m in MUTATIONS if options.only in m.name):
            begin = time.monotonic()
            before, after = edited(tree, mutation)
            (tree.root / mutation.file).write_text(after)
            tree.build(mutation.tests)
            programs, parity = tree.failing(mutation.tests)
            (tree.root / mutation.file).write_text(before)
            last_line = (parity.stdout.strip().splitlines() or ["crashed"])[-1]
            found = [part for part in last_line.split(", ") if part.endswith("failures")] or [
                last_line
            ]
            noticed = found[0] if parity.returncode != 0 else "none"
            print(
                f"| {mutation.name} | {', '.join(programs) or 'none'} | {noticed} "
                f"| {time.monotonic() - begin:.0f} |",
                flush=True,
            )
            if not programs and parity.returncode == 0:
                survivors.append(mutation.name)
    if survivors:
        sys.exit(f"mutations: nobody noticed: {'; '.join(survivors)}")


if __name__ == "__main__":
    main()
