"""Compares the verb evaluate with `transformers`, scikit-learn, scipy and seqeval.

    python3 tests/parity/metrics_parity.py PROGRAM

Folders with random weights and texts are those of pipeline_parity.py. Labels are drawn so that about
half of the predictions are right. Predictions of every example and every metric are compared: classes
(one, several, numbers, pairs, long documents in segments), words, answers, choices, and masked tokens.
Questions are those of SQuAD where LONGFORMER_DATA has it, else of the novels; the rules of the SQuAD
scripts are written down once more in tests/fixtures/make_task_fixtures.py. Exit code 1 when anything
differs.
"""

import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import numpy
import scipy.stats
import sklearn.metrics
import torch
import transformers
from pipeline_parity import MOST_TOKENS, Folder, Report, novels, train_tokenizers
from seqeval.metrics import sequence_labeling
from span_parity import MOST_ANSWER_TOKENS, decode, segments

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
from make_task_fixtures import answer_f1, normalized  # noqa: E402

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
KINDS = (("Longformer", "bytes"), ("Bert", "pieces"), ("Roberta", "bytes"))


def passages(count, shortest, longest, seed):
    draw = random.Random(seed)
    texts = []
    for i in range(count):
        novel = novels()[i % 3]
        begin = draw.randrange(len(novel) - longest)
        texts.append(novel[begin : begin + draw.randrange(shortest, longest)])
    return texts


class Evaluation:
    """One run of the program: its report and its predictions."""

    def __init__(self, program, folder, data, *flags):
        said = data.with_suffix(".said.jsonl")
        done = subprocess.run(
            [program, "evaluate", folder.path, data, "--json", "--predictions", said, *map(str, flags)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{folder.path.name} {flags}: {done.stderr.decode()[:500]}")
        self.report = json.loads(done.stdout)
        self.metrics = self.report["metrics"]
        self.rows = [json.loads(line) for line in said.read_text().splitlines()]


def write_lines(root, name, rows):
    path = pathlib.Path(root, name)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def compare_metrics(report, what, evaluation, expected):
    report.same(f"{what}: names of metrics", list(evaluation.metrics), list(expected))
    report.close(f"{what}: metrics", list(evaluation.metrics.values()), list(expected.values()))


def forward(folder, **inputs):
    with torch.inference_mode():
        return folder.model(**inputs)


def logits_of(folder, text, pair=None):
    inputs = folder.tokenizer(text, pair, truncation=True, max_length=MOST_TOKENS, return_tensors="pt",
                              return_token_type_ids=type(folder.model).__name__.startswith("Bert"))  # fmt: skip
    return forward(folder, **inputs).logits[0].numpy()


def segment_logits(folder, text, stride):
    """The mean over the segments that the documentation describes."""
    ids = folder.tokenizer(text, add_special_tokens=False)["input_ids"]
    first, last = folder.tokenizer("a")["input_ids"][0], folder.tokenizer("a")["input_ids"][-1]
    rows = [torch.tensor([[first, *ids[b:e], last]]) for b, e, _, _ in segments(len(ids), MOST_TOKENS - 2, stride)]
    return numpy.mean([forward(folder, input_ids=row).logits[0].numpy() for row in rows], axis=0)


def labelled(rows, names, seed):
    """A label for each row of logits: the predicted one, or any."""
    draw = random.Random(seed)
    return [int(row.argmax()) if draw.random() < 0.5 else draw.randrange(len(names)) for row in rows]


def class_metrics(expected, predicted, count):
    score = sklearn.metrics.precision_recall_fscore_support
    macro = score(expected, predicted, average="macro", zero_division=0)
    weighted = score(expected, predicted, average="weighted", zero_division=0)
    metrics = {"accuracy": sklearn.metrics.accuracy_score(expected, predicted)}
    if count == 2:
        metrics["f1"] = sklearn.metrics.f1_score(expected, predicted, zero_division=0)
    return metrics | {"f1_macro": macro[2], "f1_weighted": weighted[2],
                      "precision_macro": macro[0], "recall_macro": macro[1]}  # fmt: skip


def compare_classes(report, program, root, model, kind):
    names = ["bad", "fair", "good"]
    folder = Folder(root, f"{model} {kind} classes", f"{model}ForSequenceClassification", kind,
                    id2label=dict(enumerate(names)))  # fmt: skip
    texts = passages(24, 20, 6000, 1)
    for stride in (0, 64):
        rows = [segment_logits(folder, t, stride) if stride else logits_of(folder, t) for t in texts]
        labels = labelled(rows, names, 2)
        path = pathlib.Path(root, "classes.csv")
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["label", "text"])
            writer.writerows((names[label], text) for label, text in zip(labels, texts, strict=True))
        flags = ["--stride", stride] if stride else ["--truncate"]
        found = Evaluation(program, folder, path, *flags)
        what = f"{folder.path.name} {flags[0]}"
        predicted = [int(row.argmax()) for row in rows]
        report.same(f"{what}: labels", [r["label"] for r in found.rows], [names[i] for i in labels])
        report.same(f"{what}: predictions", [r["prediction"] for r in found.rows], [names[i] for i in predicted])
        scores = torch.tensor(numpy.array(rows)).softmax(-1)
        report.close(f"{what}: scores", [list(r["scores"].values()) for r in found.rows], scores)
        compare_metrics(report, what, found, class_metrics(labels, predicted, 3))
        table = sklearn.metrics.precision_recall_fscore_support(labels, predicted, zero_division=0)
        ours = [[one[k] for one in found.report["labels"]] for k in ("precision", "recall", "f1", "support")]
        report.close(f"{what}: labels by themselves", ours, table)


def compare_pairs(report, program, root, model, kind):
    folder = Folder(root, f"{model} {kind} pairs", f"{model}ForSequenceClassification", kind,
                    num_labels=2)  # fmt: skip
    texts, pairs = passages(16, 20, 2500, 3), passages(16, 20, 2500, 4)
    rows = [logits_of(folder, a, b) for a, b in zip(texts, pairs, strict=True)]
    labels = labelled(rows, "ab", 5)
    data = [{"text": a, "text_pair": b, "label": label} for a, b, label in zip(texts, pairs, labels, strict=True)]
    found = Evaluation(program, folder, write_lines(root, "pairs.jsonl", data), "--truncate")
    scores = torch.tensor(numpy.array(rows)).softmax(-1)
    what = folder.path.name
    report.close(f"{what}: scores", [list(r["scores"].values()) for r in found.rows], scores)
    compare_metrics(report, what, found, class_metrics(labels, [int(r.argmax()) for r in rows], 2))


def compare_several(report, program, root, model, kind):
    names = ["a", "b", "c", "d"]
    folder = Folder(root, f"{model} {kind} several", f"{model}ForSequenceClassification", kind,
                    id2label=dict(enumerate(names)), problem_type="multi_label_classification")  # fmt: skip
    texts, draw = passages(20, 20, 2000, 6), random.Random(7)
    scores = numpy.array([1 / (1 + numpy.exp(-logits_of(folder, t))) for t in texts])
    right = [[int(draw.random() < 0.3 + 0.4 * (s > 0.4)) for s in row] for row in scores]
    data = [{"text": t, "label": [n for n, r in zip(names, row, strict=True) if r]}
            for t, row in zip(texts, right, strict=True)]  # fmt: skip
    found = Evaluation(program, folder, write_lines(root, "several.jsonl", data), "--truncate", "--threshold", 0.4)
    predicted = (scores > 0.4).astype(int)
    score = sklearn.metrics.precision_recall_fscore_support
    mean = {m: score(right, predicted, average=m, zero_division=0) for m in ("micro", "macro", "weighted")}
    what = folder.path.name
    report.close(f"{what}: scores", [list(r["scores"].values()) for r in found.rows], scores)
    compare_metrics(report, what, found, {
        "f1_micro": mean["micro"][2], "f1_macro": mean["macro"][2], "f1_weighted": mean["weighted"][2],
        "precision_micro": mean["micro"][0], "recall_micro": mean["micro"][1],
        "accuracy": sklearn.metrics.accuracy_score(right, predicted)})  # fmt: skip


def compare_numbers(report, program, root, model, kind):
    folder = Folder(root, f"{model} {kind} numbers", f"{model}ForSequenceClassification", kind, num_labels=1)
    texts, draw = passages(20, 20, 2000, 8), random.Random(9)
    found = [float(logits_of(folder, t)[0]) for t in texts]
    right = [round(f + draw.gauss(0, 0.3), 2) for f in found]
    data = [{"text": t, "label": r} for t, r in zip(texts, right, strict=True)]
    evaluation = Evaluation(program, folder, write_lines(root, "numbers.jsonl", data), "--truncate")
    what = folder.path.name
    report.close(f"{what}: predictions", [r["prediction"][0] for r in evaluation.rows], found)
    compare_metrics(report, what, evaluation, {
        "pearson": scipy.stats.pearsonr(found, right)[0], "spearman": scipy.stats.spearmanr(found, right)[0],
        "mse": sklearn.metrics.mean_squared_error(right, found),
        "mae": sklearn.metrics.mean_absolute_error(right, found)})  # fmt: skip


def compare_words(report, program, root, model, kind):
    folder = Folder(root, f"{model} {kind} words", f"{model}ForTokenClassification", kind,
                    id2label=dict(enumerate(TAGS)))  # fmt: skip
    prefix = {"add_prefix_space": True} if kind == "bytes" else {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder.path, **prefix)
    draw, lines, expected, predicted = random.Random(10), [], [], []
    for text in passages(14, 200, 4000, 11):
        words = text.split()
        inputs = tokenizer(words, is_split_into_words=True, truncation=True, max_length=MOST_TOKENS,
                           return_tensors="pt")  # fmt: skip
        best = forward(folder, input_ids=inputs["input_ids"]).logits[0].argmax(-1).tolist()
        said = ["O"] * len(words)
        for token, word in reversed(list(enumerate(inputs.word_ids()))):
            if word is not None:
                said[word] = TAGS[best[token]]
        right = [s if draw.random() < 0.7 else draw.choice(TAGS) for s in said]
        lines += [f"{word} _ {tag}\n" for word, tag in zip(words, right, strict=True)] + ["\n"]
        expected.append(right)
        predicted.append(said)
    path = pathlib.Path(root, "words.conll")
    path.write_text("".join(lines))
    found = Evaluation(program, folder, path, "--truncate")
    what = folder.path.name
    report.same(f"{what}: labels", [r["labels"] for r in found.rows], expected)
    report.same(f"{what}: predictions", [r["predictions"] for r in found.rows], predicted)
    score = sequence_labeling.precision_recall_fscore_support
    micro, macro = (score(expected, predicted, average=m, zero_division=0) for m in ("micro", "macro"))
    compare_metrics(report, what, found, {
        "f1": micro[2], "precision": micro[0], "recall": micro[1], "f1_macro": macro[2],
        "accuracy": sequence_labeling.accuracy_score(expected, predicted)})  # fmt: skip


def questions():
    """(question, context, answers), every third without an answer."""
    if "LONGFORMER_DATA" in os.environ:
        file = pathlib.Path(os.environ["LONGFORMER_DATA"], "squad", "dev-v1.1.json")
        paragraphs = [p for a in json.loads(file.read_text())["data"][:30] for p in a["paragraphs"][:1]]
        asked = [(q["question"], p["context"], q["answers"]) for p in paragraphs for q in p["qas"][:1]]
    else:
        asked = []
        for text in passages(12, 500, 1200, 12):
            word = text.split()[20]
            asked.append((f"Where is {word}?", text, [{"text": word, "answer_start": text.index(word)}]))
    return [(q, c, [] if i % 3 == 2 else a) for i, (q, c, a) in enumerate(asked)]


def compare_answers(report, program, root, model, kind):
    folder = Folder(root, f"{model} {kind} questions", f"{model}ForQuestionAnswering", kind)
    asked, rows = questions(), []
    for i, (question, context, answers) in enumerate(asked):
        (best,), none = decode(folder, question, context, 48, 1)
        found = "" if none > best[0] else context[best[1] : best[2]]
        if answers and found and i % 2:
            # Half of the answers share words with what the model says.
            near = {"text": context[best[1] : best[2] + i], "answer_start": best[1]}
            answers = asked[i][2][:] + [near]
            asked[i] = (question, context, answers)
        right = [a["text"] for a in answers if normalized(a["text"])] or [""]
        rows.append((found, max(float(normalized(r) == normalized(found)) for r in right),
                     max(answer_f1(r, found) for r in right), bool(answers)))  # fmt: skip
    qas = [{"context": c, "qas": [{"id": str(i), "question": q, "answers": a, "is_impossible": not a}]}
           for i, (q, c, a) in enumerate(asked)]  # fmt: skip
    path = pathlib.Path(root, "questions.json")
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": qas}]}, indent=1))
    found = Evaluation(program, folder, path, "--stride", 48, "--max-answer-tokens", MOST_ANSWER_TOKENS)
    what = folder.path.name
    report.same(f"{what}: predictions", [r["prediction"] for r in found.rows], [r[0] for r in rows])

    def mean(column, wanted):
        return 100 * float(numpy.mean([r[column] for r in rows if r[3] in wanted]))

    compare_metrics(report, what, found, {
        "f1": mean(2, (True, False)), "exact_match": mean(1, (True, False)), "has_answer_f1": mean(2, (True,)),
        "has_answer_exact_match": mean(1, (True,)), "no_answer_exact_match": mean(1, (False,))})  # fmt: skip


def compare_choices(report, program, root, model, kind):
    folder = Folder(root, f"{model} {kind} choices", f"{model}ForMultipleChoice", kind)
    draw, data, rows = random.Random(13), [], []
    for context in passages(10, 100, 4000, 14):
        words = context.split()
        choices = [" ".join(draw.sample(words, 4)) for _ in range(3)]
        logits = []
        for choice in choices:
            inputs = folder.tokenizer(context, "who? " + choice, truncation="only_first", return_tensors="pt",
                                      max_length=MOST_TOKENS, return_token_type_ids=model == "Bert")  # fmt: skip
            logits.append(forward(folder, **{k: v[None] for k, v in inputs.items()}).logits.item())
        rows.append(numpy.array(logits))
        label = int(numpy.argmax(logits)) if draw.random() < 0.5 else draw.randrange(3)
        data.append({"sent1": context, "sent2": "who?", "label": label}
                    | {f"ending{i}": c for i, c in enumerate(choices)})  # fmt: skip
    found = Evaluation(program, folder, write_lines(root, "choices.jsonl", data), "--truncate")
    what = folder.path.name
    probabilities = torch.tensor(numpy.array(rows)).softmax(-1)
    report.close(f"{what}: probabilities", [r["probabilities"] for r in found.rows], probabilities)
    right = numpy.mean([int(r.argmax()) == d["label"] for r, d in zip(rows, data, strict=True)])
    compare_metrics(report, what, found, {"accuracy": float(right)})


def masked_rows(folder, texts, length, every):
    """Packing and masking as the documentation describes them: (ids, positions, labels)."""
    tokenizer = folder.tokenizer
    first, last = tokenizer("a")["input_ids"][0], tokenizer("a")["input_ids"][-1]
    stream = []
    for text in texts:
        stream += ([last] if stream else []) + tokenizer(text, add_special_tokens=False)["input_ids"]
    for begin in range(0, len(stream), length - 2):
        ids = [first, *stream[begin : begin + length - 2], last]
        positions = [i for i, t in enumerate(ids) if t not in tokenizer.all_special_ids][::every]
        labels = [ids[i] for i in positions]
        for i in positions:
            ids[i] = tokenizer.mask_token_id
        yield ids, positions, labels


def compare_masks(report, program, root, model, kind):
    folder = Folder(root, f"{model} {kind} masks", f"{model}ForMaskedLM", kind)
    texts = passages(3, 2000, 5000, 15)
    path = write_lines(root, "masks.jsonl", [{"text": t} for t in texts])
    what = folder.path.name
    for flags in (["--mask-every", 5], ["--seed", 3], ["--mlm-probability", 0.5]):
        found = Evaluation(program, folder, path, "--max-seq-length", 200, *flags)
        rows = [(r["ids"], r["positions"], r["labels"]) for r in found.rows]
        if flags[0] == "--mask-every":
            report.same(f"{what}: rows", rows, [tuple(r) for r in masked_rows(folder, texts, 200, 5)])
        losses, right = [], 0
        for ids, positions, labels in rows:
            logits = forward(folder, input_ids=torch.tensor([ids])).logits[0, positions]
            losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor(labels), reduction="none"))
            right += int((logits.argmax(-1) == torch.tensor(labels)).sum())
        report.close(f"{what} {flags[0]}: loss of rows", [r["loss"] for r in found.rows], [x.mean() for x in losses])
        every = torch.cat(losses)
        loss = every.mean().item()
        compare_metrics(report, f"{what} {flags[0]}", found, {
            "loss": loss, "bpc": loss / numpy.log(2), "perplexity": found.metrics["perplexity"],
            "accuracy": right / len(every)})  # fmt: skip
        report.close(f"{what} {flags[0]}: log perplexity", [numpy.log(found.metrics["perplexity"])], [loss])


def main():
    program = sys.argv[1]
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    report = Report()
    with tempfile.TemporaryDirectory() as root:
        train_tokenizers(root)
        for model, kind in KINDS:
            for compare in (compare_classes, compare_pairs, compare_several, compare_numbers, compare_words,
                            compare_answers, compare_choices, compare_masks):  # fmt: skip
                compare(report, program, root, model, kind)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
