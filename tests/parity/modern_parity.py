"""Compares longformer_cpp with `transformers` on random models of the newer encoder families, in one live run.

    python3 tests/parity/modern_parity.py [--count 96] [--seed 2] [--only INDEX,…] [--families modernbert,mpnet,…]
        [--oracles-only] [--tokens N]

The families are ModernBERT, Nomic BERT, GTE, jina-embeddings-v3, MPNet, jina-embeddings-v2 and NeoBERT (by alibi_models.py
and neobert_model.py, as `transformers` has no class), DeBERTa-v2, EuroBERT, and Qwen3 and Gemma 3 as encoders, with every
head that `transformers` has for them. Each case draws a configuration and documents,
saves the folder with `transformers`, and compares hidden states, outputs, the loss and every gradient. `transformers`
also runs in double precision, because its own rounding in fp32 is not held against us. --oracles-only needs no longformer_cpp: it compares `transformers`
with itself (two attention routes, documents alone and in a batch) and the rotary frequencies with their formulas. --tokens takes one
document of so many tokens in each case, in two heads of 32 and without heads of tasks.
Exit code 1 when a difference is too large; a NaN is.
"""

import argparse
import collections
import math
import pathlib
import sys
import tempfile
import time
import types

import gradient_parity
import head_parity
import model_parity
from modern_models import (
    BETWEEN_ROUTES,
    FAMILIES,
    FREQUENCY_TOLERANCE,
    KINDS,
    LONGEST,
    ONE_ROUTE,
    OUTPUTS,
    ROPE_TYPES,
    ROTARY,
    RUN,
    SHORTEST_RUN_FOR_COVERAGE,
    build,
    double_precision,
    draw,
    frequencies,
    load,
)
import numpy
import random_models
from safetensors.torch import load_file
import torch
import transformers


def run_transformers(case, folder, dtype, documents=None, attention="sdpa"):
    model = load(case, folder, dtype, attention)
    arguments = random_models.padded(case, documents)
    if documents is None:
        arguments = head_parity.by_choice(case, arguments)
    elif case.choices:
        arguments = {key: value[None] for key, value in arguments.items()}
    with torch.inference_mode(), double_precision():
        out = model(**arguments, output_hidden_states=True)
    kept = torch.float64 if dtype == torch.float64 else torch.float32

    def convert(value):
        return None if value is None else value.to(kept).numpy()

    values = {name: convert(getattr(out, name, None)) for name in OUTPUTS if name != "hidden_states"}
    values["hidden_states"] = [convert(states) for states in out.hidden_states]
    values["last_hidden_state"] = values["hidden_states"][-1]
    return types.SimpleNamespace(**values)


def run_ours(model, case, documents=None, form=None):
    if case.choices and documents is None:
        return head_parity.run_ours(model, case)
    return model_parity.run_ours(model, case, documents, form)


def specified(case, output, documents=None):
    """The values that an output specifies, as lists of arrays: rows of visible tokens, and vectors of documents."""
    seen = [d.seen() for d in (case.documents if documents is None else documents)]

    def rows(batch):
        return [numpy.asarray(states)[: len(s)][s] for states, s in zip(batch, seen, strict=True)]

    values = {"hidden_states": [a for layer in output.hidden_states for a in rows(layer)]}
    for name in OUTPUTS:
        value = getattr(output, name, None)
        # Heads of `transformers` keep the pooled rows to themselves.
        if value is None or name == "hidden_states" or (case.head and name == "pooler_output"):
            continue
        of_documents = name == "pooler_output" or case.head in ("SequenceClassification", "MultipleChoice")
        if name == "last_hidden_state" or not of_documents:
            values[name] = rows(value)
            continue
        if case.head == "MultipleChoice":
            value = numpy.concatenate([numpy.asarray(row) for row in value])
        pairs = zip(value, seen, strict=True)
        values[name] = [numpy.asarray(row) for row, s in pairs if s[0]]
    return values


def gradients_by_saved_name(model):
    """Gradients under the names and in the shapes of the tensors that `transformers` saves."""
    with torch.no_grad():
        for parameter in model.parameters():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.copy_(gradient)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return {name: value.numpy() for name, value in load_file(pathlib.Path(folder, "model.safetensors")).items()}


def autograd(case, folder, dtype):
    model = load(case, folder, dtype)
    arguments = head_parity.by_choice(case, random_models.padded(case))
    targets = {name: torch.tensor(value) for name, value in case.targets.items()}
    targets = {name: value.to(dtype) if value.is_floating_point() else value for name, value in targets.items()}
    with double_precision():
        loss = model(**arguments, **targets).loss
        loss.backward()
    return loss.item(), gradients_by_saved_name(model)


def compare_gradients(table, case, folder, engine):
    """Like gradient_parity.py: a difference by the largest gradient of the tensor, or what rounding explains."""
    expected_loss, expected = autograd(case, folder, torch.float64)
    rounded_loss, rounded = autograd(case, folder, torch.float32)
    largest = max(float(numpy.abs(g).max()) for g in expected.values())

    def share(gradients, name):
        bound = max(float(numpy.abs(expected[name]).max()), 1e-3 * largest)
        return float(numpy.abs(gradients[name] - expected[name]).max()) / bound, bound

    if engine is None:
        table.record("loss, fp32 to double", case, abs(rounded_loss - expected_loss), 1e-3 * max(1, abs(expected_loss)))
        for name in expected:
            table.record("gradients, fp32 to double", case, share(rounded, name)[0], 1.0)
        return
    documents = {k: v.numpy() for k, v in head_parity.by_choice(case, random_models.padded(case)).items()}
    # A training counts positions by itself.
    if "position_ids" in documents:
        return
    loss, gradients = engine.loss_and_gradients(engine.load(folder), **documents, **case.targets)
    tolerance = gradient_parity.LOSS_TOLERANCE * max(1, abs(expected_loss))
    tolerance = max(tolerance, gradient_parity.ROUNDING * abs(rounded_loss - expected_loss))
    table.record("loss", case, abs(loss - expected_loss), tolerance)
    for name in expected:
        if name not in gradients or gradients[name].shape != expected[name].shape:
            table.failures.append(f"{name}: gradient missing or of another shape: {model_parity.label(case)}")
            continue
        found, bound = share(gradients, name)
        rounding = gradient_parity.ROUNDING * share(rounded, name)[0]
        smallest = gradient_parity.SMALLEST * max(case.choices, 1) / bound
        table.record("gradients", case, found / max(gradient_parity.TOLERANCE, rounding, smallest), 1.0)


def compare_frequencies(table, case, folder):
    """The rotary buffers of `transformers` after a document, with the formulas."""
    if not case.ropes():
        return
    model = load(case, folder, torch.float32)
    rotary = next(m for m in model.modules() if isinstance(m, ROTARY[case.model_type]))
    config, length = model.config, max(len(d.ids) for d in case.documents)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for kind, parameters in case.ropes().items():
        if kind is not None and kind not in config.layer_types:
            continue
        prefix = "" if kind is None else f"{kind}_"
        arguments = (torch.zeros(1), torch.arange(length)[None], *(() if kind is None else (kind,)))
        rotary(*arguments)
        wanted, scale = frequencies(parameters, size, config.max_position_embeddings, length)
        found = getattr(rotary, f"{prefix}inv_freq").double().numpy()
        category = f"{parameters['rope_type']} frequencies of transformers to their formula, relative"
        table.record(category, case, float(numpy.max(numpy.abs(found / wanted - 1))), FREQUENCY_TOLERANCE)
        found_scale = getattr(rotary, f"{prefix}attention_scaling")
        table.record("factors of rotary tables", case, abs(float(found_scale) - scale), 1e-12)


def compare_oracles(table, case, folder, double):
    """`transformers` in double by two attention routes, and each document alone."""
    compare_frequencies(table, case, folder)
    if case.model_type not in ONE_ROUTE:
        eager = specified(case, run_transformers(case, folder, torch.float64, attention="eager"))
        for name in double:
            table.compare(f"sdpa to eager, double: {name}", case, eager[name], double[name], BETWEEN_ROUTES)
    if len(case.documents) > 1 and not case.choices:
        states = double["last_hidden_state"]
        for document, together in zip(case.documents, states, strict=True):
            alone = run_transformers(case, folder, torch.float64, [document]).last_hidden_state[0]
            alone = alone[: len(document.ids)][document.seen()]
            table.compare("documents alone to a batch, double", case, [alone], [together], BETWEEN_ROUTES)


def run_case(table, case, engine, errors, options):
    with tempfile.TemporaryDirectory() as folder:
        build(case, folder, options.seed * 100_003 + case.index)
        fp32 = specified(case, run_transformers(case, folder, torch.float32))
        double = specified(case, run_transformers(case, folder, torch.float64))
        if engine is None:
            compare_oracles(table, case, folder, double)
            for name in double:
                rounding = model_parity.largest_difference(fp32[name], double[name])
                row = f"{case.model_type} {name}"
                table.record((row, model_parity.THEIR_ROUNDING), case, rounding, math.inf)
                if not math.isfinite(rounding):
                    table.failures.append(f"{row}: not finite: {model_parity.label(case)}")
        else:
            model = engine.load(folder)
            ours = specified(case, run_ours(model, case))
            if not ours.keys() >= fp32.keys() - {"last_hidden_state"}:
                raise ValueError(f"outputs: expected {sorted(fp32)}, found {sorted(ours)}")
            names = [name for name in OUTPUTS if name in ours]
            model_parity.compare_case(table, case, ours, fp32, double, names=names, factor=2)
            if len(case.documents) > 1 and not case.choices:
                compare_ragged(table, case, model)
            if options.bf16 and not case.head:
                theirs = specified(case, run_transformers(case, folder, torch.bfloat16))
                in_bf16 = specified(case, run_ours(engine.load(folder, dtype="bf16"), case))
                model_parity.compare_bf16(table, case, theirs, in_bf16, fp32, errors)
        if case.head:
            compare_gradients(table, case, folder, engine)


def compare_ragged(table, case, model):
    """A list of documents against each document alone."""
    together = run_ours(model, case, form=True).hidden_states[-1]
    for found, document in zip(together, case.documents, strict=True):
        alone = run_ours(model, case, [document], form=True).hidden_states[-1][0]
        seen = document.seen()
        category = "list of documents, one at a time"
        table.compare(category, case, [found[seen]], [alone[seen]], model_parity.RAGGED_TOLERANCE)


def require_coverage(cases, families):
    """A run of full size must have met every class and form, or the decks are broken."""
    needed = {
        "every class": {c.family for c in cases} >= {f for name in families for f in FAMILIES[name]},
        "one token": any(len(d.ids) == 1 for c in cases for d in c.documents),
        "a hole in a mask": any(not d.seen().all() and d.seen()[-1] for c in cases for d in c.documents),
    }
    if "modernbert" in families:
        modern = [c for c in cases if c.model_type == "modernbert"]
        needed |= {
            "every rotary type": {r["rope_type"] for c in modern for r in c.ropes().values()} >= set(ROPE_TYPES),
            "a window shorter than a document": any(
                c.config["local_attention"] < len(d.ids) and KINDS[1] in c.config["layer_types"]
                for c in modern
                for d in c.documents
            ),
            "old keys": any(c.old_keys for c in modern),
        }
    missing = [name for name, met in needed.items() if not met]
    if missing:
        sys.exit(f"modern_parity: the drawn cases lack {', '.join(missing)}")


def take_long_documents(tokens):
    """Every case becomes a model without head and one document of so many tokens; the oracle keeps n² numbers for each of its heads."""
    random_models.LENGTHS, random_models.MOST_TOKENS_DENSE = (tokens,), tokens
    random_models.HEAD_SIZES = {32: (2,)}
    random_models.batch_lengths = lambda _decks, length: [length]
    for name, classes in FAMILIES.items():
        FAMILIES[name] = classes[:1]
        LONGEST[name] = tokens


def families_of(text):
    names = text.split(",")
    unknown = sorted(set(names) - set(FAMILIES))
    if unknown:
        raise argparse.ArgumentTypeError(f"expected some of {','.join(FAMILIES)}, found {','.join(unknown)}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=96)
    parser.add_argument("--seed", type=int, default=2)
    random_models.add_only(parser)
    parser.add_argument(
        "--families", type=families_of, default=RUN, help="model types, such as modernbert,mpnet"
    )
    parser.add_argument("--verbose", action="store_true", help="print each case as it runs")
    parser.add_argument("--no-bf16", dest="bf16", action="store_false")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--oracles-only", action="store_true", help="compare transformers with itself only")
    options = random_models.parse_quietly(parser)
    engine = None
    if not options.oracles_only:
        import longformer_cpp as engine

    if options.tokens is not None:
        take_long_documents(options.tokens)
    decks = random_models.Decks(options.seed)
    cases = [draw(i, decks, options.families) for i in range(options.count)]
    if options.count >= SHORTEST_RUN_FOR_COVERAGE and options.tokens is None:
        require_coverage(cases, options.families)
    if options.only is not None:
        cases = [case for case in cases if case.index in options.only]
    table, errors, begin = model_parity.Table(), collections.defaultdict(list), time.monotonic()
    for case in cases:
        started = time.monotonic()
        try:
            run_case(table, case, engine, errors, options)
        except Exception as error:  # one broken case must not hide the others
            table.failures.append(f"{type(error).__name__}: {error}: {model_parity.label(case)}")
        if options.verbose:
            print(f"{time.monotonic() - started:6.2f} s  {model_parity.label(case)}", flush=True)
    table.print()
    model_parity.print_bf16(errors)
    versions = f"transformers {transformers.__version__} (torch {torch.__version__})"
    return table.end(f"{len(cases)} cases against {versions}, seed {options.seed}", begin)


if __name__ == "__main__":
    sys.exit(main())
