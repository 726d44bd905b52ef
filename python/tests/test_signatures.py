"""Everything public has a real signature, and a sentence, in help()."""

import importlib
import importlib.util
import inspect

import longformer_cpp
import pytest
from longformer_cpp import _native

MODULES = ["longformer_cpp", "longformer_cpp.ranks"]
for _name, _needs in (("plot", "matplotlib"), ("sklearn", "sklearn"), ("langchain", "langchain_core")):
    if importlib.util.find_spec(_needs):
        MODULES.append(f"longformer_cpp.{_name}")


def public_calls():
    """Functions, classes, and methods of classes, of all that the modules name."""
    for module in MODULES:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            value = getattr(loaded, name)
            if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)) or getattr(value, "_is_protocol", False):
                continue
            yield pytest.param(value, id=f"{module}.{name}")
            for member, function in vars(value).items() if inspect.isclass(value) else ():
                is_call = inspect.isfunction(function) or isinstance(function, (classmethod, staticmethod))
                if is_call and (not member.startswith("_") or member == "__call__"):
                    yield pytest.param(getattr(value, member), id=f"{module}.{name}.{member}")


CALLS = list(public_calls())


def test_there_are_many():
    assert len(CALLS) > 130


@pytest.mark.parametrize("call", CALLS)
def test_signatures_are_real(call):
    signature = inspect.signature(call)
    open_ended = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    assert not [str(one) for one in signature.parameters.values() if one.kind in open_ended]
    assert inspect.getdoc(call)
    names = [one.name for one in signature.parameters.values()]
    assert len(names) == len(set(names))


def test_methods_of_models_have_the_options_of_their_classes():
    pairs = [("encode", longformer_cpp.Embedder.encode), ("classify", longformer_cpp.Classifier.__call__),
             ("ner", longformer_cpp.Tagger.__call__), ("qa", longformer_cpp.QuestionAnswerer.__call__),
             ("choose", longformer_cpp.Chooser.__call__), ("coref", longformer_cpp.CoreferenceResolver.__call__),
             ("fill_mask", longformer_cpp.MaskFiller.__call__), ("rerank", longformer_cpp.Reranker.__call__),
             ("encode_passages", longformer_cpp.Embedder.encode_passages), ("search", longformer_cpp.SearchIndex.query)]  # fmt: skip
    for name, call in pairs:
        method = getattr(longformer_cpp.Model, name)
        ours, theirs = inspect.signature(method).parameters, inspect.signature(call).parameters
        assert {one.name: one.default for one in theirs.values() if one.default is not one.empty}.items() <= {
            one.name: one.default for one in ours.values()
        }.items(), name
        assert "Options:" in method.__doc__ and "batch_tokens: " in method.__doc__ or name in ("search", "fill_mask")


def test_every_option_of_a_signature_is_taken(folder):
    """A keyword that help() shows is one that the call knows: another value is refused by its name, or taken."""
    model = longformer_cpp.load(folder("tiny_longformer_classifier"))
    for name in inspect.signature(longformer_cpp.Model.classify).parameters:
        if name not in ("self", "texts"):
            model.classify(["he"], **{name: inspect.signature(longformer_cpp.Model.classify).parameters[name].default})
    with pytest.raises(TypeError):
        model.classify(["he"], strides=3)
    for name in inspect.signature(longformer_cpp.score).parameters:
        if name not in ("predictions", "data"):
            default = inspect.signature(longformer_cpp.score).parameters[name].default
            with pytest.raises((longformer_cpp.Error, OSError), match="none"):
                longformer_cpp.score("none.jsonl", "none.json", **{"task": "qa", name: default if default else None})


def test_new_lists_of_options():
    generation = {name for name, *_ in _native.options_of("generate")}
    assert {"num_beams", "top_h", "eos_token_id"} <= generation and "stride" not in generation
    assert {"no_singletons", "format", "skip_invalid"} <= {name for name, *_ in _native.options_of("score")}
