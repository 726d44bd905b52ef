#!/usr/bin/env python3
"""Puts the figures of docs/results/*.jsonl into the tables of docs/results.md and draws docs/figures/.

    experiments/paper/report.py

A table stands between the lines <!-- NAME --> and <!-- end -->, and is written anew. A gap between two rows is
the mean over seeds that both have of their difference, with its standard error; it counts as reproduced when
it has the sign that the paper says and exceeds two standard errors. Needs matplotlib.
"""

import math
import re
import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import experiment

DOCS = experiment.ROOT / "docs"
FIGURES = DOCS / "figures"
NOT_RUN = "Not run yet."
# The same figures give the same file.
matplotlib.rcParams["svg.hashsalt"] = "longformer"


def save(figure, name):
    figure.savefig(FIGURES / name, metadata={"Date": None})


def load(name, **wanted):
    rows = experiment.Results(DOCS / "results" / f"{name}.jsonl").rows
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def by_seed(rows, row, metric):
    return {found["seed"]: found[metric] for found in rows if found["row"] == row and metric in found}


def spread(values, digits):
    """Mean ± standard deviation."""
    if not values:
        return "–"
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def gap(rows, more, less, metric, digits):
    """Mean of more − less over the seeds of both, and the verdict."""
    first, second = by_seed(rows, more, metric), by_seed(rows, less, metric)
    gaps = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    if len(gaps) < 3:
        return f"{len(gaps)} of 3 seeds", "too few seeds"
    mean, error = statistics.mean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
    text = f"{mean:+.{digits}f} ± {error:.{digits}f}"
    if mean > 2 * error:
        return text, "reproduced"
    return text, "the opposite" if -mean > 2 * error else "no difference beyond two standard errors"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def with_gaps(rows, named, gaps, metrics, once=()):
    """Two tables: of rows with (name, paper), and of gaps with (more, less, paper). What `once` names
    differs in a stage that was run with one seed: its seeds say too little to call it reproduced."""
    if not rows:
        return NOT_RUN
    header = ["", "paper", *(f"{label} here" for _, label, _ in metrics), "seeds"]
    first = []
    for name, paper in named:
        values = {metric: list(by_seed(rows, name, metric).values()) for metric, _, _ in metrics}
        count = len(values[metrics[0][0]])
        first.append([name, paper, *(spread(values[metric], digits) for metric, _, digits in metrics), count])
    metric, label, digits = metrics[0]
    second = [[f"{more} − {less}", paper, *gap(rows, more, less, metric, digits)] for more, less, paper in gaps]
    for (_, less, _), row in zip(gaps, second):
        if less in once and row[-1] == "reproduced":
            row[-1] = "beyond two standard errors, but of one beginning each"
    return table(header, first) + "\n\n" + table(["gap", "paper", f"{label} here ± standard error", ""], second)


def windows(form):
    rows = load("character_lm", experiment="windows", form=form)
    return with_gaps(
        rows,
        [("decreasing", 1.24), ("fixed", 1.23), ("increasing", 1.21), ("dilation on two heads", 1.20)],
        [("decreasing", "fixed", "+0.01"), ("fixed", "increasing", "+0.02"),
         ("decreasing", "increasing", "+0.03"), ("increasing", "dilation on two heads", "+0.01")],
        [("dev", "dev BPC", 4), ("test", "test BPC", 4)])


def staged():
    rows = load("character_lm", experiment="staged")
    names = ["longest from the beginning", "staged"]
    text = with_gaps(rows, [(name, "–") for name in names], [(*names, "> 0")], [("dev", "dev BPC", 4)])
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for name in names:
        found = [row["by_context"] for row in rows if row["row"] == name]
        if not found:
            continue
        contexts = sorted(map(int, found[0]))
        columns = [[row[str(n)] for row in found] for n in contexts]
        deviation = [statistics.stdev(column) if len(column) > 1 else 0 for column in columns]
        axes.errorbar(contexts, [statistics.mean(column) for column in columns], deviation, marker="o",
                      capsize=3, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("characters before those that are scored")
    axes.set_ylabel("BPC of the first characters of the dev part")
    axes.set_title("mean ± standard deviation of three seeds", fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save(figure, "bpc_by_context.svg")
    return text


def masked_lm():
    return with_gaps(
        load("masked_lm"),
        [("512", 1.846), ("4,096, new positions drawn", 10.299), ("4,096, positions copied", 1.957),
         ("copied, updates", 1.753), ("copied, only the new positions updated", 1.850),
         ("as many updates at 512", "–")],
        [("4,096, new positions drawn", "4,096, positions copied", "+8.342"),
         ("4,096, positions copied", "512", "+0.111"),
         ("4,096, positions copied", "copied, updates", "+0.204"),
         ("4,096, positions copied", "copied, only the new positions updated", "+0.107"),
         ("512", "copied, updates", "+0.093"),
         ("as many updates at 512", "copied, updates", "–")],
        [("bpc", "BPC", 4), ("accuracy", "accuracy", 4)])


def classification(task, short, long):
    metrics = [("f1", "F1", 4), ("accuracy", "accuracy", 4)]
    if task == "imdb":
        metrics.reverse()
    rows = load("classification", experiment=task)
    named, gaps = [("512", short), ("4,096", long)], [("4,096", "512", f"{long - short:+.3f}")]
    trained = "4,096, longformer-minilm-4096"
    if any(row["row"] == trained for row in rows):
        named.append((trained, "–"))
        gaps.append((trained, "4,096", "–"))
    return with_gaps(rows, named, gaps, metrics)


def questions():
    whole = "2,048"
    named = [(whole, 73.8), ("2,048, no projections of their own", 72.2), ("2,048, no global attention", 65.5),
             ("2,048, no masked-LM updates", 73.2), ("2,048, only the new positions updated", 73.5),
             ("512", "–"), ("512, n² attention", 71.7)]
    gaps = [(whole, name, "> 0" if paper == "–" else f"{73.8 - paper:+.1f}") for name, paper in named[1:]]
    return with_gaps(load("questions"), named, gaps, [("f1", "F1", 2), ("exact_match", "exact match", 2)],
                     once=("2,048, no masked-LM updates", "2,048, only the new positions updated"))


def linear():
    rows = load("linear")
    if not rows:
        return NOT_RUN
    names = ["longformer.cpp", "longformer.cpp, checkpointing", "transformers"]
    lengths = sorted({row["n"] for row in rows})
    median = {}
    for name in names:
        for n in lengths:
            found = [row for row in rows if row["row"] == name and row["n"] == n]
            if found:
                median[name, n] = (statistics.median(row["seconds"] for row in found),
                                   max(row["peak_bytes"] for row in found))
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for panel, at, label, scale in ((panels[0], 0, "seconds of a step", 1), (panels[1], 1, "peak memory, GB", 1e9)):
        for name, marker in zip(names, "o^s"):
            points = [(n, median[name, n][at] / scale) for n in lengths if (name, n) in median]
            panel.plot([n for n, _ in points], [value for _, value in points], marker=marker, label=name)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(lengths, [f"{n:,}" for n in lengths], rotation=45, ha="right")
        panel.set_xlabel("tokens")
        panel.set_ylabel(label)
        panel.grid(alpha=0.3)
    panels[0].legend(frameon=False)
    save(figure, "training_step.svg")
    cells = [[f"{n:,}", *(f"{median[name, n][0]:.2f} s, {median[name, n][1] / 1e9:.2f} GB"
                          if (name, n) in median else "–" for name in names)] for n in lengths]
    return table(["tokens", *names], cells)


ARTICLE_ROWS = ("first words", "last words", "another abstract", "512 tokens", "2048 tokens", "8192 tokens")


def articles():
    rows = load("articles")
    if not rows:
        return NOT_RUN
    figure, axes = plt.subplots(figsize=(5, 3))
    for row in rows:
        if "tenths" in row:
            axes.plot(range(10), row["tenths"], marker="o", label=f"{row['row']}, seed {row['seed']}")
    axes.axhline(0.1, color="grey", linewidth=0.8, label="even")
    axes.set_xticks(range(10), [f"{tenth + 1}." for tenth in range(10)])
    axes.set_xlabel("tenth of what was read")
    axes.set_ylabel("share of the attention")
    axes.set_ylim(0, 0.2)
    axes.legend(fontsize=7)
    figure.tight_layout()
    save(figure, "articles.svg")
    shown = []
    for name in ARTICLE_ROWS:
        values = {metric: list(by_seed(rows, name, metric).values()) for metric in ("rouge1", "rougeL")}
        if values["rouge1"]:
            shown.append([name, *(spread(values[metric], 3) for metric in values), len(values["rouge1"])])
    return table(["", "ROUGE-1", "ROUGE-L", "seeds"], shown)


def longer_input():
    rows = load("longer_input")
    if not rows:
        return NOT_RUN
    lengths = [512, 2048, 8192]
    names = [f"{n} words" for n in lengths]
    # The paper's validation ROUGE-1 on arXiv with 1,024, 4,096 and 16,384 tokens.
    split, extended = f"{names[1]}, split", f"{names[1]}, extended"
    text = with_gaps(rows, [("first words", "–"), *zip(names, (35.21, 44.48, 46.23)), (split, "–"), (extended, "–")],
                     [(names[1], names[0], "+9.27"), (names[2], names[1], "+1.75"), (split, names[1], "–"),
                      (extended, names[1], "–"), (split, extended, "–")],
                     [("rouge1", "ROUGE-1", 3), ("rougeL", "ROUGE-L", 3)])
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for metric, label in (("rouge1", "trained on the long documents"), ("untrained_rouge1", "before the training on long documents")):
        found = [[row[metric] for row in rows if row["row"] == name] for name in names]
        if all(found):
            deviation = [statistics.stdev(values) if len(values) > 1 else 0 for values in found]
            axes.errorbar(lengths, [statistics.mean(values) for values in found], deviation, marker="o", capsize=3,
                          label=label)
    axes.plot(lengths, [n / lengths[-1] for n in lengths], color="gray", linestyle=":", label="share of facts read")
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axes.set_xlabel("words that are read")
    axes.set_ylabel("ROUGE-1")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save(figure, "longer_input.svg")
    return text


def spread_of(rows, names, metrics):
    """A row for each name: its metrics, each (label, value of a run, digits), and the number of seeds."""
    shown = []
    for name, paper in names:
        found = [row for row in rows if row["row"] == name]
        values = [[value(row) for row in found if value(row) is not None] for _, value, _ in metrics]
        if found:
            shown.append([name, paper, *(spread(value, digits) for value, (_, _, digits) in zip(values, metrics)),
                          len(found)])
    return table(["", "paper", *(label for label, _, _ in metrics), "seeds"], shown)


def litbank():
    rows = load("coreference", data="litbank")
    if not rows:
        return NOT_RUN
    names = [("the same words", "–"), ("4,096", 78.6), ("512, one behind the other", 78.4), ("512, overlapping", "–"),
             ("4,096, links alone", "–")]

    def of(part, name):
        return lambda row: 100 * row[part][name] if part in row and name in row[part] else None

    return spread_of(rows, names, [
        ("test CoNLL F1", of("test", "conll_f1"), 1), ("MUC", of("test", "muc_f1"), 1), ("B³", of("test", "b_cubed_f1"), 1),
        ("CEAF-φ4", of("test", "ceaf_e_f1"), 1), ("LEA", of("test", "lea_f1"), 1),
        ("mentions", of("test", "mentions_f1"), 1),
        ("without singletons", lambda row: 100 * row["test_without_singletons"] if "test_without_singletons" in row else None, 1),
        ("dev CoNLL F1", of("dev", "conll_f1"), 1), ("dev recall of pruning", of("dev", "pruning_recall"), 1)])


CRAFT_ROWS = ("512, each segment by itself", "512, one behind the other", "4,096, each segment by itself", "4,096",
              "one pass of 20,480")  # fmt: skip


def draw_links(heights, labels):
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    width = 0.81 / len(heights)
    for number, (name, values) in enumerate(heights.items()):
        shift = width * (number - (len(heights) - 1) / 2)
        axes.bar([place + shift for place in range(len(labels))], values, 0.93 * width, label=name)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel("words to the nearest mention before")
    axes.set_ylabel("links that are found")
    axes.grid(alpha=0.3, axis="y")
    axes.set_ylim(top=1.25 * axes.get_ylim()[1])
    axes.legend(frameon=False, ncols=2)
    save(figure, "links_by_distance.svg")


def craft():
    rows = load("coreference", data="craft")
    if not rows:
        return NOT_RUN
    rows += [{"row": f"{row['row'].split(', one')[0]}, each segment by itself", "seed": row["seed"], **row["by_itself"]}
             for row in rows if "by_itself" in row]
    names = [("512", "≤ 512 words"), ("4096", "≤ 4,096"), ("beyond", "beyond")]

    def share(row, name):
        found = row.get("links", {}).get(name)
        return found["found"] / found["of"] if found else None

    heights = {}
    for name in CRAFT_ROWS:
        found = [row for row in rows if row["row"] == name and "links" in row]
        if found:
            heights[name] = [statistics.mean(share(row, key) for row in found) for key, _ in names]
    if heights:
        draw_links(heights, [label for _, label in names])
    return spread_of(rows, [("the same words", "–"), *((name, "–") for name in CRAFT_ROWS)], [
        ("CoNLL F1", lambda row: 100 * row["dev"]["conll_f1"], 1),
        *((f"links {label}", lambda row, key=key: 100 * share(row, key) if share(row, key) is not None else None, 1)
          for key, label in names)])


def hotpotqa():
    rows = load("hotpotqa")
    if not rows:
        return NOT_RUN

    def of(name):
        return lambda row: 100 * row[name] if name in row else None

    names = [("BM25", "–"), ("one stage", "–"), ("two stages", 64.4), ("512", 63.5), ("one stage, no evidence losses", "–"),
             ("one stage, marks global too", "–"), ("one stage, nothing global", "–"),
             ("marks global too, weights 1,1,1,1, 3 epochs in batches of 8", "–"),
             ("one stage, evidence of SQuAD first", "–"), ("two stages, evidence of SQuAD first", "–")]
    return spread_of(rows, names, [
        ("joint F1", of("joint_f1"), 1), ("answer F1", of("f1"), 1), ("supporting F1", of("sp_f1"), 1),
        ("gold among the five best", of("five_best_gold_recall"), 1),
        ("gold kept (≤ 5, logit > −3)", of("selected_gold_recall"), 1)])


def candidates():
    rows = load("candidates")
    if not rows:
        return NOT_RUN
    names = [("BM25", "–"), ("4,096", 73.8), ("4,096, one epoch", "–"), ("512", 72.4), ("4,096, no projections of their own", 72.2),
             ("4,096, no global attention", 65.5)]
    return spread_of(rows, names, [("accuracy", lambda row: 100 * row["accuracy"], 1)])


def triviaqa():
    rows = load("triviaqa")
    if not rows:
        return NOT_RUN
    names = [("a name in the likeliest sentence", "–"), ("OR loss", 75.2), ("first match", "–"), ("gold span", "–"),
             ("OR loss, substrings", "–"), ("512, one softmax", 74.3), ("512, a softmax for each row", "–")]
    return spread_of(rows, names, [("F1", lambda row: row["f1"], 2), ("exact match", lambda row: row["exact_match"], 2)])


TABLES = {
    "windows, text8": lambda: windows("text8"),
    "windows, bytes": lambda: windows("bytes"),
    "staged": staged,
    "masked LM": masked_lm,
    "hyperpartisan": lambda: classification("hyperpartisan", 0.874, 0.948),
    "imdb": lambda: classification("imdb", 0.953, 0.957),
    "questions": questions,
    "linear": linear,
    "longer input": longer_input,
    "articles": articles,
    "litbank": litbank,
    "craft": craft,
    "hotpotqa": hotpotqa,
    "triviaqa": triviaqa,
    "candidates": candidates,
}


def main():
    page = DOCS / "results.md"
    text = page.read_text()
    for name, make in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if pattern.search(text):
            text = pattern.sub(lambda found, body=make(): f"{found[1]}{body}\n{found[2]}", text)
    page.write_text(text)


if __name__ == "__main__":
    main()
