"""The verb `attention`: its results as numbers and pages, compared with what the Python package gives
where the numbers matter, and what it refuses."""

import base64
import csv
import io
import json
import os
import re
import subprocess

import numpy as np
import pytest
from cli_test import BERT, BINARY, FIXTURES, longformer, run  # noqa: F401  (longformer is a fixture)

LAYERS, HEADS, WINDOW = 2, 2, 8
TEXT = "a b c d e a b c d e a b"
FLAGS = ["--text", TEXT]


def array_file(raw):
    return dict(np.load(io.BytesIO(raw)))


def arrays(model, *flags):
    return array_file(run("attention", model, *FLAGS, "--format", "npz", *flags).works().raw)


def dense_rows(local, of_global, positions, window):
    """All pairs [n, n] of one head, from the layout of transformers."""
    n = local.shape[0]
    x = len(positions)
    full = np.zeros((n, n))
    for i in range(n):
        for c, key in enumerate(positions):
            full[i, key] = local[i, c]
        for s in range(-window // 2, window // 2 + 1):
            if 0 <= i + s < n:
                full[i, i + s] += local[i, x + window // 2 + s]
    for c, query in enumerate(positions):
        full[query] = of_global[:, c]
    return full


def triplets(row, n):
    full = np.zeros((n, n))
    full[row["query"], row["key"]] = row["probability"]
    return full


def page_data(html):
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1]
    maps = re.findall(r'<script type="text/plain" id="map-(\w+)-(\w+)">(.*?)</script>', html)
    return json.loads(data), {(layer, head): base64.b64decode(text) for layer, head, text in maps}


def decoded(map_bytes, n, key_bytes=2):
    full, at = np.zeros((n, n)), 0
    for query in range(n):
        count = map_bytes[at]
        at += 1
        for _ in range(count):
            key = int.from_bytes(map_bytes[at : at + key_bytes], "little")
            full[query, key] = (map_bytes[at + key_bytes] / 255) ** 2
            at += key_bytes + 1
    assert at == len(map_bytes)
    return full


class TestArrays:
    def test_all_layers_and_heads(self, longformer):
        found = arrays(longformer, "--layer", "all", "--head", "all")
        assert sorted(found) == ["attentions.0", "attentions.1"]
        n = len(run("tokenize", longformer, "--text", TEXT).works().out.split())
        for layer in found.values():
            assert layer.shape == (HEADS, n, WINDOW + 1) and layer.dtype == np.float32
            assert np.abs(layer.sum(-1) - 1).max() <= 1e-5

    def test_with_a_global_token(self, longformer):
        found = arrays(longformer, "--layer", "1", "--head", "all", "--global-attention", "cls")
        local, of_global = found["attentions.1"], found["global_attentions.1"]
        n = local.shape[1]
        assert local.shape[2] == 1 + WINDOW + 1 and of_global.shape == (HEADS, n, 1)
        assert not local[:, 0].any()
        assert np.abs(local[:, 1:].sum(-1) - 1).max() <= 1e-5
        assert np.abs(of_global.sum(1) - 1).max() <= 1e-5

    def test_dense_models(self):
        found = arrays(BERT, "--layer", "0", "--head", "1")["attentions.0"]
        assert found.shape[0] == 1 and found.shape[1] == found.shape[2]
        assert np.abs(found.sum(-1) - 1).max() <= 1e-5

    def test_means(self, longformer):
        flags = ["--global-attention", "cls"]
        every = arrays(longformer, "--layer", "all", "--head", "all", *flags)
        for kind in ("attentions", "global_attentions"):
            stacked = np.stack([every[f"{kind}.{layer}"] for layer in range(LAYERS)])
            of_heads = arrays(longformer, "--layer", "all", "--head", "mean", *flags)
            for layer in range(LAYERS):
                found = of_heads[f"{kind}.{layer}"]
                np.testing.assert_allclose(found, stacked[layer].mean(0, keepdims=True), atol=1e-6)
            of_layers = arrays(longformer, "--head", "all", *flags)[f"{kind}.mean"]
            np.testing.assert_allclose(of_layers, stacked.mean(0), atol=1e-6)
            both = arrays(longformer, *flags)[f"{kind}.mean"]
            np.testing.assert_allclose(both, stacked.mean((0, 1))[None], atol=1e-6)

    def test_mean_of_layers_with_windows_of_their_own(self, tmp_path):
        # Layers 0 and 1 of the fixture have different windows: the narrow one is centred.
        model = FIXTURES / "tiny_longformer"
        windows = json.loads((model / "config.json").read_text())["attention_window"]
        assert len(set(windows)) > 1
        pytest.importorskip("longformer_cpp")
        import longformer_cpp

        folder = with_tokenizer(tmp_path, model)
        ids = run("tokenize", folder, "--text", TEXT).works().out.split()
        out = longformer_cpp.load(folder)([np.array(ids, int)], output_attentions=True)
        widest = max(windows)
        expected = np.zeros((out.attentions[0][0].shape[0], len(ids), widest + 1))
        for window, layer in zip(windows, out.attentions):
            side = (widest - window) // 2
            expected += np.pad(layer[0], ((0, 0), (0, 0), (side, side))) / len(windows)
        found = arrays(folder, "--head", "all")["attentions.mean"]
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_same_bytes_to_a_file_and_to_a_pipe(self, longformer, tmp_path):
        file = tmp_path / "x.npz"
        run("attention", longformer, *FLAGS, "-o", file).works()
        piped = run("attention", longformer, *FLAGS, "--format", "npz").works().raw
        assert file.read_bytes() == piped


def with_tokenizer(tmp_path, model):
    """The model with the tokenizer of tiny_bert cut to the ids that it has."""
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    words = (BERT / "vocab.txt").read_text().split("\n")
    size = json.loads((model / "config.json").read_text())["vocab_size"]
    (folder / "vocab.txt").write_text("\n".join(words[:size]) + "\n")
    return folder


class TestLayersOfTwoKinds:
    """ModernBERT: layers 0 and 3 see everything, 1 and 2 have windows."""

    MODEL = FIXTURES / "tiny_modernbert"
    DENSE = (0, 3)

    def pairs(self, *flags):
        """All pairs of each layer and head, from the arrays."""
        found = arrays(self.MODEL, "--layer", "all", "--head", "all", *flags)
        window = json.loads((self.MODEL / "config.json").read_text())["local_attention"]
        positions = [0] if "cls" in flags else []
        result = []
        for layer in range(4):
            local = found[f"attentions.{layer}"]
            n = local.shape[1]
            if layer in self.DENSE:
                assert local.shape[2] == n
                result.append(local.astype(float))
                continue
            assert local.shape[2] == len(positions) + window + 1
            of_global = found.get(f"global_attentions.{layer}", local[:, :, :0])
            result.append(np.stack([dense_rows(*head, positions, window) for head in zip(local, of_global)]))
        return np.stack(result)

    @pytest.mark.parametrize("flags", [[], ["--global-attention", "cls"]])
    def test_all_forms_agree(self, flags):
        expected = self.pairs(*flags)
        assert np.abs(expected.sum(-1) - 1).max() <= 1e-5
        n = expected.shape[-1]
        options = ["--json", "--threshold", "0", *flags]
        rows = run("attention", self.MODEL, *FLAGS, "--layer", "all", "--head", "all", *options).works().json
        assert len(rows) == expected.shape[0] * expected.shape[1]
        for row in rows:
            np.testing.assert_allclose(triplets(row, n), expected[row["layer"], row["head"]], atol=1e-7)
        np.testing.assert_allclose(arrays(self.MODEL, *flags)["attentions.mean"][0], expected.mean((0, 1)), atol=1e-6)
        (mean,) = run("attention", self.MODEL, *FLAGS, *options).works().json
        np.testing.assert_allclose(triplets(mean, n), expected.mean((0, 1)), atol=1e-6)

    def test_the_package_has_the_same(self):
        package = pytest.importorskip("longformer_cpp")
        ids = [int(i) for i in run("tokenize", self.MODEL, *FLAGS).works().out.split()]
        out = package.load(self.MODEL)([ids, ids[:-3]], output_attentions=True)
        for layer, found in enumerate(out.attentions):
            expected = arrays(self.MODEL, "--layer", str(layer), "--head", "all")[f"attentions.{layer}"]
            np.testing.assert_allclose(found[0], expected, atol=1e-6)

    def test_global_tokens_are_told_to_be_untrained(self):
        result = run("embed", self.MODEL, *FLAGS, "--global-attention", "cls")
        assert result.code == 0 and "was not trained with global tokens" in result.err
        run("embed", self.MODEL, *FLAGS, "--global-attention", "none").works()


class TestTriplets:
    def test_everything_adds_up_to_the_arrays(self, longformer):
        flags = ["--layer", "1", "--head", "0", "--global-attention", "cls"]
        found = arrays(longformer, *flags)
        expected = dense_rows(found["attentions.1"][0], found["global_attentions.1"][0], [0], WINDOW)
        row = run("attention", longformer, *FLAGS, *flags, "--json", "--threshold", "0").works().json[0]
        assert list(row) == ["file", "line", "layer", "head", "tokens", "truncated",
                             "global_positions", "query", "key", "probability"]
        assert (row["layer"], row["head"], row["global_positions"]) == (1, 0, [0])
        np.testing.assert_allclose(triplets(row, row["tokens"]), expected, atol=1e-7)

    def test_text_and_json_agree(self, longformer):
        flags = ["--layer", "all", "--head", "1", "--top-k", "3"]
        lines = run("attention", longformer, *FLAGS, *flags).works().out.splitlines()
        assert lines[0].split("\t") == ["document", "layer", "head", "query", "key", "probability",
                                        "query_token", "key_token"]
        fields = [line.split("\t") for line in lines[1:]]
        rows = run("attention", longformer, *FLAGS, *flags, "--json").works().json
        assert [(row["layer"], row["head"]) for row in rows] == [(0, 1), (1, 1)]
        listed = [(row["layer"], *pair) for row in rows
                  for pair in zip(row["query"], row["key"], row["probability"])]
        assert len(fields) == len(listed)
        tokens = run("tokenize", longformer, *FLAGS, "--json").works().json[0]["tokens"]
        for field, (layer, query, key, probability) in zip(fields, listed):
            assert field[:5] == ["--text:1", str(layer), "1", str(query), str(key)]
            assert float(field[5]) == pytest.approx(probability, rel=1e-5)
            assert field[6:] == [tokens[query], tokens[key]]

    def test_tables_are_quoted(self, tmp_path):
        """Tokens with quotation marks come back from a .tsv as they are."""
        text = 'a "b" c\u00a0d "'
        model = FIXTURES / "tiny_roberta"
        run("attention", model, "--text", text, "-o", "x.tsv", folder=tmp_path).works()
        with open(tmp_path / "x.tsv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        tokens = run("tokenize", model, "--text", text, "--json").works().json[0]["tokens"]
        assert any('"' in token for token in tokens)
        assert {(int(row["query"]), row["query_token"]) for row in rows} == set(enumerate(tokens))
        assert all(row["key_token"] == tokens[int(row["key"])] for row in rows)
        plain = run("attention", model, "--text", text).works().out.splitlines()
        assert len(plain) == len(rows) + 1

    def test_top_k_and_threshold(self, longformer):
        def row(*flags):
            return run("attention", longformer, *FLAGS, "--json", *flags).works().json[0]

        every = row("--threshold", "0")
        full = triplets(every, every["tokens"])
        best = row("--top-k", "2")
        for query in range(best["tokens"]):
            chosen = [p for q, p in zip(best["query"], best["probability"]) if q == query]
            assert chosen == sorted(chosen, reverse=True)
            np.testing.assert_allclose(chosen, np.sort(full[query])[::-1][:2], rtol=1e-6)
        above = row("--threshold", "0.15")
        assert 0 < len(above["probability"]) == (full >= np.float32(0.15)).sum()
        assert len(row()["query"]) == 5 * every["tokens"]

    def test_many_documents_keep_what_works(self, longformer, tmp_path):
        result = run("attention", longformer, tmp_path / "absent", "--text", "a", "--json")
        assert result.code == 1 and "absent" in result.err
        assert [("query" in row, "error" in row) for row in result.json] == [(True, False), (False, True)]
        text = run("attention", longformer, "--lines", stdin="a b\nc\n").works().out
        assert {line.split("\t")[0] for line in text.splitlines()[1:]} == {"-:1", "-:2"}


class TestPage:
    def test_holds_the_strongest_of_every_map(self, longformer):
        flags = ["--global-attention", "cls"]
        html = run("attention", longformer, *FLAGS, "--format", "html", "--top-k", "4", *flags).works().out
        data, maps = page_data(html)
        assert data["layers"] == ["0", "1"] and data["heads"] == ["mean", "0", "1"]
        assert sorted(maps) == sorted((a, b) for a in data["layers"] for b in data["heads"])
        n = len(data["tokens"])
        for (layer, head), content in maps.items():
            row = run("attention", longformer, *FLAGS, "--layer", layer, "--head", head, "--json",
                      "--threshold", "0.001", *flags).works().json[0]
            expected = triplets(row, n)
            for i in range(1, n):
                expected[i, np.argsort(-expected[i], kind="stable")[4:]] = 0
            # Square roots are kept in steps of 1/255.
            assert np.abs(np.sqrt(decoded(content, n)) - np.sqrt(expected)).max() <= 0.5 / 255 + 1e-6

    def test_tokens_and_gaps_are_the_text(self, longformer):
        text = "a  b\n\n<b>&amp;</script><!-- é \u2028 d"
        html = run("attention", longformer, "--text", text, "--format", "html").works().out
        data, _ = page_data(html)
        pieces = [gap + ("" if i in data["special"] else token)
                  for i, (gap, token) in enumerate(zip(data["gaps"], data["tokens"] + [""]))]
        assert "".join(pieces) == text
        assert "<b>" not in html and html.count("</script>") == len(re.findall("<script", html))
        assert html.startswith("<!DOCTYPE html>")

    def test_needs_nothing_from_elsewhere(self, longformer):
        html = run("attention", longformer, *FLAGS, "--format", "html").works().out
        assert not re.search(r"https?://|src=|@import|url\(", html)

    def test_bytes_that_are_no_text(self, longformer, tmp_path):
        file = tmp_path / "x.txt"
        file.write_bytes(b"a \xff\xfe b \xe2\x82 c")
        data, _ = page_data(run("attention", longformer, file, "--format", "html").passes().out)
        assert "\ufffd" in "".join(data["tokens"] + data["gaps"])

    def test_chosen_maps_only(self, longformer):
        html = run("attention", longformer, *FLAGS, "--format", "html", "--layer", "1", "--head",
                   "mean").works().out
        data, maps = page_data(html)
        assert data["layers"] == ["1"] and data["heads"] == ["mean"] and list(maps) == [("1", "mean")]


@pytest.fixture(scope="module")
def long_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long") / "model"
    run("convert", BERT, folder, "--max-positions", TestMemory.TOKENS, "--window", 8).works()
    return folder


class TestMemory:
    """A document of 4,096 tokens, all layers and heads: never a number for every pair of tokens."""

    TOKENS = 4096

    def peak(self, *arguments):
        """Bytes of memory that the program took at most."""
        with open(os.devnull, "wb") as nowhere:
            process = subprocess.Popen([BINARY, *map(str, arguments)], stdout=nowhere)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_maxrss * 1024

    @pytest.mark.parametrize("form", ["text", "json", "npz", "html"])
    def test_far_below_all_pairs(self, form, long_model, tmp_path):
        text = tmp_path / "long.txt"
        text.write_text("a b c d e " * 818 + "a b c d")
        flags = ["--layer", "all", "--head", "all", "--global-attention", "cls", "--format", form]
        all_pairs = self.TOKENS**2 * 4
        used = self.peak("attention", long_model, text, *flags) - self.peak("info", long_model)
        assert used < all_pairs / 2


class TestRefused:
    @pytest.mark.parametrize("flags,words", [
        (["--layer", "x"], ["--layer", "'x'"]), (["--head", "-1"], ["--head", "-1"]),
        (["--threshold", "2"], ["--threshold", "2"]), (["--format", "gif"], ["gif", "npz"]),
        (["--format", "npz", "--top-k", "3"], ["--top-k"]),
        (["--format", "npz", "--json"], ["--json"]),
        (["--format", "html", "--top-k", "300"], ["255"])])
    def test_wrong_values(self, flags, words):
        run("attention", BERT, *FLAGS, *flags).fails(2, *words)

    @pytest.mark.parametrize("flags,option", [
        (["--format", "png"], "--format"), (["--format", "svg"], "--format"), (["-o", "x.PDF"], "-o"),
        (["--output", "x.png"], "--output"), (["--cells", "mean"], "--cells")])
    def test_pictures(self, flags, option, tmp_path):
        flags = [tmp_path / flag if flag.startswith("x.") else flag for flag in flags]
        run("attention", BERT, *FLAGS, *flags).fails(
            2, f"error: {option}: the program draws no pictures: use longformer_cpp.plot.heat_map in Python",
            "pip install 'longformer-cpp[plot]'")
        assert not list(tmp_path.iterdir())
        assert "png" not in run("attention", "--help").works().out

    def test_any_name_with_a_form(self, tmp_path):
        run("attention", BERT, *FLAGS, "--format", "json", "-o", tmp_path / "x.png").works()
        assert json.loads((tmp_path / "x.png").read_text().splitlines()[0])["layer"] == "mean"

    @pytest.mark.parametrize("what", ["layer", "head"])
    def test_numbers_beyond_the_model(self, what):
        run("attention", BERT, *FLAGS, f"--{what}", "2").fails(2, f"--{what}", "0 to 1", "2")

    def test_global_tokens_need_a_longformer(self):
        run("attention", BERT, *FLAGS, "--global-attention", "cls").fails(1, "global", "bert")

    def test_too_long(self):
        text = "a " * 60
        run("attention", BERT, "--text", text).fails(1, "62", "24", "--truncate")
        result = run("attention", BERT, "--text", text, "--truncate", "--json")
        assert result.code == 0 and "kept the first 24" in result.err
        assert result.json[0]["tokens"] == 24 and result.json[0]["truncated"] == 38

    @pytest.mark.parametrize("name", ["x.html", "x.npz"])
    def test_one_document(self, name, tmp_path):
        file = tmp_path / name
        run("attention", BERT, "--text", "a b", "--text", "c", "-o", file).fails(1, "--text:2", "one document")
        assert file.exists()

    @pytest.mark.parametrize("name", ["x.html", "x.npz"])
    def test_no_file_without_a_result(self, name, tmp_path):
        file = tmp_path / name
        run("attention", BERT, tmp_path / "absent", "-o", file).fails(1, "absent")
        assert not file.exists() and not (tmp_path / (name + ".part")).exists()

    @pytest.mark.parametrize("name", ["x.html", "x.npz"])
    def test_a_document_that_cannot_be_read_is_left_out(self, name, tmp_path):
        alone, beside = tmp_path / name, tmp_path / ("beside-" + name)
        (tmp_path / "a.txt").write_text("a b")
        run("attention", BERT, tmp_path / "a.txt", "-o", alone).works()
        run("attention", BERT, tmp_path / "absent", tmp_path / "a.txt", "-o", beside).fails(1, "absent")
        assert beside.read_bytes() == alone.read_bytes()

    def test_no_room(self):
        run("attention", BERT, *FLAGS, "-o", "/dev/full").fails(1, "/dev/full")
