"""Folders and files that are called like a verb, and names of outputs: verbs stand in the first place alone, and the
ending of a name means the form of the file."""

import csv
import json
import re

import numpy as np
import pytest
from cli_sequence_test import folder_of
from cli_test import BERT, FIXTURES, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
QA = FIXTURES / "tiny_longformer_qa"
NAMES = re.findall(r"^  ([a-z][a-z-]+) {2,}", run("--help").works().out.split("Subcommands:")[-1], re.M)
#: Arguments after the model, for each verb that takes one.
BEHIND = {
    "info": [], "pull": [], "tokenize": ["--text", "a"], "embed": ["--text", "a"], "search": ["a.txt", "--query", "a"],
    "rerank": ["b", "--text", "a"], "fill-mask": ["--text", "a"], "classify": ["--text", "a"], "ner": ["--text", "a"], "coref": ["--text", "a"],
    "qa": ["--text", "a", "-q", "b"], "choose": ["--question", "a", "--choice", "b", "--choice", "c"],
    "evaluate": ["a.jsonl"], "finetune": ["a.jsonl", "--output-dir", "out"], "pretrain-mlm": ["a.txt", "--output-dir", "out"],
    "pretrain-lm": ["a.txt", "--output-dir", "out"], "summarize": ["--text", "a"], "generate": ["--text", "a"],
    "serve": ["--check"], "attention": ["--text", "a"], "convert": ["out"], "compare": [BERT, "--text", "a"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.txt").write_text("a b c")
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": "good"}\n{"text": "b", "label": "bad"}\n')
    return tmp_path


def test_names_are_all_verbs():
    assert set(BEHIND) | {"bench", "completion", "man"} == set(NAMES), NAMES


@pytest.mark.parametrize("verb", BEHIND)
def test_a_verb_in_the_place_of_the_model_is_a_model(verb, folder):
    for name in [*NAMES, "model", "train"]:
        result = run(verb, name, *BEHIND[verb], folder=folder)
        assert result.code == 1 and name in result.err and len(result.err.splitlines()) == 1, (name, result.code, result.err)


def test_a_model_called_like_a_verb_is_used(folder):
    for name in NAMES:
        (folder / name).symlink_to(CLASSIFIER)
        assert run("classify", name, "--text", "a", "--json", folder=folder).works().json[0]["labels"]
        found = run("evaluate", name, "a.jsonl", "--json", folder=folder)
        assert found.json[0]["examples"] == 2, found.err
    run("convert", BERT, "qa2", "--window", 8, folder=folder).works()
    (folder / "qa2").rename(folder / "info2")


@pytest.mark.parametrize("verb", ["tokenize", "embed", "classify"])
def test_files_called_like_a_verb_are_read(verb, folder):
    model = CLASSIFIER if verb == "classify" else BERT
    for name in NAMES:
        (folder / name).write_text("a b")
        one = run(verb, model, name, "--json", folder=folder).works().json
        two = run(verb, model, "a.txt", name, "--json", folder=folder).works().json
        assert one[0]["file"] == name and [row["file"] for row in two] == ["a.txt", name]


@pytest.mark.parametrize("option", [["--max-new-tokens", 3], ["--temperature", 2.0], ["--num-beams", 2], ["--bad-words-ids", "5,6"]])
def test_files_behind_options_are_read(option, folder):
    led, _ = folder_of("tiny_led", folder)
    for verb in ("generate", "summarize"):
        found = run(verb, led, *option, "a.txt", "--json", "--max-length", 5, folder=folder).passes().json
        assert found[0]["file"] == "a.txt"
        both = run(verb, led, "a.txt", *option, "a.txt", "--json", "--max-length", 5, folder=folder)
        assert len(both.passes().json) == 2


def test_of_bench(folder):
    for name in ["attention", "model", "train", "qa", "bench"]:
        run("bench", "model", name, "-n", 8, folder=folder).fails(1, name)
        run("bench", "train", name, "-n", 8, folder=folder).fails(1, name)


@pytest.mark.parametrize("name", ["csv", "json", "jsonl", "text", "npy", "html", "svg"])
def test_a_format_is_no_name_of_an_output(folder, name):
    small = ["-n", 8, "--heads", 1, "--backend", "fused", "--repeats", 1]
    for verb in (["embed", BERT, "--text", "a"], ["coref", BERT, "--text", "a"], ["attention", BERT, "--text", "a"],
                 ["bench", "attention", *small]):  # fmt: skip
        run(*verb, "-o", name, folder=folder).fails(2, f"the format '{name}'", f"./{name}")
    run("evaluate", CLASSIFIER, "a.jsonl", "--predictions", name, folder=folder).fails(2, f"the format '{name}'")
    assert not (folder / name).exists()


class TestEndings:
    def test_of_predictions(self, folder):
        rows = [{"text": f'a "b",\nc {i}', "label": label, "id": f"x,{i}"} for i, label in enumerate(["good", "bad", "fair"])]
        (folder / "d.json").write_text(json.dumps(rows))
        read = {}
        for ending in ("jsonl", "ndjson", "JSONL", "json", "csv", "tsv"):
            run("evaluate", CLASSIFIER, "d.json", "--predictions", f"p.{ending}", folder=folder).passes()
            text = (folder / f"p.{ending}").read_text()
            if ending in ("csv", "tsv"):
                read[ending] = list(csv.DictReader(text.splitlines(), delimiter="\t" if ending == "tsv" else ","))
            else:
                read[ending] = json.loads(text) if ending == "json" else [json.loads(line) for line in text.splitlines()]
        run("evaluate", CLASSIFIER, "d.json", "--predictions", "p", folder=folder).passes()
        lines = [json.loads(line) for line in (folder / "p").read_text().splitlines()]
        assert lines == read["jsonl"] == read["ndjson"] == read["JSONL"] == read["json"] and len(lines) == 3
        assert read["csv"] == read["tsv"]
        for row, cells in zip(lines, read["csv"]):
            assert list(cells) == list(row)
            for key, value in row.items():
                expected = value if isinstance(value, str) else "" if value is None else None
                assert cells[key] == expected if expected is not None else json.loads(cells[key]) == value

    @pytest.mark.parametrize("option", ["--predictions", "--losses", "--write-selected"])
    def test_that_nobody_knows(self, folder, option):
        run("evaluate", CLASSIFIER, "a.jsonl", option, "p.xlsx", folder=folder).fails(2, option, "p.xlsx", ".json")

    def test_of_published_forms(self, folder):
        (folder / "q.json").write_text('{"data": [{"paragraphs": [{"context": "a b", "qas": [{"id": "1", "question": '
                                       '"a", "answers": [{"text": "a", "answer_start": 0}]}]}]}]}')  # fmt: skip
        for name in ("p.csv", "p.jsonl", "p.conll"):
            run("evaluate", QA, "q.json", "--official-predictions", name, folder=folder).fails(2, name, ".json")
        run("evaluate", QA, "q.json", "--official-predictions", "p.json", folder=folder).passes()
        assert json.loads((folder / "p.json").read_text()).keys() == {"1"}
        run("evaluate", BERT, folder, "--task", "retrieval", "--official-predictions", "r.json").fails(2, "r.json", "trec")

    def test_json_is_one_value(self, folder):
        texts = ["--text", "a b", "--text", "c"]
        run("embed", BERT, *texts, "-o", "e.json", folder=folder).works()
        run("embed", BERT, *texts, "-o", "e.jsonl", folder=folder).works()
        lines = [json.loads(line) for line in (folder / "e.jsonl").read_text().splitlines()]
        assert json.loads((folder / "e.json").read_text()) == lines and len(lines) == 2
        run("embed", BERT, *texts, "-o", "e.npy", folder=folder).works()
        assert np.load(folder / "e.npy").shape[0] == 2
        run("attention", BERT, *texts, "-o", "a.json", folder=folder).works()
        assert len(json.loads((folder / "a.json").read_text())) == 2
        (folder / "none.txt").write_bytes(b"")
        run("coref", FIXTURES / "coreference", "--text", "a b", "--text", "b", "-o", "c.json", folder=folder).works()
        assert len(json.loads((folder / "c.json").read_text())) == 2
        run("bench", "attention", "-n", 8, "--heads", 1, "--backend", "fused", "-r", 1, "-o", "b.json", folder=folder)
        assert json.loads((folder / "b.json").read_text())[0]["n"] == 8


class TestCounters:
    def counters(self, *arguments, folder):
        result = run("evaluate", *arguments, "--json", folder=folder)
        assert result.code == 0, result.err
        return set(result.json[0]) - {"task", "metrics", "labels", "seconds"}

    def test_are_those_of_the_task(self, folder):
        read = {"examples", "skipped", "empty", "tokens", "truncated_examples", "truncated_tokens", "segmented_examples"}
        assert self.counters(CLASSIFIER, "a.jsonl", folder=folder) == read
        (folder / "t.conll").write_text("a O\nb O\n")
        tagger = FIXTURES / "tiny_bert_tagger"
        assert self.counters(tagger, "t.conll", "--skip-invalid", folder=folder) == read | {"unread_words"}
        data = FIXTURES / "retrieval"
        found = self.counters(BERT, data, "--task", "retrieval", "--truncate", folder=folder)
        assert found == {"examples", "skipped", "empty", "documents", "passages", "unjudged_queries",
                         "irrelevant_queries", "unknown_documents", "identical_ids"}  # fmt: skip
