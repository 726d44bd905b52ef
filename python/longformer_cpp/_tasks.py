"""Results of models for documents."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from . import _native
from ._batches import Column, Values
from ._checks import as_count, as_one_or_more, as_text, as_texts, counted, given
from ._checks import found as shown
from ._explanation import Explanation, explanation_of
from ._native import Error
from ._options import described
from ._tables import batch_of, is_table, table_texts, with_results

if TYPE_CHECKING:
    from . import Model


def model_of(model: Any, dtype: str, threads: int, adapter: Any, task: str = "") -> Model:
    """A model as it is, or that of a folder."""
    from . import Model, load

    return model if isinstance(model, Model) else load(model, dtype, threads, adapter, task)


@dataclass(frozen=True)
class ClassScore:
    """A class with its score."""

    label: str
    score: float


@dataclass(frozen=True)
class Classification:
    """Class of a document."""

    #: Best first, the top_k ones.
    labels: list[ClassScore]
    #: Logits of all classes, in the order of the model.
    logits: list[float]
    #: Tokens of the document with special ones, those that were cut off, and segments that were read.
    tokens: int
    truncated: int
    segments: int


class Classifier:
    """Classifies documents of any length with a sequence-classification head.

    classifier = longformer_cpp.Classifier("folder")
    best = classifier(["a text"])[0].labels[0]
    frame = classifier(frame, text_field="body")      # with the columns predicted_label and predicted_score
    """

    def __init__(self, model: Any, dtype: str = "fp32", threads: int = 0, adapter: Any = None):
        self.model = model_of(model, dtype, threads, adapter, "classify")
        self._native = _native.Classifier(self.model._native)

    @overload
    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: Sequence[str] | None = None,
        top_k: int = 1,
        function_to_apply: str | None = None,
        truncate: bool = False,
        stride: int | None = None,
        merge: str = "mean",
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
        text_field: str = "text",
        pair_field: str | None = None,
    ) -> list[Classification]: ...
    @overload
    def __call__(
        self,
        texts: Any,
        pairs: Sequence[str] | None = None,
        top_k: int = 1,
        function_to_apply: str | None = None,
        truncate: bool = False,
        stride: int | None = None,
        merge: str = "mean",
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
        text_field: str = "text",
        pair_field: str | None = None,
    ) -> Any: ...
    @described("classify")
    def __call__(
        self,
        texts: Any,
        pairs: Sequence[str] | None = None,
        top_k: int = 1,
        function_to_apply: str | None = None,
        truncate: bool = False,
        stride: int | None = None,
        merge: str = "mean",
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
        text_field: str = "text",
        pair_field: str | None = None,
    ) -> Any:
        """The top_k (0: all) classes of each text, or of each text and its pair, with the options of
        `longformer classify`.

        A table (a frame of pandas or polars, a pyarrow.Table, a datasets.Dataset, a list of dicts), whose texts are in
        the column text_field, and their pairs in pair_field, comes back with the columns predicted_label and
        predicted_score; with top_k=0 also a column score_… for each class, with another top_k the list
        predicted_labels of label and score."""
        options = given(locals(), "texts", "top_k", "text_field", "pair_field")
        most = as_count(top_k, "top_k", least=0)
        if is_table(texts):
            if pairs is not None:
                raise Error("pairs: expected none beside a table, whose pairs are in the column pair_field")
            return self._of_table(texts, text_field, pair_field, most, options)
        checked = as_one_or_more(texts, "texts")
        if pairs is not None:
            options["pairs"] = as_one_or_more(pairs, "pairs")
            if len(options["pairs"]) != len(checked):
                raise Error(f"pairs: expected {len(checked)} as texts, found {len(options['pairs'])}")
        return [
            Classification([ClassScore(*one) for one in scores[: most or None]], *rest)
            for scores, *rest in self._native.classify(checked, options)
        ]

    @cached_property
    def _explainer(self) -> _native.Explainer:
        """The same weights, kept so that gradients can flow through them."""
        folder, dtype, threads, adapter, _, _, device = self.model._source
        return _native.Explainer(folder, {"dtype": dtype, "threads": threads, "adapter": adapter, "device": device})

    @described("explain")
    def explain(
        self,
        texts: str | Sequence[str],
        method: str = "integrated",
        label: str | None = None,
        baseline: str = "usual",
        steps: int = 32,
        tolerance: float = 0.05,
        occlusion: str = "remove",
        function_to_apply: str | None = None,
        truncate: bool = False,
        stride: int | None = None,
        merge: str = "mean",
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
    ) -> list[Explanation]:
        """Why each text belongs to a class, the one with the best score or `label`, as `longformer classify --explain`
        says it. The method is gradient (gradient × input), integrated (integrated gradients) or occlusion (of
        sentences). The first call loads the weights once more, in fp32."""
        checked = as_one_or_more(texts, "texts")
        found = self._explainer.explain(checked, as_text(method, "method"), given(locals(), "texts", "method", "checked"))
        return [explanation_of(text, record) for text, record in zip(checked, found)]

    def _of_table(self, table: Any, text_field: str, pair_field: str | None, most: int, options: dict[str, Any]) -> Any:
        batch = batch_of(table)
        texts = table_texts(batch, text_field)
        options["pairs"] = None if pair_field is None else table_texts(batch, pair_field, "pair_field")
        rows = [scores for scores, *_ in self._native.classify(texts, options)]
        columns: dict[str, Column] = {
            "predicted_label": Values([scores[0][0] for scores in rows], "string"),
            "predicted_score": Values([scores[0][1] for scores in rows], "float32"),
        }
        if most == 0:
            by_label = [dict(scores) for scores in rows]
            for label in self.model.labels:
                columns[f"score_{label}"] = Values([scores[label] for scores in by_label], "float32")
        elif most > 1:
            best = [[{"label": label, "score": score} for label, score in scores[:most]] for scores in rows]
            columns["predicted_labels"] = Values(best, {"label": "string", "score": "float32"})
        return with_results(batch, columns)


@dataclass(frozen=True)
class Entity:
    """An entity: text[begin:end] of its document."""

    label: str
    #: Probability; of a group the mean over its tokens or words.
    score: float
    begin: int
    end: int
    text: str
    #: First token and last + 1, counted from 0 without special tokens.
    first_token: int
    end_token: int


class Tagger:
    """Finds entities in documents of any length with a token-classification head.

    tagger = longformer_cpp.Tagger("folder")
    for entity in tagger(["Ada met Tom."])[0]:
        print(entity.label, entity.text)
    """

    def __init__(self, model: Any, dtype: str = "fp32", threads: int = 0, adapter: Any = None):
        self.model = model_of(model, dtype, threads, adapter, "ner")
        self._native = _native.Tagger(self.model._native)

    @overload
    def __call__(
        self,
        texts: str | Sequence[str],
        aggregation: str = "simple",
        ignore_labels: Sequence[str] = ("O",),
        truncate: bool = False,
        stride: int | None = None,
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
        text_field: str = "text",
    ) -> list[list[Entity]]: ...
    @overload
    def __call__(
        self,
        texts: Any,
        aggregation: str = "simple",
        ignore_labels: Sequence[str] = ("O",),
        truncate: bool = False,
        stride: int | None = None,
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
        text_field: str = "text",
    ) -> Any: ...
    @described("ner")
    def __call__(
        self,
        texts: Any,
        aggregation: str = "simple",
        ignore_labels: Sequence[str] = ("O",),
        truncate: bool = False,
        stride: int | None = None,
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
        text_field: str = "text",
    ) -> Any:
        """The entities of each text, with the options of `longformer ner`: aggregation is none, simple, first,
        average or max. A table, whose texts are in the column text_field, comes back with the column entities: lists of
        label, score, start, end, text."""
        options = given(locals(), "texts", "text_field")
        if is_table(texts):
            batch = batch_of(texts)
            found = self._native.tag(table_texts(batch, text_field), options)
            return with_results(batch, {"entities": entity_column([Entity(*one) for one in document] for document in found)})
        found = self._native.tag(as_one_or_more(texts, "texts"), options)
        return [[Entity(*one) for one in document] for document in found]


def entity_column(documents: Iterable[Sequence[Entity] | None]) -> Values:
    """The entities of each document as a column of a table; None where a document has none of its own."""
    rows = [
        None
        if document is None
        else [{"label": one.label, "score": one.score, "start": one.begin, "end": one.end, "text": one.text} for one in document]
        for document in documents
    ]
    return Values(rows, {"label": "string", "score": "float32", "start": "int64", "end": "int64", "text": "string"})


@dataclass(frozen=True)
class MaskCandidate:
    """A token that may stand in place of a mask."""

    id: int
    #: The entry of the vocabulary, and what it reads.
    token: str
    text: str
    probability: float


@dataclass(frozen=True)
class FilledMask:
    """A mask: a token of its text, from 0, and what may stand there, best first."""

    position: int
    candidates: list[MaskCandidate]


@dataclass(frozen=True)
class FilledText:
    """A text with the best token in place of every mask."""

    filled: str
    masks: list[FilledMask]
    #: Tokens that were read, and those that were cut off.
    tokens: int
    truncated: int


class MaskFiller:
    """Guesses the tokens where texts have a mask, [MASK] or <mask>, with a masked-LM head."""

    def __init__(self, model: Any, dtype: str = "fp32", threads: int = 0, adapter: Any = None):
        self.model = model_of(model, dtype, threads, adapter)
        self._native = _native.MaskFiller(self.model._native)

    @described("fill_mask")
    def __call__(
        self,
        texts: str | Sequence[str],
        top_k: int = 5,
        truncate: bool = False,
        global_attention: str | None = None,
        max_length: int | None = None,
    ) -> list[FilledText]:
        """The top_k tokens of each mask of each text; every mask is guessed by itself while the others stay."""
        results = []
        for filled, masks, *rest in self._native.fill(as_one_or_more(texts, "texts"), given(locals(), "texts", "results")):
            guessed = [FilledMask(position, [MaskCandidate(*one) for one in best]) for position, best in masks]
            results.append(FilledText(filled, guessed, *rest))
        return results


@dataclass(frozen=True)
class Mention:
    """A mention: text[begin:end]."""

    begin: int
    end: int
    text: str
    #: First word and last + 1, counted from 0.
    first_word: int
    end_word: int


class Clusters(list[list[Mention]]):
    """The clusters of a text, and how it was read."""

    def __init__(
        self,
        clusters: Iterable[list[Mention]],
        words: list[tuple[int, int]],
        sentences: list[int],
        tokens: int,
        segments: int,
    ):
        super().__init__(clusters)
        #: Words, as BERT's basic tokenisation finds them: text[begin:end].
        self.words = words
        #: The words with which sentences begin.
        self.sentences = sentences
        #: Tokens of all words, and segments that they were read in.
        self.tokens = tokens
        self.segments = segments


def conll_text(text: str, found: Clusters, key: str) -> str:
    """A text with its clusters in the form of CoNLL-2012, as `longformer coref --format conll` writes it: its scorer,
    `finetune` and `evaluate` read it. The key names the document, and texts of several documents may stand behind
    each other in a file."""
    if not isinstance(found, Clusters):
        raise TypeError(f"found: expected the clusters of a CoreferenceResolver, found {shown(found)}")
    length, words = len(as_text(text, "text")), len(found.words)
    if any(not 0 <= begin <= end <= length for begin, end in found.words):
        raise Error(f"text: expected the one that the clusters are of, found {counted(length, 'character')}")
    clusters = [[(mention.first_word, mention.end_word) for mention in cluster] for cluster in found]
    for first, end in itertools.chain(*clusters):
        if not 0 <= first < end <= words:
            raise Error(f"found: expected mentions among {counted(words, 'word')}, found words {first} to {end}")
    return _native.conll_text(text, clusters, found.words, found.sentences, as_text(key, "key"))


class CoreferenceResolver:
    """Finds which mentions of a document mean the same, in documents of any length.

    resolver = longformer_cpp.CoreferenceResolver("folder")
    for cluster in resolver("Ada met Tom. She gave him her book."):
        print([mention.text for mention in cluster])

    The folder has a coreference head: `longformer finetune --task coreference` makes it, and those of
    fastcoref are read.
    """

    def __init__(self, model: Any, dtype: str = "fp32", threads: int = 0, adapter: Any = None):
        self.model = model_of(model, dtype, threads, adapter, "coreference")
        self._native = _native.CoreferenceResolver(self.model._native)

    @described("coref")
    def __call__(
        self,
        text: str,
        segments: str | None = None,
        max_segment_length: int | None = None,
        stride: int | None = None,
        singletons: bool = True,
        batch_tokens: int = 8192,
        no_singletons: bool = False,
    ) -> Clusters:
        """The clusters of a text, in the order in which their first mentions begin. Segments are overlapping,
        by stride tokens (128, or a quarter of a short segment), or independent; no_singletons, or singletons=False,
        leaves out what is mentioned once."""
        return self.resolve([as_text(text, "text")], **given(locals(), "text"))[0]

    @described("coref")
    def resolve(
        self,
        texts: Sequence[str],
        segments: str | None = None,
        max_segment_length: int | None = None,
        stride: int | None = None,
        singletons: bool = True,
        batch_tokens: int = 8192,
        no_singletons: bool = False,
    ) -> list[Clusters]:
        """The clusters of each text."""
        found = self._native.resolve(as_texts(texts, "texts"), given(locals(), "texts"))
        return [
            Clusters(([Mention(*mention) for mention in cluster] for cluster in clusters), *rest)
            for clusters, *rest in found
        ]


@dataclass(frozen=True)
class Answer:
    """An answer: text[begin:end] of a document. Scores are shares of their document, logits compare over
    documents."""

    document: int
    score: float
    logit: float
    begin: int
    end: int
    text: str


class QuestionAnswerer:
    """Answers questions with spans of documents.

    answerer = longformer_cpp.QuestionAnswerer("folder")
    best = answerer("Who was studied?", papers, stride=128, best=True)[0]
    """

    def __init__(self, model: Any, dtype: str = "fp32", threads: int = 0, adapter: Any = None):
        self.model = model_of(model, dtype, threads, adapter, "qa")
        self._native = _native.QuestionAnswerer(self.model._native)

    @described("qa")
    def __call__(
        self,
        question: str,
        documents: str | Sequence[str],
        top_k: int = 1,
        max_answer_tokens: int = 30,
        truncate: bool = False,
        stride: int | None = None,
        best: bool = False,
        no_answer: bool = False,
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
    ) -> list[Answer]:
        """The top_k answers of each document in turn, or with best those of all documents, by logit. A
        document that is longer than the model is an error unless truncate cuts it, or stride reads it in
        segments that share so many tokens. no_answer ranks that there is none, an empty text, among them."""
        texts = as_one_or_more(documents, "documents")
        options = given(locals(), "question", "documents", "texts")
        return [Answer(*answer) for answer in self._native.answer(as_text(question, "question"), texts, options)]


@dataclass(frozen=True)
class Choice:
    """The number of the best choice, and the probability of each."""

    best: int
    probabilities: list[float]
    logits: list[float]
    #: Tokens that were read before truncation, those that were cut off, and parts that were read.
    tokens: int
    truncated: int
    segments: int


class Chooser:
    """Chooses the best of several answers to a question: multiple choice, or candidates that are read together
    (WikiHop).

    chooser = longformer_cpp.Chooser("folder")
    chooser("country", ["France", "Spain"], supports=["Paris is …", "…"], stride=0).best
    """

    def __init__(self, model: Any, dtype: str = "fp32", threads: int = 0, adapter: Any = None):
        self.model = model_of(model, dtype, threads, adapter, "choose")
        self._native = _native.Chooser(self.model._native)

    @described("choose")
    def __call__(
        self,
        question: str,
        choices: Sequence[str],
        context: str = "",
        supports: Sequence[str] = (),
        truncate: bool = False,
        stride: int | None = None,
        global_attention: str | None = None,
        batch_tokens: int = 8192,
        max_length: int | None = None,
    ) -> Choice:
        """The best of the choices. What is too long for the model is an error unless truncate cuts the
        context, or stride, of candidates alone, reads it in parts."""
        options = given(locals(), "question", "choices", "context", "supports")
        texts = (as_text(question, "question"), as_texts(choices, "choices"))
        read = (as_text(context, "context"), as_texts(supports, "supports"))
        return Choice(*self._native.choose(*texts, *read, options))
