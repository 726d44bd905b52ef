"""Multilingual models, which read with a Unigram tokenizer: what the verbs say of texts is what the
pipelines of `transformers` say (tests/fixtures/make_unigram_models.py).
"""

import json
import shutil

import numpy as np
import pytest
from cli_test import FIXTURES, run


def folder_of(name, tmp_path):
    folder = tmp_path / name
    shutil.copytree(FIXTURES / name, folder)
    shutil.copy(FIXTURES / "tokenizers" / "xlm_roberta" / "tokenizer.json", folder)
    return folder, json.loads((FIXTURES / name / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture
def tagger(tmp_path):
    return folder_of("unigram_tagger", tmp_path)


def lines_of(texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


def vectors(folder, texts):
    rows = run("embed", folder, "-", "--field", "text", "--pooling", "mean", "--json",
               stdin=lines_of(texts)).works().json  # fmt: skip
    return np.array([row["embedding"] for row in rows])


class TestUnigram:
    def test_embed(self, tagger):
        folder, expected = tagger
        assert vectors(folder, expected["texts"]) == pytest.approx(np.array(expected["vectors"]), abs=1e-5)

    def test_ner_gives_characters(self, tagger):
        folder, expected = tagger
        rows = run("ner", folder, "-", "--field", "text", "--json", stdin=lines_of(expected["texts"])).works().json
        assert len(rows) == len(expected["texts"])
        for row, text, wanted in zip(rows, expected["texts"], expected["entities"], strict=True):
            found = [(e["label"], e["begin"], e["end"], e["text"]) for e in row["entities"]]
            assert found == [
                (e["entity_group"], e["start"], e["end"], text[e["start"] : e["end"]]) for e in wanted
            ]
            scores = [e["score"] for e in row["entities"]]
            assert scores == pytest.approx([e["score"] for e in wanted], abs=1e-5)

    def test_fill_mask(self, tmp_path):
        folder, expected = folder_of("unigram_masked", tmp_path)
        arguments = [word for text in expected["texts"] for word in ("--text", text)]
        rows = run("fill-mask", folder, *arguments, "--top-k", 3, "--json").works().json
        assert len(rows) == len(expected["texts"])
        for row, wanted in zip(rows, expected["filled"], strict=True):
            found = row["masks"][0]["candidates"]
            assert [token["id"] for token in found] == [token["token"] for token in wanted]
            scores = [token["probability"] for token in found]
            assert scores == pytest.approx([token["score"] for token in wanted], abs=1e-5)

    def test_converted_it_reads_on(self, tagger, tmp_path):
        folder, expected = tagger
        longer = tmp_path / "longer"
        run("convert", folder, longer, "--max-positions", 1024, "--window", 256)
        found = vectors(longer, expected["texts"])
        assert found == pytest.approx(np.array(expected["vectors"]), abs=1e-5)
        # 150 words are longer than what the source takes.
        row = run("embed", longer, "--text", "été " * 150, "--json").works().json[0]
        assert row["tokens"] > 300 and row["truncated"] == 0
