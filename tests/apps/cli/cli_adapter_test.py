"""LoRA adapters as users of the program meet them; peft itself reads and makes them in parity/adapter_parity.py."""

import hashlib
import json
import shutil
import struct

import pytest
from cli_candidates_test import question
from cli_test import BERT, FIXTURES, run
from cli_training_test import tensors, text, without_dropout, write

CHARACTERS = FIXTURES / "character_lm" / "tied"
LABELS = ("bad", "good", "ugly")


def tensors_of(file):
    """Shapes by name."""
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}


def train(base, data, output, *flags):
    return run("finetune", base, data, "--task", "classify", "--output-dir", output, "--max-steps", 4,
               "--learning-rate", 0.05, "--per-device-train-batch-size", 3, "--gradient-accumulation-steps", 1,
               *flags)  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = without_dropout(BERT, tmp_path_factory.mktemp("base") / "bert")
    shutil.copytree(BERT / "1_Pooling", folder / "1_Pooling")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rows = [{"text": text(4 + i % 3, i), "label": LABELS[i % 3]} for i in range(12)]
    return write(tmp_path_factory.mktemp("data") / "data.jsonl", rows)


@pytest.fixture(scope="module")
def adapter(base, data, tmp_path_factory):
    output = tmp_path_factory.mktemp("adapter") / "out"
    train(base, data, output, "--lora-rank", 2, "--lora-dropout", 0.1).passes()
    return output


def scores(model, *flags):
    done = run("classify", model, "--text", text(6, 3), "--text", text(5, 8), "--top-k", 3, "--json", *flags).passes()
    return [json.loads(line)["labels"] for line in done.out.splitlines()]


def copied(adapter, folder, **changes):
    """The adapter with other values in adapter_config.json."""
    folder.mkdir()
    for file in adapter.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "adapter_config.json").read_text())
    config.update(changes)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


class TestTraining:
    def test_writes_an_adapter_and_no_model(self, adapter, base):
        assert not (adapter / "model.safetensors").exists()
        config = json.loads((adapter / "adapter_config.json").read_text())
        expected = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["query", "value"],
                    "task_type": "SEQ_CLS", "base_model_name_or_path": str(base)}  # fmt: skip
        assert {key: config[key] for key in expected} == expected
        assert set(config["modules_to_save"]) == {"classifier", "pooler"}
        tensors = tensors_of(adapter / "adapter_model.safetensors")
        name = "base_model.model.bert.encoder.layer.1.attention.self.value.lora_"
        assert tensors[name + "A.weight"] == [2, 16] and tensors[name + "B.weight"] == [16, 2]
        assert tensors["base_model.model.classifier.weight"] == [3, 16]
        assert len(tensors) == 2 * 2 * 2 + 4
        assert list(json.loads((adapter / "config.json").read_text())["label2id"]) == list(LABELS)
        assert (adapter / "tokenizer.json").exists()

    def test_plan_says_what_is_trained(self, base, data, tmp_path):
        whole = train(base, data, tmp_path / "whole").passes().err
        done = train(base, data, tmp_path / "part", "--lora-rank", 1, "--lora-target", "query").passes()
        trained = 2 * 2 * 16 + 16 * 16 + 16 + 3 * 16 + 3
        assert f"{trained} trained parameters, " in done.err and " frozen;" in done.err
        assert " frozen;" not in whole

    def test_resumed_training_has_the_same_bits(self, base, data, tmp_path):
        flags = ["--lora-rank", 3, "--lora-target", "all-linear", "--lora-dropout", 0.2, "--save-steps", 2]
        train(base, data, tmp_path / "whole", *flags).passes()
        resumed = tmp_path / "resumed"
        train(base, data, resumed, *flags, "--resume-from-checkpoint", tmp_path / "whole" / "checkpoint-2").passes()
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            assert (resumed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()

    def test_same_training_in_bf16_and_with_layers_computed_again(self, base, data, tmp_path):
        train(base, data, tmp_path / "kept", "--lora-rank", 2).passes()
        train(base, data, tmp_path / "again", "--lora-rank", 2, "--gradient-checkpointing").passes()
        name = "adapter_model.safetensors"
        assert (tmp_path / "kept" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
        train(base, data, tmp_path / "bf16", "--lora-rank", 2, "--dtype", "bf16").passes()
        assert (tmp_path / "bf16" / name).read_bytes() != (tmp_path / "kept" / name).read_bytes()

    def test_goes_on_with_an_adapter(self, base, data, adapter, tmp_path):
        train(base, data, tmp_path / "on", "--adapter", adapter).passes()
        first = tensors_of(adapter / "adapter_model.safetensors")
        assert tensors_of(tmp_path / "on" / "adapter_model.safetensors") == first
        assert scores(base, "--adapter", tmp_path / "on") != scores(base, "--adapter", adapter)

    def test_modules_that_are_packed_in_files(self, data, tmp_path):
        """Names are those of the class of transformers, which has queries, keys and values apart."""
        base, name = FIXTURES / "tiny_nomic_bert", "adapter_model.safetensors"
        train(base, data, tmp_path / "out", "--lora-rank", 2, "--save-steps", 2).passes()
        config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
        assert config["target_modules"] == ["q_proj", "v_proj"]
        tensors = tensors_of(tmp_path / "out" / name)
        module = "base_model.model.nomic_bert.layers.1.self_attn.v_proj.lora_"
        assert tensors[module + "A.weight"] == [2, 24] and tensors[module + "B.weight"] == [24, 2]
        assert len(tensors) == 3 * 2 * 2 + 4
        on = ["--resume-from-checkpoint", tmp_path / "out" / "checkpoint-2"]
        train(base, data, tmp_path / "again", "--lora-rank", 2, "--save-steps", 2, *on).passes()
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
        train(base, data, tmp_path / "on", "--adapter", tmp_path / "out").passes()
        assert tensors_of(tmp_path / "on" / name) == tensors
        train(base, data, tmp_path / "all", "--lora-rank", 1, "--lora-target", "all-linear").passes()
        assert len(tensors_of(tmp_path / "all" / name)) == 3 * 7 * 2 + 4
        done = train(base, data, tmp_path / "none", "--lora-rank", 2, "--lora-target", "Wqkv")
        done.fails(2, "--lora-target", "q_proj", "Wqkv")

    def test_whole_parts_have_the_names_of_modules(self, data, tmp_path):
        """peft would leave out a part of another name without a word."""
        train(FIXTURES / "tiny_deberta_v2", data, tmp_path / "out", "--lora-rank", 1).passes()
        config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
        assert sorted(config["modules_to_save"]) == ["classifier", "pooler"]
        assert "base_model.model.pooler.dense.weight" in tensors_of(tmp_path / "out" / "adapter_model.safetensors")

    def test_masked_words(self, base, tmp_path):
        corpus = write(tmp_path / "corpus.txt", text(90, 1))
        run("pretrain-mlm", base, corpus, "--output-dir", tmp_path / "out", "--max-steps", 2, "--lora-rank", 2,
            "--learning-rate", 0.1, "--warmup-steps", 0).passes()  # fmt: skip
        found = [run("evaluate", base, corpus, "--task", "mlm", "--json", "--adapter", tmp_path / "out"),
                 run("convert", base, tmp_path / "merged", "--merge-adapter", tmp_path / "out", "--json"),
                 run("evaluate", tmp_path / "merged", corpus, "--task", "mlm", "--json")]  # fmt: skip
        losses = [json.loads(done.passes().out)["metrics"]["loss"] for done in (found[0], found[2])]
        assert abs(losses[0] - losses[1]) <= 1e-5

    def test_task_that_adds_tokens(self, base, tmp_path):
        """The adapter has the word embeddings, of which those of the model are as before, and the tokenizer."""
        run("convert", base, tmp_path / "long", "--max-positions", 64, "--window", 8).passes()
        data = write(tmp_path / "data.json", json.dumps([question(i) for i in range(4)]))
        task = ["--task", "candidates", "--stride", 0]
        run("finetune", tmp_path / "long", data, *task, "--output-dir", tmp_path / "out", "--lora-rank", 2,
            "--max-steps", 3, "--learning-rate", 0.05).passes()  # fmt: skip
        config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
        assert set(config["modules_to_save"]) == {"candidate_scorer", "word_embeddings"}
        run("convert", tmp_path / "long", tmp_path / "merged", "--merge-adapter", tmp_path / "out").passes()
        added = run("evaluate", tmp_path / "long", data, *task, "--json", "--adapter", tmp_path / "out").passes()
        merged = run("evaluate", tmp_path / "merged", data, *task, "--json").passes()
        assert json.loads(added.out)["metrics"] == json.loads(merged.out)["metrics"]
        words = "embeddings.word_embeddings.weight"
        before, after = (
            next(value for name, value in tensors(tmp_path / folder).items() if name.endswith(words))
            for folder in ("long", "merged")
        )
        assert len(after) > len(before) and (after[: len(before)] == before).all()

    def test_language_models(self, tmp_path):
        corpus = write(tmp_path / "corpus.txt", text(400, 1))
        run("pretrain-lm", CHARACTERS, corpus, "--output-dir", tmp_path / "out", "--max-steps", 3, "--lora-rank", 2,
            "--learning-rate", 0.1, "--per-device-train-batch-size", 2, "--length", 32).passes()  # fmt: skip
        before = json.loads(run("evaluate", CHARACTERS, corpus, "--part", "all", "--json").passes().out)["metrics"]["bpc"]
        flags = ["--part", "all", "--json"]
        done = run("evaluate", CHARACTERS, corpus, *flags, "--adapter", tmp_path / "out").passes()
        run("convert", CHARACTERS, tmp_path / "merged", "--merge-adapter", tmp_path / "out").passes()
        merged = run("evaluate", tmp_path / "merged", corpus, *flags).passes()
        found = [json.loads(one.out)["metrics"]["bpc"] for one in (done, merged)]
        assert abs(found[0] - found[1]) <= 1e-5 and abs(found[0] - before) > 1e-3


class TestUse:
    def test_a_head_takes_the_place_of_vectors(self, base, data, tmp_path):
        sentences = shutil.copytree(base, tmp_path / "sentences")
        modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                   {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]  # fmt: skip
        (sentences / "modules.json").write_text(json.dumps(modules))
        assert json.loads(run("info", sentences, "--json").passes().out)["pooling"] == "mean"
        train(sentences, data, tmp_path / "out", "--lora-rank", 2).passes()
        run("convert", sentences, tmp_path / "merged", "--merge-adapter", tmp_path / "out").passes()
        info = json.loads(run("info", tmp_path / "merged", "--json").passes().out)
        assert (info["head"], info.get("pooling", "")) == ("sequence-classification", "")
        merged, added = scores(tmp_path / "merged"), scores(sentences, "--adapter", tmp_path / "out")
        for one, other in zip(sum(merged, []), sum(added, []), strict=True):
            assert (one["label"], one["score"]) == (other["label"], pytest.approx(other["score"], abs=1e-5))

    def test_merged_folder_equals_the_adapter(self, base, adapter, tmp_path):
        run("convert", base, tmp_path / "merged", "--merge-adapter", adapter).passes()
        merged, added = scores(tmp_path / "merged"), scores(base, "--adapter", adapter)
        for one, other in zip(merged, added):
            assert {row["label"] for row in one} == set(LABELS) == {row["label"] for row in other}
            by_label = {row["label"]: row["score"] for row in other}
            assert all(abs(row["score"] - by_label[row["label"]]) <= 1e-6 for row in one)

    def test_index_of_another_adapter(self, base, adapter, data, tmp_path):
        book = write(tmp_path / "book.txt", text(20, 1))
        index = tmp_path / "index"
        run("search", base, book, "--index", index, "--query", "the", "--passage-tokens", 16, "--adapter", adapter).passes()
        run("search", base, book, "--index", index, "--query", "the", "--passage-tokens", 16, "--adapter", adapter).passes()
        run("search", base, book, "--index", index, "--query", "the", "--passage-tokens", 16).fails(1, "index")

    def test_compare_tells_what_an_adapter_changes(self, base, adapter):
        done = run("compare", base, base, "--text", text(9, 2), "--json", "--adapter", adapter).passes()
        same = run("compare", base, base, "--text", text(9, 2), "--json").passes()
        assert done.out != same.out


class TestBadInput:
    """One line each."""

    def uses(self, base, adapter, *words):
        run("classify", base, "--text", "a", "--adapter", adapter).fails(1, *words)

    def test_folders_that_are_no_adapter(self, base, tmp_path):
        self.uses(base, tmp_path / "none", "none", "expected the folder of an adapter")
        self.uses(base, base, "adapter_config.json")

    def test_adapter_in_place_of_its_model(self, adapter):
        run("classify", adapter, "--text", "a").fails(1, "found an adapter", "--adapter")

    def test_other_kinds(self, base, adapter, tmp_path):
        self.uses(base, copied(adapter, tmp_path / "ia3", peft_type="IA3"), "peft_type", "LORA", "IA3")
        self.uses(base, copied(adapter, tmp_path / "dora", use_dora=True), "use_dora")
        self.uses(base, copied(adapter, tmp_path / "pissa", init_lora_weights="pissa"), "init_lora_weights", "pissa")
        self.uses(base, copied(adapter, tmp_path / "rank", r=0), "adapter_config.json", "r:", "0")
        self.uses(base, copied(adapter, tmp_path / "other", r=3), "rank 3")
        self.uses(base, copied(adapter, tmp_path / "alpha", alpha_pattern={"a|b": 1}), "alpha_pattern")

    def test_other_shapes(self, base, adapter, tmp_path):
        wide = tmp_path / "wide"
        copied(adapter, wide)
        file = wide / "adapter_model.safetensors"
        rows = file.read_bytes()
        (size,) = struct.unpack("<Q", rows[:8])
        header = rows[8 : 8 + size].replace(b'"shape":[2,16]', b'"shape":[16,2]', 1)
        file.write_bytes(rows[:8] + header + rows[8 + size :])
        self.uses(base, wide, "adapter_model.safetensors", "expected matrices")

    def test_layers_that_do_not_exist(self, base, adapter, tmp_path):
        folder = copied(adapter, tmp_path / "layers")
        file = folder / "adapter_model.safetensors"
        file.write_bytes(file.read_bytes().replace(b"encoder.layer.1.", b"encoder.layer.7."))
        self.uses(base, folder, "encoder.layer.7.attention.self.query", str(base))

    def test_damaged_files(self, base, adapter, tmp_path):
        folder = copied(adapter, tmp_path / "cut")
        file = folder / "adapter_model.safetensors"
        file.write_bytes(file.read_bytes()[:-10])
        self.uses(base, folder, "adapter_model.safetensors")
        file.unlink()
        self.uses(base, folder, "adapter_model.safetensors", "adapter_model.bin")
        (folder / "adapter_config.json").write_text("{")
        self.uses(base, folder, "adapter_config.json")

    def test_another_model(self, adapter):
        self.uses(FIXTURES / "tiny_roberta", adapter, "model_type", "roberta", "bert")

    @pytest.mark.parametrize(
        ("flags", "code", "words"),
        [
            (["--lora-rank", 0], 2, ["--lora-rank", "from 1"]),
            (["--lora-rank", 2, "--lora-target", "quary, value"], 2, ["--lora-target", "key, ", "query", "value", "all-linear", "quary"]),
            (["--lora-rank", 2, "--lora-target", "query,"], 2, ["--lora-target", "between commas"]),
            (["--lora-alpha", 2], 2, ["--lora-rank"]),
            (["--lora-rank", 2, "--lora-dropout", 1], 2, ["--lora-dropout", "below 1"]),
            (["--lora-rank", 2, "--learning-rate", 0, "--head-learning-rate", 1], 2, ["learning-rate"]),
        ],
    )
    def test_flags(self, base, data, tmp_path, flags, code, words):
        train(base, data, tmp_path / "out", *flags).fails(code, *words)
        assert not (tmp_path / "out").exists()

    def test_both_a_new_adapter_and_another(self, base, data, adapter, tmp_path):
        train(base, data, tmp_path / "out", "--lora-rank", 2, "--adapter", adapter).fails(2, "--lora-rank")

    def test_dropout_of_global_projections(self, data, tmp_path):
        run("convert", BERT, tmp_path / "long", "--max-positions", 64, "--window", 8).passes()
        train(tmp_path / "long", data, tmp_path / "out", "--lora-rank", 2, "--lora-target", "all-linear",
              "--lora-dropout", 0.1).fails(2, "--lora-dropout", "global")  # fmt: skip

    def test_merging_into_another_attention(self, base, adapter, tmp_path):
        run("convert", base, tmp_path / "out", "--merge-adapter", adapter, "--window", 8).fails(2, "--window")
        assert not (tmp_path / "out").exists()


def test_no_model_stands_beside_an_adapter(base, data, adapter, tmp_path):
    """One of the two would be run in silence."""
    whole = tmp_path / "whole"
    train(base, data, whole).passes()
    shutil.copytree(adapter, tmp_path / "adapter")
    for output, flags, words in ((whole, ["--lora-rank", 2, "--overwrite-output-dir"], "without the weights of a model"),
                                 (tmp_path / "adapter", ["--overwrite-output-dir"], "without an adapter"),
                                 (tmp_path / "adapter", ["--lora-rank", 2], "former training")):  # fmt: skip
        before = sorted(file.name for file in output.iterdir())
        done = train(base, data, output, *flags)
        assert done.code == 1 and words in done.err and sorted(file.name for file in output.iterdir()) == before


def test_the_first_pattern_counts(base, adapter, tmp_path):
    """Later patterns of the file are never read, as in peft."""
    patterns = [("query", 64), ("layer.0.attention.self.query", 1)]
    first = copied(adapter, tmp_path / "first", alpha_pattern=dict(patterns))
    other = copied(adapter, tmp_path / "other", alpha_pattern=dict(reversed(patterns)))
    alone = copied(adapter, tmp_path / "alone", alpha_pattern=dict(patterns[:1]))
    assert scores(base, "--adapter", first) == scores(base, "--adapter", alone) != scores(base, "--adapter", other)


def test_the_tokenizer_of_an_adapter_counts(base, data, adapter, tmp_path):
    """Every verb reads with it: here one in which words have each other's ids."""
    other = copied(adapter, tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    words = [word for word, number in sorted(vocabulary.items(), key=lambda item: item[1]) if word.isalpha()]
    vocabulary.update(zip(words, [vocabulary[word] for word in reversed(words)], strict=True))
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    plain = copied(adapter, tmp_path / "plain")
    for name in ("tokenizer.json", "vocab.txt"):
        (plain / name).unlink(missing_ok=True)
    moved = shutil.copytree(base, tmp_path / "moved")
    shutil.copy(other / "tokenizer.json", moved / "tokenizer.json")
    assert scores(base, "--adapter", other) == scores(moved, "--adapter", plain) != scores(base, "--adapter", adapter)
    vectors = [run("embed", model, "--text", text(6, 3), "--adapter", adapter).passes().out
               for model, adapter in ((base, other), (moved, plain), (base, plain))]
    assert vectors[0] == vectors[1] != vectors[2]
    train(base, data, tmp_path / "on", "--adapter", other).passes()
    train(moved, data, tmp_path / "same", "--adapter", plain).passes()
    name = "adapter_model.safetensors"
    assert (tmp_path / "on" / name).read_bytes() == (tmp_path / "same" / name).read_bytes()


@pytest.mark.parametrize("name", ["longformer-minilm-4096", "longformer-minilm-4096-documents"])
def test_the_adapters_that_are_shipped(name):
    """They are the files that the model card tells of, and add to every linear layer of MiniLM."""
    root = FIXTURES.parents[1]
    folder = root / "models" / name
    data = (folder / "adapter_model.safetensors").read_bytes()
    assert hashlib.sha256(data).hexdigest() in (root / "docs" / "model-card.md").read_text() and len(data) < 50e6
    config = json.loads((folder / "adapter_config.json").read_text())
    tensors = tensors_of(folder / "adapter_model.safetensors")
    wide = {"intermediate.dense": (384, 1536), "output.dense": (1536, 384)}
    layers = {f"encoder.layer.{layer}.{part}": wide.get(part, (384, 384)) for layer in range(6)
              for part in ("attention.self.query", "attention.self.key", "attention.self.value",
                           "attention.output.dense", "intermediate.dense", "output.dense")}  # fmt: skip
    expected = {}
    for layer, (inside, outside) in layers.items():
        expected[f"base_model.model.{layer}.lora_A.weight"] = [config["r"], inside]
        expected[f"base_model.model.{layer}.lora_B.weight"] = [outside, config["r"]]
    assert tensors == expected
