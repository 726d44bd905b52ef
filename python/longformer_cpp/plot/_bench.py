"""Time and memory of attention against length, as the paper's Figure 1 draws them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from .._checks import found
from .._native import Error
from ._page import checked_file, drawing, save
from ._records import records_of

_STYLES = {
    "loop": ("loop (diagonals)", "#9467bd", "s"),
    "chunks": ("chunks (overlapping blocks)", "#2ca02c", "^"),
    "fused": ("fused", "#d62728", "o"),
    "opencl": ("opencl", "#1f77b4", "D"),
    "full": ("full n²", "#7f7f7f", "x"),
}


def _time(value: float, _: Any) -> str:
    return f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms"


def _memory(value: float, _: Any) -> str:
    return f"{value / 1e9:g} GB" if value >= 1e9 else f"{value / 1e6:g} MB"


_PANELS = (("seconds", "time of one layer", _time), ("peak_rss_bytes", "peak memory of the process", _memory))


def time_and_memory(results: Any, file: str | os.PathLike[str] | None = None, *, title: str | None = None) -> Figure:
    """Draws time and peak memory of the forward passes of attention against length, a line for each backend: Figure 1
    of the paper.

    results: files that `longformer bench attention` wrote as .json, .jsonl or .csv, or what bench_attention returns,
    one or several. The program measures every row in a process of its own. In Python all share a process, whose peak
    memory is that of the largest so far.

        plot.time_and_memory("attention.jsonl", "attention.svg", title="8 cores")
        rows = [longformer_cpp.bench_attention(n=n, backend="fused") for n in (512, 1024, 2048)]
        plot.time_and_memory(rows, "fused.png")
    """
    path = checked_file(file)
    lines = _lines_of(_rows_of(results))
    with drawing([title or ""]):
        figure = _draw(lines, title)
        save(figure, path)
    return figure


def _rows_of(results: Any) -> list[Mapping[str, Any]]:
    if isinstance(results, (str, os.PathLike)):
        return list(records_of(results))
    if isinstance(results, Mapping):
        return [results]
    if isinstance(results, Iterable):
        return [row for one in results for row in _rows_of(one)]
    raise TypeError(f"results: expected files or results of bench_attention, found {found(results)}")


def _lines_of(rows: list[Mapping[str, Any]]) -> dict[tuple[str, str], list[tuple[int, dict[str, float]]]]:
    """Points by backend and dtype, each line sorted by length."""
    lines: dict[tuple[str, str], list[tuple[int, dict[str, float]]]] = {}
    for row in rows:
        if "backend" not in row or row.get("pass", "forward") != "forward":
            continue
        point = {field: float(row[field]) for field, _, _ in _PANELS}
        lines.setdefault((row["backend"], row.get("dtype", "fp32")), []).append((int(row["n"]), point))
    if not lines:
        raise Error("results: expected forward passes of `longformer bench attention`, found none")
    return {key: sorted(points, key=lambda point: point[0]) for key, points in lines.items()}


def _draw(lines: dict[tuple[str, str], list[tuple[int, dict[str, float]]]], title: str | None) -> Figure:
    figure = Figure(figsize=(10, 4.2), facecolor="white", layout="constrained")
    lengths = sorted({n for points in lines.values() for n, _ in points})
    types = {dtype for _, dtype in lines}
    known = list(_STYLES)
    order = sorted(lines, key=lambda key: (known.index(key[0]) if key[0] in known else len(known), key))
    panels = figure.subplots(1, len(_PANELS))
    for panel, (field, label, form) in zip(panels, _PANELS):
        for backend, dtype in order:
            name, colour, marker = _STYLES.get(backend, (backend, f"C{order.index((backend, dtype))}", "o"))
            panel.plot(
                [n for n, _ in lines[backend, dtype]],
                [point[field] for _, point in lines[backend, dtype]],
                label=name if len(types) == 1 else f"{name}, {dtype}",
                color=colour,
                marker=marker,
                markersize=5,
                linestyle="-" if dtype == "fp32" or len(types) == 1 else "--",
            )
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(lengths, [f"{n:,}" for n in lengths], rotation=45, ha="right")
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_formatter(FuncFormatter(form))
        panel.set_xlabel("tokens")
        panel.set_title(label)
        panel.grid(True, which="major", alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    if title:
        figure.suptitle(title)
    return figure
