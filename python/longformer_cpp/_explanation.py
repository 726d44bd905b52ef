"""Why a classifier decided so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._arrays import FloatArray

if TYPE_CHECKING:
    import numpy as np
else:
    from ._numpy import np


@dataclass(frozen=True)
class AttributedText:
    """A word or a sentence, text[begin:end] of its document, and what it adds to the logit of the class."""

    begin: int
    end: int
    text: str
    value: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a document has a class: the share of each part in the logit of the class. Positive values speak for it, negative
    ones against it."""

    #: gradient, integrated or occlusion.
    method: str
    label: str
    logit: float
    score: float
    #: Score of every class, best first.
    scores: dict[str, float]
    #: The tokens of the text, without special ones: ids [n], characters [n, 2], and values [n], none of occlusion.
    ids: np.ndarray[Any, np.dtype[np.int32]]
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    values: FloatArray
    #: Each word has the sum of its tokens; none of occlusion.
    words: list[AttributedText]
    sentences: list[AttributedText]
    #: pad, mask or zero; of occlusion remove or mask.
    baseline: str
    #: Integrated gradients: points, logit of the baseline, sum of all values, and by how much it misses
    #: logit - baseline_logit.
    steps: int
    baseline_logit: float
    sum: float
    error: float
    #: Whether the error is within the tolerance.
    complete: bool
    #: Tokens of the document with special ones, those that were cut off, and segments that were read.
    tokens: int
    truncated: int
    segments: int


def _parts(text: str, parts: list[tuple[int, int, float]]) -> list[AttributedText]:
    return [AttributedText(begin, end, text[begin:end], value) for begin, end, value in parts]


def explanation_of(text: str, record: tuple[Any, ...]) -> Explanation:
    """The record of the native module as an object."""
    read, method, label, logit, score, ids, offsets, values, words, sentences, sums = record
    scores, _, tokens, truncated, segments = read
    baseline, steps, baseline_logit, total, error, complete = sums
    return Explanation(
        method,
        label,
        logit,
        score,
        dict(scores),
        np.array(ids, np.int32),
        np.array(offsets, np.int64).reshape(-1, 2),
        values,
        _parts(text, words),
        _parts(text, sentences),
        baseline,
        steps,
        baseline_logit,
        total,
        error,
        complete,
        tokens,
        truncated,
        segments,
    )
