"""`longformer serve`: every route, against the numbers of the verbs; wrong requests; who may ask; stopping."""

import base64
import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.request

import numpy as np
import pytest
from tensors import keep_one_class

BINARY = os.environ["LONGFORMER_BINARY"]
ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests" / "fixtures"
TEXT = "the of and he was"


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.bytes = response.read()

    @property
    def json(self):
        return json.loads(self.bytes)

    def works(self):
        assert self.status in (200, 201), (self.status, self.bytes)
        return self.json

    def refused(self, status, kind, *words):
        assert self.status == status, (self.status, self.bytes)
        said = self.json
        assert said["error_type"] == kind, said
        message = said["error"] if isinstance(said["error"], str) else said["error"]["message"]
        assert "\n" not in message and len(message) < 500
        assert all(word in message for word in words), message
        return said


class Server:
    def __init__(self, *arguments, env=None, ready=True):
        self.process = subprocess.Popen(
            [BINARY, "serve", *map(str, arguments), "--port", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})},
        )
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
        if not ready:
            return
        line = self.process.stdout.readline()
        found = re.fullmatch(r"listening on http://(.*):(\d+)\n", line)
        assert found, (line, self.log)
        self.host, self.port = found.group(1), int(found.group(2))

    def ask(self, method, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            if not isinstance(body, (bytes, type(None))):
                body = json.dumps(body).encode()
                headers = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def post(self, path, body, **headers):
        return self.ask("POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()})

    def get(self, path, **headers):
        return self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def verb(*arguments, text=None):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, input=text, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """The tiny models with a tokenizer each, by what they are for."""
    base = tmp_path_factory.mktemp("served")
    names = {
        "vectors": "sentence_dense",
        "classes": "tiny_longformer_classifier",
        "reranker": "tiny_longformer_classifier",
        "tokens": "tiny_bert_tagger",
        "answers": "tiny_longformer_qa",
        "masks": "tiny_roberta",
        "choice": "tiny_longformer_choice",
        "coreference": "coreference",
        "summary": "tiny_led",
    }
    folders = {}
    for name, fixture in names.items():
        folders[name] = base / name
        shutil.copytree(FIXTURES / fixture, folders[name])
        files = {file.name for file in folders[name].iterdir()}
        if not files & {"tokenizer.json", "vocab.txt", "vocab.json"}:
            source = "tiny_bert" if name == "tokens" else "tiny_roberta"
            for file in ("vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
                if (FIXTURES / source / file).exists():
                    shutil.copy(FIXTURES / source / file, folders[name])
    keep_one_class(folders["reranker"], folders["reranker"])
    return folders


@pytest.fixture(scope="session")
def server(folders):
    one = Server(*(f"{name}={folder}" for name, folder in folders.items()))
    yield one
    assert one.stop() == 0
    assert not [line for line in one.log if "Sanitizer" in line or "terminate" in line]


def metric(server, name):
    text = server.get("/metrics").bytes.decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
    assert found, name
    return float(found.group(1))


def close(found, expected, tolerance=1e-5):
    assert np.shape(found) == np.shape(expected)
    assert np.abs(np.array(found) - np.array(expected)).max() <= tolerance


class TestVectors:
    def test_embed_is_the_verb(self, server, folders):
        expected = [row["embedding"] for row in verb("embed", folders["vectors"], "--text", TEXT, "--json", "--normalize")]
        answer = server.post("/embed", {"inputs": TEXT})
        close(answer.works(), expected)
        assert answer.headers["x-compute-type"] == "cpu" and int(answer.headers["x-compute-tokens"]) > 5
        assert answer.headers["x-compute-characters"] == str(len(TEXT)) and answer.headers["x-segments"] == "1"

    def test_batches_ids_and_mixtures(self, server):
        alone = [server.post("/embed", {"inputs": text}).works()[0] for text in (TEXT, "he was")]
        close(server.post("/embed", {"inputs": [TEXT, "he was"]}).works(), alone)
        ids = [token["id"] for token in server.post("/tokenize", {"inputs": "he was", "model": "vectors"}).works()[0]]
        close(server.post("/embed", {"inputs": ids}).works(), alone[1:])
        close(server.post("/embed", {"inputs": [TEXT, ids]}).works(), alone)

    @pytest.mark.parametrize("text", ["he was the of and in his", "he was xyzzy, the of", "xyzzy", "he was the of and " * 40])
    def test_ids_are_run_as_they_are(self, server, text):
        """Words that the vocabulary does not have stay unknown ones, and texts longer than the model have segments."""
        def ids(**options):
            return [token["id"] for token in server.post("/tokenize", {"inputs": text, "model": "vectors", **options}).works()[0]]

        whole = server.post("/embed", {"inputs": text})
        for given in (ids(add_special_tokens=False), ids()):
            found = server.post("/embed", {"inputs": given})
            close(found.works(), whole.works(), 1e-6)
            for name in ("x-compute-tokens", "x-segments", "x-truncated-tokens"):
                assert found.headers[name] == whole.headers[name]
            close(server.post("/embed_all", {"inputs": [given]}).works(), server.post("/embed_all", {"inputs": [text]}).works(), 1e-6)
            rows = server.post("/v1/embeddings", {"input": [given, text]}).works()["data"]
            close(rows[0]["embedding"], rows[1]["embedding"], 1e-6)
            pair = {"source_sentence": text, "sentences": [given]}
            close(server.post("/similarity", {"inputs": pair}).works(), [1], 1e-6)
            for direction in ("left", "right"):
                cut = {"truncate": True, "truncation_direction": direction}
                close(server.post("/embed", {"inputs": given, **cut}).works(), server.post("/embed", {"inputs": text, **cut}).works(), 1e-6)

    def test_dimensions_are_cut_then_scaled(self, server):
        whole = np.array(server.post("/embed", {"inputs": TEXT, "normalize": False}).works()[0])
        cut = server.post("/embed", {"inputs": TEXT, "dimensions": 3}).works()[0]
        close(cut, whole[:3] / np.linalg.norm(whole[:3]))
        server.post("/embed", {"inputs": TEXT, "dimensions": 0}).refused(422, "Validation", "dimensions")
        server.post("/embed", {"inputs": TEXT, "dimensions": 7}).refused(422, "Validation", "dimensions", "6")

    def test_long_texts(self, server):
        book = "he was the of and " * 40
        whole = server.post("/embed", {"inputs": book})
        assert int(whole.headers["x-segments"]) > 1 and whole.headers["x-truncated-tokens"] == "0"
        cut = server.post("/embed", {"inputs": book, "truncate": True})
        assert int(cut.headers["x-truncated-tokens"]) > 100
        assert np.abs(np.array(cut.works()) - np.array(whole.works())).max() > 1e-4
        left = server.post("/embed", {"inputs": "and " * 50 + TEXT, "truncate": True, "truncation_direction": "Left"})
        right = server.post("/embed", {"inputs": "and " * 50 + TEXT, "truncate": True})
        assert left.works() != right.works() and int(left.headers["x-truncated-tokens"]) > 30
        server.post("/embed", {"inputs": book, "truncate": False}).refused(422, "Validation", "inputs", "tokens")
        # The address beats the body.
        close(server.post("/embed?long=split", {"inputs": book, "truncate": True}).works(), whole.works())
        server.post("/embed?long=refuse", {"inputs": book, "truncate": True}).refused(422, "Validation")

    def test_tokens_and_passages(self, server, folders):
        rows = server.post("/embed_all", {"inputs": TEXT}).works()[0]
        expected = verb("embed", folders["vectors"], "--text", TEXT, "--json", "--pooling", "tokens")[0]["embeddings"]
        close(rows, expected)
        passages = server.post("/embed_passages", {"inputs": (TEXT + ". ") * 4, "passage_tokens": 6}).works()[0]
        assert len(passages) > 1 and all(abs(np.linalg.norm(row["embedding"]) - 1) < 1e-5 for row in passages)
        assert [row["start"] for row in passages] == sorted(row["start"] for row in passages)

    def test_similarity(self, server):
        vectors = np.array(server.post("/embed", {"inputs": [TEXT, "he was", "of"]}).works())
        found = server.post("/similarity", {"inputs": {"source_sentence": TEXT, "sentences": ["he was", "of"]}}).works()
        close(found, vectors[1:] @ vectors[0])

    def test_openai(self, server):
        expected = server.post("/embed", {"inputs": [TEXT, "he was"]}).works()
        for path in ("/v1/embeddings", "/embeddings"):
            found = server.post(path, {"input": [TEXT, "he was"], "model": "text-embedding-3-small"}).works()
            close([row["embedding"] for row in found["data"]], expected, 0)
            assert [row["index"] for row in found["data"]] == [0, 1] and found["object"] == "list"
            assert found["usage"]["prompt_tokens"] == found["usage"]["total_tokens"] > 0
        packed = server.post("/v1/embeddings", {"input": TEXT, "encoding_format": "base64"}).works()["data"][0]["embedding"]
        close(struct.unpack("<6f", base64.b64decode(packed)), expected[0], 1e-7)
        task = server.post("/v1/embeddings", {"input": TEXT, "task": "retrieval.query"}).works()["data"][0]["embedding"]
        close(task, server.post("/embed", {"inputs": TEXT, "prompt_name": "query"}).works()[0], 0)
        passage = server.post("/v1/embeddings", {"input": TEXT, "task": "retrieval.passage"}).works()["data"][0]["embedding"]
        close(passage, server.post("/embed", {"inputs": TEXT, "prompt_name": "passage"}).works()[0], 0)
        assert task != passage
        server.post("/v1/embeddings", {"input": TEXT, "task": "nobody's"}).refused(422, "Validation", "prompt", "nobody's")
        names = [row["id"] for row in server.get("/v1/models").works()["data"]]
        assert names[0] == "vectors" and "summary" in names
        error = server.post("/v1/embeddings", {"input": ""}).refused(400, "Empty", "input")
        assert error["error"]["code"] == 400 and error["error"]["param"] is None and error["message"] == error["error"]["message"]

    def test_foreign_ids(self, server):
        error = server.post("/v1/embeddings", {"input": [[9, 31, 14, 22, 6, 40, 17, 8, 35, 11]]})
        if error.status != 200:
            error.refused(422, "Validation", "check_embedding_ctx_length=False")
        server.post("/embed", {"inputs": [100000]}).refused(422, "Validation", "check_embedding_ctx_length=False")

    def test_sparse(self, folders, server):
        server.post("/embed_sparse", {"inputs": TEXT}).refused(424, "Backend", "SPLADE")
        sparse = Server(folders["masks"], "--pooling", "splade")
        try:
            found = sparse.post("/embed_sparse", {"inputs": "the of"}).works()[0]
            assert found and all(row["value"] > 0 for row in found)
            assert [row["index"] for row in found] == sorted(row["index"] for row in found)
            ids = [token["id"] for token in sparse.post("/tokenize", {"inputs": "the of"}).works()[0]]
            for given in (ids, ids[1:-1]):
                same = sparse.post("/embed_sparse", {"inputs": [given]}).works()[0]
                assert [row["index"] for row in same] == [row["index"] for row in found]
                close([row["value"] for row in same], [row["value"] for row in found])
        finally:
            sparse.stop()


class TestTasks:
    def test_classes(self, server, folders):
        expected = verb("classify", folders["classes"], "--text", "the of", "--json", "--top-k", 0)[0]["labels"]
        for path in ("/predict", "/classify"):
            found = server.post(path, {"inputs": "the of"}).works()
            assert [row["label"] for row in found] == [row["label"] for row in expected]
            close([row["score"] for row in found], [row["score"] for row in expected])
        pair = server.post("/predict", {"inputs": ["the", "of"]}).works()
        batch = server.post("/predict", {"inputs": [["the of"], ["the", "of"]]}).works()
        assert batch == [found, pair]
        raw = server.post("/predict", {"inputs": "the of", "raw_scores": True, "top_k": 1}).works()
        assert len(raw) == 1
        nested = server.post("/models/classes", {"inputs": "the of", "parameters": {}}).works()
        assert nested == [found]
        assert server.post("/models/classes", {"inputs": "the of"}).works() == found

    def test_entities(self, server, folders):
        expected = verb("ner", folders["tokens"], "--text", TEXT, "--json", "--ignore-labels", "")[0]["entities"]
        found = server.post("/ner", {"inputs": TEXT, "ignore_labels": []}).works()
        assert [(row["start"], row["end"], row["entity_group"]) for row in found] == [
            (row["begin"], row["end"], row["label"]) for row in expected
        ]
        tokens = server.post("/models/tokens", {"inputs": TEXT, "parameters": {"aggregation_strategy": "none", "ignore_labels": []}}).works()
        assert tokens and {"entity", "index"} <= set(tokens[0])
        assert len(server.post("/ner", {"inputs": [TEXT, "he"]}).works()) == 2

    def test_offsets_of_javascript(self, server):
        text = "🙂 he was"
        request = {"inputs": text, "ignore_labels": []}
        plain, units = (server.post("/ner" + query, request).works() for query in ("", "?offsets=utf16"))
        assert plain and [row["end"] for row in units] == [row["end"] + 1 for row in plain]
        server.post("/ner?offsets=bytes", request).refused(422, "Validation", "offsets")

    def test_answers(self, server, folders, tmp_path):
        context = "he was the one and of the " * 3
        found = server.post("/qa", {"question": "who was", "context": context, "top_k": 2, "max_answer_tokens": 5, "stride": 5}).works()
        (tmp_path / "x.txt").write_text(context)
        expected = verb("qa", folders["answers"], tmp_path / "x.txt", "--question", "who was", "--top-k", 2, "--max-answer-tokens", 5,
                        "--stride", 5, "--json")[0]
        assert [(row["start"], row["end"]) for row in found["answers"]] == [(row["begin"], row["end"]) for row in expected["answers"]]
        close([row["score"] for row in found["answers"]], [row["score"] for row in expected["answers"]])
        one = server.post("/models/answers", {"inputs": {"question": "who was", "context": context}, "parameters": {"max_answer_len": 5, "doc_stride": 5}}).works()
        assert one["answer"] == found["answers"][0]["answer"] and one["answer"] == context[one["start"] : one["end"]]

    def test_masks(self, server, folders):
        expected = verb("fill-mask", folders["masks"], "--text", "the <mask> of", "--json", "--top-k", 3)[0]["masks"][0]["candidates"]
        found = server.post("/fill-mask", {"inputs": "the <mask> of", "top_k": 3}).works()
        assert [row["token"] for row in found] == [row["id"] for row in expected]
        close([row["score"] for row in found], [row["probability"] for row in expected])
        assert all(row["token_str"].strip() in row["sequence"] for row in found)
        assert len(server.post("/fill-mask", {"inputs": "<mask> <mask>"}).works()) == 2
        entry = server.post("/tokenize", {"inputs": "of", "model": "masks"}).works()[0][1]
        target = server.post("/fill-mask", {"inputs": "the <mask>", "targets": ["of"]}).works()
        assert [row["token"] for row in target] == [entry["id"]]
        assert server.post("/models/masks", {"inputs": "the <mask> of", "parameters": {"top_k": 3}}).works() == found

    def test_choice_and_coreference(self, server):
        found = server.post("/choose", {"question": "was he", "choices": ["the", "of and"], "context": "he was"}).works()
        assert found["choice"] == ["the", "of and"][found["best"]] and abs(sum(found["probabilities"]) - 1) < 1e-5
        text = "he was in the house . she was with him at the house . "
        assert server.post("/coref", {"inputs": text}).works()["clusters"] is not None

    def test_attention(self, server):
        found = server.post("/attention", {"inputs": "he was the of", "model": "classes", "layers": [0, 1], "heads": ["mean", 0], "top_k": 50}).works()
        assert set(found["maps"]) == {"0,mean", "0,0", "1,mean", "1,0"} and found["tokens"][0]["special"]
        for rows in found["maps"].values():
            assert len(rows) == len(found["tokens"])
            assert all(abs(sum(weight for _, weight in row) - 1) < 1e-3 for row in rows)
            assert all(len({key for key, _ in row}) == len(row) for row in rows)

    def test_summary(self, server):
        request = {"inputs": "the house and of " * 3, "max_new_tokens": 8, "num_beams": 1}
        found = server.post("/summarize", request).works()
        assert found["tokens_out"] > 0 and found["finish_reason"] in ("stop", "length")
        streamed = server.post("/summarize", {**request, "stream": True})
        assert streamed.headers["content-type"] == "text/event-stream" and streamed.headers["cache-control"] == "no-store"
        events = [block.split("\n") for block in streamed.bytes.decode().strip().split("\n\n")]
        kinds = [lines[0] for lines in events]
        assert kinds[-1] == "event: done"
        data = [json.loads(lines[1][6:]) for lines in events]
        assert data[-1]["summary_text"] == found["summary_text"]
        assert "".join(row["text"] for row in data[:-1] if "text" in row) == found["summary_text"]
        pipeline = server.post("/models/summary", {"inputs": request["inputs"], "parameters": {"generate_parameters": {"max_new_tokens": 8, "num_beams": 1}}})
        assert pipeline.works() == [{"summary_text": found["summary_text"]}]
        server.post("/summarize", {"inputs": "the", "parameters": {}, "generate_parameters": True}).refused(422, "Validation", "generate_parameters")

    def test_tokens(self, server):
        found = server.post("/tokenize", {"inputs": "he wäs", "model": "vectors"}).works()[0]
        plain = [token for token in found if not token["special"]]
        assert [(token["start"], token["stop"]) for token in plain] == [(0, 2), (3, 7)]
        assert all(token["start"] is None for token in found if token["special"])
        ids = [token["id"] for token in found]
        assert server.post("/decode", {"ids": ids, "model": "vectors"}).works() == [server.post("/decode", {"ids": [ids], "model": "vectors"}).works()[0]]
        server.post("/decode", {"ids": [10**6]}).refused(422, "Tokenizer", "ids")


class TestRanking:
    QUERY, TEXTS = "who was", ["he was the one", "of and", "the of and he was in his house"]

    def ask(self, server, path="/v2/rerank", **body):
        body = {"query": self.QUERY, "documents": self.TEXTS, **body}
        return server.post(path, body)

    def test_forms_agree(self, server):
        pairs = {"inputs": [[self.QUERY, text] for text in self.TEXTS], "model": "reranker"}
        expected = [rows[0]["score"] for rows in server.post("/predict", pairs).works()]
        tei = server.post("/rerank", {"query": self.QUERY, "texts": self.TEXTS}).works()
        close([row["score"] for row in sorted(tei, key=lambda row: row["index"])], expected)
        assert [row["score"] for row in tei] == sorted((row["score"] for row in tei), reverse=True)
        for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            found = self.ask(server, path, top_n=2, return_documents=True, priority=1).works()
            assert [(row["index"], row["relevance_score"]) for row in found["results"]] == [(row["index"], row["score"]) for row in tei[:2]]
            assert all(row["document"] == {"text": self.TEXTS[row["index"]]} and "relevant_spans" not in row for row in found["results"])

    def test_long_documents_get_the_best_of_their_segments(self, server):
        text = " ".join(f"he was {word} of the" for word in ("his", "in", "and", "for") * 20)
        whole = self.ask(server, documents=[text])
        assert int(whole.headers["x-segments"]) > 2 and whole.headers["x-truncated-tokens"] == "0"
        score = whole.works()["results"][0]["relevance_score"]
        cut = self.ask(server, documents=[text], truncate=True)
        assert score >= cut.works()["results"][0]["relevance_score"] - 1e-6
        assert int(cut.headers["x-truncated-tokens"]) > 100 and cut.headers["x-segments"] == "1"
        self.ask(server, documents=["of", text], truncate=False).refused(422, "Validation", "documents[1]")
        server.post("/rerank", {"query": "who", "texts": ["of", text], "truncate": False}).refused(422, "Validation", "texts[1]")

    def test_tokens_of_a_document(self, server):
        few = self.ask(server, documents=["he was the of and he was"], max_tokens_per_doc=2, return_documents=True)
        short = self.ask(server, documents=["he was"])
        assert few.works()["results"][0]["relevance_score"] == short.works()["results"][0]["relevance_score"]
        assert int(few.headers["x-truncated-tokens"]) == int(few.headers["x-compute-tokens"]) - int(short.headers["x-compute-tokens"]) > 0
        assert few.works()["results"][0]["document"]["text"] == "he was the of and he was"
        assert few.works()["usage"] == short.works()["usage"]
        self.ask(server, max_tokens_per_doc=0).refused(422, "Validation", "max_tokens_per_doc")

    def test_relevant_spans(self, server):
        text = "🙂 he was the one. " + "Of the house and his. " * 30
        spans = lambda query="", **more: self.ask(server, "/v2/rerank" + query, documents=[text], relevant_spans={"mode": "enabled", **more}).works()["results"][0]["relevant_spans"]
        every = spans(threshold=0)
        assert len(every) > 1 and [span["score"] for span in every] == sorted((span["score"] for span in every), reverse=True)
        places = sorted((span["start"], span["end"]) for span in every)
        assert all(a[1] <= b[0] for a, b in zip(places, places[1:])) and places[-1][1] <= len(text)
        for span in every:
            part = text[span["start"] : span["end"]]
            assert part == part.strip()
            alone = self.ask(server, documents=[part]).works()["results"][0]["relevance_score"]
            assert abs(alone - span["score"]) < 1e-5
        assert spans(threshold=0, max_spans=1) == every[:1]
        middle = (every[0]["score"] + every[-1]["score"]) / 2
        assert spans(threshold=middle) == [span for span in every if span["score"] >= middle]
        assert spans(threshold=1) == []
        units = sorted(span["end"] for span in spans("?offsets=utf16", threshold=0))
        assert units == [end + 1 for _, end in places]
        assert "relevant_spans" not in self.ask(server, relevant_spans={"mode": "disabled"}).works()["results"][0]
        for wrong in ({}, {"mode": "on"}, {"mode": "enabled", "threshold": 2}, {"mode": "enabled", "max_spans": 0}, 3):
            self.ask(server, relevant_spans=wrong).refused(422, "Validation", "relevant_spans" if wrong in ({}, 3, {"mode": "on"}) else "")

    def test_relevant_spans_of_a_cut_document(self, server):
        text = "he was the one. " + "Of the house and his. " * 30
        spans = {"mode": "enabled", "threshold": 0}
        cut = self.ask(server, documents=[text], relevant_spans=spans, truncate=True)
        found = cut.works()["results"][0]["relevant_spans"]
        assert int(cut.headers["x-truncated-tokens"]) > 50
        end = max(span["end"] for span in found)
        assert end < len(text) / 2
        # A shorter document has only the part that is read of the long one.
        assert self.ask(server, documents=[text[:end]], truncate=False, relevant_spans=spans).works()["results"][0]["relevant_spans"] == found
        self.ask(server, documents=[text[: end + 8]], truncate=False).refused(422, "Validation", "documents")
        assert max(span["end"] for span in self.ask(server, documents=[text], relevant_spans=spans).works()["results"][0]["relevant_spans"]) > end

    def test_raw_scores(self, server):
        expected = {row["index"]: row["score"] for row in server.post("/rerank", {"query": self.QUERY, "texts": self.TEXTS, "raw_scores": True}).works()}
        spans = {"mode": "enabled", "threshold": 0}
        for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            raw, usual = (self.ask(server, path, raw_scores=wanted, relevant_spans=spans).works()["results"] for wanted in (True, None))
            assert {row["index"]: row["relevance_score"] for row in raw} == expected
            for a, b in zip(raw, usual):
                sigmoid = lambda x: 1 / (1 + math.exp(-x))
                close([sigmoid(a["relevance_score"])] + [sigmoid(span["score"]) for span in a["relevant_spans"]],
                      [b["relevance_score"]] + [span["score"] for span in b["relevant_spans"]])  # fmt: skip
            self.ask(server, path, raw_scores=1).refused(422, "Validation", "raw_scores")


class TestOllama:
    def test_vectors(self, server):
        expected = server.post("/embed", {"inputs": [TEXT, "he was"]}).works()
        found = server.post("/api/embed", {"model": "vectors:latest", "input": [TEXT, "he was"], "keep_alive": "5m", "options": {}}).works()
        close(found["embeddings"], expected, 0)
        assert found["model"] == "vectors:latest" and found["prompt_eval_count"] > 5 and found["total_duration"] > 0 and found["load_duration"] == 0
        assert len(server.post("/api/embed", {"model": "any", "input": TEXT, "dimensions": 3}).works()["embeddings"][0]) == 3
        cut = server.post("/api/embed", {"input": "he was " * 100, "truncate": True})
        assert int(cut.headers["x-truncated-tokens"]) > 50

    def test_errors_have_one_member(self, server):
        for body, status in (({"input": ""}, 400), ({"input": "a", "dimensions": 0}, 422), ({"input": "he was " * 100, "truncate": False}, 422)):
            answer = server.post("/api/embed", body)
            assert answer.status == status and set(answer.json) == {"error"} and isinstance(answer.json["error"], str)
        assert set(server.get("/api/nothing").json) == {"error"}

    def test_models(self, server):
        names = [model["name"] for model in server.get("/api/tags").works()["models"]]
        assert names == ["vectors", "masks"]
        assert re.match(r"\d+\.\d+", server.get("/api/version").works()["version"])
        assert {"/api/embed", "/api/tags", "/api/version"} <= set(server.get("/openapi.json").works()["paths"])


class TestRequests:
    def test_statuses(self, server):
        server.get("/nothing").refused(404, "Validation")
        answer = server.get("/embed")
        answer.refused(405, "Validation")
        assert "POST" in answer.headers["allow"]
        assert server.ask("DELETE", "/info").headers["allow"].startswith("GET, HEAD")
        server.ask("POST", "/embed", b"{}", {"Content-Type": "text/plain"}).refused(415, "Validation", "application/json")
        server.post("/models/vectors/info", {}).refused(405, "Validation")
        server.post("/models/nobody", {"inputs": "a"}).refused(404, "Validation", "nobody")
        server.post("/embed", {"inputs": "a", "model": "classes"}).refused(424, "Backend", "is not an embedding model")
        assert server.ask("OPTIONS", "/embed").status == 204
        assert server.get("/health").status == server.get("/ping").status == server.get("/").status == 200
        head = server.ask("HEAD", "/info")
        assert head.status == 200 and head.bytes == b"" and int(head.headers["content-length"]) > 100

    @pytest.mark.parametrize("path", ["/embed", "/predict", "/ner", "/fill-mask", "/summarize", "/tokenize", "/", "/coref"])
    def test_empty_and_wrong_inputs(self, server, path):
        server.post(path, {"inputs": ""}).refused(400, "Empty", "inputs")
        server.post(path, {}).refused(422, "Validation", "inputs")
        for value in (3, True, {"a": 1}, 1.5):
            assert server.post(path, {"inputs": value}).status == 422, (path, value)

    def test_malformed_json(self, server):
        for body in (b"", b"{", b'{"inputs": "\\ud800"}', b'{"inputs": "\xff"}', b'{"inputs": "a"} x', b"[" * 100 + b"]" * 100):
            server.ask("POST", "/embed", body, {"Content-Type": "application/json"}).refused(400, "Validation")
        server.post("/embed", [1]).refused(422, "Validation", "object")
        assert server.post("/embed", {"inputs": "a\u0000b"}).status == 200
        close(server.post("/embed", {"inputs": TEXT, "unknown": {"x": 1}, "truncate": None}).works(), server.post("/embed", {"inputs": TEXT}).works(), 0)

    def test_batch_names_the_input(self, server):
        server.post("/embed", {"inputs": ["a", "b", "c", ""]}).refused(400, "Empty", "inputs[3]")
        server.post("/embed?long=refuse", {"inputs": ["a", "he was " * 40]}).refused(422, "Validation", "inputs[1]")
        server.post("/embed", {"inputs": ["a"] * 3000}).refused(422, "Validation", "batch size 3000 > maximum allowed batch size 2048")

    def test_messages_are_one_short_line(self, server):
        server.post("/embed", {"inputs": "a", "model": "x\n" * 5000}).refused(404, "Validation")
        server.get("/" + "y" * 3000).refused(404, "Validation")

    def test_request_id(self, server):
        assert server.get("/info", x_request_id="abc-1").headers["x-request-id"] == "abc-1"
        assert server.get("/nothing").headers["x-request-id"]

    def test_info_and_description(self, server):
        info = server.get("/info").works()
        assert info["model_type"] == {"embedding": {"pooling": "mean"}} and info["threads"] >= 1 and info["long"] == "split"
        served = {model["name"]: set(model["routes"]) for model in info["models"]}
        assert "/qa" in served["answers"] and "/summarize" in served["summary"] and "/search" in served["vectors"]
        description = server.get("/openapi.json").works()
        for routes in served.values():
            assert routes <= set(description["paths"])
        assert server.get("/models/classes/info").works()["model_type"]["classifier"]["id2label"]

    def test_metrics(self, server):
        before = metric(server, 'te_request_success{method="batch"}')
        server.post("/embed", {"inputs": ["a", "b"]}).works()
        server.post("/embed", {"inputs": ""})
        assert metric(server, 'te_request_success{method="batch"}') == before + 1
        assert metric(server, 'te_request_failure{err="validation"}') > 0
        assert metric(server, "process_resident_memory_bytes") > 1e6 and metric(server, "te_queue_size") == 0

    def test_metrics_of_passes_and_kinds(self, server):
        names = [f"te_{kind}_{part}duration_count" for kind in ("request", "embed", "predict") for part in ("", "tokenization_", "queue_", "inference_")]
        names += ["te_batch_next_size_count", "te_batch_next_tokens_count", "te_batch_next_tokens_sum", "te_batch_next_size_sum"]
        server.post("/embed", {"inputs": "a"}).works()
        server.post("/predict", {"inputs": "a"}).works()
        before = {name: metric(server, name) for name in names}
        tokens = int(server.post("/embed", {"inputs": ["he was", "of"]}).headers["x-compute-tokens"])
        server.post("/predict", {"inputs": [["a"], ["b"]]}).works()
        assert all(metric(server, name) > before[name] for name in names)
        assert metric(server, "te_batch_next_tokens_sum") >= before["te_batch_next_tokens_sum"] + tokens
        assert metric(server, "te_batch_next_size_sum") == before["te_batch_next_size_sum"] + 4
        assert metric(server, "te_request_tokenization_duration_sum") > 0 and metric(server, "longformer_tokens_per_second") > 0
        assert metric(server, "longformer_preemptions_total") >= 0
        isa = server.get("/info").works()["isa"]
        assert isa and f'isa="{isa}"' in server.get("/metrics").bytes.decode()

    def test_turns_that_a_book_lends(self, server):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            book = pool.submit(server.post, "/embed", {"inputs": "he was the of and " * 100_000})
            while not book.done():
                server.post("/embed", {"inputs": "he was"}).works()
        assert metric(server, "longformer_preemptions_total") > 0

    def test_times_of_a_book(self, server):
        """Its tokens take milliseconds, in one thread or beside the model, and the parts make up the whole."""
        book = "he was the of and " * 60_000
        for path in ("/embed", "/predict"):
            headers = server.post(path + "?long=truncate", {"inputs": book}).headers
            times = {name: int(headers[f"x-{name}-time"]) for name in ("total", "compute", "tokenization", "queue", "inference")}
            assert times["tokenization"] >= 5, (path, times)
            assert abs(times["compute"] - times["tokenization"] - times["inference"]) <= 2
            assert times["compute"] + times["queue"] <= times["total"] + 2

    def test_many_at_once_get_their_own(self, server):
        texts = [" ".join(TEXT.split()[: 1 + i % 5]) for i in range(40)]
        alone = {text: server.post("/embed", {"inputs": text}).works()[0] for text in set(texts)}
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            for text, found in zip(texts, pool.map(lambda text: server.post("/embed", {"inputs": text}).works()[0], texts)):
                close(found, alone[text])


class TestSafety:
    def test_hosts_and_origins(self, server):
        for host in ("localhost", "127.0.0.1:1", "[::1]:80"):
            assert server.get("/info", Host=host).status == 200
        server.get("/info", Host="evil.example").refused(403, "Validation", "--allowed-host")
        server.post("/embed", {"inputs": "a"}, Origin="http://evil.example").refused(403, "Validation", "--cors-allow-origin")
        own = f"http://127.0.0.1:{server.port}"
        answer = server.post("/embed", {"inputs": "a"}, Origin=own, Host=own[7:])
        assert answer.status == 200 and "access-control-allow-origin" not in answer.headers

    def test_key(self, folders, tmp_path):
        (tmp_path / "key").write_text("secret\n")
        server = Server(folders["vectors"], "--api-key-file", tmp_path / "key", "--cors-allow-origin", "http://a.example")
        try:
            for path in ("/", "/health", "/ping", "/metrics"):
                assert server.get(path).status == 200
            for key in (None, "Bearer wrong!", "Bearer secre", "secret", "Bearer secret2"):
                headers = {"Authorization": key} if key else {}
                server.post("/embed", {"inputs": "a"}, **headers).refused(401, "Validation")
                server.post("/", {"inputs": "a"}, **headers).refused(401, "Validation")
                server.get("/info", **headers).refused(401, "Validation")
            answer = server.post("/embed", {"inputs": "a"}, Authorization="Bearer secret", Origin="http://a.example")
            assert answer.status == 200 and answer.headers["access-control-allow-origin"] == "http://a.example"
            assert not [line for line in server.log if "secret" in line or '"a"' in line]
        finally:
            assert server.stop() == 0

    def test_it_listens_to_loopback_alone(self, server):
        with socket.socket() as other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            other.settimeout(2)
            # No packet is sent: this asks which of our addresses the network would see.
            if route.connect_ex(("192.0.2.1", 9)) == 0:
                assert other.connect_ex((route.getsockname()[0], server.port)) != 0


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_it_reaches_nothing_but_loopback(folders, tmp_path):
    """Every address that the server binds, connects to or sends to is one of this machine; no socket is of another family."""
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-qq", "-e", "trace=%network", "-o", trace, BINARY, "serve", folders["vectors"], folders["masks"],
               "--port", "0", "--index", tmp_path / "index"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        address = process.stdout.readline().split()[-1]
        for path, body in (("/embed", {"inputs": TEXT}), ("/documents", {"name": "a", "text": TEXT}), ("/search", {"query": "he"}),
                           ("/fill-mask", {"inputs": "<mask>"}), ("/info", None), ("/", None), ("/openapi.json", None), ("/metrics", None)):
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(address + path, data, {"Content-Type": "application/json", "Accept": "text/html"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.read()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
    calls = trace.read_text()
    places = re.findall(r'sa_family=(\w+)(?:, sin6?_port=htons\(\d+\))?(?:.*?inet_(?:addr|pton)\((?:AF_INET6, )?"([^"]+)")?', calls)
    assert "bind(" in calls and "listen(" in calls and ("AF_INET", "127.0.0.1") in places
    strangers = [(family, where) for family, where in places if family not in ("AF_INET", "AF_INET6") or where not in ("127.0.0.1", "::1")]
    assert not strangers, strangers
    assert set(re.findall(r"socket\((\w+)", calls)) <= {"AF_INET", "AF_INET6", "AF_UNIX"}
    assert "connect(" not in calls


class TestLife:
    def test_check_and_mistakes(self, folders):
        run = lambda *arguments: subprocess.run([BINARY, "serve", *map(str, arguments)], capture_output=True, text=True)
        done = run(folders["vectors"], "--check")
        assert done.returncode == 0 and done.stdout.startswith("vectors\t")
        assert run("nothing-there").returncode == 1
        assert run(folders["vectors"], folders["vectors"]).returncode == 1
        assert run(folders["classes"], "--index", "x").returncode == 2
        assert run(folders["vectors"], "--payload-limit", "many").returncode == 2
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = run(folders["vectors"], "--port", taken.getsockname()[1])
            assert done.returncode == 2 and "in use" in done.stderr and done.stderr.count("\n") == 1, done.stderr

    def test_flags_from_the_environment(self, folders):
        server = Server(folders["vectors"], env={"LONGFORMER_LONG": "refuse", "LONGFORMER_MAX_CLIENT_BATCH_SIZE": "2"})
        try:
            info = server.get("/info").works()
            assert info["long"] == "refuse" and info["max_client_batch_size"] == 2
        finally:
            assert server.stop() == 0

    def test_requests_under_way_are_answered_at_the_end(self, folders):
        server = Server(folders["vectors"])
        book = "he was the of and " * 20000
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            asked = [pool.submit(server.post, "/embed", {"inputs": book}) for _ in range(40)]
            while "te_request" in "" or server.get("/metrics").bytes.count(b"longformer_connections") == 0:
                time.sleep(0.01)
            time.sleep(0.5)
            server.process.send_signal(signal.SIGTERM)
            statuses = [one.result().status for one in asked]
        assert server.process.wait(60) == 0
        assert set(statuses) <= {200, 503} and statuses.count(200) >= 30

    def test_overload_is_told_at_once(self, folders):
        server = Server(folders["vectors"], "--max-concurrent-requests", 2)
        book = "he was the of and " * 60000
        try:
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                answers = [one.result() for one in [pool.submit(server.post, "/embed", {"inputs": book}) for _ in range(12)]]
            refused = [answer for answer in answers if answer.status == 429]
            assert refused and len(refused) < 12
            for answer in refused:
                answer.refused(429, "Overloaded", "overloaded")
                assert 1 <= int(answer.headers["retry-after"]) <= 120
        finally:
            server.stop()

    def test_a_client_that_leaves_frees_its_work(self, folders):
        server = Server(folders["vectors"])
        try:
            body = json.dumps({"inputs": "he was the of and " * 300000}).encode()
            with socket.create_connection((server.host, server.port)) as client:
                head = f"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                client.sendall(head.encode() + body)
                time.sleep(1)
            begin = time.monotonic()
            while b"longformer_cancelled_total 1" not in server.get("/metrics").bytes:
                assert time.monotonic() < begin + 5
                time.sleep(0.05)
        finally:
            assert server.stop() == 0

    def test_systemd_is_told(self, folders, tmp_path):
        path = str(tmp_path / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(10)
            server = Server(folders["vectors"], env={"NOTIFY_SOCKET": path})
            assert notify.recv(100) == b"READY=1"
            assert server.stop() == 0
            assert notify.recv(100) == b"STOPPING=1"
