"""`longformer serve` and who wants to break it: answers that would be much larger than their requests, odd names, and searches
that would take hours."""

import json
import pathlib
import shutil
import subprocess
import time

import pytest
from serve_test import BINARY, FIXTURES, Server, folders, server  # noqa: F401 (fixtures)


def resident(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) << 10


@pytest.mark.parametrize("path, body, word", [
    ("/embed_passages", {"inputs": "he was the " * 2_800_000, "passage_tokens": 1}, "inputs"),
    ("/embed_passages", {"inputs": ["he was the " * 280_000] * 10, "passage_tokens": 1}, "inputs"),
])  # fmt: skip
def test_an_answer_is_not_much_larger_than_its_request(folders, tmp_path, path, body, word):
    one = Server(folders["vectors"])
    try:
        begin = time.monotonic()
        one.post(path, body).refused(422, "Validation", word, "GiB")
        assert time.monotonic() - begin < 30 and resident(one) < 3e9
        one.post("/embed", {"inputs": "it"}).works()
    finally:
        one.stop()


def test_what_is_cut_is_not_too_large(server):
    assert len(server.post("/embed_all", {"inputs": "he was the " * 2_000_000, "truncate": True}).works()[0]) > 5


def test_members_of_one_form_of_rerank_are_refused_in_the_other(server):
    ask = lambda **body: server.post("/rerank", {"query": "who", **body})
    texts = ["he was the one", "of and"]
    for name, value in {"top_n": 1, "return_documents": True, "max_tokens_per_doc": 3, "relevant_spans": {"mode": "enabled"}}.items():
        ask(texts=texts, **{name: value}).refused(422, "Validation", name, "texts")
    ask(documents=texts, return_text=True).refused(422, "Validation", "return_text", "documents")
    ask(top_n=1).refused(422, "Validation", "texts", "missing")
    # A client that writes all members has asked for nothing.
    ask(texts=texts, return_documents=False, top_n=None, relevant_spans={"mode": "disabled"}).works()


def test_maps_of_attention(server):
    text = "he was the of"
    ask = lambda **more: server.post("/attention", {"inputs": text, "model": "classes", "top_k": 50, **more})
    both = ask(layers=[0, 1], heads=["mean", 1, 0]).works()["maps"]
    assert set(both) == {"0,mean", "0,0", "0,1", "1,mean", "1,0", "1,1"}
    for layer in (0, 1):
        assert ask(layers=[layer], heads=[1]).works()["maps"] == {f"{layer},1": both[f"{layer},1"]}
        assert ask(layers=[layer]).works()["maps"] == {f"{layer},mean": both[f"{layer},mean"]}
    assert ask(layers=[1, 1, 0], heads=[0, 0]).works()["maps"] == {"0,0": both["0,0"], "1,0": both["1,0"]}


def test_lists_have_a_length(server):
    many = ["he"] * 2049
    server.post("/models/classes", {"inputs": many, "parameters": {}}).refused(422, "Validation", "batch size 2049")
    server.post("/models/classes", {"inputs": ["he", ""], "parameters": {}}).refused(400, "Empty", "inputs[1]")
    server.post("/choose", {"question": "was he", "choices": many}).refused(422, "Validation", "batch size 2049")
    server.post("/choose", {"question": "was he", "choices": ["he", ""]}).refused(400, "Empty", "choices[1]")


def test_ids_of_repeated_pieces_are_checked_at_once(server):
    """Bytes that are no character become three others each, in which the ids would be searched for at each place."""
    piece = [token["id"] for token in server.post("/tokenize", {"inputs": "\ufffd", "model": "masks", "add_special_tokens": False}).works()[0]]
    stray = next(i for i in range(5, 300) if server.post("/decode", {"ids": [i], "model": "masks"}).works() == ["\ufffd"])
    begin = time.monotonic()
    server.post("/embed", {"inputs": [piece * 100_000 + [stray] * 100_000], "model": "masks"})
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("mode", ["words", "hybrid"])
def test_a_question_of_many_words(server, mode):
    text = " ".join(f"w{n}" for n in range(200_000))
    begin = time.monotonic()
    server.post("/search", {"query": text, "texts": ["he was", "w7 of the"], "mode": mode, "truncate": True})
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("path, body", [
    ("/embed", {"inputs": ["he"] * 500, "prompt": "was the " * 500_000}),
    ("/embed", {"inputs": ["he"] * 20, "prompt": "was the " * 500_000, "truncate": True}),
    ("/embed_sparse", {"inputs": ["he"] * 500, "prompt": "was the " * 500_000}),
    ("/embed_passages", {"inputs": "he was the of " * 1000, "prompt": "was the " * 500_000, "context": "none", "passage_tokens": 1}),
    ("/rerank", {"query": "was the " * 200_000, "texts": ["he"] * 500, "model": "reranker"}),
    ("/rerank", {"query": "was the " * 200_000, "texts": ["he"] * 500, "model": "reranker", "truncate": True}),
    ("/choose", {"question": "was the " * 200_000, "choices": ["he"] * 500}),
    ("/qa", {"question": "was the " * 500_000, "context": "he was"}),
])  # fmt: skip
def test_what_is_read_with_each_text_has_a_length(server, path, body):
    begin = time.monotonic()
    server.post(path, body)
    assert time.monotonic() - begin < 30


class TestNames:
    def test_of_models_and_their_folders(self, folders, tmp_path):
        folder = tmp_path / "a=b"
        shutil.copytree(folders["vectors"], folder)
        one = Server(folder, f"org/name={folders['classes']}", f"org/name/info={folders['tokens']}")
        try:
            assert [model["id"] for model in one.get("/v1/models").works()["data"]] == ["a=b", "org/name", "org/name/info"]
            classes = one.post("/predict", {"inputs": "he", "model": "org/name"}).works()
            for path in ("/models/org/name", "/models/org%2Fname"):
                assert one.post(path, {"inputs": "he"}).works() == classes
            assert one.get("/models/org/name/info").works()["model_id"] == "org/name"
            assert one.get("/models/org/name/info/info").works()["model_id"] == "org/name/info"
            one.post("/models/a=b/info", {}).refused(405, "Validation")
            assert one.get("/models/org/name/health").status == 200 and one.get("/models/org/health").status == 404
            assert one.post("/models/a=b", {"inputs": "he"}).works() == one.post("/embed", {"inputs": "he"}).works()
        finally:
            assert one.stop() == 0

    @pytest.mark.parametrize("name", ["=", "NAME=", ""])
    def test_none(self, folders, name):
        argument = f"={folders['vectors']}" if name == "=" else name
        done = subprocess.run([BINARY, "serve", argument, "--check"], capture_output=True, text=True)
        assert done.returncode in (1, 2) and done.stderr.count("\n") == 1, done.stderr


def test_an_adapter_may_lie_in_an_odd_folder(tmp_path):
    model = tmp_path / "m"
    shutil.copytree(FIXTURES / "tiny_bert", model)
    rows = "".join(json.dumps({"text": "he was", "label": label}) + "\n" for label in "abab")
    (tmp_path / "data.jsonl").write_text(rows)
    folder = tmp_path / "x:y=z"
    subprocess.run([BINARY, "finetune", model, tmp_path / "data.jsonl", "--task", "classify", "--output-dir", folder, "--max-steps", "1",
                    "--lora-rank", "2"], check=True, capture_output=True)  # fmt: skip
    done = subprocess.run([BINARY, "serve", f"m={model}", "--adapter", folder, "--check"], capture_output=True, text=True)
    assert done.returncode == 0 and "m:x:y=z" in done.stdout, done.stderr
