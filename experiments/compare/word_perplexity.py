#!/usr/bin/env python3
"""Perplexity of a word for five attentions, on the word-level text at hand: WikiText-2.

    LONGFORMER_DATA=data experiments/compare/word_perplexity.py [--characters 3M] [--seeds 3]

The models of bytes of language_models.py learn from the validation part of WikiText-2 (1.1 MB; its training part is not in
the data sets) and are measured on the first 131,072 bytes of the test part. Bits of all bytes are spread over the words between blanks, so that models of
bytes and published models of words compare. The trivial way is counts of six characters (baselines.py). Figures are added to
docs/results/compare_words.jsonl.
"""

import sys

import language_models
import setting
from setting import experiment

sys.path.insert(0, str(setting.ROOT / "experiments" / "paper"))
ROWS = ("window", "dense", "Transformer-XL", "Compressive", "Performer")
COUNTS = "counts of six characters"


def texts(work):
    train, test = (setting.data_sets.file(f"wikitext2_valtest/{part}.txt") for part in ("valid", "test"))
    first = work / "words-test.txt"
    first.write_bytes(test.read_bytes()[: language_models.EVALUATED])
    return train, first


def of_words(bpc, text):
    """Perplexity of a word, from bits of a byte."""
    data = text.read_bytes()
    return 2 ** (bpc * len(data) / len(data.split()))


def model(chosen, row, seed):
    def run(program):
        train, test = texts(chosen.work)
        arm = language_models.MODELS[row]
        arm = arm | {"model": arm["model"] | {"dropout": 0.2}}
        folder = language_models.train(program, chosen, language_models.named(chosen, row, seed), arm, train, chosen.characters, seed)
        bpc = language_models.bits(program, folder, test, arm)
        points, seconds = setting.curve(folder, language_models.CHARACTERS_PER_STEP)
        return {"test_bpc": bpc, "word_perplexity": round(of_words(bpc, test), 1), "curve": points, "seconds": seconds}

    return run


def counts(chosen):
    def run(_):
        from baselines import bits_of, counted

        train, test = texts(chosen.work)
        known = counted(train.read_bytes().decode("latin-1")[:chosen.characters])
        bpc = round(bits_of(test.read_bytes().decode("latin-1"), known, 256), 4)
        return {"test_bpc": bpc, "word_perplexity": round(of_words(bpc, test), 1)}

    return run


def main():
    parser = setting.options(__doc__, "compare_words.jsonl")
    parser.add_argument("--characters", type=setting.number, default=3_000_000)
    parser.add_argument("--model", choices=setting.SIZES, default="small")
    chosen = setting.start(parser)
    chosen.experiment = "words"
    texts(chosen.work)
    setting.novels(chosen.work)
    key = {"model": chosen.model, "characters": chosen.characters}
    runs = [experiment.Run(key | {"row": COUNTS, "seed": 0}, counts(chosen))]
    runs += [experiment.Run(key | {"row": row, "seed": seed}, model(chosen, row, seed)) for seed in range(1, chosen.seeds + 1) for row in ROWS]
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
