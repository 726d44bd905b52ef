"""Compares the heads of longformer_cpp with `transformers` on random models and inputs, in one live
run.

    python3 tests/parity/head_parity.py [--count 96] [--seed 3] [--only INDEX,…]

Sequence classification, token classification, question answering and multiple choice of all families.
Configurations, documents and weights are drawn as in model_parity.py. Where global
attention is left to the default of the head, `transformers` computes that default itself when a
document has the three separators that it insists on, anywhere; with any other number it gets by hand
the mask that our rule describes. Exit code 1 when a difference is too large; a NaN is.
"""

import argparse
import collections
import sys
import tempfile
import time
import types

import model_parity
import numpy
import random_models
import torch
import transformers

HEADS = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
MODELS = ("Longformer", "Bert", "Roberta", "XLMRoberta", "Camembert", "DistilBert", "Electra")
FAMILIES = tuple(f"{model}For{head}" for head in HEADS for model in MODELS)
# Longformers twice: only they have global attention.
DECK = FAMILIES + tuple(f for f in FAMILIES if f.startswith("Longformer"))
SEPARATOR = 2
SHORTEST_RUN_FOR_COVERAGE = 96
DEFAULTS = ("three", "three", "template", "one", "two", "many")
OUTPUTS = ("logits", "start_logits", "end_logits", "hidden_states")


def head_of(case):
    return case.family.split("For")[1]


def draw(index, decks):
    """A case with labels, and with documents that are choices where the head wants them."""
    case = random_models.draw_case(index, decks, families=DECK)
    head = head_of(case)
    case.globals = "given"
    if case.is_longformer:
        case.globals = decks.deal(f"globals of {head}", ("default", "default", "given"))
        if case.documents[0].global_attention_mask is None:
            case.globals = "default"
    case.config["num_labels"] = 2
    if head.endswith("Classification"):
        case.config["num_labels"] = decks.deal(f"labels of {head}", (1, 2, 3, 9))
    case.choices = decks.deal("choices", (1, 2, 3)) if head == "MultipleChoice" else 0
    if case.family == "DistilBertForMultipleChoice":
        # `transformers` does not flatten the positions of its choices.
        for document in case.documents:
            document.position_ids = None
    if case.choices:
        while len(case.documents) % case.choices:
            case.documents.append(case.documents[-1])
    if case.globals == "default":
        for document in case.documents:
            document.global_attention_mask = None
            if head in ("QuestionAnswering", "MultipleChoice"):
                place_separators(case, document, decks)
    return case


def place_separators(case, document, decks):
    """Separators where the deck says. Short documents have as many as fit."""
    ids, n = document.ids, len(document.ids)
    ids[ids == SEPARATOR] = 5
    kind = decks.deal(f"separators of {head_of(case)}", DEFAULTS)
    count = min(n, {"three": 3, "template": 3, "one": 1, "two": 2, "many": 6}[kind])
    places = numpy.sort(decks.random.permutation(n)[:count])
    if kind == "template" and n >= 4:
        end = int(decks.random.integers(n - 3))
        places = numpy.array([end, end + 1, n - 1])
    ids[places] = SEPARATOR


def mask_by_hand(case, document):
    """Our rule for documents that `transformers` refuses."""
    places = numpy.flatnonzero(document.ids == SEPARATOR)
    positions = numpy.arange(len(document.ids))
    if head_of(case) == "QuestionAnswering":
        return (positions < places[0]).astype(numpy.int64)
    doubled = len(places) == 3 or (len(places) > 1 and places[1] == places[0] + 1)
    return (positions > places[0] + int(doubled)).astype(numpy.int64)


def refused(case):
    return (
        case.globals == "default"
        and head_of(case) in ("QuestionAnswering", "MultipleChoice")
        and any((d.ids == SEPARATOR).sum() != 3 for d in case.documents)
    )


def by_choice(case, arguments):
    """[questions, choices, n] where the head wants it."""
    if not case.choices:
        return arguments
    return {k: v.reshape(-1, case.choices, v.shape[-1]) for k, v in arguments.items()}


def run_transformers(case, folder, dtype):
    arguments = random_models.padded(case)
    if refused(case):
        width = arguments["input_ids"].shape[-1]
        masks = [mask_by_hand(case, d) for d in case.documents]
        arguments["global_attention_mask"] = torch.tensor(
            numpy.stack([numpy.pad(m, (0, width - len(m))) for m in masks])
        )
    model = random_models.load(case, folder, dtype)
    with torch.inference_mode(), model_parity.softmax_in_input_precision():
        out = model(**by_choice(case, arguments), output_hidden_states=True)
    values = {name: getattr(out, name, None) for name in OUTPUTS}
    values["hidden_states"] = [s.numpy() for s in values["hidden_states"]]
    return types.SimpleNamespace(
        **{k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    )


def run_ours(model, case):
    if not case.ragged:
        arguments = by_choice(case, random_models.padded(case))
        return model(**{k: v.numpy() for k, v in arguments.items()}, output_hidden_states=True)
    arguments = random_models.ragged(case.documents)
    if case.choices:
        step, count = case.choices, len(case.documents)
        arguments = {
            k: [v[i : i + step] for i in range(0, count, step)] for k, v in arguments.items()
        }
    return model(**arguments, output_hidden_states=True)


def specified(case, output):
    """Specified part of an output, as lists of arrays: visible tokens, and documents whose first token, which speaks
    for them, is visible."""
    seen = [d.seen() for d in case.documents]

    def tokens(batch):
        return [numpy.asarray(rows)[: len(s)][s] for rows, s in zip(batch, seen, strict=True)]

    values = {"hidden_states": [a for layer in output.hidden_states for a in tokens(layer)]}
    for name in OUTPUTS[:3]:
        value = getattr(output, name)
        if value is None:
            continue
        if head_of(case) == "MultipleChoice":
            value = numpy.concatenate([numpy.asarray(row) for row in value])
        if head_of(case) in ("SequenceClassification", "MultipleChoice"):
            pairs = zip(value, seen, strict=True)
            values[name] = [numpy.asarray(row) for row, s in pairs if s[0]]
        else:
            values[name] = tokens(value)
    return values


def run_case(table, case, engine, options):
    with tempfile.TemporaryDirectory() as folder:
        random_models.build(case, folder, options.seed * 100_003 + case.index)
        fp32 = specified(case, run_transformers(case, folder, torch.float32))
        double = specified(case, run_transformers(case, folder, torch.float64))
        model = engine.load(folder)
        ours = run_ours(model, case)
        if head_of(case) == "MultipleChoice" and not case.ragged:
            shape = (len(case.documents) // case.choices, case.choices)
            if ours.logits.shape != shape:
                raise ValueError(f"logits: expected shape {shape}, found {ours.logits.shape}")
        if len(model.labels) != (case.config["num_labels"] if "Class" in case.family else 0):
            raise ValueError(f"labels: found {model.labels}")
        found = specified(case, ours)
        if found.keys() != fp32.keys():
            raise ValueError(f"outputs: expected {sorted(fp32)}, found {sorted(found)}")
        model_parity.compare_case(table, case, found, fp32, double, names=OUTPUTS)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=96)
    parser.add_argument("--seed", type=int, default=5)
    random_models.add_only(parser)
    parser.add_argument("--verbose", action="store_true", help="print each case as it runs")
    options = random_models.parse_quietly(parser)
    import longformer_cpp as engine

    decks = random_models.Decks(options.seed)
    cases = [draw(i, decks) for i in range(options.count)]
    table, begin = model_parity.Table(), time.monotonic()
    kinds = collections.Counter()
    for case in cases:
        if options.only is not None and case.index not in options.only:
            continue
        started = time.monotonic()
        kinds[case.class_name, case.globals if case.is_longformer else "dense", refused(case)] += 1
        try:
            run_case(table, case, engine, options)
        except Exception as error:  # one broken case must not hide the others
            table.failures.append(
                f"{type(error).__name__}: {error}: {model_parity.label(case)} {case.globals}"
            )
        if options.verbose:
            print(f"{time.monotonic() - started:6.2f} s  {model_parity.label(case)}", flush=True)
    table.print()
    if options.only is None and options.count >= SHORTEST_RUN_FOR_COVERAGE:
        require_coverage(kinds)
    cases = sum(kinds.values())
    return table.end(f"{cases} cases against transformers {transformers.__version__}, seed {options.seed}", begin)


def require_coverage(kinds):
    """A run of full size must have met every head with default and with given global tokens."""
    missing = [
        f"{name} {globals_}"
        for name in FAMILIES
        for globals_ in (("default", "given") if name.startswith("Longformer") else ("dense",))
        if not any(kinds[name, globals_, beyond] for beyond in (False, True))
    ]
    for name in ("LongformerForQuestionAnswering", "LongformerForMultipleChoice"):
        for beyond in (False, True):
            if not kinds[name, "default", beyond]:
                missing.append(f"{name} with {'other' if beyond else 'three'} separators")
    if missing:
        sys.exit(f"head_parity: the drawn cases lack {', '.join(missing)}")


if __name__ == "__main__":
    sys.exit(main())
