#!/usr/bin/env python3
"""Draws time and peak memory of the attention backends against length, as the paper's Figure 1 does.

Reads the JSON lines of `longformer bench attention --json`, from files or stdin:

    for backend in loop chunks fused full; do
        longformer bench attention -n 512,1024,2048,4096,8192,16384,32768,65536 \
            --backend $backend --json
    done | bench/plot_attention.py -o docs/figures/attention_time_memory.svg

One process per backend and rising lengths, because peak memory is that of the process so far.
Needs matplotlib.
"""

import argparse
import fileinput
import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullLocator

STYLES = {
    "loop": ("loop (diagonals)", "#9467bd", "s"),
    "chunks": ("chunks (overlapping blocks)", "#2ca02c", "^"),
    "fused": ("fused", "#d62728", "o"),
    "full": ("full n²", "#7f7f7f", "x"),
}
PANELS = (
    ("seconds", "time of one layer",
     lambda value, _: f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms"),
    ("peak_rss_bytes", "peak memory of the process",
     lambda value, _: f"{value / 1e9:g} GB" if value >= 1e9 else f"{value / 1e6:g} MB"),
)


def read_lines(paths):
    """The forward results by backend, each sorted by length."""
    results = {}
    for line in fileinput.input(paths, encoding="utf-8"):
        if not line.strip():
            continue
        row = json.loads(line)
        if row.get("pass", "forward") == "forward":
            results.setdefault(row["backend"], []).append(row)
    for rows in results.values():
        rows.sort(key=lambda row: row["n"])
    return results


def draw(results, title):
    figure, panels = plt.subplots(1, len(PANELS), figsize=(10, 4.2), layout="constrained")
    lengths = sorted({row["n"] for rows in results.values() for row in rows})
    for panel, (field, label, form) in zip(panels, PANELS):
        for backend, (name, color, marker) in STYLES.items():
            rows = results.get(backend, [])
            if rows:
                panel.plot([row["n"] for row in rows], [row[field] for row in rows],
                           label=name, color=color, marker=marker, markersize=5)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(lengths, [f"{n:,}" for n in lengths], rotation=45, ha="right")
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_formatter(FuncFormatter(form))
        panel.set_xlabel("tokens")
        panel.set_title(label)
        panel.grid(True, which="major", alpha=0.3)
    panels[0].legend(frameon=False, loc="lower right")
    if title:
        figure.suptitle(title)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="JSON lines; stdin when there are none")
    parser.add_argument("-o", "--output", type=pathlib.Path,
                        default=pathlib.Path("docs/figures/attention_time_memory.svg"))
    parser.add_argument("--title", default="", help="what was measured, and on which machine")
    options = parser.parse_args()
    results = read_lines(options.files)
    unknown = sorted(set(results) - set(STYLES))
    if unknown or not results:
        sys.exit(f"expected lines of the backends {', '.join(STYLES)}, "
                 f"found {', '.join(unknown) or 'none'}")
    # The same input gives the same file.
    matplotlib.rcParams["svg.hashsalt"] = "attention"
    options.output.parent.mkdir(parents=True, exist_ok=True)
    draw(results, options.title).savefig(options.output, metadata={"Date": None})


if __name__ == "__main__":
    main()
