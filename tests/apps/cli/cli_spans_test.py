"""The verbs ner and qa: entities and answers as spans of documents."""

import json

import pytest
from cli_test import BERT, FIXTURES, run

TAGGER = FIXTURES / "tiny_bert_tagger"
ANSWERER = FIXTURES / "tiny_longformer_qa"
TEXT = "Ada Lovelace lived in London in 1843."
LONG = " ".join(f"{word} of the house." for word in "he she was in at by from with".split() * 4)


def ner(*arguments, **others):
    return run("ner", TAGGER, *arguments, "--json", **others)


def qa(*arguments, **others):
    return run("qa", ANSWERER, *arguments, "--json", **others)


class TestNer:
    @pytest.mark.parametrize("aggregation", ["none", "simple", "first", "average", "max"])
    def test_entities_are_spans_of_the_text(self, aggregation):
        row = ner("--text", TEXT, "--aggregation", aggregation, "--ignore-labels", "").works().json[0]
        assert (row["file"], row["line"], row["truncated"], row["segments"]) == ("--text", 1, 0, 1)
        entities = row["entities"]
        assert entities and all(0 < one["score"] <= 1 for one in entities)
        assert all(one["text"] == TEXT[one["begin"] : one["end"]] for one in entities)
        assert all(a["end"] <= b["begin"] for a, b in zip(entities, entities[1:]))
        if aggregation == "none":
            assert [one["token"] for one in entities] == list(range(row["tokens"] - 2))
        else:
            assert all("token" not in one and not one["label"].startswith(("B-", "I-")) for one in entities)

    def test_text_is_tab_separated(self):
        rows = ner("--text", TEXT).works().json[0]["entities"]
        lines = run("ner", TAGGER, "--text", TEXT).works().out.splitlines()
        assert [line.split("\t") for line in lines] == [
            ["--text:1", str(e["begin"]), str(e["end"]), e["label"], f"{e['score']:.4f}", e["text"]]
            for e in rows
        ]

    def test_ignored_labels(self):
        labels = {e["label"] for e in ner("--text", TEXT, "--ignore-labels", "").works().json[0]["entities"]}
        for label in labels:
            rest = ner("--text", TEXT, "--ignore-labels", label).works().json[0]["entities"]
            assert {e["label"] for e in rest} == labels - {label}

    def test_json_lines_keep_their_ids_and_faults_cost_the_others_nothing(self):
        lines = [{"id": "a", "text": TEXT}, {"id": "b"}, {"id": 3, "text": ""}, {"id": 4, "text": TEXT}]
        result = ner("--field", "text", stdin="".join(json.dumps(line) + "\n" for line in lines))
        result.fails(1, "-:2", '"text"')
        rows = result.json
        assert [row["id"] for row in rows] == ["a", "b", 3, 4]
        assert "error" in rows[1] and rows[2]["entities"] == []
        assert rows[0]["entities"] == rows[3]["entities"] != []

    def test_longer_than_the_model(self):
        ner("--text", LONG).fails(1, "32 tokens", "--truncate", "--stride")
        cut = ner("--text", LONG, "--truncate")
        assert cut.code == 0
        row = cut.json[0]
        assert row["truncated"] == row["tokens"] - 32 > 0 and "kept the first 32" in cut.err
        whole = ner("--text", LONG, "--stride", 8, "--aggregation", "none", "--ignore-labels", "").json[0]
        assert whole["segments"] > 1
        assert [e["token"] for e in whole["entities"]] == list(range(whole["tokens"] - 2))

    def test_wrong_use(self):
        run("ner", BERT, "--text", "a").fails(1, "token-classification", "found none")
        run("ner", TAGGER, "--text", "a", "--aggregation", "word").fails(2, "--aggregation")
        run("ner", TAGGER, "--text", "a", "--stride", 30).fails(2, "--stride", "0 to 29", "30")
        run("ner", TAGGER, "--text", "a", "--global-attention", "cls").fails(2, "--global-attention", "expected a model with windows")


class TestQa:
    def test_answers_are_spans_that_do_not_overlap(self):
        row = qa("--text", TEXT, "-q", "Where was he?", "--top-k", 3).works().json[0]
        answers = row["answers"]
        assert row["question"] == "Where was he?" and len(answers) == 3
        assert [a["score"] for a in answers] == sorted((a["score"] for a in answers), reverse=True)
        assert all(a["text"] == TEXT[a["begin"] : a["end"]] != "" for a in answers)
        spans = sorted((a["begin"], a["end"]) for a in answers)
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:]))
        assert 0 < row["no_answer_score"] < 1

    def test_text_is_tab_separated(self):
        answer = qa("--text", TEXT, "-q", "who\tis it?").works().json[0]["answers"][0]
        out = run("qa", ANSWERER, "--text", TEXT, "-q", "who\tis it?").works().out
        expected = ["--text:1", "who is it?", f"{answer['score']:.4f}", answer["begin"], answer["end"], answer["text"]]
        assert out == "\t".join(map(str, expected)) + "\n"

    def test_every_question_about_every_document(self, tmp_path):
        files = [tmp_path / "a.txt", tmp_path / "missing.txt", tmp_path / "b.txt"]
        files[0].write_text(TEXT)
        files[2].write_text(TEXT.upper())
        result = qa(*files, "-q", "who?", "-q", "where?")
        result.fails(1, "missing.txt")
        told = [(row["file"].rsplit("/")[-1], row.get("question")) for row in result.json]
        assert told == [("a.txt", "who?"), ("a.txt", "where?"), ("missing.txt", None), ("b.txt", "who?"),
                        ("b.txt", "where?")]  # fmt: skip

    def test_questions_of_json_lines(self):
        lines = [{"id": 1, "context": TEXT, "question": "who?"}, {"id": 2, "context": TEXT}, {"id": 3, "context": TEXT, "question": "where?"}]
        result = qa("--field", "context", "--question-field", "question",
                    stdin="".join(json.dumps(line) + "\n" for line in lines))  # fmt: skip
        result.fails(1, "-:2", '"question"')
        alone = qa("--text", TEXT, "-q", "where?").works().json[0]
        assert result.json[2]["answers"] == alone["answers"] and "error" in result.json[1]

    def test_longest_answer(self):
        for most in (1, 3):
            answers = qa("--text", TEXT, "-q", "who?", "--max-answer-tokens", most, "--top-k", 9).works().json[0]["answers"]
            assert max(len(a["text"].split()) for a in answers) <= most

    def test_no_answer_takes_its_place(self):
        flags = ("--text", TEXT, "-q", "who?", "--top-k", 50)
        row = qa(*flags).works().json[0]
        ranked = qa(*flags, "--no-answer").works().json[0]["answers"]
        scores = sorted([a["score"] for a in row["answers"]] + [row["no_answer_score"]], reverse=True)
        assert [a["score"] for a in ranked] == scores
        assert [a["text"] for a in ranked].count("") == 1

    def test_longer_than_the_model(self):
        qa("--text", LONG, "-q", "who?").fails(1, "41 tokens", "--truncate", "--stride")
        row = qa("--text", LONG, "-q", "who?", "--truncate").json[0]
        assert row["truncated"] == row["tokens"] - 41 > 0
        flags = ("--text", LONG, "-q", "who?", "--top-k", 4, "--max-answer-tokens", 5)
        row = qa(*flags, "--stride", 8).json[0]
        assert row["segments"] > 1 and len(row["answers"]) == 4
        assert all(a["text"] == LONG[a["begin"] : a["end"]] for a in row["answers"])

    def test_documents_without_a_token(self):
        assert qa("--text", "", "-q", "who?").works().json[0]["answers"] == []

    def test_wrong_use(self):
        run("qa", ANSWERER, "--text", "a").fails(2, "--question")
        run("qa", ANSWERER, "--text", "a", "--question-field", "q").fails(2, "--text-field")
        run("qa", BERT, "--text", "a", "-q", "b").fails(1, "question-answering", "found none")
        run("qa", ANSWERER, "--text", LONG, "-q", "b", "--stride", 8).fails(2, "--stride", "30", "8")
        question = "he was the " * 30
        run("qa", ANSWERER, "--text", TEXT, "-q", question).fails(1, "question", "at most")
