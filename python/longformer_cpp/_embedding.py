"""Texts to vectors, with the names of sentence-transformers."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native
from ._arrays import FloatArray
from ._batches import Vectors
from ._checks import as_count, as_items, as_one_or_more, as_text, found, given
from ._native import Error
from ._options import described, options_of_call
from ._tables import batch_of, is_table, table_texts, with_results

if TYPE_CHECKING:
    import numpy as np

    from . import Model
else:
    from ._numpy import np

#: Result of one text: vectors [rows, size], characters, tokens, and tokens that were cut.
_Vectors = tuple[FloatArray, list[tuple[int, int]], int, int]


@dataclass(frozen=True)
class Passages:
    """The passages of a document and their vectors."""

    #: [passages, embedding size].
    embeddings: FloatArray
    #: (begin, end) in characters of the document.
    spans: list[tuple[int, int]]
    texts: list[str]
    #: Tokens of the document with its prompt and special ones.
    tokens: int

    def __len__(self) -> int:
        return len(self.spans)

    def __repr__(self) -> str:
        return f"Passages({len(self)} of {self.tokens} tokens, vectors of {self.embeddings.shape[1]})"


@dataclass(frozen=True)
class SparseVector:
    """Weights of entries of the vocabulary."""

    #: Ids of the entries, ascending, int64 [n].
    indices: Any
    #: float32 [n].
    values: FloatArray

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"SparseVector({len(self)} weights)"

    def dot(self, other: SparseVector) -> float:
        """The product of two vectors: how well a text answers a query."""
        _, mine, theirs = np.intersect1d(self.indices, other.indices, return_indices=True)
        return float(self.values[mine] @ other.values[theirs])


def _progress(total: int) -> Callable[[int], None]:
    """A line on stderr that tells how many texts are done."""

    def show(done: int) -> None:
        end = "\n" if done == total else ""
        print(f"\rvectors of {done} of {total} texts", end=end, file=sys.stderr, flush=True)

    return show


def _as_tensor(array: FloatArray) -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise Error("convert_to_tensor: expected torch to be installed, found none") from None
    return torch.from_numpy(array)


class Embedder:
    """Makes vectors of texts, equal to those of `longformer embed`, and of sentence-transformers for its folders.

    embedder = longformer_cpp.Embedder("folder")
    vectors = embedder.encode(["one text", "another one"])     # float32 [2, embedding size]

    It shares the weights of a model that is given in place of a folder.
    """

    def __init__(self, model: Any, dtype: str = "fp32", threads: int = 0, adapter: Any = None):
        from . import Model, load

        self.model: Model = model if isinstance(model, Model) else load(model, dtype, threads, adapter)
        self._native = _native.Embedder(self.model._native)

    def __reduce__(self) -> Any:
        return Embedder, (self.model,)

    def __repr__(self) -> str:
        return f"Embedder({self.model._source[0]!r}: vectors of {self.embedding_size}, texts of {self.max_length} tokens)"

    @property
    def embedding_size(self) -> int:
        """Elements of a vector."""
        return self._native.size(None)

    @property
    def max_length(self) -> int:
        """Longest text in tokens, with prompt and special tokens."""
        return self._native.max_length

    @property
    def similarity_fn_name(self) -> str:
        """Comparison of vectors that the folder names: cosine, dot, euclidean or manhattan."""
        return self._native.similarity

    def similarity(self, embeddings1: Any, embeddings2: Any) -> FloatArray:
        """The similarities [n, m] of vectors [n, size] and [m, size] by similarity_fn_name; larger is nearer."""
        first, second = (np.atleast_2d(np.asarray(rows, np.float32)) for rows in (embeddings1, embeddings2))
        name = self.similarity_fn_name
        if name in ("euclidean", "manhattan"):
            order = 2 if name == "euclidean" else 1
            return np.stack([-np.linalg.norm(second - row, order, axis=1) for row in first]).astype(np.float32)
        if name == "cosine":
            first, second = (
                rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (first, second)
            )
        return first @ second.T

    def prompt(self, name: str) -> str:
        """The prompt of this name; "query" and "document" always exist."""
        return self._native.prompt(as_text(name, "name"))

    @described("encode")
    def encode(
        self,
        sentences: Any,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        output_value: str | None = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | None = None,
        normalize_embeddings: bool | None = None,
        truncate_dim: int | None = None,
        *,
        pooling: str | None = None,
        max_length: int | None = None,
        truncate: bool = False,
        split: bool = False,
        global_attention: str | None = None,
        batch_tokens: int = 16384,
        text_field: str = "text",
    ) -> Any:
        """The vectors of texts, float32 [texts, embedding size]; of a single text [embedding size]. The first
        keywords are those of sentence-transformers: with output_value "token_embeddings" a list of arrays
        [tokens, hidden size], with convert_to_numpy False a list of vectors. normalize_embeddings None: as the
        folder says. The others are those of `longformer embed`: a text that is too long is an error unless
        truncate keeps its beginning, or split reads it in segments. batch_size is how many texts are in work
        at a time, and changes no vector. A table, whose texts are in the column text_field, comes back with the
        column embedding."""
        table = batch_of(sentences) if is_table(sentences) else None
        texts = as_one_or_more(sentences, "sentences") if table is None else table_texts(table, text_field)
        if precision != "float32":
            raise Error(f"precision: expected float32, found {found(precision)}")
        if device not in (None, "cpu"):
            raise Error(f"device: expected cpu, found {found(device)}")
        if output_value not in ("sentence_embedding", "token_embeddings", None):
            raise Error(
                f"output_value: expected sentence_embedding, token_embeddings or None, found {found(output_value)}"
            )
        if batch_size is not None and (not isinstance(batch_size, (int, np.integer)) or batch_size < 1):
            raise TypeError(f"batch_size: expected an integer of at least 1, found {found(batch_size)}")
        options = {
            "prompt_name": prompt_name,
            "prompt": prompt,
            "normalize": normalize_embeddings,
            "truncate_dim": None if truncate_dim is None else as_count(truncate_dim, "truncate_dim", least=1),
            "pooling": pooling,
            "max_length": max_length,
            "truncate": truncate,
            "split": split,
            "global_attention": global_attention,
            "batch_tokens": batch_tokens,
        }
        if output_value == "token_embeddings":
            options["pooling"] = "tokens"
        per_token = options["pooling"] == "tokens"
        if table is not None and (per_token or output_value is None or convert_to_tensor):
            raise Error("sentences: expected texts for what is no vector for each text, found a table")
        vectors = self._vectors(texts, options, batch_size, show_progress_bar)
        if per_token:
            results = [_as_tensor(rows) if convert_to_tensor else rows for rows, *_ in vectors]
            return results[0] if isinstance(sentences, str) else results
        rows = [row for row, *_ in vectors]
        width = self._native.size(truncate_dim)
        matrix = np.concatenate(rows) if rows else np.zeros((0, width), np.float32)
        if table is not None:
            return with_results(table, {"embedding": Vectors(list(matrix), width)})
        if output_value is None:
            return [
                {"sentence_embedding": vector, "tokens": tokens, "truncated": cut}
                for vector, (_, _, tokens, cut) in zip(matrix, vectors)
            ]
        if isinstance(sentences, str):
            return _as_tensor(matrix[0]) if convert_to_tensor else matrix[0]
        if convert_to_tensor:
            return _as_tensor(matrix)
        return matrix if convert_to_numpy else list(matrix)

    def _vectors(
        self, texts: list[str], options: dict[str, Any], batch_size: int | None, shows: bool
    ) -> list[_Vectors]:
        size = int(batch_size or len(texts) or 1)
        show = _progress(len(texts)) if shows else None
        results: list[_Vectors] = []
        for begin in range(0, len(texts), size):

            def report(done: int, _total: int, begin: int = begin) -> None:
                if show is not None:
                    show(begin + done)

            batch = texts[begin : begin + size]
            try:
                results += self._native.embed(batch, options, None if show is None else report)
            except Error as error:
                if error.document is not None:
                    error.document += begin
                raise
        return results

    @options_of_call(encode)
    def encode_query(self, sentences: Any, **options: Any) -> Any:
        """encode with the prompt "query" of the folder."""
        return self.encode(sentences, **{"prompt_name": "query", **options})

    @options_of_call(encode)
    def encode_document(self, sentences: Any, **options: Any) -> Any:
        """encode with the prompt "document" of the folder."""
        return self.encode(sentences, **{"prompt_name": "document", **options})

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of vectors that the folder was made for: dense, sparse, multi."""
        return tuple(self._native.kinds.split(","))

    @described("encode", "encode_sparse")
    def encode_sparse(
        self,
        sentences: str | Sequence[str],
        as_query: bool = False,
        top_k: int | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        max_length: int | None = None,
        truncate: bool = False,
        split: bool = False,
        global_attention: str | None = None,
        batch_tokens: int = 16384,
    ) -> Any:
        """The weights of entries of the vocabulary, a SparseVector for each text, as SparseEncoder of
        sentence-transformers has them: SPLADE, bge-m3's lexical weights, a table of weights for queries. Of another
        folder with a masked-LM head they are those of SPLADE, max(log(1 + relu))."""
        options = given(locals(), "sentences")
        rows = self._native.embed_sparse(as_one_or_more(sentences, "sentences"), options)
        found = [SparseVector(np.asarray(tokens, np.int64), weights) for tokens, weights in rows]
        return found[0] if isinstance(sentences, str) else found

    @described("encode", "encode_sparse")
    def encode_multi(
        self,
        sentences: str | Sequence[str],
        as_query: bool = False,
        prompt_name: str | None = None,
        prompt: str | None = None,
        max_length: int | None = None,
        truncate: bool = False,
        split: bool = False,
        global_attention: str | None = None,
        batch_tokens: int = 16384,
    ) -> Any:
        """A vector for each token that counts, float32 [tokens, size] for each text, as MultiVectorEncoder of
        sentence-transformers has them: ColBERT, PyLate, bge-m3's third head."""
        rows = self._native.embed_multi(as_one_or_more(sentences, "sentences"), given(locals(), "sentences"))
        found = [vectors for vectors, *_ in rows]
        return found[0] if isinstance(sentences, str) else found

    def max_sim(self, query: FloatArray, document: FloatArray) -> float:
        """The score of a document for a query, both of encode_multi: the largest product of each vector of the query,
        summed; or their mean where the folder says meanmaxsim."""
        best = (query @ document.T).max(axis=1)
        return float(best.mean() if self._native.scores_mean else best.sum())

    @described("encode", "encode_passages")
    def encode_passages(
        self,
        text: str,
        passage_tokens: int = 128,
        context: str | None = None,
        overlapping_passages: bool = False,
        overlap_tokens: int = 512,
        prompt: str | None = None,
        prompt_name: str | None = None,
        normalize: bool | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        global_attention: str | None = None,
        batch_tokens: int = 16384,
    ) -> Passages:
        """The passages of a document of any length, of about so many tokens, that end with a sentence or word. With
        context "none" each is a text of its own, with "document" it is pooled from the states of the document
        around it, whose segments overlap by overlap_tokens; None: as the folder says."""
        return self._passages(text, self._native.embed_passages(as_text(text, "text"), given(locals(), "text")))

    @described("encode")
    def encode_spans(
        self,
        text: str,
        spans: Sequence[tuple[int, int]],
        prompt: str | None = None,
        prompt_name: str | None = None,
        normalize: bool | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        global_attention: str | None = None,
        batch_tokens: int = 16384,
    ) -> Passages:
        """Embeds passages that are given by their characters (begin, end), in the context of the document."""
        items = as_items(spans, "spans", "a list of (begin, end)")
        try:
            pairs = [(int(begin), int(end)) for begin, end in items]
        except (TypeError, ValueError):
            raise TypeError(f"spans: expected a list of (begin, end), found {found(spans)}") from None
        options = given(locals(), "text", "spans", "items", "pairs")
        return self._passages(text, self._native.embed_spans(as_text(text, "text"), pairs, options))

    @staticmethod
    def _passages(text: str, vectors: _Vectors) -> Passages:
        embeddings, spans, tokens, _ = vectors
        return Passages(embeddings, spans, [text[begin:end] for begin, end in spans], tokens)
