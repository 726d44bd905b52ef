#!/usr/bin/env python3
"""Linformer: do random projections do? (experiments X1)

    LONGFORMER_DATA=data examples/compare/projections.py [--tokens 10M] [--only NAME] [--seeds 2]

A masked LM of 3.2M weights learns English Wikipedia in rows of 512 WordPieces (a vocabulary of 2,000), once with dense
attention and with every kind of Linformer projection. After training, the same models read rows of
128 and 256 tokens, and those with frozen random projections get other ones drawn in the same way.
Needs numpy, safetensors, tokenizers. Figures are added to docs/results/compare_projections.jsonl.
"""

import shutil

import numpy
import setting
from safetensors.numpy import load_file, save_file
from setting import experiment

LENGTH, BATCH, K = 512, 8, 64
TOKENS_PER_STEP = LENGTH * BATCH
EVALUATIONS = 8


def linformer(k=K, projection="linear", **keys):
    return {"model_type": "linformer", "projected_length": k, "projection": projection} | keys


def learned(k=K, sharing="layerwise", start="xavier", frozen=False):
    return linformer(k, projection_sharing=sharing, projection_initialization=start, freeze_projection=frozen)


ARMS = {
    "dense": {"model_type": "bert"},
    "learned, one for all layers": learned(),
    "frozen, orthogonal": learned(start="orthogonal", frozen=True),
    "mean": linformer(projection="mean"),
    "uniform (mean, k 1)": linformer(1, projection="mean"),
    "learned from pooled": learned(start="pooled"),
    "frozen, gaussian": learned(start="gaussian", frozen=True),
    "frozen, xavier": learned(frozen=True),
    "learned, for each layer": learned(sharing="key-value"),
    "learned, keys and values": learned(sharing="headwise"),
    "convolution": linformer(projection="convolution"),
    "max": linformer(projection="max"),
}
for size in (32, 128):
    ARMS |= {
        f"learned, one for all layers, k {size}": learned(size),
        f"frozen, orthogonal, k {size}": learned(size, start="orthogonal", frozen=True),
        f"mean, k {size}": linformer(size, projection="mean"),
    }


def redrawn(folder, target, model, seed):
    """A copy whose frozen projections are drawn again, as the model's were."""
    shutil.copytree(folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("checkpoint-*", "runs"))
    tensors = load_file(target / "model.safetensors")
    generator = numpy.random.default_rng(seed)
    for name, old in tensors.items():
        if not name.endswith("_projection.weight"):
            continue
        k, n = old.shape
        drawn = generator.normal(size=(k, n))
        if model["projection_initialization"] == "orthogonal":
            q, r = numpy.linalg.qr(drawn.T)
            drawn = (q * numpy.sign(numpy.diag(r))).T
        # Rows as long as those it was drawn with.
        tensors[name] = (drawn * (numpy.linalg.norm(old) / numpy.linalg.norm(drawn))).astype(old.dtype)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


def train(program, chosen, row, seed, texts):
    name = f"mlm-{row.replace(' ', '-').replace(',', '')}-{chosen.tokens}-{seed}"
    target = chosen.work / name
    if (target / "model.safetensors").exists():
        return target
    words = setting.vocabulary(chosen.work, texts[0])
    source = setting.encoder_folder(chosen.work, name, ARMS[row], words, LENGTH)
    steps = chosen.tokens // TOKENS_PER_STEP
    program("pretrain-mlm", source, texts[0], "--output-dir", target, "--seed", seed, "--bf16",
            "--per-device-train-batch-size", BATCH, "--gradient-accumulation-steps", 1, "--max-seq-length", LENGTH,
            "--validation-file", texts[1], "--eval-strategy", "steps", "--eval-steps", max(1, steps // EVALUATIONS),
            *setting.optimizer(steps))  # fmt: skip
    shutil.rmtree(source)
    return target


def loss(program, folder, text, length):
    metrics = program("evaluate", folder, text, "--max-seq-length", length, "--seed", 1)[-1]["metrics"]
    return round(metrics["loss"], 4)


def measure(chosen, row, seed):
    def run(program):
        texts = setting.wiki(chosen.work)
        folder = train(program, chosen, row, seed, texts)
        points, seconds = setting.curve(folder, TOKENS_PER_STEP)
        figures = {f"loss_{length}": loss(program, folder, texts[1], length) for length in (LENGTH, LENGTH // 2, LENGTH // 4)}
        if row.startswith("frozen"):
            other = redrawn(folder, chosen.work / "redrawn", ARMS[row], seed + 100)
            figures["loss_redrawn"] = loss(program, other, texts[1], LENGTH)
        return figures | {"curve": points, "seconds": seconds}

    return run


def main():
    parser = setting.options(__doc__, "compare_projections.jsonl")
    parser.add_argument("--tokens", type=setting.number, default=10_000_000)
    chosen = setting.start(parser)
    runs = [experiment.Run({"row": row, "seed": seed, "tokens": chosen.tokens}, measure(chosen, row, seed))
            for seed in range(1, chosen.seeds + 1) for row in ARMS]  # fmt: skip
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
