#!/usr/bin/env python3
"""Is attention of low rank?

    LONGFORMER_DATA=data experiments/compare/spectra.py NAME=MODEL… [--texts 20]

Singular values of the attention matrix P of every head of a BERT on English Wikipedia, n = 128, 256, 512. Two controls
that have no structure: P of random queries and keys of the same lengths, and P with every row's columns
permuted by itself, which keeps how sharp each row is. Then how much of what low rank allows a
Linformer's mean of neighbours finds: the error of P·V against the best matrix of rank k.
Needs numpy, safetensors and the Python package. Figures are added to docs/results/compare_spectra.jsonl.
"""

import numpy
import setting
from heads import Heads, probabilities, softmax
from setting import experiment

LENGTHS = (128, 256, 512)
RANKS = (16, 32, 64, 128, 256)
# Points of the cumulative curve, as parts of n.
POINTS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)


def spectrum(matrix):
    """Cumulative normalised singular values at POINTS, and the effective rank e^entropy."""
    values = numpy.linalg.svd(matrix, compute_uv=False)
    share = values / values.sum(-1, keepdims=True)
    n = values.shape[-1]
    cumulative = numpy.cumsum(share, -1)[..., [max(1, round(n * point)) - 1 for point in POINTS]]
    entropy = -(share * numpy.log(share + 1e-300)).sum(-1)
    return cumulative, numpy.exp(entropy)


def controls(q, k, p, generator):
    directions = [generator.normal(size=rows.shape) for rows in (q, k)]
    random = [unit / numpy.linalg.norm(unit, axis=-1, keepdims=True) * numpy.linalg.norm(rows, axis=-1, keepdims=True)
              for unit, rows in zip(directions, (q, k), strict=True)]  # fmt: skip
    return {"attention": p, "random queries and keys": probabilities(*random),
            "columns permuted": generator.permuted(p, axis=-1)}


def errors(q, k, v, p):
    """Relative error of P·V for each rank: the best matrix of that rank, and attention to means of neighbours."""
    n, exact = p.shape[-1], p @ v
    size = numpy.linalg.norm(exact, axis=(-2, -1))
    left, values, right = numpy.linalg.svd(p)
    found = {"best": {}, "mean": {}}
    for rank in (rank for rank in RANKS if rank < n):
        best = (left[..., :rank] * values[..., None, :rank]) @ right[..., :rank, :] @ v
        found["best"][rank] = numpy.linalg.norm(best - exact, axis=(-2, -1)) / size
        fewer_keys, fewer_values = (rows.reshape(len(rows), rank, n // rank, -1).mean(2) for rows in (k, v))
        means = softmax(q @ fewer_keys.swapaxes(-1, -2) / numpy.sqrt(q.shape[-1])) @ fewer_values
        found["mean"][rank] = numpy.linalg.norm(means - exact, axis=(-2, -1)) / size
    uniform = numpy.broadcast_to(v.mean(-2, keepdims=True), exact.shape)
    found["uniform"] = {1: numpy.linalg.norm(uniform - exact, axis=(-2, -1)) / size}
    return found


def rounded(values):
    return numpy.round(values, 4).tolist()


def measure(folder, length, texts):
    def run(_):
        heads, generator = Heads(folder), numpy.random.default_rng(1)
        curves, ranks, quarter, lost = {}, {}, [], {}
        articles = [text for text in setting.wiki_articles()[::20] if len(text) > 12 * length][:texts]
        for text in articles:
            document = heads.of(heads.ids(text, length))
            for layer, (q, k, v) in enumerate(document):
                p = probabilities(q, k)
                for kind, matrix in controls(q, k, p, generator).items():
                    curve, rank = spectrum(matrix)
                    curves.setdefault(kind, {}).setdefault(layer, []).append(curve)
                    ranks.setdefault(kind, []).append(rank)
                    if kind == "attention":
                        quarter.append((layer, curve[:, POINTS.index(1 / 4)]))
                for way, by_rank in errors(q, k, v, p).items():
                    for rank, error in by_rank.items():
                        lost.setdefault(way, {}).setdefault(rank, []).append(error)
        by_layer = [numpy.mean([row for at, row in quarter if at == layer], 0) for layer in range(heads.layers)]
        return {
            "texts": len(articles), "points": POINTS,
            "cumulative": {kind: [rounded(numpy.mean(rows, (0, 1))) for rows in layers.values()]
                           for kind, layers in curves.items()},
            "effective_rank": {kind: rounded(numpy.mean(rows)) for kind, rows in ranks.items()},
            "effective_rank_of_heads": rounded(numpy.mean(numpy.reshape(
                ranks["attention"], (len(articles), heads.layers, -1)), 0)),
            "quarter": [rounded(row) for row in by_layer],
            "error": {way: {rank: rounded(numpy.mean(rows)) for rank, rows in by_rank.items()}
                      for way, by_rank in lost.items()},
        }  # fmt: skip

    return run


def main():
    parser = setting.options(__doc__, "compare_spectra.jsonl")
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    parser.add_argument("--texts", type=int, default=20)
    chosen = setting.start(parser)
    setting.data_sets.file(setting.WIKIPEDIA)
    models = dict(model.split("=", 1) for model in chosen.models)
    runs = [experiment.Run({"row": name, "n": length, "of": chosen.texts}, measure(folder, length, chosen.texts))
            for length in LENGTHS for name, folder in models.items()]  # fmt: skip
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
