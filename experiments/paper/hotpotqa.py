#!/usr/bin/env python3
"""HotpotQA (Table 7 of the Longformer paper, its two stages and what the evidence losses are worth) on a small scale.

    LONGFORMER_DATA=data experiments/paper/hotpotqa.py quickstart/minilm-4096

Training: 682 questions of HotpotQA and 644 of 2WikiMultiHopQA; measured: 150 of HotpotQA, by the official script's rules. Six layers of
384 do not learn to answer from so few, so all rows begin with a model that answers questions about single SQuAD paragraphs
(questions.py). Rows with "evidence of SQuAD first" learn in between to tell its paragraph and sentence from the likeliest paragraphs of
other articles. Most of these HotpotQA questions are of the published dev part: figures compare with nothing published. Figures are added
to docs/results/hotpotqa.jsonl.
"""

import collections
import json
import lzma
import math
import pathlib
import random
import re

import experiment
import questions
from experiment import data_sets

EPOCHS, RATE, BATCH = 4, 1e-4, 4
FLAGS = ["--task", "multihop", "--learning-rate", RATE, "--head-learning-rate", 5 * RATE,
         "--gradient-accumulation-steps", BATCH, "--warmup-ratio", 0.1, "--save-strategy", "epoch",
         "--save-total-limit", 1, "--resume-from-checkpoint", "last", "--skip-invalid", "--bf16"]
# Equal weights would not do: the losses of the evidence, means over its marks, then hardly move the
# encoder.
WEIGHTS = ["--loss-weights", "1,5,10,10"]
# The paper's marks are global too, which finds less evidence here.
QUESTION = ["--global-attention", "question"]
ROWS = {
    "one stage": [*WEIGHTS, *QUESTION],
    "two stages": [*WEIGHTS, *QUESTION],
    "512": [*WEIGHTS, "--stride", 0],
    "one stage, no evidence losses": ["--loss-weights", "1,5,0,0", *QUESTION],
    "one stage, marks global too": WEIGHTS,
    "one stage, nothing global": [*WEIGHTS, "--global-attention", "none"],
    "one stage, evidence of SQuAD first": [*WEIGHTS, *QUESTION],
    "two stages, evidence of SQuAD first": [*WEIGHTS, *QUESTION],
}
SQUAD_QUESTIONS, SQUAD_PARAGRAPHS = 3000, 6
METRICS = ("joint_f1", "f1", "em", "sp_f1", "sp_em", "joint_em", "paragraph_recall", "type_accuracy")


def words_of(text):
    return re.findall(r"[a-z0-9]+", text.lower())


def bm25(query, texts, k1=1.2, b=0.75):
    """The score of each text; counts of words are those of these texts."""
    documents = [collections.Counter(words_of(text)) for text in texts]
    lengths = [sum(document.values()) for document in documents]
    mean = sum(lengths) / max(1, len(lengths)) or 1
    found = []
    for document, length in zip(documents, lengths):
        score = 0.0
        for word in set(words_of(query)):
            having = sum(word in one for one in documents)
            rarity = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
            score += rarity * document[word] * (k1 + 1) / (document[word] + k1 * (1 - b + b * length / mean))
        found.append(score)
    return found


def best(scores, count):
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:count]


def trivial(work):
    """The two best paragraphs by plain words, of each the best sentence; the five best for a second stage."""
    def measure(program):
        questions_of = json.loads((work / "hotpotqa-dev.json").read_text())
        said, kept, gold = {"answer": {}, "sp": {}}, 0, 0
        for one in questions_of:
            scores = bm25(one["question"], [f"{title} {' '.join(sentences)}" for title, sentences in one["context"]])
            right = {title for title, _ in one["supporting_facts"]}
            titles = [title for title, _ in one["context"]]
            kept += sum(titles[i] in right for i in best(scores, 5))
            gold += sum(title in right for title in titles)
            said["answer"][one["_id"]] = ""
            said["sp"][one["_id"]] = [[titles[i], best(bm25(one["question"], one["context"][i][1]), 1)[0]]
                                      for i in best(scores, 2) if one["context"][i][1]]
        file = work / "hotpotqa-bm25.json"
        file.write_text(json.dumps(said))
        found = program("evaluate", "--score", file, work / "hotpotqa-dev.json")[-1]["metrics"]
        return {"sp_f1": round(found["sp_f1"], 5), "five_best_gold_recall": round(kept / gold, 5)}

    return experiment.Run({"row": "BM25", "seed": 0}, measure)


def write_data(work):
    """hotpotqa-train.json of both sets, and hotpotqa-dev.json."""
    read = {name: json.loads(lzma.decompress(data_sets.file(f"tasks/{name}.json.xz").read_bytes()))
            for name in ("hotpotqa_train", "2wikimultihopqa_train", "hotpotqa_dev")}
    (work / "hotpotqa-train.json").write_text(json.dumps(read["hotpotqa_train"] + read["2wikimultihopqa_train"]))
    (work / "hotpotqa-dev.json").write_text(json.dumps(read["hotpotqa_dev"]))


def sentences_of(text):
    """Sentences with the blanks before them, and where each begins."""
    ends = [found.end() for found in re.finditer(r"[.!?]['\")]?(?=\s)", text)] + [len(text)]
    starts = [0, *ends[:-1]]
    return [text[a:b] for a, b in zip(starts, ends) if a < b], starts


def squad_records(generator):
    """Questions about single paragraphs in HotpotQA's form: among paragraphs of other articles, by plain words the likeliest."""
    articles, _ = questions.articles()
    texts = {one["title"].replace("_", " "): [part["context"] for part in one["paragraphs"]] for one in articles}
    asked = [(one["title"].replace("_", " "), part["context"], question)
             for one in articles for part in one["paragraphs"] for question in part["qas"]]
    for title, context, question in generator.sample(asked, SQUAD_QUESTIONS):
        others = [(name, generator.choice(parts)) for name, parts in texts.items() if name != title]
        likeliest = best(bm25(question["question"], [text for _, text in others]), SQUAD_PARAGRAPHS - 1)
        paragraphs = [(title, context), *(others[i] for i in likeliest)]
        generator.shuffle(paragraphs)
        start = question["answers"][0]["answer_start"]
        right = sum(begin <= start for begin in sentences_of(context)[1]) - 1
        yield {"_id": question["id"], "question": question["question"], "answer": question["answers"][0]["text"],
               "supporting_facts": [[title, right]],
               "context": [[name, sentences_of(text)[0]] for name, text in paragraphs]}


def evidence_beginning(program, work, begun):
    """Model that has learnt the evidence of SQuAD's questions too."""
    data = work / "squad-evidence.json"
    if not data.exists():
        data.write_text(json.dumps(list(squad_records(random.Random(questions.SPLIT_SEED)))))
    target = work / "hotpotqa-squad-evidence"
    if not (target / "model.safetensors").exists():
        program("finetune", begun, data, "--output-dir", target, "--seed", 1, *FLAGS, "--num-train-epochs", 1,
                *WEIGHTS, *QUESTION)
    return target


def read_flags(flags):
    """Flags of a row that evaluate takes."""
    return flags[2:]


def train(program, source, target, data, seed, flags):
    if not (target / "model.safetensors").exists():
        program("finetune", source, data, "--output-dir", target, "--seed", seed, *FLAGS, "--num-train-epochs", EPOCHS,
                *flags)
    return target


def measured(program, folder, data, flags):
    found = program("evaluate", folder, data, "--dtype", "bf16", *read_flags(flags))[-1]["metrics"]
    return {name: round(found[name], 5) for name in METRICS}


def trained(program, work, row, source, seed):
    name = "-".join(re.findall(r"[a-z0-9]+", row.lower()))
    return train(program, source, work / f"hotpotqa-{name}-{seed}", work / "hotpotqa-train.json", seed, ROWS[row])


def select(program, stage, work, part, flags, name="selected"):
    """The file of a part with the paragraphs that the stage keeps, and the share of gold paragraphs among them."""
    target = work / f"{stage.name}-{name}-{part}.json"
    found = program("evaluate", stage, work / f"hotpotqa-{part}.json", "--dtype", "bf16", *read_flags(flags),
                    "--skip-invalid", "--write-selected", target)[-1]["metrics"]
    return target, found["selected_gold_recall"]


def five_best(program, stage, work, flags):
    """The share of gold paragraphs among the five best of each question, whatever their logits."""
    _, recall = select(program, stage, work, "dev", [*flags, "--paragraph-threshold", -1000], "five")
    return {"five_best_gold_recall": round(recall, 5)}


def runs(work, begun, short, seeds):
    def run(row, seed):
        flags = ROWS[row]

        def measure(program):
            source = short if row == "512" else begun
            if row.endswith("evidence of SQuAD first"):
                source = evidence_beginning(program, work, begun)
            if not row.startswith("two stages"):
                stage = trained(program, work, row, source, seed)
                return measured(program, stage, work / "hotpotqa-dev.json", flags) | five_best(program, stage, work, flags)
            first = row.replace("two stages", "one stage")
            stage = trained(program, work, first, source, seed)
            data, _ = select(program, stage, work, "train", flags)
            dev, recall = select(program, stage, work, "dev", flags)
            folder = train(program, source, work / stage.name.replace("one-stage", "second"), data, seed, flags)
            return measured(program, folder, dev, flags) | {"selected_gold_recall": round(recall, 5)}

        return experiment.Run({"row": row, "seed": seed}, measure)

    return [trivial(work), *(run(row, seed) for seed in range(1, seeds + 1) for row in ROWS)]


def main():
    parser = experiment.options(__doc__, "hotpotqa.jsonl")
    parser.add_argument("model", help="folder of MiniLM's conversion to 4,096 tokens")
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    write_data(work)
    program = experiment.Program(chosen.binary, experiment.all_cores())
    begun, short = questions.beginnings(program, work, chosen.model)
    experiment.perform(runs(work, begun, short, chosen.seeds), chosen)


if __name__ == "__main__":
    main()
