#!/usr/bin/env python3
"""A day with a table of 2,000 long documents: examples/day/day.sh beside the same steps in pandas and scikit-learn.

    LONGFORMER_DATA=data experiments/tables/day.py MODEL [--work FOLDER] [--epochs 2] [--rows words,program]

The documents are the longest reviews of IMDB: 1,600 of its training part, 400 of its test part, as many of each class.
MODEL is a folder of an encoder, as quickstart/longformer-minilm-4096. The Python that runs this has pandas and
scikit-learn (requirements/test.txt). Prints accuracy, the lines that a user writes, and seconds of each step on the clock (and
on the processors, where a busy machine counts little).
"""

import argparse
import csv
import lzma
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import data_sets

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "day"
STEPS = ("look", "train", "publish", "measure", "label", "explain", "index", "search", "serve")


def longest(part, count):
    """The longest reviews, half of them of each class, in the order of the file."""
    with lzma.open(data_sets.file(f"imdb/imdb_{part}.tsv.xz"), "rt", encoding="utf-8") as lines:
        reviews = [line.rstrip("\n").split("\t") for line in lines]
    reviews = [review for review in reviews if review[0] in ("pos", "neg")]
    chosen = set()
    for label in ("pos", "neg"):
        of_class = [place for place, review in enumerate(reviews) if review[0] == label]
        chosen |= set(sorted(of_class, key=lambda place: -len(reviews[place][3].split()))[: count // 2])
    return [reviews[place] for place in sorted(chosen)]


def write_table(path, part, count):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "label"])
        for number, (label, _, _, text) in enumerate(longest(part, count)):
            writer.writerow([f"{part}-{number}", text, label])


def lines_of(script):
    """Lines that a user writes: neither empty, nor a comment, nor the clock."""
    text = script.read_text(encoding="utf-8").split('"""\n')
    lines = [line.strip() for line in (text[0] if len(text) == 1 else text[-1]).splitlines()]
    return sum(bool(line) and not line.startswith(("#", "step(", "end =", "begin", "print(\"step", "def step")) for line in lines)


def run(command, environment):
    """Seconds of each step, on the clock and on the processors."""
    done = subprocess.run([str(word) for word in command], env=os.environ | environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    print(done.stdout[-3000:], flush=True)
    steps = (line.split("\t")[1:] for line in done.stderr.splitlines() if line.startswith("step\t"))
    return {name: (float(clock), float(processors)) for name, clock, processors in steps}


def accuracy(classes, test):
    """Share of documents whose class has the best score in a table of scores."""
    with open(test, newline="", encoding="utf-8") as file:
        right = {row["id"]: row["label"] for row in csv.DictReader(file)}
    with open(classes, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = [max(("pos", "neg"), key=lambda label: float(row.get(label) or row[f"score_{label}"])) == right[row["id"]] for row in rows]
    assert len(found) == len(right)
    return sum(found) / len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("day"))
    parser.add_argument("--epochs", default="2")
    parser.add_argument("--rows", default="words,program")
    chosen = parser.parse_args()
    chosen.work.mkdir(parents=True, exist_ok=True)
    train, test = chosen.work / "train.csv", chosen.work / "test.csv"
    write_table(train, "train", 1600)
    write_table(test, "test", 400)

    binary = os.environ.get("LONGFORMER_BINARY", ROOT / "build" / "longformer")
    commands = {
        "words": [sys.executable, EXAMPLES / "words.py", train, test],
        "program": [EXAMPLES / "day.sh", chosen.model, train, test],
    }
    table = [f"| row | accuracy | lines | seconds in all | {' | '.join(STEPS)} |", "|---" * (4 + len(STEPS)) + "|"]
    for row in chosen.rows.split(","):
        seconds = run([*commands[row], chosen.work / row], {"LONGFORMER_BINARY": str(binary), "EPOCHS": chosen.epochs})
        cells = ["{:.1f} ({:.1f})".format(*seconds[step]) if step in seconds else "–" for step in STEPS]
        script = EXAMPLES / ("words.py" if row == "words" else "day.sh")
        whole = f"{sum(clock for clock, _ in seconds.values()):.0f} ({sum(both for _, both in seconds.values()):.0f})"
        share = accuracy(chosen.work / row / "classes.csv", test)
        table.append(f"| {row} | {share:.3f} | {lines_of(script)} | {whole} | {' | '.join(cells)} |")
    print("\n".join(table))


if __name__ == "__main__":
    main()
