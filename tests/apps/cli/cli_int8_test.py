"""Layers of 8-bit whole numbers in every verb with --dtype, and in folders that convert writes."""

import json
import os
import shutil
import struct

import numpy as np
import pytest
from cli_sequence_test import folder_of
from cli_test import BERT, FIXTURES, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
TAGGER = FIXTURES / "tiny_bert_tagger"
QA = FIXTURES / "tiny_longformer_qa"
TEXT = "he was with the of and"
FLAGS = open("/proc/cpuinfo", encoding="utf-8").read() if os.path.exists("/proc/cpuinfo") else ""
HAS_INT8 = "avx512_vnni" in FLAGS and os.environ.get("LONGFORMER_CPU_ISA", "avx512") >= "avx512"
needs_int8 = pytest.mark.skipif(not HAS_INT8, reason="no products of 8-bit whole numbers here")


def vectors(model, *flags, texts=(TEXT, "the of and he"), **more):
    given = [flag for text in texts for flag in ("--text", text)]
    done = run("embed", model, *given, "--json", *flags, **more).passes()
    return np.array([line["embedding"] for line in done.json])


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def header_of(folder):
    data = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return {name: entry for name, entry in json.loads(data[8 : 8 + size]).items() if name != "__metadata__"}


def test_vectors_are_close_to_those_of_fp32():
    whole, exact = vectors(BERT, "--dtype", "int8"), vectors(BERT)
    assert (cosines(whole, exact) > 0.995).all()
    assert HAS_INT8 == (not np.array_equal(whole, exact))


@pytest.mark.parametrize(
    "command",
    [
        ("classify", CLASSIFIER, "--text", TEXT),
        ("ner", TAGGER, "--text", TEXT),
        ("qa", QA, "--question", "he was", "--text", TEXT),
        ("attention", BERT, "--text", TEXT),
    ],
)
def test_verbs_take_it(command):
    run(*command, "--dtype", "int8", "--json").passes()


@needs_int8
def test_bench_takes_it():
    run("bench", "model", BERT, "-n", 16, "--dtype", "int8", "-r", 1).passes()


def test_a_cpu_without_such_products_says_so_and_computes_in_fp32():
    env = {"LONGFORMER_CPU_ISA": "avx2"}
    done = run("embed", BERT, "--text", TEXT, "--json", "--dtype", "int8", environment=env).passes()
    notes = [line for line in done.err.splitlines() if "int8" in line]
    assert len(notes) == 1 and "fp32" in notes[0]
    assert np.array_equal(vectors(BERT, "--dtype", "int8", environment=env), vectors(BERT, environment=env))


@pytest.mark.parametrize(
    "command",
    [
        ("finetune", CLASSIFIER, "data.jsonl", "--task", "classify", "--output-dir", "out"),
        ("bench", "train", BERT, "-n", 16),
        ("bench", "attention", "-n", 16),
    ],
)
def test_trainings_and_attention_alone_refuse_it(command):
    done = run(*command, "--dtype", "int8")
    assert done.code == 2 and "int8" in done.err and "fp32" in done.err and "bf16" in done.err


@needs_int8
class TestSkippedLayers:
    def test_stay_as_they_are(self):
        exact = vectors(BERT)
        some = vectors(BERT, "--dtype", "int8", "--int8-skip", "0")
        none = vectors(BERT, "--dtype", "int8", "--int8-skip", "0,1")
        assert not np.array_equal(some, none)
        assert np.array_equal(none, vectors(BERT, "--dtype", "int8", "--int8-skip", "encoder"))
        # Activations are bf16 where the CPU multiplies that.
        assert np.array_equal(none, vectors(BERT, "--dtype", "bf16")) or np.array_equal(none, exact)

    @pytest.mark.parametrize("name", ["7", "nothing.dense", "pooler"])
    def test_that_are_none_are_an_error(self, name):
        done = run("embed", BERT, "--text", TEXT, "--dtype", "int8", "--int8-skip", name)
        assert done.code != 0 and "int8-skip" in done.err.replace("_", "-") and name in done.err


LENGTH = ("--max-positions", 200, "--window", 8)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    target = tmp_path_factory.mktemp("source") / "model"
    run("convert", BERT, target, *LENGTH).passes()
    return target


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("int8") / "model"
    run("convert", BERT, target, *LENGTH, "--dtype", "int8").passes()
    return target


class TestConvertedFolders:
    def test_hold_whole_numbers_and_scales(self, folder):
        tensors = header_of(folder)
        matrix = tensors["encoder.layer.0.attention.self.query.weight"]
        rows = matrix["shape"][0]
        assert matrix["dtype"] == "I8"
        scale = tensors["encoder.layer.0.attention.self.query.weight_scale"]
        assert scale["dtype"] == "F32" and scale["shape"] == [rows, 1]
        assert tensors["encoder.layer.0.attention.self.query_global.weight"]["dtype"] == "F32"
        assert tensors["embeddings.word_embeddings.weight"]["dtype"] == "F32"

    def test_say_so_in_config_json(self, folder):
        config = json.loads((folder / "config.json").read_text())["quantization_config"]
        assert config["quant_method"] == "compressed-tensors" and config["format"] == "int-quantized"
        group = config["config_groups"]["group_0"]
        assert group["weights"]["num_bits"] == 8 and group["weights"]["strategy"] == "channel"
        assert group["input_activations"]["strategy"] == "token" and group["input_activations"]["dynamic"]
        assert "encoder.layer.0.attention.self.query" not in config["ignore"]

    def test_are_read(self, folder, source):
        assert (cosines(vectors(folder), vectors(source)) > 0.995).all()
        if HAS_INT8:
            a, b = vectors(folder, "--dtype", "int8"), vectors(source, "--dtype", "int8")
            assert np.allclose(a, b, atol=1e-5)

    def test_are_described(self, folder):
        info = run("info", folder, "--json").works().json[0]
        assert "int8" in info["dtype"] and info["unsupported"] == []
        assert 0 < info["memory_int8"]

    def test_become_others_again(self, folder, tmp_path):
        run("convert", folder, tmp_path / "back").passes()
        assert "quantization_config" not in json.loads((tmp_path / "back" / "config.json").read_text())
        assert all(entry["dtype"] == "F32" for entry in header_of(tmp_path / "back").values())
        assert np.array_equal(vectors(tmp_path / "back"), vectors(folder))

    def test_keep_skipped_layers(self, source, tmp_path):
        run("convert", source, tmp_path / "some", "--dtype", "int8", "--int8-skip", "0").passes()
        tensors = header_of(tmp_path / "some")
        assert tensors["encoder.layer.0.output.dense.weight"]["dtype"] == "F32"
        assert tensors["encoder.layer.1.output.dense.weight"]["dtype"] == "I8"
        a = vectors(tmp_path / "some", "--dtype", "int8")
        assert np.allclose(a, vectors(source, "--dtype", "int8", "--int8-skip", "0"), atol=1e-5)

    def test_keep_them_when_converted_again(self, source, tmp_path):
        """An adapter merged, other windows, the same again: what was left as it is stays so."""
        run("convert", source, tmp_path / "some", "--dtype", "int8", "--int8-skip", "0").passes()
        run("convert", tmp_path / "some", tmp_path / "again", "--dtype", "int8", "--window", 8).passes()
        before, after = header_of(tmp_path / "some"), header_of(tmp_path / "again")
        assert {name: entry["dtype"] for name, entry in before.items()} == {
            name: entry["dtype"] for name, entry in after.items()
        }

    def test_of_another_form_are_refused(self, folder, tmp_path):
        other = tmp_path / "other"
        shutil.copytree(folder, other)
        config = json.loads((other / "config.json").read_text())
        config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
        (other / "config.json").write_text(json.dumps(config))
        done = run("embed", other, "--text", TEXT)
        assert done.code == 1 and "quantization_config" in done.err and "gptq" in done.err

    def test_refuse_what_cannot_be(self, source, tmp_path):
        done = run("convert", source, tmp_path / "a", "--dtype", "int8", "--format", "bin")
        assert done.code != 0 and "safetensors" in done.err
        done = run("convert", source, tmp_path / "b", "--int8-skip", "0")
        assert done.code != 0 and "int8" in done.err


@needs_int8
def test_compare_names_the_worst_layer():
    done = run("compare", BERT, BERT, "--text", TEXT, "--dtype", "int8").works()
    assert "worst by itself" in done.out
    found = run("compare", BERT, BERT, "--text", TEXT, "--dtype", "int8", "--json").works().json[0]
    layers = found["layers"]
    assert layers[0]["relative_error"] < 0.01 and layers[1]["alone"] > 0
    assert found["worst_layer"] == max(layers[1:], key=lambda layer: layer["alone"])["layer"]


@needs_int8
def test_an_index_keeps_its_dtype(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    index = tmp_path / "a.index"
    run("search", BERT, tmp_path / "a.txt", "--index", index, "--query", "he", "--passage-tokens", 20,
        "--dtype", "int8").passes()  # fmt: skip
    done = run("search", BERT, "--index", index, "--query", "he")
    assert done.code != 0 and "--dtype int8" in done.err


def test_an_index_keeps_its_skipped_layers(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    index = tmp_path / "a.index"
    made = ("search", BERT, "--index", index, "--query", "he", "--dtype", "int8")
    run(*made, tmp_path / "a.txt", "--passage-tokens", 20, "--int8-skip", "0").passes()
    run(*made, "--int8-skip", "0").passes()
    for flags, found in ((), "none"), (("--int8-skip", "1"), "1"):
        done = run(*made, *flags)
        assert done.code != 0 and f"--int8-skip {found}" in done.err and "made with 0" in done.err


@pytest.fixture
def led(tmp_path):
    return folder_of("tiny_led", tmp_path)[0]


@needs_int8
@pytest.mark.parametrize("name", ["nothing", "7", "decoder.layers.9"])
def test_layers_that_an_led_does_not_have_are_told(led, name, tmp_path):
    for command in ("convert", led, tmp_path / "out"), ("summarize", led, "--text", "a"):
        done = run(*command, "--dtype", "int8", "--int8-skip", name)
        assert done.code != 0 and name in done.err and "int8" in done.err


@needs_int8
@pytest.mark.parametrize("name", ["decoder.layers.0", "encoder_attn", "0"])
def test_layers_of_an_led_are_left(led, name):
    run("summarize", led, "--text", "a", "--max-new-tokens", 3, "--dtype", "int8", "--int8-skip", name).passes()


@needs_int8
def test_an_led_is_timed():
    rows = run("bench", "generate", FIXTURES / "tiny_led", "-n", 8, "-t", 4, "-r", 1, "--dtype", "fp32,int8", "--json").passes().json
    assert [row["dtype"] for row in rows] == ["fp32", "int8"] and rows[1]["step_bytes"] < rows[0]["step_bytes"]


@needs_int8
def test_a_server_leaves_layers_of_one_of_its_models():
    served = ("serve", "--check", "--dtype", "int8", f"a={BERT}", f"b={CLASSIFIER}")
    run(*served, "--int8-skip", "a:1,query").passes()
    done = run(*served, "--int8-skip", "c:1")
    assert done.code == 2 and "c:1" in done.err
    done = run(*served, "--int8-skip", "b:nothing")
    assert done.code != 0 and "nothing" in done.err
