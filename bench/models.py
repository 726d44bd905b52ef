#!/usr/bin/env python3
"""Times encoders of published sizes with random weights: which model for which document on this machine.

    python3 bench/models.py [--models modernbert-base,bge-m3] [-n 512,4096,8192] [--dtype fp32,bf16]
                            [--peers transformers] [--rounds 1] [--binary build/longformer]

The sizes stand in bench/models.json. Lengths that a model does not read are left out. Each figure comes from a process
of its own; with --peers, `transformers` (sdpa) takes turns with this program. Prints Markdown, and one JSON object
per measurement to --output.
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile

import peers

SIZES = json.loads(pathlib.Path(__file__).with_name("models.json").read_text())
# The longest document of families whose config.json may leave it out.
LONGEST = {"bert": 512, "modernbert": 8192}


def longest(config):
    positions = config.get("max_position_embeddings", LONGEST.get(config["model_type"]))
    return positions - (config["pad_token_id"] + 1 if config["model_type"] in ("longformer", "xlm-roberta") else 0)


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def measure_ours(config, n, dtype, options):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        command = [options.binary, "bench", "model", "--config", file.name, "-n", str(n), "--dtype", dtype, "--json"]
        command += ["-r", str(options.repeats), "--threads", str(options.threads)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def measure_transformers(config, n, dtype, options):
    command = [sys.executable, __file__, "--child", json.dumps(config), "-n", str(n), "--dtype", dtype]
    command += ["--threads", str(options.threads), "--repeats", str(options.repeats)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"transformers at n {n} {dtype} failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


def child(options):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(options.threads)
    config = json.loads(options.child)
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.dtype[0]]
    model = transformers.AutoModel.from_config(made, attn_implementation="sdpa").to(dtype).eval()
    ids = torch.randint(5, 30000, (1, options.n[0]))
    with torch.inference_mode():
        seconds = peers.timed(lambda: model(input_ids=ids), options.repeats)
    print(json.dumps({"seconds": seconds, "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def row_of(name, n, dtype, ours, theirs):
    seconds = statistics.median(r["seconds"] for r in ours)
    cells = [name, f"{n:,}", dtype, f"{seconds:.3g} s", f"{n / seconds:,.0f}"]
    cells += [f"{max(r['peak_rss_bytes'] for r in ours) / 1e9:.2f} GB"]
    cells += [f"{statistics.median(r['fraction_of_bound'] for r in ours):.2f}"]
    if theirs:
        other = statistics.median(r["seconds"] for r in theirs)
        cells += [f"{other:.3g} s ({other / seconds:.2f} ×)", f"{max(r['peak_rss_bytes'] for r in theirs) / 1e9:.2f} GB"]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda s: s.split(","), default=list(SIZES), help=", ".join(SIZES))
    parser.add_argument("-n", type=lambda s: [int(x) for x in s.split(",")], default=[512, 4096, 8192], help="lengths: 512,4096")
    parser.add_argument("--dtype", type=lambda s: s.split(","), default=["fp32", "bf16"])
    parser.add_argument("--peers", choices=["transformers"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1, help="timed runs in each process, behind a warm-up")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--binary", default="build/longformer")
    parser.add_argument("--output", type=pathlib.Path, help="file for one JSON object per measurement")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    unknown = sorted(set(options.models) - set(SIZES))
    if unknown:
        parser.error(f"--models: expected some of {', '.join(SIZES)}, found {', '.join(unknown)}")
    measures = {"ours": measure_ours} | ({"transformers": measure_transformers} if options.peers else {})
    head = "| model | tokens | dtype | time | tokens/s | peak | bound |" + (" transformers | peak |" if options.peers else "")
    print(f"{cpu()}, {options.threads} threads\n\n{head}\n|{'---|' * (head.count('|') - 1)}", flush=True)
    for name in options.models:
        for n in [n for n in options.n if n <= longest(SIZES[name])]:
            for dtype in options.dtype:
                found = {peer: [] for peer in measures}
                for _ in range(options.rounds):
                    for peer, measure in measures.items():
                        found[peer].append(measure(SIZES[name], n, dtype, options))
                        if options.output:
                            row = {"peer": peer, "model": name, "n": n, "dtype": dtype} | found[peer][-1]
                            with options.output.open("a") as file:
                                file.write(json.dumps(row) + "\n")
                print(row_of(name, n, dtype, found["ours"], found.get("transformers")), flush=True)


if __name__ == "__main__":
    main()
