"""Models that read a document and write a text: LED, BART, Pegasus and kin."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native
from ._arrays import Document, FloatArray, as_integers, documents_of, rows_like, shape_of, without_padding
from ._checks import as_one_or_more
from ._native import Error

if TYPE_CHECKING:
    import numpy as np
else:
    from ._numpy import np

# Meaning of None for options that a folder may switch on: off, as in `transformers`.
_OFF = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0,
        "epsilon_cutoff": 0.0, "eta_cutoff": 0.0}  # fmt: skip


@dataclass(frozen=True)
class WrittenText:
    """A text about a document."""

    #: Ids with the start token, and the end token if it was written.
    ids: list[int]
    #: For beams, the sequences_scores of transformers.
    score: float | None
    #: Why it ended: end_token, length, stop_string or time.
    end: str
    text: str


@dataclass(frozen=True)
class WrittenDocument:
    """The texts about a document, best first."""

    texts: list[WrittenText]
    #: Tokens of the document, those that were cut off, segments that were read, and tokens with global attention.
    tokens: int
    truncated: int
    segments: int
    global_tokens: int

    @property
    def text(self) -> str:
        """The best one."""
        return self.texts[0].text


class GeneratedTexts:
    """Result of generate: num_return_sequences texts for each document, best first."""

    #: [rows, longest]: the texts of all documents behind each other, filled with the padding token.
    sequences: np.ndarray[Any, np.dtype[np.int64]]
    #: [rows] with beams, else None.
    sequences_scores: FloatArray | None
    #: The ids of each text without filling.
    ids: list[list[int]]
    #: Why each text ended: end_token, length or time.
    ends: list[str]

    def __init__(self, documents: list[Any], pad_token_id: int):
        rows = [(ids, score, end) for texts, *_ in documents for ids, score, end, _ in texts]
        self.ids = [ids for ids, _, _ in rows]
        self.ends = [end for _, _, end in rows]
        scores = [score for _, score, _ in rows]
        self.sequences_scores = None if None in scores else np.array(scores, np.float32)
        self.sequences = np.full((len(rows), max(map(len, self.ids))), pad_token_id, np.int64)
        for row, ids in zip(self.sequences, self.ids):
            row[: len(ids)] = ids


class TextGenerator:
    """The part of a model that writes texts; its methods are those of Model."""

    def __init__(self, native: _native.TextGenerator) -> None:
        self._native = native

    @property
    def max_text_tokens(self) -> int:
        return self._native.max_text_tokens

    def _documents(self, input_ids: Any, attention_mask: Any, global_attention_mask: Any) -> list[Document]:
        ids, ragged = documents_of(input_ids)
        masks = rows_like(attention_mask, "attention_mask", ids, ragged)
        globals_ = rows_like(global_attention_mask, "global_attention_mask", ids, ragged)
        documents: list[Document] = [(i, m, None, None, g) for i, m, g in zip(ids, masks, globals_)]
        return documents if ragged else [without_padding(document) for document in documents]

    def logits(
        self, input_ids: Any, decoder_input_ids: Any, attention_mask: Any, global_attention_mask: Any
    ) -> list[FloatArray]:
        documents = self._documents(input_ids, attention_mask, global_attention_mask)
        texts, _ = documents_of(decoder_input_ids)
        if len(texts) != len(documents):
            raise Error(f"decoder_input_ids: expected {len(documents)} texts as input_ids, found {len(texts)}")
        return [self._native.logits(document, text) for document, text in zip(documents, texts)]

    def generate(
        self,
        input_ids: Any,
        attention_mask: Any,
        global_attention_mask: Any,
        decoder_input_ids: Any,
        seed: int,
        options: dict[str, Any],
    ) -> GeneratedTexts:
        documents = self._documents(input_ids, attention_mask, global_attention_mask)
        prompts = _for_each(decoder_input_ids, "decoder_input_ids", len(documents))
        options = _switched(options)
        starts = options.get("decoder_start_token_id")
        if isinstance(starts, (list, tuple)):
            ids = as_integers(starts, "decoder_start_token_id")
            starts = [row[0] for row in _for_each(ids.reshape(-1, 1), "decoder_start_token_id", len(documents))]
        else:
            starts = [starts] * len(documents)
        found: list[Any] = []
        # Documents that begin alike are written together.
        for (start, prompt), group in itertools.groupby(zip(starts, prompts, range(len(documents))), lambda one: one[:2]):
            numbers = [number for _, _, number in group]
            own = options if start is None else {**options, "decoder_start_token_id": start}
            batch = [documents[number] for number in numbers]
            found += self._native.generate(batch, own, (seed, numbers[0]), list(prompt))
        return GeneratedTexts(found, self._native.pad_token_id)

    def write(
        self,
        texts: str | Sequence[str],
        summarizes: bool,
        callback: Callable[[int, str], object] | None,
        options: dict[str, Any],
    ) -> list[WrittenDocument]:
        found = self._native.write(as_one_or_more(texts, "texts"), summarizes, _switched(options), callback)
        return [WrittenDocument([WrittenText(*text) for text in rows], *rest) for rows, *rest in found]


def _for_each(value: Any, name: str, documents: int) -> list[tuple[int, ...]]:
    """Beginning of the text of each document: one row for all documents, or one for each."""
    if value is None:
        return [()] * documents
    rows = np.atleast_2d(as_integers(value, name))
    if rows.ndim != 2 or len(rows) not in (1, documents):
        raise Error(f"{name}: expected one row for each of {documents} documents, or for all, found {shape_of(rows)}")
    prompts = [tuple(row.tolist()) for row in rows]
    return prompts * documents if len(prompts) == 1 else prompts


def _switched(options: dict[str, Any]) -> dict[str, Any]:
    """The options as JSON knows them, without None."""
    given = {name: _OFF.get(name) if value is None else value for name, value in options.items()}
    return {name: _plain(value) for name, value in given.items()}


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy and torch as what JSON knows."""
    return value.tolist() if hasattr(value, "tolist") else value
