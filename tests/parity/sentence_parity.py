"""Vectors of texts against sentence-transformers.

    python3 tests/parity/sentence_parity.py MODEL_FOLDER BINARY [--trials 10] [--seed 1]

MODEL_FOLDER is a real sentence encoder (`make quickstart` keeps one). It, the Longformer that is made of it, and
an MPNet of tests/fixtures with the modules of all-mpnet-base-v2 are compared as they are. Each trial then draws modules for it (pooling, Dense with activations,
Normalize, Dropout), prompts with and without a default, whether the prompt is pooled, and a length limit,
saves the folder with the package, and compares `encode`, `encode_query` and `encode_document` with
`longformer embed --truncate`.
"""

import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, Pooling

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOVEL = ROOT / "examples" / "novels" / "alices_adventures_in_wonderland.txt"
POOLINGS = ["cls", "max", "mean", "mean_sqrt_len_tokens", "lasttoken"]
ACTIVATIONS = [torch.nn.Tanh, torch.nn.Identity, torch.nn.GELU, torch.nn.ReLU, torch.nn.SiLU]
TOLERANCE = 1e-5


def texts_of(draw, count):
    """Parts of a novel, of one word to a few hundred."""
    words = re.split(r"(?<=\s)", NOVEL.read_text(encoding="utf-8"))
    starts = [draw.randrange(len(words) - 400) for _ in range(count)]
    return ["", *("".join(words[start:start + draw.choice([1, 8, 60, 330])]) for start in starts)]


def draw_model(draw, folder, trial):
    """A model with random modules behind the encoder of a folder."""
    encoder = Transformer(str(folder), max_seq_length=draw.choice([24, 200, 512]))
    width = encoder.get_embedding_dimension()
    modules = [encoder, Pooling(width, POOLINGS[trial % len(POOLINGS)], include_prompt=draw.random() < 0.5)]
    if draw.random() < 0.3:
        modules.append(Dropout(0.3))
    for number in range(draw.choice([0, 1, 3])):
        size = draw.choice([7, 64, 256])
        activation = ACTIVATIONS[(trial + number) % len(ACTIVATIONS)]()
        modules.append(Dense(width, size, bias=draw.random() < 0.7, activation_function=activation))
        width = size
        if draw.random() < 0.4:
            modules.append(Normalize())
    prompts = draw.choice([None, {"query": "query: ", "passage": "passage: "},
                           {"query": "A question:", "document": "Title: none | ", "topic": "topic - "}])
    default = draw.choice([None, *(prompts or [])])
    return SentenceTransformer(modules=modules, prompts=prompts, default_prompt_name=default, device="cpu")


def save_mpnet(folder):
    """The mean of the tokens, normalised, as in all-mpnet-base-v2."""
    encoder = Transformer(str(ROOT / "tests" / "fixtures" / "tiny_mpnet"), max_seq_length=96)
    modules = [encoder, Pooling(encoder.get_embedding_dimension(), "mean"), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder), create_model_card=False)


def embedded(binary, folder, texts, *options):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = subprocess.run([binary, "embed", folder, "--field", "text", "--json", "--truncate", *options],
                          input=lines, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=True)
    return numpy.array([json.loads(line)["embedding"] for line in done.stdout.splitlines()])


def difference(binary, folder, texts):
    """Largest difference of all ways to embed, over the largest element where that is above 1."""
    model = SentenceTransformer(str(folder), device="cpu")
    calls = [(model.encode, {}, ()), (model.encode, {"prompt": "All of it: "}, ("--prompt", "All of it: ")),
             (model.encode_query, {}, ("--prompt-name", "query")),
             (model.encode_document, {}, ("--prompt-name", "document"))]
    calls += [(model.encode, {"prompt_name": name}, ("--prompt-name", name)) for name in model.prompts]
    worst = []
    for encode, options, ours in calls:
        expected = encode(texts, **options)
        found = embedded(binary, folder, texts, *ours)
        if found.shape != expected.shape:
            return float("nan")
        worst.append(float(numpy.abs(found - expected).max() / max(1, numpy.abs(expected).max())))
    return float(numpy.max(worst))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    torch.manual_seed(options.seed)
    texts = texts_of(draw, 10)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        long = pathlib.Path(scratch, "longformer")
        subprocess.run([options.binary, "convert", options.model, long, "--max-positions", "1024",
                        "--window", "256"], check=True, stdout=subprocess.DEVNULL)
        rows.append(("the folder as it is", difference(options.binary, options.model, texts)))
        rows.append(("the Longformer made of it", difference(options.binary, long, texts)))
        mpnet = pathlib.Path(scratch, "mpnet")
        save_mpnet(mpnet)
        rows.append(("an MPNet of drawn weights", difference(options.binary, mpnet, texts)))
        drawn = {pooling: [] for pooling in POOLINGS}
        for trial in range(options.trials):
            folder = pathlib.Path(scratch, "drawn")
            draw_model(draw, options.model, trial).save_pretrained(str(folder), create_model_card=False)
            drawn[POOLINGS[trial % len(POOLINGS)]].append(difference(options.binary, folder, texts))
            shutil.rmtree(folder)
        rows += [(f"drawn modules, pooling {pooling}", float(numpy.max(values)))
                 for pooling, values in drawn.items() if values]
    print("| vectors | largest difference |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value:.1e} |")
    return 0 if all(value <= TOLERANCE for _, value in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
