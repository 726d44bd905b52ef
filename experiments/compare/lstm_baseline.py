#!/usr/bin/env python3
"""An LSTM of the size of the language models of experiments/compare, to compare with: PyTorch, no part of the product.

    experiments/compare/lstm_baseline.py TEXT VALIDATION TEST [--characters 20M] [--hidden 460] [--seed 1]

Bytes, an embedding of 128, two layers of 460 (2.95M weights), 16 streams of which it reads 256 characters a step and
carries its state on, AdamW at 1e-3 with a warm-up of 500 steps and cosine, gradients clipped at 0.25. Prints one JSON line.
"""

import argparse
import json
import math
import pathlib
import sys
import time

import torch

BYTES = 256
STREAMS, SEGMENT = 16, 256


class Model(torch.nn.Module):
    def __init__(self, hidden, dropout):
        super().__init__()
        self.embedding = torch.nn.Embedding(BYTES, 128)
        self.lstm = torch.nn.LSTM(128, hidden, 2, dropout=dropout, batch_first=True)
        self.dropout = torch.nn.Dropout(dropout)
        self.output = torch.nn.Linear(hidden, BYTES)

    def forward(self, ids, state=None):
        rows, state = self.lstm(self.dropout(self.embedding(ids)), state)
        return self.output(self.dropout(rows)), tuple(part.detach() for part in state)


def bits(model, ids):
    """Bits per character of one stream that is read from end to end."""
    model.eval()
    total, state = 0.0, None
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, 4096):
            part = ids[begin:begin + 4097]
            logits, state = model(part[None, :-1], state)
            total += torch.nn.functional.cross_entropy(logits[0], part[1:], reduction="sum").item()
    model.train()
    return total / (len(ids) - 1) / math.log(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("validation")
    parser.add_argument("test")
    parser.add_argument("--characters", type=int, default=20_000_000)
    parser.add_argument("--hidden", type=int, default=460)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    for path in (chosen.text, chosen.validation, chosen.test):
        if not pathlib.Path(path).exists():
            sys.exit(f"error: {path}: expected a text, found nothing (language_models.py makes such files of LONGFORMER_DATA: docs/data.md)")
    torch.manual_seed(chosen.seed)
    text = torch.tensor(list(pathlib.Path(chosen.text).read_bytes()), dtype=torch.long)
    validation = torch.tensor(list(pathlib.Path(chosen.validation).read_bytes()[:65537]), dtype=torch.long)
    streams = text[: (len(text) - 1) // STREAMS * STREAMS].view(STREAMS, -1)
    model = Model(chosen.hidden, 0.2 if len(text) <= 1_200_000 else 0.1)
    steps = chosen.characters // (STREAMS * SEGMENT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.rate, weight_decay=0.01)
    warm_up = min(500, steps // 5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(
        (step + 1) / warm_up, 0.5 * (1 + math.cos(math.pi * max(0, step - warm_up) / max(1, steps - warm_up)))))
    curve, state, place, seconds = [], None, 0, 0.0
    for step in range(1, steps + 1):
        begin = time.monotonic()
        if place + SEGMENT + 1 > streams.shape[1]:
            state, place = None, 0
        part = streams[:, place:place + SEGMENT + 1]
        place += SEGMENT
        logits, state = model(part[:, :-1], state)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, BYTES), part[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        schedule.step()
        seconds += time.monotonic() - begin
        if step % max(1, steps // 10) == 0 or step == steps:
            curve.append([step * STREAMS * SEGMENT, round(bits(model, validation) * math.log(2), 4)])
    test = torch.tensor(list(pathlib.Path(chosen.test).read_bytes()), dtype=torch.long)
    print(json.dumps({"weights": sum(p.numel() for p in model.parameters()), "characters_read": steps * STREAMS * SEGMENT,
                      "test_bpc": round(bits(model, test), 4), "curve": curve, "seconds": round(seconds)}))


if __name__ == "__main__":
    main()
