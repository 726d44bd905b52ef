"""Longformer, BERT and RoBERTa encoders for long documents: a Hugging Face checkpoint folder in,
exact numbers out.

    model = longformer_cpp.load("folder")
    tokenizer = longformer_cpp.Tokenizer("folder")
    out = model([tokenizer.encode(text).ids for text in texts])
    out.last_hidden_state[0]      # float32 [tokens of the first text, hidden size]

Arrays go in as numpy arrays, as anything that speaks DLPack (torch tensors, …), or as lists of
numbers, and come out as numpy arrays. The GIL is released while the library computes; calls of one
model from several threads take turns. What cannot be used raises Error with one line that says what
was expected and what was found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import Error

__all__ = [
    "Encoding",
    "Error",
    "Model",
    "ModelOutput",
    "Tokenizer",
    "__version__",
    "band_attention",
    "convert",
    "load",
]

__version__ = _native.version

FloatArray = npt.NDArray[np.float32]
IntegerArray = npt.NDArray[np.int32]
# [batch, n] arrays are padded; lists of 1-D arrays are ragged.
Batched = Union[FloatArray, list[FloatArray]]
Document = tuple[
    IntegerArray,
    Optional[IntegerArray],
    Optional[IntegerArray],
    Optional[IntegerArray],
    Optional[IntegerArray],
]


def _array(value: Any, name: str) -> npt.NDArray[Any]:
    """A numpy array over the values, without a copy where there is a buffer to share."""
    if isinstance(value, np.ndarray):
        return value
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        return np.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise Error(f"{name}: expected an array of numbers in main memory: {error}") from error


def _integers(value: Any, name: str) -> IntegerArray:
    array = _array(value, name)
    if array.size and array.dtype.kind not in "iub":
        raise Error(f"{name}: expected integers, found {array.dtype}")
    limits = np.iinfo(np.int32)
    if array.size and array.dtype.itemsize >= 4 and array.dtype != np.int32:
        low, high = array.min(), array.max()
        if low < limits.min or high > limits.max:
            raise Error(f"{name}: expected numbers of 32 bits, found {low if low < limits.min else high}")
    return np.asarray(array, dtype=np.int32, order="C")


def _floats(value: Any, name: str) -> FloatArray:
    array = _array(value, name)
    if array.ndim != 3:
        raise Error(f"{name}: expected [heads, n, head_size], found {_shape(array)}")
    if array.dtype.kind != "f":
        raise Error(f"{name}: expected float32, found {array.dtype}")
    return np.asarray(array, dtype=np.float32, order="C")


def _shape(array: npt.NDArray[Any]) -> str:
    return str(list(array.shape))


def _rows(value: Any, name: str, ids: list[IntegerArray], ragged: bool) -> list[IntegerArray | None]:
    """One mask per document, in the form that the ids have."""
    if value is None:
        return [None] * len(ids)
    if not ragged:
        array = _integers(value, name)
        expected = (len(ids), len(ids[0]))
        if array.shape != expected:
            raise Error(f"{name}: expected {list(expected)} as input_ids, found {_shape(array)}")
        return list(array)
    if len(value) != len(ids):
        raise Error(f"{name}: expected {len(ids)} arrays as input_ids, found {len(value)}")
    rows: list[IntegerArray | None] = []
    for i, (row, row_ids) in enumerate(zip(value, ids)):
        if row is None:
            rows.append(None)
            continue
        array = _integers(row, f"{name}[{i}]")
        if array.shape != row_ids.shape:
            raise Error(f"{name}[{i}]: expected {_shape(row_ids)} as input_ids, found {_shape(array)}")
        rows.append(array)
    return rows


def _ids(input_ids: Any) -> tuple[list[IntegerArray], bool]:
    """The documents, and whether they came as a list."""
    if isinstance(input_ids, (list, tuple)):
        documents = [_integers(row, f"input_ids[{i}]") for i, row in enumerate(input_ids)]
        for i, document in enumerate(documents):
            if document.ndim != 1:
                raise Error(f"input_ids[{i}]: expected one document [n], found {_shape(document)}")
        ragged = True
    else:
        array = _integers(input_ids, "input_ids")
        if array.ndim == 3:
            raise Error("input_ids: [batch, choices, n] needs a multiple-choice head, this model has none")
        if array.ndim != 2:
            raise Error(f"input_ids: expected [batch, n] or a list of documents, found {_shape(array)}")
        documents = list(array)
        ragged = False
    if not documents:
        raise Error("input_ids: expected at least one document, found none")
    return documents, ragged


def _without_padding(document: Document) -> Document:
    """The document up to its last visible token; what follows is unspecified and costs nothing."""
    mask = document[1]
    if mask is None or mask.size == 0 or mask[-1] != 0:
        return document
    visible = np.flatnonzero(mask)
    end = int(visible[-1]) + 1 if visible.size else 1
    ids, attention, types, positions, global_attention = document
    return (
        ids[:end],
        mask[:end],
        None if types is None else types[:end],
        None if positions is None else positions[:end],
        None if global_attention is None else global_attention[:end],
    )


def _batched(rows: list[FloatArray], length: int | None) -> Batched:
    """The rows of all documents in the form of the input; rows after the last visible one are 0."""
    if length is None:
        return rows
    if len(rows) == 1 and len(rows[0]) == length:
        return rows[0][np.newaxis]
    batch = np.zeros((len(rows), length, rows[0].shape[1]), np.float32)
    for target, row in zip(batch, rows):
        target[: len(row)] = row
    return batch


class ModelOutput:
    """What a call of a model gives, named and laid out as in `transformers`.

    Matrices are float32 [batch, n, hidden size] for padded input and a list of [n_i, hidden size]
    for a list of documents. Rows where the attention mask is 0 are unspecified. What the model does
    not have is None.
    """

    last_hidden_state: Batched
    #: [batch, hidden size].
    pooler_output: FloatArray | None
    #: The embeddings, then the output of every layer; None unless asked for.
    hidden_states: tuple[Batched, ...] | None

    def __init__(self, model: _native.Model, documents: list[Document], length: int | None, hidden_states: bool):
        self._model, self._documents, self._length = model, documents, length
        results = model.forward(documents, hidden_states)
        self.last_hidden_state = _batched([state for state, _, _ in results], length)
        pooled = [pooler for _, pooler, _ in results if pooler is not None]
        self.pooler_output = np.stack(pooled) if pooled else None
        layers = zip(*(states for _, _, states in results))
        self.hidden_states = tuple(_batched(list(rows), length) for rows in layers) if hidden_states else None

    @cached_property
    def logits(self) -> Batched | None:
        """Masked-LM logits with the vocabulary as last dimension. Computed when first asked for, by
        another pass over the documents: a vocabulary of numbers per token is a lot."""
        if not self._model.has_masked_lm_head:
            return None
        return _batched([self._model.masked_lm_logits(d) for d in self._documents], self._length)


class Model:
    """A loaded checkpoint folder; `load` makes one."""

    def __init__(self, native: _native.Model):
        self._native = native

    def __call__(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        global_attention_mask: Any = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> ModelOutput:
        """Runs documents: integers [batch, n] (padded) or a list of 1-D arrays of any lengths
        (ragged), with masks of the same form. Padding at the end of a document costs nothing when
        the attention mask says so."""
        if output_attentions:
            raise Error("output_attentions: attention probabilities are not available from this library")
        ids, ragged = _ids(input_ids)
        masks = {
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "position_ids": position_ids,
            "global_attention_mask": global_attention_mask,
        }
        rows = [_rows(value, name, ids, ragged) for name, value in masks.items()]
        documents: list[Document] = list(zip(ids, *rows))
        length = None
        if not ragged:
            length = len(ids[0])
            documents = [_without_padding(document) for document in documents]
        return ModelOutput(self._native, documents, length, output_hidden_states)


def load(folder: str | os.PathLike[str], dtype: str = "fp32", threads: int = 0) -> Model:
    """Loads a Hugging Face checkpoint folder, or org/name[@revision] of the local Hub cache. dtype is fp32 or bf16; threads 0 takes what CPU
    affinity, the cgroup quota and OMP_NUM_THREADS allow."""
    return Model(_native.Model(os.fspath(folder), dtype, threads))


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

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """The tokenizer of a checkpoint folder, equal to Hugging Face `tokenizers`."""

    def __init__(self, folder: str | os.PathLike[str]):
        self._native = _native.Tokenizer.load(os.fspath(folder))

    def encode(
        self, text: str, pair: str | None = None, add_special_tokens: bool = True, max_length: int | None = None
    ) -> Encoding:
        """The tokens of a text or a pair of texts. Nothing is cut unless max_length says so."""
        native = self._native.encode(text, pair, add_special_tokens, max_length)
        return Encoding(
            ids=native.ids,
            offsets=native.offsets,
            type_ids=native.type_ids,
            special_tokens_mask=native.special_tokens_mask,
            sequence_ids=native.sequence_ids,
            truncated=native.truncated,
        )

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        """The text of the ids."""
        array = _integers(ids, "ids")
        if array.ndim != 1:
            raise Error(f"ids: expected [n], found {_shape(array)}")
        return self._native.decode(array, skip_special_tokens)

    @property
    def vocabulary_size(self) -> int:
        """Ids are below this number."""
        return self._native.vocabulary_size


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    max_positions: int | None = None,
    window: int | None = None,
    overwrite: bool = False,
    to: str = "safetensors",
    dtype: str | None = None,
) -> None:
    """Makes a Longformer folder of a BERT, RoBERTa or Longformer folder, with room for max_positions
    tokens and the total window per layer; None takes those of a Longformer, else 4096 and 512. `to` is
    safetensors or bin, dtype fp32, fp16, bf16 or None to keep it. It loads in `transformers` unchanged."""
    options = _native.ConvertOptions()
    options.max_positions = max_positions
    options.window = window
    options.overwrite = overwrite
    options.format = to
    options.dtype = dtype or ""
    _native.convert(os.fspath(source), os.fspath(target), options)


def band_attention(
    q: Any,
    k: Any,
    v: Any,
    window: int,
    dilation: int | Sequence[int] = 1,
    causal: bool = False,
    global_positions: Iterable[int] = (),
    backend: str = "fused",
) -> FloatArray:
    """Attention of every row to the keys around it, scaled by 1/sqrt(head_size).

    q, k, v and the result are float32 [heads, n, head_size]. window is total and even, or with
    causal the number of previous keys; dilation is one number or one per head. Global rows see
    everything and are seen by everything, each key counts once, and with causal nothing sees the
    future. backend is fused, loop, chunks or full.
    """
    query, key, value = _floats(q, "q"), _floats(k, "k"), _floats(v, "v")
    for array, name in ((key, "k"), (value, "v")):
        if array.shape != query.shape:
            raise Error(f"{name}: expected {_shape(query)} as q, found {_shape(array)}")
    dilations = _integers(dilation, "dilation").reshape(-1).tolist()
    positions = _integers(list(global_positions), "global_positions").reshape(-1).tolist()
    return _native.band_attention(query, key, value, window, dilations, causal, positions, backend)
