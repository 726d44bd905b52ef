"""Pictures of longformer_cpp.plot: their texts, sizes and data, not their pixels."""

import json
import os
import pathlib
import subprocess
import sys
import warnings

import longformer_cpp
import numpy as np
import pytest

pytest.importorskip("matplotlib")

from longformer_cpp import plot
from matplotlib import font_manager
from matplotlib.colors import to_hex

PACKAGES = str(pathlib.Path(longformer_cpp.__file__).resolve().parents[1])
GLOBAL = "#2563eb"
PATTERNS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "pattern_lm"


def run_python(program, **options):
    environment = os.environ | {"PYTHONPATH": PACKAGES}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, **options)


class TestImport:
    def test_the_package_does_not_load_matplotlib(self):
        assert run_python("import longformer_cpp, sys; sys.exit('matplotlib' in sys.modules)").returncode == 0

    def test_without_matplotlib(self):
        done = run_python("import sys; sys.modules['matplotlib'] = None; import longformer_cpp.plot")
        assert done.returncode == 1 and "pip install 'longformer-cpp[plot]'" in done.stderr.splitlines()[-1]

    def test_no_global_state(self):
        program = "import sys; from longformer_cpp import plot; sys.exit('matplotlib.pyplot' in sys.modules)"
        assert run_python(program).returncode == 0

    def test_types_hold(self, tmp_path):
        pytest.importorskip("mypy")
        file = tmp_path / "program.py"
        file.write_text(
            "from matplotlib.figure import Figure\nfrom longformer_cpp import plot\n"
            "figure: Figure = plot.heat_map('a.npz', layer=3)\nplot.heat_map('a.npz', title=3)  # wrong\n"
        )
        path = "" if PACKAGES.endswith("site-packages") else PACKAGES
        command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", tmp_path, file]
        done = subprocess.run(command, capture_output=True, text=True, env={"MYPYPATH": path})
        errors = [line for line in done.stdout.splitlines() if ": error:" in line]
        assert len(errors) == 1 and "program.py:4" in errors[0], done.stdout


def probabilities(heads, n, seed=0):
    """Dense attention [heads, n, n]."""
    drawn = np.random.default_rng(seed).exponential(size=(heads, n, n)) ** 3
    return (drawn / drawn.sum(-1, keepdims=True)).astype(np.float32)


def windowed(dense, window, positions=()):
    """The layout of `transformers` of dense attention, and the pairs that are in it."""
    heads, n, _ = dense.shape
    x, reach = len(positions), window // 2
    local, of_global = np.zeros((heads, n, x + window + 1), np.float32), np.zeros((heads, n, x), np.float32)
    pairs = np.zeros_like(dense)
    for i in range(n):
        if i in positions:
            of_global[:, :, positions.index(i)] = pairs[:, i] = dense[:, i]
            continue
        for c, key in enumerate(positions):
            local[:, i, c] = pairs[:, i, key] = dense[:, i, key]
        for key in range(max(i - reach, 0), min(i + reach + 1, n)):
            if key not in positions:
                local[:, i, x + key - i + reach] = pairs[:, i, key] = dense[:, i, key]
    arrays = {"attentions.0": local} | ({"global_attentions.0": of_global} if x else {})
    return arrays, pairs


def drawn_cells(axes):
    """Probabilities of the cells; 0 where there are none."""
    return axes.images[0].get_array().filled(0)


def panels(figure):
    return [axes for axes in figure.axes if axes.images]


def labels(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def texts(figure):
    found = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        found += [axes.get_title(), axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()]
        found += [text.get_text() for text in axes.texts]
        if axes.get_legend():
            found += [text.get_text() for text in axes.get_legend().get_texts()]
    return [text for text in found if text]


class TestHeatMap:
    def test_of_a_model(self, folder, tmp_path):
        model = longformer_cpp.load(folder("tiny_roberta"))
        text = "he was in the house"
        encoding = model.tokenizer.encode(text)
        out = model([encoding.ids], output_attentions=True)
        figure = plot.heat_map(out, tmp_path / "a.png", layer=1, head=0, tokens=encoding, text=text)
        (axes,) = panels(figure)
        np.testing.assert_allclose(drawn_cells(axes), out.attentions[1][0][0], rtol=1e-6)
        n = len(encoding)
        names = [text[a:b].strip() or token for (a, b), token in zip(encoding.offsets, encoding.tokens)]
        assert labels(axes.xaxis) == labels(axes.yaxis) == names
        assert texts(figure)[0] == f"layer 1, head 0: {n} tokens, 0 global"
        for one in ("key token", "query token", "one cell per pair of tokens", "probability", "none"):
            assert texts(figure).count(one) == 1
        assert "global token" not in texts(figure)

    def test_of_the_program(self, folder, tmp_path):
        binary = os.environ.get("LONGFORMER_BINARY")
        if not binary:
            pytest.skip("LONGFORMER_BINARY names no program")
        model, text = folder("tiny_longformer_classifier"), "he was in it " * 4
        arguments = [model, "--text", text, "--global-attention", "0,3", "--layer", "all", "--head", "all"]
        file = tmp_path / "a.npz"
        subprocess.run([binary, "attention", *map(str, arguments), "-o", file], check=True)
        loaded = longformer_cpp.load(model)
        ids = loaded.tokenizer.encode(text).ids
        mask = np.isin(np.arange(len(ids)), [0, 3]).astype(int)
        out = loaded([ids], global_attention_mask=[mask], output_attentions=True)
        for choice in ({"layer": 0, "head": 1}, {}, {"layer": "all", "head": "all"}):
            ours, theirs = plot.heat_map(out, **choice), plot.heat_map(file, **choice)
            assert texts(ours) == texts(theirs)
            for a, b in zip(panels(ours), panels(theirs), strict=True):
                np.testing.assert_allclose(drawn_cells(a), drawn_cells(b), atol=1e-6)

    @pytest.mark.parametrize("positions", [[], [0], [2, 3, 11]])
    def test_pairs_and_distances(self, positions):
        arrays, pairs = windowed(probabilities(2, 14), 4, positions)
        figure = plot.heat_map(arrays, head=1, tokens=[f"t{i}" for i in range(14)])
        left, *right = panels(figure)
        np.testing.assert_allclose(drawn_cells(left), pairs[1], rtol=1e-6)
        x = len(positions)
        np.testing.assert_array_equal(drawn_cells(right[-1]), arrays["attentions.0"][1][:, x:])
        if x:
            np.testing.assert_array_equal(drawn_cells(right[0]), arrays["attentions.0"][1][:, :x])
        assert len(right) == 1 + bool(x)
        assert ("global keys, then key − query" if x else "key − query") in texts(figure)
        assert right[-1].images[0].get_extent()[:2] == [-2.5, 2.5]
        blue = [i for i, tick in enumerate(left.yaxis.get_ticklabels()) if to_hex(tick.get_color()) == GLOBAL]
        assert blue == positions
        marks = [line.get_xdata() for line in left.lines] or [[]]
        assert list(marks[0]) == positions
        assert ("global token" in texts(figure)) == bool(x)
        assert figure.texts[0].get_text() == f"layer 0, head 1: 14 tokens, {x} global"

    def test_a_window_that_covers_the_document(self):
        arrays, pairs = windowed(probabilities(1, 5), 12)
        (axes,) = panels(plot.heat_map(arrays))
        np.testing.assert_allclose(drawn_cells(axes), pairs[0], rtol=1e-6)

    @pytest.mark.parametrize("reduction", ["max", "mean"])
    def test_many_tokens_share_cells(self, reduction):
        n = 2051
        arrays, pairs = windowed(probabilities(1, n), 6, [1500])
        figure = plot.heat_map(arrays, cells=reduction, tokens=["name"] * n)
        left, keys, window = panels(figure)
        padded = np.pad(pairs[0], (0, 3 * 684 - n)).reshape(684, 3, 684, 3)
        shares = np.minimum(3, n - 3 * np.arange(684))
        expected = padded.max((1, 3)) if reduction == "max" else padded.sum((1, 3)) / np.outer(shares, shares)
        np.testing.assert_allclose(drawn_cells(left), expected, rtol=1e-5)
        assert drawn_cells(window).shape == (684, 7) and drawn_cells(keys).shape == (684, 1)
        word = "maximum" if reduction == "max" else "mean"
        assert f"a cell is the {word} of 3 × 3 pairs" in texts(figure)
        assert f"a cell is the {word} of 3 × 1 pairs" in texts(figure)
        assert "2,000" in labels(left.yaxis) and "name" not in labels(left.yaxis)

    def test_panels_lie_on_whole_pixels(self):
        arrays, _ = windowed(probabilities(1, 1100), 8, [0])
        figure = plot.heat_map(arrays)
        for axes in panels(figure):
            box = axes.get_window_extent()
            rows, columns = axes.images[0].get_array().shape
            for edge in box.extents:
                assert abs(edge - round(edge)) < 1e-6
            assert round(box.height) % rows == 0 and round(box.width) % columns == 0
        for axes in figure.axes:
            box = axes.get_tightbbox(figure.canvas.get_renderer())
            assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1

    def test_a_panel_for_each_head(self):
        arrays = {f"attentions.{i}": probabilities(3, 6, i) for i in (0, 2)}
        figure = plot.heat_map(arrays, layer="all", head="all", tokens=list("abcdef"))
        assert len(panels(figure)) == 6
        np.testing.assert_allclose(drawn_cells(panels(figure)[4]), arrays["attentions.2"][1], rtol=1e-6)
        for name in ("head 0", "head 1", "head 2", "layer 0", "layer 2", "6 tokens, 0 global"):
            assert texts(figure).count(name) == 1
        assert "down: query token; right: key token; one cell per pair of tokens" in texts(figure)
        assert [len(labels(axes.yaxis)) for axes in panels(figure)] == [6, 0, 0] * 2
        assert len(panels(plot.heat_map(arrays, layer=[2], head=[2, 0]))) == 2

    def test_a_grid_by_distance(self):
        first, _ = windowed(probabilities(2, 30), 4, [0])
        second, _ = windowed(probabilities(2, 30, 1), 8, [0])
        arrays = first | {name.replace("0", "1"): array for name, array in second.items()}
        figure = plot.heat_map(arrays, layer="all", head="all")
        shapes = [drawn_cells(axes).shape for axes in panels(figure)]
        assert shapes == [(30, 1), (30, 5)] * 2 + [(30, 1), (30, 9)] * 2
        # Layers with windows of their own have ticks of their own.
        assert all(labels(axes.xaxis) for axes in panels(figure)[1::2])

    def test_means(self):
        narrow, _ = windowed(probabilities(2, 30), 4, [1])
        wide, _ = windowed(probabilities(2, 30, 1), 8, [1])
        arrays = narrow | {name.replace("0", "1"): array for name, array in wide.items()}
        figure = plot.heat_map(arrays)
        expected = wide["attentions.0"].mean(0) / 2
        expected[:, :1] += narrow["attentions.0"].mean(0)[:, :1] / 2
        expected[:, 3:8] += narrow["attentions.0"].mean(0)[:, 1:] / 2
        _, keys, window = panels(figure)
        np.testing.assert_allclose(np.hstack([drawn_cells(keys), drawn_cells(window)]), expected, atol=1e-6)
        assert figure.texts[0].get_text() == "mean of layers, mean of heads: 30 tokens, 1 global"
        # A file of one head does not say which.
        only = {"attentions.mean": windowed(probabilities(1, 30), 4)[0]["attentions.0"]}
        assert plot.heat_map(only).texts[0].get_text() == "mean of layers: 30 tokens, 0 global"

    def test_a_document_of_a_padded_batch(self, folder):
        model = longformer_cpp.load(folder("tiny_longformer_classifier"))
        ids = [model.tokenizer.encode(text).ids for text in ("he was in the house", "it was")]
        n = max(map(len, ids))
        batch = np.array([row + [0] * (n - len(row)) for row in ids])
        mask = np.array([[1] * len(row) + [0] * (n - len(row)) for row in ids])
        is_global = np.zeros_like(mask)
        is_global[0, :2] = is_global[1, 0] = 1
        padded = model(batch, attention_mask=mask, global_attention_mask=is_global, output_attentions=True)
        alone = model([ids[1]], global_attention_mask=[is_global[1, : len(ids[1])]], output_attentions=True)
        found, expected = plot.heat_map(padded, document=1), plot.heat_map(alone)
        assert found.texts[0].get_text() == expected.texts[0].get_text()
        for a, b in zip(panels(found), panels(expected), strict=True):
            np.testing.assert_allclose(drawn_cells(a), drawn_cells(b), atol=1e-6)
        with pytest.raises(longformer_cpp.Error, match="document: expected a number from 0 to 1, found 2"):
            plot.heat_map(padded, document=2)

    def test_names(self):
        words = ["Pneumonoultramicroscopic", "長い日本語のトークンです", "שלום", "a\tb", " ", "\x01", "$x$", "e\u0301" * 16]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            figure = plot.heat_map({"attentions.0": probabilities(1, 8)}, tokens=words, title="$5 or $6")
        shown = ["Pneumonoultrami…", "長い日本語のト…", "שלום", "a␣b", "␣", "␣", "$x$", "e\u0301" * 16]
        assert labels(panels(figure)[0].xaxis) == shown
        assert not any(tick.get_parse_math() for tick in panels(figure)[0].xaxis.get_ticklabels())
        assert figure.texts[0].get_text() == "$5 or $6" and not figure.texts[0].get_parse_math()

    @pytest.mark.parametrize(("count", "named"), [(64, True), (65, False)])
    def test_up_to_64_names(self, count, named):
        figure = plot.heat_map({"attentions.0": probabilities(1, count)}, tokens=["name"] * count)
        assert labels(panels(figure)[0].yaxis).count("name") == (count if named else 0)

    def test_characters_without_a_font(self):
        with pytest.warns(RuntimeWarning, match="no installed font has .: boxes stand for them") as told:
            plot.heat_map({"attentions.0": probabilities(1, 2)}, tokens=["a", "\U0001f9ff"])
        assert len(told) == 1

    def test_fonts_of_other_scripts(self):
        """Characters that the default font lacks come from others, as few as will do."""
        default = font_manager.get_font(font_manager.findfont(font_manager.FontProperties())).get_charmap()
        other = font_manager.get_font(font_manager.findfont(font_manager.FontProperties("STIXGeneral"))).get_charmap()
        lacking = [c for c in sorted(other.keys() - default.keys()) if chr(c).isprintable()][:2]
        figure = plot.heat_map({"attentions.0": probabilities(1, 2)}, tokens=["a" + chr(c) for c in lacking])
        families = panels(figure)[0].xaxis.get_ticklabels()[0].get_fontfamily()
        assert families[0] == "sans-serif" and len(families) == 2

    @pytest.mark.parametrize(("name", "begin"), [("x.png", b"\x89PNG\r\n"), ("x.svg", b"<?xml"), ("X.PDF", b"%PDF-")])
    def test_files(self, tmp_path, name, begin):
        for file in ("one", "two"):
            (tmp_path / file).mkdir()
            plot.heat_map({"attentions.0": probabilities(1, 3)}, tmp_path / file / name, tokens=list("aש$"))
        first = (tmp_path / "one" / name).read_bytes()
        assert first.startswith(begin) and first == (tmp_path / "two" / name).read_bytes()

    @pytest.mark.parametrize(
        ("attention", "options", "error", "message"),
        [
            ({"attentions.0": probabilities(2, 3)}, {"layer": 1}, longformer_cpp.Error, "layer: expected one of 0, found 1"),
            ({"attentions.0": probabilities(2, 3)}, {"head": 2}, longformer_cpp.Error, "head: expected one of 0, 1, found 2"),
            ({"attentions.0": probabilities(2, 3)}, {"head": "best"}, longformer_cpp.Error, "head: expected a number, all or"),
            ({"attentions.0": probabilities(2, 3)}, {"head": 1.5}, TypeError, "head: expected an integer"),
            ({"attentions.0": probabilities(2, 3)}, {"cells": "sum"}, longformer_cpp.Error, "cells: expected max or mean"),
            ({"attentions.0": probabilities(2, 3)}, {"tokens": ["a"]}, longformer_cpp.Error, "tokens: expected 3 tokens, found 1"),
            ({"attentions.0": probabilities(2, 3)}, {"file": "x.gif"}, longformer_cpp.Error, "ends in .png, .svg, .pdf, found"),
            ({"attentions.0": probabilities(2, 3)[0]}, {}, longformer_cpp.Error, r"expected \[heads, n, columns\]"),
            ({"attentions.0": probabilities(2, 4)[:, :, :2]}, {}, longformer_cpp.Error, "an odd number of columns"),
            ({"attentions.0": np.zeros((1, 3, 3))}, {}, longformer_cpp.Error, "found zeros alone"),
            ({"attentions.0": probabilities(1, 3), "global_attentions.0": np.ones((1, 3, 1))}, {}, longformer_cpp.Error,
             "rows of zeros for 1 global tokens, found 0"),
            ({"x": np.ones(3)}, {}, longformer_cpp.Error, "attentions.0 and so on, found x"),
            (3, {}, TypeError, "attention: expected what a model returns"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_drawn(self, attention, options, error, message, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(error, match=message):
            plot.heat_map(attention, **options)
        assert not list(tmp_path.iterdir())

    def test_files_of_something_else(self, tmp_path):
        np.save(tmp_path / "a.npy", np.ones(3))
        (tmp_path / "b.npz").write_text("no arrays")
        (tmp_path / "c.npz").write_bytes(b"PK\x03\x04 no archive")
        for name in ("a.npy", "b.npz", "c.npz"):
            with pytest.raises(longformer_cpp.Error, match=f"{name}: expected the .npz file"):
                plot.heat_map(tmp_path / name)
        with pytest.raises(FileNotFoundError):
            plot.heat_map(tmp_path / "absent.npz")

    def test_a_result_without_attentions(self, folder):
        model = longformer_cpp.load(folder("tiny_roberta"))
        with pytest.raises(longformer_cpp.Error, match="output_attentions=True"):
            plot.heat_map(model([model.tokenizer.encode("he was").ids]))


KINDS = ("compressed", "memory", "segment")


def shares(layers, seed=0):
    """[layers, 3 kinds, 6 ages], each layer with the sum 1."""
    drawn = np.random.default_rng(seed).exponential(size=(layers, 18))
    return (drawn / drawn.sum(1, keepdims=True)).reshape(layers, 3, 6)


def named(layers):
    """The mean and each layer as a training names them."""
    parts = {"": layers.mean(0)} | {f"layer_{i}_": layer for i, layer in enumerate(layers)}
    return {f"{part}{kind}_p{age}": float(values[k, age]) for part, values in parts.items()
            for k, kind in enumerate(("cm", "em", "seq")) for age in range(6)}  # fmt: skip


def bars(axes):
    return np.array([bar.get_height() for bar in axes.patches]).reshape(3, 6)


def all_axes(figure):
    return [axes for part in figure.subfigs for axes in part.axes if axes.axison]


class TestAttentionShares:
    def test_of_a_score(self, tmp_path):
        layers = shares(5)
        score = longformer_cpp.LanguageModelScore({}, 10, 1.0, [tuple(map(list, layer)) for layer in layers], [])
        lines = [dict(zip(KINDS, layer.tolist()), layer=i) for i, layer in enumerate(layers)]
        file = tmp_path / "score.json"
        file.write_text(json.dumps({"task": "character-lm", "attention_shares": lines}) + "\n")
        for source in (score, file, str(file), json.loads(file.read_text())):
            figure = plot.attention_shares(source, tmp_path / "shares.png", title="a model")
            mean, *small = all_axes(figure)
            np.testing.assert_allclose(bars(mean), layers.mean(0))
            np.testing.assert_allclose([bars(axes) for axes in small], layers)
            assert [axes.get_title() for axes in small] == [f"layer {i}" for i in range(5)]
            highest = 100 * layers.mean(0).max()
            assert mean.get_title() == f"mean of 5 layers, highest bar {highest:.1f} %"
            assert labels(mean.xaxis) == [f"{k} {100 * s:.1f} %" for k, s in zip(KINDS, layers.mean(0).sum(1))]
            assert mean.get_ylabel() == "share of the attention" and "oldest left" in mean.get_xlabel()
            assert figure.get_suptitle() == "a model"
            assert figure.subfigs[1].get_suptitle() == f"layers, highest bar {100 * layers.max():.1f} %"
            assert (tmp_path / "shares.png").exists()

    @pytest.mark.parametrize("count", [1, 3])
    def test_of_a_training(self, tmp_path, count):
        evaluations = [(100 * (i + 1), shares(2, i)) for i in range(count)]
        result = longformer_cpp.TrainingResult(
            "out", 300, 1.0, False, None, "", "", [(step, {"bpc": 1.0, **named(layers)}) for step, layers in evaluations]
        )
        log = tmp_path / "log.jsonl"
        rows = [{"step": 50, "loss": 2.0}, {"step": 60, "eval_bpc": 1.0}]
        rows += [{"step": step} | {f"eval_{k}": v for k, v in named(layers).items()} for step, layers in evaluations]
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for source in (result, log):
            figure = plot.attention_shares(source, tmp_path / "training.svg")
            mean, course, *small = all_axes(figure)
            np.testing.assert_allclose(bars(mean), evaluations[-1][1].mean(0))
            assert len(small) == 2
            assert course.get_title() == f"evaluations after 100 to {100 * count} steps"
            assert [text.get_text() for text in course.get_legend().get_texts()] == list(KINDS)
            sums = np.cumsum(evaluations[0][1].mean(0).sum(1))
            if count > 1:
                tops = [area.get_paths()[0].vertices[:, 1].max() for area in course.collections]
                assert tops[2] == pytest.approx(1) and len(tops) == 3
            else:
                np.testing.assert_allclose([bar.get_y() + bar.get_height() for bar in course.patches], sums)

    def test_of_the_package(self, tmp_path):
        """A training and an evaluation of a small model, drawn from what they return and from the log."""
        fixture = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "memory_lm" / "compressive"
        text = tmp_path / "text.txt"
        text.write_text("the fox and the dog " * 60)
        score = longformer_cpp.LanguageModel(fixture).evaluate(text, attention_shares=True)
        mean, *small = all_axes(plot.attention_shares(score))
        assert len(small) == len(score.attention_shares) == 2
        assert bars(mean).sum() == pytest.approx(1, rel=1e-4)

    @pytest.mark.parametrize(("source", "error", "message"), [
        ({}, longformer_cpp.Error, "expected attention shares, found none"), (3, TypeError, "source: expected the result"),
        (longformer_cpp.TrainingResult("o", 1, 1.0, False, None, "", "", []), longformer_cpp.Error, "evaluations with")])  # fmt: skip
    def test_without_shares(self, source, error, message):
        with pytest.raises(error, match=message):
            plot.attention_shares(source)

    def test_files_of_something_else(self, tmp_path):
        for name, content in (("a.json", "{broken"), ("b.json", '{"loss": 1}'), ("c.csv", "a,b\n1,2\n")):
            (tmp_path / name).write_text(content)
            with pytest.raises(longformer_cpp.Error, match="expected"):
                plot.attention_shares(tmp_path / name)


class TestSpans:
    INFO = {"spans": [[3.0, 0.0, 500.5], [12.0, 1.0, 2.0]], "max_span": 1024, "span_ramp": 32}

    def test_bars(self, tmp_path):
        file = tmp_path / "info.json"
        file.write_text(json.dumps(self.INFO))
        for source in (self.INFO, file, str(file)):
            (axes,) = plot.spans(source, tmp_path / "spans.png").axes
            assert [bar.get_height() for bar in axes.patches] == [0, 3, 500.5, 1, 2, 12]
            assert labels(axes.xaxis) == ["0", "1"]
            assert axes.get_title() == "mean 86 of at most 1,024, and a ramp of 32"
        assert plot.spans(self.INFO, title="a model").axes[0].get_title() == "a model"

    def test_of_a_model(self):
        model = longformer_cpp.LanguageModel(PATTERNS / "adaptive")
        assert len(plot.spans(model).axes[0].patches) == 6

    def test_bad_input(self, tmp_path):
        with pytest.raises(TypeError, match="source: expected a LanguageModel"):
            plot.spans(3)
        with pytest.raises(longformer_cpp.Error, match="adaptive"):
            plot.spans(longformer_cpp.LanguageModel(PATTERNS / "fixed_merged"))
        with pytest.raises(longformer_cpp.Error, match="file: expected a name"):
            plot.spans(self.INFO, tmp_path / "a.txt")


def rows_of(backends, dtypes=("fp32",)):
    return [{"n": n, "dtype": dtype, "backend": backend, "pass": "forward", "seconds": n * 1e-5 * (i + 1),
             "peak_rss_bytes": 1000 * n * (i + 1)}
            for n in (2048, 512, 1024) for dtype in dtypes for i, backend in enumerate(backends)]  # fmt: skip


class TestTimeAndMemory:
    def test_lines(self, tmp_path):
        rows = rows_of(["fused", "full", "mine"])
        rows.append(dict(rows[0], **{"pass": "backward", "seconds": 9}))
        jsonl, listed, table = tmp_path / "a.jsonl", tmp_path / "a.json", tmp_path / "a.csv"
        jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows))
        listed.write_text(json.dumps(rows))
        table.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]))
        for results in (rows, jsonl, str(listed), table, [jsonl], (row for row in rows)):
            figure = plot.time_and_memory(results, tmp_path / "a.svg", title="a machine")
            time, memory = figure.axes
            for axes, key in ((time, "seconds"), (memory, "peak_rss_bytes")):
                assert [line.get_label() for line in axes.lines] == ["fused", "full n²", "mine"]
                for i, line in enumerate(axes.lines):
                    assert list(line.get_xdata()) == [512, 1024, 2048]
                    np.testing.assert_allclose(line.get_ydata(), [row[key] for row in rows[i:9:3][1:] + rows[i : i + 1]])
                assert labels(axes.xaxis) == ["512", "1,024", "2,048"]
                assert axes.get_xlabel() == "tokens" and axes.get_xscale() == axes.get_yscale() == "log"
            assert (time.get_title(), memory.get_title()) == ("time of one layer", "peak memory of the process")
            assert figure.get_suptitle() == "a machine"
            assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fused", "full n²", "mine"]
        assert "10 ms" in labels(time.yaxis) and "1 MB" in labels(memory.yaxis)

    def test_types_have_lines_of_their_own(self):
        figure = plot.time_and_memory(rows_of(["fused"], ["fp32", "bf16"]))
        assert [line.get_label() for line in figure.axes[0].lines] == ["fused, bf16", "fused, fp32"]

    def test_of_the_program(self, program, tmp_path):
        program("bench", "attention", "-n", 64, "--backend", "loop", "-r", 1, "-o", tmp_path / "a.csv")
        (line,) = plot.time_and_memory(tmp_path / "a.csv").axes[0].lines
        assert line.get_label() == "loop (diagonals)" and line.get_ydata()[0] > 0

    @pytest.mark.parametrize(("results", "error", "message"), [
        ([], longformer_cpp.Error, "expected forward passes"), ([{"n": 3}], longformer_cpp.Error, "expected forward passes"),
        (3, TypeError, "results: expected files or results")])  # fmt: skip
    def test_without_rows(self, results, error, message):
        with pytest.raises(error, match=message):
            plot.time_and_memory(results)
