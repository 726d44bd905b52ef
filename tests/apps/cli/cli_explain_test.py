"""classify --explain: lines, JSON and the page, and wrong use of them."""

import json
import re

import pytest
import webdriver
from cli_test import BERT, FIXTURES, run

LONGFORMER = FIXTURES / "tiny_longformer_classifier"
DISTILBERT = FIXTURES / "tiny_distilbert_classifier"
MODERNBERT = FIXTURES / "tiny_modernbert_classifier"
TEXT = "he was <b>in</b> the häuse. \"they\" had not been there. she is with her."
METHODS = ("gradient", "integrated", "occlusion")


def explain(model, method, *arguments, **others):
    return run("classify", model, "--explain", method, *arguments, **others)


def found(model, method, *arguments, **others):
    return explain(model, method, *arguments, "--json", **others).passes().json[0]


def page_data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


class TestJson:
    @pytest.mark.parametrize("model", [LONGFORMER, DISTILBERT, MODERNBERT])
    @pytest.mark.parametrize("method", METHODS)
    def test_places_are_those_of_the_text(self, model, method):
        row = found(model, method, "--text", TEXT, "--truncate")
        said, bytes_ = row["explanation"], TEXT.encode()
        assert said["method"] == method and said["label"] == row["labels"][0]["label"]
        assert said["score"] == pytest.approx(row["labels"][0]["score"])
        for part in [*said.get("words", []), *said["sentences"]]:
            assert TEXT[part["begin"]: part["end"]] == part["text"] == part["text"].strip()
            assert bytes_[part["begin_byte"]: part["end_byte"]].decode() == part["text"]
        if method == "occlusion":
            assert "tokens" not in said and "words" not in said and said["occlusion"] == "remove"
            return
        tokens = said["tokens"]
        assert len({len(values) for values in tokens.values()}) == 1 and len(tokens["id"]) > 15
        total = sum(tokens["value"])
        for parts in (said["words"], said["sentences"]):
            assert sum(part["value"] for part in parts) == pytest.approx(total, abs=1e-5)

    def test_integrated_gradients_tell_how_complete_they_are(self):
        said = found(DISTILBERT, "integrated", "--text", "he was there", "--steps", 100)["explanation"]
        assert said["complete"] is True and said["steps"] == 100 and said["baseline"] == "pad"
        assert said["sum"] == pytest.approx(sum(said["tokens"]["value"]), abs=1e-5)
        assert said["error"] == pytest.approx(abs(said["sum"] - (said["logit"] - said["baseline_logit"])), abs=1e-6)
        few = explain(DISTILBERT, "integrated", "--text", "he was there", "--steps", 1, "--tolerance", 0)
        assert "add up to" in few.passes().err and "--steps" in few.err

    def test_every_class_can_be_explained(self):
        values = {}
        for label in ("bad", "fair", "good"):
            row = found(LONGFORMER, "gradient", "--text", "he was there", "--label", label, "--top-k", 0)
            said = row["explanation"]
            assert said["label"] == label and len(row["labels"]) == 3
            values[label] = said["tokens"]["value"]
        assert values["bad"] != values["good"] != values["fair"]

    def test_classes_are_those_without_an_explanation(self):
        plain = run("classify", LONGFORMER, "--text", "he was there", "--top-k", 0, "--json").works().json[0]
        row = found(LONGFORMER, "gradient", "--text", "he was there", "--top-k", 0)
        assert [one["label"] for one in row["labels"]] == [one["label"] for one in plain["labels"]]
        for one, other in zip(row["labels"], plain["labels"]):
            assert one["score"] == pytest.approx(other["score"], abs=1e-5)

    def test_long_documents_in_segments(self):
        text = "he was in the house. she had been there. " * 30
        explain(DISTILBERT, "integrated", "--text", text).fails(1, "--stride", "--truncate")
        row = found(DISTILBERT, "integrated", "--text", text, "--stride", 4, "--steps", 8)
        assert row["segments"] > 3 and len(row["explanation"]["tokens"]["value"]) == row["tokens"] - 2
        cut = found(DISTILBERT, "gradient", "--text", text, "--truncate")
        assert row["tokens"] - 2 > len(cut["explanation"]["tokens"]["value"]) > 5
        occluded = found(DISTILBERT, "occlusion", "--text", text, "--stride", 4, "--merge", "max", "--occlusion", "mask")
        assert len(occluded["explanation"]["sentences"]) == 60

    def test_the_same_of_every_batch(self):
        one = found(DISTILBERT, "integrated", "--text", "he was there", "--batch-tokens", 1)["explanation"]
        many = found(DISTILBERT, "integrated", "--text", "he was there")["explanation"]
        assert one["tokens"]["value"] == pytest.approx(many["tokens"]["value"], abs=1e-5)

    def test_documents_that_fail_are_objects(self, tmp_path):
        out = tmp_path / "out.json"
        texts = ["--text", "he was there", "--text", "he was there " * 50, "--text", ""]
        result = explain(DISTILBERT, "gradient", *texts, "-o", out)
        assert result.code == 1 and len(result.err.splitlines()) == 1
        rows = json.loads(out.read_text())
        assert ["explanation" in row for row in rows] == [True, False, True] and "tokens" in rows[1]["error"]
        assert rows[2]["explanation"]["words"] == []


class TestLines:
    def test_the_strongest_words_come_first(self):
        result = explain(LONGFORMER, "gradient", "--text", TEXT, "--explain-top", 5).passes()
        head, *lines = [line.split("\t") for line in result.out.splitlines()]
        assert head == ["document", "label", "score", "value", "begin", "end", "text"] and len(lines) == 5
        sizes = [abs(float(line[3])) for line in lines]
        assert sizes == sorted(sizes, reverse=True)
        assert all(TEXT[int(line[4]): int(line[5])] == line[6] for line in lines)
        every = explain(LONGFORMER, "gradient", "--text", TEXT, "--explain-top", 0).passes().out.splitlines()
        assert len(every) > 15 and len(set(every)) == len(every)

    def test_sentences_of_occlusion(self):
        lines = explain(LONGFORMER, "occlusion", "--text", TEXT).passes().out.splitlines()
        assert len(lines) == 1 + 3


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "why.html"
    explain(LONGFORMER, "integrated", "--text", TEXT, "-o", file).passes()
    return file


class TestPage:
    def test_has_everything(self, page):
        text = page.read_text()
        data = page_data(text)
        said = found(LONGFORMER, "integrated", "--text", TEXT)["explanation"]
        assert data["text"] == TEXT and data["label"] == said["label"] and len(data["classes"]) == 3
        assert list(data["levels"]) == ["words", "tokens", "sentences"]
        for name in ("words", "sentences"):
            level, parts = data["levels"][name], said[name]
            assert level["begin"] == [part["begin"] for part in parts]
            assert level["value"] == pytest.approx([part["value"] for part in parts], abs=1e-5)
        assert data["levels"]["tokens"]["value"] == pytest.approx(said["tokens"]["value"], abs=1e-5)
        for outside in ("http://", "https://", "src=", "<link", "<b>in"):
            assert outside not in text
        assert "prefers-color-scheme: dark" in text and len(text) < 80_000

    def test_one_document(self, tmp_path):
        file = tmp_path / "why.html"
        result = explain(LONGFORMER, "gradient", "--text", "he was", "--text", "she was", "-o", file)
        result.fails(1, "expected one document for a page")
        assert page_data(file.read_text())["text"] == "he was"
        file.unlink()
        explain(LONGFORMER, "gradient", tmp_path / "none.txt", "-o", file).fails(1, "none.txt")
        assert not file.exists()

    @pytest.mark.skipif(not webdriver.available(), reason="no chromium with chromedriver: tools/packages.sh browser")
    def test_in_a_browser(self, page, tmp_path):
        data = page_data(page.read_text())
        with webdriver.browser(tmp_path) as browser:
            browser.open(page)
            for name, level in data["levels"].items():
                browser.run("document.querySelector(`input[value=${arguments[0]}]`).click()", name)
                assert browser.run("return document.getElementById('text').textContent") == TEXT
                shown = browser.run("return [...document.querySelectorAll('#text span')].map("
                                    "(span) => [span.classList.contains('against'), span.title])")
                assert len(shown) == len(level["value"])
                for (is_against, title), value in zip(shown, level["value"]):
                    assert is_against == (value < 0)
                    if abs(value) > 1e-6:
                        assert float(title.replace("\u2212", "-")) == pytest.approx(value, rel=6e-3)
            listed = browser.run("return document.querySelectorAll('#for button, #against button').length")
            assert listed > 0
            browser.click("#for button, #against button")
            assert browser.run("return document.querySelectorAll('#text .here').length") == 1
            assert browser.errors() == []


def test_the_usual_baseline():
    for model, baseline in ((LONGFORMER, "pad"), (MODERNBERT, "mask")):
        for given in ([], ["--baseline", "usual"]):
            found = explain(model, "gradient", "--text", "he", "--json", *given).works().json[0]
            assert found["explanation"]["baseline"] == baseline


class TestWrongUse:
    def test_options_without_explain(self):
        for option in (["--steps", 3], ["--baseline", "zero"], ["--label", "bad"], ["--occlusion", "mask"],
                       ["--tolerance", 0.1], ["--explain-top", 3]):
            run("classify", LONGFORMER, "--text", "he", *option).fails(2, "--explain")

    def test_values_that_cannot_be(self, tmp_path):
        explain(LONGFORMER, "none", "--text", "he").fails(2, "--explain", "gradient")
        explain(LONGFORMER, "integrated", "--text", "he", "--steps", 0).fails(2, "--steps")
        explain(LONGFORMER, "integrated", "--text", "he", "--baseline", "all").fails(2, "--baseline", "pad")
        explain(LONGFORMER, "integrated", "--text", "he", "--label", "bädd").fails(2, "--label", "bad, fair, good")
        explain(MODERNBERT, "integrated", "--text", "he", "--baseline", "zero").fails(2, "--baseline", "multiple")
        explain(BERT, "gradient", "--text", "he").fails(1, "sequence-classification")
        explain(LONGFORMER, "gradient", "--text", "he", "-o", tmp_path / "x.png").fails(2, ".html beside --explain")
        explain(LONGFORMER, "gradient", "--text", "he", "--json", "-o", tmp_path / "x.html").fails(2, "-o", ".json or .jsonl")
