"""The Python lines of README and docs run as they stand there."""

import doctest
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import longformer_cpp
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = str(pathlib.Path(longformer_cpp.__file__).resolve().parents[1])
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if path.exists()]
#: Models that the lines may name, converted from fixtures to more positions if the quickstart has not
#: run.
MODELS = {"quickstart/minilm-4096": "sentence_instructed"}


def blocks(path):
    """The fenced blocks of a page: language and text."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S)


def programs():
    for path in PAGES:
        for number, (language, text) in enumerate(blocks(path)):
            if language in ("python", "console") and re.search(r"(import|from) longformer_cpp", text):
                yield pytest.param(language, text, id=f"{path.name}-{number}")


PROGRAMS = list(programs())


def test_there_are_some():
    assert len([one for one in PROGRAMS if "README" in str(one.id)]) >= 1
    assert len([one for one in PROGRAMS if "python.md" in str(one.id)]) >= 6


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with what the lines read."""
    place = tmp_path_factory.mktemp("place")
    for name in ("quickstart", "examples"):
        if (ROOT / name).exists():
            (place / name).mkdir()
            for entry in (ROOT / name).iterdir():
                (place / name / entry.name).symlink_to(entry)
    fixtures = ROOT / "tests" / "fixtures"
    for name, fixture in MODELS.items():
        if not (place / name / "config.json").exists():
            (place / name).parent.mkdir(exist_ok=True)
            longformer_cpp.convert(fixtures / fixture, place / name, max_positions=512, window=64)
    for name, fixture in (("classifier", "tiny_longformer_classifier"), ("tagger", "tiny_bert_tagger"),
                          ("answerer", "tiny_longformer_qa"), ("masked", "tiny_roberta"),
                          ("resolver", "coreference"), ("chooser", "tiny_longformer_choice")):  # fmt: skip
        (place / name).symlink_to(fixtures / fixture)
    (place / "train.jsonl").write_text('{"text": "he was", "label": "good"}\n{"text": "she was", "label": "bad"}\n' * 2)
    story = {"tokens": "he was . she was with him".split(), "clusters": [[[0, 0], [6, 6]], [[3, 3]]]}
    (place / "stories.jsonl").write_text(json.dumps(story) + "\n")
    (place / "notes.md").write_text("# Notes\n\nHe was in the *house*.\n")
    (place / "notes").mkdir()
    (place / "notes" / "house.md").write_text("# House\n\nShe was in the house with them.\n")
    shutil.copytree(fixtures / "tiny_led", place / "led")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(fixtures / "tiny_roberta" / name, place / "led")
    (place / "novelist").symlink_to(fixtures / "character_lm" / "untied")
    (place / "compressive").symlink_to(fixtures / "memory_lm" / "compressive")
    (place / "adaptive").symlink_to(fixtures / "pattern_lm" / "adaptive")
    (place / "novels.txt").write_text("he was in the house she was with him " * 50)
    (place / "corpus" / "qrels").mkdir(parents=True)
    (place / "corpus" / "corpus.jsonl").write_text('{"_id": "1", "text": "he was"}\n{"_id": "2", "text": "she was"}\n')
    (place / "corpus" / "queries.jsonl").write_text('{"_id": "q", "text": "she"}\n')
    (place / "corpus" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t2\t1\n")
    return place


@pytest.mark.parametrize(("language", "text"), PROGRAMS)
def test_python_of_the_pages(place, tmp_path, language, text):
    """Programs run; sessions print what stands there, where the models are those of the quickstart."""
    for words, package in (("import plot", "matplotlib"), ("longformer_cpp.sklearn", "sklearn")):
        if words in text and not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    examples = doctest.DocTestParser().get_examples(text) if language == "console" else []
    program = "".join(example.source for example in examples) or text
    command = [sys.executable, "-"]
    if examples and (ROOT / "quickstart" / "minilm-4096" / "config.json").exists():
        (tmp_path / "session.txt").write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "doctest", str(tmp_path / "session.txt")]
    environment = os.environ | {"PYTHONPATH": PACKAGES}
    done = subprocess.run(
        command, input=program, cwd=place, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
