"""Clients of other projects against `longformer serve`: examples/clients, vectors, errors, keys, retries.

`make clients` makes the environment that has these packages (requirements/clients.txt) and runs this file in it.
Everywhere else its tests are skipped.
"""

import contextlib
import http.server
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
from tensors import keep_one_class

PACKAGES = ("openai", "huggingface_hub", "langchain_openai", "llama_index", "haystack", "cohere", "schemathesis")
HAS_CLIENTS = all(importlib.util.find_spec(name) for name in PACKAGES)
pytestmark = pytest.mark.skipif(not HAS_CLIENTS, reason="no clients of other projects: make clients")

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests" / "fixtures"
EXAMPLES = ROOT / "examples" / "clients"
BINARY = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
TEXTS = ["The hound ran over the moor.", "The Martians built a machine.", "Alice fell into the rabbit hole."]
QUESTION = "Where did the dog run?"
TOLERANCE = 1e-6

if HAS_CLIENTS:
    # LlamaIndex brings the tables of OpenAI's tokenizer, which LangChain would download.
    core = pathlib.Path(importlib.util.find_spec("llama_index.core").origin).parent
    os.environ.update(TIKTOKEN_CACHE_DIR=str(core / "_static" / "tiktoken_cache"), HAYSTACK_TELEMETRY_ENABLED="False",
                      HF_HUB_OFFLINE="0", HF_HUB_DISABLE_TELEMETRY="1")  # fmt: skip


class Server:
    """`longformer serve` on a free port."""

    def __init__(self, *arguments, **environment):
        self.process = subprocess.Popen([BINARY, "serve", *map(str, arguments), "--port", "0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=os.environ | environment)  # fmt: skip
        first = self.process.stdout.readline()
        assert first.startswith("listening on http://"), first
        self.address = first.split()[-1].rstrip("/")

    def ask(self, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"} | headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0


@contextlib.contextmanager
def serving(*arguments, **environment):
    server = Server(*arguments, **environment)
    try:
        yield server
    finally:
        server.stop()


def with_one_class(source, target):
    """A cross-encoder: a classifier whose head keeps the weights of its first class."""
    target.mkdir()
    for file in source.glob("*token*"):
        (target / file.name).write_bytes(file.read_bytes())
    (target / "vocab.txt").write_bytes((source / "vocab.txt").read_bytes())
    keep_one_class(source, target)
    return target


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model of each head, with room for sentences."""
    made = tmp_path_factory.mktemp("models")
    classifier = FIXTURES / "tiny_longformer_classifier"
    sources = {"embed": FIXTURES / "tiny_bert", "classes": classifier, "ner": FIXTURES / "tiny_bert_tagger",
               "qa": FIXTURES / "tiny_longformer_qa", "rerank": with_one_class(classifier, made / "one_class")}  # fmt: skip
    for name, source in sources.items():
        subprocess.run([BINARY, "convert", source, made / name, "--max-positions", "600", "--window", "16"],
                       check=True, capture_output=True)  # fmt: skip
    for name, source in (("led", "tiny_led"), ("mask", "tiny_roberta")):
        (made / name).mkdir()
        for file in [*(FIXTURES / source).iterdir(), *(FIXTURES / "tiny_roberta" / one for one in ("vocab.json", "merges.txt"))]:
            (made / name / file.name).write_bytes(file.read_bytes())
    return {name: made / name for name in (*sources, "led", "mask")}


@pytest.fixture(scope="module")
def server(folders):
    with serving(*(f"{name}={folder}" for name, folder in folders.items())) as one:
        yield one


def run_example(name, address, *arguments):
    command = [sys.executable, EXAMPLES / f"{name}_client.py", address, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


def vectors(server, texts, **options):
    return server.ask("/embed", {"inputs": texts} | options)


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def largest_difference(found, wanted):
    assert len(found) == len(wanted) and all(len(a) == len(b) for a, b in zip(found, wanted, strict=True))
    return max(abs(x - y) for a, b in zip(found, wanted, strict=True) for x, y in zip(a, b, strict=True))


def scores_of(out):
    """The lines `0.1234  text` of an example."""
    return {text: float(score) for score, text in re.findall(r"(-?\d\.\d{4})  (.*)", out)}


def assert_scores(out, wanted):
    found = scores_of(out)
    assert list(found) == sorted(found, key=found.get, reverse=True)
    assert found.keys() == wanted.keys() and all(abs(found[text] - wanted[text]) <= 6e-5 for text in wanted)


# ---- the examples ----


def test_openai_example(server):
    out = run_example("openai", server.address)
    first, *others = vectors(server, [TEXTS[0], "A dog crossed the marsh.", TEXTS[1]])
    assert [float(score) for score in re.findall(r"^(-?\d\.\d{4})", out, re.M)] == pytest.approx(
        [dot(first, other) for other in others], abs=6e-5)  # fmt: skip


def cosines(server):
    question, *others = vectors(server, [QUESTION, *TEXTS])
    return {text: dot(question, other) for text, other in zip(TEXTS, others, strict=True)}


@pytest.mark.parametrize("name", ["langchain", "haystack"])
def test_searching_examples(server, name):
    assert_scores(run_example(name, server.address), cosines(server))


def test_llama_index_example(server):
    found, reranked = run_example("llama_index", server.address).split("reranked", 1)
    assert_scores(found, cosines(server))
    ranks = server.ask("/rerank", {"query": QUESTION, "texts": TEXTS})[:2]
    assert_scores(reranked, {TEXTS[rank["index"]]: rank["score"] for rank in ranks})


def test_cohere_example(server):
    ranks = server.ask("/rerank", {"query": QUESTION, "texts": TEXTS})[:2]
    assert_scores(run_example("cohere", server.address), {TEXTS[rank["index"]]: rank["score"] for rank in ranks})


@pytest.mark.parametrize(("name", "pattern"), [
    ("embed", r"vector: \(1, 16\)\n(similarity: -?\d\.\d{4}\n){2}"), ("classes", r"(class: (bad|fair|good) 0\.\d{4}\n){3}"),
    ("ner", r"(entity: '.+' is (PER|LOC), characters \d+ to \d+\n)*"), ("qa", r"answer: '.+', characters \d+ to \d+\n"),
    ("mask", r"(mask: '.+' 0\.\d{4}\n){5}"), ("led", r"summary: .*\n")])  # fmt: skip
def test_huggingface_hub_example(server, name, pattern):
    out = run_example("huggingface_hub", f"{server.address}/models/{name}")
    assert re.fullmatch(pattern, out), out


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
def test_commands_of_the_page(server):
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    commands = re.findall(r"^curl .*$", page, re.M)
    assert len(commands) == 12
    for command in commands:
        ours = command.replace("127.0.0.1:8080", server.address).replace("curl ", "curl --silent --show-error --fail-with-body ", 1)
        done = subprocess.run(ours, shell=True, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and json.loads(done.stdout), (command, done.stdout, done.stderr)


@pytest.mark.parametrize("name", ["openai", "cohere", "huggingface_hub"])
def test_classes_of_errors(name):
    """The table of docs/clients.md, on the answers of a server that gives each status."""
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8").split("## Errors")[1]
    rows = [re.findall(r"[^|` ]+", row) for row in re.findall(r"^\| \d.*$", page, re.M)]
    column = ["openai", "cohere", "huggingface_hub"].index(name) + 1
    assert len(rows) == 6
    for row in rows:
        with answering(int(row[0])) as address, pytest.raises(Exception, match="the reason") as failed:
            if name == "openai":
                import openai
                openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0).embeddings.create(model="any", input="a")
            elif name == "cohere":
                import cohere
                options = {"max_retries": 0}
                cohere.ClientV2(api_key="none", base_url=address).rerank(model="any", query="a", documents=["a"], request_options=options)
            else:
                import huggingface_hub
                huggingface_hub.InferenceClient(model=address).feature_extraction("a")
        assert type(failed.value).__name__ == row[column], row[0]


@contextlib.contextmanager
def answering(status):
    """A server that answers everything with one status, in the form of `longformer serve`."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"error": {"message": "the reason"}, "message": "the reason"} if "/v" in self.path else
                              {"error": "the reason", "error_type": "Validation"}).encode()  # fmt: skip
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# ---- vectors ----


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_openai_vectors(server, encoding):
    import openai
    options = {} if encoding is None else {"encoding_format": encoding}
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none") as client:
        reply = client.embeddings.create(model="text-embedding-3-small", input=TEXTS, **options)
        assert [one.index for one in reply.data] == [0, 1, 2] and reply.object == "list"
        assert reply.model == "text-embedding-3-small" and reply.usage.prompt_tokens == reply.usage.total_tokens > 10
        found = [one.embedding for one in reply.data]
        if encoding == "base64":
            import base64
            import struct
            found = [struct.unpack("<16f", base64.b64decode(one)) for one in found]
        assert largest_difference(found, vectors(server, TEXTS)) <= TOLERANCE
        short = client.embeddings.create(model="any", input=TEXTS[0], dimensions=4)
        assert largest_difference([short.data[0].embedding], vectors(server, TEXTS[:1], dimensions=4)) <= TOLERANCE
        assert [model.id for model in client.models.list()] == ["embed", "classes", "ner", "qa", "rerank", "led", "mask"]


@pytest.mark.parametrize("texts", [["he was at the", "it is his", "for the"], TEXTS, ["xyzzy"]], ids=["known", "some unknown", "all unknown"])
def test_ids_of_the_own_tokenizer(server, texts):
    """A vocabulary of 58 tokens knows few words."""
    import openai
    tokens = server.ask("/tokenize", {"inputs": texts, "add_special_tokens": False})
    ids = [[token["id"] for token in one] for one in tokens]
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none") as client:
        reply = client.embeddings.create(model="any", input=ids)
    assert largest_difference([one.embedding for one in reply.data], vectors(server, texts)) <= TOLERANCE


def test_langchain_sends_a_thousand_texts_at_once(server):
    import langchain_openai
    texts = [f"{text} {n}" for n in range(334) for text in TEXTS][:1000]
    embeddings = langchain_openai.OpenAIEmbeddings(base_url=f"{server.address}/v1", api_key="none", model="any",
                                                   check_embedding_ctx_length=False)  # fmt: skip
    found = embeddings.embed_documents(texts)
    assert largest_difference(found, vectors(server, texts)) <= TOLERANCE


def test_ids_of_langchain_are_refused(server):
    import langchain_openai
    import openai
    embeddings = langchain_openai.OpenAIEmbeddings(base_url=f"{server.address}/v1", api_key="none", model="any")
    with pytest.raises((openai.UnprocessableEntityError, openai.BadRequestError), match="check_embedding_ctx_length=False"):
        embeddings.embed_documents(TEXTS)


def test_llama_index_vectors(server):
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
    wanted = vectors(server, TEXTS)
    for embedder in (TextEmbeddingsInference("any", base_url=server.address),
                     OpenAILikeEmbedding("any", api_base=f"{server.address}/v1", api_key="none")):  # fmt: skip
        assert largest_difference(embedder.get_text_embedding_batch(TEXTS), wanted) <= TOLERANCE
        assert largest_difference([embedder.get_query_embedding(TEXTS[0])], wanted[:1]) <= TOLERANCE


@pytest.mark.parametrize("path", ["", "/models/embed"])
def test_huggingface_hub_vectors(server, path):
    import huggingface_hub
    client = huggingface_hub.InferenceClient(model=server.address + path)
    assert largest_difference(client.feature_extraction(TEXTS).tolist(), vectors(server, TEXTS)) <= TOLERANCE
    plain = client.feature_extraction(TEXTS[0], normalize=False)
    assert largest_difference(plain.tolist(), vectors(server, TEXTS[0], normalize=False)) <= TOLERANCE
    found = client.sentence_similarity(TEXTS[0], TEXTS[1:])
    first, *others = vectors(server, TEXTS)
    assert found == pytest.approx([dot(first, other) for other in others], abs=TOLERANCE)


def test_huggingface_hub_options(server):
    import huggingface_hub
    def client(name):
        return huggingface_hub.InferenceClient(model=f"{server.address}/models/{name}")
    best = client("classes").text_classification(TEXTS[0], top_k=1)
    assert [one.label for one in best] == [server.ask("/predict", {"inputs": TEXTS[0]})[0]["label"]]
    raw = client("classes").text_classification(TEXTS[0], function_to_apply="none")
    wanted = server.ask("/predict", {"inputs": TEXTS[0], "raw_scores": True})
    assert [one.score for one in raw] == pytest.approx([one["score"] for one in wanted], abs=TOLERANCE)
    answers = client("qa").question_answering(question=QUESTION, context=" ".join(TEXTS), top_k=3, max_answer_len=4)
    assert len(answers) == 3 and all(" ".join(TEXTS)[one.start : one.end] == one.answer for one in answers)
    words = client("ner").token_classification(TEXTS[0], aggregation_strategy="none")
    assert all(TEXTS[0][one.start : one.end] == one.word and one.entity != "O" for one in words)
    masks = client("mask").fill_mask("The <mask> ran.", top_k=2)
    assert len(masks) == 2 and masks[0].score >= masks[1].score
    similar = client("mask").sentence_similarity(TEXTS[0], TEXTS[1:])
    assert len(similar) == 2


def test_cohere_and_tei_rank_alike(server):
    import cohere
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference
    client = cohere.ClientV2(api_key="none", base_url=server.address)
    ranks = [(one.index, one.relevance_score) for one in client.rerank(model="rerank-v4.0", query=QUESTION, documents=TEXTS).results]
    nodes = [NodeWithScore(node=TextNode(text=text), score=0) for text in TEXTS]
    ranked = TextEmbeddingInference(base_url=server.address, top_n=3).postprocess_nodes(nodes, query_str=QUESTION)
    assert [TEXTS[index] for index, _ in ranks] == [one.text for one in ranked]
    assert [score for _, score in ranks] == pytest.approx([one.score for one in ranked], abs=TOLERANCE)


def test_cohere_passages(server):
    import cohere
    client = cohere.ClientV2(api_key="none", base_url=server.address)
    text = " ".join(f"Chapter {n}. {sentence}" for n, sentence in enumerate(TEXTS * 60))
    options = {"model": "rerank-v5", "query": QUESTION, "documents": [*TEXTS, text], "top_n": 4}
    spans = cohere.RerankRelevantSpans(mode="enabled", threshold=0, max_spans=3)
    ranks = {one.index: one for one in client.rerank(**options, relevant_spans=spans).results}
    assert len(ranks) == 4 and all(1 <= len(one.relevant_spans) <= 3 for one in ranks.values())
    for span in ranks[3].relevant_spans:
        alone = client.rerank(**options | {"documents": [text[span.start : span.end]]}).results[0].relevance_score
        assert span.score == pytest.approx(alone, abs=1e-5)
    cut = {one.index: one.relevance_score for one in client.rerank(**options, max_tokens_per_doc=4).results}
    assert cut != {index: one.relevance_score for index, one in ranks.items()}


def test_haystack_vectors(server):
    from haystack import Document
    from haystack.components.embedders import OpenAIDocumentEmbedder
    from haystack.utils import Secret
    embedder = OpenAIDocumentEmbedder(api_base_url=f"{server.address}/v1", api_key=Secret.from_token("none"), model="any",
                                      progress_bar=False)  # fmt: skip
    found = embedder.run([Document(content=text) for text in TEXTS])["documents"]
    assert largest_difference([one.embedding for one in found], vectors(server, TEXTS)) <= TOLERANCE


# ---- errors ----


def test_errors_of_openai(server):
    import openai
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none") as client:
        with pytest.raises(openai.BadRequestError, match="`input` cannot be empty"):
            client.embeddings.create(model="any", input="")
        with pytest.raises(openai.BadRequestError, match=r"`input\[1\]` cannot be empty"):
            client.embeddings.create(model="any", input=["a", ""])
        with pytest.raises(openai.UnprocessableEntityError, match="dimensions.*17") as failed:
            client.embeddings.create(model="any", input="a", dimensions=17)
        assert failed.value.body["code"] == 422 and failed.value.body["type"] == "Validation"
        with pytest.raises(openai.UnprocessableEntityError, match="batch size 2049 > maximum allowed batch size 2048"):
            client.embeddings.create(model="any", input=["a"] * 2049)
        with pytest.raises(openai.UnprocessableEntityError, match="truncate"):
            client.embeddings.create(model="any", input="word " * 2000, extra_query={"long": "refuse"})
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="any", messages=[])


def test_errors_of_cohere(server):
    import cohere
    client = cohere.ClientV2(api_key="none", base_url=server.address)
    with pytest.raises(cohere.BadRequestError, match="`documents` cannot be empty"):
        client.rerank(model="rerank-v4.0", query="a", documents=[])
    with pytest.raises(cohere.UnprocessableEntityError, match="top_n"):
        client.rerank(model="rerank-v4.0", query="a", documents=["a"], top_n=0)


def test_errors_of_huggingface_hub(server):
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError
    client = huggingface_hub.InferenceClient(model=server.address)
    with pytest.raises(HfHubHTTPError, match="`inputs` cannot be empty"):
        client.feature_extraction("")
    with pytest.raises(HfHubHTTPError, match="prompt_name"):
        client.feature_extraction("a", prompt_name="nobody's")
    with pytest.raises(HfHubHTTPError, match="nobody"):
        huggingface_hub.InferenceClient(model=f"{server.address}/models/nobody").feature_extraction("a")


def test_keys(folders, tmp_path):
    import cohere
    import huggingface_hub
    import openai
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
    (tmp_path / "key").write_text("secret\n")
    with serving(f"embed={folders['embed']}", f"rerank={folders['rerank']}", "--api-key-file", tmp_path / "key") as server:
        for key in ("", "other"):
            with openai.OpenAI(base_url=f"{server.address}/v1", api_key=key or "x") as client, pytest.raises(openai.AuthenticationError, match="key"):
                client.embeddings.create(model="any", input="a")
            with pytest.raises(cohere.UnauthorizedError):
                cohere.ClientV2(api_key=key or "x", base_url=server.address).rerank(model="rerank-v4.0", query="a", documents=["a"])
            with pytest.raises(huggingface_hub.errors.HfHubHTTPError, match="401"):
                huggingface_hub.InferenceClient(model=server.address, token=key or "x").feature_extraction("a")
        with openai.OpenAI(base_url=f"{server.address}/v1", api_key="secret") as client:
            wanted = client.embeddings.create(model="any", input="a").data[0].embedding
        assert cohere.ClientV2(api_key="secret", base_url=server.address).rerank(model="rerank-v4.0", query="a", documents=["a"]).results
        found = huggingface_hub.InferenceClient(model=server.address, token="secret").feature_extraction("a")
        assert largest_difference(found.tolist(), [wanted]) <= TOLERANCE
        found = TextEmbeddingsInference("any", base_url=server.address, auth_token="secret").get_text_embedding("a")
        assert largest_difference([found], [wanted]) <= TOLERANCE


def test_openai_comes_again_after_429(folders):
    import openai
    with serving(f"embed={folders['embed']}", "--max-concurrent-requests", "1") as server:
        texts = ["word " * 20_000] * 40
        busy = threading.Thread(target=vectors, args=(server, texts))
        with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none") as client:
            busy.start()
            time.sleep(0.5)
            failed = None
            while busy.is_alive() and failed is None:
                try:
                    client.with_options(max_retries=0).embeddings.create(model="any", input="a")
                except openai.RateLimitError as error:
                    failed = error
            assert failed is not None and "overloaded" in str(failed)
            assert 1 <= int(failed.response.headers["retry-after"]) <= 120
            began = time.monotonic()
            found = client.with_options(max_retries=8).embeddings.create(model="any", input="a").data[0].embedding
            busy.join()
        assert largest_difference([found], vectors(server, ["a"])) <= TOLERANCE
        assert time.monotonic() - began < 60


# ---- the own description ----


def test_the_description_is_kept(server, tmp_path):
    """Schemathesis draws requests from /openapi.json, right and wrong ones, and looks at the answers. A right
    request may be refused where no description can say why: a text without a mask, the name of an unknown model."""
    (tmp_path / "schemathesis.toml").write_text(
        '[checks]\n'
        'positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 422, 424, 429]\n'
        'negative_data_rejection.expected-statuses = ["4xx"]\n')  # fmt: skip
    command = [pathlib.Path(sys.executable).with_name("schemathesis"), "--config-file", tmp_path / "schemathesis.toml", "run",
               f"{server.address}/openapi.json", "--max-examples", os.environ.get("LONGFORMER_CASES", "60"), "--seed", "1",
               "--continue-on-failure", "--no-color"]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert server.process.poll() is None
    assert int(re.search(r"(\d+) generated", done.stdout)[1]) >= 4000
