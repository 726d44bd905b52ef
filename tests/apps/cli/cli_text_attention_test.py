"""The verb attention over language models."""

import io
import json

import numpy as np
import pytest
from cli_attention_test import page_data
from cli_test import FIXTURES, run

MEMORY = FIXTURES / "memory_lm"
TEXT = "the quick brown fox"


@pytest.mark.parametrize("name", ["recurrent", "compressive", "performer_softmax", "dense_relative", "window_sinusoidal"])
def test_arrays(name):
    done = run("attention", MEMORY / name, "--text", TEXT, "--layer", "all", "--head", "all", "--format", "npz").passes()
    arrays = np.load(io.BytesIO(done.raw))
    assert sorted(arrays) == ["attentions.0", "attentions.1"]
    for layer in arrays.values():
        assert layer.shape == (3, len(TEXT), len(TEXT)) and np.abs(np.triu(layer, 1)).max() == 0
        assert layer.sum(-1).max() <= 1 + 1e-5 and (name == "compressive" or np.abs(layer.sum(-1) - 1).max() <= 1e-5)


def test_lines_json_and_page(tmp_path):
    lines = run("attention", MEMORY / "recurrent", "--text", TEXT, "--top-k", 1).passes().out.splitlines()
    assert len(lines) == 1 + len(TEXT) and lines[1].split("\t")[3:5] == ["0", "0"]
    rows = run("attention", MEMORY / "recurrent", "--text", TEXT, "--head", "all", "--layer", 1, "--json").passes().json
    assert [row["head"] for row in rows] == [0, 1, 2] and {row["layer"] for row in rows} == {1}
    page = tmp_path / "page.html"
    run("attention", MEMORY / "recurrent", "--text", TEXT, "-o", page).passes()
    data, maps = page_data(page.read_text())
    assert "".join(data["tokens"]) == TEXT and len(maps) == 2 * 4


def test_mistakes(tmp_path):
    run("attention", MEMORY / "recurrent", "--text", "UPPER").fails(1, "--text")
    run("attention", MEMORY / "recurrent", "--text", "").fails(1, "at least one token")
    run("attention", MEMORY / "recurrent", "--text", TEXT, "--layer", 9).fails(2, "--layer", "0 to 1")
    run("attention", MEMORY / "recurrent", "--text", TEXT, "--truncate").fails(2, "--truncate")
    run("attention", FIXTURES / "pattern_lm" / "tree", "--text", "the").fails(1, "spans of a tree")
    out = tmp_path / "out.json"
    done = run("attention", MEMORY / "recurrent", "--text", "UPPER", "--text", "low", "-o", out)
    assert done.code == 1 and ["error" in row for row in json.loads(out.read_text())] == [True, False]
