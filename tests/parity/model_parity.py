"""Compares longformer_cpp with `transformers` on random models and inputs, in one live run.

    python3 tests/parity/model_parity.py [--count 96] [--seed 2] [--only INDEX,…] [--oracles-only]

Each case draws a configuration and documents, saves the folder with `transformers` and runs both on
it. `transformers` also runs in double precision: random weights make some softmaxes so sharp that
its own rounding in fp32 reaches the tolerance, which is then not held against us. Windows that
`transformers` refuses are compared with a scalar double precision implementation, which is itself
compared with `transformers` on every case small enough. Exit code 1 when any difference is too
large; a NaN is.
"""

import argparse
import collections
import contextlib
import math
import sys
import tempfile
import time
import types

import numpy
import random_models
import torch
import transformers
from scalar_longformer import ScalarLongformer

FP32_TOLERANCE = 1e-4
RAGGED_TOLERANCE = 1e-5
DOUBLE_TOLERANCE = 1e-9
GRADIENT_TOLERANCE = 1e-3
BF16_FACTOR, BF16_SLACK = 1.25, 1e-3
# The largest error of few rows is a matter of luck.
FEW_ROWS, BF16_FACTOR_OF_FEW = 64, 2.0
SHORTEST_RUN_FOR_COVERAGE = 60
OUTPUTS = ("last_hidden_state", "hidden_states", "pooler_output", "logits")
OURS_TO_FP32 = "ours to transformers in fp32"
OURS_TO_DOUBLE = "ours to transformers in double"
THEIR_ROUNDING = "transformers in fp32 to double"
COLUMNS = (OURS_TO_FP32, OURS_TO_DOUBLE, THEIR_ROUNDING)


class Table:
    """The largest difference of each category, and what exceeded its tolerance."""

    def __init__(self):
        self.largest = collections.defaultdict(float)
        self.comparisons = collections.Counter()
        self.tolerance = {}
        self.failures = []

    def record(self, category, case, difference, tolerance):
        self.comparisons[category] += 1
        self.tolerance[category] = tolerance
        # Written so that a NaN is kept and fails.
        if not difference <= self.largest[category]:
            self.largest[category] = difference
        if not difference <= tolerance:
            name = ", ".join(category) if isinstance(category, tuple) else category
            self.failures.append(f"{name}: {difference:.3g} > {tolerance:.3g}: {label(case)}")

    def compare(self, category, case, found, expected, tolerance):
        self.record(category, case, largest_difference(found, expected), tolerance)

    def compare_gradients(self, case, found, exact, rounded, category=lambda key: "gradients"):
        """A loss and its gradients by name: found, of PyTorch in double, and of PyTorch in fp32. Gradients are compared
        relative to the largest of a tensor, or to a thousandth of that of all; all may be four times as far as fp32 is."""
        (loss, found), (exact_loss, exact), (rounded_loss, rounded) = found, exact, rounded
        limit = max(1e-4 * max(1, abs(exact_loss)), 4 * abs(rounded_loss - exact_loss))
        self.record("loss", case, abs(loss - exact_loss), limit)
        largest = max(float(numpy.abs(gradient).max()) for gradient in exact.values())
        for key, expected in exact.items():
            bound = max(float(numpy.abs(expected).max()), 1e-3 * largest)
            rounding = float(numpy.abs(rounded[key] - expected).max()) / bound
            share = float(numpy.abs(found[key] - expected).max()) / bound if key in found else math.nan
            self.record(category(key), case, share, max(GRADIENT_TOLERANCE, 4 * rounding))

    def run(self, cases, only, run_case):
        """Runs cases, or those of the indices alone; one that raises has failed and does not hide the others."""
        for case in cases:
            if only is not None and case.index not in only:
                continue
            try:
                run_case(case)
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}: {label(case)}")

    def print(self):
        print(f"\n| {' | '.join(('output', 'comparisons', *COLUMNS))} |\n|---|---|---|---|---|")
        for row in sorted({c[0] for c in self.largest if isinstance(c, tuple)}):
            cells = [f"{self.largest[row, column]:.2e}" for column in COLUMNS]
            print(f"| {row} | {self.comparisons[row, OURS_TO_FP32]} | {' | '.join(cells)} |")
        print("\n| what | comparisons | largest difference | tolerance |\n|---|---|---|---|")
        for category in sorted(c for c in self.largest if isinstance(c, str)):
            cells = f"{self.largest[category]:.2e} | {self.tolerance[category]:g}"
            print(f"| {category} | {self.comparisons[category]} | {cells} |")

    def end(self, cases, begin=None):
        """Prints the failures and how many comparisons `cases` had; the exit code."""
        for failure in self.failures[:40]:
            print("FAIL", failure)
        taken = "" if begin is None else f", {time.monotonic() - begin:.0f} s"
        print(f"{cases}: {sum(self.comparisons.values())} comparisons, {len(self.failures)} failures{taken}")
        return 1 if self.failures or not self.comparisons else 0


def label(case):
    return f"case {case.index}: {case.describe()}"


def largest_difference(found, expected):
    """Over two lists of arrays of the same shapes; a NaN stays a NaN."""
    differences = [0.0]
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            raise ValueError(f"expected shape {b.shape}, found {a.shape}")
        difference = numpy.abs(a.astype(numpy.float64) - b.astype(numpy.float64))
        differences.append(difference.max(initial=0.0))
    return float(numpy.max(differences))


def specified(case, output):
    """The values that an output specifies, as lists of arrays: rows where the mask is 1."""

    def rows(batch):
        pairs = zip(batch, case.documents, strict=True)
        return [numpy.asarray(states)[: len(d.ids)][d.seen()] for states, d in pairs]

    values = {"hidden_states": [a for layer in output.hidden_states for a in rows(layer)]}
    for name in ("last_hidden_state", "logits"):
        if getattr(output, name, None) is not None:
            values[name] = rows(getattr(output, name))
    if getattr(output, "pooler_output", None) is not None:
        pairs = zip(output.pooler_output, case.documents, strict=True)
        values["pooler_output"] = [numpy.asarray(p) for p, d in pairs if d.seen()[0]]
    return values


@contextlib.contextmanager
def softmax_in_input_precision():
    """transformers asks for fp32 in its softmax, which would be the weak point of a double run."""
    original = torch.nn.functional.softmax

    def softmax(x, dim, dtype=None):
        return original(x, dim=dim, dtype=None if x.dtype == torch.float64 else dtype)

    torch.nn.functional.softmax = softmax
    try:
        yield
    finally:
        torch.nn.functional.softmax = original


def run_transformers(case, folder, dtype):
    model = random_models.load(case, folder, dtype)
    with torch.inference_mode(), softmax_in_input_precision():
        out = model(**random_models.padded(case), output_hidden_states=True)
    kept = torch.float64 if dtype == torch.float64 else torch.float32

    def convert(value):
        return None if value is None else value.to(kept).numpy()

    return types.SimpleNamespace(
        hidden_states=[convert(s) for s in out.hidden_states],
        last_hidden_state=convert(out.hidden_states[-1]),
        pooler_output=convert(getattr(out, "pooler_output", None)),
        logits=convert(getattr(out, "logits", None)),
    )


def run_scalar(case, folder):
    scalar = ScalarLongformer(folder)
    states = [scalar.forward(document) for document in case.documents]
    last = [s[-1] for s in states]
    head = case.class_name == "LongformerForMaskedLM"
    return types.SimpleNamespace(
        hidden_states=list(zip(*states, strict=True)),
        last_hidden_state=last,
        pooler_output=None if head else [scalar.pool(s) for s in last],
        logits=[scalar.masked_lm_logits(s) for s in last] if head else None,
    )


def run_ours(model, case, documents=None, form=None):
    documents = case.documents if documents is None else documents
    form = case.ragged if form is None else form
    arguments = (
        random_models.ragged(documents)
        if form
        else {k: v.numpy() for k, v in random_models.padded(case, documents).items()}
    )
    return model(**arguments, output_hidden_states=True)


def compare_case(table, case, ours, fp32, double, names=OUTPUTS, factor=1.25):
    """Ours against transformers in both precisions; its own rounding counts `factor` times."""
    for name in (n for n in names if n in fp32):
        row = f"{case.class_name} {name}"
        rounding = largest_difference(fp32[name], double[name])
        table.record((row, THEIR_ROUNDING), case, rounding, numpy.inf)
        tolerance = FP32_TOLERANCE + factor * rounding
        # A case that takes transformers itself to the tolerance may take us as far.
        double_tolerance = max(FP32_TOLERANCE, factor * rounding)
        table.compare((row, OURS_TO_FP32), case, ours[name], fp32[name], tolerance)
        table.compare((row, OURS_TO_DOUBLE), case, ours[name], double[name], double_tolerance)


def compare_ragged(table, case, model):
    """A list of documents against each document alone."""
    together = run_ours(model, case, form=True).last_hidden_state
    for found, document in zip(together, case.documents, strict=True):
        alone = run_ours(model, case, [document], form=True).last_hidden_state[0]
        seen = document.seen()
        category = "list of documents, one at a time"
        table.compare(category, case, [found[seen]], [alone[seen]], RAGGED_TOLERANCE)


def compare_bf16(table, case, theirs, ours, fp32, errors):
    """Ours in bf16 may be as far from fp32 as transformers in bf16 is."""
    wanted = numpy.concatenate(fp32["last_hidden_state"]).astype(numpy.float64)
    their_error = numpy.abs(numpy.concatenate(theirs["last_hidden_state"]) - wanted)
    our_error = numpy.abs(numpy.concatenate(ours["last_hidden_state"]) - wanted)
    for name, measure in (("largest", numpy.max), ("mean", numpy.mean)):
        is_luck = name == "largest" and len(wanted) < FEW_ROWS
        factor = BF16_FACTOR_OF_FEW if is_luck else BF16_FACTOR
        limit = factor * measure(their_error) + BF16_SLACK
        errors[name].append((measure(our_error), measure(their_error)))
        category = f"bf16: {name} error over its limit"
        table.record(category, case, float(measure(our_error) / limit), 1.0)


def fits_scalar(case):
    tokens = sum(len(d.ids) for d in case.documents)
    return case.is_longformer and tokens <= random_models.MOST_TOKENS_SCALAR


def run_case(table, case, engine, errors, options):
    with tempfile.TemporaryDirectory() as folder:
        random_models.build(case, folder, seed_of(case, options))
        fp32 = specified(case, run_transformers(case, folder, torch.float32))
        double = specified(case, run_transformers(case, folder, torch.float64))
        if fits_scalar(case):
            scalar = specified(case, run_scalar(case, folder))
            for name in double:
                category = f"transformers in double, scalar reference: {name}"
                table.compare(category, case, scalar[name], double[name], DOUBLE_TOLERANCE)
        if engine is None:
            return
        model = engine.load(folder)
        compare_case(table, case, specified(case, run_ours(model, case)), fp32, double)
        if len(case.documents) > 1:
            compare_ragged(table, case, model)
        if options.bf16:
            theirs = specified(case, run_transformers(case, folder, torch.bfloat16))
            ours = specified(case, run_ours(engine.load(folder, dtype="bf16"), case))
            compare_bf16(table, case, theirs, ours, fp32, errors)


def run_beyond(table, case, engine, options):
    """Windows that transformers refuses, dilated or not: the scalar reference alone is the oracle."""
    with tempfile.TemporaryDirectory() as folder:
        random_models.build(case, folder, seed_of(case, options))
        model = engine.load(folder)
        ours, scalar = run_ours(model, case), run_scalar(case, folder)
        ours, scalar = specified(case, ours), specified(case, scalar)
        for name in scalar:
            kind = "dilated windows" if "attention_dilation" in case.config else "windows"
            category = f"{kind} beyond transformers, scalar reference: {name}"
            table.compare(category, case, ours[name], scalar[name], FP32_TOLERANCE)
        if len(case.documents) > 1:
            compare_ragged(table, case, model)


def seed_of(case, options):
    return options.seed * 100_003 + case.index


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
        default=96,
        help="cases against transformers; a third as many go beyond it",
    )
    parser.add_argument("--seed", type=int, default=2)
    random_models.add_only(parser)
    parser.add_argument("--verbose", action="store_true", help="print each case as it runs")
    parser.add_argument("--no-bf16", dest="bf16", action="store_false")
    parser.add_argument(
        "--oracles-only", action="store_true", help="compare the two oracles with each other only"
    )
    options = random_models.parse_quietly(parser)
    engine = None
    if not options.oracles_only:
        import longformer_cpp as engine

    cases, beyond = cases_of(options)
    if options.count >= SHORTEST_RUN_FOR_COVERAGE:
        require_coverage(cases)
    if options.only is not None:
        cases = [case for case in cases if case.index in options.only]
        beyond = [case for case in beyond if case.index in options.only]
    table, errors, begin = Table(), collections.defaultdict(list), time.monotonic()
    for case in cases + ([] if engine is None else beyond):
        started = time.monotonic()
        try:
            if case.index >= options.count:
                run_beyond(table, case, engine, options)
            else:
                run_case(table, case, engine, errors, options)
        except Exception as error:  # one broken case must not hide the others
            table.failures.append(f"{type(error).__name__}: {error}: {label(case)}")
        if options.verbose:
            print(f"{time.monotonic() - started:6.2f} s  {label(case)}", flush=True)
    table.print()
    print_bf16(errors)
    return table.end(
        f"{len(cases)} cases against transformers {transformers.__version__} (torch {torch.__version__}), "
        f"{len(beyond) if engine else 0} against the scalar reference alone, seed {options.seed}",
        begin,
    )


if __name__ == "__main__":
    sys.exit(main())
