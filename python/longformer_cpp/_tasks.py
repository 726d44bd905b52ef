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


def score(
    predictions: str | os.PathLike[str], data: str | os.PathLike[str], task: str | None = None, singletons: bool = True
) -> dict[str, float]:
    """The official numbers of a file of predictions in the form that the task's authors published, without a
    model. The data tell the task unless it is given; without singletons, clusters of one mention count on
    neither side."""
    return dict(_native.score(os.fspath(predictions), os.fspath(data), task or "", singletons))
