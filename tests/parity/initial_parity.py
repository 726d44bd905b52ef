#!/usr/bin/env python3
"""How weights begin that no file has, beside the classes of `transformers`.

    python3 tests/parity/initial_parity.py PROGRAM

A config.json alone, whose model reads bytes, is trained for one step with a learning rate that changes nothing; the class of
`transformers` with the same keys draws its own. Of each tensor compared are mean and deviation, within what chance allows,
the largest number of truncated distributions, and which tensors are zeros, ones, or have a row of zeros.
Exit code 1 for a tensor of another distribution.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy
from safetensors.numpy import load_file
import torch
import transformers

SIZES = {"vocab_size": 260, "pad_token_id": 0, "sep_token_id": 2, "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 160, "max_position_embeddings": 66, "initializer_range": 0.05}  # fmt: skip
FUNNEL = {"vocab_size": 260, "pad_token_id": 0, "sep_token_id": 2, "d_model": 96, "n_head": 4, "d_head": 24, "d_inner": 160,
          "block_sizes": [1, 1], "num_decoder_layers": 1}  # fmt: skip
DEBERTA = {"relative_attention": True, "position_buckets": 32, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm", "conv_kernel_size": 3}
GEMMA = {"head_dim": 24, "num_key_value_heads": 2}
# model_type, prefix of the classes, keys.
KINDS = [
    ("bert", "Bert", {}),
    ("roberta", "Roberta", {}),
    ("electra", "Electra", {"embedding_size": 48}),
    ("longformer", "Longformer", {"attention_window": 8}),
    ("big_bird", "BigBird", {}),
    ("modernbert", "ModernBert", {}),
    ("modernbert", "ModernBert", {"initializer_cutoff_factor": 1.0, "attention_bias": True, "mlp_bias": True}),
    ("modernbert", "ModernBert", {"initializer_cutoff_factor": 3.0, "tie_word_embeddings": False}),
    ("nomic_bert", "NomicBert", {}),
    ("gte", "Gte", {}),
    ("jina_embeddings_v3", "JinaEmbeddingsV3", {}),
    ("deberta-v2", "DebertaV2", DEBERTA),
    ("eurobert", "EuroBert", {"num_key_value_heads": 2}),
    ("qwen3", "Qwen3", GEMMA),
    ("gemma3_text", "Gemma3Text", GEMMA),
    ("funnel", "Funnel", FUNNEL),
    ("funnel", "Funnel", FUNNEL | {"initializer_std": 0.03, "initializer_range": 0.2}),
]
WITHOUT_MASKED_LM = ("qwen3", "gemma3_text", "longformer", "gte")
TEXTS = ["one text", "and another one", "the third", "a last text"]


def ours(program, model_type, keys, task):
    with tempfile.TemporaryDirectory() as place:
        folder, data, out = (pathlib.Path(place, name) for name in ("config", "data.jsonl", "out"))
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": model_type, "vocabulary": "bytes", **keys}))
        data.write_text("".join(json.dumps({"text": text, "label": str(at % 2)}) + "\n" for at, text in enumerate(TEXTS)))
        verb = [program, "pretrain-mlm", folder, data] if task == "ForMaskedLM" else [program, "finetune", folder, data, "--task", "classify"]
        still = ["--max-steps", "1", "--learning-rate", "1e-30", "--weight-decay", "0", "--quiet", "--output-dir", out]
        subprocess.run([*map(str, verb + still)], check=True, stdout=subprocess.DEVNULL)
        return load_file(out / "model.safetensors")


def theirs(prefix, keys, task):
    torch.manual_seed(5)
    config = getattr(transformers, f"{prefix}Config")(**keys)
    model = getattr(transformers, f"{prefix}{task}")(config)
    with tempfile.TemporaryDirectory() as place:
        model.save_pretrained(place)
        return load_file(pathlib.Path(place, "model.safetensors"))


def difference(found, expected):
    """A sentence that tells two tensors apart; empty where they may be of one distribution."""
    if found.shape != expected.shape:
        return f"shape {found.shape}, not {expected.shape}"
    found, expected = found.astype(float), expected.astype(float)
    if numpy.ptp(expected) == 0:
        # The step has moved every number a little.
        return "" if numpy.abs(found - expected).max() < 1e-20 else f"not all {expected.flat[0]}"
    rows = [numpy.abs(tensor).max(1) < 1e-20 for tensor in (found, expected)] if found.ndim == 2 else [False, False]
    if numpy.any(rows[0] != rows[1]):
        return "other rows of zeros"
    deviation, root = expected.std(), math.sqrt(expected.size)
    # Five deviations of the difference of two samples; numbers of a truncated or uniform tensor vary less.
    chance = 5 * math.sqrt(2) * deviation / root
    if not abs(found.mean() - expected.mean()) <= chance:
        return f"mean {found.mean():.2g}, not {expected.mean():.2g}"
    if not abs(found.std() - deviation) <= chance:
        return f"deviation {found.std():.4g}, not {deviation:.4g}"
    # The largest of many numbers tells whether there is a bound: those of a normal distribution are beyond 3.2 deviations.
    largest, other = numpy.abs(found).max() / deviation, numpy.abs(expected).max() / deviation
    is_bounded = other < 3.2
    is_alike = abs(largest - other) < 0.1 if is_bounded else largest >= 3.2
    return "" if expected.size < 5000 or is_alike else f"largest {largest:.2f} deviations, not {other:.2f}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    transformers.logging.set_verbosity_error()
    failures, rows = [], []
    for model_type, prefix, own in KINDS:
        keys = (own if model_type == "funnel" else SIZES | own)
        for task in ("ForSequenceClassification", "ForMaskedLM"):
            if task == "ForMaskedLM" and model_type in WITHOUT_MASKED_LM:
                continue
            found, expected = ours(sys.argv[1], model_type, keys, task), theirs(prefix, keys, task)
            # `transformers` keeps the pooler of a BigBird whose head does not read it.
            alone = sorted(name for name in found.keys() ^ expected.keys() if ".pooler." not in name)
            if alone:
                failures.append(f"{prefix}{task}: tensors of one alone: {alone}")
            shared = found.keys() & expected.keys()
            told = {name: difference(found[name], expected[name]) for name in sorted(shared)}
            failures += [f"{prefix}{task} {own}: {name}: {what}" for name, what in told.items() if what]
            rows.append((prefix + task, len(shared)))
    print("| class | tensors |\n|---|---|")
    for name, count in rows:
        print(f"| {name} | {count} |")
    print("\n".join(failures))
    print(f"{len(failures)} failures, {sum(count for _, count in rows)} tensors, transformers {transformers.__version__}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
