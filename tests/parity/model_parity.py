"""Compares longformer_cpp with `transformers` on random models and inputs, in one live run.

    python3 tests/parity/model_parity.py [--count 72] [--seed 1] [--only INDEX] [--oracles-only]

Each case draws a configuration and documents, saves the folder with `transformers` and runs both on
it. Windows that `transformers` refuses are compared with a scalar double precision implementation,
which is itself compared with `transformers` on every case small enough. Exit code 1 when any
difference is too large; a NaN is.
"""

import argparse
import collections
import sys
import tempfile
import time
import warnings

import numpy
import random_models
import torch
import transformers
from scalar_longformer import ScalarLongformer

FP32_TOLERANCE = 1e-4
RAGGED_TOLERANCE = 1e-5
BF16_FACTOR, BF16_SLACK = 1.25, 1e-3
SHORTEST_RUN_FOR_COVERAGE = 60


class Table:
    """The largest difference of each category, and what exceeded its tolerance."""

    def __init__(self):
        self.largest = collections.defaultdict(float)
        self.comparisons = collections.Counter()
        self.tolerance = {}
        self.failures = []

    def compare(self, category, case, found, expected, tolerance):
        found, expected = (
            numpy.asarray(found, numpy.float64),
            numpy.asarray(expected, numpy.float64),
        )
        if found.shape != expected.shape:
            self.failures.append(
                f"{category}: shape {found.shape}, expected {expected.shape}: {label(case)}"
            )
            return
        self.record(category, case, float(numpy.abs(found - expected).max(initial=0.0)), tolerance)

    def record(self, category, case, difference, tolerance):
        self.comparisons[category] += 1
        self.tolerance[category] = tolerance
        # Written so that a NaN is kept and fails.
        if not difference <= self.largest[category]:
            self.largest[category] = difference
        if not difference <= tolerance:
            self.failures.append(f"{category}: {difference:.3g} > {tolerance:g}: {label(case)}")

    def print(self):
        print("\n| what | comparisons | largest difference | tolerance |\n|---|---|---|---|")
        for category in sorted(self.largest):
            row = (
                category,
                self.comparisons[category],
                f"{self.largest[category]:.2e}",
                f"{self.tolerance[category]:g}",
            )
            print("| " + " | ".join(str(cell) for cell in row) + " |")


def label(case):
    return f"case {case.index}: {case.describe()}"


def rows_seen(case, batch):
    """Per document the rows of a padded or ragged result where the mask is 1."""
    return [numpy.asarray(batch[b])[: len(d.ids)][d.seen()] for b, d in enumerate(case.documents)]


def expected_of(model, case):
    """What transformers says, float32; None for an output that the class does not have."""
    with torch.inference_mode():
        out = model(**random_models.padded(case), output_hidden_states=True)
    arrays = {"hidden_states": [s.float().numpy() for s in out.hidden_states]}
    arrays["last_hidden_state"] = arrays["hidden_states"][-1]
    for name in ("pooler_output", "logits"):
        value = getattr(out, name, None)
        arrays[name] = None if value is None else value.float().numpy()
    return arrays


def run_ours(model, case, documents=None, form=None):
    documents = case.documents if documents is None else documents
    form = case.ragged if form is None else form
    arguments = (
        random_models.ragged(documents)
        if form
        else {k: v.numpy() for k, v in random_models.padded(case, documents).items()}
    )
    return model(**arguments, output_hidden_states=True)


def compare_case(table, case, expected, ours, family):
    for name in ("last_hidden_state", "logits"):
        if expected[name] is None:
            continue
        pairs = zip(
            rows_seen(case, getattr(ours, name)), rows_seen(case, expected[name]), strict=True
        )
        for found, wanted in pairs:
            table.compare(f"{family} {name}", case, found, wanted, FP32_TOLERANCE)
    layers = zip(ours.hidden_states, expected["hidden_states"], strict=True)
    for found_layer, wanted_layer in layers:
        for found, wanted in zip(
            rows_seen(case, found_layer), rows_seen(case, wanted_layer), strict=True
        ):
            table.compare(f"{family} hidden_states", case, found, wanted, FP32_TOLERANCE)
    if expected["pooler_output"] is not None:
        for b, document in enumerate(case.documents):
            if document.seen()[0]:
                found, wanted = ours.pooler_output[b], expected["pooler_output"][b]
                table.compare(f"{family} pooler_output", case, found, wanted, FP32_TOLERANCE)


def compare_ragged(table, case, model):
    """A list of documents against each document alone."""
    together = run_ours(model, case, form=True)
    for b, document in enumerate(case.documents):
        alone = run_ours(model, case, [document], form=True)
        seen = document.seen()
        found = numpy.asarray(together.last_hidden_state[b])[seen]
        wanted = numpy.asarray(alone.last_hidden_state[0])[seen]
        table.compare("ragged list, one at a time", case, found, wanted, RAGGED_TOLERANCE)


def compare_bf16(table, case, folder, expected, engine, errors):
    """Ours in bf16 may be as far from fp32 as transformers in bf16 is."""
    theirs = expected_of(random_models.load(case, folder, torch.bfloat16), case)
    ours = run_ours(engine.load(folder, dtype="bf16"), case)
    wanted = numpy.concatenate(rows_seen(case, expected["last_hidden_state"])).astype(numpy.float64)
    their_error = numpy.abs(
        numpy.concatenate(rows_seen(case, theirs["last_hidden_state"])) - wanted
    )
    our_error = numpy.abs(numpy.concatenate(rows_seen(case, ours.last_hidden_state)) - wanted)
    for name, measure in (("largest", numpy.max), ("mean", numpy.mean)):
        limit = BF16_FACTOR * measure(their_error) + BF16_SLACK
        errors[name].append((measure(our_error), measure(their_error)))
        table.record(
            f"bf16 {name} error over its limit", case, float(measure(our_error) / limit), 1.0
        )


def scalar_states(case, folder):
    scalar = ScalarLongformer(folder)
    return scalar, [scalar.forward(document) for document in case.documents]


def compare_scalar(table, case, folder, arrays, name):
    """The scalar reference against `arrays` (of transformers, or ours)."""
    scalar, states = scalar_states(case, folder)
    for b, document in enumerate(case.documents):
        seen, n = document.seen(), len(document.ids)
        for layer, wanted in enumerate(states[b]):
            found = numpy.asarray(arrays["hidden_states"][layer][b])[:n][seen]
            table.compare(f"{name} hidden_states", case, found, wanted[seen], FP32_TOLERANCE)
        if arrays["logits"] is not None:
            found = numpy.asarray(arrays["logits"][b])[:n][seen]
            wanted = scalar.masked_lm_logits(states[b][-1])[seen]
            table.compare(f"{name} logits", case, found, wanted, FP32_TOLERANCE)
        if arrays["pooler_output"] is not None and seen[0]:
            wanted = scalar.pool(states[b][-1])
            table.compare(
                f"{name} pooler_output", case, arrays["pooler_output"][b], wanted, FP32_TOLERANCE
            )


def fits_scalar(case):
    return (
        case.is_longformer
        and sum(len(d.ids) for d in case.documents) <= random_models.MOST_TOKENS_SCALAR
    )


def run_case(table, case, seed, engine, errors, options):
    with tempfile.TemporaryDirectory() as folder:
        random_models.build(case, folder, seed)
        expected = expected_of(random_models.load(case, folder), case)
        if fits_scalar(case):
            compare_scalar(table, case, folder, expected, "transformers, scalar reference:")
        if engine is None:
            return
        model = engine.load(folder)
        compare_case(table, case, expected, run_ours(model, case), case.class_name)
        if len(case.documents) > 1:
            compare_ragged(table, case, model)
        if options.bf16:
            compare_bf16(table, case, folder, expected, engine, errors)


def run_beyond(table, case, seed, engine):
    """Windows that transformers refuses: the scalar reference alone is the oracle."""
    with tempfile.TemporaryDirectory() as folder:
        random_models.build(case, folder, seed)
        model = engine.load(folder)
        ours = run_ours(model, case)
        arrays = {k: getattr(ours, k, None) for k in ("hidden_states", "logits", "pooler_output")}
        compare_scalar(table, case, folder, arrays, "any window, scalar reference:")
        if len(case.documents) > 1:
            compare_ragged(table, case, model)


def print_bf16(errors):
    for name, pairs in errors.items():
        if pairs:
            ours, theirs = (numpy.array(column) for column in zip(*pairs, strict=True))
            ratio = ours / numpy.maximum(theirs, 1e-9)
            print(
                f"bf16 {name} error of ours over that of transformers: "
                f"median {numpy.median(ratio):.2f}, largest {ratio.max():.2f}; "
                f"largest seen {ours.max():.3g}, transformers {theirs.max():.3g}"
            )


def cases_of(options):
    """The same seed gives the same cases, whichever of them run."""
    decks = random_models.Decks(options.seed)
    cases = [random_models.draw_case(i, decks) for i in range(options.count)]
    beyond = range(options.count, options.count + options.count // 3)
    return cases, [random_models.draw_case(i, decks, beyond_transformers=True) for i in beyond]


def require_coverage(cases):
    """A run of full size must have met every form, or the decks are broken."""
    longformers = [c for c in cases if c.is_longformer]
    needed = {
        "every class": {c.family for c in cases} >= set(random_models.FAMILIES),
        "every activation": {c.config["hidden_act"] for c in cases}
        >= set(random_models.ACTIVATIONS),
        "every head size": {
            c.config["hidden_size"] // c.config["num_attention_heads"] for c in cases
        }
        >= set(random_models.HEAD_SIZES),
        "a window per layer": any(len(set(c.windows)) > 1 for c in longformers),
        "hundreds of global tokens": any(
            d.global_attention_mask is not None
            and 100 <= d.global_attention_mask.sum() < len(d.ids)
            for c in longformers
            for d in c.documents
        ),
        "a hole in a mask": any(
            not d.seen().all() and d.seen()[-1] for c in longformers for d in c.documents
        ),
        "one token": any(len(d.ids) == 1 for c in cases for d in c.documents),
        "4,096 tokens": any(len(d.ids) == 4096 for c in cases for d in c.documents),
    }
    missing = [name for name, met in needed.items() if not met]
    if missing:
        sys.exit(f"model_parity: the drawn cases lack {', '.join(missing)}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--count",
        type=int,
        default=72,
        help="cases against transformers; a third as many go beyond it",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="run the case of this index alone")
    parser.add_argument("--verbose", action="store_true", help="print each case as it runs")
    parser.add_argument("--no-bf16", dest="bf16", action="store_false")
    parser.add_argument(
        "--oracles-only", action="store_true", help="compare the two oracles with each other only"
    )
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    engine = None
    if not options.oracles_only:
        import longformer_cpp as engine

    cases, beyond = cases_of(options)
    if options.count >= SHORTEST_RUN_FOR_COVERAGE:
        require_coverage(cases)
    table, errors, begin = Table(), collections.defaultdict(list), time.monotonic()
    for case in cases + ([] if engine is None else beyond):
        if options.only is not None and case.index != options.only:
            continue
        seed = options.seed * 100_003 + case.index
        started = time.monotonic()
        try:
            if case.index >= options.count:
                run_beyond(table, case, seed, engine)
            else:
                run_case(table, case, seed, engine, errors, options)
        except Exception as error:  # one broken case must not hide the others
            table.failures.append(f"{type(error).__name__}: {error}: {label(case)}")
        if options.verbose:
            print(f"{time.monotonic() - started:6.2f} s  {label(case)}", flush=True)
    table.print()
    print_bf16(errors)
    for failure in table.failures[:40]:
        print("FAIL", failure)
    print(
        f"{len(cases)} cases against transformers {transformers.__version__} "
        f"(torch {torch.__version__}), "
        f"{len(beyond) if engine else 0} against the scalar reference alone, seed {options.seed}: "
        f"{sum(table.comparisons.values())} comparisons, {len(table.failures)} failures, "
        f"{time.monotonic() - begin:.0f} s"
    )
    return 1 if table.failures or not table.comparisons else 0


if __name__ == "__main__":
    sys.exit(main())
