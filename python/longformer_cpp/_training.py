"""Trainings, with the options of the verbs that train: `--learning-rate` is learning_rate."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _native
from ._checks import as_path
from ._options import described
from ._ranks import Ranks
from ._table_files import data_files

#: A path, or several.
Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
#: Told of every logged step: step, steps, epoch, loss, learning_rate, grad_norm, tokens_per_second, seconds_left,
#: and what an evaluation found as eval_….
Callback = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training."""

    output_dir: str
    steps: int
    #: Mean of the last report.
    loss: float
    stopped_early: bool
    best_metric: float | None
    #: Empty where there is none.
    last_checkpoint: str
    best_checkpoint: str
    #: Step and metrics of every evaluation.
    evaluations: list[tuple[int, dict[str, float]]]
    #: Name of the metric for the best model, and the step after which it was best; "" and 0 without evaluations.
    metric: str = ""
    best_step: int = 0
    #: Step whose model was written, and the metrics of its evaluation; empty if there was none.
    model_step: int = 0
    model_metrics: dict[str, float] = field(default_factory=dict)
    #: The table of epochs: step, epoch, train_loss, seconds, and the metrics of an evaluation.
    epochs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the last evaluation; empty if there was none."""
        return self.evaluations[-1][1] if self.evaluations else {}


@dataclass(frozen=True)
class CrossValidation:
    """Results of the trainings of all folds."""

    output_dir: str
    folds: list[TrainingResult]
    #: Mean and sample standard deviation of each metric over the models of the folds.
    mean: dict[str, float]
    deviation: dict[str, float]


@described("finetune")
def finetune(
    model: str | os.PathLike[str],
    data: Any,
    output_dir: str | os.PathLike[str],
    callback: Callback | None = None,
    ranks: Ranks | None = None,
    **options: Any,
) -> TrainingResult:
    """Trains a folder for a task on examples with labels, as `longformer finetune` does with the same options:
    finetune("folder", "train.jsonl", "tuned", task="classify", learning_rate=3e-5).

    data and validation_file are files or folders, or tables: a frame of pandas or polars, a pyarrow.Table, a
    datasets.Dataset, a list of dicts, a dict of columns. text_field, pair_field and label_field name their columns.

    The callback gets a dict for each logged step. Ctrl-C, and an exception of the callback, end the training after
    the step in work: a checkpoint is written, from which resume_from_checkpoint="last" goes on, and the exception is
    raised. A second Ctrl-C ends it at once.

    With ranks (`longformer_cpp.ranks`) several processes train together: a step has as many times the examples. When one
    does not answer any more, the others end with a Error and leave a checkpoint."""
    validation = options.get("validation_file")
    sources = {"data": data} if validation is None else {"data": data, "validation_file": validation}
    with data_files(sources, options) as files:
        given = {**options, **files.paths, "output_dir": output_dir, "callback": callback, "ranks": ranks}
        return TrainingResult(as_path(output_dir, "output_dir"), **_native.finetune(as_path(model, "model"), given))


@described("finetune")
def cross_validate(
    model: str | os.PathLike[str],
    data: Any,
    output_dir: str | os.PathLike[str],
    callback: Callback | None = None,
    ranks: Ranks | None = None,
    **options: Any,
) -> CrossValidation:
    """Trains a folder on all folds of its data, one after another, as `longformer finetune --folds` does:
    cross_validate("folder", "train.jsonl", "folds", task="classify", folds=5).

    The models stand in fold-1, fold-2, … of output_dir, which gets folds.json. The rest as finetune."""
    place = as_path(output_dir, "output_dir")
    with data_files({"data": data}, options) as files:
        given = {**options, **files.paths, "output_dir": output_dir, "callback": callback, "ranks": ranks}
        found = _native.cross_validate(as_path(model, "model"), given)
    folds = [TrainingResult(os.path.join(place, f"fold-{i}"), **fold) for i, fold in enumerate(found["folds"], 1)]
    return CrossValidation(place, folds, found["mean"], found["deviation"])


@described("pretrain_mlm")
def pretrain_mlm(
    model: str | os.PathLike[str],
    files: Files,
    output_dir: str | os.PathLike[str],
    callback: Callback | None = None,
    ranks: Ranks | None = None,
    **options: Any,
) -> TrainingResult:
    """Trains a masked-language model on plain text, as `longformer pretrain-mlm` does with the same options; the rest
    as finetune."""
    given = {**options, "files": files, "output_dir": output_dir, "callback": callback, "ranks": ranks}
    return TrainingResult(as_path(output_dir, "output_dir"), **_native.pretrain_mlm(as_path(model, "model"), given))


@described("pretrain_lm")
def pretrain_lm(
    files: Files,
    output_dir: str | os.PathLike[str],
    model: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    callback: Callback | None = None,
    ranks: Ranks | None = None,
    **options: Any,
) -> TrainingResult:
    """Trains a language model of characters or tokens, as `longformer pretrain-lm` does with the same options: a model
    to go on from, or the config.json of a new one. The rest as finetune."""
    if (model is None) == (config is None):
        raise TypeError("pretrain_lm: expected one of model and config, found " + ("neither" if model is None else "both"))
    given = {**options, "files": files, "output_dir": output_dir, "model": model, "config": config, "callback": callback, "ranks": ranks}
    return TrainingResult(as_path(output_dir, "output_dir"), **_native.pretrain_lm(given))
