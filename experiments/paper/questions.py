#!/usr/bin/env python3
"""The WikiHop ablation of the Longformer paper (Table 10), as questions about whole SQuAD articles.

    LONGFORMER_DATA=data experiments/paper/questions.py

It begins with the models that masked_lm.py leaves in the --work folder (mlm-512, mlm-4096, mlm-updates-1,
mlm-positions-1). The paragraphs of an article are joined; a question has up to 2,048 tokens of it around its
answer, at a random place. 36 articles are for training, 12 for testing, one split for all seeds.

Six layers of 384 do not learn to answer from a few hundred long examples. So each beginning is first trained once on
questions about single paragraphs (question tokens are global, with the projections of all others), and then
in each row for the same number of long examples. With 512 tokens, a model reads the same text in segments that overlap by
128. Figures are added to docs/results/questions.jsonl.
"""

import json
import pathlib
import random

import experiment
from experiment import data_sets

SPLIT_SEED = 11
TEST_ARTICLES = 12
SHORT_QUESTIONS, LONG_QUESTIONS, TEST_QUESTIONS = 6000, 160, 150
# Characters of an article around the answer: with the question, under 2,048 tokens of English.
LONG_CHARACTERS = 7600
# Learning rates: on short questions 2e-4 leaves a loss of 2.5 after half an epoch, 5e-5 one of 3.1.
SHORT_RATE, LONG_RATE = 2e-4, 1e-4


def articles():
    source = data_sets.file("squad/dev-v1.1.json")
    data = json.loads(source.read_text(encoding="utf-8"))["data"]
    random.Random(SPLIT_SEED).shuffle(data)
    return data[TEST_ARTICLES:], data[:TEST_ARTICLES]


def short_examples(data):
    for article in data:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield {"id": question["id"], "context": paragraph["context"], "question": question["question"],
                       "answers": answers(question["answers"], 0)}


def answers(found, moved):
    return {"text": [answer["text"] for answer in found],
            "answer_start": [answer["answer_start"] + moved for answer in found]}


def long_examples(data, generator):
    """A piece of the joined article that holds all annotations of the answer."""
    for article in data:
        joined = "\n\n".join(paragraph["context"] for paragraph in article["paragraphs"])
        begin = 0
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                places = [begin + answer["answer_start"] for answer in question["answers"]]
                ends = [place + len(answer["text"]) for place, answer in zip(places, question["answers"])]
                least = max(0, max(ends) - LONG_CHARACTERS)
                most = min(min(places), max(0, len(joined) - LONG_CHARACTERS))
                first = generator.randint(min(least, most), max(least, most))
                first = 0 if first == 0 else joined.find(" ", first) + 1
                if first > min(places):
                    continue
                yield {"id": question["id"], "context": joined[first:first + LONG_CHARACTERS],
                       "question": question["question"], "answers": answers(question["answers"], begin - first)}
            begin += len(paragraph["context"]) + 2


def write_lines(path, examples):
    path.write_text("".join(json.dumps(example) + "\n" for example in examples))


def write_data(work):
    train, test = articles()
    generator = random.Random(SPLIT_SEED)
    short, long = list(short_examples(train)), list(long_examples(train, generator))
    tested = list(long_examples(test, generator))
    for name, examples, count in (("short", short, SHORT_QUESTIONS), ("long", long, LONG_QUESTIONS),
                                  ("test", tested, TEST_QUESTIONS)):
        generator.shuffle(examples)
        write_lines(work / f"questions-{name}.jsonl", examples[:count])


def train(program, source, target, data, flags):
    if not (target / "model.safetensors").exists():
        program("finetune", source, data, "--task", "qa", "--output-dir", target, "--overwrite-output-dir",
                "--num-train-epochs", 1, "--gradient-accumulation-steps", 8, "--warmup-ratio", 0.06,
                "--save-strategy", "no", "--bf16", *flags)
    return target


def beginning(program, work, name, source):
    """A model that answers questions about paragraphs; what all rows of a source begin with."""
    return train(program, source, work / f"questions-{name}", work / "questions-short.jsonl",
                 ["--shared-global-projections", "--learning-rate", SHORT_RATE, "--head-learning-rate", 5 * SHORT_RATE,
                  "--stride", 128, "--seed", 1])


def converted(program, source, target, flags):
    if not target.exists():
        program("convert", source, target, *flags)
    return target


def beginnings(program, work, model):
    """The trained beginning of a conversion to 4,096 tokens, and its form as a model of 512 with n² attention, for
    other scripts."""
    write_data(work)
    begun = beginning(program, work, "beginning", pathlib.Path(model))
    return begun, converted(program, begun, work / "questions-beginning-512", ["--max-positions", 512, "--window", 1024])


SEGMENTS = ["--stride", 128]
ROWS = {
    "2,048": ("updates", []),
    "2,048, no projections of their own": ("updates", ["--shared-global-projections"]),
    "2,048, no global attention": ("updates", ["--global-attention", "none"]),
    "2,048, no masked-LM updates": ("none", []),
    "2,048, only the new positions updated": ("positions", []),
    "512": ("short", SEGMENTS),
    "512, n² attention": ("full", SEGMENTS),
}


def prepare(program, work):
    """The folders that rows begin with, by name."""
    sources = {"updates": work / "mlm-updates-1", "positions": work / "mlm-positions-1", "none": work / "mlm-4096"}
    begun = {name: beginning(program, work, name, source) for name, source in sources.items()}
    begun["short"] = converted(program, begun["updates"], work / "questions-512", ["--max-positions", 512])
    begun["full"] = converted(program, begun["updates"], work / "questions-full",
                              ["--max-positions", 512, "--window", 1024])
    return begun


def runs(work, begun, seeds):
    def run(row, seed):
        source, flags = ROWS[row]

        def measure(program):
            name = "".join(letter for letter in row if letter.isalnum())
            folder = train(program, begun[source], work / f"questions-{name}-{seed}", work / "questions-long.jsonl",
                           ["--learning-rate", LONG_RATE, "--seed", seed, *flags])
            read = [flag for flag in flags if flag != "--shared-global-projections"]
            metrics = program("evaluate", folder, work / "questions-test.jsonl", *read)[-1]["metrics"]
            return {"f1": metrics["f1"], "exact_match": metrics["exact_match"]}

        return experiment.Run({"row": row, "seed": seed}, measure)

    return [run(row, seed) for seed in range(1, seeds + 1) for row in ROWS]


def main():
    chosen = experiment.options(__doc__, "questions.jsonl").parse_args()
    work = pathlib.Path(chosen.work)
    write_data(work)
    begun = prepare(experiment.Program(chosen.binary, experiment.all_cores()), work)
    experiment.perform(runs(work, begun, chosen.seeds), chosen)


if __name__ == "__main__":
    main()
