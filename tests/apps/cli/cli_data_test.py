"""Data as other programs write them: JSON and CSV of Python, line ends, byte-order marks, pipes. A file says what
Python's own modules read in it, written as plain JSON lines."""

import csv
import io
import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from cli_sequence_test import folder_of
from cli_test import BINARY, FIXTURES, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
TAGGER = FIXTURES / "tiny_bert_tagger"
LABELS = ["bad", "fair", "good"]
SEEDS = range(6)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def said(folder, model, data, *flags, stdin=b""):
    """Predictions of evaluate for each example, without lines and ids."""
    predictions = folder / "said.jsonl"
    result = run("evaluate", model, data, "--json", "--predictions", predictions, *flags, stdin=stdin)
    assert result.code == 0, result.err
    rows = [json.loads(line) for line in predictions.read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in ("line", "record", "id")} for row in rows]


def plain(folder, rows):
    """Texts and labels as JSON lines that nobody can read otherwise."""
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=False) for text, label in rows]
    return write(folder / "plain.jsonl", "\n".join(lines) + "\n")


def repaired(text):
    return "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)


def drawn_text(draw, alphabet):
    return "".join(draw.choice(alphabet) for _ in range(draw.randrange(12)))


class TestJsonAsPythonReadsIt:
    """Lines that json.loads takes: the oracle is Python's json module."""

    STRINGS = ["a", "é", "\\n", '\\"', "\\\\", "\\u00e9", "\\ud83d", "\\ude00", "\\ud83d\\ude00", "\\uD83D\\uDE00", "😀", "NaN",
               "0E0", " ", "\\/", "\\u0041"]  # fmt: skip
    NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "0E0", "1E5", "-0.0", "123456789012345678901234567890", "null",
               "true", "[NaN, {}]", '{"label": "x"}', '"NaN"', "[]"]  # fmt: skip

    def line(self, draw):
        members = [f'"text": "{drawn_text(draw, self.STRINGS)}"', f'"label": "{draw.choice(LABELS)}"']
        for name in ("score", "score", "other", "text_pair"):
            if draw.random() < 0.4:
                members.append(f'"{name}": {draw.choice(self.NUMBERS) if name != "text_pair" else draw.choice(["null", "NaN"])}')
        if draw.random() < 0.2:
            members.append(f'"label": "{draw.choice(LABELS)}"')
        draw.shuffle(members)
        return "{" + ", ".join(members) + "}"

    @pytest.mark.parametrize("seed", SEEDS)
    def test_generated_lines(self, tmp_path, seed):
        draw = random.Random(seed)
        content = "".join(draw.choice(["", "\n", " \r\n"]) + self.line(draw) + draw.choice(["\n", "\r\n", "\r"]) for _ in range(20))
        data = write(tmp_path / "d.jsonl", content)
        rows = [json.loads(line) for line in io.StringIO(content, newline=None) if line.strip()]
        expected = plain(tmp_path, [(repaired(row["text"]), row["label"]) for row in rows])
        assert said(tmp_path, CLASSIFIER, data) == said(tmp_path, CLASSIFIER, expected)
        whole = write(tmp_path / "d.json", "[" + ",\n".join(line for line in content.replace("\r", "\n").split("\n") if line.strip()) + "]")
        assert said(tmp_path, CLASSIFIER, whole) == said(tmp_path, CLASSIFIER, expected)
        tokens = [run("tokenize", CLASSIFIER, file, "--field", "text", "--json").json for file in (data, expected)]
        assert [row["ids"] for row in tokens[0]] == [row["ids"] for row in tokens[1]]

    def test_a_label_of_nan_is_none(self, tmp_path):
        data = write(tmp_path / "d.jsonl", '{"text": "a", "label": "good"}\n{"text": "b", "label": NaN}\n')
        run("evaluate", CLASSIFIER, data).fails(1, f"{data}:2: expected a label")
        assert len(said(tmp_path, CLASSIFIER, data, "--skip-invalid")) == 1

    def test_ids_of_many_digits_stay(self, tmp_path):
        ids = ["123456789012345678901", "123456789012345678902"]
        data = write(tmp_path / "d.jsonl", "".join(f'{{"id": {i}, "text": "a", "label": "good"}}\n' for i in ids))
        run("evaluate", CLASSIFIER, data, "--predictions", tmp_path / "p")
        assert [json.loads(line)["id"] for line in (tmp_path / "p").read_text().splitlines()] == [int(i) for i in ids]

    def test_lines_that_are_none_say_so(self, tmp_path):
        data = write(tmp_path / "d.jsonl", '{"text": "a"}\n["text"]\n{"text"\n')
        result = run("tokenize", CLASSIFIER, data, "--field", "text")
        assert result.code == 1 and f"{data}:2: expected a JSON object" in result.err and "found array" in result.err
        assert f"{data}:3: " in result.err and "found no JSON" in result.err


class TestCsvAsPythonReadsIt:
    """Files that csv.reader takes, as csv.writer writes them: the oracle is Python's csv module."""

    ALPHABET = ["a", "é", ",", ";", "\t", '"', "\n", "\r", "\r\n", " ", "''"]

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
    def test_generated_tables(self, tmp_path, seed, ends):
        draw = random.Random(seed)
        suffix, delimiter = draw.choice([(".csv", ","), (".tsv", "\t"), (".csv", ";")])
        table = io.StringIO(newline="")
        quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        writer = csv.writer(table, delimiter=delimiter, lineterminator=ends, quoting=quoting)
        writer.writerow(["label", "text"])
        # Python before 3.13 leaves line ends that are not `ends` without quotes, and reads another row of them.
        is_safe = quoting == csv.QUOTE_ALL or ends == "\r\n"
        alphabet = self.ALPHABET if is_safe else [part for part in self.ALPHABET if part.strip("\r\n")]
        for _ in range(20):
            writer.writerow([draw.choice(LABELS), drawn_text(draw, alphabet)])
        content = table.getvalue()
        data = write(tmp_path / ("d" + suffix), content if draw.random() < 0.5 else content.rstrip("\r\n"))
        rows = list(csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter))
        expected = plain(tmp_path, [(row["text"], row["label"]) for row in rows])
        flags = ["--delimiter", ";"] if delimiter == ";" else []
        assert said(tmp_path, CLASSIFIER, data, *flags) == said(tmp_path, CLASSIFIER, expected)

    @pytest.mark.parametrize("cell", ["", "NaN", "nan", "NA", "N/A", "<NA>", "null", "NULL", "None", "#N/A"])
    def test_cells_that_pandas_reads_as_none_are_no_label(self, tmp_path, cell):
        data = write(tmp_path / "d.csv", f"text,label\na,good\nb,{cell}\n")
        run("evaluate", CLASSIFIER, data).fails(1, f"{data}:3: expected a label")
        result = run("evaluate", CLASSIFIER, data, "--skip-invalid", "--json")
        assert result.json[0]["examples"] == 1 and "left out 1 broken example" in result.err


FILES = {
    "d.jsonl": '{"text": "schön", "label": "good"}\n{"text": "b", "label": "bad"}\n',
    "d.json": '[{"text": "schön", "label": "good"}, {"text": "b", "label": "bad"}]',
    "d.csv": "text,label\nschön,good\nb,bad\n",
    "d.tsv": "text\tlabel\nschön\tgood\nb\tbad\n",
    "fasttext": "__label__good schön\n__label__bad b\n",
}
MARKED = ["utf-8-sig", "utf-16", "utf-32"]


def marked(text, coding):
    """Text with a byte-order mark, which big-endian codecs do not write."""
    return ("\ufeff" + text).encode(coding) if coding.endswith("be") else text.encode(coding)


class TestByteOrderMarks:
    @pytest.mark.parametrize("coding", [*MARKED, "utf-16-be", "utf-32-be"])
    @pytest.mark.parametrize("name", FILES)
    def test_count_in_data_sets(self, tmp_path, name, coding):
        expected = said(tmp_path, CLASSIFIER, write(tmp_path / name, FILES[name]))
        assert said(tmp_path, CLASSIFIER, write(tmp_path / name, marked(FILES[name], coding))) == expected

    @pytest.mark.parametrize("coding", MARKED)
    def test_count_in_columns(self, tmp_path, coding):
        text = "Ada B-PER\nran O\n\n"
        expected = said(tmp_path, TAGGER, write(tmp_path / "a.conll", text))
        assert said(tmp_path, TAGGER, write(tmp_path / "a.conll", text.encode(coding))) == expected

    @pytest.mark.parametrize("coding", MARKED)
    @pytest.mark.parametrize("flags", [[], ["--lines"], ["--lines", "--encoding", "latin-1"], ["--encoding", "auto"]])
    def test_count_in_documents(self, tmp_path, coding, flags):
        text = "ein schönes Buch\nzwei\n"
        expected = run("tokenize", CLASSIFIER, write(tmp_path / "a.txt", text), *[flag for flag in flags if flag == "--lines"], "--json").json
        found = run("tokenize", CLASSIFIER, write(tmp_path / "a.txt", text.encode(coding)), *flags, "--json").works().json
        assert [row["ids"] for row in found] == [row["ids"] for row in expected]
        piped = run("tokenize", CLASSIFIER, *flags, "--json", stdin=text.encode(coding)).works().json
        assert [row["ids"] for row in piped] == [row["ids"] for row in expected]

    def test_missing_is_told(self, tmp_path):
        data = write(tmp_path / "a.txt", "text".encode("utf-16-le"))
        assert f"{data}: read as utf-16le, though it has no byte-order mark" in run("tokenize", CLASSIFIER, data).err


class TestLineEnds:
    @pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
    def test_of_every_kind(self, tmp_path, ends):
        for name, content in FILES.items():
            expected = said(tmp_path, CLASSIFIER, write(tmp_path / name, content))
            assert said(tmp_path, CLASSIFIER, write(tmp_path / name, content.replace("\n", ends))) == expected
        lines = run("tokenize", CLASSIFIER, "--lines", "--json", stdin=f"a{ends}{ends}b{ends}").works().json
        assert [row["line"] for row in lines] == [1, 2, 3]
        conll = write(tmp_path / "a.conll", f"Ada B-PER{ends}ran O{ends}{ends}It O{ends}")
        assert [row["labels"] for row in said(tmp_path, TAGGER, conll)] == [["B-PER", "O"], ["O"]]


def shell(command, timeout=60):
    return subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, text=True, check=False)


@pytest.fixture
def many(tmp_path):
    """More than the pipe and the look for the format hold."""
    rows = [(f"the cat number {i}", LABELS[i % 3]) for i in range(1500)]
    jsonl = write(tmp_path / "many.jsonl", "".join(json.dumps({"text": t, "label": c}) + "\n" for t, c in rows))
    table = write(tmp_path / "many.csv", "text,label\n" + "".join(f"{t},{c}\n" for t, c in rows))
    return jsonl, table


class TestPipes:
    def examples(self, command):
        done = shell(command)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["examples"]

    def test_are_read_whole(self, many):
        jsonl, table = many
        head = f"{BINARY} evaluate {CLASSIFIER}"
        assert self.examples(f"{head} <(cat {jsonl}) --json") == 1500
        assert self.examples(f"{head} <(cat {jsonl}) --json --skip-invalid") == 1500
        assert self.examples(f"cat {jsonl} | {head} /dev/stdin --json") == 1500
        assert self.examples(f"cat {jsonl} | {head} - --json") == 1500
        assert self.examples(f"{head} - --json < {jsonl}") == 1500
        assert self.examples(f"{head} <(cat {table}) --format csv --json") == 1500

    def test_that_have_a_validation_file_in_them_are_evaluated_again_and_again(self, tmp_path):
        rows = "".join(json.dumps({"text": "a b", "label": LABELS[i % 3]}) + "\n" for i in range(6))
        data = write(tmp_path / "d.jsonl", rows)
        done = shell(f"{BINARY} finetune {CLASSIFIER} <(cat {data}) --validation-file <(cat {data}) --num-train-epochs 2 "
                     f"--gradient-accumulation-steps 1 --output-dir {tmp_path}/o")  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("evaluation after step") == 2

    def test_that_nobody_writes_to_end_by_one_signal(self, tmp_path):
        data = write(tmp_path / "d.jsonl", "".join(json.dumps({"text": "a b", "label": c}) + "\n" for c in LABELS))
        os.mkfifo(tmp_path / "pipe")
        command = [BINARY, "finetune", CLASSIFIER, data, "--validation-file", tmp_path / "pipe", "--output-dir", tmp_path / "o"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            time.sleep(1.5)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
            assert process.returncode == -signal.SIGTERM

    def test_with_a_name(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.csv")

        def fill():
            (tmp_path / "pipe.csv").write_text("text,label\na,good\nb,bad\n")

        writer = threading.Thread(target=fill)
        writer.start()
        assert len(said(tmp_path, CLASSIFIER, tmp_path / "pipe.csv")) == 2
        writer.join()

    def test_of_other_tasks(self, tmp_path):
        text = "Ada B-PER\nran O\n\n"
        expected = said(tmp_path, TAGGER, write(tmp_path / "a.conll", text))
        assert said(tmp_path, TAGGER, "-", stdin=text.encode()) == expected


class TestStreamsOfObjects:
    """Data sets whose objects go on over several lines, as jq writes them, or follow each other on one line."""

    QUESTION = {"context": "the of and to in a is", "question": "for it"}
    DATA = {
        "classes": (CLASSIFIER, {"text": "the cat", "label": "good"}),
        "words": (TAGGER, {"tokens": ["he", "was"], "ner_tags": ["O", "B-PER"]}),
        "answers": (FIXTURES / "tiny_longformer_qa", QUESTION | {"answers": {"text": ["and"], "answer_start": [7]}}),
        "choices": (FIXTURES / "tiny_longformer_choice", QUESTION | {"choices": ["his", "on be"], "label": 0}),
        "coreference": (FIXTURES / "coreference", {"doc_key": "a", "sentences": [["he", "was", "he"]], "clusters": [[[0, 0], [2, 2]]]}),
        "texts": (None, {"text": "the cat was here", "summary": "a cat"}),
    }  # fmt: skip

    @pytest.mark.parametrize("task", DATA)
    def test_are_those_of_json_lines(self, tmp_path, task):
        model, row = self.DATA[task]
        model = model or folder_of("tiny_led", tmp_path)[0]
        rows = [row | {"id": f"q{i}"} for i in range(3)]
        flags = ["--skip-invalid", *(["--max-new-tokens", 3] if task == "texts" else [])]
        wanted = said(tmp_path, model, write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))), *flags)
        assert len(wanted) == 3
        for indent, between in ((2, "\n"), (0, ""), (None, ""), (1, "\n\n")):
            text = between.join(json.dumps(one, indent=indent) for one in rows)
            for name in ("b.jsonl", "b.json"):
                assert said(tmp_path, model, write(tmp_path / name, text), *flags) == wanted
            assert said(tmp_path, model, "-", *flags, stdin=text.encode()) == wanted
        # A broken object takes no other one with it.
        broken = json.dumps(row, indent=2).replace(": ", " ", 1)
        for text in ("\n".join([json.dumps(rows[0], indent=2), broken, *(json.dumps(one, indent=2) for one in rows[1:])]),
                     "\n".join([json.dumps(rows[0]), json.dumps(row)[:-1], *map(json.dumps, rows[1:])])):  # fmt: skip
            data = write(tmp_path / "c.jsonl", text)
            line = text.count("\n", 0, len(text.split(broken)[0])) + 1 if broken in text else 2
            run("evaluate", model, data).fails(1, f"c.jsonl:{line}: ", "--skip-invalid")
            assert said(tmp_path, model, data, *flags) == wanted


    @pytest.mark.parametrize("task", DATA)
    def test_predictions_tell_objects_on_one_line_apart(self, tmp_path, task):
        model, row = self.DATA[task]
        model = model or folder_of("tiny_led", tmp_path)[0]
        flags = ["--max-new-tokens", 3] if task == "texts" else []
        # None of them has an id.
        row = json.dumps({key: value for key, value in row.items() if key != "doc_key"})
        write(tmp_path / "a.jsonl", f"{row}{row}\n{row}")
        for name in ("p.jsonl", "p.json", "p.csv", "p.tsv"):
            run("evaluate", model, "a.jsonl", "--predictions", name, *flags, folder=tmp_path).passes()
        lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
        assert lines == json.loads((tmp_path / "p.json").read_text())
        assert [(one["line"], one.get("record")) for one in lines] == [(1, None), (1, 2), (2, None)]
        assert list(lines[1])[:3] == ["line", "record", "id"]
        for name, delimiter in (("p.csv", ","), ("p.tsv", "\t")):
            with open(tmp_path / name, newline="") as file:
                rows = list(csv.DictReader(file, delimiter=delimiter))
            assert [(one["line"], one["record"]) for one in rows] == [("1", ""), ("1", "2"), ("2", "")]
        # Without such a line there is no such column.
        write(tmp_path / "b.jsonl", f"{row}\n{row}")
        run("evaluate", model, "b.jsonl", "--predictions", "p.csv", *flags, folder=tmp_path).passes()
        assert "record" not in (tmp_path / "p.csv").read_text().splitlines()[0].split(",")
        # Messages name the object.
        write(tmp_path / "c.jsonl", f"{row}{{}}\n{row}")
        run("evaluate", model, "c.jsonl", folder=tmp_path).fails(1, "c.jsonl:1:2: ")

    def test_documents_without_keys_have_names_of_their_own(self, tmp_path):
        row = json.dumps({key: value for key, value in self.DATA["coreference"][1].items() if key != "doc_key"})
        write(tmp_path / "a.jsonl", f"{row}{row}\n{row}")
        run("evaluate", FIXTURES / "coreference", "a.jsonl", "--official-predictions", "p.conll", folder=tmp_path).works()
        names = [line for line in (tmp_path / "p.conll").read_text().splitlines() if line.startswith("#begin")]
        assert len(set(names)) == 3 and "(1:2)" in names[1]
        run("evaluate", "--score", "p.conll", "a.jsonl", folder=tmp_path).works()


class TestColumnsOfOneClass:
    """Columns of 0 and 1 whose names only differ in how their letters are composed."""

    def made(self, folder, table):
        write(folder / "d.csv", "text,caf\u00e9,b,cafe\u0301\n" + table)
        return run("finetune", CLASSIFIER, "d.csv", "--new-head", "--max-steps", 1, "--output-dir", "out", folder=folder)

    def test_a_note_names_both(self, tmp_path):
        done = self.made(tmp_path, "a,1,0,1\nb,0,1,0\n").passes()
        notes = [line for line in done.err.splitlines() if "one class" in line]
        assert len(notes) == 1
        for part in ("d.csv", "caf\u00e9", "cafe\u0301", r'"caf\u00e9"', r'"cafe\u0301"'):
            assert part in notes[0]

    def test_different_values_are_an_error(self, tmp_path):
        self.made(tmp_path, "a,1,0,1\nb,0,1,1\n").fails(1, "d.csv:3: ", "caf\u00e9", "cafe\u0301", "one class", "found 0 and 1", "--skip-invalid")


class TestSkippedOfSeveralFiles:
    """--skip-invalid says of each file how many of its records were left out, and why the first one was."""

    def bad(self, path, good, bad):
        return write(path, "".join(json.dumps({"text": "the cat was here"}) + "\n" for _ in range(good)) + '{"text": 1}\n' * bad)

    def test_pretraining(self, tmp_path):
        files = [self.bad(tmp_path / f"{name}.jsonl", 2, bad) for name, bad in (("a", 3), ("b", 0), ("c", 1))]
        (tmp_path / "d").mkdir()
        write(tmp_path / "d" / "a.txt", "the cat")
        for name in ("b.docx", "c.docx"):
            write(tmp_path / "d" / name, b"PK\x03\x04" + bytes(100))
        flags = ["--skip-invalid", "--max-steps", 1, "--max-seq-length", 16, "--per-device-train-batch-size", 1, "--output-dir", tmp_path / "out"]
        done = run("pretrain-mlm", FIXTURES / "tiny_bert", *files, tmp_path / "d", *flags)
        assert done.code == 0, done.err
        note = next(line for line in done.err.splitlines() if "left out 6 broken records" in line)
        for part in (f"3 in {files[0]}, the first: {files[0]}:3: ", f"; 1 in {files[2]}: {files[2]}:3: ", f"; 2 in {tmp_path}/d, the first: {tmp_path}/d/b.docx: "):
            assert part in note, note
        assert "b.jsonl" not in note
        (tmp_path / "out").rename(tmp_path / "one")
        done = run("pretrain-mlm", FIXTURES / "tiny_bert", files[0], *flags)
        assert f"left out 3 broken records; {files[0]}:3: " in done.err

    def test_training_and_validation(self, tmp_path):
        rows = "".join(json.dumps({"text": f"the cat {label}", "label": label}) + "\n" for label in ("good", "bad"))
        files = [write(tmp_path / name, rows * 2 + "{\n" * bad) for name, bad in (("a.jsonl", 2), ("b.jsonl", 1))]
        done = run("finetune", CLASSIFIER, files[0], "--validation-file", files[1], "--skip-invalid", "--max-steps", 1, "--output-dir", tmp_path / "out")
        assert done.code == 0, done.err
        for count, file in ((2, files[0]), (1, files[1])):
            assert f"left out {count} broken example{'s' if count > 1 else ''}; {file}:5: " in done.err

    def test_evaluation(self, tmp_path):
        (tmp_path / "qrels").mkdir()
        write(tmp_path / "corpus.jsonl", '{"_id": "d", "text": "the cat"}\n{\n{\n')
        write(tmp_path / "queries.jsonl", '{"_id": "q", "text": "cat"}\n{"text": "x"}\n')
        write(tmp_path / "qrels" / "test.tsv", "q\td\t1\nq\n")
        done = run("evaluate", FIXTURES / "tiny_bert", tmp_path, "--task", "retrieval", "--mode", "lexical", "--skip-invalid", "--json")
        assert done.code == 0 and done.json[0]["skipped"] == 4, done.err
        note = next(line for line in done.err.splitlines() if "left out 4 broken examples" in line)
        for part in (f"1 in {tmp_path}/queries.jsonl: ", f"1 in {tmp_path}/qrels/test.tsv: ", f"2 in {tmp_path}/corpus.jsonl, the first: "):
            assert part in note, note
