"""Classes for corpora without a framework: batches, bad documents, pickles, models of a process. tests/apps/corpora has
pandas, pyarrow, Ray, Spark and datasets."""

import importlib
import importlib.util
import json
import pickle
import random
import shutil
import subprocess
import sys

import longformer_cpp
import numpy as np
import pytest
from longformer_cpp import BatchAnswerer, BatchClassifier, BatchEmbedder, BatchSummarizer, BatchTagger, Embedder, Error, _corpora
from test_processes import in_fork

WORDS = "he she was in the house with him her and not they had been there of".split()
HALF = "half of a pair \ud800"


def texts_of(count, longest, seed=1):
    draw = random.Random(seed)
    lengths = [round(5 * (longest / 5) ** (i / (count - 1))) for i in range(count)]
    draw.shuffle(lengths)
    return [" ".join(draw.choices(WORDS, k=length)) for length in lengths]


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    """A model with room for sentences, whose longer documents are read in segments."""
    target = tmp_path_factory.mktemp("models") / "model"
    longformer_cpp.convert(folder("tiny_bert"), target, max_positions=128, window=16)
    return target


def column(texts):
    """A column as Ray has it."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def test_vectors_are_those_of_the_program(model, program, tmp_path):
    texts = texts_of(60, 3000)
    lines = tmp_path / "texts.jsonl"
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    expected = [np.float32(one["embedding"]) for one in program("embed", model, lines, "--field", "text", "--split", "--json")]
    found = BatchEmbedder(model)({"text": column(texts)})["embedding"]
    assert found.dtype == np.float32 and np.array_equal(found, expected)


@pytest.mark.parametrize("size", [1, 7])
def test_vectors_do_not_depend_on_the_batch(model, size):
    texts = texts_of(40, 2000)
    embedder = BatchEmbedder(model)
    whole = embedder({"text": texts})["embedding"]
    parts = [embedder({"text": texts[i : i + size]})["embedding"] for i in range(0, len(texts), size)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_columns_come_back_as_they_came(model):
    arrays = BatchEmbedder(model, output="vector", error="why")({"id": np.arange(2), "text": column(["he was", "she"])})
    assert list(arrays) == ["id", "text", "vector", "why"] and arrays["vector"].shape == (2, 16)
    lists = BatchEmbedder(model, column="body")({"body": ["he was", "she"]})
    assert isinstance(lists["embedding"], list) and np.array_equal(lists["embedding"], arrays["vector"])
    nothing = BatchEmbedder(model)({"text": column([])})
    assert nothing["embedding"].shape == (0, 16) and list(nothing["error"]) == []


def test_bad_documents_leave_their_neighbours_alone(model):
    texts = ["he was", None, HALF, float("nan"), 3, "she " * 300, b"bytes", ""]
    found = BatchEmbedder(model, long="refuse")({"text": column(texts)})
    vectors, errors = found["embedding"], found["error"]
    assert [vector is None for vector in vectors] == [False, True, True, True, True, True, True, False]
    assert [error is None for error in errors] == [True, True, False, True, False, False, False, True]
    assert "U+D800" in errors[2] and errors[4] == "text: expected a text (str), found 3 (int)"
    assert errors[5] == "expected at most 128 tokens, found 302"
    assert np.array_equal(vectors[0], BatchEmbedder(model)({"text": ["he was"]})["embedding"][0])


def test_strict_raises(model):
    strict = BatchEmbedder(model, long="refuse", strict=True)
    assert "error" not in strict({"text": ["he was", None]})
    with pytest.raises(Error, match="expected at most 128 tokens, found 302") as raised:
        strict({"text": ["he was", "she " * 300]})
    assert raised.value.document == 1
    with pytest.raises(TypeError, match="found 3"):
        strict({"text": [3]})


def test_what_is_wrong_for_every_document_raises(model):
    for options in ({"prompt_name": "none"}, {"max_length": 1000}):
        with pytest.raises(Error):
            BatchEmbedder(model, **options)({"text": ["he was"]})
    with pytest.raises(TypeError, match="expected options among .*normalize_embeddings.*, found 'split'"):
        BatchEmbedder(model, split=True)
    with pytest.raises(Error, match="long: expected one of split, truncate, refuse, found 'extend'"):
        BatchEmbedder(model, long="extend")
    with pytest.raises(Error, match="pooling"):
        BatchEmbedder(model, pooling="tokens")
    with pytest.raises(Error, match="column: expected one of id, body, found 'text'"):
        BatchEmbedder(model)({"id": [1], "body": ["he"]})
    with pytest.raises(Error, match="output: expected no column 'embedding' in the batch"):
        BatchEmbedder(model)({"embedding": [1], "text": ["he"]})
    with pytest.raises(TypeError, match="batch: expected a mapping"):
        BatchEmbedder(model)(["he"])


@pytest.mark.parametrize("kind", [BatchClassifier, BatchTagger, BatchAnswerer, BatchSummarizer])
def test_a_model_without_the_head_raises(model, kind):
    question = {"question": "who?"} if kind is BatchAnswerer else {}
    for texts in (["he was"], ["he", "she", None]):
        with pytest.raises(Error, match="expected"):
            kind(model, **question)({"text": texts})
    assert kind(model, **question)({"text": [None]})["error"] == [None]


def test_a_column_is_no_text(model):
    for wrong in ("he was", b"he", np.array("he"), 7, None):
        with pytest.raises(TypeError, match=r"batch\['text'\]: expected a column"):
            BatchEmbedder(model)({"text": wrong})
    assert BatchEmbedder(model)([]) == []
    assert BatchEmbedder(model)({"text": []})["embedding"] == []


def test_vectors_have_the_size_of_encode(tmp_path, model):
    shutil.copytree(model, tmp_path / "short")
    (tmp_path / "short" / "config_sentence_transformers.json").write_text('{"truncate_dim": 8}')
    for size in (None, 4, 12):
        expected = Embedder(str(tmp_path / "short")).encode(["he"], truncate_dim=size)
        made = BatchEmbedder(str(tmp_path / "short"), truncate_dim=size)({"text": np.array(["he"])})["embedding"]
        assert made.shape == expected.shape == (1, size or 8)
        assert Embedder(str(tmp_path / "short")).encode([], truncate_dim=size).shape == (0, size or 8)


def test_wrong_columns_and_sizes_raise(model):
    for wrong in ({"truncate_dim": 0}, {"truncate_dim": -1}, {"output": "error"}, {"error": "text"}):
        with pytest.raises(Error):
            BatchEmbedder(model, **wrong)
    with pytest.raises(Error, match="one length"):
        BatchEmbedder(model)({"id": [1], "text": ["a", "b"]})


def test_a_column_of_another_kind_is_read_in_its_order(model):
    class Labelled(dict):
        """Like a Series: numbers in brackets are labels."""

        def __iter__(self):
            return iter(self.values())

    rows = BatchEmbedder(model, passages=True, passage_tokens=16)({"id": Labelled({1: 10, 0: 20}), "text": ["he was", "she was"]})
    assert list(rows["id"]) == [10, 20]


def test_options_are_those_of_encode(model):
    text = "she " * 300
    options = {"truncate_dim": 8, "normalize_embeddings": True, "prompt": "he was "}
    found = BatchEmbedder(model, long="truncate", **options)({"text": [text]})["embedding"][0]
    assert np.array_equal(found, longformer_cpp.Embedder(model).encode(text, truncate=True, **options))
    missing = BatchEmbedder(model, truncate_dim=8).make_predict_fn()(column(["he", None]))
    assert missing.shape == (2, 8) and np.isnan(missing[1]).all() and not np.isnan(missing[0]).any()
    assert BatchEmbedder(model).embed_text(["he", HALF])[1] is None


def test_passages_are_rows(model):
    texts = ["he was in the house. " * 8, None, "", HALF, "she was there."]
    batch = {"id": np.arange(5), "text": column(texts)}
    found = BatchEmbedder(model, passages=True, passage_tokens=12)(batch)
    expected = longformer_cpp.Embedder(model).encode_passages(texts[0], passage_tokens=12)
    count = len(expected)
    assert count > 2 and list(found) == ["id", "text", "document", "start", "end", "embedding", "error"]
    assert list(found["id"]) == list(found["document"]) == [0] * count + [1, 2, 3, 4]
    assert list(found["text"]) == [*expected.texts, None, "", None, texts[4]]
    assert list(zip(found["start"], found["end"]))[:count] == expected.spans
    assert all(np.array_equal(a, b) for a, b in zip(found["embedding"], expected.embeddings))
    assert list(found["start"])[count:] == [None, None, None, 0] and found["embedding"][count] is None
    assert [error is None for error in found["error"]][count:] == [True, True, False, True]
    with pytest.raises(Error, match="passage"):
        BatchEmbedder(model, passages=True, passage_tokens=100000)({"text": ["he was"]})


def test_siblings(folder, led):
    texts = ["he was in the house", None, HALF, "she was with him . " * 30]
    classes = BatchClassifier(folder("tiny_longformer_classifier"), top_k=2)({"text": texts})
    direct = longformer_cpp.Classifier(folder("tiny_longformer_classifier"))(texts[0], top_k=2)[0].labels
    assert classes["labels"][0] == [{"label": one.label, "score": one.score} for one in direct]
    tags = BatchTagger(folder("tiny_bert_tagger"))({"text": texts})
    entity = longformer_cpp.Tagger(folder("tiny_bert_tagger"))(texts[0])[0][0]
    assert tags["entities"][0][0] == {
        "label": entity.label, "score": entity.score, "start": entity.begin, "end": entity.end, "text": entity.text}  # fmt: skip
    summaries = BatchSummarizer(led, max_new_tokens=4)({"text": texts})
    assert summaries["summary"][0] == longformer_cpp.load(led).summarize(texts[0], max_new_tokens=4)[0].text
    for found, name in ((classes, "labels"), (tags, "entities"), (summaries, "summary")):
        assert [one is None for one in found[name]] == [False, True, True, False]
        assert [one is None for one in found["error"]] == [True, True, False, True]


def test_a_class_for_long_documents_alone(folder):
    """An error that names no document is found one by one."""
    found = BatchClassifier(folder("tiny_longformer_classifier"), long="refuse")({"text": ["he", "she " * 300, "was"]})
    assert [one is None for one in found["labels"]] == [False, True, False]
    assert found["error"][1] == "expected at most 41 tokens, found 302"


def test_questions(folder):
    texts, questions = ["he was in the house", "she", None, "they had been"], ["who?", "where?", "who?", None]
    own = BatchAnswerer(folder("tiny_longformer_qa"), top_k=2)({"text": texts, "question": questions})
    direct = longformer_cpp.QuestionAnswerer(folder("tiny_longformer_qa"))("who?", texts[0], top_k=2)
    assert [one["text"] for one in own["answers"][0]] == [one.text for one in direct]
    assert [one is None for one in own["answers"]] == [False, False, True, True] and own["error"] == [None] * 4
    asked = BatchAnswerer(folder("tiny_longformer_qa"), question="who?", top_k=2)({"text": texts})
    assert asked["answers"][0] == own["answers"][0] and asked["answers"][3]
    long = BatchAnswerer(folder("tiny_longformer_qa"), question="who?")({"text": ["she was there " * 100]})
    assert long["error"] == [None] and long["answers"][0][0]["text"]


def test_pickles_have_no_weights(model):
    embedder = BatchEmbedder(model, truncate_dim=8, passages=False)
    expected = embedder({"text": ["he was"]})["embedding"]
    data = pickle.dumps(embedder)
    assert len(data) < 2048
    assert np.array_equal(pickle.loads(data)({"text": ["he was"]})["embedding"], expected)


def test_a_folder_is_asked_at_the_first_call():
    embedder = pickle.loads(pickle.dumps(BatchEmbedder("nowhere")))
    with pytest.raises(Error, match="nowhere"):
        embedder({"text": ["he was"]})


def test_a_process_has_one_model(model, monkeypatch):
    first, second = BatchEmbedder(model), BatchEmbedder(str(model), column="body", truncate_dim=4)
    assert first.model is second.model and BatchEmbedder(model, dtype="bf16").model is not first.model
    expected = first({"text": ["he was"]})["embedding"]

    def has_its_own():
        before = len(_corpora._MODELS)
        same = np.array_equal(first({"text": ["he was"]})["embedding"], expected)
        return same and len(_corpora._MODELS) == before + 1

    assert in_fork(has_its_own)
    # A worker that Ray uses again may have other threads.
    loaded = first.model
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert first.model is not loaded and first.model is second.model


PROGRAM = """
import os, sys
import longformer_cpp
embedder = longformer_cpp.BatchEmbedder(sys.argv[1], threads=eval(sys.argv[2]))
before = len(os.listdir("/proc/self/task"))
embedder({"text": ["he was in the house " * 400]})
assert not {"pandas", "pyarrow", "ray", "pyspark"} & set(sys.modules)
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.parametrize(("threads", "omp", "more"), [("None", "1", 0), ("3", "1", 2)])
def test_threads_are_those_of_the_framework(model, threads, omp, more, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", omp)
    monkeypatch.setenv("PYTHONPATH", str(longformer_cpp.__path__[0]) + "/..")
    done = subprocess.run([sys.executable, "-c", PROGRAM, model, threads], capture_output=True, text=True, check=True)
    assert int(done.stdout) == more, done.stdout


@pytest.mark.skipif(importlib.util.find_spec("langchain_core") is not None, reason="langchain-core is installed")
def test_langchain_is_asked_for():
    with pytest.raises(ImportError, match="pip install langchain-core"):
        importlib.import_module("longformer_cpp.langchain")
