"""`convert` of models with rotary positions: what it writes, and what it refuses. tests/parity/modern_changes_parity.py
compares results with `transformers`."""

import json
import shutil

import pytest
from cli_test import BERT, FIXTURES, run

MODERN = FIXTURES / "tiny_modernbert"
TEXT = ["--text", "a b c d e f g h a b c"]


def settings(folder):
    return json.loads((folder / "config.json").read_text())


def with_settings(source, target, **keys):
    shutil.copytree(source, target)
    (target / "config.json").write_text(json.dumps(settings(source) | keys))
    return target


def test_yarn_and_base_of_layers_that_see_everything(tmp_path):
    run("convert", MODERN, tmp_path / "yarn", "--max-positions", "32768").passes()
    kinds = settings(tmp_path / "yarn")["rope_parameters"]
    before = settings(MODERN)["rope_parameters"]
    assert kinds["sliding_attention"] == before["sliding_attention"]
    full = kinds["full_attention"]
    assert (full["rope_type"], full["factor"], full["original_max_position_embeddings"]) == ("yarn", 4, 8192)
    run("convert", MODERN, tmp_path / "base", "--max-positions", "32768", "--rotary", "base").passes()
    size = settings(MODERN)["hidden_size"] // settings(MODERN)["num_attention_heads"]
    wanted = before["full_attention"]["rope_theta"] * 4 ** (size / (size - 2))
    assert settings(tmp_path / "base")["rope_parameters"]["full_attention"]["rope_theta"] == pytest.approx(wanted)
    for way in ("yarn", "base"):
        assert settings(tmp_path / way)["max_position_embeddings"] == 32768
        assert json.loads((tmp_path / way / "tokenizer_config.json").read_text())["model_max_length"] == 32768
    # Weights are copied byte for byte.
    weights = [(folder / "model.safetensors").stat().st_size for folder in (MODERN, tmp_path / "yarn")]
    assert abs(weights[0] - weights[1]) < 1000


def test_a_shorter_length_and_a_copy_give_the_same_numbers(tmp_path):
    expected = run("embed", MODERN, *TEXT).works().out
    run("convert", MODERN, tmp_path / "shorter", "--max-positions", "64").passes()
    assert run("embed", tmp_path / "shorter", *TEXT).works().out == expected
    run("convert", MODERN, tmp_path / "copy", "--format", "bin").passes()
    assert settings(tmp_path / "copy") == settings(MODERN)
    assert run("embed", tmp_path / "copy", *TEXT).works().out == expected
    run("convert", MODERN, tmp_path / "half", "--dtype", "bf16").passes()
    assert "bf16" in run("info", tmp_path / "half").works().out


def test_twice_lengthened_keeps_the_length_of_the_training(tmp_path):
    run("convert", MODERN, tmp_path / "once", "--max-positions", "16384").passes()
    run("convert", tmp_path / "once", tmp_path / "twice", "--max-positions", "65536").passes()
    full = settings(tmp_path / "twice")["rope_parameters"]["full_attention"]
    assert (full["factor"], full["original_max_position_embeddings"]) == (8, 8192)
    assert "attention_factor" not in full


@pytest.mark.parametrize("name", ["tiny_jina_v2", "tiny_deberta_v2"])
def test_distances_alone_have_no_end(tmp_path, name):
    expected = run("embed", FIXTURES / name, *TEXT).works().out
    run("convert", FIXTURES / name, tmp_path / "longer", "--max-positions", "2048").passes()
    assert settings(tmp_path / "longer")["max_position_embeddings"] == 2048
    assert run("embed", tmp_path / "longer", *TEXT).works().out == expected
    assert run("embed", tmp_path / "longer", "--text", "a b c d " * 300).works().out
    result = run("convert", FIXTURES / name, tmp_path / "out", "--max-positions", "2048", "--rotary", "yarn")
    assert result.code == 2 and "--rotary: expected a model with rotary positions" in result.err


@pytest.mark.parametrize(
    ("source", "flags", "message"),
    [
        (FIXTURES / "tiny_mpnet", [], "terms of distances"),
        (MODERN, ["--max-positions", "16384", "--window", "64"], "table of positions"),
        (MODERN, ["--to", "performer"], "table of positions"),
        (BERT, ["--rotary", "base"], "expected a model with rotary positions, found bert"),
        (MODERN, ["--rotary", "cubic"], "--rotary"),
    ],
)
def test_refusals(tmp_path, source, flags, message):
    result = run("convert", source, tmp_path / "out", *flags)
    assert result.code != 0 and message in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_positions_that_are_stretched_otherwise(tmp_path, kind):
    rotation = {"rope_type": kind, "rope_theta": 1000.0, "factor": 2.0}
    source = with_settings(FIXTURES / "tiny_nomic_bert", tmp_path / "source", rope_parameters=rotation)
    length = settings(source)["max_position_embeddings"]
    refused = run("convert", source, tmp_path / "out", "--max-positions", str(2 * length), "--rotary", "base")
    assert refused.code == 2 and f"rope_type is {kind}" in refused.err
    result = run("convert", source, tmp_path / "out", "--max-positions", str(2 * length))
    if kind == "linear":
        assert result.code == 2 and "rope_type is linear" in result.err
    else:
        assert result.code == 0
        assert settings(tmp_path / "out")["rope_parameters"]["rope_type"] == "yarn"
