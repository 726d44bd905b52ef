#!/usr/bin/env python3
"""Use of memories, and the facts that can be read from them.

    LONGFORMER_DATA=data experiments/compare/remembered.py [--characters 40M] [--model medium]

Takes the models of `language_models.py shares` with the same --characters (and trains those that are missing).
losses: bits of a word of an unread novel by how often the training text has it and by the distance to where the novel had it
last, for each model. probes: from a row of each layer's memory, softmax regressions tell its character, from
a compressed row each of its characters, from both the word they end in; half of the novel is for learning that, the other for testing.
What a row gets of the attention by its class is not measured: the program adds up attention by age only.
Needs numpy, safetensors and torch. Figures are added to docs/results/compare_remembered.jsonl.
"""

import collections
import json
import re
import shutil

import language_models
import numpy
import setting
import torch
from language_models import SHARES, SIZES, prefix, train
from safetensors.numpy import load_file
from setting import experiment

TEXT_BYTES = 400_000
STREAMS, SEGMENT = 32, 128
# Segments between two looks at the memories.
EVERY = 8
RARE = (100, 1_000, 10_000)
NEAR = (128, 512, 2_048, 8_192, 32_768)
WORD = re.compile(rb"[A-Za-z]+")


def novel(work):
    path = work / "novels-remembered.txt"
    if not path.exists():
        path.write_bytes(setting.novels(work)[1].read_bytes()[-TEXT_BYTES:])
    return path


def class_of(value, bounds, below, behind):
    return next((below.format(bound) for bound in bounds if value < bound), behind.format(bounds[-1]))


def words_with_classes(text, counts):
    """(begin, end, names of its classes) of every word behind the first character, which has no loss."""
    last = {}
    for match in WORD.finditer(text):
        begin, word = match.start(), match[0].lower()
        ago = class_of(begin - last[word], NEAR, "again within {:,}", "again after {:,}") if word in last else "the first time"
        last[word] = begin
        if begin > 0:
            times = class_of(counts[word], RARE, "in the training text below {:,}", "in the training text {:,} or more")
            yield begin, match.end(), ("all", times, ago)


def of_losses(chosen):
    """Mean bits of a word, by classes."""

    def run(program):
        training = prefix(chosen.work, SIZES[-1]).read_bytes()
        counts = collections.Counter(word.lower() for word in WORD.findall(training))
        bits = {}
        for row, arm in SHARES.items():
            file = chosen.work / "losses.jsonl"
            program("evaluate", model(program, chosen, row, arm), novel(chosen.work), "--losses", file)
            bits[row] = numpy.array([json.loads(line)["loss"] for line in file.open()]) / numpy.log(2)
        sums = {}
        for begin, end, classes in words_with_classes(novel(chosen.work).read_bytes(), counts):
            for name in classes:
                entry = sums.setdefault(name, {"words": 0} | dict.fromkeys(bits, 0.0))
                entry["words"] += 1
                for row, each in bits.items():
                    entry[row] += each[begin - 1:end - 1].sum()
        return {"bits": {name: {"words": entry["words"]} | {row: round(entry[row] / entry["words"], 4) for row in bits}
                         for name, entry in sums.items()}}  # fmt: skip

    return run


def model(program, chosen, row, arm):
    text = prefix(chosen.work, SIZES[-1])
    return train(program, chosen, language_models.named(chosen, row, 1), arm, text, chosen.characters, 1,
                 ["--attention-shares"])  # fmt: skip


def looks(program, chosen, folder):
    """Checkpoints of a training that changes nothing: each holds the memories of all streams."""
    source, target = chosen.work / "remembered-model", chosen.work / "remembered-states"
    for path in (source, target):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(folder, source, ignore=shutil.ignore_patterns("checkpoint-*", "runs"))
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"dropout": 0.0, "attention_dropout": 0.0}))
    steps = TEXT_BYTES * 9 // 10 // STREAMS // SEGMENT // EVERY * EVERY
    program("pretrain-lm", source, novel(chosen.work), "--output-dir", target, "--learning-rate", 0, "--max-steps", steps,
            "--per-device-train-batch-size", STREAMS, "--save-steps", EVERY, "--save-total-limit", steps)  # fmt: skip
    return [target / f"checkpoint-{step}" for step in range(2 * EVERY, steps + 1, EVERY)]


def accuracy(rows, labels, learning):
    """Accuracy of a softmax regression over the frequent classes, and of always choosing the most frequent one."""
    names, counts = numpy.unique(labels[learning], return_counts=True)
    names = names[counts >= 30]
    known = numpy.isin(labels, names)
    rows, labels, learning = rows[known], numpy.searchsorted(names, labels[known]), learning[known]
    x, y = torch.from_numpy(rows), torch.from_numpy(labels)
    x = (x - x[learning].mean(0)) / (x[learning].std(0) + 1e-6)
    torch.manual_seed(1)
    probe = torch.nn.Linear(x.shape[1], len(names))
    optimizer = torch.optim.AdamW(probe.parameters(), lr=0.02, weight_decay=1e-2)
    own_x, own_y = x[learning], y[learning]
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(probe(own_x), own_y).backward()
        optimizer.step()
    test = ~learning
    right = (probe(x[test]).argmax(1) == y[test]).float().mean().item()
    usual = numpy.bincount(labels[learning]).argmax()
    return round(right, 4), round((labels[test] == usual).mean().item(), 4)


def words_at(text):
    """For every byte a number of the word that it is in or behind; -1 where there is none before."""
    numbers, found = numpy.full(len(text), -1), {}
    spans = [(match.start(), found.setdefault(match[0].lower(), len(found))) for match in WORD.finditer(text)]
    for at, (begin, number) in enumerate(spans):
        numbers[begin:spans[at + 1][0] if at + 1 < len(spans) else len(text)] = number
    return numbers


def of_probes(chosen, row):
    def run(program):
        arm = SHARES[row]
        folders = looks(program, chosen, model(program, chosen, row, arm))
        text = novel(chosen.work).read_bytes()
        data, words = numpy.frombuffer(text, numpy.uint8), words_at(text)
        # The first nine tenths of a text are for training, cut into as many streams as there are rows.
        stream = (len(text) * 9 // 10 - 1) // STREAMS
        rate = json.loads((folders[0] / "config.json").read_text()).get("compression_rate", 4)
        states = [(load_file(folder / "state.safetensors"), json.loads((folder / "state.json").read_text())["tokens"][0])
                  for folder in folders]  # fmt: skip
        layers = len(json.loads((folders[0] / "state.json").read_text())["layers"])
        figures = {"memory": [], "memory_word": [], "compressed": [], "compressed_word": []}
        for layer in range(layers):
            recent, compressed, ends, older, learns, learns_older = [], [], [], [], [], []
            for tensors, read in states:
                kept = tensors[f"layers.{layer}.0"].reshape(STREAMS, -1, tensors[f"layers.{layer}.0"].shape[1])
                packed = tensors[f"layers.{layer}.1"].reshape(STREAMS, -1, kept.shape[2])
                for at in range(STREAMS):
                    end = at * stream + read
                    recent.append(kept[at])
                    ends.append(numpy.arange(end - kept.shape[1], end))
                    compressed.append(packed[at])
                    # The last character of each compressed row.
                    older.append(end - kept.shape[1] - rate * numpy.arange(packed.shape[1])[::-1] - 1)
                    learns.append(numpy.full(kept.shape[1], at % 2 == 0))
                    learns_older.append(numpy.full(packed.shape[1], at % 2 == 0))
            rows, ends, learns = map(numpy.concatenate, (recent, ends, learns))
            figures["memory"].append(accuracy(rows, data[ends], learns))
            figures["memory_word"].append(accuracy(rows, words[ends], learns))
            if layer == 0 and figures["memory"][0][0] < 0.99:
                raise RuntimeError("the rows of the first layer are the characters themselves: their places are wrong")
            rows, older, learns = map(numpy.concatenate, (compressed, older, learns_older))
            if len(rows):
                figures["compressed"].append([accuracy(rows, data[older - back], learns) for back in range(rate)[::-1]])
                figures["compressed_word"].append(accuracy(rows, words[older], learns))
        return figures | {"rows": len(ends)}

    return run


def main():
    parser = setting.options(__doc__, "compare_remembered.jsonl")
    parser.add_argument("--characters", type=setting.number, default=language_models.CHARACTERS["shares"])
    parser.add_argument("--model", choices=setting.SIZES, default="small")
    chosen = setting.start(parser)
    setting.novels(chosen.work)
    chosen.experiment = "shares"
    key = {"model": chosen.model, "characters": chosen.characters}
    runs = [experiment.Run(key | {"row": "losses"}, of_losses(chosen))]
    runs += [experiment.Run(key | {"row": f"probes of {row}"}, of_probes(chosen, row)) for row in SHARES]
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
