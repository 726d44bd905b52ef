"""Search in whole documents by words and by meaning."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _native
from ._checks import as_path, as_text, counted, found, given
from ._embedding import Embedder
from ._native import Error
from ._options import described
from ._reranking import Reranker
from ._tables import batch_of, is_table, table_names, table_texts


@dataclass(frozen=True)
class SearchHit:
    """A passage: characters begin to end of a document."""

    file: str
    begin: int
    end: int
    #: Score that orders the hits.
    score: float
    #: Cosine of question and passage; None in a lexical search.
    similarity: float | None
    #: BM25 of the question's words; None in a dense search.
    words: float | None
    text: str
    #: (begin, end) in characters of `text` for what is a word of the question.
    matched: list[tuple[int, int]]
    #: Product of sparse vectors, and MaxSim of the vectors of tokens; None in a search without them.
    sparse: float | None = None
    multi: float | None = None
    #: ("page", 3, 4): pages, paragraphs or chapters, from the first to the last, of a file that the program has read.
    place: tuple[str, int, int] | None = None


@dataclass(frozen=True)
class IndexedDocument:
    """A document of an index."""

    file: str
    passages: int
    characters: int
    #: Hash of the text.
    hash: str
    #: When it was read, UTC.
    time: str


def read_document(file: str | os.PathLike[str], format: str = "auto") -> str:
    """The text of a file as `longformer search` reads it: of PDF, .docx, .odt, .epub, Markdown and HTML what a reader
    sees. PDF needs the program pdftotext (poppler-utils). Without a format of text ("text", "markdown" or "html") the name
    of the file tells it."""
    path = pathlib.Path(as_path(file, "file"))
    return _native.document_text(path.read_bytes(), path.name, as_text(format, "format"))


def _reranker_of(rerank: Any) -> _native.Reranker | None:
    if rerank is None:
        return None
    return (rerank if isinstance(rerank, Reranker) else Reranker(rerank))._native


#: Documents that are written together at the most, and characters of their texts.
_DOCUMENTS, _CHARACTERS = 256, 1 << 18


def _parts(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First and last + 1 of documents that are read together."""
    begin, characters = 0, 0
    for i, text in enumerate(texts):
        if i > begin and (i - begin == _DOCUMENTS or characters + len(text) > _CHARACTERS):
            yield begin, i
            begin, characters = i, 0
        characters += len(text)
    if texts:
        yield begin, len(texts)


# A method of the class has the name of the type.
_Hits = list[SearchHit]
_Documents = list[IndexedDocument]
_Ranking = list[tuple[str, float]]


class SearchIndex:
    """Documents with the vectors and words of their passages, in memory or in a file that `longformer search --index`
    reads and writes too.

    index = longformer_cpp.SearchIndex("folder")
    index.add("notes", "…")
    for hit in index.query("What …?"):
        print(hit.file, hit.score, hit.text)

    The model is a folder, a Model or an Embedder. Without a file the index is in memory. A file without a model can be
    listed, searched in by words, and documents can be removed. With writes=False a file is only read. similarity
    says how a new index compares vectors: cosine, dot, euclidean or manhattan; None: as the model's folder says.
    vectors names the kinds of vectors of a new index, as "dense,sparse": dense, sparse, multi; None: dense, or what the
    folder makes instead.

    Words are compared by their stems in a language, "english" unless another is given ("german", …, or "none"); a file
    keeps its language, and gets its words made again for another one.
    """

    @described("search_index")
    def __init__(
        self,
        model: Any = None,
        file: str | os.PathLike[str] | None = None,
        writes: bool = True,
        passage_tokens: int | None = None,
        context: str | None = None,
        passage_prompt: str | None = None,
        dtype: str = "fp32",
        threads: int = 0,
        language: str | None = None,
        similarity: str | None = None,
        vectors: str | None = None,
    ):
        if model is not None and not isinstance(model, Embedder):
            model = Embedder(model, dtype, threads)
        self.embedder: Embedder | None = model
        self._file = None if file is None else as_path(file, "file")
        options = {
            "passage_tokens": passage_tokens,
            "context": context,
            "passage_prompt": passage_prompt,
            "language": None if language is None else as_text(language, "language"),
            "similarity": similarity,
            "vectors": vectors,
        }
        native = None if model is None else model._native
        self._native = _native.SearchIndex(self._file or "", native, bool(writes), options)

    def __repr__(self) -> str:
        where = "in memory" if self._file is None else repr(self._file)
        return f"SearchIndex({where}: {counted(len(self), 'document')}, {counted(self.passages, 'passage')})"

    def __len__(self) -> int:
        return self._native.documents

    @property
    def passages(self) -> int:
        """Passages of all documents."""
        return self._native.passages

    def add(self, name: str, text: str) -> None:
        """Adds a document under a name; replaces one of the same name."""
        self._native.add(as_text(name, "name"), as_text(text, "text"))

    def add_documents(self, documents: Any, text_field: str = "text", id_field: str | None = None) -> int:
        """Adds many documents, in less time than one after another: texts by their names, or a table (a frame of pandas or
        polars, a pyarrow.Table, a datasets.Dataset, a list of dicts) with the texts in the column text_field and the
        names in id_field; None: in "id" where there is such a column, else the index of the frame, else the numbers of
        the rows. What is in the index with the same text is not read again. Gives how many were added.

        A document that cannot be read ends the call with an Error; those before it are in the index."""
        if not is_table(documents) and not isinstance(documents, Mapping):
            raise TypeError(f"documents: expected texts by their names or a table, found {found(documents)}")
        if is_table(documents):
            batch = batch_of(documents)
            texts = table_texts(batch, text_field)
            names = table_names(batch, id_field)
        else:
            names = [as_text(name, "documents") for name in documents]
            texts = [as_text(text, f"documents[{name!r}]") for name, text in documents.items()]
        added = 0
        for begin, end in _parts(texts):
            try:
                added += self._native.add_all(names[begin:end], texts[begin:end])
            except Error as error:
                if error.document is not None:
                    error.document += begin
                raise
        return added

    def contains(self, name: str, text: str) -> bool:
        """Whether this very text is in the index under this name."""
        return self._native.contains(as_text(name, "name"), as_text(text, "text"))

    def remove(self, name: str) -> int:
        """Removes the document of this name, or those below the folder of this name; gives how many."""
        return self._native.remove(as_text(name, "name"))

    def list(self) -> _Documents:
        """All documents in the order of their names."""
        return [IndexedDocument(*document) for document in self._native.list()]

    @described("query")
    def query(
        self,
        question: str,
        top_k: int = 3,
        mode: str = "hybrid",
        within: str | Sequence[str] = (),
        prompt: str | None = None,
        phrases: bool = True,
        truncate: bool = False,
        rerank: Any = None,
        rerank_depth: int = 50,
    ) -> _Hits:
        """The best passages, which do not overlap, best first. mode is hybrid, dense, lexical, sparse or multi; within names the
        documents or folders to search in; prompt stands before the question in place of the folder's prompt
        "query"; phrases: what stands in quotation marks must be in a passage; where no passage has it, its words are
        searched, and a RuntimeWarning says so. rerank is a Reranker, or its model: it scores the rerank_depth best
        passages again, and these scores order the hits."""
        options = given(locals(), "question", "rerank")
        hits = self._native.query(as_text(question, "question"), options, _reranker_of(rerank))
        return [SearchHit(*hit) for hit in hits]

    @described("query")
    def rank(
        self,
        question: str,
        top_k: int = 3,
        mode: str = "hybrid",
        within: str | Sequence[str] = (),
        prompt: str | None = None,
        phrases: bool = True,
        truncate: bool = False,
        rerank: Any = None,
        rerank_depth: int = 50,
    ) -> _Ranking:
        """The best documents, by the score of their best passage. rerank, as in query, scores the best passages of the
        rerank_depth best documents again, as logits; the others stay behind them."""
        options = given(locals(), "question", "rerank")
        return list(self._native.rank(as_text(question, "question"), options, _reranker_of(rerank)))
