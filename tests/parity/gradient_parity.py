"""Compares losses and gradients of longformer_cpp with PyTorch autograd on `transformers`, in one live
run.

    python3 tests/parity/gradient_parity.py [--count 96] [--seed 5] [--only INDEX,…] [--longest 1536]

PyTorch computes in double. Where its own fp32 result is further off than that, as in sums that cancel
(the bias of a start logit), ours may be by 1.25 times as much. Every head of every family, with and
without global tokens, on random configurations and documents; all weights from N(0, 0.15). For every
parameter max|Δ| must be at most 1e-3 · max(max|g of the tensor|, 1e-3 · max|g of all tensors|): the
gradient of a key bias is mathematically zero. Exit code 1 when one is not; a NaN is.
"""

import argparse
import collections
import copy
import sys
import tempfile
import time

import head_parity
import model_parity
import numpy
import random_models
import torch
import transformers

FAMILIES = head_parity.DECK + (
    "LongformerForMaskedLM",
    "LongformerForMaskedLM",
    "LongformerForMaskedLM untied",
    *(f"{model}ForMaskedLM" for model in head_parity.MODELS[1:]),
)
TOLERANCE = 1e-3
LOSS_TOLERANCE = 1e-4
# Our error may be as large as PyTorch's in fp32.
ROUNDING = 1.25
# Half a unit in the last place of a probability, of which gradients of logits are made: each choice
# has one, and their gradients cancel.
SMALLEST = 2.0**-24
# Names of the decoders of masked-LM heads that share the word embeddings.
TIED_DECODERS = (
    "cls.predictions.decoder.",
    "generator_lm_head.weight",
    "lm_head.decoder.",
    "vocab_projector.weight",
)


def draw(index, decks, longest):
    """A case whose first tokens are visible, with targets."""
    head_parity.DECK = FAMILIES
    case = head_parity.draw(index, decks)
    for document in case.documents:
        # Positions are not among the arguments, and a batch of ragged documents must be a batch.
        document.position_ids = None
        for name in ("ids", "attention_mask", "token_type_ids", "global_attention_mask"):
            value = getattr(document, name)
            if value is not None:
                setattr(document, name, value[:longest])
        if document.attention_mask is not None:
            document.attention_mask[0] = 1
        if case.globals == "default" and head_parity.head_of(case) in (
            "QuestionAnswering",
            "MultipleChoice",
        ):
            place_three_separators(case, document, decks)
    if head_parity.head_of(case) == "QuestionAnswering" and not case.is_longformer:
        # Dense attention of ours leaves the rows of padding empty; their logits are in this loss.
        for document in case.documents:
            document.attention_mask = None
            document.ids = document.ids[: min(len(d.ids) for d in case.documents)]
            if document.token_type_ids is not None:
                document.token_type_ids = document.token_type_ids[: len(document.ids)]
    return case


def place_three_separators(case, document, decks):
    """The three separators that `transformers` requires; documents too short for them get their mask by hand."""
    ids, n = document.ids, len(document.ids)
    ids[ids == head_parity.SEPARATOR] = 5
    if n < 3:
        case.globals = "given"
        document.global_attention_mask = numpy.zeros(n, numpy.int64)
        return
    ids[numpy.sort(decks.random.permutation(n)[:3])] = head_parity.SEPARATOR


def consistent_globals(case):
    """All documents with a mask, or none."""
    masks = [d.global_attention_mask for d in case.documents]
    if any(m is not None for m in masks):
        for document in case.documents:
            if document.global_attention_mask is None:
                document.global_attention_mask = numpy.zeros(len(document.ids), numpy.int64)


def draw_targets(case, decks):
    """Arguments of `transformers` and of ours."""
    random, documents = decks.random, case.documents
    width = max(len(d.ids) for d in documents)
    head, classes = head_parity.head_of(case), case.config.get("num_labels", 2)
    if head in ("MaskedLM", "MaskedLM untied", "TokenClassification"):
        highest = case.config["vocab_size"] if "MaskedLM" in head else classes
        labels = random.integers(0, highest, (len(documents), width))
        labels[random.random(labels.shape) < 0.7] = -100
        labels[:, 0] = 1 if classes > 1 or "MaskedLM" in head else 0
        for row, document in zip(labels, documents):
            row[: len(document.ids)][~document.seen()] = -100
            row[len(document.ids) :] = -100
        return {"labels": labels}
    if head == "QuestionAnswering":
        starts = [int(random.integers(len(d.ids))) for d in documents]
        ends = [int(random.integers(len(d.ids))) for d in documents]
        if len(documents) > 1:
            starts[0] = width + 3
        return {"start_positions": numpy.array(starts), "end_positions": numpy.array(ends)}
    if head == "MultipleChoice":
        return {"labels": random.integers(0, case.choices, len(documents) // case.choices)}
    if case.problem == "regression":
        return {"labels": random.normal(size=(len(documents), classes)).astype(numpy.float32)}
    if case.problem == "multi_label_classification":
        return {"labels": random.integers(0, 2, (len(documents), classes)).astype(numpy.float32)}
    return {"labels": random.integers(0, classes, len(documents))}


def set_problem(case, decks):
    """The loss of one class or one choice has no gradient: there are two or more."""
    case.problem = None
    if case.choices == 1:
        case.choices = 2
        case.documents = [d for d in case.documents for _ in range(2)]
    case.documents = [copy.copy(document) for document in case.documents]
    for document in case.documents if case.choices else ():
        # Alike choices would have gradients that cancel.
        random = decks.random.integers(0, case.config["vocab_size"], len(document.ids))
        separators = document.ids == head_parity.SEPARATOR
        random[random == head_parity.SEPARATOR] = 5
        document.ids = numpy.where(separators, document.ids, random)
    if head_parity.head_of(case) == "TokenClassification":
        case.config["num_labels"] = max(case.config["num_labels"], 2)
    if head_parity.head_of(case) != "SequenceClassification":
        return
    problems = ("regression", "single_label_classification", "multi_label_classification")
    case.problem = decks.deal("problem", problems)
    if case.problem != "regression" and case.config["num_labels"] == 1:
        case.config["num_labels"] = 3
    case.config["problem_type"] = case.problem


def autograd(case, folder, arguments, targets, dtype):
    model = random_models.load(case, folder, dtype)
    tensors = {k: torch.tensor(v) for k, v in targets.items()}
    tensors = {k: v.to(dtype) if v.is_floating_point() else v for k, v in tensors.items()}
    with model_parity.softmax_in_input_precision():
        loss = model(**head_parity.by_choice(case, arguments), **tensors).loss
        loss.backward()
    # Tied parameters have several names, of which ours has one.
    names = {id(p): name for name, p in model.named_parameters(remove_duplicate=False)
             if not name.startswith(TIED_DECODERS) or not case.config.get("tie_word_embeddings", True)}
    gradients = {
        names[id(p)]: numpy.zeros(tuple(p.shape)) if p.grad is None else p.grad.numpy()
        for p in model.parameters()
    }
    return loss.item(), gradients


def run_case(case, decks, engine, options, worst):
    with tempfile.TemporaryDirectory() as folder:
        random_models.build(case, folder, options.seed * 100_003 + case.index)
        arguments = random_models.padded(case)
        arguments.pop("position_ids", None)
        targets = draw_targets(case, decks)
        expected_loss, expected = autograd(case, folder, arguments, targets, torch.float64)
        _, rounded = autograd(case, folder, arguments, targets, torch.float32)
        model = engine.load(folder)
        ours = {k: v.numpy() for k, v in head_parity.by_choice(case, arguments).items()}
        loss, gradients = engine.loss_and_gradients(model, **ours, **targets)
    name = f"{case.index}: {case.describe()} {case.problem or ''}"
    failures = []
    if not abs(loss - expected_loss) <= LOSS_TOLERANCE * max(1, abs(expected_loss)):
        failures.append(f"loss {loss}, expected {expected_loss}: {name}")
    largest = max(float(numpy.abs(g).max()) for g in expected.values())
    for tensor, gradient in expected.items():
        if tensor not in gradients or gradients[tensor].shape != gradient.shape:
            failures.append(f"{tensor}: missing or of another shape: {name}")
            continue
        bound = max(float(numpy.abs(gradient).max()), 1e-3 * largest)
        share = float(numpy.abs(gradients[tensor] - gradient).max()) / bound
        rounding = float(numpy.abs(rounded[tensor] - gradient).max()) / bound
        kind = ".".join(part for part in tensor.split(".") if not part.isdigit())
        worst[kind] = max(worst[kind], share)
        if options.only is not None and len(options.only) == 1:
            found = gradients[tensor]
            print(f"{share:.2e} {tensor} {numpy.abs(found - gradient).max():.2e} of {bound:.2e}")
        smallest = SMALLEST * max(case.choices, 1)
        if not share <= max(TOLERANCE, ROUNDING * rounding, smallest / bound):
            failures.append(f"{tensor}: off by {share:.2e} of the largest: {name}")
    return len(expected) + 1, failures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=96)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--longest", type=int, default=1536, help="cut documents here")
    random_models.add_only(parser)
    options = random_models.parse_quietly(parser)
    import longformer_cpp as engine

    decks = random_models.Decks(options.seed)
    comparisons, failures, heads = 0, [], collections.Counter()
    worst, begin = collections.defaultdict(float), time.monotonic()
    for index in range(options.count):
        case = draw(index, decks, options.longest)
        consistent_globals(case)
        set_problem(case, decks)
        if options.only is not None and index not in options.only:
            draw_targets(case, decks)
            continue
        heads[case.class_name] += 1
        try:
            count, wrong = run_case(case, decks, engine, options, worst)
        except Exception as error:  # one broken case must not hide the others
            count, wrong = 0, [f"{type(error).__name__}: {error}: {index}: {case.describe()}"]
        comparisons += count
        failures += wrong
    for kind, share in sorted(worst.items(), key=lambda item: -item[1])[:12]:
        print(f"{share:.2e}  {kind}")
    missing = {family.split()[0] for family in FAMILIES} - set(heads)
    if options.only is None and options.count >= len(FAMILIES) and missing:
        failures.append(f"not met in this run: {sorted(missing)}")
    for failure in failures[:40]:
        print("FAIL", failure)
    print(
        f"{sum(heads.values())} cases against PyTorch {torch.__version__} and transformers "
        f"{transformers.__version__}, seed {options.seed}: {comparisons} comparisons, "
        f"{len(failures)} failures, {time.monotonic() - begin:.0f} s"
    )
    return 1 if failures or not comparisons else 0


if __name__ == "__main__":
    sys.exit(main())
