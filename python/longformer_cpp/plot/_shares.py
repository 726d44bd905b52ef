"""Shares of attention of a model with memories, as bars: by kind and age of the rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from .._checks import found
from .._language_model import LanguageModelScore
from .._native import Error
from .._training import TrainingResult
from ._page import checked_file, drawing, save
from ._records import records_of

_KINDS = ("compressed", "memory", "segment")
_METRICS = ("cm", "em", "seq")
_COLOURS = ("#d55e00", "#0072b2", "#009e73")
_AGES = 6
_IN_ROW = 4

#: Shares [3 kinds, 6 ages], and of a training the step of each evaluation with the mean of its layers.
_Shares = npt.NDArray[np.float64]
_Course = list[tuple[int, _Shares]]


def attention_shares(source: Any, file: str | os.PathLike[str] | None = None, *, title: str | None = None) -> Figure:
    """Draws how much of the attention goes to compressed rows, memory and segment, in six parts of each by age: the
    mean of the layers, every layer, and of a training how the mean came about.

    source: what LanguageModel.evaluate(…, attention_shares=True) or pretrain_lm(…, attention_shares=True) returns, or
    a file: the log.jsonl of a training, or what `longformer evaluate --attention-shares --json` prints.

        score = longformer_cpp.LanguageModel("compressive").evaluate("enwik8", part="test", attention_shares=True)
        plot.attention_shares(score, "shares.png")
        plot.attention_shares("compressive/log.jsonl", "training.svg")
    """
    path = checked_file(file)
    layers, course = _shares_of(source)
    with drawing([title or ""]):
        figure = _draw(layers, course, title)
        save(figure, path)
    return figure


def _shares_of(source: Any) -> tuple[list[_Shares], _Course]:
    """Shares of each layer, and the evaluations of a training; none for a score."""
    if isinstance(source, (str, os.PathLike)):
        rows = records_of(source)
        return _of_log(rows) if any("eval_seq_p5" in row for row in rows) else (_of_scores(rows), [])
    if isinstance(source, LanguageModelScore):
        return _of_scores([vars(source)]), []
    if isinstance(source, TrainingResult):
        logged = [{f"eval_{name}": value for name, value in metrics.items()} for _, metrics in source.evaluations]
        return _of_log([{"step": step, **row} for (step, _), row in zip(source.evaluations, logged)])
    if isinstance(source, Mapping):
        return _of_scores([source]), []
    raise TypeError(
        "source: expected the result of an evaluation or training with attention_shares=True, or a file, found "
        f"{found(source)}"
    )


def _of_scores(rows: list[Any]) -> list[_Shares]:
    for row in rows:
        if row.get("attention_shares"):
            layers = [[one[kind] for kind in _KINDS] if isinstance(one, Mapping) else one for one in row["attention_shares"]]
            return [np.asarray(layer, np.float64) for layer in layers]
    raise Error("source: expected attention shares, found none: evaluate with attention_shares=True (--attention-shares)")


def _of_log(rows: list[Any]) -> tuple[list[_Shares], _Course]:
    points = [row for row in rows if row.get("eval_seq_p5", 0) > 0]
    if not points:
        raise Error("source: expected evaluations with attention shares, found none: train with attention_shares=True")

    def shares(row: Any, prefix: str) -> _Shares:
        return np.array([[row[f"eval_{prefix}{kind}_p{age}"] for age in range(_AGES)] for kind in _METRICS])

    last = points[-1]
    count = sum(f"eval_layer_{layer}_seq_p5" in last for layer in range(len(last)))
    return [shares(last, f"layer_{layer}_") for layer in range(count)], [(row["step"], shares(row, "")) for row in points]


def _bars(axes: Axes, shares: _Shares, largest: float) -> None:
    """A bar for each age, the oldest left, in the colour of its kind."""
    for kind, (ages, colour) in enumerate(zip(shares, _COLOURS)):
        axes.bar(np.arange(_AGES) + kind * (_AGES + 1), ages, 0.85, color=colour, label=_KINDS[kind])
    axes.set_xticks([])
    axes.set_ylim(0, largest * 1.02 or 1)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.spines[["top", "right"]].set_visible(False)


def _draw(layers: list[_Shares], course: _Course, title: str | None) -> Figure:
    rows = -(-len(layers) // _IN_ROW)
    figure = Figure(figsize=(10, 3.6 + 1.3 * rows), facecolor="white", layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(3.2, 1.3 * rows))
    upper, lower = parts
    if title:
        figure.suptitle(title)
    panels = upper.subplots(1, 2 if course else 1, squeeze=False)[0]
    mean = np.mean(layers, axis=0)
    _bars(panels[0], mean, mean.max())
    panels[0].set_title(f"mean of {len(layers)} layers, highest bar {100 * mean.max():.1f} %")
    middles = np.arange(len(_KINDS)) * (_AGES + 1) + (_AGES - 1) / 2
    panels[0].set_xticks(middles, [f"{kind} {100 * sum(ages):.1f} %" for kind, ages in zip(_KINDS, mean)], rotation=0)
    panels[0].tick_params(bottom=False)
    panels[0].set_ylabel("share of the attention")
    panels[0].set_xlabel("each kind in six parts by age, the oldest left")
    if course:
        _draw_course(panels[1], course)
    largest = max(float(layer.max()) for layer in layers)
    small = lower.subplots(rows, _IN_ROW, sharey=True, squeeze=False).ravel()
    for number, axes in enumerate(small):
        if number >= len(layers):
            axes.set_axis_off()
            continue
        _bars(axes, layers[number], largest)
        axes.set_title(f"layer {number}", fontsize="medium")
    lower.suptitle(f"layers, highest bar {100 * largest:.1f} %", fontsize="medium")
    return figure


def _draw_course(axes: Axes, course: _Course) -> None:
    """Shares of the three kinds at every evaluation, one above the other."""
    steps = [step for step, _ in course]
    sums = np.array([shares.sum(1) for _, shares in course]).T
    if len(course) > 1:
        axes.stackplot(steps, sums, colors=_COLOURS, labels=_KINDS)
        axes.set_xlim(steps[0], steps[-1])
    else:
        for kind, bottom in enumerate(np.cumsum(sums, 0) - sums):
            axes.bar([str(steps[0])], sums[kind], bottom=bottom, color=_COLOURS[kind], label=_KINDS[kind])
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel("steps")
    axes.set_title(f"evaluations after {steps[0]:,} to {steps[-1]:,} steps")
    axes.legend(loc="lower right")
