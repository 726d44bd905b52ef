"""Metadata of documents of `longformer serve`, and filters of searches and lists."""

import json
import threading
import urllib.parse

import pytest

from library_test import pytestmark, served  # noqa: F401

STORY = "They were all there. She had one of them. It was his."
ROWS = [{"name": f"n{i}", "text": f"{STORY} Number {i}.", "metadata": {"year": 2010 + i, "author": ["Smith", "Jones"][i % 2], "tags": ["x"] * (i % 3)}}
        for i in range(8)]  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with served() as running:
        for row in ROWS:
            assert running.ask("/documents", row)["metadata"] == row["metadata"]
        yield running


def names(server, **body):
    answer = server.ask("/search", {"query": "They were there", "top_k": 20, **body})
    for hit in answer["hits"]:
        assert hit["metadata"] == ROWS[int(hit["name"][1:])]["metadata"]
    return sorted(hit["name"] for hit in answer["hits"])


@pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])
def test_hits_are_of_documents_that_match(server, mode):
    assert names(server, mode=mode) == [row["name"] for row in ROWS]
    for filters, wanted in [
        ({"year": {">=": 2012, "<": 2015}}, ["n2", "n3", "n4"]), (["year>=2012", "year<2015"], ["n2", "n3", "n4"]),
        ({"author": "Smith", "year": [2010, 2011, 2014]}, ["n0", "n4"]), ({"tags": "x", "author": {"~": "jo"}}, ["n1", "n5", "n7"]),
        ({"path": "n3"}, ["n3"]), ({"year": 1900}, []), ({}, [row["name"] for row in ROWS]), (None, [row["name"] for row in ROWS]),
    ]:  # fmt: skip
        assert names(server, mode=mode, filters=filters) == wanted, filters
    assert len(names(server, mode=mode, filters={"year": {">=": 2015}}, top_k=2)) == 2


def test_a_list_of_documents_that_match(server):
    filters = urllib.parse.quote(json.dumps({"author": "Jones"}))
    found = server.ask(f"/documents?filters={filters}")["documents"]
    assert sorted(one["name"] for one in found) == ["n1", "n3", "n5", "n7"] and found[0]["metadata"]["author"] == "Jones"
    assert len(server.ask("/documents")["documents"]) == len(ROWS)


@pytest.mark.parametrize("filters, words", [
    ({"yaer": 1}, "path, author, tags, year"), (["year"], "filters"), ("year=1", "filters"), (3, "filters"), ({"year": {"is": 1}}, "filters"),
    ({"year": None}, "filters"), ({"path": {">": "a"}}, "filters"),
])  # fmt: skip
def test_wrong_filters_are_told(server, filters, words):
    status, answer = server.request("/search", {"query": "a", "filters": filters})
    assert status == 422 and words in answer["error"] and "`filters`" in answer["error"]
    address = urllib.parse.quote(json.dumps(filters))
    assert server.request(f"/documents?filters={address}")[0] == 422


def test_other_faults(server):
    assert server.request("/documents?filters=%7B")[0] == 422
    assert server.request("/documents", {"name": "a", "text": "b", "metadata": [1]})[0] == 422
    assert server.request("/search", {"query": "a", "texts": ["b"], "filters": {"year": 1}})[0] == 422
    deep = {"a": 1}
    for _ in range(60):
        deep = {"a": deep}
    assert server.request("/documents", {"name": "deep", "text": "deep text", "metadata": deep})[0] in (201, 400, 422)


def test_texts_of_the_body_and_the_same_text_again(tmp_path):
    with served("--index", str(tmp_path / "index")) as server:
        metadata = urllib.parse.quote('{"a": 1}')
        one = server.ask(f"/documents?name=x&metadata={metadata}", STORY.encode(), headers={"Content-Type": "text/plain"})
        assert one["metadata"] == {"a": 1}
        again = server.ask("/documents", {"name": "y", "text": STORY, "metadata": {"a": 2}})
        assert again["id"] == one["id"] and again["metadata"] == {"a": 2}
        assert server.ask("/documents", {"name": "y", "text": STORY})["metadata"] == {"a": 2}
    with served("--index", str(tmp_path / "index")) as server:
        assert server.ask("/search", {"query": "They", "filters": {"a": 2}})["hits"][0]["metadata"] == {"a": 2}


def test_documents_that_are_being_read_are_filtered_too():
    """A long text is found by its parts while it is read, by the metadata that it will have."""
    with served() as server:
        server.ask("/documents", {"name": "other", "text": STORY, "metadata": {"kind": "short"}})
        seen = []
        text = " ".join(f"They were all there {i} times." for i in range(60000))
        reader = threading.Thread(target=lambda: server.ask("/documents", {"name": "long", "text": text, "metadata": {"kind": "long"}}))
        reader.start()
        while reader.is_alive():
            hits = server.request("/search", {"query": "They were", "filters": {"kind": "long"}})[1].get("hits", [])
            seen += [hit["name"] for hit in hits if hit["metadata"] == {"kind": "long"}]
            assert {hit["name"] for hit in server.ask("/search", {"query": "They", "filters": {"path": "other"}})["hits"]} == {"other"}
        reader.join()
        assert set(seen) <= {"long"}
        assert {hit["name"] for hit in server.ask("/search", {"query": "They", "filters": {"kind": "long"}})["hits"]} == {"long"}
