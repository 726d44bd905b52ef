#!/usr/bin/env python3
"""Table 4 of the Longformer paper and its staged training, in miniature.

    LONGFORMER_DATA=data experiments/paper/character_lm.py windows [--form text8] [--seeds 3]
    LONGFORMER_DATA=data experiments/paper/character_lm.py staged

windows: how the windows of the layers are arranged, and dilation on two heads. All models have the same
2.9M weights, the same mean window, and read the same segments in the same order.
staged: windows and segments that double twice, against the longest ones from the beginning, with the same
number of useful FLOPs; then the BPC against the characters that an evaluation sees.

The text is enwik8_head/enwik8.head4154064.xz in LONGFORMER_DATA: all its bytes, or the letters and spaces
that the rules of text8 make of it. Figures are added to docs/results/character_lm.jsonl.
"""

import json
import lzma
import pathlib
import shutil

import experiment
from experiment import data_sets

LAYERS, HIDDEN, HEADS, HEAD_DIM, INNER = 6, 192, 6, 32, 768
BATCH = 2
WINDOWS = [16, 32, 64, 128, 128, 256]
MEAN_WINDOW = sum(WINDOWS) // LAYERS
NO_DILATION = [0] * LAYERS
# The dilations of the paper: the lower half has none, then 1, 2 and 3.
DILATIONS = [0, 0, 0, 1, 2, 3]
ROWS = {
    "decreasing": (WINDOWS[::-1], NO_DILATION),
    "fixed": ([MEAN_WINDOW] * LAYERS, NO_DILATION),
    "increasing": (WINDOWS, NO_DILATION),
    "dilation on two heads": (WINDOWS, DILATIONS),
}
LENGTH, STEPS, RATE = 1024, 600, 4e-3
# The last phase has windows of up to 512 characters and segments of 2,048.
PHASE_SHARES = (0.6, 0.25, 0.15)
CONTEXTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 3072)
# Characters that one window scores, or as many as its context where that is shorter.
CONTEXT_STEP = 128
CONTEXT_CHARACTERS = 32768


def text_of(work):
    return work / "enwik8_head"


def unpack_text(work):
    """Once, as another experiment may be reading it."""
    if text_of(work).exists():
        return
    source = data_sets.file("enwik8_head/enwik8.head4154064.xz")
    work.mkdir(parents=True, exist_ok=True)
    part = text_of(work).with_suffix(".part")
    with lzma.open(source) as packed, part.open("wb") as stream:
        shutil.copyfileobj(packed, stream)
    part.rename(text_of(work))


def form_flags(form):
    return ["--clean-up"] if form == "text8" else []


def config(form, windows, dilations):
    return {"model_type": "longformer-character-lm", "alphabet": form, "hidden_size": HIDDEN,
            "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "head_dim": HEAD_DIM,
            "intermediate_size": INNER, "windows": windows, "dilations": dilations,
            "dilated_heads": 2, "dropout": 0.0}


def train(program, work, name, form, model, flags):
    """Trains a new model in the folder `name`, unless it is there."""
    folder = work / name
    if (folder / "model.safetensors").exists():
        return folder
    file = folder.with_suffix(".json")
    file.write_text(json.dumps(model))
    program("pretrain-lm", "--config", file, text_of(work), *form_flags(form), "--output-dir", folder,
                     "--overwrite-output-dir", "--per-device-train-batch-size", BATCH, "--bf16",
                     "--save-strategy", "no", "--logging-steps", 50, *flags)
    return folder


def bits(program, folder, form, part, text, *flags):
    return program("evaluate", folder, text, *form_flags(form), "--part", part, *flags)[-1]["metrics"]["bpc"]


def bits_with(program, folder, form, text, context):
    """BPC with at least so many characters before each scored one."""
    step = min(CONTEXT_STEP, context)
    return bits(program, folder, form, "validation", text, "--window-characters", context + step,
                "--step-characters", step, "--characters", CONTEXT_CHARACTERS)


def windows_runs(work, form, seeds):
    def run(row, seed):
        windows, dilations = ROWS[row]

        def measure(program):
            name = f"windows-{form}-{row.replace(' ', '-')}-{seed}"
            folder = train(program, work, name, form, config(form, windows, dilations), [
                "--seed", seed, "--length", LENGTH, "--max-steps", STEPS, "--learning-rate", RATE,
                "--lr-scheduler-type", "linear"])
            text = text_of(work)
            return {"dev": bits(program, folder, form, "validation", text, "--streaming"),
                    "test": bits(program, folder, form, "test", text, "--streaming")}

        return experiment.Run({"experiment": "windows", "form": form, "row": row, "seed": seed}, measure)

    return [run(row, seed) for seed in range(1, seeds + 1) for row in ROWS]


def flops_per_character(windows):
    """Useful FLOPs of a training step: weights, and per window products with keys, positions, values."""
    weights = LAYERS * (5 * HIDDEN**2 + 2 * HIDDEN * INNER)
    return 3 * (2 * weights + 6 * HIDDEN * sum(windows))


def staged_phases():
    """Three phases, and three of the longest windows and segments with the same rates and FLOPs."""
    longest = [2 * window for window in WINDOWS]
    budget = STEPS * BATCH * LENGTH * flops_per_character(longest)
    stages, whole = [], []
    for halvings, share in zip((2, 1, 0), PHASE_SHARES):
        windows = [window >> halvings for window in longest]
        length = (2 * LENGTH) >> halvings
        batch = 1 << halvings
        steps = round(share * budget / (batch * length * flops_per_character(windows)))
        rate = RATE / 2 ** (2 - halvings)
        stages.append({"name": f"{length} characters", "length": length, "windows": windows, "batch": batch,
                       "learning_rate": rate, "steps": steps})
        whole.append({"name": f"rate {rate}", "length": 2 * LENGTH, "windows": longest, "batch": BATCH // 2,
                      "learning_rate": rate, "steps": round(share * STEPS)})
    return {"staged": stages, "longest from the beginning": whole}


def staged_runs(work, form, seeds):
    def run(row, phases, seed):
        def measure(program):
            name = f"staged-{form}-{row.split()[0]}-{seed}"
            file = work / f"{name}-phases.json"
            file.write_text(json.dumps(phases))
            model = config(form, phases[-1]["windows"], NO_DILATION)
            folder = train(program, work, name, form, model, ["--seed", seed, "--phases", file])
            text = text_of(work)
            by_context = {context: bits_with(program, folder, form, text, context) for context in CONTEXTS}
            return {"characters": sum(p["steps"] * p["batch"] * p["length"] for p in phases),
                    "dev": bits(program, folder, form, "validation", text, "--streaming"),
                    "by_context": by_context}

        return experiment.Run({"experiment": "staged", "form": form, "row": row, "seed": seed}, measure)

    return [run(row, phases, seed) for seed in range(1, seeds + 1)
            for row, phases in staged_phases().items()]


def main():
    parser = experiment.options(__doc__, "character_lm.jsonl")
    parser.add_argument("experiment", choices=("windows", "staged"))
    parser.add_argument("--form", choices=("text8", "bytes"), default="text8")
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    unpack_text(work)
    runs = {"windows": windows_runs, "staged": staged_runs}[chosen.experiment]
    experiment.perform(runs(work, chosen.form, chosen.seeds), chosen)


if __name__ == "__main__":
    main()
