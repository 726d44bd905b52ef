"""Static, sparse and multi-vectors against their packages.

    python3 tests/parity/vector_parity.py BINARY [--trials 3] [--seed 1]

Each trial makes the folders of tests/fixtures/make_vector_models.py with other drawn weights: StaticEmbedding, model2vec,
SPLADE, SPLADE with a table for queries, MultiVectorEncoder, PyLate, Stanford's ColBERT, and bge-m3's heads. What
sentence-transformers and model2vec give of their texts is compared with `longformer embed`. The table has the largest
difference of an element over all trials.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKER = ROOT / "tests" / "fixtures" / "make_vector_models.py"
TOLERANCE = 1e-5


def embedded(binary, folder, texts, *options):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = subprocess.run([binary, "embed", folder, "--field", "text", "--json", "--truncate", *options],
                          input=lines, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def of_rows(found, wanted):
    """The largest difference of two arrays; infinite for other shapes."""
    mine, theirs = numpy.array(found, numpy.float64), numpy.array(wanted, numpy.float64)
    if mine.size == theirs.size == 0:
        return 0.0
    return float(numpy.abs(mine - theirs).max()) if mine.shape == theirs.shape else float("inf")


def of_weights(found, wanted):
    mine = {str(one["index"]): one["value"] for one in found}
    return max((abs(mine.get(key, 0) - wanted.get(key, 0)) for key in {*mine, *wanted}), default=0.0)


def difference(binary, folder, call, texts):
    role = ["--as-query"] if call["role"] == "query" else []
    if "weights" in call:
        top = ["--top-k", str(call["top_k"])] if "top_k" in call else []
        rows = embedded(binary, folder, texts, "--sparse", *role, *top)
        return max(of_weights(row["sparse"], one) for row, one in zip(rows, call["weights"], strict=True))
    if isinstance(call["vectors"][0][0], list):
        rows = embedded(binary, folder, texts, "--multi", *role)
        return max(of_rows(row["embeddings"], one) for row, one in zip(rows, call["vectors"], strict=True))
    name = ["--prompt-name", "query"] if role else []
    rows = embedded(binary, folder, texts, *name)
    return of_rows([row["embedding"] for row in rows], call["vectors"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    worst = {}
    for trial in range(options.trials):
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run([sys.executable, MAKER, scratch, "--seed", str(options.seed + trial)], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for folder in sorted(pathlib.Path(scratch).glob("vectors_*")):
                known = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
                for call in known["calls"]:
                    if call["role"] == "scores":
                        continue
                    name = f"{folder.name.removeprefix('vectors_')}, {call['role']}"
                    name += ", sparse" if "weights" in call and known["kind"] == "all" else ""
                    found = difference(options.binary, folder, call, known["texts"])
                    worst[name] = max(worst.get(name, 0.0), found)
    print("| vectors | largest difference |\n|---|---|")
    for name, value in worst.items():
        print(f"| {name} | {value:.1e} |")
    return 0 if worst and all(value <= TOLERANCE for value in worst.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
