#!/usr/bin/env python3
"""Times a Performer and a Linformer beside performer-pytorch and linformer (lucidrains), in turns, with the same weights.

    python3 bench/efficient_peers.py MODEL [-n 512,4096] [--dtype fp32,bf16] [--rounds 3] [--binary build/longformer]

MODEL is the folder of a BERT such as MiniLM. `convert` makes a Performer (256 features) and a Linformer (means, k 256) of
n tokens of it; the peer is the BERT of `transformers` with those weights, whose attention is that of the
package, as its users build it. Both read the same text once to show that they compute the same. Then each figure comes from a
process of its own; the peers take turns. The causal row is the attention of a layer alone, 12 heads of 64. Needs torch,
transformers, performer-pytorch and linformer from the Python package index.
"""

import argparse
import itertools
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

import peers

FEATURES, ROWS = 256, 256
CAUSAL = "causal Performer"
TEXT = "The quick brown fox jumps over the lazy dog, which sleeps. "
KINDS = {
    "Performer": ["--to", "performer", "--features", FEATURES, "--feature-epsilon", 1e-4],
    "Linformer": ["--to", "linformer", "--projection", "mean", "--projected-length", ROWS],
}


def attention_of(kind, layer, n, tensors, index):
    """BERT's self-attention with its weights around the package's attention."""
    import torch

    heads, size = layer.num_attention_heads, layer.attention_head_size

    class Performer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            from performer_pytorch import FastAttention

            self.query, self.key, self.value = layer.query, layer.key, layer.value
            self.attend = FastAttention(size, FEATURES)
            self.attend.projection_matrix = next(tensor for name, tensor in tensors.items()
                                                 if f"layer.{index}." in name and name.endswith("features"))  # fmt: skip

        def forward(self, x, *_, **__):
            split = [part(x).view(*x.shape[:2], heads, size).transpose(1, 2) for part in (self.query, self.key, self.value)]
            return self.attend(*split).transpose(1, 2).reshape(x.shape), None

    class Linformer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            from linformer import LinformerSelfAttention

            self.attend = LinformerSelfAttention(heads * size, n, ROWS, heads)
            self.attend.to_q, self.attend.to_k, self.attend.to_v = layer.query, layer.key, layer.value
            # BERT's own output projection follows.
            self.attend.to_out = torch.nn.Identity()
            owner = torch.arange(n) * ROWS // n
            mean = torch.nn.functional.one_hot(owner, ROWS).float()
            self.attend.proj_k.data = self.attend.proj_v.data = mean / mean.sum(0)

        def forward(self, x, *_, **__):
            return self.attend(x), None

    return Performer() if kind == "Performer" else Linformer()


def torch_model(kind, folder, n):
    import transformers
    from safetensors.torch import load_file

    transformers.logging.set_verbosity_error()
    config = json.loads((folder / "config.json").read_text())
    shape = transformers.BertConfig(**{key: config[key] for key in (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
        "max_position_embeddings", "type_vocab_size", "layer_norm_eps")})  # fmt: skip
    model = transformers.BertModel(shape, add_pooling_layer=False).eval()
    tensors = load_file(folder / "model.safetensors")
    plain = {name.split("bert.")[-1]: tensor for name, tensor in tensors.items()}
    missing = model.load_state_dict(plain, strict=False).missing_keys
    assert not [name for name in missing if "position_ids" not in name], missing
    for index, layer in enumerate(model.encoder.layer):
        layer.attention.self = attention_of(kind, layer.attention.self, n, tensors, index)
    return model


def causal(options, n, dtype):
    import torch
    from performer_pytorch import FastAttention

    attend = FastAttention(64, FEATURES, causal=True)
    rows = [torch.randn(1, 12, n, 64, dtype=dtype) for _ in range(3)]
    with torch.inference_mode():
        return {"seconds": peers.timed(lambda: attend(*rows), options.repeats)}


def encoder(options, n, dtype):
    import torch
    import transformers

    model = torch_model(options.child, options.model, n)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model, model_max_length=n)
    ids = tokenizer(TEXT * n, truncation=True, max_length=n, return_tensors="pt").input_ids
    assert ids.shape == (1, n), ids.shape
    with torch.inference_mode():
        mean = model(input_ids=ids).last_hidden_state[0].mean(0)
        model = model.to(dtype)
        return {"seconds": peers.timed(lambda: model(input_ids=ids), options.repeats), "mean": mean.tolist()}


def child(options):
    import torch

    torch.set_num_threads(options.threads)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.dtype[0]]
    row = (causal if options.child == CAUSAL else encoder)(options, options.n[0], dtype)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(row | {"peak_rss_bytes": peak}))


def run(command, text=None):
    done = subprocess.run(list(map(str, command)), input=text, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(kind, n, dtype, folder, options):
    """Rounds of (ours, theirs), and how far the mean of the last hidden states is apart, in parts of its length."""
    shape = ["-n", n, "--threads", options.threads, "--dtype", dtype]
    theirs = [sys.executable, __file__, folder, "--child", kind, *shape, "--repeats", options.repeats]
    times = ["-r", options.repeats, "--json"]
    if kind == CAUSAL:
        ours = [options.binary, "bench", "attention", "--pattern", "performer", "--causal", *shape, *times]
        return [(run(ours), run(theirs)) for _ in range(options.rounds)], None
    subprocess.run([options.binary, "convert", options.model, folder, "--overwrite", "--max-positions", str(n),
                    *map(str, KINDS[kind]), "--json"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    ours = [options.binary, "bench", "model", folder, *shape, *times]
    rounds = [(run(ours), run(theirs)) for _ in range(options.rounds)]
    found = run([options.binary, "embed", folder, "--pooling", "mean", "--no-normalize", "--truncate", "--json", "-"],
                TEXT * n)["embedding"]  # fmt: skip
    wanted = rounds[0][1]["mean"]
    difference = sum((a - b) ** 2 for a, b in zip(found, wanted, strict=True)) / sum(b * b for b in wanted)
    return rounds, difference**0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("-n", type=lambda text: [int(part) for part in text.split(",")], default=[512, 4096])
    parser.add_argument("--dtype", type=lambda text: text.split(","), default=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3, help="timed runs in each process")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--binary", default="build/longformer")
    parser.add_argument("--child", choices=[*KINDS, CAUSAL], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    print("| | n | dtype | longformer.cpp | peak | package | peak | times as fast | difference in fp32 |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        for kind in (*KINDS, CAUSAL):
            for n, dtype in itertools.product(options.n, options.dtype):
                rounds, difference = measure(kind, n, dtype, pathlib.Path(work, f"{kind}-{n}"), options)
                ours, theirs = (statistics.median(pair[side]["seconds"] for pair in rounds) for side in (0, 1))
                peaks = [max(pair[side]["peak_rss_bytes"] for pair in rounds) / 1e9 for side in (0, 1)]
                told = "" if difference is None else f"{difference:.0e}"
                print(f"| {kind} | {n:,} | {dtype} | {ours:.3f} s | {peaks[0]:.2f} GB | {theirs:.3f} s | {peaks[1]:.2f} GB | "
                      f"{theirs / ours:.1f} | {told} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
