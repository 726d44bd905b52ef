#!/usr/bin/env python3
"""WikiHop's shape (Tables 7 and 10 of the Longformer paper): which of ten articles, read together, answers a question.

    LONGFORMER_DATA=data experiments/paper/candidates.py quickstart/minilm-4096

A stand-in, not WikiHop, of which 50 records are at hand: questions of HotpotQA and 2WikiMultiHopQA, their ten paragraphs as
supports ("title. text") and the ten titles as candidates. Right is the one gold paragraph whose words hold the answer; questions with
none or several are left out. All rows begin with the model that answers questions about single SQuAD paragraphs (questions.py), one
after it has learned to tell the paragraph and sentence that hold an answer (hotpotqa.py).
Figures are added to docs/results/candidates.jsonl.
"""

import json
import lzma
import pathlib
import re

import experiment
import questions
from experiment import data_sets
from hotpotqa import best, bm25, evidence_beginning

FLAGS = ["--task", "candidates", "--learning-rate", 1e-4, "--head-learning-rate", 5e-4,
         "--gradient-accumulation-steps", 8, "--warmup-ratio", 0.1, "--save-strategy", "no", "--overwrite-output-dir",
         "--skip-invalid", "--bf16"]
EPOCHS = ["--num-train-epochs", 5]
EVIDENCE = "4,096, evidence of SQuAD first"
# Options of finetune and evaluate; options of finetune alone.
ROWS = {
    "4,096": ([], EPOCHS),
    "4,096, one epoch": ([], ["--num-train-epochs", 1]),
    EVIDENCE: ([], EPOCHS),
    "512": (["--stride", 0], EPOCHS),
    "4,096, no projections of their own": ([], [*EPOCHS, "--shared-global-projections"]),
    "4,096, no global attention": (["--global-attention", "none"], EPOCHS),
}


def words_of(text):
    """The words of TriviaQA's normal form, between blanks."""
    words = re.findall(r"[^\W_]+", text.lower())
    return f" {' '.join(word for word in words if word not in ('a', 'an', 'the'))} "


def record_of(one):
    texts = {title: f"{title}. {' '.join(sentence.strip() for sentence in sentences)}" for title, sentences in one["context"]}
    gold = {title for title, _ in one["supporting_facts"]}
    right = [title for title, text in texts.items() if title in gold and words_of(one["answer"]) in words_of(text)]
    if len(right) != 1:
        return None
    return {"id": one["_id"], "query": one["question"], "answer": right[0], "candidates": list(texts), "supports": list(texts.values())}


def write_data(work):
    """titles-train.json, titles-dev.json; the records to measure."""
    parts = {}
    for part in ("train", "dev"):
        read = [json.loads(lzma.decompress(data_sets.file(f"tasks/{name}_{part}.json.xz").read_bytes()))
                for name in ("hotpotqa", "2wikimultihopqa")]
        parts[part] = [found for one in sum(read, []) if (found := record_of(one)) is not None]
        (work / f"titles-{part}.json").write_text(json.dumps(parts[part]))
    return parts["dev"]


def trivial(work, records):
    """The text with the question's words."""
    def measure(program):
        said = {one["id"]: one["candidates"][best(bm25(one["query"], one["supports"]), 1)[0]] for one in records}
        file = work / "titles-bm25.json"
        file.write_text(json.dumps(said))
        found = program("evaluate", "--score", file, work / "titles-dev.json", "--skip-invalid")[-1]
        return {"accuracy": round(found["metrics"]["accuracy"], 5), "examples": found["examples"]}

    return experiment.Run({"row": "BM25", "seed": 0}, measure)


def runs(work, begun, short, records, seeds):
    def run(row, seed):
        flags, learning = ROWS[row]

        def measure(program):
            name = "-".join(re.findall(r"[a-z0-9]+", row))
            folder = work / f"titles-{name}-{seed}"
            if not (folder / "model.safetensors").exists():
                source = short if row == "512" else evidence_beginning(program, work, begun) if row == EVIDENCE else begun
                program("finetune", source, work / "titles-train.json", "--output-dir", folder,
                        "--seed", seed, *FLAGS, *flags, *learning)
            found = program("evaluate", folder, work / "titles-dev.json", "--dtype", "bf16", "--skip-invalid", *flags)[-1]
            return {"accuracy": round(found["metrics"]["accuracy"], 5), "examples": found["examples"]}

        return experiment.Run({"row": row, "seed": seed}, measure)

    return [trivial(work, records), *(run(row, seed) for seed in range(1, seeds + 1) for row in ROWS)]


def main():
    parser = experiment.options(__doc__, "candidates.jsonl")
    parser.add_argument("model", help="folder of MiniLM's conversion to 4,096 tokens")
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    records = write_data(work)
    program = experiment.Program(chosen.binary, experiment.all_cores())
    begun, short = questions.beginnings(program, work, chosen.model)
    experiment.perform(runs(work, begun, short, records, chosen.seeds), chosen)


if __name__ == "__main__":
    main()
