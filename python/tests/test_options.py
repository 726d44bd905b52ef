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

#: Calls that name their options: the function, the list, and options by another name in Python (None: not there).
NAMED = [
    (lc.Classifier.__call__, "classify", {}),
    (lc.Classifier.explain, "explain", {}),
    (lc.Tagger.__call__, "ner", {}),
    (lc.QuestionAnswerer.__call__, "qa", {}),
    (lc.Chooser.__call__, "choose", {}),
    (lc.CoreferenceResolver.__call__, "coref", {}),
    (lc.CoreferenceResolver.resolve, "coref", {}),
    (lc.Reranker.__call__, "rerank", {}),
    (lc.MaskFiller.__call__, "fill_mask", {}),
    (lc.MultiHopAnswerer.__call__, "answer_paragraphs", {"truncate": "too_long", "stride": "too_long"}),
    (lc.Embedder.encode, "encode", {"normalize": "normalize_embeddings"}),
    (lc.Embedder.encode_passages, "encode_passages", {}),
    (lc.SearchIndex.query, "query", {"query_prompt": "prompt", "no_phrases": "phrases"}),
    (lc.SearchIndex.rank, "query", {"query_prompt": "prompt", "no_phrases": "phrases"}),
]


@pytest.mark.parametrize("function, call, renamed", NAMED, ids=lambda value: getattr(value, "__qualname__", None))
def test_named_options_are_those_of_the_library(function, call, renamed):
    parameters = inspect.signature(function).parameters
    for name, _, default, help in _native.options_of(call):
        assert renamed.get(name, name) in parameters, name
        if name in renamed:
            continue
        ours = parameters[name].default
        # A list that is empty, and one that is a tuple here.
        same = ours == default or (not ours and not default) or (isinstance(default, list) and list(ours) == default)
        assert same, (name, ours, default)
        assert help.split()[0] in function.__doc__


def test_texts_have_all_options_of_generation():
    for function in (lc.Model.summarize, lc.Model.write):
        parameters = inspect.signature(function).parameters
        for name, *_ in _native.options_of("write"):
            assert name in parameters
    assert {"num_beams", "top_h", "extend", "together"} <= set(inspect.signature(lc.Model.summarize).parameters)


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
