#!/usr/bin/env python3
"""Table 6 of the Longformer paper: how long the documents of its tasks are, in RoBERTa's tokens.

    LONGFORMER_DATA=data experiments/paper/lengths.py

By `longformer tokenize --stats`, of the data at hand: all of IMDB and Hyperpartisan, and samples of WikiHop (22 records, their
supports joined), TriviaQA (19 documents) and HotpotQA (682 questions, ten paragraphs each). OntoNotes is not free: LitBank
and CRAFT stand in its place. Figures are added to docs/results/lengths.jsonl.
"""

import json
import lzma
import pathlib
import tarfile

import experiment
from experiment import data_sets

NAMES = ("documents", "mean", "median", "p95", "max", "share_over_512", "share_over_4096")


def records(name):
    data = data_sets.file(name).read_bytes()
    return json.loads(lzma.decompress(data) if name.endswith(".xz") else data)


def wikihop():
    return [" ".join(one["supports"]) for one in records("tasks/wikihop_sample.json")]


def triviaqa():
    folder = data_sets.folder("tasks/triviaqa_sample/evidence/*/*/*.txt") / "tasks" / "triviaqa_sample" / "evidence"
    return [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.rglob("*.txt"))]


def hotpotqa():
    return [" ".join(f"{title} {' '.join(sentences)}" for title, sentences in one["context"])
            for one in records("tasks/hotpotqa_train.json.xz")]


def litbank():
    found = []
    with tarfile.open(data_sets.file("litbank/coref.tar.xz")) as archive:
        for member in archive:
            path = pathlib.PurePath(member.name)
            if path.parent.name == "conll" and path.suffix == ".conll":
                lines = archive.extractfile(member).read().decode().splitlines()
                found.append(" ".join(line.split("\t")[3] for line in lines if line and not line.startswith("#")))
    return found


def craft():
    lines = lzma.decompress(data_sets.file("tasks/craft_coref_train.jsonl.xz").read_bytes()).decode().splitlines()
    return [" ".join(word for sentence in json.loads(line)["sentences"] for word in sentence) for line in lines]


def imdb():
    found = []
    for part in ("train", "test"):
        with lzma.open(data_sets.file(f"imdb/imdb_{part}.tsv.xz"), "rt", encoding="utf-8") as stream:
            rows = [line.rstrip("\n").split("\t") for line in stream]
        found += [row[3].replace("<br />", " ") for row in rows if len(row) == 4 and row[0].lower() != "label"]
    return found


def hyperpartisan(work):
    import classification

    classification.hyperpartisan(work)
    lines = [line for part in ("train", "test") for line in (work / f"hyperpartisan-{part}.jsonl").read_text().splitlines()]
    return [json.loads(line)["text"] for line in lines]


def runs(work, tokenizer):
    sources = {"WikiHop, 22 records": wikihop, "TriviaQA, 19 documents": triviaqa, "HotpotQA, 682 questions": hotpotqa,
               "LitBank, in place of OntoNotes": litbank, "CRAFT, in place of OntoNotes": craft, "IMDB": imdb,
               "Hyperpartisan": lambda: hyperpartisan(work)}  # fmt: skip

    def run(row, texts):
        def measure(program):
            file = work / "lengths.jsonl"
            file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts()))
            found = program("tokenize", tokenizer, file, "--stats")[-1]
            return {name: found[name] for name in NAMES}

        return experiment.Run({"row": row, "seed": 0}, measure)

    return [run(row, texts) for row, texts in sources.items()]


def main():
    parser = experiment.options(__doc__, "lengths.jsonl")
    parser.set_defaults(jobs=1)
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    data_sets.folder("roberta_bpe/vocab.json")
    work.mkdir(parents=True, exist_ok=True)
    experiment.perform(runs(work, data_sets.folder("roberta_bpe/vocab.json") / "roberta_bpe"), chosen)


if __name__ == "__main__":
    main()
