"""Texts in the order of their relevance to a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _native
from ._arrays import FloatArray
from ._checks import as_items, as_one_or_more, as_text, given
from ._native import Error
from ._options import described
from ._tasks import model_of


@dataclass(frozen=True)
class RelevantSpan:
    """A passage of a text, text[begin:end], with its own score."""

    begin: int
    end: int
    score: float


@dataclass(frozen=True)
class RankedText:
    """A text of a ranking."""

    #: Number among the texts, and the text.
    index: int
    text: str
    score: float
    #: The most relevant passages, best first, as many as relevant_spans asks for.
    relevant_spans: list[RelevantSpan]
    #: Tokens of query and text with special ones, those that were cut off, and segments that were read.
    tokens: int
    truncated: int
    segments: int


class Reranker:
    """A cross-encoder: a sequence-classification head of one class, which reads query and text together. Scores equal
    those of sentence-transformers' CrossEncoder.

    reranker = longformer_cpp.Reranker("folder")
    for one in reranker("How did the dog die?", texts, top_n=3):
        print(one.index, one.score)

    A text that is too long for the model is read in segments, and the best one counts; truncate=True cuts it, as
    the package does.
    """

    def __init__(self, model: Any, dtype: str = "fp32", threads: int = 0, adapter: Any = None):
        self.model = model_of(model, dtype, threads, adapter, "rerank")
        self._native = _native.Reranker(self.model._native)

    @described("rerank")
    def __call__(
        self,
        query: str,
        texts: str | Sequence[str],
        top_n: int | None = None,
        raw_scores: bool = False,
        relevant_spans: int = 0,
        span_threshold: float = 0.1,
        truncate: bool = False,
        stride: int | None = 128,
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
    ) -> list[RankedText]:
        """The texts by their relevance to the query, best first, with the options of `longformer rerank`
        (CrossEncoder.rank)."""
        options = given(locals(), "query", "texts")
        if truncate:
            options.pop("stride", None)
        checked = as_one_or_more(texts, "texts")
        return [
            RankedText(index, checked[index], score, [RelevantSpan(*span) for span in spans], *rest)
            for index, score, spans, *rest in self._native.rank(as_text(query, "query"), checked, options)
        ]

    def predict(
        self, pairs: Sequence[Sequence[str]], raw_scores: bool = False, truncate: bool = False, batch_tokens: int = 8192
    ) -> FloatArray:
        """The score of each pair of a query and a text, in order (CrossEncoder.predict)."""
        options = given(locals(), "pairs")
        queries, texts = [], []
        for i, pair in enumerate(as_items(pairs, "pairs", "a list of pairs of texts")):
            items = as_items(pair, f"pairs[{i}]", "a query and a text")
            if len(items) != 2:
                raise Error(f"pairs[{i}]: expected a query and a text, found {len(items)}")
            queries.append(as_text(items[0], f"pairs[{i}][0]"))
            texts.append(as_text(items[1], f"pairs[{i}][1]"))
        return self._native.predict(queries, texts, options)
