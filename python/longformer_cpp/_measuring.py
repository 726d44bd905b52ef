"""How far two models are from each other, and how fast models are on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _native
from ._checks import as_integer, as_texts, given
from ._tasks import model_of


@dataclass(frozen=True)
class LayerDifference:
    """How far the hidden states of a layer are from each other."""

    #: Frobenius norm of the difference by that of the first model's states.
    relative_error: float
    #: Difference of a layer by itself, when it reads the input of the first model's layer.
    alone: float
    #: Mean over the texts of the cosine between the mean vectors of both.
    cosine: float


@dataclass(frozen=True)
class ModelComparison:
    """Layers with the embeddings first, and how many texts and tokens were read."""

    layers: list[LayerDifference]
    texts: int
    tokens: int


def compare_models(
    first: Any,
    second: Any,
    texts: list[str],
    max_length: int = 0,
    dtype: str = "fp32",
    threads: int = 0,
    adapter: Any = None,
) -> ModelComparison:
    """How far two encoders of one vocabulary are from each other on texts, layer by layer, as `longformer compare` says
    it. Both are loaded models, or folders, of which the second gets the adapter. Texts longer than max_length tokens
    (0: than either model reads) are cut."""
    one, other = model_of(first, dtype, threads, None), model_of(second, dtype, threads, adapter)
    read, longest = as_texts(texts, "texts"), as_integer(max_length, "max_length")
    layers, count, tokens = _native.compare_models(one._native, other._native, read, longest)
    return ModelComparison([LayerDifference(*layer) for layer in layers], count, tokens)


def bench_attention(
    *,
    n: int = 4096,
    heads: int = 12,
    head_size: int = 64,
    window: int = 512,
    dilation: int = 1,
    global_tokens: int = 0,
    causal: bool = False,
    backend: str = "fused",
    pass_: str = "forward",
    pattern: str = "band",
    rows: int = 256,
    features: int = 256,
    dtype: str = "fp32",
    threads: int = 0,
    repeats: int = 5,
) -> dict[str, Any]:
    """Times one layer of attention on random inputs, forward or backward (pass_): a band, or the pattern linformer with so
    many rows, or performer with so many features. The keys of the result are those of `longformer bench attention --json`,
    with the shortest and the longest time."""
    return _native.bench_attention(given(locals()))


def bench_model(
    model: Any = None,
    config: Any = None,
    *,
    n: int = 4096,
    global_tokens: int = 0,
    dtype: str = "fp32",
    threads: int = 0,
    repeats: int = 5,
) -> dict[str, Any]:
    """Times forward passes of a folder, or of random weights of a config.json, over one document of n random tokens."""
    return _native.bench_model(given(locals()))


def bench_train(
    model: Any = None,
    config: Any = None,
    *,
    n: int = 4096,
    text_tokens: int = 256,
    optim: str = "adamw",
    gradient_checkpointing: bool = False,
    lora_rank: int = 0,
    dtype: str = "fp32",
    threads: int = 0,
    repeats: int = 3,
) -> dict[str, Any]:
    """Times training steps of one document of n random tokens."""
    return _native.bench_train(given(locals()))


def bench_generate(
    model: Any = None,
    config: Any = None,
    *,
    n: int = 4096,
    new_tokens: int = 32,
    beams: int = 1,
    documents: int = 1,
    dtype: str = "fp32",
    threads: int = 0,
    repeats: int = 3,
) -> dict[str, Any]:
    """Times a model that writes texts about documents of n random tokens."""
    return _native.bench_generate(given(locals()))


def bench_search(
    *, passages: int = 1000000, vector_size: int = 384, top_k: int = 10, threads: int = 0, repeats: int = 21
) -> dict[str, Any]:
    """Times the scan of a dense search over random vectors in memory."""
    return _native.bench_search(given(locals()))


def machine_name(threads: int = 0) -> str:
    """Description of the machine to report with figures: the CPU, the number of threads and the instruction set of the
    kernels."""
    return _native.machine_name(as_integer(threads, "threads"))
