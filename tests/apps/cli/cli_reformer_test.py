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


def test_the_bias_in_the_logits(tmp_path):
    """transformers 5.24 writes lm_head.decoder.bias, which it adds, beside lm_head.bias, which it does not."""
    values = tensors(FIXTURE / "mixed" / "model.safetensors")
    bias = values.pop("lm_head.bias")
    shutil.copytree(FIXTURE / "mixed", tmp_path / "new")
    write_tensors(tmp_path / "new" / "model.safetensors", {**values, "lm_head.decoder.bias": bias + 1, "lm_head.bias": bias})
    run("convert", tmp_path / "new", tmp_path / "lm", "--to", "longformer-lm").passes()
    assert np.array_equal(tensors(tmp_path / "lm" / "model.safetensors")["output.bias"], bias + 1)


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
        run("info", FIXTURE / "mixed").fails(1, "is_decoder: expected false, found true", "--to longformer-lm")


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


class TestEncoder:
    """One of bytes, which looks both ways."""

    KEYS = {
        "model_type": "reformer", "vocabulary": "bytes", "hidden_size": 16, "feed_forward_size": 32, "num_attention_heads": 2,
        "attention_head_size": 8, "attn_layers": ["local", "lsh"], "local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8,
        "local_num_chunks_after": 1, "lsh_num_chunks_after": 1, "num_buckets": 4, "max_position_embeddings": 64,
    }  # fmt: skip
    AXIAL = {"axial_pos_shape": [4, 16], "axial_pos_embds_dim": [6, 10]}

    def folder(self, tmp_path, **keys):
        (tmp_path / "model").mkdir()
        written(tmp_path / "model" / "config.json", self.KEYS | keys)
        return tmp_path / "model"

    def train(self, folder, tmp_path, length, *flags):
        rows = [{"text": "ab"[i % 2] * length, "label": "ab"[i % 2]} for i in range(16)]
        data = tmp_path / "data.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return run("finetune", folder, data, "--task", "classify", "--output-dir", tmp_path / "out", "--max-steps", 6,
                   "--learning-rate", "1e-2", "--save-strategy", "no", *flags)  # fmt: skip

    def test_axial_positions_are_trained_by_texts_of_one_length(self, tmp_path):
        folder = self.folder(tmp_path, **self.AXIAL)
        self.train(folder, tmp_path, 9, "--quiet").fails(1, "expected texts of 64 tokens, as axial_pos_shape is 4 × 16", "found 11")
        self.train(folder, tmp_path, 62).passes()
        vector = run("embed", tmp_path / "out", "--text", "ab", "--json").works().json[0]["embedding"]
        assert len(vector) == 2 * self.KEYS["hidden_size"]
        info = run("info", tmp_path / "out", "--json").passes().json[0]
        assert info["embedding_size"] == 32 and info["hidden_size"] == 16 and not info["unsupported"]

    def test_rows_of_masked_words_have_all_axial_positions(self, tmp_path):
        folder, text = self.folder(tmp_path, **self.AXIAL), written(tmp_path / "text.txt", "abc def " * 100)
        flags = ("--output-dir", tmp_path / "mlm", "--max-steps", 3, "--save-strategy", "no")
        # The last row, of 60 tokens, is left out.
        assert "12 rows, 768 tokens" in run("pretrain-mlm", folder, text, *flags).passes().err
        run("pretrain-mlm", folder, text, "--max-seq-length", 32, "--quiet", *flags).fails(1, "expected texts of 64 tokens", "found 32")

    @pytest.mark.parametrize("flags", [(), ("--dtype", "bf16"), ("--dtype", "bf16", "--gradient-checkpointing")])
    def test_learned_positions_are_trained_by_any(self, tmp_path, flags):
        self.train(self.folder(tmp_path, axial_pos_embds=False), tmp_path, 21, *flags).passes()
        labels = run("classify", tmp_path / "out", "--text", "b" * 21, "--json").works().json[0]["labels"]
        assert labels[0]["label"] == "b"

    def test_attention_is_shown_token_by_token(self, tmp_path):
        self.train(self.folder(tmp_path, axial_pos_embds=False), tmp_path, 5).passes()
        flags = ("--text", "ab" * 19, "--layer", "all", "--head", "all", "--json", "--threshold", 0)
        rows = run("attention", tmp_path / "out", *flags).works().json
        assert [(row["layer"], row["head"]) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
        n = 40
        for row in rows:
            full = [[0.0] * n for _ in range(n)]
            for query, key, probability in zip(row["query"], row["key"], row["probability"], strict=True):
                full[query][key] = probability
            assert all(abs(sum(line) - 1) < 1e-5 for line in full)
            for query, line in enumerate(full):
                seen = [key for key, probability in enumerate(line) if probability > 0]
                if row["layer"] == 0:
                    # Local: the own chunk of 8, the one before and the one behind, around the circle of 5.
                    assert {key // 8 for key in seen} == {(query // 8 + step) % 5 for step in (-1, 0, 1)}
                else:
                    # By hashes: never itself, as there are others.
                    assert query not in seen and len(seen) <= 24

    def test_what_it_cannot_show_is_refused(self, tmp_path):
        self.train(self.folder(tmp_path, axial_pos_embds=False), tmp_path, 5).passes()
        out = tmp_path / "out"
        run("compare", out, out, "--text", "ab").fails(1, "layers all read one row of each token, found a reformer")
        run("embed", out, "--text", "a" * 63).fails(1, "64")

    def test_activations_of_a_training_step_do_not_grow_with_layers(self, tmp_path):
        """Ten more layers of the same width: what they keep would be some 100 MB."""
        peaks = {}
        for layers in (2, 12):
            config = self.KEYS | {
                "attn_layers": ["local", "lsh"] * (layers // 2), "hidden_size": 64, "feed_forward_size": 256, "attention_head_size": 32,
                "axial_pos_embds": False, "max_position_embeddings": 4096, "local_attn_chunk_length": 64, "lsh_attn_chunk_length": 64,
            }  # fmt: skip
            path = written(tmp_path / f"{layers}.json", config)
            done = run("bench", "train", "--config", path, "-n", 4096, "--threads", 2, "--repeats", 1, "--json").passes()
            peaks[layers] = done.json[0]["peak_rss_bytes"]
        # Weights, their gradients and moments, and the orders of hashed layers are all that grows.
        assert peaks[12] - peaks[2] < 25e6, peaks
