#!/usr/bin/env python3
"""TriviaQA's shape (Table 7 of the Longformer paper): answers that are known, not where they stand, in whole documents.

    LONGFORMER_DATA=data experiments/paper/triviaqa.py quickstart/minilm-4096

A stand-in, not TriviaQA: documents are whole SQuAD articles (their first 4,096 tokens), aliases are the texts of the
annotated answers, and right spans are found by their words. 36 articles to train, 12 to test, as in questions.py, from whose beginning
(single paragraphs) all rows start. The metric is TriviaQA's. Figures are added to docs/results/triviaqa.jsonl.
"""

import collections
import json
import math
import pathlib
import random
import re

import experiment
import questions

TRAINED, TESTED = 600, 300
# Characters of an article that 4,096 tokens of English reach, with room for the question.
REACHED = 15000
FLAGS = ["--num-train-epochs", 1, "--learning-rate", 1e-4, "--head-learning-rate", 5e-4, "--gradient-accumulation-steps", 8,
         "--warmup-ratio", 0.06, "--save-strategy", "no", "--overwrite-output-dir", "--bf16"]
ROWS = {
    "OR loss": ("trivia", "long", ["--truncate"]),
    "first match": ("trivia", "long", ["--truncate", "--answer-loss", "first"]),
    "gold span": ("qa", "gold", ["--truncate"]),
    "OR loss, substrings": ("trivia", "long", ["--truncate", "--answer-matching", "substring"]),
    "512, one softmax": ("trivia", "short", ["--stride", 128]),
    "512, a softmax for each row": ("qa", "distant", ["--stride", 128]),
}


def records(articles, generator, count):
    """Questions about whole articles in the authors' form, whose answer stands where it is read."""
    found = []
    for number, article in enumerate(articles):
        joined, begin = "\n\n".join(part["context"] for part in article["paragraphs"]), 0
        for paragraph in article["paragraphs"]:
            for one in paragraph["qas"]:
                starts = [begin + answer["answer_start"] for answer in one["answers"]]
                if min(starts) < REACHED:
                    aliases = list(dict.fromkeys(answer["text"] for answer in one["answers"]))
                    found.append({"id": one["id"], "article": number, "context": joined, "question": one["question"],
                                  "aliases": aliases, "start": starts[0], "text": one["answers"][0]["text"]})
            begin += len(paragraph["context"]) + 2
    generator.shuffle(found)
    return found[:count]


def write_data(work):
    train, test = questions.articles()
    generator = random.Random(questions.SPLIT_SEED)
    parts = {"train": records(train, generator, TRAINED), "test": records(test, generator, TESTED)}
    for part, found in parts.items():
        data = [{"paragraphs": [{"context": one["context"], "qas": [
            {"id": f"{one['id']}--article-{one['article']}.txt", "qid": one["id"], "question": one["question"],
             "aliases": one["aliases"], "answers": [{"text": one["text"], "answer_start": one["start"]}]}]}]}
            for one in found]
        (work / f"trivia-{part}.json").write_text(json.dumps({"version": "1.0", "data": data}))
    for name, with_start in (("gold", True), ("distant", False)):
        lines = [{"id": one["id"], "context": one["context"], "question": one["question"],
                  "answers": {"text": [one["text"]], "answer_start": [one["start"]]} if with_start
                  else {"text": one["aliases"]}} for one in parts["train"]]
        questions.write_lines(work / f"trivia-{name}.jsonl", lines)
    return parts["test"]


def likely_name(one):
    """The trivial way: of the sentence with most (rare) words of the question, the longest name or number that the question has not."""
    sentences = re.split(r"(?<=[.!?])\s+", one["context"][:REACHED])
    words = [set(re.findall(r"[a-z0-9]+", sentence.lower())) for sentence in sentences]
    having = collections.Counter(word for those in words for word in those)
    asked = set(re.findall(r"[a-z0-9]+", one["question"].lower()))
    rarity = [sum(math.log(1 + len(sentences) / having[word]) for word in asked & those) for those in words]
    names = re.findall(r"\b(?:[A-Z][\w'-]*|\d[\d,.]*)(?: (?:[A-Z][\w'-]*|\d[\d,.]*))*", sentences[rarity.index(max(rarity))])
    return max((name for name in names if name.lower() not in one["question"].lower()), key=len, default="")


def trivial(work, test):
    def measure(program):
        said = work / "trivia-names.json"
        said.write_text(json.dumps({one["id"]: likely_name(one) for one in test}))
        return measured(program("evaluate", "--score", said, work / "trivia-test.json"))

    return experiment.Run({"row": "a name in the likeliest sentence", "seed": 0}, measure)


def measured(printed):
    metrics = printed[-1]["metrics"]
    return {name: round(metrics[name], 3) for name in ("f1", "exact_match")}


def runs(work, long, short, test, seeds):
    def run(row, seed):
        task, data, flags = ROWS[row]

        def measure(program):
            source = short if "512" in row else long
            file = work / ("trivia-train.json" if task == "trivia" else f"trivia-{data}.jsonl")
            folder = work / f"trivia-{''.join(filter(str.isalnum, row))}-{seed}"
            if not (folder / "model.safetensors").exists():
                program("finetune", source, file, "--task", task, "--output-dir", folder, "--seed", seed, *FLAGS, *flags)
            read = ["--stride", 128] if "512" in row else ["--truncate"]
            return measured(program("evaluate", folder, work / "trivia-test.json", "--task", "trivia", "--dtype", "bf16",
                                    *read))

        return experiment.Run({"row": row, "seed": seed}, measure)

    return [trivial(work, test), *(run(row, seed) for seed in range(1, seeds + 1) for row in ROWS)]


def main():
    parser = experiment.options(__doc__, "triviaqa.jsonl")
    parser.add_argument("model", help="folder of MiniLM's conversion to 4,096 tokens")
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    test = write_data(work)
    program = experiment.Program(chosen.binary, experiment.all_cores())
    begun, short = questions.beginnings(program, work, chosen.model)
    experiment.perform(runs(work, begun, short, test, chosen.seeds), chosen)


if __name__ == "__main__":
    main()
