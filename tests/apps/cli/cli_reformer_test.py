"""convert, info, evaluate, generate, pretrain-lm and bench on Reformers."""

import json
import math
import shutil
import struct

import numpy as np
import pytest
from cli_character_lm_test import TEXT, score, tensors, written
from cli_test import FIXTURES, run

FIXTURE = FIXTURES / "reformer"
CONFIG = {
    "model_type": "longformer-lm", "attention": "reformer", "vocabulary": "text8", "hidden_size": 32,
    "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "attn_layers": ["local", "lsh"],
    "local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8, "num_hashes": 2, "num_buckets": 8,
    "axial_pos_shape": [4, 16], "axial_pos_embds_dim": [8, 24], "dropout": 0,
}  # fmt: skip


@pytest.fixture
def converted(tmp_path):
    run("convert", FIXTURE / "mixed", tmp_path / "lm", "--to", "longformer-lm").passes()
    return tmp_path / "lm"


def train(config, text, output, *flags):
    return run("pretrain-lm", "--config", config, text, "--output-dir", output, "--threads", 1,
               "--per-device-train-batch-size", 4, "--gradient-accumulation-steps", 1, *flags)  # fmt: skip


def write_tensors(path, values):
    header, data = {}, b""
    for name, value in values.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += np.ascontiguousarray(value).tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def changed(tmp_path, **keys):
    """The folder of transformers with other keys in its config.json."""
    folder = tmp_path / "source"
    shutil.copytree(FIXTURE / "mixed", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | keys))
    return folder


class TestConvert:
    def test_a_folder_of_transformers_becomes_a_language_model(self, converted, tmp_path):
        config = json.loads((converted / "config.json").read_text())
        assert config["attention"] == "reformer" and config["attn_layers"] == ["local", "lsh", "local"]
        info = run("info", converted, "--json").passes().json[0]
        assert info["positions"] == "axial" and info["layers"] == 3
        text = written(tmp_path / "text.txt", TEXT[:32])
        metrics = score(converted, text, "--part", "all", "--window-characters", 32, "--step-characters", 32)["metrics"]
        assert math.isfinite(metrics["bpc"])
        assert len(run("generate", converted, "--prompt", "the ", "-n", 8).passes().out.strip("\n")) >= 8

    def test_it_says_what_it_draws_itself(self, tmp_path):
        done = run("convert", changed(tmp_path, hash_seed=None), tmp_path / "lm", "--to", "longformer-lm").passes()
        assert "hash_seed: none" in done.err
        assert json.loads((tmp_path / "lm" / "config.json").read_text())["hash_seed"] == 0

    @pytest.mark.parametrize(
        ("keys", "words"),
        [
            ({"is_decoder": False}, ("is_decoder: expected true", "found false")),
            ({"vocabulary": None}, ("expected the files of a tokenizer, or a vocab_size of 256 or 258", "27")),
            ({"axial_pos_shape": [4, 9]}, ("expected tables [4, 5] and [9, 7]", "[1, 8, 7]")),
            ({"lsh_num_chunks_after": 1}, ("lsh_num_chunks_after: expected 0", "found 1")),
        ],
    )
    def test_what_it_cannot_read_is_refused(self, tmp_path, keys, words):
        run("convert", changed(tmp_path, **keys), tmp_path / "lm", "--to", "longformer-lm").fails(1, *words)

    def test_bytes_begin_at_two(self, tmp_path):
        """google/reformer-enwik8 has it so."""
        folder = changed(tmp_path, vocabulary=None, vocab_size=258)
        source = tensors(folder / "model.safetensors")
        for name, values in source.items():
            if values.shape[0] == 27:
                source[name] = values[np.arange(258) % 27]
        write_tensors(folder / "model.safetensors", source)
        done = run("convert", folder, tmp_path / "lm", "--to", "longformer-lm").passes()
        assert "the first 2 numbers stand for no byte" in done.err
        own = tensors(tmp_path / "lm" / "model.safetensors")
        assert (own["embedding.weight"] == source["reformer.embeddings.word_embeddings.weight"][2:]).all()
        assert own["output.bias"].shape == (256,)
        text = written(tmp_path / "text.txt", TEXT[:30])
        score(tmp_path / "lm", text, "--part", "all", "--window-characters", 32, "--step-characters", 32)

    def test_the_registry_names_the_conversion(self):
        run("info", FIXTURE / "mixed").fails(1, "--to longformer-lm", "as an encoder")


class TestTraining:
    def test_it_learns_to_copy(self, tmp_path):
        """Texts of 64 characters are drawn from one that repeats itself every 24."""
        words = "".join(chr(ord("a") + (7 * i * i + i) % 26) for i in range(24))
        text = written(tmp_path / "text.txt", words * 120)
        config = written(tmp_path / "config.json", CONFIG)
        train(config, text, tmp_path / "out", "--max-steps", 150, "--learning-rate", 5e-3, "--logging-steps", 50,
              "--json").passes()  # fmt: skip
        log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        losses = [row["loss"] for row in log if "loss" in row]
        assert losses[-1] < 0.5 * math.log(27) < losses[0] * 1.5

    def test_a_resumed_training_ends_with_the_same_bits(self, tmp_path):
        text = written(tmp_path / "text.txt", TEXT * 60)
        config = written(tmp_path / "config.json", CONFIG | {"dropout": 0.1, "lsh_attention_dropout": 0.1})
        whole, resumed = tmp_path / "whole", tmp_path / "resumed"
        flags = ["--max-steps", 6, "--save-steps", 3]
        train(config, text, whole, *flags).passes()
        shutil.copytree(whole / "checkpoint-3", resumed / "checkpoint-3")
        train(config, text, resumed, *flags, "--resume-from-checkpoint", "last").passes()
        assert (whole / "model.safetensors").read_bytes() == (resumed / "model.safetensors").read_bytes()

    def test_lengths_that_leave_positions_out_are_refused(self, tmp_path):
        text = written(tmp_path / "text.txt", TEXT * 60)
        config = written(tmp_path / "config.json", CONFIG)
        train(config, text, tmp_path / "out", "--max-steps", 1, "--length", 32).fails(
            2, "--length", "expected 64", "4 × 16", "found 32"
        )


class TestMemory:
    def test_activations_of_a_training_step_do_not_grow_with_layers(self, tmp_path):
        """Ten more layers of the same width: what they keep would be some 200 MB (10 × 9 rows of 512 KB × 4,096)."""
        peaks = {}
        for layers in (2, 12):
            config = CONFIG | {
                "num_hidden_layers": layers, "attn_layers": ["local", "lsh"] * (layers // 2), "hidden_size": 64,
                "intermediate_size": 256, "axial_pos_shape": [64, 128], "axial_pos_embds_dim": [16, 48],
                "local_attn_chunk_length": 64, "lsh_attn_chunk_length": 64, "num_buckets": None,
            }  # fmt: skip
            path = written(tmp_path / f"{layers}.json", config)
            done = run("bench", "train", "--config", path, "-n", 8192, "--threads", 2, "--repeats", 1, "--json").passes()
            peaks[layers] = done.json[0]["peak_rss_bytes"]
        grown = peaks[12] - peaks[2]
        # Weights, their gradients and moments, and the orders of hashed layers are all that grows.
        assert grown < 40e6, peaks
