"""Language models of tokens and of chosen bytes, and published ones: pretrain-lm, evaluate, generate, info, convert."""

import json
import math
import shutil
import struct

import numpy as np
import pytest
from cli_character_lm_test import score, tensors, written
from cli_test import FIXTURES, ROOT, run

NOVEL = ROOT / "examples" / "novels" / "alices_adventures_in_wonderland.txt"
CONFIG = {
    "model_type": "longformer-lm", "attention": "recurrent", "vocabulary": "tokenizer", "hidden_size": 32,
    "num_hidden_layers": 2, "num_attention_heads": 4, "segment_length": 16, "memory_length": 16, "dropout": 0.0,
}  # fmt: skip
TOKENIZER = FIXTURES / "tiny_roberta"


def text_of(tmp_path):
    return written(tmp_path / "text.txt", NOVEL.read_text()[1000:31000])


def train(config, text, output, *flags):
    return run("pretrain-lm", "--config", config, text, "--output-dir", output, "--threads", 1, *flags)


def test_perplexities_and_bits_count_the_same_loss(tmp_path):
    text, config = text_of(tmp_path), written(tmp_path / "c.json", CONFIG)
    out = tmp_path / "out"
    train(config, text, out, "--tokenizer", TOKENIZER, "--max-steps", 30, "--learning-rate", 1e-2, "--eval-strategy",
          "steps", "--eval-steps", 30).passes()  # fmt: skip
    assert (out / "vocab.json").read_bytes() == (TOKENIZER / "vocab.json").read_bytes()
    assert json.loads((out / "config.json").read_text())["vocab_size"] == 300
    found = score(out, text, "--losses", tmp_path / "losses.jsonl")
    ids = run("tokenize", TOKENIZER, text, "--json").works().json[0]["ids"]
    # Parts are encoded by themselves, and the two special tokens are none of the text.
    assert abs(found["characters"] - (len(ids) - 3)) <= 4
    metrics, tokens = found["metrics"], found["characters"]
    assert math.isclose(metrics["perplexity"], math.exp(metrics["loss"]), rel_tol=1e-9)
    nats, size = metrics["loss"] * tokens, len(text.read_bytes())
    assert math.isclose(metrics["bpc"], nats / size / math.log(2), rel_tol=1e-3)
    assert math.isclose(math.log(metrics["word_perplexity"]), nats / len(text.read_text().split()), rel_tol=1e-2)
    each = [json.loads(line) for line in (tmp_path / "losses.jsonl").read_text().splitlines()]
    assert len(each) == tokens and math.isclose(sum(row["loss"] for row in each), nats, rel_tol=1e-6)
    assert size - 20 < sum(row["bytes"] for row in each) < size
    assert metrics["loss"] < math.log(300) - 0.5
    last = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()][-1]
    assert math.isclose(last["eval_bpc"], score(out, text, "--part", "validation")["metrics"]["bpc"], rel_tol=1e-5)
    shown = run("evaluate", out, text).passes().out
    assert "word perplexity" in shown and "bits per byte" in shown
    info = run("info", out).passes().out
    assert "300 tokens (byte-level BPE)" in info and "tokens before each" in info


def test_text_is_drawn_in_whole_characters(tmp_path):
    text, config, out = text_of(tmp_path), written(tmp_path / "c.json", CONFIG), tmp_path / "out"
    train(config, text, out, "--tokenizer", TOKENIZER, "--max-steps", 5).passes()
    piped = run("generate", out, "--prompt", "Alice was", "-n", 30).passes().out
    line = run("generate", out, "--prompt", "Alice was", "-n", 30, "--json").passes().json[0]
    assert line["text"] == piped and len(piped) > 10
    assert run("generate", out, "-n", 3, "--temperature", 0).passes().out


def test_training_goes_on_from_folder_and_checkpoint(tmp_path):
    text, config = text_of(tmp_path), written(tmp_path / "c.json", CONFIG)
    shutil.copy(TOKENIZER / "vocab.json", tmp_path)
    shutil.copy(TOKENIZER / "merges.txt", tmp_path)
    # Without the flag the tokenizer lies beside the config file.
    train(config, text, tmp_path / "whole", "--max-steps", 6).passes()
    train(config, text, tmp_path / "half", "--max-steps", 6, "--save-steps", 3).passes()
    shutil.rmtree(tmp_path / "half" / "checkpoint-6")
    train(config, text, tmp_path / "half", "--max-steps", 6, "--resume-from-checkpoint", "last").passes()
    whole, half = (tensors(tmp_path / name / "model.safetensors") for name in ("whole", "half"))
    assert all((whole[name] == half[name]).all() for name in whole)
    run("pretrain-lm", tmp_path / "whole", text, "--max-steps", 1, "--output-dir", tmp_path / "more").passes()
    assert score(tmp_path / "more", text, "--characters", 100)["characters"] == 100


def test_bad_vocabularies(tmp_path):
    text, out = text_of(tmp_path), tmp_path / "out"

    def refused(changes, *words, flags=()):
        config = written(tmp_path / "c.json", CONFIG | changes)
        train(config, text, out, "--max-steps", 1, *flags).fails(1, *words)

    refused({}, "tokenizer.json", "vocab.txt")
    refused({"vocab_size": 20}, "20 rows (vocab_size)", flags=["--tokenizer", TOKENIZER])
    refused({"vocabulary": "bytes"}, "tokenizer", "bytes", flags=["--tokenizer", TOKENIZER])
    refused({"vocabulary": "words"}, "bytes, text8 or tokenizer", "words")
    refused({"symbols": [1]}, "symbols", "none beside a tokenizer")
    refused({"vocabulary": "bytes", "symbols": [1, 300]}, "symbols", "255")
    refused({"vocabulary": "bytes", "symbols": [7, 7]}, "symbols", "7 again")
    refused({"vocabulary": "bytes", "symbols": [97, 98]}, "2 symbols", "at byte")
    refused({"vocabulary": "text8", "symbols": [97]}, "symbols", "text8")


def test_chosen_bytes(tmp_path):
    text = written(tmp_path / "text.txt", "abba ab ba " * 300)
    config = written(tmp_path / "c.json", CONFIG | {"vocabulary": "bytes", "symbols": [97, 98, 32]})
    out = tmp_path / "out"
    train(config, text, out, "--max-steps", 40, "--learning-rate", 1e-2).passes()
    assert json.loads((out / "config.json").read_text())["symbols"] == [97, 98, 32]
    assert score(out, text)["metrics"]["bpc"] < math.log2(3)
    assert set(run("generate", out, "-n", 50).passes().out) <= set("ab ")
    run("generate", out, "--prompt", "abc").fails(2, "prompt", "3 symbols")
    assert "3 bytes" in run("info", out).passes().out


PUBLISHED = {
    "embedding.weight": "word_emb.emb_layers.0.weight", "output.bias": "crit.out_layers.0.bias",
    "relative_content": "r_w_bias", "relative_position": "r_r_bias", "query_key_value": "dec_attn.qkv_net",
    "relative_key": "dec_attn.r_net", "attention_output": "dec_attn.o_net", "attention_norm": "dec_attn.layer_norm",
    "feed_forward_norm": "pos_ff.layer_norm", "up.": "pos_ff.CoreNet.0.", "down.": "pos_ff.CoreNet.3.",
}  # fmt: skip
XL = FIXTURES / "memory_lm" / "transformer_xl"


def published(folder, prefix="", more=None, **keys):
    """The fixture as its authors' code would have saved it."""
    folder.mkdir()
    named = {}
    for name, value in tensors(XL / "model.safetensors").items():
        for ours, theirs in PUBLISHED.items():
            name = name.replace(ours, theirs)
        named[prefix + name] = value
    named |= {prefix + "pos_emb.inv_freq": np.ones(6, np.float32)} | (more or {})
    header, data = {}, b""
    for name, value in named.items():
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    head = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)
    (folder / "config.json").write_text(json.dumps({"vocabulary": "text8", "mem_len": 7, "tgt_len": 6} | keys))
    return folder


@pytest.mark.parametrize("prefix", ["", "transformer.", "module."])
def test_published_transformer_xl(tmp_path, prefix):
    source, out = published(tmp_path / "xl", prefix), tmp_path / "out"
    done = run("convert", source, out, "--to", "longformer-lm", "--json").works().json[0]
    assert (done["source_model_type"], done["attention"]) == ("transformer-xl", "recurrent")
    ours, theirs = tensors(XL / "model.safetensors"), tensors(out / "model.safetensors")
    assert ours.keys() == theirs.keys() and all((ours[name] == theirs[name]).all() for name in ours)
    text = written(tmp_path / "text.txt", "the quick brown fox jumps over the lazy dog ")
    assert score(out, text)["metrics"] == score(XL, text)["metrics"]
    run("convert", source, out, "--to", "longformer-lm").fails(1, "--overwrite")
    assert "longformer generate" in run("convert", source, out, "--to", "longformer-lm", "--overwrite").works().out


def test_other_transformer_xls(tmp_path):
    symbols = [32, *range(97, 123)]
    of_bytes = published(tmp_path / "bytes", vocabulary="bytes", symbols=symbols)
    run("convert", of_bytes, tmp_path / "out", "--to", "longformer-lm").works()
    assert "27 bytes" in run("info", tmp_path / "out").passes().out
    # An output table of its own.
    untied = {"crit.out_layers.0.weight": np.ones((27, 12), np.float32)}
    run("convert", published(tmp_path / "untied", more=untied), tmp_path / "u", "--to", "longformer-lm").works()
    assert (tensors(tmp_path / "u" / "model.safetensors")["output.weight"] == 1).all()

    def refused(name, *words, more=None, **keys):
        run("convert", published(tmp_path / name, more=more, **keys), tmp_path / "bad", "--to", "longformer-lm").fails(
            1, *words)  # fmt: skip
        assert not (tmp_path / "bad").exists()

    refused("type", "attn_type", "2", attn_type=2)
    refused("cutoffs", "cutoffs", "adaptive", cutoffs=[20])
    refused("few", "symbols", "27", "2", vocabulary="bytes", symbols=[1, 2])
    refused("wide", "emb_projs", more={"word_emb.emb_projs.0": np.ones((12, 6), np.float32)})
    config = json.loads((of_bytes / "config.json").read_text())
    (of_bytes / "config.json").write_text(json.dumps({"mem_len": config["mem_len"]}))
    run("convert", of_bytes, tmp_path / "bad", "--to", "longformer-lm").fails(1, "symbols", "how often")
    run("convert", FIXTURES / "tiny_bert", tmp_path / "bad", "--to", "longformer-lm").fails(1, "expected tensors of Transformer-XL")
