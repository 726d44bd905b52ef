#!/usr/bin/env python3
"""Table 5 of the Longformer paper, from 512 to 4,096 tokens, in miniature.

    LONGFORMER_DATA=data experiments/paper/masked_lm.py BERT

BERT is the folder that `make quickstart` fetches (quickstart/…): MiniLM, six layers of 384, without a masked-LM
head. The head, and the encoder with it, is first trained at 512 tokens on English Wikipedia
(wiki_en_extract in LONGFORMER_DATA); this begins all rows, and its seed is the same for all. Then the
model is made longer in several ways, trained or not, and measured on held-out articles. "as many
updates at 512" is the control that the paper does not have: what the updates give without more context.

Figures are added to docs/results/masked_lm.jsonl. Needs numpy and safetensors.
"""

import lzma
import pathlib
import re
import shutil

import numpy
from safetensors.numpy import load_file, save_file

import experiment
from experiment import data_sets

LENGTH = 4096
TRAINED_ARTICLES, HELD_OUT_ARTICLES = 3000, 30
MINIMUM_CHARACTERS = 6000
HEAD_TOKENS, UPDATE_TOKENS = 1_048_576, 196_608
TOKENS_PER_STEP = 4096
HEAD_RATE, UPDATE_RATE = 5e-4, 1e-4


def write_articles(work):
    """Articles of some length; every fiftieth one is held out."""
    train, held_out = work / "wiki_train.txt", work / "wiki_held_out.txt"
    if held_out.exists():
        return train, held_out
    source = data_sets.file("wiki_en_extract/enwiki_AA.txt.xz")
    with lzma.open(source, "rt", encoding="utf-8") as stream:
        blocks = re.findall(r"<doc [^>]*>\n(.*?)</doc>", stream.read(), re.DOTALL)
    articles = [text.strip() for text in blocks if len(text) > MINIMUM_CHARACTERS]
    held = articles[::50][:HELD_OUT_ARTICLES]
    rest = [text for at, text in enumerate(articles) if at % 50][:TRAINED_ARTICLES]
    train.write_text("\n\n".join(rest))
    held_out.write_text("\n\n".join(held))
    return train, held_out


def train(program, source, target, text, flags, rate, tokens, length, dtype=("--bf16",)):
    """pretrain-mlm with TOKENS_PER_STEP tokens a step; its loss."""
    if (target / "model.safetensors").exists():
        return None
    return program("pretrain-mlm", source, text, "--output-dir", target, "--overwrite-output-dir",
                   "--max-steps", tokens // TOKENS_PER_STEP, "--per-device-train-batch-size", 1,
                   "--gradient-accumulation-steps", TOKENS_PER_STEP // length, "--max-seq-length", length,
                   "--learning-rate", rate, "--warmup-ratio", 0.06, "--warmup-steps", 0, "--save-strategy",
                   "no", "--logging-steps", 10, *dtype, *flags)[-1]["loss"]


def with_random_positions(source, target, seed):
    """A copy of a converted folder whose rows of positions beyond 512 are drawn anew."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    tensors = load_file(target / "model.safetensors")
    name = next(key for key in tensors if key.endswith("position_embeddings.weight"))
    first = tensors[name].shape[0] - LENGTH
    rows = tensors[name].copy()
    generator = numpy.random.default_rng(seed)
    rows[first + 512:] = generator.normal(0, 0.02, rows[first + 512:].shape)
    tensors[name] = rows
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


class Rows:
    """How each row is made from the model of 512 tokens."""

    def __init__(self, work, bert, texts):
        self.work, self.bert, (self.text, self.held_out) = work, bert, texts
        self.short, self.long = work / "mlm-512", work / "mlm-4096"

    def prepare(self, program):
        train(program, self.bert, self.short, self.text, ["--seed", 1], HEAD_RATE, HEAD_TOKENS, 512)
        if not self.long.exists():
            program("convert", self.short, self.long, "--max-positions", LENGTH, "--window", 512)

    def score(self, program, folder, length, seed):
        metrics = program("evaluate", folder, self.held_out, "--max-seq-length", length, "--seed", seed)[-1]["metrics"]
        return {"bpc": metrics["bpc"], "accuracy": metrics["accuracy"]}

    def trained(self, program, row, seed, source, length, flags=()):
        target = self.work / f"mlm-{row}-{seed}"
        loss = train(program, source, target, self.text, ["--seed", seed + 1, *flags], UPDATE_RATE,
                     UPDATE_TOKENS, length)
        return {"loss": loss} | self.score(program, target, length, seed)

    def runs(self, seeds):
        rows = {
            "512": lambda program, seed: self.score(program, self.short, 512, seed),
            "4,096, new positions drawn": lambda program, seed: self.score(
                program, with_random_positions(self.long, self.work / f"mlm-drawn-{seed}", seed), LENGTH, seed),
            "4,096, positions copied": lambda program, seed: self.score(program, self.long, LENGTH, seed),
            "copied, updates": lambda program, seed: self.trained(program, "updates", seed, self.long, LENGTH),
            "copied, only the new positions updated": lambda program, seed: self.trained(
                program, "positions", seed, self.long, LENGTH, ["--only-positions-from", 512]),
            "as many updates at 512": lambda program, seed: self.trained(
                program, "control", seed, self.short, 512),
        }
        return [experiment.Run({"row": row, "seed": seed}, lambda program, f=measure, s=seed: f(program, s))
                for seed in range(1, seeds + 1) for row, measure in rows.items()]


def main():
    parser = experiment.options(__doc__, "masked_lm.jsonl")
    parser.add_argument("model", metavar="BERT")
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    rows = Rows(work, chosen.model, write_articles(work))
    rows.prepare(experiment.Program(chosen.binary, experiment.all_cores()))
    experiment.perform(rows.runs(chosen.seeds), chosen)


if __name__ == "__main__":
    main()
