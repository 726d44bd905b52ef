"""Vectors of texts with the keywords of sentence-transformers, equal to `longformer embed`; and search."""

import json
import pickle
import shutil

import longformer_cpp
import numpy as np
import pytest

TEXTS = ["he was in the house.", "she was with him", "the house"]
LONG = "He was in the house. She was with him at the house. " * 12


@pytest.fixture(scope="module")
def embedder(folder):
    return longformer_cpp.Embedder(folder("sentence_instructed"))


def rows(program, folder, texts, *flags):
    return program("embed", folder, "--lines", "--json", *flags, stdin="".join(text + "\n" for text in texts))


@pytest.mark.parametrize("name", ["sentence_dense", "sentence_instructed", "tiny_bert"])
@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"normalize_embeddings": True}, ["--normalize"]),
        ({"prompt": "the "}, ["--prompt", "the "]),
        ({"pooling": "max"}, ["--pooling", "max"]),
        ({"batch_size": 1}, []),
    ],
)
def test_encode_is_embed(folder, program, name, options, flags):
    vectors = longformer_cpp.load(folder(name)).encode(TEXTS, **options)
    expected = np.array([row["embedding"] for row in rows(program, folder(name), TEXTS, *flags)], np.float32)
    assert vectors.dtype == np.float32 and vectors.shape == expected.shape
    assert np.abs(vectors - expected).max() <= 1e-6


def test_prompts(embedder, folder, program):
    path = folder("sentence_instructed")
    expected = rows(program, path, TEXTS, "--prompt-name", "query")
    for vectors in (embedder.encode(TEXTS, prompt_name="query"), embedder.encode_query(TEXTS)):
        assert np.abs(vectors - np.array([row["embedding"] for row in expected])).max() <= 1e-6
    assert embedder.prompt("query") == "which is " and embedder.prompt("document") == ""
    assert np.array_equal(embedder.encode_document(TEXTS), embedder.encode(TEXTS))
    with pytest.raises(longformer_cpp.Error, match="expected one of .*query.*, found"):
        embedder.encode(TEXTS, prompt_name="nonsense")


def test_forms_of_the_result(embedder, capfd):
    vectors = embedder.encode(TEXTS)
    assert np.array_equal(embedder.encode(TEXTS[0]), vectors[0]) and vectors[0].shape == (embedder.embedding_size,)
    assert isinstance(embedder.encode(TEXTS, convert_to_numpy=False), list)
    assert embedder.encode([]).shape == (0, embedder.embedding_size)
    tokens = embedder.encode(TEXTS, output_value="token_embeddings")
    assert [len(one) for one in tokens] == [one["tokens"] for one in embedder.encode(TEXTS, output_value=None)]
    cut = embedder.encode(TEXTS, truncate_dim=4, normalize_embeddings=True)
    assert cut.shape == (3, 4) and np.linalg.norm(cut, axis=1) == pytest.approx([1, 1, 1])
    embedder.encode(TEXTS, batch_size=2, show_progress_bar=True)
    assert capfd.readouterr().err.endswith("vectors of 3 of 3 texts\n")


@pytest.mark.parametrize("kind", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarity_of_the_folder(folder, tmp_path, kind):
    path = shutil.copytree(folder("sentence_instructed"), tmp_path / "folder")
    file = path / "config_sentence_transformers.json"
    known = json.loads(file.read_text())
    file.write_text(json.dumps(known | {"similarity_fn_name": kind, "truncate_dim": 5}))
    embedder = longformer_cpp.Embedder(path)
    assert embedder.similarity_fn_name == kind and embedder.embedding_size == 5
    whole = longformer_cpp.Embedder(folder("sentence_instructed")).encode(TEXTS)
    a, b = embedder.encode(TEXTS), embedder.encode(TEXTS[:2])
    assert np.array_equal(a, whole[:, :5]) and embedder.encode(TEXTS, truncate_dim=3).shape == (3, 3)
    found = embedder.similarity(a, b)
    assert found.shape == (3, 2) and found.dtype == np.float32
    lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    expected = {
        "cosine": a @ b.T / lengths,
        "dot": a @ b.T,
        "euclidean": -np.sqrt(((a[:, None] - b) ** 2).sum(2)),
        "manhattan": -np.abs(a[:, None] - b).sum(2),
    }
    assert np.abs(found - expected[kind]).max() < 1e-5
    assert embedder.similarity(a[0], b[0])[0, 0] == pytest.approx(found[0, 0], abs=1e-6)
    index = longformer_cpp.SearchIndex(embedder, passage_tokens=18)
    for i, text in enumerate(TEXTS):
        index.add(str(i), text)
    asked, held = embedder.encode_query(TEXTS[1]), embedder.encode_document(TEXTS)
    best = embedder.similarity(asked, held)[0]
    for hit in index.query(TEXTS[1], top_k=3, mode="dense"):
        assert hit.score == pytest.approx(best[int(hit.file)], rel=1e-4, abs=1e-4)


def test_long_texts(folder, program):
    path = folder("tiny_bert")
    model = longformer_cpp.load(path)
    with pytest.raises(longformer_cpp.Error, match="expected at most") as raised:
        model.encode(["he was", LONG])
    assert raised.value.document == 1 and raised.value.option is None
    assert raised.value.remedies == ("truncate", "split")
    with pytest.raises(longformer_cpp.Error) as raised:
        model.encode(["he was", "she was", LONG], batch_size=2)
    assert raised.value.document == 2
    with pytest.raises(longformer_cpp.Error) as raised:
        model.encode(LONG, max_length=10**6)
    assert (raised.value.option, raised.value.document) == ("max_length", None)
    for name in ("truncate", "split"):
        (row,) = rows(program, path, [LONG], "--" + name)
        assert np.abs(model.encode(LONG, **{name: True}) - np.array(row["embedding"])).max() <= 1e-6
    with pytest.raises(longformer_cpp.Error, match="found both"):
        model.encode(LONG, truncate=True, split=True)


@pytest.mark.parametrize("context", ["none", "document"])
def test_passages(folder, program, context):
    path = folder("tiny_bert")
    options = {"passage_tokens": 8, "context": context}
    if context == "document":
        options["overlap_tokens"] = 8
    found = longformer_cpp.Embedder(path).encode_passages(LONG, **options)
    assert len(found) == len(found.embeddings) > 3
    assert found.texts == [LONG[begin:end] for begin, end in found.spans]
    if context == "none":
        (row,) = program("embed", path, "--pooling", "passages", "--passage-tokens", 8, "--json", stdin=LONG)
        assert [list(span) for span in found.spans] == row["spans"]
        assert np.abs(found.embeddings - np.array(row["embeddings"])).max() <= 1e-6
    else:
        again = longformer_cpp.Embedder(path).encode_spans(LONG[:80], [(0, 20), (21, 51)])
        assert again.texts == [LONG[:20], LONG[21:51]] and np.isfinite(again.embeddings).all()


def test_wrong_arguments(embedder):
    for options, words in (
        ({"batchsize": 3}, "unexpected keyword argument 'batchsize'"),
        ({"batch_size": "3"}, r"batch_size: expected an integer of at least 1, found '3' \(str\)"),
        ({"normalize_embeddings": "yes"}, r"encode: normalize: expected True or False, found 'yes' \(str\)"),
        ({"prompt": 3}, r"encode: prompt: expected a text \(str\), found 3 \(int\)"),
    ):
        with pytest.raises(TypeError, match=words) as error:
            embedder.encode(TEXTS, **options)
        assert "\n" not in str(error.value)
    with pytest.raises(TypeError, match=r"sentences\[1\]: expected a text \(str\), found 3 \(int\)"):
        embedder.encode(["a", 3])
    with pytest.raises(longformer_cpp.Error, match="precision: expected float32"):
        embedder.encode(TEXTS, precision="int8")
    with pytest.raises(longformer_cpp.Error, match="sentences: expected a text of whole characters"):
        embedder.encode("\udcff")


def test_it_can_be_pickled(embedder):
    again = pickle.loads(pickle.dumps(embedder))
    assert np.array_equal(again.encode(TEXTS), embedder.encode(TEXTS))
    assert "vectors of" in repr(embedder)


class TestSearch:
    DOCUMENTS = {"one.txt": LONG, "notes/two.txt": "The house was at the house of him.", "notes/three.txt": "xyz"}

    @pytest.fixture
    def index(self, folder):
        index = longformer_cpp.SearchIndex(folder("tiny_bert"), passage_tokens=10)
        for name, text in self.DOCUMENTS.items():
            index.add(name, text)
        return index

    @pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
    def test_query_is_search(self, index, folder, program, tmp_path, mode):
        for name, text in self.DOCUMENTS.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        hits = index.query("who was in the house", mode=mode, top_k=4)
        flags = ["--passage-tokens", 10, "--top-k", 4, "--mode", mode, "--json"]
        files = [tmp_path / name for name in self.DOCUMENTS]
        (row,) = program("search", folder("tiny_bert"), *files, "--query", "who was in the house", *flags)
        assert len(hits) == len(row["hits"]) > 0
        for hit, expected in zip(hits, row["hits"]):
            assert expected["file"].endswith(hit.file)
            assert (hit.begin, hit.end, hit.text) == (expected["begin"], expected["end"], expected["text"])
            assert hit.score == pytest.approx(expected["score"], abs=1e-5)
            assert (hit.similarity is None) == ("similarity" not in expected)
            assert [list(span) for span in hit.matched] == expected["matched"]
            assert hit.text == self.DOCUMENTS[hit.file][hit.begin : hit.end]

    def test_documents(self, index):
        assert len(index) == 3 and index.contains("one.txt", LONG) and not index.contains("one.txt", "other")
        assert [one.file for one in index.list()] == sorted(self.DOCUMENTS)
        assert {hit.file for hit in index.query("house", within="notes")} <= {"notes/two.txt", "notes/three.txt"}
        assert index.rank("house", mode="lexical")[0][0] in self.DOCUMENTS
        assert index.remove("notes") == 2 and len(index) == 1
        with pytest.raises(longformer_cpp.Error, match="notes"):
            index.query("house", within=["notes"])
        assert "in memory: 1 document, " in repr(index)

    def test_a_model_searches(self, index, folder):
        model = longformer_cpp.load(folder("tiny_bert"))
        question = "who was in the house"
        for options in ({}, {"mode": "lexical"}, {"within": "notes", "top_k": 1}):
            assert model.search(question, self.DOCUMENTS, passage_tokens=10, **options) == index.query(question, **options)
        found = model.search(question, list(self.DOCUMENTS.values()), passage_tokens=10)
        assert [hit.file for hit in found] == [str(list(self.DOCUMENTS).index(hit.file)) for hit in index.query(question)]
        assert model.search(question, LONG, passage_tokens=10)[0].file == "0"
        with pytest.raises(TypeError, match=r"documents\[1\]: expected a text"):
            model.search(question, ["a", 3], passage_tokens=10)
        with pytest.raises(TypeError, match="top_n"):
            model.search(question, ["a"], passage_tokens=10, top_n=3)

    def test_files(self, folder, program, tmp_path):
        file = tmp_path / "notes.index"
        index = longformer_cpp.SearchIndex(folder("tiny_bert"), file, passage_tokens=10)
        index.add("one.txt", LONG)
        del index
        (row,) = program("search", "--index", file, "--list", "--json")
        assert row["file"] == "one.txt"
        reader = longformer_cpp.SearchIndex(file=file, writes=False)
        assert reader.query("house", mode="lexical")[0].file == "one.txt"
        with pytest.raises(longformer_cpp.Error, match="expected an index that was opened with a model"):
            reader.query("house")
        assert longformer_cpp.SearchIndex(file=file).remove("one.txt") == 1
        with pytest.raises(longformer_cpp.Error, match="expected a model or a file"):
            longformer_cpp.SearchIndex()

    def test_language(self, folder, tmp_path):
        file = tmp_path / "index"
        index = longformer_cpp.SearchIndex(folder("tiny_bert"), file, passage_tokens=10, language="german")
        index.add("a", "Viele Häuser")
        assert index.query("Haus", mode="lexical")[0].matched == [(6, 12)]
        assert longformer_cpp.SearchIndex(file=file).query("Haus", mode="lexical")
        assert not longformer_cpp.SearchIndex(file=file, language="english").query("Haus", mode="lexical")
        with pytest.raises(longformer_cpp.Error, match='language of a search index: .*found "klingon"'):
            longformer_cpp.SearchIndex(file=file, language="klingon")
        model = longformer_cpp.load(folder("tiny_bert"))
        assert model.search("Haus", ["Häuser"], language="german", mode="lexical", passage_tokens=10)

    @pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
    def test_phrases_that_no_passage_has(self, folder, mode):
        index = longformer_cpp.SearchIndex(folder("tiny_bert"), passage_tokens=10)
        index.add("a", "he was in the house")
        with pytest.warns(RuntimeWarning, match='no passage has the phrase "house he"'):
            assert index.query("„house he“", mode=mode)
        with pytest.warns(RuntimeWarning, match="no passage has the phrase"):
            assert [name for name, _ in index.rank("„house he“", mode=mode)] == ["a"]

    def test_types(self, index):
        with pytest.raises(TypeError, match="query: top_k: expected an integer, found '3'"):
            index.query("house", top_k="3")
        with pytest.raises(longformer_cpp.Error, match="lexical"):
            index.query("house", mode="nonsense")

    def test_text_of_files(self, tmp_path):
        (tmp_path / "a.md").write_text("# Title\n\nSome *text*.")
        assert longformer_cpp.read_document(tmp_path / "a.md") == "Title\n\nSome text."
        assert longformer_cpp.read_document(tmp_path / "a.md", format="text").startswith("# Title")
