"""Retrieval against pytrec_eval and sentence-transformers.

    python3 tests/parity/retrieval_parity.py MODEL_FOLDER BINARY [--trials 4] [--queries 200] [--seed 1]

First random judgements (grades, none that are relevant, below 0) and runs (ties, scores that are equal in single
precision, documents that nobody judged, queries without results) are scored by `longformer evaluate --score` and by
pytrec_eval, per trial so many queries. Then paragraphs of a novel are searched with sentences of theirs: `longformer
evaluate --mode dense` with a real sentence encoder, against the vectors of sentence-transformers, the metrics of its
InformationRetrievalEvaluator, and pytrec_eval on the run.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import numpy
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))

from make_retrieval import random_case, scores_of  # noqa: E402

NOVEL = ROOT / "examples" / "novels" / "alices_adventures_in_wonderland.txt"
METRICS_TOLERANCE, SCORE_TOLERANCE = 1e-9, 2e-6
# Documents far down whose cosines are one but for rounding may change places.
PLACES_TOLERANCE = 1e-4


def evaluated(binary, *arguments):
    done = subprocess.run([binary, "evaluate", *map(str, arguments), "--task", "retrieval", "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout)["metrics"]


def write_data(folder, corpus, queries, qrels):
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, texts in (("corpus", corpus), ("queries", queries)):
        lines = (json.dumps({"_id": key, "text": text}) + "\n" for key, text in texts.items())
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    lines = (f"{query}\t{document}\t{grade}\n" for query, judged in qrels.items() for document, grade in judged.items())
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), encoding="utf-8")


def write_run(file, run):
    lines = (f"{query} Q0 {document} 0 {score!r} run\n" for query, found in run.items()
             for document, score in found.items())  # fmt: skip
    file.write_text("".join(lines), encoding="utf-8")


def differences(found, expected):
    """The largest difference of metrics, and how many there are. `expected` is per query."""
    means = {name: numpy.mean([one[name] for one in expected.values()]) for name in found}
    return float(numpy.max([abs(found[name] - means[name]) for name in found])), len(found)


def random_runs(binary, scratch, draw, count):
    """Every query by itself, where it may be told apart, and all of them together."""
    cases = {f"q{number}": random_case(draw) for number in range(count)}
    qrels = {query: judged for query, (judged, _) in cases.items()}
    run = {query: found for query, (_, found) in cases.items()}
    expected = scores_of(qrels, run)
    worst, comparisons = [], 0
    folder = pathlib.Path(scratch, "random")
    for chosen in [list(qrels), *([query] for query in qrels if run[query])]:
        write_data(folder, {}, {query: "x" for query in chosen}, {query: qrels[query] for query in chosen})
        write_run(folder / "run", {query: run[query] for query in chosen})
        found = evaluated(binary, "--score", folder / "run", folder)
        value, number = differences(found, {query: expected[query] for query in chosen})
        worst.append(value)
        comparisons += number
    return float(numpy.max(worst)), comparisons


def material(draw, count):
    """Paragraphs without one of their sentences, and these; neighbours are a little relevant."""
    text = NOVEL.read_text(encoding="utf-8")
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    paragraphs = [part for part in paragraphs if 120 <= len(part) <= 700]
    corpus, queries, qrels = {}, {}, {}
    for number, paragraph in enumerate(paragraphs[:count]):
        sentences = re.split(r"(?<=[.!?;]) ", paragraph)
        taken = draw.randrange(len(sentences))
        rest = " ".join(sentences[:taken] + sentences[taken + 1:]) or paragraph
        # Documents of one text would be ties, which the evaluator breaks in another way.
        if rest in corpus.values():
            continue
        corpus[f"p{number}"] = rest
        queries[f"q{number}"] = sentences[taken]
        qrels[f"q{number}"] = {f"p{number}": 2, f"p{number + 1}": 1} if number % 3 else {f"p{number}": 1}
    return corpus, queries, qrels


def real_model(binary, model_folder, scratch, draw):
    """Rows (what, difference, tolerance)."""
    corpus, queries, qrels = material(draw, 400)
    folder = pathlib.Path(scratch, "novel")
    write_data(folder, corpus, queries, qrels)
    found = evaluated(binary, model_folder, folder, "--mode", "dense", "--predictions", folder / "said.jsonl",
                      "--official-predictions", folder / "run")
    said = {row["id"]: row for row in map(json.loads, (folder / "said.jsonl").read_text().splitlines())}
    run = {query: {hit["id"]: hit["score"] for hit in row["ranking"]} for query, row in said.items()}
    model = SentenceTransformer(str(model_folder), device="cpu")
    cosines = (model.encode_query(list(queries.values()), normalize_embeddings=True)
               @ model.encode_document(list(corpus.values()), normalize_embeddings=True).T)
    ours = numpy.array([[run[query][document] for document in corpus] for query in queries])
    oracle = InformationRetrievalEvaluator(
        queries, corpus, {query: set(judged) for query, judged in qrels.items()}, mrr_at_k=[10], ndcg_at_k=[10],
        map_at_k=[1000], precision_recall_at_k=[1, 5, 10, 100], show_progress_bar=False)
    theirs = oracle(model)
    names = {"mrr_at_10": "cosine_mrr@10", "map": "cosine_map@1000",
             **{f"recall_at_{k}": f"cosine_recall@{k}" for k in (1, 5, 10, 100)}}
    binary_difference = numpy.max([abs(found[ours_name] - theirs[name]) for ours_name, name in names.items()])
    per_query = scores_of(qrels, run)
    queries_difference = numpy.max([abs(said[query]["metrics"][name] - value) for query in queries
                                    for name, value in per_query[query].items()])
    return [(f"cosines of {ours.size:,} pairs, sentence-transformers", float(numpy.abs(ours - cosines).max()),
             SCORE_TOLERANCE),
            ("MRR, recall, MAP of its InformationRetrievalEvaluator", float(binary_difference), PLACES_TOLERANCE),
            (f"scores of {len(queries)} queries, pytrec_eval on the run", float(queries_difference),
             METRICS_TOLERANCE),
            ("their means", differences(found, per_query)[0], METRICS_TOLERANCE)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        worst, comparisons = zip(*(random_runs(options.binary, scratch, draw, options.queries)
                                   for _ in range(options.trials)))
        rows = [(f"{sum(comparisons):,} metrics of random runs, pytrec_eval", float(numpy.max(worst)),
                 METRICS_TOLERANCE), *real_model(options.binary, options.model, scratch, draw)]
    print("| compared | largest difference |\n|---|---|")
    for name, value, _ in rows:
        print(f"| {name} | {value:.1e} |")
    return 0 if all(value <= tolerance for _, value, tolerance in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
