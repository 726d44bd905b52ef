"""`longformer serve`: vectors of tokens and of vocabularies, questions over paragraphs, and texts that a decoder writes, with
the numbers of the verbs."""

import json
import subprocess

import pytest
from serve_test import BINARY, FIXTURES, Server, close, folders, metric, verb  # noqa: F401 (a fixture)

TEXT = "🙂 in the hand, it was"


@pytest.fixture(scope="module")
def server(folders):
    names = ("colbert", "bge", "multi", "splade")
    one = Server(f"vectors={folders['vectors']}", *(f"{name}={FIXTURES / f'vectors_{name}'}" for name in names),
                 f"summary={folders['summary']}")  # fmt: skip
    yield one
    assert one.stop() == 0


def multi_hop_model(folder):
    """A Longformer with a head that has seen one example."""
    example = {"_id": "a", "question": "they were", "answer": "his", "supporting_facts": [["he", 0]],
               "context": [["he", ["of his in ."]], ["she", ["as on ."]]], "type": "bridge", "level": "easy"}  # fmt: skip
    (folder / "data.json").write_text(json.dumps([example] * 4))
    subprocess.run([BINARY, "convert", FIXTURES / "tiny_bert", folder / "long", "--max-positions", "64", "--window", "8"], check=True,
                   capture_output=True)
    subprocess.run([BINARY, "finetune", folder / "long", folder / "data.json", "--task", "multihop", "--output-dir", folder / "model",
                    "--max-steps", "2", "--learning-rate", "0.01"], check=True, capture_output=True)
    return folder / "model"


def units(text):
    return len(text.encode("utf-16-le")) // 2


class TestVectorsOfTokens:
    @pytest.mark.parametrize("name", ["colbert", "bge", "multi"])
    @pytest.mark.parametrize("as_query", [False, True])
    def test_they_are_those_of_the_verb(self, server, name, as_query):
        text = TEXT[2:13] if as_query else TEXT
        flags = ["--as-query"] if as_query else []
        expected = verb("embed", FIXTURES / f"vectors_{name}", "--text", text, "--multi", "--json", *flags)[0]
        answer = server.post("/embed_multi", {"inputs": text, "model": name, "as_query": as_query})
        (found,) = answer.works()
        close([row["embedding"] for row in found], expected["embeddings"])
        assert [[row["start"], row["end"]] for row in found] == expected["spans"]
        assert answer.headers["x-compute-tokens"] == str(expected["tokens"]) and answer.headers["x-segments"] == "1"
        first, second = server.post("/embed_multi", {"inputs": ["it was", text], "model": name, "as_query": as_query}).works()
        close([row["embedding"] for row in second], expected["embeddings"], 1e-4)
        assert first != second

    def test_a_model_that_makes_them_is_the_default(self, server):
        found = server.post("/embed_multi", {"inputs": "in the hand"})
        assert found.works() == server.post("/embed_multi", {"inputs": "in the hand", "model": "colbert"}).works()
        server.post("/embed_multi", {"inputs": "it", "model": "vectors"}).refused(424, "Backend", "vectors", "each token")
        # The task of a folder that makes nothing else.
        assert server.post("/models/colbert", {"inputs": "in the hand"}).works() == found.works()
        routes = {model["name"]: model["routes"] for model in server.get("/info").works()["models"]}
        assert [name for name in routes if "/embed_multi" in routes[name]] == ["colbert", "bge", "multi"]

    def test_places(self, server):
        (plain,), (counted,) = (server.post("/embed_multi" + query, {"inputs": TEXT, "model": "bge"}).works()
                                for query in ("", "?offsets=utf16"))  # fmt: skip
        for row, one in zip(plain, counted):
            assert (one["start"], one["end"]) == (units(TEXT[: row["start"]]), units(TEXT[: row["end"]]))
        assert [row["start"] for row in plain] != [row["start"] for row in counted]
        ids = [token["id"] for token in server.post("/tokenize", {"inputs": "in the hand", "model": "bge"}).works()[0]]
        (of_text,), (of_ids,) = (server.post("/embed_multi", {"inputs": [given], "model": "bge"}).works() for given in ("in the hand", ids))
        close([row["embedding"] for row in of_ids], [row["embedding"] for row in of_text])
        assert all(row["start"] == row["end"] == 0 for row in of_ids)

    def test_long_texts(self, server):
        text = "in the hand, it was " * 40
        (whole,) = server.post("/embed_multi?long=split", {"inputs": text, "model": "bge"}).works()
        (cut,) = server.post("/embed_multi", {"inputs": text, "model": "bge", "truncate": True}).works()
        assert len(cut) < len(whole)
        server.post("/embed_multi", {"inputs": text, "model": "bge", "truncate": False}).refused(422, "Validation", "inputs[0]")
        server.post("/embed_multi", {"inputs": "it", "model": "bge", "max_length": "long"}).refused(422, "Validation", "max_length")
        server.post("/embed_multi", {"inputs": [], "model": "bge"}).refused(400, "Empty", "inputs")


@pytest.mark.parametrize("request_flags", [({}, []), ({"top_k": 2}, ["--top-k", "2"]), ({"as_query": True}, ["--as-query"]),
                                           ({"prompt": "it was "}, ["--prompt", "it was "])])  # fmt: skip
def test_sparse_vectors_have_the_options_of_the_verb(server, request_flags):
    options, flags = request_flags
    expected = verb("embed", FIXTURES / "vectors_splade", "--text", "in the hand", "--sparse", "--json", *flags)[0]["sparse"]
    (found,) = server.post("/embed_sparse", {"inputs": "in the hand", "model": "splade", **options}).works()
    assert {row["index"] for row in found} == {row["index"] for row in expected}
    close([row["value"] for row in sorted(found, key=lambda row: -row["value"])], [row["value"] for row in expected])


class TestTextsOfADecoder:
    REQUEST = {"inputs": "the house and of " * 3, "max_new_tokens": 8, "num_beams": 2, "num_return_sequences": 2}
    FLAGS = ("--text", REQUEST["inputs"], "--max-new-tokens", 8, "--num-beams", 2, "--num-return-sequences", 2, "--json")

    def test_they_are_those_of_the_verb(self, server, folders):
        expected = verb("generate", folders["summary"], *self.FLAGS)[0]
        found = server.post("/generate", self.REQUEST).works()
        assert [text["ids"] for text in found["texts"]] == [text["ids"] for text in expected["texts"]] and len(found["texts"]) == 2
        close([text["score"] for text in found["texts"]], [text["score"] for text in expected["texts"]])
        assert {name: found[name] for name in ("tokens", "truncated", "segments", "global_tokens")} == {
            name: expected[name] for name in ("tokens", "truncated", "segments", "global_tokens")}
        assert found["global_tokens"] == 0
        summary = server.post("/summarize", {**self.REQUEST, "num_return_sequences": 1}).works()
        assert {"summary_text", "tokens_out"} <= summary.keys()

    def test_a_stream_ends_with_the_same(self, server):
        streamed = server.post("/generate", {**self.REQUEST, "stream": True}).bytes.decode()
        events = [block.split("\n") for block in streamed.strip().split("\n\n")]
        assert events[-1][0] == "event: done"
        assert json.loads(events[-1][1][6:]) == server.post("/generate", self.REQUEST).works()

    def test_metrics_count_passes_and_steps(self, server):
        def counts():
            return [metric(server, f"te_batch_next_{name}") for name in ("size_count", "size_sum", "tokens_sum")]

        before = counts()
        found = server.post("/generate", {"inputs": "the house", "max_new_tokens": 6, "num_beams": 3}).works()
        passes, texts, tokens = (after - one for after, one in zip(counts(), before))
        # A pass of the encoder for each segment, and steps of one token for each beam: the first has one.
        steps = passes - found["segments"]
        assert 2 <= steps <= 6 and found["segments"] + steps < texts < found["segments"] + 3 * steps
        assert tokens >= found["tokens"] + texts - found["segments"]


LETTERS = FIXTURES / "character_lm" / "tied"


@pytest.fixture(scope="module")
def letters(folders):
    one = Server(f"letters={LETTERS}", f"vectors={folders['vectors']}")
    yield one
    assert one.stop() == 0


class TestLanguageModels:
    REQUEST = {"prompt": "the ", "characters": 12, "temperature": 0.7, "top_k": 5, "seed": 3}
    FLAGS = ("--prompt", "the ", "-n", 12, "--temperature", 0.7, "--top-k", 5, "--seed", 3, "--json")

    def test_text_is_that_of_the_verb(self, letters):
        (expected,) = verb("generate", LETTERS, *self.FLAGS)
        assert letters.post("/complete", self.REQUEST).works() == expected
        streamed = letters.post("/complete", {**self.REQUEST, "stream": True}).bytes.decode()
        events = [block.split("\n") for block in streamed.strip().split("\n\n")]
        data = [json.loads(lines[1][6:]) for lines in events]
        assert [lines[0] for lines in events] == ["event: token"] * (len(events) - 1) + ["event: done"]
        assert data[-1] == expected and "".join(one["text"] for one in data[:-1]) == expected["text"]
        assert letters.post("/models/letters", {"inputs": "the ", **self.REQUEST}).works() == expected

    def test_steps_are_counted(self, letters):
        before = metric(letters, "te_batch_next_size_count")
        letters.post("/complete", self.REQUEST).works()
        assert metric(letters, "te_batch_next_size_count") == before + 12

    def test_it_is_listed(self, letters):
        (model, _) = letters.get("/info").works()["models"]
        assert model["head"] == "language-modeling" and model["routes"] == ["/complete"]
        assert letters.get("/models/letters/info").status == 200

    @pytest.mark.parametrize("path, body, status, words", [
        ("/complete", {"prompt": 5}, 422, "`prompt`"), ("/complete", {"characters": 0}, 422, "`characters`"),
        ("/complete", {"temperature": -1}, 422, "`temperature`"), ("/complete", {"model": "vectors"}, 424, "language model"),
        ("/tokenize", {"inputs": "he", "model": "letters"}, 424, "letters"), ("/decode", {"ids": [1], "model": "letters"}, 424, "letters"),
        ("/embed", {"inputs": "he", "model": "letters"}, 424, "letters"), ("/attention", {"inputs": "he", "model": "letters"}, 424, "letters")])  # fmt: skip
    def test_refusals(self, letters, path, body, status, words):
        letters.post(path, body).refused(status, "Validation" if status == 422 else "Backend", words)


@pytest.fixture(scope="module")
def hops(tmp_path_factory):
    return multi_hop_model(tmp_path_factory.mktemp("hops"))


@pytest.fixture(scope="module")
def asked(hops):
    one = Server(f"hops={hops}")
    yield one
    assert one.stop() == 0


class TestQuestionsOverParagraphs:
    QUESTION = "they were"
    PARAGRAPHS = [{"title": "he 🙂", "text": "of to. had his but. 🙂 in."}, {"title": "she", "text": "her of it. is by."}, {"text": "as on. be at."}]

    def test_answers_are_those_of_the_verb(self, asked, hops, tmp_path):
        files = []
        for number, paragraph in enumerate(self.PARAGRAPHS):
            files.append(tmp_path / f"{number}.txt")
            files[-1].write_text(paragraph["text"])
        titled = [{"title": str(number), "text": paragraph["text"]} for number, paragraph in enumerate(self.PARAGRAPHS)]
        (expected,) = verb("qa", hops, *files, "--question", self.QUESTION, "--json", "--evidence-paragraphs", 3)
        found = asked.post("/qa_multi_hop", {"question": self.QUESTION, "paragraphs": titled, "evidence_paragraphs": 3}).works()
        assert (found["answer"], found["type"], found["tokens"]) == (expected["answer"], expected["type"], expected["tokens"])
        close([found["score"], found["logit"]], [expected["score"], expected["logit"]])
        rows = lambda answer, *keys: [[row[key] for key in keys] for row in answer["evidence"]]
        assert rows(found, "paragraph", "sentence", "start", "end", "text") == rows(expected, "paragraph", "sentence", "begin", "end", "text")
        close(rows(found, "score", "logit"), rows(expected, "score", "logit"))
        close([row["logit"] for row in found["paragraphs"]], [row["logit"] for row in expected["paragraphs"]])

    def test_places(self, asked):
        for query, count in (("", len), ("?offsets=utf16", units)):
            request = {"question": self.QUESTION, "paragraphs": self.PARAGRAPHS, "evidence_paragraphs": 0}
            found = asked.post("/qa_multi_hop" + query, request).works()
            for row in [*found["evidence"], *([found["span"]] if found["span"] else [])]:
                given = self.PARAGRAPHS[row["paragraph"]]
                text = given["title"] if row["sentence"] is None else given["text"]
                at = text.index(row["text"])
                assert (row["start"], row["end"]) == (count(text[:at]), count(text[: at + len(row["text"])]))

    @pytest.mark.parametrize("change, status, kind, words", [
        ({"question": None}, 422, "Validation", "`question`"), ({"paragraphs": None}, 422, "Validation", "`paragraphs`"),
        ({"paragraphs": []}, 400, "Empty", "`paragraphs`"), ({"paragraphs": ["text"]}, 422, "Validation", "`paragraphs[0]`"),
        ({"paragraphs": [{"text": "it"}, {"title": "it"}]}, 422, "Validation", "`paragraphs[1].text`"),
        ({"paragraphs": [{"text": ""}]}, 400, "Empty", "`paragraphs[0].text`"),
        ({"evidence_paragraphs": -1}, 422, "Validation", "`evidence_paragraphs`"),
        ({"paragraphs": [{"text": "it was " * 200}], "truncate": False}, 422, "Validation", "truncate")])  # fmt: skip
    def test_refusals(self, asked, change, status, kind, words):
        asked.post("/qa_multi_hop", {"question": self.QUESTION, "paragraphs": self.PARAGRAPHS, **change}).refused(status, kind, words)


class TestNumbers:
    """Bounds that openapi.json names hold."""

    def test_beyond_their_bounds(self, server):
        for route, field in (("/generate", "stride"), ("/summarize", "stride"), ("/generate", "eos_token_id")):
            body = {"inputs": "the house", "model": "summary", "max_new_tokens": 6, "min_length": 5}
            server.post(route, body | {field: 2**31 - 1}).refused(422, "Validation", field)
        for wrong in (2**30 + 1, 2**63 - 1):
            server.post("/generate", {"inputs": "the house", "model": "summary", "stride": wrong}).refused(422, "Validation", "at most 1073741824")
        assert server.get("/health").status == 200

    def test_an_overlap_that_nobody_asked_for_fits_the_length(self, folders):
        server = Server(f"classes={folders['classes']}", f"answers={folders['answers']}")
        try:
            text = "the house and of " * 30
            for longest in (8, 12, 20):
                assert server.post("/predict", {"inputs": text, "model": "classes", "max_length": longest}).works()
            assert server.post("/qa", {"question": "the", "context": text, "model": "answers", "max_length": 16}).works()
        finally:
            server.stop()
