"""Common parts of the baselines of experiments/compare: reading of texts, training, evaluation. PyTorch, no part of the product."""

import argparse
import json
import math
import pathlib
import sys
import time

import torch

BYTES = 256
CHARACTERS_PER_STEP = 4096


def options(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("validation")
    parser.add_argument("test")
    parser.add_argument("--characters", type=int, default=20_000_000)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def parsed(parser):
    chosen = parser.parse_args()
    for path in (chosen.text, chosen.validation, chosen.test):
        if not pathlib.Path(path).exists():
            sys.exit(f"error: {path}: expected a text, found nothing (language_models.py makes such files of LONGFORMER_DATA: docs/data.md)")
    torch.manual_seed(chosen.seed)
    return chosen


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


def dropout_of(path):
    return 0.2 if pathlib.Path(path).stat().st_size <= 1_200_000 else 0.1


def train(model, chosen, segment, carries_state):
    """Trains on streams of which a step reads one segment each, and prints one JSON line."""
    count = CHARACTERS_PER_STEP // segment
    text = torch.tensor(list(pathlib.Path(chosen.text).read_bytes()), dtype=torch.long)
    validation = torch.tensor(list(pathlib.Path(chosen.validation).read_bytes()[:65537]), dtype=torch.long)
    streams = text[: (len(text) - 1) // count * count].view(count, -1)
    steps = chosen.characters // CHARACTERS_PER_STEP
    optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.rate, weight_decay=0.01)
    warm_up = max(1, min(500, steps // 5))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(
        (step + 1) / warm_up, 0.5 * (1 + math.cos(math.pi * max(0, step - warm_up) / max(1, steps - warm_up)))))
    curve, state, place, seconds = [], None, 0, 0.0
    for step in range(1, steps + 1):
        begin = time.monotonic()
        if place + segment + 1 > streams.shape[1]:
            state, place = None, 0
        part = streams[:, place:place + segment + 1]
        place += segment
        logits, state = model(part[:, :-1], state if carries_state else None)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, BYTES), part[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        schedule.step()
        seconds += time.monotonic() - begin
        if step % max(1, steps // 10) == 0 or step == steps:
            curve.append([step * CHARACTERS_PER_STEP, round(bits(model, validation) * math.log(2), 4)])
    test = torch.tensor(list(pathlib.Path(chosen.test).read_bytes()), dtype=torch.long)
    print(json.dumps({"weights": sum(p.numel() for p in model.parameters()), "characters_read": steps * CHARACTERS_PER_STEP,
                      "test_bpc": round(bits(model, test), 4), "curve": curve, "seconds": round(seconds, 1)}))
