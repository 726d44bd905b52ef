"""Estimators of scikit-learn over texts.

    from longformer_cpp.sklearn import LongformerClassifier, LongformerVectors

    classifier = LongformerClassifier("folder", num_train_epochs=2).fit(texts, labels)
    searched = make_pipeline(LongformerVectors("folder"), LogisticRegression())

`import longformer_cpp` does not load this module.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    # It has no types.
    from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin  # type: ignore
    from sklearn.utils.multiclass import check_classification_targets  # type: ignore
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d  # type: ignore
except ModuleNotFoundError as error:
    raise ImportError("longformer_cpp.sklearn needs scikit-learn: pip install scikit-learn") from error

from . import info
from ._arrays import FloatArray
from ._checks import as_path, as_texts, found, is_missing
from ._embedding import Embedder
from ._model import load
from ._native import Error
from ._tables import batch_of, is_table, table_texts
from ._tasks import Classifier
from ._training import finetune

__all__ = ["LongformerClassifier", "LongformerVectors"]

#: Overlap of the segments of a long document.
_STRIDE = 128


def _texts_of(X: Any, text_field: str) -> list[str]:
    """The texts of a list, column or table, or of a matrix of one column."""
    if is_table(X):
        batch = batch_of(X)
        return table_texts(batch, batch.names[0] if len(batch.names) == 1 else text_field)
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1:
        X = X[:, 0]
    return as_texts(X, "X")


def _folder_of(model: Any) -> str:
    if model is None:
        raise Error("model: expected the folder of a model, found none")
    return as_path(model, "model")


def _reading(long: str, most_tokens: int) -> dict[str, Any]:
    """Options for documents that are longer than the model."""
    ways: dict[str, dict[str, Any]] = {"split": {"stride": min(_STRIDE, most_tokens // 4)}, "truncate": {"truncate": True}, "refuse": {}}
    if long not in ways:
        raise Error(f"long: expected one of {', '.join(ways)}, found {found(long)}")
    return ways[long]


def _remove(path: str, process: int) -> None:
    """A process that was forked leaves the folder to its parent."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


class _KeptFolder:
    """A folder that lives as long as this object, and goes into pickles with its files; and the model that was read of it."""

    def __init__(self) -> None:
        self.reader: Classifier | None = None
        self._make()

    def _make(self) -> None:
        self.path = tempfile.mkdtemp(prefix="longformer-sklearn-")
        weakref.finalize(self, _remove, self.path, os.getpid())

    def __getstate__(self) -> dict[str, bytes]:
        files = sorted(path for path in pathlib.Path(self.path).rglob("*") if path.is_file())
        return {path.relative_to(self.path).as_posix(): path.read_bytes() for path in files}

    def __setstate__(self, files: dict[str, bytes]) -> None:
        self.reader = None
        self._make()
        for name, content in files.items():
            path = pathlib.Path(self.path) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """An estimator of texts."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags


class LongformerClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Fine-tunes a model on texts and their classes; fit starts from the folder each time.

    X is a list, column or array of texts, or a table with the texts in the column text_field; y has classes of any kind.

    A fitted object keeps its weights in a temporary folder, `model_folder_`, which goes when the object goes. A pickle
    holds the files of this folder: the whole model, or with lora_rank the adapter of some MB, which needs the folder
    `model` under the same name where it is read. `save_model` writes the folder for the program and other packages.

    Parameters
    ----------
    model : folder of an encoder, or org/name of the Hub
    num_train_epochs, learning_rate, head_learning_rate, lora_rank, per_device_train_batch_size,
    gradient_accumulation_steps : as of `finetune`; None: its own default
    random_state : seed of the head, of the order of the texts and of dropout; None: that of `finetune`
    long : "split" reads a document that is longer than the model in segments, "truncate" cuts it, "refuse" raises Error
    text_field : column of the texts of a table
    dtype, threads : as of `load`; dtype is that of training too
    options : more options of `finetune`, by their names
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        num_train_epochs: float | None = None,
        learning_rate: float | None = None,
        head_learning_rate: float | None = None,
        lora_rank: int | None = None,
        per_device_train_batch_size: int | None = None,
        gradient_accumulation_steps: int | None = None,
        random_state: int | None = None,
        long: str = "split",
        text_field: str = "text",
        dtype: str = "fp32",
        threads: int = 0,
        options: Mapping[str, Any] | None = None,
    ):
        self.model = model
        self.num_train_epochs = num_train_epochs
        self.learning_rate = learning_rate
        self.head_learning_rate = head_learning_rate
        self.lora_rank = lora_rank
        self.per_device_train_batch_size = per_device_train_batch_size
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.random_state = random_state
        self.long = long
        self.text_field = text_field
        self.dtype = dtype
        self.threads = threads
        self.options = options

    def fit(self, X: Any, y: Any) -> LongformerClassifier:
        """Trains the model on texts X with the classes y."""
        texts = _texts_of(X, self.text_field)
        classes, numbers = _classes_of(y)
        check_consistent_length(texts, numbers)
        folder = _folder_of(self.model)
        names = _names_of(classes)
        rows = [{"text": text, "label": names[number]} for text, number in zip(texts, numbers.tolist())]
        kept = _KeptFolder()
        target = os.path.join(kept.path, "model")
        self.result_ = finetune(folder, rows, target, **self._training_options(folder))
        self._folder, self._names = kept, names
        self.classes_ = classes
        return self

    def _training_options(self, folder: str) -> dict[str, Any]:
        given = {
            "num_train_epochs": self.num_train_epochs,
            "learning_rate": self.learning_rate,
            "head_learning_rate": self.head_learning_rate,
            "lora_rank": self.lora_rank,
            "per_device_train_batch_size": self.per_device_train_batch_size,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "seed": self.random_state,
            "threads": self.threads,
            "dtype": self.dtype,
        }
        fixed = {"task": "classify", "problem_type": "single_label_classification", "new_head": True, "save_strategy": "no"}
        reading = _reading(self.long, info(folder)["max_tokens"])
        return {**given, **fixed, **reading, **(self.options or {})}

    @property
    def model_folder_(self) -> str:
        """The folder of the trained model, or of its adapter."""
        check_is_fitted(self)
        return os.path.join(self._folder.path, "model")

    def save_model(self, folder: str | os.PathLike[str]) -> None:
        """Copies the trained model, or its adapter, to a folder that is not there yet."""
        shutil.copytree(self.model_folder_, as_path(folder, "folder"))

    def _classifier(self) -> Classifier:
        check_is_fitted(self)
        reader: Classifier | None = self._folder.reader
        if reader is None:
            trained = self.model_folder_
            is_adapter = os.path.exists(os.path.join(trained, "adapter_config.json"))
            base, adapter = (_folder_of(self.model), trained) if is_adapter else (trained, None)
            reader = self._folder.reader = Classifier(load(base, self.dtype, self.threads, adapter, "classify"))
        return reader

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """The logits of the classes, in the order of classes_; of two classes how much larger that of the second is."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Probabilities [texts, classes], in the order of classes_."""
        logits = self._logits(X)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest class of each text."""
        logits = self._logits(X)
        best: npt.NDArray[Any] = self.classes_[logits.argmax(axis=1)]
        return best

    def _logits(self, X: Any) -> npt.NDArray[np.float64]:
        classifier = self._classifier()
        texts = _texts_of(X, self.text_field)
        places = [classifier.model.labels.index(name) for name in self._names]
        found = classifier(texts, top_k=1, **_reading(self.long, classifier.model.max_tokens))
        logits = np.array([one.logits for one in found], np.float64).reshape(len(texts), len(classifier.model.labels))
        return np.asarray(logits[:, places])


def _classes_of(y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """The classes in order, and the number of each label among them."""
    if y is None:
        raise ValueError("y: expected the class of each text; this estimator requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    missing = [row for row, value in enumerate(labels.tolist()) if is_missing(value)]
    if missing:
        raise ValueError(f"y: expected a class in every row, found NaN or none in {len(missing)}, the first of them row {missing[0]}")
    check_classification_targets(labels)
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y: expected two classes or more, found {len(classes)} class")
    return classes, numbers


def _names_of(classes: npt.NDArray[Any]) -> list[str]:
    """The labels of the trained folder."""
    names = [str(value) for value in classes.tolist()]
    is_plain = len(set(names)) == len(names) and all(isinstance(value, str) and _is_label(value) for value in classes.tolist())
    # Numbers could be read as places of classes.
    return names if is_plain and not all(map(_is_number, names)) else [f"class {name}" for name in names]


def _is_label(text: str) -> bool:
    """Whether data with labels take a text for one; some stand for a missing value."""
    return bool(text.strip()) and text.strip().lower().lstrip("-") not in ("nan", "<na>")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class LongformerVectors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Estimator):  # type: ignore[misc]
    """Turns texts into vectors, float32 [texts, embedding size], as `Embedder.encode` does; nothing is learned.

    X is a list, column or array of texts, or a table with the texts in the column text_field. A pickle holds the name of
    the folder, which must be there under the same name where it is read.

    Parameters
    ----------
    model : folder of an encoder, or org/name of the Hub
    prompt_name, normalize_embeddings, truncate_dim, pooling : as of `Embedder.encode`
    long : "split" reads a document that is longer than the model in segments, "truncate" cuts it, "refuse" raises Error
    text_field : column of the texts of a table
    dtype, threads : as of `load`
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        prompt_name: str | None = None,
        normalize_embeddings: bool | None = None,
        truncate_dim: int | None = None,
        pooling: str | None = None,
        long: str = "split",
        text_field: str = "text",
        dtype: str = "fp32",
        threads: int = 0,
    ):
        self.model = model
        self.prompt_name = prompt_name
        self.normalize_embeddings = normalize_embeddings
        self.truncate_dim = truncate_dim
        self.pooling = pooling
        self.long = long
        self.text_field = text_field
        self.dtype = dtype
        self.threads = threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        # Vectors are float32.
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Without the model, which is read again."""
        state = dict(super().__getstate__())
        state.pop("_reader", None)
        return state

    def fit(self, X: Any, y: Any = None) -> LongformerVectors:
        """Checks the texts and the options."""
        _texts_of(X, self.text_field)
        self.embedding_size_ = self._n_features_out
        return self

    def transform(self, X: Any) -> FloatArray:
        """The vectors of texts."""
        texts = _texts_of(X, self.text_field)
        # A vector takes each token of a long text once: there is no overlap to choose.
        way: dict[str, Any] = {"split" if name == "stride" else name: True for name in _reading(self.long, 0)}
        vectors: FloatArray = self._embedder().encode(
            texts,
            prompt_name=self.prompt_name,
            normalize_embeddings=self.normalize_embeddings,
            truncate_dim=self.truncate_dim,
            pooling=self.pooling,
            **way,
        )
        return vectors

    def _embedder(self) -> Embedder:
        source = (_folder_of(self.model), self.dtype, self.threads)
        reader: tuple[tuple[Any, ...], Embedder] | None = self.__dict__.get("_reader")
        if reader is None or reader[0] != source:
            reader = self._reader = (source, Embedder(*source))
        return reader[1]

    @property
    def _n_features_out(self) -> int:
        size = self._embedder().embedding_size
        return min(size, self.truncate_dim or size)
