"""How well models do on data with labels."""

from __future__ import annotations

import json
import os
import pathlib
from dataclasses import dataclass
from typing import Any

from . import _native
from ._checks import as_path


@dataclass(frozen=True)
class LabelMetrics:
    """Of one label, or of one type of entity."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found, as `longformer evaluate --json` prints it."""

    #: The head, or "retrieval".
    task: str
    #: The most telling one first.
    metrics: dict[str, float]
    labels: list[LabelMetrics]
    #: examples, skipped, tokens, truncated_tokens and so on: docs/cli.md.
    counts: dict[str, int]
    #: What was wrong with the first example that was left out.
    first_skipped: str
    #: How the data were understood, where they could be understood otherwise.
    notes: list[str]
    seconds: float
    #: One dict for each example where they were asked for, else empty.
    predictions: list[dict[str, Any]]

    def __repr__(self) -> str:
        metrics = ", ".join(f"{name} {value:.4f}" for name, value in self.metrics.items())
        return f"Evaluation({self.task}: {metrics}; {self.counts['examples']} examples)"


class Scores(dict[str, float]):
    """The official numbers of a file of predictions by their names, with what `evaluate` gives beside its own."""

    def __init__(self, found: Evaluation):
        super().__init__(found.metrics)
        self.task = found.task
        #: examples, skipped, missing (those without a prediction, which count as wrong) and so on.
        self.counts = found.counts
        #: What was wrong with the first example that was left out.
        self.first_skipped = found.first_skipped

    @property
    def metrics(self) -> dict[str, float]:
        return dict(self)


def evaluation_of(found: dict[str, Any], predictions: list[dict[str, Any]]) -> Evaluation:
    labels = [LabelMetrics(*one) for one in found.pop("labels")]
    return Evaluation(labels=labels, predictions=predictions, **found)


def evaluate(native: _native.Model, data: str | os.PathLike[str], options: dict[str, Any]) -> Evaluation:
    names = ("predictions", "official_predictions", "write_selected")
    files = {name: options.get(name) for name in names}
    wanted = {name: value not in (None, False) for name, value in files.items()}
    found, *written = _native.evaluate(native, as_path(data, "data"), {**options, **wanted})
    for (name, file), text in zip(files.items(), written):
        if wanted[name] and not (name == "predictions" and file is True):
            pathlib.Path(as_path(file, name)).write_bytes(text)
    rows = [json.loads(line) for line in written[0].splitlines()] if files["predictions"] is True else []
    return evaluation_of(found, rows)


def score(
    predictions: str | os.PathLike[str],
    data: str | os.PathLike[str],
    task: str | None = None,
    singletons: bool = True,
    split: str = "test",
    keep_identical_ids: bool = False,
    **options: Any,
) -> Scores:
    """The official numbers of a file of predictions in the form that the task's authors published, without a
    model. The data tell the task unless it is given; with no_singletons, or singletons=False, clusters of one mention
    count on neither side. Of a run over a corpus (task "retrieval") split names the judgements, and a document that
    has the id of its query counts only with keep_identical_ids. Other options are those of `evaluate` that say how
    data are read: format, skip_invalid and so on."""
    given = {
        **options,
        "task": task,
        "singletons": singletons,
        "split": split,
        "keep_identical_ids": keep_identical_ids,
    }
    return Scores(evaluation_of(_native.score(as_path(predictions, "predictions"), as_path(data, "data"), given), []))
