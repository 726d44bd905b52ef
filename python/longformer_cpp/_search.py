"""Search in whole documents by words and by meaning."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from . import _native
from ._batches import Batch, about_option
from ._checks import as_one_or_more, as_path, as_text, counted, found, given, is_missing
from ._embedding import Embedder
from ._native import Error
from ._options import described, options_of_call
from ._reranking import Reranker
from ._table_files import Unwritable, plain
from ._tables import batch_of, is_table, table_names, table_texts
from ._tasks import QuestionAnswerer, model_of

#: Conditions on metadata: one or several, or an object of fields with their values.
Filter = str | Sequence[str] | Mapping[str, Any]
#: Paths of files and folders.
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


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
    #: The fields of its document.
    metadata: dict[str, Any] = field(default_factory=dict)


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
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RetrievedPart:
    """A part of a document that a search found: passages with what stands around them."""

    file: str
    begin: int
    end: int
    #: The best score of a passage in it.
    score: float
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    #: ("page", 3, 4), as in SearchHit.
    place: tuple[str, int, int] | None = None
    _places: tuple[str, list[int]] = field(default=("", []), repr=False, compare=False)


@dataclass(frozen=True)
class RetrievedAnswer:
    """An answer: characters begin to end of a document."""

    file: str
    begin: int
    end: int
    text: str
    #: Share of its part, logit, and what orders answers: the logit, less what the search counts.
    score: float
    logit: float
    rank: float
    #: The part that it was read in.
    part: RetrievedPart
    #: ("page", 3, 3), as in SearchHit.
    place: tuple[str, int, int] | None = None


@dataclass(frozen=True)
class RetrievedSummary:
    """A text about the parts that a search found, best first."""

    text: str
    read: list[RetrievedPart]


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


def _plain(value: Any) -> Any:
    """A value of metadata as JSON has it."""
    if is_missing(value):
        return None
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else plain(value)


def _json_of(metadata: Mapping[str, Any] | None, name: str = "metadata") -> str:
    """Metadata as a JSON object; empty for none."""
    if metadata is None:
        return ""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"{name}: expected a mapping of fields, found {found(metadata)}")
    fields = {}
    for key, value in metadata.items():
        try:
            fields[as_text(key, name)] = _plain(value)
        except Unwritable:
            raise TypeError(f"{name}[{key!r}]: expected texts, numbers, dates or lists of them, found {found(value)}") from None
    return json.dumps(fields, ensure_ascii=False) if fields else ""


def _object_of(metadata: str) -> dict[str, Any]:
    return dict(json.loads(metadata)) if metadata else {}


def _row_of(row: Sequence[Any]) -> list[Any]:
    """A row whose last element are metadata in JSON."""
    return [*row[:-1], _object_of(row[-1])]


def _filter_of(filter: Filter) -> list[str]:
    """The conditions of an argument."""
    if isinstance(filter, Mapping):
        try:
            return list(_native.search_filter(json.dumps(_plain(filter))))
        except Unwritable:
            raise TypeError(f"filter: expected texts, numbers, dates or lists of them, found {found(filter)}") from None
    return as_one_or_more(filter, "filter")


def _rows_metadata(batch: Batch, but: set[str]) -> list[str]:
    """For each row its other columns, as far as JSON can hold them."""
    rows: list[dict[str, Any]] = [{} for _ in range(batch.size)]
    for place, name in enumerate(batch.names):
        if name in but:
            continue
        try:
            values = [_plain(value) for value in batch.values_at(place)]
        except Unwritable:
            continue
        for row, value in zip(rows, values):
            if value is not None:
                row[name] = value
    return [_json_of(row) for row in rows]


def _merged(metadata: Sequence[str], names: Sequence[str], more: Mapping[str, Mapping[str, Any]] | None) -> list[str]:
    """Metadata with what is given by the names of documents."""
    if more is None:
        return list(metadata)
    if not isinstance(more, Mapping):
        raise TypeError(f"metadata: expected mappings of fields by the names of documents, found {found(more)}")
    unknown = [name for name in more if name not in set(names)]
    if unknown:
        raise about_option("metadata", f"expected names of the documents, found {found(unknown[0])}")
    given = {name: _object_of(_json_of(fields, f"metadata[{name!r}]")) for name, fields in more.items()}
    return [_json_of(_object_of(one) | given.get(name, {})) for one, name in zip(metadata, names)]


def _paths(files: Any) -> list[str]:
    if isinstance(files, (str, os.PathLike)):
        return [as_path(files, "files")]
    if not isinstance(files, Iterable) or isinstance(files, (bytes, Mapping)):
        raise TypeError(f"files: expected a path or a list of paths, found {found(files)}")
    return [as_path(file, f"files[{i}]") for i, file in enumerate(files)]


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
_Names = list[str]
_Parts = list[RetrievedPart]
_Answers = list[RetrievedAnswer]
#: The unit of the places of a document, and where they start; ("", []) where it has none.
_Places = tuple[str, list[int]]
#: Name, text, metadata and places.
_Read = tuple[str, str, str, _Places]
_NO_PLACES: _Places = ("", [])


def _documents_of_file(
    file: str, name: str, format: str, text_field: str, id_field: str | None, left_out: list[str] | None
) -> Iterator[_Read]:
    """The documents of a file. What is no text is an Error, or left out where there is a
    list for it."""
    if format == "auto" and _native.is_table_file(file):
        options = {"text_field": as_text(text_field, "text_field"), "id_field": id_field}
        for line, text, others, error in _native.table_rows(file, options):
            if error:
                raise Error(f"{file}:{line}: {error}")
            yield f"{name}:{line}", text, _native.file_metadata(file, others), _NO_PLACES
        return
    text, unit, starts, reason = _native.file_text(file, format)
    if not reason:
        yield name, text, _native.file_metadata(file, ""), (unit, starts)
    elif left_out is None:
        raise Error(f"{file}: {reason}")
    else:
        left_out.append(f"{file}: {reason}")


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

    def add(self, name: str, text: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Adds a document under a name; replaces one of the same name. metadata are its fields for filters: texts, numbers,
        dates, or lists of them."""
        self._native.add(as_text(name, "name"), as_text(text, "text"), _json_of(metadata))

    def add_documents(
        self,
        documents: Any,
        text_field: str = "text",
        id_field: str | None = None,
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> int:
        """Adds many documents, in less time than one after another: texts by their names, or a table (a frame of pandas or
        polars, a pyarrow.Table, a datasets.Dataset, a list of dicts) with the texts in the column text_field and the
        names in id_field; None: in "id" where there is such a column, else the index of the frame, else the numbers of
        the rows. The other columns are the metadata of the documents; metadata has more of them, by the names of
        documents. What is in the index with the same text is not read again, and gets its metadata. Gives how many were
        added.

        A document that cannot be read ends the call with an Error; those before it are in the index."""
        if not is_table(documents) and not isinstance(documents, Mapping):
            raise TypeError(f"documents: expected texts by their names or a table, found {found(documents)}")
        if is_table(documents):
            batch = batch_of(documents)
            texts = table_texts(batch, text_field)
            names = table_names(batch, id_field)
            objects = _rows_metadata(batch, {text_field, "id" if id_field is None else id_field})
        else:
            names = [as_text(name, "documents") for name in documents]
            texts = [as_text(text, f"documents[{name!r}]") for name, text in documents.items()]
            objects = [""] * len(names)
        return self._add_all(names, texts, _merged(objects, names, metadata))

    def _add_all(self, names: Sequence[str], texts: Sequence[str], metadata: Sequence[str], places: Sequence[_Places] = ()) -> int:
        all_places = list(places) or [_NO_PLACES] * len(names)
        added = 0
        for begin, end in _parts(texts):
            part = slice(begin, end)
            try:
                added += self._native.add_all(list(names[part]), list(texts[part]), list(metadata[part]), all_places[part])
            except Error as error:
                if error.document is not None:
                    error.document += begin
                raise
        return added

    def add_files(
        self,
        files: Paths,
        include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        prune: bool = False,
        format: str = "auto",
        text_field: str = "text",
        id_field: str | None = None,
    ) -> int:
        """Adds files as `longformer search` reads them: text, Markdown, HTML, PDF, .docx, .odt and .epub are a document each, rows of .csv, .tsv and
        .jsonl too, with the text in text_field; of a folder the files in it and below that match an include pattern, as
        "*.rst" or "docs/**/*.md", and no exclude pattern. Names are paths from the folder of the index file, or from the
        working folder. Metadata are the date of a file's last change, and the other fields of a row. prune removes
        documents whose files are gone from the folders. What is in the index with the same text is not read again. Gives
        how many were added.

        A file that is named and cannot be read is an Error; files of folders that are no text are left out, and a
        RuntimeWarning names them. Files before the one that fails are in the index."""
        paths = _paths(files)
        patterns = (as_one_or_more(include, "include"), as_one_or_more(exclude, "exclude"))
        chosen, folders, errors = _native.find_files(paths, *patterns)
        if errors:
            raise Error(errors[0])
        from_folder = dict(chosen)
        left_out: list[str] = []
        added = 0
        read: list[_Read] = []
        size = 0
        for file, name in self._native.name_files([file for file, _ in chosen]):
            for one in _documents_of_file(file, name, as_text(format, "format"), text_field, id_field, left_out if from_folder[file] else None):
                read.append(one)
                size += len(one[1])
                if len(read) == _DOCUMENTS or size > _CHARACTERS:
                    added += self._add_read(read)
                    read, size = [], 0
        added += self._add_read(read)
        for folder in folders if prune else ():
            self._native.prune(folder)
        if left_out:
            warnings.warn(f"left out {counted(len(left_out), 'file')}: {'; '.join(left_out[:8])}", RuntimeWarning, stacklevel=2)
        return added

    def add_folder(
        self,
        folder: str | os.PathLike[str],
        include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        prune: bool = False,
        format: str = "auto",
        text_field: str = "text",
        id_field: str | None = None,
    ) -> int:
        """Adds the files of a folder and of all folders below, as add_files does."""
        path = as_path(folder, "folder")
        if not os.path.isdir(path):
            raise Error(f"folder: expected a folder, found {path}")
        return self.add_files(path, include, exclude, prune, format, text_field, id_field)

    def _add_read(self, read: Sequence[_Read]) -> int:
        return self._add_all([one[0] for one in read], [one[1] for one in read], [one[2] for one in read], [one[3] for one in read])

    def contains(self, name: str, text: str) -> bool:
        """Whether this very text is in the index under this name."""
        return self._native.contains(as_text(name, "name"), as_text(text, "text"))

    def remove(self, name: str) -> int:
        """Removes the document of this name, or those below the folder of this name; gives how many."""
        return self._native.remove(as_text(name, "name"))

    def list(self, filter: Filter = ()) -> _Documents:
        """All documents, or those that meet the conditions of a filter, in the order of their names."""
        found = self._native.listed(_filter_of(filter))
        return [IndexedDocument(*_row_of(document)) for document in found]

    @property
    def fields(self) -> _Names:
        """The fields that a filter may name: "path", and those of the metadata."""
        return _Names(self._native.fields)

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
        filter: Filter = (),
    ) -> _Hits:
        """The best passages, which do not overlap, best first. mode is hybrid, dense, lexical, sparse or multi; within names the
        documents or folders to search in; filter has conditions on their metadata, which must all hold:
        "year>=2020", "author=Smith", "title~part", "date<2024-05", "path=notes/*.md", or {"year": {">=": 2020}, "tag":
        ["a", "b"]}; prompt stands before the question in place of the folder's prompt
        "query"; phrases: what stands in quotation marks must be in a passage; where no passage has it, its words are
        searched, and a RuntimeWarning says so. rerank is a Reranker, or its model: it scores the rerank_depth best
        passages again, and these scores order the hits."""
        options = given(locals(), "question", "rerank") | {"filter": _filter_of(filter)}
        hits = self._native.query(as_text(question, "question"), options, _reranker_of(rerank))
        return [SearchHit(*_row_of(hit)) for hit in hits]

    @described("retrieve", "query", but=("top_k", "search_weight"))
    def retrieve(
        self,
        question: str,
        retrieve: int = 4,
        around: int = 200,
        mode: str = "hybrid",
        within: str | Sequence[str] = (),
        prompt: str | None = None,
        phrases: bool = True,
        truncate: bool = False,
        rerank: Any = None,
        rerank_depth: int = 50,
        filter: Filter = (),
    ) -> _Parts:
        """Parts of documents for a model to read: the `retrieve` best passages with so many characters around each, joined
        where they touch, best first. All else is as in query."""
        options = given(locals(), "question", "rerank") | {"filter": _filter_of(filter)}
        rows = self._native.retrieve(as_text(question, "question"), options, _reranker_of(rerank))
        return [RetrievedPart(*_row_of(row[:6]), *row[6:]) for row in rows]

    @options_of_call(retrieve)
    @described("qa", "retrieve", but=("retrieve", "around"))
    def answer(
        self,
        question: str,
        reader: Any,
        top_k: int = 1,
        max_answer_tokens: int = 30,
        search_weight: float = 15.0,
        **options: Any,
    ) -> _Answers:
        """Answers in two stages: a search finds the best passages, and a reader, a QuestionAnswerer or its model, reads these
        alone. Options are those of retrieve. top_k answers, best first, none where nothing is found."""
        parts = self.retrieve(question, **options)
        if not isinstance(reader, QuestionAnswerer):
            reader = QuestionAnswerer(reader)
        if not parts:
            return []
        shared = min(128, reader.model.max_tokens // 4)
        found = reader(
            question, [part.text for part in parts], top_k=top_k, max_answer_tokens=max_answer_tokens, stride=max(max_answer_tokens, shared)
        )
        answers = []
        for one in found:
            part = parts[one.document]
            behind = (parts[0].score - part.score) / max(abs(parts[0].score), 1e-6)
            rank = one.logit - search_weight * behind
            begin, end = one.begin + part.begin, one.end + part.begin
            place = cast("tuple[str, int, int] | None", _native.place_of(part._places, begin, end))
            answers.append(RetrievedAnswer(part.file, begin, end, one.text, one.score, one.logit, rank, part, place))
        return sorted(answers, key=lambda answer: -answer.rank)[:top_k]

    @options_of_call(retrieve)
    def summarize(self, topic: str, writer: Any, retrieve: int = 4, **options: Any) -> RetrievedSummary:
        """A summary of the passages that a search finds for a question or a topic: documents by their best passage, the
        passages of each in their order. writer is a Model with a decoder, or its folder."""
        parts = self.retrieve(topic, retrieve=retrieve, **options)
        if not parts:
            raise Error(f"topic: expected passages about it, found none: {topic}")
        text = _native.joined_parts([(part.file, part.begin, part.end, part.text) for part in parts])
        model = model_of(writer, "fp32", 0, None, "summarize")
        return RetrievedSummary(model.summarize(text)[0].texts[0].text, parts)

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
        filter: Filter = (),
    ) -> _Ranking:
        """The best documents, by the score of their best passage. rerank, as in query, scores the best passages of the
        rerank_depth best documents again, as logits; the others stay behind them."""
        options = given(locals(), "question", "rerank") | {"filter": _filter_of(filter)}
        return list(self._native.rank(as_text(question, "question"), options, _reranker_of(rerank)))
