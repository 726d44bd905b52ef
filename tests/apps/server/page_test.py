"""The page of `longformer serve` in a real browser: what a person sees and does with it.

The page talks to `longformer serve` where the program has that verb (LONGFORMER_BINARY), otherwise to
the stand-in of fake_server.py. Tests that need a special server (slow, full, with a key, with models of
every kind) always use the stand-in.
"""

import base64
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "apps" / "cli"), str(ROOT / "tests" / "apps" / "server")]

import fake_server  # noqa: E402
import webdriver  # noqa: E402

pytestmark = pytest.mark.skipif(
    not webdriver.available(), reason="no chromium with chromedriver: tools/packages.sh browser")

ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"
STORY = "".join(
    f"Chapter {n}. The {animal} of {town} told a story about the {thing}, which nobody in the valley believed. "
    f"Later that evening the {animal} went home along the river and thought of the {thing} again.\n\n"
    for n, (animal, town, thing) in enumerate(zip(
        ["badger", "heron", "otter", "weasel", "falcon", "hedgehog"] * 12, ["Arden", "Bree", "Corby", "Dunmore", "Epping"] * 15,
        ["lantern", "harvest", "violin", "avalanche", "telescope", "orchard", "locomotive"] * 11)))


class Real:
    """`longformer serve` with a tiny embedder."""

    def __init__(self, binary):
        command = [binary, "serve", str(ROOT / "tests" / "fixtures" / "sentence_dense"), "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = re.match(r"listening on (http://\S+)", self._process.stdout.readline())[1].rstrip("/") + "/"

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(timeout=60) == 0


def start_server():
    binary = os.environ.get("LONGFORMER_BINARY")
    if binary and subprocess.run([binary, "serve", "--help"], capture_output=True, check=False).returncode == 0:
        return Real(binary)
    return fake_server.FakeServer(models=[fake_server.EMBEDDER])


@pytest.fixture(scope="module")
def site():
    server = start_server()
    yield server
    server.stop()


@pytest.fixture
def fake():
    server = fake_server.FakeServer()
    yield server
    with contextlib.suppress(OSError):
        server.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with webdriver.browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture
def page(browser, site):
    """The page, without documents."""
    for document in ask(site, "documents")["documents"]:
        ask(site, "documents/" + document["id"], method="DELETE")
    open_page(browser, site)
    yield browser
    assert browser.errors() == []


def ask(server, path, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.address + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as reply:
        content = reply.read()
    return json.loads(content) if content else None


def open_page(browser, server, fragment=""):
    browser.open("about:blank")
    browser.open(server.address + fragment)
    browser.wait("document.querySelector('#kept').textContent")


def put(server, name, text):
    return ask(server, "documents", {"name": name, "text": text})["id"]


def add(browser, *files, count=None):
    browser.keys("#file", "\n".join(map(str, files)))
    browser.wait("document.querySelectorAll('#documents [data-document]').length >= arguments[0]"
                 " && !document.querySelector('#documents progress')", count or len(files), seconds=60)


def find(browser, words):
    browser.run("document.querySelector('#query').value = ''; document.querySelector('#hits').replaceChildren()")
    browser.keys("#query", words)
    browser.wait("document.querySelector('#hits [data-document]')")


def hits_of(browser):
    return browser.run("return [...document.querySelectorAll('#hits [data-document]')].map((hit) =>"
                       " [hit.dataset.document, Number(hit.dataset.start), Number(hit.dataset.end)])")


def open_hit(browser, number=1):
    browser.click(f"#hits li:nth-child({number}) button")
    browser.wait("document.querySelector('#reader mark')")
    time.sleep(0.2)


MARK = "document.querySelector('#reader mark')"
IN_VIEW = f"""(() => {{
  const mark = {MARK}.getBoundingClientRect(), box = document.querySelector('#reader').getBoundingClientRect();
  return mark.top >= box.top && mark.top < box.bottom && mark.left >= 0 && mark.right <= innerWidth;
}})()"""


def status(browser):
    return browser.run("return document.querySelector('[role=status]').textContent")


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


def test_words_of_the_question_are_bold(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    find(page, "avalanche telescope")
    bold = page.run("return [...document.querySelectorAll('#hits b')].map((word) => word.textContent.toLowerCase())")
    assert bold and set(bold) <= {"avalanche", "telescope"}


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


TRANSFER = """
const transfer = new DataTransfer();
for (const [name, text] of arguments[1]) transfer.items.add(new File([text], name, {type: 'text/plain'}));
if (arguments[2]) transfer.setData('text/plain', arguments[2]);
const kind = arguments[0], options = {bubbles: true, cancelable: true};
document.body.dispatchEvent(kind === 'paste' ? new ClipboardEvent('paste', {...options, clipboardData: transfer})
  : new DragEvent(kind, {...options, dataTransfer: transfer}));
"""


def names_of(browser):
    return browser.run("return [...document.querySelectorAll('#documents .name')].map((name) => name.textContent)")


def test_drag_and_drop(page):
    page.run(TRANSFER, "dragover", [], "")
    assert page.run("return document.querySelector('#drop').hidden") is False
    page.run(TRANSFER, "drop", [["one.txt", STORY], ["two.md", "# Two\n\n" + STORY[:900]]], "")
    page.wait("document.querySelectorAll('#documents .facts').length === 2 && !document.querySelector('#documents progress')")
    assert page.run("return document.querySelector('#drop').hidden") is True
    assert names_of(page) == ["one.txt", "two.md"]


def test_paste(page):
    page.run(TRANSFER, "paste", [], "A pasted story about the orchard. " + STORY[:500])
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
    assert texts["book.epub"] == "Chapter 2\n\nLine of chapter 2 & more.\nAfter.\n\n\nChapter 1\n\nLine of chapter 1 & more.\nAfter.\n"
    assert texts["page.html"] == "First bold words.\n\nSecond.\n\none\ntwo\n\na\n  b\n"
    assert texts["wide.txt"] == "Wide é text"
    assert texts["rows.jsonl"] == "First row\n\nThe longest field"
    for name, content, advice in (("a.pdf", b"%PDF-1.7", "pdftotext"), ("a.gz", b"\x1f\x8b\x08", "gunzip"), ("a.bin", b"a\0b", "not a text")):
        (tmp_path / name).write_bytes(content)
        page.keys("#file", str(tmp_path / name))
        page.wait("document.querySelector('[role=status]').textContent.includes(arguments[0])", advice)
    assert len(names_of(page)) == 4


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
        book.writestr("META-INF/container.xml", "<c><rootfile full-path='o'/></c>")
        book.writestr("o", "<p><item id='a' href='a.xhtml'/><item id='up' href='../../etc/passwd'/><itemref idref='a'/><itemref idref='none'/></p>")
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
        book.writestr("META-INF/container.xml", "<c><rootfile full-path='o'/></c>")
        book.writestr("o", "<p><item id='a' href='a'/><itemref idref='a'/></p>")
        with book.open("a", "w") as big:
            for _ in range(64):
                big.write(bytes(16 << 20))
    page.keys("#file", str(tmp_path / "bomb.epub"))
    page.wait("document.querySelector('[role=status]').textContent.includes('200 MB')", seconds=60)
    assert names_of(page) == []


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


# ---- keyboard, names, contrast ----

FOCUSED = "const one = document.activeElement; return one === document.body ? '' : (one.id || one.className || one.tagName)"


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


# ---- address ----


def test_reload_and_back(page, site):
    put(site, "story.txt", STORY)
    open_page(page, site)
    find(page, "the violin of the otter")
    page.press(ENTER)
    time.sleep(0.5)
    open_hit(page, 1)
    first = page.run(f"return [location.hash, {MARK}.textContent]")
    assert re.search(r"q=the\+violin.*d=\w+.*p=\d+-\d+", first[0])
    open_hit(page, 3)
    page.wait(f"{MARK}.textContent !== arguments[0]", first[1])
    third = page.run(f"return [location.hash, {MARK}.textContent]")
    page.run("location.reload()")
    page.wait(f"{MARK}?.textContent === arguments[0] && document.querySelectorAll('#hits li').length > 2", third[1])
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
    for command in ([sys.executable, "-c", python], ["bash", "-c", curl]):
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
