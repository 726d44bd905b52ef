"""Splits, folds, weights of classes and lengths through the package: those of the program with the same options."""

import json
import statistics

import longformer_cpp
import pytest
from test_verbs import flags

OPTIONS = {"task": "classify", "max_steps": 3, "gradient_accumulation_steps": 1, "learning_rate": 1e-3, "seed": 7}


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "train.jsonl"
    rows = [{"text": f"he was in the house {'at by on in'.split()[i % 4]} " * (1 + i % 3), "label": "xy"[i % 2]} for i in range(24)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_split_and_weights(folder, program, data, tmp_path):
    path = folder("tiny_longformer_classifier")
    options = {**OPTIONS, "new_head": True, "validation_split": 0.25, "class_weights": "x=2,y=0.5", "early_stopping_patience": 1}
    result = longformer_cpp.finetune(path, data, tmp_path / "here", threads=1, **options)
    assert result.metric == "accuracy" and result.best_metric == result.model_metrics["accuracy"]
    assert result.best_step == result.model_step > 0
    assert [row["step"] for row in result.epochs] == [step for step, _ in result.evaluations]
    assert result.epochs[0]["loss"] == result.evaluations[0][1]["loss"] and result.epochs[0]["train_loss"] > 0
    program("finetune", path, data, "--output-dir", tmp_path / "there", "--threads", 1, "--json", *flags(options))
    for name in ("model.safetensors", "validation_split.json"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    assert (tmp_path / "here" / "README.md").exists()


def test_cross_validate(folder, data, tmp_path):
    path = folder("tiny_longformer_classifier")
    found = longformer_cpp.cross_validate(path, data, tmp_path / "folds", folds=3, new_head=True, threads=1, **OPTIONS)
    values = [fold.model_metrics["accuracy"] for fold in found.folds]
    assert found.mean["accuracy"] == pytest.approx(statistics.mean(values))
    assert found.deviation["accuracy"] == pytest.approx(statistics.stdev(values))
    assert [fold.output_dir for fold in found.folds] == [str(tmp_path / "folds" / f"fold-{i}") for i in (1, 2, 3)]
    assert longformer_cpp.load(found.folds[0].output_dir).classify("he was")
    again = longformer_cpp.cross_validate(path, data, tmp_path / "folds", folds=3, new_head=True, threads=1, resume_from_checkpoint=True, **OPTIONS)
    assert again.mean == found.mean


def test_contradictions_name_the_option(folder, data, tmp_path):
    path = folder("tiny_longformer_classifier")
    for options, option in (
        ({"validation_split": 0.1, "validation_file": data}, "validation_split"),
        ({"validation_split": 0.1, "folds": 3}, "folds"),
        ({"folds": 3}, "fold"),
        ({"class_weights": "z=1"}, "class_weights"),
        ({"max_length": 10**6}, "max_length"),
    ):
        with pytest.raises(longformer_cpp.Error) as raised:
            longformer_cpp.finetune(path, data, tmp_path / "out", new_head=True, **OPTIONS, **options)
        assert option in str(raised.value), raised.value


def test_longest_document(folder):
    model = longformer_cpp.load(folder("tiny_longformer_classifier"))
    text = "he was in the house " * 6
    with pytest.raises(longformer_cpp.Error, match="8"):
        longformer_cpp.Classifier(model)(text, max_length=8)
    (found,) = longformer_cpp.Classifier(model)(text, max_length=8, truncate=True)
    assert found.tokens - found.truncated == 8
    with pytest.raises(longformer_cpp.Error) as raised:
        longformer_cpp.Classifier(model)(text, max_length=10**6)
    assert raised.value.option == "max_length"
