#!/usr/bin/env python3
"""Times Longformer-base in this project, in `transformers` and in OpenVINO, side by side.

    python3 bench/peers.py [-n 4096] [--dtype fp32,bf16] [--rounds 3] [--binary build/longformer]

Random weights, window 512, one global token. Each figure comes from a process of its own that is
started fresh in every round; the peers take turns, so that a machine that slows down slows all of
them. Prints the medians and ratios as Markdown, and one JSON object per measurement to --output.
OpenVINO runs the traced `transformers` model at a fixed length; tracing takes minutes and several
gigabytes, so the result is kept in --cache.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = {
    "model_type": "longformer",
    "architectures": ["LongformerModel"],
    "attention_window": 512,
    "vocab_size": 50265,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "max_position_embeddings": 4098,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "sep_token_id": 2,
}
PEERS = ("longformer.cpp", "transformers", "OpenVINO")


def config_for(n):
    return CONFIG | {"max_position_embeddings": max(CONFIG["max_position_embeddings"], n + 2)}


def torch_model(n):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    keys = {k: v for k, v in config_for(n).items() if k not in ("model_type", "architectures")}
    return transformers.LongformerModel(transformers.LongformerConfig(**keys)).eval()


def torch_inputs(n):
    import torch

    global_mask = torch.zeros(1, n, dtype=torch.long)
    global_mask[0, 0] = 1
    return torch.randint(5, 50000, (1, n)), torch.ones(1, n, dtype=torch.long), global_mask


def timed(run, repeats):
    """Median seconds after one warm-up."""
    run()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def measure_transformers(n, dtype, options):
    import torch

    torch.set_num_threads(options.threads)
    model = torch_model(n)
    if dtype == "bf16":
        model = model.bfloat16()
    ids, mask, global_mask = torch_inputs(n)
    with torch.inference_mode():
        return timed(
            lambda: model(input_ids=ids, attention_mask=mask, global_attention_mask=global_mask),
            options.repeats,
        )


def traced_file(n, cache):
    return pathlib.Path(cache, f"longformer-base-{n}.xml")


def trace(n, cache):
    """Writes the OpenVINO form of the model for documents of n tokens."""
    import openvino
    import torch

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = torch_model(n)

        def forward(self, ids, mask, global_mask):
            return self.model(
                input_ids=ids,
                attention_mask=mask,
                global_attention_mask=global_mask,
                return_dict=False,
            )[0]

    with torch.no_grad():
        converted = openvino.convert_model(
            Encoder(), example_input=torch_inputs(n), input=[[1, n]] * 3
        )
    openvino.save_model(converted, traced_file(n, cache), compress_to_fp16=False)


def measure_openvino(n, dtype, options):
    import openvino

    precision = {"fp32": "f32", "bf16": "bf16"}[dtype]
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": options.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    core = openvino.Core()
    request = core.compile_model(
        core.read_model(traced_file(n, options.cache)), "CPU", settings
    ).create_infer_request()
    inputs = [t.numpy() for t in torch_inputs(n)]
    return timed(lambda: request.infer(inputs), options.repeats)


def measure_ours(n, dtype, options):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump(config_for(n), config)
        config.flush()
        command = [
            options.binary,
            "bench",
            "model",
            "--config",
            config.name,
            "-n",
            str(n),
            "--dtype",
            dtype,
        ]
        command += [
            "-r",
            str(options.repeats),
            "--global-tokens",
            "1",
            "--threads",
            str(options.threads),
            "--json",
        ]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def measure(peer, n, dtype, options):
    """One measurement in a process of its own: a dictionary with seconds and peak_rss_bytes."""
    if peer == "longformer.cpp":
        return measure_ours(n, dtype, options)
    command = [sys.executable, __file__, "--child", peer, "-n", str(n), "--dtype", dtype]
    command += [
        "--threads",
        str(options.threads),
        "--repeats",
        str(options.repeats),
        "--cache",
        str(options.cache),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(
            f"{peer} at n {n} {dtype} failed: {done.stderr.strip().splitlines()[-1:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def child(options):
    n, dtype = options.n[0], options.dtype[0]
    if options.child == "trace":
        return trace(n, options.cache)
    run = {"transformers": measure_transformers, "OpenVINO": measure_openvino}[options.child]
    seconds = run(n, dtype, options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_rss_bytes": peak}))


def prepare_openvino(options):
    options.cache.mkdir(parents=True, exist_ok=True)
    for n in options.n:
        if not traced_file(n, options.cache).exists():
            print(f"tracing the model for OpenVINO at n {n}, once", file=sys.stderr)
            command = [
                sys.executable,
                __file__,
                "--child",
                "trace",
                "-n",
                str(n),
                "--cache",
                str(options.cache),
            ]
            subprocess.run(command, check=True, capture_output=True)


def print_table(results, peers, options):
    print(
        f"\n{options.threads} threads, {options.rounds} rounds of the median of {options.repeats}\n"
    )
    print(
        "| n | dtype | " + " | ".join(f"{p} | peak" for p in peers) + " | fraction of the bound |"
    )
    print("|---|---|" + "---|---|" * len(peers) + "---|")
    for n in options.n:
        for dtype in options.dtype:
            median = {
                p: statistics.median(r["seconds"] for r in results[p, n, dtype]) for p in peers
            }
            cells = []
            for p in peers:
                ratio = "" if p == peers[0] else f" ({median[p] / median[peers[0]]:.2f} ×)"
                peak = max(r["peak_rss_bytes"] for r in results[p, n, dtype]) / 1e9
                cells += [f"{median[p]:.3g} s{ratio}", f"{peak:.2f} GB"]
            fractions = [
                r["fraction_of_bound"]
                for r in results[peers[0], n, dtype]
                if "fraction_of_bound" in r
            ]
            fraction = f"{statistics.median(fractions):.2f}" if fractions else ""
            print(f"| {n} | {dtype} | " + " | ".join(cells) + f" | {fraction} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-n",
        type=lambda s: [int(x) for x in s.split(",")],
        default=[4096],
        help="lengths: 512,4096",
    )
    parser.add_argument("--dtype", type=lambda s: s.split(","), default=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3, help="timed runs in each process")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--peers", type=lambda s: s.split(","), default=list(PEERS), help=",".join(PEERS)
    )
    parser.add_argument("--binary", default="build/longformer")
    default_cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    parser.add_argument(
        "--cache", type=pathlib.Path, default=default_cache / "longformer" / "peers"
    )
    parser.add_argument(
        "--output", type=pathlib.Path, help="file for one JSON object per measurement"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    if "OpenVINO" in options.peers:
        prepare_openvino(options)
    results = {}
    for _ in range(options.rounds):
        for n in options.n:
            for dtype in options.dtype:
                for peer in options.peers:
                    measured = measure(peer, n, dtype, options)
                    results.setdefault((peer, n, dtype), []).append(measured)
                    line = json.dumps({"peer": peer, "n": n, "dtype": dtype} | measured)
                    print(line, file=sys.stderr)
                    if options.output:
                        with options.output.open("a") as file:
                            file.write(line + "\n")
    print_table(results, options.peers, options)


if __name__ == "__main__":
    main()
