"""The verbs of heads, classify and choose, what info says of heads, and --global-attention."""

import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest
from cli_test import BERT, BINARY, FIXTURES, ROBERTA, files, longformer, run  # noqa: F401 (fixtures)

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
CHOOSER = FIXTURES / "tiny_longformer_choice"


class TestHeads:
    @pytest.mark.parametrize("name,head,labels", [
        ("tiny_longformer_classifier", "sequence-classification", ["bad", "fair", "good"]),
        ("tiny_bert_tagger", "token-classification", ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]),
        ("tiny_longformer_qa", "question-answering", []),
        ("tiny_longformer_choice", "multiple-choice", []),
        ("tiny_roberta", "masked-lm", []), ("tiny_bert", "", [])])
    def test_info(self, name, head, labels):
        info = run("info", FIXTURES / name, "--json").works().json[0]
        assert info["head"] == head and info["labels"] == labels
        assert info["num_labels"] == len(labels) and info["problem_type"] == ""
        assert info["unsupported"] == []
        table = run("info", FIXTURES / name).works().out
        assert re.search(rf"^head +{head or 'none'}$", table, re.MULTILINE)
        assert not labels or ", ".join(labels) in table


class TestGlobalAttention:
    TEXT = "the of and to in a is was. he for it with as his on be"

    def vector(self, model, rule):
        out = run("embed", model, "--text", self.TEXT, "--global-attention", rule).works().out
        return np.float32(out.split())

    def test_rules_that_name_the_same_tokens(self, longformer):
        # [CLS] and 17 tokens, the ninth a full stop, and [SEP].
        plain = np.float32(run("embed", longformer, "--text", self.TEXT).works().out.split())
        np.testing.assert_array_equal(self.vector(longformer, "none"), plain)
        first = self.vector(longformer, "cls")
        assert np.abs(first - plain).max() > 1e-4
        for rule in ("0", "0-0", "every:100", "none,cls", "cls,5000"):
            np.testing.assert_array_equal(self.vector(longformer, rule), first)
        np.testing.assert_array_equal(self.vector(longformer, "sentences"), self.vector(longformer, "1,10"))
        np.testing.assert_array_equal(self.vector(longformer, "every:5"), self.vector(longformer, "0,5,10,15"))
        np.testing.assert_array_equal(self.vector(longformer, "all"), self.vector(longformer, "0-99"))
        np.testing.assert_array_equal(self.vector(longformer, "3-4,cls"), self.vector(longformer, "0,3,4"))

    def test_default_is_the_heads(self, longformer):
        flags = ["classify", CLASSIFIER, "--text", self.TEXT, "--json"]
        plain = run(*flags).works().out
        assert run(*flags, "--global-attention", "default").works().out == plain
        assert run(*flags, "--global-attention", "cls").works().out == plain
        assert run(*flags, "--global-attention", "none").works().out != plain

    @pytest.mark.parametrize("rule", ["cls,", "every:0", "every:x", "5-3", "-1", "1.5", "first", "every:"])
    def test_wrong_rules(self, longformer, rule):
        for verb, model in (("embed", longformer), ("fill-mask", ROBERTA), ("classify", CLASSIFIER)):
            word = rule.split(",")[-1]
            run(verb, model, "--text", "a", f"--global-attention={rule}").fails(
                2, "--global-attention: expected", f'found "{word}"')

    def test_needs_a_longformer(self):
        run("embed", BERT, "--text", "a", "--global-attention", "cls").fails(1, "expected a model with windows")

    def test_question_needs_a_pair(self, longformer):
        run("embed", longformer, "--text", "a", "--global-attention", "question").fails(1, "question")


class TestClassify:
    LONG = "the of and to in a is was " * 12

    def test_text(self, files):
        out = run("classify", CLASSIFIER, *files, "--truncate")
        assert out.code == 0
        rows = [line.split("\t") for line in out.out.splitlines()]
        assert [row[0] for row in rows] == [str(file) for file in files]
        assert all(row[1] in ("bad", "fair", "good") and 0 < float(row[2]) < 1 for row in rows)

    def test_json(self):
        row = run("classify", CLASSIFIER, "--text", "he was", "--top-k", 0, "--json").works().json[0]
        assert list(row) == ["file", "line", "tokens", "truncated", "segments", "labels"]
        assert (row["tokens"], row["truncated"], row["segments"]) == (4, 0, 1)
        scores = [one["score"] for one in row["labels"]]
        assert sorted(one["label"] for one in row["labels"]) == ["bad", "fair", "good"]
        assert math.isclose(sum(scores), 1, rel_tol=1e-5) and scores == sorted(scores, reverse=True)

    def test_functions(self):
        def scores(function):
            row = run("classify", CLASSIFIER, "--text", "he was", "--top-k", 0, "--json",
                      "--function-to-apply", function).works().json[0]
            return np.array([one["score"] for one in row["labels"]])

        logits = scores("none")
        np.testing.assert_allclose(scores("sigmoid"), 1 / (1 + np.exp(-logits)), rtol=1e-5)
        np.testing.assert_allclose(scores("softmax"), np.exp(logits) / np.exp(logits).sum(), rtol=1e-5)

    def test_problem_types(self, tmp_path):
        for problem, function in (("regression", "none"), ("multi_label_classification", "sigmoid"),
                                  ("single_label_classification", "softmax")):
            folder = tmp_path / problem
            shutil.copytree(CLASSIFIER, folder)
            config = json.loads((folder / "config.json").read_text()) | {"problem_type": problem}
            (folder / "config.json").write_text(json.dumps(config))
            flags = ["--text", "he was", "--top-k", 0]
            told = run("classify", CLASSIFIER, *flags, "--function-to-apply", function).works().out
            assert run("classify", folder, *flags).works().out == told
            assert problem in run("info", folder).works().out

    def test_lines_of_json_keep_their_ids(self):
        lines = '{"id": "x", "text": "he was"}\n{"text": "a"}\n{"id": 7, "text": 1}\n{"id": {"a": [1]}, "text": ""}'
        result = run("classify", CLASSIFIER, "--field", "text", "--json", stdin=lines)
        assert result.code == 1
        assert [row.get("id") for row in result.json] == ["x", None, 7, {"a": [1]}]
        assert ["labels" in row for row in result.json] == [True, True, False, True]
        assert "id" not in result.json[1]

    def test_one_bad_document_keeps_the_others(self, files):
        listed = [files[0], "/nowhere.txt", files[2], files[1]]
        result = run("classify", CLASSIFIER, *listed, "--json")
        assert result.code == 1
        assert ["labels" in row for row in result.json] == [True, False, True, False]
        assert [row["file"] for row in result.json] == [str(file) for file in listed]
        assert len(result.err.splitlines()) == 2 and "--stride" in result.err

    def test_too_long(self):
        run("classify", CLASSIFIER, "--text", self.LONG).fails(1, "41 tokens", "98", "--truncate", "--stride")
        result = run("classify", CLASSIFIER, "--text", self.LONG, "--truncate", "--json")
        assert result.code == 0 and result.json[0]["truncated"] == 57 and "kept the first 41" in result.err

    def test_segments(self):
        flags = ["classify", CLASSIFIER, "--text", self.LONG, "--json", "--top-k", 0,
                 "--function-to-apply", "none"]
        rows = {}
        for merge in ("mean", "max"):
            result = run(*flags, "--stride", 10, "--merge", merge)
            assert result.code == 0 and "98 tokens, read in 3 segments" in result.err
            assert result.json[0]["segments"] == 3 and result.json[0]["truncated"] == 0
            rows[merge] = {one["label"]: one["score"] for one in result.json[0]["labels"]}
        assert all(rows["max"][label] >= rows["mean"][label] for label in rows["max"])
        assert rows["max"] != rows["mean"]
        # The text repeats itself every 8 tokens; a short one needs no segments.
        assert run("classify", CLASSIFIER, "--text", "he was", "--stride", 10).works()

    def test_wrong_stride(self):
        run("classify", CLASSIFIER, "--text", "a", "--stride", 39).fails(2, "--stride", "0 to 38", "39")
        run("classify", CLASSIFIER, "--text", "a", "--stride", -1).fails(2, "--stride")
        run("classify", CLASSIFIER, "--text", "a", "--stride", 1, "--truncate").fails(2, "--truncate")

    def test_a_batch_is_its_documents(self):
        lines = "\n".join(f"the of and {'was ' * n}" for n in range(30))
        together = run("classify", CLASSIFIER, "--lines", "--json", stdin=lines).works().out
        for tokens in (1, 50):
            flags = ["--lines", "--json", "--batch-tokens", tokens]
            assert run("classify", CLASSIFIER, *flags, stdin=lines).works().out == together

    def test_answers_before_the_end_of_input(self):
        process = subprocess.Popen([BINARY, "classify", str(CLASSIFIER), "--lines"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3):
            process.stdin.write(b"he was\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith(b"-:")
        process.stdin.close()
        assert process.wait(timeout=60) == 0

    def test_model_without_head(self):
        run("classify", BERT, "--text", "a").fails(1, "sequence-classification", "found none")
        run("classify", CHOOSER, "--text", "a").fails(1, "found multiple-choice")


class TestChoose:
    QUESTION = {"id": "q1", "context": "he was with the of and", "question": "for it?",
                "choices": ["his", "on be", "at by had"]}

    def test_json(self):
        row = run("choose", CHOOSER, "--json", stdin=json.dumps(self.QUESTION)).works().json[0]
        assert list(row) == ["file", "line", "id", "tokens", "truncated", "segments", "best", "choice",
                             "probabilities", "logits"]
        assert row["id"] == "q1" and row["choice"] == self.QUESTION["choices"][row["best"]]
        logits = np.array(row["logits"])
        np.testing.assert_allclose(row["probabilities"], np.exp(logits) / np.exp(logits).sum(), rtol=1e-5)
        assert row["best"] == logits.argmax() and len(set(row["logits"])) == 3

    def test_swag_and_the_command_line_ask_the_same(self, tmp_path):
        expected = run("choose", CHOOSER, "--json", stdin=json.dumps(self.QUESTION)).works().json[0]
        swag = {"sent1": self.QUESTION["context"], "sent2": self.QUESTION["question"],
                **{f"ending{i}": choice for i, choice in enumerate(self.QUESTION["choices"])}}
        row = run("choose", CHOOSER, "--json", stdin=json.dumps(swag)).works().json[0]
        assert row["logits"] == expected["logits"]
        (tmp_path / "context.txt").write_text(self.QUESTION["context"])
        choices = [word for choice in self.QUESTION["choices"] for word in ("--choice", choice)]
        row = run("choose", CHOOSER, "--json", "--context-file", tmp_path / "context.txt", "--question",
                  self.QUESTION["question"], *choices).works().json[0]
        assert row["logits"] == expected["logits"]

    def test_text(self):
        out = run("choose", CHOOSER, "--question", "it was", "--choice", "his").works().out
        assert out == "--choice\this\t1.0000\n"

    def test_a_context_that_cannot_be_read(self, tmp_path):
        result = run("choose", CHOOSER, "--json", "--context-file", tmp_path / "absent", "--choice", "a")
        assert result.code == 1 and "absent" in result.err
        assert list(result.json[0]) == ["file", "line", "error"]

    def test_bad_lines_keep_the_others(self):
        lines = [self.QUESTION, {"question": "q"}, {"question": "q", "choices": [1]}, {"choices": ["a"]},
                 {"question": 1, "choices": ["a"]}, {"question": "q", "choices": []}, self.QUESTION]
        stdin = "\n".join(json.dumps(line) for line in lines) + "\nno json"
        result = run("choose", CHOOSER, "--json", stdin=stdin)
        assert result.code == 1
        assert ["choice" in row for row in result.json] == [True] + [False] * 5 + [True, False]
        assert len(result.err.splitlines()) == 6

    def test_too_long(self):
        long = {**self.QUESTION, "context": "he was " * 40}
        run("choose", CHOOSER, stdin=json.dumps(long)).fails(1, "40 tokens", "--truncate", "context")
        result = run("choose", CHOOSER, "--truncate", "--json", stdin=json.dumps(long))
        assert result.code == 0 and result.json[0]["truncated"] > 0 and "note" in result.err

    def test_wrong_usage(self, files):
        run("choose", CHOOSER, "--choice", "a").fails(2, "--question")
        run("choose", CHOOSER, "--question", "a").fails(2, "--choice")
        run("choose", CHOOSER, files[0], "--question", "a", "--choice", "b").fails(2, "one question")
        run("choose", CLASSIFIER, "--question", "a", "--choice", "b").fails(1, "multiple-choice")
