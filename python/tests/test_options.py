"""Options that the library describes: signatures, help, and what the calls take."""

import inspect

import pytest

import longformer_cpp as lc
from longformer_cpp import _native

CALLS = {
    "finetune": lc.finetune,
    "pretrain_mlm": lc.pretrain_mlm,
    "pretrain_lm": lc.pretrain_lm,
    "convert": lc.convert,
    "evaluate": lc.Model.evaluate,
    "evaluate_language_model": lc.LanguageModel.evaluate,
}


@pytest.mark.parametrize("call", CALLS)
def test_signature_and_help_have_every_option(call):
    parameters = inspect.signature(CALLS[call]).parameters
    assert not any(one.kind == inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    for name, _, _, help in _native.options_of(call):
        assert name in parameters
        first = help.split()[0]
        assert first in (CALLS[call].__doc__ or "") or parameters[name].kind != inspect.Parameter.KEYWORD_ONLY


def test_defaults_are_those_of_the_call():
    assert inspect.signature(lc.finetune).parameters["per_device_train_batch_size"].default == 1
    assert inspect.signature(lc.pretrain_mlm).parameters["learning_rate"].default == 3e-5
    assert inspect.signature(lc.pretrain_lm).parameters["lr_scheduler_type"].default == "constant"
    assert inspect.signature(lc.finetune).parameters["loss_weights"].default == [1, 1, 1, 1]
    assert inspect.signature(lc.finetune).parameters["answer_matching"].default == "words"
    assert inspect.signature(lc.finetune).parameters["bf16"].default is False


@pytest.mark.parametrize("call", ["finetune", "pretrain_mlm", "pretrain_lm"])
def test_every_option_of_the_list_is_taken(call, tmp_path):
    given = {name: None for name, *_ in _native.options_of(call)}
    function = CALLS[call]
    for name in given:
        if name in ("output_dir", "config"):
            continue
        with pytest.raises((lc.Error, TypeError)) as raised:
            model = {"config": str(tmp_path / "none.json")} if call == "pretrain_lm" else {}
            first = [str(tmp_path / "none")] if call == "pretrain_lm" else [str(tmp_path / "model"), str(tmp_path / "none")]
            function(*first, str(tmp_path / "out"), **model, **{name: object()})
        assert name in str(raised.value)


def test_wrong_types_are_named(tmp_path):
    with pytest.raises(TypeError, match="finetune: loss_weights: expected a list of 4 numbers, found"):
        lc.finetune(tmp_path, tmp_path, tmp_path, loss_weights=[1, 2])
    with pytest.raises(lc.Error, match="answer_matching: expected one of words, substring, found 'x'"):
        lc.finetune(tmp_path, tmp_path, tmp_path, answer_matching="x")
    with pytest.raises(TypeError, match="expected the keyword learning_rate, found 'lerning_rate'"):
        lc.finetune(tmp_path, tmp_path, tmp_path, lerning_rate=1)
