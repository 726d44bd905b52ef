"""How well models do on data with labels."""

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
from dataclasses import dataclass
from typing import Any

from . import _native
from ._checks import as_path, found
from ._native import Error
from ._options import described
from ._table_files import data_files


@dataclass(frozen=True)
class LabelMetrics:
    """Metrics of one label, or of one type of entity."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation, as `longformer evaluate --json` prints it."""

    #: The head, or "retrieval".
    task: str
    #: The most telling one first.
    metrics: dict[str, float]
    labels: list[LabelMetrics]
    #: examples, skipped, tokens, truncated_tokens and so on: docs/cli.md.
    counts: dict[str, int]
    #: Fault of the first example that was left out.
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
        #: Fault of the first example that was left out.
        self.first_skipped = found.first_skipped

    @property
    def metrics(self) -> dict[str, float]:
        return dict(self)


def evaluation_of(report: dict[str, Any], predictions: list[dict[str, Any]]) -> Evaluation:
    labels = [LabelMetrics(*one) for one in report.pop("labels")]
    return Evaluation(labels=labels, predictions=predictions, **report)


def _form_of(file: str) -> str:
    """The form that the ending of a file of predictions asks for, as in the program."""
    ending = pathlib.Path(file).suffix.lower()
    if ending not in ("", ".jsonl", ".ndjson", ".json", ".csv", ".tsv"):
        known = ".jsonl, .ndjson, .json, .csv or .tsv"
        raise Error(f"predictions: expected a name that ends in {known}, found {found(pathlib.Path(file).name)}")
    return ending


def _in_form(lines: bytes, form: str) -> bytes:
    """Lines of JSON objects in the form of a file."""
    if form in ("", ".jsonl", ".ndjson"):
        return lines
    objects = lines.splitlines()
    if form == ".json":
        return b"[\n" + b",\n".join(objects) + b"\n]\n" if objects else b"[]\n"
    rows = [json.loads(line) for line in objects]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    table = csv.writer(text, delimiter="\t" if form == ".tsv" else ",", lineterminator="\n")
    if columns:
        table.writerow(columns)
    for row in rows:
        values = [row.get(key) for key in columns]
        cells = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in values]
        table.writerow(cells)
    return text.getvalue().encode()


def _of_row(prediction: dict[str, Any]) -> dict[str, Any]:
    """A prediction for an example of a table: with its row from 0 in place of the line of a file."""
    line = prediction.pop("line", None)
    return prediction if line is None else {"row": line - 1, **prediction}


def evaluate(native: _native.Model, data: Any, options: dict[str, Any]) -> Evaluation:
    names = ("predictions", "official_predictions", "write_selected")
    files = {name: options.get(name) for name in names}
    wanted = {name: value not in (None, False) for name, value in files.items()}
    keeps = files["predictions"] is True
    form = "" if keeps or not wanted["predictions"] else _form_of(as_path(files["predictions"], "predictions"))
    with data_files({"data": data}, options) as read:
        report, *written = _native.evaluate(native, read.paths["data"], {**options, **wanted})
        report["first_skipped"] = read.told(report["first_skipped"])
        report["notes"] = [read.told(note) for note in report["notes"]]
    for (name, file), text in zip(files.items(), written):
        if wanted[name] and not (name == "predictions" and keeps):
            pathlib.Path(as_path(file, name)).write_bytes(_in_form(text, form) if name == "predictions" else text)
    rows = [json.loads(line) for line in written[0].splitlines()] if keeps else []
    return evaluation_of(report, [_of_row(row) for row in rows] if read.has_tables else rows)


@described("score")
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
