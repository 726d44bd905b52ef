"""The program `longformer` as its users meet it: flags, results in every format, and bad input.

Runs the program named by LONGFORMER_BINARY on the tiny models of tests/fixtures.
"""

import io
import json
import math
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
from terminal import read_to_the_end

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
FIXTURES = ROOT / "tests" / "fixtures"
BERT = FIXTURES / "tiny_bert"
ROBERTA = FIXTURES / "tiny_roberta"
HIDDEN = 16
VERBS = [
    "info", "pull", "tokenize", "embed", "search", "rerank", "fill-mask", "classify", "ner", "coref", "qa", "choose", "evaluate",
    "attention", "convert", "bench", "generate", "summarize",
]  # fmt: skip


class Result:
    def __init__(self, done):
        self.code = done.returncode
        self.raw = done.stdout
        self.out = done.stdout.decode("utf-8", "replace")
        self.err = done.stderr.decode("utf-8", "replace")

    @property
    def json(self):
        return [json.loads(line) for line in self.out.splitlines()]

    def fails(self, code, *words):
        """One line on stderr that begins as every error does and holds the words."""
        assert self.code == code, (self.code, self.out, self.err)
        errors = [line for line in self.err.splitlines() if line.startswith("longformer: error: ")]
        assert len(errors) == 1 and len(self.err.splitlines()) == 1, self.err
        for word in words:
            assert word in errors[0], (word, errors[0])
        return self

    def works(self):
        assert self.code == 0 and self.err == "", (self.code, self.err)
        return self

    def passes(self):
        """Works, and may say something on the way."""
        assert self.code == 0 and "error" not in self.err, (self.code, self.err)
        return self


def run(*arguments, stdin=b"", environment=None, folder="/", seconds=120):
    """From the root no path is shown as a relative one, wherever the files of the test lie."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    done = subprocess.run(
        [BINARY, *map(str, arguments)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={"HF_HUB_OFFLINE": "1", **os.environ, **(environment or {})}, cwd=folder, timeout=seconds, check=False)
    return Result(done)


@pytest.fixture(scope="session")
def longformer(tmp_path_factory):
    """tiny_bert made a Longformer of 200 tokens."""
    folder = tmp_path_factory.mktemp("models") / "longformer"
    run("convert", BERT, folder, "--max-positions", 200, "--window", 8).works()
    return folder


@pytest.fixture
def files(tmp_path):
    """Three documents; a text, a long text, an empty one."""
    texts = {"a.txt": "a b c", "b.txt": "a b c d " * 15, "c.txt": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return [tmp_path / name for name in texts]


class TestUsage:
    def test_help_lists_the_verbs(self):
        out = run("--help").works().out
        assert all(verb in out for verb in VERBS) and "Example" in out

    @pytest.mark.parametrize("verb", [*VERBS, "bench model", "bench attention", "bench search"])
    def test_help_of_a_verb_has_an_example_and_the_exit_codes(self, verb):
        out = run(*verb.split(), "--help").works().out
        assert "Examples:\n  longformer " + verb in out
        assert "Exit codes: 0" in out and "2 wrong usage" in out

    def test_version(self):
        assert re.fullmatch(r"longformer \d+\.\d+\.\d+\n", run("--version").works().out)

    def test_no_verb(self):
        run().fails(2, "no verb given", "fill-mask")

    @pytest.mark.parametrize("word,meant", [("serach", "search"), ("tokenise", "tokenize"),
                                            ("fillmask", "fill-mask"), ("inof", "info")])
    def test_unknown_verb_suggests_the_nearest(self, word, meant):
        run(word, BERT).fails(2, f"'{word}'", f"did you mean '{meant}'?")

    def test_unknown_verb_unlike_any(self):
        run("xylophone").fails(2, "'xylophone'", "expected one of info")

    @pytest.mark.parametrize("verb", [*VERBS[:-1], "bench model", "bench attention", "bench search"])
    def test_unknown_flag(self, verb):
        run(*verb.split(), BERT, BERT, "--no-such-flag").fails(2, "--no-such-flag", "--help")

    def test_unknown_flag_suggests_the_nearest(self):
        run("embed", BERT, "--poling", "mean").fails(2, "'--poling'", "did you mean '--pooling'?")

    def test_snake_case_is_kebab_case(self):
        ours = run("tokenize", BERT, "--text", "a b c", "--max_length", "3").works()
        assert ours.out == run("tokenize", BERT, "--text", "a b c", "--max-length=3").works().out

    @pytest.mark.parametrize("verb", VERBS[:-1])
    def test_missing_model(self, verb):
        run(verb).fails(2, f"longformer {verb} --help")

    @pytest.mark.parametrize("flags,word", [
        (["--dtype", "fp8"], "fp8"), (["--threads", "-1"], "-1"), (["--pooling", "sum"], "sum"),
        (["--truncate", "--split"], "--truncate"), (["--normalize", "--no-normalize"], "--normalize"),
        (["--passage-tokens", "0"], "0"), (["--passage-tokens", "x"], "x"), (["--threads", "1025"], "to 1024"),
        (["--format", "xml"], "xml"), (["--text"], "--text"),
        (["--pooling", "passages", "--truncate"], "any length"),
        (["--format", "npy", "--json"], "--output")])
    def test_wrong_values(self, flags, word):
        run("embed", BERT, "--text", "a", *flags).fails(2, word)

    def test_wrong_top_k(self):
        run("search", BERT, "x.txt", "--query", "q", "--top-k", "0").fails(2, "--top-k", "'0'")

    def test_search_in_nothing(self):
        run("search", BERT, "--query", "a").fails(2, "--index")

    def test_search_cannot_read_documents_and_questions_from_stdin(self):
        run("search", BERT, "-").fails(2, "--query")


class TestModelFolder:
    @pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("convert", "bench")])
    def test_missing(self, verb, files):
        more = {"search": ["--query", "q"], "qa": ["--question", "q"]}.get(verb, [])
        inputs = [] if verb == "info" else [files[0]]
        run(verb, "/nowhere/at-all", *inputs, *more).fails(1, "/nowhere/at-all")

    def test_a_file_instead(self):
        run("info", BERT / "config.json").fails(1, "expected a model folder, found the file")

    def test_hub_name(self, tmp_path):
        repository = tmp_path / "hub" / "models--org--name"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text("0123abc")
        shutil.copytree(BERT, repository / "snapshots" / "0123abc")
        home = {"HF_HOME": str(tmp_path), "HF_HUB_CACHE": ""}
        assert run("info", "org/name", "--json", environment=home).works().json[0]["hidden_size"] == 16
        cache = {"HF_HUB_CACHE": str(tmp_path / "hub")}
        assert run("info", "org/name", environment=cache).works().out
        run("info", "org/other", environment=home).fails(
            1, "org/other", str(tmp_path / "hub"), "longformer pull org/other")

    @pytest.fixture
    def cache(self, tmp_path):
        """A cache of two commits: main, and a branch with a slash in its name."""
        repository = tmp_path / "huggingface" / "hub" / "models--org--name"
        for commit, window, branch in [("a" * 40, 8, "main"), ("b" * 40, 16, "refs/pr/1")]:
            snapshot = repository / "snapshots" / commit
            run("convert", BERT, tmp_path / commit, "--window", window).works()
            snapshot.parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / commit).rename(snapshot)
            reference = repository / "refs" / branch
            reference.parent.mkdir(parents=True, exist_ok=True)
            reference.write_text(commit)
        return {"XDG_CACHE_HOME": str(tmp_path), "HF_HOME": "", "HF_HUB_CACHE": "",
                "HUGGINGFACE_HUB_CACHE": ""}

    @pytest.mark.parametrize("revision,window", [("", 8), ("@main", 8), ("@refs/pr/1", 16),
                                                 ("@" + "b" * 40, 16)])
    def test_revisions(self, cache, revision, window):
        found = run("info", "org/name" + revision, "--json", environment=cache).works().json[0]
        assert set(found["windows"]) == {window}

    def test_unknown_revision(self, cache):
        run("info", "org/name@v2", environment=cache).fails(1, "longformer pull org/name@v2")

    @pytest.mark.parametrize("name", ["org/name@../../x", "org/name@/etc", "org/name@", "org/..",
                                      "a/b/c", "~/x", "org/na me", "-org/name"])
    def test_names_that_lead_elsewhere(self, cache, name):
        run("info", "--", name, environment=cache).fails(1, "no model folder")

    def test_names_of_all_variables(self, cache, tmp_path):
        hub = tmp_path / "huggingface" / "hub"
        for variable, value in [("HF_HUB_CACHE", hub), ("HUGGINGFACE_HUB_CACHE", hub),
                                ("HF_HOME", hub.parent)]:
            environment = {**cache, "XDG_CACHE_HOME": "", variable: str(value)}
            run("info", "org/name", environment=environment).works()
        home = {**cache, "XDG_CACHE_HOME": "", "HOME": str(tmp_path)}
        run("info", "org/name", environment=home).fails(1, str(tmp_path / ".cache"))
        (tmp_path / ".cache").mkdir()
        hub.parent.rename(tmp_path / ".cache" / "huggingface")
        run("info", "org/name", environment=home).works()
        run("info", "org/name", environment={**home, "HF_HOME": "~/.cache/huggingface"}).works()

    def test_a_folder_that_exists_wins(self, cache, tmp_path):
        shutil.copytree(BERT, tmp_path / "org" / "name")
        found = run("info", "org/name", "--json", environment=cache, folder=tmp_path).works()
        assert found.json[0]["model_type"] == "bert"


class TestInfo:
    def test_table(self):
        out = run("info", BERT).works().out
        for row in [r"model type +bert", r"hidden size +16", r"longest document +24 tokens",
                    r"tokenizer +WordPiece", r"memory needed +\d", r"unsupported +nothing"]:
            assert re.search(row, out), (row, out)

    def test_json(self, longformer):
        info = run("info", longformer, "--json").works().json[0]
        assert info["model_type"] == "longformer" and info["max_tokens"] == 200
        assert info["windows"] == [8, 8] and info["receptive_field"] == 8
        assert info["memory_fp32"] > 0 and info["unsupported"] == []


class TestTokenize:
    def test_text(self):
        ids = run("tokenize", BERT, "--text", "a b").works().out.split()
        assert len(ids) == 4 and ids[0] == "2" and ids[-1] == "3"

    def test_json(self):
        row = run("tokenize", BERT, "--text", "a é", "--json").works().json[0]
        assert list(row) == ["file", "line", "ids", "tokens", "offsets", "type_ids", "sequence_ids",
                             "truncated"]
        assert row["file"] == "--text" and row["line"] == 1
        assert row["tokens"][0] == "[CLS]" and row["offsets"][1] == [0, 1]
        assert row["offsets"][2] == [2, 3]

    def test_lines_of_stdin(self):
        rows = run("tokenize", BERT, "--lines", "--json", stdin="a\nb c\r\n\nd").works().json
        assert [row["line"] for row in rows] == [1, 2, 3, 4]
        assert [len(row["ids"]) for row in rows] == [3, 4, 2, 3]
        assert all(row["file"] == "-" for row in rows)

    def test_whole_stdin(self):
        row = run("tokenize", BERT, "-", "--json", stdin="a\nb").works().json[0]
        assert row["line"] is None and len(row["ids"]) == 4

    def test_field(self, tmp_path):
        file = tmp_path / "x.jsonl"
        file.write_text('{"text": "a"}\n{"text": 3}\nnonsense\n{"title": "a"}\n{"text": "a b"}\n')
        result = run("tokenize", BERT, file, "--field", "text", "--json")
        assert result.code == 1 and len(result.err.splitlines()) == 3
        assert [("ids" in row, "error" in row) for row in result.json] == [
            (True, False), (False, True), (False, True), (False, True), (True, False)]
        assert f"{file}:3: expected a JSON object" in result.err

    def test_max_length_says_what_it_cut(self):
        row = run("tokenize", BERT, "--text", "a b c d", "--max-length", 4, "--json").works().json[0]
        assert len(row["ids"]) == 4 and row["truncated"] == 2

    def test_no_special_tokens_and_pairs(self):
        assert len(run("tokenize", BERT, "--text", "a b", "--no-special-tokens").works().out.split()) == 2
        row = run("tokenize", BERT, "--text", "a", "--pair", "b c", "--json").works().json[0]
        assert row["sequence_ids"] == [-1, 0, -1, 1, 1, -1] and row["type_ids"][-1] == 1

    def test_decode(self):
        ids = run("tokenize", ROBERTA, "--text", "hello world").works().out
        assert run("tokenize", ROBERTA, "--decode", "--no-special-tokens", stdin=ids).works().out == (
            "hello world\n")
        assert "</s>" in run("tokenize", ROBERTA, "--decode", stdin=ids).works().out

    def test_decode_what_is_no_id(self):
        run("tokenize", BERT, "--decode", stdin="2 three").fails(1, "expected token ids", "'three'")
        run("tokenize", BERT, "--decode", stdin="99999").fails(1, "99999")
        run("tokenize", BERT, "--decode", stdin="-1").fails(1, "-1")

    def test_stats(self, files):
        lengths = sorted(len(run("tokenize", BERT, file).works().out.split()) for file in files)
        row = run("tokenize", BERT, "--stats", "--json", *files).works().json[0]
        assert row["documents"] == 3 and row["tokens"] == sum(lengths) and row["max"] == lengths[-1]
        assert row["mean"] == pytest.approx(np.mean(lengths))
        assert row["median"] == pytest.approx(np.median(lengths))
        assert row["p95"] == pytest.approx(np.percentile(lengths, 95))
        assert row["share_over_512"] == 0
        assert "95th percentile" in run("tokenize", BERT, "--stats", *files).works().out

    def test_stats_shares(self):
        text = "a " * 511 + "\n" + "a " * 5000 + "\n" + "a\n"
        row = run("tokenize", BERT, "--stats", "--lines", "--json", stdin=text).works().json[0]
        assert row["share_over_512"] == pytest.approx(2 / 3)
        assert row["share_over_4096"] == pytest.approx(1 / 3)


class TestEmbed:
    def test_text_and_json_agree(self):
        text = run("embed", BERT, "--text", "a b").works().out
        row = run("embed", BERT, "--text", "a b", "--json").works().json[0]
        assert list(row) == ["file", "line", "tokens", "truncated", "embedding"]
        assert row["tokens"] == 4
        np.testing.assert_array_equal(np.float32(text.split()), np.float32(row["embedding"]))
        assert np.linalg.norm(row["embedding"]) == pytest.approx(1, abs=1e-5)

    def test_array(self, tmp_path):
        file = tmp_path / "x.npy"
        run("embed", BERT, "--lines", "--output", file, stdin="a\nb c\nd").works()
        array = np.load(file)
        assert array.shape == (3, HIDDEN) and array.dtype == np.float32
        assert not (tmp_path / "x.npy.part").exists()
        piped = run("embed", BERT, "--lines", "--format", "npy", stdin="a\nb c\nd").works().raw
        np.testing.assert_array_equal(np.load(io.BytesIO(piped)), array)
        single = run("embed", BERT, "--text", "b c", "--json").works().json[0]["embedding"]
        np.testing.assert_allclose(array[1], single, atol=1e-5)

    def test_array_with_description(self, tmp_path, longformer):
        file = tmp_path / "x.npy"
        rows = run("embed", longformer, "--lines", "--pooling", "tokens", "--output", file, "--json",
                   stdin="a b\nc").works().json
        assert [(row["first_row"], row["rows"]) for row in rows] == [(0, 4), (4, 3)]
        assert np.load(file).shape == (7, HIDDEN)
        assert rows[0]["spans"] == [[0, 0], [0, 1], [2, 3], [0, 0]]

    @pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
    def test_pooling_of_token_vectors(self, pooling, longformer):
        flags = ["--text", "a b c", "--json", "--no-normalize"]
        tokens = run("embed", longformer, "--pooling", "tokens", *flags).works().json[0]
        states = np.array(tokens["embeddings"])
        expected = {"cls": states[0], "mean": states.mean(0), "max": states.max(0)}[pooling]
        row = run("embed", longformer, "--pooling", pooling, *flags).works().json[0]
        np.testing.assert_allclose(row["embedding"], expected, atol=1e-5)

    def test_passages(self, longformer, files):
        row = run("embed", longformer, files[1], "--pooling", "passages", "--passage-tokens", 16,
                  "--json").works().json[0]
        assert row["rows"] > 1 and len(row["spans"]) == row["rows"] == len(row["embeddings"])
        assert row["spans"][0][0] == 0
        assert all(0 <= begin < end <= len(files[1].read_text()) for begin, end in row["spans"])

    def test_too_long_is_an_error_with_a_hint(self, files):
        result = run("embed", BERT, files[1]).fails(1, str(files[1]), "62", "24", "--truncate", "--split")
        assert result.out == "\n" and "document 0" not in result.err

    def test_truncate_says_so(self, files):
        result = run("embed", BERT, files[1], "--truncate", "--json")
        assert result.code == 0
        assert result.err == f"longformer: note: {files[1]}: 62 tokens, kept the first 24\n"
        assert result.json[0]["tokens"] == 62 and result.json[0]["truncated"] == 38

    def test_split_says_so(self, files):
        result = run("embed", BERT, files[1], "--split", "--json")
        assert result.code == 0 and "62 tokens, read in overlapping segments of 24" in result.err
        assert result.json[0]["truncated"] == 0

    def test_global_first_token(self, longformer, files):
        plain = run("embed", longformer, files[1]).works().out
        assert run("embed", longformer, files[1], "--global-first-token").works().out != plain

    def test_bf16_is_near(self, files):
        exact = np.float32(run("embed", BERT, files[0]).works().out.split())
        near = np.float32(run("embed", BERT, files[0], "--dtype", "bf16").works().out.split())
        assert 0 < np.abs(near - exact).max() < 0.05

    def test_one_bad_document_keeps_the_others(self, tmp_path, files):
        listed = [files[0], tmp_path / "missing.txt", files[1], files[2]]
        result = run("embed", BERT, *listed, "--json")
        assert result.code == 1
        assert ["embedding" in row for row in result.json] == [True, False, False, True]
        assert [row["file"] for row in result.json] == [str(file) for file in listed]
        lines = result.err.splitlines()
        assert len(lines) == 2 and all(line.startswith("longformer: error: ") for line in lines)
        assert "missing.txt: expected a readable file, found: No such file or directory" in lines[0]

    def test_array_keeps_the_place_of_a_bad_document(self, tmp_path, files):
        file = tmp_path / "x.npy"
        result = run("embed", BERT, files[0], tmp_path / "missing.txt", files[2], "--output", file)
        assert result.code == 1
        array = np.load(file)
        assert np.isnan(array[1]).all() and np.isfinite(array[[0, 2]]).all()

    def test_invalid_utf8_has_a_vector(self):
        row = run("embed", BERT, "--json", stdin=b"a \xff\xfe b").passes().json[0]
        assert len(row["embedding"]) == HIDDEN


class TestFillMask:
    def test_json(self):
        row = run("fill-mask", ROBERTA, "--text", "a <mask> b", "--json", "--top-k", 300).works().json[0]
        (mask,) = row["masks"]
        probabilities = [candidate["probability"] for candidate in mask["candidates"]]
        assert len(probabilities) == 300 and math.isclose(sum(probabilities), 1, rel_tol=1e-5)
        assert probabilities == sorted(probabilities, reverse=True)
        assert list(mask["candidates"][0]) == ["id", "token", "text", "probability"]
        assert row["filled"].startswith("a") and row["filled"].endswith(" b")

    def test_either_mask_is_understood(self):
        one = run("fill-mask", ROBERTA, "--text", "a <mask> b").works().out
        assert run("fill-mask", ROBERTA, "--text", "a [MASK] b").works().out == one

    def test_several_masks_and_lines(self):
        rows = run("fill-mask", ROBERTA, "--lines", "--json",
                   stdin="<mask> a <mask>\nno mask\na <mask>").json
        assert [len(row.get("masks", [])) for row in rows] == [2, 0, 1]
        assert rows[1]["error"].startswith("expected a mask")

    def test_too_long(self):
        long = "<mask>" + " a" * 60
        run("fill-mask", ROBERTA, "--text", long).fails(1, "20", "--truncate")
        result = run("fill-mask", ROBERTA, "--text", long, "--truncate")
        assert result.code == 0 and "kept the first 20" in result.err

    def test_model_without_head(self):
        run("fill-mask", BERT, "--text", "a [MASK]").fails(1, "masked-LM head")


class TestConvert:
    def test_says_what_was_done(self, tmp_path):
        out = run("convert", BERT, tmp_path / "x", "--max-positions", 64, "--window", 4).works().out
        assert "bert, 24 tokens" in out and "LongformerModel, 64 tokens, window 4" in out
        assert f"longformer embed {tmp_path / 'x'}" in out

    def test_json(self, tmp_path):
        row = run("convert", ROBERTA, tmp_path / "x", "--max-positions", 64, "--json").works().json[0]
        assert row["source_max_tokens"] == 20 and row["max_tokens"] == 64
        assert row["windows"] == [512, 512]

    def test_does_not_overwrite_unasked(self, tmp_path):
        run("convert", BERT, tmp_path / "x").works()
        run("convert", BERT, tmp_path / "x").fails(1, "--overwrite")
        run("convert", BERT, tmp_path / "x", "--overwrite").works()

    def test_a_longformer_keeps_what_it_is_not_told_to_change(self, longformer, tmp_path):
        row = run("convert", longformer, tmp_path / "x", "--json").works().json[0]
        assert row["max_tokens"] == 200 and row["windows"] == [8, 8]
        row = run("convert", longformer, tmp_path / "y", "--window", 4, "--json").works().json[0]
        assert row["max_tokens"] == 200 and row["windows"] == [4, 4]

    @pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
    def test_formats_and_dtypes(self, longformer, tmp_path, dtype):
        vectors = []
        for form, file in [("bin", "pytorch_model.bin"), ("safetensors", "model.safetensors")]:
            run("convert", longformer, tmp_path / form, "--to", form, "--dtype", dtype).works()
            info = run("info", tmp_path / form, "--json").works().json[0]
            assert info["dtype"] == dtype and info["weights_file"] == file
            vectors.append(run("embed", tmp_path / form, "--text", "a b c").works().out)
        assert vectors[0] == vectors[1]

    def test_overwriting_never_shows_half_a_folder(self, tmp_path):
        """Whoever looks while it is replaced finds a whole model."""
        target = tmp_path / "x"
        run("convert", BERT, target, "--max-positions", 30).works()
        (target / "notes.txt").write_text("mine")
        stop, looks, faults = threading.Event(), [], []

        def look():
            while not stop.is_set():
                info = run("info", target, "--json")
                looks.append(info.out)
                if info.code or info.json[0]["unsupported"]:
                    faults.append(info.out + info.err)

        watcher = threading.Thread(target=look)
        watcher.start()
        for _ in range(12):
            run("convert", BERT, target, "--max-positions", 30, "--overwrite").works()
        stop.set()
        watcher.join()
        assert not faults and len(looks) > 3
        assert (target / "notes.txt").read_text() == "mine"
        assert sorted(tmp_path.iterdir()) == [target]

    @pytest.mark.parametrize("flags,word", [(["--window", 7], "7"), (["--window", 0], "0"),
                                            (["--max-positions", 0], "0"),
                                            (["--max-positions", "1e99"], "1e99")])
    def test_wrong_numbers(self, tmp_path, flags, word):
        run("convert", BERT, tmp_path / "x", *flags).fails(2, word)
        assert not (tmp_path / "x").exists()

    def test_missing_source(self, tmp_path):
        run("convert", "/nowhere", tmp_path / "x").fails(1, "/nowhere")

    def test_short_documents_keep_their_vectors(self, longformer):
        # Within the window the converted model computes what its source does.
        ours = np.float32(run("embed", longformer, "--text", "a b").works().out.split())
        source = np.float32(run("embed", BERT, "--text", "a b").works().out.split())
        np.testing.assert_allclose(ours, source, atol=1e-5)


class TestWrittenFiles:
    """A file that is read is never written, and nothing half-written is left."""

    @pytest.fixture
    def document(self, tmp_path):
        file = tmp_path / "x.txt"
        file.write_text("a b c")
        return file

    def test_the_input_stays(self, document, tmp_path):
        link, name = tmp_path / "link", tmp_path / "name"
        link.symlink_to(document)
        os.link(document, name)
        for output in (document, link, name, tmp_path / "." / "x.txt"):
            run("embed", BERT, document, "--output", output).fails(2, "--output", "the input", str(output))
            with open(document, "rb") as stream:
                done = subprocess.run([BINARY, "embed", BERT, "--output", output], stdin=stream, capture_output=True,
                                      check=False)  # fmt: skip
            assert done.returncode == 2 and b"standard input" in done.stderr
        part = tmp_path / "e.npy.part"
        part.write_text("a b")
        run("embed", BERT, part, "--output", tmp_path / "e.npy").fails(2, "--output", "e.npy.part")
        assert document.read_text() == "a b c" and part.read_text() == "a b" and link.is_symlink()

    def test_of_all_verbs(self, document, tmp_path):
        classifier = FIXTURES / "tiny_longformer_classifier"
        data = tmp_path / "data.jsonl"
        data.write_text('{"text": "a b", "label": "good"}\n')
        for option in ("--predictions", "--official-predictions", "--write-selected", "--losses"):
            run("evaluate", classifier, data, option, data).fails(2, option, "data.jsonl")
        run("attention", BERT, document, "--format", "json", "-o", document).fails(2, "--output", "x.txt")
        run("coref", BERT, document, "--format", "json", "-o", document).fails(2, "--output", "x.txt")
        run("search", BERT, document, "--index", document, "--query", "a").fails(2, "--index", "x.txt")
        assert document.read_text() == "a b c" and "good" in data.read_text()

    def test_files_of_the_model(self, tmp_path):
        folder = tmp_path / "model"
        shutil.copytree(BERT, folder)
        config = (folder / "config.json").read_text()
        run("embed", folder, "--text", "a", "--output", folder / "config.json").fails(2, "--output", "config.json")
        assert (folder / "config.json").read_text() == config
        for _ in range(2):
            run("embed", folder, "--text", "a", "--output", folder / "vectors.npy").works()

    def test_two_files_are_two(self, tmp_path):
        run("evaluate", FIXTURES / "tiny_longformer_classifier", tmp_path / "data.jsonl", "--predictions", tmp_path / "said",
            "--official-predictions", tmp_path / "said").fails(2, "--predictions", "--official-predictions", "said")  # fmt: skip

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_nothing_is_left_of_what_was_interrupted(self, tmp_path, number):
        file = tmp_path / "e.npy"
        file.write_text("before")
        with subprocess.Popen([BINARY, "embed", BERT, "--lines", "--output", file], stdin=subprocess.PIPE,
                              preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as process:  # fmt: skip
            for _ in range(200):
                if (tmp_path / "e.npy.part").exists():
                    break
                time.sleep(0.05)
            process.send_signal(number)
            assert process.wait(timeout=60) == -number
        assert list(tmp_path.iterdir()) == [file] and file.read_text() == "before"

    def test_nothing_is_left_of_what_failed(self, tmp_path):
        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

        done = subprocess.run([BINARY, "embed", BERT, "--lines", "--output", tmp_path / "e.npy"], input=b"a\n" * 20,
                              capture_output=True, check=False, preexec_fn=limit_files)  # fmt: skip
        assert done.returncode == 1 and b"cannot write" in done.stderr
        data = tmp_path / "data.jsonl"
        data.write_text('{"text": "a b", "label": "good"}\n{"text": "a b"}\n')
        run("evaluate", FIXTURES / "tiny_longformer_classifier", data, "--predictions", tmp_path / "said.jsonl").fails(1)
        assert list(tmp_path.iterdir()) == [data]


class TestStreams:
    def test_a_reader_that_leaves_is_no_error(self, tmp_path):
        file = tmp_path / "many.txt"
        file.write_text("a b c d e f\n" * 20000)
        for flags in (["tokenize"], ["embed"]):
            process = subprocess.Popen([BINARY, *flags, str(BERT), str(file), "--lines"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(timeout=60) == 0

    def test_sigpipe_of_the_parent_does_not_matter(self):
        result = subprocess.run(
            [BINARY, "tokenize", str(BERT), "--text", "a"], stdout=subprocess.PIPE, check=True,
            preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        assert result.stdout

    @pytest.mark.parametrize("verb", [["info", BERT], ["tokenize", BERT, "--text", "a"],
                                      ["embed", BERT, "--text", "a"], ["--help"], ["--version"],
                                      ["embed", BERT, "--text", "a", "--format", "npy"]])
    def test_full_disk(self, verb):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BINARY, *map(str, verb)], stdout=full, stderr=subprocess.PIPE,
                                  check=False)
        assert done.returncode == 1
        assert done.stderr == (
            b"longformer: error: cannot write to standard output: No space left on device\n")

    def test_full_disk_of_an_array(self):
        run("embed", BERT, "--text", "a", "--format", "npy", "--output", "/dev/full").fails(
            1, "/dev/full", "No space left")

    def test_output_folder_that_is_missing(self):
        run("embed", BERT, "--text", "a", "--output", "/nowhere/x.npy").fails(1, "/nowhere/x.npy")

    def test_progress_on_a_terminal(self):
        """A document every 0.3 s: the line appears after two seconds, and is cleared at the end."""
        ours, terminal = os.openpty()
        process = subprocess.Popen([BINARY, "tokenize", str(BERT), "--lines"], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=terminal)
        for _ in range(10):
            process.stdin.write(b"a b c\n")
            process.stdin.flush()
            time.sleep(0.3)
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        os.close(terminal)
        shown = read_to_the_end(ours)
        assert re.search(r"\d documents, \d+ tokens/s\r", shown) and shown.endswith("\x1b[K"), shown

    def test_no_progress_without_a_terminal(self, tmp_path):
        file = tmp_path / "many.txt"
        file.write_text("a b c d e f\n" * 2000)
        assert run("embed", BERT, file, "--lines").works().err == ""
