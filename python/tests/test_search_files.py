"""Search in files and tables from Python: the same names, hits and metadata as the program has, and filters."""

import datetime
import json
import os
import pathlib
import shutil

import longformer_cpp
import pytest
from longformer_cpp import Error, SearchIndex

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

DOCUMENTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "documents"
WORDS = "he was in the house and she had been there with them"


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """A folder with texts, pages, tables, and files that are none; the working folder is around it."""
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text(f"{WORDS}. a b.")
    (folder / "deep" / "b.md").write_text(f"# House\n\n*{WORDS}*. c d.")
    (folder / "deep" / "page.html").write_text(f"<!doctype html><title>t</title><p>{WORDS}. e f.")
    (folder / "left.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (folder / "rows.jsonl").write_text("".join(json.dumps({"id": i, "text": f"{WORDS} {i}", "year": 2000 + i, "who": ["x", "y"][: i % 3]}) + "\n" for i in range(6)))
    (folder / "rows.csv").write_text('text,day,who\n"he was",2024-05-01,Smith\n"she was",1999-01-01,Jones\n')
    for path in folder.rglob("*.*"):
        os.utime(path, (10**9, 10**9))
    monkeypatch.chdir(tmp_path)
    return folder


def hits_of(index, **options):
    return [
        {"file": hit.file, "begin": hit.begin, "end": hit.end, "text": hit.text, "score": pytest.approx(hit.score, abs=1e-5), "metadata": hit.metadata}
        for hit in index.query("who was in the house?", top_k=20, **options)
    ]


FILTERS = [(), "path=*.md", ["date>=2001", "date<2002"], "path=notes/deep/*", "path!=notes/rows.*"]


@pytest.mark.filterwarnings("ignore:left out")
def test_folders_are_those_of_the_program(folder, notes, program):
    index = SearchIndex(folder("tiny_bert"), passage_tokens=16)
    assert index.add_folder("notes") == 3
    for filter in FILTERS:
        flags = [flag for one in ([filter] if isinstance(filter, str) else filter) for flag in ("--filter", one)]
        (row,) = program("search", folder("tiny_bert"), "notes", "--passage-tokens", 16, "--query", "who was in the house?", "--top-k", 20, *flags, "--json")
        found = hits_of(index, filter=filter)
        assert found and [{key: hit.get(key) for key in found[0]} for hit in row["hits"]] == found


@pytest.mark.filterwarnings("ignore:left out")
def test_files_of_an_index_are_those_of_the_program(folder, notes, program):
    """Program and package read and write one file: nothing is read twice, from wherever it is called."""
    (notes.parent / "indexes").mkdir()
    index = SearchIndex(folder("tiny_bert"), "indexes/i", passage_tokens=16)
    tables = ["notes/rows.jsonl", pathlib.Path("notes/rows.csv")]
    assert index.add_files(["notes", *tables]) == 11
    assert index.add_files(["notes", *tables]) == 0 and index.fields == ["path", "date", "day", "who", "year"]
    (row,) = program("search", folder("tiny_bert"), "notes", *tables, "--index", "indexes/i", "--query", "he", "--filter", "year=2003", "--json")
    assert row["documents"] == 11 and [hit["file"] for hit in row["hits"]] == ["notes/rows.jsonl:4"]
    listed = {one.file: one for one in index.list()}
    assert listed["../notes/rows.jsonl:4"].metadata == {"year": 2003, "who": [], "date": "2001-09-09T01:46:40Z"}
    assert [one.file for one in index.list("day>2000")] == ["../notes/rows.csv:2"]
    os.remove("notes/a.txt")
    assert index.add_folder("notes", prune=True) == 0 and len(index) == 10


def test_patterns_and_files_that_are_none(folder, notes):
    index = SearchIndex(folder("tiny_bert"), passage_tokens=16)
    assert index.add_folder("notes", include=["deep/*"], exclude="*.html") == 1
    with pytest.warns(RuntimeWarning, match="left out 1 file: notes/left.txt: expected text, found a PNG"):
        assert index.add_files("notes", include="*.txt") == 1
    with pytest.raises(Error, match="notes/left.txt: expected text, found a PNG"):
        index.add_files("notes/left.txt")
    with pytest.raises(Error, match="folder: expected a folder"):
        index.add_folder("notes/a.txt")
    with pytest.raises(TypeError, match="files: expected a path"):
        index.add_files(3)
    with pytest.raises(Error, match="nowhere"):
        index.add_files("nowhere.txt")
    with pytest.raises(Error, match="rows.jsonl: .*\"body\""):
        index.add_files("notes/rows.jsonl", text_field="body")


@pytest.mark.parametrize("kind", [pandas.DataFrame, polars.DataFrame, lambda rows: rows])
def test_columns_are_metadata(folder, kind):
    days = [datetime.date(2024, 1 + i, 1) for i in range(4)]
    rows = [{"id": f"d{i}", "body": WORDS, "day": days[i], "pages": i, "score": i / 2, "who": None if i == 2 else "x"} for i in range(4)]
    index = SearchIndex(folder("tiny_bert"), passage_tokens=16)
    assert index.add_documents(kind(rows), text_field="body", metadata={"d1": {"more": [1, 2]}}) == 4
    found = {hit.file for hit in index.query("he", top_k=9, filter={"pages": {">=": 1, "<": 3}})}
    assert found == {"d1", "d2"}
    assert {hit.file for hit in index.query("he", top_k=9, filter={"day": {">=": datetime.date(2024, 2, 1)}, "who": "x"})} == {"d1", "d3"}
    (one,) = index.list({"more": [2, 7]})
    assert one.file == "d1" and one.metadata["more"] == [1, 2] and one.metadata["day"][:10] == "2024-02-01" and one.metadata["score"] == 0.5
    assert "body" not in one.metadata and "id" not in one.metadata and "who" not in index.list("path=d2")[0].metadata
    assert [name for name, _ in index.rank("he", top_k=9, filter=["pages>=2"])] and len(index.rank("he", top_k=9, filter="pages>=2")) == 2
    assert index.add_documents(kind(rows), text_field="body") == 0 and "more" not in index.fields


def test_metadata_of_one_document(folder):
    index = SearchIndex(folder("tiny_bert"), passage_tokens=16)
    index.add("a", WORDS, {"year": 2020, "at": datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc), "path": "x/y.txt"})
    index.add("b", WORDS)
    for filter in ("year=2020", "at>=2024-05-01T12:00Z", "path=x/*", {"year": [2020, 2021]}):
        assert [hit.file for hit in index.query("he", filter=filter)] == ["a"], filter
    assert [hit.file for hit in index.query("he", filter="path=b", mode="lexical")] == ["b"]
    with pytest.raises(Error, match="filter: expected one of the fields of the index, path, at, year, found 'yaer'"):
        index.query("he", filter="yaer=1")
    with pytest.raises(Error, match="filter: "):
        index.query("he", filter="year")
    for wrong in (3, {"a": object()}):
        with pytest.raises(TypeError, match="metadata"):
            index.add("c", WORDS, wrong)
    with pytest.raises(TypeError, match="filter"):
        index.query("he", filter=3)
    with pytest.raises(Error, match="metadata: expected names of the documents, found 'z'"):
        index.add_documents({"c": WORDS}, metadata={"z": {}})


def test_answers_are_those_of_the_program(folder, notes, program):
    """Two stages: the search of this index, and a reader that reads what it finds."""
    index = SearchIndex(folder("tiny_bert"), "i", passage_tokens=16)
    index.add_files("notes", include=["*.txt", "*.md"], exclude="left.txt")
    reader = longformer_cpp.QuestionAnswerer(folder("tiny_longformer_qa"))
    question = "who was in the house?"
    parts = index.retrieve(question, retrieve=3, around=20)
    found = index.answer(question, reader, top_k=3, retrieve=3, around=20)
    (row,) = program(
        "qa", folder("tiny_longformer_qa"), "--index", "i", "--embedder", folder("tiny_bert"), "--retrieve", 3, "--around", 20, "--top-k", 3, "--question", question, "--json"
    )
    assert [(one.file, one.begin, one.end, one.text) for one in found] == [(one["file"], one["begin"], one["end"], one["text"]) for one in row["answers"]]
    assert [(part.file, part.begin, part.end) for part in parts] == [(part["file"], part["begin"], part["end"]) for part in row["read"]]
    assert parts and all(one.part in parts and one.rank <= one.logit for one in found)
    assert [one.rank for one in found] == pytest.approx([one["rank"] for one in row["answers"]], abs=1e-4)
    assert index.answer("zzz", reader, mode="lexical") == [] and index.retrieve(question, filter="path=notes/a.txt")[0].file == "notes/a.txt"


def test_answers_have_the_places_of_the_program(folder, tmp_path, monkeypatch, program):
    monkeypatch.chdir(tmp_path)
    shutil.copy(DOCUMENTS / "animals.epub", tmp_path)
    index = SearchIndex(folder("tiny_bert"), "i", passage_tokens=16)
    index.add_files("animals.epub")
    reader, question = folder("tiny_longformer_qa"), "Who is Minka?"
    (row,) = program("qa", reader, "--index", "i", "--embedder", folder("tiny_bert"), "--retrieve", 2, "--around", 20, "--top-k", 3, "--question", question, "--json")
    parts = index.retrieve(question, retrieve=2, around=20)
    found = index.answer(question, reader, top_k=3, retrieve=2, around=20)
    for mine, of_program in ((parts, row["read"]), (found, row["answers"])):
        assert [one.place for one in mine] == [tuple(one["place"].values()) for one in of_program]
    assert found and all(one.place[0] == "chapter" for one in found)


def test_a_summary_of_what_is_found(folder, notes, led):
    index = SearchIndex(folder("tiny_bert"), passage_tokens=16)
    index.add_files("notes", include="*.md")
    writer = longformer_cpp.load(led)
    found = index.summarize("house", writer, retrieve=2, around=10)
    text = "\n\n".join(part.text for part in sorted(found.read, key=lambda part: part.begin))
    assert found.text == writer.summarize(text)[0].texts[0].text and found.read
    with pytest.raises(Error, match="topic: "):
        index.summarize("zzz", writer, mode="lexical")
