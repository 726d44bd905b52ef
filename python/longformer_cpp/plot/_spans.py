"""Spans that the heads of a model have learned, as bars: how far each looks back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .._checks import found
from .._language_model import LanguageModel
from .._native import Error
from ._page import checked_file, drawing, save
from ._records import records_of

_COLOUR = "#0072b2"


def spans(source: Any, file: str | os.PathLike[str] | None = None, *, title: str | None = None) -> Figure:
    """Draws how far each head of each layer looks back, the heads of a layer in the order of their spans.

    source: a LanguageModel with attention "adaptive", its info, or a file that `longformer info MODEL --json` wrote.

        plot.spans(longformer_cpp.LanguageModel("adaptive"), "spans.png")
    """
    path = checked_file(file)
    info = _info_of(source)
    with drawing([title or ""]):
        figure = _draw([np.sort(np.asarray(layer, np.float64)) for layer in info["spans"]], info, title)
        save(figure, path)
    return figure


def _info_of(source: Any) -> Mapping[str, Any]:
    if isinstance(source, LanguageModel):
        rows: list[Mapping[str, Any]] = [source.info]
    elif isinstance(source, Mapping):
        rows = [source]
    elif isinstance(source, (str, os.PathLike)):
        rows = list(records_of(source))
    else:
        raise TypeError(f"source: expected a LanguageModel, its info or a file, found {found(source)}")
    for row in rows:
        if row.get("spans"):
            return row
    raise Error('source: expected a model whose heads learn their spans (attention "adaptive"), found none')


def _draw(layers: list[npt.NDArray[np.float64]], info: Mapping[str, Any], title: str | None) -> Figure:
    heads = max(len(layer) for layer in layers)
    figure = Figure(figsize=(max(6, 0.12 * len(layers) * (heads + 1)), 3.6), facecolor="white", layout="constrained")
    axes = figure.subplots()
    for number, layer in enumerate(layers):
        axes.bar(number * (heads + 1) + np.arange(len(layer)), layer, 0.85, color=_COLOUR)
    middles = [number * (heads + 1) + (heads - 1) / 2 for number in range(len(layers))]
    axes.set_xticks(middles, [str(number) for number in range(len(layers))])
    axes.tick_params(axis="x", bottom=False)
    axes.set_xlabel("layer, and its heads")
    axes.set_ylabel("span before the ramp")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_ylim(0)
    axes.spines[["top", "right"]].set_visible(False)
    mean = np.mean(np.concatenate(layers))
    axes.set_title(title or f"mean {mean:,.0f} of at most {info['max_span']:,}, and a ramp of {info['span_ramp']:,}")
    return figure
