"""Compares converted Reformers with `transformers` in double precision, in one live run.

    python3 tests/parity/reformer_parity.py PROGRAM [--count 48] [--seed 5] [--only INDEX,…]

Random configurations (local, lsh and mixed layers, rounds of hashing, buckets by length, by number and by two factors,
axial and learned positions, chunks before, lengths within a chunk, whole and padded), all weights drawn. Each is
written by `transformers`, converted by `PROGRAM convert --to longformer-lm`, and compared by the loss of every
character of a text (at most 2e-4) and by the characters that both write greedily (equal), as long as PyTorch's two
best logits are apart. Hashes are drawn in fp32, as for models in use. A text with a token whose hash lies within
1e-5 of another bucket is left out and counted: rounding decides there. Exit code 1 on a difference; a NaN is one.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import longformer_cpp
import numpy
import reformer_models
import torch
import transformers

SYMBOLS = " abcdefghijklmnopqrstuvwxyz"
LOSS_TOLERANCE = 2e-4
NEAR = 1e-5
WRITTEN = 12


def configuration(random):
    heads, head = int(random.integers(1, 5)), int(random.integers(2, 9))
    first = int(random.integers(1, 9))
    hidden = 2 * int(random.integers(first // 2 + 1, 17))
    rows, columns = int(random.integers(4, 17)), int(random.integers(4, 17))
    layers = [str(kind) for kind in random.choice(["local", "lsh"], int(random.integers(1, 5)))]
    buckets = [None, 2, 4, 8, 16, [2, 4], [4, 4]][int(random.integers(7))]
    return {
        "vocab_size": len(SYMBOLS), "hidden_size": hidden, "num_attention_heads": heads, "attention_head_size": head,
        "feed_forward_size": int(random.integers(4, 40)), "axial_pos_shape": [rows, columns],
        "axial_pos_embds_dim": [first, hidden - first], "max_position_embeddings": rows * columns,
        "axial_pos_embds": bool(random.integers(4)), "is_decoder": True, "attn_layers": layers,
        "hidden_act": str(random.choice(["relu", "gelu", "silu"])), "num_buckets": buckets,
        "local_attn_chunk_length": int(random.integers(2, 9)), "lsh_attn_chunk_length": int(random.integers(2, 9)),
        "local_num_chunks_before": int(random.integers(3)), "lsh_num_chunks_before": int(random.integers(3)),
        "num_hashes": int(random.integers(1, 5)), "hash_seed": int(random.integers(1000)), "initializer_range": 0.3,
        "axial_norm_std": 0.3, "pad_token_id": 0, "eos_token_id": None, "tie_word_embeddings": False,
    }  # fmt: skip


def model_of(config, seed):
    torch.manual_seed(seed)
    model = transformers.ReformerModelWithLMHead(transformers.ReformerConfig(**config)).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "norm" in name:
                value.add_(0.1 * torch.randn(value.shape))
            elif name.endswith("bias") and name != "lm_head.bias":
                value.copy_(0.1 * torch.randn(value.shape))
    return model


def losses_of(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids[:-1]]), use_cache=False).logits[0]
    return torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none").numpy()


def longest(config):
    """Longest text whose padding transformers has positions for."""
    lengths = [config[f"{kind}_attn_chunk_length"] for kind in set(config["attn_layers"])]
    whole = int(numpy.lcm.reduce(lengths))
    return config["max_position_embeddings"] // whole * whole or min(lengths)


def is_astray(config, prompt):
    """Whether the cache of transformers does otherwise than its model: of padded prompts with several rounds, in which a
    bucket of padding shifts those of later rounds, of local layers with several chunks before a token that has fewer,
    and where there are more heads than tokens of a chunk, which it takes for enough tokens."""
    kinds = set(config["attn_layers"])
    lengths = [config[f"{kind}_attn_chunk_length"] for kind in kinds]
    is_padded = prompt > min(lengths) and prompt % numpy.lcm.reduce(lengths) != 0
    before = config["local_num_chunks_before"]
    crowded = config["num_attention_heads"] >= config["lsh_attn_chunk_length"]
    return ("lsh" in kinds and (crowded or is_padded and config["num_hashes"] > 1)) or (
        "local" in kinds and before > 1 and prompt // config["local_attn_chunk_length"] < before
    )


def written_by(model, config, ids):
    """Text that transformers writes, and how near the best two logits came."""
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), max_new_tokens=WRITTEN, do_sample=False, output_logits=True,
                             return_dict_in_generate=True)  # fmt: skip
    best = torch.stack(out.logits).topk(2, dim=-1).values
    return "".join(SYMBOLS[i] for i in out.sequences[0][len(ids) :]), (best[..., 0] - best[..., 1]).min().item()


def compare(index, arguments, folder, nearest):
    """Largest difference of a loss, or None where rounding decides; and whether the same was written, or None."""
    random = numpy.random.default_rng([arguments.seed, index])
    config = configuration(random)
    model = model_of(config, index)
    source, target = folder / f"hf{index}", folder / f"lm{index}"
    model.save_pretrained(source)
    stored = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(stored | {"vocabulary": "text8"}))
    subprocess.run([arguments.program, "convert", source, target, "--to", "longformer-lm"], check=True,
                   capture_output=True)  # fmt: skip
    ours = longformer_cpp.LanguageModel(str(target))
    model = model.double()
    most = longest(config)
    length = int(random.integers(2, most + 1))
    ids = [int(i) for i in random.integers(len(SYMBOLS), size=length + 1)]
    text = folder / "text.txt"
    text.write_text("".join(SYMBOLS[i] for i in ids))
    nearest.gap = 1.0
    reformer_models.forget_buckets(model, config["num_buckets"])
    wanted = losses_of(model, ids)
    found = ours.evaluate(str(text), part="all", window_characters=most, step_characters=most, losses=True).losses
    difference = float(numpy.abs(numpy.array([one[1] for one in found]) - wanted).max()) if nearest.gap > NEAR else None
    prompt = int(random.integers(1, max(2, most - WRITTEN)))
    is_known = config["num_buckets"] is not None or prompt > config["lsh_attn_chunk_length"]
    if prompt + WRITTEN > most or not is_known or is_astray(config, prompt):
        return difference, None
    nearest.gap = 1.0
    reformer_models.forget_buckets(model, config["num_buckets"])
    expected, gap = written_by(model, config, ids[:prompt])
    if gap < 1e-3 or nearest.gap < NEAR:
        return difference, None
    given = "".join(SYMBOLS[i] for i in ids[:prompt])
    return difference, ours.generate(given, characters=WRITTEN, temperature=0) == expected


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=48)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--only", type=lambda text: [int(i) for i in text.split(",")])
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    differences, written, near, failed = [], [], 0, []
    with tempfile.TemporaryDirectory() as folder, reformer_models.fp32_hashes() as nearest:
        for index in arguments.only or range(arguments.count):
            difference, same = compare(index, arguments, pathlib.Path(folder), nearest)
            near += difference is None
            if difference is not None:
                differences.append(difference)
            if same is not None:
                written.append(same)
            if same is False or (difference is not None and not difference <= LOSS_TOLERANCE):
                failed.append((index, difference, same))
    print(f"{len(differences)} texts, largest difference of a loss {max(differences, default=0):.1e}; "
          f"{near} with a hash between two buckets left out")  # fmt: skip
    print(f"{sum(written)} of {len(written)} texts written as transformers writes them")
    for index, difference, same in failed:
        print(f"model {index}: difference {difference}, written alike {same}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
