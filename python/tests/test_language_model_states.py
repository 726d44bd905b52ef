"""States and attention of language models, from Python."""

import numpy as np
import pytest
from conftest import FIXTURES

import longformer_cpp
from longformer_cpp import Error

TEXT = "the quick brown fox jumps over the lazy dog"
MEMORY = FIXTURES / "memory_lm"
PATTERN = FIXTURES / "pattern_lm"
#: Kinds whose tokens may see nothing, or share what they see with rows of zeros before the text.
MAY_MISS = {"fixed_heads", "adaptive", "adaptive_ramp", "adaptive_steep", "routing", "routing_self", "routing_unit", "compressive_max"}


def folders():
    names = ["recurrent", "compressive", "performer_softmax", "performer_elu", "dense_relative", "window_sinusoidal", "compressive_max"]
    all_folders = [pytest.param(MEMORY / name, id=name) for name in names]
    names = ["adaptive", "fixed_merged", "fixed_heads", "strided_merged", "routing", "routing_self"]
    return [*all_folders, *(pytest.param(PATTERN / name, id=name) for name in names)]


def text_of(model):
    return TEXT[:16] if "positions" in model.info and model.info["positions"] in ("grid", "learned") else TEXT


@pytest.mark.parametrize("folder", folders())
def test_rows_add_up_and_see_nothing_behind_them(folder):
    model = longformer_cpp.LanguageModel(folder)
    text = text_of(model)
    out = model(text, output_attentions=True, output_hidden_states=True)
    n, layers = len(out.ids), model.info["layers"]
    assert b"".join(out.tokens) == text.encode() and len(out.attentions) == layers
    assert len(out.hidden_states) == layers + 1 and out.hidden_states[0].shape[0] == n
    np.testing.assert_array_equal(out.hidden_states[-1], out.last_hidden_state)
    for layer, attention in enumerate(out.attentions):
        assert attention.shape[1:] == (n, n) and attention.min() >= -1e-6
        assert np.abs(np.triu(attention, 1)).max() <= 1e-6 or folder.name.startswith("routing")
        sums = attention.sum(-1)
        if out.compressed_attentions is not None:
            sums = sums + out.compressed_attentions[layer].sum(-1)
        if folder.name not in MAY_MISS:
            np.testing.assert_allclose(sums, 1, atol=1e-5)
        assert sums.max() <= 1 + 1e-5


def test_chosen_layers_and_heads():
    model = longformer_cpp.LanguageModel(MEMORY / "dense_relative")
    whole = model(TEXT, output_attentions=True)
    one = model(TEXT, output_attentions=True, layers=1, heads=[2])
    assert len(one.attentions) == 1 and whole.hidden_states is None
    np.testing.assert_allclose(one.attentions[0][0], whole.attentions[1][2], atol=1e-7)


def test_windows_are_kept():
    model = longformer_cpp.LanguageModel(MEMORY / "window_sinusoidal")
    for window, dilation, attention in zip(model.info["windows"], model.info["dilations"], model(TEXT, output_attentions=True).attentions):
        distance = np.subtract.outer(np.arange(len(TEXT)), np.arange(len(TEXT)))
        for head in range(attention.shape[0]):
            step = dilation + 1 if head >= attention.shape[0] - 1 else 1
            seen = (distance >= 0) & (distance <= window * step) & (distance % step == 0)
            assert (attention[head][~seen] == 0).all() and (attention[head][seen] > 0).all()


def test_logits_are_those_of_the_evaluation(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    for name in ("recurrent", "performer_softmax"):
        model = longformer_cpp.LanguageModel(MEMORY / name)
        out = model(TEXT)
        logits = out.logits - out.logits.max(-1, keepdims=True)
        losses = np.log(np.exp(logits).sum(-1))[:-1] - logits[np.arange(len(TEXT) - 1), out.ids[1:]]
        assert losses.mean() == pytest.approx(model.evaluate(file, streaming=True).metrics["loss"], abs=1e-5)


def test_mistakes():
    model = longformer_cpp.LanguageModel(MEMORY / "recurrent")
    with pytest.raises(Error, match="at least one token"):
        model("")
    with pytest.raises(Error, match="expected"):
        model("UPPER")
    with pytest.raises(Error, match="expected layers from 0 to 1, found 2"):
        model(TEXT, output_attentions=True, layers=2)
    with pytest.raises(Error, match="spans of a tree"):
        longformer_cpp.LanguageModel(PATTERN / "tree")(TEXT[:12], output_attentions=True)
    tree = longformer_cpp.LanguageModel(PATTERN / "tree")(TEXT[:12], output_hidden_states=True)
    assert [one.shape[0] for one in tree.hidden_states] == [12] * len(tree.hidden_states)
