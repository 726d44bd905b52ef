"""Documents of `longformer serve`: ids, names, offsets, streams, leaving, a full disk, a restart."""

import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

BINARY = os.environ.get("LONGFORMER_BINARY", "")
MODEL = pathlib.Path(__file__).parents[2] / "fixtures" / "sentence_dense"
STORY = "\U0001f600 They were all there. She had one of them.\r\n\r\nIt was his. \U0001d518nd so weiter, naïve \0 people.\n\u3000\n"
NOBODY = "0" * 32
DOCUMENTS = pathlib.Path(__file__).parents[2] / "fixtures" / "documents"

pytestmark = pytest.mark.skipif(not BINARY, reason="LONGFORMER_BINARY is not set")


class Server:
    def __init__(self, *options, limit=None):
        def prepare():
            if limit:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        self.process = subprocess.Popen([BINARY, "serve", MODEL, "--port", "0", *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, preexec_fn=prepare)
        self.address = self.process.stdout.readline().split()[-1]

    def close(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.communicate(timeout=30)

    def request(self, path, body=None, method=None, headers=()):
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json", **dict(headers)},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def ask(self, path, body=None, **options):
        status, answer = self.request(path, body, **options)
        assert status in (200, 201, 204), answer
        return answer

    def events(self, body, most=None):
        """The events of a document, or the first ones, after which the client leaves."""
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        request = urllib.request.Request(self.address + "/documents", json.dumps(body).encode(), headers)
        found, name = [], None
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            assert answer.headers["Cache-Control"] == "no-store" and answer.headers["X-Accel-Buffering"] == "no"
            for line in answer:
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key == "event":
                    name = value
                elif key == "data":
                    found.append((name, json.loads(value)))
                    if len(found) == most:
                        answer.fp.raw._sock.shutdown(socket.SHUT_RDWR)
                        return found
        return found


@contextlib.contextmanager
def served(*options, **more):
    server = Server(*options, **more)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def server():
    with served("--max-library", "40MiB") as running:
        yield running


def long_text(seed, megabytes):
    return "".join(f"{seed} {n}: one of them had more than the other, {n % 7} of all.\n" for n in range(18_000 * megabytes))


def test_the_same_text_is_one_document_and_names_are_labels(server):
    status, first = server.request("/documents", {"name": "../../etc/passwd", "text": STORY})
    assert status == 201 and len(first["id"]) == 32 and first["tokens"] > 0
    assert server.request("/documents", {"name": "again", "text": STORY}) == (200, first)
    second = server.ask("/documents", {"name": "../../etc/passwd", "text": STORY + " more"})
    assert second["name"] == "../../etc/passwd (2)" and second["id"] != first["id"]
    plain = server.ask("/documents?name=plain%20text", "Ein Text über alle.".encode(), headers=[("Content-Type", "text/plain; charset=utf-8")])
    assert plain["name"] == "plain text" and plain["characters"] == 19
    everything = server.ask("/documents")["documents"]
    assert {first["id"], second["id"], plain["id"]} <= {one["id"] for one in everything}
    assert server.ask(f"/documents/{first['id']}") == first


def test_files_are_documents_by_their_media_types(server):
    def put(name, body, media_type):
        return server.request(f"/documents?name={name}", body, headers=[("Content-Type", media_type)])

    word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    status, found = put("harbour", (DOCUMENTS / "harbour.docx").read_bytes(), word)
    assert status == 201 and found["name"] == "harbour" and found["characters"] > 100
    (hit,) = [hit for hit in server.ask("/search", {"query": "Ingrid", "documents": [found["id"]]})["hits"] if "Ingrid" in hit["text"]]
    assert hit["place"]["unit"] == "paragraph" and hit["place"]["last"] >= 7
    status, book = put("animals", (DOCUMENTS / "animals.epub").read_bytes(), "application/epub+zip")
    assert status == 201 and "Minka" in server.ask(f"/documents/{book['id']}/text")["text"]
    for body, media_type, reason in ((b"PK\3\4 and no more", word, "expected a zip archive"), (b"a b", word, "found bytes of another kind"),
                                     (b"%PDF-1.4 no", "application/pdf", "PDF")):
        status, refused = put("x", body, media_type)
        assert status == 422 and "x: " in refused["error"] and reason in refused["error"], refused
    status, refused = put("x", b"a b", "application/msword")
    assert status == 415 and "text/plain" in refused["error"] and "application/epub+zip" in refused["error"]
    # The bytes tell the kind of what is said to be text.
    status, same = put("animals", (DOCUMENTS / "animals.epub").read_bytes(), "text/plain")
    assert status == 200 and same["id"] == book["id"]


def test_offsets_count_code_points(server):
    ident = server.ask("/documents", {"name": "story", "text": STORY})["id"]
    whole = server.ask(f"/documents/{ident}/text")
    assert whole == {"text": STORY, "start": 0, "end": len(STORY)}
    for start in range(0, len(STORY), 5):
        for end in range(start, len(STORY), 3):
            assert server.ask(f"/documents/{ident}/text?start={start}&end={end}")["text"] == STORY[start:end]
    assert server.ask(f"/documents/{ident}/text?start=2&end=6") == {"text": "They", "start": 2, "end": 6}
    assert server.ask(f"/documents/{ident}/text?start=5&end=3")["text"] == ""
    assert server.ask(f"/documents/{ident}/text?start=1000")["text"] == ""
    for hit in server.ask("/search", {"query": "they were all", "documents": [ident], "top_k": 50})["hits"]:
        assert hit["document"] == ident and hit["text"] == STORY[hit["start"]:hit["end"]]
        assert all(hit["text"][begin:end].lower() in ("they", "were", "all") for begin, end in hit["matched"])


def units(text):
    return text.encode("utf-16-le", "surrogatepass")


def part_of_units(text, start, end):
    return units(text)[2 * start : 2 * end].decode("utf-16-le")


def test_offsets_count_units(server):
    """?offsets=utf16 counts as JavaScript does; half of a pair stands for the whole character."""
    text = STORY * 3
    ident = server.ask("/documents", {"name": "units", "text": text})["id"]
    other = server.ask("/documents", {"name": "others", "text": "\U0001f600 " + text})["id"]
    end = len(units(text)) // 2
    whole = server.ask(f"/documents/{ident}/text?offsets=utf16")
    assert whole == {"text": text, "start": 0, "end": end} and end > len(text)
    for start in range(0, end, 7):
        for stop in range(start, end + 3, 11):
            found = server.ask(f"/documents/{ident}/text?offsets=utf16&start={start}&end={stop}")
            assert found["text"] == part_of_units(text, found["start"], found["end"])
            assert found["start"] in (start, start - 1) and found["end"] in (min(stop, end), min(stop, end) + 1)
    assert server.ask(f"/documents/{ident}/text?offsets=utf16&start=3&end=7")["text"] == "They"
    assert server.ask(f"/documents/{ident}/text?offsets=utf16&start=1&end=1")["text"] in ("", text[0])
    question = {"query": "people naïve", "top_k": 9}
    for request in ({**question, "documents": [ident]}, {**question, "texts": ["", text][1:]}):
        plain, hits = (server.ask("/search" + query, request)["hits"] for query in ("", "?offsets=utf16"))
        assert hits and [hit["text"] for hit in hits] == [hit["text"] for hit in plain]
        assert [hit["start"] for hit in hits] != [hit["start"] for hit in plain]
        for hit in hits:
            assert hit["text"] == part_of_units(text, hit["start"], hit["end"])
            assert all(part_of_units(hit["text"], begin, stop).lower() in ("people", "naïve") for begin, stop in hit["matched"])
    plain, found = (server.ask("/compare" + query, {"a": ident, "b": other}) for query in ("", "?offsets=utf16"))
    assert found["pairs"] and len(found["pairs"]) == len(plain["pairs"])
    for pair, characters in zip(found["pairs"], plain["pairs"]):
        for side, whole in (("a", text), ("b", "\U0001f600 " + text)):
            assert part_of_units(whole, **pair[side]) == whole[characters[side]["start"] : characters[side]["end"]]


def test_the_limit_counts_bytes(tmp_path):
    """Also of the documents of an index file that another process has made."""
    text = "Über ähnliche Öfen. " * 200
    size = len(text.encode())
    with served("--index", str(tmp_path / "index"), "--max-library", str(size + 100)) as server:
        server.ask("/documents", {"name": "a", "text": text})
        assert server.request("/documents", {"name": "b", "text": "x" * 200})[0] == 413
        assert server.request("/documents", {"name": "c", "text": "it was"})[0] == 201
    with served("--index", str(tmp_path / "index"), "--max-library", str(size + 100)) as server:
        status, answer = server.request("/documents", {"name": "b", "text": "x" * 200})
        assert status == 413 and int(answer["error"].split("found ")[1].split()[0]) >= size + 200


def test_cosines_are_at_most_one(server):
    texts = [f"{word} of them had more, {n} of all" for n, word in enumerate(("one", "two", "three", "four") * 8)]
    for text in texts:
        for hit in server.ask("/search", {"query": text, "texts": texts, "mode": "dense", "top_k": 3})["hits"]:
            assert -1 <= hit["cosine"] <= 1 and hit["score"] <= 1
        assert max(server.ask("/similarity", {"inputs": {"source_sentence": text, "sentences": texts}})) <= 1


def test_search_in_what_is_sent(server):
    before = server.ask("/documents")
    found = server.ask("/search", {"query": "her", "texts": ["one of them", "it was her", "they said"], "mode": "words"})
    assert found["passages"] == 3 and [hit["document"] for hit in found["hits"]] == [1]
    assert "cosine" not in found["hits"][0] and found["hits"][0]["words"] > 0
    dense = server.ask("/search", {"query": "her", "texts": ["one of them", "it was her"], "mode": "dense"})["hits"]
    assert len(dense) == 2 and "words" not in dense[0]
    assert server.ask("/documents") == before


def test_compare(server):
    ids = [server.ask("/documents", {"name": "c", "text": text})["id"] for text in (STORY, "She went. " + STORY)]
    found = server.ask("/compare", {"a": ids[0], "b": ids[0]})
    assert abs(found["score"] - 1) < 1e-5 and not found["only_a"] and not found["only_b"]
    assert all(pair["a"] == pair["b"] for pair in found["pairs"])
    assert set(server.ask("/compare", {"a": ids[0], "b": ids[1]})) == {"score", "pairs", "only_a", "only_b"}


@pytest.mark.parametrize("path, body, status, words", [
    ("/documents", {"text": "x"}, 422, "`name`"),
    ("/documents", {"name": "x", "text": 5}, 422, "`text`"),
    ("/documents", {"name": "x", "text": ""}, 400, "`text`"),
    ("/documents", {"name": "x", "text": " \n "}, 400, "`text`"),
    ("/documents", {"name": "x" * 5000, "text": "x"}, 422, "`name`"),
    ("/documents", {"name": "x", "text": "x " * (21 << 20)}, 413, "full"),
    ("/search", {"query": ""}, 400, "`query`"),
    ("/search", {"query": ["x"]}, 422, "`query`"),
    ("/search", {"query": "x", "top_k": 0}, 422, "`top_k`"),
    ("/search", {"query": "x", "mode": "best"}, 422, "`mode`"),
    ("/search", {"query": "x", "documents": NOBODY}, 422, "`documents`"),
    ("/search", {"query": "x", "documents": [NOBODY]}, 404, NOBODY),
    ("/search", {"query": "x", "texts": []}, 400, "`texts`"),
    ("/search", {"query": "x", "texts": ["a", ""]}, 400, "`texts[1]`"),
    ("/search", {"query": "x " * 100, "truncate": False}, 422, "`query`"),
    ("/search?offsets=bytes", {"query": "x"}, 422, "`offsets`"),
    ("/compare", {"a": NOBODY, "b": NOBODY}, 404, NOBODY),
    ("/compare", {"a": NOBODY}, 422, "`b`")])
def test_refusals(server, path, body, status, words):
    found, answer = server.request(path, body)
    assert found == status and words in answer["error"] and answer["error_type"] in ("Validation", "Empty")


@pytest.mark.parametrize("method, path, status", [
    ("GET", f"/documents/{NOBODY}", 404), ("GET", "/documents/..%2F..%2Fetc", 404), ("DELETE", f"/documents/{NOBODY}", 404),
    ("GET", f"/documents/{NOBODY}/text?start=-1", 422), ("PUT", f"/documents/{NOBODY}", 405)])
def test_refused_addresses(server, method, path, status):
    assert server.request(path, method=method)[0] == status


def test_a_document_that_is_read(server):
    """Its stream, hits in it, its text, and no trace of it when the client leaves or deletes it."""
    text = "\U0001f600 " + long_text("read", 4)
    before = len(server.ask("/documents")["documents"])
    events, seen = [], []
    reader = threading.Thread(target=lambda: events.extend(server.events({"name": "long", "text": text})))
    reader.start()
    while reader.is_alive():
        hits = server.ask("/search", {"query": "read one of them", "mode": "dense", "top_k": 20})["hits"]
        hits = [hit for hit in hits if hit["name"] == "long"]
        listed = {one["id"] for one in server.ask("/documents")["documents"]}
        for hit in hits:
            assert hit["text"] == text[hit["start"]:hit["end"]]
            if hit["document"] not in listed:
                seen.append(hit)
                assert server.ask(f"/documents/{hit['document']}")["characters"] > 0
    reader.join()
    assert {name for name, _ in events[:-1]} == {"progress"} and events[-1][0] == "done"
    done = [data["tokens_done"] for _, data in events[:-1]]
    assert done == sorted(done) and done[-1] <= events[0][1]["tokens_total"] == events[-1][1]["tokens"]
    assert {data["id"] for _, data in events} == {events[-1][1]["id"]}
    assert seen, "no hit before the document was whole"
    assert server.events({"name": "once more", "text": text}) == [events[-1]]
    ident = server.events({"name": "left", "text": "left " + text}, most=2)[0][1]["id"]
    deadline = time.monotonic() + 30
    while server.request(f"/documents/{ident}")[0] != 404:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(server.ask("/documents")["documents"]) == before + 1
    server.ask(f"/documents/{events[-1][1]['id']}", method="DELETE")
    assert not [hit for hit in server.ask("/search", {"query": "read", "top_k": 50})["hits"] if hit["name"] in ("long", "left")]


def test_many_clients(server):
    def work(k, failures):
        try:
            for i in range(4):
                one = server.ask("/documents", {"name": "shared name", "text": f"client {k} has {i} of them"})
                server.ask("/search", {"query": f"client {k}", "documents": [one["id"]]})
                if i % 2:
                    server.ask(f"/documents/{one['id']}", method="DELETE")
        except Exception as error:   # noqa: BLE001  a thread's exceptions are shown by the test
            failures.append(error)

    failures = []
    threads = [threading.Thread(target=work, args=(k, failures)) for k in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    names = [one["name"] for one in server.ask("/documents")["documents"] if one["name"].startswith("shared name")]
    assert len(names) == 24 == len(set(names))


def test_ids_stay_with_the_index_file(tmp_path):
    index = tmp_path / "index"
    (tmp_path / "verb.txt").write_text("they said that it was his")
    with served("--index", index) as first:
        texts = (STORY, "all of them")
        ids = {first.ask("/documents", {"name": "a", "text": text})["id"] for text in texts}
        subprocess.run([BINARY, "search", MODEL, tmp_path / "verb.txt", "--index", index, "--query", "his"], check=True,
                       capture_output=True)
        documents = first.ask("/documents")["documents"]
        assert len(documents) == 3 and ids < {one["id"] for one in documents}
        [verb] = [one for one in documents if one["id"] not in ids]
        assert first.ask(f"/documents/{verb['id']}/text")["text"] == "they said that it was his"
    with served("--index", index) as second:
        assert {one["id"] for one in second.ask("/documents")["documents"]} == ids | {verb["id"]}
        assert second.request("/documents", {"name": "b", "text": "all of them"})[0] == 200
        # White space between passages is not kept, its length is.
        [story] = [one for one in second.ask("/documents")["documents"] if one["characters"] > 30]
        text = second.ask(f"/documents/{story['id']}/text")["text"]
        assert text.split() == STORY.split() and text == text[:STORY.index("people")] + STORY[STORY.index("people"):].rstrip()


def transferred(server):
    """Bytes that the server has read and written so far."""
    lines = pathlib.Path(f"/proc/{server.process.pid}/io").read_text().splitlines()
    counts = dict(line.split(": ") for line in lines)
    return int(counts["rchar"]) + int(counts["wchar"])


def test_a_document_costs_the_same_in_a_large_index(tmp_path):
    """In the first upload after a start, too."""
    costs, sizes = {}, {}
    for count in (10, 1510):
        data, index = tmp_path / f"{count}.jsonl", tmp_path / f"{count}.index"
        data.write_text("".join(json.dumps({"text": f"{n} " + "one of them had more than all the others, it was. " * 30}) + "\n" for n in range(count)))
        subprocess.run([BINARY, "search", MODEL, data, "--field", "text", "--passage-tokens", "16", "--index", index, "--query",
                        "his"], check=True, capture_output=True)
        sizes[count] = index.stat().st_size
        with served("--index", index) as server:
            # Texts that differ in length get their ids, names and places alike.
            for number, text in enumerate(("they said that it was his", "she had one of them", "they said that it was his")):
                before = transferred(server)
                server.ask("/documents", {"name": "new", "text": text})
                costs[count, number] = transferred(server) - before
            names = [one["name"] for one in server.ask("/documents")["documents"] if one["name"].startswith("new")]
            assert sorted(names) == ["new", "new (2)"]
    assert sizes[1510] > 4e6
    for number in range(3):
        assert costs[1510, number] < costs[10, number] + sizes[1510] / 40, (costs, sizes)


def test_documents_of_one_name_are_numbered(tmp_path):
    with served() as server:
        names = [server.ask("/documents", {"name": "a", "text": f"they were {n}"})["name"] for n in range(20)]
        assert names == ["a", *(f"a ({n})" for n in range(2, 21))]
        ids = {one["name"]: one["id"] for one in server.ask("/documents")["documents"]}
        server.ask(f"/documents/{ids['a (7)']}", method="DELETE")
        found = server.ask("/documents", {"name": "a", "text": "she had one"})["name"]
        assert found in ("a (7)", "a (21)")


def test_a_full_disk_costs_the_new_document_alone(tmp_path):
    with served("--index", tmp_path / "index", limit=300_000) as server:
        server.ask("/documents", {"name": "small", "text": "one of them"})
        status, answer = server.request("/documents", {"name": "large", "text": long_text("large", 1)})
        assert status == 507 and answer["error_type"] == "Backend"
        assert [one["name"] for one in server.ask("/documents")["documents"]] == ["small"]
        assert server.ask("/search", {"query": "one"})["hits"]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
