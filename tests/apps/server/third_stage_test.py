"""A reranker that scores what `POST /search` has found, as `search --rerank` does."""

import serve_test
from serve_test import close, folders, server  # noqa: F401 (fixtures)

QUERY, TEXTS = serve_test.TestRanking.QUERY, serve_test.TestRanking.TEXTS


def test_a_reranker_is_the_third_stage(server):
    ask = {"query": QUERY, "texts": TEXTS, "mode": "dense"}
    plain = server.post("/search", ask).works()["hits"]
    rows = server.post("/rerank", {"query": QUERY, "texts": [hit["text"] for hit in plain]}).works()
    found = server.post("/search", ask | {"rerank": "reranker", "top_k": 2}).works()["hits"]
    assert [hit["document"] for hit in found] == [plain[row["index"]]["document"] for row in rows[:2]]
    close([hit["score"] for hit in found], [row["score"] for row in rows[:2]])
    assert [hit["cosine"] for hit in found] == [plain[row["index"]]["cosine"] for row in rows[:2]]
    # Documents that are kept, a name that is empty, and fewer passages than are there.
    kept = [server.post("/documents", {"name": text, "text": text}).works()["id"] for text in TEXTS]
    best = server.post("/search", {**ask, "texts": None, "documents": kept, "top_k": 1}).works()["hits"]
    stage = {"rerank": "", "rerank_depth": 1, "top_k": 1, "texts": None, "documents": kept}
    assert server.post("/search", ask | stage).works()["hits"][0]["document"] == best[0]["document"]
    server.post("/search", ask | {"rerank": "vectors"}).refused(424, "Backend", "reranks")
    server.post("/search", ask | {"rerank": "nobody"}).refused(404, "Validation", "nobody")
    server.post("/search", ask | {"rerank": 5}).refused(422, "Validation", "rerank")
    server.post("/search", ask | {"rerank_depth": 5}).refused(422, "Validation", "rerank_depth")
