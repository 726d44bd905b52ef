"""Questions whose answers take several paragraphs, with the sentences that support them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _native
from ._checks import as_items, as_text, as_texts, found
from ._native import Error
from ._options import described
from ._tasks import model_of

#: Title, and text or sentences.
ParagraphLike = tuple[str, str | Sequence[str]]


@dataclass(frozen=True)
class Evidence:
    """A sentence of a paragraph, both from 0, that supports an answer."""

    paragraph: int
    sentence: int
    text: str
    #: Probability and logit.
    score: float
    logit: float


@dataclass(frozen=True)
class AnswerSpan:
    """Place of an answer: characters begin to end of a sentence, or of the title."""

    paragraph: int
    #: None: in the title.
    sentence: int | None
    begin: int
    end: int


@dataclass(frozen=True)
class MultiHopAnswer:
    """An answer with its evidence."""

    #: "yes", "no", or the text of a span; empty where there is none.
    text: str
    #: "span", "yes" or "no".
    type: str
    #: Probability of the type, of a span times those of its first and last token.
    score: float
    logit: float
    span: AnswerSpan | None
    #: In the order of the paragraphs.
    evidence: list[Evidence]
    #: One for each paragraph; minus infinity for those that were not read.
    paragraph_logits: list[float]
    #: Tokens that were cut off, and rows that were read.
    truncated: int
    rows: int


def _paragraph(value: Any, name: str) -> tuple[str, list[str]]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != 2:
        raise TypeError(f"{name}: expected (title, text), found {found(value)}")
    title, text = value
    if isinstance(text, str):
        return as_text(title, f"{name}[0]"), _native.sentences(as_text(text, f"{name}[1]"))
    return as_text(title, f"{name}[0]"), as_texts(text, f"{name}[1]")


class MultiHopAnswerer:
    """Answers questions over several paragraphs that are read together.

    answerer = longformer_cpp.MultiHopAnswerer("folder")
    found = answerer("Who is older?", [("Smith", "Smith was born in 1950."), ("Jones", "Jones was born in 1960.")])
    print(found.text, [sentence.text for sentence in found.evidence])

    `longformer finetune --task multihop` makes such folders.
    """

    def __init__(self, model: Any, dtype: str = "fp32", threads: int = 0, adapter: Any = None):
        self.model = model_of(model, dtype, threads, adapter)
        self._native = _native.MultiHopAnswerer(self.model._native)

    @described("answer_paragraphs")
    def __call__(
        self,
        question: str,
        paragraphs: Sequence[ParagraphLike],
        max_answer_tokens: int = 30,
        evidence_paragraphs: int = 2,
        too_long: str = "refuse",
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
    ) -> MultiHopAnswer:
        """Evidence is of so many paragraphs; 0: every sentence whose logit is above 0. What is longer than the
        model is an error unless too_long is "truncate", which cuts the end, or "split", which reads rows of as
        many whole paragraphs as fit. global_attention is "question" or "none"; None adds the marks of paragraphs
        and sentences to the question. Rows of one forward pass together hold at most batch_tokens (8,192)."""
        if too_long not in ("refuse", "truncate", "split"):
            raise Error(f"too_long: expected one of refuse, truncate, split, found {found(too_long)}")
        items = as_items(paragraphs, "paragraphs", "a list of (title, text)")
        read = [_paragraph(item, f"paragraphs[{i}]") for i, item in enumerate(items)]
        options = {
            "max_answer_tokens": max_answer_tokens,
            "evidence_paragraphs": evidence_paragraphs,
            "truncate": too_long == "truncate",
            "stride": 0 if too_long == "split" else None,
            "global_attention": global_attention,
            "batch_tokens": batch_tokens,
            "max_length": max_length,
        }
        answer = self._native.answer(as_text(question, "question"), read, options)
        text, kind, score, logit, span, evidence, logits, truncated, rows = answer
        return MultiHopAnswer(
            text=text,
            type=kind,
            score=score,
            logit=logit,
            span=None if span is None else AnswerSpan(span[0], None if span[1] < 0 else span[1], *span[2:]),
            evidence=[Evidence(p, s, read[p][1][s], 1 / (1 + math.exp(-value)), value) for p, s, value in evidence],
            paragraph_logits=logits,
            truncated=truncated,
            rows=rows,
        )
