"""Tables in: every verb reads the rows of CSV, TSV and JSON lines, packed or not, as data sets are read."""

import csv
import gzip
import io
import json
import lzma
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import pytest
from cli_sequence_test import folder_of
from cli_streams_test import Conversation
from cli_test import BERT, BINARY, FIXTURES, ROBERTA, longformer, run  # noqa: F401

RERANKER = FIXTURES / "rerankers" / "bert"
PLACE = tempfile.TemporaryDirectory()
LED, _ = folder_of("tiny_led", pathlib.Path(PLACE.name))
CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
#: Arguments of each verb that reads documents, besides the documents.
VERBS = {
    "tokenize": [BERT], "embed": [BERT], "classify": [CLASSIFIER], "ner": [FIXTURES / "tiny_bert_tagger"], "coref": [FIXTURES / "coreference"],
    "fill-mask": [ROBERTA], "qa": [FIXTURES / "tiny_longformer_qa", "-q", "a"], "rerank": [RERANKER, "a"],
    "summarize": [LED, "--max-new-tokens", 3], "generate": [LED, "--max-new-tokens", 3], "attention": [BERT],
}  # fmt: skip
ROWS = [("7", "the cat <mask>", 'a, "b"'), ("x;1", "he was\nhere <mask>", ""), ("é", "it is; so <mask>", "c\td")]
NAMES = ["id", "text", "title"]


def delimited(rows=ROWS, names=NAMES, **how):
    out = io.StringIO(newline="")
    writer = csv.writer(out, **how)
    writer.writerows([names, *rows])
    return out.getvalue()


def json_lines(rows=ROWS, names=NAMES):
    return "".join(json.dumps(dict(zip(names, row)), ensure_ascii=False) + "\n" for row in rows)


FORMS = {
    "csv": delimited(), "tsv": delimited(delimiter="\t"), "jsonl": json_lines(), "ndjson": "\n" + json_lines(),
    "CSV": delimited(delimiter=";", lineterminator="\n"), "bom.csv": "\ufeff" + delimited(quoting=csv.QUOTE_ALL),
    "bar.csv": "\n\r\n" + delimited(delimiter="|"), "jq.jsonl": "\n".join(json.dumps(json.loads(line), indent=2) for line in json_lines().splitlines()),
}  # fmt: skip


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


PACKED = {"": lambda data: data, ".gz": gzip.compress, ".xz": lzma.compress}
if shutil.which("zstd"):
    PACKED[".zst"] = zstd


def ids_of(rows):
    return [row["id"] for row in rows]


class TestEveryVerb:
    @pytest.mark.parametrize("verb", VERBS)
    @pytest.mark.parametrize("form", FORMS)
    def test_reads_every_form(self, tmp_path, verb, form):
        file = tmp_path / f"data.{form}"
        file.write_bytes(FORMS[form].encode())
        found = run(verb, *VERBS[verb], file, "--json").passes().json
        seen = [row["id"] for row in found]
        assert sorted(dict.fromkeys(seen)) == sorted(row[0] for row in ROWS)
        assert {row["file"] for row in found} == {str(file)}
        lines = sorted({row["line"] for row in found})
        assert len(lines) == 3 and lines == sorted(lines) and lines[0] > 0

    @pytest.mark.parametrize("verb", VERBS)
    @pytest.mark.parametrize("ending", [ending for ending in PACKED if ending])
    def test_reads_what_is_packed(self, tmp_path, verb, ending):
        for form in ("csv", "jsonl"):
            file = tmp_path / f"data.{form}"
            file.write_bytes(FORMS[form].encode())
            packed = tmp_path / f"data.{form}{ending}"
            packed.write_bytes(PACKED[ending](FORMS[form].encode()))
            plain = run(verb, *VERBS[verb], file, "--json").passes().json
            found = run(verb, *VERBS[verb], packed, "--json").passes().json
            piped = run(verb, *VERBS[verb], "--text-field", "text", "--json", stdin=packed.read_bytes()).passes().json
            for row in [*plain, *found, *piped]:
                del row["file"]
            assert found == plain and piped == plain and len(found) >= 3

    def test_search_and_compare(self, tmp_path, longformer):
        (tmp_path / "data.csv.gz").write_bytes(gzip.compress(FORMS["csv"].encode()))
        flags = ["--passage-tokens", 8, "--query", "cat", "--json"]
        found = run("search", longformer, "data.csv.gz", *flags, folder=tmp_path).passes().json[0]
        assert found["documents"] == 3 and found["hits"][0]["file"].startswith("data.csv.gz:")
        assert run("search", longformer, "data.csv.gz", *flags, "--format", "text", folder=tmp_path).passes().json[0]["documents"] == 1
        assert run("compare", BERT, BERT, "data.csv.gz", "--json", folder=tmp_path).passes().json[0]["texts"] == 3

    def test_folders_of_packed_texts(self, tmp_path, longformer):
        (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"the cat"))
        (tmp_path / "b.html.xz").write_bytes(lzma.compress(b"<p>he <b>was</b>"))
        found = run("search", longformer, tmp_path, "--passage-tokens", 8, "--query", "was", "--json").passes().json[0]
        assert found["documents"] == 2 and any("he was" in hit["text"] for hit in found["hits"])


def texts(*arguments, **how):
    """The texts of the documents, as the program has read them."""
    done = run("rerank", RERANKER, "a", *arguments, "--return-text", "--truncate", "--json", **how)
    return done, {row["line"]: row["text"] for row in done.json if "text" in row}


class TestCsv:
    def test_is_read_as_python_reads_it(self, tmp_path):
        """Random tables in all dialects against the csv module."""
        draw = random.Random(5)
        pieces = ["a", "b c", '"', '""', ",", ";", "\n", "\r\n", "é", " ", "\t", "|", "'", "日本", "x" * 50, "\\"]
        for trial in range(40):
            delimiter = draw.choice(",;\t|")
            quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
            ending = draw.choice(["\r\n", "\n"])
            encoding = draw.choice(["utf-8", "utf-8-sig", "utf-16"])
            names = ["k", "text", *[f"c{i}" for i in range(draw.randrange(3))]]
            draw.shuffle(names)
            rows = [["".join(draw.choices(pieces, k=draw.randrange(5))) for _ in names] for _ in range(draw.randrange(1, 12))]
            data = delimited(rows, names, delimiter=delimiter, quoting=quoting, lineterminator=ending)
            file = tmp_path / f"{trial}.csv"
            file.write_bytes(data.encode(encoding))
            expected = [row[names.index("text")] for row in csv.reader(io.StringIO(data, newline=""), delimiter=delimiter) if row][1:]
            flags = draw.choice([[], ["--delimiter", "tab" if delimiter == "\t" else delimiter]])
            _, found = texts(file, *flags)
            assert [found[line] for line in sorted(found)] == expected, (trial, data)

    def test_ragged_rows_are_told_with_line_and_counts(self, tmp_path):
        file = tmp_path / "a.csv"
        file.write_text('id,text\n1,"a\nb"\n2,c,d\n3\n4,"e"f\n5,g\n')
        done, found = texts(file)
        assert done.code == 1 and sorted(found.values()) == ["a\nb", "g"]
        assert f"{file}:4: expected 2 fields, as the header has, found 3" in done.err
        assert f"{file}:5: expected 2 fields, as the header has, found 1" in done.err
        assert f"{file}:6: expected a separator behind a closing quote" in done.err and "--no-quotes" in done.err

    def test_a_quote_that_stays_open(self, tmp_path):
        """It is told with its line, and the rows behind it are read."""
        (tmp_path / "a.csv").write_text('id,text\n1,a\n2,"b\n3,c\n')
        done, found = texts("a.csv", folder=tmp_path)
        assert done.code == 1 and sorted(found.items()) == [(2, "a"), (4, "c")] and "a.csv:3: expected a closing quote" in done.err
        (tmp_path / "a.csv").write_text('id,text\n1,a\n2,"b\n3,c\n4,"d"\n5,e\n')
        done, found = texts("a.csv", folder=tmp_path)
        assert done.code == 1 and sorted(found.items()) == [(2, "a"), (4, "c"), (5, "d"), (6, "e")]
        assert "a.csv:3: expected a separator behind the closing quote in line 5" in done.err

    def test_quotes_in_data_sets(self, tmp_path):
        (tmp_path / "a.csv").write_text('text,label\na,good\n"b,bad\nc,good\nd,bad\n')
        run("evaluate", CLASSIFIER, "a.csv", folder=tmp_path).fails(1, "a.csv:3: expected a closing quote", "--skip-invalid")
        found = run("evaluate", CLASSIFIER, "a.csv", "--skip-invalid", "--json", folder=tmp_path).passes().json[0]
        assert found["examples"] == 3 and found["skipped"] == 1

    @pytest.mark.parametrize("verb", VERBS)
    def test_the_separator_that_excel_names(self, tmp_path, verb):
        (tmp_path / "a.csv").write_bytes("sep=;\r\nid;text\r\n1;a, b <mask>\r\n2;c <mask>\r\n".encode("utf-8-sig"))
        found = run(verb, *VERBS[verb], "a.csv", "--json", folder=tmp_path).passes().json
        assert sorted(set(ids_of(found))) == ["1", "2"]

    def test_one_named_column_is_no_line(self, tmp_path):
        (tmp_path / "a.csv").write_text("a,1\nb,2\n")
        done, found = texts("a.csv", "--columns", "text", folder=tmp_path)
        assert done.code == 1 and not found and "expected 1 fields" in done.err and "found 2" in done.err
        (tmp_path / "a.csv").write_text("a\nb\n")
        assert sorted(texts("a.csv", "--columns", "text", folder=tmp_path)[1].values()) == ["a", "b"]

    @pytest.mark.parametrize("content, words", [
        ("", ["expected a header, found an empty file"]),
        ("id,review\n1,a\n", ['the column "text"', '"id", "review"', "--text-field"]),
        ("id~review\n1~a\n", ['"id~review"', "--text-field", "--delimiter"]),
        ("text,text\na,b\n", ['expected one column "text", found two']),
        ("id,text,id\n1,a,2\n", ['expected one column "id", found two'])])  # fmt: skip
    def test_what_is_wrong_with_a_header(self, tmp_path, content, words):
        (tmp_path / "a.csv").write_text(content)
        for verb in ("tokenize", "classify"):
            run(verb, *VERBS[verb], "a.csv", folder=tmp_path).fails(1, "a.csv: ", *words)

    def test_a_header_alone_is_no_document(self, tmp_path):
        (tmp_path / "a.csv").write_text("id,text\n")
        assert run("tokenize", BERT, "a.csv", "--json", folder=tmp_path).works().out == ""
        run("tokenize", BERT, "--text-field", "text", stdin="id,text\n").fails(1, "standard input: expected a row behind the header")

    def test_names_of_columns(self, tmp_path):
        (tmp_path / "a.csv").write_text("key;body;id\n17;a b;3\n")
        row = run("tokenize", BERT, "a.csv", "--text-field", "body", "--id-field", "key", "--json", folder=tmp_path).works().json[0]
        assert row["id"] == "17" and len(row["ids"]) == 4
        run("tokenize", BERT, "a.csv", "--text-field", "body", "--id-field", "none", folder=tmp_path).fails(1, '"key", "body", "id"', "--id-field")
        (tmp_path / "b.csv").write_text("17,a b\n18,c\n")
        rows = run("tokenize", BERT, "b.csv", "--columns", "id,text", "--json", folder=tmp_path).works().json
        assert ids_of(rows) == ["17", "18"]
        # The older name.
        assert run("tokenize", BERT, "a.csv", "--field", "body", "--json", folder=tmp_path).works().json[0]["ids"] == row["ids"]
        run("tokenize", BERT, "a.csv", "--field", "body", "--text-field", "b", folder=tmp_path).fails(2, "--field")

    def test_questions_of_rows(self, tmp_path):
        (tmp_path / "a.csv").write_text('id,text,question\n1,the cat was,who\n2,"he, it",what\n')
        model = VERBS["qa"][0]
        rows = run("qa", model, "a.csv", "--question-field", "question", "--json", folder=tmp_path).works().json
        assert [(row["id"], row["question"]) for row in rows] == [("1", "who"), ("2", "what")]
        run("qa", model, "a.csv", "--question-field", "q", folder=tmp_path).fails(1, 'the column "q"', '"question"')

    @pytest.mark.parametrize("python, name", [("latin-1", "latin-1"), ("cp1252", "auto"), ("utf-16", "utf-16"), ("cp1251", "cp1251")])
    def test_encodings(self, tmp_path, python, name):
        word = "жар" if python == "cp1251" else "café"
        (tmp_path / "a.csv").write_bytes(f'id;text\n1;"{word}; a"\n'.encode(python))
        _, found = texts("a.csv", "--encoding", name, folder=tmp_path)
        assert list(found.values()) == [f"{word}; a"]

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    def test_utf_16_without_a_mark(self, tmp_path, encoding):
        (tmp_path / "a.csv").write_bytes('id;text\n1;"é, it was"\n'.encode(encoding))
        (tmp_path / "a.txt").write_bytes("é, it was".encode(encoding))
        expected = run("tokenize", BERT, "--text", "é, it was").works().out
        for name in ("a.csv", "a.txt"):
            done = run("tokenize", BERT, name, folder=tmp_path).passes()
            assert done.out == expected and "no byte-order mark" in done.err
            assert run("tokenize", BERT, name, "--quiet", folder=tmp_path).works().out == expected
        assert run("tokenize", BERT, stdin="é, it was".encode(encoding)).passes().out == expected

    def test_rows_come_as_they_are_written(self):
        with Conversation("classify", CLASSIFIER, "--text-field", "text", "--json") as talk:
            talk.say("id,text\n1,a\n")
            assert json.loads(talk.hear(1)[0])["id"] == "1"
            talk.say('2,"b\n')
            talk.say('c"\n')
            assert json.loads(talk.hear(1)[0])["line"] == 3

    def test_a_large_table_takes_no_more_memory(self, tmp_path):
        small, large = tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"
        row = "1,a " + "b " * 500 + "\n"
        with gzip.open(small, "wt", 1) as file:
            file.write("id,text\n" + row * 50)
        with gzip.open(large, "wt", 1) as file:
            file.write("id,text\n")
            for _ in range(20):
                file.write(row * 1000)  # 20 MB

        def peak(file):
            code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
                    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")  # fmt: skip
            command = [BINARY, "tokenize", BERT, "--stats", file]
            return int(subprocess.run([sys.executable, "-c", code, *map(str, command)], check=True, capture_output=True).stdout)

        assert peak(large) < peak(small) + 10_000


class TestJson:
    def test_lists(self, tmp_path):
        rows = [dict(zip(NAMES, row)) for row in ROWS]
        for text in (json.dumps(rows), json.dumps(rows, indent=1)):
            (tmp_path / "a.json").write_text(text)
            found = run("tokenize", BERT, "a.json", "--text-field", "text", "--json", folder=tmp_path).works().json
            assert ids_of(found) == [row[0] for row in ROWS] and [row["line"] for row in found] == [1, 2, 3]

    @pytest.mark.parametrize("verb", VERBS)
    def test_streams_of_objects(self, tmp_path, verb):
        """Objects over several lines and on one line, in files and pipes, are those of JSON lines."""
        rows = [dict(zip(NAMES, row)) for row in ROWS]
        (tmp_path / "a.jsonl").write_text(json_lines())
        flags = [*VERBS[verb], "--text-field", "text", "--json"]

        def found(*arguments, **how):
            said = run(verb, *flags, *arguments, folder=tmp_path, **how).passes().json
            return [{key: value for key, value in row.items() if key not in ("file", "line", "record")} for row in said], said

        wanted, _ = found("a.jsonl")
        for indent, between in ((2, "\n"), (0, ""), (None, ""), (None, " "), (4, "\n\n")):
            text = between.join(json.dumps(row, indent=indent) for row in rows)
            for name in ("b.jsonl", "b"):
                (tmp_path / name).write_text(text)
                assert found(name)[0] == wanted
            same, said = found(stdin=text)
            places = {(row["line"], row.get("record", 0)) for row in said}
            assert same == wanted and len(places) == 3

    def test_a_broken_object_is_one_error(self, tmp_path):
        """It takes no other row with it, in lines and in objects over several lines."""
        good = [json.dumps({"id": i, "text": "a"}) for i in range(4)]
        for broken in ('{"id": 9, "text": ', '{"id": 9, "text": [', '{"id": 9,', '{"id": 9', "{", '{"id": 9}}', "x", '{"id": 9, "text": "a'):
            (tmp_path / "a.jsonl").write_text("\n".join([good[0], broken, *good[1:]]) + "\n")
            done = run("tokenize", BERT, "a.jsonl", "--json", folder=tmp_path).fails(1, "a.jsonl:2: ")
            assert [row.get("id") for row in done.json] == [0, None, 1, 2, 3] and len(done.err.splitlines()) == 1
        pretty = [json.dumps({"id": i, "text": "a", "more": [{"text": "b"}]}, indent=2) for i in range(3)]
        pretty[1] = pretty[1].replace("],", "]").replace('"a",', '"a"')
        (tmp_path / "a.jsonl").write_text("\n".join(pretty))
        done = run("tokenize", BERT, "a.jsonl", "--json", folder=tmp_path).fails(1, "a.jsonl:10: ")
        assert [row.get("id") for row in done.json] == [0, None, 2] and len(done.err.splitlines()) == 1

    def test_objects_on_one_line_are_documents_of_their_own(self, tmp_path, longformer):
        (tmp_path / "a.jsonl").write_text('{"text": "the cat"}{"text": "he was"}\n{"text": "a cat"}')
        run("search", longformer, "a.jsonl", "--index", "i", "--passage-tokens", 8, folder=tmp_path).passes()
        listed = run("search", "--index", "i", "--list", "--json", folder=tmp_path).passes().json
        assert sorted(row["file"] for row in listed) == ["a.jsonl:1", "a.jsonl:1:2", "a.jsonl:2"]

    def test_objects_without_the_field_are_told_once(self, tmp_path):
        (tmp_path / "a.jsonl").write_text('{"id": 1, "review": "a"}\n' * 500)
        done = run("tokenize", BERT, "a.jsonl", folder=tmp_path)
        assert done.code == 1 and len(done.err.splitlines()) == 1
        assert 'first 20 objects, found none: their fields are "id", "review"' in done.err and "--text-field" in done.err

    @pytest.mark.parametrize("verb", VERBS)
    @pytest.mark.parametrize("name, text, flags, words", [
        ("a.jsonl", '{"text": "a", "key": 1}\n' * 100, ["--id-field", "id"], ['the field "id" of the id', '"key", "text"', "--id-field"]),
        ("a.jsonl", '{"body": "a", "id": 1}\n' * 100, [], ['the field "text"', '"body", "id"', "--text-field"]),
        ("a.jsonl", json.dumps([{"text": "a"}] * 100, indent=1), [], ["found a list", ".json"]),
        ("a.jsonl", json.dumps([{"text": "a"}] * 100), [], ["found a list", ".json"]),
        ("a.jsonl", '{\n "body": "a"\n}\n' * 100, [], ['the field "text"', '"body"', "--text-field"]),
        ("a.csv", "id,text\n" + "1,a,b\n" * 100, [], ["2 fields", '"id", "text"', "3 in the first", "--delimiter"]),
        ("a.html", "<p>one\n" * 100, ["--text-field", "text"], ["a table", '"<p>one"', "--text-field"]),
        ("a.csv", "text,id\n" + "a,1\n" * 100, ["--id-field", "key"], ['the column "key"', '"text", "id"', "--id-field"]),
    ])  # fmt: skip
    def test_a_fault_of_all_rows_is_told_once(self, tmp_path, verb, name, text, flags, words):
        (tmp_path / name).write_text(text)
        run(verb, *VERBS[verb], name, *flags, folder=tmp_path).fails(1, f"{name}: expected", *words)

    def test_the_text_may_be_the_id(self, tmp_path):
        (tmp_path / "a.csv").write_text("text,id\na,1\n")
        (tmp_path / "a.jsonl").write_text('{"text": "a", "id": 1}\n')
        for name in ("a.csv", "a.jsonl"):
            assert run("tokenize", BERT, name, "--id-field", "text", "--json", folder=tmp_path).works().json[0]["id"] == "a"
        (tmp_path / "b.csv").write_text("key,id,body\n1,2,c\n")
        failed = run("tokenize", BERT, "b.csv", "--id-field", "key", folder=tmp_path).fails(1, 'the columns "key", "id", "body"')
        assert "_id" not in failed.err

    def test_a_pipe_gets_an_answer_to_every_line(self):
        done = run("tokenize", BERT, "--text-field", "text", "--json", stdin='{"a": 1}\n' * 30)
        assert done.code == 1 and len(done.json) == 30

    def test_ids_keep_their_type(self, tmp_path):
        (tmp_path / "a.jsonl").write_text('{"_id": 7, "text": "a"}\n{"id": "7", "text": "b"}\n{"text": "c"}\n')
        rows = run("tokenize", BERT, "a.jsonl", "--json", folder=tmp_path).works().json
        assert [row.get("id") for row in rows] == [7, "7", None]


class TestArchives:
    @pytest.mark.parametrize("ending", [ending for ending in PACKED if ending])
    def test_texts_and_data_sets(self, tmp_path, ending):
        (tmp_path / f"a.txt{ending}").write_bytes(PACKED[ending](b"a b c"))
        # Its first bytes count, not its name.
        (tmp_path / "b.txt").write_bytes(PACKED[ending](b"a b c"))
        rows = run("tokenize", BERT, f"a.txt{ending}", "b.txt", folder=tmp_path).works().out.splitlines()
        assert rows[0] == rows[1] == run("tokenize", BERT, "--text", "a b c").works().out.strip()
        assert run("tokenize", BERT, stdin=PACKED[ending](b"a b c")).works().out.strip() == rows[0]
        (tmp_path / f"d.csv{ending}").write_bytes(PACKED[ending](b"text;label\na;good\nb;bad\n"))
        found = run("evaluate", CLASSIFIER, f"d.csv{ending}", "--json", folder=tmp_path).passes().json[0]
        assert found["examples"] == 2

    @pytest.mark.parametrize("ending", [ending for ending in PACKED if ending])
    def test_members_behind_each_other_are_one_text(self, tmp_path, ending):
        (tmp_path / "a.txt").write_bytes(PACKED[ending](b"a ") + PACKED[ending](b"") + PACKED[ending](b"b c"))
        assert run("tokenize", BERT, "a.txt", folder=tmp_path).works().out == run("tokenize", BERT, "--text", "a b c").works().out

    @pytest.mark.parametrize("ending", [ending for ending in PACKED if ending])
    def test_damage_is_one_error(self, tmp_path, ending):
        rows = "".join(f"{i},{random.Random(i).random()} a b\n" for i in range(20000))
        whole = PACKED[ending](("id,text\n" + rows).encode())
        for name, data, word in (("cut", whole[: len(whole) // 2], "cut off"), ("two", whole[:7], "cut off"),
                                 ("wrong", whole[:5000] + bytes(64) + whole[5064:], "found"), ("behind", whole + b"abc", "found")):  # fmt: skip
            (tmp_path / "a.csv").write_bytes(data)
            done = run("tokenize", BERT, "a.csv", "--stats", "--json", folder=tmp_path)
            errors = [line for line in done.err.splitlines() if "error" in line]
            # A checksum comes behind the rows that it is about. Without any row there is no table of lengths.
            assert done.code == 1 and len(errors) <= (1 if name == "cut" else 2 if name == "two" else 99) and any("a.csv: expected a whole" in line and word in line for line in errors), (name, done.err)
            (tmp_path / "a.txt").write_bytes(data)
            run("tokenize", BERT, "a.txt", folder=tmp_path).fails(1, "a.txt: expected a whole", word)
            assert run("evaluate", CLASSIFIER, "a.csv", folder=tmp_path).code == 1

    @pytest.mark.parametrize("ending", [ending for ending in PACKED if ending != ".gz" and ending])
    def test_bombs_are_refused(self, tmp_path, ending):
        with lzma.open(tmp_path / "a.txt", "wb", preset=0) if ending == ".xz" else open(tmp_path / "zeros", "wb") as file:
            for _ in range(300):
                file.write(b"a" * (1 << 20))
        if ending == ".zst":
            (tmp_path / "a.txt").write_bytes(zstd((tmp_path / "zeros").read_bytes()))
        run("tokenize", BERT, "a.txt", folder=tmp_path).fails(1, "a.txt: expected a whole", "more than 500 times its size")

    def test_an_archive_in_an_archive_is_no_text(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(gzip.compress(gzip.compress(b"a")))
        run("tokenize", BERT, "a.txt", folder=tmp_path).fails(1, "a.txt: expected text, found a gzip archive")

    def test_parquet_is_told(self, tmp_path):
        (tmp_path / "a.parquet").write_bytes(b"PAR1\x15\4\x15\x10")
        run("tokenize", BERT, "a.parquet", folder=tmp_path).fails(1, "a Parquet file", "pyarrow.parquet.read_table", "CSV")


class TestTablesInDisguise:
    @pytest.mark.parametrize("text, word", [
        (delimited(ROWS * 2), 'CSV with the columns "id", "text", "title"'), (json_lines(), 'JSON lines with the fields "id", "text", "title"')])
    def test_are_told_once(self, tmp_path, text, word):
        for name in ("a.txt", "b.txt"):
            (tmp_path / name).write_text(text)
        err = run("tokenize", BERT, "a.txt", "b.txt", folder=tmp_path).passes().err
        assert err.count("note") == 1 and f"a.txt: read as one text, and looks like {word}" in err and "--text-field" in err
        rows = run("tokenize", BERT, "a.txt", "--text-field", "text", "--json", folder=tmp_path).works().json
        assert len(rows) in (3, 6)

    @pytest.mark.parametrize("text", [
        "It was so, and he left.\nThen, at noon, it rained.\nNobody came, nobody asked.\n", '{"a": 1}\n', "a,b\n", "one\ntwo\nthree\n",
        '{"a": 1}\nand so on\n', "Dear Ada,\n\nthank you, Tom,\nfor all,\n"])
    def test_texts_are_not(self, tmp_path, text):
        (tmp_path / "a.txt").write_text(text)
        run("tokenize", BERT, "a.txt", folder=tmp_path).works()


class TestData:
    def test_finetune_names_columns_and_options(self, tmp_path):
        (tmp_path / "a.csv").write_text("review;stars\ngood film;5\nbad film;1\n")
        (tmp_path / "a.jsonl").write_text('{"review": "a", "stars": 5}\n')
        flags = ["--task", "classify", "--output-dir", "out", "--max-steps", 1]
        run("finetune", BERT, "a.csv", *flags, folder=tmp_path).fails(1, '"text" and "label"', '"review", "stars"', "--text-field", "--label-field")
        run("finetune", BERT, "a.jsonl", *flags, folder=tmp_path).fails(1, '"text"', '"review", "stars"', "--text-field")
        named = ["--text-field", "review", "--label-field", "stars"]
        done = run("finetune", BERT, "a.csv", *flags, *named, folder=tmp_path)
        assert done.code == 0 and "2 examples" in done.err, done.err

    def test_ids_of_predictions(self, tmp_path):
        for name, text in (("a.csv", "id,key,text,label\n1,k,a,good\n2,l,b,bad\n"),
                           ("a.jsonl", '{"id": 1, "key": "k", "text": "a", "label": "good"}\n{"id": 2, "key": "l", "text": "b", "label": "bad"}\n')):  # fmt: skip
            (tmp_path / name).write_text(text)
            run("evaluate", CLASSIFIER, name, "--id-field", "key", "--predictions", "said.csv", folder=tmp_path).passes()
            assert [row["id"] for row in csv.DictReader(open(tmp_path / "said.csv", newline=""))] == ["k", "l"]

    @pytest.mark.parametrize("task, rows", [
        ("classify", '{"text": 1}\n'), ("ner", '{"tokens": 1}\n'), ("qa", '{"context": 1}\n'), ("choose", '{"choices": 1}\n'),
        ("embedding", '{"anchor": 1}\n'), ("rerank", '{"query": 1}\n'), ("coreference", '{"clusters": 1}\n'), ("multihop", '{"id": 1}\n')])
    def test_no_row_is_left(self, tmp_path, task, rows):
        (tmp_path / "a.jsonl").write_text(rows * 5)
        failed = run("finetune", BERT, "a.jsonl", "--task", task, "--skip-invalid", "--output-dir", "out", folder=tmp_path)
        assert failed.code == 1 and "found none: all 5 were left out as broken, the first: a.jsonl:1: " in failed.err, failed.err
        assert not (tmp_path / "out").exists()

    def test_texts_of_a_masked_lm(self, tmp_path):
        (tmp_path / "a.csv").write_text("id;text\n1;" + "a b c d " * 30 + "\n2;" + "c d " * 30 + "\n")
        found = run("evaluate", ROBERTA, "a.csv", "--mask-every", 5, "--json", folder=tmp_path).passes().json[0]
        assert found["task"] == "masked-lm" and found["tokens"] > 40


def test_settings_of_resume(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n1,a\n2,b c\n")
    flags = ["embed", BERT, "a.csv", "-o", "v.npy", "--resume"]
    run(*flags, folder=tmp_path).passes()
    (tmp_path / "a.csv").write_text("id,text\n1,a\n2,b c\n3,c\n")
    run(*flags, folder=tmp_path).passes()
    assert [json.loads(line)["id"] for line in (tmp_path / "v.jsonl").read_text().splitlines()] == ["1", "2", "3"]
    run(*flags, "--delimiter", ";", folder=tmp_path).fails(1, "--delimiter")
    assert not os.path.exists(tmp_path / "v.ids.csv")
