#!/usr/bin/env python3
"""Does a classifier gain from reading whole documents? Hyperpartisan news and IMDB, as in Table 8 of the paper.

    LONGFORMER_DATA=data experiments/paper/classification.py hyperpartisan BERT LONGFORMER [--seeds 5]
    LONGFORMER_DATA=data experiments/paper/classification.py imdb BERT LONGFORMER [--trained FOLDER]

BERT and LONGFORMER are the folders that `make quickstart` leaves: MiniLM, and what `longformer convert` makes of it
for 4,096 tokens. Both are fine-tuned with the same options, the first on documents cut at 512 tokens, the
second with a global first token on documents cut at 4,096; so is FOLDER, a conversion that was trained further (the
quickstart's longformer-minilm-4096). hyperpartisan: 516 articles to train and 129 to
test, one split for all seeds, which draw the head and the order. imdb: the longest of the reviews, because of
a random sample nine of ten are shorter than 512 tokens. Rows of "all reviews" train on all 25,000 (an hour of one
core for each), and are tested on the same long ones, and in bf16 on all 25,000 of the test part, as they are and cut at 512
tokens.

Figures are added to docs/results/classification.jsonl.
"""

import dataclasses
import html
import json
import lzma
import pathlib
import random
import re

import experiment
from experiment import data_sets

SPLIT_SEED = 7
TEST_ARTICLES = 129
IMDB_TRAINED, IMDB_TESTED = 400, 400
#: About 512 tokens.
LONG_CHARACTERS = 2500


@dataclasses.dataclass(frozen=True)
class Recipe:
    data: str  # a file of examples, without .jsonl
    epochs: int
    batch: int = 8
    together: int = 1  # examples in memory at a time
    rate: float = 5e-5


RECIPES = {"hyperpartisan": Recipe("hyperpartisan-train", 6), "imdb": Recipe("imdb-train", 3)}
ALL_REVIEWS = Recipe("imdb-train-all", 2, batch=16, together=8)


def write_lines(path, examples):
    path.write_text("".join(json.dumps(example) + "\n" for example in examples))


def hyperpartisan(work):
    truth = data_sets.file("hyperpartisan/ground-truth-training-byarticle-20181122.xml").read_text(encoding="utf-8")
    labels = {}
    for tag in re.findall(r"<article ([^>]*)>", truth):
        keys = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        labels[keys["id"]] = keys["hyperpartisan"]
    articles = data_sets.file("hyperpartisan/articles-training-byarticle-20181122.xml").read_text(encoding="utf-8")
    examples = []
    for attributes, body in re.findall(r"<article ([^>]*)>(.*?)</article>", articles, re.DOTALL):
        keys = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        text = html.unescape(re.sub(r"<[^>]*>", " ", body))
        text = re.sub(r"\s+", " ", html.unescape(keys.get("title", "")) + ". " + text).strip()
        examples.append({"text": text, "label": labels[keys["id"]]})
    random.Random(SPLIT_SEED).shuffle(examples)
    write_lines(work / "hyperpartisan-test.jsonl", examples[:TEST_ARTICLES])
    write_lines(work / "hyperpartisan-train.jsonl", examples[TEST_ARTICLES:])


def reviews(part):
    """All of a part, the longest first."""
    source = data_sets.file(f"imdb/imdb_{part}.tsv.xz")
    with lzma.open(source, "rt", encoding="utf-8") as stream:
        rows = [line.rstrip("\n").split("\t") for line in stream]
    rows = [row for row in rows if len(row) == 4 and row[0].lower() != "label"]
    rows.sort(key=lambda row: -len(row[3]))
    return [{"text": re.sub(r"<br */?>", " ", row[3]), "label": row[0]} for row in rows]


def imdb(work):
    for part, count in (("train", IMDB_TRAINED), ("test", IMDB_TESTED)):
        whole = reviews(part)
        for name, examples in ((part, whole[:count]), (f"{part}-all", whole)):
            random.Random(SPLIT_SEED).shuffle(examples)
            write_lines(work / f"imdb-{name}.jsonl", examples)


def labelled(path):
    """Texts and labels of a file of examples."""
    examples = [json.loads(line) for line in path.read_text().splitlines()]
    return [one["text"] for one in examples], [one["label"] for one in examples]


def by_length(texts, labels, said):
    """Accuracy of long reviews, of others and of all, and how many these are."""
    right = [(len(text), label == one) for text, label, one in zip(texts, labels, said, strict=True)]
    parts = {"long": [one for one in right if one[0] > LONG_CHARACTERS],
             "other": [one for one in right if one[0] <= LONG_CHARACTERS], "all": right}  # fmt: skip
    return {name: [sum(is_right for _, is_right in part) / len(part), len(part)] for name, part in parts.items()}


def whole_part(program, folder, work):
    """The test part by length, read whole and cut at 512 tokens."""
    data = work / "imdb-test-all.jsonl"
    parts = {}
    for name, flags in (("whole", []), ("512", ["--max-length", 512])):
        predictions = work / f"predictions-{name}.jsonl"
        program("evaluate", folder, data, "--truncate", "--dtype", "bf16", "--predictions", predictions, *flags)
        parts[name] = by_length(*labelled(data), [json.loads(line)["prediction"] for line in predictions.read_text().splitlines()])
    return {"parts": parts}


def rows(task, chosen):
    """The folder and the recipe of each row."""
    folders = {"512": chosen.bert, "4,096": chosen.longformer}
    if chosen.trained:
        folders["4,096, longformer-minilm-4096"] = chosen.trained
    found = {name: (folder, RECIPES[task]) for name, folder in folders.items()}
    if task == "imdb":
        found |= {f"{name}, all reviews": (folder, ALL_REVIEWS) for name, folder in folders.items() if name != "4,096"}
    return found


def runs(task, work, all_rows, seeds):
    def run(row, seed):
        source, recipe = all_rows[row]

        def measure(program):
            folder = work / f"{task}-{re.sub('[^0-9a-z]+', '-', row)}-{seed}"
            result = program("finetune", source, work / f"{recipe.data}.jsonl", "--task", "classify", "--truncate",
                             "--output-dir", folder, "--overwrite-output-dir", "--seed", seed, "--bf16",
                             "--num-train-epochs", recipe.epochs, "--learning-rate", recipe.rate,
                             "--per-device-train-batch-size", recipe.together,
                             "--gradient-accumulation-steps", recipe.batch // recipe.together, "--save-strategy", "no")[-1]
            scored = program("evaluate", folder, work / f"{task}-test.jsonl", "--truncate")[-1]
            figures = {"loss": result["loss"], "f1": scored["metrics"]["f1"],
                       "accuracy": scored["metrics"]["accuracy"], "truncated": scored["truncated_examples"]}  # fmt: skip
            return figures | (whole_part(program, folder, work) if recipe is ALL_REVIEWS else {})

        return experiment.Run({"experiment": task, "row": row, "seed": seed}, measure)

    return [run(row, seed) for seed in range(1, seeds + 1) for row in all_rows]


def main():
    parser = experiment.options(__doc__, "classification.jsonl")
    parser.add_argument("task", choices=tuple(RECIPES))
    parser.add_argument("bert", metavar="BERT")
    parser.add_argument("longformer", metavar="LONGFORMER")
    parser.add_argument("--trained", metavar="FOLDER")
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    {"hyperpartisan": hyperpartisan, "imdb": imdb}[chosen.task](work)
    experiment.perform(runs(chosen.task, work, rows(chosen.task, chosen), chosen.seeds), chosen)


if __name__ == "__main__":
    main()
