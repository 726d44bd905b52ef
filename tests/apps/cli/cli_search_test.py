"""The verb `search` as its users meet it: questions, modes, the index file and what happens to it."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from cli_test import BERT, BINARY, longformer, run  # noqa: F401
from terminal import read_to_the_end


# Words as the version before wrote them; no other part of an index differed.
OLDER_WORDS = (
    """
DROP TABLE made_words;
PRAGMA writable_schema = on;
DELETE FROM sqlite_schema WHERE name = 'words';""",
    """
DROP TABLE words_data; DROP TABLE words_idx; DROP TABLE words_docsize; DROP TABLE words_config;
CREATE VIRTUAL TABLE words USING fts5 (
  text, content='passages', content_rowid='id', tokenize="porter unicode61 remove_diacritics 2");
INSERT INTO words (words) VALUES ('rebuild');
PRAGMA user_version = 3;""",
)


class TestSearch:
    PASSAGES = ["--passage-tokens", 16]

    @pytest.fixture
    def novels(self, tmp_path):
        texts = {"x.txt": "a a a a. b b b b. " * 20, "y.txt": "c d c d. e f e f. " * 20}
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        return [tmp_path / name for name in texts]

    def test_text(self, longformer, novels):
        out = run("search", longformer, *novels, "--query", "c d", "--top-k", 2,
                  *self.PASSAGES).works().out
        assert re.search(r"2 documents, \d+ passages; 2 documents read in [\d.]+ s", out)
        assert re.search(r"c d   \([\d.]+ ms\)\n  1\. -?\d\.\d{3}  \S+  characters \d+-\d+  "
                         r"cosine -?[01]\.\d{3}, words \d+\.\d\d\n     .*\*c\* \*d\*", out)

    def test_json_spans_are_the_text(self, longformer, novels):
        rows = run("search", longformer, *novels, "--query", "c d", "--query", "a", "--json",
                   *self.PASSAGES).works().json
        assert [row["query"] for row in rows] == ["c d", "a"]
        assert list(rows[0]) == ["query", "hits", "seconds", "index_seconds", "documents", "passages"]
        for row in rows:
            assert len(row["hits"]) == 3
            scores = [hit["score"] for hit in row["hits"]]
            assert scores == sorted(scores, reverse=True)
            for hit in row["hits"]:
                assert -1.001 <= hit["similarity"] <= 1.001 and (hit["words"] > 0) == bool(hit["matched"])
                words = {hit["text"][begin:end] for begin, end in hit["matched"]}
                assert words <= set(row["query"].split())
                text = pathlib.Path(hit["file"]).read_text()
                assert text[hit["begin"]:hit["end"]] == hit["text"]

    def test_questions_from_stdin(self, longformer, novels):
        rows = run("search", longformer, *novels, "--json", *self.PASSAGES,
                   stdin="a\n\nc d\n").works().json
        assert [row["query"] for row in rows] == ["a", "c d"]

    def test_index(self, longformer, novels, tmp_path):
        index = tmp_path / "novels.index"
        flags = ["--index", index, "--query", "c d", *self.PASSAGES]
        first = run("search", longformer, novels[0], *flags).works().out
        assert "1 document read" in first
        both = run("search", longformer, *novels, *flags).works().out
        assert "2 documents, " in both and "1 document read" in both
        again = run("search", longformer, *novels, *flags, "--json").works().json[0]
        alone = run("search", longformer, *flags, "--json").works().json[0]
        assert again["hits"] == alone["hits"] and alone["documents"] == 2
        novels[1].write_text("now something else entirely a b")
        assert "1 document read" in run("search", longformer, *novels, *flags).works().out

    def test_modes(self, longformer, novels, tmp_path):
        flags = [*novels, "--query", "c d", "--json", *self.PASSAGES]
        by = {mode: run("search", longformer, *flags, "--mode", mode).works().json[0]["hits"]
              for mode in ("hybrid", "dense", "lexical")}
        assert by["hybrid"] == run("search", longformer, *flags).works().json[0]["hits"]
        assert all("words" not in hit and hit["score"] == hit["similarity"] for hit in by["dense"])
        assert all("similarity" not in hit and hit["score"] == hit["words"] > 0 for hit in by["lexical"])
        assert {pathlib.Path(hit["file"]).name for hit in by["lexical"]} == {"y.txt"}
        run("search", longformer, *flags, "--mode", "best").fails(2, "--mode", "best")

    def test_phrases_must_be_in_a_passage(self, longformer, novels):
        flags = [*novels, "--json", "--top-k", 50, *self.PASSAGES]
        for mode in ("hybrid", "dense", "lexical"):
            hits = run("search", longformer, *flags, "--mode", mode, "--query", 'a "d. e"').works().json[0]["hits"]
            assert hits and all("d. e" in hit["text"] for hit in hits)
            assert all("note" not in row for row in run("search", longformer, *flags, "--mode", mode, "--query", "a").works().json)

    def test_words_of_a_phrase_that_no_passage_has_are_searched(self, longformer, novels):
        flags = [*novels, "--top-k", 50, *self.PASSAGES]
        for mode in ("hybrid", "dense", "lexical"):
            result = run("search", longformer, *flags, "--mode", mode, "--query", '"b a c" d', "--json")
            assert result.code == 0
            plain = run("search", longformer, *flags, "--mode", mode, "--query", "b a c d", "--json").works().json[0]["hits"]
            (row,) = result.json
            assert row["note"] == 'no passage has the phrase "b a c": the words are searched'
            assert row["note"] in result.err and result.err.count("note") == 1
            # The marks are read by the model.
            assert len(row["hits"]) == len(plain) > 0 and (mode != "lexical" or row["hits"] == plain)
        inside = [*flags, "--within", novels[1], "--mode", "lexical", "--query", '"a a" c', "--json"]
        (row,) = run("search", longformer, *inside).json
        assert "note" in row and {hit["file"] for hit in row["hits"]} == {str(novels[1])}
        assert "nothing found" in run("search", longformer, *flags, "--mode", "lexical", "--query", '"z x"').out

    def test_quotation_marks_of_all_languages(self, longformer, tmp_path):
        (tmp_path / "a.txt").write_text("Das Haus hat einen Garten, und der Garten hat einen alten Baum. 我们学习机器学习。", encoding="utf-8")
        (tmp_path / "b.txt").write_text("Ein alter Garten hat Haus und Baum.", encoding="utf-8")
        questions = {"Was heißt „alten Baum“ oder »einen Garten«?": 1, "5\" Haus oder 7\" Baum": 2, "„Haus“ und „Garten“": 2,
                     "什么是“机器学习”？": 1, "“Haus und Baum”": 1}  # fmt: skip
        for mode in ("hybrid", "dense", "lexical"):
            for question, count in questions.items():
                (row,) = run("search", longformer, tmp_path / "a.txt", tmp_path / "b.txt", "--mode", mode, "--query", question,
                             "--json", "--top-k", 9, "--passage-tokens", 198).works().json  # fmt: skip
                assert len(row["hits"]) == count and "note" not in row, (mode, question, row)

    @pytest.mark.parametrize("text, question, marked", [
        ("我们在北京的大学一起学习机器学习。", "机器学习", ["学习", "机器学习"]),
        ("東京の天気は晴れです。", "天気", ["天気"]),
        ("ผมรักภาษาไทย", "ภาษา", ["ภาษา"]),
        ("서울에서 기계학습을 공부합니다", "기계학습", ["기계학습"]),
        ("新款iPhone手机", "IPHONE", ["iPhone"]),
        ("The infor\u00admation o\ufb03ce", '"information office"', ["infor\u00admation o\ufb03ce"]),
        ("Chaque e\u0301te\u0301 chaud", "été", ["e\u0301te\u0301"]),
        ("\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd and", "שלום", ["\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd"]),
        ("Ёлка", "\u0435\u0308лка", ["Ёлка"]),
        ("ｶﾞﾗｽ の 靴", "ガラス", ["ｶﾞﾗｽ"]),
        ("Straße nach Łódź", "STRASSE lodz", ["Straße", "Łódź"]),
    ])  # fmt: skip
    def test_words_of_all_scripts(self, longformer, tmp_path, text, question, marked):
        (tmp_path / "a.txt").write_text(text, encoding="utf-8")
        (row,) = run("search", longformer, tmp_path / "a.txt", "--mode", "lexical", "--query", question, "--json",
                     "--passage-tokens", 198).works().json  # fmt: skip
        (hit,) = row["hits"]
        assert hit["text"] == text and [text[begin:end] for begin, end in hit["matched"]] == marked

    def test_language(self, longformer, tmp_path):
        (tmp_path / "a.txt").write_text("Viele Häuser, running dogs", encoding="utf-8")
        index = tmp_path / "index"

        def found(question, *flags):
            flags = ["--index", index, "--mode", "lexical", "--query", question, "--json", *flags]
            result = run("search", *flags)
            return len(result.json[0]["hits"]), result.err

        run("search", longformer, tmp_path / "a.txt", "--index", index, "--query", "a", "--language", "german").works()
        assert found("Haus") == (1, "") and found("run") == (0, "") and found("Haus", "--language", "german") == (1, "")
        assert run("search", "--index", index, "--stats", "--json").works().json[0]["language"] == "german"
        hits, err = found("run", "--language", "english")
        assert hits == 1 and re.search(r"note: .*language german.*again for english", err)
        assert found("run") == (1, "") and found("Haus") == (0, "")
        assert run("search", longformer, "--index", index, "--query", "run", "--language", "none").code == 0
        assert found("run") == (0, "") and found("hauser") == (1, "")
        assert re.search("language +none", run("search", "--index", index, "--stats").works().out)
        run("search", "--index", index, "--mode", "lexical", "--query", "a", "--language", "klingon").fails(2, "klingon", "english")

    def test_removing_needs_an_index_that_exists(self, longformer, novels, tmp_path):
        index = tmp_path / "index"
        run("search", longformer, *novels, "--index", index, "--query", "a", *self.PASSAGES).works()
        run("search", "--index", index, "--remove", novels[0]).passes()
        assert run("search", "--index", index, "--stats", "--json").works().json[0]["documents"] == 1
        run("search", "--index", tmp_path / "none", "--remove", "a").fails(1, "none")
        assert not (tmp_path / "none").exists()

    def test_unknown_settings_of_an_index_are_refused(self, longformer, novels, tmp_path):
        index = tmp_path / "index"
        run("search", longformer, *novels, "--index", index, "--query", "a", *self.PASSAGES).works()
        for name, wanted in {"passage_token": "did you mean \"passage_tokens\"?", "zzzzzz": "known are context"}.items():
            with contextlib.closing(sqlite3.connect(index)) as database:
                database.executescript(f"DELETE FROM settings WHERE name LIKE '%token'; INSERT INTO settings VALUES ('{name}', '1')")
            for flags in ([longformer, "--query", "a"], [longformer, *novels, "--query", "a"], ["--list"],
                          ["--remove", "x.txt"], ["--mode", "lexical", "--query", "a"]):  # fmt: skip
                run("search", "--index", index, *flags).fails(1, f'"{name}"', wanted, "settings")

    def test_an_index_of_the_version_before_gets_new_words(self, longformer, novels, tmp_path):
        index = tmp_path / "index"
        run("search", longformer, *novels, "--index", index, "--query", "a", *self.PASSAGES).works()
        flags = ["--index", index, "--mode", "lexical", "--query", "c d", "--json"]
        wanted = run("search", *flags).works().json[0]["hits"]
        for script in OLDER_WORDS:
            with contextlib.closing(sqlite3.connect(index)) as database:
                database.executescript(script)
        assert run("search", *flags).works().json[0]["hits"] == wanted != []
        assert run("search", longformer, "--index", index, "--query", "c d", "--json").works().json[0]["hits"]

    def test_names_are_found_composed_and_decomposed(self, longformer, tmp_path):
        for name in ("cafe\u0301.txt", "re\u0301sume\u0301/x.txt"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("a b")
        flags = ["--index", "index", "--mode", "lexical", "--query", "a", "--json"]
        run("search", longformer, "cafe\u0301.txt", "re\u0301sume\u0301", *flags, folder=tmp_path).works()
        for name in ("café.txt", "cafe\u0301.txt", "résumé", "résumé/x.txt"):
            (row,) = run("search", *flags, "--within", name, folder=tmp_path).works().json
            assert len(row["hits"]) == 1, name
        run("search", "--index", "index", "--remove", "résumé", folder=tmp_path).works()
        assert len(run("search", "--index", "index", "--list", "--json", folder=tmp_path).works().json) == 1

    def test_within(self, longformer, novels):
        flags = [*novels, "--query", "c d", "--json", "--top-k", 50, *self.PASSAGES]
        hits = run("search", longformer, *flags, "--within", f"{novels[0].parent}/./x.txt").works().json[0]["hits"]
        assert hits and {hit["file"] for hit in hits} == {str(novels[0])}
        both = run("search", longformer, *flags, "--within", novels[0], "--within", novels[1]).works().json[0]
        assert both["hits"] == run("search", longformer, *flags).works().json[0]["hits"]
        run("search", longformer, *flags, "--within", "z.txt").fails(1, "z.txt", "none of this name")

    def test_within_the_working_folder(self, longformer, novels, tmp_path):
        """Names and folders are those from where the program is called, however the documents were named."""
        index, sub = tmp_path / "all.index", tmp_path / "sub"
        sub.mkdir()
        run("search", longformer, "x.txt", novels[1], "--index", index, "--query", "a", *self.PASSAGES,
            folder=tmp_path).works()  # fmt: skip
        flags = ["--index", index, "--query", "a", "--json", "--top-k", 50]
        for folder, within, names in [(tmp_path, ".", {"x.txt", "y.txt"}), (tmp_path, "/", {"x.txt", "y.txt"}),
                                      (sub, "..", {"../x.txt", "../y.txt"}), (sub, "../x.txt", {"../x.txt"})]:  # fmt: skip
            hits = run("search", longformer, *flags, "--within", within, folder=folder).works().json[0]["hits"]
            assert {hit["file"] for hit in hits} == names
        run("search", longformer, *flags, "--within", ".", folder=sub).fails(1, "'sub'", "none of this name")
        run("search", "--index", index, "--remove", "../x.txt", folder=sub).works()
        rows = run("search", "--index", index, "--list", "--json", folder=tmp_path).works().json
        assert [row["file"] for row in rows] == ["y.txt"]

    def test_one_document_by_many_names(self, longformer, novels, tmp_path):
        (tmp_path / "sub").mkdir()
        out = run("search", longformer, "x.txt", "./x.txt", "sub/../x.txt", "--query", "a", *self.PASSAGES,
                  folder=tmp_path).works().out  # fmt: skip
        assert "1 document, " in out

    def test_managing_an_index_needs_no_model(self, longformer, novels, tmp_path):
        index = tmp_path / "novels.index"
        run("search", longformer, *novels, "--index", index, "--query", "a", *self.PASSAGES).works()
        rows = run("search", "--index", index, "--list", "--json").works().json
        assert [row["file"] for row in rows] == list(map(str, novels))
        assert all(row["characters"] and re.fullmatch(r"[0-9a-f]{16}", row["hash"]) for row in rows)
        assert run("search", "--index", index, "--list").works().out.count("\n") == 2
        (stats,) = run("search", "--index", index, "--stats", "--json").works().json
        assert stats["documents"] == 2 and stats["passages"] == sum(row["passages"] for row in rows)
        assert stats["bytes"] == index.stat().st_size and stats["passage_tokens"] == 16 and stats["dtype"] == "fp32"
        assert "passages of      16 tokens" in run("search", "--index", index, "--stats").works().out
        (found,) = run("search", "--index", index, "--mode", "lexical", "--query", "c d", "--json").works().json
        assert {hit["file"] for hit in found["hits"]} == {str(novels[1])}
        assert run("search", "--index", index, "--remove", novels[0], "--list").works().out.count("\n") == 1
        run("search", "--index", index, "--remove", novels[0]).fails(1, "no document", "x.txt")
        run("search", "--index", index, "--query", "a").fails(2, "no model", "lexical")
        run("search", "--list").fails(2, "--index")
        run("search", longformer, "--index", index, "--list").fails(2, "neither a model")
        run("search", "--index", tmp_path / "none", "--list").fails(1, "none")

    def test_an_index_that_cannot_be_written_is_told_before_documents_are_read(self, longformer, novels, tmp_path):
        result = run("search", longformer, "/nowhere.txt", "--index", tmp_path / "none" / "x", "--query", "a")
        assert result.code == 1 and "none/x" in result.err and "/nowhere.txt" not in result.err

    def test_a_kill_loses_the_documents_in_work_alone(self, longformer, novels, tmp_path):
        """The second document never ends; the first one does not wait for it."""
        index, pipe = tmp_path / "index", tmp_path / "pipe"
        os.mkfifo(pipe)
        command = [BINARY, "search", longformer, novels[0], pipe, "--index", index, "--query", "a", *self.PASSAGES]
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            # A buffer would be written to nobody.
            with open(pipe, "wb", buffering=0) as never:
                never.write(b"a")
                end = time.monotonic() + 60
                while time.monotonic() < end and run("search", "--index", index, "--list").out.count("\n") == 0:
                    time.sleep(0.05)
                process.kill()
        assert [row["file"] for row in run("search", "--index", index, "--list", "--json").works().json] == [str(novels[0])]

    def test_two_writers_lose_no_document(self, longformer, novels, tmp_path):
        index = tmp_path / "index"
        files = [tmp_path / f"{i}.txt" for i in range(20)]
        for i, file in enumerate(files):
            file.write_text(f"text {i} of the a b " * 20)
        commands = [[BINARY, "search", longformer, *part, "--index", index, "--query", "a", *self.PASSAGES]
                    for part in (files[::2], files[1::2])]  # fmt: skip
        writers = [subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL) for command in commands]
        assert [writer.wait() for writer in writers] == [0, 0]
        assert len(run("search", "--index", index, "--list", "--json").works().json) == 20

    def test_damaged_index(self, longformer, novels, tmp_path):
        index = tmp_path / "novels.index"
        run("search", longformer, *novels, "--index", index, "--query", "a", *self.PASSAGES).works()
        data = index.read_bytes()
        for spoiled in [b"", b"nonsense", data[:5000], data[:100], data[:4096] + bytes(len(data) - 4096)]:
            index.write_bytes(spoiled)
            run("search", longformer, "--index", index, "--query", "a").fails(1, str(index))

    def test_index_of_another_model(self, longformer, novels, tmp_path):
        index = tmp_path / "novels.index"
        run("search", longformer, *novels, "--index", index, "--query", "a", *self.PASSAGES).works()
        run("search", BERT, "--index", index, "--query", "a").fails(1, str(index))

    def test_index_of_another_tokenizer(self, longformer, novels, tmp_path):
        """Files that say the same in another way are the same tokenizer, and indexes of before have nothing to compare."""
        index = tmp_path / "index"
        run("search", longformer, *novels, "--query", "a", "--index", index, *self.PASSAGES).works()
        again = tmp_path / "again"
        shutil.copytree(longformer, again)
        config = json.loads((again / "tokenizer_config.json").read_text())
        (again / "tokenizer_config.json").write_text(json.dumps(dict(reversed(config.items())), indent=4))
        found = run("search", again, "--query", "a", "--index", index)
        assert found.code == 0, found.err
        tokenizer = json.loads((again / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        first, second = sorted(vocabulary, key=vocabulary.get)[-2:]
        vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
        (again / "tokenizer.json").write_text(json.dumps(tokenizer))
        run("search", again, "--query", "a", "--index", index).fails(1, "another tokenizer", "make it anew")
        with contextlib.closing(sqlite3.connect(index)) as database:
            database.executescript("DELETE FROM settings WHERE name = 'tokenizer'")
        run("search", again, "--query", "a", "--index", index).works()

    def test_index_of_other_numbers(self, longformer, novels, tmp_path):
        index = tmp_path / "novels.index"
        run("search", longformer, *novels, "--index", index, "--query", "a", *self.PASSAGES, "--dtype", "bf16").works()
        run("search", longformer, "--index", index, "--query", "a").fails(1, str(index), "made in bf16", "--dtype bf16")
        run("search", longformer, novels[0], "--index", index, "--query", "a").fails(1, "made in bf16")

    def test_index_of_other_passages(self, longformer, novels, tmp_path):
        index = tmp_path / "novels.index"
        flags = ["--index", index, "--query", "a", "--passage-tokens"]
        run("search", longformer, *novels, *flags, 16).works()
        run("search", longformer, *novels, *flags, 32).fails(1, "passages of 16 tokens", "32")

    def test_missing_index_without_files(self, longformer):
        run("search", longformer, "--index", "/nowhere/x", "--query", "a").fails(1, "/nowhere/x")

    def test_one_bad_document_keeps_the_others(self, longformer, novels):
        result = run("search", longformer, novels[0], "/nowhere.txt", novels[1], "--query", "a",
                     "--json", *self.PASSAGES)
        assert result.code == 1 and result.json[0]["documents"] == 2
        assert "/nowhere.txt: expected a readable file" in result.err

    def test_nothing_readable(self, longformer):
        result = run("search", longformer, "/nowhere.txt", "--query", "a")
        assert result.code == 1 and "no document to search in" in result.err

    def test_one_bad_question_keeps_the_others(self, longformer, novels):
        result = run("search", longformer, *novels, "--json", "--query", "a " * 500, "--query", "a",
                     *self.PASSAGES)
        assert result.code == 1 and ["hits" in row for row in result.json] == [False, True]


class TestBench:
    def test_search(self):
        rows = run("bench", "search", "--passages", "10,1000", "--size", 7, "-r", 2, "--json").works().json
        assert [row["passages"] for row in rows] == [10, 1000] and all(row["seconds"] > 0 for row in rows)
        assert re.search(r"1,000 +384 +1 +\d+\.\d ms +(\d|≥ 1)", run("bench", "search", "--passages", 1000, "--threads", 1).works().out)
        run("bench", "search", "--passages", "0").fails(2, "--passages")


def shown_when_stopped(folder, after):
    """Output of a search of the folder on a terminal when it is stopped at this point for two seconds."""
    ours, terminal = os.openpty()
    process = subprocess.Popen([BINARY, "search", str(BERT), str(folder), "--query", "a", "--passage-tokens", "1"],
                               stdout=subprocess.DEVNULL, stderr=terminal)  # fmt: skip
    time.sleep(after)
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.2)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=100) == 0
    os.close(terminal)
    return read_to_the_end(ours)


def test_time_left_of_pages_ends_at_nothing(tmp_path):
    """Pages have many bytes that are no text, and progress goes by the bytes of the files. It is shown when the program
    was stopped between its first and its last document, which is sooner or later by the machine."""
    words = " ".join("abcdefg"[i % 7] + "." for i in range(3000))
    for i in range(8):
        (tmp_path / f"{i}.html").write_text(f"<p>{words}<!--{'x' * 20 * len(words)}-->")
    shown = (shown_when_stopped(tmp_path, after) for after in (0.2, 0.1, 0.4, 0.05, 0.8, 0.15, 1.6, 0.3))
    left = next(filter(None, (re.findall(r" of 8 documents, .* (\d+) s left\r", text) for text in shown)), None)
    assert left and int(left[-1]) < 20, left
