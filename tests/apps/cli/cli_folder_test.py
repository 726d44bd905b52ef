"""Files and folders as `search` reads them: text, Markdown and HTML, what is in a folder, and what is gone."""

import bz2
import gzip
import io
import lzma
import os
import pathlib
import sqlite3
import zipfile

import pytest

from cli_test import FIXTURES, longformer, run  # noqa: F401

MODELS = {"classify": "tiny_longformer_classifier", "ner": "tiny_bert_tagger", "qa": "tiny_longformer_qa"}
PASSAGES = ["--passage-tokens", 16]
PAGE = """<!doctype html><html><head><title>no title</title><style>p { x: a }</style></head><body>
<h1>a b</h1><p>c&nbsp;d <b>e</b>&amp;f<script>var a = "no script";</script><p>g
</body></html>"""
PAGE_TEXT = "a b\n\nc\u00a0d e&f\n\ng"
MARKDOWN = "# a b\n\nc [d](http://no/link) *e*\n\n- f\n- g <b>h</b>\n"
MARKDOWN_TEXT = "a b\n\nc d e\n\nf\ng h"


def zipped(*names):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in names:
            archive.writestr(name, text)
    return data.getvalue()


KINDS = {
    "an Excel table": zipped(("[Content_Types].xml", "<Types/>"), ("xl/workbook.xml", "<a/>")),
    "an EPUB book": zipped(("mimetype", "application/epub+zip"), ("content.opf", "<a/>")),
    "an OpenDocument file": zipped(("mimetype", "application/vnd.oasis.opendocument.spreadsheet"), ("content.xml", "<a/>")),
    "a zip archive": zipped(("a.txt", "a b")),
    # One is unpacked, and what is in it has to be text.
    "a gzip archive": gzip.compress(gzip.compress(b"a b")),
    "a bzip2 archive": bz2.compress(b"a b"),
    "an xz archive": lzma.compress(lzma.compress(b"a b")),
    "an RTF document": b"{\\rtf1\\ansi a b}",
    "an old office document": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
    "a PNG image": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "a JPEG image": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "a program": b"\x7fELF\2\1\1",
    "an SQLite database": b"SQLite format 3\0",
    "a Parquet file": b"PAR1\x15\4\x15\x10",
    "a git-lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n",
}


def search(model, folder, *arguments):
    return run("search", model, *arguments, "--query", "a", "--json", *PASSAGES, folder=folder)


def listed(folder, index="index"):
    return [row["file"] for row in run("search", "--index", index, "--list", "--json", folder=folder).works().json]


class TestFormats:
    def text(self, result):
        """Text that was read of a document of one passage."""
        (hit,) = result.works().json[0]["hits"]
        assert hit["begin"] == 0 and hit["end"] == len(hit["text"])
        return hit["text"]

    @pytest.mark.parametrize(
        "name, content, text",
        [("x.txt", PAGE[15:45], PAGE[15:45]), ("x.html", PAGE, PAGE_TEXT), ("x.HTM", PAGE, PAGE_TEXT),
         ("x", PAGE, PAGE_TEXT), ("x.md", MARKDOWN, MARKDOWN_TEXT), ("x.markdown", MARKDOWN, MARKDOWN_TEXT),
         ("x", "# a", "# a")],
    )  # fmt: skip
    def test_by_name(self, longformer, tmp_path, name, content, text):
        (tmp_path / name).write_text(content)
        assert self.text(run("search", longformer, tmp_path / name, "--query", "a", "--json")) == text

    def test_named(self, longformer, tmp_path):
        (tmp_path / "x.txt").write_text(MARKDOWN)
        flags = ["--query", "a", "--json", "--passage-tokens", 64]
        assert self.text(run("search", longformer, tmp_path / "x.txt", *flags, "--format", "markdown")) == MARKDOWN_TEXT
        assert self.text(run("search", longformer, tmp_path / "x.txt", *flags, "--format", "text")) == MARKDOWN.strip()
        run("search", longformer, tmp_path / "x.txt", "--query", "a", "--format", "pdf").fails(2, "--format", "pdf")
        run("search", longformer, tmp_path / "x.txt", "--query", "a", "--format", "html", "--lines").fails(2, "--lines")

    def test_stdin(self, longformer):
        assert self.text(run("search", longformer, "-", "--query", "a", "--json", stdin=PAGE)) == PAGE_TEXT

    def test_charsets(self, longformer, tmp_path):
        page = tmp_path / "x.html"
        page.write_bytes(b"<meta charset=iso-8859-1><p>a \xe9")
        assert self.text(run("search", longformer, page, "--query", "a", "--json")) == "a \u00e9"
        page.write_bytes("\ufeffa \u00e9".encode("utf-16-le"))
        assert self.text(run("search", longformer, page, "--query", "a", "--json")) == "a \u00e9"
        page.write_bytes(b"<meta charset=klingon><p>a")
        result = run("search", longformer, page, "--query", "a")
        assert result.code == 1 and f"{page}: charset: expected one that can become UTF-8, found klingon" in result.err

    def test_markup_that_changes_leaves_the_text(self, longformer, tmp_path):
        (tmp_path / "x.html").write_text("<p>a b")
        search(longformer, tmp_path, "x.html", "--index", "index").works()
        (tmp_path / "x.html").write_text("<div class=new>a  b</div>")
        flags = ["x.html", "--index", "index", "--query", "a", *PASSAGES]
        assert "0 documents read" in run("search", longformer, *flags, folder=tmp_path).works().out

    def test_binary_files_that_are_named_are_errors(self, longformer, tmp_path):
        (tmp_path / "x.bin").write_bytes(b"a\0b" * 100)
        (tmp_path / "y.txt").write_text("a b")
        result = search(longformer, tmp_path, "x.bin", "y.txt")
        assert result.code == 1 and "error: x.bin: expected text, found bytes 0" in result.err
        assert result.json[0]["documents"] == 1


class TestFilesThatAreNoText:
    """Files recognised by their first bytes are refused wherever documents are read."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_are_refused_by_name(self, longformer, tmp_path, kind):
        (tmp_path / "x.txt").write_bytes(KINDS[kind])
        (tmp_path / "y.txt").write_text("a b")
        result = search(longformer, tmp_path, "x.txt", "y.txt")
        assert result.code == 1 and f"error: x.txt: expected text, found {kind}" in result.err
        assert result.json[0]["documents"] == 1

    @pytest.mark.parametrize("verb, flags", [
        ("classify", []), ("ner", []), ("embed", []), ("tokenize", []), ("tokenize", ["--lines"]), ("qa", ["--question", "a"]),
        ("tokenize", ["--field", "text"]),
        ("tokenize", ["--encoding", "utf-16"]), ("tokenize", ["--encoding", "auto"])])  # fmt: skip
    def test_are_refused_by_every_verb(self, tmp_path, verb, flags):
        (tmp_path / "x.txt").write_bytes(KINDS["a PNG image"])
        result = run(verb, FIXTURES / MODELS.get(verb, "tiny_bert"), "x.txt", *flags, folder=tmp_path)
        assert result.code == 1 and result.out.strip() == "" and "x.txt: expected text, found a PNG image: tesseract" in result.err
        again = run(verb, FIXTURES / MODELS.get(verb, "tiny_bert"), *flags, stdin=KINDS["a gzip archive"])
        assert again.code == 1 and again.out.strip() == "" and "standard input: expected text, found a gzip archive" in again.err

    def test_are_refused_as_data(self, tmp_path):
        (tmp_path / "x.jsonl").write_bytes(KINDS["a gzip archive"])
        result = run("evaluate", FIXTURES / MODELS["classify"], "x.jsonl", folder=tmp_path)
        assert result.code != 0 and "x.jsonl: expected text, found a gzip archive" in result.err

    def test_texts_about_them_are_texts(self, longformer, tmp_path):
        for i, text in enumerate(["%PDF- begins a PDF a", "PK a", "BZh a", "GIF89a was", "PAR1 a", "Rar! a", "{a}", "MZ a", "BM a"]):
            (tmp_path / f"{i}.txt").write_text(text)
        assert search(longformer, tmp_path, *(f"{i}.txt" for i in range(9))).works().json[0]["documents"] == 9


class TestNames:
    """A document has one name, which leads to its file from every folder."""

    @pytest.fixture
    def tree(self, tmp_path):
        (tmp_path / "t/docs/sub").mkdir(parents=True)
        for name in ("docs/x.txt", "docs/sub/y.txt", "z.txt"):
            (tmp_path / "t" / name).write_text("a b " + name)
        return tmp_path / "t"

    def add(self, longformer, folder, *arguments):
        result = search(longformer, folder, *arguments)
        assert result.code == 0, result.err
        return result

    def test_do_not_depend_on_the_working_folder(self, longformer, tree):
        self.add(longformer, tree, "docs", "z.txt", "--index", "d.index")
        for folder, files in ((tree / "docs", ["."]), (tree, ["./docs/", tree / "docs"]), (tree / "docs/sub", ["..", "../../z.txt"]),
                              (tree.parent, ["t", "t/docs/x.txt"])):  # fmt: skip
            index = os.path.relpath(tree / "d.index", folder)
            assert self.add(longformer, folder, *files, "--index", index, "--prune").err == ""
            assert listed(tree, "d.index") == ["docs/sub/y.txt", "docs/x.txt", "z.txt"]
        assert listed(tree / "docs", "../d.index") == ["sub/y.txt", "x.txt", "../z.txt"]

    def test_are_paths_from_here(self, longformer, tree):
        self.add(longformer, tree / "docs", "x.txt", "--index", "../d.index")
        for folder in (tree, tree / "docs", tree / "docs/sub", tree.parent):
            index = os.path.relpath(tree / "d.index", folder)
            for arguments in ([longformer, "--index", index], ["--index", index, "--mode", "lexical"]):
                result = run("search", *arguments, "--query", "a", "--json", folder=folder).works()
                assert (folder / result.json[0]["hits"][0]["file"]).read_text() == "a b docs/x.txt"

    def test_one_file_is_one_document(self, longformer, tree):
        os.symlink("x.txt", tree / "docs/link.txt")
        os.symlink("docs", tree / "d")
        files = ["docs/x.txt", "./docs/../docs/x.txt", tree / "docs/x.txt", "docs/link.txt", "d/x.txt"]
        result = self.add(longformer, tree, *files, "--index", "d.index")
        assert result.json[0]["documents"] == 1
        for file in [*files, "docs"]:
            self.add(longformer, tree, file, "--index", "d.index")
        assert listed(tree, "d.index") == ["docs/sub/y.txt", "docs/x.txt"]
        assert self.add(longformer, tree, *files).json[0]["documents"] == 1

    def test_within_and_remove_follow_the_working_folder(self, longformer, tree):
        self.add(longformer, tree, "docs", "z.txt", "--index", "d.index")
        found = lambda folder, name: sorted(  # noqa: E731
            hit["file"] for hit in run("search", longformer, "--index", os.path.relpath(tree / "d.index", folder), "--within", name,
                                       "--query", "a", "--json", folder=folder).works().json[0]["hits"])  # fmt: skip
        assert found(tree / "docs", ".") == ["sub/y.txt", "x.txt"]
        assert found(tree / "docs", "sub") == ["sub/y.txt"]
        assert found(tree / "docs/sub", "../../z.txt") == ["../../z.txt"]
        assert found(tree / "docs", "../..") == found(tree / "docs", tree.parent) == ["../z.txt", "sub/y.txt", "x.txt"]
        run("search", "--index", "../d.index", "--remove", "sub", folder=tree / "docs").works()
        assert listed(tree, "d.index") == ["docs/x.txt", "z.txt"]
        run("search", "--index", "d.index", "--remove", "x.txt", folder=tree).fails(1, "no document or folder 'x.txt'")
        run("search", "--index", "../d.index", "--remove", tree.parent, folder=tree / "docs").works()
        assert listed(tree, "d.index") == []

    def test_move_with_the_folder_of_the_index(self, longformer, tree):
        self.add(longformer, tree, "docs", "z.txt", "--index", "d.index")
        tree.rename(tree.parent / "moved")
        moved = tree.parent / "moved"
        assert "0 documents read" in run("search", longformer, "docs", "z.txt", "--index", "d.index", "--query", "a", "--prune",
                                         *PASSAGES, folder=moved).works().out  # fmt: skip
        assert listed(moved, "d.index") == ["docs/sub/y.txt", "docs/x.txt", "z.txt"]

    def test_prune_takes_what_is_gone_from_everywhere(self, longformer, tree):
        self.add(longformer, tree, "docs", "z.txt", "--index", "d.index")
        (tree / "docs/sub/y.txt").unlink()
        result = search(longformer, tree / "docs", ".", "--index", "../d.index", "--prune")
        assert "note: gone from ., taken out of the index: sub/y.txt\n" in result.err
        assert listed(tree, "d.index") == ["docs/x.txt", "z.txt"]

    def test_lines_have_names_too(self, longformer, tree):
        self.add(longformer, tree / "docs", "x.txt", "--lines", "--index", "../d.index")
        assert self.add(longformer, tree, "docs", "--lines", "--index", "d.index", "--prune").err == ""
        assert listed(tree, "d.index") == ["docs/sub/y.txt:1", "docs/x.txt:1"]

    def test_of_an_older_index_are_not_pruned(self, longformer, tree):
        self.add(longformer, tree, "docs", "--index", "d.index")
        database = sqlite3.connect(tree / "d.index")
        database.execute("DELETE FROM settings WHERE name = 'names'")
        database.commit()
        database.close()
        search(longformer, tree / "docs", ".", "--index", "../d.index", "--prune").fails(2, "--prune", "make it anew")
        assert listed(tree, "d.index") == ["docs/sub/y.txt", "docs/x.txt"]


class TestFolders:
    @pytest.fixture
    def notes(self, tmp_path):
        """notes/ with files of all kinds; the folder that it is in."""
        for name in ["z.txt", "a.md", "B.HTML", "code.py", "README", "sub/c.txt", "sub/deep/d.txt", "drafts/e.txt",
                     ".hidden.txt", ".git/f.txt", "sub/drafts"]:  # fmt: skip
            path = tmp_path / "notes" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("a b " + name)
        return tmp_path

    def found(self, longformer, folder, *arguments):
        (folder / "index").unlink(missing_ok=True)
        result = search(longformer, folder, *arguments, "--index", "index")
        assert result.code == 0, result.err
        return [name.removeprefix("notes/") for name in listed(folder)]

    def test_are_walked(self, longformer, notes):
        expected = ["B.HTML", "a.md", "drafts/e.txt", "sub/c.txt", "sub/deep/d.txt", "z.txt"]
        assert self.found(longformer, notes, "notes") == expected
        assert self.found(longformer, notes, "./notes/") == expected
        assert self.found(longformer, notes, notes / "notes", "notes/z.txt") == expected
        assert self.found(longformer, notes / "notes", ".") == expected
        # Hits have the names that were given.
        (row,) = search(longformer, notes, notes / "notes" / "z.txt", "notes/a.md").works().json
        assert {hit["file"] for hit in row["hits"]} == {f"{notes}/notes/z.txt", "notes/a.md"}

    @pytest.mark.parametrize(
        "flags, expected",
        [(["--include", "*.py", "--include", "README"], ["README", "code.py"]),
         (["--include", "*.html"], []),
         (["--include", "*.txt", "--exclude", "drafts"], ["sub/c.txt", "sub/deep/d.txt", "z.txt"]),
         (["--include", "sub/*"], ["sub/c.txt", "sub/drafts"]),
         (["--include", "/*.txt"], ["z.txt"]),
         (["--include", "sub/**"], ["sub/c.txt", "sub/deep/d.txt", "sub/drafts"]),
         (["--include", "**/d*"], ["sub/deep/d.txt", "sub/drafts"]),
         (["--include", "*", "--exclude", "drafts/", "--exclude", "*.*"], ["README", "sub/drafts"]),
         (["--exclude", "sub/deep", "--exclude", "[a-z].*"], ["B.HTML"])],
    )  # fmt: skip
    def test_patterns(self, longformer, notes, flags, expected):
        (notes / "other.txt").write_text("a b")
        assert self.found(longformer, notes, "notes", "other.txt", *flags) == [*expected, "other.txt"]

    def test_nothing_that_matches(self, longformer, notes):
        result = search(longformer, notes, "notes", "--include", "*.rst")
        assert result.code == 1 and "note: notes: no files to read" in result.err and "no document" in result.err

    def test_patterns_are_for_folders(self, longformer, notes):
        for flag in ("--include", "--exclude"):
            search(longformer, notes, "notes/z.txt", flag, "*.md").fails(2, "--include", "folders")
        search(longformer, notes, "notes/z.txt", "--prune").fails(2, "--prune", "folders")

    def test_links_make_no_loops(self, longformer, notes):
        os.symlink("..", notes / "notes" / "sub" / "up")
        os.symlink("../code.py", notes / "notes" / "sub" / "link.txt")
        os.mkfifo(notes / "notes" / "pipe.txt")
        os.symlink("pipe.txt", notes / "notes" / "to_pipe.txt")
        found = self.found(longformer, notes, "notes")
        assert "sub/link.txt" in found and not [name for name in found if "up/" in name or "pipe" in name]

    def test_what_cannot_be_read_is_told(self, longformer, notes):
        os.symlink("nowhere", notes / "notes" / "lost.txt")
        result = search(longformer, notes, "notes")
        assert result.code == 1 and "error: notes/lost.txt: expected a readable file" in result.err
        assert result.json[0]["documents"] == 6

    def test_binary_files_are_told_and_left_out(self, longformer, notes):
        (notes / "notes" / "sub" / "x.txt").write_bytes(b"ab\0\1" * 50000)
        result = search(longformer, notes, "notes")
        assert result.code == 0 and result.json[0]["documents"] == 6
        assert result.err == "longformer: note: notes/sub/x.txt is left out: expected text, found bytes 0\n"
        for i in range(14):
            (notes / "notes" / f"x{i}.txt").write_bytes(b"\0")
        lines = search(longformer, notes, "notes").err.splitlines()
        assert len(lines) == 11 and lines[-1].endswith("5 more files that are no text were left out")

    def test_files_of_other_kinds_are_counted_and_listed(self, longformer, notes):
        for name in ("a.png", "sub/b.png", "c.txt"):
            (notes / "notes" / name).write_bytes(KINDS["a PNG image"])
        (notes / "notes/d.xlsx").write_bytes(KINDS["an Excel table"])
        result = search(longformer, notes, "notes")
        assert result.code == 0 and result.json[0]["documents"] == 6
        assert result.err == ("longformer: note: left out 4 files that are no text: 3 times a PNG image (notes/c.txt, notes/a.png, "
                              "notes/sub/b.png), an Excel table (notes/d.xlsx)\n")  # fmt: skip
        # Patterns leave files out on purpose.
        assert search(longformer, notes, "notes", "--include", "*.md").works().json[0]["documents"] == 1

    def test_within(self, longformer, notes):
        search(longformer, notes, "notes", "--index", "index").works()
        flags = ["--index", "index", "--query", "a", "--json", "--top-k", 50]
        for mode in ([longformer], ["--mode", "lexical"], [longformer, "--mode", "dense"]):
            (row,) = run("search", *mode, *flags, "--within", "notes/sub/", folder=notes).works().json
            assert {hit["file"] for hit in row["hits"]} == {"notes/sub/c.txt", "notes/sub/deep/d.txt"}
            (row,) = run("search", *mode, *flags, "--within", "notes/sub/deep", "--within", "notes/z.txt",
                         folder=notes).works().json  # fmt: skip
            assert {hit["file"] for hit in row["hits"]} == {"notes/z.txt", "notes/sub/deep/d.txt"}
        run("search", longformer, *flags, "--within", "notes/su", folder=notes).fails(1, "folder 'notes/su'")

    def test_remove(self, longformer, notes):
        search(longformer, notes, "notes", "--index", "index").works()
        run("search", "--index", "index", "--remove", "notes/sub", folder=notes).works()
        assert listed(notes) == ["notes/B.HTML", "notes/a.md", "notes/drafts/e.txt", "notes/z.txt"]
        run("search", "--index", "index", "--remove", "notes/sub", folder=notes).fails(1, "no document or folder")

    def test_documents_that_are_gone_stay_until_pruned(self, longformer, notes):
        flags = ["notes/sub", "--index", "index"]
        search(longformer, notes, "notes", "--index", "index").works()
        before = listed(notes)
        (notes / "notes/sub/c.txt").unlink()
        (notes / "notes/z.txt").unlink()
        result = search(longformer, notes, *flags)
        assert result.code == 0 and listed(notes) == before
        assert "note: gone from notes/sub, kept in the index: notes/sub/c.txt; --prune" in result.err
        # The documents left out now still have their files, and z.txt is not below that folder.
        result = search(longformer, notes, *flags, "--exclude", "deep", "--prune")
        assert result.code == 0 and "note: gone from notes/sub, taken out of the index: notes/sub/c.txt\n" in result.err
        assert listed(notes) == [name for name in before if name != "notes/sub/c.txt"]

    def test_lines_of_a_file_that_is_gone(self, longformer, notes):
        flags = ["notes", "--index", "index", "--lines", "--include", "[xz].txt"]
        (notes / "notes/x.txt").write_text("a b\nc d\n")
        search(longformer, notes, *flags).works()
        assert listed(notes) == ["notes/x.txt:1", "notes/x.txt:2", "notes/z.txt:1"]
        search(longformer, notes, *flags, "--prune").works()
        (notes / "notes/x.txt").unlink()
        assert "taken out of the index: notes/x.txt:1 and 1 more" in search(longformer, notes, *flags, "--prune").err
        assert listed(notes) == ["notes/z.txt:1"]

    def test_what_came_from_stdin_never_had_a_file(self, longformer, notes):
        run("search", longformer, "-", "--index", "index", "--query", "a", *PASSAGES, stdin="a b c", folder=notes)
        assert "standard input" in listed(notes)
        search(longformer, notes, ".", "--index", "index", "--prune")
        assert "standard input" in listed(notes)

    def test_a_folder_in_the_place_of_a_file(self, longformer, notes):
        search(longformer, notes, "notes", "--index", "index").works()
        (notes / "notes/z.txt").unlink()
        (notes / "notes/z.txt").mkdir()
        assert "taken out of the index: notes/z.txt" in search(longformer, notes, "notes", "--index", "index", "--prune").err

    def test_a_second_run_reads_what_is_new(self, longformer, notes):
        flags = ["notes", "--index", "index", "--query", "a", *PASSAGES]
        assert "6 documents read" in run("search", longformer, *flags, folder=notes).works().out
        (notes / "notes/z.txt").write_text("b c")
        (notes / "notes/new.txt").write_text("c d")
        out = run("search", longformer, *flags, folder=notes).works().out
        assert "7 documents, " in out and "2 documents read" in out

    def test_spans_are_those_of_the_text_that_was_read(self, longformer, notes):
        (notes / "notes/page.html").write_text("<p>a b</p>" + "<p>c <i>d</i></p>" * 40)
        read = "\n\n".join(["a b"] + ["c d"] * 40)
        (row,) = search(longformer, notes, "notes/page.html", "--top-k", 50).works().json
        assert len(row["hits"]) > 1
        assert all(hit["text"] == read[hit["begin"]:hit["end"]] for hit in row["hits"])
