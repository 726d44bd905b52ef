"""Compares the text of documents with that of the packages that wrote them.

    python3 tests/parity/documents_parity.py [--count N] [--seed N]

Documents of words in several scripts are drawn: Word documents by python-docx, OpenDocument texts by odfpy,
EPUB books by EbookLib, PDFs by reportlab. Each is read by longformer_cpp.read_document, by the package itself
where it reads, and compared with what was drawn: lines, without empty ones and white space at their ends.
PDFs are left out where there is no pdftotext. Exit code 1 when anything differs.
"""

import argparse
import html
import itertools
import pathlib
import random
import shutil
import sys
import tempfile

import docx
import ebooklib
import longformer_cpp
import odf.draw
import odf.opendocument
import odf.table
import odf.teletype
import odf.text
import reportlab.pdfgen.canvas
from docx.oxml import OxmlElement
from ebooklib import epub

WORDS = ["the", "mill", "Fluß", "été", "приве́т", "γειά", "東京", "ไทย", "a&b", "<tag>", "«quote»", "№", "x²", "\U0001f600", "e\u0301"]
LATIN = ["the", "mill", "stands", "by", "river", "and", "wheel", "turns", "stone", "grinds", "corn", "all", "day"]


def lines_of(text):
    lines = (line.rstrip().strip(" ") for line in text.split("\n"))
    return [line for line in lines if line.strip()]


def words(draw, most=12, among=WORDS):
    return " ".join(draw.choice(among) for _ in range(draw.randint(1, most)))


class Word:
    name = "python-docx"
    suffix = ".docx"

    def draw(self, draw, path):
        document = docx.Document()
        truth = []
        for _ in range(draw.randint(1, 12)):
            kind = draw.random()
            if kind < 0.2:
                truth += self.table(draw, document)
            elif kind < 0.3:
                truth.append(document.add_heading(words(draw), draw.randint(1, 3)).text)
            else:
                truth += self.paragraph(draw, document.add_paragraph())
        document.sections[0].header.paragraphs[0].text = "not read"
        document.save(path)
        return truth

    def paragraph(self, draw, paragraph):
        text = ""
        for _ in range(draw.randint(0, 5)):
            piece = draw.choice([words(draw), words(draw) + " ", "\t", "\n", " ", ""])
            kind = draw.random()
            run = paragraph.add_run(piece)
            run.bold = draw.random() < 0.3
            if kind < 0.1:
                wrapper = OxmlElement("w:ins")
                run._r.addprevious(wrapper)
                wrapper.append(run._r)
            elif kind < 0.2:
                wrapper = OxmlElement("w:del")
                run._r.addprevious(wrapper)
                wrapper.append(run._r)
                continue
            text += piece
        return text.split("\n")

    def table(self, draw, document):
        rows, columns = draw.randint(1, 4), draw.randint(1, 4)
        table = document.add_table(rows, columns)
        lines = []
        for row in table.rows:
            cells = [words(draw, 3) if draw.random() < 0.8 else "" for _ in range(columns)]
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
            lines.append("\t".join(cells))
        return lines

    def read(self, path):
        """Runs in w:ins are no text for python-docx."""
        document = docx.Document(path)
        if document.element.body.xpath(".//w:ins"):
            return None
        lines = []
        for block in document.iter_inner_content():
            if hasattr(block, "rows"):
                lines += ["\t".join(cell.text for cell in row.cells) for row in block.rows]
            else:
                lines += block.text.split("\n")
        return lines


class OpenDocument:
    name = "odfpy"
    suffix = ".odt"

    def draw(self, draw, path):
        document = odf.opendocument.OpenDocumentText()
        truth = []
        for _ in range(draw.randint(1, 12)):
            kind = draw.random()
            text = words(draw)
            if kind < 0.2:
                rows = [[words(draw, 3) for _ in range(draw.randint(1, 3))] for _ in range(draw.randint(1, 3))]
                table = odf.table.Table()
                for row in rows:
                    element = odf.table.TableRow()
                    for cell in row:
                        holder = odf.table.TableCell()
                        holder.addElement(odf.text.P(text=cell))
                        element.addElement(holder)
                    table.addElement(element)
                    truth.append("\t".join(row))
                document.text.addElement(table)
            elif kind < 0.3:
                document.text.addElement(odf.text.H(outlinelevel=1, text=text))
                truth.append(text)
            else:
                text = draw.choice(["", "  "]).join([text, words(draw), "\t", words(draw), "\n", words(draw)][: draw.randint(1, 6)])
                paragraph = odf.text.P()
                odf.teletype.addTextToElement(paragraph, text)
                document.text.addElement(paragraph)
                truth += text.split("\n")
        document.save(path)
        return truth

    def read(self, path):
        document = odf.opendocument.load(path)
        if document.getElementsByType(odf.table.Table):
            return None
        return [line for element in document.text.childNodes for line in odf.teletype.extractText(element).split("\n")]


class Book:
    name = "EbookLib"
    suffix = ".epub"

    def draw(self, draw, path):
        book = epub.EpubBook()
        book.set_title("drawn")
        truth, chapters = [], []
        for i in range(draw.randint(1, 6)):
            lines = [words(draw) for _ in range(draw.randint(1, 5))]
            page = epub.EpubHtml(title="t", file_name=f"{draw.choice(['', 'text/', 'a b/'])}{i} ü.xhtml")
            page.content = "<html><body>" + "".join(f"<p>{html.escape(line)}</p>" for line in lines) + "</body></html>"
            book.add_item(page)
            chapters.append(page)
            truth += lines
        book.add_item(epub.EpubNcx())
        book.add_item(epub.EpubNav())
        book.spine = ["nav", *chapters]
        book.toc = chapters
        epub.write_epub(path, book)
        return truth

    def read(self, path):
        book = epub.read_epub(path)
        lines = []
        for identity, _ in book.spine:
            item = book.get_item_with_id(identity)
            if identity == "nav" or item is None or item.get_type() != ebooklib.ITEM_DOCUMENT:
                continue
            text = item.get_body_content().decode()
            lines += [html.unescape(line) for line in text.replace("</p>", "").split("<p>")]
        return lines


class Pdf:
    name = "reportlab"
    suffix = ".pdf"

    def draw(self, draw, path):
        canvas = reportlab.pdfgen.canvas.Canvas(str(path))
        truth = []
        for _ in range(draw.randint(1, 5)):
            # A line of its own is a paragraph, so nothing is joined.
            for i in range(draw.randint(0, 8)):
                line = words(draw, 8, LATIN)
                canvas.drawString(72, 760 - 60 * i, line)
                truth.append(line)
            canvas.showPage()
        if not truth:
            canvas.drawString(72, 760, "the")
            truth.append("the")
        canvas.save()
        return truth

    def read(self, path):
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="documents of each kind")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    kinds = [Word(), OpenDocument(), Book()] + ([Pdf()] if shutil.which("pdftotext") else [])
    failed = 0
    print(f"{'documents of':<14} {'drawn':>6} {'read by it':>10} {'lines':>7} {'different':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            draw = random.Random(f"{options.seed} {kind.name}")
            lines = different = read = 0
            for i in range(options.count):
                path = pathlib.Path(folder) / f"{i}{kind.suffix}"
                truth = lines_of("\n".join(kind.draw(draw, path)))
                ours = lines_of(longformer_cpp.read_document(path))
                theirs = kind.read(path)
                read += theirs is not None
                lines += len(truth)
                wanted = [truth] + ([] if theirs is None else [lines_of("\n".join(theirs))])
                if any(ours != one for one in wanted):
                    different += 1
                    if different <= 3:
                        pairs = [(a, b) for one in wanted for a, b in itertools.zip_longest(ours, one) if a != b]
                        print(f"{path.name}: {pairs[0][0]!r}, expected {pairs[0][1]!r}")
            failed += different
            print(f"{kind.name:<14} {options.count:>6} {read:>10} {lines:>7} {different:>10}")
    print(f"documents: {failed} different")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
