"""`search --filter`: metadata of files and rows in an index, and conditions on them in every kind of search."""

import contextlib
import json
import os
import sqlite3

import pytest

from cli_test import FIXTURES, longformer, run  # noqa: F401

BGE = FIXTURES / "vectors_bge"
RERANKER = FIXTURES / "rerankers" / "bert"
ROWS = [
    {"id": i, "text": f"a b a b. c d c d. e f {'a' if i % 2 else 'b'}.", "year": 2010 + i % 10, "author": ["Smith", "Jones"][i % 3 == 0],
     "tags": ["even"] if i % 2 == 0 else ["odd", "small"], "day": f"2024-{1 + i % 12:02}-15"}
    for i in range(30)
]  # fmt: skip
WANTED = {
    ("year>=2018",): lambda row: row["year"] >= 2018,
    ("year>=2012", "year<2014"): lambda row: 2012 <= row["year"] < 2014,
    ("author=Jones", "year!=2010"): lambda row: row["author"] == "Jones" and row["year"] != 2010,
    ("tags=odd",): lambda row: "odd" in row["tags"],
    ("day<=2024-03",): lambda row: row["day"] < "2024-04",
    ("day>2024-11-15",): lambda row: row["day"] > "2024-11-15",
    ("author~mit",): lambda row: row["author"] == "Smith",
    ('year=[2011, 2012]',): lambda row: row["year"] in (2011, 2012),
}  # fmt: skip


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def filtered(*filter):
    return [flag for one in filter for flag in ("--filter", one)]


def found(result):
    assert result.code == 0, result.err
    (row,) = result.json
    return row["hits"]


@pytest.mark.parametrize("where", ["index", "file", "stdin"])
@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_all_that_match_come_back(longformer, table, tmp_path, mode, where):
    """Every row that matches is a hit with its metadata: the best are taken behind the filter."""
    flags = ["--mode", mode, "--query", "a b", "--json", "--top-k", 30]
    stdin = ""
    if where == "index":
        run("search", longformer, table, "--index", tmp_path / "index", "--query", "a").works()
        flags = [longformer, "--index", tmp_path / "index", *flags]
    elif where == "file":
        flags = [longformer, table, *flags]
    else:
        flags, stdin = [longformer, "-", "--text-field", "text", *flags], table.read_text()
    whole = found(run("search", *flags, stdin=stdin))
    for filter, holds in WANTED.items():
        hits = found(run("search", *flags, *filtered(*filter), stdin=stdin))
        expected = [row for row in ROWS if holds(row)]
        assert 0 < len(expected) < 30 and len(hits) == len(expected), filter
        for hit in hits:
            number = int(hit["file"].rpartition(":")[2]) - 1
            row = ROWS[number]
            assert holds(row), filter
            assert {key: hit["metadata"][key] for key in ("year", "author", "tags", "day")} == {
                key: row[key] for key in ("year", "author", "tags", "day")}  # fmt: skip
            assert "text" not in hit["metadata"] and "id" not in hit["metadata"]
            assert ("date" in hit["metadata"]) == (where != "stdin")
        # Scores are those of a search without a filter.
        by_name = {hit["file"]: hit["score"] for hit in whole}
        assert all(hit["score"] == pytest.approx(by_name[hit["file"]]) for hit in hits)


@pytest.mark.parametrize("mode", ["sparse", "multi", "hybrid"])
def test_other_vectors_and_rerankers(table, mode):
    flags = [BGE, table, "--vectors", "dense,sparse,multi", "--mode", mode, "--query", "a b", "--json", "--top-k", 30, "--passage-tokens", 24]
    for more in ([], ["--rerank", RERANKER]):
        whole = {hit["file"] for hit in found(run("search", *flags, *more))}
        for filter, holds in WANTED.items():
            hits = {hit["file"] for hit in found(run("search", *flags, *more, *filtered(*filter)))}
            assert hits == {name for name in whole if holds(ROWS[int(name.rpartition(":")[2]) - 1])}, (filter, more)


def test_top_k_of_few(longformer, table):
    """Rows that match are far down in the order of all rows, and come back all the same."""
    flags = [longformer, table, "--query", "a b", "--json", "--mode", "dense"]
    order = [hit["file"] for hit in found(run("search", *flags, "--top-k", 30))]
    last = ROWS[int(order[-1].rpartition(":")[2]) - 1]
    (hit,) = found(run("search", *flags, "--top-k", 1, *filtered(f"year={last['year']}", f"day={last['day']}")))
    assert hit["file"] == order[-1]


def test_files_have_a_path_and_a_date(longformer, tmp_path):
    for name, time in {"a.txt": 0, "notes/b.md": 86400 * 365, "notes/deep/c.txt": 86400 * 800}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a b")
        os.utime(tmp_path / name, (time, time))
    sub = tmp_path / "notes"
    flags = ["--index", tmp_path / "index", "--query", "a", "--json", "--top-k", 9]
    run("search", longformer, ".", *flags, folder=tmp_path).works()
    for folder, filter, names in [
        (tmp_path, ["path=*.txt"], ["a.txt", "notes/deep/c.txt"]), (tmp_path, ["path=notes/*"], ["notes/b.md"]),
        (tmp_path, ["path=notes/**"], ["notes/b.md", "notes/deep/c.txt"]), (sub, ["path=deep/*"], ["deep/c.txt"]),
        (sub, ["path=../*"], ["../a.txt"]), (sub, ["path=b.md"], ["b.md"]), (tmp_path, ["path~DEEP"], ["notes/deep/c.txt"]),
        (tmp_path, ["date>=1971"], ["notes/b.md", "notes/deep/c.txt"]), (tmp_path, ["date<1971"], ["a.txt"]),
        (tmp_path, ["date=1971-01-01"], ["notes/b.md"]), (tmp_path, ["date>1971-01-01"], ["notes/deep/c.txt"]),
        (tmp_path, ["path!=*.txt"], ["notes/b.md"]), (tmp_path, ["path=*.rst"], []),
    ]:  # fmt: skip
        for model in ([longformer], []):
            mode = [] if model else ["--mode", "lexical"]
            hits = found(run("search", *model, *flags, *mode, *filtered(*filter), folder=folder))
            assert sorted(hit["file"] for hit in hits) == names, (filter, folder)
    (row,) = run("search", *flags, "--mode", "lexical", *filtered("path=*.rst"), folder=tmp_path).json
    assert row["note"] == "no document is as the filter asks"
    listed = run("search", "--index", "index", "--list", "--json", *filtered("date>=1971"), folder=tmp_path).works().json
    assert [row["file"] for row in listed] == ["notes/b.md", "notes/deep/c.txt"]
    assert listed[0]["metadata"] == {"date": "1971-01-01T00:00:00Z"}
    (stats,) = run("search", "--index", "index", "--stats", "--json", folder=tmp_path).works().json
    assert stats["fields"] == ["path", "date"]


def test_csv_and_the_date_of_a_row(longformer, tmp_path):
    (tmp_path / "a.csv").write_text('text,date,pages,who\n"a b",2020-05-01,10,"A, B"\n"a c",1999-01-01,9,C\n')
    flags = [longformer, tmp_path / "a.csv", "--query", "a", "--json"]
    (hit,) = found(run("search", *flags, *filtered("date>=2000")))
    assert hit["metadata"] == {"date": "2020-05-01", "pages": "10", "who": "A, B"}
    assert len(found(run("search", *flags, *filtered("pages<9.5")))) == 1
    assert len(found(run("search", *flags, *filtered("who=A, B")))) == 1


def test_phrases_and_filters(longformer, table):
    flags = [longformer, table, "--json", "--top-k", 30, "--mode", "lexical", *filtered("year=2011")]
    (row,) = run("search", *flags, "--query", '"e f b"').json
    assert "note" in row and row["hits"]
    (row,) = run("search", *flags, "--query", '"e f a"').works().json
    assert row["hits"] and all("e f a" in hit["text"] for hit in row["hits"])


def test_unknown_fields_and_malformed_conditions(longformer, table, tmp_path):
    flags = [longformer, table, "--query", "a"]
    run("search", *flags, "--filter", "yaer>2000").fails(2, "--filter", "path, author, date, day, tags, year", "'yaer'")
    for wrong in ("year", "=2000", "path>a", "year>[1, 2]"):
        run("search", *flags, "--filter", wrong).fails(2, "--filter", wrong)
    run("search", longformer, table, "--index", tmp_path / "index", "--query", "a").works()
    run("search", "--index", tmp_path / "index", "--stats", "--filter", "year=1").fails(2, "--filter", "--list")


def test_an_index_of_before_gets_metadata(longformer, table, tmp_path):
    index = tmp_path / "index"
    flags = ["--index", index, "--query", "a", "--json"]
    run("search", longformer, table, *flags).works()
    with contextlib.closing(sqlite3.connect(index)) as database:
        database.executescript("DROP TABLE fields; DROP TABLE field_values; ALTER TABLE documents DROP COLUMN metadata;")
    hits = found(run("search", longformer, *flags))
    assert len(hits) == 3 and all("metadata" not in hit for hit in hits)
    assert len(found(run("search", longformer, *flags, "--top-k", 50, *filtered("path=rows.jsonl")))) == 30
    run("search", longformer, *flags, *filtered("year=2011")).fails(2, "older program", "'year'")
    again = run("search", longformer, table, *flags, *filtered("year=2011"))
    assert len(again.works().json[0]["hits"]) == 3


def test_other_fields_of_a_row_change_without_reading_it_again(longformer, table, tmp_path):
    index = tmp_path / "index"
    flags = ["--index", index, "--query", "a", "--json"]
    run("search", longformer, table, *flags).works()
    date = os.stat(table)
    table.write_text(table.read_text().replace('"year": 2011', '"year": 1911'))
    os.utime(table, (date.st_atime, date.st_mtime))
    assert len(found(run("search", longformer, table, *flags, *filtered("year=1911")))) == 3
    (again,) = run("search", longformer, table, *flags).works().json
    assert again["documents"] == 30
