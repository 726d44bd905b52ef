#!/usr/bin/env python3
"""Long Range Arena in miniature: encoders of bytes from nothing, one table for all attentions.

    LONGFORMER_DATA=data experiments/lra/arena.py [TASK …] [--rows dense,window] [--seeds 3] [--tokens 1024]
    experiments/lra/arena.py --table

Tasks: digits, listops, text, retrieval, pathfinder (all, in this order). Each encoder has the same layers and the same
training: --steps steps of --batch documents of up to --tokens bytes, each read once, on one thread; then it is tested on
1,000 documents that it has not read. Rows to beat are the first byte, a bag of bytes and words with a linear model, and an LSTM
(--python has numpy, for words scikit-learn, for the LSTM torch). Steps per second and seconds of a document are of the time on the processor, so that a
busy machine counts little. Figures are added to docs/results/lra.jsonl; what is there is not run again, so a run
can be stopped and continued. At the end, and with --table, the tables of all figures go to stdout, with --page FILE
also between the lines <!-- arena --> and <!-- end --> of a page.
"""

import dataclasses
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable

import listops
import pictures
import texts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "paper"))
import experiment  # noqa: E402

DATA_SEED = 7


@dataclasses.dataclass
class Task:
    make: Callable  # examples of (part, count, seed, tokens)
    pooling: str
    title: str
    chance: float
    shortest: int = 64  # the least --tokens that its examples fit in


def side_of(tokens):
    return math.isqrt(tokens)


#: --tokens counts bytes; [CLS] and [SEP] are around them.
TASKS = {
    "digits": Task(lambda part, count, seed, tokens: pictures.digits(count, seed, side_of(tokens)), "mean", "Digits", 0.1),
    "listops": Task(lambda part, count, seed, tokens: listops.examples(count, seed, 500, min(2000, tokens + 1)), "cls", "ListOps", 0.1, 520),
    "text": Task(lambda part, count, seed, tokens: texts.reviews(part, count, seed), "mean", "Text", 0.5),
    "retrieval": Task(lambda part, count, seed, tokens: texts.pairs(part, count, seed, tokens // 2), "mean", "Retrieval", 0.5),
    "pathfinder": Task(
        lambda part, count, seed, tokens: pictures.pathfinder(count, seed, side=side_of(tokens)), "mean", "Pathfinder", 0.5, 784),
}  # fmt: skip

#: Attentions: keys of config.json, or a function of the options that gives them. A further one is a further line.
ROWS = {
    "dense": {"model_type": "roberta"},
    "window": {"model_type": "longformer", "attention_window": 256},
    "BigBird": {"model_type": "big_bird", "block_size": 32, "num_random_blocks": 3, "hidden_act": "gelu"},
    "Blockwise": lambda chosen: {"model_type": "blockwise", "base_model_type": "roberta", "blocks": min(4, chosen.hidden // 16)},
    "Funnel": lambda chosen: {"model_type": "funnel", "norm_first": False, "block_sizes": [1] * chosen.layers, "d_head": 16,
                              "d_inner": 2 * chosen.hidden, "hidden_dropout": 0.0, "attention_dropout": 0.0},
    "Reformer": lambda chosen: {"model_type": "reformer", "attn_layers": (["local", "lsh"] * chosen.layers)[: chosen.layers],
                                "local_num_chunks_after": 1, "lsh_num_chunks_after": 1, "num_hashes": 2, "hash_seed": 0,
                                # Axial positions are trained by texts of one length alone.
                                "axial_pos_embds": False, "attention_head_size": 16, "feed_forward_size": 2 * chosen.hidden, "hidden_act": "gelu",
                                "local_attention_probs_dropout_prob": 0.0},
    "Sparse": lambda chosen: {"model_type": "sparse", "base_model_type": "roberta", "pattern": "strided", "stride": math.isqrt(chosen.tokens)},
    "Linformer": {"model_type": "linformer", "base_model_type": "roberta", "projected_length": 64},
    "Performer": {"model_type": "performer", "base_model_type": "roberta", "feature_kernel": "relu", "features": 64},
}  # fmt: skip
TRIVIAL = ("first byte", "bag of bytes", "words", "LSTM")
#: The tasks that have words.
OF_WORDS = ("text", "retrieval")

#: Accuracy of the paper in per cent (Tay et al. 2021, table 1), at 1,000 to 4,000 tokens and up to 1,000 times our training.
PUBLISHED = {
    "dense": {"listops": 36.37, "text": 64.27, "retrieval": 57.46, "digits": 42.44, "pathfinder": 71.40},
    "window": {"listops": 35.63, "text": 62.85, "retrieval": 56.89, "digits": 42.22, "pathfinder": 69.71},
    "BigBird": {"listops": 36.05, "text": 64.02, "retrieval": 59.29, "digits": 40.83, "pathfinder": 74.87},
    "Linformer": {"listops": 35.70, "text": 53.94, "retrieval": 52.27, "digits": 38.56, "pathfinder": 76.34},
    "Performer": {"listops": 18.01, "text": 65.40, "retrieval": 53.82, "digits": 42.77, "pathfinder": 77.05},
    "Reformer": {"listops": 37.27, "text": 56.10, "retrieval": 53.40, "digits": 38.07, "pathfinder": 68.50},
    "Sparse": {"listops": 17.07, "text": 63.58, "retrieval": 59.59, "digits": 44.24, "pathfinder": 71.71},
}


def config_of(row, task, chosen):
    own = ROWS[row]
    return {
        "vocabulary": "bytes", "norm_first": True, "classifier_pooling": TASKS[task].pooling, "hidden_size": chosen.hidden,
        "num_hidden_layers": chosen.layers, "num_attention_heads": chosen.hidden // 16, "intermediate_size": 2 * chosen.hidden,
        "max_position_embeddings": chosen.tokens + 8, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
        # The usual 0.02 is for a width of 768.
        "initializer_range": 0.1,
        **(own(chosen) if callable(own) else own),
    }  # fmt: skip


def data_of(task, part, chosen):
    """The file of a part, made whole or not at all."""
    count = chosen.steps * chosen.batch if part == "train" else chosen.tested
    path = chosen.work / f"{task}-{chosen.tokens}-{part}-{count}.jsonl"
    if not path.exists():
        seed = DATA_SEED + 1000 * (part == "test")
        print(f"making {path}", file=sys.stderr)
        made = TASKS[task].make(part, count, seed, chosen.tokens)
        unfinished = path.with_suffix(".part")
        unfinished.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
        unfinished.rename(path)
    return path


def measured(command):
    """The JSON lines of a program on one thread, its seconds on the processor, and its peak memory in bytes."""
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=errors, text=True,
                                 env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # fmt: skip
        lines = child.stdout.read().splitlines()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(map(str, command))}\n{errors.read()[-2000:]}")
    return [json.loads(line) for line in lines], usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss


def trained(row, task, seed, chosen):
    def measure(program):
        train, test = (data_of(task, part, chosen) for part in ("train", "test"))
        with tempfile.TemporaryDirectory(dir=chosen.work) as place:
            model, out = pathlib.Path(place, "config"), pathlib.Path(place, "model")
            model.mkdir()
            (model / "config.json").write_text(json.dumps(config_of(row, task, chosen)))
            common = ["--truncate", "--threads", 1, "--json", "--quiet"]
            lines, seconds, memory = measured(
                [program.binary, "finetune", model, train, "--task", "classify", "--output-dir", out, "--seed", seed,
                 "--max-steps", chosen.steps, "--per-device-train-batch-size", chosen.batch, "--gradient-accumulation-steps", 1,
                 "--learning-rate", chosen.rate, "--warmup-ratio", 0.1, "--weight-decay", 0.01, "--logging-steps", 50,
                 "--save-strategy", "no", *common])  # fmt: skip
            scored, reading, _ = measured([program.binary, "evaluate", out, test, *common])
        return {"accuracy": round(scored[-1]["metrics"]["accuracy"], 4), "loss": lines[-1]["loss"],
                "steps_per_second": round(chosen.steps / seconds, 3), "peak_bytes": memory,
                "seconds_per_document": round(reading / chosen.tested, 5)}  # fmt: skip

    return measure


def trivial(row, task, seed, chosen):
    def measure(_):
        script = pathlib.Path(__file__).with_name("trivial.py")
        files = [data_of(task, part, chosen) for part in ("train", "test")]
        lines, _, memory = measured([chosen.python, script, row, *files, "--seed", seed, "--tokens", chosen.tokens, "--batch", chosen.batch])
        figures = lines[-1]
        more = {} if row != "LSTM" else {"steps_per_second": round(figures["steps"] / figures["train_seconds"], 3), "peak_bytes": memory,
                                         "seconds_per_document": figures["seconds_per_document"]}  # fmt: skip
        return {"accuracy": figures["accuracy"], **more}

    return measure


def runs(chosen):
    for seed in range(1, chosen.seeds + 1):
        for task in chosen.tasks:
            for row in (*TRIVIAL, *ROWS):
                # The rows without a seed of their own.
                if row not in chosen.rows or (seed > 1 and row in TRIVIAL[:3]) or (row == "words" and task not in OF_WORDS):
                    continue
                key = {"task": task, "row": row, "tokens": chosen.tokens, "steps": chosen.steps, "batch": chosen.batch,
                       "layers": chosen.layers, "hidden": chosen.hidden, "seed": seed}  # fmt: skip
                yield experiment.Run(key, (trivial if row in TRIVIAL else trained)(row, task, seed, chosen))


def spread(values):
    if not values:
        return "–"
    mean = f"{100 * statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * statistics.stdev(values):.1f}"


def lines(head, rows):
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def accuracy_table(found, names):
    head = ["accuracy", *(TASKS[task].title for task in TASKS)]
    rows = [[name, *(spread([row["accuracy"] for row in found if (row["row"], row["task"]) == (name, task)]) for task in TASKS)]
            for name in names]  # fmt: skip
    return lines(head, [*rows, ["chance", *(f"{100 * task.chance:.1f}" for task in TASKS.values())]])


def cost_table(found, names):
    """Costs of the digits, whose texts are all equally long; medians over the seeds."""
    def median(name, key, form):
        values = [row[key] for row in found if row["row"] == name and row["task"] == "digits" and key in row]
        return form(statistics.median(values)) if values else "–"

    rows = [[name, median(name, "steps_per_second", "{:.2f}".format), median(name, "peak_bytes", lambda x: f"{x / 1e6:.0f} MB"),
             median(name, "seconds_per_document", "{:.4f}".format)] for name in names]  # fmt: skip
    return lines(["", "steps/s", "memory", "s per document"], [row for row in rows if row[1] != "–"])


def published_table():
    rows = [[name, *(f"{PUBLISHED[name][task]:.1f}" for task in TASKS)] for name in PUBLISHED]
    return lines(["paper", *("Image (CIFAR-10)" if task == "digits" else TASKS[task].title for task in TASKS)], rows)


def tables(chosen):
    rows = experiment.Results(chosen.results).rows
    settings = sorted({(row["tokens"], row["steps"], row["batch"], row["layers"], row["hidden"]) for row in rows})
    for tokens, steps, batch, layers, hidden in settings:
        found = [row for row in rows if (row["tokens"], row["steps"], row["batch"], row["layers"], row["hidden"]) == (tokens, steps, batch, layers, hidden)]
        names = [name for name in (*TRIVIAL, *ROWS) if any(row["row"] == name for row in found)]
        seeds = max(row["seed"] for row in found)
        yield (f"{tokens:,} tokens, {steps:,} steps of {batch} documents, {layers} layers of {hidden}, {seeds} {'seed' if seeds == 1 else 'seeds'} at most. "
               "Accuracy in per cent, mean ± standard deviation: larger is better.")  # fmt: skip
        yield accuracy_table(found, names)
        yield "Steps/s: larger is better. Memory of a training, seconds of a document in use: smaller is better."
        yield cost_table(found, names)
    yield "The paper's accuracy, for orientation only: other data, models and trainings. Larger is better."
    yield published_table()


def arguments():
    parser = experiment.options(__doc__, "lra.jsonl")
    parser.set_defaults(work=str(experiment.ROOT / "build" / "lra"), jobs=1)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"{', '.join(TASKS)} (all)")
    parser.add_argument("--rows", default=",".join([*TRIVIAL, *ROWS]), help="comma-separated (%(default)s)")
    parser.add_argument("--tokens", type=int, default=1024, help="bytes of a document (%(default)s)")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate (%(default)s)")
    parser.add_argument("--tested", type=int, default=1000, help="documents of the test (%(default)s)")
    parser.add_argument("--python", default=sys.executable, help="Python with numpy and torch, for the rows to beat")
    parser.add_argument("--table", action="store_true", help="run nothing, print the tables")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="run nothing, put the tables into a page too")
    chosen = parser.parse_args()
    chosen.tasks = chosen.tasks or list(TASKS)
    chosen.rows = [name.strip() for name in chosen.rows.split(",")]
    for given, known in ((chosen.tasks, TASKS), (chosen.rows, (*TRIVIAL, *ROWS))):
        for name in given:
            if name not in known:
                parser.error(f"expected {', '.join(known)}, found {name}")
    for task in chosen.tasks:
        if chosen.tokens < TASKS[task].shortest:
            parser.error(f"--tokens: expected at least {TASKS[task].shortest} for {task}, found {chosen.tokens}")
    chosen.work = pathlib.Path(chosen.work)
    return chosen


def main():
    chosen = arguments()
    if not (chosen.table or chosen.page):
        if "text" in chosen.tasks:
            texts.data_sets.folder(*texts.IMDB)
        if "retrieval" in chosen.tasks:
            texts.data_sets.folder(texts.WIKIPEDIA)
        chosen.work.mkdir(parents=True, exist_ok=True)
        experiment.perform(list(runs(chosen)), chosen)
    made = "\n\n".join(tables(chosen))
    print(made)
    if chosen.page:
        text = chosen.page.read_text(encoding="utf-8")
        text = re.sub(r"(<!-- arena -->\n).*?(<!-- end -->)", lambda match: f"{match[1]}{made}\n{match[2]}", text, count=1, flags=re.DOTALL)
        chosen.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
