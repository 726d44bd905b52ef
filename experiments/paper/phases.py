#!/usr/bin/env python3
"""The five phases of the Longformer paper's character models (Tables 2 and 12), at their lengths, with a tiny model.

    LONGFORMER_DATA=data experiments/paper/phases.py [--seeds 3]

Segments of 2,048, 4,096, 8,192, 16,384 and 23,040 bytes; windows double from phase to phase, up to 8,192, and the rate is
halved. Then the evaluation of the paper: windows of 32,256 characters, of which the last 512 are scored, and the same with
windows of 2,048 and 8,192. Two layers of 32 and 65 steps in all: it shows that the recipe runs at its lengths and what it
costs, not what the paper's models reach. Text: the first 4.15 MB of enwik8. Figures are added to docs/results/phases.jsonl.
"""

import json
import pathlib

import character_lm
import experiment

LENGTHS, STEPS, RATE = (2048, 4096, 8192, 16384, 23040), (40, 12, 6, 4, 3), 4e-3
#: Longest windows of the phases; the lower layer has half.
WINDOWS = (512, 1024, 2048, 4096, 8192)
EVALUATED, SCORED, STEP = (2048, 8192, 32256), 8192, 512
MODEL = {"model_type": "longformer-character-lm", "alphabet": "bytes", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
         "head_dim": 16, "intermediate_size": 128, "windows": [256, 512], "dilations": [0, 0], "dilated_heads": 0, "dropout": 0.0}  # fmt: skip


def phases():
    return [{"name": f"{length} characters", "length": length, "windows": [window // 2, window], "learning_rate": RATE / 2**number, "batch": 1,
             "steps": steps} for number, (length, window, steps) in enumerate(zip(LENGTHS, WINDOWS, STEPS, strict=True))]  # fmt: skip


def runs(work, seeds):
    def train(seed, count):
        """The model after so many phases."""

        def measure(program):
            folder, file = work / f"phases-{seed}-{count}", work / f"phases-{count}.json"
            file.write_text(json.dumps(phases()[:count]))
            (work / "phases-config.json").write_text(json.dumps(MODEL))
            program("pretrain-lm", "--config", work / "phases-config.json", character_lm.text_of(work), "--output-dir", folder,
                    "--overwrite-output-dir", "--per-device-train-batch-size", 1, "--gradient-checkpointing", "--save-strategy", "no",
                    "--seed", seed, "--phases", file)  # fmt: skip
            read = sum(steps * length for steps, length in zip(STEPS[:count], LENGTHS))
            figures = {"characters": read, "dev": bits(program, folder, 2 * LENGTHS[0])}
            if count == len(LENGTHS):
                figures["by_window"] = {window: bits(program, folder, window) for window in EVALUATED}
            return figures

        return experiment.Run({"row": f"phase {count}, {LENGTHS[count - 1]:,} characters", "seed": seed}, measure)

    return [train(seed, count) for seed in range(1, seeds + 1) for count in range(1, len(LENGTHS) + 1)]


def bits(program, folder, window):
    found = program("evaluate", folder, character_lm.text_of(folder.parent), "--part", "validation", "--window-characters", window,
                    "--step-characters", STEP, "--characters", SCORED)  # fmt: skip
    return found[-1]["metrics"]["bpc"]


def main():
    parser = experiment.options(__doc__, "phases.jsonl")
    parser.set_defaults(jobs=1)
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    character_lm.unpack_text(work)
    experiment.perform(runs(work, chosen.seeds), chosen)


if __name__ == "__main__":
    main()
