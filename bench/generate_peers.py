#!/usr/bin/env python3
"""Times LED-base in this project and in `transformers`, in turns: reading, a step of writing, training.

    python3 bench/generate_peers.py [-n 4096] [-t 24] [--rounds 1] [--train] [--binary build/longformer]

Random weights of bench/led_base.json, fp32, the first token global. Reading is the encoder (here with the
keys for the decoder); a step is one token of a text, greedy and with 4 beams, timed over the tokens behind
the fourth. --train times a step of 8,192 tokens and a text of 256 with gradient checkpointing instead. Each
figure comes from a process of its own. Prints Markdown.
"""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

CONFIG = pathlib.Path(__file__).with_name("led_base.json")


def their_model():
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    keys = json.loads(CONFIG.read_text())
    keys.pop("model_type")
    return torch, transformers.LEDForConditionalGeneration(transformers.LEDConfig(**keys))


def inputs(torch, n):
    globals_ = torch.zeros((1, n), dtype=torch.long)
    globals_[0, 0] = 1
    return {"input_ids": torch.randint(5, 50000, (1, n)), "global_attention_mask": globals_,
            "attention_mask": torch.ones((1, n), dtype=torch.long)}  # fmt: skip


def report(**row):
    print(json.dumps(row | {"peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def measure_writing(n, tokens, beams):
    torch, model = their_model()
    model.eval()
    given = inputs(torch, n)
    stamps = []

    def note(ids, scores):
        stamps.append(time.perf_counter())
        return scores

    with torch.inference_mode():
        begin = time.perf_counter()
        model.get_encoder()(**given)
        begin = time.perf_counter()
        model.get_encoder()(**given)
        encode = time.perf_counter() - begin
        model.generate(**given, num_beams=beams, max_new_tokens=tokens, min_new_tokens=tokens,
                       logits_processor=[note])  # fmt: skip
    steps = [b - a for a, b in zip(stamps[3:], stamps[4:])]
    report(encode_seconds=encode, step_seconds=statistics.median(steps))


def measure_training(n, text, optim):
    torch, model = their_model()
    model.train()
    model.gradient_checkpointing_enable()
    if optim == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    else:
        from transformers.optimization import Adafactor

        optimizer = Adafactor(model.parameters(), lr=5e-5, relative_step=False, scale_parameter=False)
    given = inputs(torch, n)
    labels = torch.randint(5, 50000, (1, text))
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        model(**given, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begin)
    report(seconds=seconds[-1])


def run(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=True, text=True)
    row = json.loads(done.stdout.splitlines()[-1])
    print(command[0], row, file=sys.stderr)
    return row


def compare(name, ours, theirs):
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"| {name} | {a:.4g} | {b:.4g} | {b / a:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=4096)
    parser.add_argument("-t", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--beams", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--optim", choices=["adamw", "adafactor"], default="adamw", help="with --train")
    parser.add_argument("--binary", default="build/longformer")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        if options.train:
            measure_training(8192, 256, options.optim)
        else:
            measure_writing(options.n, options.t, options.beams)
        return
    child = [sys.executable, __file__, "--child", "-n", options.n, "-t", options.t]
    print("| what | longformer.cpp | transformers | times |\n|---|---|---|---|")
    if options.train:
        ours = [options.binary, "bench", "train", "--config", CONFIG, "-n", 8192, "-r", 1, "--gradient-checkpointing", "--optim", options.optim, "--json"]
        rows = [(run(ours), run([*child, "--train", "--optim", options.optim])) for _ in range(options.rounds)]
        compare("training step, s", [a["seconds"] for a, _ in rows], [b["seconds"] for _, b in rows])
        compare("peak memory, GB", *([row["peak_rss_bytes"] / 1e9 for row in side] for side in zip(*rows)))
        return
    for beams in (1, 4):
        ours = [options.binary, "bench", "generate", "--config", CONFIG, "-n", options.n, "-t", options.t, "--beams", beams, "--json"]
        rows = [(run(ours), run([*child, "--beams", beams])) for _ in range(options.rounds)]
        if beams == 1:
            compare("reading, s", *([row["encode_seconds"] for row in side] for side in zip(*rows)))
        compare(f"step of {beams} beam{'s'[: beams > 1]}, ms", *([1e3 * row["step_seconds"] for row in side] for side in zip(*rows)))
        compare(f"peak memory, {beams} beam{'s'[: beams > 1]}, GB", *([row["peak_rss_bytes"] / 1e9 for row in side] for side in zip(*rows)))


if __name__ == "__main__":
    main()
