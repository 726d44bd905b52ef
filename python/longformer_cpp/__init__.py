"""Longformer, BERT and RoBERTa encoders and their heads for long documents: a Hugging Face checkpoint
folder in, exact numbers out.

    model = longformer_cpp.load("folder")
    tokenizer = longformer_cpp.Tokenizer("folder")
    out = model([tokenizer.encode(text).ids for text in texts])
    out.last_hidden_state[0]      # float32 [tokens of the first text, hidden size]
    model.encode(texts)           # float32 [texts, embedding size]

Arrays go in as numpy arrays, as anything that speaks DLPack (torch tensors, …), or as lists of
numbers, and come out as numpy arrays. The GIL is released while the library computes; calls of one
model from several threads share it, and a short one does not wait for a long one; Ctrl-C ends a call within a moment, and the model stays usable.
What cannot be used raises Error, and an argument of another type TypeError, with one line that says what
was expected and what was found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from . import _loading, _native  # the first loads the second
from ._arrays import FloatArray, as_floats, as_integers, as_result, empty_like, shape_of
from ._checks import as_integer, as_path, as_text
from ._corpora import BatchAnswerer, BatchClassifier, BatchEmbedder, BatchSummarizer, BatchTagger
from ._embedding import Embedder, Passages, SparseVector
from ._evaluation import Evaluation, LabelMetrics, Scores, score
from ._explanation import AttributedText, Explanation
from ._generation import GeneratedTexts, WrittenDocument, WrittenText
from ._hub import pull
from ._language_model import LanguageModel, LanguageModelOutput, LanguageModelScore
from ._measuring import (
    LayerDifference,
    ModelComparison,
    bench_attention,
    bench_generate,
    bench_model,
    bench_search,
    bench_train,
    compare_models,
    machine_name,
)
from ._model import Model, ModelOutput, load, loss_and_gradients
from ._multi_hop import AnswerSpan, Evidence, MultiHopAnswer, MultiHopAnswerer
from ._native import Error
from ._options import described as _described
from ._reranking import RankedText, RelevantSpan, Reranker
from ._search import IndexedDocument, RetrievedAnswer, RetrievedPart, RetrievedSummary, SearchHit, SearchIndex, read_document
from ._tasks import (
    Answer,
    Choice,
    Chooser,
    Classification,
    Classifier,
    ClassScore,
    Clusters,
    CoreferenceResolver,
    Entity,
    FilledMask,
    FilledText,
    MaskCandidate,
    MaskFiller,
    Mention,
    QuestionAnswerer,
    Tagger,
    conll_text,
)
from ._tokenizer import Encoding, Tokenizer, TokenStatistics
from ._training import CrossValidation, TrainingResult, cross_validate, finetune, pretrain_lm, pretrain_mlm

__all__ = [
    "Answer",
    "AnswerSpan",
    "AttributedText",
    "BatchAnswerer",
    "BatchClassifier",
    "BatchEmbedder",
    "BatchSummarizer",
    "BatchTagger",
    "Choice",
    "Chooser",
    "ClassScore",
    "Classification",
    "Classifier",
    "Clusters",
    "CoreferenceResolver",
    "CrossValidation",
    "Embedder",
    "Encoding",
    "Entity",
    "Error",
    "Evaluation",
    "Evidence",
    "Explanation",
    "FilledMask",
    "FilledText",
    "GeneratedTexts",
    "IndexedDocument",
    "LabelMetrics",
    "LanguageModel",
    "LanguageModelOutput",
    "LanguageModelScore",
    "LayerDifference",
    "MaskCandidate",
    "MaskFiller",
    "Mention",
    "Model",
    "ModelComparison",
    "ModelOutput",
    "MultiHopAnswer",
    "MultiHopAnswerer",
    "Passages",
    "QuestionAnswerer",
    "RankedText",
    "RelevantSpan",
    "Reranker",
    "RetrievedAnswer",
    "RetrievedPart",
    "RetrievedSummary",
    "Scores",
    "SearchHit",
    "SearchIndex",
    "SparseVector",
    "Tagger",
    "TokenStatistics",
    "Tokenizer",
    "TrainingResult",
    "WrittenDocument",
    "WrittenText",
    "__version__",
    "band_attention",
    "bench_attention",
    "bench_generate",
    "bench_model",
    "bench_search",
    "bench_train",
    "compare_models",
    "conll_text",
    "convert",
    "cross_validate",
    "finetune",
    "info",
    "load",
    "loss_and_gradients",
    "machine_name",
    "pretrain_lm",
    "pretrain_mlm",
    "pull",
    "read_document",
    "score",
]

__version__ = _native.version


def info(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Contents of a checkpoint folder, without loading it: the keys of `longformer info --json` (docs/cli.md)."""
    return dict(_native.info(as_path(folder, "folder")))


@_described("convert")
def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    max_positions: int | None = None,
    window: int | Sequence[int] | None = None,
    overwrite: bool = False,
    to: str = "safetensors",
    dtype: str | None = None,
    **options: Any,
) -> None:
    """Makes a Longformer folder of the folder of an encoder, with room for max_positions
    tokens and the total window of all layers, or of each; None takes those of a Longformer, else 4096
    and 512. `to` is longformer, linformer, performer, blockwise, sparse, big_bird or longformer-lm; safetensors and bin name the file of a
    Longformer. dtype is fp32, fp16, bf16, int8 (matrices of layers) or None to keep it. Options are those of `longformer convert`: format,
    merge_adapter, projected_length, features and so on. It loads in `transformers` unchanged."""
    given = {
        **options,
        "max_positions": max_positions,
        "window": window,
        "overwrite": overwrite,
        "to": to,
        "dtype": dtype,
    }
    _native.convert(as_path(source, "source"), as_path(target, "target"), given)


def band_attention(
    q: Any,
    k: Any,
    v: Any,
    window: int,
    dilation: int | Sequence[int] = 1,
    causal: bool = False,
    global_positions: Iterable[int] = (),
    backend: str = "fused",
    out: FloatArray | None = None,
) -> FloatArray:
    """Attention of every row to the keys around it, scaled by 1/sqrt(head_size).

    q, k, v and the result are float32 [heads, n, head_size]. window is total and even, or with
    causal the number of previous keys; dilation is one number or one per head. Global rows see
    everything and are seen by everything, each key counts once, and with causal nothing sees the
    future. backend is fused, loop, chunks, full, or opencl, which runs on the first GPU of OpenCL, or on its first device
    without a GPU. The result is written to out, a float32 array of its shape, and is out; without it each call takes new
    memory, which costs time.
    """
    query, key, value = as_floats(q, "q"), as_floats(k, "k"), as_floats(v, "v")
    for array, name in ((key, "k"), (value, "v")):
        if array.shape != query.shape:
            raise Error(f"{name}: expected {shape_of(query)} as q, found {shape_of(array)}")
    dilations = as_integers(dilation, "dilation").reshape(-1).tolist()
    positions = as_integers(list(global_positions), "global_positions").reshape(-1).tolist()
    options = {"window": as_integer(window, "window"), "dilation": dilations, "causal": bool(causal)}
    options |= {"global_positions": positions, "backend": as_text(backend, "backend")}
    result = empty_like(query) if out is None else as_result(out, (query, key, value), "out")
    _native.band_attention(query, key, value, result, options)
    return result
