#!/usr/bin/env python3
"""Whether explanations are faithful: how far the logit of a document's class falls without the tokens with the largest
values, and without random ones.

    python3 experiments/explain/faithful.py MODEL FILE… [--share 0.1] [--draws 20] [--methods gradient,integrated]

MODEL is a folder with a sequence-classification head, each FILE a document, which is cut at the longest that the model
takes. Tokens are deleted by their ids, and the rest is read again. Prints one row of a table for each method.
"""

import argparse
import pathlib
import sys

import numpy as np


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--adapter")
    parser.add_argument("--share", type=float, default=0.1, help="of the tokens that are deleted (0.1)")
    parser.add_argument("--draws", type=int, default=20, help="random deletions of each document (20)")
    parser.add_argument("--methods", default="gradient,integrated")
    parser.add_argument("--steps", type=int, default=16)
    return parser.parse_args()


def texts_of(files):
    for file in files:
        if not file.is_file():
            sys.exit(f"error: {file}: expected a document, found none")
    return [file.read_text(encoding="utf-8", errors="replace") for file in files]


class Deletions:
    """Logits of a document without some of its tokens."""

    def __init__(self, model, text, label):
        self.model, self.label = model, model.labels.index(label)
        encoding = model.tokenizer.encode_batch([text], max_length=model.max_tokens)[0]
        self.ids = np.array(encoding.ids)
        self.places = np.flatnonzero(np.array(encoding.special_tokens_mask) == 0)

    def logit(self, without=()):
        return float(self.model([np.delete(self.ids, self.places[list(without)])]).logits[0][self.label])


def main():
    options = parsed()
    texts = texts_of(options.files)
    import longformer_cpp

    model = longformer_cpp.load(options.model, adapter=options.adapter)
    draw = np.random.default_rng(1)
    print("| method | documents | logit falls by, top tokens | random tokens | top beats random |\n|---|---|---|---|---|")
    random_falls = {}
    for method in options.methods.split(","):
        top_falls, wins = [], 0
        for i, text in enumerate(texts):
            found = model.explain(text, method, steps=options.steps, truncate=True)[0]
            document = Deletions(model, text, found.label)
            count = max(1, round(options.share * len(document.places)))
            whole = document.logit()
            if i not in random_falls:
                draws = [draw.choice(len(document.places), count, replace=False) for _ in range(options.draws)]
                random_falls[i] = [whole - document.logit(places) for places in draws]
            top_falls.append(whole - document.logit(np.argsort(-found.values)[:count]))
            wins += top_falls[-1] > max(random_falls[i])
        mean_random = np.mean([np.mean(falls) for falls in random_falls.values()])
        print(f"| {method} | {len(texts)} | {np.mean(top_falls):.3f} | {mean_random:.3f} | {wins} of {len(texts)} |", flush=True)


if __name__ == "__main__":
    main()
