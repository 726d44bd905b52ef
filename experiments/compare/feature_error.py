#!/usr/bin/env python3
"""Performer and Linformer in place of a trained attention: how large is the error, and where?

    LONGFORMER_DATA=data experiments/compare/feature_error.py layers NAME=MODEL… [--texts 20] [--draws 3]
    LONGFORMER_DATA=data experiments/compare/feature_error.py heads NAME=MODEL…

layers: `convert` and `compare` on articles of Wikipedia, n = 512: the error of every layer by itself and of all below it.
heads: the error of P·V of every head at 256 features beside what Lemma 2 of the Performer paper predicts of it.
Needs numpy, safetensors and the Python package. Figures are added to docs/results/compare_features.jsonl.
"""

import json
import pathlib
import shutil

import numpy
import setting
from safetensors.numpy import load_file, save_file
from setting import experiment

LENGTH = 512
FEATURES = (16, 64, 256, 1024)
ROWS = (16, 32, 64, 128, 256)
KERNELS = ("softmax", "hyperbolic", "trigonometric")


def ways():
    """Rows of the table: flags of convert, and how features are drawn."""
    rows = {f"{kernel}, m {m}": (["--to", "performer", "--features", m, "--feature-kernel", kernel], {})
            for kernel in KERNELS for m in FEATURES}  # fmt: skip
    for m in (64, 256):
        flags = ["--to", "performer", "--features", m]
        rows[f"softmax, m {m}, independent"] = (flags, {"orthogonal_features": False})
        rows[f"softmax, m {m}, constant lengths"] = (flags, {"feature_lengths": "constant"})
    for k in (1, *ROWS):
        rows[f"mean, k {k}"] = (["--to", "linformer", "--projected-length", k, "--projection", "mean"], {})
    return rows


def drawn(shape, keys, generator):
    """Directions as docs/spec/low-rank-and-kernels.md#f3 draws them."""
    m, d = shape
    if keys.get("orthogonal_features", True):
        blocks = []
        for _ in range(-(-m // d)):
            q, r = numpy.linalg.qr(generator.normal(size=(d, d)))
            blocks.append((q * numpy.sign(numpy.diag(r))).T)
        rows = numpy.concatenate(blocks)[:m]
    else:
        rows = generator.normal(size=shape)
        rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
    constant = keys.get("feature_lengths") == "constant"
    lengths = numpy.sqrt(d) if constant else numpy.linalg.norm(generator.normal(size=shape), axis=1, keepdims=True)
    return rows * lengths


def redraw(folder, keys, seed):
    """Features of a folder drawn in another way than convert draws them."""
    config = json.loads((folder / "config.json").read_text()) | keys
    (folder / "config.json").write_text(json.dumps(config))
    tensors, generator = load_file(folder / "model.safetensors"), numpy.random.default_rng(seed)
    for name in tensors:
        if name.endswith("features"):
            tensors[name] = drawn(tensors[name].shape, config, generator).astype(numpy.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def articles(work, count):
    def first_ones():
        texts = [text for text in setting.wiki_articles()[::20] if len(text) > 12 * LENGTH][:count]
        return "".join(json.dumps({"text": text}) + "\n" for text in texts)

    return setting.written(work / f"articles-{count}.jsonl", first_ones)


def layer_error(work, model, texts, row, seed):
    flags, keys = ways()[row]

    def run(program):
        target = work / "converted"
        program("convert", model, target, "--overwrite", "--max-positions", LENGTH, "--seed", seed, *flags)
        if keys:
            redraw(target, keys, seed)
        layers = program("compare", model, target, articles(work, texts), "--field", "text", "--max-length", LENGTH)[0][
            "layers"]  # fmt: skip
        return {name: [round(layer[name], 5) for layer in layers[1:]] for name in ("relative_error", "alone", "cosine")}

    return run


def with_random_weights(model, target):
    """The model with matrices of N(0, 0.02), as before any training."""
    shutil.copytree(model, target, dirs_exist_ok=True)
    tensors, generator = load_file(target / "model.safetensors"), numpy.random.default_rng(1)
    for name, old in tensors.items():
        if old.ndim == 2:
            tensors[name] = generator.normal(0, 0.02, old.shape).astype(old.dtype)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


def head_error(folder, texts, features=256):
    """For every head, the error of P·V with positive features, mean and most of ‖q̃+k̃‖², and mean of e^{‖q̃+k̃‖²}/m,
    the relative variance of one weight by Lemma 2."""

    def run(_):
        from heads import Heads, probabilities

        heads, generator, sums = Heads(folder), numpy.random.default_rng(1), []
        chosen = [text for text in setting.wiki_articles()[::20] if len(text) > 12 * LENGTH][:texts]
        for text in chosen:
            document = []
            for q, k, v in heads.of(heads.ids(text, LENGTH)):
                d = q.shape[-1]
                exact = probabilities(q, k) @ v
                q, k = q / d**0.25, k / d**0.25
                # Weighted by attention: large pairs that nobody attends to are harmless.
                weights = probabilities(q * d**0.25, k * d**0.25)
                z = (q**2).sum(-1)[..., None] + (k**2).sum(-1)[..., None, :] + 2 * q @ k.swapaxes(-1, -2)
                directions = drawn((features, d), {}, generator)
                powers = [rows @ directions.T - (rows**2).sum(-1, keepdims=True) / 2 for rows in (q, k)]
                left = numpy.exp(powers[0] - powers[0].max(-1, keepdims=True))
                right = numpy.exp(powers[1] - powers[1].max((-2, -1), keepdims=True))
                found = left @ (right.swapaxes(-1, -2) @ v) / (left @ right.sum(-2)[..., None])
                size = numpy.linalg.norm(exact, axis=(-2, -1))
                predicted = numpy.minimum((weights**2 * numpy.exp(numpy.minimum(z, 80))).sum(-1) / features, 1e12)
                document.append([numpy.linalg.norm(found - exact, axis=(-2, -1)) / size, z.mean((-2, -1)),
                                 z.max((-2, -1)), numpy.sqrt(predicted).mean(-1)])  # fmt: skip
            sums.append(document)
        mean = numpy.mean(sums, 0)
        names = ("error", "mean_square", "largest_square", "predicted")
        return {name: numpy.round(mean[:, at], 4).tolist() for at, name in enumerate(names)}

    return run


def main():
    parser = setting.options(__doc__, "compare_features.jsonl")
    parser.add_argument("experiment", choices=("layers", "heads"))
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    parser.add_argument("--texts", type=int, default=20)
    parser.add_argument("--draws", type=int, default=3)
    chosen = setting.start(parser)
    setting.data_sets.file(setting.WIKIPEDIA)
    models = {name: pathlib.Path(folder) for name, folder in (model.split("=", 1) for model in chosen.models)}
    runs, key = [], {"experiment": chosen.experiment}
    for name, folder in models.items():
        if chosen.experiment == "layers":
            untrained = with_random_weights(folder, chosen.work / f"{name}-random")
            for kind, source in ((name, folder), (f"{name}, random weights", untrained)):
                runs += [experiment.Run(key | {"row": row, "model": kind, "seed": seed, "texts": chosen.texts},
                                        layer_error(chosen.work, source, chosen.texts, row, seed))
                         for row in ways() for seed in range(1, 1 + (1 if row.startswith("mean") else chosen.draws))
                         if kind == name or row in ("softmax, m 64", "softmax, m 256", "mean, k 64")]  # fmt: skip
        else:
            runs.append(experiment.Run(key | {"row": name, "texts": chosen.texts}, head_error(folder, chosen.texts)))
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
