"""Language models of characters or tokens, which `pretrain_lm` trains."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native
from ._arrays import FloatArray
from ._checks import as_path, as_text, lasting_name
from ._options import described

if TYPE_CHECKING:
    import numpy as np
else:
    from ._numpy import np


@dataclass(frozen=True)
class LanguageModelScore:
    """How well a language model predicts a text."""

    #: bpc, loss, and what else the model has: docs/cli.md.
    metrics: dict[str, float]
    #: Characters or tokens that were scored.
    characters: int
    seconds: float
    #: For each layer six numbers of compressed rows, memory and segment; empty unless asked for.
    attention_shares: list[tuple[list[float], list[float], list[float]]]
    #: Bytes and loss in nats of each character or token but the first; empty unless asked for.
    losses: list[tuple[int, float]]


@dataclass(frozen=True, eq=False)
class LanguageModelOutput:
    """States of a language model over a text of n tokens (or characters)."""

    ids: np.ndarray[Any, np.dtype[np.int32]]
    #: Characters of the text, [n, 2], and the bytes of each token.
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    tokens: list[bytes]
    #: [n, D], of a Reformer [n, 2 D].
    last_hidden_state: FloatArray
    #: [n, V], of the token that follows each.
    logits: FloatArray
    #: [n, D] each: the embeddings, then the output of every layer; None unless asked for.
    hidden_states: tuple[FloatArray, ...] | None
    #: For each chosen layer [heads, n, n]: row i says what token i attends to; None unless asked for.
    attentions: tuple[FloatArray, ...] | None
    #: For each chosen layer [heads, n, rows]: attention to compressed rows of a memory, oldest first; None unless asked
    #: for, and where there are none.
    compressed_attentions: tuple[FloatArray, ...] | None


def _by_layer(maps: list[tuple[int, int, FloatArray, FloatArray]], which: int) -> tuple[FloatArray, ...]:
    layers = sorted({layer for layer, *_ in maps})
    return tuple(np.stack([one[which] for one in maps if one[0] == layer]) for layer in layers)


class LanguageModel:
    """A folder that `longformer pretrain-lm` wrote. It can be pickled while the folder is there."""

    def __init__(self, folder: str | os.PathLike[str], dtype: str = "fp32", threads: int = 0):
        self._source = (lasting_name(as_path(folder, "folder")), dtype, threads)
        self._native = _native.LanguageModel(self._source[0], {"dtype": dtype, "threads": threads})

    def __reduce__(self) -> Any:
        return LanguageModel, self._source

    def __repr__(self) -> str:
        info = self.info
        return f"LanguageModel({self._source[0]!r}: {info['attention']}, {info['alphabet']}, {info['parameters']} parameters)"

    @property
    def info(self) -> dict[str, Any]:
        """Result of `longformer info` for the model."""
        return dict(self._native.info)

    def generate(
        self,
        prompt: str = "",
        characters: int = 200,
        temperature: float = 1.0,
        top_k: int = 0,
        seed: int = 1,
        callback: Callable[[bytes], object] | None = None,
    ) -> str:
        """So many characters, or tokens, that follow the prompt, as `longformer generate` draws them. The callback
        gets the bytes as they are drawn."""
        options = {"characters": characters, "temperature": temperature, "top_k": top_k, "seed": seed}
        return self._native.generate(as_text(prompt, "prompt"), options, callback).decode(errors="replace")

    def __call__(
        self,
        text: str,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        layers: int | Sequence[int] | None = None,
        heads: int | Sequence[int] | None = None,
    ) -> LanguageModelOutput:
        """Reads a text and gives its states, and what each of the chosen layers and heads attends to: n² numbers for
        each. The attention of every kind of model is exact but for a BP-Transformer, which has none of tokens."""
        options = {"hidden_states": output_hidden_states, "attentions": output_attentions, "layers": layers, "heads": heads}
        ids, offsets, tokens, last, logits, states, maps = self._native.states(as_text(text, "text"), options)
        compressed = _by_layer(maps, 3)
        return LanguageModelOutput(
            np.array(ids, np.int32),
            np.array(offsets, np.int64).reshape(-1, 2),
            tokens,
            last,
            logits,
            tuple(states) if output_hidden_states else None,
            _by_layer(maps, 2) if output_attentions else None,
            compressed if any(one.shape[2] for one in compressed) else None,
        )

    @described("evaluate_language_model")
    def evaluate(self, data: str | os.PathLike[str], **options: Any) -> LanguageModelScore:
        """How well it predicts the text of a file, with the options of `longformer evaluate` for language models:
        part, streaming, characters, window_characters, step_characters, memory_length, losses=True and so on."""
        return LanguageModelScore(**self._native.evaluate(as_path(data, "data"), options))
