"""Texts that are not UTF-8: what --encoding reads, and what is told of bytes that are no text."""

import json

import pytest
from cli_test import BERT, FIXTURES, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
TEXT = "café crème\n"
NOTE = "longformer: note: "


def tokens(*arguments, **more):
    result = run("tokenize", BERT, "--json", *arguments, **more)
    assert result.code == 0, result.err
    return [row["offsets"][1:-1] for row in result.json], result.err


class TestBytesThatAreNoText:
    def test_are_told_once_for_each_file_with_their_place(self, tmp_path):
        for name, content in (("a.txt", b"ab \xe9 \xe8"), ("b.txt", b"ab"), ("c.txt", b"\xff")):
            (tmp_path / name).write_bytes(content)
        _, err = tokens("a.txt", "b.txt", "c.txt", folder=tmp_path)
        told = err.splitlines()
        assert len(told) == 2 and all("--encoding" in line for line in told)
        assert told[0].startswith(NOTE + "a.txt: not UTF-8 at byte 3; ")
        assert told[1].startswith(NOTE + "c.txt: not UTF-8 at byte 0; ")

    def test_of_lines_are_counted_from_the_beginning_of_the_file(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\nthr\xe9e\n\xff\n")
        rows, err = tokens("a.txt", "--lines", folder=tmp_path)
        assert len(rows) == 4 and err.startswith(NOTE + "a.txt: not UTF-8 at byte 12; ")
        assert len(err.splitlines()) == 1

    def test_of_stdin(self):
        _, err = tokens(stdin=b"a \xe9")
        assert err.startswith(NOTE + "standard input: not UTF-8 at byte 2; ")

    def test_of_a_data_set(self, tmp_path):
        data = tmp_path / "d.csv"
        data.write_bytes("label,text\nx,a é\n".encode("latin-1"))
        result = run("evaluate", CLASSIFIER, data)
        assert f"{NOTE}{data}: not UTF-8 at byte 15; " in result.err
        assert result.err.count("not UTF-8") == 1

    def test_valid_text_is_not_told_of(self, tmp_path):
        (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
        assert tokens("a.txt", folder=tmp_path)[1] == ""


class TestEncodings:
    @pytest.mark.parametrize("python,name", [
        ("latin-1", "latin-1"), ("latin-1", "ISO-8859-1"), ("cp1252", "auto"), ("utf-8", "auto"), ("utf-8-sig", "auto"),
        ("utf-16", "auto"), ("utf-16", "utf-16"), ("utf-16-be", "utf-16be"), ("utf-16-le", "utf-16le"), ("cp437", "cp437"),
        ("utf-8-sig", "utf-8")])  # fmt: skip
    @pytest.mark.parametrize("lines", [[], ["--lines"]])
    def test_read_the_same_text(self, tmp_path, python, name, lines):
        (tmp_path / "a.txt").write_bytes((TEXT * 3).encode(python))
        (tmp_path / "b.txt").write_text(TEXT * 3, encoding="utf-8")
        found, err = tokens("a.txt", "--encoding", name, *lines, folder=tmp_path)
        assert found == tokens("b.txt", *lines, folder=tmp_path)[0]
        if (python, name) == ("cp1252", "auto"):
            assert err.startswith(NOTE + "a.txt: not UTF-8 at byte 3, read as windows-1252; ")
        else:
            assert err == ""

    def test_of_fields(self, tmp_path):
        line = json.dumps({"text": TEXT}, ensure_ascii=False) + "\n"
        (tmp_path / "a.jsonl").write_bytes(line.encode("latin-1"))
        found, err = tokens("a.jsonl", "--field", "text", "--encoding", "latin-1", folder=tmp_path)
        assert found == tokens("--text", TEXT)[0] and err == ""

    @pytest.mark.parametrize("python,name", [("latin-1", "latin-1"), ("utf-16", "utf-16"), ("cp1252", "auto")])
    def test_of_data_sets(self, tmp_path, python, name):
        rows = "".join(json.dumps({"text": TEXT, "label": label}, ensure_ascii=False) + "\n" for label in "ab")
        for ending, content in (("jsonl", rows), ("csv", "text,label\ncafé,é\ncrème,b\n"),
                                ("json", "[" + ",".join(rows.splitlines()) + "]")):  # fmt: skip
            file = tmp_path / f"d.{ending}"
            file.write_bytes(content.encode(python))
            flags = ["--task", "classify", "--truncate", "--max-steps", 1, "--overwrite-output-dir"]
            done = run("finetune", BERT, file, *flags, "--output-dir", tmp_path / "out", "--encoding", name)
            assert done.code == 0 and "2 examples" in done.err, (ending, done.err)
            assert ("é" in done.err) == (ending == "csv") and "\ufffd" not in done.err

    def test_that_nobody_knows(self, tmp_path):
        run("tokenize", BERT, tmp_path, "--encoding", "klingon").fails(2, "--encoding", "latin-1", "'klingon'")

    def test_of_search(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(("x y. " * 20 + "naïve café").encode("cp1252"))
        (tmp_path / "b.html").write_bytes(b"<meta charset=iso-8859-1><p>na\xefve")
        flags = ["--query", '"naïve"', "--mode", "lexical", "--json"]
        found = run("search", BERT, tmp_path, *flags, "--passage-tokens", 8, "--encoding", "auto").passes()
        assert len(found.json[0]["hits"]) == 2 and found.err.count("windows-1252") == 1


class TestTables:
    @pytest.mark.parametrize("name,character", [(";", ";"), ("|", "|"), ("tab", "\t"), ("\\t", "\t")])
    def test_delimiter(self, tmp_path, name, character):
        file = tmp_path / "d.csv"
        file.write_text(f'text{character}label\n"a{character}b"{character}x\nc{character}y\n')
        done = run("finetune", BERT, file, "--task", "classify", "--truncate", "--max-steps", 1, "--delimiter", name,
                   "--output-dir", tmp_path / "out")  # fmt: skip
        assert done.code == 0 and "2 examples" in done.err and "labels: x, y" in done.err

    def test_wrong_delimiter(self, tmp_path):
        for wrong in ("::", '"', "é"):
            run("evaluate", CLASSIFIER, "d.csv", "--delimiter", wrong).fails(2, "--delimiter", "one character", wrong)
