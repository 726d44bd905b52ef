"""Work on the rows of a corpus, a batch at a time, in the workers of Ray, Spark, Daft or datasets."""

from __future__ import annotations

import inspect
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ._arrays import FloatArray
from ._batches import Batch, Column, Unreadable, Values, Vectors, spark_task
from ._checks import as_path, as_text, found, is_missing, lasting_name
from ._embedding import Embedder, Passages
from ._native import Error
from ._options import described, options_of_call
from ._tables import batch_of
from ._tasks import Classifier, QuestionAnswerer, Tagger, entity_column

if TYPE_CHECKING:
    import numpy as np

    from . import Model
else:
    from ._numpy import np

#: Options of Embedder.encode that the contract says otherwise.
_OTHERWISE_HERE = ("sentences", "batch_size", "show_progress_bar", "output_value", "precision", "convert_to_numpy",
                   "convert_to_tensor", "device", "truncate", "split", "text_field")  # fmt: skip
#: Overlap of segments of a long document, as the verbs have it.
_STRIDE = 128
_MODELS: dict[tuple[Any, ...], Model] = {}
_LOADING = threading.Lock()


def _after_fork() -> None:
    """A thread of the parent may have held the lock. Models of the parent stay where they are: the number of the
    process is part of their key."""
    global _LOADING
    _LOADING = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def worker_threads() -> int:
    """Threads that the framework gives to this worker; 0: the library asks OMP_NUM_THREADS, which Ray sets to
    num_cpus, the cgroup quota and CPU affinity."""
    task = spark_task()
    return 0 if task is None else int(task.cpus())


def shared_model(folder: str, dtype: str, threads: int | None, adapter: str | None, task: str) -> Model:
    """The model of this process for a folder and options, loaded once."""
    from . import load

    count = worker_threads() if threads is None else threads
    key = (os.getpid(), folder, dtype, count or os.environ.get("OMP_NUM_THREADS"), adapter, task)
    with _LOADING:
        if key not in _MODELS:
            _MODELS[key] = load(folder, dtype, count, adapter, task)
        return _MODELS[key]


def _reason(error: Exception) -> str:
    """The message of an error about one document, without the number that it had in the call."""
    text, number = str(error), getattr(error, "document", None)
    for prefix in (f"document {number}: ", f"question {number}: ", "question 0: ", "texts[0]: "):
        text = text.removeprefix(prefix)
    return text


def _options_of(call: Callable[..., Any], *but: str) -> set[str]:
    """Names of the options of a call."""
    return {name for name in inspect.signature(call).parameters if name not in ("self", "options", *but)}


class BatchModel(ABC):
    """The contract of all classes for corpora.

    An object is called with a batch (a mapping of columns, a frame of pandas or polars, a pyarrow table or record batch,
    a Dataset, a list of dicts) and returns the same kind with columns added. It keeps no weights: it pickles as a folder and options, loads the model at its
    first call in a worker, and shares it with every other object of that worker with the same folder and
    options. Results of a document do not depend on the others of its batch.
    """

    #: Verb whose head the model needs; empty for vectors.
    _task = ""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        column: str,
        output: str,
        long: str,
        threads: int | None,
        strict: bool,
        error: str,
        options: dict[str, Any],
    ):
        ways = self._ways()
        if long not in ways:
            raise Error(f"long: expected one of {', '.join(ways)}, found {found(long)}")
        self.folder = lasting_name(as_path(folder, "folder"))
        self.column, self.output = as_text(column, "column"), as_text(output, "output")
        self.long, self.threads, self.strict, self.error = long, threads, strict, as_text(error, "error")
        if self.error in (self.column, self.output):
            raise Error(f"error: expected a column of its own, found {self.error!r}")
        size = options.get("truncate_dim")
        if size is not None and (not isinstance(size, int) or size < 1):
            raise Error(f"truncate_dim: expected a whole number of at least 1, found {size!r}")
        adapter = options.pop("adapter", None)
        self._dtype: str = options.pop("dtype", "fp32")
        self._adapter = None if adapter is None else lasting_name(as_path(adapter, "adapter"))
        known = self._known()
        for name in options:
            if name not in known:
                expected = ", ".join(sorted(known | {"adapter", "dtype"}))
                raise TypeError(f"{type(self).__name__}: expected options among {expected}, found {name!r}")
        self._options = options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.folder!r}: {self.column} to {self.output})"

    @property
    def model(self) -> Model:
        """The model of this process; the first use loads it."""
        return shared_model(self.folder, self._dtype, self.threads, self._adapter, self._task)

    @classmethod
    def _ways(cls) -> Sequence[str]:
        """Values of `long`."""
        return ("split", "truncate", "refuse")

    @abstractmethod
    def _known(self) -> set[str]:
        """Names of the options of a call of the model."""

    @abstractmethod
    def _compute(self, texts: list[Any]) -> list[Any]:
        """The result of each document; an Error names the one that cannot be read."""

    @abstractmethod
    def _column(self, results: list[Any]) -> Column:
        """The results as a column; None where there is none."""

    def _check_model(self) -> None:
        """Raises what is wrong with the model: that is so for every document."""
        self._compute([])

    def _documents(self, batch: Batch) -> list[Any]:
        """A document for each row: None where there is none, Unreadable where it is no text."""
        return [self._checked(value, self.column) for value in batch.values(self.column)]

    def _checked(self, value: Any, name: str) -> Any:
        if is_missing(value):
            return None
        try:
            return value if isinstance(value, Unreadable) else as_text(value, name)
        except (TypeError, Error) as error:
            if self.strict:
                raise
            return Unreadable(str(error))

    def __call__(self, batch: Any) -> Any:
        rows = batch_of(batch)
        documents = self._documents(rows)
        made = [self.output] if self.strict else [self.output, self.error]
        self._refuse_taken(rows, made)
        results, errors = self.results(documents)
        columns: dict[str, Column] = {self.output: self._column(results)}
        return rows.with_columns(columns if self.strict else {**columns, self.error: Values(errors, "string")})

    def _refuse_taken(self, rows: Batch, made: Sequence[str]) -> None:
        for name in made:
            if name in rows.names:
                option = {self.output: "output", self.error: "error"}.get(name)
                advice = f"{option}=… gives it another name" if option else "rename that one"
                raise Error(f"{option or 'passages'}: expected no column {name!r} in the batch, found one; {advice}")

    def results(self, documents: list[Any]) -> tuple[list[Any], list[str | None]]:
        """Result and error of each document; both are None where there is no document. With strict the first document
        that cannot be read raises an exception."""
        results: list[Any] = [None] * len(documents)
        errors: list[str | None] = [None] * len(documents)
        left = []
        for i, document in enumerate(documents):
            if isinstance(document, Unreadable):
                if self.strict:
                    raise Error(f"{self.column}: {document.reason}")
                errors[i] = document.reason
            elif document is not None:
                left.append(i)
        if left:
            self._check_model()
        self._fill(left, documents, results, errors)
        return results, errors

    def _fill(self, left: list[int], documents: list[Any], results: list[Any], errors: list[str | None]) -> None:
        """Results and errors of the documents at these places."""
        while left:
            try:
                for i, result in zip(left, self._compute([documents[i] for i in left])):
                    results[i] = result
                break
            except Error as error:
                # An option that is wrong is so for every document.
                if self.strict or error.option is not None:
                    raise
                if error.document is not None or len(left) == 1:
                    errors[left.pop(error.document or 0)] = _reason(error)
                    continue
            for i in left:
                self._fill([i], documents, results, errors)
            break


class BatchEmbedder(BatchModel):
    """Vectors of documents.

    embedder = longformer_cpp.BatchEmbedder("folder")
    table = embedder({"id": [1, 2], "text": ["one text", None]})     # with the columns embedding and error

    With passages=True a document becomes several rows, one for each passage, with the text of the passage in place of
    the document's, and the columns `document` (number of the row in the batch), `start` and `end` (characters). A
    document without passages keeps one row.
    """

    @options_of_call(Embedder.encode, *_OTHERWISE_HERE)
    @options_of_call(Embedder.encode_passages, "text")
    def __init__(
        self,
        folder: str | os.PathLike[str],
        column: str = "text",
        output: str = "embedding",
        long: str = "split",
        passages: bool = False,
        threads: int | None = None,
        *,
        fixed_size: bool = True,
        strict: bool = False,
        error: str = "error",
        dtype: str = "fp32",
        adapter: str | os.PathLike[str] | None = None,
        **options: Any,
    ):
        """`column` has the texts, `output` gets the vectors. A document that is longer than the model is read in segments
        (long="split"), cut ("truncate") or an error ("refuse"); passages are of documents of any length. threads None: as many as
        the framework gives to a worker. A document that cannot be read has no result and a text in the column `error`;
        strict raises an exception instead. Vectors in Arrow are FixedSizeList<float32>, with fixed_size=False List<float32>:
        Arrow before version 26 cannot read null vectors of a fixed size from Parquet. Options are those of Embedder.encode, with passages
        those of encode_passages."""
        self.passages, self.fixed_size = passages, fixed_size
        load = {"dtype": dtype, "adapter": adapter}
        super().__init__(folder, column, output, long, threads, strict, error, {**options, **load})
        if options.get("pooling") == "tokens":
            raise Error("pooling: expected one that gives a vector for each text, found 'tokens'")

    def _known(self) -> set[str]:
        if self.passages:
            return _options_of(Embedder.encode_passages, "text")
        return _options_of(Embedder.encode, *_OTHERWISE_HERE)

    @property
    def embedder(self) -> Embedder:
        """The Embedder of this process."""
        return self.model._embedder

    @property
    def embedding_size(self) -> int:
        """Elements of a vector."""
        return int(self.embedder._native.size(self._options.get("truncate_dim")))

    def _compute(self, texts: list[Any]) -> list[Any]:
        if self.passages:
            return [self._passages_of(text, number) for number, text in enumerate(texts)]
        way: dict[str, Any] = {"split": self.long == "split", "truncate": self.long == "truncate"}
        return list(self.embedder.encode(texts, **way, **self._options))

    def _passages_of(self, text: str, number: int) -> Passages:
        try:
            return self.embedder.encode_passages(text, **self._options)
        except Error as error:
            if error.option is None:
                error.document = number
            raise

    def _column(self, results: list[Any]) -> Column:
        return Vectors(results, self.embedding_size, self.fixed_size)

    def __call__(self, batch: Any) -> Any:
        return self._rows_of_passages(batch) if self.passages else super().__call__(batch)

    def _rows_of_passages(self, batch: Any) -> Any:
        rows = batch_of(batch)
        documents = self._documents(rows)
        self._refuse_taken(rows, ["document", "start", "end", self.output, self.error])
        results, errors = self.results(documents)
        # (row of the batch, text, begin, end, vector)
        made: list[tuple[int, str | None, int | None, int | None, FloatArray | None]] = []
        for number, passages in enumerate(results):
            if not passages:
                text = documents[number]
                made.append((number, text if isinstance(text, str) else None, None, None, None))
                continue
            for text, (begin, end), vector in zip(passages.texts, passages.spans, passages.embeddings):
                made.append((number, text, begin, end, vector))
        numbers = [number for number, *_ in made]
        columns: dict[str, Column] = {
            self.column: Values([text for _, text, *_ in made], "string"),
            "document": Values(numbers, "int64"),
            "start": Values([begin for _, _, begin, *_ in made], "int64"),
            "end": Values([end for *_, end, _ in made], "int64"),
            self.output: self._column([vector for *_, vector in made]),
        }
        if not self.strict:
            columns[self.error] = Values([errors[number] for number in numbers], "string")
        return rows.repeated(numbers).with_columns(columns)

    def embed_text(self, text: list[str]) -> list[FloatArray | None]:
        """The vector of each text, under the name that Daft's protocol of text embedders has; None for one that cannot be read."""
        vectors, _ = self.results([self._checked(one, f"text[{i}]") for i, one in enumerate(text)])
        return vectors

    def make_predict_fn(self) -> Callable[[Any], FloatArray]:
        """For predict_batch_udf of Spark: a function from texts [rows] to float32 [rows, size]. Such arrays have no
        null: a row without a vector is NaN."""

        def predict(texts: Any) -> FloatArray:
            return Vectors(self.embed_text(list(texts)), self.embedding_size).as_matrix(np.nan)

        return predict


class _BatchReader(BatchModel):
    """A class whose head reads segments that overlap by `stride` tokens."""

    def _reading(self) -> dict[str, Any]:
        """Options of a call, with those that say how long documents are read."""
        if self.long != "split":
            return {**self._options, "truncate": self.long == "truncate"}
        # Short models have less room for an overlap.
        return {"stride": min(_STRIDE, self.model.max_tokens // 4), **self._options}


class BatchClassifier(_BatchReader):
    """Classes of documents: a list of {label, score}, best first, in the column `labels`."""

    _task = "classify"

    @options_of_call(Classifier.__call__, "texts", "pairs", "truncate", "text_field", "pair_field")
    def __init__(
        self,
        folder: str | os.PathLike[str],
        column: str = "text",
        output: str = "labels",
        long: str = "split",
        threads: int | None = None,
        *,
        strict: bool = False,
        error: str = "error",
        dtype: str = "fp32",
        adapter: str | os.PathLike[str] | None = None,
        **options: Any,
    ):
        """The contract of BatchEmbedder, with the options of Classifier: top_k, stride and so on."""
        load = {"dtype": dtype, "adapter": adapter}
        super().__init__(folder, column, output, long, threads, strict, error, {**options, **load})

    def _known(self) -> set[str]:
        return _options_of(Classifier.__call__, "texts", "pairs", "truncate", "text_field", "pair_field")

    def _compute(self, texts: list[Any]) -> list[Any]:
        made = self.model._classifier(texts, **self._reading())
        return [[{"label": one.label, "score": one.score} for one in document.labels] for document in made]

    def _column(self, results: list[Any]) -> Column:
        return Values(results, {"label": "string", "score": "float32"})


class BatchTagger(_BatchReader):
    """Entities of documents: a list of {label, score, start, end, text} in the column `entities`; start and end count
    characters."""

    _task = "ner"

    @options_of_call(Tagger.__call__, "texts", "truncate", "text_field")
    def __init__(
        self,
        folder: str | os.PathLike[str],
        column: str = "text",
        output: str = "entities",
        long: str = "split",
        threads: int | None = None,
        *,
        strict: bool = False,
        error: str = "error",
        dtype: str = "fp32",
        adapter: str | os.PathLike[str] | None = None,
        **options: Any,
    ):
        """The contract of BatchEmbedder, with the options of Tagger: aggregation, stride and so on."""
        load = {"dtype": dtype, "adapter": adapter}
        super().__init__(folder, column, output, long, threads, strict, error, {**options, **load})

    def _known(self) -> set[str]:
        return _options_of(Tagger.__call__, "texts", "truncate", "text_field")

    def _compute(self, texts: list[Any]) -> list[Any]:
        return list(self.model._tagger(texts, **self._reading()))

    def _column(self, results: list[Any]) -> Column:
        return entity_column(results)


class BatchAnswerer(_BatchReader):
    """Answers to a question about documents: a list of {text, score, logit, start, end}, best first, in the column `answers`.

    `question` is asked of every document; without it each row has one of its own in `question_column`.
    """

    _task = "qa"

    @options_of_call(QuestionAnswerer.__call__, "question", "documents", "truncate", "best")
    def __init__(
        self,
        folder: str | os.PathLike[str],
        column: str = "text",
        output: str = "answers",
        long: str = "split",
        threads: int | None = None,
        *,
        question: str | None = None,
        question_column: str = "question",
        strict: bool = False,
        error: str = "error",
        dtype: str = "fp32",
        adapter: str | os.PathLike[str] | None = None,
        **options: Any,
    ):
        """The contract of BatchEmbedder, with the options of QuestionAnswerer: top_k, no_answer, stride and so on."""
        self.question = None if question is None else as_text(question, "question")
        self.question_column = as_text(question_column, "question_column")
        load = {"dtype": dtype, "adapter": adapter}
        super().__init__(folder, column, output, long, threads, strict, error, {**options, **load})

    def _known(self) -> set[str]:
        return _options_of(QuestionAnswerer.__call__, "question", "documents", "truncate", "best")

    def _documents(self, batch: Batch) -> list[Any]:
        documents = super()._documents(batch)
        if self.question is not None:
            questions: list[Any] = [self.question] * len(documents)
        else:
            questions = [self._checked(one, self.question_column) for one in batch.values(self.question_column)]
        pairs: list[Any] = []
        for document, question in zip(documents, questions):
            wrong = [one for one in (document, question) if one is None or isinstance(one, Unreadable)]
            pairs.append(wrong[0] if wrong else (question, document))
        return pairs

    def _reading(self) -> dict[str, Any]:
        options = super()._reading()
        if "stride" in options:
            # A segment must hold an answer whole.
            options.setdefault("max_answer_tokens", max(1, min(30, options["stride"])))
        return options

    def _check_model(self) -> None:
        self.model._answerer("?" if self.question is None else self.question, [], **self._reading())

    def _compute(self, texts: list[Any]) -> list[Any]:
        options = self._reading()
        places: dict[str, list[int]] = {}
        for place, (question, _) in enumerate(texts):
            places.setdefault(question, []).append(place)
        results: list[Any] = [[] for _ in texts]
        for question, asked in places.items():
            try:
                answers = self.model._answerer(question, [texts[place][1] for place in asked], **options)
            except Error as error:
                if error.document is not None:
                    error.document = asked[error.document]
                raise
            for one in answers:
                made = {"text": one.text, "score": one.score, "logit": one.logit, "start": one.begin, "end": one.end}
                results[asked[one.document]].append(made)
        return results

    def _column(self, results: list[Any]) -> Column:
        types = {"text": "string", "score": "float32", "logit": "float32", "start": "int64", "end": "int64"}
        return Values(results, types)


class BatchSummarizer(BatchModel):
    """Summaries of documents in the column `summary`, by a model with a decoder."""

    @described("write", but=("truncate", "refuse", "extend"))
    def __init__(
        self,
        folder: str | os.PathLike[str],
        column: str = "text",
        output: str = "summary",
        long: str = "split",
        threads: int | None = None,
        *,
        strict: bool = False,
        error: str = "error",
        dtype: str = "fp32",
        adapter: str | os.PathLike[str] | None = None,
        **options: Any,
    ):
        """The contract of BatchEmbedder, with the options of Model.summarize: max_new_tokens, num_beams and so on. long
        has one more value: "extend" reads a long document whole, with the positions repeated."""
        load = {"dtype": dtype, "adapter": adapter}
        super().__init__(folder, column, output, long, threads, strict, error, {**options, **load})

    @classmethod
    def _ways(cls) -> Sequence[str]:
        return ("split", "truncate", "refuse", "extend")

    def _known(self) -> set[str]:
        from . import Model

        return _options_of(Model.summarize, "texts", "callback", "truncate", "refuse", "extend")

    def _compute(self, texts: list[Any]) -> list[Any]:
        way: dict[str, Any] = {} if self.long == "split" else {self.long: True}
        return [document.text for document in self.model.summarize(texts, **way, **self._options)]

    def _column(self, results: list[Any]) -> Column:
        return Values(results, "string")
