"""Documents as they come: PDF, Word, OpenDocument and EPUB in files and folders, by every verb that takes documents;
places of hits and answers; files that are broken, locked or hostile."""

import contextlib
import io
import json
import os
import shutil
import sqlite3
import struct
import sys
import zipfile

import longformer_cpp
import pytest

from cli_test import FIXTURES, longformer, run  # noqa: F401

sys.path.insert(0, str(FIXTURES))
import make_documents as make  # noqa: E402

DOCUMENTS = FIXTURES / "documents"
#: Files, words of them, and the place of these.
FILES = {
    "harbour.docx": ("Ingrid", {"unit": "paragraph", "first": 7, "last": 7}),
    "mill.odt": ("Otto", {"unit": "paragraph", "first": 7, "last": 7}),
    "animals.epub": ("Minka", {"unit": "chapter", "first": 2, "last": 2}),
    "pages.pdf": ("plums", {"unit": "page", "first": 3, "last": 3}),
}
MODELS = {"classify": ["tiny_longformer_classifier", "--truncate"], "ner": ["tiny_bert_tagger", "--truncate"],
          "qa": ["tiny_longformer_qa", "--truncate", "--question", "a"], "embed": ["tiny_bert", "--truncate"],
          "tokenize": ["tiny_bert"]}  # fmt: skip
PASSAGES = ["--passage-tokens", 16]
needs_pdftotext = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext")


def file_parameters():
    return [pytest.param(name, marks=[needs_pdftotext] if name.endswith(".pdf") else []) for name in FILES]


def zipped(parts, **more):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, **more) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return data.getvalue()


def word(body, **parts):
    return zipped(make.word_parts(body) | parts)


def call(verb, *arguments, **more):
    model, *flags = MODELS[verb]
    return run(verb, FIXTURES / model, *flags, *arguments, "--json", **more)


def search(model, folder, *arguments, **more):
    return run("search", model, *arguments, "--json", *PASSAGES, folder=folder, **more)


class TestFiles:
    @pytest.mark.parametrize("name", file_parameters())
    def test_hits_say_where_they_are(self, longformer, tmp_path, name):
        word, place = FILES[name]
        for flags in (["--index", "index"], []):
            (row,) = search(longformer, tmp_path, DOCUMENTS / name, "--query", word, *flags).works().json
            (hit,) = [hit for hit in row["hits"] if word in hit["text"]]
            assert place["first"] >= hit["place"]["first"] and place["last"] <= hit["place"]["last"]
            assert list(hit)[:4] == ["file", "begin", "end", "place"]
        said = run("search", longformer, DOCUMENTS / name, "--query", word, *PASSAGES).works().out
        assert place["unit"] in said
        # From the index, without the file and a model.
        (row,) = run("search", "--index", "index", "--mode", "lexical", "--query", word, "--json", folder=tmp_path).works().json
        assert row["hits"][0]["place"]["unit"] == place["unit"]

    def test_texts_have_no_places(self, longformer, tmp_path):
        (tmp_path / "a.txt").write_text("a b")
        (row,) = search(longformer, tmp_path, "a.txt", "--query", "a").works().json
        assert "place" not in row["hits"][0]

    def test_a_changed_document_has_its_new_places(self, longformer, tmp_path):
        for text, number in (("a b", 2), ("a b\n", 3)):
            (tmp_path / "a.docx").write_bytes(word(make.paragraph("c") * (number - 1) + make.paragraph("a b d")))
            flags = ["--index", "i", "--query", "d", "--passage-tokens", 4, "--json"]
            (row,) = run("search", longformer, "a.docx", *flags, folder=tmp_path).works().json
            assert row["hits"][0]["place"]["last"] == number

    def test_answers_say_where_they_are(self, tmp_path):
        (row,) = call("qa", DOCUMENTS / "mill.odt").works().json
        place = row["answers"][0]["place"]
        assert place["unit"] == "paragraph" and 1 <= place["first"] <= place["last"] <= 8
        (row,) = call("qa", DOCUMENTS / "mill.odt", "--best").works().json
        assert row["answers"][0]["place"] == place

    def rows(self, result):
        """Notes say that a text was cut."""
        assert result.code == 0, result.err
        return result.json

    @pytest.mark.parametrize("way", ["folder", "index"])
    def test_answers_of_a_search_say_where_they_are(self, tmp_path, longformer, way):
        """Those of a whole document and those of a search that finds it have the same places."""
        reader, question = FIXTURES / "tiny_longformer_qa", ["--question", "Who is Minka?", "--json"]
        shutil.copy(DOCUMENTS / "animals.epub", tmp_path)
        run("search", longformer, ".", "--index", "i", "--query", "a", *PASSAGES, folder=tmp_path).works()
        source = ["."] if way == "folder" else ["--index", "i", "--embedder", longformer]
        flags = ["--retrieve", 2, "--around", 10, "--top-k", 3]
        (found,) = run("qa", reader, *source, *flags, *question, folder=tmp_path).works().json
        (hits,) = search(longformer, tmp_path, "animals.epub", "--query", "a", "--top-k", 100).works().json
        for one in found["answers"] + found["read"]:
            assert one["place"]["unit"] == "chapter" and 1 <= one["place"]["first"] <= one["place"]["last"]
            inside = [hit["place"] for hit in hits["hits"] if hit["begin"] <= one["begin"] and one["end"] <= hit["end"]]
            assert all(place["first"] <= one["place"]["first"] and one["place"]["last"] <= place["last"] for place in inside)

    @pytest.mark.parametrize("verb", MODELS)
    def test_every_verb_reads_them(self, tmp_path, verb):
        names = [name for name in FILES if shutil.which("pdftotext") or not name.endswith(".pdf")]
        rows = self.rows(call(verb, *(DOCUMENTS / name for name in names)))
        assert [row["file"] for row in rows] == [str(DOCUMENTS / name) for name in names]
        # A folder stands for its documents, and a pipe for a file.
        shutil.copytree(DOCUMENTS, tmp_path / "folder")
        (tmp_path / "folder/a.txt").write_text("a b")
        found = self.rows(call(verb, "folder", folder=tmp_path))
        assert [row["file"] for row in found] == [f"folder/{name}" for name in sorted([*names, "a.txt"])]
        piped = self.rows(call(verb, stdin=(DOCUMENTS / "mill.odt").read_bytes()))
        same = rows[names.index("mill.odt")]
        assert {k: v for k, v in piped[0].items() if k != "file"} == {k: v for k, v in same.items() if k != "file"}

    def test_bytes_decide_and_not_names(self, longformer, tmp_path):
        for name in ("a", "a.txt", "a.html", "a.odt"):
            shutil.copy(DOCUMENTS / "harbour.docx", tmp_path / name)
            (row,) = search(longformer, tmp_path, name, "--query", "Ingrid").works().json
            assert "Ingrid" in row["hits"][0]["text"]

    def test_folders_without_documents(self, tmp_path):
        (tmp_path / "folder").mkdir()
        result = call("embed", "folder", folder=tmp_path)
        assert result.code == 1 and "folder: expected a folder with documents, found none" in result.err


class TestTraining:
    """A training reads documents as the verbs do: folders of classes, and texts of a masked LM."""

    @pytest.fixture
    def classes(self, tmp_path):
        """The same texts as documents and as .txt files."""
        for n, name in enumerate(FILES):
            if name.endswith(".pdf"):
                continue
            for kind in ("asis", "text"):
                (tmp_path / kind / "ab"[n % 2] / "deep").mkdir(parents=True, exist_ok=True)
            shutil.copy(DOCUMENTS / name, tmp_path / "asis" / "ab"[n % 2] / "deep")
            text = longformer_cpp.read_document(DOCUMENTS / name)
            (tmp_path / "text" / "ab"[n % 2] / "deep" / (name + ".txt")).write_text(text)
        return tmp_path

    def losses(self, folder, data, *flags):
        run("finetune", FIXTURES / "tiny_bert", data, "--task", "classify", "--truncate", "--output-dir", f"out-{data}", "--max-steps", 3,
            "--quiet", *flags, folder=folder).works()
        rows = [json.loads(line) for line in (folder / f"out-{data}" / "log.jsonl").read_text().splitlines()]
        return [row["loss"] for row in rows if "loss" in row]

    def test_folders_of_classes(self, classes):
        assert self.losses(classes, "asis") == self.losses(classes, "text") != []
        rows = {data: run("evaluate", "out-asis", data, "--truncate", "--json", "--quiet", folder=classes).works().json[-1] for data in ("asis", "text")}
        assert rows["asis"]["metrics"] == rows["text"]["metrics"] and rows["asis"]["examples"] == 3

    def test_texts_of_a_masked_lm(self, classes):
        model = FIXTURES / "tiny_roberta"
        said = [run("evaluate", model, data, "--task", "mlm", "--json", "--quiet", folder=classes).works().json[-1]["metrics"] for data in ("asis", "text")]
        assert said[0] == said[1]
        for data in ("asis", "text"):
            run("pretrain-mlm", model, data, "--output-dir", f"lm-{data}", "--max-steps", 2, "--quiet", folder=classes).works()
        assert (classes / "lm-asis" / "model.safetensors").read_bytes() == (classes / "lm-text" / "model.safetensors").read_bytes()

    def test_broken_documents(self, classes):
        (classes / "asis" / "a" / "cut.docx").write_bytes((DOCUMENTS / "harbour.docx").read_bytes()[:300])
        for verb in (["finetune", FIXTURES / "tiny_bert", "asis", "--task", "classify", "--truncate", "--output-dir", "o"],
                     ["evaluate", FIXTURES / "tiny_roberta", "asis", "--task", "mlm"], ["pretrain-mlm", FIXTURES / "tiny_roberta", "asis", "--output-dir", "p", "--max-steps", 1]):  # fmt: skip
            said = run(*verb, folder=classes).fails(1, "cut.docx: ", "cut short", "--skip-invalid")
            assert said.err.splitlines()[-1].count("cut.docx") == 1
            done = run(*verb, "--skip-invalid", folder=classes)
            assert done.code == 0 and "left out 1 broken" in done.err, done.err
        (classes / "none").mkdir()
        run("pretrain-mlm", FIXTURES / "tiny_roberta", "none", "--output-dir", "q", folder=classes).fails(1, "none: expected documents")
        run("finetune", FIXTURES / "tiny_bert", "none", "--task", "classify", "--output-dir", "q", folder=classes).fails(1, "none: expected a folder of documents for each class")


    def test_what_is_left_out_is_told(self, classes):
        """Hidden folders are no classes; other files are named; a class whose name is no text ends the training before it begins."""
        for name in (".git", "__MACOSX"):
            (classes / "asis" / name).mkdir()
            (classes / "asis" / name / "c.txt").write_text("x")
        (classes / "asis" / "a" / "old.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
        (classes / "asis" / "notes.txt").write_text("x")
        verb = ["finetune", FIXTURES / "tiny_bert", "asis", "--task", "classify", "--truncate", "--max-steps", 1, "--output-dir", "o"]
        said = run(*verb, folder=classes)
        assert said.code == 0 and "labels: a, b" in said.err and "asis/a/old.doc" in said.err and "asis/notes.txt" in said.err
        mlm = run("pretrain-mlm", FIXTURES / "tiny_roberta", "asis", "--output-dir", "q", "--max-steps", 1, folder=classes)
        assert mlm.code == 0 and "asis/a/old.doc" in mlm.err
        os.mkdir(os.fsencode(classes / "asis") + b"/k\xff")
        run(*verb[:-1], "p", folder=classes).fails(1, "asis: expected names of classes in UTF-8")


class TestBroken:
    """One clear line each; the other files are read."""

    def cases(self):
        ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
        good = word(make.paragraph("a b"))
        wrong = bytearray(good)
        with zipfile.ZipFile(io.BytesIO(good)) as archive:
            info = archive.getinfo("word/document.xml")
        wrong[wrong.rindex(b"PK\1\2", 0, wrong.rindex(b"word/document.xml")) + 16] ^= 1
        bomb = word(make.paragraph("a" * (40 << 20)))
        deep = word("<w:sdt>" * 5000 + make.paragraph("a") + "</w:sdt>" * 5000)
        manifest = '<manifest:manifest xmlns:manifest="m"><manifest:file-entry><manifest:encryption-data/></manifest:file-entry></manifest:manifest>'
        rights = ("<encryption><EncryptedData><EncryptionMethod Algorithm='x'/><CipherData><CipherReference URI='OEBPS/one.xhtml'/>"
                  "</CipherData></EncryptedData></encryption>")  # fmt: skip
        book = make.book_parts([("one", "OEBPS/one.xhtml", "one.xhtml", "yes", "", make.page("a"))], {"META-INF/encryption.xml": rights})
        assert info.file_size > 0
        return {
            "cut.docx": (good[: len(good) // 2], "the file is cut short"),
            "sum.docx": (bytes(wrong), "expected data that fit their checksum, found others"),
            "bomb.docx": (bomb, "times as many"),
            "deep.docx": (deep, "elements within each other"),
            "body.docx": (zipped({"_rels/.rels": make.relationships({"officeDocument": "a.xml"}), "a.xml": "<a/>"}), "expected a body"),
            "xml.docx": (word("<w:p>"), "expected XML"),
            "text.docx": (b"a b", "expected a Word document, as its name says, found text"),
            "page.pdf": (b"<html>Log in", "expected a PDF, as its name says, found an HTML page"),
            "lock.docx": (ole + "EncryptedPackage".encode("utf-16-le"), "found one with a password"),
            "lock.odt": (zipped(make.open_parts("") | {"META-INF/manifest.xml": manifest}), "found one with a password"),
            "lock.epub": (zipped(book), "rights of a shop"),
            "old.doc": (ole, "an old office document"),
            "old.rtf": (b"{\\rtf1\\ansi a}", "an RTF document"),
            "zip.docx": (zipped({"a.txt": "a"}), "found a zip archive"),
        }

    def test_are_told_and_the_others_are_read(self, tmp_path):
        cases = self.cases()
        for name, (data, _) in cases.items():
            (tmp_path / name).write_bytes(data)
        (tmp_path / "good.docx").write_bytes(word(make.paragraph("a b")))
        result = call("tokenize", *sorted([*cases, "good.docx"]), folder=tmp_path)
        assert result.code == 1
        rows = {row["file"]: row for row in result.json}
        assert "error" not in rows["good.docx"] and len(rows) == len(cases) + 1
        lines = result.err.splitlines()
        for name, (_, reason) in cases.items():
            (line,) = [line for line in lines if f"error: {name}: " in line]
            assert reason in line, line
            assert reason in rows[name]["error"]
        assert "documents were not read: " in lines[-1] and " damaged" in lines[-1] and "3 locked" in lines[-1], lines[-1]

    def test_in_folders_what_has_no_text_is_a_note(self, tmp_path):
        (tmp_path / "folder").mkdir()
        for name, (data, _) in self.cases().items():
            (tmp_path / "folder" / name).write_bytes(data)
        (tmp_path / "folder/good.docx").write_bytes(word(make.paragraph("a b")))
        result = call("tokenize", "folder", folder=tmp_path)
        assert result.code == 1
        assert "note: folder/text.docx is left out: expected a Word document" in result.err
        assert "error: folder/cut.docx: " in result.err
        assert ("left out 3 files that are no text: a zip archive (folder/zip.docx), an RTF document (folder/old.rtf), "
                "an old office document (.doc, .xls, .ppt) (folder/old.doc)") in result.err  # fmt: skip
        assert [row["file"] for row in result.json if "error" not in row] == ["folder/good.docx"]

    def test_a_huge_size_takes_no_memory(self, tmp_path):
        # The directory promises 4 GB.
        data = bytearray(word(make.paragraph("a b")))
        place = data.rindex(b"PK\1\2", 0, data.rindex(b"word/document.xml"))
        struct.pack_into("<I", data, place + 24, 0xFFFFFFF0)
        (tmp_path / "a.docx").write_bytes(data)
        result = call("tokenize", "a.docx", folder=tmp_path)
        assert result.code == 1 and "expected at most 64 MB in it" in result.err

    def test_wide_archives(self, tmp_path):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            for name, text in make.word_parts(make.paragraph("a b")).items():
                with archive.open(name, "w", force_zip64=True) as part:
                    part.write(text.encode())
        (tmp_path / "a.docx").write_bytes(data.getvalue())
        call("tokenize", "a.docx", folder=tmp_path).works()


class TestPdf:
    def test_without_the_program(self, tmp_path):
        for name in ("a.pdf", "b.pdf", "c.txt"):
            (tmp_path / name).write_bytes(make.pdf(["a b"]) if name.endswith("pdf") else b"a b")
        nothing = {"PATH": str(tmp_path)}
        result = call("tokenize", "a.pdf", "b.pdf", "c.txt", folder=tmp_path, environment=nothing)
        assert result.code == 1 and result.err.count("install the package poppler-utils") == 1
        assert "a.pdf: expected the program pdftotext, which reads PDF, found none" in result.err
        assert "2 documents were not read: 2 without a program that reads them" in result.err
        (tmp_path / "folder").mkdir()
        for name in ("a.pdf", "b.pdf", "c.txt"):
            os.rename(tmp_path / name, tmp_path / "folder" / name)
        result = call("tokenize", "folder", folder=tmp_path, environment=nothing)
        assert result.code == 0 and result.err.count("install the package poppler-utils") == 1 and len(result.json) == 1
        assert "2 documents were not read: 2 without a program that reads them" in result.err

    @needs_pdftotext
    def test_pages_of_pictures(self, tmp_path):
        (tmp_path / "a.pdf").write_bytes(make.pdf([None, None]))
        result = call("tokenize", "a.pdf", folder=tmp_path)
        assert result.code == 1 and "a.pdf: expected text in the PDF, found pages without any: ocrmypdf" in result.err

    @pytest.mark.parametrize("script, reason", [
        ("echo 'Command Line Error: x' >&2; exit 1", "expected a whole PDF, found damage: Command Line Error: x"),
        ("exit 3", "found one with a password"),
        ("kill -9 $$", "found one that ended it (signal 9)"),
        ("head -c 300000000 /dev/zero", "found one that needs more than 256 MB of text"),
    ])  # fmt: skip
    def test_a_program_that_fails(self, tmp_path, script, reason):
        (tmp_path / "a.pdf").write_bytes(make.pdf(["a b"]))
        program = tmp_path / "pdftotext"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        result = call("tokenize", "a.pdf", folder=tmp_path, environment={"PATH": path})
        assert result.code == 1 and reason in result.err, result.err


class TestIndexOfBefore:
    def test_an_index_without_places_gets_them_with_its_next_document(self, longformer, tmp_path):
        (tmp_path / "a.txt").write_text("a b")
        search(longformer, tmp_path, "a.txt", "--index", "i", "--query", "a").works()
        with contextlib.closing(sqlite3.connect(tmp_path / "i")) as index, index:
            index.execute("DROP TABLE places")
        flags = ["--index", "i", "--mode", "lexical", "--json", "--query"]
        assert "place" not in run("search", *flags, "a", folder=tmp_path).works().json[0]["hits"][0]
        (tmp_path / "b.docx").write_bytes(word(make.paragraph("c d")))
        search(longformer, tmp_path, "b.docx", "--index", "i", "--query", "c").works()
        place = {"unit": "paragraph", "first": 1, "last": 1}
        assert run("search", *flags, "c", folder=tmp_path).works().json[0]["hits"][0]["place"] == place
        # A document that is gone leaves no places behind.
        run("search", "--index", "i", "--remove", "b.docx", folder=tmp_path).works()
        with contextlib.closing(sqlite3.connect(tmp_path / "i")) as index:
            assert index.execute("SELECT count(*) FROM places").fetchone() == (0,)
