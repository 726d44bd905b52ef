"""Values that are a list of texts, and values that are none, in every entry that takes texts."""

import collections
import csv
import io
import json
import types

import numpy as np
import pytest

import longformer_cpp
from longformer_cpp import Error


class Table:
    """Iterates over the names of its columns, as tables of pandas, polars and pyarrow do or may."""

    def __init__(self, names, member="columns"):
        self.names = names
        setattr(self, member, list(names))

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return 3


class Arrow(Table):
    """A table of pyarrow, whose `columns` are the values."""

    def __init__(self, names):
        super().__init__(names, "column_names")
        self.columns = [["one", "two"], [1, 2]]


class Column:
    """A column of a table: a Series of pandas or polars."""

    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return iter(self.values)


class Chunked:
    """An array of pyarrow, whose items are scalars of its own."""

    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return iter([object() for _ in self.values])

    def to_pylist(self):
        return self.values


NO_LISTS = [
    (Table(["text", "label"]), r"a table \(Table\) with the columns text, label: pass .*table\['text'\]"),
    (Arrow(["text", "y"]), r"a table \(Arrow\) with the columns text, y"),
    (Table(["sentence", "y"], "column_names"), r"a table .*table\['sentence'\]"),
    ({"text": "the cat"}, r"a mapping \(dict\): pass list\(mapping.values\(\)\)"),
    (collections.OrderedDict(a="b"), "a mapping"),
    (types.MappingProxyType({"a": "b"}), "a mapping"),
    ({"one", "two"}, "a set, which has no order"),
    (frozenset(["one"]), "a frozenset"),
    (np.array([["a", "b"]]), r"an array \[1, 2\]"),
    (np.array("a"), r"an array \[\]"),
    (b"bytes", "bytes"),
    (bytearray(b"bytes"), "bytearray"),
    (3, r"3 \(int\)"),
    (None, "None"),
    ([b"bytes"], r"\[0\]: expected a text \(str\)"),
    (["a", None], r"\[1\]: .*None.*missing values"),
    (Column(["a", float("nan")]), r"\[1\]: .*nan.*missing values"),
    (np.array(["a", 1], dtype=object), r"\[1\]: expected a text \(str\), found 1"),
    (np.array([b"a"]), r"\[0\]: expected a text"),
    (np.arange(2), r"\[0\]: expected a text"),
    ([["a"]], r"\[0\]: expected a text"),
]  # fmt: skip


@pytest.fixture(scope="module")
def entries(folder):
    """Every call that takes texts."""
    load = longformer_cpp.load
    bert, classifier, tagger = load(folder("tiny_bert")), load(folder("tiny_longformer_classifier")), load(folder("tiny_bert_tagger"))
    answerer, chooser, writer = load(folder("tiny_longformer_qa")), load(folder("tiny_longformer_choice")), load(folder("tiny_led"))
    resolver = longformer_cpp.CoreferenceResolver(folder("coreference"))
    filler, reranker = load(folder("tiny_roberta")), load(folder("rerankers") / "bert")
    tokenizer = bert.tokenizer
    return {
        "encode": bert.encode,
        "encode_query": longformer_cpp.Embedder(bert).encode_query,
        "encode_document": longformer_cpp.Embedder(bert).encode_document,
        "classify": classifier.classify,
        "pairs": lambda texts: classifier.classify(["a"], pairs=texts),
        "ner": tagger.ner,
        "qa": lambda texts: answerer.qa("a", texts),
        "choose": lambda texts: chooser.choose("a", texts),
        "coref": resolver.resolve,
        "fill_mask": filler.fill_mask,
        "rerank": lambda texts: reranker.rerank("a", texts),
        "summarize": lambda texts: writer.summarize(texts, max_new_tokens=2),
        "write": lambda texts: writer.write(texts, max_new_tokens=2),
        "encode_batch": tokenizer.encode_batch,
        "statistics": tokenizer.statistics,
        "compare_models": lambda texts: longformer_cpp.compare_models(bert, bert, texts),
        "search": lambda texts: bert.search("a", texts),
    }


ENTRIES = ("encode", "encode_query", "encode_document", "classify", "pairs", "ner", "qa", "choose", "coref", "fill_mask", "rerank",
           "summarize", "write", "encode_batch", "statistics", "compare_models", "search")  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_no_list_of_texts(entries, entry):
    for value, message in NO_LISTS:
        if entry == "search" and hasattr(value, "items"):
            continue  # texts by their names
        if entry == "pairs" and value is None:
            continue
        with pytest.raises(TypeError, match=message):
            entries[entry](value)


@pytest.mark.parametrize("entry", ENTRIES)
def test_halves_of_surrogate_pairs(entries, entry):
    for texts in (["a", "b\ud800"], ["a", "\udc00b"]):
        with pytest.raises(Error, match=r"\[1\]: expected a text of whole characters.*U\+D"):
            entries[entry](texts)


@pytest.mark.parametrize("kind", [tuple, iter, Column, Chunked, np.array, lambda x: np.array(x, dtype=object),
                                  lambda x: (text for text in x), collections.deque, lambda x: dict.fromkeys(x).keys()])  # fmt: skip
def test_what_is_a_list_of_texts(entries, kind):
    texts = ["the of", "and to"]
    assert (entries["encode"](kind(texts)) == entries["encode"](texts)).all()
    assert entries["classify"](kind(texts)) == entries["classify"](texts)
    assert [one.ids for one in entries["encode_batch"](kind(texts))] == [one.ids for one in entries["encode_batch"](texts)]


def test_single_texts(folder):
    bert = longformer_cpp.load(folder("tiny_bert"))
    for call in (bert.tokenizer.encode, bert.encode_passages, lambda text: bert.search(text, ["a"], passage_tokens=8)):
        with pytest.raises(Error, match="half of a surrogate pair, U[+]DC80 at character 1"):
            call("a\udc80")
        with pytest.raises(TypeError, match="expected a text"):
            call({"text": "a"})
    # Options are no texts of a list; they are told too.
    with pytest.raises(Error, match="half of a surrogate pair"):
        bert.encode(["a"], prompt="\ud800")


def test_spans_and_paths_of_tables(folder, tmp_path):
    bert = longformer_cpp.load(folder("tiny_bert"))
    with pytest.raises(TypeError, match="spans: expected a list of .*a mapping"):
        longformer_cpp.Embedder(bert).encode_spans("a b", {(0, 1): "a"})
    with pytest.raises(TypeError, match=r"data: expected a path, found a table \(Table\): write it to a file"):
        longformer_cpp.finetune(folder("tiny_bert"), Table(["text", "label"]), tmp_path / "out", task="classify")
    with pytest.raises(TypeError, match="data: expected a path, found a table"):
        longformer_cpp.load(folder("tiny_longformer_classifier")).evaluate(Table(["text", "label"]))


def test_endings_of_predictions(folder, tmp_path):
    model = longformer_cpp.load(folder("tiny_longformer_classifier"))
    data = tmp_path / "d.json"
    texts = ['a "b",\nc', "ü\td", "e"]
    data.write_text(json.dumps([{"id": i, "text": text, "label": "good"} for i, text in enumerate(texts)]), encoding="utf-8")
    rows = model.evaluate(data, predictions=True).predictions
    for name in ("p", "p.jsonl", "p.NDJSON", "p.json", "p.csv", "p.tsv"):
        model.evaluate(data, predictions=tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        if name.endswith("sv"):
            table = list(csv.DictReader(io.StringIO(text), delimiter="\t" if name == "p.tsv" else ","))
            assert [row["prediction"] for row in table] == [row["prediction"] for row in rows]
            assert [json.loads(row["scores"]) for row in table] == [row["scores"] for row in rows]
        else:
            assert rows == (json.loads(text) if name == "p.json" else [json.loads(line) for line in text.splitlines()])
    with pytest.raises(Error, match="predictions: expected a name that ends in .jsonl.*p.xlsx"):
        model.evaluate(data, predictions=tmp_path / "p.xlsx")
    assert not (tmp_path / "p.xlsx").exists()


def test_numbers_that_would_drop_the_last(folder):
    classifier = longformer_cpp.load(folder("tiny_longformer_classifier"))
    assert len(classifier.classify(["a"], top_k=0)[0].labels) == len(classifier.labels)
    for wrong in (-1, -2):
        with pytest.raises(Error, match=f"top_k: expected at least 0, found {wrong}"):
            classifier.classify(["a"], top_k=wrong)
    for wrong in (1.5, True, "all"):
        with pytest.raises(TypeError, match="top_k: expected an integer"):
            classifier.classify(["a"], top_k=wrong)
    for wrong in (-1, 0):
        with pytest.raises(Error, match="truncate_dim: expected at least 1"):
            longformer_cpp.load(folder("tiny_bert")).encode(["a"], truncate_dim=wrong)
