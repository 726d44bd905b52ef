"""A process that asks an index while others change it, make its words again, damage it, or are killed as they write."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest
from cli_test import BERT, BINARY, run

WORDS = ["--vectors", "none", "--passage-tokens", 16]


@pytest.fixture
def index(tmp_path):
    for name, text in {"a": "he was running from the house. ", "b": "the dogs were in the houses. ", **dict.fromkeys("cdef", "it is his. they were here. " * 9)}.items():
        (tmp_path / f"{name}.txt").write_text(text * 4)
    run("search", BERT, ".", "--index", "i", *WORDS, "--query", "x", folder=tmp_path).works()
    return tmp_path / "i"


class Reader:
    """`longformer search` that gets its questions one after another."""

    def __init__(self, index, *flags):
        self._process = subprocess.Popen([BINARY, "search", *map(str, flags), "--index", str(index), "--mode", "lexical", "--json"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # fmt: skip

    def ask(self, question):
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self):
        self._process.stdin.close()
        return self._process.wait(timeout=60)


@pytest.fixture
def reader(index):
    one = Reader(index)
    yield one
    one.end()


def files_of(answer):
    return {hit["file"] for hit in answer["hits"]}


@pytest.mark.parametrize("language", ["none", "german"])
def test_words_of_another_language(index, reader, language):
    """A question has the stems of the words that the index has now."""
    assert {name.rsplit("/", 1)[-1] for name in files_of(reader.ask("running house"))} == {"a.txt", "b.txt"}
    run("search", "--index", index, "--language", language, "--mode", "lexical", "--query", "x").passes()
    fresh = Reader(index)
    for question in ("running house", "houses dogs", "house"):
        found = reader.ask(question)["hits"]
        assert found and found == fresh.ask(question)["hits"]
    fresh.end()


def test_a_failure_is_said_at_once(index, reader):
    whole = index.read_bytes()
    assert files_of(reader.ask("house"))
    index.write_bytes(whole[:5000])
    assert "damaged" in reader.ask("dogs")["error"]
    index.write_bytes(whole)


def test_documents_come_and_go_between_questions(index, tmp_path):
    """Every question sees one state of the index, and none fails."""
    stop = threading.Event()

    def change():
        while not stop.is_set():
            (tmp_path / "g.txt").write_text(f"the house of {os.urandom(4).hex()} dogs. " * 40)
            run("search", BERT, "g.txt", "--index", "i", "--query", "x", folder=tmp_path)
            run("search", "--index", "i", "--remove", "g.txt", folder=tmp_path)

    changer = threading.Thread(target=change)
    changer.start()
    one = Reader(index)
    answers = [one.ask("the house of dogs") for _ in range(1500)]
    stop.set()
    changer.join()
    assert one.end() == 0
    assert [answer["error"] for answer in answers if "error" in answer] == []
    assert all(answer["hits"] for answer in answers) and len({answer["documents"] for answer in answers}) > 1


# A transaction that is larger than its cache is partly in the file when the process is killed.
KILLED = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 5")
database.execute("BEGIN IMMEDIATE")
database.execute("UPDATE passages SET begin = begin + 1")
database.execute("CREATE TABLE more (x)")
database.executemany("INSERT INTO more VALUES (?)", [(b"x" * 4000,) for _ in range(200)])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("flags", [["--stats"], ["--list"], ["--query", "house", "--mode", "lexical"]])
def test_a_writer_was_killed(index, flags):
    def shown():
        out = run("search", "--index", index, *flags, "--json").works().out
        return re.sub(r'"(index_)?seconds":[^,}]*', "", out)

    before = shown()
    killed = subprocess.run([sys.executable, "-c", KILLED, index], check=False)
    assert killed.returncode == -signal.SIGKILL and index.with_name("i-journal").stat().st_size > 0
    assert shown() == before
    database = sqlite3.connect(index)
    # SQLite 3.46 asks the table of words too, whose tokenizer is the program's.
    stored = [name for name, sql in database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'") if "VIRTUAL" not in sql]
    assert len(stored) > 8
    for table in stored:
        assert database.execute(f"PRAGMA integrity_check({table})").fetchall() == [("ok",)], table


def test_a_writer_is_killed_beside_a_reader(index, reader):
    before = reader.ask("house")["hits"]
    subprocess.run([sys.executable, "-c", KILLED, index], check=False)
    assert reader.ask("house")["hits"] == before


def test_options_that_fail_leave_no_index(tmp_path):
    (tmp_path / "a.txt").write_text("he was in the house. " * 9)
    run("search", BERT, "a.txt", "--index", "i", "--passage-tokens", 9999, "--query", "house", folder=tmp_path).fails(2, "--passage-tokens")
    assert not (tmp_path / "i").exists()
    run("search", BERT, "a.txt", "--index", "i", "--passage-tokens", 16, "--query", "house", folder=tmp_path).works()
