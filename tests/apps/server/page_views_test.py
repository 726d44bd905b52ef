"""The page of `longformer serve`: addresses, failures, and the tabs of other models."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import fake_server
import pytest
from page_steps import (  # noqa: F401  (some are fixtures)
    ENTER, ESCAPE, FOUND, IN_VIEW, MARK, ROOT, STORY, ask, browser, fake, find, hits_of, needs_browser, open_hit,
    open_page, page, put, site, status, webdriver)

pytestmark = needs_browser


# ---- address ----


def test_reload_and_back(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    find(page, "the violin of the otter")
    page.press(ENTER)
    page.wait(FOUND)
    open_hit(page, 1)
    first = page.run(f"return [location.hash, {MARK}.textContent]")
    assert re.search(r"q=the\+violin.*d=\w+.*p=\d+-\d+", first[0])
    open_hit(page, 3)
    page.wait(f"{MARK}.textContent !== arguments[0]", first[1])
    third = page.run(f"return [location.hash, {MARK}.textContent]")
    page.run("window.isOld = true; location.reload()")
    page.wait(f"!window.isOld && {MARK}?.textContent === arguments[0] && document.querySelectorAll('#hits li').length > 2", third[1])
    page.wait(IN_VIEW)
    assert page.run("return document.querySelector('#query').value") == "the violin of the otter"
    page.run("history.back()")
    page.wait(f"{MARK}?.textContent === arguments[0]", first[1])
    page.wait(IN_VIEW)
    assert "story.txt" in page.run("return document.title")


def test_a_document_that_is_gone(page, site):
    open_page(page, site, "#d=0123&p=5-10")
    page.wait("/no longer/.test(document.querySelector('[role=status]').textContent)")


# ---- failures ----


def test_the_server_is_away_and_comes_back(browser, fake):
    fake.put("story.txt", STORY)
    open_page(browser, fake)
    browser.wait("document.querySelector('#documents .open')")
    fake.stop()
    browser.keys("#query", "the violin of the otter")
    browser.wait("/does not answer; your text is still here/.test(document.querySelector('[role=status]').textContent)")
    again = fake_server.FakeServer(port=fake.port)
    again.documents = fake.documents
    try:
        browser.wait("document.querySelector('#hits [data-document]')")
        assert browser.run("return document.querySelector('#query').value") == "the violin of the otter"
        assert status(browser) == ""
    finally:
        again.stop()
    browser.errors()


def test_the_key(browser, fake):
    fake.key = "open sesame"
    browser.open("about:blank")
    browser.open(fake.address)
    browser.wait("document.querySelector('#key-dialog').open")
    browser.keys("#key", "wrong" + ENTER)
    browser.wait("document.querySelector('#key-dialog').open && !document.querySelector('#key').value")
    browser.keys("#key", "open sesame" + ENTER)
    browser.wait("document.querySelector('#kept').textContent")
    assert browser.run("return [sessionStorage.getItem('key'), localStorage.length, document.cookie]") == ["open sesame", 0, ""]
    browser.run("sessionStorage.clear()")
    browser.errors()


def test_a_busy_server(browser, fake):
    fake.put("story.txt", STORY)
    open_page(browser, fake)
    fake.refusals.append(("/search", 429, "Model is overloaded", {"Retry-After": "1"}))
    browser.keys("#query", "the violin of the otter")
    browser.wait("/busy.*1 s/.test(document.querySelector('[role=status]').textContent)")
    browser.wait("document.querySelector('#hits [data-document]')")
    browser.errors()


@pytest.mark.parametrize("code, message", [(507, "the disk of the index is full"), (413, "the library is full"), (422, "too long")])
def test_refusals_are_shown(browser, fake, tmp_path, code, message):
    (tmp_path / "story.txt").write_text(STORY)
    open_page(browser, fake)
    fake.refusals.append(("/documents", code, message))
    browser.keys("#file", str(tmp_path / "story.txt"))
    browser.wait("document.querySelector('[role=status]').textContent === arguments[0]", f"story.txt: {message}")
    browser.errors()


# ---- the other tabs ----


def test_tabs_are_those_of_the_models(browser, fake):
    open_page(browser, fake)
    tabs = "return [...document.querySelectorAll('[role=tab]')].map((tab) => tab.id)"
    assert browser.run(tabs) == ["tab-search", "tab-ask", "tab-compare", "tab-inside", "tab-summary"]
    fake.models = [fake_server.READER]
    open_page(browser, fake)
    assert browser.run(tabs) == ["tab-ask"]


def test_ask(browser, fake):
    fake.put("story.txt", "\U0001f600 " + STORY)
    open_page(browser, fake)
    browser.keys("#query", "Who thought of the telescope?" + ENTER)
    browser.wait("/parts? near/.test(document.querySelector('#asked').textContent)")
    assert browser.run("return document.querySelector('#tab-ask').getAttribute('aria-selected')") == "true"
    answers = browser.run("return [...document.querySelectorAll('#answer [data-document]')].map((item) =>"
                          " [Number(item.dataset.start), Number(item.dataset.end)])")
    assert 1 <= len(answers) <= 4
    text = next(iter(fake.documents.values()))["text"]
    start, end = answers[0]
    assert browser.run("return document.querySelector('#answer .answer').textContent") == text[start:end]
    assert re.match("Sure|Perhaps|The document may not say", browser.run("return document.querySelector('.surety').textContent"))
    browser.click("#answer button")
    browser.wait(f"{MARK}?.textContent === arguments[0]", text[start:end])
    browser.click("#ask-whole")
    browser.wait("/Read all/.test(document.querySelector('#asked').textContent)")
    assert browser.errors() == []


def test_compare(browser, fake):
    first, second = fake.put("a.txt", "\U0001f600 " + STORY), fake.put("b.txt", "Something else entirely happened.\n\n" + STORY[600:9000])
    open_page(browser, fake)
    browser.click("#tab-compare")
    for name, ident in (("a", first), ("b", second)):
        browser.run("const select = document.querySelector('#compare-' + arguments[0]); select.value = arguments[1];"
                    "select.dispatchEvent(new Event('change'))", name, ident)
    browser.wait("document.querySelectorAll('#pairs li').length > 5 && document.querySelector('#text-a .twin') && document.querySelector('#text-b .twin')")
    wanted = sorted(ask(fake, "compare", {"a": first, "b": second})["pairs"], key=lambda pair: -pair["score"])[3]
    browser.click("#pairs li:nth-child(4) button")
    text = fake.documents[first]["text"]
    browser.wait("document.querySelector('#text-a .chosen')?.textContent === arguments[0]", text[wanted["a"]["start"]:wanted["a"]["end"]])
    browser.wait("document.querySelector('#text-b .chosen')")
    address = browser.run("return location.hash")
    assert f"a={first}" in address and f"b={second}" in address
    browser.run("document.querySelector('#text-a').dispatchEvent(new WheelEvent('wheel')); document.querySelector('#text-a').scrollTop = 900")
    before = browser.run("return document.querySelector('#text-b').scrollTop")
    browser.run("document.querySelector('#text-a').scrollTop = 3000")
    browser.wait("document.querySelector('#text-b').scrollTop !== arguments[0]", before)
    assert browser.errors() == []


def test_inside(browser, fake):
    fake.put("story.txt", STORY)
    open_page(browser, fake)
    find(browser, "the violin of the otter")
    open_hit(browser)
    passage = browser.run(f"return {MARK}.textContent")
    browser.click("#look")
    browser.wait("document.querySelector('#tokens .hit')")
    assert browser.run("return [...document.querySelector('#tokens').childNodes].slice(1).map((node) => node.textContent).join('')").endswith(passage)
    browser.keys("#tokens", "\ue014\ue014]")
    browser.wait("document.querySelector('#head').value === '0'")
    assert "token 3 of" in browser.run("return document.querySelector('#token').textContent")
    browser.keys("#tokens", "d")
    assert browser.run("return document.querySelector('[name=direction]:checked').value") == "by"
    assert browser.errors() == []


def test_summary_shows_its_sources(browser, fake):
    fake.delay = 0.01
    fake.put("story.txt", STORY)
    open_page(browser, fake)
    browser.click("#tab-summary")
    browser.click("#summarize")
    browser.wait("document.querySelector('#summary').textContent.length > 20")
    browser.wait("document.querySelector('#summary button:last-child small')")
    sentence = browser.run("return document.querySelector('#summary button').firstChild.data")
    browser.click("#summary button")
    browser.wait(MARK)
    hit = ask(fake, "search", {"query": sentence, "top_k": 1})["hits"][0]
    assert browser.run(f"return {MARK}.textContent") == hit["text"]
    assert browser.errors() == []


def test_developer_and_quotation(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    find(page, "the violin of the otter's")
    open_hit(page)
    page.click("#developer")
    python = page.run("return document.querySelector('#python').textContent")
    curl = page.run("return document.querySelector('#curl').textContent")
    commands = [[sys.executable, "-c", python]]
    if shutil.which("curl"):
        commands.append(["bash", "-c", curl])
    for command in commands:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "'hits'" in found or '"hits"' in found
    page.press(ESCAPE)
    page.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.click("#quote")
    start, end = hits_of(page)[0][1:]
    page.wait("window.copied")
    assert f"characters {start}–{end}" in page.run("return window.copied")


def test_more_like_this(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    find(page, "the violin of the otter")
    open_hit(page)
    page.run("const range = document.createRange(); range.selectNodeContents(document.querySelector('#reader mark').firstChild);"
             "range.setEnd(range.endContainer, 30); getSelection().removeAllRanges(); getSelection().addRange(range)")
    chosen = page.run("return getSelection().toString()")
    page.click("#like")
    page.wait("document.querySelector('#query').value === arguments[0]", chosen.strip())
    page.wait("document.querySelector('#hits [data-document]')")


# ---- looks ----


@pytest.mark.parametrize("name, options", [
    ("light", {}), ("dark", {"dark": True}), ("telephone", {"size": (360, 740), "telephone": True})])
def test_looks(name, options, fake, tmp_path):
    """Pictures for a person: LONGFORMER_PICTURES names the folder, and CI keeps it."""
    folder = pathlib.Path(os.environ.get("LONGFORMER_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    novels = ROOT / "examples" / "novels"
    ids = [fake.put(file.name, file.read_text(encoding="utf-8")) for file in sorted(novels.glob("*.txt"))]
    with webdriver.browser(tmp_path, **options) as browser:
        open_page(browser, fake)
        find(browser, "the red weed by the river")
        browser.screenshot(folder / f"{name}-hits.png")
        open_hit(browser)
        browser.screenshot(folder / f"{name}-reader.png")
        browser.open("about:blank")
        open_page(browser, fake, f"#t=compare&a={ids[1]}&b={ids[2]}")
        browser.wait("document.querySelector('#pairs li')", seconds=60)
        browser.screenshot(folder / f"{name}-compare.png")
        assert browser.errors() == []
