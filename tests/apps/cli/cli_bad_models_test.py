"""The program `longformer` on checkpoint folders that are incomplete, damaged or lying."""

import json
import shutil
import struct

import pytest
from cli_test import BERT, longformer, run  # noqa: F401 (a fixture)


@pytest.fixture
def model(tmp_path):
    """A copy of tiny_bert to spoil."""
    folder = tmp_path / "model"
    shutil.copytree(BERT, folder)
    return folder



def header_of(model):
    data = (model / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def write_weights(model, header, data):
    text = json.dumps(header).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def change_config(model, **changes):
    config = json.loads((model / "config.json").read_text())
    config.update(changes)
    config = {key: value for key, value in config.items() if value is not ...}
    (model / "config.json").write_text(json.dumps(config))


WORD = "embeddings.word_embeddings.weight"


class TestBadModels:
    """Each file that is missing, cut or lying gives one line and exit code 1, for every reader."""

    def fails(self, model, *words):
        run("embed", model, "--text", "a").fails(1, *words)

    @pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
    def test_missing_file(self, model, file):
        (model / file).unlink()
        self.fails(model, str(model))

    def test_missing_tokenizer(self, model):
        for file in ["tokenizer.json", "vocab.txt"]:
            (model / file).unlink()
        self.fails(model, "tokenizer.json")

    @pytest.mark.parametrize("size", [0, 4, 8, 100, 4000, -1])
    def test_truncated_weights(self, model, size):
        file = model / "model.safetensors"
        file.write_bytes(file.read_bytes()[:size])
        self.fails(model, "model.safetensors")

    @pytest.mark.parametrize("size", [2**63, 2**64 - 1, 10**9, 200_000])
    def test_header_too_long(self, model, size):
        file = model / "model.safetensors"
        file.write_bytes(struct.pack("<Q", size) + file.read_bytes()[8:])
        self.fails(model, "model.safetensors")

    @pytest.mark.parametrize("offsets", [[0, 2**63], [0, 10**12], [2**64 - 4, 2**64], [-4, 0], [8, 4],
                                         [0, 4]])
    def test_lying_offsets(self, model, offsets):
        header, data = header_of(model)
        header[WORD]["data_offsets"] = offsets
        write_weights(model, header, data)
        self.fails(model, "model.safetensors")

    def test_overlapping_offsets(self, model):
        header, data = header_of(model)
        names = [name for name in header if name != "__metadata__" and name != WORD]
        same = [name for name in names if header[name]["shape"] == header[names[0]]["shape"]]
        header[same[1]]["data_offsets"] = header[same[0]]["data_offsets"]
        write_weights(model, header, data)
        self.fails(model, "overlap")

    @pytest.mark.parametrize("change", [{"dtype": "I64"}, {"dtype": "Q7"}, {"shape": [29, 32]},
                                        {"shape": [58, -16]}, {"shape": [2**62, 16]}])
    def test_wrong_dtype_or_shape(self, model, change):
        header, data = header_of(model)
        header[WORD].update(change)
        write_weights(model, header, data)
        self.fails(model, "word_embeddings")

    def test_missing_tensor(self, model):
        header, data = header_of(model)
        name = "encoder.layer.1.attention.self.query.weight"
        assert name in header
        header["renamed"] = header.pop(name)
        write_weights(model, header, data)
        self.fails(model, name)

    def test_config_without_model_type(self, model):
        change_config(model, model_type=...)
        self.fails(model, "model_type")

    @pytest.mark.parametrize("model_type", ["llama", "", 3, None])
    def test_unsupported_model_type(self, model, model_type):
        change_config(model, model_type=model_type)
        self.fails(model, "model_type")

    @pytest.mark.parametrize("key,value", [
        ("hidden_size", 32), ("num_hidden_layers", 3), ("vocab_size", 57), ("intermediate_size", 25),
        ("num_attention_heads", 3), ("num_attention_heads", 0), ("hidden_size", -16),
        ("hidden_size", 10**18), ("num_hidden_layers", 10**15), ("max_position_embeddings", -1),
        ("max_position_embeddings", 10**12), ("hidden_size", "16"), ("hidden_size", 16.5),
        ("hidden_act", "swishy"), ("layer_norm_eps", -1)])
    def test_config_at_odds_with_the_tensors(self, model, key, value):
        change_config(model, **{key: value})
        self.fails(model)

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100000, '{"model_type": "bert"'])
    def test_config_that_is_no_object(self, model, text):
        (model / "config.json").write_text(text)
        self.fails(model, "config.json")

    @pytest.mark.parametrize("window", [7, -2, 0, [8], [8, 8, 8], [8, 7], "8", 10**18])
    def test_wrong_windows(self, longformer, tmp_path, window):
        folder = tmp_path / "x"
        shutil.copytree(longformer, folder)
        change_config(folder, attention_window=window)
        self.fails(folder, "attention_window")

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"model": {"type": "Unigram"}}'])
    def test_bad_tokenizer(self, model, text):
        (model / "tokenizer.json").write_text(text)
        self.fails(model, "tokenizer.json")

    def test_info_of_a_bad_model(self, model):
        (model / "model.safetensors").write_bytes(b"1234")
        run("info", model).fails(1, "model.safetensors")
