"""`embed --resume --shard`: files that grow group by group, whole whatever ends the process, and parts of a corpus."""

import fcntl
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from cli_test import BERT, BINARY, FIXTURES, run

#: Times that a run is killed.
KILLS = int(os.environ.get("LONGFORMER_KILLS", "200"))
DOCUMENTS = 6000
#: The ids among d0 to d39 that part 1 of 4 has; parts never change.
FIRST_OF_FOUR = ["d1", "d13", "d16", "d19", "d21", "d25", "d28", "d32", "d33", "d35", "d37", "d39", "d7", "d8"]
WORDS = "the of and to in he a that was it his with you had her for as at not but".split()


def write_corpus(folder, count, seed=1):
    """Two files of JSON lines; documents are d0, d1, … with texts of few and of many words."""
    generator = random.Random(seed)
    texts = [" ".join(generator.choices(WORDS, k=generator.choice([3, 8, 20]))) for _ in range(count)]
    lines = [json.dumps({"id": f"d{i}", "text": text}) + "\n" for i, text in enumerate(texts)]
    half = count // 2
    (folder / "a.jsonl").write_text("".join(lines[:half]))
    (folder / "b.jsonl").write_text("".join(lines[half:]))
    return [folder / "a.jsonl", folder / "b.jsonl"]


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path, 40)


def embed(corpus, output, *flags, **how):
    return run("embed", BERT, *corpus, "--field", "text", "-o", output, "--resume", *flags, **how)


def lines_of(output):
    """The whole lines beside an array, or of a file of lines."""
    text = output.with_suffix(".jsonl").read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def rows_of(output):
    """Vectors by id, each of which is there once."""
    lines, array = lines_of(output), np.load(output)
    assert len({line["id"] for line in lines}) == len(lines)
    return {line["id"]: array[line["first_row"]] for line in lines if "error" not in line}


def plain(corpus, file, *flags):
    run("embed", BERT, *corpus, "--field", "text", "-o", file, *flags).passes()
    return {f"d{i}": row for i, row in enumerate(np.load(file))}


def assert_equal(found, expected):
    assert sorted(found) == sorted(expected)
    np.testing.assert_array_equal(np.stack([found[name] for name in sorted(found)]),
                                  np.stack([expected[name] for name in sorted(found)]))  # fmt: skip


class TestFiles:
    def test_are_read_in_one_line(self, corpus, tmp_path):
        output = tmp_path / "v.npy"
        assert embed(corpus, output).works().out == ""
        assert_equal(rows_of(output), plain(corpus, tmp_path / "plain.npy"))
        line = lines_of(output)[0]
        assert list(line) == ["file", "line", "id", "tokens", "truncated", "first_row"]
        made = json.loads((tmp_path / "v.settings.json").read_text())
        assert made["model"].endswith("tiny_bert") and made["dtype"] == "fp32" and made["shard"] == "1/1"
        assert sorted(path.name for path in tmp_path.glob("v.*")) == ["v.jsonl", "v.npy", "v.settings.json"]

    def test_a_run_that_is_complete_stays(self, corpus, tmp_path):
        output = tmp_path / "v.npy"
        embed(corpus, output).works()
        before = [path.read_bytes() for path in sorted(tmp_path.glob("v.*"))]
        assert "40 documents done before" in embed(corpus, output).passes().err
        assert [path.read_bytes() for path in sorted(tmp_path.glob("v.*"))] == before

    def test_further_documents_come_behind(self, corpus, tmp_path):
        output = tmp_path / "v.npy"
        embed(corpus[1:], output).works()
        embed(corpus, output).passes()
        assert_equal(rows_of(output), plain(corpus, tmp_path / "plain.npy"))
        assert [line["id"] for line in lines_of(output)][:2] == ["d20", "d21"]

    def test_lines_alone(self, corpus, tmp_path):
        output = tmp_path / "v.jsonl"
        embed(corpus[1:], output).works()
        embed(corpus, output).passes()
        found = {line["id"]: np.float32(line["embedding"]) for line in lines_of(output)}
        assert_equal(found, plain(corpus, tmp_path / "plain.npy"))

    def test_a_plain_run_does_not_write_into_it(self, corpus, tmp_path):
        for name in ("v.npy", "w.jsonl"):
            output = tmp_path / name
            embed(corpus[1:], output).works()
            before = [path.read_bytes() for path in sorted(tmp_path.glob("[vw].*"))]
            refused = run("embed", BERT, *corpus, "--field", "text", "-o", output)
            assert refused.code == 2 and f"{name[0]}.settings.json" in refused.err and "--resume" in refused.err, refused.err
            assert [path.read_bytes() for path in sorted(tmp_path.glob("[vw].*"))] == before

    @pytest.mark.parametrize("first,second", [("npy", "jsonl"), ("jsonl", "npy")])
    def test_another_form_is_refused(self, corpus, tmp_path, first, second):
        embed(corpus, tmp_path / f"v.{first}").works()
        before = {path.name: path.read_bytes() for path in tmp_path.glob("v.*")}
        error = embed(corpus, tmp_path / f"v.{second}")
        assert error.code == 1 and f"--format '{first}'" in error.err and f"--format '{second}'" in error.err, error.err
        assert {path.name: path.read_bytes() for path in tmp_path.glob("v.*")} == before

    def test_another_tokenizer_or_encoding_is_refused(self, corpus, tmp_path):
        model = tmp_path / "model"
        shutil.copytree(BERT, model)
        flags = ("--field", "text", "-o", tmp_path / "v.npy", "--resume")
        run("embed", model, *corpus, *flags).works()
        other = run("embed", model, *corpus, *flags, "--encoding", "latin-1")
        assert other.code == 1 and "--encoding 'utf-8'" in other.err and "--encoding 'latin-1'" in other.err
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        first, second = sorted(vocabulary, key=vocabulary.get)[-2:]
        vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        other = run("embed", model, *corpus, *flags)
        assert other.code == 1 and "the other model" in other.err, other.err

    @pytest.mark.parametrize("file,change", [
        ("modules.json", lambda modules: modules[:-1]),
        ("3_Dense/config.json", lambda dense: {**dense, "activation_function": "torch.nn.modules.linear.Identity"}),
        ("config.json", lambda config: {**config, "hidden_act": "relu"}),
        ("config.json", lambda config: {**config, "layer_norm_eps": 0.1}),
        ("sentence_bert_config.json", lambda texts: {**texts, "max_seq_length": 5})])  # fmt: skip
    def test_equal_weights_that_make_other_vectors_are_refused(self, corpus, tmp_path, file, change):
        model = tmp_path / "model"
        shutil.copytree(FIXTURES / "sentence_dense", model)
        flags = ("--field", "text", "--split", "-o", tmp_path / "v.npy", "--resume")
        index = ("--index", tmp_path / "i.index", "--mode", "dense", "--passage-tokens", 3, "--field", "text")
        run("embed", model, *corpus, *flags).passes()
        run("search", model, corpus[0], *index).passes()
        before = (tmp_path / "v.npy").read_bytes()
        text = json.loads((model / file).read_text())
        assert change(text) != text
        (model / file).write_text(json.dumps(change(text)))
        other = run("embed", model, *corpus, *flags)
        assert other.code == 1 and ("the other model" in other.err or "--max-length '5'" in other.err), other.err
        assert (tmp_path / "v.npy").read_bytes() == before
        # Passages are shorter than the longest text in either case.
        found = run("search", model, corpus[0], *index)
        assert (found.code == 0) == (file == "sentence_bert_config.json"), found.err
        assert found.code == 0 or "make it anew" in found.err

    @pytest.mark.parametrize("name", ["v.npy", "v.jsonl", "below/v.npy"])
    def test_files_would_be_read_by_the_next_run(self, tmp_path, name):
        (tmp_path / "texts" / "below").mkdir(parents=True)
        (tmp_path / "texts" / "a.txt").write_text("he was")
        run("embed", BERT, tmp_path / "texts", "-o", tmp_path / "texts" / name, "--resume").fails(2, "--output", "settings.json", "outside")
        assert sorted(path.name for path in (tmp_path / "texts").rglob("*")) == ["a.txt", "below"]
        for _ in range(2):
            run("embed", BERT, tmp_path / "texts", "-o", tmp_path / "v.npy", "--resume").passes()

    def test_null_is_no_id(self, tmp_path):
        (tmp_path / "n.jsonl").write_text('{"id": null, "text": "he was"}\n{"id": null, "text": "she"}\n')
        for _ in range(2):
            embed([tmp_path / "n.jsonl"], tmp_path / "o.npy").passes()
            assert np.load(tmp_path / "o.npy").shape[0] == 2

    def test_sparse_vectors(self, corpus, tmp_path):
        for _ in range(2):
            run("embed", FIXTURES / "vectors_splade", *corpus, "--field", "text", "--sparse", "--truncate", "--resume", "-o",
                tmp_path / "s.jsonl").passes()  # fmt: skip
        assert [line["id"] for line in lines_of(tmp_path / "s.jsonl")] == [f"d{i}" for i in range(40)]

    def test_passages(self, corpus, tmp_path):
        flags = ("--pooling", "passages", "--passage-tokens", "8")
        (tmp_path / "bad.jsonl").write_text("{}\n")
        assert embed([tmp_path / "bad.jsonl", corpus[1]], tmp_path / "p.npy", *flags).code == 1
        assert embed([tmp_path / "bad.jsonl", *corpus], tmp_path / "p.npy", *flags).code == 1
        lines, array = lines_of(tmp_path / "p.npy"), np.load(tmp_path / "p.npy")
        assert lines[0]["rows"] == 0 and "error" in lines[0] and len(lines) == 41
        assert [line["first_row"] for line in lines[1:]] == list(np.cumsum([0] + [line["rows"] for line in lines[1:-1]]))
        assert len(array) == sum(line["rows"] for line in lines)
        run("embed", BERT, *corpus, "--field", "text", *flags, "-o", tmp_path / "plain.npy").works()
        ours = np.concatenate([array[line["first_row"]:line["first_row"] + line["rows"]]
                               for line in sorted(lines[1:], key=lambda line: int(line["id"][1:]))])  # fmt: skip
        np.testing.assert_array_equal(ours, np.load(tmp_path / "plain.npy"))

    def test_files_and_lines_without_ids_count_by_their_place(self, tmp_path):
        texts = [tmp_path / f"{i}.txt" for i in range(3)]
        for i, file in enumerate(texts):
            file.write_text(" ".join(WORDS[i : i + 5]) + "\n" + WORDS[i])
        for flags, count in (([], 3), (["--lines"], 6)):
            output = tmp_path / f"v{count}.npy"
            run("embed", BERT, *texts[:2], *flags, "-o", output, "--resume").works()
            run("embed", BERT, *texts, *flags, "-o", output, "--resume").passes()
            assert np.load(output).shape[0] == len(lines_of(output)) == count


class TestBadDocuments:
    def test_have_a_line_and_no_vector(self, corpus, tmp_path):
        corpus[0].write_text('{"id": "none"}\nno JSON\n' + corpus[0].read_text())
        output = tmp_path / "v.npy"
        first = embed(corpus, output)
        assert first.code == 1 and len(first.err.splitlines()) == 2
        lines, array = lines_of(output), np.load(output)
        assert [("error" in line, bool(np.isnan(row).all())) for line, row in zip(lines, array, strict=True)] == \
            [(True, True)] * 2 + [(False, False)] * 40
        # A document that failed stays so; the same output has the same exit code.
        again = embed(corpus, output)
        assert again.code == 1 and "42 documents done before, 2 of them without a vector" in again.err
        assert lines_of(output) == lines

    def test_a_file_that_is_not_there_yet_is_read_later(self, corpus, tmp_path):
        output, late = tmp_path / "v.npy", tmp_path / "late.jsonl"
        assert embed([*corpus, late], output).code == 1
        late.write_text('{"id": "late", "text": "a b c"}\n')
        embed([*corpus, late], output).passes()
        assert len(rows_of(output)) == 41 and "late" in rows_of(output)
        late_text = tmp_path / "late.txt"
        assert run("embed", BERT, late_text, "-o", tmp_path / "t.npy", "--resume").code == 1
        late_text.write_text("a b c")
        run("embed", BERT, late_text, "-o", tmp_path / "t.npy", "--resume").passes()
        assert np.isfinite(np.load(tmp_path / "t.npy")).all()

    def test_an_id_counts_once(self, corpus, tmp_path):
        corpus[1].write_text(corpus[1].read_text() + '{"id": "d3", "text": "another text"}\n')
        output = tmp_path / "v.npy"
        for _ in range(2):
            failed = embed(corpus, output)
            assert failed.code == 1 and "b.jsonl:21: expected an id of its own, found '\"d3\"' again" in failed.err
            assert len(rows_of(output)) == len(lines_of(output)) == 40


class TestShards:
    def test_make_one_corpus(self, corpus, tmp_path):
        expected = plain(corpus, tmp_path / "plain.npy")
        parts = []
        for i in (1, 2, 3):
            embed(corpus, tmp_path / f"v-{i}.npy", "--shard", f"{i}/3").works()
            parts.append(rows_of(tmp_path / f"v-{i}.npy"))
        assert sum(map(len, parts)) == 40 and all(5 < len(part) < 25 for part in parts)
        assert_equal({name: row for part in parts for name, row in part.items()}, expected)
        # Files behind each other are one: row i is line i.
        array = np.concatenate([np.load(tmp_path / f"v-{i}.npy") for i in (1, 2, 3)])
        lines = [json.loads(line) for i in (1, 2, 3) for line in (tmp_path / f"v-{i}.jsonl").read_text().splitlines()]
        assert_equal({line["id"]: row for line, row in zip(lines, array, strict=True)}, expected)

    def test_an_id_is_always_in_the_same_part(self, corpus, tmp_path):
        """Whatever the order, the file and the version of the program: parts of before are gone on with."""
        first = run("tokenize", BERT, *corpus, "--field", "text", "--json", "--shard", "1/4").works().json
        again = run("tokenize", BERT, corpus[1], corpus[0], "--field", "text", "--json", "--shard", "1/4").works().json
        assert sorted(row["id"] for row in first) == sorted(row["id"] for row in again) == FIRST_OF_FOUR

    def test_of_texts_files_and_stdin(self, tmp_path):
        texts = [part for word in WORDS for part in ("--text", word)]
        files = [tmp_path / f"{word}.txt" for word in WORDS]
        for file in files:
            file.write_text(file.stem)
        for inputs, stdin in ((texts, ""), (files, ""), (["--lines"], "\n".join(WORDS))):
            parts = [run("tokenize", BERT, *inputs, "--json", "--shard", f"{i}/2", stdin=stdin).works().json for i in (1, 2)]
            assert all(len(part) >= 3 for part in parts) and sum(map(len, parts)) == len(WORDS)

    def test_a_file_that_cannot_be_read_is_told_by_each(self, tmp_path):
        for part in ("1/2", "2/2"):
            run("embed", BERT, tmp_path / "none.jsonl", "--field", "text", "--shard", part).fails(1, "none.jsonl")

    @pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "-1/4", "1", "1/", "/4", "1/4/2", "one/2", "1/99999999999"])
    def test_out_of_range(self, text):
        run("embed", BERT, "--text", "a", f"--shard={text}").fails(2, "--shard", "from 1/N to N/N", f"'{text}'")


class TestRefused:
    @pytest.mark.parametrize("flags,words", [
        (["--pooling", "max"], ["--pooling 'max'", "no --pooling"]),
        (["--truncate"], ["has --truncate", "no --truncate"]),
        (["--shard", "1/2"], ["--shard '1/1'", "--shard '1/2'"]),
        (["--dtype", "bf16", "--max-length", "9"], ["--dtype 'fp32'", "--dtype 'bf16'", "--max-length '9'"]),
    ])  # fmt: skip
    def test_other_options(self, corpus, tmp_path, flags, words):
        output = tmp_path / "v.npy"
        embed(corpus, output).works()
        before = output.read_bytes()
        embed(corpus, output, *flags).fails(1, str(output), "was made with", *words)
        assert output.read_bytes() == before

    def test_another_model(self, corpus, tmp_path):
        embed(corpus, tmp_path / "v.npy").works()
        run("embed", FIXTURES / "sentence_dense", *corpus, "--field", "text", "-o", tmp_path / "v.npy", "--resume").fails(
            1, "tiny_bert", "sentence_dense")  # fmt: skip

    def test_files_of_others(self, corpus, tmp_path):
        output = tmp_path / "v.npy"
        plain(corpus, output)
        before = output.read_bytes()
        embed(corpus, output).fails(1, "v.npy", "v.settings.json")
        assert output.read_bytes() == before
        # The corpus itself has the name of the lines.
        text = corpus[0].read_text()
        embed(corpus, tmp_path / "a.npy").fails(2, "--output", "a.jsonl")
        embed(corpus[1:], tmp_path / "a.npy").fails(1, "a.jsonl", "a.settings.json")
        assert corpus[0].read_text() == text and not (tmp_path / "a.npy").exists()

    def test_lines_that_are_read(self, corpus, tmp_path):
        embed(corpus, tmp_path / "v.npy").works()
        embed([*corpus, tmp_path / "v.jsonl"], tmp_path / "v.npy").fails(2, "--output", "v.jsonl")

    def test_two_processes(self, corpus, tmp_path):
        output = tmp_path / "v.npy"
        embed(corpus[1:], output).works()
        with open(output, "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            embed(corpus, output).fails(1, "v.npy", "another process is writing it")
        embed(corpus, output).passes()

    @pytest.mark.parametrize("flags,word", [
        ([], "--output"), (["-o", "v.txt"], ".jsonl"), (["-o", "v.json"], ".jsonl"), (["-o", "v"], ".npy"),
        (["-o", "v.npy", "--json"], "leave out --json"), (["-o", "v.jsonl", "--format", "npy"], "another name"),
    ])  # fmt: skip
    def test_outputs_that_cannot_grow(self, tmp_path, flags, word):
        run("embed", BERT, "--text", "a", "--resume", *flags, folder=tmp_path).fails(2, "--resume", word)
        assert not list(tmp_path.iterdir())

    def test_a_pipe(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        result = run("embed", BERT, "--text", "a", "--resume", "--format", "npy", "-o", tmp_path / "pipe")
        assert result.code == 1 and "ordinary file" in result.err

    def test_damaged_files(self, corpus, tmp_path):
        output = tmp_path / "v.npy"
        embed(corpus, output).works()
        whole, lines = output.read_bytes(), (tmp_path / "v.jsonl").read_bytes()
        output.write_bytes(whole[:-100])
        embed(corpus, output).fails(1, "v.npy", "40 rows", str(len(whole) - 100))
        output.write_bytes(b"x" * len(whole))
        embed(corpus, output).fails(1, "v.npy", "expected a NumPy array of rows of 16")
        output.write_bytes(whole)
        (tmp_path / "v.jsonl").write_bytes(b"no JSON\n" + lines)
        embed(corpus, output).fails(1, "v.jsonl:1", "no JSON")
        (tmp_path / "v.jsonl").write_bytes(lines)
        (tmp_path / "v.settings.json").write_text("[]")
        embed(corpus, output).fails(1, "v.settings.json")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Documents, and the vectors that a run without faults makes of them."""
    folder = tmp_path_factory.mktemp("many")
    corpus = write_corpus(folder, DOCUMENTS)
    return corpus, plain(corpus, folder / "plain.npy")


class TestFaults:
    @pytest.mark.parametrize("limit", [20_000, 200_000, 300_000])
    def test_a_full_disk(self, many, tmp_path, limit):
        corpus, expected = many
        output = tmp_path / "v.npy"
        command = [BINARY, "embed", BERT, *corpus, "--field", "text", "-o", output, "--resume"]
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))  # fmt: skip
        assert done.returncode == 1 and "File too large" in done.stderr and "the same command goes on" in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1
        text = (tmp_path / "v.jsonl").read_text()
        assert f"{len(text.splitlines()):,} document" in done.stderr and (not text or text.endswith("\n"))
        assert set(rows_of(output)) < set(expected)
        embed(corpus, output).passes()
        assert_equal(rows_of(output), expected)

    def test_what_lies_behind_the_last_whole_line_is_cut(self, many, tmp_path):
        corpus, expected = many
        output = tmp_path / "v.npy"
        embed(corpus[1:], output).works()
        with open(output, "ab") as array, open(tmp_path / "v.jsonl", "ab") as lines:
            array.write(b"\x7f" * 1001)
            lines.write(b'{"file": "a.jsonl", "li')
        embed(corpus, output).passes()
        assert_equal(rows_of(output), expected)

    def test_kills(self, many, tmp_path):
        """SIGKILL at any moment: what is there is right at once, and in the end each document is there once."""
        corpus, expected = many
        generator = random.Random(os.environ.get("LONGFORMER_SEED", "1"))
        output, runs, kills, ends, begin = tmp_path / "0.npy", 0, 0, 0, time.monotonic()
        moments = set()
        latest, early = 0.2, 0
        while kills < KILLS:
            command = [BINARY, "embed", BERT, *corpus, "--field", "text", "-o", output, "--resume", "--threads", "1"]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                code = process.wait(generator.uniform(0, latest))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                code = process.wait()
                kills += 1
            runs += 1
            if not output.exists() or output.stat().st_size < 128:
                # A busy machine begins later.
                early += 1
                if early % 10 == 0:
                    latest = min(1.5 * latest, 5)
                continue
            early = 0
            found = rows_of(output) if output.with_suffix(".jsonl").exists() else {}
            moments.add(len(found))
            np.testing.assert_array_equal([row for row in found.values()], [expected[name] for name in found])
            if code == 0:
                assert_equal(found, expected)
                ends += 1
                output = tmp_path / f"{ends}.npy"
        embed(corpus, output).passes()
        assert_equal(rows_of(output), expected)
        print(f"{kills} kills in {runs} runs, {ends} complete, at {len(moments)} different numbers of documents, "
              f"{time.monotonic() - begin:.0f} s")  # fmt: skip
        assert len(moments) >= min(8, KILLS / 10)
