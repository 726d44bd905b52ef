"""Ids come back as they are written: numbers of any length, in every verb and every form, in predictions and splits."""

import csv
import json
import re

import numpy as np
import pytest
from cli_tables_test import VERBS
from cli_test import BERT, FIXTURES, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
CHOOSER = FIXTURES / "tiny_longformer_choice"
#: Ids as a file has them, and as results have them where that differs.
IDS = ["7", "-7", "0", "18446744073709551616", "-123456789012345678901234567890", "1.0", "1.10", "1e3", "0.1", "true",
       '"7"', '"18446744073709551616"', '"a\\"b"', "[1.50, 12345678901234567890123]"]  # fmt: skip
COMPACT = [one.replace(", ", ",") for one in IDS]
NUMBERS = [one for one in IDS if one[0] not in '"[t']


def lines_of(ids, more=""):
    return "".join(f'{{"text": "the cat <mask>"{more}, "id": {one}}}\n' for one in ids)


def ids_in(text):
    """The ids of lines of JSON, as they stand there."""
    return [re.search(r'"id":(\[.*?\]|"(?:\\.|[^"])*"|[^,}]*)', line)[1] for line in text.splitlines() if '"id"' in line]


def in_order(found):
    return list(dict.fromkeys(found))


def cells(file, delimiter=","):
    with open(file, newline="", encoding="utf-8") as stream:
        return in_order(row["id"] for row in csv.DictReader(stream, delimiter=delimiter))


def as_cell(written):
    return json.loads(written) if written.startswith('"') else written


@pytest.mark.parametrize("verb", VERBS)
class TestEveryVerb:
    def test_lines(self, tmp_path, verb):
        (tmp_path / "a.jsonl").write_text(lines_of(IDS))
        found = in_order(ids_in(run(verb, *VERBS[verb], "a.jsonl", "--json", folder=tmp_path).passes().out))
        assert sorted(found) == sorted(COMPACT)

    def test_lists(self, tmp_path, verb):
        rows = "[" + ",\n ".join(lines_of([one]).strip() for one in IDS) + "]"
        for text in (rows, f'{{"version": 1.0, "data": {rows}}}'):
            (tmp_path / "a.json").write_text(text)
            done = run(verb, *VERBS[verb], "a.json", "--text-field", "text", "--json", folder=tmp_path).passes()
            assert sorted(in_order(ids_in(done.out))) == sorted(COMPACT)

    def test_files(self, tmp_path, verb):
        (tmp_path / "a.jsonl").write_text(lines_of(IDS))
        endings = ["jsonl", "json"]
        if verb != "attention":
            endings += ["csv", "tsv"]
        for ending in endings:
            run(verb, *VERBS[verb], "a.jsonl", "-o", f"out.{ending}", folder=tmp_path).passes()
        assert sorted(in_order(ids_in((tmp_path / "out.jsonl").read_text()))) == sorted(COMPACT)
        for ending in endings[2:]:
            found = cells(tmp_path / f"out.{ending}", "," if ending == "csv" else "\t")
            # Verbs that find nothing in such a text have no rows.
            assert not found or sorted(found) == sorted({as_cell(one) for one in COMPACT})

    def test_failed_rows(self, tmp_path, verb):
        (tmp_path / "a.jsonl").write_text(f'{{"text": "a <mask>", "id": 1}}\n{{"text": 3, "id": {IDS[3]}}}\n')
        done = run(verb, *VERBS[verb], "a.jsonl", "--json", folder=tmp_path)
        assert done.code == 1 and IDS[3] in ids_in(done.out), done.out


def test_explanations(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines_of(IDS))
    flags = ["classify", CLASSIFIER, "a.jsonl", "--explain", "gradient"]
    assert ids_in(run(*flags, "--json", folder=tmp_path).passes().out) == COMPACT
    run(*flags, "-o", "a.csv", folder=tmp_path).passes()
    assert cells(tmp_path / "a.csv") == in_order(as_cell(one) for one in COMPACT)


def test_arrays(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines_of(IDS))
    for verb, model in (("embed", BERT), ("classify", CLASSIFIER)):
        run(verb, model, "a.jsonl", "-o", "v.npy", folder=tmp_path).passes()
        assert cells(tmp_path / "v.ids.csv") == in_order(as_cell(one) for one in COMPACT)


def test_choices(tmp_path):
    rows = "".join(f'{{"question": "a", "choices": ["b", "c"], "id": {one}}}\n' for one in IDS)
    (tmp_path / "a.jsonl").write_text(rows)
    assert ids_in(run("choose", CHOOSER, "a.jsonl", "--json", folder=tmp_path).passes().out) == COMPACT
    (tmp_path / "b.jsonl").write_text("[" + ",".join(rows.splitlines()) + "]")
    assert ids_in(run("choose", CHOOSER, "b.jsonl", "--json", folder=tmp_path).passes().out) == COMPACT


def test_a_resumed_run_knows_them(tmp_path):
    ids = [one for one in IDS if one != "[1.50, 12345678901234567890123]"]
    (tmp_path / "a.jsonl").write_text(lines_of(ids))
    flags = ["embed", BERT, "a.jsonl", "-o", "v.npy", "--resume"]
    run(*flags, folder=tmp_path).works()
    done = run(*flags, folder=tmp_path).passes()
    assert f"{len(ids)} documents done before" in done.err and len(np.load(tmp_path / "v.npy")) == len(ids)


def test_rows_without_an_id_are_known_by_their_place(tmp_path):
    """Empty ids, null and none: many rows may have them."""
    for name, text in (
        ("a.jsonl", '{"text": "a", "id": ""}\n{"text": "b", "id": ""}\n{"text": "c", "id": null}\n{"text": "d"}\n{"text": "e"}\n'),
        ("a.csv", "id,text\n,a\n,b\n,c\n,d\n,e\n"),
    ):
        (tmp_path / name).write_text(text)
        file = name.replace(".", "-") + ".npy"
        run("embed", BERT, name, "-o", file, "--resume", folder=tmp_path).works()
        done = run("embed", BERT, name, "-o", file, "--resume", folder=tmp_path).passes()
        assert "5 documents done before" in done.err, done.err
        assert len(np.load(tmp_path / file)) == 5
        parts = [run("tokenize", BERT, name, "--shard", f"{i}/2", folder=tmp_path).passes().out for i in (1, 2)]
        assert sum(part.count("\n") for part in parts) == 5


@pytest.mark.parametrize("form", ["jsonl", "json"])
class TestData:
    def data(self, tmp_path, form, ids):
        lines = [line for i, one in enumerate(ids) for line in lines_of([one], f', "label": "{"good" if i % 2 else "bad"}"').splitlines()]
        file = tmp_path / f"a.{form}"
        file.write_text("\n".join(lines) + "\n" if form == "jsonl" else "[" + ",\n".join(lines) + "]")
        return file

    def test_predictions(self, tmp_path, form):
        file = self.data(tmp_path, form, [*NUMBERS, '"x"', "null"])
        for said in ("said.jsonl", "said.csv"):
            run("evaluate", CLASSIFIER, file, "--predictions", said, folder=tmp_path).passes()
        assert ids_in((tmp_path / "said.jsonl").read_text()) == [*NUMBERS, '"x"', "null"]
        assert cells(tmp_path / "said.csv") == [*NUMBERS, "x", ""]

    def test_ids_of_another_field(self, tmp_path, form):
        file = self.data(tmp_path, form, NUMBERS)
        file.write_text(file.read_text().replace('"id"', '"key"'))
        run("evaluate", CLASSIFIER, file, "--id-field", "key", "--predictions", "said.jsonl", folder=tmp_path).passes()
        assert ids_in((tmp_path / "said.jsonl").read_text()) == NUMBERS
        found = run("classify", CLASSIFIER, file, "--text-field", "text", "--id-field", "key", "--json", folder=tmp_path).passes()
        assert ids_in(found.out) == NUMBERS

    def test_splits(self, tmp_path, form):
        ids = [*NUMBERS, *(str(10**25 + i) for i in range(11))]
        file = self.data(tmp_path, form, ids)
        # Examples of one text would stay together.
        parts = file.read_text().split("the cat")
        file.write_text("".join(f"{part}the {'cat ' * i}" for i, part in enumerate(parts[:-1], 1)) + parts[-1])
        run("finetune", CLASSIFIER, file, "--validation-split", 0.5, "--max-steps", 1, "--output-dir", "out", folder=tmp_path).passes()
        text = (tmp_path / "out" / "validation_split.json").read_text()
        split = json.loads(text)
        assert len(split["examples"]) == 10 == text.count('"id": ')
        for one, written in zip(split["examples"], re.findall(r'"id": (.*)', text)):
            assert ids[one["number"] - 1] == written
