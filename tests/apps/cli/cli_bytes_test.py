"""Encoders from nothing that read bytes: trained from a config.json alone, used by the verbs, converted, and bad input."""

import json

import longformer_cpp
import pytest
from cli_test import FIXTURES, run

SIZES = {"vocabulary": "bytes", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
         "max_position_embeddings": 72}  # fmt: skip
KINDS = {
    "roberta": {"model_type": "roberta", "norm_first": True, "classifier_pooling": "mean"},
    "bert": {"model_type": "bert"},
    "longformer": {"model_type": "longformer", "attention_window": 16, "norm_first": True},
    "big_bird": {"model_type": "big_bird", "block_size": 4, "num_random_blocks": 1, "norm_first": True, "classifier_pooling": "mean"},
    "linformer": {"model_type": "linformer", "base_model_type": "roberta", "projected_length": 8, "classifier_pooling": "mean"},
    "performer": {"model_type": "performer", "base_model_type": "bert", "features": 16, "norm_first": True},
    "blockwise": {"model_type": "blockwise", "base_model_type": "roberta", "blocks": 2, "norm_first": True},
    "sparse": {"model_type": "sparse", "base_model_type": "roberta", "pattern": "fixed", "stride": 4, "norm_first": True, "classifier_pooling": "mean"},
    "funnel": {"model_type": "funnel", "d_model": 32, "n_head": 2, "d_inner": 32, "d_head": 16, "block_sizes": [1, 1], "classifier_pooling": "mean",
               "intermediate_size": None, "num_hidden_layers": None},
    "modernbert": {"model_type": "modernbert", "classifier_pooling": "mean"},
    "reformer": {"model_type": "reformer", "feed_forward_size": 32, "attention_head_size": 16, "attn_layers": ["lsh"], "lsh_attn_chunk_length": 8,
                 "lsh_num_chunks_after": 1, "num_buckets": 4, "axial_pos_embds": False, "classifier_pooling": "mean", "intermediate_size": None},
}
TRAINING = ["--learning-rate", "3e-3", "--gradient-accumulation-steps", 1, "--per-device-train-batch-size", 8, "--save-strategy", "no"]


def config_folder(place, keys):
    place.mkdir()
    (place / "config.json").write_text(json.dumps(SIZES | keys))
    return place


def examples(path, count=64):
    rows = [{"text": ("é" if at % 2 else "x") * (3 + at % 9) + " y" * (at % 5), "label": ("plain", "accent")[at % 2]} for at in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def trained(tmp_path, kind, *flags):
    source = config_folder(tmp_path / "config", KINDS[kind])
    run("finetune", source, examples(tmp_path / "train.jsonl"), "--task", "classify", "--output-dir", tmp_path / "model", "--max-steps", 60,
        *TRAINING, *flags).passes()  # fmt: skip
    return tmp_path / "model"


def test_learns_and_is_used_by_the_verbs(kind, tmp_path):
    model = trained(tmp_path, kind)
    assert not (model / "tokenizer_config.json").exists()
    config = json.loads((model / "config.json").read_text())
    assert all(config[key] == value for key, value in (SIZES | KINDS[kind]).items())
    scored = run("evaluate", model, tmp_path / "train.jsonl", "--json").works().json[-1]
    assert scored["metrics"]["accuracy"] > 0.95
    info = run("info", model, "--json").works().json[0]
    assert info["tokenizer"] == "bytes" and not info["unsupported"] and info["vocabulary_size"] == 260
    assert [label["label"] for label in run("classify", model, "--text", "éé y", "--json").works().json[0]["labels"]][0] == "accent"
    assert len(run("embed", model, "--text", "ab", "--json").works().json[0]["embedding"]) == (64 if kind == "reformer" else 32)
    loaded = longformer_cpp.Tokenizer(model)
    tokens = loaded.encode("é[MASK]")
    assert list(tokens.ids) == [1, 4 + 0xC3, 4 + 0xA9, 3, 2] and loaded.decode([4 + 0xC3, 4 + 0xA9]) == "é"
    # Python has the numbers of the program.
    assert longformer_cpp.load(model).classify("éé y")[0].labels[0].label == "accent"
    # Training goes on from what was written.
    run("finetune", model, tmp_path / "train.jsonl", "--output-dir", tmp_path / "more", "--max-steps", 2, *TRAINING).passes()


def test_masked_lm_and_other_tasks_from_nothing(tmp_path):
    source = config_folder(tmp_path / "config", KINDS["longformer"])
    (tmp_path / "text.txt").write_text("abc abd abe " * 60)
    run("pretrain-mlm", source, tmp_path / "text.txt", "--output-dir", tmp_path / "mlm", "--max-steps", 3, *TRAINING).passes()
    guesses = run("fill-mask", tmp_path / "mlm", "--text", "ab[MASK] ", "--json").works().json[0]
    assert guesses["masks"][0]["position"] == 3 and all(guess["id"] < 260 for guess in guesses["masks"][0]["candidates"])
    words = [{"tokens": ["aé", "b"], "ner_tags": ["A", "B"]}] * 8
    (tmp_path / "words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in words))
    run("finetune", tmp_path / "mlm", tmp_path / "words.jsonl", "--task", "ner", "--output-dir", tmp_path / "ner", "--max-steps", 20,
        *TRAINING).passes()  # fmt: skip
    found = run("ner", tmp_path / "ner", "--text", "aé b", "--json").works().json[0]["entities"]
    assert all(0 <= entity["begin"] < entity["end"] <= 4 for entity in found)


def test_pairs_have_two_types(tmp_path):
    source = config_folder(tmp_path / "config", KINDS["roberta"])
    rows = [{"text": "ab", "text_pair": "cd" if at % 2 else "ef", "label": str(at % 2)} for at in range(16)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("finetune", source, tmp_path / "pairs.jsonl", "--task", "classify", "--output-dir", tmp_path / "out", "--max-steps", 2, *TRAINING).passes()
    tokens = run("tokenize", tmp_path / "out", "--text", "ab", "--pair", "c", "--json").works().json[0]
    assert tokens["ids"] == [1, 4 + ord("a"), 4 + ord("b"), 2, 4 + ord("c"), 2]
    assert tokens["type_ids"] == [0, 0, 0, 0, 1, 1]


def test_marks_of_a_task_stand_behind_the_bytes(tmp_path):
    source = config_folder(tmp_path / "config", KINDS["longformer"] | {"max_position_embeddings": 2100})
    data = FIXTURES / "tasks" / "wikihop.json"
    if not data.exists():
        data = tmp_path / "candidates.jsonl"
        rows = [{"question": "who", "candidates": ["ab", "cd"], "supports": ["ab is it .", "cd is not ."], "answer": "ab"}] * 4
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("finetune", source, data, "--task", "candidates", "--output-dir", tmp_path / "out", "--max-steps", 1, *TRAINING)
    done.passes()
    assert json.loads((tmp_path / "out" / "config.json").read_text())["vocab_size"] == 264
    assert longformer_cpp.Tokenizer(tmp_path / "out").id("[question]") in range(260, 264)


def test_conversions_keep_bytes_and_norms(tmp_path):
    model = trained(tmp_path, "roberta")
    text = "some text " * 5
    expected = run("embed", model, "--text", text, "--json").works().json[0]["embedding"]
    run("convert", model, tmp_path / "long", "--max-positions", 140, "--window", 128).passes()
    config = json.loads((tmp_path / "long" / "config.json").read_text())
    assert config["vocabulary"] == "bytes" and config["norm_first"] and config["model_type"] == "longformer"
    found = run("embed", tmp_path / "long", "--text", text, "--json").works().json[0]["embedding"]
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 1e-5
    same = run("classify", tmp_path / "long", "--text", text, "--global-attention", "none", "--json").works().json[0]
    assert same["labels"][0]["label"] == run("classify", model, "--text", text, "--json").works().json[0]["labels"][0]["label"]
    # A row for each token of the longest text: attention to everything.
    text = ("some text " * 7)[:69]
    expected = run("embed", model, "--text", text, "--json").works().json[0]["embedding"]
    run("convert", model, tmp_path / "low", "--to", "linformer", "--projected-length", 71).passes()
    found = run("embed", tmp_path / "low", "--text", text, "--json").works().json[0]["embedding"]
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 1e-5


@pytest.mark.parametrize("keys,words", [
    ({"vocabulary": "letters"}, ["vocabulary", "bytes", "letters"]),
    ({"vocab_size": 256}, ["vocab_size: expected at least 260", "256"]),
    ({"pad_token_id": 1}, ["pad_token_id: expected 0", "found 1"]),
    ({"norm_first": "yes"}, ["norm_first", "yes"]),
    ({"classifier_pooling": "max"}, ["classifier_pooling", "max"])])
def test_bad_values_are_named(keys, words, tmp_path):
    source = config_folder(tmp_path / "config", {"model_type": "roberta"} | keys)
    data = examples(tmp_path / "train.jsonl", 4)
    run("finetune", source, data, "--task", "classify", "--output-dir", tmp_path / "out").fails(1, "config.json", *words)


def test_tokenizer_files_beside_bytes_are_refused(tmp_path):
    source = config_folder(tmp_path / "config", {"model_type": "roberta"})
    (source / "vocab.txt").write_text("[PAD]\n")
    run("tokenize", source, "--text", "a").fails(1, "vocab.txt", "vocabulary bytes")
