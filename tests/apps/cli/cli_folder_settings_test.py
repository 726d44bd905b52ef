"""Settings of a folder that change results: similarity, truncate_dim, tokens without a row, folders of old versions,
heads that config.json does not name, generation options without effect.

The values expected are those of numpy over vectors that are printed, or of the same folder in its usual form.
"""

import contextlib
import json
import shutil
import sqlite3

import numpy as np
import pytest

from cli_test import FIXTURES, run

DENSE = FIXTURES / "sentence_dense"
WORDS = "it was in the hand she had one of them there they were all you and his by an".split()
SIMILARITIES = ["cosine", "dot", "euclidean", "manhattan"]


def change(folder, file="config_sentence_transformers.json", **keys):
    path = folder / file
    known = json.loads(path.read_text()) | keys
    path.write_text(json.dumps({key: value for key, value in known.items() if value is not None}))
    return folder


def without_normalize(folder):
    """The vectors of the folder have many lengths."""
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:4]))
    return folder


def similarities(kind, a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if kind == "cosine":
        a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b))
    if kind in ("cosine", "dot"):
        return a @ b.T
    return -np.linalg.norm(a[:, None] - b[None], 2 if kind == "euclidean" else 1, axis=2)


def vectors(folder, texts, *options):
    flags = [word for text in texts for word in ("--text", text)]
    return np.array([row["embedding"] for row in run("embed", folder, *flags, "--json", *options).works().json])


@pytest.fixture
def texts():
    draw = np.random.default_rng(3)
    return [" ".join(draw.choice(WORDS, draw.integers(1, 8))) for _ in range(30)]


@pytest.fixture
def folder(tmp_path):
    return without_normalize(shutil.copytree(DENSE, tmp_path / "folder"))


class TestTruncateDim:
    def test_cut_behind_all_modules_and_not_scaled_again(self, tmp_path):
        whole = vectors(DENSE, ["she had one"])
        cut = change(shutil.copytree(DENSE, tmp_path / "cut"), truncate_dim=4)
        np.testing.assert_array_equal(vectors(cut, ["she had one"]), whole[:, :4])
        np.testing.assert_array_equal(vectors(cut, ["she had one"], "--truncate-dim", 2), whole[:, :2])
        np.testing.assert_array_equal(vectors(cut, ["she had one"], "--truncate-dim", 50), whole)
        scaled = whole[:, :4] / np.linalg.norm(whole[:, :4])
        np.testing.assert_allclose(vectors(cut, ["she had one"], "--normalize"), scaled, atol=1e-6)
        tokens = run("embed", cut, "--text", "she had one", "--pooling", "tokens", "--json").works().json[0]
        assert len(tokens["embeddings"][0]) == 16

    def test_info_and_index(self, tmp_path):
        cut = change(shutil.copytree(DENSE, tmp_path / "cut"), truncate_dim=4)
        row = run("info", cut, "--json").works().json[0]
        assert (row["embedding_size"], row["truncate_dim"], row["unsupported"]) == (4, 4, [])
        assert "then cut to 4" in run("info", cut).works().out
        text = tmp_path / "a.txt"
        text.write_text("she had one of them")
        flags = ["--passage-tokens", 6, "--index", tmp_path / "index"]
        hit = run("search", cut, text, "--query", "they", "--mode", "dense", "--json", *flags).works().json[0]["hits"][0]
        assert -1.001 <= hit["score"] <= 1.001
        assert run("search", "--index", tmp_path / "index", "--stats", "--json").works().json[0]["vector_size"] == 4
        run("search", DENSE, "--query", "they", *flags).fails(1, "vectors of 4", "make it anew")

    @pytest.mark.parametrize("value", [0, -3, 1.5, "four"])
    def test_wrong_values(self, tmp_path, value):
        cut = change(shutil.copytree(DENSE, tmp_path / "cut"), truncate_dim=value)
        run("embed", cut, "--text", "a").fails(1, "truncate_dim")

    def test_null_is_none(self, tmp_path):
        cut = shutil.copytree(DENSE, tmp_path / "cut")
        known = json.loads((cut / "config_sentence_transformers.json").read_text())
        (cut / "config_sentence_transformers.json").write_text(json.dumps(known | {"truncate_dim": None}))
        assert vectors(cut, ["a"]).shape == (1, 6)


class TestSimilarity:
    @pytest.mark.parametrize("kind", SIMILARITIES)
    def test_search_ranks_by_it(self, folder, texts, tmp_path, kind):
        change(folder, similarity_fn_name=kind)
        documents = tmp_path / "documents"
        documents.mkdir()
        for i, text in enumerate(texts):
            (documents / f"{i:02}.txt").write_text(text)
        flags = ["--passage-tokens", 16, "--mode", "dense", "--top-k", 30, "--json", "--query", "they were all"]
        hits = run("search", folder, documents, *flags).works().json[0]["hits"]
        found = {hit["file"].rsplit("/", 1)[-1]: hit["score"] for hit in hits}
        asked = vectors(folder, ["they were all"], "--prompt-name", "query")
        expected = similarities(kind, asked, vectors(folder, texts, "--prompt-name", "document"))[0]
        np.testing.assert_allclose([found[f"{i:02}.txt"] for i in range(30)], expected, rtol=1e-4, atol=1e-4)
        assert [hit["score"] for hit in hits] == sorted(found.values(), reverse=True)
        assert hits[0]["file"].endswith(f"{np.argmax(expected):02}.txt")
        assert f"{kind} {hits[0]['score']:.3f}" in run("search", folder, documents, *flags[:-3], *flags[-2:]).works().out

    def test_they_rank_differently(self, folder, texts):
        """Otherwise the test above would say nothing."""
        asked = vectors(folder, texts[:10])
        best = {tuple(similarities(kind, asked, vectors(folder, texts)).argsort(1)[:, -2]) for kind in SIMILARITIES}
        assert len(best) >= 3

    @pytest.mark.parametrize("kind", SIMILARITIES)
    def test_retrieval_ranks_by_it(self, folder, texts, tmp_path, kind):
        change(folder, similarity_fn_name=kind)
        questions = ["they were all", "his hand", "one of them", "you and an"]
        asked = vectors(folder, questions, "--prompt-name", "query")
        best = similarities(kind, asked, vectors(folder, texts, "--prompt-name", "document")).argmax(1)
        data = tmp_path / "data"
        (data / "qrels").mkdir(parents=True)
        rows = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(texts)]
        (data / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        rows = [{"_id": f"q{i}", "text": text} for i, text in enumerate(questions)]
        (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        judged = "".join(f"q{i}\td{b}\t1\n" for i, b in enumerate(best))
        (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
        row = run("evaluate", folder, data, "--task", "retrieval", "--mode", "dense", "--json").passes().json[0]
        assert row["metrics"]["recall_at_1"] == 1

    @pytest.mark.parametrize("kind", SIMILARITIES)
    def test_pairs_with_scores_are_compared_by_it(self, folder, texts, tmp_path, kind):
        change(folder, similarity_fn_name=kind, default_prompt_name=None)
        pairs = list(zip(texts[:10], texts[10:20]))
        data, predictions = tmp_path / "pairs.jsonl", tmp_path / "predictions.jsonl"
        rows = [{"sentence1": a, "sentence2": b, "score": i / 10} for i, (a, b) in enumerate(pairs)]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        run("evaluate", folder, data, "--task", "embedding", "--json", "--predictions", predictions).passes()
        found = [json.loads(line)[kind] for line in predictions.read_text().splitlines()]
        first, second = (vectors(folder, [pair[k] for pair in pairs]) for k in (0, 1))
        np.testing.assert_allclose(found, np.diag(similarities(kind, first, second)), rtol=1e-4, atol=1e-5)

    def test_index_keeps_it(self, folder, tmp_path):
        text = tmp_path / "a.txt"
        text.write_text("she had one of them")
        flags = ["--index", tmp_path / "index", "--query", "they", "--mode", "dense", "--json", "--passage-tokens", 6]
        made = run("search", folder, text, *flags, "--similarity", "dot").works().json[0]["hits"]
        again = run("search", folder, *flags)
        assert again.code == 0 and again.json[0]["hits"] == made
        assert "compared by dot, and keeps to it; the folder says cosine" in again.err
        run("search", folder, *flags, "--similarity", "cosine").fails(1, "compared by dot", "--similarity")
        stats = run("search", "--index", tmp_path / "index", "--stats", "--json").works().json[0]
        assert stats["similarity"] == "dot"

    def test_index_of_an_older_version(self, folder, tmp_path):
        text = tmp_path / "a.txt"
        text.write_text("she had one of them")
        flags = ["--index", tmp_path / "index", "--query", "they", "--mode", "dense", "--json", "--passage-tokens", 6]
        hits = run("search", folder, text, *flags).works().json[0]["hits"]
        with contextlib.closing(sqlite3.connect(tmp_path / "index")) as database, database:
            database.execute("DELETE FROM settings WHERE name = 'similarity'")
        assert run("search", folder, *flags).works().json[0]["hits"] == hits
        change(folder, similarity_fn_name="dot")
        run("search", folder, *flags).fails(1, "similarity dot", "cosine", "make it anew")

    def test_info(self, folder):
        assert run("info", folder, "--json").works().json[0]["similarity"] == "cosine"
        change(folder, similarity_fn_name="manhattan")
        assert run("info", folder, "--json").works().json[0]["similarity"] == "manhattan"
        assert "similarity          manhattan" in run("info", folder).works().out


class TestOldFolders:
    """sentence-transformers before version 2 kept the encoder in a folder of its own."""

    @pytest.fixture
    def old(self, folder, tmp_path):
        old = tmp_path / "old"
        inner = old / "0_Transformer"
        inner.mkdir(parents=True)
        for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(folder / file, inner / file)
        shutil.copytree(folder / "1_Pooling", old / "1_Pooling")
        shutil.copytree(folder / "3_Dense", old / "3_Dense")
        (inner / "sentence_roberta_config.json").write_text('{"max_seq_length": 9, "do_lower_case": false}')
        (old / "config.json").write_text('{"__version__": "0.3.8"}')
        modules = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling"), ("3_Dense", "Dense")]
        rows = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ]
        (old / "modules.json").write_text(json.dumps(rows))
        return old

    def test_verbs(self, old, folder, tmp_path):
        expected = vectors(folder, ["she had one"], "--prompt", "")
        np.testing.assert_array_equal(vectors(old, ["she had one"]), expected)
        ids = [run("tokenize", one, "--text", "she had one", "--json").works().json[0]["ids"] for one in (old, folder)]
        assert ids[0] == ids[1]
        row = run("info", old, "--json").works().json[0]
        assert (row["model_type"], row["max_length"], row["unsupported"]) == ("bert", 9, [])
        run("embed", old, "--text", "it was in the hand she had one").fails(1, "at most 9 tokens")
        text = tmp_path / "a.txt"
        text.write_text("she had one of them")
        assert run("search", old, text, "--query", "them", "--passage-tokens", 4, "--json").works().json[0]["hits"]

    def test_trained_and_converted_folders_have_the_usual_form(self, old, tmp_path):
        modules = json.loads((old / "modules.json").read_text())
        (old / "modules.json").write_text(json.dumps(modules[:2]))  # A Dense is not trained.
        data = tmp_path / "pairs.jsonl"
        data.write_text('{"anchor": "she had", "positive": "one"}\n{"anchor": "it was", "positive": "in the"}\n')
        flags = ["--task", "embedding", "--output-dir", tmp_path / "tuned", "--max-steps", 1, "--truncate",
                 "--per-device-train-batch-size", 2]
        run("finetune", old, data, *flags).passes()
        tuned = tmp_path / "tuned"
        assert json.loads((tuned / "modules.json").read_text())[0]["path"] == ""
        assert not (tuned / "0_Transformer").exists()
        assert vectors(tuned, ["she had one"]).shape == vectors(old, ["she had one"]).shape
        assert not np.array_equal(vectors(tuned, ["she had one"]), vectors(old, ["she had one"]))
        run("convert", old, tmp_path / "long", "--max-positions", 64, "--window", 8).passes()
        np.testing.assert_allclose(
            vectors(tmp_path / "long", ["she had one"]), vectors(old, ["she had one"]), atol=1e-5)

    def test_paths_stay_inside(self, old):
        modules = json.loads((old / "modules.json").read_text())
        modules[0]["path"] = "../elsewhere"
        (old / "modules.json").write_text(json.dumps(modules))
        assert run("embed", old, "--text", "a").code == 1


class TestTokensWithoutARow:
    @pytest.fixture
    def more(self, tmp_path):
        folder = shutil.copytree(FIXTURES / "tiny_distilbert_classifier", tmp_path / "more")
        change(folder, "tokenizer_config.json", additional_special_tokens=["<drug>", "<dose>"])
        return folder

    def test_other_texts_are_read(self, more):
        alone = run("classify", more, "--text", "she had one", "--json")
        assert alone.code == 0 and "a text with one of the last tokens is an error" in alone.err
        both = run("classify", more, "--text", "a <drug> one", "--text", "she had one", "--json")
        assert both.code == 1
        assert "'<drug>'" in both.err and "rows" in both.err
        assert [row for row in both.json if "labels" in row][0]["labels"] == alone.json[0]["labels"]
        assert "tokenizer: 60 tokens for 58 rows" in run("info", more).works().out


class TestUnnamedHeads:
    MODELS = {"classify": "tiny_distilbert_classifier", "ner": "tiny_bert_tagger"}

    @pytest.mark.parametrize("verb", MODELS)
    @pytest.mark.parametrize("named", [None, [], ["BertModel"], ["BertForMaskedLM"], ["BertForPreTraining"]])
    def test_the_verb_says_which(self, tmp_path, verb, named):
        known = FIXTURES / self.MODELS[verb]
        expected = run(verb, known, "--text", "she had one", "--json")
        folder = change(shutil.copytree(known, tmp_path / "x"), "config.json", architectures=named)
        found = run(verb, folder, "--text", "she had one", "--json")
        assert (found.code, found.out) == (expected.code, expected.out)
        assert expected.code == 0

    def test_another_head_stays_refused(self, tmp_path):
        known = FIXTURES / self.MODELS["classify"]
        folder = change(shutil.copytree(known, tmp_path / "x"), "config.json",
                        architectures=["DistilBertForTokenClassification"])
        run("classify", folder, "--text", "a").fails(1, "sequence-classification")
        folder = change(shutil.copytree(FIXTURES / "tiny_bert", tmp_path / "y"), "config.json", architectures=None)
        run("classify", folder, "--text", "a").fails(1, "sequence-classification")


class TestGeneration:
    @pytest.fixture
    def led(self, tmp_path):
        folder = shutil.copytree(FIXTURES / "tiny_led", tmp_path / "led")
        for file in ("vocab.json", "merges.txt"):
            shutil.copy(FIXTURES / "tiny_roberta" / file, folder)
        return folder

    @pytest.mark.parametrize("keys", [{"temperature": 0.0}, {"temperature": -1}, {"top_k": -1}, {"min_p": 2}])
    def test_sampling_without_do_sample(self, led, keys):
        flags = ["--text", "The quick fox", "--json", "--max-new-tokens", 6]
        expected = run("generate", led, *flags).passes()
        found = run("generate", change(led, "generation_config.json", **keys), *flags).passes()
        assert [row["texts"] for row in found.json] == [row["texts"] for row in expected.json]
        assert f"{[*keys][0]}: expected" in found.err and "without effect" in found.err
        run("generate", led, *flags, "--do-sample").fails(1, [*keys][0])

    def test_temperature_zero_of_the_call(self, led):
        flags = ["--text", "The quick fox", "--json", "--max-new-tokens", 6]
        found = run("generate", led, *flags, "--temperature", 0).passes()
        assert found.json[0]["texts"] == run("generate", led, *flags).passes().json[0]["texts"]
        assert "temperature: without effect" in found.err

    def test_a_start_token_in_a_list(self, led):
        flags = ["--text", "The quick fox", "--json", "--max-new-tokens", 6]
        expected = run("generate", led, *flags).passes().json
        start = json.loads((led / "generation_config.json").read_text()).get("decoder_start_token_id", 2)
        change(led, "generation_config.json", decoder_start_token_id=[start])
        assert run("generate", led, *flags).passes().json[0]["texts"] == expected[0]["texts"]
