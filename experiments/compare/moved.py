#!/usr/bin/env python3
"""A trained masked LM goes on with another attention: how far does it come back?

    LONGFORMER_DATA=data experiments/compare/moved.py MODEL [--tokens 250K] [--only NAME] [--seeds 2]

MODEL, a BERT such as MiniLM, first gets a masked-LM head and learns it with its own attention (--start tokens of English
Wikipedia, rows of 512). `convert` then gives it a Linformer's projections of every kind or a Performer's features, and it
learns --tokens more; the arm `dense` does so unchanged. After it the same models read rows of 128 and 256
tokens, and those with frozen random projections get other ones, drawn in the same way. Arms with a rate in their name
say how stable the training is. Needs numpy and safetensors. Figures are added to
docs/results/compare_moved.jsonl.
"""

import json
import pathlib
import shutil

import numpy
import setting
from safetensors.numpy import load_file, save_file
from setting import experiment

LENGTH, BATCH, K = 512, 8, 64
TOKENS_PER_STEP = LENGTH * BATCH
RATE = 5e-4


def linformer(*flags, k=K, **keys):
    return ["--to", "linformer", "--projected-length", k, *flags], keys


def learned(start="pooled", sharing="layerwise", k=K, **keys):
    return linformer("--projection-sharing", sharing, "--projection-initialization", start, k=k, **keys)


def performer(features, **keys):
    return ["--to", "performer", "--features", features], keys


# Flags of convert, and keys of config.json. `layerwise` is one projection for all layers.
ARMS = {
    "dense": (None, {}),
    "all tokens alike": linformer("--projection", "mean", k=1),
    "Performer, m 256": performer(256),
    "Linformer, mean, k 64": linformer("--projection", "mean"),
    "Linformer, learned from means, k 64": learned(),
    "Linformer, frozen orthogonal, k 64": learned("orthogonal", freeze_projection=True),
    "Linformer, learned from random, k 64": learned("xavier"),
    "Performer, m 64": performer(64),
    "Performer, m 256, never redrawn": performer(256, feature_redraw_interval=0),
    "Linformer, frozen gaussian, k 64": learned("gaussian", freeze_projection=True),
    "Linformer, learned for each layer, k 64": learned(sharing="key-value"),
    "Linformer, learned, keys and values, k 64": learned(sharing="headwise"),
    "Linformer, max, k 64": linformer("--projection", "max"),
    "Linformer, convolution, k 64": linformer("--projection", "convolution"),
    "Linformer, mean, k 256": linformer("--projection", "mean", k=256),
    "Linformer, learned from means, k 256": learned(k=256),
    "Linformer, mean, k 128": linformer("--projection", "mean", k=128),
    "Linformer, mean, k 32": linformer("--projection", "mean", k=32),
    "dense, from nothing": (None, {}),
    **{f"{name}, rate {rate}": way for rate in (1e-3, 3e-3)
       for name, way in (("dense", (None, {})), ("Performer, m 256", performer(256)),
                         ("Linformer, learned from means, k 64", learned()))},
}  # fmt: skip


def optimizer(tokens, rate):
    steps = tokens // TOKENS_PER_STEP
    return ["--bf16", "--per-device-train-batch-size", BATCH, "--gradient-accumulation-steps", 1, "--max-seq-length", LENGTH,
            "--eval-strategy", "steps", "--eval-steps", max(1, steps // 4),
            *setting.optimizer(steps, rate, warmup=min(50, steps // 5))]  # fmt: skip


def trained(program, source, target, texts, seed, recipe):
    if not (target / "model.safetensors").exists():
        program("pretrain-mlm", source, texts[0], "--output-dir", target, "--seed", seed,
                "--validation-file", texts[1], *recipe)  # fmt: skip
    return target


def attending(program, start, row, target, seed):
    """The start with the attention of an arm."""
    flags, keys = ARMS[row]
    if flags is None:
        shutil.copytree(start, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("checkpoint-*", "runs"))
    else:
        program("convert", start, target, "--overwrite", "--max-positions", LENGTH, "--seed", seed, *flags)
    if keys:
        config = target / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | keys))
    if "from nothing" in row:
        (target / "model.safetensors").unlink()
    return target


def redrawn(folder, target, start, seed):
    """A copy whose frozen projections are drawn again, as the model's were."""
    shutil.copytree(folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("checkpoint-*", "runs"))
    tensors, generator = load_file(target / "model.safetensors"), numpy.random.default_rng(seed)
    for name, old in tensors.items():
        if not name.endswith("_projection.weight"):
            continue
        drawn = generator.normal(size=old.shape)
        if "orthogonal" in start:
            q, r = numpy.linalg.qr(drawn.T)
            drawn = (q * numpy.sign(numpy.diag(r))).T
        # Rows as long as those it was drawn with.
        tensors[name] = (drawn * (numpy.linalg.norm(old) / numpy.linalg.norm(drawn))).astype(old.dtype)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


def loss(program, folder, text, length):
    metrics = program("evaluate", folder, text, "--max-seq-length", length, "--seed", 1)[-1]["metrics"]
    return round(metrics["loss"], 4)


def measure(chosen, row, seed):
    def run(program):
        texts = setting.wiki(chosen.work)
        start = trained(program, chosen.model, chosen.work / f"moved-start-{chosen.start}", texts, 1,
                        optimizer(chosen.start, RATE))  # fmt: skip
        source = attending(program, start, row, chosen.work / "moved-source", seed)
        before = None if "from nothing" in row else loss(program, source, texts[1], LENGTH)
        name = "-".join(["moved", *row.replace(",", "").lower().split(), str(chosen.tokens), str(seed)])
        rate = float(row.split("rate ")[1]) if "rate " in row else RATE
        figures = {"before": before}
        try:
            target = trained(program, source, chosen.work / name, texts, seed, optimizer(chosen.tokens, rate))
        except RuntimeError as error:
            # A loss that is no number ends a training.
            if "finite" not in str(error):
                raise
            return figures | {"diverged": True}
        figures |= {f"loss_{length}": loss(program, target, texts[1], length) for length in (LENGTH, LENGTH // 2, LENGTH // 4)}
        if "frozen" in row:
            figures["loss_redrawn"] = loss(program, redrawn(target, chosen.work / "redrawn", row, seed + 100), texts[1], LENGTH)
        points, seconds = setting.curve(target, TOKENS_PER_STEP)
        shutil.rmtree(target)
        return figures | {"curve": points, "seconds": seconds}

    return run


def main():
    parser = setting.options(__doc__, "compare_moved.jsonl")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--start", type=setting.number, default=1_000_000, help="tokens with its own attention")
    parser.add_argument("--tokens", type=setting.number, default=250_000, help="tokens with another one")
    chosen = setting.start(parser)
    setting.wiki(chosen.work)
    runs = [experiment.Run({"row": row, "seed": seed, "tokens": chosen.tokens}, measure(chosen, row, seed))
            for seed in range(1, chosen.seeds + 1) for row in ARMS]  # fmt: skip
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
