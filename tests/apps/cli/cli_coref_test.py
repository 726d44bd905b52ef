"""The verb coref: who is who, in every form and in a browser."""

import json
import re

import pytest
import webdriver
from cli_test import BERT, FIXTURES, run

RESOLVER = FIXTURES / "coreference"
TEXT = "he was in the house. she was with him <b>at</b> the house & from her. " * 3


def coref(*arguments, **others):
    return run("coref", RESOLVER, *arguments, **others)


def found(*arguments, **others):
    return coref(*arguments, "--json", **others).passes().json[0]


@pytest.fixture(scope="module")
def clusters():
    row = found("--text", TEXT)
    assert len(row["clusters"]) >= 1 and sum(map(len, row["clusters"])) >= 5
    return row["clusters"]


class TestForms:
    def test_mentions_are_spans_of_the_text(self, clusters):
        assert all(TEXT[m["begin"]: m["end"]] == m["text"] for cluster in clusters for m in cluster)
        begins = [[(m["begin"], m["end"]) for m in cluster] for cluster in clusters]
        assert all(one == sorted(set(one)) for one in begins) and begins == sorted(begins)

    def test_lines_have_every_mention_in_the_order_of_the_document(self, clusters):
        lines = [line.split("\t") for line in coref("--text", TEXT).passes().out.splitlines()]
        assert {(int(c), int(b), int(e)) for _, c, b, e, _ in lines} == {
            (number, m["begin"], m["end"]) for number, cluster in enumerate(clusters, 1) for m in cluster}
        assert [int(line[2]) for line in lines] == sorted(int(line[2]) for line in lines)

    def test_marked_text_is_the_text_with_brackets(self, clusters):
        marked = coref("--text", TEXT, "--format", "marked").passes().out
        assert re.sub(r"\[\d+ |\]", "", marked) == TEXT + "\n"
        assert marked.count("[") == sum(map(len, clusters))

    def test_conll_is_read_again(self, clusters, tmp_path):
        file = tmp_path / "out.conll"
        coref("--text", TEXT, "-o", file, "--no-singletons").passes()
        lines = file.read_text().splitlines()
        assert lines[0] == "#begin document (--text:1); part 000" and lines[-1] == "#end document"
        words = [line.split("\t")[3] for line in lines[1:-1] if line]
        assert words[:6] == ["he", "was", "in", "the", "house", "."]
        scored = run("evaluate", "--score", file, file, "--json").passes().json[0]
        assert scored["metrics"]["conll_f1"] == pytest.approx(1)

    @pytest.mark.parametrize("ending,first", [("tsv", "file\tline\tid\tcluster\t"), ("csv", "file,line,id,cluster,"), ("jsonl", '{"file":'), ("txt", ""),
                                              ("html", "<!DOCTYPE html>")])
    def test_the_ending_chooses_the_form(self, ending, first, tmp_path):
        file = tmp_path / f"out.{ending}"
        coref("--text", TEXT, "-o", file).passes()
        assert file.read_text().startswith(first) and file.stat().st_size > len(TEXT)

    def test_without_singletons(self, clusters):
        kept = found("--text", TEXT, "--no-singletons")["clusters"]
        assert kept == [cluster for cluster in clusters if len(cluster) > 1]

    def test_the_same_of_every_batch(self, clusters):
        assert found("--text", TEXT, "--batch-tokens", 1)["clusters"] == clusters

    def test_segments_are_told(self):
        row = found("--text", TEXT)
        assert row["segments"] > 1 and f"{row['segments']} segments" in coref("--text", TEXT).err
        assert found("--text", TEXT, "--max-segment-length", 12)["segments"] > row["segments"]
        assert found("--text", TEXT, "--segments", "independent")["segments"] >= 3


class TestBadInput:
    def test_empty_and_short_texts(self):
        assert found("--text", "")["clusters"] == []
        row = found("--text", "he")
        assert row["words"] == 1 and row["tokens"] == 3
        coref("--text", "", "--format", "html").passes()

    def test_one_page_for_one_document(self, tmp_path):
        file = tmp_path / "out.html"
        coref("--text", "he", "--text", "she", "-o", file).fails(1, "--text:2", "one document for a page")
        assert "Who is who" in file.read_text()

    def test_faults_cost_the_others_nothing(self):
        lines = [{"id": 1, "text": TEXT}, {"id": 2}, {"id": 3, "text": TEXT}]
        result = coref("--field", "text", "--json", stdin="".join(json.dumps(line) + "\n" for line in lines))
        rows = result.json
        assert result.code == 1 and [row["id"] for row in rows] == [1, 2, 3] and "error" in rows[1]
        assert rows[0]["clusters"] == rows[2]["clusters"] != []

    def test_wrong_usage(self):
        coref("--text", "he", "-o", "out.pdf").fails(2, ".html", "out.pdf")
        coref("--text", "he", "--json", "--format", "html").fails(2, "--json", "--format")
        coref("--text", "he", "--segments", "many").fails(2, "overlapping", "many")
        coref("--text", "he", "--stride", 40).fails(2, "--stride: expected")

    def test_a_model_of_another_head(self):
        run("coref", BERT, "--text", "he").fails(1, "coreference", "none")
        run("coref", FIXTURES / "tiny_led", "--text", "he").fails(1, "expected an encoder")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A browser at the page of the text."""
    folder = tmp_path_factory.mktemp("coref")
    file = folder / "page.html"
    coref("--text", TEXT, "-o", file).passes()
    with webdriver.browser(folder) as browser:
        browser.open(file)
        yield browser
        assert browser.errors() == []


@pytest.mark.skipif(not webdriver.available(),
                    reason="no chromium with chromedriver: tools/packages.sh browser")
class TestPage:
    def test_shows_the_text_as_it_is(self, page):
        assert page.run("return text.textContent") == TEXT
        assert page.run("return text.querySelectorAll('b').length") == 0

    def test_a_click_lights_the_whole_chain(self, page, clusters):
        number = max(range(len(clusters)), key=lambda c: len(clusters[c]))
        page.run("document.querySelector(`#chains [data-chain='${arguments[0]}'] button`).click()", number)
        lit = page.run("return spans.filter((s) => s && s.classList.contains('hit')).map((s) => s.textContent)")
        assert "".join(lit) != "" and all(
            any(piece in mention["text"] for mention in clusters[number]) for piece in lit)
        covered = page.run(
            "let place = 0; const lit = [];"
            "data.pieces.forEach((piece, i) => { if (spans[i] && spans[i].classList.contains('hit'))"
            " for (let c = 0; c < [...piece].length; ++c) lit.push(place + c); place += [...piece].length; });"
            "return lit")
        assert set(covered) == {c for m in clusters[number] for c in range(m["begin"], m["end"])}

    def test_next_and_before_go_along_the_chain(self, page, clusters):
        number = max(range(len(clusters)), key=lambda c: len(clusters[c]))
        size = len(clusters[number])
        page.run("choose(arguments[0], first[arguments[0]], false)", number)
        places = []
        for _ in range(size):
            places.append(page.run("return byId('place').textContent"))
            page.click("#next")
        assert places == [f"{i} of {size}" for i in range(1, size + 1)]
        assert page.run("return byId('place').textContent") == f"1 of {size}"
        page.click("#before")
        assert page.run("return byId('place').textContent") == f"{size} of {size}"

    def test_a_click_on_a_mention_chooses_it(self, page, clusters):
        page.run("choose(0, 0, false)")
        last = page.run("return spans.findLastIndex((s) => s && !s.classList.contains('hidden-single'))")
        page.run("spans[arguments[0]].click()", last)
        now = page.run("return spans[arguments[0]].classList.contains('now')", last)
        assert now and page.run("return chosen") == page.run(
            "return chainOf[data.mentions[arguments[0]].at(-1)]", last)

    def test_chains_of_one_are_shown_when_asked_for(self, page, clusters):
        several = sum(len(cluster) > 1 for cluster in clusters)
        assert page.run("return byId('chains').children.length") == several
        page.click("#singles")
        assert page.run("return byId('chains').children.length") == len(clusters)
        page.click("#singles")
