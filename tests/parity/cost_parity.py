"""Compares the operations that `bench model` and fractions of the bound count with those that PyTorch counts.

    python3 tests/parity/cost_parity.py PROGRAM

`torch.utils.flop_counter` counts the products of small models of `transformers`. Where a layer has a window, the document fits in it; where tokens see those before them alone, PyTorch counts
all pairs, and so does this script's own correction; of the distances of a Funnel Transformer it counts those that no
pair has. Exit code 1 when two counts differ by more than 0.1 %.
"""

import json
import subprocess
import sys
import tempfile

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

TOKENS = 60
TOLERANCE = 1e-3
SHAPE = {"vocab_size": 1000, "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6}
WIDE = SHAPE | {"intermediate_size": 200}
GROUPED = WIDE | {"num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512}
DISTANCES = {"relative_attention": True, "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True,
             "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0}  # fmt: skip
CONFIGS = {
    "bert": WIDE | {"model_type": "bert"},
    "mpnet": WIDE | {"model_type": "mpnet"},
    "modernbert": WIDE | {"model_type": "modernbert", "pad_token_id": 0, "bos_token_id": 1, "cls_token_id": 1,
                          "eos_token_id": 2, "sep_token_id": 2},
    "nomic_bert": WIDE | {"model_type": "nomic_bert"},
    "eurobert": WIDE | {"model_type": "eurobert", "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1,
                        "eos_token_id": 2, "mask_token_id": 3},
    "qwen3": GROUPED | {"model_type": "qwen3"},
    "deberta-v3": WIDE | DISTANCES | {"model_type": "deberta-v2"},
    "deberta-v2, own layers": WIDE | DISTANCES | {"model_type": "deberta-v2", "share_att_key": False,
                                                  "position_buckets": -1, "max_relative_positions": 24},
    "deberta-v2, one term": WIDE | DISTANCES | {"model_type": "deberta-v2", "share_att_key": False,
                                                "pos_att_type": ["c2p"]},
    "funnel": {"model_type": "funnel", "vocab_size": 1000, "d_model": 96, "n_head": 6, "d_head": 24, "d_inner": 200,
               "block_sizes": [2, 2], "num_decoder_layers": 1, "architectures": ["FunnelModel"]},
    "reformer": {"model_type": "reformer", "vocab_size": 1000, "hidden_size": 96, "num_attention_heads": 6, "attention_head_size": 24,
                 "feed_forward_size": 200, "attn_layers": ["local", "lsh"], "local_attn_chunk_length": 12, "lsh_attn_chunk_length": 20,
                 "local_num_chunks_after": 1, "lsh_num_chunks_after": 1, "num_hashes": 2, "num_buckets": 8, "axial_pos_embds": False,
                 "hash_seed": 0, "max_position_embeddings": 120},
}  # fmt: skip


def of_shifted_distances(config):
    """Products of distances that `transformers` computes beyond one product for each pair, and one key for each distance."""
    width, inner, rows = config["d_model"], config["n_head"] * config["d_head"], TOKENS // 2
    pairs = [(TOKENS, TOKENS)] * 2 + [(rows, TOKENS), (rows, rows)] + [(TOKENS, TOKENS)]
    flops = 0
    for queries, keys in pairs:
        distances = 2 * keys if queries == keys else 2 * queries + keys
        flops += 2 * inner * (width * (distances - (2 * keys - 1)) + queries * (distances - keys))
    return flops


def counted_by_torch(config):
    config = dict(config)
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    model = transformers.AutoModel.from_config(made, attn_implementation="eager").eval()
    ids = torch.full((1, TOKENS), 9)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    # A pooler reads the first token alone, and is part of the head here.
    pooler = 2 * config["hidden_size"] ** 2 if getattr(model, "pooler", None) is not None else 0
    return counter.get_total_flops() - pooler


def counted_here(program, config):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        command = [program, "bench", "model", "--config", file.name, "-n", str(TOKENS), "-r", "1", "--json"]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    flops = row["gflops"] * row["seconds"] * 1e9
    if config["model_type"] == "funnel":
        flops += of_shifted_distances(config)
    if config["model_type"] == "qwen3":
        pairs = 4 * config["head_dim"] * config["num_attention_heads"] * config["num_hidden_layers"]
        flops += pairs * TOKENS * (TOKENS - 1) / 2
    return flops


def main():
    transformers.logging.set_verbosity_error()
    print("| model | operations by PyTorch | here | difference |\n|---|---|---|---|")
    failures = 0
    for name, config in CONFIGS.items():
        theirs, ours = counted_by_torch(config), counted_here(sys.argv[1], config)
        difference = abs(ours / theirs - 1)
        failures += not difference <= TOLERANCE
        print(f"| {name} | {theirs:,} | {ours:,.0f} | {difference:.2g} |")
    print(f"{len(CONFIGS)} models, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
