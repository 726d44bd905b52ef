"""`longformer pull` and models by name, against a server that plays the Hub (hub.py)."""

import json
import os
import pty
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
from cli_test import BERT, BINARY, FIXTURES, run
from hub import Hub, files_of
from terminal import read_to_the_end

NAME = "org/tiny-bert"
#: Not read by the program.
OTHERS = {"README.md": b"# a card\n", ".gitattributes": b"*.bin filter=lfs\n", "tf_model.h5": b"h5" * 50,
          "onnx/model.onnx": b"onnx", "training_args.bin": b"args"}  # fmt: skip
SENTENCE = FIXTURES / "sentence_dense"


@pytest.fixture
def hub():
    served = Hub()
    served.add(NAME, {**files_of(BERT), **OTHERS})
    yield served
    served.close()


@pytest.fixture
def big(hub):
    """A model whose weights are 3 MB."""
    files = files_of(BERT)
    return hub.add("org/big", {"config.json": files["config.json"], "model.safetensors": random.Random(3).randbytes(3_000_000)})


def pull(hub, home, *arguments, **environment):
    return run("pull", *arguments, environment=hub.environment(home, **environment))


def is_refused(result, *words):
    """One error with the words, behind the note that says what is fetched."""
    *notes, error = result.err.splitlines()
    assert result.code == 1 and error.startswith("longformer: error: "), result.err
    assert [note.startswith("longformer: note: fetching") for note in notes] == [True], result.err
    assert all(word in error for word in words), (words, error)


def folder_of(home, name=NAME):
    return home / "hub" / ("models--" + name.replace("/", "--"))


def weights(model):
    """Path of the weights at the second server, their hash, and their bytes."""
    file = model.files()["model.safetensors"]
    return f"/{file.hash}", file.hash, file.data


def snapshot(hub, home, name=NAME, revision="main"):
    return folder_of(home, name) / "snapshots" / hub.models[name].revisions[revision][0]


class TestPull:
    def test_layout(self, hub, tmp_path):
        result = pull(hub, tmp_path, NAME).passes()
        folder, commit = folder_of(tmp_path), hub.models[NAME].revisions["main"][0]
        assert result.out == f"{folder / 'snapshots' / commit}\n"
        assert (folder / "refs" / "main").read_text() == commit
        files = files_of(BERT)
        found = files_of(snapshot(hub, tmp_path))
        assert found == {name: files[name] for name in set(files) - {"vocab.txt", "expected.safetensors"}}
        for name in found:
            link = os.readlink(snapshot(hub, tmp_path) / name)
            assert link == "../" * name.count("/") + f"../../blobs/{hub.models[NAME].files()[name].hash}"
        assert not list(folder.glob("blobs/*.incomplete"))
        assert (tmp_path / "hub" / "CACHEDIR.TAG").exists()

    def test_what_and_how_much_is_told_before(self, hub, tmp_path):
        result = pull(hub, tmp_path, NAME).passes()
        commit = hub.models[NAME].revisions["main"][0]
        assert re.fullmatch(rf"longformer: note: fetching {NAME} \(main, commit {commit[:12]}\) from {hub.address}: "
                            rf"\d files, [0-9.]+ [kM]B, into {tmp_path}/hub\n", result.err), result.err  # fmt: skip
        again = pull(hub, tmp_path, NAME).passes()
        assert "are in the cache" in again.err and again.out == result.out
        quiet = run("pull", NAME, "--quiet", environment=hub.environment(tmp_path)).works()
        assert quiet.out == result.out

    def test_json(self, hub, tmp_path):
        first = pull(hub, tmp_path, NAME, "--json").passes().json[0]
        read = [name for name in hub.models[NAME].files() if (snapshot(hub, tmp_path) / name).exists()]
        assert first["commit"] == hub.models[NAME].revisions["main"][0] and first["name"] == NAME
        assert first["files"] == len(read) and first["bytes"] == sum(len(files_of(BERT)[name]) for name in read)
        assert first["fetched_bytes"] == first["bytes"]
        second = pull(hub, tmp_path, NAME, "--json").passes().json[0]
        assert second == {**first, "fetched_files": 0, "fetched_bytes": 0}

    def test_nothing_else_is_asked_for(self, hub, tmp_path):
        pull(hub, tmp_path, NAME).passes()
        asked = " ".join(hub.gets("hub"))
        assert not any(name in asked for name in OTHERS), asked
        before = len(hub.requests)
        pull(hub, tmp_path, NAME).passes()
        assert [path for path in hub.gets()[before:]] == [f"/api/models/{NAME}/revision/main"]

    def test_modules_of_sentence_transformers(self, hub, tmp_path):
        hub.add("org/dense", files_of(SENTENCE))
        environment = hub.environment(tmp_path)
        found = run("embed", "org/dense", "--text", "a b", "--json", environment=environment).passes()
        assert found.out == run("embed", SENTENCE, "--text", "a b", "--json").works().out
        assert any(path.is_dir() for path in snapshot(hub, tmp_path, "org/dense").iterdir())

    def test_several_names(self, hub, tmp_path):
        hub.add("oldest", files_of(BERT))
        result = pull(hub, tmp_path, NAME, "oldest").passes()
        assert len(result.out.splitlines()) == 2 and (tmp_path / "hub" / "models--oldest").is_dir()

    def test_adapter(self, hub, tmp_path):
        hub.add("org/lora", {"adapter_config.json": b"{}", "adapter_model.safetensors": b"x", "README.md": b"y"})
        folder = pull(hub, tmp_path, "org/lora").passes().out.strip()
        assert sorted(os.listdir(folder)) == ["adapter_config.json", "adapter_model.safetensors"]

    def test_adapters_by_name(self, hub, tmp_path):
        base, adapter = FIXTURES / "tiny_nomic_bert", FIXTURES / "packed_adapters" / "nomic_bert"
        hub.add("org/nomic", files_of(base))
        hub.add("org/lora", {**files_of(adapter), "README.md": b"a card"})
        environment = hub.environment(tmp_path)
        text = ("--text", "aba", "--json")

        def vector(*arguments, **more):
            return run("embed", *arguments, *text, environment={**environment, **more}).passes().out

        expected = run("embed", base, "--adapter", adapter, *text).passes().out
        assert vector("org/nomic", "--adapter", "org/lora") == expected
        before = len(hub.requests)
        assert vector(base, "--adapter", "org/lora@main", HF_HUB_OFFLINE="1") == expected
        run("convert", "org/nomic", tmp_path / "merged", "--merge-adapter", "org/lora", environment=environment).passes()
        assert len(hub.requests) == before
        assert vector(tmp_path / "merged") != vector(base)
        absent = run("embed", base, "--adapter", "org/none", *text, environment=environment)
        assert absent.code == 1 and "org/none" in absent.err

    def test_teacher_by_name(self, hub, tmp_path):
        data = tmp_path / "texts.jsonl"
        data.write_text('{"text": "a b"}\n{"text": "b a"}\n')
        run("finetune", BERT, data, "--task", "embedding", "--teacher", NAME, "--max-steps", 1, "--output-dir", tmp_path / "out",
            environment=hub.environment(tmp_path)).passes()  # fmt: skip

    def test_terminal(self, hub, big, tmp_path):
        hub.pause = 0.02
        ours, theirs = pty.openpty()
        with subprocess.Popen([BINARY, "pull", "org/big"], stdout=subprocess.DEVNULL, stderr=theirs,
                              env={**os.environ, **hub.environment(tmp_path)}) as process:  # fmt: skip
            os.close(theirs)
            told = read_to_the_end(ours)
        assert process.returncode == 0
        assert re.search(r"\d of 2 files, [0-9.]+ [kM]B of 3.0 MB, [0-9.]+ [kM]B/s, \d+ s left", told), told


class TestRevisions:
    @pytest.fixture
    def commits(self, hub):
        files = files_of(BERT)
        changed = {**files, "config.json": files["config.json"].replace(b"}", b" }", 1)}
        return {name: hub.models[NAME].commit(name, changed) for name in ("v1.0", "refs/pr/1")}

    @pytest.mark.parametrize("revision", ["v1.0", "refs/pr/1"])
    def test_branches_and_tags(self, hub, commits, tmp_path, revision):
        pull(hub, tmp_path, f"{NAME}@{revision}").passes()
        assert (folder_of(tmp_path) / "refs" / revision).read_text() == commits[revision]
        environment = {**hub.environment(tmp_path), "HF_HUB_OFFLINE": "1"}
        run("info", f"{NAME}@{revision}", environment=environment).works()
        run("info", NAME, environment=environment).fails(1, "longformer pull " + NAME)

    def test_commits(self, hub, commits, tmp_path):
        commit = commits["v1.0"]
        pull(hub, tmp_path, f"{NAME}@{commit}").passes()
        assert not (folder_of(tmp_path) / "refs").exists()
        run("info", f"{NAME}@{commit}", environment=hub.environment(tmp_path)).works()

    def test_a_new_commit(self, hub, tmp_path):
        old = pull(hub, tmp_path, NAME, "--json").passes().json[0]
        files = files_of(BERT)
        hub.models[NAME].commit("main", {**files, "config.json": files["config.json"] + b"\n"})
        # A verb takes what is there; pull asks for what is new.
        before = len(hub.requests)
        run("info", NAME, environment=hub.environment(tmp_path)).works()
        assert len(hub.requests) == before
        new = pull(hub, tmp_path, NAME, "--json").passes().json[0]
        assert new["commit"] != old["commit"] and new["fetched_files"] == 1
        assert os.path.isdir(old["folder"])

    def test_that_there_is_not(self, hub, tmp_path):
        pull(hub, tmp_path, f"{NAME}@v9").fails(1, NAME, "no revision", "v9", "404")


class TestNamesOfModels:
    def test_every_verb_fetches(self, hub, tmp_path):
        environment = hub.environment(tmp_path)
        found = run("embed", NAME, "--text", "a b", "--json", environment=environment).passes()
        assert found.out == run("embed", BERT, "--text", "a b", "--json").works().out
        assert found.err.startswith("longformer: note: fetching")
        before = len(hub.requests)
        assert run("embed", NAME, "--text", "a b", "--json", environment=environment).works().out == found.out
        assert len(hub.requests) == before

    @pytest.mark.parametrize("words", [
        ["convert", NAME, "out", "--window", 8], ["compare", BERT, NAME, "--text", "a b"], ["compare", NAME, BERT, "--text", "a b"],
        ["serve", f"name={NAME}", "--check"], ["bench", "model", NAME, "-n", 8, "-r", 1], ["tokenize", NAME, "--text", "a"],
        ["search", NAME, "text.txt", "--query", "a", "--passage-tokens", 8]])  # fmt: skip
    def test_arguments_of_other_names(self, hub, tmp_path, words):
        (tmp_path / "text.txt").write_text("a b c")
        run(*words, environment=hub.environment(tmp_path / "home"), folder=tmp_path).passes()
        assert snapshot(hub, tmp_path / "home").is_dir()

    def test_offline(self, hub, tmp_path):
        for more in ({"HF_HUB_OFFLINE": "1"}, {"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "yes"}):
            environment = {**hub.environment(tmp_path), **more}
            run("embed", NAME, "--text", "a", environment=environment).fails(1, NAME, "longformer pull", "HF_HUB_OFFLINE")
            run("pull", NAME, environment=environment).fails(1, NAME, "HF_HUB_OFFLINE")
        assert hub.requests == []

    def test_what_was_meant_as_a_path(self, hub, tmp_path):
        (tmp_path / "org").mkdir()
        for name in (NAME, "oldest", "./org/x", "org/x/y", "/org/name"):
            run("embed", name, "--text", "a", environment=hub.environment(tmp_path), folder=tmp_path).fails(1, "no model folder")
        # Beside a config the word is a file of text.
        run("pretrain-lm", "data/text.txt", "--config", FIXTURES / "character_lm" / "config.json", "--output-dir", tmp_path / "out",
            environment=hub.environment(tmp_path), folder=tmp_path)  # fmt: skip
        assert hub.requests == []

    def test_single_files_of_others_are_completed(self, hub, tmp_path):
        """huggingface_hub keeps a configuration alone where somebody asked for no more."""
        pull(hub, tmp_path, NAME).passes()
        link = snapshot(hub, tmp_path) / "model.safetensors"
        blob = folder_of(tmp_path) / "blobs" / hub.models[NAME].files()["model.safetensors"].hash
        link.unlink()
        blob.unlink()
        run("embed", NAME, "--text", "a", environment=hub.environment(tmp_path)).passes()
        assert link.exists()
        link.unlink()
        # Who needs no weights goes on without the network.
        environment = hub.environment(tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
        assert "could not fetch" in run("tokenize", NAME, "--text", "a", environment=environment).passes().err

    def test_names_that_are_none(self, hub, tmp_path):
        for name in ("a/b/c", "org/..", "../x", "org/name@../x", "org/name@", "https://huggingface.co/org/name"):
            pull(hub, tmp_path, name).fails(1, "org/name@revision", name)
        run("pull", environment=hub.environment(tmp_path)).fails(2, "longformer pull --help")


def fill_as_others_do(hub, home, name, files):
    """A cache that holds single files of the main branch, as huggingface_hub leaves it."""
    model, folder = hub.models[name], folder_of(home, name)
    commit, stored = model.revisions["main"]
    for path in files:
        blob, link = folder / "blobs" / stored[path].hash, folder / "snapshots" / commit / path
        blob.parent.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(stored[path].data)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    return commit


class TestCachesOfOthers:
    """Other programs keep the files that they read: AutoModel of transformers asks for no modules.json."""

    TEXT = ("--text", "a b", "--json")

    @pytest.mark.parametrize("missing", ["modules.json", "tokenizer.json", "3_Dense/model.safetensors", "1_Pooling/config.json"])
    def test_vectors_are_those_of_the_whole_folder(self, hub, tmp_path, missing):
        files = files_of(SENTENCE)
        hub.add("org/dense", files)
        fill_as_others_do(hub, tmp_path, "org/dense", [name for name in files if name != missing])
        environment = hub.environment(tmp_path)
        expected = run("embed", SENTENCE, *self.TEXT).works().out
        assert run("embed", "org/dense", *self.TEXT, environment=environment).passes().out == expected
        asked = len(hub.requests)
        assert run("embed", "org/dense", *self.TEXT, environment=environment).works().out == expected
        assert len(hub.requests) == asked

    def test_a_model_without_modules_is_asked_for_once(self, hub, tmp_path):
        files = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
        hub.add(NAME, {name: data for name, data in files_of(BERT).items() if name in files})
        fill_as_others_do(hub, tmp_path, NAME, [name for name in files if name in hub.models[NAME].files()])
        offline = run("embed", NAME, *self.TEXT, environment=hub.environment(tmp_path, HF_HUB_OFFLINE="1")).passes()
        assert "no modules.json in the cache" in offline.err and not hub.requests
        for _ in range(2):
            assert "modules.json" not in run("embed", NAME, *self.TEXT, environment=hub.environment(tmp_path)).passes().err
            assert hub.gets() == [f"/api/models/{NAME}/revision/{hub.models[NAME].revisions['main'][0]}"]
        assert run("embed", NAME, *self.TEXT, environment=hub.environment(tmp_path, HF_HUB_OFFLINE="1")).works().out == offline.out

    def test_a_part_is_completed_and_not_replaced(self, hub, tmp_path):
        files = files_of(SENTENCE)
        hub.add("org/dense", files)
        commit = fill_as_others_do(hub, tmp_path, "org/dense", ["config.json", "model.safetensors", "tokenizer.json"])
        hub.models["org/dense"].commit("main", {**files, "model.safetensors": b"new"})
        found = run("embed", "org/dense", *self.TEXT, environment=hub.environment(tmp_path)).passes()
        assert found.out == run("embed", SENTENCE, *self.TEXT).works().out
        assert os.listdir(folder_of(tmp_path, "org/dense") / "snapshots") == [commit]

    def test_without_the_network_the_part_serves(self, hub, tmp_path):
        hub.add("org/dense", files_of(SENTENCE))
        fill_as_others_do(hub, tmp_path, "org/dense", ["config.json", "model.safetensors", "tokenizer.json"])
        environment = hub.environment(tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
        found = run("embed", "org/dense", *self.TEXT, environment=environment).passes()
        assert "could not fetch" in found.err and "no modules.json in the cache" in found.err

    def test_variables_in_paths(self, hub, tmp_path):
        environment = hub.environment(tmp_path, HF_HUB_CACHE="$LF_HERE/${LF_BELOW}x$LF_NOT/c", LF_HERE=str(tmp_path), LF_BELOW="b")
        pull(hub, tmp_path, NAME)
        folder = run("pull", NAME, environment=environment).passes().out
        assert folder.startswith(f"{tmp_path}/bx$LF_NOT/c/models--")

    def test_a_cache_that_is_whole_is_not_written(self, hub, tmp_path):
        pull(hub, tmp_path, NAME).passes()
        before = {path: path.lstat().st_mtime_ns for path in (tmp_path / "hub").rglob("*")}
        pull(hub, tmp_path, NAME).passes()
        assert {path: path.lstat().st_mtime_ns for path in (tmp_path / "hub").rglob("*")} == before


class TestRefusals:
    def test_unknown(self, hub, tmp_path):
        pull(hub, tmp_path, "org/nobody").fails(1, "org/nobody", "does not exist, or is private", "HF_TOKEN", "401")
        assert not list(tmp_path.iterdir())

    def test_private(self, hub, tmp_path):
        hub.add("org/private", files_of(BERT), token="hf_secret")
        pull(hub, tmp_path, "org/private").fails(1, "org/private", "there is no token (HF_TOKEN)", "401")
        wrong = pull(hub, tmp_path, "org/private", HF_TOKEN="hf_wrong").fails(1, "the token was sent", "404")
        assert "hf_wrong" not in wrong.err
        pull(hub, tmp_path, "org/private", HF_TOKEN=" hf_secret\n").passes()

    def test_gated(self, hub, tmp_path):
        hub.add("org/gated", files_of(BERT), token="hf_let_in", gated=True)
        pull(hub, tmp_path, "org/gated").fails(1, f"who asks at {hub.address}/org/gated", "there is no token", "401")
        pull(hub, tmp_path, "org/gated", HF_TOKEN="hf_other").fails(1, "the token was sent", "403")
        pull(hub, tmp_path, "org/gated", HF_TOKEN="hf_let_in").passes()

    def test_token_file(self, hub, tmp_path):
        hub.add("org/private", files_of(BERT), token="hf_secret")
        (tmp_path / "token").write_text("hf_secret\n")
        pull(hub, tmp_path, "org/private", HF_HUB_DISABLE_IMPLICIT_TOKEN="1").fails(1, "there is no token")
        pull(hub, tmp_path, "org/private").passes()
        other = tmp_path / "other"
        (tmp_path / "mine").write_text("hf_secret")
        pull(hub, other, "org/private", HF_TOKEN_PATH=str(tmp_path / "mine")).passes()
        pull(hub, tmp_path, "org/private", HF_TOKEN="two\nlines").fails(1, "HF_TOKEN", "token")

    def test_the_token_goes_to_no_other_host(self, hub, tmp_path):
        pull(hub, tmp_path, NAME, HF_TOKEN="hf_secret").passes()
        sent = {kind: [headers.get("Authorization") for server, _, _, headers in hub.requests if server == kind] for kind in ("hub", "cdn")}
        assert set(sent["hub"]) == {"Bearer hf_secret"} and len(sent["cdn"]) >= 1 and set(sent["cdn"]) == {None}

    def test_the_token_goes_to_no_address_without_tls(self, hub, tmp_path):
        """The proxy of the environment shows what would have left this machine."""
        proxy = {"http_proxy": hub.address, "no_proxy": "", "HF_ENDPOINT": "http://hub.example.org"}
        pull(hub, tmp_path, "org/private", HF_TOKEN="hf_secret", **proxy).fails(1, "no token goes to an address without https")
        assert hub.requests and all("Authorization" not in headers for _, _, _, headers in hub.requests)

    def test_proxy(self, hub, tmp_path):
        """The name of the address is known to the proxy alone."""
        seen = []

        class Proxied(dict):
            def get(self, name, default=None):
                seen.append(name)
                return super().get(name, default)

        hub.models, hub.redirects = Proxied(hub.models), False
        pull(hub, tmp_path, NAME, http_proxy=hub.address, no_proxy="", HF_ENDPOINT="http://hub.example.org").passes()
        assert NAME in seen

    def test_file_that_is_listed_and_not_there(self, hub, tmp_path):
        commit = hub.models[NAME].revisions["main"][0]
        path = f"/{NAME}/resolve/{commit}/config.json"
        hub.faults[path].append(404)
        is_refused(pull(hub, tmp_path, NAME), NAME, "404", path)
        assert not (folder_of(tmp_path) / "snapshots").exists()

    @pytest.mark.parametrize("endpoint,word", [("ftp://x", "HF_ENDPOINT"), ("huggingface.co", "HF_ENDPOINT"),
                                               ("http://127.0.0.1:9", "could not fetch")])  # fmt: skip
    def test_endpoints(self, hub, tmp_path, endpoint, word):
        pull(hub, tmp_path, NAME, HF_ENDPOINT=endpoint).fails(1, word, endpoint)
        pull(hub, tmp_path, NAME, HF_ENDPOINT=hub.address + "//").passes()

    def test_weights_of_other_programs(self, hub, tmp_path):
        hub.add("org/tf", {"config.json": b"{}", "tf_model.h5": b"x"})
        pull(hub, tmp_path, "org/tf").fails(1, "org/tf", "tf_model.h5", "save_pretrained")
        hub.add("org/data", {"a.csv": b"1,2"})
        pull(hub, tmp_path, "org/data").fails(1, "org/data", "config.json")


class TestFaults:
    def test_cut_connections(self, hub, big, tmp_path):
        path, sum_, data = weights(big)
        hub.faults[path].extend(["cut:1000000", "cut:700000", "cut:1", "cut:500000"])
        pull(hub, tmp_path, "org/big").passes()
        blob = folder_of(tmp_path, "org/big") / "blobs" / sum_
        assert blob.read_bytes() == data
        ranges = [headers.get("Range") for _, _, asked, headers in hub.requests if asked == path]
        assert ranges == [None, "bytes=1000000-", "bytes=1700000-", "bytes=1700001-", "bytes=2200001-"]

    def test_a_connection_that_always_ends(self, hub, big, tmp_path):
        path, sum_, data = weights(big)
        hub.faults[path].extend(["cut:1000000"] + ["cut:0"] * 20)
        begin = time.monotonic()
        is_refused(pull(hub, tmp_path, "org/big"), "org/big", "could not fetch")
        assert time.monotonic() - begin < 20
        left = folder_of(tmp_path, "org/big") / "blobs" / f"{sum_}.incomplete"
        assert left.read_bytes() == data[:1000000]
        hub.faults[path].clear()
        # A later call goes on there.
        pull(hub, tmp_path, "org/big").passes()
        assert hub.requests[-1][3]["Range"] == "bytes=1000000-" and not left.exists()

    def test_a_list_of_modules_that_came_damaged(self, hub, tmp_path):
        """It decides what is fetched."""
        commit = hub.add("org/dense", files_of(SENTENCE)).revisions["main"][0]
        hub.faults[f"/org/dense/resolve/{commit}/modules.json"].append("wrong")
        pull(hub, tmp_path, "org/dense").passes()
        assert (snapshot(hub, tmp_path, "org/dense") / "6_Dense" / "model.safetensors").exists()

    def test_parts_of_any_name(self, hub, tmp_path):
        files = files_of(BERT)
        index = {"metadata": {}, "weight_map": dict.fromkeys(("a", "b"), "parts/one.safetensors")}
        hub.add("org/parts", {"config.json": files["config.json"], "model.safetensors.index.json": json.dumps(index).encode(),
                              "parts/one.safetensors": files["model.safetensors"], "model-fp16.safetensors": b"x"})  # fmt: skip
        folder = snapshot(hub, tmp_path, "org/parts")
        pull(hub, tmp_path, "org/parts").passes()
        assert (folder / "parts" / "one.safetensors").exists() and not (folder / "model-fp16.safetensors").exists()

    def test_passwords_are_not_told(self, hub, tmp_path):
        address = hub.address.replace("//", "//someone:secret@")
        for name, code in ((NAME, 0), ("org/nobody", 1)):
            result = run("pull", name, environment=hub.environment(tmp_path, HF_ENDPOINT=address))
            assert result.code == code and "secret" not in result.err and hub.address in result.err
        gone = run("pull", NAME, environment=hub.environment(tmp_path, HF_ENDPOINT="http://someone:secret@127.0.0.1:9"))
        assert gone.code == 1 and "secret" not in gone.err

    def test_wrong_sum(self, hub, big, tmp_path):
        path, sum_, _ = weights(big)
        hub.faults[path].append("wrong")
        is_refused(pull(hub, tmp_path, "org/big"), "org/big", "model.safetensors", "SHA-256", sum_, "damaged")
        assert not list(folder_of(tmp_path, "org/big").glob(f"blobs/{sum_}*"))
        pull(hub, tmp_path, "org/big").passes()
        config = f"/org/big/resolve/{big.revisions['main'][0]}/config.json"
        hub.faults[config].append("wrong")
        pull(hub, tmp_path, "org/big").passes()  # it is in the cache
        assert hub.faults[config]
        is_refused(pull(hub, tmp_path / "other", "org/big"), "config.json", "git hash", "damaged")

    def test_a_file_that_is_shorter_than_the_listing_says(self, hub, big, tmp_path):
        hub.longer["config.json"] = 1_000_000
        is_refused(pull(hub, tmp_path, "org/big"), "config.json")
        asked = [one for _, _, one, _ in hub.requests if one.endswith("config.json")]
        assert len(asked) <= 12

    @pytest.mark.parametrize("size", [2**46, 2**62, 2**63 - 1])
    def test_sizes_that_no_file_has(self, hub, big, tmp_path, size):
        hub.longer["config.json"] = size
        # The head of the file's answer is asked, which says the right one.
        pull(hub, tmp_path, "org/big").passes()
        assert [path for _, command, path, _ in hub.requests if command == "HEAD" and path.endswith("/config.json")]

    @pytest.mark.parametrize("left", ["prefix", "other", "longer", "whole", "wrong whole", "none"])
    def test_what_an_earlier_process_left(self, hub, big, tmp_path, left):
        path, sum_, data = weights(big)
        partial = folder_of(tmp_path, "org/big") / "blobs" / f"{sum_}.incomplete"
        partial.parent.mkdir(parents=True)
        bytes_ = {"prefix": data[:123457], "other": b"x" * 2000, "longer": data + b"x", "whole": data, "wrong whole": b"x" * len(data)}
        partial.write_bytes(bytes_.get(left, b""))
        pull(hub, tmp_path, "org/big").passes()
        assert partial.with_name(sum_).read_bytes() == data and not partial.exists()
        asked = [headers.get("Range") for _, _, one, headers in hub.requests if one == path]
        expected = {"prefix": ["bytes=123457-"], "other": ["bytes=2000-", None], "whole": []}
        assert asked == expected.get(left, [None])

    def test_a_server_without_ranges(self, hub, big, tmp_path):
        path, sum_, data = weights(big)
        hub.faults[path].extend(["cut:1000000", "norange"])
        pull(hub, tmp_path, "org/big").passes()
        assert (folder_of(tmp_path, "org/big") / "blobs" / sum_).read_bytes() == data

    def test_more_than_was_listed(self, hub, big, tmp_path):
        hub.faults[weights(big)[0]].append("more")
        is_refused(pull(hub, tmp_path, "org/big"), "model.safetensors", "3000000 bytes, found more")

    def test_a_server_that_is_busy(self, hub, big, tmp_path):
        hub.faults[weights(big)[0]].extend([503, 429])
        hub.faults["/api/models/org/big/revision/main"].append(503)
        hub.fault_headers = {"Retry-After": "1"}
        begin = time.monotonic()
        pull(hub, tmp_path, "org/big").passes()
        assert time.monotonic() - begin > 2.9

    def test_a_server_that_stays_so(self, hub, tmp_path):
        hub.faults[f"/api/models/{NAME}/revision/main"].extend([503] * 9)
        hub.fault_headers = {"Retry-After": "0"}
        pull(hub, tmp_path, NAME).fails(1, NAME, "503")

    def test_nothing_comes(self, hub, big, tmp_path):
        hub.faults[weights(big)[0]].append("stall")
        hub.stall = 30
        begin = time.monotonic()
        pull(hub, tmp_path, "org/big", HF_HUB_DOWNLOAD_TIMEOUT="1").passes()
        assert time.monotonic() - begin < 15
        pull(hub, tmp_path, "org/big", HF_HUB_DOWNLOAD_TIMEOUT="soon").fails(1, "HF_HUB_DOWNLOAD_TIMEOUT", "soon")

    def test_full_disk(self, hub, big, tmp_path):
        """A limit of the size of files stands for it."""
        path, sum_, data = weights(big)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

        done = subprocess.run([BINARY, "pull", "org/big"], capture_output=True, check=False, preexec_fn=limit, timeout=60,
                              env={**os.environ, **hub.environment(tmp_path)})  # fmt: skip
        assert done.returncode == 1 and b"could not write the file: File too large" in done.stderr, done.stderr
        left = folder_of(tmp_path, "org/big") / "blobs" / f"{sum_}.incomplete"
        assert left.read_bytes() == data[:1_000_000]
        pull(hub, tmp_path, "org/big").passes()
        assert hub.requests[-1][3]["Range"] == "bytes=1000000-"

    def test_no_room(self, hub, tmp_path):
        """More than any disk has is refused before a byte is written."""
        model = hub.add("org/huge", {"config.json": b"{}", "model.safetensors": b"x"})

        class Huge(bytes):
            def __len__(self):
                return 1 << 44

        model.files()["model.safetensors"].data = Huge(b"x")
        result = pull(hub, tmp_path, "org/huge")
        assert result.code == 1 and "expected room for" in result.err
        assert not hub.gets("cdn")

    def test_answers_that_are_none(self, hub, tmp_path):
        model = hub.models[NAME]
        commit, files = model.revisions["main"]
        model.revisions["main"] = ("../../x", files)
        pull(hub, tmp_path, NAME).fails(1, NAME, "description of a model")
        model.revisions["main"] = (commit, {"../../../escaped": files["config.json"], **files})
        pull(hub, tmp_path, NAME).passes()
        assert not list(tmp_path.rglob("escaped*")) and not list(tmp_path.parent.glob("escaped*"))

    def test_a_cache_that_cannot_be_written(self, hub, tmp_path):
        (tmp_path / "hub").write_text("a file")
        pull(hub, tmp_path, NAME).fails(1, NAME, str(tmp_path / "hub"))


class TestProcesses:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
    def test_signals_leave_what_was_fetched(self, hub, big, tmp_path, number):
        path, sum_, data = weights(big)
        hub.pause = 0.01
        left = folder_of(tmp_path, "org/big") / "blobs" / f"{sum_}.incomplete"
        with subprocess.Popen([BINARY, "pull", "org/big"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, **hub.environment(tmp_path)}) as process:  # fmt: skip
            while not (left.exists() and left.stat().st_size > 200_000) and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(number)
            process.communicate(timeout=20)
        assert process.returncode == -number
        there = left.read_bytes()
        assert 200_000 < len(there) < len(data) and data.startswith(there)
        assert not (folder_of(tmp_path, "org/big") / "snapshots").exists()
        hub.pause = 0
        pull(hub, tmp_path, "org/big").passes()
        assert hub.requests[-1][3]["Range"] == f"bytes={len(there)}-"
        assert (folder_of(tmp_path, "org/big") / "blobs" / sum_).read_bytes() == data

    def test_two_at_once_fetch_each_file_once(self, hub, big, tmp_path):
        hub.pause = 0.005
        results = []
        threads = [threading.Thread(target=lambda: results.append(pull(hub, tmp_path, "org/big"))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({result.passes().out for result in results}) == 1
        assert len([path for path in hub.gets() if path == weights(big)[0]]) == 1
        assert not list(folder_of(tmp_path, "org/big").glob("blobs/*.incomplete"))

    def test_one_of_two_is_killed(self, hub, big, tmp_path):
        """The other one goes on with what is there."""
        path, sum_, data = weights(big)
        hub.pause = 0.005
        left = folder_of(tmp_path, "org/big") / "blobs" / f"{sum_}.incomplete"
        environment = {**os.environ, **hub.environment(tmp_path)}
        first = subprocess.Popen([BINARY, "pull", "org/big"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        while not (left.exists() and left.stat().st_size > 100_000):
            time.sleep(0.01)
        second = subprocess.Popen([BINARY, "pull", "org/big"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        time.sleep(0.3)
        first.kill()
        first.wait()
        assert second.wait(timeout=60) == 0
        assert left.with_name(sum_).read_bytes() == data
        assert [headers.get("Range") is None for _, _, one, headers in hub.requests if one == path] == [True, False]


SCRIPT = """
import json, sys
import longformer_cpp
name, mode = sys.argv[1:]
if mode == "load":
    model = longformer_cpp.load(name)
    print(json.dumps([longformer_cpp.info(name)["hidden_size"], float(abs(model.encode(["a b"])).sum()),
                      [int(i) for i in longformer_cpp.Tokenizer(name).encode("a b").ids]]))
elif mode == "pull":
    told = []
    folder = longformer_cpp.pull(name, progress=lambda *numbers: told.append(numbers))
    print(json.dumps([folder, told[-1], told == sorted(told)]))
elif mode == "raise":
    def stop(*numbers):
        raise KeyError("stopped")
    try:
        longformer_cpp.pull(name, progress=stop)
    except KeyError as error:
        print(json.dumps(str(error)))
else:
    try:
        longformer_cpp.load(name)
    except longformer_cpp.Error as error:
        print(json.dumps(str(error)))
"""


class TestPython:
    def run(self, hub, home, name, mode, **more):
        environment = {**os.environ, **hub.environment(home, **more)}
        done = subprocess.run([sys.executable, "-c", SCRIPT, name, mode], capture_output=True, text=True, env=environment, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    def test_load(self, hub, tmp_path):
        pytest.importorskip("longformer_cpp")
        found, told = self.run(hub, tmp_path, NAME, "load")
        assert found[0] == 16 and found[1] > 0
        assert re.search(rf"longformer_cpp: fetching {NAME} \(main, commit \w+\) from {hub.address}: (\d) of \1 files, [0-9.]+ kB", told)
        before = len(hub.requests)
        again, told = self.run(hub, tmp_path, NAME, "load")
        assert again == found and told == "" and len(hub.requests) == before

    def test_pull(self, hub, big, tmp_path):
        pytest.importorskip("longformer_cpp")
        (folder, last, is_sorted), told = self.run(hub, tmp_path, "org/big", "pull")
        assert folder == str(snapshot(hub, tmp_path, "org/big")) and is_sorted
        size = sum(len(one.data) for one in big.files().values())
        assert last == [2, 2, size, size] and "fetching org/big" in told

    def test_callbacks_may_raise(self, hub, big, tmp_path):
        pytest.importorskip("longformer_cpp")
        assert self.run(hub, tmp_path, "org/big", "raise")[0] == "'stopped'"

    def test_errors(self, hub, tmp_path):
        pytest.importorskip("longformer_cpp")
        assert "does not exist, or is private" in self.run(hub, tmp_path, "org/nobody", "error")[0]
        assert "HF_HUB_OFFLINE" in self.run(hub, tmp_path, NAME, "error", HF_HUB_OFFLINE="1")[0]

    def test_ctrl_c(self, hub, big, tmp_path):
        pytest.importorskip("longformer_cpp")
        hub.pause = 0.02
        sum_ = weights(big)[1]
        left = folder_of(tmp_path, "org/big") / "blobs" / f"{sum_}.incomplete"
        with subprocess.Popen([sys.executable, "-c", SCRIPT, "org/big", "pull"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, **hub.environment(tmp_path)}) as process:  # fmt: skip
            while not (left.exists() and left.stat().st_size > 100_000) and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=20)
        assert b"KeyboardInterrupt" in told and left.exists()


def test_the_hashes_of_the_server_are_those_of_git(hub):
    model = hub.add("a/b", {"hello.txt": b"hello\n", "model.safetensors": b""})
    assert model.files()["hello.txt"].hash == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert model.files()["model.safetensors"].hash.startswith("e3b0c442")
