"""LoRA adapters beside a model that is served: chosen by `model`, equal to the verbs with --adapter."""

import json
import pathlib
import random
import shutil
import subprocess

import numpy as np
import pytest
from serve_test import BINARY, FIXTURES, Server, verb
from tensors import rewrite_tensors

LABELS = ("bad", "good", "ugly")
WORDS = "the of and he was in to it that his".split()
TEXTS = [" ".join(random.Random(seed).choices(WORDS, k=6)) for seed in range(4)]


def finetune(base, output, *flags):
    data = output.parent / f"{output.name}.jsonl"
    rows = [{"text": TEXTS[i % 4], "label": LABELS[i % 3]} for i in range(12)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    subprocess.run([BINARY, "finetune", base, data, "--task", "classify", "--output-dir", output, "--max-steps", "4",
                    "--learning-rate", "0.05", "--per-device-train-batch-size", "3", "--lora-rank", "2", *flags],
                   check=True, capture_output=True)  # fmt: skip
    return output


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "bert"
    shutil.copytree(FIXTURES / "tiny_bert", folder)
    config = json.loads((folder / "config.json").read_text())
    config.update(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def adapters(base, tmp_path_factory):
    """Two adapters: of query and value, and of all dense layers."""
    folder = tmp_path_factory.mktemp("adapters")
    return [finetune(base, folder / "few"), finetune(base, folder / "all", "--lora-target", "all-linear")]


@pytest.fixture(scope="module")
def server(base, adapters):
    server = Server(f"bert={base}", "--adapter", f"bert:few={adapters[0]}", "--adapter", adapters[1])
    yield server
    assert server.stop() == 0


def scores(answer):
    return {entry["label"]: entry["score"] for entry in answer}


def test_classes_are_those_of_the_verb(server, base, adapters):
    for name, folder in zip(("bert:few", "bert:all"), adapters):
        for text in TEXTS:
            (expected,) = verb("classify", base, "--adapter", folder, "--text", text, "--top-k", 3, "--json")
            found = scores(server.post("/classify", {"inputs": text, "model": name}).works())
            assert found == pytest.approx({e["label"]: e["score"] for e in expected["labels"]}, abs=1e-6)
            by_address = server.post(f"/models/{name}", {"inputs": text, "parameters": {"top_k": 3}}).works()
            assert scores(by_address[0]) == pytest.approx(found, abs=1e-7)
    few, every = (scores(server.post("/classify", {"inputs": TEXTS[0], "model": name}).works())
                  for name in ("bert:few", "bert:all"))  # fmt: skip
    assert few != every


def test_the_model_itself_has_no_adapter(server, base):
    (line,) = verb("embed", base, "--text", TEXTS[0], "--json")
    vector = server.post("/v1/embeddings", {"input": TEXTS[0], "model": "bert", "encoding_format": "float"}).works()
    assert vector["data"][0]["embedding"] == pytest.approx(line["embedding"], abs=1e-6)


def test_info_and_models_list_them(server):
    names = [model["name"] for model in server.get("/info").works()["models"]]
    assert names == ["bert", "bert:few", "bert:all"]
    assert [model["id"] for model in server.get("/v1/models").works()["data"]] == names
    few = server.get("/info").works()["models"][1]
    assert few["head"] == "sequence-classification" and few["labels"] == list(LABELS)
    server.post("/classify", {"inputs": "a", "model": "bert:none"}).refused(404, "Validation", "bert:none")
    server.post("/classify", {"inputs": "a", "model": "bert"}).refused(424, "Backend", "bert")


def refused(*arguments):
    done = subprocess.run([BINARY, "serve", *map(str, arguments), "--check"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and not done.stdout, (done.stderr, done.stdout)
    return done.stderr


def test_wrong_adapters_are_told(base, adapters):
    few = adapters[0]
    assert "`other`" in refused(f"bert={base}", "--adapter", f"other:few={few}")
    assert "BASE:NAME=FOLDER" in refused(f"a={base}", f"b={base}", "--adapter", f"few={few}")
    assert "bert:few" in refused(f"bert={base}", "--adapter", few, "--adapter", few)
    assert "nowhere" in refused(f"bert={base}", "--adapter", "nowhere")
    assert "adapter_config.json" in refused(f"bert={base}", "--adapter", base)


def test_a_path_may_have_colons(base, adapters, tmp_path):
    folder = tmp_path / "few: second"
    shutil.copytree(adapters[0], folder)
    for argument, name in ((folder, "bert:few: second"), (f"bert:third={folder}", "bert:third"), (f"fourth={folder}", "bert:fourth")):
        done = subprocess.run([BINARY, "serve", f"bert={base}", "--adapter", argument, "--check"], capture_output=True, text=True)
        assert done.returncode == 0 and name in done.stdout, (done.stderr, done.stdout)


def test_a_writer_has_the_tokenizer_of_its_adapter(tmp_path):
    names = ("vocab.json", "merges.txt", "tokenizer_config.json")
    model, adapter = tmp_path / "led", tmp_path / "adapter"
    shutil.copytree(FIXTURES / "tiny_led", model)
    for name in names:
        shutil.copy(FIXTURES / "tiny_roberta" / name, model / name)
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps({"text": text, "summary": text[:20]}) + "\n" for text in TEXTS))
    subprocess.run([BINARY, "finetune", model, data, "--task", "seq2seq", "--output-dir", adapter, "--max-steps", "1", "--lora-rank", "2"],
                   check=True, capture_output=True)  # fmt: skip
    vocabulary = json.loads((model / "vocab.json").read_text())
    for name in names:
        shutil.copy(model / name, adapter / name)
    # Two letters of the adapter's vocabulary have changed places.
    vocabulary["x"], vocabulary["z"] = vocabulary["z"], vocabulary["x"]
    (adapter / "vocab.json").write_text(json.dumps(vocabulary))
    server = Server(f"led={model}", "--adapter", f"led:other={adapter}")
    decode = lambda name: server.post("/decode", {"ids": [vocabulary["x"]], "model": name}).works()
    assert (decode("led"), decode("led:other")) == (["z"], ["x"])
    assert server.stop() == 0


def resident(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]) << 10


def widened(base, folder):
    """The model with much wider feed-forward blocks, nearly all of its weights."""
    times = 2048
    shutil.copytree(base, folder)
    config = json.loads((folder / "config.json").read_text())
    narrow = config["intermediate_size"]
    config["intermediate_size"] *= times
    (folder / "config.json").write_text(json.dumps(config))

    def change(name, shape, data):
        if "intermediate" not in name and (not name.endswith(".output.dense.weight") or "attention" in name):
            return shape, data
        tensor = np.frombuffer(data, np.float32).reshape(shape)
        tensor = np.repeat(tensor, times, tensor.shape.index(narrow)) / np.float32(times)
        return list(tensor.shape), np.ascontiguousarray(tensor).tobytes()

    rewrite_tensors(folder, folder, change)
    return folder


def test_layers_are_in_memory_once(base, tmp_path):
    model = widened(base, tmp_path / "wide")
    few, every = finetune(model, tmp_path / "few"), finetune(model, tmp_path / "all", "--lora-target", "all-linear")
    used = {}
    for name, adapter, count in (("alone", few, 0), ("few", few, 6), ("all", every, 6)):
        flags = [flag for i in range(count) for flag in ("--adapter", f"base:{i}={adapter}")]
        server = Server(f"base={model}", *flags, "--threads", 1)
        used[name] = resident(server)
        server.stop()
    weights = (model / "model.safetensors").stat().st_size
    assert weights > 10e6
    for name, adapter in (("few", few), ("all", every)):
        # Additions are kept as they are and packed; the rest is tables, tokenizers and heads.
        own = (adapter / "adapter_model.safetensors").stat().st_size
        assert used[name] - used["alone"] < 6 * (2.5 * own + 5e5), used
