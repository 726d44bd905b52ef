"""Models: documents in, numbers and answers out."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from . import _native
from ._arrays import Batched, Document, FloatArray, as_array, documents_of, rows_like, shape_of, without_padding
from ._checks import as_integer, as_one_or_more, as_path, as_text, found, lasting_name
from ._embedding import Embedder, Passages
from ._evaluation import Evaluation, evaluate
from ._explanation import Explanation
from ._generation import GeneratedTexts, TextGenerator, WrittenDocument
from ._native import Error
from ._options import described, options_of_call
from ._ranks import DocumentRanks
from ._reranking import RankedText, Reranker
from ._search import SearchHit, SearchIndex
from ._tables import is_table
from ._tasks import (
    Answer,
    Choice,
    Chooser,
    Classification,
    Classifier,
    Clusters,
    CoreferenceResolver,
    Entity,
    FilledText,
    MaskFiller,
    QuestionAnswerer,
    Tagger,
)
from ._tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
else:
    from ._numpy import np

#: Labels, values, starts and ends of a document.
_Target = tuple[list[int], list[float], list[int], list[int], list[int]]


def _flat_choices(value: Any, name: str) -> tuple[Any, list[int]]:
    """The choices of all questions as a batch of documents, and how many choices each question has."""
    if isinstance(value, (list, tuple)):
        questions = [list(question) if isinstance(question, (list, tuple, np.ndarray)) else [] for question in value]
        if not questions or not all(questions) or any(np.ndim(q[0]) != 1 for q in questions):
            raise Error(f"{name}: expected for each question a list of choices [n] (multiple-choice head)")
        return [choice for question in questions for choice in question], [len(question) for question in questions]
    array = as_array(value, name)
    if array.ndim != 3 or array.size == 0:
        raise Error(f"{name}: expected [batch, choices, n] (multiple-choice head), found {shape_of(array)}")
    return array.reshape(-1, array.shape[2]), [array.shape[1]] * array.shape[0]


def _by_question(logits: list[FloatArray], choices: list[int], ragged: bool) -> FloatArray | list[FloatArray]:
    """One logit per choice to [batch, choices], or a list of [choices_i]."""
    rows = np.split(np.concatenate(logits), np.cumsum(choices)[:-1])
    return rows if ragged else np.stack(rows)


def _edge_list(edges: Any) -> Any:
    """The edges of one document behind each other, as the native module takes them."""
    if edges is None:
        return None
    array = np.asarray(edges)
    if array.size == 0:
        return np.zeros(0, np.int32)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise Error(f"edges: expected integers [edges, 3] (query, key, kind), found {shape_of(array)}")
    if np.abs(array).max() > np.iinfo(np.int32).max:
        raise Error(f"edges: expected numbers of tokens and kinds, found {np.abs(array).max()}")
    return np.ascontiguousarray(array.reshape(-1), np.int32)


def _edge_lists(edges: Any, documents: list[Document]) -> list[Any]:
    """The edges of each document as the native module takes them."""
    if edges is None:
        return []
    if len(edges) != len(documents):
        raise Error(f"edges: expected a list for each of {len(documents)} documents, found {len(edges)}")
    return [_edge_list(one) for one in edges]


def _batched(rows: list[FloatArray], length: int | None) -> Batched:
    """The rows of all documents in the form of the input; rows after the last visible one are 0."""
    if length is None:
        return rows
    if len(rows) == 1 and len(rows[0]) == length:
        return rows[0][np.newaxis]
    batch = np.zeros((len(rows), length, *rows[0].shape[1:]), np.float32)
    for target, row in zip(batch, rows):
        target[: len(row)] = row
    return batch


def _attention(
    layers: Sequence[tuple[FloatArray, FloatArray]], length: int | None, window: int | None
) -> tuple[Batched, Batched]:
    """attentions and global_attentions of one layer of all documents, in the form of the input. In a
    batch the global columns are as many as the document with most of them has; the others' are 0."""
    if length is None:
        return [local for local, _ in layers], [of_global for _, of_global in layers]
    batch, heads = len(layers), layers[0][0].shape[0]
    most = max(of_global.shape[2] for _, of_global in layers)
    local = np.zeros((batch, heads, length, length if window is None else most + window + 1), np.float32)
    of_global = np.zeros((batch, heads, length, most), np.float32)
    for i, (own, own_global) in enumerate(layers):
        n, x = own_global.shape[1:]
        of_global[i, :, :n, :x] = own_global
        local[i, :, :n, :x] = own[:, :, :x]
        rest = own[:, :, x:]
        begin = 0 if window is None else most
        local[i, :, :n, begin : begin + rest.shape[2]] = rest
    return local, of_global


class ModelOutput:
    """Result of a call of a model, named and laid out as in `transformers`.

    Matrices are float32 [batch, n, hidden size] for padded input and a list of [n_i, hidden size]
    for a list of documents; with a multiple-choice head every choice is a document. Rows where the
    attention mask is 0 are unspecified; of attention probabilities they are 0. What the model does
    not have is None.
    """

    last_hidden_state: Batched
    #: [batch, hidden size].
    pooler_output: FloatArray | None
    #: The embeddings, then the output of every layer; None unless asked for.
    hidden_states: tuple[Batched, ...] | None
    #: One per layer, [batch, heads, n, x + window + 1] for a Longformer with x global tokens (rows of
    #: global tokens are 0), [batch, heads, n, n] for dense attention; None unless asked for.
    attentions: tuple[Batched, ...] | None
    #: One per layer, [batch, heads, n, x]: how much global token x attends to token n. None unless
    #: asked for, and where no document has a global token.
    global_attentions: tuple[Batched, ...] | None
    #: Question answering: that the answer starts, ends at a token: [batch, n] or a list of [n_i].
    start_logits: Batched | None
    end_logits: Batched | None

    def __init__(
        self,
        model: _native.Model,
        documents: list[Document],
        length: int | None,
        hidden_states: bool = False,
        attentions: bool = False,
        choices: list[int] | None = None,
        edges: list[Any] | None = None,
    ):
        self._model, self._documents, self._length = model, documents, length
        results = model.forward(documents, edges or [], hidden_states, attentions)
        columns = [list(values) for values in zip(*results)]
        states, pooled, layers, logits, starts, ends, attended = columns
        self.last_hidden_state = _batched(states, length)
        self.pooler_output = None if pooled[0] is None else np.stack(pooled)
        by_layer = [_batched(list(rows), length) for rows in zip(*layers)]
        self.hidden_states = tuple(by_layer) if hidden_states else None
        self.start_logits = None if starts[0] is None else _batched(starts, length)
        self.end_logits = None if ends[0] is None else _batched(ends, length)
        if logits[0] is None:
            self._head_logits = None
        elif choices is not None:
            self._head_logits = _by_question(logits, choices, length is None)
        elif logits[0].ndim == 1:
            self._head_logits = np.stack(logits)
        else:
            self._head_logits = _batched(logits, length)
        self.attentions = self.global_attentions = None
        if attentions:
            self._set_attentions(attended)

    def _set_attentions(self, documents: list[list[tuple[FloatArray, FloatArray]]]) -> None:
        layers = list(zip(*documents))
        # A layer that sees everything has the window 0.
        windows = [window or None for window in self._model.windows] or [None] * len(layers)
        pairs = [_attention(layer, self._length, window) for layer, window in zip(layers, windows)]
        self.attentions = tuple(local for local, _ in pairs)
        if any(of_global.shape[2] for layer in layers for _, of_global in layer):
            self.global_attentions = tuple(of_global for _, of_global in pairs)

    @cached_property
    def logits(self) -> Batched | None:
        """Logits of the head: [batch, classes] of sequence classification; [batch, n, classes] (or a list) of token
        classification; [batch, choices] (or a list) of multiple choice; [batch, n, 1] (or a list) of candidate scoring,
        which counts at the candidates' tokens; [batch, n, vocabulary] (or a list) of a masked LM. The last is computed
        when first asked for, by another pass over the documents: a vocabulary of numbers per token is a lot."""
        if self._head_logits is not None or not self._model.has_masked_lm_head:
            return self._head_logits
        return _batched([self._model.masked_lm_logits(d) for d in self._documents], self._length)


class Model:
    """A loaded checkpoint folder; `load` makes one. It can be pickled while the folder is there.

    Beside calling it there is a method for each verb of the program, with its options as keywords: encode, rerank,
    classify, explain, ner, qa, choose, coref, fill_mask, evaluate, summarize, generate. They read texts, and need the head
    that the verb needs."""

    def __init__(
        self, native: _native.Model, source: tuple[str, str, int, str, str, list[str], str], ranks: DocumentRanks | None = None
    ):
        self._native = native
        self._source = source
        self._ranks = ranks
        if native.head == "sequence-to-sequence":
            # Reads the generation options while the folder is there.
            self._writer  # noqa: B018

    def __reduce__(self) -> Any:
        if self._ranks is not None:
            raise Error("ranks: expected a model of this process alone to pickle, found one of several")
        folder, dtype, threads, adapter, task, int8_skip, device = self._source
        return load, (folder, dtype, threads, adapter or None, task, int8_skip, None, device)

    def __repr__(self) -> str:
        head = f", {self.head}" if self.head else ""
        layers = f"{self._native.layers} layers of {self._native.hidden_size}"
        return f"Model({self._source[0]!r}: {self._native.model_type}{head}, {layers}, {self.max_tokens} tokens)"

    @cached_property
    def config(self) -> dict[str, Any]:
        """Contents of config.json."""
        folder = pathlib.Path(self._native.folder)
        return dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))

    @property
    def bytes_sent(self) -> int:
        """Bytes that this process has given to the other ranks so far."""
        return self._native.bytes_sent

    @property
    def max_tokens(self) -> int:
        """The longest document in tokens, special tokens included."""
        return self._native.max_tokens

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the folder, or of the adapter if it has one."""
        return Tokenizer(self._native.tokenizer_folder)

    @cached_property
    def _gradients(self) -> _native.GradientModel:
        """The same weights, kept so that gradients can flow to them."""
        folder, dtype, threads, adapter, task, _, device = self._source
        options = {"dtype": dtype, "threads": threads, "adapter": adapter, "task": task, "device": device}
        return _native.GradientModel(folder, options)

    @cached_property
    def _writer(self) -> TextGenerator:
        """Shares the weights, as all that follow."""
        return TextGenerator(_native.TextGenerator(self._native))

    @cached_property
    def _embedder(self) -> Embedder:
        return Embedder(self)

    @cached_property
    def _classifier(self) -> Classifier:
        return Classifier(self)

    @cached_property
    def _reranker(self) -> Reranker:
        return Reranker(self)

    @cached_property
    def _tagger(self) -> Tagger:
        return Tagger(self)

    @cached_property
    def _answerer(self) -> QuestionAnswerer:
        return QuestionAnswerer(self)

    @cached_property
    def _chooser(self) -> Chooser:
        return Chooser(self)

    @cached_property
    def _resolver(self) -> CoreferenceResolver:
        return CoreferenceResolver(self)

    @cached_property
    def _filler(self) -> MaskFiller:
        return MaskFiller(self)

    @options_of_call(Embedder.encode)
    def encode(self, sentences: Any, **options: Any) -> Any:
        """The vectors of texts: see Embedder.encode."""
        return self._embedder.encode(sentences, **options)

    @options_of_call(Embedder.encode_passages)
    def encode_passages(self, text: str, **options: Any) -> Passages:
        """The vectors of the passages of a document: see Embedder.encode_passages."""
        return self._embedder.encode_passages(text, **options)

    @options_of_call(SearchIndex.query)
    def search(
        self,
        question: str,
        documents: Any,
        passage_tokens: int | None = None,
        context: str | None = None,
        passage_prompt: str | None = None,
        language: str | None = None,
        text_field: str = "text",
        id_field: str | None = None,
        **options: Any,
    ) -> list[SearchHit]:
        """The best passages of documents, which are texts by their names, a list whose numbers are the names, or a table
        as SearchIndex.add_documents takes it: an index in memory for one question. Options are those of SearchIndex
        and SearchIndex.query."""
        index = SearchIndex(
            self._embedder,
            passage_tokens=passage_tokens,
            context=context,
            passage_prompt=passage_prompt,
            language=language,
        )
        if not isinstance(documents, Mapping) and not is_table(documents):
            documents = {str(i): text for i, text in enumerate(as_one_or_more(documents, "documents"))}
        index.add_documents(documents, text_field, id_field)
        return index.query(question, **options)

    @options_of_call(Reranker.__call__)
    def rerank(self, query: str, texts: str | Sequence[str], **options: Any) -> list[RankedText]:
        """Texts in the order of their relevance to a query: see Reranker."""
        return self._reranker(query, texts, **options)

    @overload
    def classify(self, texts: str | Sequence[str], **options: Any) -> list[Classification]: ...
    @overload
    def classify(self, texts: Any, **options: Any) -> Any: ...
    @options_of_call(Classifier.__call__)
    def classify(self, texts: Any, **options: Any) -> Any:
        """The classes of texts, or a table with them: see Classifier."""
        return self._classifier(texts, **options)

    @options_of_call(Classifier.explain)
    def explain(self, texts: str | Sequence[str], method: str = "integrated", **options: Any) -> list[Explanation]:
        """Why texts belong to their classes: see Classifier.explain."""
        return self._classifier.explain(texts, method, **options)

    @overload
    def ner(self, texts: str | Sequence[str], **options: Any) -> list[list[Entity]]: ...
    @overload
    def ner(self, texts: Any, **options: Any) -> Any: ...
    @options_of_call(Tagger.__call__)
    def ner(self, texts: Any, **options: Any) -> Any:
        """The entities in texts, or a table with them: see Tagger."""
        return self._tagger(texts, **options)

    @options_of_call(QuestionAnswerer.__call__)
    def qa(self, question: str, documents: str | Sequence[str], **options: Any) -> list[Answer]:
        """Answers to a question in documents: see QuestionAnswerer."""
        return self._answerer(question, documents, **options)

    @options_of_call(Chooser.__call__)
    def choose(self, question: str, choices: Sequence[str], **options: Any) -> Choice:
        """The best of several answers: see Chooser."""
        return self._chooser(question, choices, **options)

    @options_of_call(CoreferenceResolver.__call__)
    def coref(self, text: str, **options: Any) -> Clusters:
        """Which mentions of a text mean the same: see CoreferenceResolver."""
        return self._resolver(text, **options)

    @options_of_call(MaskFiller.__call__)
    def fill_mask(self, texts: str | Sequence[str], **options: Any) -> list[FilledText]:
        """The likeliest tokens where texts have a mask: see MaskFiller."""
        return self._filler(texts, **options)

    @described("write")
    def summarize(
        self,
        texts: str | Sequence[str],
        callback: Callable[[int, str], object] | None = None,
        **options: Any,
    ) -> list[WrittenDocument]:
        """Models with a decoder: a short text about each document, with the options of `longformer summarize`: those of
        `generate`, and truncate, extend or refuse for long documents, stride, max_source_length,
        global_attention, together, seed. The callback gets the number of a document and what is written of its
        text, piece by piece."""
        return self._writer.write(texts, True, callback, options)

    @described("write")
    def write(
        self,
        texts: str | Sequence[str],
        callback: Callable[[int, str], object] | None = None,
        **options: Any,
    ) -> list[WrittenDocument]:
        """Writes texts as `longformer generate` does: without the global attention and length of a summary."""
        return self._writer.write(texts, False, callback, options)

    @described("evaluate")
    def evaluate(
        self, data: Any, *, predictions: Any = None, official_predictions: Any = None, write_selected: Any = None, **options: Any
    ) -> Evaluation:
        """How well the model does on a data set with labels, a file or folder, or a table (a frame of pandas or polars, a
        pyarrow.Table, a datasets.Dataset, a list of dicts), with the options of `longformer evaluate`: task, format,
        truncate, stride, skip_invalid and so on. predictions=True keeps what the model says of every example;
        predictions, official_predictions and write_selected are else the files to write."""
        files = {"predictions": predictions, "official_predictions": official_predictions, "write_selected": write_selected}
        return evaluate(self._native, data, {**options, **files})

    @property
    def head(self) -> str:
        """masked-lm, sequence-classification, token-classification, question-answering,
        multiple-choice, candidate-scoring, sequence-to-sequence (models with a decoder, which write texts), or empty
        for an encoder alone."""
        return self._native.head

    @property
    def labels(self) -> list[str]:
        """Names of the classes, of a head that classifies."""
        return self._native.labels

    @property
    def problem_type(self) -> str:
        """Problem type of config.json; empty if absent."""
        return self._native.problem_type

    def _with_globals(self, document: Document) -> Document:
        """The document with the head's default global mask, which counts separators in the padding too."""
        ids, attention, types, positions, global_attention = document
        if attention is None or global_attention is not None or not self.head or ids.size == 0:
            return document
        mask = self._native.default_global_attention_mask(ids)
        return ids, attention, types, positions, np.array(mask, np.int32) if mask else None

    def _documents(
        self, input_ids: Any, masks: dict[str, Any]
    ) -> tuple[list[Document], int | None, list[int] | None]:
        """The documents, their padded length (None for a list), and how many choices questions have."""
        choices = None
        if self.head == "multiple-choice":
            input_ids, choices = _flat_choices(input_ids, "input_ids")
            masks = {k: None if v is None else _flat_choices(v, k)[0] for k, v in masks.items()}
        ids, ragged = documents_of(input_ids)
        rows = [rows_like(value, name, ids, ragged) for name, value in masks.items()]
        documents: list[Document] = list(zip(ids, *rows))
        if ragged:
            return documents, None, choices
        return [self._with_globals(document) for document in documents], len(ids[0]), choices

    def __call__(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        global_attention_mask: Any = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        edges: Sequence[Any] | None = None,
    ) -> ModelOutput:
        """Runs documents: integers [batch, n] (padded) or a list of 1-D arrays of any lengths
        (ragged), with masks of the same form. Padding at the end of a document costs nothing when
        the attention mask says so. A multiple-choice head takes [batch, choices, n], or for each
        question a list of choices. Without a global_attention_mask, global attention is where
        `transformers` puts it for the head. A model with edges takes for each document integers [edges, 3],
        the token that sees another, this one, and the number of the kind, or None."""
        masks = {
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "position_ids": position_ids,
            "global_attention_mask": global_attention_mask,
        }
        documents, length, choices = self._documents(input_ids, masks)
        if length is not None:
            documents = [without_padding(document) for document in documents]
        lists = _edge_lists(edges, documents)
        return ModelOutput(self._native, documents, length, output_hidden_states, output_attentions, choices, lists)

    @property
    def max_text_tokens(self) -> int:
        """The longest text that a decoder can write, with its start token."""
        return self._writer.max_text_tokens

    def text_logits(
        self, input_ids: Any, decoder_input_ids: Any, attention_mask: Any = None, global_attention_mask: Any = None
    ) -> list[FloatArray]:
        """Models with a decoder: for each document and its text, the logits [tokens of the text, vocabulary] of the
        token that follows each. Documents and texts are integers [batch, n] or lists of 1-D arrays. No
        token has global attention unless the mask says so, as in `transformers`."""
        return self._writer.logits(input_ids, decoder_input_ids, attention_mask, global_attention_mask)

    @described("generate")
    def generate(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        global_attention_mask: Any = None,
        decoder_input_ids: Any = None,
        seed: int = 0,
        **options: Any,
    ) -> GeneratedTexts:
        """Models with a decoder: writes texts with the options of `generate` of `transformers`, under their names,
        and gives the same token ids for greedy and beam search. Documents are integers [batch, n] with a
        mask, or a list of 1-D arrays. What is not given is as the folder says, then as `transformers` has
        it; None switches off what draws are made from (top_k and its like). Sampling draws by `seed`: the
        same text for the same seed, document and place in the batch. decoder_input_ids [n], or [batch, n] with
        a row for each document, is what texts begin with; so is decoder_start_token_id, one or a list."""
        masks = (attention_mask, global_attention_mask)
        number = as_integer(seed, "seed")
        if number < 0:
            raise Error(f"seed: expected at least 0, found {number}")
        return self._writer.generate(input_ids, *masks, decoder_input_ids, number, options)


def load(
    folder: str | os.PathLike[str],
    dtype: str = "fp32",
    threads: int = 0,
    adapter: str | os.PathLike[str] | None = None,
    task: str = "",
    int8_skip: str | Sequence[str | int] = (),
    ranks: DocumentRanks | None = None,
    device: str = "cpu",
) -> Model:
    """Loads a Hugging Face checkpoint folder, or org/name[@revision] of the Hub, which is fetched
    where its cache lacks it (a line on stderr says what and how much before; HF_HUB_OFFLINE=1 forbids it). dtype is
    fp32, bf16 or int8, which multiplies the layers as 8-bit whole numbers; threads is at most 1024, and 0 takes what CPU affinity, the cgroup quota and
    OMP_NUM_THREADS allow. Weights that are NaN or infinite are a RuntimeWarning; results are then what
    they are, as in `transformers`. adapter is the folder of a LoRA adapter of the model, as peft writes
    it; it is merged into the weights. task is the verb whose head is wanted ("classify", "ner", "qa" …) where
    architectures of config.json names none. int8_skip names layers that int8 leaves as they are, by numbers from 0
    or by parts of names such as "output.dense". device "opencl" or "opencl:N" runs an encoder on a GPU, in fp32.

    With ranks (`longformer_cpp.ranks`) several processes read each document together: all of them load the folder and make
    the same calls with the same texts, from one thread; each computes a part of the tokens, and all get the results. The
    model needs windows in every layer, as Longformers have. A process that does not answer ends the call with an Error.

    A process that os.fork or multiprocessing makes may go on using the model: on one thread where it
    calls it from the thread that forked and that had called it before. Fork while no thread is in a
    call: the lock of the model would stay taken in the new process."""
    path = lasting_name(as_path(folder, "folder"))
    source = (path, dtype, threads, "" if adapter is None else lasting_name(as_path(adapter, "adapter")))
    if not isinstance(int8_skip, (str, Sequence)):
        raise TypeError(f"int8_skip: expected numbers or names of layers, found {found(int8_skip)}")
    named = int8_skip.split(",") if isinstance(int8_skip, str) else int8_skip
    skipped = [str(layer).strip() for layer in named]
    options = {"dtype": dtype, "threads": threads, "adapter": source[3], "task": as_text(task, "task")}
    options["device"] = as_text(device, "device")
    native = _native.Model(path, {**options, "int8_skip": skipped}, ranks)
    return Model(native, (*source, task, skipped, device), ranks)


def _targets(model: Model, documents: list[Document], labels: Any, spans: list[Any]) -> list[_Target]:
    """Labels, values, starts, ends and candidates of each document in the form of the head."""
    targets: list[_Target] = [([], [], [], [], []) for _ in documents]
    if model.head == "question-answering":
        for which, (name, positions) in enumerate(zip(("start_positions", "end_positions"), spans)):
            if positions is None:
                raise Error(f"{name}: expected one for each document (question-answering head), found none")
            for target, position in zip(targets, np.ravel(as_array(positions, name)), strict=True):
                target[2 + which].append(int(position))
        return targets
    if labels is None:
        raise Error(f"labels: expected some for a {model.head} head, found none")
    if isinstance(labels, (list, tuple)) and any(np.ndim(row) for row in labels):
        rows = [as_array(row, f"labels[{i}]") for i, row in enumerate(labels)]
    else:
        rows = list(as_array(labels, "labels"))
    if model.head in ("multiple-choice", "candidate-scoring"):
        return [([int(row)], [], [], [], []) for row in rows]
    if model.head == "sequence-to-sequence":
        return [([int(label) for label in row], [], [], [], []) for row in rows]
    if len(rows) != len(documents):
        raise Error(f"labels: expected one row for each of {len(documents)} documents, found {len(rows)}")
    per_token = model.head in ("masked-lm", "token-classification")
    for target, row, document in zip(targets, rows, documents):
        values = np.ravel(row)[: document[0].size] if per_token else np.ravel(row)
        regression = model.problem_type == "regression" or (not model.problem_type and len(model.labels) == 1)
        numbers = regression or model.problem_type.startswith("multi") or values.dtype.kind == "f"
        if not per_token and numbers:
            target[1].extend(float(value) for value in values)
        else:
            target[0].extend(int(value) for value in values)
    return targets


def loss_and_gradients(
    model: Model,
    input_ids: Any,
    labels: Any = None,
    start_positions: Any = None,
    end_positions: Any = None,
    attention_mask: Any = None,
    token_type_ids: Any = None,
    global_attention_mask: Any = None,
    candidate_positions: Any = None,
    segments: Any = None,
    edges: Sequence[Any] | None = None,
) -> tuple[float, dict[str, FloatArray]]:
    """The loss of the model's head over a batch, as `transformers` computes it, and its gradient for every
    tensor of the folder by name; zeros for tensors that the loss does not depend on. Inputs are those of
    calling the model; labels are those that `transformers` takes for the head. A head for candidate
    scoring, which `transformers` does not have, takes candidate_positions (a list for each document), in
    segments the number of documents of each question (one), and in labels the right candidate of each
    question. Models with a decoder take the text of each document as labels. Dropout is off."""
    masks = {
        "attention_mask": attention_mask,
        "token_type_ids": token_type_ids,
        "position_ids": None,
        "global_attention_mask": global_attention_mask,
    }
    documents, length, choices = model._documents(input_ids, masks)
    # The softmax of an answer runs over padding too.
    if length is not None and model.head != "question-answering":
        documents = [without_padding(document) for document in documents]
    targets = _targets(model, documents, labels, [start_positions, end_positions])
    if model.head == "candidate-scoring":
        choices = [1] * len(documents) if segments is None else [int(count) for count in segments]
    if choices is not None:
        if len(targets) != len(choices) or sum(choices) != len(documents):
            raise Error(f"labels: expected one for each of {len(choices)} questions, found {len(targets)}")
        # A question's label stands at its first document.
        labelled, first = targets, 0
        targets = [([], [], [], [], []) for _ in documents]
        for label, count in zip(labelled, choices, strict=True):
            targets[first], first = label, first + count
    if model.head == "candidate-scoring":
        if candidate_positions is None or len(candidate_positions) != len(documents):
            raise Error(f"candidate_positions: expected a list for each of {len(documents)} documents")
        for target, positions in zip(targets, candidate_positions):
            target[4].extend(int(position) for position in positions)
    lists = _edge_lists(edges, documents)
    loss, gradients = model._gradients.loss_and_gradients(documents, lists, targets, choices or [])
    return loss, dict(gradients)
