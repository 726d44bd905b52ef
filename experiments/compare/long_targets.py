#!/usr/bin/env python3
"""Long texts with a decoder that sees means of a document's tokens instead of all: what does a text lose, what does it save?

    experiments/compare/long_targets.py [--target 1024] [--first-steps 5000] [--steps 400] [--seeds 3]

Documents are made: 8,192 words of noise with 512 or 2,048 facts at random places. A fact is a name and its value, one of 64 words. The text to
write is all names in their order, each with its value: 1,024 or 4,096 words. So a name follows from the name before, and a value has to be looked up.
Rows begin from small models (2 + 2 layers of 64, window 16) that have learned this in documents of 128 words with 16 facts: with means of as many
tokens as in the long documents, or, "late", with all tokens. `convert` repeats their positions. Each row then learns --steps steps of two long documents.
Figures: the shares of names and of values that 20 texts about other documents have right; the model writes them by itself. Added to
docs/results/compare_long_targets.jsonl.
"""

import json
import pathlib
import random

import setting
from setting import experiment

import longer_input  # noqa: E402 (setting has added its folder)

SHORT, LONG = longer_input.SHORT, longer_input.LONG
SHORT_FACTS = 16
TARGETS = {1024: 512, 4096: 2048}
MEANS = {"4,096 means": 4096, "1,024 means": 1024, "256 means": 256}
LATE = ", late"
ROWS = ("all tokens", *MEANS, *(name + LATE for name in MEANS))
SHORT_DOCUMENTS, LONG_DOCUMENTS, TESTS = 20000, 1000, 20
NAMES = [a + b + c for a in longer_input.SYLLABLES[:8] for b in longer_input.SYLLABLES for c in longer_input.SYLLABLES]


def document(generator, words, facts):
    """Noise with facts at random places: a run of names in their order, of which a long document holds the first ones."""
    first = 0 if words == LONG else generator.randrange(max(TARGETS.values()) - facts)
    names = NAMES[first:first + facts]
    values = generator.choices(longer_input.VALUES, k=facts)
    text = longer_input.with_facts(generator, generator.choices(longer_input.NOISE, k=words - facts), names, values)
    return {"text": " " + " ".join(text), "summary": "".join(f" {name} {value}" for name, value in zip(names, values, strict=True))}


def write_data(work):
    generator = random.Random(7)
    for name, words, facts, count in (("short", SHORT, SHORT_FACTS, SHORT_DOCUMENTS),
                                      *((f"{kind}-{target}", LONG, facts, number) for target, facts in TARGETS.items()
                                        for kind, number in (("long", LONG_DOCUMENTS), ("test", TESTS)))):  # fmt: skip
        path = work / f"targets-{name}.jsonl"
        setting.written(path, lambda: "".join(json.dumps(document(generator, words, facts)) + "\n" for _ in range(count)))


def beginning(program, work, rows, seed, steps):
    """A model that has learned the task in short documents, of which its decoder sees so many rows."""
    folder = work / f"targets-first-{rows or 'all'}"
    trained = work / f"{folder.name}-{seed}"
    if not (trained / "model.safetensors").exists():
        keys = {"cross_attention_rows": rows} if rows else {}
        longer_input.write_folder(folder, longer_input.LEXICON + NAMES, max_decoder_position_embeddings=max(TARGETS) + 2, **keys)
        longer_input.train(program, folder, work / "targets-short.jsonl", trained, seed,
                           ["--max-steps", steps, "--learning-rate", 1e-3, "--per-device-train-batch-size", 16])  # fmt: skip
    return trained


def right(predictions):
    """The shares of right words at the places of names and of values."""
    counts, total = [0, 0], 0
    for line in predictions.read_text().splitlines():
        row = json.loads(line)
        expected, written = row["target"].split(), row["prediction"].split()
        total += len(expected) // 2
        for at, (word, found) in enumerate(zip(expected, written)):  # noqa: B905 (a text may end early)
            counts[at % 2] += word == found
    return {kind: round(count / total, 4) for kind, count in zip(("names", "values"), counts, strict=True)}


def measure(work, row, target, seed, chosen):
    def run(program):
        rows = MEANS.get(row.removesuffix(LATE))
        first = beginning(program, work, rows // (LONG // SHORT) if row in MEANS else None, seed, chosen.first_steps)
        name = f"targets-{target}-{row.replace(',', '').replace(' ', '-')}-{seed}"
        source, trained, predictions = work / name, work / f"{name}-trained", work / f"{name}.jsonl"
        flags = ["--cross-attention-rows", rows] if rows else []
        program("convert", first, source, "--max-positions", LONG + 2, "--overwrite", *flags)
        longer_input.train(program, source, work / f"targets-long-{target}.jsonl", trained, seed,
                           ["--max-steps", chosen.steps, "--learning-rate", 1e-3, "--per-device-train-batch-size", 2])  # fmt: skip
        program("evaluate", trained, work / f"targets-test-{target}.jsonl", "--truncate", "--max-length", target + 2,
                "--predictions", predictions)  # fmt: skip
        return right(predictions)

    return run


def main():
    parser = setting.options(__doc__, "compare_long_targets.jsonl")
    parser.add_argument("--first-steps", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--target", type=int, choices=TARGETS, action="append", help="only texts of so many words; may be repeated")
    parser.set_defaults(seeds=3)
    chosen = setting.start(parser)
    write_data(chosen.work)
    experiment.perform([experiment.Run({"target": target, "row": row, "seed": seed}, measure(chosen.work, row, target, seed, chosen))
                        for seed in range(1, chosen.seeds + 1) for target in chosen.target or TARGETS for row in ROWS], chosen)


if __name__ == "__main__":
    main()
