#!/usr/bin/env python3
"""Words with labels from a plain text and lists of names: training data for `finetune --task ner`.

    examples/tasks/label_names.py NOVEL --person Holmes,Watson --place London,Dartmoor FOLDER

writes FOLDER/train.conll and FOLDER/test.conll, every fifth sentence: a word and its label on each line, an empty line
behind each sentence. Names of several words may be given as Baker_Street. Sentences without a name are left out.
"""

import argparse
import pathlib
import re


def labels_of(words, names):
    """B- and I- labels where a run of words is a name, the longest first."""
    labels = ["O"] * len(words)
    for kind, name in sorted(names, key=lambda one: -len(one[1])):
        for at in range(len(words) - len(name) + 1):
            if words[at : at + len(name)] == name and all(label == "O" for label in labels[at : at + len(name)]):
                labels[at : at + len(name)] = [f"B-{kind}"] + [f"I-{kind}"] * (len(name) - 1)
    return labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("novel", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--person", default="")
    parser.add_argument("--place", default="")
    chosen = parser.parse_args()
    names = [(kind, name.split("_")) for kind, given in (("PER", chosen.person), ("LOC", chosen.place))
             for name in given.split(",") if name]  # fmt: skip
    text = " ".join(chosen.novel.read_text(encoding="utf-8").split())
    rows = []
    for sentence in re.split(r"(?<=[.!?]) +", text):
        words = re.findall(r"\w+(?:[’'-]\w+)*|[^\w\s]", sentence)
        labels = labels_of(words, names)
        if any(label != "O" for label in labels):
            rows.append("".join(f"{word} {label}\n" for word, label in zip(words, labels, strict=True)))
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", [row for at, row in enumerate(rows) if at % 5]), ("test", rows[::5])):
        (chosen.folder / f"{name}.conll").write_text("\n".join(part), encoding="utf-8")
        print(f"{chosen.folder / name}.conll: {len(part)} sentences")


if __name__ == "__main__":
    main()
