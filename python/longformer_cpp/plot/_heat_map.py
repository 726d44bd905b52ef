"""Attention as a heat map: who attends to whom, and at which distance."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.markers import TICKDOWN, TICKRIGHT
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .._checks import counted
from .._native import Error
from .._tokenizer import Encoding
from ._maps import AttentionMap, Cells, Choice, cells_by_distance, cells_of_global_keys, cells_of_pairs, maps_of
from ._page import INK, Page, checked_file, drawing, save

_SCALE = ("#fff7cd", "#fed876", "#fc8d3c", "#d62925", "#3e084a")
#: Pairs without any attention, most of them outside of every window.
_NOTHING = "#eef0f3"
_GLOBAL = "#2563eb"
_FRAME = "#96969e"
_DECADES = 4
_TEXT_SIZE = 13
_LINE, _PAD = 20, 10
_LARGE, _WINDOW, _SMALL = 1024, 520, 160
_SMALL_GAP, _LARGE_GAP = 32, 44
_GLOBAL_GAP = 6
#: Pixels of a token that leave room for its name, and columns of the longest name.
_LEAST_ROOM = 16
_LONGEST = 16


def heat_map(
    attention: Any,
    file: str | os.PathLike[str] | None = None,
    *,
    layer: Choice = "mean",
    head: Choice = "mean",
    tokens: Encoding | Sequence[str] | None = None,
    text: str | None = None,
    document: int = 0,
    cells: str = "max",
    title: str | None = None,
) -> Figure:
    """Draws attention probabilities: one map large, several as small panels, a row for each layer.

    attention: what a model returns with output_attentions=True, of which `document` is drawn, or the .npz file of
    `longformer attention`.
    layer, head: a number, several, "all", or "mean" of those that there are.
    tokens: the Encoding of the document, with its text, or a name for each token. Up to 64 tokens are named on the
    axes, more are numbered.
    cells: where tokens share a cell, it shows the "max" or the "mean" of its pairs.

    One map has two panels. Left are all pairs. Right, where the document is longer than the window, is the window by
    distance, after the global tokens. Colours are logarithmic.

        text = "he was in the house"
        encoding = model.tokenizer.encode(text)
        out = model([encoding.ids], output_attentions=True)
        plot.heat_map(out, "house.svg", layer=0, head=1, tokens=encoding, text=text)
        plot.heat_map("attentions.npz", "heads.png", layer="all", head="all")
    """
    path = checked_file(file)
    if cells not in ("max", "mean"):
        raise Error(f"cells: expected max or mean, found {cells!r}")
    rows = maps_of(attention, document, layer, head)
    first = rows[0][0]
    names = _names(tokens, text, first.tokens)
    count = f"{counted(first.tokens, 'token')}, {len(first.globals):,} global"
    single = len(rows) == len(rows[0]) == 1
    if title is None:
        title = f"{', '.join(filter(None, (first.layer, first.head)))}: {count}" if single else count
    with drawing([*names, title], _TEXT_SIZE):
        figure = _single(first, names, cells, title) if single else _grid(rows, names, cells, title)
        save(figure, path)
    return figure


def _names(tokens: Encoding | Sequence[str] | None, text: str | None, count: int) -> list[str]:
    """Names of the tokens, short enough for an axis; none where they have none or there is no room for them."""
    if tokens is None:
        return []
    if len(tokens) != count:
        raise Error(f"tokens: expected {counted(count, 'token')}, found {len(tokens):,}")
    if count > _LARGE // _LEAST_ROOM:
        return []
    names = list(tokens.tokens if isinstance(tokens, Encoding) else tokens)
    if isinstance(tokens, Encoding) and text is not None:
        for i, (begin, end) in enumerate(tokens.offsets):
            names[i] = text[begin:end].strip() or names[i]
    return [_shortened(name) for name in names]


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _shortened(name: str) -> str:
    """Blanks and control characters as a sign, and "…" where there are too many columns."""
    name = name.encode(errors="replace").decode()
    name = "".join("␣" if c.isspace() or unicodedata.category(c) == "Cc" else c for c in name)
    widths = np.cumsum([_width(c) for c in name])
    if not name or widths[-1] <= _LONGEST:
        return name
    return name[: int(np.searchsorted(widths, _LONGEST - 1, side="right"))] + "…"


@dataclass(frozen=True)
class _Panel:
    """Pairs of tokens; or a window by distance, which begins at `first`, after the global keys."""

    cells: Cells
    first: int = 0
    global_keys: Cells | None = None

    @classmethod
    def by_distance(cls, shown: AttentionMap, room: tuple[int, int, int], reduction: str) -> _Panel:
        keys = cells_of_global_keys(shown, (room[0], room[2]), reduction) if len(shown.globals) else None
        return cls(cells_by_distance(shown, room[:2], reduction), -shown.reach, keys)

    @property
    def begin(self) -> int:
        """Pixels before the window."""
        return self.global_keys.columns.length + _GLOBAL_GAP if self.global_keys else 0

    @property
    def width(self) -> int:
        return self.begin + self.cells.columns.length

    @property
    def columns(self) -> str:
        return "global keys, then key − query" if self.global_keys else "key − query"

    def draw(self, page: Page, left: int = 0, top: int = 0) -> list[Axes]:
        """The axes from left to right."""
        drawn = []
        if self.global_keys:
            drawn = [_draw(page, (left, top), self.global_keys)]
            drawn[0].set_xticks([])
        drawn.append(_draw(page, (left + self.begin, top), self.cells, self.first))
        for inner in drawn[1:]:
            inner.set_yticks([])
        return drawn


def _draw(page: Page, corner: tuple[int, int], cells: Cells, first: int = 0) -> Axes:
    """Cells whose axes count places: rows from 0, columns from `first`."""
    rows, columns = cells.rows, cells.columns
    axes = page.panel(*corner, columns.length, rows.length)
    colours = LinearSegmentedColormap.from_list("attention", _SCALE).with_extremes(bad=_NOTHING)
    end = first + columns.cells * columns.block
    axes.imshow(
        np.ma.masked_less_equal(cells.values, 0),
        colours,
        LogNorm(10.0**-_DECADES, 1, clip=True),
        aspect="auto",
        interpolation="nearest",
        extent=(first - 0.5, end - 0.5, rows.cells * rows.block - 0.5, -0.5),
        # Above the frame, which would hide half of a pixel at each edge.
        zorder=3,
    )
    axes.spines[:].set_color(_FRAME)
    axes.tick_params(length=6, color=INK, labelcolor=INK)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    return axes


def _number_axis(axis: Any, length: int) -> None:
    axis.set_major_locator(MaxNLocator(max(length // 70, 2), integer=True, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}".replace("-", "−")))


def _token_axis(axis: Any, cells: Cells, names: list[str], positions: Any) -> None:
    """Every token by its name where there is room, else some by their numbers."""
    if not names or cells.rows.block > 1 or cells.rows.pixels < _LEAST_ROOM:
        _number_axis(axis, cells.rows.length)
        return
    axis.set_ticks(range(len(names)), names)
    for token in positions:
        axis.get_ticklabels()[token].set_color(_GLOBAL)
    if axis.axis_name == "x":
        axis.set_tick_params(rotation=90)


def _below(axes: Axes, text: str) -> None:
    axes.annotate(text, (0, 0), (0, -_LINE), "axes fraction", "offset points", color=INK, va="top")


def _meaning_of(cells: Cells, reduction: str) -> str:
    rows, columns = cells.rows.block, cells.columns.block
    if rows == columns == 1:
        return "one cell per pair of tokens"
    return f"a cell is the {'maximum' if reduction == 'max' else 'mean'} of {rows} × {columns} pairs"


def _legend(page: Page, edge: int, panel: Axes, marks: bool) -> None:
    """The colours with their probabilities, right of all panels."""
    bar = page.panel(0, _LINE, 22, 240)
    scale = page.figure.colorbar(panel.images[0], cax=bar)
    ticks = [10.0**-decade for decade in range(_DECADES + 1)]
    scale.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks[:-1]] + ["≤ 0.0001"])
    bar.minorticks_off()
    bar.set_title("probability", loc="left", pad=_PAD, fontsize=_TEXT_SIZE, color=INK)
    bar.tick_params(length=6, color=INK, labelcolor=INK)
    patches = [Patch(facecolor=_NOTHING, edgecolor=_FRAME, label="none")]
    if marks:
        patches.append(Patch(facecolor=_GLOBAL, label="global token"))
    bar.legend(
        handles=patches,
        loc="upper left",
        bbox_to_anchor=(0, -0.08),
        borderpad=0,
        borderaxespad=0,
        handlelength=22 / _TEXT_SIZE,
        labelcolor=INK,
        frameon=False,
    )
    page.put_right_of(edge, _LARGE_GAP, [bar])


def _mark_globals(axes: Axes, positions: Any) -> None:
    """Marks right of the rows of global tokens and below their columns."""
    # Lines without points would stretch the page to its origin.
    if not len(positions):
        return
    marks: dict[str, Any] = {"color": _GLOBAL, "linestyle": "", "markersize": 10, "markeredgewidth": 3, "clip_on": False}
    ends = np.ones(len(positions))
    axes.plot(positions, 0 * ends, marker=TICKDOWN, transform=axes.get_xaxis_transform(), **marks)
    axes.plot(ends, positions, marker=TICKRIGHT, transform=axes.get_yaxis_transform(), **marks)


def _single(shown: AttentionMap, names: list[str], reduction: str, title: str) -> Figure:
    """All pairs of tokens, and the window by distance where that shows more."""
    page = Page()
    pairs = cells_of_pairs(shown, _LARGE, reduction)
    left = _draw(page, (0, 0), pairs)
    for axis, name in ((left.xaxis, "key token"), (left.yaxis, "query token")):
        _token_axis(axis, pairs, names, shown.globals)
        axis.set_label_text(name, color=INK)
        axis.labelpad = _PAD
    _mark_globals(left, shown.globals)
    _below(left, _meaning_of(pairs, reduction))
    edge = page.right_of([left])
    if shown.by_distance:
        panel = _Panel.by_distance(shown, (_LARGE, _WINDOW, 128), reduction)
        right = panel.draw(page)
        _number_axis(right[-1].xaxis, panel.cells.columns.length)
        right[-1].set_xlabel(panel.columns, loc="left", labelpad=_PAD, color=INK)
        _token_axis(right[0].yaxis, panel.cells, names, shown.globals)
        right[0].set_ylabel("query token", labelpad=_PAD, color=INK)
        _below(right[0], _meaning_of(panel.cells, reduction))
        edge = page.put_right_of(edge, _LARGE_GAP, right)
    _legend(page, edge, left, bool(len(shown.globals)))
    return page.finish(title)


def _grid(rows: list[list[AttentionMap]], names: list[str], reduction: str, title: str) -> Figure:
    """A small panel for each map: heads side by side, layers below each other."""
    page = Page()
    distance = rows[0][0].by_distance
    room = (_SMALL, _SMALL, 24)
    panels = [
        [_Panel.by_distance(one, room, reduction) if distance else _Panel(cells_of_pairs(one, _SMALL, reduction)) for one in row]
        for row in rows
    ]
    width = max(panel.width for row in panels for panel in row) + _SMALL_GAP
    height = panels[0][0].cells.rows.length + _SMALL_GAP
    drawn = [[panel.draw(page, c * width, r * height) for c, panel in enumerate(row)] for r, row in enumerate(panels)]
    for r, (maps, row) in enumerate(zip(rows, drawn)):
        for c, (shown, axes) in enumerate(zip(maps, row)):
            cells = panels[r][c].cells
            # Layers may have windows of their own.
            if r > 0 and shown.reach == rows[r - 1][c].reach:
                axes[-1].set_xticks([])
            elif distance:
                _number_axis(axes[-1].xaxis, cells.columns.length)
            else:
                _token_axis(axes[-1].xaxis, cells, names, shown.globals)
            if c > 0:
                axes[0].set_yticks([])
            else:
                _token_axis(axes[0].yaxis, cells, names, shown.globals)
                axes[0].set_ylabel(shown.layer, rotation=0, ha="right", va="center", labelpad=_PAD, color=INK)
            if r == 0:
                axes[-1].set_title(shown.head, fontsize=_TEXT_SIZE, color=INK)
    first = panels[0][0]
    columns = first.columns if distance else "key token"
    _below(drawn[-1][0][0], f"down: query token; right: {columns}; {_meaning_of(first.cells, reduction)}")
    _legend(page, page.right_of([axes[-1] for axes in drawn[0]]), drawn[0][0][-1], False)
    return page.finish(title)
