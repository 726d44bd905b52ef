"""Compares attention probabilities with those of `transformers` on random models and inputs.

    python3 tests/parity/attention_parity.py [--count 48] [--seed 5] [--only INDEX,…]

The models and documents are those of random_models.py: windows, holes in masks, ragged batches,
none to all tokens global; dense attention of BERT and RoBERTa. What is compared is the row of every
token that the mask keeps: `attentions` of all layers and heads, and the columns of
`global_attentions` that belong to a global token. As in model_parity.py `transformers` also runs in
double precision, and where random weights make its own rounding larger than the tolerance, that
rounding is not held against us. Exit code 1 when a difference is too large; a NaN is.
"""

import argparse
import sys
import tempfile

import longformer_cpp
import numpy
import random_models
import torch
import transformers
from model_parity import Table, largest_difference, softmax_in_input_precision

TOLERANCE = 1e-5
ROW_SUM_TOLERANCE = 1e-5
# n² probabilities per head of every layer are a lot for the oracle.
MOST_TOKENS_DENSE = 512


def globals_of(case):
    """Per document the positions of the global tokens: those that are not masked."""
    return [
        numpy.flatnonzero((d.global_attention_mask == 1) & d.seen())
        if d.global_attention_mask is not None
        else numpy.zeros(0, int)
        for d in case.documents
    ]


def run_transformers(case, folder, dtype):
    model = random_models.load(case, folder, dtype)
    model.set_attn_implementation("eager")
    with torch.inference_mode(), softmax_in_input_precision():
        out = model(**random_models.padded(case), output_attentions=True)
    own = [[a.double().numpy() for a in out.attentions]]
    if getattr(out, "global_attentions", None) is not None:
        own.append([a.double().numpy() for a in out.global_attentions])
    return compared(case, *own)


def run_ours(model, case, form):
    arguments = (
        random_models.ragged(case.documents)
        if form
        else {k: v.numpy() for k, v in random_models.padded(case).items()}
    )
    out = model(**arguments, output_attentions=True)
    own = [out.attentions]
    if out.global_attentions is not None:
        own.append(out.global_attentions)
    return compared(case, *own)


def compared(case, local, of_global=None):
    """{name: arrays}, one per layer and document, of what the outputs specify: [heads, seen rows,
    columns]. A batch has as many global columns as its document with most global tokens."""
    result = {"attentions": [], "global_attentions": []}
    positions = globals_of(case)
    for layer in range(len(local)):
        for i, document in enumerate(case.documents):
            n, x = len(document.ids), len(positions[i])
            rows = numpy.asarray(local[layer][i])[:, :n][:, document.seen()]
            if case.is_longformer:
                window = case.windows[layer % len(case.windows)]
                rows = numpy.concatenate([rows[..., :x], rows[..., -window - 1 :]], axis=2)
            else:
                rows = rows[..., :n]
            result["attentions"].append(rows)
            if of_global is not None:
                result["global_attentions"].append(
                    numpy.asarray(of_global[layer][i])[:, :n][:, document.seen(), :x]
                )
    return result


def check_sums(table, case, ours):
    """Every token spreads a probability of 1: over its row, or over its column when it is global."""
    for name, axis in (("attentions", 2), ("global_attentions", 1)):
        layers = [numpy.asarray(a, numpy.float64).sum(axis) for a in ours[name]]
        for i, sums in enumerate(layers):
            document = i % len(case.documents)
            wanted = numpy.ones_like(sums)
            if name == "attentions":
                seen = numpy.flatnonzero(case.documents[document].seen())
                wanted[:, numpy.isin(seen, globals_of(case)[document])] = 0
            table.compare("sum of the probabilities of a token", case, [sums], [wanted], ROW_SUM_TOLERANCE)


def run_case(table, case, seed):
    with tempfile.TemporaryDirectory() as folder:
        random_models.build(case, folder, seed)
        fp32 = run_transformers(case, folder, torch.float32)
        double = run_transformers(case, folder, torch.float64)
        model = longformer_cpp.load(folder)
        for form in (False, True):
            ours = run_ours(model, case, form)
            for name in ("attentions", "global_attentions"):
                if not double[name]:
                    continue
                row = f"{case.class_name} {name}"
                rounding = largest_difference(fp32[name], double[name])
                table.record((row, "transformers in fp32 to double"), case, rounding, numpy.inf)
                tolerance = TOLERANCE + rounding
                table.compare((row, "ours to transformers in fp32"), case, ours[name], fp32[name], tolerance)
                table.compare((row, "ours to transformers in double"), case, ours[name], double[name], tolerance)
            check_sums(table, case, ours)


def cases_of(options):
    """Lengths are capped before documents are drawn, so that dense oracles stay small."""
    random_models.MOST_TOKENS_DENSE = MOST_TOKENS_DENSE
    decks = random_models.Decks(options.seed)
    return [random_models.draw_case(i, decks) for i in range(options.count)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=48)
    parser.add_argument("--seed", type=int, default=5)
    random_models.add_only(parser)
    options = random_models.parse_quietly(parser)
    table = Table()
    cases = [c for c in cases_of(options) if options.only is None or c.index in options.only]
    for case in cases:
        try:
            run_case(table, case, options.seed * 100_003 + case.index)
        except Exception as error:  # one broken case must not hide the others
            table.failures.append(f"{type(error).__name__}: {error}: case {case.index}")
    table.print()
    return table.end(f"{len(cases)} cases against transformers {transformers.__version__}, seed {options.seed}")


if __name__ == "__main__":
    sys.exit(main())
