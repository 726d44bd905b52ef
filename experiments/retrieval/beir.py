#!/usr/bin/env python3
"""How well does a search find the paragraph of SQuAD that a question was asked of? Written as a folder in the layout
of BEIR and measured by `longformer evaluate --task retrieval`, by meaning, by words, and by both.

    LONGFORMER_DATA=data experiments/retrieval/beir.py MODEL FOLDER [--every 3] [--titles] [--output table.md]

writes FOLDER/corpus.jsonl, queries.jsonl and qrels/test.tsv of $LONGFORMER_DATA/squad/dev-v1.1.json, which other
programs read too, and keeps the index of MODEL in FOLDER/index; so a second run only searches. The questions are
those of fusion.py.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import passages
import run
from run import data_sets

FIGURES = {"recall_at_1": "R@1", "recall_at_5": "R@5", "recall_at_100": "R@100", "ndcg_at_10": "nDCG@10",
           "mrr_at_10": "MRR@10", "map": "MAP"}


def write_lines(file, objects):
    with open(file, "w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in objects)


def write_beir(file, every, titles, folder):
    """The paragraphs as a corpus, so manieth question as queries, and the paragraph of each as its judgement."""
    articles, questions = passages.read_squad(file, every)
    names = [entry["title"].replace("_", " ") if titles else ""
             for entry in json.loads(file.read_text(encoding="utf-8"))["data"]]
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    write_lines(folder / "corpus.jsonl",
                ({"_id": f"{article}-{number}", "title": names[article], "text": text}
                 for article, texts in enumerate(articles) for number, text in enumerate(texts)))
    write_lines(folder / "queries.jsonl",
                ({"_id": f"q{number}", "text": question.text} for number, question in enumerate(questions)))
    with open(folder / "qrels" / "test.tsv", "w", encoding="utf-8") as stream:
        stream.write("query-id\tcorpus-id\tscore\n")
        stream.writelines(f"q{number}\t{question.document}-{question.begin}\t1\n"
                          for number, question in enumerate(questions))


def evaluate(binary, model, folder, mode, dtype):
    command = [binary, "evaluate", model, folder, "--task", "retrieval", "--mode", mode, "--index", folder / "index",
               "--dtype", dtype, "--json"]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a sentence-embedding model")
    parser.add_argument("folder", type=pathlib.Path, help="where the data set goes")
    parser.add_argument("--every", type=int, default=3, help="every so manieth question (3)")
    parser.add_argument("--titles", action="store_true", help="with the title of the article before each paragraph")
    parser.add_argument("--dtype", choices=["fp32", "bf16", "int8"], default="bf16")
    parser.add_argument("--output", help="also write the table to this file")
    return parser.parse_args()


def main():
    options = arguments()
    data = data_sets.folder("squad/dev-v1.1.json")
    binary = os.environ.get("LONGFORMER_BINARY", str(run.ROOT / "build" / "longformer"))
    squad = data / "squad" / "dev-v1.1.json"
    write_beir(squad, options.every, options.titles, options.folder)
    lines = [f"| found by | {' | '.join(FIGURES.values())} | seconds |", "|---" * (len(FIGURES) + 2) + "|"]
    for mode in ("dense", "lexical", "hybrid"):
        report = evaluate(binary, options.model, options.folder, mode, options.dtype)
        cells = " | ".join(f"{report['metrics'][name]:.3f}" for name in FIGURES)
        lines.append(f"| {mode} | {cells} | {report['seconds']:.1f} |")
    lines.append(f"\n{report['examples']:,} questions, {report['documents']:,} paragraphs.")
    table = "\n".join(lines)
    print(table)
    if options.output:
        pathlib.Path(options.output).write_text(table + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
