"""Contents of documents, labels and names of files are shown on a terminal, and never control it."""

import json
import os
import re
import shutil
import subprocess

import pytest
from cli_test import BINARY, FIXTURES, longformer, run  # noqa: F401
from terminal import read_to_the_end

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
BEFORE, AFTER = "a \x1b]0;title\x07b \x1b[2J\x9b31m \u202e\u2066 \x7f\x08\rc", "a ^[]0;title^Gb ^[[2J<U+009B>31m <U+202E><U+2066> ^?^H^Mc"
# Characters that control a terminal: control characters but line ends and tabs, of 8 bits too, and
# directions.
TOLD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")


def on_terminal(*arguments, folder=None, errors=False, stdin=b""):
    """Output shown on a terminal, and output that goes elsewhere."""
    ours, terminal = os.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": terminal} if errors else {"stdout": terminal, "stderr": subprocess.PIPE}
    process = subprocess.Popen([BINARY, *map(os.fsencode, map(os.fspath, arguments))], stdin=subprocess.PIPE, cwd=folder, **streams)
    os.close(terminal)
    process.stdin.write(stdin)
    process.stdin.close()
    shown = read_to_the_end(ours)
    other = (process.stdout or process.stderr).read().decode()
    process.wait()
    return shown, other


class TestControlCharacters:
    def test_of_hits_are_shown(self, longformer, tmp_path):
        (tmp_path / "a.txt").write_text(BEFORE)
        shown, _ = on_terminal("search", longformer, "a.txt", "--query", "a \x1b[2J", folder=tmp_path)
        assert not TOLD.search(shown.replace("\x1b[1m", "").replace("\x1b[0m", ""))
        assert "^[]0;title^G" in shown and "<U+009B>31m" in shown and "\x1b[1m" in shown
        assert BEFORE.split()[1] in run("search", longformer, "a.txt", "--query", "a", folder=tmp_path).works().out

    def test_stay_in_files_and_pipes(self, longformer, tmp_path):
        (tmp_path / "a.txt").write_text(BEFORE)
        (hit,) = run("search", longformer, "a.txt", "--query", "a", "--json", folder=tmp_path).works().json[0]["hits"]
        assert hit["text"] == BEFORE

    @pytest.mark.parametrize("json_lines", [[], ["--json"]])
    @pytest.mark.parametrize("verb, model, flags", [
        ("tokenize", "tiny_roberta", []), ("qa", "tiny_longformer_qa", ["--question", BEFORE]), ("ner", "tiny_bert_tagger", []),
        ("classify", "tiny_longformer_classifier", [])])  # fmt: skip
    def test_of_documents_are_shown_by_every_verb(self, tmp_path, verb, model, flags, json_lines):
        (tmp_path / "a\x1b[31m.txt").write_text(BEFORE)
        shown, _ = on_terminal(verb, FIXTURES / model, "a\x1b[31m.txt", *map(str, flags), *json_lines, folder=tmp_path)
        assert shown and not TOLD.search(shown)
        if json_lines:
            assert json.loads(shown)["file"] == "a\x1b[31m.txt"

    def test_of_labels_are_shown(self, tmp_path):
        shutil.copytree(CLASSIFIER, tmp_path / "m")
        config = json.loads((tmp_path / "m/config.json").read_text())
        config["id2label"] = {key: f"\x1b[5m\t\n{key}" for key in config["id2label"]}
        config["label2id"] = {label: int(key) for key, label in config["id2label"].items()}
        (tmp_path / "m/config.json").write_text(json.dumps(config))
        (tmp_path / "a.txt").write_text("a b")
        shown, _ = on_terminal("classify", "m", "a.txt", folder=tmp_path)
        assert not TOLD.search(shown) and len(shown.splitlines()) == 1
        for info in ([], ["--json"]):
            assert not TOLD.search(on_terminal("info", "m", *info, folder=tmp_path)[0])

    def test_of_messages_are_shown(self, longformer, tmp_path):
        name = "a\x1b]0;t\x07\u202e.txt"
        (tmp_path / name).write_bytes(b"\0")
        shown, _ = on_terminal("search", longformer, name, "--query", "a", folder=tmp_path, errors=True)
        assert not TOLD.search(shown.replace("\x1b[K", "")) and "a^[]0;t^G<U+202E>.txt: expected text" in shown
        shown, _ = on_terminal("search", longformer, name, "--no-such\x1b[2J", folder=tmp_path, errors=True)
        assert not TOLD.search(shown.replace("\x1b[K", "")) and "--no-such" in shown
        assert "\x1b]0;t\x07" in run("search", longformer, name, "--query", "a", folder=tmp_path).err

    def test_are_escapes_in_json(self, longformer, tmp_path):
        (tmp_path / "a.txt").write_text(BEFORE)
        out = run("search", longformer, "a.txt", "--query", "a", "--json", folder=tmp_path).works().out
        assert not TOLD.search(out) and json.loads(out)["hits"][0]["text"] == BEFORE


class TestNamesOfFiles:
    NAMES = {"a\nb.txt": r"$'a\nb.txt'", "c\td.txt": r"$'c\td.txt'", "e'\\\x1b.txt": r"$'e\'\\\033.txt'", "plain name.txt": "plain name.txt"}

    def test_are_one_field_of_a_line(self, tmp_path):
        for name in self.NAMES:
            (tmp_path / name).write_text("a b")
        for verb, model, flags in (("classify", CLASSIFIER, []),
                                   ("qa", FIXTURES / "tiny_longformer_qa", ["--question", "a"])):  # fmt: skip
            lines = run(verb, model, *self.NAMES, *flags, folder=tmp_path).passes().out.splitlines()
            assert [line.split("\t")[0] for line in lines] == list(self.NAMES.values()), verb
            rows = run(verb, model, *self.NAMES, *flags, "--json", folder=tmp_path).passes().json
            assert [row["file"] for row in rows] == list(self.NAMES)
        # Names as a shell reads them.
        for name, quoted in self.NAMES.items():
            if quoted.startswith("$"):
                assert subprocess.run(["bash", "-c", "printf %s " + quoted], capture_output=True).stdout == name.encode()

    def test_of_an_index(self, longformer, tmp_path):
        (tmp_path / "a\nb.txt").write_text("a b")
        out = run("search", longformer, "a\nb.txt", "--index", "i", "--query", "a", folder=tmp_path).works().out
        assert r"$'a\nb.txt'" in out
        assert run("search", "--index", "i", "--list", folder=tmp_path).works().out.split("\t")[0] == r"$'a\nb.txt'"
        assert run("search", "--index", "i", "--list", "--json", folder=tmp_path).works().json[0]["file"] == "a\nb.txt"

    def test_that_are_no_utf8(self, tmp_path):
        name = b"bad\xff.txt"
        with open(os.fsencode(tmp_path) + b"/" + name, "w") as file:
            file.write("a b")
        done = subprocess.run([BINARY, "classify", CLASSIFIER, name], capture_output=True, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout.startswith(name + b"\t")
        assert "bad<FF>.txt\t" in on_terminal("classify", CLASSIFIER, os.fsdecode(name), folder=tmp_path)[0]
