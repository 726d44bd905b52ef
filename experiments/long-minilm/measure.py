#!/usr/bin/env python3
"""How well a model finds the passages of the validation part of texts.py, or of SQuAD and COVID-QA.

    experiments/long-minilm/measure.py FOLDER MODEL… [--context document|none] [--test] [--every 3]

FOLDER is that of texts.py; the questions of HotpotQA are of $LONGFORMER_DATA. Every question is searched among the
paragraphs of all articles, and of its own; with --context document a paragraph is pooled from the states of its whole
article. Then articles, one vector each, are asked for by a paragraph that was taken out of them (R@1). --test measures
what the settings were not chosen by: SQuAD and COVID-QA of $LONGFORMER_DATA. One JSON line for each model.
"""

import argparse
import json
import lzma
import os
import pathlib
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments" / "retrieval"))

import passages  # noqa: E402
import run  # noqa: E402
from run import data_sets  # noqa: E402


def validation(folder):
    """The validation part in the form of SQuAD's."""
    held = json.loads((folder / "validation.json").read_text(encoding="utf-8"))
    questions = [passages.Question(one["text"], one["article"], one["paragraph"], one["paragraph"] + 1)
                 for one in held["questions"]]
    return passages.Squad.of(held["articles"], questions)


def asked_by_people(file, most=300):
    """HotpotQA's questions and paragraphs, each of which is a document: whether it helps people's questions too."""
    rows = json.loads(lzma.open(file, "rt", encoding="utf-8").read())[:most]
    paragraphs = {}
    questions = []
    for row in rows:
        for title, sentences in row["context"]:
            paragraphs.setdefault((title, "".join(sentences)), len(paragraphs))
        gold = {title for title, _ in row["supporting_facts"]}
        questions += [passages.Question(row["question"], paragraphs[title, "".join(sentences)], 0, 1)
                      for title, sentences in row["context"] if title in gold]
    return passages.Squad.of([[text] for _, text in paragraphs], questions)


def figures(task, program, model, context, extra):
    if isinstance(task, passages.CovidQA):
        vectors = task.embed(program, model, context, *extra)
    else:
        # One paragraph alone is its own document.
        alone = context == "none" or len(task.articles) == len(task.passages)
        vectors = (task.alone(program, model) if alone
                   else task.in_context(program, model, *extra))
    asked, _ = program.embed(model, [question.text for question in task.questions])
    return [round(value, 4) for value in task.figures(asked @ vectors.T)]


def whole_articles(file, program, model):
    """R@1 of articles, one vector each, asked for by a paragraph that was taken out."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    asked, _ = program.embed(model, [row["anchor"] for row in rows])
    articles, _ = program.embed(model, [row["positive"] for row in rows], "--truncate")
    return round(run.recall_at_1(asked @ articles.T), 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--context", choices=["document", "none"], default="document")
    parser.add_argument("--global-attention", help="of documents that are read whole, as embed has it")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--every", type=int, default=3, help="every so manieth question of SQuAD and COVID-QA")
    parser.add_argument("--dtype", default="bf16")
    options = parser.parse_args()
    extra = ["--global-attention", options.global_attention] if options.global_attention else []
    if not options.test:
        data = data_sets.folder("tasks/hotpotqa_train.json.xz")
        tasks = {"validation": validation(options.folder),
                 "hotpotqa": asked_by_people(data / "tasks" / "hotpotqa_train.json.xz")}
    else:
        data = data_sets.folder("squad/dev-v1.1.json", "covidqa/*.json")
        tasks = {"squad": passages.Squad(data / "squad" / "dev-v1.1.json", options.every),
                 "covidqa": passages.CovidQA(next((data / "covidqa").glob("*.json")), options.every)}
    binary = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
    for model in options.models:
        with tempfile.TemporaryDirectory() as scratch:
            program = run.Program(binary, scratch, options.dtype)
            found = {name: figures(task, program, model, options.context, extra) for name, task in tasks.items()}
            if not options.test:
                found["articles"] = whole_articles(options.folder / "validation-articles.jsonl", program, model)
        print(json.dumps({"model": model, "context": options.context} | found), flush=True)


if __name__ == "__main__":
    main()
