"""Sparse vectors and vectors of tokens, equal to `longformer embed --sparse` and `--multi`, and the search by them."""

import json

import longformer_cpp
import numpy as np
import pytest

TEXTS = ["it was in the hand", "She had ONE, and they were all there."]


def rows(program, folder, *flags):
    return program("embed", folder, "--lines", "--json", *flags, stdin="".join(text + "\n" for text in TEXTS))


@pytest.mark.parametrize(("name", "options", "flags"), [
    ("vectors_splade", {}, []),
    ("vectors_splade", {"top_k": 3}, ["--top-k", "3"]),
    ("vectors_router", {"as_query": True}, ["--as-query"]),
    ("vectors_bge", {}, []),
])
def test_encode_sparse_is_embed(folder, program, name, options, flags):
    found = longformer_cpp.Embedder(folder(name)).encode_sparse(TEXTS, **options)
    for mine, row in zip(found, rows(program, folder(name), "--sparse", *flags), strict=True):
        shown = {one["index"]: one["value"] for one in row["sparse"]}
        assert shown == pytest.approx(dict(zip(mine.indices.tolist(), mine.values.tolist(), strict=True)), abs=1e-6)
        values = [one["value"] for one in row["sparse"]]
        assert values == sorted(values, reverse=True) and len(mine) <= options.get("top_k", 100)


@pytest.mark.parametrize(("name", "options", "flags"), [
    ("vectors_colbert", {"as_query": True}, ["--as-query"]),
    ("vectors_pylate", {}, []),
    ("vectors_bge", {}, []),
])
def test_encode_multi_is_embed(folder, program, name, options, flags):
    embedder = longformer_cpp.Embedder(folder(name))
    assert "multi" in embedder.kinds
    found = embedder.encode_multi(TEXTS, **options)
    for mine, row in zip(found, rows(program, folder(name), "--multi", *flags), strict=True):
        assert mine.shape[0] == row["rows"] and np.abs(mine - np.array(row["embeddings"])).max() <= 1e-6
    assert embedder.max_sim(found[0], found[0]) > embedder.max_sim(found[0], found[1])


def test_kinds_that_a_folder_does_not_make(folder):
    embedder = longformer_cpp.Embedder(folder("sentence_dense"))
    assert embedder.kinds == ("dense",)
    with pytest.raises(longformer_cpp.Error, match="masked-LM"):
        embedder.encode_sparse("it")
    with pytest.raises(longformer_cpp.Error, match="ColBERT"):
        embedder.encode_multi("it")
    with pytest.raises(longformer_cpp.Error, match="sparse"):
        longformer_cpp.Embedder(folder("vectors_splade")).encode("it")


def test_static_folders(folder):
    known = json.loads((folder("vectors_model2vec") / "expected.json").read_text())
    found = longformer_cpp.Embedder(folder("vectors_model2vec")).encode(known["texts"])
    assert np.abs(found - np.array(known["calls"][0]["vectors"])).max() <= 1e-5


def test_search(folder):
    index = longformer_cpp.SearchIndex(folder("vectors_bge"), passage_tokens=32, vectors="dense,sparse,multi")
    for name, text in zip("ab", TEXTS, strict=True):
        index.add(name, text)
    for mode in ("hybrid", "sparse", "multi"):
        hit = index.query("in the hand", mode=mode, top_k=1)[0]
        assert (hit.sparse is None) == (mode == "multi") and (hit.multi is None) == (mode == "sparse")
        assert mode == "hybrid" or hit.score == (hit.sparse if mode == "sparse" else hit.multi)
    with pytest.raises(longformer_cpp.Error, match="odd"):
        longformer_cpp.SearchIndex(folder("vectors_bge"), vectors="odd")
