"""Texts to tokens and back."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from . import _native
from ._arrays import as_integers, shape_of
from ._checks import as_integer, as_path, as_text, as_texts, lasting_name
from ._native import Error


@dataclass(frozen=True)
class Encoding:
    """The tokens of a text or pair; every list has one element per token."""

    ids: list[int]
    #: (begin, end) in characters of the token's own text; (0, 0) for special tokens.
    offsets: list[tuple[int, int]]
    type_ids: list[int]
    #: 1 for tokens that the template added.
    special_tokens_mask: list[int]
    #: 0 for the text, 1 for its pair, None for special tokens.
    sequence_ids: list[int | None]
    #: How many tokens max_length removed.
    truncated: int
    _tokenizer: Tokenizer | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def tokens(self) -> list[str]:
        """Entries of the vocabulary, with their markers."""
        assert self._tokenizer is not None
        return [self._tokenizer.token(id) for id in self.ids]

    @property
    def attention_mask(self) -> list[int]:
        """1 for every token: nothing is padded."""
        return [1] * len(self.ids)


@dataclass(frozen=True)
class TokenStatistics:
    """How long documents are in tokens; shares are from 0 to 1."""

    documents: int
    tokens: int
    mean: float
    median: float
    p95: float
    max: int
    share_over_512: float
    share_over_4096: float


class Tokenizer:
    """The tokenizer of a checkpoint folder, equal to Hugging Face `tokenizers`. It can be pickled while the
    folder is there."""

    def __init__(self, folder: str | os.PathLike[str]):
        self._source = lasting_name(as_path(folder, "folder"))
        self._native = _native.Tokenizer.load(self._source)

    def __reduce__(self) -> Any:
        return Tokenizer, (self._source,)

    def __repr__(self) -> str:
        return f"Tokenizer({self._source!r}: {self.kind}, {self.vocabulary_size} tokens)"

    def encode(
        self, text: str, pair: str | None = None, add_special_tokens: bool = True, max_length: int | None = None
    ) -> Encoding:
        """The tokens of a text or a pair of texts. Nothing is cut unless max_length says so."""
        pairs = None if pair is None else [as_text(pair, "pair")]
        return self.encode_batch([as_text(text, "text")], pairs, add_special_tokens, max_length)[0]

    def encode_batch(
        self,
        texts: list[str],
        pairs: list[str] | None = None,
        add_special_tokens: bool = True,
        max_length: int | None = None,
    ) -> list[Encoding]:
        """Encodings of each text, or of each text and its pair."""
        texts = as_texts(texts, "texts")
        if pairs is not None:
            pairs = as_texts(pairs, "pairs")
            if len(pairs) != len(texts):
                raise Error(f"pairs: expected {len(texts)} as texts, found {len(pairs)}")
        options = {"add_special_tokens": add_special_tokens, "max_length": max_length}
        return [
            Encoding(
                ids=native.ids,
                offsets=native.offsets,
                type_ids=native.type_ids,
                special_tokens_mask=native.special_tokens_mask,
                sequence_ids=native.sequence_ids,
                truncated=native.truncated,
                _tokenizer=self,
            )
            for native in self._native.encode(texts, pairs, options)
        ]

    def statistics(self, texts: list[str], add_special_tokens: bool = True) -> TokenStatistics:
        """How long the texts are, as `longformer tokenize --stats` says it."""
        return TokenStatistics(**self._native.statistics(as_texts(texts, "texts"), bool(add_special_tokens)))

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        """The text of the ids."""
        array = as_integers(ids, "ids")
        if array.ndim != 1:
            raise Error(f"ids: expected [n], found {shape_of(array)}")
        return self._native.decode(array, bool(skip_special_tokens))

    def token(self, id: int) -> str:
        """The vocabulary entry of an id."""
        return self._native.token(as_integer(id, "id"))

    def id(self, token: str) -> int | None:
        """The id of a vocabulary entry; None where there is none."""
        return self._native.id(as_text(token, "token"))

    @property
    def vocabulary_size(self) -> int:
        """Ids are below this number."""
        return self._native.vocabulary_size

    @property
    def kind(self) -> str:
        """byte-level BPE, WordPiece or Unigram."""
        return self._native.kind

    @property
    def max_tokens(self) -> int | None:
        """The longest document that the model of the folder takes, in tokens with the special ones; None where
        the folder has no model."""
        try:
            return int(_native.info(self._source)["max_tokens"])
        except Error:
            return None
