"""Sparse vectors, vectors of tokens and static embeddings in the program: embed, search, evaluate and info."""

import json

import pytest
from cli_test import FIXTURES, run

DOCUMENTS = {"a.txt": "She had ONE, and they were all there.", "b.txt": "it was in the hand"}
SMALL = ("--passage-tokens", "32")


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text)
    return folder


def test_embed_writes_pairs_of_tokens_and_weights():
    text = run("embed", FIXTURES / "vectors_splade", "--text", "in the hand", "--sparse", "--top-k", "3").passes().out
    row = run("embed", FIXTURES / "vectors_splade", "--text", "in the hand", "--sparse", "--top-k", "3", "--json").passes().json[0]
    assert [f"{one['token']}:{one['value']:.5f}" for one in row["sparse"]] == [
        f"{pair.rsplit(':', 1)[0]}:{float(pair.rsplit(':', 1)[1]):.5f}" for pair in text.split()]
    assert len(row["sparse"]) == 3 and row["tokens"] > 4


def test_embed_multi_has_a_row_for_each_token(tmp_path):
    row = run("embed", FIXTURES / "vectors_colbert", "--text", "in the hand", "--multi", "--json").passes().json[0]
    assert row["rows"] == len(row["embeddings"]) == len(row["spans"]) and len(row["embeddings"][0]) == 8
    run("embed", FIXTURES / "vectors_colbert", "--text", "in the hand", "--multi", "--output", tmp_path / "a.npy").passes()


@pytest.mark.parametrize(("folder", "flags", "words"), [
    ("vectors_splade", [], ["sparse vectors"]),
    ("vectors_colbert", [], ["multi vectors"]),
    ("sentence_dense", ["--multi"], ["ColBERT"]),
    ("sentence_dense", ["--sparse"], ["masked-LM"]),
    ("vectors_colbert", ["--multi", "--as-query"], ["at most 14 tokens"]),
])
def test_what_a_folder_does_not_make(folder, flags, words):
    text = "it was in the hand and they were all there in the hand"
    result = run("embed", FIXTURES / folder, "--text", text, *flags)
    assert result.code == 1 and all(word in result.err for word in words), result.err


@pytest.mark.parametrize("flags", [
    ["--as-query"], ["--top-k", "3"], ["--sparse", "--pooling", "max"], ["--multi", "--normalize"],
    ["--sparse", "--multi"], ["--sparse", "--format", "npy", "--output", "a.npy"],
])
def test_flags_that_do_not_go_together(flags):
    assert run("embed", FIXTURES / "vectors_bge", "--text", "it", *flags).code == 2


def test_an_index_of_all_kinds(documents, tmp_path):
    index = tmp_path / "all.index"
    model = FIXTURES / "vectors_bge"
    made = run("search", model, documents, "--index", index, *SMALL, "--vectors", "dense,sparse,multi", "--query", "in the hand",
               "--json").passes()
    hit = made.json[0]["hits"][0]
    assert hit["file"].endswith("b.txt") and {"similarity", "sparse", "multi", "words"} <= set(hit)
    assert "20 bytes in the index" in made.err and "for a question of 32 tokens" in made.err
    for mode in ("sparse", "multi", "dense"):
        hit = run("search", model, "--index", index, "--mode", mode, "--query", "in the hand", "--json").passes().json[0]["hits"][0]
        assert hit["score"] == hit["similarity" if mode == "dense" else mode] and "words" not in hit
    assert run("search", "--index", index, "--stats", "--json").passes().json[0]["vectors"] == "dense,sparse,multi"
    failed = run("search", model, documents, "--index", index, "--vectors", "sparse", "--query", "it")
    assert failed.code == 1 and "--vectors" in failed.err


def test_a_mode_makes_its_vectors(documents):
    for folder, mode in (("vectors_bge", "sparse"), ("vectors_router", "sparse"), ("vectors_pylate", "multi")):
        hits = run("search", FIXTURES / folder, documents, *SMALL, "--mode", mode, "--query", "in the hand", "--json").passes().json[0]["hits"]
        assert hits and mode in hits[0]
    failed = run("search", FIXTURES / "vectors_splade", documents, *SMALL, "--mode", "dense", "--query", "it")
    assert "expected an index with dense vectors" in failed.err


def test_retrieval_by_other_vectors(tmp_path):
    (tmp_path / "qrels").mkdir()
    rows = [{"_id": name, "title": "", "text": text} for name, text in DOCUMENTS.items()]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "in the hand"}) + "\n")
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb.txt\t1\n")
    for folder, mode in (("vectors_bge", "sparse"), ("vectors_splade", "hybrid"), ("vectors_colbert", "multi")):
        found = run("evaluate", FIXTURES / folder, tmp_path, "--task", "retrieval", "--mode", mode, "--json").passes().json[0]
        assert found["examples"] == 1 and 0 < found["metrics"]["mrr_at_10"] <= 1


def test_a_table_is_neither_trained_nor_converted(tmp_path):
    for folder in ("vectors_static", "vectors_model2vec"):
        assert run("info", FIXTURES / folder, "--json").passes().json[0]["layers"] == 0
        failed = run("convert", FIXTURES / folder, tmp_path / "out")
        assert failed.code == 1 and "neither trained nor converted" in failed.err
