"""Steps of the tests of the page of `longformer serve`: servers, browsers, and what a hand does."""

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

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "apps" / "cli"), str(ROOT / "tests" / "apps" / "server")]

import fake_server  # noqa: E402
import webdriver  # noqa: E402

needs_browser = pytest.mark.skipif(
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
    errors = browser.errors()
    assert not errors, errors


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


#: The hits are those of the whole question.
FOUND = "document.querySelector('#hits').ariaBusy !== 'true'"


def find(browser, words):
    browser.run("document.querySelector('#query').value = ''; document.querySelector('#hits').replaceChildren()")
    browser.keys("#query", words)
    browser.wait(f"document.querySelector('#hits [data-document]') && {FOUND}")


def hits_of(browser):
    return browser.run("return [...document.querySelectorAll('#hits [data-document]')].map((hit) =>"
                       " [hit.dataset.document, Number(hit.dataset.start), Number(hit.dataset.end)])")


def open_hit(browser, number=1):
    browser.click(f"#hits li:nth-child({number}) button")
    browser.wait(f"document.querySelector('#hits li:nth-child({number})').ariaCurrent === 'true' && document.querySelector('#reader mark')")
    time.sleep(0.2)


MARK = "document.querySelector('#reader mark')"
IN_VIEW = f"""(() => {{
  const mark = {MARK}.getBoundingClientRect(), box = document.querySelector('#reader').getBoundingClientRect();
  return mark.top >= box.top && mark.top < box.bottom && mark.left >= 0 && mark.right <= innerWidth;
}})()"""


def status(browser):
    return browser.run("return document.querySelector('[role=status]').textContent")


def names_of(browser):
    return browser.run("return [...document.querySelectorAll('#documents .name')].map((name) => name.textContent)")


FOCUSED = "const one = document.activeElement; return one === document.body ? '' : (one.id || one.className || one.tagName)"
