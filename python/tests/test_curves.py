"""Curves of trainings in one picture."""

import json

import longformer_cpp
import numpy as np
import pytest

pytest.importorskip("matplotlib")

from longformer_cpp import Error, plot
from matplotlib.image import imread


@pytest.fixture
def runs(tmp_path):
    """Two trainings: a line for every ten steps, an evaluation for every fifty."""
    for number, name in enumerate(("whole", "adapter")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        rows = []
        for step in range(10, 201, 10):
            rows.append({"step": step, "epoch": step / 100, "loss": 2 / (1 + step / 50) + number, "tokens": step * 1000})
            if step % 50 == 0:
                rows.append({"step": step, "eval_loss": 2.2 / (1 + step / 50) + number, "eval_accuracy": step / 400 + number / 4})
        (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "runs"


def curves_of(panel):
    return {line.get_label(): line for line in panel.lines}


def test_several_runs(runs):
    figure = plot.curves([runs / "whole" / "log.jsonl", runs / "adapter"])
    [panel] = figure.axes
    found = curves_of(panel)
    assert list(found) == ["whole", "whole, evaluation", "adapter", "adapter, evaluation"]
    assert list(found["whole"].get_xdata()) == list(range(10, 201, 10)) and found["whole"].get_ydata()[4] == 1
    assert list(found["adapter, evaluation"].get_xdata()) == [50, 100, 150, 200]
    assert found["whole"].get_color() == found["whole, evaluation"].get_color() != found["adapter"].get_color()
    assert panel.get_xlabel() == "step" and panel.get_title() == "loss in nats"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(found)


def test_metrics_and_units(runs):
    figure = plot.curves({"a": runs / "whole", "b": runs / "adapter"}, metrics=("loss", "accuracy"), x="epoch", title="two runs")
    loss, accuracy = figure.axes
    assert list(curves_of(accuracy)) == ["a", "b"] and list(curves_of(accuracy)["a"].get_xdata()) == [0.5, 1, 1.5, 2]
    assert list(curves_of(accuracy)["b"].get_ydata()) == [0.375, 0.5, 0.625, 0.75]
    assert figure.get_suptitle() == "two runs" and accuracy.get_title() == "accuracy"
    assert list(curves_of(plot.curves(runs / "whole", x="tokens").axes[0])["whole"].get_xdata())[:2] == [10000, 20000]


def test_the_picture_shows_them(runs, tmp_path):
    """Both curves are where their numbers say: the second run lies above the first in its own colour."""
    plot.curves([runs / "whole", runs / "adapter"], tmp_path / "runs.png")
    pixels = imread(tmp_path / "runs.png")[..., :3]

    def rows_with(colour):
        near = (np.abs(pixels - np.array(colour) / 255) < 0.05).all(-1)
        assert near.sum() > 200
        return np.nonzero(near[: int(len(near) * 0.8)])[0]

    first, second = rows_with((31, 119, 180)), rows_with((255, 127, 14))
    assert np.median(second) < np.median(first)
    # The same log gives the same bytes.
    before = (tmp_path / "runs.png").read_bytes()
    plot.curves([runs / "whole", runs / "adapter"], tmp_path / "runs.png")
    assert (tmp_path / "runs.png").read_bytes() == before


def test_names_of_runs(runs, tmp_path):
    for place in ("x", "y"):
        (tmp_path / place / "out").mkdir(parents=True)
        (tmp_path / place / "out" / "log.jsonl").write_text((runs / "whole" / "log.jsonl").read_text())
    names = list(curves_of(plot.curves([tmp_path / "x" / "out", tmp_path / "y" / "out"]).axes[0]))
    assert names == ["x/out", "x/out, evaluation", "y/out", "y/out, evaluation"]
    twice = list(curves_of(plot.curves([runs / "whole"] * 2).axes[0]))
    assert len(set(twice)) == 4
    result = longformer_cpp.TrainingResult(str(runs / "whole"), 1, 1.0, False, None, "", "", [])
    assert list(curves_of(plot.curves(result).axes[0]))[0] == "whole"


def test_faults(runs, tmp_path):
    for wrong, message in (
        ([], "runs: expected one training or more, found none"),
        ([tmp_path / "none"], "runs: expected the log.jsonl of a training, found none at"),
        ([tmp_path], "runs: expected the log.jsonl of a training, found none at"),
    ):
        with pytest.raises(Error, match=message):
            plot.curves(wrong)
    with pytest.raises(TypeError, match="runs: expected log.jsonl files"):
        plot.curves(3)
    with pytest.raises(Error, match="metrics: expected one of accuracy, loss, found 'f1'"):
        plot.curves(runs / "whole", metrics="f1")
    with pytest.raises(Error, match="x: expected one of step, epoch, tokens, found 'time'"):
        plot.curves(runs / "whole", x="time")
    with pytest.raises(Error, match="expected a name that ends in"):
        plot.curves(runs / "whole", tmp_path / "runs.jpeg")
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(Error, match="expected the steps of a training, found none"):
        plot.curves(tmp_path)
    (tmp_path / "log.jsonl").write_text("{broken\n")
    with pytest.raises(Error, match="expected JSON"):
        plot.curves(tmp_path)


def test_a_real_training(folder, tmp_path):
    rows = [{"text": "he was", "label": "a"}, {"text": "she was", "label": "b"}] * 2
    options = {"task": "classify", "max_steps": 4, "logging_steps": 1, "save_strategy": "no", "validation_file": rows, "eval_steps": 2,
               "eval_strategy": "steps"}  # fmt: skip
    result = longformer_cpp.finetune(folder("tiny_bert"), rows, tmp_path / "out", **options)
    found = curves_of(plot.curves(result, metrics="loss").axes[0])
    assert list(found["out"].get_xdata()) == [1, 2, 3, 4] and list(found["out, evaluation"].get_xdata()) == [2, 4]
    assert plot.curves([result, tmp_path / "out" / "log.jsonl"], metrics=["accuracy"], x="epoch").axes
