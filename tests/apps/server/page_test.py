"""The page of `longformer serve` in a real browser: documents go in, passages are found and read.

The page talks to `longformer serve` where the program has that verb (LONGFORMER_BINARY), otherwise to
the stand-in of fake_server.py. Tests that need a special server (slow, full, with a key, with models of
every kind) always use the stand-in.
"""

import pathlib
import re
import subprocess
import sys
import time
import urllib.request
import zipfile

import pytest
from page_steps import (  # noqa: F401  (some are fixtures)
    ESCAPE, FOCUSED, FOUND, IN_VIEW, MARK, STORY, TAB, add, ask, browser, fake, find, hits_of,
    names_of, needs_browser, open_hit, open_page, page, put, site, status, webdriver)

pytestmark = needs_browser


# ---- drop, search, read ----


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_upload_search_read(page, site, tmp_path, end):
    text = ("\U0001f600 caf\u00e9 \U0001d4d0 " + STORY).replace("\n", end)
    file = tmp_path / "story.txt"
    file.write_bytes(text.encode())
    add(page, file)
    assert page.run("return document.querySelector('#file').value") == ""
    find(page, "the violin of the otter")
    page.wait("/passage/.test(document.querySelector('#found').textContent)")
    wanted = ask(site, "search", {"query": "the violin of the otter", "top_k": 10})["hits"]
    assert hits_of(page) == [[hit["document"], hit["start"], hit["end"]] for hit in wanted]
    for number in (1, 2):
        open_hit(page, number)
        hit = wanted[number - 1]
        page.wait(f"{MARK}.textContent === arguments[0]", text[hit["start"]:hit["end"]])
        page.wait(IN_VIEW)
        around = page.run("return document.querySelector('#reader').textContent")
        assert len(around) > 400 and text[hit["start"] - 200:hit["end"] + 200] in around
    assert page.run("return document.querySelectorAll('#reader mark').length") == 1


def test_the_whole_text_is_there_once(page, site):
    """Parts end at lines, wherever the server cuts them."""
    text = "".join(f"{n} \U0001f98a {'word ' * (n % 17)}end of line {n}\n" for n in range(2500))
    put(site, "long.txt", text)
    open_page(page, site)
    page.wait("document.querySelector('#documents .open')")
    page.click("#documents .open")
    parts = page.wait("document.querySelectorAll('#reader .part').length")
    assert parts > 4
    page.run("const box = document.querySelector('#reader'); box.tabIndex = 0;")
    for part in range(parts):
        page.run("document.querySelectorAll('#reader .part')[arguments[0]].scrollIntoView()", part)
        page.wait("document.querySelectorAll('#reader .part')[arguments[0]].textContent", part)
    assert page.run("return document.querySelector('#reader').textContent") == text


def test_a_passage_over_the_end_of_a_part(page, site):
    text = "x" * 19990 + " begin of the avalanche story " + "y" * 300
    ident = put(site, "border.txt", text)
    open_page(page, site, f"#d={ident}&p=19980-20015")
    page.wait(MARK)
    assert page.run(f"return {MARK}.textContent") == text[19980:20015]
    assert page.run("return document.querySelectorAll('#reader mark').length") == 1


def test_ten_megabytes_open_at_once(page, site, fake):
    text = STORY * (10_000_000 // len(STORY))
    ident = fake.put("big.txt", text)
    open_page(page, fake)
    page.wait("document.querySelector('#documents .open')")
    began = time.monotonic()
    page.run("document.querySelector('#documents .open').click()")
    page.wait("document.querySelector('#reader .part').textContent")
    assert time.monotonic() - began < 3
    page.run("location.hash = arguments[0]", f"#d={ident}&p=7000000-7000400")
    page.wait(f"{MARK} && {IN_VIEW}")
    assert page.run(f"return {MARK}.textContent") == text[7000000:7000400]
    assert page.run("return document.querySelector('#reader').textContent.length") < 200_000
    # Firefox does not tell its memory.
    assert page.run("return performance.memory ? performance.memory.usedJSHeapSize : 0") < 300e6


def test_words_of_the_question_are_bold(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    find(page, "avalanche telescope")
    bold = page.run("return [...document.querySelectorAll('#hits b')].map((word) => word.textContent.toLowerCase())")
    assert bold and set(bold) <= {"avalanche", "telescope"}


def test_an_old_answer_never_comes_late(page, site, fake):
    fake.put("story.txt", STORY)
    fake.slow["the violin of the otter"] = 1.5
    open_page(page, fake)
    page.keys("#query", "the violin of the otter")
    time.sleep(0.6)
    find(page, "the avalanche in Epping")
    wanted = hits_of(page)
    time.sleep(1.5)
    assert hits_of(page) == wanted
    assert wanted[0][1:] == [ask(fake, "search", {"query": "the avalanche in Epping"})["hits"][0][key] for key in ("start", "end")]


def test_hits_are_busy_until_the_whole_question_is_answered(browser, fake):
    fake.put("story.txt", STORY)
    fake.slow["the violin of the otter"] = 1.0
    open_page(browser, fake)
    find(browser, "the violin")
    browser.keys("#query", " of the otter")
    assert browser.run(f"return {FOUND}") is False
    browser.wait(FOUND)
    assert browser.run("return new URLSearchParams(location.hash.slice(1)).get('q')") == "the violin of the otter"


def test_nothing_moves_when_hits_come(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    page.wait("document.querySelector('#documents .open')")
    time.sleep(0.5)
    page.run("window.shifts = 0; new PerformanceObserver((list) => { for (const one of list.getEntries()) window.shifts += one.value; })"
             ".observe({type: 'layout-shift'})")
    find(page, "the violin of the otter")
    open_hit(page)
    time.sleep(0.3)
    assert page.run("return window.shifts") < 0.01


def test_the_same_file_twice_is_one_document(page, tmp_path):
    file = tmp_path / "story.txt"
    file.write_text(STORY)
    add(page, file)
    add(page, file, count=1)
    page.wait("/already here/.test(document.querySelector('[role=status]').textContent)")
    assert page.run("return document.querySelectorAll('#documents [data-document]').length") == 1


def test_documents_of_the_server_are_listed(page, site):
    ident = put(site, "first visitor.txt", STORY)
    open_page(page, site)
    page.wait("document.querySelector('#documents [data-document]')")
    assert page.run("return document.querySelector('#documents [data-document]').dataset.document") == ident
    assert page.run("return document.querySelector('#example').textContent") == "Open “first visitor.txt”"


def test_hits_in_the_order_of_the_text_and_the_strip(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    find(page, "the locomotive of the falcon")
    page.run("const order = document.querySelector('#order'); order.value = 'book'; order.dispatchEvent(new Event('change'))")
    starts = [start for _, start, _ in hits_of(page)]
    assert starts == sorted(starts) and len(starts) > 2
    open_hit(page, 2)
    marks = page.wait("Number(document.querySelector('#strip').dataset.marks)")
    assert marks >= len(starts)
    before = page.run("return document.querySelector('#reader').scrollTop")
    page.run("const strip = document.querySelector('#strip'), box = strip.getBoundingClientRect();"
             "strip.dispatchEvent(new MouseEvent('click', {clientX: box.left + 5, clientY: box.bottom - 2, bubbles: true}))")
    page.wait("document.querySelector('#reader').scrollTop > arguments[0]", before)


DRAG = """
const transfer = new DataTransfer();
for (const [name, text] of arguments[1]) transfer.items.add(new File([text], name, {type: 'text/plain'}));
document.body.dispatchEvent(new DragEvent(arguments[0], {bubbles: true, cancelable: true, dataTransfer: transfer}));
"""


def test_drag_and_drop(page):
    page.run(DRAG, "dragover", [])
    assert page.run("return document.querySelector('#drop').hidden") is False
    page.run(DRAG, "drop", [["one.txt", STORY], ["two.md", "# Two\n\n" + STORY[:900]]])
    page.wait("document.querySelectorAll('#documents .facts').length === 2 && !document.querySelector('#documents progress')")
    assert page.run("return document.querySelector('#drop').hidden") is True
    assert names_of(page) == ["one.txt", "two.md"]


def test_paste(page):
    page.run("const field = document.createElement('textarea'); field.value = arguments[0];"
             "document.body.append(field); field.select()", "A pasted story about the orchard. " + STORY[:500])
    page.press_with_control("c")
    page.run("document.querySelector('body > textarea').remove()")
    page.press_with_control("v")
    page.wait("document.querySelector('#documents .facts') && !document.querySelector('#documents progress')")
    assert names_of(page)[0].startswith("Pasted: A pasted story")


def test_kinds_of_files(page, site, tmp_path):
    """EPUB, HTML, UTF-16, JSON Lines are read; a file that is not is named with what to do."""
    def chapter(n):
        return (f"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><head><title/><style>p {{}}</style></head>"
                f"<body><h1>Chapter {n}</h1><p>Line of chapter\n {n} &amp; more.<br/>After.</p><script>window.pwned = 1</script></body></html>")
    with zipfile.ZipFile(tmp_path / "book.epub", "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("META-INF/container.xml", "<container xmlns='urn:x'><rootfiles><rootfile full-path='in/book.opf'/></rootfiles></container>")
        book.writestr("in/book.opf", "<package xmlns='http://www.idpf.org/2007/opf'><manifest><item id='a' href='text/one%201.xhtml'/>"
                      "<item id='b' href='text/two.xhtml'/></manifest><spine><itemref idref='b'/><itemref idref='a'/></spine></package>")
        book.writestr("in/text/one 1.xhtml", chapter(1))
        book.writestr("in/text/two.xhtml", chapter(2))
    (tmp_path / "page.html").write_text("<title>No</title><p>First <b>bold</b> words.<p>Second.<ul><li>one<li>two</ul><pre>a\n  b</pre>")
    (tmp_path / "wide.txt").write_bytes("\ufeffWide é text".encode("utf-16-le"))
    (tmp_path / "rows.jsonl").write_text('{"text": "First row"}\n{"id": "x", "body": "The longest field"}\n')
    add(page, *(tmp_path / name for name in ("book.epub", "page.html", "wide.txt", "rows.jsonl")))
    texts = {d["name"]: ask(site, f"documents/{d['id']}/text?start=0&end=1000")["text"] for d in ask(site, "documents")["documents"]}
    assert texts["book.epub"] == "Chapter 2\n\nLine of chapter 2 & more.\nAfter.\n\nChapter 1\n\nLine of chapter 1 & more.\nAfter."
    assert texts["page.html"] == "First bold words.\n\nSecond.\n\none\ntwo\n\na\n  b\n"
    assert texts["wide.txt"] == "Wide é text"
    assert texts["rows.jsonl"] == "First row\n\nThe longest field"
    for name, content, advice in (("a.pdf", b"%PDF-1.7", "PDF"), ("a.gz", b"\x1f\x8b\x08", "gunzip"), ("a.bin", b"a\0b", "not a text"),
                                  ("a.epub", b"PK\3\4 and no more", "zip archive")):
        (tmp_path / name).write_bytes(content)
        page.keys("#file", str(tmp_path / name))
        page.wait("document.querySelector('[role=status]').textContent.includes(arguments[0])", advice)
    assert len(names_of(page)) == 4
    # The console tells of the refused request, too.
    assert all("/documents?name=a.pdf" in error or "/documents?name=a.epub" in error for error in page.errors())


# ---- while it is read ----


def test_search_while_a_document_is_read(browser, fake, tmp_path):
    fake.delay = 1.0
    file = tmp_path / "long.txt"
    file.write_text(STORY * (2_000_000 // len(STORY)))
    open_page(browser, fake)
    browser.keys("#file", str(file))
    seen = [browser.wait("document.querySelector('#documents progress')?.value")]
    browser.wait("document.querySelector('#documents progress').value > arguments[0]", seen[0])
    assert "left" in browser.run("return document.querySelector('#documents .facts').textContent")
    browser.keys("#query", "the lantern of the badger")
    browser.wait("document.querySelector('#hits [data-document]')", seconds=6)
    assert browser.run("return document.querySelector('#documents progress').value") < 1
    browser.open("about:blank")
    end = time.monotonic() + 10
    while (fake.cancelled == 0 or fake.documents) and time.monotonic() < end:
        time.sleep(0.1)
    assert fake.cancelled == 1 and fake.documents == {}


# ---- hostile documents ----

EVIL = ("<img src=x onerror='window.pwned=1'><script>window.pwned=1</script></title></textarea><svg onload='window.pwned=1'> "
        "\u202ereversed\u202c orchard " + "w" * 10_000 + " story of the orchard ")


def test_hostile_documents_are_inert(page, site, tmp_path):
    put(site, "<img src=x onerror=window.pwned=1></title>\u202e" + "n" * 300, EVIL * 2 + STORY)
    (tmp_path / "evil.html").write_text(f"<html><body onload='window.pwned=1'><p>orchard {EVIL}</p><iframe src='javascript:parent.pwned=1'></iframe>")
    with zipfile.ZipFile(tmp_path / "evil.epub", "w") as book:
        book.writestr("META-INF/container.xml", "<c><rootfiles><rootfile full-path='o'/></rootfiles></c>")
        book.writestr("o", "<p><manifest><item id='a' href='a.xhtml'/><item id='up' href='../../etc/passwd'/></manifest>"
                      "<spine><itemref idref='a'/><itemref idref='none'/><itemref idref='up'/></spine></p>")
        book.writestr("a.xhtml", f"<p>Another orchard {EVIL}")
    open_page(page, site)
    add(page, tmp_path / "evil.html", tmp_path / "evil.epub", count=3)
    find(page, "<b>orchard</b> story")
    for number in range(1, len(hits_of(page)) + 1):
        open_hit(page, number)
    time.sleep(0.5)
    assert page.run("return window.pwned") is None
    assert page.run("return document.querySelectorAll('#reader img, #hits img, #documents img, iframe, svg').length") == 0
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.run("return document.scripts.length") == 1


def test_an_archive_that_unpacks_to_a_gigabyte(page, tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.epub", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
        book.writestr("META-INF/container.xml", "<c><rootfiles><rootfile full-path='o'/></rootfiles></c>")
        book.writestr("o", "<p><manifest><item id='a' href='a.html'/></manifest><spine><itemref idref='a'/></spine></p>")
        with book.open("a.html", "w") as big:
            for _ in range(64):
                big.write(bytes(16 << 20))
    page.keys("#file", str(tmp_path / "bomb.epub"))
    page.wait("document.querySelector('[role=status]').textContent.includes('at most 64 MB')", seconds=60)
    assert names_of(page) == []
    # The console tells of the refused request, too.
    assert all("/documents?name=bomb.epub" in error for error in page.errors())


# ---- nothing from elsewhere ----


def test_nothing_comes_from_elsewhere(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    find(page, "the violin of the otter")
    open_hit(page)
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert loaded and all(name.startswith(site.address) for name in loaded)
    assert page.run("return [document.cookie, localStorage.length, sessionStorage.length]") == ["", 0, 0]
    request = urllib.request.Request(site.address, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request) as reply:
        policy, content = reply.headers["Content-Security-Policy"], reply.read()
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy
    assert len(content) < 80_000
    assert set(re.findall(rb"https?://[^\s\"'`]+", content)) <= {b"http://www.w3.org/1999/xhtml"}


def test_first_paint(page, tmp_path):
    page.screenshot(tmp_path / "page.png")
    paint = page.wait("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    assert paint < 1000  # 100 ms on an idle machine


def test_without_a_network(tmp_path):
    """Server and browser have nothing but the loopback device, where that may be arranged."""
    arrange = ["unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if subprocess.run([*arrange, "true"], capture_output=True, check=False).returncode:
        return
    test = f"{__file__}::test_nothing_comes_from_elsewhere"
    subprocess.run([*arrange, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test], check=True, cwd=tmp_path)


# ---- keyboard, names, contrast ----



def test_tab_reaches_everything_in_reading_order(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    find(page, "the violin of the otter")
    open_hit(page)
    page.run("document.activeElement.blur(); document.querySelector('#panel-search').scrollTop = 0")
    page.run("window.focus()")
    seen, outlines = [], []
    page.run("document.querySelector('h1').tabIndex = -1; document.querySelector('h1').focus()")
    for _ in range(60):
        page.press(TAB)
        name = page.run(FOCUSED)
        if name in ("", "h1") or (seen and name == seen[0]):
            break
        seen.append(name)
        outlines.append(page.run("const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.outlineWidth"
                                 " + getComputedStyle(document.activeElement.nextElementSibling ?? document.body).outlineStyle"))
    wanted = ["tab-search", "developer", "help", "query", "scope", "order", "card", "file", "open plain", "remove plain", "like", "quote", "reader"]
    places = [seen.index(name) for name in wanted]
    assert places == sorted(places)
    assert all("solid2px" in outline or "solid" in outline for outline in outlines)


def test_keys(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    page.press("/")
    assert page.run(FOCUSED) == "query"
    page.press("the violin of the otter j/?1")
    page.wait("document.querySelector('#hits [data-document]')")
    assert page.run("return document.querySelector('#query').value") == "the violin of the otter j/?1"
    page.press(ESCAPE)
    assert page.run(FOCUSED) == ""
    hits = hits_of(page)
    current = "Array.from(document.querySelectorAll('#hits li')).findIndex((hit) => hit.getAttribute('aria-current'))"
    for key, wanted in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.press(key)
        page.wait(f"{current} === {wanted}")
        page.wait(f"{MARK} && {IN_VIEW}")
        assert f"Passage {wanted + 1} of {len(hits)}" in status(page)
    page.press("?")
    assert page.run("return document.querySelector('#keys').open") is True
    page.press(ESCAPE)
    assert page.run("return document.querySelector('#keys').open") is False
    page.press("r")
    assert page.run(FOCUSED) == "reader"


NAMELESS = """
const visible = (one) => one.checkVisibility() && one.getClientRects().length;
const name = (one) => one.getAttribute('aria-label') || (one.getAttribute('aria-labelledby') ?? '').split(' ').map((id) =>
  document.getElementById(id)?.textContent ?? '').join('') || [...(one.labels ?? [])].map((label) => label.textContent).join('') || one.textContent;
return [...document.querySelectorAll('button, input, select, progress, dialog[open], [role=region], [role=tabpanel], section, [tabindex]')]
  .filter((one) => visible(one) && !name(one).trim()).map((one) => one.outerHTML.slice(0, 100));
"""
# Ratio of WCAG of every visible text with what is behind it, the lowest ones.
CONTRAST = """
const pen = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d', {willReadFrequently: true});
const rgb = (colors) => { for (const color of colors) { pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); } return [...pen.getImageData(0, 0, 1, 1).data]; };
const light = (color) => { const [r, g, b] = color.slice(0, 3).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const backs = (one) => { const list = []; for (; one; one = one.parentElement) list.unshift(getComputedStyle(one).backgroundColor); return list; };
const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode());) {
  const one = node.parentElement;
  if (!node.data.trim() || !one.checkVisibility() || one.closest('script, option, .unseen, [hidden], button:disabled')) continue;
  const behind = backs(one), pair = [light(rgb([...behind, getComputedStyle(one).color])), light(rgb(behind))].sort((a, b) => b - a);
  found.push([(pair[0] + 0.05) / (pair[1] + 0.05), node.data.trim().slice(0, 40)]);
}
return found.sort((a, b) => a[0] - b[0]).slice(0, 3);
"""


def axe_script():
    """axe-core, where the package axe-core-python is installed."""
    for folder in map(pathlib.Path, sys.path):
        for file in folder.glob("axe_core_python/axe.min.js"):
            return file.read_text(encoding="utf-8")
    return None


@pytest.mark.parametrize("dark", [False, True])
def test_names_contrast_and_structure(dark, fake, tmp_path):
    first, second = fake.put("story.txt", STORY), fake.put("other.txt", STORY[400:6000])
    with webdriver.browser(tmp_path, dark=dark) as browser:
        open_page(browser, fake)
        assert browser.run("return matchMedia('(prefers-color-scheme: dark)').matches") is dark

        def check():
            assert browser.run(NAMELESS) == []
            for ratio, text in browser.run(CONTRAST):
                assert ratio >= 4.5, text
            if axe := axe_script():
                found = browser.run(axe + "; return axe.run().then((r) => r.violations.map((v) => v.id + ' ' + v.nodes[0].html))")
                assert found == []
        check()
        find(browser, "the violin of the otter")
        open_hit(browser)
        check()
        assert browser.run("return [document.documentElement.lang, document.querySelectorAll('main').length, !!document.title,"
                           "document.querySelector('[role=status]').ariaLive, document.querySelector('#hits').tagName]") == ["en", 1, True, "polite", "OL"]
        assert "begin of passage" in browser.run(f"return getComputedStyle({MARK}, '::before').content")
        browser.click("#look")
        browser.wait("document.querySelector('#tokens .hit')")
        check()
        browser.open("about:blank")
        open_page(browser, fake, f"#t=compare&a={first}&b={second}")
        browser.wait("document.querySelector('#pairs li') && document.querySelector('#text-b .twin')")
        check()
        assert browser.errors() == []


def test_zoom_of_200_percent(tmp_path, fake):
    fake.put("story.txt", STORY)
    with webdriver.browser(tmp_path, size=(640, 480)) as browser:
        open_page(browser, fake)
        find(browser, "the violin of the otter")
        assert browser.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


# ---- telephone ----


@pytest.mark.skipif(webdriver.FIREFOX, reason="a window of Firefox is at least 450 pixels wide")
def test_telephone(fake, tmp_path):
    fake.put("story " + "n" * 200 + ".txt", STORY)
    with webdriver.browser(tmp_path, size=(360, 740), telephone=True) as browser:
        open_page(browser, fake)
        find(browser, "the violin of the otter")

        def fits():
            return browser.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth, innerWidth]")
        assert fits() == [360, 360, 360]
        small = browser.run(
            "return [...document.querySelectorAll('button, select, input:not([type=file]), .button')].filter((one) => one.checkVisibility())"
            ".filter((one) => { const box = one.getBoundingClientRect(); return box.width < 24 || box.height < 24; }).map((one) => one.outerHTML.slice(0, 80))")
        assert small == []
        open_hit(browser)
        browser.wait(IN_VIEW)
        assert fits() == [360, 360, 360]
        box = browser.run("const box = document.querySelector('#stage').getBoundingClientRect(); return [box.left, box.top, box.width, box.height]")
        assert box == [0, 0, 360, 740]
        assert browser.run(FOCUSED) == "close"
        browser.run("history.back()")
        browser.wait("!document.querySelector('#book').checkVisibility()")
        assert browser.errors() == []
