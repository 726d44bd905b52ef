"""Trainings through the package: those of the program with the same options."""

import json
import signal

import longformer_cpp
import numpy as np
import pytest
from test_verbs import flags

FINETUNE = {"task": "classify", "max_steps": 6, "gradient_accumulation_steps": 1, "learning_rate": 1e-3, "seed": 7}


@pytest.fixture
def data(tmp_path):
    rows = [("he was in the house", "good"), ("she was with him", "bad"), ("the house", "good"), ("at the", "bad")]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return path


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("he was in the house she was with him at the house " * 40)
    return path


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def test_finetune(folder, program, data, tmp_path):
    path, seen = folder("tiny_longformer_classifier"), []
    options = {**FINETUNE, "validation_file": data, "eval_strategy": "steps", "eval_steps": 3, "logging_steps": 2}
    result = longformer_cpp.finetune(path, data, tmp_path / "here", callback=seen.append, threads=1, **options)
    assert result.steps == 6 and result.output_dir == str(tmp_path / "here")
    assert [step for step, _ in result.evaluations] == [3, 6] and "accuracy" in result.metrics
    assert [step["step"] for step in seen] == [2, 3, 4, 6]
    assert seen[-1]["loss"] == result.loss and seen[-1]["steps"] == 6 and "eval_accuracy" in seen[1]
    program("finetune", path, data, "--output-dir", tmp_path / "there", "--threads", 1, "--json", *flags(options))
    assert weights(tmp_path / "here") == weights(tmp_path / "there")
    assert longformer_cpp.load(tmp_path / "here").classify("he was")


def test_a_training_goes_on(folder, data, tmp_path):
    """An exception of a callback ends a training with a checkpoint, and it goes on as if it had never stopped."""
    path = folder("tiny_longformer_classifier")
    longformer_cpp.finetune(path, data, tmp_path / "whole", threads=1, **FINETUNE)

    class Enough(Exception):
        pass

    def stop(step):
        if step["step"] == 3:
            raise Enough

    options = {**FINETUNE, "threads": 1, "logging_steps": 1}
    with pytest.raises(Enough):
        longformer_cpp.finetune(path, data, tmp_path / "parts", callback=stop, **options)
    assert [one.name for one in (tmp_path / "parts").glob("checkpoint-*")] == ["checkpoint-3"]
    assert not (tmp_path / "parts" / "model.safetensors").exists()
    result = longformer_cpp.finetune(path, data, tmp_path / "parts", resume_from_checkpoint=True, **options)
    assert result.steps == 6
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_a_signal_of_ones_own(folder, data, tmp_path):
    """Ctrl-C while a callback runs counts too."""

    def stop(step):
        if step["step"] == 2:
            signal.raise_signal(signal.SIGINT)

    # Signals are looked for twice a second, and this model takes a thousand steps meanwhile.
    options = {**FINETUNE, "max_steps": 10**7, "save_steps": 10**7, "logging_steps": 1, "callback": stop}
    with pytest.raises(KeyboardInterrupt):
        longformer_cpp.finetune(folder("tiny_longformer_classifier"), data, tmp_path / "out", **options)
    assert len(list((tmp_path / "out").glob("checkpoint-*"))) == 1


def test_adapter(folder, data, tmp_path):
    path = folder("tiny_longformer_classifier")
    longformer_cpp.finetune(path, data, tmp_path / "lora", lora_rank=2, **FINETUNE)
    assert (tmp_path / "lora" / "adapter_config.json").exists()
    plain, adapted = longformer_cpp.load(path), longformer_cpp.load(path, adapter=tmp_path / "lora")
    assert not np.array_equal(plain.encode("he was"), adapted.encode("he was"))
    assert adapted.classify("he was") and adapted.tokenizer.encode("he was").ids


def test_pretrain_mlm(folder, program, text, tmp_path):
    options = {"max_steps": 3, "gradient_accumulation_steps": 1, "max_seq_length": 16, "warmup_steps": 0}
    result = longformer_cpp.pretrain_mlm(folder("tiny_roberta"), text, tmp_path / "here", threads=1, **options)
    assert result.steps == 3 and np.isfinite(result.loss)
    arguments = ["--output-dir", tmp_path / "there", "--threads", 1, *flags(options)]
    program("pretrain-mlm", folder("tiny_roberta"), text, *arguments)
    assert weights(tmp_path / "here") == weights(tmp_path / "there")


def test_pretrain_lm(folder, program, text, tmp_path):
    path = folder("character_lm") / "tied"
    options = {"max_steps": 3, "length": 32}
    result = longformer_cpp.pretrain_lm([text], tmp_path / "here", model=path, threads=1, **options)
    assert result.steps == 3
    program("pretrain-lm", path, text, "--output-dir", tmp_path / "there", "--threads", 1, *flags(options))
    assert weights(tmp_path / "here") == weights(tmp_path / "there")
    assert longformer_cpp.LanguageModel(tmp_path / "here").generate(characters=3)
    with pytest.raises(TypeError, match="expected one of model and config, found neither"):
        longformer_cpp.pretrain_lm(text, tmp_path / "other")


def test_wrong_options(folder, data, tmp_path):
    path = folder("tiny_longformer_classifier")
    for options, kind, words in (
        ({"learning_rat": 1}, TypeError, "finetune: expected the keyword learning_rate, found 'learning_rat'"),
        ({"learning_rate": "x"}, TypeError, r"finetune: learning_rate: expected a number, found 'x' \(str\)"),
        ({"max_steps": 1.5}, TypeError, r"finetune: max_steps: expected an integer, found 1.5 \(float\)"),
        ({"callback": 3}, TypeError, "callback: expected a function"),
        ({"optim": "sgd"}, longformer_cpp.Error, "optim: expected"),
        ({"task": "nonsense"}, longformer_cpp.Error, "nonsense"),
    ):
        with pytest.raises(kind, match=words) as error:
            longformer_cpp.finetune(path, data, tmp_path / "out", **options)
        assert "\n" not in str(error.value)


def test_how_labels_were_understood_is_told(folder, tmp_path):
    """One kind of labels for a file, and a problem type that is asked for, as the program has it."""
    table, notes = tmp_path / "d.csv", []
    table.write_text("text,label\nhe was,1.0\nshe was,0.0\nin the,1.0\n")
    options = {**FINETUNE, "max_steps": 1, "note": notes.append}
    path = folder("tiny_longformer_classifier")
    longformer_cpp.finetune(folder("tiny_bert"), table, tmp_path / "classes", **options)
    assert any("problem type: single_label_classification" in note for note in notes)
    assert longformer_cpp.load(tmp_path / "classes").labels == ["0", "1"]
    longformer_cpp.finetune(folder("tiny_bert"), table, tmp_path / "numbers", problem_type="regression", **options)
    assert longformer_cpp.load(tmp_path / "numbers").problem_type == "regression"
    found = longformer_cpp.load(path).evaluate(table)
    assert found.notes == ['labels are the numbers of the classes: "1.0" is "fair"']
    table.write_text("text,label\nhe was,1\nshe was,good\n")
    with pytest.raises(longformer_cpp.Error, match="all names of classes"):
        longformer_cpp.load(path).evaluate(table)
