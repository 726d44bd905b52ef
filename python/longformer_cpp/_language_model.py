"""Language models of characters or tokens, which `pretrain_lm` trains."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _native
from ._checks import as_path, as_text, lasting_name
from ._options import described


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

    @described("evaluate_language_model")
    def evaluate(self, data: str | os.PathLike[str], **options: Any) -> LanguageModelScore:
        """How well it predicts the text of a file, with the options of `longformer evaluate` for language models:
        part, streaming, characters, window_characters, step_characters, memory_length, losses=True and so on."""
        return LanguageModelScore(**self._native.evaluate(as_path(data, "data"), options))
