#!/usr/bin/env python3
"""Times a masked-LM training step of an encoder in this project and in `transformers`, in turns.

    python3 bench/train_peers.py [-n 4096] [--rounds 1] [--binary build/longformer] [--config FILE]

Longformer-base with window 512, or the model of a config.json (`{"model_type": "modernbert"}`), random weights, fp32, one document,
15 % of the tokens to be guessed, the dropout of the family, AdamW. Each
figure comes from a process of its own (one step to warm up, one that counts) that is started fresh in every
round. Prints medians, peak memory and the ratio as Markdown. transformers needs 15 GB at n = 4,096.
"""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import peers


def measure_transformers(config, n):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    keys = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    made = transformers.AutoConfig.for_model(config["model_type"], **keys)
    model = transformers.AutoModelForMaskedLM.from_config(made).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    ids = torch.randint(5, made.vocab_size, (1, n))
    labels = torch.where(torch.rand(1, n) < 0.15, ids, -100)

    def step():
        loss = model(ids, attention_mask=torch.ones_like(ids), labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    seconds = peers.timed(step, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_rss_bytes": peak}))


def run(command):
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    row = json.loads(done.stdout.splitlines()[-1])
    print(f"{command[0]}: {row['seconds']:.2f} s ({time.monotonic() - begin:.0f} s in all)", file=sys.stderr)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--binary", default="build/longformer")
    parser.add_argument("--config", help="config.json of another encoder")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    shape = peers.config_for(options.n)
    if options.config:
        shape = json.loads(pathlib.Path(options.config).read_text())
    if options.child:
        measure_transformers(shape, options.n)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump(shape, config)
        config.flush()
        ours = [options.binary, "bench", "train", "--config", config.name, "-n", str(options.n), "-r", "1", "--json"]
        theirs = [sys.executable, __file__, "--child", "-n", str(options.n), "--config", config.name]
        rows = [(run(ours), run(theirs)) for _ in range(options.rounds)]
    print("| | seconds | peak memory |\n|---|---|---|")
    medians = []
    for name, side in (("longformer.cpp", 0), ("transformers", 1)):
        medians.append(statistics.median(pair[side]["seconds"] for pair in rows))
        peak = max(pair[side]["peak_rss_bytes"] for pair in rows)
        print(f"| {name} | {medians[-1]:.2f} | {peak / 1e9:.2f} GB |")
    print(f"\n{medians[1] / medians[0]:.2f} times as fast; fraction of the bound {rows[-1][0]['fraction_of_bound']:.2f}")


if __name__ == "__main__":
    main()
