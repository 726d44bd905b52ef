#!/usr/bin/env python3
"""Draws the curves of trainings from their log.jsonl.

    examples/language-models/plot.py OUTPUT/log.jsonl [MORE/log.jsonl …] [-o curve.svg]      (needs matplotlib)

Loss in nats against steps: lines are the training, points its evaluations.
"""

import argparse
import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

# The same log gives the same bytes.
plt.rcParams["svg.hashsalt"] = "training"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=pathlib.Path)
    parser.add_argument("-o", "--output", default="curve.svg")
    chosen = parser.parse_args()
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for at, path in enumerate(chosen.logs):
        if not path.exists():
            sys.exit(f"plot.py: expected a log.jsonl, found nothing at '{path}'")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for key, style, what in (("loss", "-", "training"), ("eval_loss", "o", "evaluation")):
            points = [(row["step"], row[key]) for row in rows if key in row]
            if points:
                axis.plot(*zip(*points, strict=True), f"C{at}{style}", label=f"{path.parent.name}: {what}")
    axis.set(xlabel="step", ylabel="loss in nats (lower is better)")
    axis.legend()
    figure.tight_layout()
    figure.savefig(chosen.output, metadata={"Date": None} if chosen.output.endswith(".svg") else None)


if __name__ == "__main__":
    main()
