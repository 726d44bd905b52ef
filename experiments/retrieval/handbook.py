#!/usr/bin/env python3
"""The Debian Handbook in one of its languages as a folder of BEIR: a query is the heading of a section, and the text of
this section is the one document that is relevant.

    apt-get download debian-handbook && dpkg -x debian-handbook_*.deb handbook
    experiments/retrieval/handbook.py handbook/usr/share/doc/debian-handbook/html/ja-JP ja
    longformer evaluate MODEL ja --task retrieval --mode lexical

Headings that are not translated are left out where the script of the language tells them.
"""

import argparse
import html.parser
import json
import pathlib
import re
import sys

LEAST_CHARACTERS = 80
# Characters of a translated heading.
SCRIPTS = {"zh": "[\u4e00-\u9fff]", "ja": "[\u3040-\u30ff\u4e00-\u9fff]", "ko": "[\uac00-\ud7a3]", "ru": "[а-я]"}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
LEFT_OUT = {"script", "style", "pre", "nav"}


class Page(html.parser.HTMLParser):
    """The sections of a page as pairs of heading and text."""

    def __init__(self, text):
        super().__init__()
        self.sections, self.depth_left_out, self.in_heading = [], 0, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.depth_left_out += tag in LEFT_OUT
        if tag in HEADINGS:
            self.in_heading = True
            self.sections.append(["", ""])
        elif tag in ("p", "li", "dd", "dt", "div") and self.sections:
            self.sections[-1][1] += "\n"

    def handle_endtag(self, tag):
        self.depth_left_out -= tag in LEFT_OUT
        self.in_heading = self.in_heading and tag not in HEADINGS

    def handle_data(self, data):
        if self.sections and not self.depth_left_out:
            self.sections[-1][0 if self.in_heading else 1] += data


def sections(folder):
    """Text by heading; the first of sections with one heading."""
    found = {}
    for file in sorted(folder.glob("*.html")):
        for heading, text in Page(file.read_text(encoding="utf-8")).sections:
            heading = re.sub(r"^([0-9A-Z]\.|\d+\.)[\d.]*\s+", "", " ".join(heading.split()))
            text = re.sub(r"\s*\n\s*", "\n", re.sub(r"[ \t]+", " ", text)).strip()
            if len(text) >= LEAST_CHARACTERS and len(heading) > 2:
                found.setdefault(heading, text)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("html", type=pathlib.Path, help="folder of the pages of one language")
    parser.add_argument("output", type=pathlib.Path, help="the folder to make")
    options = parser.parse_args()
    if not any(options.html.glob("*.html")):
        sys.exit(f"error: {options.html}: expected the pages (*.html) of the Debian package debian-handbook, found none (docs/data.md)")
    (options.output / "qrels").mkdir(parents=True, exist_ok=True)
    is_translated = re.compile(SCRIPTS.get(options.html.name[:2], ""))
    corpus, queries, judgements = [], [], ["query-id\tcorpus-id\tscore"]
    for number, (heading, text) in enumerate(sections(options.html).items()):
        corpus.append(json.dumps({"_id": f"d{number}", "title": "", "text": text}))
        if is_translated.search(heading):
            queries.append(json.dumps({"_id": f"q{number}", "text": heading}))
            judgements.append(f"q{number}\td{number}\t1")
    for name, lines in (("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels/test.tsv", judgements)):
        (options.output / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(corpus)} sections, {len(queries)} queries")


main()
