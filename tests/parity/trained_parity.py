"""Loads what `finetune` and `pretrain-mlm` write in `transformers` and compares the logits.

    python3 tests/parity/trained_parity.py PROGRAM

A BERT, a RoBERTa, a DistilBERT, an ELECTRA, a ModernBERT and an MPNet of tests/fixtures and a Longformer made of the BERT learn
every task for a few steps from texts of their vocabulary, so that head and encoder are other than they were. `transformers`
reads the folder by its class, with no tensor missing or left over, and its tokenizer; both models get
the same ids, the Longformer with its first token global. Exit code 1 when anything differs.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import longformer_cpp
import numpy
import pipeline_parity
import torch
import transformers

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
WORDS = "the of and to in a is was he for it with as his on be at by".split()
STEPS = 4


def text(chosen, count):
    return " ".join(chosen.choice(WORDS) for _ in range(count))


def examples(task, chosen):
    """Twelve of them, with the member that makes the task what it is."""
    for i in range(12):
        words = [chosen.choice(WORDS) for _ in range(8)]
        if task == "one class":
            yield {"text": " ".join(words), "label": ("good", "bad", "fair")[i % 3]}
        elif task == "several classes":
            yield {"text": " ".join(words), "label": [("good", "bad"), ("fair",), ()][i % 3]}
        elif task == "numbers":
            yield {"text": " ".join(words), "label": i / 4 + 0.25}
        elif task == "words":
            yield {"tokens": words, "ner_tags": ["B-PER" if w == "he" else "O" for w in words]}
        elif task == "answers":
            context = " ".join(words[:4])
            yield {"question": words[4], "context": context,
                   "answers": {"text": [words[0]], "answer_start": [0]}}  # fmt: skip
        else:
            yield {"question": text(chosen, 3), "choices": [text(chosen, 2), text(chosen, 2)], "label": i % 2}


# The flags of the program, and the class of transformers.
TASKS = {
    "one class": ("classify", transformers.AutoModelForSequenceClassification),
    "several classes": ("classify", transformers.AutoModelForSequenceClassification),
    "numbers": ("classify", transformers.AutoModelForSequenceClassification),
    "words": ("ner", transformers.AutoModelForTokenClassification),
    "answers": ("qa", transformers.AutoModelForQuestionAnswering),
    "choices": ("choose", transformers.AutoModelForMultipleChoice),
    "masked words": (None, transformers.AutoModelForMaskedLM),
}


def train(program, base, task, folder, chosen):
    """The folder of the trained model."""
    name, _ = TASKS[task]
    output = folder / "trained"
    data = folder / "data.jsonl"
    if name is None:
        data.write_text("\n".join(json.dumps({"text": text(chosen, 60)}) for _ in range(12)))
        verb = ["pretrain-mlm"]
    else:
        data.write_text("\n".join(json.dumps(row) for row in examples(task, chosen)))
        verb = ["finetune", "--task", name]
    subprocess.run(
        [program, verb[0], base, data, *verb[1:], "--output-dir", output, "--max-steps", str(STEPS),
         "--learning-rate", "0.01", "--lr-scheduler-type", "constant", "--save-strategy", "no",
         "--per-device-train-batch-size", "3"],
        check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    return output


def compare(report, what, output, kind, chosen):
    model, loading = kind.from_pretrained(output, output_loading_info=True)
    model = model.double().eval()
    report.same("tensors that are missing or left over", [sorted(loading[k]) for k in loading], [[]] * len(loading))
    tokenizer = transformers.AutoTokenizer.from_pretrained(output)
    ours = longformer_cpp.load(str(output))
    rows = 2 if "choices" in what else 1
    for length in (7, 13, 20):
        ids = tokenizer(text(chosen, length))["input_ids"][:length]
        ids = numpy.array([ids[:1] + chosen.sample(ids[1:-1], len(ids) - 2) + ids[-1:] for _ in range(rows)])
        inputs = {"input_ids": ids[None] if rows > 1 else ids}
        if model.config.model_type == "longformer":
            mask = numpy.zeros_like(inputs["input_ids"])
            mask[..., 0] = 1
            inputs["global_attention_mask"] = mask
        with torch.no_grad():
            expected = model(**{name: torch.from_numpy(value) for name, value in inputs.items()})
        found = ours(**inputs)
        for output_name in ("logits", "start_logits", "end_logits"):
            if output_name in expected:
                report.close(what, getattr(found, output_name), expected[output_name].numpy())


FAMILIES = ("bert", "roberta", "distilbert", "electra", "modernbert", "mpnet")


def main():
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    report = pipeline_parity.Report()
    chosen = random.Random(8)
    with tempfile.TemporaryDirectory() as made:
        bases = {name: FIXTURES / f"tiny_{name}" for name in FAMILIES}
        bases["longformer"] = pathlib.Path(made) / "longformer"
        subprocess.run(
            [sys.argv[1], "convert", bases["bert"], bases["longformer"], "--max-positions", "64", "--window", "8"],
            check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        for name, base in bases.items():
            for task, (_, kind) in TASKS.items():
                with tempfile.TemporaryDirectory() as folder:
                    output = train(sys.argv[1], base, task, pathlib.Path(folder), chosen)
                    compare(report, f"{name}: {task}", output, kind, chosen)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
