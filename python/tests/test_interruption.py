"""Ctrl-C in the middle of a call: KeyboardInterrupt within a second, and everything stays usable."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import longformer_cpp
import numpy as np
import pytest

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures"
#: Folder of this package, a build folder or an installation.
PACKAGES = str(pathlib.Path(longformer_cpp.__file__).resolve().parents[1])
#: A busy machine answers later.
SECONDS = 5.0

#: Says when the work begins, and how long after the signal it ended; `again` must work behind it.
PROGRAM = """
import signal, sys, time
import longformer_cpp
import numpy as np

# A parent in the background may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
folder, *rest = sys.argv[1:]
{prepare}
{ready}
try:
    while True:
        {work}
except KeyboardInterrupt:
    print("interrupted", time.time(), flush=True)
{again}
print("usable", flush=True)
"""

READY = 'print("ready", flush=True)'


def interrupted(tmp_path, prepare, work, again, arguments, ready=READY):
    """Runs a program, sends it SIGINT while it works, and gives the seconds until KeyboardInterrupt."""
    program = PROGRAM.format(prepare=prepare, ready=ready, work=work, again=again)
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "2", "PYTHONPATH": PACKAGES},
    )
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(1)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    lines = out.splitlines()
    assert lines and lines[0].startswith("interrupted") and lines[-1] == "usable", (out, errors)
    assert process.returncode == 0, errors
    return float(lines[0].split()[1]) - sent


CONFIG = """{"model_type": "longformer", "vocab_size": 60, "hidden_size": 128, "num_hidden_layers": 4,
 "num_attention_heads": 4, "intermediate_size": 4096, "max_position_embeddings": 60000, "attention_window": 512,
 "type_vocab_size": 1, "pad_token_id": 1, "sep_token_id": 2, "bos_token_id": 0, "layer_norm_eps": 1e-5}"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A folder whose model takes seconds for one text; its weights are random."""
    folder = tmp_path_factory.mktemp("large")
    source = FIXTURES / "tiny_roberta"
    for file in source.iterdir():
        if "token" in file.name or file.name in ("vocab.json", "merges.txt", "vocab.txt"):
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "config.json").write_text(CONFIG)
    write_weights(folder / "model.safetensors", vocabulary_of(folder))
    return folder


def vocabulary_of(folder):
    size = longformer_cpp.Tokenizer(folder).vocabulary_size
    config = (folder / "config.json").read_text().replace('"vocab_size": 60', f'"vocab_size": {size}')
    (folder / "config.json").write_text(config)
    return size


def write_weights(path, vocabulary):
    d, inner = 128, 4096
    shapes = {
        "embeddings.word_embeddings.weight": [vocabulary, d],
        "embeddings.position_embeddings.weight": [60000, d],
        "embeddings.token_type_embeddings.weight": [1, d],
        "embeddings.LayerNorm.weight": [d],
        "embeddings.LayerNorm.bias": [d],
    }
    for i in range(4):
        layer = f"encoder.layer.{i}."
        for name in ("query", "key", "value", "query_global", "key_global", "value_global"):
            shapes[f"{layer}attention.self.{name}.weight"] = [d, d]
            shapes[f"{layer}attention.self.{name}.bias"] = [d]
        for name, shape in (("attention.output.dense", [d, d]), ("intermediate.dense", [inner, d]), ("output.dense", [d, inner])):
            shapes[f"{layer}{name}.weight"] = shape
            shapes[f"{layer}{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{layer}{name}.weight"] = shapes[f"{layer}{name}.bias"] = [d]
    generator = np.random.default_rng(1)
    header, parts, end = {}, [], 0
    for name, shape in shapes.items():
        scale = 1.0 if name.endswith("LayerNorm.weight") else 0.02
        values = np.full(shape, 1, np.float32) if scale == 1 else (scale * generator.standard_normal(shape)).astype(np.float32)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + values.nbytes]}
        parts.append(values.tobytes())
        end += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


LOAD = "model = longformer_cpp.load(folder); ids = np.arange(50000, dtype=np.int32) % 40 + 5"


@pytest.mark.parametrize("threads", [1, 2])
def test_forward(tmp_path, large, threads):
    """One pass over one document takes much longer than the answer to the signal."""
    prepare = LOAD.replace("(folder)", f"(folder, threads={threads})") + "; small = model([ids[:100]]).last_hidden_state[0]"
    again = "assert np.array_equal(model([ids[:100]]).last_hidden_state[0], small)"
    assert interrupted(tmp_path, prepare, "model([ids])", again, [large]) < SECONDS


def test_gradients(tmp_path, large, folder):
    prepare = "model = longformer_cpp.load(folder); ids = [np.arange(40) + 5]; labels = [np.arange(40) + 5]"
    work = "longformer_cpp.loss_and_gradients(model, ids, labels)"
    assert interrupted(tmp_path, prepare, work, work, [folder("tiny_longformer_mlm")]) < SECONDS


def test_vectors(tmp_path, large):
    prepare = "model = longformer_cpp.load(folder); texts = ['he was in the house ' * 2000] * 20"
    work = "model.encode(texts)"
    again = "assert np.isfinite(model.encode(texts[0][:400])).all()"
    assert interrupted(tmp_path, prepare, work, again, [large]) < SECONDS


def test_search(tmp_path, large):
    prepare = "index = longformer_cpp.SearchIndex(folder); text = 'He was in the house. ' * 20000"
    again = "index.add('b', text[:400]); assert [one.file for one in index.list()] == ['b']"
    assert interrupted(tmp_path, prepare, "index.add('a', text)", again, [large]) < SECONDS


def test_classes_entities_answers(tmp_path, folder):
    for name, work in (
        ("tiny_longformer_classifier", "model.classify(['he was in the house'] * 20000)"),
        ("tiny_longformer_qa", "model.qa('who?', ['he was in the house'] * 20000)"),
        ("tiny_bert_tagger", "model.ner(['he was in the house'] * 20000)"),
    ):
        prepare = "model = longformer_cpp.load(folder)"
        again = work.replace("20000", "2")
        assert interrupted(tmp_path, prepare, work, again, [folder(name)]) < SECONDS


def test_generation(tmp_path, folder):
    prepare = "model = longformer_cpp.load(folder)"
    work = "model.generate([[0, 20, 31, 2]] * 5000, num_beams=4, max_new_tokens=30)"
    again = "assert model.generate([[0, 20, 31, 2]], max_new_tokens=3).ids"
    assert interrupted(tmp_path, prepare, work, again, [folder("tiny_led")]) < SECONDS


def test_language_model(tmp_path, folder):
    name = next((FIXTURES / "character_lm").glob("*/config.json")).parent
    work = "model.generate(characters=10**7)"
    prepare = "model = longformer_cpp.LanguageModel(folder)"
    again = "assert len(model.generate(characters=5)) == 5"
    assert interrupted(tmp_path, prepare, work, again, [name]) < SECONDS


def write_reviews(path):
    path.write_text('{"text": "he was in the house", "label": "good"}\n{"text": "she was", "label": "bad"}\n' * 50)


def test_training_writes_a_checkpoint(tmp_path, folder):
    write_reviews(tmp_path / "train.jsonl")
    options = "task='classify', num_train_epochs=1e5, save_strategy='no', logging_steps=1, callback=tell"
    tell = "def tell(step):\n    if step['step'] == 1: print('ready', flush=True)"
    work = f"longformer_cpp.finetune(folder, 'train.jsonl', 'out', {options})"
    assert interrupted(tmp_path, tell, work, "", [folder("tiny_longformer_classifier")], ready="") < SECONDS
    checkpoints = list((tmp_path / "out").glob("checkpoint-*"))
    assert len(checkpoints) == 1 and int(checkpoints[0].name.split("-")[1]) > 0
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_a_handler_of_ones_own(tmp_path, large):
    """Handlers run while a call goes on; what they raise ends it, and what they do not does not."""
    prepare = (
        LOAD + "\nimport signal\nseen = []\n"
        "def ring(number, frame):\n"
        "    seen.append(number)\n"
        "    if len(seen) == 3: raise KeyboardInterrupt\n"
        "    signal.alarm(1)\n"
        "signal.signal(signal.SIGALRM, ring)\n"
        "signal.signal(signal.SIGINT, lambda number, frame: signal.alarm(1))"
    )
    again = "assert len(seen) == 3"
    assert interrupted(tmp_path, prepare, "model([ids])", again, [large]) < SECONDS + 4


def test_a_thread_is_not_interrupted(folder):
    """Signals are of the main thread: a call of another one goes on, and the result is whole."""
    model = longformer_cpp.load(folder("tiny_longformer_classifier"), threads=2)
    expected = model.encode("he was in the house")
    texts = ["he was in the house"] * 3000
    found = []
    thread = threading.Thread(target=lambda: found.append(model.encode(texts)))
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        signal.raise_signal(signal.SIGINT)
        time.sleep(1)
    thread.join()
    assert found[0].shape == (3000, 16) and np.allclose(found[0][-1], expected, atol=1e-6)
