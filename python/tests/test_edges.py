"""Edges between tokens, which a model takes beside its documents; their numbers are held against PyTorch in
tests/parity/edges_parity.py."""

import json
import shutil

import numpy as np
import pytest
from conftest import FIXTURES

import longformer_cpp
from longformer_cpp import Error, loss_and_gradients

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
IDS = [np.arange(5, 25), np.arange(9, 16)]


def test_a_model_without_edges_takes_none():
    model = longformer_cpp.load(CLASSIFIER)
    usual = model(IDS).logits
    assert (model(IDS, edges=[None, np.zeros((0, 3), int)]).logits == usual).all()
    with pytest.raises(Error, match="document 0: expected no edges .*config.json"):
        model(IDS, edges=[[[0, 9, 0]], None])
    with pytest.raises(Error, match="no edges"):
        loss_and_gradients(model, IDS, labels=[0, 1], edges=[None, [[0, 5, 0]]])


def test_lists_that_are_none():
    model = longformer_cpp.load(CLASSIFIER)
    for wrong, says in (
        ([None], "each of 2 documents, found 1"),
        ([[[0, 1]], None], r"integers \[edges, 3\]"),
        ([[[0.5, 1, 2]], None], r"integers \[edges, 3\]"),
        ([[[0, 1, 2**40]], None], "numbers of tokens and kinds, found 1099511627776"),
    ):
        with pytest.raises(Error, match=says):
            model(IDS, edges=wrong)


def test_keys_of_kinds_must_be_there(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(CLASSIFIER, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"edges": ["names"]}))
    with pytest.raises(Error, match="edge_keys"):
        longformer_cpp.load(folder)
    (folder / "config.json").write_text(json.dumps(config | {"edges": ["chains"]}))
    with pytest.raises(Error, match="names and titles"):
        longformer_cpp.load(folder)
