"""Vectors for LangChain, in the process: no server.

    from longformer_cpp.langchain import LongformerEmbeddings

    embeddings = LongformerEmbeddings("folder")
    vector = embeddings.embed_query("Who was in the house?")

`import longformer_cpp` does not load this module.
"""

from __future__ import annotations

import os
from typing import Any

try:
    from langchain_core.embeddings import Embeddings
except ModuleNotFoundError as error:
    raise ImportError("longformer_cpp.langchain needs langchain-core: pip install langchain-core") from error

from ._checks import as_text, as_texts
from ._corpora import BatchEmbedder
from ._options import options_of_call

__all__ = ["LongformerEmbeddings"]


class LongformerEmbeddings(Embeddings):
    """The vectors of a folder, with its prompts for queries and documents. Options are those of BatchEmbedder: a long
    text is read whole unless long="truncate" or "refuse". A text that cannot be read raises an exception."""

    @options_of_call(BatchEmbedder.__init__, "column", "output", "passages", "fixed_size", "strict", "error", "prompt_name")
    def __init__(self, folder: str | os.PathLike[str], **options: Any) -> None:
        self._documents = BatchEmbedder(folder, **{"prompt_name": "document", **options, "strict": True})
        self._queries = BatchEmbedder(folder, **{**options, "prompt_name": "query", "strict": True})

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector.tolist() for vector in self._documents.embed_text(as_texts(texts, "texts")) if vector is not None]

    def embed_query(self, text: str) -> list[float]:
        [vector] = self._queries.embed_text([as_text(text, "text")])
        return [] if vector is None else vector.tolist()
