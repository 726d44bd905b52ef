"""Weights that are NaN or infinite, in every verb: told when the folder is loaded, and an error of each
document that they spoil, which costs the others nothing."""

import json
import shutil
import sqlite3
import struct

import numpy as np
import pytest
from cli_test import BERT, FIXTURES, ROBERTA, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
TAGGER = FIXTURES / "tiny_bert_tagger"
QA = FIXTURES / "tiny_longformer_qa"
CHOOSER = FIXTURES / "tiny_longformer_choice"
CHARACTERS = FIXTURES / "character_lm" / "tied"
DENSE = FIXTURES / "sentence_dense"
GOOD, BAD = "he was with the of and", "he was at the of and"
NOTE = "longformer: note: "


def spoiled(source, target, tensor, place=(0, 0), value=np.nan):
    """A copy of a folder in which one number is another one; `tensor` is how its name ends."""
    shutil.copytree(source, target)
    file = target / "model.safetensors"
    data = bytearray(file.read_bytes())
    (size,) = struct.unpack("<Q", data[:8])
    entries = {n: e for n, e in json.loads(data[8 : 8 + size]).items() if n.endswith(tensor)}
    (entry,) = entries.values()
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    values = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"]).copy()
    values[place[: values.ndim]] = value
    data[begin:end] = values.tobytes()
    file.write_bytes(data)
    return target


def spoiled_word(source, target, value=np.nan):
    """The embedding of a token that only the bad texts have."""
    good, bad = (run("tokenize", source, "--text", t, "--json").works().json[0]["ids"] for t in (GOOD, BAD))
    row = next(token for token in bad if token not in good)
    return spoiled(source, target, "word_embeddings.weight", (row, 3), value)


@pytest.fixture
def texts(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text(f"{GOOD}\n{BAD}\n{GOOD}\n")
    return file


def tells(result, tensor="word_embeddings.weight"):
    """One note that names the tensor, then the errors, which come back."""
    lines = result.err.splitlines()
    assert lines[0].startswith(NOTE) and f"{tensor} (1 of " in lines[0], result.err
    assert "expected finite weights" in lines[0] and "model.safetensors" in lines[0]
    errors = lines[1:]
    assert all(line.startswith("longformer: error: ") for line in errors), result.err
    return errors


def spoils_the_second(result, rows, plain_rows, **note):
    """The second of three results is an error, the others are those of the sound model."""
    assert result.code == 1
    (error,) = tells(result, **note)
    assert ":2: " in error and "finite" in error, error
    assert ["error" in row for row in rows] == [False, True, False]
    assert [rows[0], rows[2]] == [plain_rows[0], plain_rows[2]]


class TestDocuments:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("dtype", ["fp32", "bf16"])
    @pytest.mark.parametrize("verb,model,flags", [
        ("embed", BERT, []), ("embed", BERT, ["--pooling", "max"]), ("embed", BERT, ["--pooling", "tokens"]),
        ("embed", BERT, ["--pooling", "passages", "--passage-tokens", 8]),
        ("embed", BERT, ["--pooling", "passages", "--passage-tokens", 8, "--context", "document"]),
        ("embed", DENSE, []), ("embed", DENSE, ["--pooling", "passages", "--passage-tokens", 8]), ("embed", CLASSIFIER, ["--pooling", "cls"]),
        ("embed", CLASSIFIER, ["--normalize"]), ("classify", CLASSIFIER, []),
        ("ner", TAGGER, ["--ignore-labels", ""])])  # fmt: skip
    def test_lines_of_text(self, tmp_path, texts, verb, model, flags, dtype, value):
        flags = [texts, "--lines", "--json", "--dtype", dtype, *flags]
        plain = run(verb, model, *flags).works().json
        result = run(verb, spoiled_word(model, tmp_path / "model", value), *flags)
        spoils_the_second(result, result.json, plain)

    @pytest.mark.parametrize("activation", ["Identity", "Tanh", "ReLU"])
    def test_weights_of_a_dense_module(self, tmp_path, texts, activation):
        """An activation such as ReLU makes no number of NaN."""
        model = shutil.copytree(DENSE, tmp_path / "model")
        dense = model / "3_Dense"
        shutil.rmtree(dense)
        spoiled(DENSE / "3_Dense", dense, "linear.weight")
        config = json.loads((dense / "config.json").read_text())
        config["activation_function"] = f"torch.nn.modules.activation.{activation}"
        (dense / "config.json").write_text(json.dumps(config))
        result = run("embed", model, texts, "--lines", "--json")
        assert result.code == 1 and ["error" in row for row in result.json] == [True] * 3
        assert all("finite vectors" in error for error in tells(result, "linear.weight"))

    def test_an_error_of_a_passage_is_one_of_its_document(self, tmp_path):
        model = spoiled_word(BERT, tmp_path / "model")
        flags = ["--pooling", "passages", "--passage-tokens", 3, "--text", f"{GOOD} {BAD}"]
        result = run("embed", model, *flags)
        (error,) = tells(result)
        assert result.code == 1 and error.endswith(": expected finite vectors from the model, found NaN")
        assert "document" not in error

    def test_a_converted_model(self, tmp_path, texts):
        model = spoiled_word(BERT, tmp_path / "bert")
        result = run("convert", model, tmp_path / "longformer", "--max-positions", 200, "--window", 8)
        assert result.code == 0 and tells(result) == []
        result = run("embed", tmp_path / "longformer", texts, "--lines", "--json")
        assert result.code == 1 and len(tells(result)) == 1

    def test_fill_mask(self, tmp_path):
        """A position that only the longer text has: embeddings of words are logits of all texts, too."""
        lines = "he was <mask>\nhe was at the <mask>\nhe was <mask>\n"
        ids = run("tokenize", ROBERTA, "--lines", "--json", stdin=lines).works().json
        plain = run("fill-mask", ROBERTA, "--lines", "--json", stdin=lines).works().json
        model = spoiled(ROBERTA, tmp_path / "model", "position_embeddings.weight", (len(ids[0]["ids"]) + 2, 0))
        result = run("fill-mask", model, "--lines", "--json", stdin=lines)
        spoils_the_second(result, result.json, plain, tensor="position_embeddings.weight")

    def test_a_token_that_shall_never_be_drawn_may_have_a_bias_of_minus_infinity(self, tmp_path):
        model = spoiled(ROBERTA, tmp_path / "model", "lm_head.bias", (7,), -np.inf)
        result = run("fill-mask", model, "--text", "he was <mask>", "--json", "--top-k", 1000)
        assert result.code == 0 and tells(result, "lm_head.bias") == []
        candidates = result.json[0]["masks"][0]["candidates"]
        assert [c["probability"] for c in candidates if c["id"] == 7] == [0]
        assert abs(sum(c["probability"] for c in candidates) - 1) < 1e-6

    def test_qa(self, tmp_path):
        lines = "".join(json.dumps({"question": "who is he?", "context": text}) + "\n" for text in (GOOD, BAD, GOOD))
        flags = ["--field", "context", "--question-field", "question", "--json"]
        plain = run("qa", QA, *flags, stdin=lines).works().json
        result = run("qa", spoiled_word(QA, tmp_path / "model"), *flags, stdin=lines)
        spoils_the_second(result, result.json, plain)

    def test_choose(self, tmp_path):
        question = {"question": "for it?", "choices": ["his", "on be"]}
        lines = "".join(json.dumps({"context": text, **question}) + "\n" for text in (GOOD, BAD, GOOD))
        plain = run("choose", CHOOSER, "--json", stdin=lines).works().json
        result = run("choose", spoiled_word(CHOOSER, tmp_path / "model"), "--json", stdin=lines)
        spoils_the_second(result, result.json, plain)

    def test_search(self, tmp_path):
        for name, text in (("a.txt", GOOD), ("b.txt", BAD)):
            (tmp_path / name).write_text(text)
        model = spoiled_word(BERT, tmp_path / "model")
        result = run("search", model, "a.txt", "b.txt", "--json", "--query", "he was", "--query", "at",
                     "--index", "index", "--passage-tokens", 8, folder=tmp_path)  # fmt: skip
        assert result.code == 1
        document, question = tells(result)
        assert "b.txt: " in document and "finite vectors" in document
        assert "'at'" in question and "finite vectors" in question
        assert [hit["file"] for hit in result.json[0]["hits"]] == ["a.txt"] and "error" in result.json[1]

    def test_an_index_of_other_numbers(self, tmp_path):
        (tmp_path / "a.txt").write_text(GOOD)
        flags = ["--index", "index", "--query", "he", "--passage-tokens", 8]
        run("search", BERT, "a.txt", *flags, folder=tmp_path).works()
        with sqlite3.connect(tmp_path / "index") as index:
            (vector,) = index.execute("SELECT vector FROM vectors").fetchone()
            index.execute("UPDATE vectors SET vector = ?", [np.full(len(vector) // 4, np.nan, np.float32).tobytes()])
        run("search", BERT, *flags, folder=tmp_path).fails(1, "index: ", "finite vectors")

    def test_attention(self, tmp_path, texts):
        """Probabilities of the second layer: those of the first would do too."""
        flags = [texts, "--lines", "--json", "--layer", "1", "--head", "0"]
        plain = run("attention", BERT, *flags).works().json
        result = run("attention", spoiled_word(BERT, tmp_path / "model"), *flags)
        assert result.code == 1
        (error,) = tells(result)
        assert ":2: " in error and "finite probabilities" in error
        assert result.json[0] == plain[0] and result.json[-1] == plain[-1]

    @pytest.mark.parametrize("weights", ["encoder.layer.0.attention.self.query.weight",
                                         "encoder.layer.1.output.dense.bias", "embeddings.LayerNorm.weight",
                                         "classifier.out_proj.weight"])  # fmt: skip
    def test_weights_that_every_document_meets(self, tmp_path, texts, weights):
        model = spoiled(CLASSIFIER, tmp_path / "model", weights)
        result = run("classify", model, texts, "--lines", "--json")
        assert result.code == 1 and ["error" in row for row in result.json] == [True] * 3
        assert [f"texts.txt:{i}: " in error for i, error in enumerate(tells(result, weights), 1)] == [True] * 3

    def test_many_tensors_are_one_note(self, tmp_path):
        model = tmp_path / "model"
        shutil.copytree(BERT, model)
        file = model / "model.safetensors"
        data = file.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        nan = np.full((len(data) - 8 - size) // 4, np.nan, np.float32).tobytes()
        file.write_bytes(data[: 8 + size] + nan)
        result = run("embed", model, "--text", "a")
        assert result.code == 1 and len(result.err.splitlines()) == 2
        assert " and 36 more tensors" in result.err.splitlines()[0] and "(32 of 32)" in result.err.splitlines()[0]


class TestCharacters:
    def test_generate(self, tmp_path):
        model = self.spoiled_table(tmp_path)
        result = run("generate", model, "--prompt", "b", "-n", "5")
        assert result.code == 1 and result.out == ""
        (error,) = tells(result, "")
        assert "finite logits" in error and "prompt" in error

    def test_evaluate(self, tmp_path):
        (tmp_path / "text.txt").write_text("abc " * 400)
        result = run("evaluate", self.spoiled_table(tmp_path), tmp_path / "text.txt", "--json")
        assert result.code == 1
        (error,) = tells(result, "")
        assert "text.txt" in error and "finite loss" in error

    def test_pretrain(self, tmp_path):
        (tmp_path / "text.txt").write_text("abc " * 400)
        result = run("pretrain-lm", self.spoiled_table(tmp_path), tmp_path / "text.txt", "--output-dir",
                     tmp_path / "out", "--max-steps", 2, "--length", 16)  # fmt: skip
        assert result.code == 1 and "expected finite weights" in result.err
        assert "step 1: expected a finite loss" in result.err

    @staticmethod
    def spoiled_table(tmp_path):
        """Tied: the embedding of a character is its row of the decoder too."""
        return spoiled(CHARACTERS, tmp_path / "model", "embedding.weight", (2, 0))


class TestDataSets:
    def write(self, path, rows):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def reviews(self, tmp_path, texts=(GOOD, BAD, GOOD)):
        return self.write(tmp_path / "a.jsonl", [{"text": t, "label": label} for t, label in zip(texts, ("bad", "good", "bad"))])

    def test_evaluate(self, tmp_path):
        data = self.reviews(tmp_path)
        model = spoiled_word(CLASSIFIER, tmp_path / "model")
        result = run("evaluate", model, data, "--json")
        assert result.code == 1
        (error,) = tells(result)
        assert "a.jsonl:2: " in error and "finite logits" in error

    def test_evaluate_a_masked_lm(self, tmp_path):
        (tmp_path / "a.txt").write_text(f"{GOOD} {BAD}")
        model = spoiled_word(ROBERTA, tmp_path / "model")
        result = run("evaluate", model, tmp_path / "a.txt", "--mask-every", 2)
        assert result.code == 1
        (error,) = tells(result)
        assert "a.txt: row 0: " in error and "finite loss" in error

    def test_finetune(self, tmp_path):
        model = spoiled_word(CLASSIFIER, tmp_path / "model")
        flags = ["--output-dir", tmp_path / "out", "--max-steps", 3]
        result = run("finetune", model, self.reviews(tmp_path), *flags)
        assert result.code == 1 and "step 1: expected a finite loss" in result.err
        assert f"{NOTE}" in result.err and "expected finite weights" in result.err

    def test_an_evaluation_while_training(self, tmp_path):
        """The text has words that the training does not meet."""
        model = spoiled_word(CLASSIFIER, tmp_path / "model")
        train = self.reviews(tmp_path, (GOOD, GOOD, GOOD))
        (tmp_path / "held_out").mkdir()
        held_out = self.reviews(tmp_path / "held_out")
        result = run("finetune", model, train, "--validation-file", held_out, "--eval-strategy", "steps", "--eval-steps", 1,
                     "--output-dir", tmp_path / "out", "--max-steps", 2)  # fmt: skip
        assert result.code == 1 and "evaluation after step 1" in result.err
        assert "finite" in result.err.splitlines()[-1] and "checkpoint-1" in result.err.splitlines()[-1]

    def test_pretrain_mlm(self, tmp_path):
        (tmp_path / "a.txt").write_text(f"{GOOD} {BAD} " * 5)
        model = spoiled_word(ROBERTA, tmp_path / "model")
        result = run("pretrain-mlm", model, tmp_path / "a.txt", "--output-dir", tmp_path / "out", "--max-steps", 2)
        assert result.code == 1 and "step 1: expected a finite loss" in result.err
        assert "expected finite weights" in result.err
