"""The verb evaluate on the tiny models of tests/fixtures, with data in every format and broken data.
Metrics are counted once more here, by hand."""

import json
import math
import os
import pathlib
import shutil

import numpy as np
import pytest
from cli_test import BERT, FIXTURES, ROBERTA, ROOT, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
TAGGER = FIXTURES / "tiny_bert_tagger"
QA = FIXTURES / "tiny_longformer_qa"
CHOOSER = FIXTURES / "tiny_longformer_choice"
LONG = "the of and to in a is was " * 12


def write(folder, name, rows):
    path = folder / name
    path.write_text(rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows))
    return path


def evaluate(model, data, *flags, folder=None):
    """The report, the predictions, and what was said on stderr."""
    said = data.parent / "said.jsonl"
    result = run("evaluate", model, data, "--json", "--predictions", said, *flags)
    assert result.code == 0, result.err
    return result.json[0], [json.loads(line) for line in said.read_text().splitlines()], result.err


TEXTS = ["the of and he was", "", "for it with", "he was not by", "on be at by"]
LABELS = ["good", "bad", "fair", "good", "bad"]


@pytest.fixture
def reviews(tmp_path):
    return write(tmp_path, "a.jsonl", [{"id": i, "text": t, "label": label}
                                       for i, (t, label) in enumerate(zip(TEXTS, LABELS))])  # fmt: skip


class TestClasses:
    def test_predictions_are_those_of_classify(self, reviews):
        report, said, notes = evaluate(CLASSIFIER, reviews)
        classes = run("classify", CLASSIFIER, reviews, "--field", "text", "--json", "--top-k", 0).works().json
        assert [row["prediction"] for row in said] == [row["labels"][0]["label"] for row in classes]
        assert [row["label"] for row in said] == LABELS
        assert [(row["line"], row["id"]) for row in said] == [(i + 1, i) for i in range(5)]
        for row, one in zip(said, classes):
            scores = {label["label"]: label["score"] for label in one["labels"]}
            np.testing.assert_allclose([row["scores"][k] for k in scores], list(scores.values()), rtol=1e-6)
        right = [row["label"] == row["prediction"] for row in said]
        assert math.isclose(report["metrics"]["accuracy"], sum(right) / 5)
        assert report["task"] == "sequence-classification"
        assert (report["examples"], report["skipped"], report["empty"]) == (5, 0, 1)
        assert report["tokens"] == sum(row["tokens"] for row in classes)
        assert "1 example is empty" in notes

    def test_text(self, reviews):
        out = run("evaluate", CLASSIFIER, reviews).out
        rows = [line.split() for line in out.splitlines()]
        assert rows[0][0] == "accuracy" and ["label", "precision", "recall", "f1", "support"] in rows
        assert next(row for row in rows if row and row[0] == "good")[4] == "2"

    def test_formats(self, tmp_path, reviews):
        expected = evaluate(CLASSIFIER, reviews)[0]["metrics"]
        pairs = list(zip(TEXTS, LABELS))
        (tmp_path / "classes").mkdir()
        for i, (text, label) in enumerate(pairs):
            (tmp_path / "classes" / label).mkdir(exist_ok=True)
            (tmp_path / "classes" / label / f"{i}.txt").write_text(text)
        files = [
            write(tmp_path, "a.json", json.dumps([{"text": t, "label": label} for t, label in pairs])),
            write(tmp_path, "a.csv", "text,label\n" + "".join(f'"{t}",{label}\n' for t, label in pairs)),
            write(tmp_path, "a.tsv", "label\ttext\n" + "".join(f"{label}\t{t}\n" for t, label in pairs)),
            write(tmp_path, "a.txt", "".join(f"__label__{label} {t}\n" for t, label in pairs)),
        ]
        for file in files:
            assert evaluate(CLASSIFIER, file)[0]["metrics"] == expected, file
        report = run("evaluate", CLASSIFIER, tmp_path / "classes", "--json").json[0]
        assert report["metrics"] == expected
        named = write(tmp_path, "odd", "stars;x\n")
        named.write_text("\n".join(f"{label}\t{t}" for t, label in pairs) + "\n")
        flags = ["--format", "tsv", "--columns", "stars,review", "--text-field", "review", "--label-field", "stars"]
        assert evaluate(CLASSIFIER, named, *flags)[0]["metrics"] == expected

    def problem(self, tmp_path, problem):
        folder = tmp_path / problem
        shutil.copytree(CLASSIFIER, folder)
        config = json.loads((folder / "config.json").read_text()) | {"problem_type": problem}
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def test_several_labels(self, tmp_path):
        folder = self.problem(tmp_path, "multi_label_classification")
        data = write(tmp_path, "m.jsonl", [{"text": TEXTS[0], "label": ["good", "bad"]},
                                           {"text": TEXTS[2], "label": []}])  # fmt: skip
        report, said, _ = evaluate(folder, data, "--threshold", 0.5)
        assert said[0]["label"] == ["bad", "good"] and said[1]["label"] == []
        for row in said:
            assert row["prediction"] == [k for k, v in row["scores"].items() if v > 0.5]
        assert list(report["metrics"])[0] == "f1_micro"
        everything = evaluate(folder, data, "--threshold", 0)[1]
        assert all(len(row["prediction"]) == 3 for row in everything)

    def test_numbers(self, tmp_path):
        folder = self.problem(tmp_path, "regression")
        data = write(tmp_path, "n.jsonl", [{"text": t, "label": [0.5, i, -1]} for i, t in enumerate(TEXTS)])
        report, said, _ = evaluate(folder, data)
        found = np.array([row["prediction"] for row in said]).ravel()
        right = np.array([row["label"] for row in said]).ravel()
        assert math.isclose(report["metrics"]["mse"], ((found - right) ** 2).mean(), rel_tol=1e-5)
        assert math.isclose(report["metrics"]["pearson"], np.corrcoef(found, right)[0, 1], rel_tol=1e-5)

    def test_long_documents(self, tmp_path):
        data = write(tmp_path, "l.jsonl", [{"text": LONG, "label": "good"}, {"text": "he", "label": "bad"}])
        run("evaluate", CLASSIFIER, data).fails(1, "l.jsonl:1:", "41 tokens", "98", "--truncate", "--stride")
        report, _, notes = evaluate(CLASSIFIER, data, "--truncate")
        assert (report["truncated_examples"], report["truncated_tokens"]) == (1, 57)
        assert "1 of 2 examples is longer than the model: cut 57 of 101 tokens" in notes
        report, said, notes = evaluate(CLASSIFIER, data, "--stride", 10)
        assert report["segmented_examples"] == 1 and report["truncated_tokens"] == 0 and "segments" in notes
        largest = evaluate(CLASSIFIER, data, "--stride", 10, "--merge", "max")[1]
        assert largest[0]["scores"] != said[0]["scores"] and largest[1] == said[1]
        report, said, notes = evaluate(CLASSIFIER, data, "--skip-invalid")
        assert (report["examples"], report["skipped"], len(said)) == (1, 1, 1)
        assert "left out 1 broken example" in notes and "l.jsonl:1: expected at most 41" in notes

    def test_pairs(self, tmp_path):
        rows = [{"text": "he was", "text_pair": "by the", "label": 0}]
        data = write(tmp_path, "p.jsonl", rows)
        said = evaluate(CLASSIFIER, data)[1]
        alone = evaluate(CLASSIFIER, write(tmp_path, "q.jsonl", [{"text": "he was", "label": 0}]))[1]
        assert said[0]["label"] == "bad" and said[0]["scores"] != alone[0]["scores"]


class TestBrokenData:
    @pytest.mark.parametrize("line,words", [
        ('{"text": "a", "label": "great"}', ["a label of", '"bad", "fair", "good"', 'found "great"']),
        ('{"text": "a"', ["expected JSON"]), ('{"label": "bad"}', ['the member "text"'])])
    def test_a_broken_line_is_named(self, tmp_path, line, words):
        good = '{"text": "he", "label": "bad"}\n'
        data = write(tmp_path, "b.jsonl", good + line + "\n" + good)
        run("evaluate", CLASSIFIER, data).fails(1, "b.jsonl:2:", *words, "--skip-invalid")
        report = run("evaluate", CLASSIFIER, data, "--skip-invalid", "--json")
        assert report.code == 0 and report.json[0]["skipped"] == 1 and report.json[0]["examples"] == 2
        assert "left out 1 broken example" in report.err and "b.jsonl:2" in report.err

    def test_wrong_use(self, tmp_path, reviews):
        run("evaluate", CLASSIFIER).fails(2, "DATA")
        run("evaluate", CLASSIFIER, tmp_path / "none.jsonl").fails(1, "none.jsonl")
        run("evaluate", BERT, reviews).fails(1, "expected a head", "found none")
        run("evaluate", CLASSIFIER, reviews, "--task", "ner").fails(1, "for ner", "sequence-classification")
        run("evaluate", CLASSIFIER, reviews, "--format", "conll").fails(2, "--format", "jsonl", "found conll")
        run("evaluate", CLASSIFIER, reviews, "--format", "xlsx").fails(2, "--format")
        run("evaluate", CLASSIFIER, reviews, "--stride", 1, "--truncate").fails(2, "--truncate")
        run("evaluate", CLASSIFIER, write(tmp_path, "e.jsonl", "")).fails(1, "at least one example")
        choices = write(tmp_path, "c.jsonl", '{"context": "a", "question": "b", "choices": ["c", "d"], "label": 0}\n')
        run("evaluate", CHOOSER, choices, "--stride", 4).fails(2, "--stride: expected truncation", "--truncate")
        run("evaluate", ROBERTA, reviews, "--mlm-probability", 0).fails(2, "--mlm-probability")

    def test_a_failed_run_leaves_no_predictions(self, tmp_path):
        data = write(tmp_path, "b.jsonl", '{"text": "he", "label": "bad"}\n{}\n')
        run("evaluate", CLASSIFIER, data, "--predictions", tmp_path / "said").fails(1, "b.jsonl:2")
        assert [path.name for path in tmp_path.iterdir()] == ["b.jsonl"]

    def test_predictions_through_a_link(self, tmp_path, reviews):
        (tmp_path / "target").write_text("")
        (tmp_path / "link").symlink_to(tmp_path / "target")
        run("evaluate", CLASSIFIER, reviews, "--predictions", tmp_path / "link")
        assert (tmp_path / "link").is_symlink() and len((tmp_path / "target").read_text().splitlines()) == 5


class TestSpans:
    def test_words(self, tmp_path):
        text = "-DOCSTART- O\n\nthe B-PER\nof I-PER\nand O\n\nhe B-LOC\n"
        data = write(tmp_path, "a.conll", text)
        report, said, _ = evaluate(TAGGER, data)
        assert [row["labels"] for row in said] == [["B-PER", "I-PER", "O"], ["B-LOC"]]
        assert [row["line"] for row in said] == [3, 7]
        pairs = [pair for row in said for pair in zip(row["labels"], row["predictions"])]
        assert math.isclose(report["metrics"]["accuracy"], np.mean([a == b for a, b in pairs]))
        tagged = run("ner", TAGGER, "--text", "the of and", "--aggregation", "none", "--ignore-labels", "",
                     "--json").works().json[0]["entities"]  # fmt: skip
        assert [one["label"] for one in tagged] == said[0]["predictions"]
        rows = [{"tokens": row["labels"], "ner_tags": row["predictions"]} for row in said]
        assert evaluate(TAGGER, write(tmp_path, "r.jsonl", rows))[0]["examples"] == 2

    def test_words_behind_the_cut_count_as_missed(self, tmp_path):
        words = ["the"] * 100
        data = write(tmp_path, "a.jsonl", [{"tokens": words, "ner_tags": ["O"] * 99 + ["B-PER"]}])
        run("evaluate", TAGGER, data).fails(1, "a.jsonl:1:", "--truncate")
        report, said, notes = evaluate(TAGGER, data, "--truncate")
        assert report["unread_words"] == report["truncated_tokens"] > 0
        assert said[0]["predictions"][-1] == "O" and f"{report['unread_words']} words were not read" in notes
        per = next(one for one in report["labels"] if one["label"] == "PER")
        assert per["support"] == 1 and per["recall"] == 0
        assert evaluate(TAGGER, data, "--stride", 4)[0]["unread_words"] == 0

    def question(self, **changes):
        return {"id": "q", "context": "the of and to in a is", "question": "for it",
                "answers": {"text": ["and to"], "answer_start": [7]}} | changes  # fmt: skip

    def test_answers(self, tmp_path):
        said = run("qa", QA, "--text", "the of and to in a is", "--question", "for it", "--json").works().json[0]
        found = said["answers"][0]["text"]
        begin = said["answers"][0]["begin"]
        data = write(tmp_path, "a.jsonl", [
            self.question(),
            self.question(answers={"text": ["in", found], "answer_start": [14, begin]})])  # fmt: skip
        report, said, _ = evaluate(QA, data)
        assert [row["prediction"] for row in said] == [found, found]
        assert said[1]["exact_match"] == 1 and said[1]["f1"] == 1 and said[0]["id"] == "q"
        assert math.isclose(report["metrics"]["exact_match"], 50 + 50 * said[0]["exact_match"])
        assert "has_answer_f1" not in report["metrics"]

    def test_no_answer(self, tmp_path):
        data = write(tmp_path, "a.jsonl", [self.question(), self.question(answers={"text": [], "answer_start": []})])
        never = evaluate(QA, data, "--no-answer-threshold", 1e9)
        assert never[0]["metrics"]["no_answer_exact_match"] == 0 and never[1][1]["prediction"]
        always = evaluate(QA, data, "--no-answer-threshold", -1e9)
        assert always[0]["metrics"]["no_answer_exact_match"] == 100
        assert always[0]["metrics"]["has_answer_f1"] == 0 and always[0]["metrics"]["f1"] == 50

    def test_an_answer_that_is_not_there(self, tmp_path):
        data = write(tmp_path, "a.jsonl", [self.question(), self.question(id="wrong", answers={
            "text": ["and to"], "answer_start": [8]})])  # fmt: skip
        run("evaluate", QA, data).fails(1, "a.jsonl:2:", '"wrong"', 'the answer "and to" at character 8',
                                        'found "nd to "', "--skip-invalid")  # fmt: skip
        report, said, notes = evaluate(QA, data, "--skip-invalid")
        assert report["skipped"] == 1 and len(said) == 1 and '"wrong"' in notes


class TestChoicesAndMasks:
    def test_choices(self, tmp_path):
        rows = [{"context": "he was with", "question": "for it?", "choices": ["his", "on be"], "label": label}
                for label in (0, 1)]  # fmt: skip
        data = write(tmp_path, "c.jsonl", rows)
        report, said, _ = evaluate(CHOOSER, data)
        best = run("choose", CHOOSER, data, "--json").works().json
        assert [row["prediction"] for row in said] == [row["best"] for row in best]
        assert report["metrics"] == {"accuracy": 0.5}
        hop = [{"id": "w", "query": "for it?", "candidates": ["his", "on be"], "supports": ["he was with"],
                "answer": "on be"}]  # fmt: skip
        hopped = evaluate(CHOOSER, write(tmp_path, "w.json", json.dumps(hop)))[1]
        assert hopped[0]["label"] == 1 and hopped[0]["probabilities"] == said[0]["probabilities"]

    def test_masks(self, tmp_path):
        text = (ROOT / "README.md").read_text()[:3000]
        data = write(tmp_path, "a.txt", text)
        report, said, _ = evaluate(ROBERTA, data, "--mask-every", 4)
        metrics = report["metrics"]
        assert math.isclose(metrics["bpc"], metrics["loss"] / math.log(2))
        assert math.isclose(metrics["perplexity"], math.exp(metrics["loss"]), rel_tol=1e-9)
        count = sum(len(row["labels"]) for row in said)
        assert report["masked_tokens"] == count and report["tokens"] == sum(len(row["ids"]) for row in said)
        total = sum(row["loss"] * len(row["labels"]) for row in said)
        assert math.isclose(metrics["loss"], total / count, rel_tol=1e-9)
        # Nothing of the text is lost: with the labels back in place it is the tokens of the file.
        ids = run("tokenize", ROBERTA, data, "--no-special-tokens", "--json").works().json[0]["ids"]
        for row in said:
            for position, label in zip(row["positions"], row["labels"]):
                row["ids"][position] = label
        assert [i for row in said for i in row["ids"][1:-1]] == ids

    def test_seeds(self, tmp_path):
        data = write(tmp_path, "a.txt", (ROOT / "README.md").read_text()[:6000])
        first, second, other = (evaluate(ROBERTA, data, "--seed", seed)[1] for seed in (1, 1, 2))
        assert first == second and first[0]["positions"] != other[0]["positions"]
        ordinary = evaluate(ROBERTA, data, "--mask-every", 1)[0]["masked_tokens"]
        for share in (0.15, 0.6):
            masked = evaluate(ROBERTA, data, "--mlm-probability", share)[0]["masked_tokens"]
            assert abs(masked - share * ordinary) < 4 * math.sqrt(ordinary * share * (1 - share))

    def test_rows(self, tmp_path):
        data = write(tmp_path, "a.txt", "a b\n\nc d e f\n")
        apart = evaluate(ROBERTA, data, "--format", "lines", "--mask-every", 1, "--separate-documents")[1]
        together = evaluate(ROBERTA, data, "--format", "lines", "--mask-every", 1)[1]
        assert len(apart) == 2 and len(together) == 1
        short = evaluate(ROBERTA, data, "--mask-every", 1, "--max-seq-length", 4)[1]
        assert max(len(row["ids"]) for row in short) == 4
        run("evaluate", ROBERTA, data, "--max-seq-length", 100000).fails(2, "--max-seq-length", "100000")
        run("evaluate", ROBERTA, write(tmp_path, "e.txt", "")).fails(1, "expected text")

    def test_mask_needs_a_head(self, tmp_path):
        run("evaluate", BERT, write(tmp_path, "a.txt", "a b"), "--task", "mlm").fails(1, "for mlm")


class TestPublishedData:
    def test_hyperpartisan_and_squad(self, tmp_path):
        data = pathlib.Path(os.environ.get("LONGFORMER_DATA") or ROOT.parent / "shared" / "data")
        if not data.is_dir():
            pytest.skip("no data sets")
        folder = tmp_path / "news"
        shutil.copytree(CLASSIFIER, folder)
        config = json.loads((folder / "config.json").read_text())
        config["id2label"] = {"0": "false", "1": "true", "2": "unsure"}
        config["label2id"] = {"false": 0, "true": 1, "unsure": 2}
        (folder / "config.json").write_text(json.dumps(config))
        report = run("evaluate", folder, data / "hyperpartisan", "--truncate", "--json", "--threads", 1).json[0]
        assert report["examples"] == 645 and report["truncated_examples"] > 600
        assert {one["label"]: one["support"] for one in report["labels"]}["true"] == 238
        squad = json.loads((data / "squad" / "dev-v1.1.json").read_text())
        squad["data"] = squad["data"][:2]
        count = sum(len(p["qas"]) for article in squad["data"] for p in article["paragraphs"])
        report = evaluate(QA, write(tmp_path, "squad.json", json.dumps(squad)), "--truncate", "--threads", 1)[0]
        assert report["examples"] == count and 0 < report["metrics"]["f1"] < 50
