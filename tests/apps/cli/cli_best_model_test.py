"""The loss of validation data, and which metric tells the best model."""

import json
import re

import numpy as np
import pytest
from cli_candidates_test import question
from cli_coreference_test import STORIES
from cli_multi_hop_test import question as hops
from cli_test import BERT, FIXTURES, ROBERTA, run
from cli_training_test import CHOOSER, CLASSIFIER, FAST, QA, TAGGER, copied, ran, text, without_dropout, write
from cli_trivia_test import corpus

CHARACTERS = FIXTURES / "character_lm" / "tied"


def classes(labels):
    return [{"text": text(4 + i % 3, i), "label": labels[i % len(labels)]} for i in range(10)]


def entities():
    labels = json.loads((TAGGER / "config.json").read_text())["id2label"].values()
    begin = next(label for label in labels if label.startswith("B-"))
    words = [text(4 + i % 5, i).split() for i in range(10)]
    return [{"tokens": row, "ner_tags": [begin if word in ("he", "was") else "O" for word in row]} for row in words]


def answers(*unanswerable):
    rows = []
    for i in range(10):
        context = f"{text(3 + i % 3, i)} with {text(4, i + 50)}"
        right = {"text": [], "answer_start": []}
        if i not in unanswerable:
            right = {"text": ["with"], "answer_start": [context.index("with")]}
        rows.append({"id": str(i), "question": "the of", "context": context, "answers": right})
    return rows


def choices():
    return [{"question": text(3, i), "choices": [text(2, i + 9), text(3, i + 5)], "label": i % 2} for i in range(10)]


@pytest.fixture(scope="module")
def longformer(tmp_path_factory):
    """Without a head; it has a learning rate of 0, so nothing of it moves."""
    folder = tmp_path_factory.mktemp("longformer")
    run("convert", without_dropout(BERT, folder / "bert"), folder / "long", "--max-positions", 64, "--window", 8).works()
    return folder / "long"


def log_of(out):
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def finetuned(model, rows, folder, *flags, batch=10):
    is_published = {"query", "supporting_facts"} & rows[0].keys()
    data = write(folder / "data.json", json.dumps(rows)) if is_published else write(folder / "data.jsonl", rows)
    return run("finetune", model, data, "--validation-file", data, "--output-dir", folder / "out", "--eval-strategy",
               "steps", "--eval-steps", 1, "--logging-steps", 1, "--per-device-train-batch-size", batch,
               "--gradient-accumulation-steps", 1, "--json",
               *flags)  # fmt: skip


TASKS = {
    "three classes": (CLASSIFIER, lambda: classes(["good", "bad", "fair"]), []),
    "two classes": (None, lambda: classes(["x", "y"]), ["--task", "classify"]),
    "several classes": (None, lambda: classes([["x"], ["x", "y"], []]), ["--task", "classify"]),
    "numbers": (None, lambda: classes([0.5, -1.25, 2.0]), ["--task", "classify"]),
    "words": (TAGGER, entities, []),
    "answers": (QA, answers, []),
    "some answers": (QA, lambda: answers(2, 5), []),
    "no answers": (QA, lambda: answers(*range(10)), []),
    "choices": (CHOOSER, choices, []),
    "candidates": (None, lambda: [question(i) for i in range(4)], ["--task", "candidates"]),
    "multihop": (None, lambda: [hops(i) for i in range(4)], ["--task", "multihop"]),
    "coreference": (None, lambda: STORIES, ["--task", "coreference", "--head-size", 16]),
}


@pytest.fixture(params=TASKS)
def task(request, longformer, tmp_path):
    """A model without dropout, data, flags."""
    model, rows, flags = TASKS[request.param]
    return (without_dropout(model, tmp_path / "model") if model else longformer), rows(), flags


class TestLoss:
    def test_is_that_of_a_step_that_changes_nothing(self, task, tmp_path):
        """The gradient of that loss is the one of PyTorch. All examples are one batch."""
        model, rows, flags = task
        done = finetuned(model, rows, tmp_path, *flags, "--learning-rate", 0, "--max-steps", 1)
        assert done.code == 0, done.err
        step, evaluation = log_of(tmp_path / "out")
        # Candidates come in another order when trained, and two heads have dropout of their own.
        tolerance = 0.1 if {"candidates", "multihop", "coreference"} & set(flags) else 1e-5
        assert evaluation["eval_loss"] == pytest.approx(step["loss"], rel=tolerance)
        assert evaluation["eval_loss"] > 0 and "evaluation after step 1: loss " in done.err

    @pytest.mark.parametrize("batch", [1, 3])
    @pytest.mark.parametrize("kind", ["three classes", "several classes", "numbers"])
    def test_is_the_mean_over_examples(self, kind, batch, longformer, tmp_path):
        """Counted by hand from the logits of the model that was evaluated last."""
        model, rows, flags = TASKS[kind]
        model, rows = model or longformer, rows()
        done = finetuned(model, rows, tmp_path, *flags, "--learning-rate", 0.01, "--max-steps", 3, batch=batch)
        assert done.code == 0, done.err
        found = log_of(tmp_path / "out")[-1]["eval_loss"]
        labels = list(json.loads((tmp_path / "out" / "config.json").read_text())["id2label"].values())
        predicted = run("classify", tmp_path / "out", tmp_path / "data.jsonl", "--field", "text", "--json", "--top-k", 0,
                        "--function-to-apply", "none").works().json  # fmt: skip
        logits = np.array([[next(s["score"] for s in row["labels"] if s["label"] == name) for name in labels]
                           for row in predicted], np.float64)  # fmt: skip
        if kind == "three classes":
            right = logits[range(10), [labels.index(row["label"]) for row in rows]]
            expected = (np.log(np.exp(logits).sum(1)) - right).mean()
        elif kind == "numbers":
            expected = ((logits[:, 0] - [row["label"] for row in rows]) ** 2).mean()
        else:
            targets = np.array([[name in row["label"] for name in labels] for row in rows], float)
            expected = (np.log1p(np.exp(logits)) - targets * logits).mean()
        assert found == pytest.approx(expected, rel=1e-5)

    def test_words_count_by_batches(self, tmp_path):
        """Each example has the mean over the words of its batch: a batch of one is no batch of ten."""
        model = without_dropout(TAGGER, tmp_path / "model")
        losses = []
        for batch in (1, 10):
            (tmp_path / str(batch)).mkdir()
            finetuned(model, entities(), tmp_path / str(batch), "--learning-rate", 0, "--num-train-epochs", 1, batch=batch)
            lines = log_of(tmp_path / str(batch) / "out")
            losses.append(lines[-1]["eval_loss"])
            steps = [line["loss"] for line in lines if "loss" in line]
            assert losses[-1] == pytest.approx(np.mean(steps), rel=1e-5)
        assert abs(losses[0] - losses[1]) > 1e-4


class TestBestModel:
    def trained(self, folder, *flags):
        """Text that says nothing of the class: accuracy and loss have their best at different steps."""
        (folder / "run").mkdir()
        rows = classes(["good", "bad", "fair"])
        write(folder / "run" / "train.jsonl", rows)
        held_out = write(folder / "run" / "dev.jsonl", rows[::-1][:7])
        done = run("finetune", without_dropout(CLASSIFIER, folder / "model"), folder / "run" / "train.jsonl",
                   "--validation-file", held_out, "--output-dir", folder / "out", "--eval-strategy", "steps",
                   "--eval-steps", 1, "--save-steps", 1, "--max-steps", 12, "--learning-rate", 0.02, "--lr-scheduler-type",
                   "constant", "--load-best-model-at-end", "--json", *flags)  # fmt: skip
        assert done.code == 0, done.err
        lines = [line for line in log_of(folder / "out") if "eval_loss" in line]
        assert len(lines) == 12
        return done.json[0], lines

    @pytest.mark.parametrize("flags,key,best", [
        ([], "eval_accuracy", max), (["--metric-for-best-model", "loss"], "eval_loss", min),
        (["--metric-for-best-model", "eval_loss"], "eval_loss", min),
        (["--metric-for-best-model", "loss", "--greater-is-better", "true"], "eval_loss", max),
        (["--metric-for-best-model", "eval_f1_macro"], "eval_f1_macro", max)])  # fmt: skip
    def test_is_the_one_that_was_asked_for(self, tmp_path, flags, key, best):
        result, lines = self.trained(tmp_path, *flags)
        values = [line[key] for line in lines]
        assert result["best_metric"] == pytest.approx(best(values), rel=1e-12)
        step = lines[values.index(best(values))]["step"]
        assert result["best_checkpoint"].endswith(f"checkpoint-{step}")
        # The test can tell the metrics apart.
        steps = {k: [line[k] for line in lines].index(b(line[k] for line in lines))
                 for k, b in (("eval_accuracy", max), ("eval_loss", min))}  # fmt: skip
        assert steps["eval_accuracy"] != steps["eval_loss"]

    def test_a_mean_absolute_error_is_better_when_smaller(self, longformer, tmp_path):
        done = finetuned(longformer, classes([0.5, -1.25, 2.0]), tmp_path, "--task", "classify", "--learning-rate", 0.01,
                         "--max-steps", 4, "--load-best-model-at-end", "--metric-for-best-model", "mae")  # fmt: skip
        assert done.code == 0, done.err
        values = [line["eval_mae"] for line in log_of(tmp_path / "out") if "eval_mae" in line]
        assert done.json[0]["best_metric"] == pytest.approx(min(values)) and max(values) > min(values)

    def test_an_unknown_one_is_refused_before_the_first_step(self, task, tmp_path):
        """The error lists exactly the names of the task."""
        model, rows, flags = task
        failed = finetuned(model, rows, tmp_path, *flags, "--max-steps", 1, "--metric-for-best-model", "eval_nonsense")
        assert failed.code == 2 and not (tmp_path / "out").exists()
        (names,) = re.findall("--metric-for-best-model: expected one of (.*), found 'eval_nonsense'", failed.err)
        assert finetuned(model, rows, tmp_path, *flags, "--max-steps", 1).code == 0
        evaluation = log_of(tmp_path / "out")[-1]
        assert names.split(", ") == [key[5:] for key in evaluation if key.startswith("eval_") and key != "eval_runtime"]

    @pytest.mark.parametrize("task", ["trivia", "multihop", "candidates", "coreference"])
    def test_of_a_task_of_the_paper_is_the_one_that_is_saved(self, task, longformer, tmp_path):
        if task == "trivia":
            model, data, flags = without_dropout(QA, tmp_path / "qa-model"), corpus(tmp_path), ["--task", task]
        else:
            _, rows, flags = TASKS[task]
            rows = rows()
            model, data = longformer, write(tmp_path / "data", rows if task == "coreference" else json.dumps(rows))
        once = [*FAST, "--gradient-accumulation-steps", 1]
        ran("finetune", model, data, "--output-dir", tmp_path / "one", "--validation-file", data, "--eval-strategy", "steps",
            "--eval-steps", 40, "--max-steps", 40, "--learning-rate", 0.003, "--load-best-model-at-end", *flags, *once)  # fmt: skip
        report = run("evaluate", tmp_path / "one", data, "--json", "--predictions", tmp_path / "one.jsonl").passes().json[0]
        last = log_of(tmp_path / "one")[-1]
        assert last["step"] == 40 and report["metrics"] == {name: last[f"eval_{name}"] for name in report["metrics"]}
        assert next(iter(report["metrics"].values())) > 0
        ran("finetune", tmp_path / "one", data, "--output-dir", tmp_path / "two", "--max-steps", 1, "--learning-rate", 0, *flags, *once)
        run("evaluate", tmp_path / "two", data, "--predictions", tmp_path / "two.jsonl").passes()
        assert (tmp_path / "two.jsonl").read_text() == (tmp_path / "one.jsonl").read_text()

    @pytest.mark.parametrize("verb,model", [("pretrain-mlm", ROBERTA), ("pretrain-lm", CHARACTERS)])
    def test_of_language_models(self, verb, model, tmp_path):
        data = write(tmp_path / "text.txt", "the fox jumps " * 300)
        length = ["--length", 16] if verb == "pretrain-lm" else ["--validation-file", data]
        flags = [copied(model, tmp_path / "model"), data, "--output-dir", tmp_path / "out", "--max-steps", 2,
                 "--eval-strategy", "steps", "--eval-steps", 1, "--load-best-model-at-end", "--json", *length]  # fmt: skip
        failed = run(verb, *flags, "--metric-for-best-model", "f1")
        assert failed.code == 2 and not (tmp_path / "out").exists()
        assert "--metric-for-best-model: expected one of loss, bpc" in failed.err
        done = run(verb, *flags)
        assert done.code == 0, done.err
        losses = [line["eval_loss"] for line in log_of(tmp_path / "out") if "eval_loss" in line]
        assert len(losses) == 2 and done.json[0]["best_metric"] == pytest.approx(min(losses))
