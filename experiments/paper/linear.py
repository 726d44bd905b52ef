#!/usr/bin/env python3
"""Time and peak memory of a training step against the length of the document, beside `transformers`.

    experiments/paper/linear.py [--rounds 3] [--python PYTHON] [--longest-transformers 8192]

A masked-LM step (AdamW, fp32, 15 % of the tokens to be guessed) of a Longformer of MiniLM's shape: six layers of
384, window 512. Every figure is the median of the rounds and comes from a process of its own; the programs take
turns. PYTHON has torch and transformers. Figures are added to docs/results/linear.jsonl.
"""

import json
import pathlib
import subprocess
import sys

import experiment

LENGTHS = [512 << i for i in range(7)]
LONGEST = 131072
PEERS = experiment.ROOT / "bench" / "train_peers.py"
# n² attention in `transformers` would be another model; this is its Longformer in overlapping chunks.
CONFIG = {
    "model_type": "longformer", "architectures": ["LongformerForMaskedLM"], "attention_window": 512,
    "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536, "hidden_act": "gelu", "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    "pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102, "sep_token_id": 102,
}


def ours(config, n, flags):
    def measure(program):
        row = program("bench", "train", "--config", config, "-n", n, "-r", 1, *flags)[-1]
        return {"seconds": row["seconds"], "peak_bytes": row["peak_rss_bytes"],
                "fraction_of_bound": row["fraction_of_bound"]}

    return measure


def theirs(python, config, n):
    def measure(_):
        done = subprocess.run([python, PEERS, "--child", "--config", config, "-n", str(n)],
                              stdout=subprocess.PIPE, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        return {"seconds": row["seconds"], "peak_bytes": row["peak_rss_bytes"]}

    return measure


def runs(work, chosen):
    for turn in range(chosen.rounds):
        for n in [*LENGTHS, LONGEST]:
            config = work / f"linear-{n}.json"
            config.write_text(json.dumps(CONFIG | {"max_position_embeddings": n + 2}))
            measures = {"longformer.cpp, checkpointing": ours(config, n, ["--gradient-checkpointing"])}
            if n != LONGEST:
                measures["longformer.cpp"] = ours(config, n, [])
            if n <= chosen.longest_transformers:
                measures["transformers"] = theirs(chosen.python, config, n)
            for row, measure in measures.items():
                yield experiment.Run({"row": row, "n": n, "turn": turn}, measure)


def main():
    parser = experiment.options(__doc__, "linear.jsonl")
    parser.set_defaults(jobs=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--longest-transformers", type=int, default=8192)
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    experiment.perform(list(runs(work, chosen)), chosen)


if __name__ == "__main__":
    main()
