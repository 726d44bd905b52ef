#!/usr/bin/env python3
"""Rows to beat: what a class is by the first byte, by a bag of bytes or by words with a linear model, by an LSTM (PyTorch).

    experiments/lra/trivial.py "first byte"|"bag of bytes"|words|LSTM TRAIN TEST [--seed 1] [--tokens 1024] [--batch 16]

TRAIN and TEST are JSON lines of text, text_pair where there is one, and label (arena.py makes them of LONGFORMER_DATA:
docs/data.md). words is TF-IDF of words and pairs of words with logistic regression (scikit-learn); of two texts it knows only the
cosine of their words. The LSTM has an embedding of 64 and one layer of 128, reads [text, 0, text_pair], answers by the mean of its
states, and takes each example once, as the encoders do. Prints one JSON line.
"""

import argparse
import collections
import json
import math
import pathlib
import sys
import time

import numpy as np


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def first_byte(train, test):
    counts = collections.defaultdict(collections.Counter)
    for row in train:
        counts[row["text"][:1]][row["label"]] += 1
        counts[None][row["label"]] += 1
    return np.mean([counts[row["text"][:1] if row["text"][:1] in counts else None].most_common(1)[0][0] == row["label"] for row in test])


def bag(rows):
    """Logarithms of counts; of two texts their sum, difference and product."""
    def counts(key):
        return np.log1p([np.bincount(np.frombuffer(row.get(key, "").encode(), np.uint8), minlength=256) for row in rows])

    one = counts("text")
    if "text_pair" not in rows[0]:
        return one
    other = counts("text_pair")
    return np.concatenate([one + other, abs(one - other), one * other], axis=1)


def bag_of_bytes(train, test, labels, seed):
    """Multinomial logistic regression with a little L2, by 2,000 steps of Adam over all examples."""
    x, unseen = bag(train), bag(test)
    mean, deviation = x.mean(0), x.std(0)
    used = deviation > 0
    x, unseen = ((part[:, used] - mean[used]) / deviation[used] for part in (x, unseen))
    y = np.eye(len(labels))[[labels.index(row["label"]) for row in train]]
    weights = np.random.default_rng(seed).normal(0, 1e-3, (x.shape[1] + 1, len(labels)))
    x, unseen = (np.concatenate([part, np.ones((len(part), 1))], axis=1) for part in (x, unseen))
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, 2001):
        logits = x @ weights
        share = np.exp(logits - logits.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        gradient = x.T @ (share - y) / len(x) + 1e-4 * weights
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        weights -= 0.01 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    found = (unseen @ weights).argmax(1)
    return np.mean([labels[at] == row["label"] for at, row in zip(found, test)])


def words(train, test, tokens):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    # Encoders read no more of a text.
    train, test = ([{key: row[key].encode()[:tokens].decode(errors="ignore") if key == "text" else row[key] for key in row} for row in part]
                   for part in (train, test))
    pairs = "text_pair" in train[0]
    table = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 1 if pairs else 2), min_df=2)
    table.fit([row[key] for row in train for key in ("text", "text_pair") if key in row])

    def features(rows):
        one = table.transform([row["text"] for row in rows])
        return np.asarray(one.multiply(table.transform([row["text_pair"] for row in rows])).sum(1)) if pairs else one

    model = LogisticRegression(C=10, max_iter=1000).fit(features(train), [row["label"] for row in train])
    return model.score(features(test), [row["label"] for row in test])


def lstm(train, test, labels, chosen):
    import torch

    torch.manual_seed(chosen.seed)
    torch.set_num_threads(1)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(257, 64, padding_idx=256)
            self.lstm = torch.nn.LSTM(64, 128, batch_first=True)
            self.output = torch.nn.Linear(128, len(labels))

        def forward(self, ids):
            states, _ = self.lstm(self.embedding(ids))
            shown = (ids != 256)[..., None]
            return self.output((states * shown).sum(1) / shown.sum(1))

    def batch(rows):
        texts = [(row["text"] + ("\0" + row["text_pair"] if "text_pair" in row else "")).encode()[:chosen.tokens] for row in rows]
        longest = max(1, *map(len, texts))
        return torch.tensor([[*text, *[256] * (longest - len(text))] for text in texts])

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.rate, weight_decay=0.01)
    steps = len(train) // chosen.batch
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / max(1, steps // 10), 1 - step / (steps + 1)))
    order = torch.randperm(len(train)).tolist()
    for step in range(steps):
        rows = [train[at] for at in order[step * chosen.batch:(step + 1) * chosen.batch]]
        loss = torch.nn.functional.cross_entropy(model(batch(rows)), torch.tensor([labels.index(row["label"]) for row in rows]))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    trained = time.process_time()
    right = 0
    with torch.no_grad():
        for begin in range(0, len(test), 32):
            found = model(batch(test[begin:begin + 32])).argmax(1).tolist()
            right += sum(labels[at] == row["label"] for at, row in zip(found, test[begin:begin + 32]))
    return {"accuracy": right / len(test), "steps": steps, "train_seconds": round(trained, 1),
            "seconds_per_document": round((time.process_time() - trained) / len(test), 5)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=("first byte", "bag of bytes", "words", "LSTM"))
    parser.add_argument("train", type=pathlib.Path)
    parser.add_argument("test", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=2e-3)
    chosen = parser.parse_args()
    for path in (chosen.train, chosen.test):
        if not path.exists():
            sys.exit(f"error: {path}: expected examples, found nothing (arena.py makes such files; docs/data.md says of which data)")
    train, test = read(chosen.train), read(chosen.test)
    labels = sorted({row["label"] for row in train})
    if chosen.row == "LSTM":
        figures = lstm(train, test, labels, chosen)
    else:
        ways = {"first byte": lambda: first_byte(train, test), "words": lambda: words(train, test, chosen.tokens)}
        accuracy = ways.get(chosen.row, lambda: bag_of_bytes(train, test, labels, chosen.seed))()
        figures = {"accuracy": float(accuracy), "train_seconds": round(time.process_time(), 1)}
    figures["accuracy"] = round(figures["accuracy"], 4)
    assert math.isfinite(figures["accuracy"])
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
