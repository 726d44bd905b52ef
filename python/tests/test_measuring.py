"""Comparing and timing models, and counting tokens: what the verbs say."""

import longformer_cpp
import numpy as np
import pytest
from test_verbs import TEXTS, lines


def test_statistics(folder, program):
    path = folder("tiny_roberta")
    found = longformer_cpp.Tokenizer(path).statistics(TEXTS)
    (row,) = program("tokenize", path, "--lines", "--stats", "--json", stdin=lines(TEXTS))
    assert vars(found) == pytest.approx(row, rel=1e-5)
    lengths = [len(longformer_cpp.Tokenizer(path).encode(text, add_special_tokens=False)) for text in TEXTS]
    plain = longformer_cpp.Tokenizer(path).statistics(TEXTS, add_special_tokens=False)
    assert plain.median == np.median(lengths) and plain.p95 == pytest.approx(np.percentile(lengths, 95))
    with pytest.raises(longformer_cpp.Error, match="no document"):
        longformer_cpp.Tokenizer(path).statistics([])
    with pytest.raises(TypeError, match="texts: expected a list of texts"):
        longformer_cpp.Tokenizer(path).statistics("the")


def test_compare_models(folder, program, tmp_path):
    first, second = folder("tiny_roberta"), tmp_path / "long"
    longformer_cpp.convert(first, second, max_positions=32, window=2)
    found = longformer_cpp.compare_models(first, longformer_cpp.load(second), TEXTS)
    (row,) = program("compare", first, second, "--lines", "--json", stdin=lines(TEXTS))
    assert (found.texts, found.tokens) == (row["texts"], row["tokens"])
    for layer, expected in zip(found.layers, row["layers"], strict=True):
        for name, value in vars(layer).items():
            assert value == pytest.approx(expected[name], rel=1e-4, abs=1e-6)
    assert found.layers[0].relative_error == 0 and found.layers[-1].relative_error > 1e-3
    with pytest.raises(longformer_cpp.Error, match="expected texts, found none"):
        longformer_cpp.compare_models(first, second, [])


@pytest.mark.parametrize(
    ("call", "options", "key"),
    [
        ("bench_attention", {"n": 128, "heads": 2, "head_size": 16, "window": 16, "pass_": "backward"}, "gflops"),
        ("bench_model", {"model": "tiny_longformer", "n": 16, "dtype": "bf16"}, "tokens_per_second"),
        ("bench_train", {"model": "tiny_longformer", "n": 16}, "predicted_peak_bytes"),
        ("bench_generate", {"model": "tiny_led", "n": 16, "new_tokens": 4}, "step_seconds"),
        ("bench_search", {"passages": 1000, "vector_size": 8, "top_k": 3}, "bytes"),
    ],
)
def test_benchmarks(folder, call, options, key):
    given = {**options, "repeats": 1}
    if "model" in given:
        given["model"] = folder(given["model"])
    found = getattr(longformer_cpp, call)(**given)
    assert found[key] > 0


@pytest.mark.parametrize(
    ("call", "options", "kind", "message"),
    [
        ("bench_attention", {"n": "x"}, TypeError, "n: expected an integer"),
        ("bench_attention", {"pass_": "sideways"}, longformer_cpp.Error, "sideways"),
        ("bench_attention", {"n": 0}, longformer_cpp.Error, "n: expected at least 1"),
        ("bench_attention", {"repeats": 0}, longformer_cpp.Error, "repeats: expected at least 1"),
        ("bench_attention", {"heads": -1}, longformer_cpp.Error, "heads: expected at least 1"),
        ("bench_attention", {"head_size": 0}, longformer_cpp.Error, "head_size: expected at least 1"),
        ("bench_attention", {"dilation": 0}, longformer_cpp.Error, "dilation"),
        ("bench_attention", {"n": 8, "global_tokens": 9}, longformer_cpp.Error, "global"),
        ("bench_model", {}, longformer_cpp.Error, "expected one of them, found neither"),
        ("bench_train", {"model": "a", "config": "b"}, longformer_cpp.Error, "expected one of them, found both"),
        ("bench_model", {"width": 3}, TypeError, "width"),
        ("bench_search", {"passages": 0}, longformer_cpp.Error, "passages: expected at least 1"),
        ("bench_search", {"repeats": -1}, longformer_cpp.Error, "repeats: expected at least 1"),
    ],
)
def test_wrong_options(call, options, kind, message):
    with pytest.raises(kind, match=message):
        getattr(longformer_cpp, call)(**options)


@pytest.mark.parametrize(
    ("call", "options"),
    [
        ("bench_model", {"n": 0}),
        ("bench_model", {"n": 16, "repeats": 0}),
        ("bench_model", {"n": 16, "global_tokens": 17}),
        ("bench_train", {"n": 0}),
        ("bench_train", {"n": 16, "repeats": -1}),
        ("bench_train", {"n": 16, "lora_rank": -1}),
    ],
)
def test_wrong_options_of_models(folder, call, options):
    (name,) = list(options)[-1:]
    with pytest.raises(longformer_cpp.Error, match=name):
        getattr(longformer_cpp, call)(folder("tiny_longformer"), **options)


def test_machine_name():
    assert "1 thread" in longformer_cpp.machine_name(1)
