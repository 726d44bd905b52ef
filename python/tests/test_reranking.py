"""Rerankers in Python: the numbers of sentence-transformers and of the program."""

import json

import longformer_cpp
import pytest


@pytest.fixture
def made(folder):
    return folder("rerankers") / "bert", json.loads((folder("rerankers") / "expected.json").read_text())["bert"]


def test_predict_and_rank(made):
    path, expected = made
    reranker = longformer_cpp.Reranker(path)
    assert reranker.predict(expected["pairs"], truncate=True) == pytest.approx(expected["scores"], abs=1e-5)
    assert reranker.predict(expected["pairs"], truncate=True, raw_scores=True) == pytest.approx(expected["logits"], abs=1e-5)
    found = reranker(expected["query"], expected["texts"], truncate=True, top_n=4)
    assert [one.index for one in found] == [index for index, _ in expected["ranking"]]
    assert [one.score for one in found] == pytest.approx([score for _, score in expected["ranking"]], abs=1e-5)
    assert all(one.text == expected["texts"][one.index] and one.relevant_spans == [] for one in found)


def test_method_and_program(made, program):
    path, expected = made
    texts = [text for text in expected["texts"] if text]
    found = longformer_cpp.load(path).rerank(expected["query"], texts, relevant_spans=2, span_threshold=0.0)
    rows = program("rerank", path, expected["query"], "--lines", "--json", "--relevant-spans", 2, "--span-threshold", 0,
                   stdin="".join(text + "\n" for text in texts))  # fmt: skip
    assert [one.index + 1 for one in found] == [row["line"] for row in rows]
    for one, row in zip(found, rows, strict=True):
        assert one.score == pytest.approx(row["score"], abs=1e-6)
        assert (one.tokens, one.truncated, one.segments) == (row["tokens"], row["truncated"], row["segments"])
        assert [vars(span) for span in one.relevant_spans] == [pytest.approx(span, abs=1e-6) for span in row["relevant_spans"]]


def test_search(made, folder):
    path, _ = made
    index = longformer_cpp.SearchIndex(folder("tiny_bert"), passage_tokens=16)
    index.add("a", "he was in the house. she was with him. " * 4)
    index.add("b", "it was one of them and she had been there. " * 4)
    reranker = longformer_cpp.Reranker(path)
    hits = index.query("who was there", top_k=3, rerank=reranker)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    alone = reranker.predict([("who was there", hit.text) for hit in hits])
    assert [hit.score for hit in hits] == pytest.approx(list(alone), abs=1e-5)
    assert index.query("who was there", top_k=3, rerank=path, rerank_depth=3) != []
    ranking = index.rank("who was there", top_k=2, rerank=reranker)
    assert [score for _, score in ranking] == sorted((score for _, score in ranking), reverse=True)
    assert {name for name, _ in ranking} == {"a", "b"}


def test_evaluation(made, folder, program):
    path, _ = made
    found = longformer_cpp.load(folder("tiny_bert")).evaluate(folder("retrieval"), task="retrieval", truncate=True, rerank=str(path))
    (row,) = program("evaluate", folder("tiny_bert"), folder("retrieval"), "--task", "retrieval", "--truncate", "--rerank", path, "--json")
    assert found.metrics == pytest.approx(row["metrics"]) and found.counts["reranked_passages"] == row["reranked_passages"] > 0


def test_what_does_not_fit(made, folder):
    path, _ = made
    reranker = longformer_cpp.Reranker(path)
    with pytest.raises(longformer_cpp.Error, match="one class"):
        longformer_cpp.Reranker(folder("tiny_longformer_classifier"))
    with pytest.raises(longformer_cpp.Error, match=r"pairs\[1\]: expected a query and a text, found 1"):
        reranker.predict([("a", "b"), ("a",)])
    with pytest.raises(TypeError, match=r"texts\[1\]"):
        reranker("who", ["a", None])
    with pytest.raises(longformer_cpp.Error, match="top.n"):
        reranker("who", ["a"], top_n=0)
