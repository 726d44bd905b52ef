"""Tables out: -o writes CSV, TSV, JSON or an array, with the id of each document, and other programs read it."""

import csv
import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
from cli_tables_test import VERBS
from cli_test import BERT, BINARY, FIXTURES, longformer, run  # noqa: F401

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
ODD = ["the cat <mask>", 'he, "was";\n<mask>', "it\tis <mask>", "é <mask>"]
IDS = ["7", 'x,"1"', "a\nb", "é;\t"]


@pytest.fixture
def table(tmp_path):
    with open(tmp_path / "in.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["id", "text"], *zip(IDS, ODD)])
    return tmp_path / "in.csv"


def rows_of(file, delimiter=","):
    with open(file, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


def with_frames():
    return pytest.importorskip("pandas")


#: Verbs over documents whose -o chooses among all forms.
FORMED = [verb for verb in VERBS if verb not in ("attention", "coref")]
#: The list whose elements are rows of a table.
LISTS = {"ner": "entities", "qa": "answers", "summarize": "texts", "generate": "texts"}


@pytest.mark.parametrize("verb", FORMED)
class TestEveryVerb:
    def test_forms_say_the_same(self, tmp_path, table, verb):
        arguments = [verb, *VERBS[verb], table]
        expected = run(*arguments, "--json").passes().json
        for name in ("out.jsonl", "out.json", "out.csv", "out.tsv"):
            assert run(*arguments, "-o", tmp_path / name).passes().out == ""
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert lines == expected == json.loads((tmp_path / "out.json").read_text())
        rows = rows_of(tmp_path / "out.csv")
        assert rows == rows_of(tmp_path / "out.tsv", "\t")
        columns = list(rows[0]) if rows else (tmp_path / "out.csv").read_text().strip().split(",")
        assert columns[:3] == ["file", "line", "id"] and columns[-2:] == ["record", "error"] and len(set(columns)) == len(columns)
        if verb in LISTS:
            wanted = [(line["id"], one["text"]) for line in expected for one in line[LISTS[verb]]]
            assert [(row["id"], row["text"]) for row in rows] == wanted
        elif verb == "fill-mask":
            wanted = [(line["id"], one["text"]) for line in expected for mask in line["masks"] for one in mask["candidates"]]
            assert [(row["id"], row["text"]) for row in rows] == wanted
        else:
            assert [row["id"] for row in rows] == [line["id"] for line in expected]
        assert sorted(os.listdir(tmp_path)) == ["in.csv", "out.csv", "out.json", "out.jsonl", "out.tsv"]

    def test_text_is_that_of_stdout(self, tmp_path, table, verb):
        for name in ("out.txt", "out"):
            run(verb, *VERBS[verb], table, "-o", tmp_path / name).passes()
            assert (tmp_path / name).read_bytes() == run(verb, *VERBS[verb], table).passes().raw

    def test_failed_documents_are_rows(self, tmp_path, verb):
        (tmp_path / "in.csv").write_text("id,text\n1,a <mask>\n2,a,b\n3,b <mask>\n")
        done = run(verb, *VERBS[verb], "in.csv", "-o", "out.csv", folder=tmp_path)
        rows = rows_of(tmp_path / "out.csv")
        assert done.code == 1
        assert [row["line"] for row in rows if row["error"]] == ["3"] and "found 3" in next(row["error"] for row in rows if row["error"])

    def test_wrong_names(self, tmp_path, table, verb):
        run(verb, *VERBS[verb], table, "-o", tmp_path / "a.xlsx").fails(2, "-o: ", ".csv", "a.xlsx")
        run(verb, *VERBS[verb], table, "-o", tmp_path / "a.csv", "--json").fails(2, "--json", "a.csv")
        run(verb, *VERBS[verb], table, "-o", table).fails(2, "--output", "not read")
        assert os.listdir(tmp_path) == ["in.csv"]

    def test_a_full_disk_leaves_nothing(self, table, verb):
        if os.path.exists("/dev/full"):
            for form in ("", "--json"):
                done = run(verb, *VERBS[verb], table, "-o", "/dev/full", *form.split())
                assert done.code == 1 and "No space left" in done.err


@pytest.mark.parametrize("verb", [*FORMED, "coref", "choose"])
def test_objects_on_one_line_are_told_apart(tmp_path, verb):
    """Tables have the place of each object, as JSON has it; of other inputs the column is empty."""
    row = {"text": "he was <mask> he was", "question": "it is", "context": "he was", "choices": ["a", "the cat"]}
    (tmp_path / "a.jsonl").write_text("\n".join(between.join([json.dumps(row)] * 2) for between in ("", "\n")))
    arguments = ["choose", FIXTURES / "tiny_longformer_choice"] if verb == "choose" else [verb, *VERBS[verb]]
    said = run(*arguments, "a.jsonl", "--json", folder=tmp_path).passes().json
    places = [("1", ""), ("1", "2"), ("2", ""), ("3", "")]
    assert sorted({(str(one["line"]), str(one.get("record", ""))) for one in said}) == places
    for name, delimiter in (("o.csv", ","), ("o.tsv", "\t")):
        run(*arguments, "a.jsonl", "-o", name, folder=tmp_path).passes()
        rows = rows_of(tmp_path / name, delimiter)
        assert list(rows[0])[-2:] == ["record", "error"] and list(rows[0])[:3] == ["file", "line", "id"]
        # A document in which nothing is found has no row.
        found = {(one["line"], one["record"]) for one in rows}
        assert found == set(places) if rows else verb in LISTS
    if verb != "choose":
        (tmp_path / "a.csv").write_text("text\nhe was <mask> he was\n")
        run(*arguments, "a.csv", "--text-field", "text", "-o", "o.csv", folder=tmp_path).passes()
        assert {one["record"] for one in rows_of(tmp_path / "o.csv")} == {""}


class TestClassify:
    def test_columns(self, tmp_path, table):
        scores = run("classify", CLASSIFIER, table, "--json", "--top-k", "all").passes().json
        assert scores == run("classify", CLASSIFIER, table, "--json", "--top-k", 0).passes().json
        names = [one["label"] for one in scores[0]["labels"]]
        run("classify", CLASSIFIER, table, "--top-k", "all", "-o", tmp_path / "out.csv").passes()
        for row, line in zip(rows_of(tmp_path / "out.csv"), scores):
            best = line["labels"][0]
            assert row["label"] == best["label"] and float(row["score"]) == best["score"]
            assert {name: float(row[name]) for name in names} == {one["label"]: one["score"] for one in line["labels"]}
        run("classify", CLASSIFIER, table, "--top-k", 2, "-o", tmp_path / "two.csv").passes()
        for row, line in zip(rows_of(tmp_path / "two.csv"), scores):
            assert [row["label"], row["label_2"]] == [one["label"] for one in line["labels"][:2]]
            assert float(row["score_2"]) == line["labels"][1]["score"] and names[0] not in row
        run("classify", CLASSIFIER, table, "--top-k", "some").fails(2, "--top-k")

    def test_an_array_with_ids(self, tmp_path, table):
        run("classify", CLASSIFIER, table, "-o", tmp_path / "out.npy").passes()
        found = np.load(tmp_path / "out.npy")
        labels = run("info", CLASSIFIER, "--json").works().json[0]["labels"]
        for row, line in zip(found, run("classify", CLASSIFIER, table, "--json", "--top-k", "all").passes().json):
            scores = {one["label"]: one["score"] for one in line["labels"]}
            assert np.array_equal(row, np.float32([scores[name] for name in labels]))
        ids = rows_of(tmp_path / "out.ids.csv")
        assert [row["id"] for row in ids] == IDS and [row["row"] for row in ids] == ["0", "1", "2", "3"]


class TestExplanations:
    FLAGS = ["classify", CLASSIFIER, "--explain", "gradient", "--explain-top", 3]

    def test_are_rows(self, tmp_path, table):
        said = run(*self.FLAGS, table, "--json").passes().json
        for name, delimiter in (("out.csv", ","), ("out.tsv", "\t")):
            run(*self.FLAGS, table, "-o", tmp_path / name).passes()
            rows = rows_of(tmp_path / name, delimiter)
            assert list(rows[0]) == ["file", "line", "id", "label", "score", "value", "begin", "end", "text", "record", "error"]
            assert list(dict.fromkeys(row["id"] for row in rows)) == IDS
            for row in rows:
                line = next(line for line in said if line["id"] == row["id"])
                text = dict(zip(IDS, ODD))[row["id"]]
                assert row["label"] == line["explanation"]["label"] and text[int(row["begin"]) : int(row["end"])] == row["text"]
                values = {(part["begin"], part["end"]): part["value"] for part in line["explanation"]["words"]}
                assert float(row["value"]) == pytest.approx(values[int(row["begin"]), int(row["end"])], abs=1e-6)

    def test_failed_documents_are_rows(self, tmp_path):
        (tmp_path / "in.csv").write_text("id,text\n1,a\n2,a,b\n3,b\n")
        for name in ("out.csv", "out.jsonl"):
            assert run(*self.FLAGS, "in.csv", "-o", name, folder=tmp_path).code == 1
        rows = [row for row in rows_of(tmp_path / "out.csv") if row["error"]]
        assert [row["line"] for row in rows] == ["3"] and "found 3" in rows[0]["error"]
        assert {row["id"] for row in rows_of(tmp_path / "out.csv")} == {"1", "", "3"}

    def test_wrong_names(self, tmp_path):
        run(*self.FLAGS, "--text", "a", "-o", tmp_path / "a.npy").fails(2, "-o: ", ".html")
        run(*self.FLAGS, "--text", "a", "-o", tmp_path / "a.csv", "--json").fails(2, "--json")


class TestEmbed:
    def test_tables_and_arrays_say_the_same(self, tmp_path, table):
        for name in ("v.npy", "v.csv", "v.jsonl"):
            run("embed", BERT, table, "-o", tmp_path / name).passes()
        found = np.load(tmp_path / "v.npy")
        rows = rows_of(tmp_path / "v.csv")
        assert np.array_equal(found, np.float32([[row[f"v{i}"] for i in range(found.shape[1])] for row in rows]))
        lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
        assert np.array_equal(found, np.float32([line["embedding"] for line in lines]))
        for ids in (rows, rows_of(tmp_path / "v.ids.csv"), lines):
            assert [row["id"] for row in ids] == IDS

    def test_rows_of_passages(self, tmp_path, table):
        flags = ["--pooling", "tokens"]
        run("embed", BERT, table, *flags, "-o", tmp_path / "v.csv").passes()
        run("embed", BERT, table, *flags, "-o", tmp_path / "v.npy").passes()
        rows, ids = rows_of(tmp_path / "v.csv"), rows_of(tmp_path / "v.ids.csv")
        assert len(rows) == len(ids) == len(np.load(tmp_path / "v.npy")) and [row["id"] for row in rows] == [row["id"] for row in ids]
        assert rows[0]["row"] == "0" and int(rows[1]["end"]) > int(rows[1]["begin"])

    def test_ids_tell_objects_on_one_line_apart(self, tmp_path):
        (tmp_path / "a.jsonl").write_text('{"text": "a"}{"text": "b", "id": "x"}\n{"text": "c"}')
        run("embed", BERT, "a.jsonl", "-o", "v.npy", folder=tmp_path).works()
        ids = rows_of(tmp_path / "v.ids.csv")
        assert list(ids[0]) == ["row", "file", "line", "id", "record"]
        assert [(one["line"], one["record"], one["id"]) for one in ids] == [("1", "", ""), ("1", "2", "x"), ("2", "", "")]

    def test_no_ids_no_file(self, tmp_path):
        (tmp_path / "a.txt").write_text("a")
        run("embed", BERT, "a.txt", "-o", "v.npy", folder=tmp_path).works()
        assert sorted(os.listdir(tmp_path)) == ["a.txt", "v.npy"]

    def test_a_failed_document_keeps_its_row(self, tmp_path):
        (tmp_path / "in.csv").write_text("id,text\n1,a\n2,a,b\n3,b\n")
        assert run("embed", BERT, "in.csv", "-o", "v.npy", folder=tmp_path).code == 1
        found, ids = np.load(tmp_path / "v.npy"), rows_of(tmp_path / "v.ids.csv")
        assert np.isnan(found[1]).all() and [row["id"] for row in ids] == ["1", "", "3"] and [row["line"] for row in ids] == ["2", "3", "4"]

    def test_ids_are_no_input(self, tmp_path):
        (tmp_path / "v.ids.csv").write_text("id,text\n1,a\n")
        run("embed", BERT, "v.ids.csv", "-o", "v.npy", folder=tmp_path).fails(2, "--output", "v.ids.csv")


class TestPandas:
    def test_reads_back_what_was_written(self, tmp_path, table):
        pandas = with_frames()
        run("classify", CLASSIFIER, table, "--top-k", "all", "-o", tmp_path / "out.csv").passes()
        frame = pandas.read_csv(tmp_path / "out.csv")
        assert list(frame["id"]) == IDS and frame["error"].isna().all() and frame["score"].between(0, 1).all()
        frame["text"] = ODD
        # The program reads tables of pandas.
        for name, how in (("a.csv", {}), ("a.tsv", {"sep": "\t"}), ("a.csv.gz", {}), ("a.csv.xz", {}), ("b.csv", {"sep": ";", "index": True})):
            frame.to_csv(tmp_path / name, **{"index": False, **how})
            rows = run("classify", CLASSIFIER, tmp_path / name, "--json").passes().json
            assert [row["id"] for row in rows] == IDS
        frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
        assert [row["id"] for row in run("classify", CLASSIFIER, tmp_path / "a.jsonl", "--json").passes().json] == IDS


class TestCoref:
    def test_mentions_are_rows(self, tmp_path, table):
        model = VERBS["coref"][0]
        run("coref", model, table, "-o", tmp_path / "out.csv").passes()
        lines = run("coref", model, table, "--json").passes().json
        wanted = [(line["id"], str(number), one["text"]) for line in lines for number, cluster in enumerate(line["clusters"], 1) for one in cluster]
        assert [(row["id"], row["cluster"], row["text"]) for row in rows_of(tmp_path / "out.csv")] == wanted
        run("coref", model, table, "-o", tmp_path / "b.csv", "--json").fails(2, "--json", "b.csv")


class TestReports:
    def test_are_files(self, tmp_path, table):
        (tmp_path / "d.csv").write_text("text,label\na,good\nb,bad\n")
        for verb, *arguments in (("evaluate", CLASSIFIER, "d.csv"), ("info", BERT), ("compare", BERT, BERT, "in.csv"),
                                 ("tokenize", BERT, "in.csv", "--stats"), ("choose", FIXTURES / "tiny_longformer_choice", "--question", "a", "--choice", "b", "--choice", "c")):  # fmt: skip
            expected = run(verb, *arguments, "--json", folder=tmp_path).passes().json
            run(verb, *arguments, "-o", "out.jsonl", folder=tmp_path).passes()
            run(verb, *arguments, "-o", "out.csv", folder=tmp_path).passes()
            run(verb, *arguments, "-o", "out.txt", folder=tmp_path).passes()
            found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
            for row in [*expected, *found]:
                row.pop("seconds", None)
            assert found == expected and len(rows_of(tmp_path / "out.csv")) == (3 if verb == "compare" else 1), verb
            assert (tmp_path / "out.txt").read_text()
        run("evaluate", CLASSIFIER, "d.csv", "-o", "out.csv", folder=tmp_path).passes()
        row = rows_of(tmp_path / "out.csv")[0]
        assert row["examples"] == "2" and 0 <= float(row["metrics.accuracy"]) <= 1

    def test_of_searches(self, tmp_path, table, longformer):
        flags = ["--passage-tokens", 8, "--query", "cat", "--query", "was", "--index", "a.index"]
        run("search", longformer, "in.csv", *flags, "-o", "out.csv", folder=tmp_path).passes()
        lines = run("search", longformer, *flags, "--json", folder=tmp_path).passes().json
        wanted = [(line["query"], hit["text"]) for line in lines for hit in line["hits"]]
        assert [(row["query"], row["text"]) for row in rows_of(tmp_path / "out.csv")] == wanted
        run("search", "--index", "a.index", "--list", "-o", "list.csv", folder=tmp_path).works()
        assert len(rows_of(tmp_path / "list.csv")) == 4


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.npy"])
def test_a_signal_leaves_the_file_as_it_was(tmp_path, name):
    (tmp_path / name).write_text("before")
    with subprocess.Popen([BINARY, "classify", CLASSIFIER, "--text-field", "text", "-o", tmp_path / name], stdin=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:  # fmt: skip
        process.stdin.write(b"id,text\n1,a\n2,b\n")
        process.stdin.flush()
        end = time.monotonic() + 30
        while not (tmp_path / f"{name}.part").exists() and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM
        process.stdin.close()
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_text() == "before"
