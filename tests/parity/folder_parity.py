#!/usr/bin/env python3
"""Compares settings of folders with transformers and sentence-transformers.

    python3 tests/parity/folder_parity.py [--binary build/longformer]

Token ids and offsets beside AutoTokenizer over classes, keys and values; vectors and rankings beside
SentenceTransformer over similarity_fn_name, truncate_dim and a Normalize; folders of old versions. Prints one
line per part and exits with 1 when anything differs.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
import make_tokenizer_classes as classes  # noqa: E402

DENSE = ROOT / "tests" / "fixtures" / "sentence_dense"
WORDS = "it was in the hand she had one of them there they were all you and his by an".split()
SIMILARITIES = ["cosine", "dot", "euclidean", "manhattan"]


class Program:
    def __init__(self, path):
        self.path = path

    def rows(self, *arguments):
        done = subprocess.run([self.path, *map(str, arguments), "--json"], capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        return [json.loads(line) for line in done.stdout.decode().splitlines()]

    def tokens(self, folder, texts):
        flags = [word for text in texts for word in ("--text", text)]
        return [[row["ids"], row["offsets"]] for row in self.rows("tokenize", folder, *flags)]

    def vectors(self, folder, texts, *options):
        flags = [word for text in texts for word in ("--text", text)]
        return np.array([row["embedding"] for row in self.rows("embed", folder, *flags, *options)])


def check_tokens(program):
    """The number of cases, and of those that differ."""
    known, cases, wrong = classes.bases(), classes.cases(), 0
    for one in cases:
        with tempfile.TemporaryDirectory() as name:
            classes.write_folder(one, known, pathlib.Path(name))
            if program.tokens(name, classes.TEXTS) != classes.expected(name):
                print("differs:", json.dumps(one, ensure_ascii=False))
                wrong += 1
    return len(cases), wrong


def variant(folder, modules, **keys):
    """sentence_dense with its first modules and other keys."""
    shutil.copytree(DENSE, folder)
    listed = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(listed[:modules]))
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))
    return folder


def old(folder):
    """The encoder of sentence_dense in 0_Transformer, as version 0.3 had it."""
    inner = folder / "0_Transformer"
    inner.mkdir(parents=True)
    for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DENSE / file, inner / file)
    shutil.copytree(DENSE / "1_Pooling", folder / "1_Pooling")
    (inner / "sentence_bert_config.json").write_text('{"max_seq_length": 12, "do_lower_case": true}')
    (folder / "config.json").write_text('{"__version__": "0.3.8"}')
    modules = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling")]
    rows = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    return folder


def check_vectors(program, scratch):
    """The largest differences of vectors and of similarities, and rankings that differ."""
    from sentence_transformers import SentenceTransformer

    draw = random.Random(5)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 8))) for _ in range(40)]
    questions = [" ".join(draw.choices(WORDS, k=3)) for _ in range(8)]
    documents = scratch / "documents"
    documents.mkdir()
    for i, text in enumerate(texts):
        (documents / f"{i:02}.txt").write_text(text)
    worst, worst_score, other, count = 0.0, 0.0, 0, 0
    folders = [old(scratch / "old")]
    for modules in (4, 5, 8):
        for kind in SIMILARITIES:
            for dim in (None, 3):
                name = f"{modules}-{kind}-{dim}"
                folders.append(variant(scratch / name, modules, similarity_fn_name=kind, truncate_dim=dim))
    for folder in folders:
        package = SentenceTransformer(str(folder), device="cpu")
        expected = package.encode(texts)
        worst = max(worst, float(np.abs(program.vectors(folder, texts) - expected).max()))
        scores = package.similarity(package.encode_query(questions), package.encode_document(texts)).numpy()
        for question, row in zip(questions, scores):
            flags = ["--mode", "dense", "--top-k", len(texts), "--passage-tokens", 10]
            hits = program.rows("search", folder, documents, *flags, "--query", question)[0]["hits"]
            found = {int(pathlib.Path(hit["file"]).stem): hit["score"] for hit in hits}
            mine = np.array([found[i] for i in range(len(texts))])
            worst_score = max(worst_score, float(np.abs(mine - row).max()))
            other += int(row[mine.argmax()] < row.max() - 1e-5)
            count += 1
    return worst, worst_score, other, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build" / "longformer"))
    program = Program(parser.parse_args().binary)
    cases, wrong = check_tokens(program)
    print(f"tokens: {cases} folders, {wrong} differ from AutoTokenizer")
    with tempfile.TemporaryDirectory() as scratch:
        worst, worst_score, other, count = check_vectors(program, pathlib.Path(scratch))
    print(f"vectors: at most {worst:.1e} from SentenceTransformer")
    print(f"similarities: at most {worst_score:.1e}; {other} of {count} best documents differ")
    sys.exit(int(wrong > 0 or worst > 1e-5 or worst_score > 1e-4 or other > 0))


if __name__ == "__main__":
    main()
