"""Common parts of the comparisons of attentions: texts, models of one size, training, curves.

Every experiment is one script, one file docs/results/compare_*.jsonl, one figure and one part of docs/compare.md. Scripts
go on where a file of results ends, so they can be stopped at any time; a killed training goes on from its
last checkpoint.
"""

import argparse
import json
import lzma
import pathlib
import re
import statistics
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "paper"))
import experiment  # noqa: E402
from experiment import data_sets  # noqa: E402

ROOT = experiment.ROOT
MEGABYTE = 1_000_000
# Standard language models of bytes: 0.89M, 2.94M and 41.1M weights; hidden size, layers, heads, intermediate size.
SIZES = {"small": (128, 4, 4, 512), "medium": (192, 6, 6, 768), "large": (512, 12, 8, 2048)}
VALIDATION_BYTES = 262_144
WIKIPEDIA = "wiki_en_extract/enwiki_AA.txt.xz"


def options(description, results):
    parser = experiment.options(description, results)
    parser.set_defaults(work=str(ROOT / "build" / "compare"), jobs=1, seeds=1)
    return parser


def start(parser):
    """The arguments, with the folder for texts and models made."""
    chosen = parser.parse_args()
    chosen.work = pathlib.Path(chosen.work)
    chosen.work.mkdir(parents=True, exist_ok=True)
    return chosen


def number(text):
    """10M, 250K or 1000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KM]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected a number such as 250K or 10M, found {text}")
    return round(float(found[1]) * {"": 1, "K": 1000, "M": 1_000_000}[found[2]])


def written(path, make):
    """The file, made whole or not at all."""
    if not path.exists():
        part = path.with_suffix(path.suffix + ".part")
        part.write_text(make(), encoding="utf-8")
        part.rename(path)
    return path


def wiki_articles():
    with lzma.open(data_sets.file(WIKIPEDIA), "rt", encoding="utf-8") as stream:
        return [text.strip() for text in re.findall(r"<doc [^>]*>\n(.*?)</doc>", stream.read(), re.DOTALL)]


def wiki(work):
    """English Wikipedia for training, and the first 256 KB of every twentieth article."""
    train, held_out = work / "wiki-train.txt", work / "wiki-validation.txt"
    if not (train.exists() and held_out.exists()):
        articles = wiki_articles()
        written(held_out, lambda: "\n\n".join(articles[::20])[:VALIDATION_BYTES])
        written(train, lambda: "\n\n".join(text for at, text in enumerate(articles) if at % 20))
    return train, held_out


def novels(work):
    """Whole novels of litbank for training, and two that no model reads."""
    train, held_out = work / "novels-train.txt", work / "novels-validation.txt"
    if not (train.exists() and held_out.exists()):
        with tarfile.open(data_sets.file("litbank/original.tar.xz")) as archive:
            books = {member.name: archive.extractfile(member).read().decode("utf-8", "replace")
                     for member in archive.getmembers() if member.isfile() and member.name.endswith(".txt")}
        names = sorted(books)
        tests = names[::50]
        written(held_out, lambda: "\n\n".join(books[name] for name in tests))
        written(train, lambda: "\n\n".join(books[name] for name in names if name not in tests))
    return train, held_out


def language_model(size, attention, **keys):
    """config.json of a standard language model of bytes; all have as many weights, by their intermediate size."""
    hidden, layers, heads, inner = SIZES[size]
    if attention in ("performer", "sparse", "adaptive", "reformer", "routing"):
        # They have no projection of distances.
        inner += hidden // 2
        keys = {"tie_word_embeddings": attention != "reformer"} | keys
    if attention in ("reformer", "routing"):
        # Half of the layers, or of the heads, have keys that are queries.
        inner += hidden // 4
    if attention == "compressive":
        inner -= hidden // 2
        if keys.get("compression", "convolution") in ("convolution", "dilated"):
            inner -= hidden // 2 * keys.get("compression_rate", 4)
    if "attn_layers" in keys:
        keys["attn_layers"] = (keys["attn_layers"] * layers)[:layers]
    for name in ("windows", "dilations"):
        # Lists are for six layers; fewer take every so many.
        if name in keys:
            keys[name] = [keys[name][round(at * 5 / (layers - 1))] for at in range(layers)]
    return {"model_type": "longformer-lm", "attention": attention, "vocabulary": "bytes", "hidden_size": hidden,
            "num_hidden_layers": layers, "num_attention_heads": heads, "head_dim": hidden // heads, "intermediate_size": inner,
            "dropout": 0.1} | keys  # fmt: skip


def optimizer(steps, rate=1e-3, warmup=None):
    """Options of every training, unless an experiment varies them."""
    return ["--optim", "adamw", "--learning-rate", rate, "--max-grad-norm", 0.25, "--lr-scheduler-type", "cosine",
            "--warmup-steps", warmup or min(500, steps // 5), "--max-steps", steps, "--save-steps", 500,
            "--save-total-limit", 1, "--logging-steps", 50, "--resume-from-checkpoint", "last"]  # fmt: skip


def log(folder):
    """The rows of a training's log."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def speeds(runs, size):
    """Characters in a second of training of each model of a size, by the runs of speeds of language_models.py."""
    found = {}
    for run in runs:
        if run["experiment"] == "speeds" and run["model"] == size:
            found.setdefault(run["row"], []).append(run["characters_per_second"])
    return {row: statistics.median(some) for row, some in found.items()}


def curve(folder, per_step):
    """[tokens or characters read, validation loss] and the seconds of a training's steps, from its log."""
    points, seconds, tokens = [], 0.0, 0
    for row in log(folder):
        if "eval_loss" in row:
            points.append([row["step"] * per_step, round(row["eval_loss"], 4)])
        elif "tokens_per_second" in row:
            seconds += (row["tokens"] - tokens) / row["tokens_per_second"]
            tokens = row["tokens"]
    return points, round(seconds, 1)
