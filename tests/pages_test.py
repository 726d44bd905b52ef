"""Pages of experiments: their tables are those of the reports, and sentences name only rows, figures and files that are there."""

import importlib.util
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PLACED = re.compile(r"<!-- (?!end )(?P<name>[^>]+?) -->\n(?P<body>.*?)<!-- end -->", re.DOTALL)
REPORTS = {"results.md": "paper", "compare.md": "compare"}
#: Quoted words that are no rows: of papers, of labels, of the settings of the text.
WORDS = {
    "results.md": {"no dilation", "updates", "true", "split", "extended", "longest", "staged", "drawn", "shown", "against", "not shown", "p (holm)",
                   "the word after each name"},
    "compare.md": {"dilated", "and"},
}  # fmt: skip

#: Files of other projects, and of rows that nobody has run.
OF_OTHERS = {"tests/models/longformer/test_modeling_longformer.py", "docs/results/edges.jsonl"}


def load(folder):
    sys.path.insert(0, str(ROOT / "experiments" / folder))
    spec = importlib.util.spec_from_file_location(f"{folder}_report", ROOT / "experiments" / folder / "report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.save = lambda figure, name: module.plt.close(figure)
    return module


@pytest.mark.parametrize("page", REPORTS)
def test_tables_are_those_of_the_report(page):
    """Nobody writes a table by hand, and no line of docs/results waits for the report."""
    report, text = load(REPORTS[page]), (DOCS / page).read_text(encoding="utf-8")
    placed = {match["name"]: match["body"].strip("\n") for match in PLACED.finditer(text)}
    made = {name: make() for name, make in report.TABLES.items()}
    assert placed.keys() == made.keys()
    for name, body in made.items():
        assert placed[name] == body, f"{page}: {name}: run experiments/{REPORTS[page]}/report.py"


def cells(text):
    """First cells and heads of the tables of a section, in lower case."""
    found, lines = set(), text.splitlines()
    for line, after in zip(lines, [*lines[1:], ""]):
        if line.startswith("|"):
            row = [cell.strip().lower() for cell in line.strip("|").split("|")]
            found.update(row if after.startswith(("|---", "| ---")) else row[:2])
    return found


def is_named(name, known):
    """A cell, or a part of one between commas."""
    return any(cell == name or cell.startswith(f"{name},") or cell.endswith(f", {name}") for cell in known)


@pytest.mark.parametrize("page", REPORTS)
def test_rows_that_sentences_name_are_in_a_table(page):
    """A row is named in quotation marks or italics; it stands in a table of its section, or it is another section of the page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    headings = {found.lower() for found in re.findall(r"^#+ (.+)$", text, re.M)}
    for section in re.split(r"^(?=## )", text, flags=re.M)[1:]:
        rows = cells(section)
        prose = re.sub(r"^(\||    |!\[|\*Figure).*$", "", PLACED.sub("", section), flags=re.M)
        prose = re.sub(r"\*\*.*?\*\*", "", prose, flags=re.DOTALL)
        for name in re.findall(r'"([^"\n]+)"', prose) + re.findall(r"(?<![*\w])\*([^*\n]+)\*(?!\*)", prose):
            plain = name.strip().rstrip(":.").lower()
            assert is_named(plain, rows) or plain in headings or plain in WORDS[page], f"{page}: {section.splitlines()[0]}: {name}"


def every_page():
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def test_figures_are_shown_and_shown_figures_exist():
    text = "\n".join(page.read_text(encoding="utf-8") for page in every_page())
    shown = set(re.findall(r"figures/([\w-]+\.\w+)", text))
    assert shown == {path.name for path in (DOCS / "figures").iterdir()}


@pytest.mark.parametrize("page", every_page(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_scripts_and_results_that_pages_name_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in set(re.findall(r"(?<![\w./])((?:experiments|bench|tools|tests|examples)/[\w./-]+\.(?:py|sh|json|cc|md))\b", text)):
        assert (ROOT / name).exists() or name in OF_OTHERS, name
    for name in set(re.findall(r"(?<![\w./])(docs/results/[\w-]+\.jsonl)", text)):
        assert (ROOT / name).exists() or name in OF_OTHERS, name


@pytest.mark.parametrize("page", every_page(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_figures_lead_to_some(page):
    """A link called "figures" leads to a section with a table or a picture."""
    for name, anchor in re.findall(r"\[figures\]\(([\w./-]*\.md)(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")):
        text = (page.parent / name).read_text(encoding="utf-8")
        if anchor:
            sections = re.split(r"^(?=#)", text, flags=re.M)
            text = next(part for part in sections if re.sub(r"[^\w\- ]", "", part.split("\n")[0].lstrip("# ").lower()).replace(" ", "-") == anchor)
        assert re.search(r"^\||!\[", text, re.M), f"{page.name}: {name}#{anchor}"
