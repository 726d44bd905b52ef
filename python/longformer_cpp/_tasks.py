"""What models say of documents, and how well."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from . import _native
from ._native import Error


@dataclass(frozen=True)
class Mention:
    """A mention: text[begin:end]."""

    begin: int
    end: int
    text: str


class CoreferenceResolver:
    """Finds which mentions of a document mean the same, in documents of any length.

    resolver = longformer_cpp.CoreferenceResolver("folder")
    for cluster in resolver("Ada met Tom. She gave him her book."):
        print([mention.text for mention in cluster])

    The folder has a coreference head: `longformer finetune --task coreference` makes it, and those of
    fastcoref are read.
    """

    def __init__(self, folder: str | os.PathLike[str], dtype: str = "fp32", threads: int = 0):
        self._native = _native.CoreferenceResolver(os.fspath(folder), dtype, threads)

    def __call__(
        self,
        text: str,
        segments: str | None = None,
        max_segment_length: int | None = None,
        stride: int | None = None,
        singletons: bool = True,
    ) -> list[list[Mention]]:
        """The clusters of a text, in the order in which their first mentions begin. Segments are overlapping,
        by stride tokens (128, or a quarter of a short segment), or independent; without singletons, what is mentioned once is left out."""
        return self.resolve([text], segments, max_segment_length, stride, singletons)[0]

    def resolve(
        self,
        texts: Sequence[str],
        segments: str | None = None,
        max_segment_length: int | None = None,
        stride: int | None = None,
        singletons: bool = True,
    ) -> list[list[list[Mention]]]:
        """The clusters of each text."""
        if isinstance(texts, str):
            raise Error("texts: expected a list of texts, found a text")
        found = self._native.resolve(list(texts), segments or "", max_segment_length or 0, stride, singletons)
        return [[[Mention(*mention) for mention in cluster] for cluster in clusters] for clusters in found]


@dataclass(frozen=True)
class Answer:
    """An answer: text[begin:end] of a document. Scores are shares of their document, logits compare over
    documents."""

    document: int
    score: float
    logit: float
    begin: int
    end: int
    text: str


class QuestionAnswerer:
    """Answers questions with spans of documents.

    answerer = longformer_cpp.QuestionAnswerer("folder")
    best = answerer("Who was studied?", papers, stride=128, best=True)[0]
    """

    def __init__(self, folder: str | os.PathLike[str], dtype: str = "fp32", threads: int = 0):
        self._native = _native.QuestionAnswerer(os.fspath(folder), dtype, threads)

    def __call__(
        self,
        question: str,
        documents: str | Sequence[str],
        top_k: int = 1,
        max_answer_tokens: int = 30,
        truncate: bool = False,
        stride: int | None = None,
        best: bool = False,
    ) -> list[Answer]:
        """The top_k answers of each document in turn, or with best those of all documents, by logit. A
        document that is longer than the model is an error unless truncate cuts it, or stride reads it in
        segments that share so many tokens."""
        texts = [documents] if isinstance(documents, str) else list(documents)
        found = self._native.answer(question, texts, top_k, max_answer_tokens, truncate, stride, best)
        return [Answer(*answer) for answer in found]


@dataclass(frozen=True)
class Choice:
    """The number of the best choice, and the probability of each."""

    best: int
    probabilities: list[float]


class Chooser:
    """Chooses the best of several answers to a question: multiple choice, or candidates that are read together
    (WikiHop).

    chooser = longformer_cpp.Chooser("folder")
    chooser("country", ["France", "Spain"], supports=["Paris is …", "…"], stride=0).best
    """

    def __init__(self, folder: str | os.PathLike[str], dtype: str = "fp32", threads: int = 0):
        self._native = _native.Chooser(os.fspath(folder), dtype, threads)

    def __call__(
        self,
        question: str,
        choices: Sequence[str],
        context: str = "",
        supports: Sequence[str] = (),
        truncate: bool = False,
        stride: int | None = None,
    ) -> Choice:
        """The best of the choices. What is too long for the model is an error unless truncate cuts the
        context, or stride, of candidates alone, reads it in parts."""
        best, probabilities = self._native.choose(question, list(choices), context, list(supports), truncate, stride)
        return Choice(best, probabilities)


def score(
    predictions: str | os.PathLike[str],
    data: str | os.PathLike[str],
    task: str | None = None,
    singletons: bool = True,
    split: str = "test",
    keep_identical_ids: bool = False,
) -> dict[str, float]:
    """The official numbers of a file of predictions in the form that the task's authors published, without a
    model. The data tell the task unless it is given; without singletons, clusters of one mention count on
    neither side. Of a run over a corpus (task "retrieval") split names the judgements, and a document that has
    the id of its query counts only with keep_identical_ids."""
    numbers = _native.score(
        os.fspath(predictions), os.fspath(data), task or "", singletons, split, keep_identical_ids
    )
    return dict(numbers)
