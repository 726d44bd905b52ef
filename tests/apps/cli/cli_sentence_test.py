"""The verbs `embed`, `search` and `info` on folders that sentence-transformers saved.

What the package gives of the same texts is in tests/fixtures (make_sentence_models.py).
"""

import json
import shutil

import numpy as np
import pytest

from cli_test import FIXTURES, run

DENSE = FIXTURES / "sentence_dense"
TEXT = "it was in the hand. she had one of them. there they were all. you and his were by an."


@pytest.fixture
def novel(tmp_path):
    file = tmp_path / "novel.txt"
    file.write_text(TEXT)
    return file


@pytest.fixture
def late(tmp_path):
    """The folder as one that is trained for passages in context."""
    folder = shutil.copytree(DENSE, tmp_path / "late")
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"passage_context": "document"}))
    return folder


class TestInfo:
    def test_text(self, late):
        out = run("info", DENSE).works().out
        for row in ["pooling             mean, Dense to 12, Dense to 10, Dense to 6, then scaled to length 1",
                    "longest to embed    20 tokens", 'clustering (default): "all were. "',
                    "passages            each a text of its own", "unsupported         nothing"]:
            assert row in out, row
        assert "passages            in the context of the document" in run("info", late).works().out

    def test_json(self, late):
        row = run("info", late, "--json").works().json[0]
        assert row["embedding_size"] == 6 and row["dense_sizes"] == [12, 10, 6]
        assert row["prompts"] == {"clustering": "all were. ", "passage": "for you: ", "query": "which is "}
        assert row["max_length"] == 20 and row["default_prompt_name"] == "clustering"
        assert row["passage_context"] == "document" and row["unsupported"] == []


class TestEmbed:
    def vector(self, *options):
        return run("embed", DENSE, "--text", "she had one", "--json", *options).works().json[0]["embedding"]

    def test_prompts(self):
        assert self.vector() == self.vector("--prompt-name", "clustering")
        assert self.vector() == self.vector("--prompt", "all were. ")
        plain = self.vector("--prompt", "")
        assert plain == self.vector("--prompt-name", "document") != self.vector()
        np.testing.assert_allclose(
            self.vector("--prompt", "all were. "),
            run("embed", DENSE, "--text", "all were. she had one", "--prompt", "", "--json").works()
            .json[0]["embedding"], atol=1e-6)

    def test_one_prompt_at_most_and_a_known_one(self):
        flags = ["embed", DENSE, "--text", "a"]
        run(*flags, "--prompt", "x", "--prompt-name", "query").fails(2, "--prompt")
        run(*flags, "--prompt-name", "poem").fails(2, "--prompt-name", "poem", "clustering, document, passage, query")

    def test_limit_of_the_folder(self, novel):
        run("embed", DENSE, novel).fails(1, "at most 20 tokens", "--truncate")
        result = run("embed", DENSE, novel, "--truncate", "--json")
        assert result.json[0]["truncated"] > 0 and "kept the first 20" in result.err
        longer = run("embed", DENSE, novel, "--truncate", "--json", "--max-length", 24)
        assert longer.json[0]["embedding"] != result.json[0]["embedding"]
        run("embed", DENSE, novel, "--max-length", 25).fails(2, "--max-length", "at most 24", "25")

    def test_arrays_have_the_size_of_the_last_dense(self, novel, tmp_path):
        file = tmp_path / "x.npy"
        flags = ["--pooling", "passages", "--passage-tokens", 6, "--prompt", "", "--output", file, "--json"]
        row = run("embed", DENSE, novel, *flags).works().json[0]
        passages = np.load(file)
        assert passages.shape == (row["rows"], 6)
        texts = [TEXT[begin:end] for begin, end in row["spans"]]
        run("embed", DENSE, "--lines", "--prompt", "", "--output", file, stdin="\n".join(texts)).works()
        np.testing.assert_allclose(passages, np.load(file), atol=1e-5)
        run("embed", DENSE, "--text", "a", "--pooling", "tokens", "--prompt", "", "--output", file).works()
        assert np.load(file).shape == (3, 16)

    def test_context(self, novel, late):
        flags = ["--pooling", "passages", "--passage-tokens", 6]
        none, document = (run("embed", DENSE, novel, *flags, "--context", context).works().out
                          for context in ("none", "document"))
        assert none != document
        assert run("embed", DENSE, novel, *flags).works().out == none
        assert run("embed", late, novel, *flags).works().out == document
        run("embed", DENSE, novel, "--context", "none").fails(2, "--pooling passages")
        run("embed", DENSE, novel, *flags, "--context", "page").fails(2, "page")


class TestSearch:
    FLAGS = ["--query", "they were all", "--passage-tokens", 6]

    def test_index_keeps_its_context(self, novel, late, tmp_path):
        flags = [*self.FLAGS, "--index", tmp_path / "index", "--json"]
        found = run("search", DENSE, novel, *flags, "--context", "document").works().json[0]["hits"]
        again = run("search", DENSE, *flags)
        assert again.code == 0 and again.json[0]["hits"] == found
        assert again.err.count("\n") == 1 and "with context document, and keeps to it" in again.err
        run("search", DENSE, *flags, "--context", "none").fails(1, "context document", "--context", "none")
        assert run("search", late, *flags).works().err == ""
        assert run("search", DENSE, *flags, "--context", "document").works().err == ""

    def test_index_keeps_its_prompt(self, novel, tmp_path):
        flags = [*self.FLAGS, "--index", tmp_path / "index", "--json"]
        found = run("search", DENSE, novel, *flags, "--passage-prompt", "for you: ").works().json[0]["hits"]
        again = run("search", DENSE, *flags)
        assert again.code == 0 and again.json[0]["hits"] == found
        assert "behind the prompt 'for you: '" in again.err
        run("search", DENSE, *flags, "--passage-prompt", "he ").fails(1, "'for you: '", "'he '")
        other = run("search", DENSE, *flags, "--query-prompt", "he ").json[0]["hits"]
        assert [hit["score"] for hit in other] != [hit["score"] for hit in found]

    def test_index_of_another_window(self, novel, tmp_path):
        flags = ["--index", tmp_path / "index", *self.FLAGS]
        for window in (4, 8):
            run("convert", DENSE, tmp_path / str(window), "--max-positions", 64, "--window", window).works()
        run("search", tmp_path / "4", novel, *flags).works()
        run("search", tmp_path / "8", *flags).fails(1, "make it anew")

    def test_index_of_another_version(self, tmp_path):
        index = tmp_path / "index"
        index.write_bytes(b"longformer-index-1\n" + bytes(100))
        run("search", DENSE, "--index", index, "--query", "a").fails(1, str(index), "make it anew")
