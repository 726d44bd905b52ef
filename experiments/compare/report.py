#!/usr/bin/env python3
"""Tables and figures of docs/compare.md from docs/results/compare_*.jsonl.

    experiments/compare/report.py      (needs matplotlib)

A table stands between "<!-- name -->" and "<!-- end -->"; figures are docs/figures/compare_*.svg. Gaps follow the rule of
experiments/gaps.py, Holm's correction over the whole page; counts of characters are from docs/results/trivial.jsonl.
"""

import json
import math
import pathlib
import re
import statistics
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import NullLocator  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import gaps as rule  # noqa: E402
import setting  # noqa: E402

# The same figures have the same bytes.
plt.rcParams["svg.hashsalt"] = "compare"

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
FEATURES = (16, 64, 256, 1024)
ROWS = (16, 32, 64, 128, 256)


def rows_of(name):
    path = DOCS / "results" / f"compare_{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def trivial(name):
    path = DOCS / "results" / "trivial.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [row for row in rows if row["table"] == name]


def one_of_each(runs):
    """The first run of each row, for figures of single runs."""
    first = {}
    for run in runs:
        first.setdefault(run["row"], run)
    return list(first.values())


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def save(figure, name):
    if figure.get_layout_engine() is None:
        figure.tight_layout()
    figure.savefig(DOCS / "figures" / f"compare_{name}.svg", metadata={"Date": None})
    plt.close(figure)


def ticks(axis, places):
    """A logarithmic x axis whose ticks are these places, as plain numbers."""
    axis.set_xscale("log")
    axis.set_xticks(places, [f"{place:,}" for place in places])
    axis.xaxis.set_minor_locator(NullLocator())


def legend_right(axis):
    """A legend beside the axes, where it hides no curve."""
    axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)


def layers_axis(axis, count):
    axis.set_xticks(range(1, count + 1))


def spread(values, digits=3):
    if not values:
        return ""
    mean = statistics.mean(values)
    return f"{mean:.{digits}f}" if len(values) == 1 else f"{mean:.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def features():
    found = {}
    for row in rows_of("features"):
        if row["experiment"] == "layers":
            found.setdefault((row["model"], row["row"]), []).append(row)

    def of(name, model="MiniLM"):
        return found.get((model, name), [])

    def line(label, runs):
        return [label, spread([run["relative_error"][0] for run in runs]),
                spread([statistics.mean(run["alone"]) for run in runs]),
                spread([run["relative_error"][-1] for run in runs]),
                spread([run["cosine"][-1] for run in runs], 2)]  # fmt: skip

    names = ["mean, k 1", *(f"mean, k {k}" for k in ROWS),
             *(f"{kernel}, m {m}" for kernel in ("softmax", "hyperbolic") for m in FEATURES),
             "softmax, m 64, independent", "softmax, m 64, constant lengths", "softmax, m 256, independent",
             "softmax, m 256, constant lengths", "trigonometric, m 256"]  # fmt: skip
    rows = [line("every token attends to all alike" if name == "mean, k 1" else name, of(name))
            for name in names if of(name)]  # fmt: skip
    rows += [line(f"{name}, random weights", of(name, "MiniLM, random weights"))
             for name in ("softmax, m 64", "softmax, m 256", "mean, k 64") if of(name, "MiniLM, random weights")]  # fmt: skip
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for color, name in zip("C0 C1 C2 C3 k".split(), [*(f"softmax, m {m}" for m in FEATURES), "mean, k 64"], strict=True):
        for run in of(name):
            layers = range(1, len(run["alone"]) + 1)
            left.plot(layers, run["relative_error"], color, label=name if run is of(name)[0] else None)
            left.plot(layers, run["alone"], color, linestyle="--")
    left.set(xlabel="layer", ylabel="relative error", title="solid: all layers; dashed: the layer by itself")
    layers_axis(left, len(of("mean, k 64")[0]["alone"]))
    left.set_ylim(0, 1.65)
    left.legend(loc="upper left", fontsize="small", ncols=2)
    for color, kernel in zip(("C0", "C1"), ("softmax", "hyperbolic"), strict=True):
        points = [(m, statistics.mean(run["alone"])) for m in FEATURES for run in of(f"{kernel}, m {m}")]
        right.plot(*zip(*points, strict=True), color + "o", label=f"{kernel}, mean of the layers by themselves")
    first = statistics.mean(statistics.mean(run["alone"]) for run in of("softmax, m 16"))
    right.plot(FEATURES, [first * math.sqrt(FEATURES[0] / m) for m in FEATURES], "k:", label="1/√m")
    right.axhline(statistics.mean(of("mean, k 1")[0]["alone"]), color="gray", label="all tokens alike")
    right.set(yscale="log", xlabel="features m", ylabel="relative error")
    ticks(right, FEATURES)
    right.set_yticks((0.05, 0.1, 0.2, 0.3, 0.4), ("0.05", "0.1", "0.2", "0.3", "0.4"))
    right.yaxis.set_minor_locator(NullLocator())
    right.legend(loc="lower left", fontsize="small")
    save(figure, "features")
    return table(["", "first layer", "a layer by itself, mean", "after six layers", "cosine of the mean vectors"], rows)


def heads():
    run = next(row for row in rows_of("features") if row["experiment"] == "heads")
    figure, axis = plt.subplots(figsize=(5, 4))
    for layer, (errors, predicted) in enumerate(zip(run["error"], run["predicted"], strict=True)):
        axis.plot(predicted, errors, "o", label=f"layer {layer + 1}")
    axis.set(xscale="log", xlabel="predicted by Lemma 2 (means of values capped at 10⁶)", ylabel="error of the head, m 256")
    axis.legend()
    save(figure, "heads")
    square = [statistics.mean(layer) for layer in run["mean_square"]]
    return table(["layer", *range(1, len(square) + 1)],
                 [["error of a head at m 256, mean", *(f"{statistics.mean(layer):.2f}" for layer in run["error"])],
                  ["the best head", *(f"{min(layer):.2f}" for layer in run["error"])],
                  ["the worst head", *(f"{max(layer):.2f}" for layer in run["error"])],
                  ["‖q̃+k̃‖², mean", *(f"{value:.0f}" for value in square)],
                  ["‖q̃+k̃‖², largest", *(f"{max(layer):.0f}" for layer in run["largest_square"])]])  # fmt: skip


def spectra():
    runs = rows_of("spectra")
    rows = []
    for run in runs:
        rank, error = run["effective_rank"], run["error"]
        rows.append([run["n"], f"{rank['attention']:.0f}", f"{rank['attention'] / run['n']:.2f}",
                     f"{rank['random queries and keys']:.0f}", f"{rank['columns permuted']:.0f}",
                     f"{error['best']['64']:.2f}", f"{error['mean']['64']:.2f}", f"{error['uniform']['1']:.2f}"])  # fmt: skip
    figure, axes = plt.subplots(1, len(runs), figsize=(4 * len(runs), 4), sharey=True, layout="constrained")
    for axis, run in zip(axes, runs, strict=True):
        for color, (kind, layers) in zip(("C0", "C1", "C2"), run["cumulative"].items(), strict=True):
            if kind == "attention":
                # The numbers stand in the order of the curves, at a place where these are apart.
                place = run["points"].index(0.125)
                for at, curve in enumerate(layers):
                    axis.plot(run["points"], curve, color, alpha=0.7, label=kind if at == 0 else None)
                    axis.annotate(str(at + 1), (run["points"][place - at % 2], curve[place - at % 2]), fontsize="small",
                                  ha="center", va="center", bbox={"fc": "white", "ec": "none", "pad": 0.5, "alpha": 0.8})
            else:
                axis.fill_between(run["points"], [min(curve) for curve in zip(*layers, strict=True)],
                                  [max(curve) for curve in zip(*layers, strict=True)], color=color, alpha=0.3,
                                  label=f"{kind}, range of the layers")
        axis.set(xlabel="singular values, part of n", title=f"n = {run['n']} (numbers: layers)")
        ticks(axis, [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1])
        axis.set_xticklabels(["1/32", "1/16", "1/8", "1/4", "1/2", "1"])
    axes[0].set_ylabel("part of their sum")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    save(figure, "spectra")
    return table(["n", "effective rank", "of n", "random queries and keys", "columns permuted",
                  "error of P·V: best of rank 64", "means of neighbours, k 64", "all alike"], rows)  # fmt: skip


def moved():
    runs = {}
    for row in rows_of("moved"):
        runs.setdefault(row["row"], []).append(row)
    rows, figure = [], plt.figure(figsize=(9, 4.5))
    axis = figure.subplots()
    shown = ("dense", "all tokens alike", "Performer, m 256", "Linformer, mean, k 64", "Linformer, frozen orthogonal, k 64",
             "Linformer, learned from random, k 64")  # fmt: skip
    for name, found in runs.items():
        def of(key, found=found):
            values = [run[key] for run in found if run.get(key) is not None]
            return spread(values, 2) if values else ""

        rows.append([name, of("before"), "diverged" if any(run.get("diverged") for run in found) else of("loss_512"),
                     of("loss_256"), of("loss_128"), of("loss_redrawn")])  # fmt: skip
        if name in shown:
            for run in found:
                points = [[0, run["before"]], *run["curve"]]
                axis.plot(*zip(*points, strict=True), f"C{shown.index(name)}o-", label=name if run is found[0] else None)
    axis.set(xlabel="tokens of training behind the change", ylabel="masked-LM loss, n = 512",
             title=f"{len(shown)} of {len(runs)} rows of the table")
    legend_right(axis)
    save(figure, "moved")
    return table(["", "before", "after", "n = 256", "n = 128", "other random projections"], rows)


def bpc(run):
    return run["curve"][-1][1] / math.log(2)


def data():
    found, speeds = {}, setting.speeds(rows_of("language_models"), "small")
    for run in rows_of("language_models"):
        # Runs that read more are for the table of costs.
        if run["experiment"] == "data" and run["characters"] == 3_000_000:
            found.setdefault(run["row"], {}).setdefault(run["megabytes"], []).append(run)
    sizes = sorted({size for runs in found.values() for size in runs})
    figure, axis = plt.subplots(figsize=(7, 4))
    for color, (name, runs) in enumerate(found.items()):
        points = sorted((size, run["test_bpc"]) for size, several in runs.items() for run in several)
        # Points, and a thin line that only shows which belong together.
        axis.plot(*zip(*points, strict=True), f"C{color}o:", linewidth=0.8, label=name)
    axis.set(xlabel="MB of novels to train on", ylabel="bits per character of an unread novel")
    ticks(axis, sizes)
    legend_right(axis)
    save(figure, "data")
    return table(["", *(f"{size} MB" for size in sizes), "characters/s in training"],
                 [[name, *(spread([run["test_bpc"] for run in runs.get(size, [])]) if size in runs else "" for size in sizes),
                   f"{speeds[name]:,.0f}" if name in speeds else ""] for name, runs in found.items()]
                 + [[name, *(spread([run["test_bpc"] for run in trivial("data") if run["row"] == name and run["column"] == size])
                             for size in sizes), ""] for name in dict.fromkeys(run["row"] for run in trivial("data"))])  # fmt: skip


def positions():
    runs = one_of_each(run for run in rows_of("language_models") if run["experiment"] == "positions")
    lengths = ("256", "512", "1024", "2048", "4096")
    figure, axis = plt.subplots(figsize=(8.5, 4))
    for at, run in enumerate(runs):
        points = [(int(length), value) for length, value in run["bpc_by_length"].items()]
        alone = len(points) == 1
        axis.plot(*zip(*points, strict=True), f"C{at}", marker="D" if alone else "o", markersize=9 if alone else 5,
                  zorder=3 if alone else 2, markerfacecolor="none" if alone else None, label=run["row"],
                  linestyle="-" if "dense" in run["row"] else "--")  # fmt: skip
    axis.set(xlabel="characters that are read before, in evaluation", ylabel="bits per character")
    ticks(axis, [int(length) for length in lengths])
    legend_right(axis)
    save(figure, "positions")
    return table(["", *lengths, "characters/s in training"],
                 [[run["row"], *(f"{run['bpc_by_length'][n]:.3f}" if n in run["bpc_by_length"] else "" for n in lengths),
                   f"{run['characters'] / run['seconds']:,.0f}"] for run in runs])  # fmt: skip


def shares():
    runs = one_of_each(run for run in rows_of("language_models") if run["experiment"] == "shares")
    rows, (figure, axes) = [], plt.subplots(1, len(runs), figsize=(4.2 * len(runs), 4), sharey=True, layout="constrained")
    for axis, run in zip(axes, runs, strict=True):
        reads = [row[0] / 1e6 for row in run["shares"]]
        kinds = [[sum(row[1 + 6 * kind:7 + 6 * kind]) for row in run["shares"]] for kind in range(3)]
        axis.stackplot(reads, *kinds, labels=("compressed memory", "memory", "segment"))
        axis.set(title=run["row"], xlabel="million characters read", ylim=(0, 1))

        def claim(row):
            # A row of the newest sixth of 128 compressed rows (23 of them) beside one of the oldest sixth of the memory (21).
            return f"{row[6] / 23 / (row[7] / 21):.2f}" if row[6] else ""

        rows.append([run["row"], f"{run['test_bpc']:.3f}", *(f"{kind[-1]:.3f}" for kind in kinds),
                     claim(run["shares"][0]), claim(run["shares"][-1])])  # fmt: skip
    rows += [[run["row"], f"{run['test_bpc']:.3f}", *[""] * 5] for run in trivial("shares")]
    axes[0].set_ylabel("share of attention")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    save(figure, "shares")
    return table(["", "test BPC", "to compressed memory", "to memory", "to the segment",
                  "newest compressed ÷ oldest of the memory, at first", "at the end"], rows)  # fmt: skip


def updates():
    runs, (figure, axes) = rows_of("updates"), plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axis, kind in zip(axes, ("Transformer-XL", "dense"), strict=True):
        for run in runs:
            if run["kind"] == kind:
                axis.plot(*zip(*((read / 1e6, value) for read, value in run["curve"]), strict=True), label=run["row"])
        axis.set(title=kind, xlabel="million characters behind the fork")
        axis.legend(fontsize="small")
    axes[0].set_ylabel("bits per character, validation")
    save(figure, "updates")
    return table(["", "test BPC", "mean of 20 checkpoints", "memory of 1,024", "weights moved", "gradient norm",
                  "loss of the next segment, carried state", "state made anew"],
                 [[f"{run['kind']}, {run['row']}", f"{run['test_bpc']:.3f}", f"{run['averaged_bpc']:.3f}",
                   f"{run['longer_memory_bpc']:.3f}" if "longer_memory_bpc" in run else "", run["moved"],
                   run["gradient_norm"], run.get("next_loss", ""), run.get("next_loss_anew", "")] for run in runs])  # fmt: skip


def remembered():
    bits = next(run for run in rows_of("remembered") if run["row"] == "losses")["bits"]
    models = [name for name in bits["all"] if name != "words"]

    def order(name):
        group = next(at for at, words in enumerate(("all", "in the training", "the first", "again")) if name.startswith(words))
        return group, "below" not in name and "within" not in name, int("".join(filter(str.isdigit, name)) or 0)

    return table(["bits of a word", "words", *models],
                 [[name, f"{bits[name]['words']:,}", *(f"{bits[name][model]:.2f}" for model in models)]
                  for name in sorted(bits, key=order)])  # fmt: skip


def probes():
    runs = {run["row"].removeprefix("probes of "): run for run in rows_of("remembered") if run["row"] != "losses"}
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), sharey=True)
    rows = []
    for color, (name, run) in enumerate(runs.items()):
        kinds = [("memory", [found for found, _ in run["memory"]], left, "-"),
                 ("memory_word", [found for found, _ in run["memory_word"]], right, "-")]  # fmt: skip
        if run["compressed"]:
            means = [sum(found for found, _ in layer) / len(layer) for layer in run["compressed"]]
            kinds += [("compressed", means, left, "--"),
                      ("compressed_word", [found for found, _ in run["compressed_word"]], right, "--")]  # fmt: skip
        line = {kind: values for kind, values, _, _ in kinds}
        rows.append([name, *(f"{line[kind][0]:.2f}–{line[kind][-1]:.2f}" if kind in line else ""
                             for kind in ("memory", "compressed", "memory_word", "compressed_word"))])  # fmt: skip
        for kind, values, axis, style in kinds:
            # Larger, hollow marks below: curves that lie on each other stay visible.
            axis.plot(range(1, len(values) + 1), values, f"C{color}{style}", marker="os^"[color],
                      markersize=11 - 3 * color, markerfacecolor="none",
                      label=f"{name}: {'compressed' if 'compressed' in kind else 'memory'}")  # fmt: skip
            layers_axis(axis, len(values))
    left.set(title="its characters", xlabel="layer", ylabel="accuracy of a linear probe")
    right.set(title="the word it ends in", xlabel="layer")
    handles, names = left.get_legend_handles_labels()
    right.legend(handles, names, fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    save(figure, "remembered")
    return table(["first to last layer", "memory: its character", "compressed: its characters", "memory: the word",
                  "compressed: the word"], rows)  # fmt: skip


def plain(name):
    """BPC of the runs of an experiment, and the course of their validation."""
    every = [run for run in rows_of("language_models") if run["experiment"] == name]
    runs = one_of_each(every)
    figure, (axis, ends) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    order = sorted(range(len(runs)), key=lambda at: runs[at]["curve"][-1][1])
    for at, run in enumerate(runs):
        points = [(read / 1e6, loss / math.log(2)) for read, loss in run["curve"]]
        axis.plot(*zip(*points, strict=True), f"C{at % 10}", linestyle="-" if at < 10 else "--")
        place = len(runs) - 1 - order.index(at)
        ends.plot(points[-1][1], place, f"C{at % 10}o", label="validation" if at == 0 else None)
        ends.plot(run["test_bpc"], place, f"C{at % 10}x", label="test" if at == 0 else None)
    axis.set(xlabel="million characters read", ylabel="bits per character, validation")
    ends.set_yticks(range(len(runs)), [runs[at]["row"] for at in reversed(order)])
    ends.set(xlabel="bits per character at the end (lower is better)")
    ends.grid(axis="x", alpha=0.3)
    ends.legend(fontsize="small")
    save(figure, name)
    found = [[run["row"], [one for one in every if one["row"] == run["row"]]] for run in runs]
    return table(["", "test BPC", "validation BPC", "seeds"],
                 [[row, spread([one["test_bpc"] for one in some]), spread([bpc(one) for one in some]), len(some)] for row, some in found]
                 + [[run["row"], f"{run['test_bpc']:.3f}", "", 1] for run in trivial(name)])  # fmt: skip


def stages():
    return plain("stages")


def windows():
    return plain("windows")


def settings():
    return plain("settings")


WORD_ROWS = ("window", "dense", "Transformer-XL", "Compressive", "Performer")


def words():
    runs = rows_of("words")
    names = [name for name in (*WORD_ROWS, "counts of six characters") if any(run["row"] == name for run in runs)]
    missing = [name for name in WORD_ROWS if name not in names]
    found = [[name, *(spread([run[key] for run in runs if run["row"] == name], digits) for key, digits in (("test_bpc", 3), ("word_perplexity", 0))),
              sum(run["row"] == name for run in runs)] for name in names]  # fmt: skip
    return table(["", "test BPC", "perplexity of a word", "seeds"], found) + (f"\n\nNot run: {'; '.join(missing)}." if missing else "")


def targets():
    runs = rows_of("long_targets")
    lengths = sorted({run["target"] for run in runs})

    def cells(name):
        for length in lengths:
            found = [run for run in runs if (run["row"], run["target"]) == (name, length)]
            yield from (spread([run[kind] for run in found]) if found else "" for kind in ("values", "names"))
            yield len(found)

    head = [f"{column}{length:,} words" if column else "seeds" for length in lengths for column in ("values right, ", "names right, ", "")]
    return table(["", *head], [[name, *cells(name)] for name in dict.fromkeys(run["row"] for run in runs)])


def size_text(size):
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def costs():
    """Last figures of each model, from any machine."""
    quality, measured = {}, {}
    for run in rows_of("language_models"):
        if run["experiment"] == "time" or (run["experiment"] == "data" and run["megabytes"] == 16):
            quality.setdefault(run["row"], {}).setdefault(run["experiment"], []).append(run["test_bpc"])
    for run in rows_of("costs"):
        if run["experiment"] == "models":
            measured[run["row"]] = run
    for run in trivial("costs"):
        quality[run["row"]] = {run["column"]: [run["test_bpc"]]}
    rows = []
    for name in dict.fromkeys([*quality, *measured]):
        found = quality.get(name, {})
        line = [name, *(spread(found[kind]) if kind in found else "" for kind in ("data", "time"))]
        if name in measured:
            run = measured[name]
            near, far = run["read_4096"], run["read_16384"]
            line += [f"{run['training_characters_per_second']:,.0f}", size_text(run["training_bytes"]),
                     f"{far['characters_per_second']:,.0f}", f"{near['seconds_per_1000_written']:.1f}",
                     f"{far['seconds_per_1000_written']:.1f}", size_text(far["bytes"])]  # fmt: skip
        rows.append(line + [""] * (9 - len(line)))
    return table(["", "BPC, equal text", "BPC, equal time", "training, characters/s", "its memory", "reading, characters/s",
                  "s for 1,000 written behind 4,096", "behind 16,384", "memory in use"], rows)  # fmt: skip


def encoders():
    """All rows of the machine that was measured last."""
    runs = [run for run in rows_of("costs") if run["experiment"] == "encoders"]
    found = {}
    for run in runs:
        if run["cpu"] == runs[-1]["cpu"]:
            found.setdefault(run["row"], {})[run["n"]] = run
    lengths = sorted({n for row in found.values() for n in row})
    figure, axis = plt.subplots(figsize=(7, 4))
    for color, (name, row) in enumerate(found.items()):
        axis.plot(list(row), [1e3 * row[n]["seconds"] / n for n in row], f"C{color}o-", label=name)
    axis.set(yscale="log", xlabel="tokens of a document", ylabel="ms for a token")
    ticks(axis, lengths)
    legend_right(axis)
    save(figure, "encoders")
    return table(["", *(f"{n:,} tokens" for n in lengths), f"memory at {lengths[-2]:,}"],
                 [[name, *(f"{row[n]['seconds']:.2f} s" if n in row else "–" for n in lengths), size_text(row[lengths[-2]]["bytes"])]
                  for name, row in found.items()])  # fmt: skip


def values_of(runs, row, metric, **keys):
    return {run.get("seed", 1): metric(run) for run in runs if run["row"] == row and all(run.get(key) == value for key, value in keys.items())}


def test_bpc(run):
    return run["test_bpc"]


def language_gaps():
    """(where, first row, second row, values of both): a gap is first − second, written such that a positive one is expected."""
    runs = rows_of("language_models")

    def pairs(where, names, metric=test_bpc, also=(), **keys):
        for more, less in names:
            yield where, more, less, *(values_of([*runs, *also], row, metric, **keys) for row in (more, less))

    def named(where, **keys):
        return [run | keys | {"seed": 0} for run in trivial(where)]

    counts = "counts of six characters"
    equal = {"experiment": "data", "megabytes": 16, "characters": 5_000_000}
    yield from pairs("equal text, 16 MB", [("dense", "window"), ("Transformer-XL", "window"), ("Compressive", "window"), ("LSTM", "window"),
                                           ("window", "Adaptive spans"), ("Transformer-XL", "BP-Transformer"), ("Reformer", "window"),
                                           ("Performer", "dense, sinusoidal"), (counts, "Adaptive spans")],
                     also=named("costs", **equal), **equal)  # fmt: skip
    yield from pairs("equal time", [("dense", "window"), ("LSTM", "window"), ("Transformer-XL", "window"), ("Compressive", "window"),
                                    ("window", "Adaptive spans"), ("BP-Transformer", "window"), ("Reformer", "window"),
                                    ("Performer", "dense, sinusoidal")], experiment="time")  # fmt: skip
    for size in (0.25, 1, 4):
        keys = {"experiment": "data", "megabytes": size, "characters": 3_000_000}
        columns = [run | keys | {"seed": 0} for run in trivial("data") if run["column"] == size]
        yield from pairs(f"{size} MB", [("LSTM", "window"), ("LSTM", "dense"), ("Transformer-XL", "window"), ("Compressive", "window"),
                                        (counts, "window")], also=columns, **keys)  # fmt: skip
    yield from pairs("positions, 256", [(f"dense, {name}", "dense, relative") for name in ("infused", "sinusoidal", "learned", "none")],
                     lambda run: run["bpc_by_length"]["256"], experiment="positions")  # fmt: skip
    for kind in ("relative", "infused"):
        yield from pairs("stages", [(f"{kind}, 512", f"{kind}, 128, then 512"), (f"{kind}, 512", f"{kind}, 128, 256, 512")],
                         experiment="stages")  # fmt: skip
    arranged = [(name, f"{name}, dilated") for name in ("growing", "constant", "falling")] + [("falling", "growing"), ("constant", "growing")]
    yield from pairs("windows, test novel", [*arranged, ("constant", "convolutions")], experiment="windows")
    yield from pairs("windows, validation", arranged[:3], bpc, experiment="windows")
    yield from pairs("where attention goes", [("Transformer-XL", "mean"), ("convolution, attention loss", "mean")], experiment="shares")
    yield from pairs("compression", [("Transformer-XL", "mean, rate 4, 128:128"), ("most-used, none", "mean, rate 4, 128:128"),
                                     ("dilated, attention", "mean, rate 4, 128:128"), ("convolution, autoencoding", "mean, rate 4, 128:128")],
                     experiment="settings")  # fmt: skip


def other_gaps():
    updates = [run for run in rows_of("updates") if run["kind"] == "Transformer-XL"]
    for less in ("falling to 0", "an update for 4 segments", "rate / 4", "rate / 16"):
        yield "fewer updates", "same rate", less, *(values_of(updates, row, test_bpc) for row in ("same rate", less))
    moved = rows_of("moved")
    for more, less in (("all tokens alike", "Linformer, mean, k 64"), ("Linformer, mean, k 64", "Linformer, learned from means, k 64"),
                       ("all tokens alike", "Performer, m 256"), ("Performer, m 64", "Performer, m 256")):  # fmt: skip
        yield "another attention (nats)", more, less, *(values_of(moved, row, lambda run: run["loss_512"]) for row in (more, less))


def target_gaps():
    for target in (1024, 4096):
        runs = [run for run in rows_of("long_targets") if run["target"] == target]
        for less in ("4,096 means", "1,024 means"):
            found = [values_of(runs, row, lambda run: run["values"]) for row in ("all tokens", less)]
            if all(found):
                yield f"texts of {target:,} words", "all tokens", less, *found


def feature_gaps():
    """Draws of features share nothing, so they are compared unpaired; one draw is enough for what has no features."""
    runs = [run for run in rows_of("features") if run["experiment"] == "layers"]
    alone = "mean, k 1"
    pairs = [(f"softmax, m {m}, independent", f"softmax, m {m}") for m in (64, 256)]
    pairs += [(f"softmax, m {m}", f"softmax, m {m}, constant lengths") for m in (64, 256)]
    pairs += [(f"softmax, m {m}", f"hyperbolic, m {m}") for m in (64, 256)] + [("softmax, m 16", "softmax, m 1024"), (alone, "softmax, m 256")]
    for more, less in pairs:
        found = [values_of(runs, row, lambda run: statistics.mean(run["alone"]), model="MiniLM") for row in (more, less)]
        yield "features, a layer by itself", more.replace(alone, "all tokens alike"), less, *({0: found[i][1]} if row == alone else found[i]
                                                                                               for i, row in enumerate((more, less)))  # fmt: skip


def gaps():
    """All gaps of which the page speaks."""
    rows, lines = [], []
    for paired, found in ((True, [*language_gaps(), *other_gaps(), *target_gaps()]), (False, list(feature_gaps()))):
        for where, more, less, first, second in found:
            rows.append(where)
            lines.append(rule.Line(f"{more} − {less}", "", rule.gap(first, second, paired), 3))
    rule.corrected(lines)
    cells = [[where, line.name, *line.cells()[2:]] for where, line in zip(rows, lines)]
    tested = sum(line.adjusted is not None for line in lines)
    once = sum(line.found is not None and line.found.p is None for line in lines)
    return table(["where", *[name for name in rule.HEADER if name != "paper"]], cells) + (
        f"\n\n{len(lines)} gaps: {tested} have a p, {once} are of one run each.")


TABLES = {
    "features": features, "heads": heads, "spectra": spectra, "moved": moved, "data": data, "positions": positions, "shares": shares,
    "updates": updates, "remembered": remembered, "probes": probes, "costs": costs, "encoders": encoders, "stages": stages,
    "windows": windows, "settings": settings, "words": words, "targets": targets, "gaps": gaps,
}  # fmt: skip


def main():
    page = DOCS / "compare.md"
    text = page.read_text()
    for name, make in TABLES.items():
        if f"<!-- {name} -->" not in text:
            continue
        made = make()
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda match, made=made: f"{match[1]}{made}\n{match[2]}",
                      text, count=1, flags=re.DOTALL)  # fmt: skip
    page.write_text(text)


if __name__ == "__main__":
    main()
