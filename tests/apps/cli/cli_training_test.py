"""The verbs pretrain-mlm and finetune on the tiny models of tests/fixtures: they learn, write folders that
the other verbs read, go on bit-equal after a kill, and say what is wrong with their input."""

import fcntl
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import numpy as np
import pytest
from cli_test import BERT, BINARY, FIXTURES, ROOT, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
TAGGER = FIXTURES / "tiny_bert_tagger"
QA = FIXTURES / "tiny_longformer_qa"
CHOOSER = FIXTURES / "tiny_longformer_choice"
# Tensors that a classifier and a tagger made of each begin with.
OTHER_FAMILIES = {
    "tiny_distilbert": ("distilbert.transformer.layer.0.attention.q_lin.weight",
                        ["classifier.bias", "classifier.weight", "pre_classifier.bias", "pre_classifier.weight"]),
    "tiny_electra": ("electra.encoder.layer.0.attention.self.query.weight",
                     ["classifier.dense.bias", "classifier.dense.weight", "classifier.out_proj.bias",
                      "classifier.out_proj.weight"]),
}  # fmt: skip
WORDS = "the of and to in a is was he for it with as his on be at by".split()
# Everything is learned by heart: no dropout, one high rate.
FAST = ["--lr-scheduler-type", "constant", "--logging-steps", 20, "--save-strategy", "no",
        "--per-device-train-batch-size", 4]  # fmt: skip
# Each example is a step, and each step is logged.
EACH_STEP = ["--logging-steps", 1, *FAST[4:], "--gradient-accumulation-steps", 1]


def write(path, rows):
    path.write_text(rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows))
    return path


def ran(*arguments):
    """Training tells of itself on stderr. A high rate, as everything is learned by heart."""
    rate = [] if "--learning-rate" in arguments else ["--learning-rate", 0.01]
    done = run(*arguments, *rate)
    assert done.code == 0, done.err
    return done


def copied(source, target, weights=True, **changes):
    """The folder, with or without its weights, and with changes of its config.json."""
    target.mkdir()
    for file in source.iterdir():
        if file.is_file() and (weights or "safetensors" not in file.name):
            (target / file.name).write_bytes(file.read_bytes())
    config = json.loads((target / "config.json").read_text())
    config.update(changes)
    (target / "config.json").write_text(json.dumps(config))
    return target


def without_dropout(source, target):
    """The folder with dropout off, so that little training tells much."""
    return copied(source, target, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def without_added_tokens(source, target):
    """The folder with the tokenizer of the tiny BERT, which has none of a task."""
    copied(source, target)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "added_tokens.json"):
        (target / name).unlink(missing_ok=True)
        if (BERT / name).exists():
            (target / name).write_bytes((BERT / name).read_bytes())
    return target


def losses_of(out):
    """Losses of steps and of evaluations."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line[name] for line in lines for name in ("loss", "eval_loss") if name in line]


def tensors(folder):
    """Names and values of a model.safetensors in fp32."""
    data = (pathlib.Path(folder) / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size :]
    return {name: np.frombuffer(body[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
            for name, entry in header.items()}  # fmt: skip


def text(count, seed):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(count))


@pytest.fixture
def reviews(tmp_path):
    """The class hangs on one word."""
    rows = []
    for i in range(24):
        label = ("good", "bad", "fair")[i % 3]
        rows.append({"text": f"{text(6, i)} {dict(good='his', bad='at', fair='on')[label]} {text(4, i + 99)}",
                     "label": label})  # fmt: skip
    for row in rows:
        words = row["text"].split()
        row["text"] = " ".join(w for i, w in enumerate(words) if w not in ("his", "at", "on") or i == 6)
    return write(tmp_path / "reviews.jsonl", rows)


class TestFinetune:
    def test_learns_classes_by_heart(self, reviews, tmp_path):
        model = without_dropout(CLASSIFIER, tmp_path / "model")
        out = tmp_path / "tuned"
        done = ran("finetune", model, reviews, "--output-dir", out, "--max-steps", 200, *FAST, "--json")
        assert done.json[0]["steps"] == 200
        assert "classify: 24 examples" in done.err and "labels: bad, fair, good" in done.err
        assert "trained parameters" in done.err and "memory about" in done.err
        report = run("evaluate", out, reviews, "--json").works().json[0]
        assert report["metrics"]["accuracy"] == 1.0
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        assert lines[-1]["loss"] < 0.1 < lines[0]["loss"]
        config = json.loads((out / "config.json").read_text())
        assert config["architectures"] == ["LongformerForSequenceClassification"]
        assert config["id2label"] == {"0": "bad", "1": "fair", "2": "good"}

    def test_a_folder_without_a_head_gets_one(self, reviews, tmp_path):
        folder = tmp_path / "longformer"
        run("convert", BERT, folder, "--max-positions", 64, "--window", 8).works()
        out = tmp_path / "tuned"
        done = ran("finetune", folder, reviews, "--task", "classify", "--output-dir", out, "--max-steps", 4, *FAST)
        assert "new weights: classifier.dense.bias" in done.err
        names = tensors(out).keys()
        assert "classifier.out_proj.weight" in names and "longformer.embeddings.LayerNorm.weight" in names
        assert not any(name.startswith(("pooler", "longformer.pooler", "lm_head")) for name in names)
        assert run("classify", out, "--text", "the of and", "--json").works().json[0]["labels"]

    @pytest.mark.parametrize("name", OTHER_FAMILIES)
    def test_other_families_keep_their_names(self, name, reviews, tmp_path):
        encoder, head = OTHER_FAMILIES[name]
        out = tmp_path / "tuned"
        done = ran("finetune", FIXTURES / name, reviews, "--task", "classify", "--output-dir", out, "--max-steps", 3, *FAST)
        assert f"new weights: {', '.join(head)}" in done.err
        written, began = tensors(out), tensors(FIXTURES / name)
        own = {key for key in began if key.startswith(encoder.split(".")[0])}
        assert set(written) == own | set(head)
        assert (written[encoder] != began[encoder]).any()
        assert run("classify", out, "--text", "the of and", "--json").works().json[0]["labels"]

    @pytest.mark.parametrize("name", OTHER_FAMILIES)
    def test_other_families_go_on_bit_equal(self, name, tmp_path):
        rows = [{"question": "the of", "context": f"{text(4, i)} his {text(3, i + 40)}",
                 "answers": {"text": ["his"], "answer_start": [len(text(4, i)) + 1]}} for i in range(8)]  # fmt: skip
        data = write(tmp_path / "data.jsonl", rows)
        arguments = ["finetune", FIXTURES / name, data, "--task", "qa", "--max-steps", 6, "--save-steps", 3,
                     "--per-device-train-batch-size", 2]  # fmt: skip
        whole, halves = tmp_path / "whole", tmp_path / "halves"
        ran(*arguments, "--output-dir", whole)
        ran(*arguments, "--output-dir", halves)
        (halves / "model.safetensors").unlink()
        ran(*arguments, "--output-dir", halves, "--resume-from-checkpoint", halves / "checkpoint-3")
        assert (halves / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
        assert "qa_outputs.weight" in tensors(whole)

    def test_rules_of_global_attention(self, reviews, tmp_path):
        """A rule is that of evaluating: what was learned with it is lost without."""
        rows = [json.loads(line) for line in reviews.read_text().splitlines()]
        for row in rows:
            row["text"] = row["text"].replace(" was", ". It was")
        data = write(tmp_path / "sentences.jsonl", rows)
        losses = {}
        for rule in ("default", "cls", "none", "sentences", "every:4"):
            out = tmp_path / rule.replace(":", "")
            ran("finetune", CLASSIFIER, data, "--global-attention", rule, "--output-dir", out, "--max-steps", 2, *FAST)
            losses[rule] = json.loads((out / "log.jsonl").read_text().splitlines()[-1])["loss"]
        assert losses["default"] == losses["cls"]
        assert len(set(losses.values())) == 4

    def test_global_projections_that_are_shared(self, reviews, tmp_path):
        folder, out = tmp_path / "longformer", tmp_path / "tuned"
        run("convert", BERT, folder, "--max-positions", 64, "--window", 8).works()
        ran("finetune", folder, reviews, "--task", "classify", "--shared-global-projections", "--output-dir", out,
            "--max-steps", 4, *FAST)
        written, began = tensors(out), tensors(folder)
        names = [name for name in written if "_global." in name]
        assert names and len(written) == len(set(written))
        for name in names:
            local = name.replace("_global.", ".")
            assert (written[name] == written[local]).all()
            assert (written[local] != began[local.removeprefix("longformer.")]).any() or "key_global.bias" in name
        failed = run("finetune", CLASSIFIER, reviews, "--shared-global-projections", "--output-dir", tmp_path / "no")
        assert failed.code == 1 and "to share them, found others" in failed.err

    def test_a_head_of_another_task_gives_way(self, reviews, tmp_path):
        out = tmp_path / "tuned"
        done = ran("finetune", CHOOSER, reviews, "--task", "classify", "--output-dir", out, "--max-steps", 2, *FAST)
        assert "new weights: classifier.dense.bias" in done.err
        assert tensors(out)["classifier.out_proj.weight"].shape == (3, 16)
        masked = FIXTURES / "tiny_longformer_mlm"
        both = tmp_path / "both"
        both.mkdir()
        for source in (CLASSIFIER, masked):
            for file in source.iterdir():
                (both / file.name).write_bytes(file.read_bytes())
        out = tmp_path / "from_mlm"
        ran("finetune", both, reviews, "--task", "classify", "--output-dir", out, "--max-steps", 2, *FAST)
        assert not any(name.startswith("lm_head") for name in tensors(out))

    @pytest.mark.parametrize("problem", ["regression", "several"])
    def test_numbers_and_several_labels(self, problem, tmp_path):
        folder = tmp_path / "longformer"
        run("convert", without_dropout(BERT, tmp_path / "bert"), folder, "--max-positions", 64, "--window", 8).works()
        regression = problem == "regression"
        rows = [{"text": f"{text(5, i).replace('with', 'he').replace('was', 'he')} {'with' if i % 2 else 'was'}",
                 "label": (0.5 if i % 2 else -1.5) if regression else (["x", "y"] if i % 2 else ["y"])}
                for i in range(16)]  # fmt: skip
        data = write(tmp_path / "data.jsonl", rows)
        out = tmp_path / "tuned"
        ran("finetune", folder, data, "--task", "classify", "--output-dir", out, "--max-steps", 1500, *FAST,
            "--learning-rate", 0.001)  # fmt: skip
        metrics = run("evaluate", out, data, "--json").works().json[0]["metrics"]
        if regression:
            assert metrics["mse"] < 0.05 and metrics["pearson"] > 0.95
        else:
            assert metrics["f1_micro"] == 1.0
        kind = json.loads((out / "config.json").read_text())["problem_type"]
        assert kind == ("regression" if regression else "multi_label_classification")

    def test_learns_entities(self, tmp_path):
        model = without_dropout(TAGGER, tmp_path / "model")
        labels = list(json.loads((model / "config.json").read_text())["id2label"].values())
        begin = next(label for label in labels if label.startswith("B-"))
        rows = []
        for i in range(16):
            words = text(7, i).split()
            rows.append({"tokens": words, "ner_tags": [begin if w in ("he", "his") else "O" for w in words]})
        data = write(tmp_path / "data.jsonl", rows)
        out = tmp_path / "tuned"
        ran("finetune", model, data, "--output-dir", out, "--max-steps", 200, *FAST)
        assert run("evaluate", out, data, "--json").works().json[0]["metrics"]["f1"] > 0.95

    def test_learns_answers(self, tmp_path):
        model = without_dropout(QA, tmp_path / "model")
        rows = []
        for i in range(12):
            before, answer, after = text(4 + i % 3, i), ("his", "with")[i % 2], text(5, i + 50)
            before, after = (" ".join(w for w in t.split() if w not in ("his", "with")) for t in (before, after))
            rows.append({"id": str(i), "question": "the of", "context": f"{before} {answer} {after}",
                         "answers": {"text": [answer], "answer_start": [len(before) + 1]}})  # fmt: skip
        data = write(tmp_path / "data.jsonl", rows)
        out = tmp_path / "tuned"
        ran("finetune", model, data, "--output-dir", out, "--max-steps", 250, *FAST)
        assert run("evaluate", out, data, "--json").works().json[0]["metrics"]["exact_match"] > 90

    def test_learns_choices(self, tmp_path):
        model = without_dropout(CHOOSER, tmp_path / "model")
        rows = [{"question": text(3, i), "choices": [f"with {text(1, i + 9)}", f"was {text(1, i + 5)}"][:: 1 if i % 2 else -1],
                 "label": 0 if i % 2 else 1} for i in range(12)]  # fmt: skip
        data = write(tmp_path / "data.jsonl", rows)
        out = tmp_path / "tuned"
        ran("finetune", model, data, "--output-dir", out, "--max-steps", 200, *FAST)
        assert run("evaluate", out, data, "--json").works().json[0]["metrics"]["accuracy"] == 1.0

    def test_best_model_and_early_stopping(self, reviews, tmp_path):
        out = tmp_path / "tuned"
        done = ran("finetune", CLASSIFIER, reviews, "--output-dir", out, "--validation-file", reviews,
                   "--eval-strategy", "steps", "--eval-steps", 10, "--save-steps", 10, "--max-steps", 300,
                   "--load-best-model-at-end", "--early-stopping-patience", 3, "--learning-rate", 0.005,
                   "--per-device-train-batch-size", 8, "--json")  # fmt: skip
        result = done.json[0]
        accuracy = run("evaluate", out, reviews, "--json").works().json[0]["metrics"]["accuracy"]
        assert accuracy == pytest.approx(result["best_metric"])
        assert result["stopped_early"] and result["steps"] < 300
        best = pathlib.Path(result["best_checkpoint"])
        assert (best / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()

    def test_the_head_has_a_rate_of_its_own(self, reviews, tmp_path):
        """The first step of AdamW moves every weight by the rate."""
        moved = {}
        for rate, head_rate in ((1e-4, 0), (1e-4, 0.01), (0, 0.01)):
            out = tmp_path / f"tuned{rate}-{head_rate}"
            ran("finetune", CLASSIFIER, reviews, "--output-dir", out, "--max-steps", 1, "--learning-rate", rate,
                "--head-learning-rate", head_rate, "--lr-scheduler-type", "constant")  # fmt: skip
            before, after = tensors(CLASSIFIER), tensors(out)
            moved[rate, head_rate] = {
                part: max(np.abs(after[name] - before[name]).max() for name in after if name.startswith(part))
                for part in ("longformer.encoder", "classifier")
            }
        assert moved[1e-4, 0]["classifier"] == pytest.approx(1e-4, rel=0.01)
        assert moved[1e-4, 0.01]["classifier"] == pytest.approx(0.01, rel=0.01)
        assert moved[1e-4, 0.01]["longformer.encoder"] == pytest.approx(1e-4, rel=0.01)
        assert moved[0, 0.01] == {"longformer.encoder": 0, "classifier": pytest.approx(0.01, rel=0.01)}
        failed = run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "no", "--head-learning-rate", -3)
        failed.fails(2, "--head-learning-rate", "at least 0")

    def test_label_smoothing(self, reviews, tmp_path):
        """Memorised examples have a larger loss with smoothing; choices are smoothed too; numbers are refused."""
        losses = []
        for smoothing in (0, 0.2):
            out = tmp_path / f"tuned{smoothing}"
            ran("finetune", CLASSIFIER, reviews, "--output-dir", out, "--max-steps", 60, *FAST,
                "--label-smoothing-factor", smoothing)  # fmt: skip
            losses.append([json.loads(line)["loss"] for line in (out / "log.jsonl").read_text().splitlines()][-1])
        assert losses[0] < losses[1]
        rows = [{"question": "the of", "choices": ["and to", "he was"], "label": i % 2} for i in range(4)]
        data = write(tmp_path / "choices.jsonl", rows)
        models = []
        for smoothing in (0, 0.2):
            out = tmp_path / f"chosen{smoothing}"
            ran("finetune", CHOOSER, data, "--output-dir", out, "--max-steps", 2, *FAST,
                "--label-smoothing-factor", smoothing)  # fmt: skip
            models.append((out / "model.safetensors").read_bytes())
        assert models[0] != models[1]
        numbers = write(tmp_path / "numbers.jsonl", [{"text": "the of", "label": 0.5}, {"text": "and", "label": 1.5}])
        failed = run("finetune", BERT, numbers, "--task", "classify", "--label-smoothing-factor", 0.1, "--output-dir",
                     tmp_path / "no")  # fmt: skip
        failed.fails(2, "--label-smoothing-factor", "one right class")

    def test_validation_data_are_read_before_training(self, reviews, tmp_path):
        def tuned(rows, *flags):
            return run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "out", "--overwrite-output-dir",
                       "--max-steps", 2, "--learning-rate", 0.01, "--validation-file",
                       write(tmp_path / "dev.jsonl", rows), *flags)  # fmt: skip

        evaluating = ["--eval-strategy", "steps", "--eval-steps", 1]
        good, unknown = {"text": "the of", "label": "good"}, {"text": "and to", "label": "wonderful"}
        long, empty = {"text": text(90, 1), "label": "bad"}, {"text": "", "label": "bad"}
        for rows, said in (([good, unknown], ["dev.jsonl:2", "wonderful"]), ([good, long], ["dev.jsonl:2", "--truncate"]),
                           ("", ["dev.jsonl"])):  # fmt: skip
            failed = tuned(rows, *evaluating)
            failed.fails(1, *said)
            assert "trained parameters" not in failed.err
        done = tuned([good, unknown, long, empty], *evaluating, "--skip-invalid", "--truncate")
        assert done.code == 0, done.err
        for words in ("validation: 3 examples", "left out 1 broken example", "dev.jsonl:2", "1 example is empty",
                      "1 document is longer than the model"):  # fmt: skip
            assert words in done.err
        assert "the validation file is not read" in tuned([good], "--eval-strategy", "no").err
        failed = run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "none", *evaluating)
        failed.fails(1, "validation_file", "eval_strategy")

    def test_a_validation_file_is_read_after_each_epoch(self, reviews, tmp_path):
        out = tmp_path / "out"
        ran("finetune", CLASSIFIER, reviews, "--output-dir", out, "--num-train-epochs", 2, "--validation-file", reviews,
            *FAST)  # fmt: skip
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in lines if "eval_accuracy" in line] == [1, 2]
        assert json.loads((out / "training_args.json").read_text())["eval_strategy"] == "epoch"
        ran("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "best", "--max-steps", 3, "--validation-file",
            reviews, "--load-best-model-at-end", "--gradient-accumulation-steps", 1, *FAST)  # fmt: skip
        lines = [json.loads(line) for line in (tmp_path / "best" / "log.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines if "eval_loss" in line] == [3]

    def test_a_new_head_has_the_labels_of_the_data(self, reviews, tmp_path):
        rows = [json.loads(line) for line in reviews.read_text().splitlines()]
        names = {"good": "praise", "bad": "blame", "fair": "shrug"}
        other = write(tmp_path / "other.jsonl", [{**row, "label": names[row["label"]]} for row in rows])
        failed = run("finetune", CLASSIFIER, other, "--output-dir", tmp_path / "no")
        failed.fails(1, "praise", "good", "--new-head")
        two = write(tmp_path / "two.jsonl", [row for row in rows if row["label"] != "fair"])
        for data, labels in ((other, ["blame", "praise", "shrug"]), (two, ["bad", "good"])):
            out = tmp_path / f"tuned{len(labels)}"
            done = ran("finetune", CLASSIFIER, data, "--new-head", "--output-dir", out, "--max-steps", 2, "--validation-file",
                       data, *FAST)  # fmt: skip
            assert "new weights: classifier.dense.bias" in done.err
            assert list(json.loads((out / "config.json").read_text())["id2label"].values()) == labels
            before, after = tensors(CLASSIFIER), tensors(out)
            assert after["classifier.out_proj.weight"].shape[0] == len(labels)
            assert np.abs(after["classifier.dense.weight"] - before["classifier.dense.weight"]).max() > 0.02
            assert run("classify", out, "--text", "the of", "--json").works().json[0]["labels"]
        failed = run("finetune", QA, other, "--new-head", "--output-dir", tmp_path / "no")
        failed.fails(2, "--new-head", "classify or ner", "qa")

    def test_a_new_head_beside_an_adapter(self, reviews, tmp_path):
        rows = [json.loads(line) for line in reviews.read_text().splitlines()]
        two = write(tmp_path / "two.jsonl", [row for row in rows if row["label"] != "fair"])
        out = tmp_path / "tuned"
        ran("finetune", CLASSIFIER, two, "--new-head", "--lora-rank", 2, "--output-dir", out, "--max-steps", 2, *FAST)
        found = run("classify", CLASSIFIER, "--adapter", out, "--text", "the of", "--json").works().json[0]
        assert {label["label"] for label in found["labels"]} <= {"bad", "good"}

    def test_one_class_teaches_nothing(self, tmp_path):
        data = write(tmp_path / "data.jsonl", [{"text": "the of", "label": "good"}] * 4)
        for model, flags in ((CLASSIFIER, []), (BERT, ["--task", "classify"])):
            failed = run("finetune", model, data, *flags, "--output-dir", tmp_path / "out")
            failed.fails(1, "data.jsonl", "two classes or more", '4 of "good" alone')

    @pytest.mark.parametrize("name,content", [
        ("rows.jsonl", '{"text": "he was", "labels": [0, 1, 0]}\n{"text": "the of", "labels": [1, 0, 1]}\n'),
        ("columns.csv", "text,LABEL_0,LABEL_1,LABEL_2\nhe was,0,1,0\nthe of,1,0,1\n"),
    ])  # fmt: skip
    def test_rows_and_columns_of_bits_are_labels(self, name, content, tmp_path):
        data, out = write(tmp_path / name, content), tmp_path / "out"
        ran("finetune", BERT, data, "--task", "classify", "--output-dir", out, "--max-steps", 2, *FAST)
        config = json.loads((out / "config.json").read_text())
        assert config["problem_type"] == "multi_label_classification"
        assert list(config["id2label"].values()) == ["LABEL_0", "LABEL_1", "LABEL_2"]
        assert run("evaluate", out, data, "--json").works().json[0]["labels"][0]["support"] == 1

    def test_a_resumed_training_has_the_same_data(self, reviews, tmp_path):
        out = tmp_path / "out"
        arguments = ["finetune", CLASSIFIER, reviews, "--output-dir", out, "--save-steps", 1, "--max-steps", 4]
        ran(*arguments, "--per-device-train-batch-size", 1)
        (out / "model.safetensors").unlink()
        resumed = [*arguments, "--resume-from-checkpoint", out / "checkpoint-3", "--per-device-train-batch-size", 8]
        failed = run(*resumed)
        assert failed.code == 1
        assert "expected epochs of 24 micro-batches" in failed.err and failed.err.endswith("found 3\n")
        assert not (out / "model.safetensors").exists()

    def test_checkpointing_gives_the_same_bits(self, reviews, tmp_path):
        models = []
        for flags in ([], ["--gradient-checkpointing"]):
            out = tmp_path / f"tuned{len(flags)}"
            ran("finetune", CLASSIFIER, reviews, "--output-dir", out, "--max-steps", 6, *FAST, *flags)
            models.append((out / "model.safetensors").read_bytes())
        assert models[0] == models[1]

    def test_long_documents(self, tmp_path):
        data = write(tmp_path / "long.jsonl", [{"text": text(90, 1), "label": "good"}, {"text": "the of", "label": "bad"}])
        run("finetune", CLASSIFIER, data, "--output-dir", tmp_path / "a", "--max-steps", 1).fails(1, "--truncate")
        done = ran("finetune", CLASSIFIER, data, "--output-dir", tmp_path / "b", "--max-steps", 1, "--truncate")
        assert "1 document is longer than the model: cut" in done.err
        done = ran("finetune", CLASSIFIER, data, "--output-dir", tmp_path / "c", "--max-steps", 1, "--stride", 8)
        assert "2 examples, 2 rows" not in done.err and "2 examples, " in done.err

    @pytest.mark.parametrize(
        ("rows", "said"),
        [
            ('{"text": "the", "label": "good"}\n{"text": "the"\n', ["data.jsonl:2"]),
            ([{"text": "the", "label": "wonderful"}], ["wonderful", "good"]),
            ([{"label": "good"}], ["data.jsonl:1", "text"]),
            ("", ["data.jsonl"]),
        ],
    )
    def test_bad_data(self, rows, said, tmp_path):
        data = write(tmp_path / "data.jsonl", rows)
        run("finetune", CLASSIFIER, data, "--output-dir", tmp_path / "out").fails(1, *said)
        assert not (tmp_path / "out" / "model.safetensors").exists()

    def test_wrong_use(self, reviews, tmp_path):
        run("finetune", CLASSIFIER, reviews).fails(2, "--output-dir")
        run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path, "--learning-rate", -1).fails(2, "--learning-rate")
        run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "x", "--threshold", 7).fails(2, "--threshold")
        run("finetune", BERT, reviews, "--output-dir", tmp_path / "x").fails(1, "classify, ner, multihop, qa, trivia, choose")


class TestPretrainMlm:
    @pytest.fixture
    def corpus(self, tmp_path):
        return write(tmp_path / "corpus.txt", " ".join(["the of and to", "he was with his"] * 150))

    @pytest.fixture
    def model(self, tmp_path):
        folder = tmp_path / "longformer"
        run("convert", BERT, folder, "--max-positions", 40, "--window", 8).works()
        return folder

    def test_learns_a_simple_language(self, model, corpus, tmp_path):
        out = tmp_path / "trained"
        done = ran("pretrain-mlm", model, corpus, "--output-dir", out, "--max-steps", 150, *FAST,
                   "--validation-file", corpus, "--eval-strategy", "steps", "--eval-steps", 150, "--json")  # fmt: skip
        assert done.json[0]["steps"] == 150
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        evaluated = [line for line in lines if "eval_bpc" in line]
        assert evaluated[-1]["eval_bpc"] < 2.0 < lines[0]["loss"] / np.log(2)
        metrics = run("evaluate", out, corpus, "--json").works().json[0]["metrics"]
        assert metrics["bpc"] == pytest.approx(evaluated[-1]["eval_bpc"], rel=1e-5)
        trained = tensors(out)
        for name in ("query", "key", "value"):
            local = trained[f"longformer.encoder.layer.0.attention.self.{name}.weight"]
            np.testing.assert_array_equal(local, trained[f"longformer.encoder.layer.0.attention.self.{name}_global.weight"])

    def test_reads_validation_text_once(self, model, corpus, tmp_path):
        """The file goes away after the first step that is logged."""
        out, held_out = tmp_path / "trained", write(tmp_path / "held_out.txt", "the of and to " * 50)
        command = [BINARY, "pretrain-mlm", model, corpus, "--output-dir", out, "--max-steps", 200, *EACH_STEP,
                   "--validation-file", held_out, "--eval-strategy", "steps", "--eval-steps", 100]
        with subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE) as process:
            log, end = out / "log.jsonl", time.monotonic() + 60
            while not (log.exists() and log.read_text()) and process.poll() is None and time.monotonic() < end:
                time.sleep(0.001)
            held_out.unlink()
            err = process.communicate(timeout=60)[1]
        assert process.returncode == 0, err
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert len([line for line in lines if "eval_loss" in line]) == 2

    def test_only_new_positions(self, model, corpus, tmp_path):
        out = tmp_path / "extra"
        ran("pretrain-mlm", model, corpus, "--output-dir", out, "--max-steps", 5, *FAST,
            "--only-positions-from", 30, "--keep-globals")  # fmt: skip
        before, after = tensors(model), tensors(out)
        name = "embeddings.position_embeddings.weight"
        old = before.get(f"longformer.{name}", before.get(name))
        new = after[f"longformer.{name}"]
        # Row 0 is that of padding.
        np.testing.assert_array_equal(old[:31], new[:31])
        assert (old[31:] != new[31:]).any(axis=1).all()
        for plain, value in before.items():
            full = plain if plain in after else f"longformer.{plain}"
            if full in after and name not in full:
                np.testing.assert_array_equal(value, after[full], err_msg=full)

    def test_from_scratch(self, corpus, tmp_path):
        folder = copied(CLASSIFIER, tmp_path / "new", weights=False)
        out = tmp_path / "trained"
        ran("pretrain-mlm", folder, corpus, "--output-dir", out, "--max-steps", 3, *FAST)
        values = tensors(out)
        assert abs(values["longformer.embeddings.word_embeddings.weight"].std() - 0.02) < 0.01
        assert run("fill-mask", out, "--text", "the [MASK] and", "--json").works().json

    def test_killed_ten_times(self, model, corpus, tmp_path):
        arguments = ["pretrain-mlm", model, corpus, "--max-steps", 120, "--save-steps", 3, "--save-total-limit", 2,
                     "--learning-rate", 0.001, "--warmup-steps", 10, "--per-device-train-batch-size", 2]  # fmt: skip
        whole, killed = tmp_path / "whole", tmp_path / "killed"
        ran(*arguments, "--output-dir", whole)
        moments = random.Random()
        command = [BINARY, *map(str, arguments), "--output-dir", str(killed), "--resume-from-checkpoint", "last"]
        kills = 0
        for _ in range(10):
            with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
                time.sleep(moments.uniform(0.05, 0.4))
                process.kill()
            kills += process.returncode == -signal.SIGKILL
        ran(*arguments, "--output-dir", killed, "--resume-from-checkpoint", "last")
        assert kills >= 3
        assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()

    def test_the_same_seed_gives_the_same_bits(self, model, corpus, tmp_path):
        models = []
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            ran("pretrain-mlm", model, corpus, "--output-dir", tmp_path / name, "--max-steps", 4, *FAST, "--seed", seed)
            models.append((tmp_path / name / "model.safetensors").read_bytes())
        assert models[0] == models[1] != models[2]

    def test_bf16_learns_too(self, model, corpus, tmp_path):
        out = tmp_path / "trained"
        ran("pretrain-mlm", model, corpus, "--output-dir", out, "--max-steps", 100, *FAST, "--bf16")
        assert run("evaluate", out, corpus, "--json").works().json[0]["metrics"]["bpc"] < 3.3

    def test_bad_input(self, model, corpus, tmp_path):
        out = tmp_path / "out"
        run("pretrain-mlm", model, tmp_path / "missing.txt", "--output-dir", out).fails(1, "missing.txt")
        run("pretrain-mlm", model, write(tmp_path / "empty.txt", ""), "--output-dir", out).fails(1, "found none")
        run("pretrain-mlm", model, corpus, "--output-dir", out, "--max-seq-length", 4000).fails(2, "--max-seq-length", "at most 40")
        run("pretrain-mlm", model, corpus, "--output-dir", out, "--only-positions-from", 40).fails(2, "--only-positions-from", "less than 40")
        run("pretrain-mlm", model, "--output-dir", out).fails(2, "FILE")
        run("pretrain-mlm", model, corpus, "--output-dir", out, "--format", "conll").fails(2, "--format", "lines")
        run("pretrain-mlm", model, corpus, "--output-dir", out, "--eval-strategy", "epoch").fails(1, "validation_file")
        missing = tmp_path / "missing.txt"
        failed = run("pretrain-mlm", model, corpus, "--output-dir", out, "--eval-strategy", "epoch",
                     "--validation-file", missing)  # fmt: skip
        failed.fails(1, "missing.txt")
        assert "trained parameters" not in failed.err

    def test_a_validation_file_is_read(self, model, corpus, tmp_path):
        out = tmp_path / "out"
        ran("pretrain-mlm", model, corpus, "--output-dir", out, "--max-steps", 2, "--validation-file", corpus, *FAST)
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines if "eval_bpc" in line][-1] == 2

    def test_another_training_in_the_folder(self, model, corpus, tmp_path):
        out = tmp_path / "out"
        out.mkdir()
        config = ROOT / "examples" / "language-models" / "tiny.json"
        reviews = write(tmp_path / "reviews.jsonl", [{"text": "the", "label": "good"}, {"text": "of", "label": "bad"}])
        with open(out / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for arguments in (["pretrain-mlm", model, corpus], ["finetune", CLASSIFIER, reviews],
                              ["pretrain-lm", "--config", config, corpus, "--length", 64]):  # fmt: skip
                failed = run(*arguments, "--output-dir", out, "--max-steps", 1, "--overwrite-output-dir")
                assert failed.code == 1 and "error: output_dir: " in failed.err and "nobody else trains in" in failed.err
        assert list(out.iterdir()) == [out / ".lock"]

    def test_what_was_read_is_told(self, model, tmp_path):
        rows = [{"text": "the of and"}, {"text": ""}, {"words": "he was"}, {"text": "he was with"}]
        corpus = write(tmp_path / "corpus.jsonl", rows)
        arguments = ["pretrain-mlm", model, corpus, "--output-dir", tmp_path / "out", "--max-steps", 1]
        run(*arguments).fails(1, "corpus.jsonl:3", "text")
        done = ran(*arguments, "--skip-invalid", "--separate-documents")
        for words in ("training: 3 documents, 2 rows", "left out 1 broken record; ", "1 document is empty"):
            assert words in done.err


class TestPlan:
    """The peak memory that is predicted is within 15 % of what the system counts."""

    FLAGS = [[], ["--bf16"], ["--gradient-checkpointing"], ["--bf16", "--gradient-checkpointing"]]

    @staticmethod
    def check(tmp_path, *arguments):
        command = [BINARY, *map(str, arguments), "--output-dir", str(tmp_path / "out"), "--max-steps", "2"]
        with open(tmp_path / "err", "wb") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
        told = (tmp_path / "err").read_text()
        assert status == 0, told
        predicted = float(re.search(r"memory about ([0-9.]+) MB", told)[1]) * 1e6
        assert predicted == pytest.approx(usage.ru_maxrss * 1024, rel=0.15), told

    @pytest.mark.parametrize("flags", FLAGS)
    def test_character_model(self, tmp_path, flags):
        data = write(tmp_path / "text", text(40000, 1))
        self.check(tmp_path, "pretrain-lm", "--config", ROOT / "examples" / "language-models" / "tiny.json", data, "--length",
                   1024, "--per-device-train-batch-size", 8, *flags)  # fmt: skip

    @pytest.mark.parametrize("flags", FLAGS)
    def test_masked_lm(self, tmp_path, flags):
        folder = copied(CLASSIFIER, tmp_path / "new", weights=False, hidden_size=192, num_hidden_layers=4,
                        num_attention_heads=6, intermediate_size=768, max_position_embeddings=1026,
                        attention_window=[64] * 4)  # fmt: skip
        data = write(tmp_path / "corpus.txt", text(20000, 1))
        self.check(tmp_path, "pretrain-mlm", folder, data, "--per-device-train-batch-size", 8, *flags)


class TestBenchTrain:
    def test_rows(self, tmp_path):
        config = tmp_path / "config.json"
        config.write_text((CLASSIFIER / "config.json").read_text())
        rows = run("bench", "train", "--config", config, "-n", "32,64", "-r", 1, "--json").works().json
        assert [row["n"] for row in rows] == [32, 64]
        for row in rows:
            assert row["seconds"] > 0 and row["gflops"] > 0 and row["predicted_peak_bytes"] > 0
        run("bench", "train").fails(2, "MODEL", "--config")

    def test_character_model(self, tmp_path):
        config = ROOT / "examples" / "language-models" / "tiny.json"
        row = run("bench", "train", "--config", config, "-n", 64, "-r", 1, "--json").works().json[0]
        assert row["n"] == 64 and row["seconds"] > 0 and row["gflops"] > 0 and row["predicted_peak_bytes"] > 0

    @pytest.mark.parametrize("config", [ROOT / "examples" / "language-models" / "tiny.json", CLASSIFIER / "config.json"])
    def test_memory_of_small_models(self, config):
        """Most of it is the program itself."""
        row = run("bench", "train", "--config", config, "-n", 64, "-r", 1, "--json").works().json[0]
        assert row["predicted_peak_bytes"] == pytest.approx(row["peak_rss_bytes"], rel=0.2)
