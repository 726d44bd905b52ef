#!/usr/bin/env python3
"""Fewer updates, smaller steps or averaged weights: what helps a model with memories at the end?

    LONGFORMER_DATA=data experiments/compare/updates.py [--base 18M] [--characters 12M] [--only NAME] [--seeds 2]

A Transformer-XL (segments of 128, memory of 256) reads --base characters at a constant rate. Its last checkpoint, with the moments
of the optimizer and with what its memories hold, is the beginning of five arms of --characters each; two of them also run with
dense attention, which has no memory. Measured: the loss in validation, the test novel with the trained
memory and a longer one, the same of the mean of twenty checkpoints, norm of the gradients, how far the weights have moved, and
the loss of the next segments with the state that training carried against one made anew by the last weights from
the 4,096 characters before. Needs numpy and safetensors. Figures are added to docs/results/compare_updates.jsonl.
"""

import json
import math
import shutil

import language_models
import numpy
import setting
from language_models import CHARACTERS_PER_STEP, SIZES, bits, held_out, lm, memories, prefix
from safetensors.numpy import load_file, save_file
from setting import experiment

SEGMENT, MEMORY, LONGER = 128, 256, 1024
RATE, WARMUP = 1e-3, 100
AVERAGED = 20
# Segments of the text behind which a state is made anew.
READ_AGAIN = 4096 // SEGMENT
MODELS = {
    "Transformer-XL": lm("recurrent", SEGMENT, **memories(SEGMENT, MEMORY), dropout=0.0),
    "dense": lm("dense", 512, dropout=0.0),
}  # fmt: skip
# Schedule, part of the rate, steps of which the gradients are summed.
ARMS = {
    "same rate": ("constant", 1, 1),
    "falling to 0": ("linear", 1, 1),
    "rate / 4": ("constant", 1 / 4, 1),
    "rate / 16": ("constant", 1 / 16, 1),
    "an update for 4 segments": ("constant", 1, 4),
}  # fmt: skip
OF_DENSE = ("same rate", "an update for 4 segments")


def flags(arm, rate, steps, **more):
    keys = {"length": arm["length"], "per_device_train_batch_size": CHARACTERS_PER_STEP // arm["length"],
            "learning_rate": rate, "max_steps": steps, "warmup_steps": WARMUP, "max_grad_norm": 0.25,
            "lr_scheduler_type": "constant", "logging_steps": 50} | more  # fmt: skip
    return [part for name, value in keys.items() for part in (f"--{name.replace('_', '-')}", value)]


def trained(program, work, source, target, *arguments):
    """A folder of models is begun with a config.json, and goes on from its last checkpoint."""
    program("pretrain-lm", "--config", source, prefix(work, SIZES[-1]), "--validation-file",
            setting.novels(work)[1], "--output-dir", target, "--bf16",
            "--resume-from-checkpoint", "last", *arguments)  # fmt: skip
    return target


def fork(checkpoint, target):
    """An output folder whose only checkpoint is this one."""
    if not target.exists():
        part = target.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(checkpoint, part / checkpoint.name)
        part.rename(target)
    return target


def averaged(checkpoints, target):
    """A model whose weights are the mean of those of the checkpoints."""
    weights = [load_file(folder / "model.safetensors") for folder in checkpoints]
    mean = {name: numpy.mean([some[name] for some in weights], axis=0) for name in weights[0]}
    target.mkdir(exist_ok=True)
    shutil.copy(checkpoints[0] / "config.json", target)
    save_file(mean, target / "model.safetensors", metadata={"format": "pt"})
    return target


def distance(first, second):
    before, after = (load_file(folder / "model.safetensors") for folder in (first, second))
    return math.sqrt(sum(float(((after[name] - old) ** 2).sum()) for name, old in before.items()))


def next_loss(program, chosen, source, arm, checkpoint, again):
    """Loss of the segments after a checkpoint, at a learning rate of 0; its state comes from reading so many segments
    again."""
    target = chosen.work / "updates-probe"
    shutil.rmtree(target, ignore_errors=True)
    copy = fork(checkpoint, target) / checkpoint.name
    file = copy / "trainer_state.json"
    state = json.loads(file.read_text())
    if again:
        (copy / "state.json").unlink()
        state["epoch_micro_batches"] -= again
        file.write_text(json.dumps(state))
    last = state["global_step"] + again + 1
    trained(program, chosen.work, source, target, "--seed", 1, "--save-strategy", "no",
            *flags(arm, 0, last, logging_steps=1))  # fmt: skip
    return [row["loss"] for row in setting.log(target) if "loss" in row][-1]


def measure(chosen, kind, row, seed):
    def run(program):
        arm, words = MODELS[kind], f"updates-{chosen.model}-{kind}-{chosen.base}-{seed}".lower()
        source = chosen.work / f"{words}.json"
        source.write_text(json.dumps(setting.language_model(chosen.model, **arm["model"])))
        # A multiple of 20, so that there is a checkpoint at the end.
        before = max(2 * WARMUP, chosen.base // CHARACTERS_PER_STEP // 20 * 20)
        steps = max(4 * AVERAGED, chosen.characters // CHARACTERS_PER_STEP // (4 * AVERAGED) * 4 * AVERAGED)
        base = chosen.work / words
        if not (base / "model.safetensors").exists():
            trained(program, chosen.work, source, base, "--seed", seed,
                    *flags(arm, RATE, before, save_steps=before // 20, save_total_limit=1))  # fmt: skip
        beginning = base / f"checkpoint-{before}"
        schedule, part, summed = ARMS[row]
        updates = steps // summed
        rate = RATE * part
        if schedule == "linear":
            # At the fork it is the rate of the base.
            rate *= (before + updates - WARMUP) / updates
        name = f"{words}-{chosen.characters}-" + "-".join(row.replace("/", "by").split())
        target = fork(beginning, chosen.work / name)
        every = updates // AVERAGED
        if not (target / "model.safetensors").exists():
            trained(program, chosen.work, source, target, "--seed", seed, "--eval-strategy", "steps", "--eval-characters", 131072,
                    *flags(arm, rate, before + updates, lr_scheduler_type=schedule, gradient_accumulation_steps=summed,
                           save_steps=every, save_total_limit=AVERAGED, eval_steps=every, logging_steps=every))  # fmt: skip
        rows = [row for row in setting.log(target) if row["step"] > before]
        checkpoints = [target / f"checkpoint-{before + every * (at + 1)}" for at in range(AVERAGED)]
        mean = averaged(checkpoints, chosen.work / f"{name}-mean")
        text = held_out(chosen.work)
        figures = {
            "test_bpc": bits(program, target, text, arm), "averaged_bpc": bits(program, mean, text, arm),
            "curve": [[(row["step"] - before) * summed * CHARACTERS_PER_STEP, round(row["eval_bpc"], 4)]
                      for row in rows if "eval_bpc" in row],
            "gradient_norm": round(numpy.mean([row["grad_norm"] for row in rows if "grad_norm" in row]).item(), 4),
            "moved": round(distance(beginning, target), 2),
        }  # fmt: skip
        if kind == "Transformer-XL":
            longer = program("evaluate", target, text, "--memory-length", LONGER, "--characters",
                             language_models.EVALUATED)[-1]["metrics"]  # fmt: skip
            figures["longer_memory_bpc"] = round(longer["bpc"], 4)
            carried, anew = (next_loss(program, chosen, source, arm, checkpoints[-1], again) for again in (0, READ_AGAIN))
            figures |= {"next_loss": round(carried, 4), "next_loss_anew": round(anew, 4)}
        return figures

    return run


def main():
    parser = setting.options(__doc__, "compare_updates.jsonl")
    parser.add_argument("--base", type=setting.number, default=18_000_000)
    parser.add_argument("--characters", type=setting.number, default=12_000_000)
    parser.add_argument("--model", choices=setting.SIZES, default="small")
    chosen = setting.start(parser)
    setting.novels(chosen.work)
    key = {"model": chosen.model, "base": chosen.base, "characters": chosen.characters}
    runs = [experiment.Run(key | {"kind": kind, "row": row, "seed": seed}, measure(chosen, kind, row, seed))
            for seed in range(1, chosen.seeds + 1) for kind in MODELS for row in ARMS
            if kind == "Transformer-XL" or row in OF_DENSE]  # fmt: skip
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
