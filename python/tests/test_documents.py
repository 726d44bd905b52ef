"""Pages of HTML as text, held to Python's own tables of character references."""

import html
import html.entities
import re

import longformer_cpp


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
    # What is no name, or the beginning of one.
    check_references(tmp_path, [f"&{name.rstrip(';')[:-1]}" for name in names if len(name) > 2])


def test_numbers_are_those_of_the_standard(tmp_path):
    numbers = [*range(0x110000), 0x110000, 2**31, 2**32 + 65, 2**64 + 65, 10**30]
    check_references(tmp_path, [f"&#{number};" for number in numbers])
    check_references(tmp_path, [f"&#x{number:x};" for number in numbers[::7]])
    check_references(tmp_path, [f"&#X{number:X}g" for number in numbers[:4096]])
    check_references(tmp_path, [f"&#0{number} " for number in numbers[:4096]])
    check_references(tmp_path, ["&", "&#", "&#;", "&#x", "&#x;", "&#xg", "&&amp;", "&#38;amp;", "&ampamp;"])
