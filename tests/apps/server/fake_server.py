"""A stand-in for `longformer serve`: the routes that its page needs, with words in place of meaning.

    python3 tests/apps/server/fake_server.py FILES…    serves the page on port 8080 with these documents

Tests use it for what a real server does rarely: no key, too much work, a full disk, slow reading, or an
end in the middle. Offsets are code points, as in Python's strings.
"""

import base64
import hashlib
import http.server
import json
import pathlib
import re
import secrets
import sys
import threading
import time
import urllib.parse

PAGE = pathlib.Path(__file__).resolve().parents[3] / "apps" / "server" / "page.html"
EMBEDDER = {"name": "tiny-embedder", "head": "embedding", "max_tokens": 512, "routes": ["/embed", "/search", "/compare", "/attention"]}
READER = {"name": "tiny-qa", "head": "question_answering", "max_tokens": 4096, "routes": ["/qa"]}
WRITER = {"name": "tiny-led", "head": "summary", "max_tokens": 16384, "routes": ["/summarize"]}
ALL_MODELS = (EMBEDDER, READER, WRITER)
PASSAGE_CHARACTERS = 500


def policy(page):
    """The Content-Security-Policy header: exactly one script and one style may run."""
    def digest(tag):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return (f"default-src 'none'; script-src 'sha256-{digest('script')}'; style-src 'sha256-{digest('style')}'; "
            "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")


def words_of(text):
    return {word[:6] for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def passages_of(text):
    """Spans of about 500 characters that end with a sentence or a line."""
    spans, start = [], 0
    while start < len(text):
        end = min(len(text), start + PASSAGE_CHARACTERS)
        if end < len(text):
            ends = [m.end() for m in re.finditer(r"[.!?]”?\s|\n", text[start:end])]
            end = start + (ends[-1] if ends else PASSAGE_CHARACTERS)
        inner = text[start:end]
        if inner.strip():
            first = start + len(inner) - len(inner.lstrip())
            spans.append((first, start + len(inner.rstrip())))
        start = end
    return spans


class Refused(Exception):
    def __init__(self, status, message, headers=()):
        super().__init__(message)
        self.status, self.headers = status, dict(headers)


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A browser that goes away is no error."""


class FakeServer:
    """Listens from its creation to `stop`; its attributes may be changed by tests while it runs."""

    def __init__(self, models=ALL_MODELS, port=0, delay=0.0):
        self.models, self.delay = models, delay
        self.key = None          # the key that requests must have
        self.refusals = []       # (path, status, headers) that are answered once, first
        self.slow = {}           # seconds that the search of a question takes
        self.cancelled = 0
        self.requests = []       # (method, path) of all requests
        self.documents = {}
        handler = type("BoundHandler", (Handler,), {"fake": self})
        self._listener = Listener(("127.0.0.1", port), handler)
        self.port = self._listener.server_port
        self.address = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self._listener.shutdown()
        self._listener.server_close()

    def add(self, name, text):
        """Reads a document; yields the number of passages that were read, of how many."""
        for document in self.documents.values():
            if document["text"] == text and document["done"]:
                yield document, 1, 1
                return
        spans = passages_of(text)
        document = {"id": secrets.token_hex(16), "name": name, "text": text, "spans": [], "done": False, "began": time.monotonic()}
        self.documents[document["id"]] = document
        steps = 20 if self.delay else 1
        try:
            for step in range(1, steps + 1):
                time.sleep(self.delay)
                document["spans"] = spans[:len(spans) * step // steps]
                yield document, step, steps
            document["done"] = True
        finally:
            if not document["done"]:
                del self.documents[document["id"]]

    def put(self, name, text):
        for document, _, _ in self.add(name, text):
            pass
        return document["id"]

    def facts(self, document):
        return {"id": document["id"], "name": document["name"], "characters": len(document["text"]), "tokens": len(document["text"]) // 4,
                "passages": len(document["spans"]), "seconds": round(time.monotonic() - document["began"], 3)}

    def document(self, ident):
        if ident not in self.documents:
            raise Refused(404, "no such document")
        return self.documents[ident]

    def search(self, body):
        time.sleep(self.slow.get(body["query"], 0))
        asked = words_of(body["query"])
        chosen = [self.document(i) for i in body["documents"]] if body.get("documents") else list(self.documents.values())
        hits, passages = [], 0
        for document in chosen:
            passages += len(document["spans"])
            for start, end in document["spans"]:
                text = document["text"][start:end]
                common = asked & words_of(text)
                if common:
                    score = len(common) / len(asked)
                    matched = [[m.start(), m.end()] for m in re.finditer(r"\w+", text) if words_of(m[0]) & common]
                    hits.append({"document": document["id"], "name": document["name"], "start": start, "end": end, "score": score,
                                 "cosine": score, "words": score, "text": text, "matched": matched})
        hits.sort(key=lambda hit: -hit["score"])
        return {"hits": hits[:body.get("top_k", 10)], "passages": passages, "seconds": 0.001}

    def compare(self, body):
        one, other = self.document(body["a"]), self.document(body["b"])
        words = {id(d): [words_of(d["text"][s:e]) for s, e in d["spans"]] for d in (one, other)}
        span = lambda d, i: dict(zip(("start", "end"), d["spans"][i]))
        alike = lambda a, b: len(a & b) / max(1, len(a | b))
        pairs, only_a, seen = [], [], set()
        for i, mine in enumerate(words[id(one)]):
            score, j = max((alike(mine, theirs), -j) for j, theirs in enumerate(words[id(other)]))
            if score > 0.1 and -j not in seen:
                seen.add(-j)
                pairs.append({"a": span(one, i), "b": span(other, -j), "score": score})
            else:
                only_a.append(span(one, i))
        only_b = [span(other, j) for j in range(len(other["spans"])) if j not in seen]
        return {"score": 0.5, "pairs": pairs, "only_a": only_a, "only_b": only_b}

    def answer(self, body):
        text = self.document(body["document"])["text"] if "document" in body else body["context"]
        asked, answers = words_of(body["question"]), []
        for match in re.finditer(r"[^.!?]{10,400}", text):
            common = len(asked & words_of(match[0]))
            words = [m for m in re.finditer(r"\w[\w’'-]*", match[0]) if not words_of(m[0]) & asked]
            if common and len(words) > 3:
                start, end = match.start() + words[1].start(), match.start() + words[3].end()
                answers.append({"answer": text[start:end], "score": min(0.9, common / (len(asked) + 0.5)), "logit": float(common), "start": start, "end": end})
        answers.sort(key=lambda answer: -answer["logit"])
        return {"answers": answers[:body.get("top_k", 1)], "no_answer_score": 0.05, "tokens": len(text) // 4, "truncated": 0, "segments": 1}

    def attention(self, body):
        text, layer, head = body["inputs"], body.get("layers", [0])[0], body.get("heads", ["mean"])[0]
        tokens = [{"text": m[0], "start": m.start(), "end": m.end(), "special": False, "global": False} for m in re.finditer(r"\w+|[^\w\s]", text)]
        tokens = [{"text": "[CLS]", "start": 0, "end": 0, "special": True, "global": True}, *tokens]
        rows = []
        for i in range(len(tokens)):
            keys = {(i + by * (layer + 1)) % len(tokens): 0.5 / (n + 1) for n, by in enumerate((0, -1, 2, -5, 9, -14))}
            rows.append([[key, weight] for key, weight in sorted(keys.items(), key=lambda item: -item[1])])
        return {"tokens": tokens, "layers": 3, "heads": 2, "maps": {f"{layer},{head}": rows}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake = None

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.respond(self.get)

    def do_POST(self):
        self.respond(self.post)

    def do_DELETE(self):
        self.respond(self.delete)

    def respond(self, action):
        url = urllib.parse.urlsplit(self.path)
        self.fake.requests.append((self.command, self.path))
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        try:
            self.check(url.path)
            if action == self.post:
                if self.headers.get("Content-Type") == "application/pdf":
                    raise Refused(422, "a.pdf: expected the program pdftotext, which reads PDF, found none")
                if self.headers.get("Content-Type") != "application/json":
                    raise Refused(415, "expected application/json")
                action(url.path, json.loads(raw))
            else:
                action(url.path, dict(urllib.parse.parse_qsl(url.query)))
        except Refused as refused:
            self.send_json({"error": str(refused), "error_type": "Validation"}, refused.status, refused.headers)
        except (BrokenPipeError, ConnectionResetError):
            self.fake.cancelled += 1
            self.close_connection = True

    def check(self, path):
        for refusal in list(self.fake.refusals):
            if path.startswith(refusal[0]):
                self.fake.refusals.remove(refusal)
                raise Refused(refusal[1], refusal[2], refusal[3] if len(refusal) > 3 else {})
        open_paths = ("/", "/health", "/metrics")
        if self.fake.key and path not in open_paths and self.headers.get("Authorization") != f"Bearer {self.fake.key}":
            raise Refused(401, "a key is needed")

    def send_bytes(self, content, kind, status=200, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def send_json(self, value, status=200, headers=()):
        self.send_bytes(json.dumps(value).encode(), "application/json", status, headers)

    def stream(self, events):
        """Server-sent events; the connection ends with them."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for event, data in events:
                self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()
        finally:
            events.close()

    def get(self, path, query):
        fake = self.fake
        if path == "/":
            page = PAGE.read_text(encoding="utf-8")
            self.send_bytes(page.encode(), "text/html; charset=utf-8", headers={
                "Content-Security-Policy": policy(page), "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"})
        elif path == "/info":
            self.send_json({"model_id": "tiny", "models": list(fake.models), "version": "0", "index": None})
        elif path == "/health":
            self.send_bytes(b"", "text/plain")
        elif path == "/metrics":
            self.send_bytes(f"longformer_cancelled_total {fake.cancelled}\n".encode(), "text/plain")
        elif path == "/documents":
            self.send_json({"documents": [fake.facts(d) for d in fake.documents.values() if d["done"]]})
        elif match := re.fullmatch(r"/documents/(\w+)/text", path):
            text = fake.document(match[1])["text"]
            start, end = max(0, int(query.get("start", 0))), min(len(text), int(query.get("end", len(text))))
            self.send_json({"text": text[start:end], "start": start, "end": end})
        elif match := re.fullmatch(r"/documents/(\w+)", path):
            self.send_json(fake.facts(fake.document(match[1])))
        else:
            raise Refused(404, "no such route")

    def post(self, path, body):
        fake = self.fake
        if path == "/documents":
            self.take(body)
        elif path == "/search":
            self.send_json(fake.search(body))
        elif path == "/compare":
            self.send_json(fake.compare(body))
        elif path == "/qa":
            self.send_json(fake.answer(body))
        elif path == "/attention":
            self.send_json(fake.attention(body))
        elif path == "/summarize":
            self.stream(self.summary(body))
        else:
            raise Refused(404, "no such route")

    def take(self, body):
        if "text/event-stream" not in self.headers.get("Accept", ""):
            ident = self.fake.put(body["name"], body["text"])
            self.send_json(self.fake.facts(self.fake.documents[ident]), 201)
            return

        def events():
            for document, step, steps in self.fake.add(body["name"], body["text"]):
                yield "progress", {"tokens_done": step, "tokens_total": steps}
            yield "done", self.fake.facts(document)
        self.stream(events())

    def summary(self, body):
        text = self.fake.document(body["document"])["text"]
        middle = len(text) // 3
        chosen = re.findall(r"[A-Z][^.!?\n]{30,120}(?:\n[^.!?\n]{0,120})?[.!?]", text[middle:])[:4]
        whole = " ".join(re.sub(r"\s+", " ", sentence) for sentence in chosen)
        for index, word in enumerate(re.findall(r"\S+\s*", whole)):
            time.sleep(self.fake.delay)
            yield "token", {"index": index, "text": word}
        yield "done", {"summary_text": whole, "tokens_in": len(text) // 4, "tokens_out": 60, "finish_reason": "stop"}

    def delete(self, path, query):
        match = re.fullmatch(r"/documents/(\w+)", path)
        if not match:
            raise Refused(405, "no such method")
        del self.fake.documents[self.fake.document(match[1])["id"]]
        self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    server = FakeServer(port=8080)
    for argument in sys.argv[1:]:
        server.put(pathlib.Path(argument).name, pathlib.Path(argument).read_text(encoding="utf-8"))
    print(f"listening on {server.address}", flush=True)
    threading.Event().wait()
