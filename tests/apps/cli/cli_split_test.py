"""Splits, folds, weights of classes, early stopping, model cards and --max-length of the verbs."""

import collections
import json
import math
import signal
import statistics
import subprocess
import time

import numpy as np
import pytest
from cli_best_model_test import TASKS
from cli_test import BERT, BINARY, FIXTURES, ROBERTA, run
from cli_training_test import CHOOSER, CLASSIFIER, FAST, QA, TAGGER, ran, tensors, text, without_dropout, write

FEW = ["--max-steps", 2, *FAST, "--gradient-accumulation-steps", 1]


@pytest.fixture
def reviews(tmp_path):
    """30 good, 15 bad and 5 fair ones; ids in pairs for the good ones."""
    rows = []
    for label, count in (("good", 30), ("bad", 15), ("fair", 5)):
        for i in range(count):
            row = {"text": f"{text(6, len(rows))} {label == 'good' and 'his' or 'at'}", "label": label}
            rows.append(row)
    return write(tmp_path / "reviews.jsonl", rows)


def log_of(out):
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def held_out(out):
    return [one["line"] for one in json.loads((out / "validation_split.json").read_text())["examples"]]


class TestSplit:
    def test_is_stratified_and_follows_the_seed(self, reviews, tmp_path):
        lines = {}
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            done = ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / name, "--validation-split", 0.1, "--seed", seed, *FEW)
            assert "validation: 5 examples" in done.err and "classify: 45 examples" in done.err
            lines[name] = held_out(tmp_path / name)
        assert lines["a"] == lines["b"] != lines["c"]
        labels = [json.loads(line)["label"] for line in reviews.read_text().splitlines()]
        # train_test_split(stratify=y): the largest remainders of 3, 1.5 and 0.5.
        assert collections.Counter(labels[line - 1] for line in lines["a"])["good"] == 3
        first = log_of(tmp_path / "a")[0]
        assert first["step"] == 0 and first["split"]["training"] == 45 and first["split"]["seed"] == 1
        assert first["split"]["labels"]["good"] == [27, 3]

    def test_tells_objects_on_one_line_apart(self, reviews, tmp_path):
        reviews.write_text("".join(reviews.read_text().splitlines()))
        ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "a", "--validation-split", 0.1, *FEW)
        chosen = json.loads((tmp_path / "a" / "validation_split.json").read_text())["examples"]
        assert len(chosen) == 5
        assert all(one["line"] == 1 and one.get("record", 1) == one["number"] for one in chosen)

    def test_is_the_training_with_two_files(self, reviews, tmp_path):
        ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "split", "--validation-split", 0.2, *FEW)
        rows = reviews.read_text().splitlines()
        chosen = held_out(tmp_path / "split")
        train = write(tmp_path / "train.jsonl", "".join(f"{row}\n" for i, row in enumerate(rows, 1) if i not in chosen))
        other = write(tmp_path / "dev.jsonl", "".join(f"{rows[i - 1]}\n" for i in chosen))
        ran("finetune", CLASSIFIER, train, "--output-dir", tmp_path / "files", "--validation-file", other, *FEW)
        assert (tmp_path / "split" / "model.safetensors").read_bytes() == (tmp_path / "files" / "model.safetensors").read_bytes()
        one, two = (log_of(tmp_path / name)[-1] for name in ("split", "files"))
        assert {k: v for k, v in one.items() if k.startswith("eval_") and k != "eval_runtime"} == {
            k: v for k, v in two.items() if k.startswith("eval_") and k != "eval_runtime"
        }

    def test_examples_that_belong_together(self, tmp_path):
        """Records of one id, and copies of one text, are all learned or all held out."""
        rows = [{"id": f"d{i // 4}", "text": text(6, i), "label": "xy"[i % 8 // 4]} for i in range(40)]
        rows += [{"text": f"copy {i % 5}", "label": "x"} for i in range(10)]
        data = write(tmp_path / "data.jsonl", rows)
        ran("finetune", CLASSIFIER, data, "--new-head", "--output-dir", tmp_path / "out", "--validation-split", 0.3, *FEW)
        chosen = set(held_out(tmp_path / "out"))
        groups = collections.defaultdict(set)
        for line, row in enumerate(rows, 1):
            groups[row["text"] if "copy" in row["text"] else row.get("id", row["text"])].add(line in chosen)
        assert all(len(found) == 1 for found in groups.values()), groups
        assert {True} in groups.values() and {False} in groups.values()

    @pytest.mark.parametrize("kind", [name for name in TASKS if name not in ("coreference", "candidates", "multihop")])
    def test_of_every_task(self, kind, tmp_path):
        model, rows, flags = TASKS[kind]
        if model is None:
            model = CLASSIFIER
            flags = [*flags, "--new-head"]
        data = write(tmp_path / "data.jsonl", rows())
        done = ran("finetune", model, data, "--output-dir", tmp_path / "out", "--validation-split", 0.4, "--json", *flags, *FEW)
        assert "validation: 4 examples" in done.err, done.err
        assert math.isfinite(done.json[0]["best_metric"]) and done.json[0]["best_step"] > 0
        assert len(json.loads((tmp_path / "out" / "validation_split.json").read_text())["examples"]) == 4

    @pytest.mark.parametrize("flags,words", [
        (["--validation-split", 0.1, "--validation-file", "x.jsonl"], ["--validation-split", "--validation-file"]),
        (["--validation-split", 0.1, "--folds", 3], ["--folds", "--validation-split"]),
        (["--validation-split", 1], ["--validation-split", "below 1"]),
        (["--validation-split", -0.1], ["--validation-split"]),
        (["--validation-split", 0.01], ["--validation-split", "3 examples", "found 1"]),
        (["--validation-split", 0.99], ["--validation-split", "found"]),
        (["--validation-split", 0.2, "--eval-strategy", "no"], ["--validation-split", "eval_strategy"]),
        (["--folds", 1], ["--folds", "1"]),
        (["--folds", 3, "--fold", 4], ["--fold", "3 folds"]),
        (["--fold", 1], ["--fold"]),
        (["--folds", 60], ["--folds", "60 examples", "found 50"]),
        (["--class-weights", "balanced", "--label-smoothing-factor", 0.1], ["--class-weights", "smoothing"]),
        (["--class-weights", "good=2,nice=1"], ["--class-weights", "nice", "bad, fair, good"]),
        (["--class-weights", "even"], ["--class-weights", "balanced", "'even'"]),
        (["--class-weights", "good=-1"], ["--class-weights", "from 1e-06 to 1e+06", "found -1"]),
        (["--class-weights", "good=1e300"], ["--class-weights", "1e+06", "1e+300"]),
        (["--class-weights", "good=nan"], ["--class-weights", "1e+06", "nan"]),
        (["--class-weights", "good=inf"], ["--class-weights", "1e+06", "inf"]),
        (["--class-weights", '{"good": Infinity}'], ["--class-weights", "1e+06", "inf"]),
        (["--class-weights", "so, la=1"], ["--class-weights", "JSON object", '{"a, b": 2}']),
        (["--validation-split", 0], ["--validation-split", "above 0"]),
        (["--max-length", 2], ["--max-length", "at least 3 tokens", "found 2"]),
        (["--max-length", 1, "--truncate"], ["--max-length", "at least 3 tokens"]),
        (["--max-length", 100000], ["--max-length", "found 100000"]),
        (["--max-length", 20, "--max-source-length", 10], ["--max-length", "10"]),
    ])  # fmt: skip
    def test_contradictions_are_errors(self, flags, words, reviews, tmp_path):
        failed = run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "out", *FEW, *flags)
        errors = [line for line in failed.err.splitlines() if line.startswith("longformer: error: ")]
        assert failed.code == 2 and len(errors) == 1, failed.err
        assert all(word in errors[0] for word in words), failed.err
        assert not (tmp_path / "out").exists()

    def test_a_class_of_one_document(self, tmp_path):
        rows = [{"text": text(5, i), "label": "bad" if i == 3 else "good"} for i in range(20)]
        data = write(tmp_path / "data.jsonl", rows)
        for flags in (["--validation-split", 0.2], ["--folds", 3]):
            failed = run("finetune", CLASSIFIER, data, "--output-dir", tmp_path / "out", *FEW, *flags)
            assert failed.code == 1 and "two examples or more of each class" in failed.err and '"bad"' in failed.err, failed.err

    def test_goes_on_after_a_kill_with_the_same_bits(self, reviews, tmp_path):
        flags = ["--validation-split", 0.2, "--class-weights", "balanced", "--max-steps", 60, "--save-steps", 3, "--eval-strategy", "steps",
                 "--eval-steps", 5, "--logging-steps", 1, "--per-device-train-batch-size", 2, "--gradient-accumulation-steps", 2,
                 "--learning-rate", 0.003, "--threads", 1]  # fmt: skip
        ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "whole", *flags)
        killed = tmp_path / "killed"
        command = [BINARY, "finetune", CLASSIFIER, reviews, "--output-dir", killed, "--resume-from-checkpoint", "last", *flags]
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            end = time.monotonic() + 60
            while not list(killed.glob("checkpoint-*/trainer_state.json")) and time.monotonic() < end and process.poll() is None:
                time.sleep(0.01)
            process.kill()
        ran("finetune", CLASSIFIER, reviews, "--output-dir", killed, "--resume-from-checkpoint", "last", *flags)
        times = ("tokens_per_second", "fraction_of_bound", "eval_runtime", "train_runtime")
        one, two = ([{k: v for k, v in line.items() if k not in times} for line in log_of(tmp_path / name)] for name in ("whole", "killed"))
        assert one == two and one[0]["class_weights"]["fair"] == pytest.approx(40 / (3 * 4))
        for name in ("model.safetensors", "validation_split.json"):
            assert (tmp_path / "whole" / name).read_bytes() == (killed / name).read_bytes()
        other = ["--validation-split", 0.3, *flags[2:], "--resume-from-checkpoint", "last"]
        assert run("finetune", CLASSIFIER, reviews, "--output-dir", killed, *other).code == 1


class TestFolds:
    def test_table_and_folders(self, reviews, tmp_path):
        done = ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "out", "--folds", 3, "--json", *FEW)
        found = done.json[0]
        assert json.loads((tmp_path / "out" / "folds.json").read_text()) == found
        values = [fold["metrics"]["accuracy"] for fold in found["folds"]]
        assert found["mean"]["accuracy"] == pytest.approx(statistics.mean(values))
        assert found["deviation"]["accuracy"] == pytest.approx(statistics.stdev(values))
        lines = [set(held_out(tmp_path / "out" / f"fold-{i}")) for i in (1, 2, 3)]
        assert set.union(*lines) == set(range(1, 51)) and sum(map(len, lines)) == 50
        # One fold alone is the same training.
        ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "one", "--folds", 3, "--fold", 2, *FEW)
        assert tensors(tmp_path / "one").keys() == tensors(tmp_path / "out" / "fold-2").keys()
        for name, values in tensors(tmp_path / "one").items():
            assert np.array_equal(values, tensors(tmp_path / "out" / "fold-2")[name]), name
        text_form = run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "text", "--folds", 3, "--learning-rate", 0.01, *FEW)
        rows = [line.split() for line in text_form.out.splitlines()]
        assert [row[0] for row in rows] == ["fold", "1", "2", "3", "mean", "deviation"] and "accuracy" in rows[0]

    def test_goes_on_in_the_fold_that_was_stopped(self, reviews, tmp_path):
        flags = ["--folds", 2, "--max-steps", 200, "--save-steps", 2, "--logging-steps", 1, "--gradient-accumulation-steps", 1,
                 "--learning-rate", 0.001, "--threads", 1]  # fmt: skip
        ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "whole", *flags, "--json")
        out = tmp_path / "parts"
        command = [BINARY, "finetune", CLASSIFIER, reviews, "--output-dir", out, *flags]
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            end = time.monotonic() + 60
            while not list(out.glob("fold-2/checkpoint-*")) and time.monotonic() < end and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            errors = process.stderr.read()
        assert process.returncode == 130 and "stopped in fold 2" in errors, errors
        assert not (out / "folds.json").exists() and not (out / "fold-2" / "model.safetensors").exists()
        failed = run("finetune", CLASSIFIER, reviews, "--output-dir", out, *flags)
        assert failed.code != 0 and "fold-1" in failed.err
        done = ran("finetune", CLASSIFIER, reviews, "--output-dir", out, *flags, "--resume-from-checkpoint", "last", "--json")
        assert done.json[0] == json.loads((tmp_path / "whole" / "folds.json").read_text())
        for fold in ("fold-1", "fold-2"):
            assert (out / fold / "model.safetensors").read_bytes() == (tmp_path / "whole" / fold / "model.safetensors").read_bytes()
        for folds in (3, 5):
            other = ["--folds", folds, *flags[2:], "--resume-from-checkpoint", "last"]
            failed = run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "whole", *other)
            assert failed.code == 2 and "--folds: expected 2, as the cross-validation in" in failed.err and f"found {folds}" in failed.err

    def test_the_number_of_folds_is_told_where_one_was_stopped(self, reviews, tmp_path):
        """The first fold has a checkpoint, and no model yet."""
        flags = ["--folds", 2, "--fold", 1, "--max-steps", 3, "--save-steps", 2, "--gradient-accumulation-steps", 1]
        ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "out" / "fold-1", *flags)
        for file in ("config.json", "model.safetensors", "validation_split.json"):
            (tmp_path / "out" / "fold-1" / file).unlink()
        flags = ["--folds", 3, "--max-steps", 3, "--save-steps", 2, "--gradient-accumulation-steps", 1, "--resume-from-checkpoint", "last"]
        failed = run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "out", *flags)
        assert failed.code == 1 and "split of the data: folds: expected 2 as the checkpoint has it, found 3" in failed.err, failed.err

    @pytest.mark.parametrize("flags", [["--folds", 3, "--fold", 2], ["--validation-split", 0.2], ["--folds", 3, "--fold", 1, "--overwrite-output-dir"]])
    def test_their_folder_takes_no_other_training(self, flags, reviews, tmp_path):
        out = tmp_path / "out"
        ran("finetune", CLASSIFIER, reviews, "--output-dir", out, "--folds", 3, *FEW)
        before = sorted(path for path in out.rglob("*"))
        failed = run("finetune", CLASSIFIER, reviews, "--output-dir", out, *flags, *FEW).fails(1, "output_dir: ", "folds of a cross-validation")
        assert ("fold-" in failed.err) == ("--fold" in flags) and sorted(path for path in out.rglob("*")) == before
        # The folder of a fold is a training as any other.
        if "--overwrite-output-dir" in flags:
            ran("finetune", CLASSIFIER, reviews, "--output-dir", out / "fold-1", *flags, *FEW)

    def test_classes_with_fewer_examples_are_told_once(self, reviews, tmp_path):
        done = ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "out", "--folds", 6, *FEW)
        notes = [line for line in done.err.splitlines() if "as there are folds" in line]
        assert len(notes) == 1 and '"fair" (5 examples)' in notes[0] and "good" not in notes[0], done.err
        done = ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "five", "--folds", 5, *FEW)
        assert "as there are folds" not in done.err


class TestClassWeights:
    def test_the_loss_of_a_step_is_that_of_pytorch(self, reviews, tmp_path):
        """CrossEntropyLoss(weight) over all examples of a step, whatever its micro-batches, counted from the logits."""
        model = without_dropout(CLASSIFIER, tmp_path / "model")
        weights = {"good": 0.5, "bad": 3.0}
        rows = [json.loads(line) for line in reviews.read_text().splitlines()]
        scores = run("classify", model, reviews, "--field", "text", "--json", "--top-k", 0, "--function-to-apply", "none").works().json
        names = ["bad", "fair", "good"]
        logits = np.array([[next(s["score"] for s in row["labels"] if s["label"] == name) for name in names] for row in scores], np.float64)
        right = np.array([names.index(row["label"]) for row in rows])
        losses = np.log(np.exp(logits).sum(1)) - logits[range(50), right]
        weight = np.array([weights.get(names[i], 1.0) for i in right])
        expected = (weight * losses).sum() / weight.sum()
        found = []
        for batch, steps in ((50, 1), (10, 5), (1, 50)):
            out = tmp_path / f"out-{batch}"
            ran("finetune", model, reviews, "--output-dir", out, "--class-weights", "good=0.5,bad=3", "--max-steps", 1,
                "--per-device-train-batch-size", batch, "--gradient-accumulation-steps", steps, "--learning-rate", 1e-4)  # fmt: skip
            lines = log_of(out)
            assert lines[0]["class_weights"] == {"bad": 3.0, "fair": 1.0, "good": 0.5}
            found.append((lines[1]["loss"], lines[1]["grad_norm"]))
        assert [loss for loss, _ in found] == pytest.approx([expected] * 3, rel=1e-5)
        assert [norm for _, norm in found] == pytest.approx([found[0][1]] * 3, rel=1e-4)

    @pytest.mark.parametrize("kind", ["several classes", "words"])
    def test_of_other_tasks(self, kind, tmp_path):
        model, rows, flags = TASKS[kind]
        data = write(tmp_path / "data.jsonl", rows())
        flags = [*flags, "--new-head"]
        for weights in ("balanced", "x=2" if kind != "words" else '{"O": 0.5}'):
            out = tmp_path / weights[:3].strip("{\"")
            ran("finetune", model or CLASSIFIER, data, "--output-dir", out, "--class-weights", weights, *flags, *FEW)
            assert log_of(out)[0]["class_weights"]

    def test_labels_with_commas(self, tmp_path):
        data = write(tmp_path / "data.jsonl", [{"text": text(4, i), "label": "a,b" if i % 3 else "c=d"} for i in range(9)])
        flags = ["--task", "classify", "--output-dir", tmp_path / "out", *FEW]
        ran("finetune", BERT, data, "--class-weights", '{"a,b": 2, "c=d": 3}', *flags)
        assert log_of(tmp_path / "out")[0]["class_weights"] == {"a,b": 2.0, "c=d": 3.0}
        failed = run("finetune", BERT, data, "--class-weights", "a,b=1", *flags, "--overwrite-output-dir")
        assert failed.code == 2 and "JSON object" in failed.err and "'a'" in failed.err

    def test_numbers_have_no_classes(self, tmp_path):
        data = write(tmp_path / "data.jsonl", [{"text": text(4, i), "label": i + 0.5} for i in range(8)])
        failed = run("finetune", BERT, data, "--task", "classify", "--class-weights", "balanced", "--output-dir", tmp_path / "out", *FEW)
        assert failed.code == 2 and "--class-weights" in failed.err


class TestEnd:
    def test_table_and_best(self, reviews, tmp_path):
        done = ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "out", "--validation-split", 0.2, "--num-train-epochs", 30,
                   "--early-stopping-patience", 2, "--early-stopping-threshold", 0.3, *FAST)  # fmt: skip
        table = [line.split() for line in done.err.splitlines()]
        head = next(i for i, row in enumerate(table) if row[:3] == ["epoch", "step", "loss"])
        rows = [list(map(float, row)) for row in table[head + 1 :]]
        evaluations = [line for line in log_of(tmp_path / "out") if "eval_loss" in line]
        assert len(rows) == len(evaluations) < 30 and "stopped early" in done.out
        for row, line in zip(rows, evaluations):
            assert row[:2] == [line["epoch"], line["step"]]
            assert row[2:5] == pytest.approx([line["train_loss"], line["eval_loss"], line["eval_accuracy"]], abs=6e-5)
        best = max(line["eval_accuracy"] for line in evaluations)
        step = next(line["step"] for line in evaluations if line["eval_accuracy"] == best)
        assert f"best accuracy {best:.4f} after step {step}" in done.out and f"checkpoint-{step}" in done.out
        assert (tmp_path / "out" / "model.safetensors").read_bytes() == (
            tmp_path / "out" / f"checkpoint-{step}" / "model.safetensors"
        ).read_bytes()

    def test_card(self, reviews, tmp_path):
        """tests/parity/model_card_parity.py reads it with huggingface_hub."""
        ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "my: model", "--validation-split", 0.2, "--seed", 5, *FEW)
        card = (tmp_path / "my: model" / "README.md").read_text()
        accuracy = log_of(tmp_path / "my: model")[-1]["eval_accuracy"]
        front = card.split("---\n")[1]
        for words in ('pipeline_tag: "text-classification"', 'library_name: "transformers"', '- name: "my: model"',
                      f'- type: "accuracy"\n      name: "accuracy"\n      value: {accuracy:g}'[:60]):  # fmt: skip
            assert words in front, (words, front)
        for words in ("| training examples | 40 |", "| validation examples | 10 |", "| good | 24 |", "| seed | 5 |",
                      "| validation\\_split | 0.2 |", "reviews.jsonl", "validation loss", "tiny\\_longformer\\_classifier"):  # fmt: skip
            assert words in card, (words, card)
        assert str(tmp_path) not in card
        mlm = write(tmp_path / "text.txt", "the house " * 100)
        ran("pretrain-mlm", ROBERTA, mlm, "--output-dir", tmp_path / "mlm", "--max-steps", 1)
        assert 'pipeline_tag: "fill-mask"' in (tmp_path / "mlm" / "README.md").read_text()

    def test_a_readme_of_the_user_stays(self, reviews, tmp_path):
        out = tmp_path / "out"
        out.mkdir()
        (out / "README.md").write_text("mine")
        done = ran("finetune", CLASSIFIER, reviews, "--output-dir", out, *FEW)
        assert (out / "README.md").read_text() == "mine" and "accuracy" not in done.out
        assert "model_card.md" in done.err and (out / "model_card.md").exists()


class TestMaxLength:
    @pytest.mark.parametrize("arguments", [
        ["classify", CLASSIFIER, "--text", "a"], ["ner", TAGGER, "--text", "a"], ["qa", QA, "-q", "a", "--text", "a"],
        ["embed", BERT, "--text", "a"], ["fill-mask", ROBERTA, "--text", "a <mask>"], ["rerank", FIXTURES / "rerankers" / "bert", "a", "--text", "b"],
        ["choose", CHOOSER, "--question", "a", "--choice", "b", "--choice", "c"], ["tokenize", BERT, "--text", "a b"],
        ["compare", BERT, BERT, "--text", "a b"], ["evaluate", CLASSIFIER, "DATA"]])  # fmt: skip
    @pytest.mark.parametrize("length", [1, 2])
    @pytest.mark.parametrize("more", [[], ["--truncate"]])
    def test_that_leaves_no_room(self, arguments, length, more, tmp_path):
        """Nothing but special tokens would be read."""
        if more and arguments[0] in ("tokenize", "compare"):
            return
        data = write(tmp_path / "data.jsonl", [{"text": "the", "label": "good"}, {"text": "of", "label": "bad"}])
        arguments = [data if one == "DATA" else one for one in arguments]
        run(*arguments, "--max-length", length, *more).fails(2, "--max-length: expected at least", f"found {length}")

    def test_is_that_of_the_model(self, tmp_path):
        """Cut at N tokens, a document is the text of these tokens, as max_length of transformers has it."""
        words = text(40, 3)
        for verb, model, more in (("classify", CLASSIFIER, []), ("ner", TAGGER, []), ("qa", QA, ["-q", "the of"])):
            failed = run(verb, model, "--text", words, "--max-length", 16, *more)
            assert failed.code == 1 and "16" in failed.err, failed.err
            cut = run(verb, model, "--text", words, "--max-length", 16, "--truncate", "--json", *more).passes().json[0]
            assert cut["truncated"] > 0 and cut["tokens"] - cut["truncated"] == 16, cut
            wrong = run(verb, model, "--text", words, "--max-length", 10**6, *more)
            assert wrong.code == 2 and "--max-length" in wrong.err, wrong.err
        whole = run("classify", CLASSIFIER, "--text", words, "--max-length", 16, "--stride", 4, "--json").passes().json[0]
        assert whole["segments"] > 1 and whole["truncated"] == 0
        data = write(tmp_path / "data.jsonl", [{"text": words, "label": "good"}, {"text": "the", "label": "bad"}])
        found = run("evaluate", CLASSIFIER, data, "--max-length", 16, "--truncate", "--json").passes().json[0]
        assert found["truncated_examples"] == 1
        failed = run("evaluate", CLASSIFIER, data, "--max-length", 16)
        assert failed.code == 1 and "16" in failed.err
        done = ran("finetune", CLASSIFIER, data, "--max-length", 16, "--truncate", "--output-dir", tmp_path / "out", *FEW)
        assert "cut" in done.err or "truncated" in done.err, done.err

    def test_of_masks_pairs_and_choices(self, tmp_path):
        masked = f"{text(30, 1)} <mask>"
        assert run("fill-mask", ROBERTA, "--text", masked, "--max-length", 10).code == 1
        assert run("fill-mask", ROBERTA, "--text", f"<mask> {masked}", "--max-length", 10, "--truncate").code == 0
        question = write(tmp_path / "q.jsonl", [{"question": "the", "context": text(30, 1), "choices": ["of", "and"]}])
        assert run("choose", CHOOSER, question, "--max-length", 12).code == 1
        run("choose", CHOOSER, question, "--max-length", 12, "--truncate").passes()
