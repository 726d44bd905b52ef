#!/usr/bin/env python3
"""Trains a small reranker with `longformer finetune --task rerank`, for `search --rerank`.

    experiments/retrieval/reranker.py MODEL FOLDER [--questions made|squad] [--lists 3000]

MODEL is an encoder, such as the MiniLM of `make quickstart`; FOLDER/reranker-made or -squad is the result. The questions are
    made    of sentences of Wikipedia and of novels: train.jsonl of experiments/long-minilm/texts.py, which lies in FOLDER,
    squad   those that people asked about the first half of the articles of $LONGFORMER_DATA/squad/dev-v1.1.json.
Each has the passage that answers it and three wrong ones, which share words with the question (--hard-negatives 3). A training
that was stopped goes on where it was when the script is run again. `program.py --rerank` measures the result.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys

import passages
import run
from run import data_sets

#: Articles of SQuAD whose questions are learned; program.py --first-article leaves them out.
LEARNED_ARTICLES = 24


def made_questions(folder):
    """Pairs of a question and its passage, document by document."""
    file = folder / "train.jsonl"
    if not file.exists():
        sys.exit(f"error: {folder}: expected train.jsonl, found nothing (experiments/long-minilm/texts.py makes it of "
                 "LONGFORMER_DATA: docs/data.md)")
    with file.open(encoding="utf-8") as stream:
        for document in map(json.loads, stream):
            for one in document["passages"]:
                if "query" in one:
                    yield {"query": one["query"], "positive": document["text"][one["begin"] : one["end"]]}


def asked_questions():
    """Those of the first articles of SQuAD, in random order."""
    file = data_sets.folder("squad/dev-v1.1.json") / "squad" / "dev-v1.1.json"
    articles, questions = passages.read_squad(file, 1)
    pairs = [{"query": one.text, "positive": articles[one.document][one.begin]}
             for one in questions if one.document < LEARNED_ARTICLES]
    random.Random(1).shuffle(pairs)
    return pairs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of an encoder")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--questions", choices=["made", "squad"], default="made")
    parser.add_argument("--lists", type=int, default=3000, help="questions to learn from (3000)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    pairs = made_questions(options.folder) if options.questions == "made" else asked_questions()
    data = options.folder / f"rerank-{options.questions}.jsonl"
    data.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for _, one in zip(range(options.lists), pairs)),
                    encoding="utf-8")
    binary = os.environ.get("LONGFORMER_BINARY", str(run.ROOT / "build" / "longformer"))
    command = [binary, "finetune", options.model, data, "--task", "rerank", "--hard-negatives", 3, "--truncate", "--bf16",
               "--output-dir", options.folder / f"reranker-{options.questions}", "--num-train-epochs", 1,
               "--per-device-train-batch-size", 8, "--gradient-accumulation-steps", 1, "--learning-rate", 2e-4,
               "--head-learning-rate", 1e-3, "--warmup-ratio", 0.1, "--save-steps", 50, "--save-total-limit", 1,
               "--resume-from-checkpoint", "last", "--threads", options.threads]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
