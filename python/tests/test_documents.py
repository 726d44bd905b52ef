"""Documents as texts: pages of HTML, held to Python's own tables of character references, files that are none, and
names of files that are no UTF-8."""

import html
import html.entities
import json
import os
import pathlib
import re
import shutil

import pytest

import longformer_cpp

FIXTURES = pathlib.Path(__file__).parents[2] / "tests" / "fixtures"
CLASSIFIER = FIXTURES / "tiny_longformer_classifier"


def read_page(tmp_path, body):
    page = tmp_path / "page.html"
    page.write_bytes(b"<!doctype html><meta charset=utf-8>" + body.encode())
    return longformer_cpp.read_document(page)


def check_references(tmp_path, references):
    """Every reference stands between letters, in a paragraph of its own."""
    lines = [f"a{reference}b" for reference in references]
    found = read_page(tmp_path, "<p>".join(lines)).split("\n\n")
    expected = html.unescape("\v".join(lines)).split("\v")
    assert len(found) == len(expected)
    # White space is that of a page: one blank.
    differing = [pair for pair in zip(references, found, expected) if pair[1] != pair[2]]
    assert [pair for pair in differing if pair[1] != re.sub("[ \t\n\r\f]+", " ", pair[2])] == []


def test_names_are_those_of_the_standard(tmp_path):
    names = sorted(html.entities.html5)
    endings = ("", ";", "x", " ", "=", ";;")
    check_references(tmp_path, [f"&{name.rstrip(';')}{ending}" for name in names for ending in endings])
    # Strings that are no name, and beginnings of names.
    check_references(tmp_path, [f"&{name.rstrip(';')[:-1]}" for name in names if len(name) > 2])


def test_numbers_are_those_of_the_standard(tmp_path):
    numbers = [*range(0x110000), 0x110000, 2**31, 2**32 + 65, 2**64 + 65, 10**30]
    check_references(tmp_path, [f"&#{number};" for number in numbers])
    check_references(tmp_path, [f"&#x{number:x};" for number in numbers[::7]])
    check_references(tmp_path, [f"&#X{number:X}g" for number in numbers[:4096]])
    check_references(tmp_path, [f"&#0{number} " for number in numbers[:4096]])
    check_references(tmp_path, ["&", "&#", "&#;", "&#x", "&#x;", "&#xg", "&&amp;", "&#38;amp;", "&ampamp;"])


@pytest.fixture
def strange(tmp_path):
    """A folder with a name that is no UTF-8, as os.listdir gives it."""
    folder = os.fsencode(tmp_path) + b"/bad\xff"
    shutil.copytree(os.fsencode(CLASSIFIER), folder)
    return os.fsdecode(folder)


def test_names_that_are_no_utf8_are_taken_as_python_has_them(strange):
    model = longformer_cpp.load(strange)
    assert longformer_cpp.Tokenizer(strange).encode("a").ids == longformer_cpp.Tokenizer(CLASSIFIER).encode("a").ids
    assert longformer_cpp.info(strange) == longformer_cpp.info(CLASSIFIER)
    data = os.path.join(strange, "\udcfe.jsonl")
    with open(data, "w") as file:
        for label in (0, 1):
            print(json.dumps({"text": "a b", "label": label}), file=file)
    assert longformer_cpp.read_document(data).startswith("{")
    model.evaluate(data)
    index = longformer_cpp.SearchIndex(strange, file=os.path.join(strange, "i\udcfd"), passage_tokens=16)
    index.add("a", "a b")
    assert os.path.exists(os.path.join(strange, "i\udcfd")) and len(index) == 1


def test_errors_about_such_names_are_one_line(strange):
    for call in (longformer_cpp.load, longformer_cpp.Tokenizer, longformer_cpp.info):
        with pytest.raises(longformer_cpp.Error, match=r"no\\xff") as raised:
            call(os.path.join(strange, "no\udcff"))
        assert len(str(raised.value).splitlines()) == 1


def test_files_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(longformer_cpp.Error, match="a.txt: expected text, found a PNG image: tesseract"):
        longformer_cpp.read_document(tmp_path / "a.txt")


def test_word_open_document_and_epub_are_read(tmp_path):
    folder = FIXTURES / "documents"
    assert longformer_cpp.read_document(folder / "harbour.docx").startswith("The harbour opened in 1850.\n\nShips came daily.")
    assert longformer_cpp.read_document(folder / "mill.odt").startswith("The mill\n\nIt stands   by the river.")
    assert longformer_cpp.read_document(folder / "animals.epub").endswith("\n\nAnswers to the riddles.")
    (tmp_path / "a.docx").write_text("a b")
    with pytest.raises(longformer_cpp.Error, match="a.docx: expected a Word document, as its name says, found text"):
        longformer_cpp.read_document(tmp_path / "a.docx")
