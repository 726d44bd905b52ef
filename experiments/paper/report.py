#!/usr/bin/env python3
"""Puts the figures of docs/results/*.jsonl into the tables of docs/results.md and draws docs/figures/.

    experiments/paper/report.py

A table stands between the lines <!-- NAME --> and <!-- end -->, and is written anew. Gaps between rows follow the rule of
experiments/gaps.py. Rows of docs/results/trivial.jsonl stand in the table that they name. A row without runs is named below
its table. Needs matplotlib.
"""

import dataclasses
import re
import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import experiment
import gaps

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


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


@dataclasses.dataclass
class Pair:
    """Two rows whose difference is asked for; they stand such that a positive one is expected."""

    more: str
    less: str
    paper: str = "–"
    paired: bool = True  # runs of equal seeds share their noise
    note: str = ""  # why the seeds cannot show it


#: Gaps of each table, for the table of findings.
FOUND = {}


def trivial(name):
    return load("trivial", table=name)


#: Test documents of the tables whose metric is a mean of shares over them, and the whole (1 or 100).
DOCUMENTS = {"hyperpartisan": (129, 1), "imdb": (400, 1), "questions": (150, 100), "hotpotqa": (150, 100), "triviaqa": (300, 100),
             "candidates": (243, 100), "longer input": (200, 1)}  # fmt: skip


def gap_table(name, rows, pairs, value, digits):
    """The gaps of a table, by `value` of a run."""
    documents, whole = DOCUMENTS.get(name, (None, 1))

    def of(row):
        return {run["seed"]: value(run) for run in rows if run["row"] == row and value(run) is not None}

    lines = gaps.corrected([gaps.Line(f"{pair.more} − {pair.less}", pair.paper, gaps.gap(of(pair.more), of(pair.less), pair.paired, documents, whole),
                                      digits, pair.note) for pair in pairs])  # fmt: skip
    FOUND[name] = {line.name: line for line in lines}
    return table(gaps.HEADER, [line.cells() for line in lines])


def not_run(rows, names):
    missing = [name for name in names if not any(row["row"] == name for row in rows)]
    return f"\n\nNot run: {'; '.join(missing)}." if missing else ""


def with_gaps(name, rows, named, pairs, metrics):
    """Two tables: of rows with (name, paper), and of gaps of the first metric. Trivial rows stand behind the others."""
    if not rows:
        return NOT_RUN
    rows = rows + trivial(name)
    named = [*named, *((row, "–") for row in dict.fromkeys(one["row"] for one in trivial(name)))]
    header = ["", "paper", *(f"{label} here" for _, label, _ in metrics), "seeds"]
    first = []
    for row, paper in named:
        values = {metric: list(by_seed(rows, row, metric).values()) for metric, _, _ in metrics}
        count = len(values[metrics[0][0]])
        if count:
            first.append([row, paper, *(spread(values[metric], digits) for metric, _, digits in metrics), count])
    metric, label, digits = metrics[0]
    second = gap_table(name, rows, pairs, lambda run: run.get(metric), digits)
    return table(header, first) + not_run(rows, [row for row, _ in named]) + f"\n\nGaps of {label}; a larger one is better for the expectation:\n\n" + second


COUNTS = "counts of six characters, of as many characters"


def windows(form):
    rows = load("character_lm", experiment="windows", form=form)
    best = "increasing"
    return with_gaps(
        f"windows, {form}", rows,
        [("decreasing", 1.24), ("fixed", 1.23), ("increasing", 1.21), ("dilation on two heads", 1.20)],
        [Pair("decreasing", "fixed", "+0.01"), Pair("fixed", "increasing", "+0.02"), Pair("decreasing", "increasing", "+0.03"),
         Pair("increasing", "dilation on two heads", "+0.01"), Pair(COUNTS, best, "> 0")],
        [("dev", "dev BPC", 4), ("test", "test BPC", 4)])  # fmt: skip


def staged():
    rows = load("character_lm", experiment="staged")
    names = ["longest from the beginning", "staged"]
    text = with_gaps("staged", rows, [(name, "–") for name in names], [Pair(*names, "> 0")], [("dev", "dev BPC", 4)])
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
        "masked LM", load("masked_lm"),
        [("512", 1.846), ("4,096, new positions drawn", 10.299), ("4,096, positions copied", 1.957),
         ("copied, updates", 1.753), ("copied, only the new positions updated", 1.850),
         ("as many updates at 512", "–")],
        # Rows of 512 and of 4,096 tokens hide other tokens.
        [Pair("4,096, new positions drawn", "4,096, positions copied", "+8.342"),
         Pair("4,096, positions copied", "512", "+0.111", paired=False),
         Pair("4,096, positions copied", "copied, updates", "+0.204"),
         Pair("4,096, positions copied", "copied, only the new positions updated", "+0.107"),
         Pair("512", "copied, updates", "+0.093", paired=False),
         Pair("as many updates at 512", "copied, updates", paired=False),
         Pair("how frequent a token is", "4,096, new positions drawn", "> 0"),
         Pair("how frequent it is after the token before", "copied, updates", "> 0")],
        [("bpc", "BPC", 4), ("accuracy", "accuracy", 4)])  # fmt: skip


def classification(task, short, long):
    metrics = [("f1", "F1", 4), ("accuracy", "accuracy", 4)]
    if task == "imdb":
        metrics.reverse()
    trained, words = "4,096, longformer-minilm-4096", "TF-IDF, logistic regression"
    rows = load("classification", experiment=task)
    named = [("512", short), ("4,096", long), (trained, "–")]
    all_reviews = []
    if task == "imdb":
        named += [(f"{name}, all reviews", "–") for name in ("512", trained)]
        all_reviews = [Pair(f"{trained}, all reviews", "TF-IDF, linear SVM, all 25,000 reviews to train", "> 0", paired=False)]
    return with_gaps(
        task, rows, named,
        [Pair("4,096", "512", f"{long - short:+.3f}"), Pair(trained, "4,096"), Pair("4,096", words, "> 0"), Pair(trained, words, "> 0"),
         Pair("512", f"{words}, first 2,500 characters", "> 0"), Pair("4,096", "bag as in fastText", "> 0", paired=False), *all_reviews],
        metrics) + by_length([*rows, *trivial(task)])  # fmt: skip


def by_length(rows):
    """Accuracy of rows that were tested on a whole part, by the length of the documents."""
    rows = [row for row in rows if "parts" in row]
    if not rows:
        return ""
    counts = {name: count for name, (_, count) in next(iter(rows[0]["parts"].values())).items()}
    lines = [[f"{row['row']}, seed {row['seed']}" + (", cut at 512 tokens" if cut == "512" else ""), *(f"{share:.4f}" for share, _ in parts.values())]
             for row in rows for cut, parts in row["parts"].items()]  # fmt: skip
    header = ["", *(f"{name} ({count:,})" for name, count in counts.items())]
    return "\n\nAccuracy on the whole test part, by length (long: more than 2,500 characters); larger is better:\n\n" + table(header, lines)


def questions():
    whole = "2,048"
    named = [(whole, 73.8), ("2,048, no projections of their own", 72.2), ("2,048, no global attention", 65.5),
             ("2,048, no masked-LM updates", 73.2), ("2,048, only the new positions updated", 73.5),
             ("512", "–"), ("512, n² attention", 71.7)]
    once = ("2,048, no masked-LM updates", "2,048, only the new positions updated")
    pairs = [Pair(whole, name, "> 0" if paper == "–" else f"{73.8 - paper:+.1f}", note="one beginning each" if name in once else "")
             for name, paper in named[1:]]  # fmt: skip
    pairs.append(Pair(whole, "a name in the likeliest sentence", "> 0"))
    return with_gaps("questions", load("questions"), named, pairs, [("f1", "F1", 2), ("exact_match", "exact match", 2)])


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
    pairs = [Pair("8192 tokens", "2048 tokens", "+1.75"), Pair("2048 tokens", "512 tokens", "+9.27"), Pair("2048 tokens", "last words", "> 0"),
             Pair("2048 tokens", "another abstract", "> 0")]  # fmt: skip
    return table(["", "ROUGE-1", "ROUGE-L", "seeds"], shown) + "\n\nGaps of ROUGE-1; a larger one is better for the expectation:\n\n" + gap_table(
        "articles", rows, pairs, lambda run: run.get("rouge1"), 3)


def longer_input():
    rows = load("longer_input")
    if not rows:
        return NOT_RUN
    lengths = [512, 2048, 8192]
    names = [f"{n} words" for n in lengths]
    # The paper's validation ROUGE-1 on arXiv with 1,024, 4,096 and 16,384 tokens.
    split, extended = f"{names[1]}, split", f"{names[1]}, extended"
    text = with_gaps(
        "longer input", rows, [("first words", "–"), *zip(names, (35.21, 44.48, 46.23)), (split, "–"), (extended, "–")],
        [Pair(names[1], names[0], "+9.27"), Pair(names[2], names[1], "+1.75"), Pair(split, names[1]), Pair(extended, names[1]),
         Pair(split, extended), *(Pair(name, f"the word after each name, of {name}", "> 0") for name in names)],
        [("rouge1", "ROUGE-1", 3), ("rougeL", "ROUGE-L", 3)])  # fmt: skip
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


def spread_of(name, rows, names, metrics, pairs=()):
    """A row for each name: its metrics, each (label, value of a run, digits), and the number of seeds; gaps of the first one."""
    rows = rows + trivial(name)
    names = [*names, *((row, "–") for row in dict.fromkeys(one["row"] for one in trivial(name)))]
    shown = []
    for row, paper in names:
        found = [run for run in rows if run["row"] == row]
        values = [[value(run) for run in found if value(run) is not None] for _, value, _ in metrics]
        if found:
            shown.append([row, paper, *(spread(value, digits) for value, (_, _, digits) in zip(values, metrics)), len(found)])
    text = table(["", "paper", *(label for label, _, _ in metrics), "seeds"], shown) + not_run(rows, [row for row, _ in names])
    if not pairs:
        return text
    label, value, digits = metrics[0]
    return f"{text}\n\nGaps of {label}; a larger one is better for the expectation:\n\n" + gap_table(name, rows, pairs, value, digits)


def litbank():
    rows = load("coreference", data="litbank")
    if not rows:
        return NOT_RUN
    names = [("the same words", "–"), ("4,096", 78.6), ("512, one behind the other", 78.4), ("512, overlapping", "–"),
             ("4,096, links alone", "–")]

    def of(part, name):
        return lambda row: 100 * row[part][name] if part in row and name in row[part] else None

    return spread_of("litbank", rows, names, [
        ("test CoNLL F1", of("test", "conll_f1"), 1), ("MUC", of("test", "muc_f1"), 1), ("B³", of("test", "b_cubed_f1"), 1),
        ("CEAF-φ4", of("test", "ceaf_e_f1"), 1), ("LEA", of("test", "lea_f1"), 1),
        ("mentions", of("test", "mentions_f1"), 1),
        ("without singletons", lambda row: 100 * row["test_without_singletons"] if "test_without_singletons" in row else None, 1),
        ("dev CoNLL F1", of("dev", "conll_f1"), 1), ("dev recall of pruning", of("dev", "pruning_recall"), 1)],
        [Pair("4,096", "512, one behind the other", "+0.2"), Pair("4,096", "512, overlapping"), Pair("4,096", "4,096, links alone"),
         Pair("4,096", "the same words", "> 0")])  # fmt: skip


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
    # Seeds draw head and order; models of other lengths begin elsewhere.
    pairs = [Pair("4,096", "512, one behind the other", "+0.2"), Pair("one pass of 20,480", "4,096, each segment by itself", "> 0"),
             Pair("one pass of 20,480", "4,096", "> 0"), Pair("4,096", "the same words", "> 0")]  # fmt: skip
    return spread_of("craft", rows, [("the same words", "–"), *((name, "–") for name in CRAFT_ROWS)], [
        ("CoNLL F1", lambda row: 100 * row["dev"]["conll_f1"], 1),
        *((f"links {label}", lambda row, key=key: 100 * share(row, key) if share(row, key) is not None else None, 1)
          for key, label in names)], pairs)


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
    pairs = [Pair("two stages", "one stage", "+4.2"), Pair("two stages, evidence of SQuAD first", "one stage, evidence of SQuAD first", "+4.2"),
             Pair("one stage, evidence of SQuAD first", "one stage"), Pair("one stage", "BM25, and a name in its sentences", "> 0"),
             Pair("one stage, evidence of SQuAD first", "BM25, and a name in its sentences", "> 0")]  # fmt: skip
    return spread_of("hotpotqa", rows, names, [
        ("joint F1", of("joint_f1"), 1), ("answer F1", of("f1"), 1), ("supporting F1", of("sp_f1"), 1),
        ("gold among the five best", of("five_best_gold_recall"), 1),
        ("gold kept (≤ 5, logit > −3)", of("selected_gold_recall"), 1)], pairs)


def candidates():
    rows = load("candidates")
    if not rows:
        return NOT_RUN
    names = [("BM25", "–"), ("4,096", 73.8), ("4,096, one epoch", "–"), ("4,096, evidence of SQuAD first", "–"), ("512", 72.4), ("4,096, no projections of their own", 72.2),
             ("4,096, no global attention", 65.5)]
    return spread_of("candidates", rows, names, [("accuracy", lambda row: 100 * row["accuracy"], 1)],
                     [Pair("4,096, one epoch", "BM25", "> 0")])


def triviaqa():
    rows = load("triviaqa")
    if not rows:
        return NOT_RUN
    names = [("a name in the likeliest sentence", "–"), ("OR loss", 75.2), ("first match", "–"), ("gold span", "–"),
             ("OR loss, substrings", "–"), ("512, one softmax", 74.3), ("512, a softmax for each row", "–")]
    return spread_of("triviaqa", rows, names, [("F1", lambda row: row["f1"], 2), ("exact match", lambda row: row["exact_match"], 2)],
                     [Pair("OR loss", "first match", "> 0"), Pair("OR loss", "gold span"), Pair("OR loss", "512, one softmax", "+0.9"),
                      Pair("OR loss", "a name in the likeliest sentence", "> 0")])  # fmt: skip


def phases():
    rows = load("phases")
    if not rows:
        return NOT_RUN
    names = list(dict.fromkeys(row["row"] for row in rows))
    first = [[name, f"{next(row['characters'] for row in rows if row['row'] == name):,}", spread(list(by_seed(rows, name, "dev").values()), 3),
              len(by_seed(rows, name, "dev"))] for name in names]  # fmt: skip
    last = [row["by_window"] for row in rows if "by_window" in row]
    second = [[f"{int(window):,}", spread([row[window] for row in last], 3), len(last)] for window in (last[0] if last else ())]
    return table(["after", "characters read", "dev BPC", "seeds"], first) + "\n\n" + table(
        ["window of the evaluation", "dev BPC after the last phase", "seeds"], second)


#: Mean and 95th percentile of the paper's Table 6.
PAPER_LENGTHS = {"WikiHop": (1535, 3627), "TriviaQA": (6589, 17126), "HotpotQA": (1316, 1889), "IMDB": (300, 705), "Hyperpartisan": (705, 1975),
                 "LitBank": (506, 1147), "CRAFT": (506, 1147)}  # fmt: skip


def lengths():
    rows = load("lengths")
    if not rows:
        return NOT_RUN
    shown = []
    for row in rows:
        paper = PAPER_LENGTHS[row["row"].split(",")[0]]
        shown.append([row["row"], f"{paper[0]:,}, {paper[1]:,}", f"{row['mean']:,.0f}, {row['p95']:,.0f}", f"{row['max']:,}",
                      f"{100 * row['share_over_512']:.0f} %", f"{100 * row['share_over_4096']:.0f} %", f"{row['documents']:,}"])  # fmt: skip
    return table(["", "mean and 95th percentile in the paper", "here", "longest", "over 512", "over 4,096", "documents"], shown)


#: The paper's findings: words of the page, table, gap.
FINDINGS = (
    ("[windows that grow with depth](#table-4-how-windows-are-arranged) beat falling ones, text8", "windows, text8", "decreasing − increasing"),
    ("the same, bytes", "windows, bytes", "decreasing − increasing"),
    ("dilation on two heads helps, text8", "windows, text8", "increasing − dilation on two heads"),
    ("the same, bytes", "windows, bytes", "increasing − dilation on two heads"),
    ("[training in stages](#staged-training) helps", "staged", "longest from the beginning − staged"),
    ("[copied positions](#table-5-from-512-to-4096-tokens) beat drawn ones", "masked LM", "4,096, new positions drawn − 4,096, positions copied"),
    ("updates at 4,096 tokens help", "masked LM", "4,096, positions copied − copied, updates"),
    ("they help more than as many at 512", "masked LM", "as many updates at 512 − copied, updates"),
    ("[whole documents](#whole-documents-hyperpartisan-and-imdb) beat 512 tokens, Hyperpartisan", "hyperpartisan", "4,096 − 512"),
    ("the same, IMDB's longest reviews", "imdb", "4,096 − 512"),
    ("*not the paper's:* they beat words and a linear model, IMDB", "imdb", "4,096 − TF-IDF, logistic regression"),
    ("[global attention](#global-attention-questions-about-articles) helps questions", "questions", "2,048 − 2,048, no global attention"),
    ("projections of their own help", "questions", "2,048 − 2,048, no projections of their own"),
    ("2,048 tokens beat segments of 512", "questions", "2,048 − 512"),
    ("[coreference](#coreference) gains from whole documents, CRAFT", "craft", "4,096 − 512, one behind the other"),
    ("[two stages](#hotpotqa) for HotpotQA", "hotpotqa", "two stages − one stage"),
    ("the same, evidence of SQuAD first", "hotpotqa", "two stages, evidence of SQuAD first − one stage, evidence of SQuAD first"),
    ("[the OR loss](#known-answers-without-their-places) beats the first match", "triviaqa", "OR loss − first match"),
    ("[candidates read together](#candidates-that-are-read-together) beat plain words", "candidates", "4,096, one epoch − BM25"),
    ("[longer input, better text](#longer-input-better-text), made documents", "longer input", "8192 words − 2048 words"),
    ("the same, [real articles](#longer-input-on-real-articles)", "articles", "8192 tokens − 2048 tokens"),
)  # fmt: skip


def findings():
    """After the other tables."""
    shown = []
    for words, name, gap in FINDINGS:
        _, paper, *cells = FOUND[name][gap].cells()
        shown.append([words, paper, *cells])
    return table(["the paper's finding", *gaps.HEADER[1:]], shown)


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
    "phases": phases,
    "lengths": lengths,
    "findings": findings,
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
