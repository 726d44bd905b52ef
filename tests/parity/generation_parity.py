#!/usr/bin/env python3
"""Compares the LEDs and BARTs of longformer_cpp with `transformers` on random models, in one live run.

    python3 tests/parity/generation_parity.py [--count 60] [--seed 3] [--only INDEX,…]

Each case draws a configuration and documents, and saves the folder with `transformers`. Logits of a
text are compared with those of `transformers` in fp32 and double, documents alone and in a padded
batch; token ids and scores of `generate` over several option sets, where ours writes all documents
together and `transformers` each alone. Where ids differ and those of `transformers` in double are
others than in fp32, the margin is smaller than rounding: such texts are counted apart. Exit code 1 for
a difference; a NaN is.
"""

import argparse
import collections
import copy
import json
import pathlib
import random
import sys
import tempfile
import time
import warnings

import numpy
import torch
import transformers
from model_parity import Table, softmax_in_input_precision

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixtures"))
import longformer_cpp  # noqa: E402
import make_generation_cases  # noqa: E402

LOGITS_TOLERANCE = 1e-4
SCORE_TOLERANCE = 1e-3
GRADIENT_TOLERANCE = 1e-3
OPTION_SETS = 5
ACTIVATIONS = ("gelu", "relu", "gelu_new", "silu", "tanh")
# `transformers` pads to the widest window, and every window must divide the widest.
WINDOWS = ((4,), (6,), (10,), (16,), (34,), (64,), (8, 16), (32, 4), (6, 18))


def draw(model, deviation):
    """Weights from N(0, deviation²), gains of norms around 1."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, deviation)
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1.0)


class Case:
    """A random model with documents; what it is, is told with a failure."""

    # Tokens of generation but for the first; those of other families are others.
    tokens = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    starts = (2, 0)

    def __init__(self, index, seed):
        self.index = index
        self.rng = rng = random.Random(seed * 100_003 + index)
        self.kind = self.kind_of(index)
        self.is_led = self.kind == "LED"
        heads = rng.choice([(1, 2), (2, 1), (2, 2), (3, 1), (4, 2), (1, 3)])
        self.width = heads[0] * heads[1] * rng.choice([4, 8, 6])
        self.layers = (rng.randint(1, 3), rng.randint(1, 3))
        self.vocabulary = rng.choice([12, 13, 40, 157])
        self.text_rows = rng.randint(16, 40)
        windows = rng.choice(WINDOWS)
        self.windows = [rng.choice(windows) for _ in range(self.layers[0])]
        widest = max(self.windows)
        longest = rng.choice([9, 33, 70, 150, 300])
        # Rows for what `transformers` pads before it reads positions.
        self.rows = -(-longest // widest) * widest
        sizes = {
            "vocab_size": self.vocabulary,
            "d_model": self.width,
            "encoder_layers": self.layers[0],
            "decoder_layers": self.layers[1],
            "encoder_attention_heads": heads[0],
            "decoder_attention_heads": heads[1],
            "encoder_ffn_dim": rng.choice([5, 17, 32, 70]),
            "decoder_ffn_dim": rng.choice([5, 17, 32, 70]),
            "activation_function": rng.choice(ACTIVATIONS),
            "tie_word_embeddings": rng.random() < 0.7,
        }
        self.config = self.config_of(sizes)
        self.pad = self.tokens["pad_token_id"]
        self.fills = {self.pad} if self.pad else {self.pad, self.tokens["eos_token_id"]}
        self.documents = [self.document(longest) for _ in range(rng.randint(1, 4))]
        self.texts = [self.ids(rng.randint(1, min(12, self.text_rows))) for _ in self.documents]

    @staticmethod
    def kind_of(index):
        """How the names of its classes begin."""
        return "Bart" if index % 4 == 3 else "LED"

    def config_of(self, sizes):
        if self.is_led:
            return transformers.LEDConfig(
                attention_window=self.windows,
                max_encoder_position_embeddings=self.rows,
                max_decoder_position_embeddings=self.text_rows,
                **sizes,
            )
        self.text_rows = self.rows
        return transformers.BartConfig(
            max_position_embeddings=self.rows,
            scale_embedding=self.rng.random() < 0.5,
            forced_eos_token_id=None,
            **sizes,
        )

    def run(self, model, **tensors):
        """A forward pass of `transformers`."""
        self.before(model)
        return model(**tensors)

    def before(self, model):
        """Makes the model of `transformers` ready for a document."""

    def padded_differ(self):
        """Whether `transformers` makes something else of a padded document."""
        return False

    def has_questions(self):
        return True

    def compare_more(self, table, model, theirs):
        """Further comparisons of a family."""

    @staticmethod
    def compare_once(table):
        """Comparisons without a case."""

    def ids(self, count):
        return [self.rng.randrange(self.vocabulary) for _ in range(count)]

    def document(self, longest):
        """ids, attention mask, global attention mask."""
        rng = self.rng
        ids = self.ids(rng.randint(1, longest))
        mask = [1] * len(ids)
        if rng.random() < 0.4:
            mask = [int(rng.random() < 0.8) for _ in ids]
            mask[rng.randrange(len(ids))] = 1
        globals_ = [0] * len(ids)
        form = rng.choice(["none", "first", "many"]) if self.is_led else "none"
        if form == "first":
            globals_[0] = 1
        if form == "many":
            globals_ = [int(rng.random() < 0.3) for _ in ids]
        return ids, mask, globals_

    def describe(self):
        kind = f"LED {self.windows}" if self.is_led else self.kind
        lengths = [len(ids) for ids, _, _ in self.documents]
        return f"{kind}, width {self.width}, layers {self.layers}, documents {lengths}"

    def save(self, folder):
        torch.manual_seed(self.index)
        model = getattr(transformers, f"{self.kind}ForConditionalGeneration")(self.config).eval()
        deviation = self.rng.choice([0.15, 0.3])
        draw(model, deviation)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(0.0, 0.3)
        model.generation_config = transformers.GenerationConfig(
            decoder_start_token_id=self.rng.choice(self.starts), **self.tokens, **self.folder_options())
        model.save_pretrained(folder)

    def folder_options(self):
        some = {"num_beams": 2, "max_length": 9, "no_repeat_ngram_size": 3, "length_penalty": 2.0,
                "early_stopping": True, "min_length": 4}  # fmt: skip
        if self.rng.random() < 0.6:
            return {}
        names = self.rng.sample(sorted(some), 2)
        if "length_penalty" in names or "early_stopping" in names:
            names.append("num_beams")
        return {name: some[name] for name in names}

    def option_sets(self):
        """Options that fit into the decoder's positions."""
        sets = []
        while len(sets) < OPTION_SETS:
            chosen = make_generation_cases.options(self.rng)
            length = chosen.get("max_length", 1 + chosen.get("max_new_tokens", 0))
            # Beams and candidates that `transformers` would make up, and what it refuses.
            few = chosen.get("num_beams", 1) * 3 > self.vocabulary
            # Two forced tokens are equally likely: `transformers` says nothing of their order.
            tie = chosen.get("num_beams", 2) > 1 and chosen.get("forced_eos_token_id") == [2, 7]
            if length <= self.text_rows and not few and not tie:
                sets.append(chosen)
        return sets


def tensors(case, document):
    ids, mask, globals_ = (torch.tensor([row]) for row in document)
    found = {"input_ids": ids, "attention_mask": mask}
    return found | ({"global_attention_mask": globals_} if case.is_led else {})


def their_logits(model, case):
    with torch.inference_mode(), softmax_in_input_precision():
        return [
            case.run(model, **tensors(case, d), decoder_input_ids=torch.tensor([text])).logits[0].numpy()
            for d, text in zip(case.documents, case.texts)
        ]


def masks_of(case):
    masks = {"attention_mask": [mask for _, mask, _ in case.documents]}
    if case.is_led:
        masks["global_attention_mask"] = [globals_ for _, _, globals_ in case.documents]
    return masks


def compare_logits(table, case, model, theirs, double):
    ours = model.text_logits([ids for ids, _, _ in case.documents], case.texts, **masks_of(case))
    kind = case.kind
    rounding = max(float(numpy.abs(a - b).max()) for a, b in zip(theirs, double, strict=True))
    table.compare(f"{kind} logits, transformers in fp32", case, ours, theirs,
                  LOGITS_TOLERANCE + rounding)  # fmt: skip
    table.compare(f"{kind} logits, transformers in double", case, ours, double,
                  max(LOGITS_TOLERANCE, 1.25 * rounding))  # fmt: skip
    # A batch of transformers: padding changes nothing.
    ids, mask, globals_ = (
        fill(rows, with_).numpy()
        for rows, with_ in zip(zip(*case.documents), (case.pad, 0, 0), strict=True)
    )
    # Masked tokens at the end of a padded document are padding.
    if case.padded_differ() and not all(mask[-1] for _, mask, _ in case.documents):
        return
    masks = {"attention_mask": mask} | ({"global_attention_mask": globals_} if case.is_led else {})
    padded = model.text_logits(ids, case.texts, **masks)
    table.compare(f"{kind} logits, padded batch to list", case, padded, ours, 1e-5)


def written(model, case, document, chosen):
    """ids of each text up to its end, and scores; None for what `transformers` leaves open."""
    try:
        case.before(model)
        out = model.generate(**tensors(case, document), output_scores=True,
                             return_dict_in_generate=True, **chosen)  # fmt: skip
    except (ValueError, RuntimeError, IndexError):
        return None
    if any(not torch.isfinite(step).any(dim=-1).all() for step in out.scores):
        return None
    scores = getattr(out, "sequences_scores", None)
    if scores is not None and not bool((scores > -1e6).all()):
        return None
    return [list(map(int, row)) for row in out.sequences], None if scores is None else scores.tolist()


def same_ids(ours, theirs, fills):
    """Texts of `transformers` are filled to the longest; with the end where padding is token 0."""
    return len(ours) == len(theirs) and all(
        row[: len(mine)] == mine and set(row[len(mine) :]) <= fills
        for mine, row in zip(ours, theirs)
    )


def compare_texts(case, model, theirs, double, counts, failures):
    documents = [ids for ids, _, _ in case.documents]
    for chosen in case.option_sets():
        expected = [written(theirs, case, document, chosen) for document in case.documents]
        if None in expected:
            counts["left open by transformers"] += 1
            continue
        found = model.generate(documents, **masks_of(case), **chosen)
        each = len(found.ids) // len(documents)
        for i, (ids, scores) in enumerate(expected):
            rows = slice(i * each, (i + 1) * each)
            counts["texts"] += len(ids)
            ends = chosen.get("eos_token_id", case.fills)
            if same_ids(found.ids[rows], ids, case.fills | set(ends if case.pad == 0 else ())):
                if scores is not None:
                    gap = numpy.abs(found.sequences_scores[rows] - numpy.array(scores)).max()
                    counts["scores"] += len(scores)
                    if not gap <= SCORE_TOLERANCE:
                        failures.append(f"score {gap:.3g}: case {case.index} {chosen}")
                continue
            with softmax_in_input_precision():
                exact = written(double, case, case.documents[i], chosen)
            if exact is None or exact[0] != ids:
                counts["margin below rounding"] += 1
                continue
            failures.append(
                f"ids {found.ids[rows]} instead of {ids}: case {case.index}, document {i}, "
                f"{case.describe()}, {json.dumps(chosen)}"
            )


def fill(rows, with_):
    """A padded batch."""
    longest = max(map(len, rows))
    return torch.tensor([list(row) + [with_] * (longest - len(row)) for row in rows])


def compare_gradients(table, case, model, double):
    """The loss of a batch, and the gradient of every parameter, with PyTorch autograd in double."""
    labels = [[-100 if case.rng.random() < 0.15 else t for t in text] for text in case.texts]
    labels[0][0] = case.texts[0][0]
    loss = their_loss(case, double, labels)
    loss.backward()
    ids = [document[0] for document in case.documents]
    ours, found = longformer_cpp.loss_and_gradients(model, ids, labels, **masks_of(case))
    table.record(f"{case.kind} loss", case, abs(ours - float(loss)), LOGITS_TOLERANCE)
    record_gradients(table, f"{case.kind} gradients, relative", case, double, found)


def their_loss(case, double, labels):
    """The loss of a padded batch, or of one document after another where padding changes something."""
    if case.padded_differ():
        counts = [sum(label != -100 for label in one) for one in labels]
        with softmax_in_input_precision():
            return sum(
                case.run(double, **tensors(case, document), labels=torch.tensor([one])).loss * count
                for document, one, count in zip(case.documents, labels, counts, strict=True) if count
            ) / sum(counts)  # fmt: skip
    ids, masks, globals_ = zip(*case.documents, strict=True)
    batch = {"input_ids": fill(ids, case.pad), "attention_mask": fill(masks, 0), "labels": fill(labels, -100)}
    if case.is_led:
        batch["global_attention_mask"] = fill(globals_, 0)
    with softmax_in_input_precision():
        return case.run(double, **batch).loss


def compare_questions(table, case, folder):
    """Start and end logits of a head for questions, its loss and gradients."""
    kind = case.kind
    torch.manual_seed(case.index)
    theirs = getattr(transformers, f"{kind}ForQuestionAnswering")(case.config).eval()
    draw(theirs, 0.2)
    theirs.save_pretrained(folder)
    rounded, theirs = theirs, copy.deepcopy(theirs).double()
    # One token alone is the answer, whatever the weights.
    document = next((d for d in case.documents if 1 < len(d[0]) <= case.text_rows), None)
    if document is None:
        return
    ids, _, globals_ = document
    masks = {"global_attention_mask": [globals_]} if case.is_led else {}
    spans = {"start_positions": [case.rng.randrange(len(ids))], "end_positions": [len(ids) - 1]}
    tensors_ = {k: torch.tensor(v) for k, v in ({"input_ids": [ids]} | masks | spans).items()}
    with softmax_in_input_precision():
        out = case.run(theirs, **tensors_)
    out.loss.backward()
    case.run(rounded, **tensors_).loss.backward()
    model = longformer_cpp.load(folder)
    found = model([ids], **masks)
    for name in ("start_logits", "end_logits"):
        table.compare(f"{kind} {name}", case, getattr(found, name), getattr(out, name).detach().numpy(),
                      LOGITS_TOLERANCE)  # fmt: skip
    loss, gradients = longformer_cpp.loss_and_gradients(model, [ids], **masks, **spans)
    table.record(f"{kind} loss of questions", case, abs(loss - float(out.loss)), LOGITS_TOLERANCE)
    record_gradients(table, f"{kind} gradients of questions, relative", case, theirs, gradients, rounded)


def record_gradients(table, name, case, theirs, found, rounded=None):
    """Our error may be as large as PyTorch's in fp32, in sums that cancel."""
    own = dict(rounded.named_parameters()) if rounded is not None else {}
    expected = {n: p.grad.numpy() for n, p in theirs.named_parameters() if p.grad is not None}
    every = max(numpy.abs(g).max() for g in expected.values())
    for tensor, gradient in expected.items():
        # A bias of all keys changes no softmax: its gradient is what rounding leaves.
        is_zero = tensor.endswith(("k_proj.bias", ".key.bias"))
        scale = max(float(numpy.abs(gradient).max()), (5e-3 if is_zero else 1e-3) * every)
        gap = numpy.abs(found[tensor].astype(numpy.float64) - gradient).max() / scale
        tolerance = GRADIENT_TOLERANCE
        if tensor in own:
            theirs_off = numpy.abs(own[tensor].grad.numpy() - gradient).max() / scale
            tolerance = max(tolerance, 1.25 * float(theirs_off))
        table.record(name, case, float(gap), tolerance)


def load(case, folder, dtype):
    return getattr(transformers, f"{case.kind}ForConditionalGeneration").from_pretrained(
        folder, dtype=dtype
    ).eval()  # fmt: skip


def main(case_class=Case, title=__doc__.splitlines()[0], name="generation_parity"):
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", type=lambda text: set(map(int, text.split(","))))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    table, counts, failures = Table(), collections.Counter(), []
    begin = time.monotonic()
    for index in range(options.count):
        if options.only is not None and index not in options.only:
            continue
        case = case_class(index, options.seed)
        with tempfile.TemporaryDirectory() as folder:
            case.save(folder)
            fp32, double = (load(case, folder, dtype) for dtype in (torch.float32, torch.float64))
            model = longformer_cpp.load(folder)
            # Reads the weights for the backward pass once more.
            compare_gradients(table, case, model, double)
        if case.has_questions():
            with tempfile.TemporaryDirectory() as folder:
                compare_questions(table, case, folder)
        compare_logits(table, case, model, their_logits(fp32, case), their_logits(double, case))
        case.compare_more(table, model, fp32)
        compare_texts(case, model, fp32, double, counts, failures)
    if options.only is None:
        case_class.compare_once(table)
    table.print()
    print("\n" + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    failures = table.failures + failures
    for line in failures:
        print("FAIL", line)
    print(f"{name}: {counts['texts']} texts, {len(failures)} failures, "
          f"{time.monotonic() - begin:.0f} s")  # fmt: skip
    return 1 if failures or not counts["texts"] else 0


if __name__ == "__main__":
    sys.exit(main())
