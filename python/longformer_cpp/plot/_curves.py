"""Curves of trainings, several in one picture."""

from __future__ import annotations

import bisect
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .._checks import as_text, found
from .._native import Error
from .._training import TrainingResult
from ._page import checked_file, drawing, save
from ._records import records_of

#: Names of columns of a log by what x counts.
_X = {"step": "step", "epoch": "epoch", "tokens": "tokens"}
_IN_ROW = 3

_Log = list[dict[str, Any]]


def curves(
    runs: Any,
    file: str | os.PathLike[str] | None = None,
    *,
    metrics: str | Sequence[str] = "loss",
    x: str = "step",
    title: str | None = None,
) -> Figure:
    """Draws the curves of trainings, a colour for each run and a panel for each metric. In the panel of the loss a line is
    the training and points are its evaluations; other metrics, as accuracy, are those of evaluations.

    runs: a log.jsonl or the folder of a training, or several, or a mapping from names to them; a TrainingResult is its
    folder. x is "step", "epoch" or "tokens".

        plot.curves(["small/log.jsonl", "large/log.jsonl"], "runs.png")
        plot.curves({"whole": "tuned", "adapter": "adapter"}, "runs.svg", metrics=("loss", "accuracy"), x="epoch")
    """
    path = checked_file(file)
    if x not in _X:
        raise Error(f"x: expected one of {', '.join(_X)}, found {found(x)}")
    names = [metrics] if isinstance(metrics, str) else [as_text(one, "metrics") for one in metrics]
    if not names:
        raise Error("metrics: expected one or more, found none")
    logs = _logs_of(runs)
    with drawing([title or "", *logs]):
        figure = _draw(logs, names, x, title)
        save(figure, path)
    return figure


def _logs_of(runs: Any) -> dict[str, _Log]:
    if isinstance(runs, Mapping):
        files = {as_text(name, "runs"): _file_of(run) for name, run in runs.items()}
    else:
        several = runs if isinstance(runs, Iterable) and not isinstance(runs, (str, os.PathLike)) else [runs]
        paths = [_file_of(run) for run in several]
        files = dict(zip(_names_of(paths), paths))
    if not files:
        raise Error("runs: expected one training or more, found none")
    return {name: _log_of(path) for name, path in files.items()}


def _file_of(run: Any) -> pathlib.Path:
    if isinstance(run, TrainingResult):
        run = run.output_dir
    if not isinstance(run, (str, os.PathLike)):
        raise TypeError(f"runs: expected log.jsonl files, folders or results of trainings, found {found(run)}")
    path = pathlib.Path(run)
    return path / "log.jsonl" if path.is_dir() else path


def _names_of(paths: Sequence[pathlib.Path]) -> list[str]:
    """The shortest ends of the paths that differ; what stands twice is numbered."""
    parts = [(path.parent if path.name == "log.jsonl" else path.with_suffix("")).absolute().parts for path in paths]
    deepest = max((len(one) for one in parts), default=1)
    count = next((n for n in range(1, deepest + 1) if len({one[-n:] for one in parts}) == len(parts)), deepest)
    names = ["/".join(one[-count:]) for one in parts]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, 1)]


def _log_of(path: pathlib.Path) -> _Log:
    if not path.is_file():
        raise Error(f"runs: expected the log.jsonl of a training, found none at {str(path)!r}")
    rows = [row for row in records_of(path) if "step" in row]
    if not rows:
        raise Error(f"{path}: expected the steps of a training, found none")
    return rows


def _points(log: _Log, key: str, x: str) -> list[tuple[float, float]]:
    """The points of a curve. Lines of evaluations name their step alone; their epoch and tokens are those of this step."""
    places = {row["step"]: row[x] for row in log if x in row}
    steps = sorted(places)
    points = []
    for row in log:
        if key not in row or row[key] is None:
            continue
        before = bisect.bisect_right(steps, row["step"])
        place = row["step"] if x == "step" else row.get(x, places[steps[before - 1]] if before else None)
        if place is not None:
            points.append((float(place), float(row[key])))
    return points


def _draw(logs: Mapping[str, _Log], metrics: Sequence[str], x: str, title: str | None) -> Figure:
    columns = min(len(metrics), _IN_ROW)
    rows = -(-len(metrics) // columns)
    figure = Figure(figsize=(max(6.4, 4.8 * columns), 3.6 * rows + 0.3), facecolor="white", layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, metric in zip(panels, metrics):
        _draw_metric(panel, logs, metric, x)
    for panel in panels[len(metrics) :]:
        panel.set_axis_off()
    handles: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=min(len(logs), 4), frameon=False)
    if title:
        figure.suptitle(title)
    return figure


def _draw_metric(panel: Axes, logs: Mapping[str, _Log], metric: str, x: str) -> None:
    has_points = False
    for number, (name, log) in enumerate(logs.items()):
        colour = f"C{number}"
        trained = _points(log, metric, x)
        if trained:
            panel.plot(*zip(*trained), color=colour, linewidth=1.2, label=name)
        measured = _points(log, f"eval_{metric}", x)
        if measured:
            style = {"linestyle": ":", "linewidth": 0.9} if trained else {"linestyle": "-", "linewidth": 1.2}
            label = f"{name}, evaluation" if trained else name
            panel.plot(*zip(*measured), color=colour, marker="o", markersize=4, label=label, **style)  # type: ignore[arg-type]
        has_points = has_points or bool(trained or measured)
    if not has_points:
        keys = sorted({key.removeprefix("eval_") for log in logs.values() for row in log for key in row} - {"step", "epoch", "tokens"})
        raise Error(f"metrics: expected one of {', '.join(keys)}, found {found(metric)}")
    panel.set_xlabel(x)
    panel.set_title("loss in nats" if metric == "loss" else metric.replace("_", " "))
    panel.xaxis.set_major_locator(MaxNLocator(integer=x != "epoch", nbins=6))
    panel.grid(True, alpha=0.3)
