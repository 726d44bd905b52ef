#!/usr/bin/env python3
"""Does a whole document in one model find more than its beginning, or its pieces one by one?

articles   From each of 160 Wikipedia articles of more than 9,000 characters, one paragraph of the second
           half is taken out and becomes the query; the article it came from must be found among all 160.
passages   The paragraph of SQuAD, or the piece of a COVID-QA paper, that answers a question (passages.py).

Both compare what a 512-token BERT can do with the Longformer that `longformer convert` makes of it.

    experiments/retrieval/run.py BERT LONGFORMER [--task articles|passages|all] [--output table.md]

BERT and LONGFORMER are folders: `make quickstart` leaves both in quickstart/. The data are read from
$LONGFORMER_DATA: wiki_en_extract/enwiki_AA.txt.xz, squad/dev-v1.1.json, covidqa/*.json
(docs/data.md). Without them the script ends with an error.
"""

import argparse
import json
import lzma
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

import passages

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments"))
import data_sets  # noqa: E402

ARTICLES = 160
MINIMUM_CHARACTERS = 9000
PARAGRAPH_CHARACTERS = (400, 1200)
PIECE_TOKENS = 256
SPECIAL_TOKENS = 2


def read_articles(file):
    """The texts of the <doc> blocks that are long enough, without their title line."""
    with lzma.open(file, "rt", encoding="utf-8") as stream:
        for block in re.findall(r"<doc [^>]*>\n(.*?)</doc>", stream.read(), re.DOTALL):
            text = block.split("\n", 1)[-1].strip()
            if len(text) > MINIMUM_CHARACTERS:
                yield text


def take_out_paragraph(text, generator):
    """(rest, paragraph) with a paragraph of the second half, or None when there is none."""
    least, most = PARAGRAPH_CHARACTERS
    candidates = [
        match.span()
        for match in re.finditer(r"[^\n]+", text)
        if match.start() >= len(text) / 2 and least <= match.end() - match.start() <= most
    ]
    if not candidates:
        return None
    begin, end = generator.choice(candidates)
    return text[:begin] + text[end:].lstrip("\n"), text[begin:end]


def sample(file, seed):
    """Articles without their paragraph, and the paragraphs."""
    generator = random.Random(seed)
    articles = list(read_articles(file))
    generator.shuffle(articles)
    pairs = (take_out_paragraph(text, generator) for text in articles)
    chosen = [pair for pair in pairs if pair is not None][:ARTICLES]
    return [rest for rest, _ in chosen], [paragraph for _, paragraph in chosen]


class Program:
    """The longformer program; texts go in as JSON lines, vectors come back as an array."""

    def __init__(self, binary, folder, dtype):
        self.binary = binary
        self.folder = pathlib.Path(folder)
        self.dtype = dtype

    def run(self, verb, model, texts, *options):
        file = self.folder / "texts.jsonl"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        command = [self.binary, verb, model, str(file), "--field", "text", "--json", *options]
        result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True,
                                stderr=subprocess.DEVNULL)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def embed(self, model, texts, *options, normalize=True):
        """(vectors, what is known of each text); vectors of a text begin at its first_row."""
        array = self.folder / "vectors.npy"
        scaling = "--normalize" if normalize else "--no-normalize"
        known = self.run("embed", model, texts, scaling, "--dtype", self.dtype, "--output", str(array),
                         *options)
        return np.load(array), known

    def token_offsets(self, model, texts):
        """Character spans of the tokens of each text, without special tokens."""
        return [row["offsets"] for row in self.run("tokenize", model, texts, "--no-special-tokens")]


def cut_pieces(text, offsets, tokens):
    """The text in pieces of so many tokens."""
    return [
        text[offsets[i][0] : offsets[min(i + tokens, len(offsets)) - 1][1]]
        for i in range(0, len(offsets), tokens)
    ]


def recall_at_1(scores):
    """Share of queries (rows) whose own document (column of the same number) scores highest."""
    return float(np.mean(np.argmax(scores, axis=1) == np.arange(len(scores))))


def best_of_groups(scores, firsts):
    """Per query the best score within each group of columns; groups begin at `firsts`."""
    return np.maximum.reduceat(scores, firsts, axis=1)


def means_of_groups(vectors, firsts):
    """Mean of the rows of each group, scaled to length 1."""
    means = np.add.reduceat(vectors, firsts, axis=0)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def measure(program, bert, longformer, documents, queries, adapter=()):
    """Rows (method, recall@1, seconds that embedding the documents took); the adapter is the Longformer's."""
    rows = []

    def timed(model, texts, *options):
        start = time.perf_counter()
        vectors, known = program.embed(model, texts, *options)
        return vectors, known, time.perf_counter() - start

    # The folder's own limit is shorter than what the model takes.
    whole = ("--truncate", "--max-length", "512")
    bert_queries, _ = program.embed(bert, queries, *whole)
    long_queries, _ = program.embed(longformer, queries, *adapter)
    offsets = program.token_offsets(bert, documents)
    room = PIECE_TOKENS - SPECIAL_TOKENS
    pieces = [cut_pieces(text, spans, room) for text, spans in zip(documents, offsets)]

    vectors, _, seconds = timed(bert, [cut[0] for cut in pieces], *whole)
    rows.append(("BERT, first 256 tokens", recall_at_1(bert_queries @ vectors.T), seconds))
    vectors, _, seconds = timed(bert, documents, *whole)
    rows.append(("BERT, first 512 tokens", recall_at_1(bert_queries @ vectors.T), seconds))

    vectors, _, seconds = timed(bert, [piece for cut in pieces for piece in cut], *whole)
    firsts = np.cumsum([0] + [len(cut) for cut in pieces[:-1]])
    means = means_of_groups(vectors, firsts)
    rows.append(("BERT, mean of 256-token pieces", recall_at_1(bert_queries @ means.T), seconds))
    best = best_of_groups(bert_queries @ vectors.T, firsts)
    rows.append(("BERT, best 256-token piece", recall_at_1(best), seconds))

    vectors, _, seconds = timed(longformer, documents, "--truncate", *adapter)
    recall = recall_at_1(long_queries @ vectors.T)
    rows.append(("Longformer, one vector of the whole article", recall, seconds))
    for name, context in (("in context", "document"), ("each alone", "none")):
        passages_of = ("--pooling", "passages", "--context", context, *adapter)
        vectors, known, seconds = timed(longformer, documents, *passages_of)
        firsts = [row["first_row"] for row in known]
        best = best_of_groups(long_queries @ vectors.T, firsts)
        rows.append((f"Longformer, best passage {name}", recall_at_1(best), seconds))
        means = means_of_groups(vectors, firsts)
        rows.append((f"Longformer, mean of passages {name}", recall_at_1(long_queries @ means.T), seconds))
    return rows


def by_words(documents, queries):
    """The trivial way, as a row of `measure`."""
    start = time.perf_counter()
    words = passages.BM25(documents)
    seconds = time.perf_counter() - start
    return "words of the whole article (BM25)", recall_at_1(np.array([words.scores(query) for query in queries])), seconds


def table(rows, documents):
    lines = ["| document vectors | recall@1 | seconds |", "|---|---|---|"]
    lines += [f"| {name} | {recall:.3f} | {seconds:.1f} |" for name, recall, seconds in rows]
    mean = sum(map(len, documents)) / len(documents)
    return "\n".join(lines) + f"\n\n{len(documents)} articles of {mean:,.0f} characters on average.\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bert", help="folder of the source model")
    parser.add_argument("longformer", help="folder that `longformer convert` made of it")
    parser.add_argument("--task", choices=["articles", "passages", "all"], default="all")
    parser.add_argument("--adapter", help="LoRA folder for the Longformer, where articles are searched")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--every", type=int, default=1, help="of passages: every so manieth question")
    parser.add_argument("--output", help="also write the table to this file")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    options = arguments()
    needed = {"articles": ["wiki_en_extract/enwiki_AA.txt.xz"], "passages": ["squad/dev-v1.1.json", "covidqa/*.json"]}
    data = data_sets.folder(*(name for task, names in needed.items() if options.task in (task, "all") for name in names))
    binary = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
    articles = data / "wiki_en_extract" / "enwiki_AA.txt.xz"
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        program = Program(binary, folder, options.dtype)
        models = (options.bert, options.longformer)
        if options.task != "passages":
            documents, queries = sample(articles, options.seed)
            adapter = ("--adapter", options.adapter) if options.adapter else ()
            rows = [by_words(documents, queries), *measure(program, *models, documents, queries, adapter)]
            tables.append(table(rows, documents))
        if options.task != "articles":
            tables.append(passages.table(*passages.measure(program, *models, data, options.every)))
    print("\n".join(tables))
    if options.output:
        pathlib.Path(options.output).write_text("\n".join(tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
