"""Standard input that is a pipe: nothing in it is an error, and results come out as the documents come in."""

import json
import os
import subprocess
import time

import pytest
from cli_test import BERT, BINARY, FIXTURES, ROBERTA, run

LED = FIXTURES / "tiny_led"
#: Arguments of each verb that reads documents, besides the documents.
READERS = {
    "tokenize": [BERT], "embed": [BERT], "classify": [FIXTURES / "tiny_longformer_classifier"],
    "ner": [FIXTURES / "tiny_bert_tagger"], "coref": [FIXTURES / "coreference"],
    "fill-mask": [ROBERTA], "qa": [FIXTURES / "tiny_longformer_qa", "-q", "a"],
    "summarize": [LED, "--max-new-tokens", 3], "generate": [LED, "--max-new-tokens", 3], "attention": [BERT],
}  # fmt: skip
JSON_LINES = {name: [] if name == "choose" else ["--field", "text"] for name in [*READERS, "choose"]}
CHOOSER = FIXTURES / "tiny_longformer_choice"


class TestNothing:
    @pytest.mark.parametrize("verb", READERS)
    def test_is_an_error(self, verb):
        for flags in ([], ["--lines"], ["--field", "text"], ["--json"], ["--", "-"], ["--encoding", "utf-16"]):
            result = run(verb, *READERS[verb], *flags, stdin=b"").fails(1, "standard input: expected", "found nothing")
            assert not result.out.strip() or json.loads(result.out)["error"]

    @pytest.mark.parametrize("verb", JSON_LINES)
    def test_blank_lines_alone_are_no_json_lines(self, verb, tmp_path):
        model = READERS.get(verb, [CHOOSER])
        for lines in ("\n", " \t\n\n  "):
            run(verb, *model, *JSON_LINES[verb], stdin=lines).fails(1, "standard input: expected a document", "blank lines")
        # A file may be empty.
        (tmp_path / "a.jsonl").write_text("\n\n")
        assert run(verb, *model, *JSON_LINES[verb], tmp_path / "a.jsonl").code == 0

    @pytest.mark.parametrize("verb", READERS)
    def test_given_as_a_text_is_a_text(self, verb):
        result = run(verb, *READERS[verb], "--text", "", "--json")
        assert "standard input" not in result.err and (result.code == 0 or "found nothing" not in result.err)

    def test_in_other_verbs(self, tmp_path):
        run("choose", CHOOSER, stdin=b"").fails(1, "standard input", "found nothing")
        (tmp_path / "a.txt").write_text("a b c")
        index = tmp_path / "a.index"
        run("search", BERT, tmp_path / "a.txt", "--index", index, "--passage-tokens", 8, stdin=b"").passes()
        run("search", BERT, "--index", index, stdin=b"").fails(1, "standard input: expected a question", "found nothing")
        run("search", BERT, "--index", index, stdin=b"\n \n").fails(1, "standard input: expected a question", "found nothing")
        result = run("search", BERT, "-", "--query", "a", "--passage-tokens", 8, stdin=b"")
        assert result.code == 1 and "standard input: expected text, found nothing" in result.err
        run("compare", BERT, BERT, stdin=b"").fails(1, "standard input", "found nothing")

    def test_beside_documents_costs_them_nothing(self, tmp_path):
        (tmp_path / "a.txt").write_text("a b c")
        result = run("embed", BERT, tmp_path / "a.txt", "-", "--json", stdin=b"")
        assert result.code == 1 and [("error" in row) for row in result.json] == [False, True]

    def test_blank_lines_are_documents(self):
        assert len(run("tokenize", BERT, "--lines", stdin="a\n\nb\n").works().out.splitlines()) == 3


class Conversation:
    """The program between two pipes."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([BINARY, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)  # fmt: skip
        os.set_blocking(self.process.stdout.fileno(), False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def say(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def hear(self, lines, seconds=60):
        """So many lines, while the input stays open."""
        heard, end = b"", time.monotonic() + seconds
        while heard.count(b"\n") < lines and time.monotonic() < end:
            heard += self.process.stdout.read() or b""
            time.sleep(0.01)
        return heard.decode().splitlines()


# The questions of `choose` are objects.
@pytest.mark.parametrize(
    ("verb", "form"), [*((verb, form) for verb in READERS for form in ("lines", "field")), ("choose", "field")]
)
def test_results_come_as_documents_come(verb, form):
    arguments = READERS.get(verb, [CHOOSER])
    flags = ["--lines"] if form == "lines" else JSON_LINES[verb]
    mask = "<mask>" if verb == "fill-mask" else ""
    question = {"question": "a", "choices": ["b", "c"]}

    def document(number):
        text = f"the cat {number} {mask}"
        return text if form == "lines" else json.dumps(question if verb == "choose" else {"text": text})

    with Conversation(verb, *arguments, *flags, "--json") as talk:
        for number in range(3):
            talk.say(document(number) + "\n")
            heard = talk.hear(1)
            assert heard and all(json.loads(line)["line"] == number + 1 for line in heard), heard
        # Half a line is none yet, and holds nothing back.
        talk.say(document(3) + "\n" + document(4)[:3])
        heard = talk.hear(1)
        assert heard and json.loads(heard[0])["line"] == 4
        talk.say(document(4)[3:] + "\n")
        assert json.loads(talk.hear(1)[0])["line"] == 5


def test_what_waits_is_read_together():
    """Vectors of many lines that are there take few passes: about as long as from a file."""
    lines = "".join(f"the cat {i} of the house\n" for i in range(600))
    piped = run("embed", BERT, "--lines", "--json", stdin=lines).works().json
    assert [row["line"] for row in piped] == list(range(1, 601))


def test_a_document_behind_files_holds_none_back(tmp_path):
    (tmp_path / "a.txt").write_text("a b c")
    for verb in ("embed", "tokenize"):
        with Conversation(verb, BERT, tmp_path / "a.txt", "-", "--json") as talk:
            assert json.loads(talk.hear(1)[0])["file"].endswith("a.txt")
