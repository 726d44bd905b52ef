#!/usr/bin/env python3
"""Times models that read a long document and write a text, with random weights: LED beside BigBird-Pegasus and PegasusX.

    python3 bench/writers.py [--models led-large,bigbird-pegasus-12] [-n 4096] [--dtype fp32,bf16] [--beams 1]
                             [--new-tokens 32] [--rounds 3] [--binary build/longformer]

The sizes stand in bench/writers.json. `led-large`, `bigbird-pegasus-12` and `pegasus-x-12` have the same sizes and
differ in their attention and norms alone; `bigbird-pegasus-large` is the published model. Each figure is the median
of rounds in which the models take turns, each run in a process of its own, so that its peak memory is its own. Prints
Markdown, and one JSON object per run to --output.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

SIZES = json.loads(pathlib.Path(__file__).with_name("writers.json").read_text())
DEFAULT = "led-large,led-large-512,bigbird-pegasus-12,pegasus-x-12,bigbird-pegasus-large"


def measured(name, n, dtype, options):
    """The row of `bench generate` for one model."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(SIZES[name], file)
        file.flush()
        command = [options.binary, "bench", "generate", "--config", file.name, "-n", str(n), "--dtype", dtype]
        command += ["--beams", str(options.beams), "--new-tokens", str(options.new_tokens)]
        command += ["--threads", str(options.threads), "-r", str(options.repeats), "--json", "--quiet"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {"model": name, **json.loads(printed.splitlines()[-1])}


def table(runs):
    """The rows of Markdown, of medians over rounds."""
    yield "| model | tokens | dtype | reading | bound | a token | peak memory |"
    yield "|---|---|---|---|---|---|---|"
    for (name, n, dtype), rounds in runs.items():
        def median(key, of=rounds):
            return statistics.median(float(one[key]) for one in of)

        yield (f"| {name} | {n:,} | {dtype} | {median('encode_seconds'):.2f} s | {median('encode_fraction'):.2f} | "
               f"{1e3 * median('step_seconds'):.0f} ms | {median('peak_rss_bytes') / 1e9:.2f} GB |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=DEFAULT)
    parser.add_argument("-n", "--lengths", default="4096")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--binary", default="build/longformer")
    parser.add_argument("--output")
    options = parser.parse_args()
    names = options.models.split(",")
    unknown = [name for name in names if name not in SIZES]
    if unknown:
        parser.error(f"--models: expected {', '.join(SIZES)}, found {', '.join(unknown)}")
    runs = {(name, n, dtype): [] for dtype in options.dtype.split(",")
            for n in map(int, options.lengths.split(",")) for name in names}  # fmt: skip
    for _ in range(options.rounds):
        for (name, n, dtype), rounds in runs.items():
            rounds.append(measured(name, n, dtype, options))
            if options.output:
                with open(options.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps(rounds[-1]) + "\n")
            print(f"{name}, {n} tokens, {dtype}: {rounds[-1]['encode_seconds']} s", file=sys.stderr)
    print("Reading, a token and memory: smaller is better; bound: larger is better.\n")
    print("\n".join(table(runs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
