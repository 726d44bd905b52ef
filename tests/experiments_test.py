"""Experiments and benchmarks without their data sets: each script names a missing file and ends with exit code 1.

The data are asked for before any model, so a folder of models may be missing too. Large packages are empty here: a
script that called one first would fail otherwise.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCRIPTS = sorted(path.relative_to(ROOT).as_posix() for folder in ("experiments", "bench") for path in (ROOT / folder).rglob("*.py"))
WORK = ["--work", "work", "--results", "results.jsonl"]
#: Arguments of the scripts that read data sets, and the file that the first error names.
NEEDS = {
    "bench/classify_speed.py": ([], "roberta_bpe/vocab.json"),
    "bench/short_texts.py": (["model"], "squad/dev-v1.1.json"),
    "bench/tokenizer_speed.py": (["--dump", "none"], "enwik8_head/enwik8.head4154064.xz"),
    "experiments/compare/gpt_baseline.py": (["train.txt", "validation.txt"], "train.txt"),
    "experiments/compare/convolution_baseline.py": (["train.txt", "validation.txt", "test.txt"], "train.txt"),
    "experiments/compare/lstm_baseline.py": (["train.txt", "validation.txt", "test.txt"], "train.txt"),
    "experiments/compare/feature_error.py": (["layers", "A=model", *WORK], "wiki_en_extract/enwiki_AA.txt.xz"),
    "experiments/compare/language_models.py": (["data", *WORK], "litbank/original.tar.xz"),
    "experiments/compare/moved.py": (["model", *WORK], "wiki_en_extract/enwiki_AA.txt.xz"),
    "experiments/compare/remembered.py": (WORK, "litbank/original.tar.xz"),
    "experiments/compare/spectra.py": (["A=model", *WORK], "wiki_en_extract/enwiki_AA.txt.xz"),
    "experiments/compare/word_perplexity.py": (WORK, "wikitext2_valtest/valid.txt"),
    "experiments/compare/updates.py": (WORK, "litbank/original.tar.xz"),
    "experiments/corpus/measure.py": (["model"], "wiki_en_extract/enwiki_AA.txt.xz"),
    "experiments/lra/arena.py": (WORK, "imdb/imdb_train.tsv.xz"),
    "experiments/lra/trivial.py": (["LSTM", "train.jsonl", "test.jsonl"], "train.jsonl"),
    "experiments/long-minilm/measure.py": (["folder", "model"], "tasks/hotpotqa_train.json.xz"),
    "experiments/long-minilm/texts.py": (["folder"], "wiki_en_extract/enwiki_AA.txt.xz"),
    "experiments/long-minilm/train.py": (["folder"], "train.jsonl"),
    "experiments/paper/articles.py": (WORK, "sumpubmed/sumpubmed_1200.jsonl.xz"),
    "experiments/paper/baselines.py": (["answers", *WORK], "squad/dev-v1.1.json"),
    "experiments/paper/candidates.py": (["model", *WORK], "tasks/hotpotqa_train.json.xz"),
    "experiments/paper/character_lm.py": (["windows", *WORK], "enwik8_head/enwik8.head4154064.xz"),
    "experiments/paper/classification.py": (["imdb", "bert", "model", *WORK], "imdb/imdb_train.tsv.xz"),
    "experiments/paper/coreference.py": (["litbank", "bert", "model", *WORK], "litbank/coref.tar.xz"),
    "experiments/paper/edges.py": (["model", *WORK], "tasks/hotpotqa_train.json.xz"),
    "experiments/paper/hotpotqa.py": (["model", *WORK], "tasks/hotpotqa_train.json.xz"),
    "experiments/paper/lengths.py": (WORK, "roberta_bpe/vocab.json"),
    "experiments/paper/masked_lm.py": (["model", *WORK], "wiki_en_extract/enwiki_AA.txt.xz"),
    "experiments/paper/phases.py": (WORK, "enwik8_head/enwik8.head4154064.xz"),
    "experiments/paper/questions.py": (WORK, "squad/dev-v1.1.json"),
    "experiments/paper/triviaqa.py": (["model", *WORK], "squad/dev-v1.1.json"),
    "experiments/retrieval/answers.py": (["bert", "model", "--work", "work"], "squad/dev-v1.1.json"),
    "experiments/retrieval/beir.py": (["model", "folder"], "squad/dev-v1.1.json"),
    "experiments/retrieval/fusion.py": (["model"], "wiki_en_extract/enwiki_AA.txt.xz"),
    "experiments/retrieval/handbook.py": (["ja-JP", "ja"], "ja-JP"),
    "experiments/retrieval/million.py": (["model", "--work", "work"], "wiki_en_extract/enwiki_AA.txt.xz"),
    "experiments/retrieval/program.py": (["model"], "squad/dev-v1.1.json"),
    "experiments/retrieval/reranker.py": (["model", "folder"], "train.jsonl"),
    "experiments/retrieval/run.py": (["bert", "model"], "wiki_en_extract/enwiki_AA.txt.xz"),
    "experiments/tables/day.py": (["model", "--work", "work"], "imdb/imdb_train.tsv.xz"),
    "experiments/tables/estimators.py": (["model"], "hyperpartisan/ground-truth-training-byarticle-20181122.xml"),
}
#: Scripts that read no data set: random weights, texts of their own, lines of `longformer bench`, or docs/results.
NEEDS_NONE = {
    "bench/efficient_peers.py", "bench/generate_peers.py", "bench/models.py", "bench/peers.py", "bench/serve.py", "bench/train_peers.py",
    "bench/writers.py",
    "experiments/compare/costs.py", "experiments/compare/long_targets.py", "experiments/compare/report.py", "experiments/corpus/ranks.py", "experiments/explain/faithful.py",
    "experiments/paper/linear.py", "experiments/paper/longer_input.py", "experiments/paper/report.py", "experiments/plan.py",
}  # fmt: skip
#: Modules that scripts import.
MODULES = {
    "experiments/data_sets.py", "experiments/gaps.py", "experiments/compare/baseline.py", "experiments/compare/heads.py", "experiments/compare/setting.py",
    "experiments/lra/listops.py", "experiments/lra/pictures.py", "experiments/lra/texts.py", "experiments/paper/experiment.py",
    "experiments/retrieval/passages.py",
}  # fmt: skip
PACKAGES = {"longformer_cpp": "", "safetensors.numpy": "load_file = save_file = None\n", "torch.nn": "Module, functional = object, None\n"}


def test_every_script_is_known():
    assert sorted([*NEEDS, *NEEDS_NONE, *MODULES]) == SCRIPTS


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    for name, text in PACKAGES.items():
        top, _, inner = name.partition(".")
        (folder / top).mkdir()
        (folder / top / "__init__.py").write_text(f"from . import {inner}\n" if inner else text)
        if inner:
            (folder / top / f"{inner}.py").write_text(text)
    return folder


def run(script, packages, work, data):
    arguments, _ = NEEDS[script]
    environment = {key: value for key, value in os.environ.items() if key != "LONGFORMER_DATA"}
    environment |= {"PYTHONPATH": str(packages)} | data
    return subprocess.run([sys.executable, ROOT / script, *arguments], cwd=work, env=environment, capture_output=True, text=True,
                          timeout=60)


@pytest.mark.parametrize("script", NEEDS)
def test_a_missing_data_set_is_named(script, packages, tmp_path):
    (tmp_path / "empty").mkdir()
    done = run(script, packages, tmp_path, {"LONGFORMER_DATA": str(tmp_path / "empty")})
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and NEEDS[script][1] in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert "docs/data.md" in done.stderr


def test_a_missing_folder_is_named(packages, tmp_path):
    done = run("experiments/paper/questions.py", packages, tmp_path, {})
    assert done.returncode == 1 and done.stderr.startswith("error: LONGFORMER_DATA: ") and "squad/dev-v1.1.json" in done.stderr


def test_what_scripts_read_is_on_the_page():
    """Origins are in docs/data.md and checksums in docs/data.sha256."""
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    checksums = (ROOT / "docs" / "data.sha256").read_text(encoding="utf-8")
    for script, (_, file) in NEEDS.items():
        assert f"`{pathlib.Path(script).name}`" in page, script
        assert "/" not in file or f"  {file}\n" in checksums, file


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_pages_that_need_data_say_where_it_is_from(page):
    """A page that shows a script of NEEDS leads to docs/data.md."""
    text = page.read_text(encoding="utf-8")
    shown = [script for script in NEEDS if re.search(rf"(?<![\w/]){re.escape(script)}\b", text)]
    assert not shown or page.name == "data.md" or re.search(r"\bdata\.md\b", text), f"{page.name} shows {shown}"
