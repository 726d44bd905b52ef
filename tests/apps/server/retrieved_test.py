"""`POST /qa` and `/summarize` with `retrieve`: what a search in the library finds is read, as the verbs do it."""

import pytest

from serve_test import FIXTURES, close, folders, server, verb  # noqa: F401 (fixtures)

TEXTS = {"a.txt": "he was in the house. she had been there. " * 12, "b.txt": "they were all with them. it was his. " * 12,
         "c.txt": "the house of her people. they would be here. " * 12}  # fmt: skip
QUESTION = "were her people there?"


@pytest.fixture(scope="module")
def ids(server):
    rows = {name: server.post("/documents", {"name": name, "text": text, "metadata": {"of": name[0]}}).works()["id"] for name, text in TEXTS.items()}
    yield rows
    for ident in rows.values():
        server.ask("DELETE", f"/documents/{ident}")


def asked(server, ids, path="/qa", **body):
    return server.post(path, {"question": QUESTION, "retrieve": 3, "around": 30, "documents": list(ids.values()), **body}).works()


def check(answer, ids, most=3):
    names = {ident: name for name, ident in ids.items()}
    assert 0 < len(answer["read"]) <= most
    for part in answer["read"]:
        assert names[part["document"]] == part["name"] and part["metadata"] == {"of": part["name"][0]}
        assert 0 <= part["start"] < part["end"] <= len(TEXTS[part["name"]])
    scores = [part["score"] for part in answer["read"]]
    assert scores == sorted(scores, reverse=True)
    for one in answer.get("answers", []):
        part = answer["read"][one["part"]]
        assert TEXTS[one["name"]][one["start"] : one["end"]] == one["answer"] and part["document"] == one["document"]
        assert part["start"] <= one["start"] and one["end"] <= part["end"]
    return answer


@pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])
def test_answers_of_documents(server, ids, mode):
    found = check(asked(server, ids, top_k=4, mode=mode), ids)
    ranks = [one["rank"] for one in found["answers"]]
    assert len(ranks) == 4 and ranks == sorted(ranks, reverse=True) and found["tokens"] > 0
    # One part alone has the answers that the route gives for its text.
    only = check(asked(server, ids, mode=mode, retrieve=1, top_k=2), ids, 1)
    part = only["read"][0]
    text = TEXTS[part["name"]][part["start"] : part["end"]]
    plain = server.post("/qa", {"question": QUESTION, "context": text, "top_k": 2}).works()["answers"]
    assert [(one["start"] - part["start"], one["answer"]) for one in only["answers"]] == [(one["start"], one["answer"]) for one in plain]
    close([one["rank"] for one in only["answers"]], [one["logit"] for one in plain])


def test_the_search_is_the_one_of_the_route(server, ids):
    hits = server.post("/search", {"query": QUESTION, "documents": list(ids.values()), "top_k": 3}).works()["hits"]
    found = asked(server, ids, around=0)
    for hit in hits:
        assert any(part["document"] == hit["document"] and part["start"] <= hit["start"] and hit["end"] <= part["end"] for part in found["read"])


def test_lengths_are_those_that_were_read(server, ids):
    """Parts longer than the reader are read in segments, or cut, and the answer says so as without a search."""
    text = TEXTS["a.txt"] * 40
    ident = server.post("/documents", {"name": "long", "text": text}).works()["id"]
    body = {"question": QUESTION, "retrieve": 60, "around": 100_000, "documents": [ident]}
    whole, cut = server.post("/qa", body).works(), server.post("/qa?long=truncate", body)
    plain = {query: server.post("/qa" + query, {"question": QUESTION, "context": text}).works() for query in ("", "?long=truncate")}
    for found, other in ((whole, plain[""]), (cut.works(), plain["?long=truncate"])):
        assert abs(found["tokens"] - other["tokens"]) <= 2 and abs(found["truncated"] - other["truncated"]) <= 2
        assert abs(found["segments"] - other["segments"]) <= 1
    assert int(cut.headers["x-truncated-tokens"]) == cut.json["truncated"] > 0
    server.ask("DELETE", f"/documents/{ident}")


def test_filters_and_documents_choose(server, ids):
    assert {part["name"] for part in asked(server, ids, filters={"of": "b"})["read"]} == {"b.txt"}
    assert {part["name"] for part in asked(server, {"c.txt": ids["c.txt"]})["read"]} == {"c.txt"}
    assert asked(server, ids, filters={"of": "nobody"})["answers"] == []
    assert {part["name"] for part in asked(server, ids, rerank="reranker")["read"]} <= set(TEXTS)


def test_units_of_javascript(server):
    text = "\U0001f600 " * 40 + "the house of her people. " * 5
    ident = server.post("/documents", {"name": "smiles", "text": text}).works()["id"]
    body = {"question": QUESTION, "retrieve": 2, "documents": [ident]}
    plain, units = (server.post("/qa" + query, body).works() for query in ("", "?offsets=utf16"))
    for one, other in zip(plain["answers"] + plain["read"], units["answers"] + units["read"]):
        assert [other["start"], other["end"]] == [len(text[:place].encode("utf-16-le")) // 2 for place in (one["start"], one["end"])]
    server.ask("DELETE", f"/documents/{ident}")


def test_summaries(server, ids):
    more = {"max_new_tokens": 12}
    found = check(asked(server, ids, "/summarize", **more), ids)
    # Documents by their best part, parts in their order.
    order = list(dict.fromkeys(part["name"] for part in found["read"]))
    parts = sorted(found["read"], key=lambda part: (order.index(part["name"]), part["start"]))
    text = "\n\n".join(TEXTS[part["name"]][part["start"] : part["end"]] for part in parts)
    assert server.post("/summarize", {"inputs": text, **more}).works()["summary_text"] == found["summary_text"]
    events = server.post("/summarize", {"question": QUESTION, "retrieve": 3, "around": 30, "documents": list(ids.values()), "stream": True, **more})
    assert b"event: done" in events.bytes and b'"read"' in events.bytes


@pytest.mark.parametrize("path, change, status, words", [
    ("/qa", {"context": "a"}, 422, "`context`"), ("/qa", {"document": "x"}, 422, "`document`"), ("/qa", {"retrieve": 0}, 422, "retrieve"),
    ("/qa", {"retrieve": "many"}, 422, "retrieve"), ("/qa", {"around": -1}, 422, "around"), ("/qa", {"no_answer": True}, 422, "no_answer"),
    ("/qa", {"question": ""}, 400, "question"), ("/qa", {"documents": ["nobody"]}, 404, "nobody"), ("/qa", {"filters": {"yaer": 1}}, 422, "filters"),
    ("/qa", {"mode": "guess"}, 422, "mode"), ("/summarize", {"inputs": "a"}, 422, "`inputs`"), ("/summarize", {"question": None}, 422, "question"),
    ("/summarize", {"question": "zzz", "mode": "words"}, 422, "found none"), ("/qa", {"question": "he was " * 9000}, 422, "`question`"),
    ("/qa", {"retrieve": "3"}, 422, "`retrieve`: expected a whole number"),
])  # fmt: skip
def test_wrong_requests_are_told(server, ids, path, change, status, words):
    body = {"question": QUESTION, "retrieve": 2, **change}
    server.post(path, body).refused(status, "Empty" if status == 400 else "Validation", words)


def test_the_answers_are_those_of_the_verb(server, ids, folders, tmp_path):
    """An index of passages that are as long as those of the library."""
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    index = ["--index", tmp_path / "index"]
    verb("search", folders["vectors"], *(tmp_path / name for name in TEXTS), *index, "--query", "a", "--passage-tokens", 18, "--json")
    flags = ["--embedder", folders["vectors"], "--retrieve", "3", "--around", "30", "--top-k", "3", "--question", QUESTION, "--json"]
    (row,) = verb("qa", folders["answers"], *index, *flags)
    found = asked(server, ids, top_k=3)
    assert [(one["name"], one["start"], one["end"]) for one in found["answers"]] == [
        (one["file"].rsplit("/", 1)[-1], one["begin"], one["end"]) for one in row["answers"]]  # fmt: skip


def test_places_of_documents(server):
    body = (FIXTURES / "documents" / "animals.epub").read_bytes()
    ident = server.ask("POST", "/documents?name=animals", body, {"Content-Type": "application/epub+zip"}).works()["id"]
    found = server.post("/qa", {"question": "Who is Minka?", "retrieve": 2, "documents": [ident]}).works()
    assert all(one["place"]["unit"] == "chapter" for one in found["answers"] + found["read"])
    server.ask("DELETE", f"/documents/{ident}")


@pytest.mark.parametrize("path", ["/qa", "/summarize"])
@pytest.mark.parametrize("field", [{"around": 5}, {"filters": {"of": "a"}}, {"mode": "words"}, {"documents": ["1"]}, {"rerank": ""}])
def test_options_of_a_search_need_one(server, path, field):
    body = {"question": "who?", "context": "he was", "inputs": "he was"} | field
    server.post(path, body).refused(422, "Validation", f"`{next(iter(field))}`: expected `retrieve`")


@pytest.mark.parametrize("path", ["/qa", "/search"])
def test_no_documents_are_not_all(server, ids, path):
    body = {"question": "who?", "query": "who?", "documents": []} | ({"retrieve": 2} if path == "/qa" else {})
    server.post(path, body).refused(422, "Validation", "`documents`: expected ids")
