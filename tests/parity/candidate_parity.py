"""Compares candidate scoring, the form of the Longformer paper for WikiHop, with `transformers` and PyTorch.

    python3 tests/parity/candidate_parity.py PROGRAM

A folder without a head is trained for two steps by `finetune --task candidates`, which adds four special
tokens and a head. `transformers` then reads tokenizer and encoder of what was written; the rows are built
here from the description in docs/cli.md, and the head is one product with its tensor. Compared are the
logits of `choose` on questions that take one row and several, the accuracy of `evaluate`, and the gradient of
the loss for every tensor (PyTorch in double). Exit code 1 when anything differs.
"""

import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import numpy
import safetensors.torch
import torch
import transformers
from pipeline_parity import MOST_TOKENS, Folder, Report, novels, ours, train_tokenizers

MARKS = ("[question]", "[/question]", "[ent]", "[/ent]")
GRADIENT_TOLERANCE = 1e-3
MODELS = (
    ("Longformer", "bytes", True),
    ("Longformer", "pieces", False),
    ("Bert", "pieces", True),
    ("Roberta", "bytes", False),
)


def questions(count, seed, support_characters):
    """WikiHop's fields over passages of novels, with the spaces of tokenized text."""
    draw, found = random.Random(seed), []
    for i in range(count):
        supports = []
        for _ in range(draw.randrange(1, 5)):
            novel = draw.choice(novels())
            begin = draw.randrange(len(novel) - support_characters)
            supports.append(novel[begin : begin + draw.randrange(40, support_characters)])
        supports[0] = "He said ( so it is told ) : Moby 's ship , at last ! " + supports[0] + " ."
        words = [word for word in " ".join(supports).split() if word.isalpha()]
        candidates = draw.sample(sorted(set(words)), draw.randrange(2, 7))
        found.append({"query": f"part_of {draw.choice(words)} ?", "candidates": candidates,
                      "answer": draw.choice(candidates), "supports": supports})  # fmt: skip
    return found


class Tuned:
    """Model that finetune wrote, as transformers reads it."""

    def __init__(self, path, kind, model):
        self.path, self.kind = path, kind
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.model = getattr(transformers, f"{model}Model").from_pretrained(path, add_pooling_layer=False).eval()
        self.head = safetensors.torch.load_file(path / "model.safetensors")["candidate_scorer.weight"]
        self.marks = self.tokenizer.convert_tokens_to_ids(list(MARKS))

    def ids(self, text):
        """Joins words as the authors' script does: no space before punctuation, one between words."""
        for space, joined in ((" .", "."), (" ,", ","), (" !", "!"), (" ?", "?"), ("( ", "("), (" )", ")"), (" 's", "'s")):
            text = text.replace(space, joined)
        text = " ".join(text.split())
        return self.tokenizer((" " if self.kind == "bytes" else "") + text, add_special_tokens=False)["input_ids"]

    def rows(self, question, truncate=False):
        """Rows of ids, how many of each are question and candidates, and where the candidates stand."""
        begin, end, candidate, candidate_end = self.marks
        head = [self.tokenizer.cls_token_id, begin, *self.ids(question["query"]), end]
        places = []
        for text in question["candidates"]:
            places.append(len(head))
            head += [candidate, *self.ids(text), candidate_end]
        separator, supports = self.tokenizer.sep_token_id, []
        for text in question["supports"]:
            supports += [separator, *self.ids(text), separator]
        room = MOST_TOKENS - len(head)
        parts = [supports[i : i + room] for i in range(0, len(supports), room)]
        return [head + part for part in (parts[:1] if truncate else parts)], len(head), places

    def logits(self, rows, head_size, places, model=None, head=None):
        """The sums over all rows, and gradients can flow."""
        model, head = model or self.model, self.head if head is None else head
        total = 0
        for row in rows:
            arguments = {"input_ids": torch.tensor([row])}
            if "longformer" in type(model).__name__.lower():
                mask = torch.zeros(1, len(row), dtype=torch.long)
                mask[0, :head_size] = 1
                arguments["global_attention_mask"] = mask
            total = total + model(**arguments).last_hidden_state[0, places] @ head[0]
        return total


def tune(program, folder, root, data):
    path = pathlib.Path(root, folder.path.name + " tuned")
    subprocess.run([program, "finetune", str(folder.path), str(data), "--task", "candidates", "--stride", "0",
                    "--output-dir", str(path), "--max-steps", "2", "--learning-rate", "1e-3", "--warmup-steps", "0",
                    "--save-strategy", "no"], check=True, capture_output=True)  # fmt: skip
    return path


def compare_gradients(report, what, tuned, engine, chosen):
    """The mean loss of two questions, one of which takes several rows."""
    model = type(tuned.model).from_pretrained(tuned.path, add_pooling_layer=False).eval().double()
    head = tuned.head.double().requires_grad_()
    rows, masks, places, segments, labels, losses = [], [], [], [], [], []
    for question in chosen:
        parts, head_size, at = tuned.rows(question)
        logits = tuned.logits(parts, head_size, at, model, head)
        label = question["candidates"].index(question["answer"])
        losses.append(torch.nn.functional.cross_entropy(logits[None], torch.tensor([label])))
        rows += [numpy.array(part) for part in parts]
        masks += [(numpy.arange(len(part)) < head_size).astype(numpy.int64) for part in parts]
        places += [at] * len(parts)
        segments.append(len(parts))
        labels.append(label)
    loss = torch.stack(losses).mean()
    loss.backward()
    # A row that goes on within a support has no separator behind the candidates: masks by hand.
    has_globals = tuned.model.config.model_type == "longformer"
    found_loss, found = engine.loss_and_gradients(
        engine.load(tuned.path), rows, labels=labels, candidate_positions=places, segments=segments,
        global_attention_mask=masks if has_globals else None)  # fmt: skip
    report.close(f"{what}: loss", [found_loss], [loss.item()])
    family = tuned.model.config.model_type
    expected = {f"{family}.{name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    expected["candidate_scorer.weight"] = head.grad
    largest = max(float(g.abs().max()) for g in expected.values())
    for name, gradient in expected.items():
        bound = max(float(gradient.abs().max()), 1e-3 * largest)
        share = float(numpy.abs(found[name] - gradient.numpy()).max()) / bound
        report.count[f"{what}: gradients"] += 1
        report.largest[f"{what}: gradients"] = max(report.largest[f"{what}: gradients"], share)
        if not share <= GRADIENT_TOLERANCE:
            report.failures.append(f"{what}: gradient of {name} off by {share:.2e} of the largest")
    report.same(f"{what}: tensors", sorted(set(expected) - set(found)), [])


def compare_folder(report, program, engine, root, model, kind, has_tokenizer_json):
    what = f"{model}, {'tokenizer.json' if has_tokenizer_json else 'vocabulary alone'}"
    folder = Folder(root, f"{model}-{kind}", f"{model}Model", kind)
    if not has_tokenizer_json:
        (folder.path / "tokenizer.json").unlink()
    data = pathlib.Path(root, f"{model}.json")
    data.write_text(json.dumps(questions(6, 1, 900)))
    tuned = Tuned(tune(program, folder, root, data), kind, model)
    report.same(f"{what}: new tokens", sorted(tuned.marks), list(range(3000, 3004)))
    report.same(f"{what}: marks in text", tuned.tokenizer("a[ent]b [/ent]", add_special_tokens=False)["input_ids"][1],
                tuned.marks[2])  # fmt: skip
    asked, several, right = questions(12, 2, 900) + questions(4, 3, 200), 0, 0
    with torch.inference_mode():
        for flags, truncate in ((["--stride", 0], False), (["--truncate"], True)):
            for question, row in zip(asked, ours(program, tuned.path, "choose", asked, *flags), strict=True):
                rows, head_size, places = tuned.rows(question, truncate)
                expected = tuned.logits(rows, head_size, places)
                report.close(f"{what}: logits", row["logits"], expected)
                several += len(rows) > 1
                if truncate:
                    right += row["best"] == question["candidates"].index(question["answer"])
    report.same(f"{what}: questions of several rows were met", several > 0, True)
    test = pathlib.Path(root, f"{model}-test.json")
    test.write_text(json.dumps(asked))
    done = subprocess.run([program, "evaluate", str(tuned.path), str(test), "--truncate", "--json"],
                          check=True, capture_output=True)  # fmt: skip
    report.close(f"{what}: accuracy", [json.loads(done.stdout)["metrics"]["accuracy"]], [right / len(asked)])
    counts = collections.Counter(len(tuned.rows(q)[0]) for q in asked)
    long = next(q for q in asked if 1 < len(tuned.rows(q)[0]) == max(counts))
    compare_gradients(report, what, tuned, engine, [asked[-1], long])


def main():
    program = os.path.realpath(sys.argv[1])
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    import longformer_cpp as engine

    report = Report()
    with tempfile.TemporaryDirectory() as root:
        train_tokenizers(root)
        for model, kind, has_tokenizer_json in MODELS:
            compare_folder(report, program, engine, root, model, kind, has_tokenizer_json)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
