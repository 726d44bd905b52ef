#!/usr/bin/env python3
"""Checks that every link between files of the tree leads somewhere.

Three kinds of places are read:

- links of Markdown files, also those of the forms `[name]: target`, `href="target"` and `src="target"`;
- citations in any text file, from the root of the tree: `docs/spec/encoder.md` with `#a3` behind it, or
  `#a3, #a5`, `#a3 to #a5`, `#a3 and #a5` (in tests only in comments, as their strings name files that they make);
- other names of Markdown files in comments and docstrings of sources, from the root or the source's folder
  (a docstring's indented lines are commands, which name files that they make).

An anchor is an id of HTML (`<a id="a3">`) or what GitHub makes of a heading. Addresses of the web are
not followed. Usage: check_links.py [ROOT]. Prints one line per breach and exits 1 when there is one.
"""

import functools
import pathlib
import re
import sys
import urllib.parse

from check_rules import DATA_FOLDERS, tree_files
from comments import CPP, HASH, HASH_NAMES, comments, line_of

FENCE = re.compile(r"^ {0,3}(```+|~~~+).*?^ {0,3}\1[ \t]*$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"(?:\A|(?<=\n\n)) {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
ATTRIBUTE = re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src)=\"([^\"]*)\"")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
IDENTIFIER = re.compile(r"<[a-z]+\b[^>]*?\b(?:id|name)=\"([^\"]+)\"")

ANCHORS = r"#[\w-]+(?:(?:,| to| and)(?:\s|//+|#(?=\s))+#[\w-]+)*"
CITATION = re.compile(rf"(?<![\w./-])(docs/[\w./-]*\.md)({ANCHORS})?")
NAMED = re.compile(r"(?<![\w./#*{}-])[\w./-]+\.md\b(?:#[\w-]+)?")


def blank(match):
    """Keeps the line breaks, so that lines still count."""
    return "\n" * match[0].count("\n")


def slug(heading):
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"<[^>]*>", "", heading)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@functools.cache
def anchors(path):
    """All anchors of a Markdown file."""
    text = FENCE.sub(blank, path.read_text(encoding="utf-8"))
    found = set(IDENTIFIER.findall(CODE.sub(blank, text)))
    seen = {}
    for heading in HEADING.findall(text):
        name = slug(heading)
        number = seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{number}" if number else name)
    return found


class Checker:
    """Collects the breaches of a tree."""

    def __init__(self, root):
        self.root = root
        self.breaches = []

    def check(self, where, target, folders):
        """`target` must be a file below one of the folders, and have the anchor behind its #."""
        name, _, anchor = target.partition("#")
        name = urllib.parse.unquote(name)
        paths = [(folder / name.lstrip("/")).resolve() for folder in folders] if name else folders
        found = next((path for path in paths if path.exists() and path.is_relative_to(self.root)), None)
        if found is None:
            self.breaches.append(f"{where}: {target}: there is no such file")
        elif anchor and found.suffix == ".md" and anchor not in anchors(found):
            self.breaches.append(f"{where}: {target}: the file has no such anchor")

    def markdown(self, path, name, text):
        """Links of a Markdown file, which are seen from its folder."""
        text = CODE.sub(blank, FENCE.sub(blank, text))
        for pattern in (LINK, REFERENCE, ATTRIBUTE):
            for match in pattern.finditer(text):
                target = match[1]
                if not target or re.match(r"[a-z][a-z0-9+.-]*:|//", target, re.IGNORECASE):
                    continue
                folder = path if target.startswith("#") else self.root if target.startswith("/") else path.parent
                self.check(f"{name}:{line_of(text, match.start())}", target, [folder])

    def citations(self, path, name, text):
        """Paths below docs/, wherever they stand, and other names of Markdown files in comments."""
        remarks = comments(path, text)
        # A link of Markdown to docs/ is one of the above.
        whole = LINK.sub(blank, text) if path.suffix == ".md" else text
        for first, part in remarks if name.startswith("tests/") else [(1, whole)]:
            for match in CITATION.finditer(part):
                for anchor in re.findall(r"#[\w-]+", match[2] or "") or [""]:
                    self.check(f"{name}:{first + line_of(part, match.start()) - 1}", match[1] + anchor, [self.root])
        for first, part in remarks:
            for match in NAMED.finditer(part):
                if not CITATION.match(match[0]):
                    line = first + line_of(part, match.start()) - 1
                    self.check(f"{name}:{line}", match[0], [self.root, path.parent])

    def file(self, path, name):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            self.markdown(path, name, text)
        self.citations(path, name, text)


def check_tree(root):
    """All breaches of a tree."""
    root = pathlib.Path(root).resolve()
    checker = Checker(root)
    texts = CPP | HASH | {".md", ".py", ".pyi"}
    for path in sorted(tree_files(root)):
        name = path.relative_to(root).as_posix()
        is_data = any(part in DATA_FOLDERS for part in path.relative_to(root).parts)
        is_text = path.suffix in texts or path.name in HASH_NAMES
        if path.is_file() and is_text and not (is_data and path.suffix != ".py"):
            checker.file(path, name)
    return checker.breaches


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    breaches = check_tree(root)
    print("\n".join(breaches), end="\n" if breaches else "")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
