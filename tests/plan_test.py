"""The plan of experiments: what is left, in which order, how long, and going on where it was stopped."""

import dataclasses
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "experiments"))
import plan  # noqa: E402

ENTRIES = plan.entries()
#: Rows whose names a script puts together.
MADE = {"longer_input": ("512 words", "2048 words", "8192 words", "2048 words, split", "2048 words, extended"),
        "articles": ("512 tokens", "2048 tokens", "8192 tokens"),
        "classification": ("4,096, longformer-minilm-4096", "512, all reviews", "4,096, longformer-minilm-4096, all reviews")}  # fmt: skip
#: A script that adds its row to a file of results, unless the row is called "breaks".
SCRIPT = """
import argparse, json, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--row"), parser.add_argument("--seeds", type=int), parser.add_argument("--jobs")
parser.add_argument("results", type=pathlib.Path)
chosen = parser.parse_args()
assert chosen.row != "breaks"
with chosen.results.open("a") as stream:
    stream.write(json.dumps({"kind": "a", "row": chosen.row, "seed": chosen.seeds, "minutes": 3}) + "\\n")
"""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.title)
def test_rows_are_those_of_the_script(entry):
    """Names stand in the script or are made by its tables; every line of the results that the entry means has one."""
    script = ROOT / entry.command[0]
    text = script.read_text(encoding="utf-8")
    known = {row for name in ("ROWS", "MODELS", "POSITIONS", "SHARES", "PLAIN", "ARMS") for row in names_of(script, name)}
    for row in entry.rows:
        assert row in known or f'"{row}"' in text or row in MADE.get(entry.results, ()), row
    assert not entry.before or (ROOT / entry.before[1]).exists()
    assert entry.rows and entry.seeds >= 1 and entry.minutes > 0 and entry.why
    assert (plan.RESULTS / f"{entry.results}.jsonl").exists()


def names_of(script, name):
    """Keys of a table of rows in a script, where its module needs no package."""
    plan.import_scripts()
    if script.stem not in ("language_models", "character_lm", "questions", "hotpotqa", "candidates", "triviaqa", "long_targets"):
        return []
    found = getattr(__import__(script.stem), name, {})
    return [key for table in found.values() for key in table] if name == "PLAIN" else found


def test_results_that_ran_are_planned():
    """A row with runs of its own settings is in the plan, so that more of its seeds can be asked for."""
    for entry in ENTRIES:
        if entry.results == "compare_language_models" and entry.match["experiment"] != "features":
            ran = {line["row"] for line in plan.lines_of(entry, plan.RESULTS)}
            assert ran <= set(entry.rows), entry.title


def test_titles_are_different_and_rows_in_one_entry_alone():
    assert len({entry.title for entry in ENTRIES}) == len(ENTRIES)
    for entry in ENTRIES:
        assert len(set(entry.rows)) == len(entry.rows), entry.title


@pytest.fixture
def small(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    results = tmp_path / "small.jsonl"
    return plan.Entry("small", "it is a test", (tmp_path / "script.py", results), "small", {"kind": "a"}, ("one", "breaks", "two"), 2, 7.0)


def test_nothing_ran(small, tmp_path):
    rows = plan.left([small], tmp_path)
    assert [(row.name, row.seed, row.minutes, row.guessed) for row in rows] == [
        (name, seed, 7.0, True) for seed in (1, 2) for name in ("one", "breaks", "two")]
    text = "\n".join(plan.shown(rows))
    assert "6 rows" in text and "~" in text and "0.7 h" in text and "it is a test" in text


def test_minutes_are_those_of_the_row_else_of_its_experiment(small, tmp_path):
    lines = [{"kind": "a", "row": "one", "seed": 1, "minutes": 4.0}, {"kind": "b", "row": "two", "seed": 1, "minutes": 900.0},
             {"kind": "a", "row": "one", "seed": 9, "minutes": 0.0}]
    (tmp_path / "small.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = plan.left([small], tmp_path)
    assert [(row.name, row.seed) for row in rows] == [("breaks", 1), ("two", 1), ("one", 2), ("breaks", 2), ("two", 2)]
    assert all(row.minutes == 4.0 and not row.guessed for row in rows)
    entry = dataclasses.replace(small, rows=("one",))
    runs = [{"kind": "a", "row": "one", "seed": 10 + at, "minutes": value} for at, value in enumerate((4.0, 5.0, 90.0))]
    (tmp_path / "small.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    assert plan.left([entry], tmp_path)[0].minutes == 5.0


def test_a_run_goes_on_and_names_what_failed(small, tmp_path):
    core = min(plan.os.sched_getaffinity(0))
    assert plan.run(plan.left([small], tmp_path), 0.0, core, folder=tmp_path) == []  # no time, no row
    assert not (tmp_path / "small.jsonl").exists()
    first = [row for row in plan.left([small], tmp_path) if row.name == "two"]
    assert plan.run(first[:1], None, core, folder=tmp_path) == []
    rows = plan.left([small], tmp_path)
    assert ("two", 1) not in [(row.name, row.seed) for row in rows] and len(rows) == 5
    failed = plan.run(rows, None, core, folder=tmp_path)
    assert failed == ["small: breaks, seed 1", "small: breaks, seed 2"]
    done = [json.loads(line) for line in (tmp_path / "small.jsonl").read_text().splitlines()]
    assert [(line["row"], line["seed"]) for line in done] == [("two", 1), ("one", 1), ("one", 2), ("two", 2)]
    # Rows that another plan has run in between are not run again.
    assert plan.run([row for row in rows if row.name != "breaks"], None, core, folder=tmp_path) == []
    assert len((tmp_path / "small.jsonl").read_text().splitlines()) == 4


def test_what_rows_begin_with_is_made_once(small, tmp_path):
    made = tmp_path / "made"
    (tmp_path / "before.py").write_text(f"import pathlib\npathlib.Path({str(made)!r}).open('a').write('x')\n")
    entry = dataclasses.replace(small, rows=("one", "two"), seeds=1, before=(made, tmp_path / "before.py"))
    assert plan.run(plan.left([entry], tmp_path), None, min(plan.os.sched_getaffinity(0)), folder=tmp_path) == []
    assert made.read_text() == "x"


def test_the_program_prints_the_plan():
    done = subprocess.run([sys.executable, ROOT / "experiments" / "plan.py", "--match", "triviaqa", "--rows"], capture_output=True, text=True, check=True)
    assert "512, one softmax" in done.stdout and "on one core" in done.stdout and "HotpotQA" not in done.stdout
