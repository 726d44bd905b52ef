"""`evaluate --task retrieval` on the corpus of tests/fixtures/retrieval: rankings are those of `search`, figures those
of trec_eval (make_retrieval.py), and what happens to data that are broken."""

import json
import shutil

import pytest
from cli_test import BERT, FIXTURES, ROBERTA, run

DATA = FIXTURES / "retrieval"
CASES = json.loads((DATA / "cases.json").read_text())["run"]
JUDGED = ["q1", "q2", "q3", "q4", "q5"]
QUERIES = {row["_id"]: row["text"] for row in map(json.loads, (DATA / "queries.jsonl").read_text().splitlines())}
NAMES = ["ndcg_at_10", "mrr_at_10", "map", *(f"recall_at_{k}" for k in (1, 5, 10, 100, 1000))]
TASK = ["--task", "retrieval", "--json"]
PASSAGES = ["--passage-tokens", 8]


def evaluate(folder, *flags, data=DATA, model=BERT):
    """The report, the predictions by query, and what was said on stderr; rankings also as a run."""
    said, trec = folder / "said.jsonl", folder / "run.trec"
    result = run("evaluate", model, data, *TASK, "--predictions", said, "--official-predictions", trec, *flags)
    assert result.code == 0, result.err
    rows = [json.loads(line) for line in said.read_text().splitlines()]
    lines = [line.split() for line in trec.read_text().splitlines()]
    ranked = [(row["id"], hit["id"], rank) for row in rows for rank, hit in enumerate(row["ranking"], 1)]
    assert ranked == [(query, document, int(rank)) for query, _, document, rank, _, _ in lines]
    assert {(kind, tag) for _, kind, _, _, _, tag in lines} == {("Q0", "longformer")}
    return result.json[0], {row["id"]: row for row in rows}, result.err


def mean(scores):
    return {name: sum(one[name] for one in scores.values()) / len(scores) for name in NAMES}


def copy(tmp_path, name="data"):
    shutil.copytree(DATA, tmp_path / name)
    return tmp_path / name


def lines(file, *rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


class TestRankings:
    @pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
    def test_are_those_of_search(self, tmp_path, mode):
        """A document has the score of the best of its passages."""
        index = tmp_path / "index"
        report, rows, _ = evaluate(tmp_path, "--mode", mode, "--index", index, "--keep-identical-ids", *PASSAGES)
        assert report["documents"] == 8 and report["passages"] > 15
        for query in ("q1", "q2", "q3", "q5"):
            (found,) = run("search", BERT, "--index", index, "--query", QUERIES[query], "--mode", mode, "--top-k", 500,
                           "--json").works().json  # fmt: skip
            best = {}
            for hit in found["hits"]:
                best.setdefault(hit["file"], hit["score"])
            ranked = {hit["id"]: hit["score"] for hit in rows[query]["ranking"]}
            assert ranked.keys() == best.keys() and len(ranked) >= (1 if mode == "lexical" else 7)
            assert all(ranked[name] == pytest.approx(score, rel=1e-6) for name, score in best.items())
            order = sorted(ranked, key=lambda name: (ranked[name], name.encode()), reverse=True)
            assert list(ranked) == order

    def test_hybrid_is_the_default(self, tmp_path):
        assert evaluate(tmp_path)[1] == evaluate(tmp_path, "--mode", "hybrid")[1]
        assert evaluate(tmp_path)[1] != evaluate(tmp_path, "--mode", "dense")[1]

    def test_documents_that_fit_are_one_vector(self, tmp_path):
        report = evaluate(tmp_path)[0]
        # d5 is empty, and d3 longer than the model.
        assert report["documents"] == 8 and report["passages"] == 6 + 3 and report["empty"] == 1
        vectors = run("embed", BERT, "--text", "a cat is on the table", "--text", QUERIES["q1"], "--json",
                      "--normalize").works().json  # fmt: skip
        cosine = sum(a * b for a, b in zip(*(row["embedding"] for row in vectors)))
        hits = {hit["id"]: hit["score"] for hit in evaluate(tmp_path, "--mode", "dense")[1]["q1"]["ranking"]}
        assert hits["d2"] == pytest.approx(cosine, abs=1e-6)

    def test_quotation_marks_mean_nothing(self, tmp_path):
        """In a search only d2 has "the table", and no other document would be found."""
        rows = evaluate(tmp_path, "--mode", "dense")[1]
        assert len(rows["q4"]["ranking"]) == 7

    def test_top_k(self, tmp_path):
        whole, few = (evaluate(tmp_path, *flags)[1] for flags in ([], ["--top-k", 2]))
        for query in JUDGED:
            assert few[query]["ranking"] == whole[query]["ranking"][:2]
        run("evaluate", BERT, DATA, *TASK, "--top-k", 0).fails(2, "--top-k", "at least 1")

    def test_documents_with_the_id_of_the_query(self, tmp_path):
        report, rows, said = evaluate(tmp_path, "--mode", "dense")
        kept, kept_rows, kept_said = evaluate(tmp_path, "--mode", "dense", "--keep-identical-ids")
        assert report["identical_ids"] == 1 and "left out 1 hit that has the id of their query" in said
        assert kept["identical_ids"] == 0 and "id of their query" not in kept_said
        assert [hit for hit in kept_rows["q3"]["ranking"] if hit["id"] != "q3"] == rows["q3"]["ranking"]
        assert len(kept_rows["q3"]["ranking"]) == 7 and kept_rows["q1"] == rows["q1"]

    def test_prompts_and_context(self, tmp_path):
        plain = evaluate(tmp_path, "--mode", "dense")[1]
        for flags in (["--query-prompt", "she was "], ["--passage-prompt", "she was "], ["--context", "document", *PASSAGES]):
            assert evaluate(tmp_path, "--mode", "dense", *flags)[1]["q1"]["ranking"] != plain["q1"]["ranking"]
        same = evaluate(tmp_path, "--mode", "dense", "--query-prompt", "", "--passage-prompt", "", "--context", "none")
        assert same[1] == plain


class TestFigures:
    @pytest.mark.parametrize(("name", "flags"), [("dropped", []), ("kept", ["--keep-identical-ids"])])
    def test_of_a_run_are_those_of_trec_eval(self, name, flags):
        result = run("evaluate", "--score", DATA / "run.trec", DATA, *TASK, *flags).passes()
        (report,) = result.json
        assert report["task"] == "retrieval" and list(report["metrics"]) == NAMES
        assert report["metrics"] == pytest.approx(mean(CASES[name]), abs=1e-12)
        assert (report["examples"], report["missing"]) == (5, 1)
        assert "1 example has no prediction, and counts as wrong" in result.err
        assert ("id of their query" in result.err) == (name == "dropped")

    def test_data_tell_the_task(self):
        told = run("evaluate", "--score", DATA / "run.trec", DATA, "--json", "--split", "test").passes().json
        assert told == run("evaluate", "--score", DATA / "run.trec", DATA, *TASK).passes().json

    def test_of_a_model_are_those_of_its_run(self, tmp_path):
        for mode in ("hybrid", "lexical"):
            report, rows, _ = evaluate(tmp_path, "--mode", mode)
            assert list(rows) == JUDGED and [rows[query]["line"] for query in JUDGED] == [1, 2, 3, 4, 5]
            assert report["metrics"] == pytest.approx(mean({query: row["metrics"] for query, row in rows.items()}))
            (scored,) = run("evaluate", "--score", tmp_path / "run.trec", DATA, *TASK).passes().json
            assert scored["metrics"] == pytest.approx(report["metrics"], abs=1e-12)

    def test_text_and_notes(self, tmp_path):
        result = run("evaluate", BERT, DATA, "--task", "retrieval").passes()
        rows = dict(line.split() for line in result.out.splitlines())
        assert list(rows)[:3] == NAMES[:3] and rows["documents"] == "8" and rows["passages"] == "9"
        assert rows["examples"] == "5" and "tokens" not in rows
        for words in ("left out 1 of 6 queries, which has no judgements", "1 example is empty",
                      "1 query has judgements but no relevant document, and counts as 0",
                      "1 judgement is of a document that is not in the corpus"):  # fmt: skip
            assert words in result.err

    def test_splits(self, tmp_path):
        report, rows, _ = evaluate(tmp_path, "--split", "dev")
        assert list(rows) == ["q1", "q6"] and report["unjudged_queries"] == 4
        run("evaluate", BERT, DATA, *TASK, "--split", "train").fails(1, "qrels/train.tsv", "those of dev, test")


class TestIndex:
    def test_is_kept(self, tmp_path):
        index = tmp_path / "index"
        first = evaluate(tmp_path, "--index", index, *PASSAGES)
        before = run("search", "--index", index, "--list", "--json").works().json
        # Settings of passages that the index has need not be given again, in any mode.
        again = evaluate(tmp_path, "--index", index)
        assert again[1] == first[1] and run("search", "--index", index, "--list", "--json").works().json == before
        assert evaluate(tmp_path, "--index", index, "--mode", "dense")[0]["passages"] == first[0]["passages"]
        # A text that has changed is read again.
        data = copy(tmp_path)
        rows = [json.loads(line) for line in (data / "corpus.jsonl").read_text().splitlines()]
        rows[1]["text"] = "the red boat"
        lines(data / "corpus.jsonl", *rows)
        changed = evaluate(tmp_path, "--index", index, data=data)[1]
        assert changed["q2"]["ranking"] != first[1]["q2"]["ranking"]
        assert changed == evaluate(tmp_path, *PASSAGES, data=data)[1]

    def test_of_something_else(self, tmp_path):
        index = tmp_path / "index"
        evaluate(tmp_path, "--index", index, *PASSAGES)
        for flags, words in ([["--passage-tokens", 9], ["passages of 9 tokens", "found one of 8"]],
                             [["--context", "document"], ["in the context"]],
                             [["--passage-prompt", "x"], ["prompt"]]):  # fmt: skip
            run("evaluate", BERT, DATA, *TASK, "--index", index, *flags).fails(1, str(index), *words)
        run("evaluate", ROBERTA, DATA, *TASK, "--index", index).fails(1, str(index), "other weights")
        data = copy(tmp_path)
        lines(data / "corpus.jsonl", {"_id": "d1", "text": "x"})
        run("evaluate", BERT, data, *TASK, "--index", index).fails(1, "this corpus alone", "'d2'")
        index.write_text("nonsense")
        run("evaluate", BERT, DATA, *TASK, "--index", index).fails(1, str(index))


class TestBadInput:
    def test_broken_lines(self, tmp_path):
        data = copy(tmp_path)
        corpus = (DATA / "corpus.jsonl").read_text()
        (data / "corpus.jsonl").write_text(corpus + corpus.splitlines()[0] + "\n{\n")
        run("evaluate", BERT, data, *TASK).fails(1, "corpus.jsonl:9", "no other document has", '"d1"', "--skip-invalid")
        with open(data / "qrels" / "test.tsv", "a", encoding="utf-8") as file:
            file.write("q9\td1\t1\n")
        report, rows, said = evaluate(tmp_path, "--skip-invalid", data=data)
        assert report["skipped"] == 3 and "test.tsv:13" in said and list(rows) == JUDGED
        assert rows == evaluate(tmp_path)[1]

    def test_files_that_are_missing(self, tmp_path):
        for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
            data = copy(tmp_path, name.replace("/", "-"))
            (data / name).unlink()
            run("evaluate", BERT, data, *TASK).fails(1, str(data), name)
        run("evaluate", BERT, tmp_path / "nothing", *TASK).fails(1, "nothing", "queries.jsonl")

    def test_nothing_to_search(self, tmp_path):
        data = copy(tmp_path)
        lines(data / "corpus.jsonl", {"_id": "d1", "text": " "})
        run("evaluate", BERT, data, *TASK).fails(1, str(data), "a document with text")
        lines(data / "corpus.jsonl")
        run("evaluate", BERT, data, *TASK).fails(1, "corpus.jsonl", "at least one document")
        shutil.copy(DATA / "corpus.jsonl", data)
        (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n")
        run("evaluate", BERT, data, *TASK).fails(1, "test.tsv", "none for 6 queries")

    def test_ids_with_blanks_are_refused_in_a_run_alone(self, tmp_path):
        data = copy(tmp_path)
        lines(data / "corpus.jsonl", {"_id": "d 1", "text": "the house"})
        run("evaluate", BERT, data, *TASK).passes()
        trec = tmp_path / "said.trec"
        run("evaluate", BERT, data, *TASK, "--official-predictions", trec).fails(1, "without blanks", '"d 1"')
        assert not trec.exists()

    def test_long_queries(self, tmp_path):
        """Cut only where that is asked for; a search by words has no length."""
        data = copy(tmp_path)
        rows = [{"_id": "q1", "text": "the of " * 600 + "boat"}, *({"_id": q, "text": QUERIES[q]} for q in JUDGED[1:])]
        lines(data / "queries.jsonl", *rows)
        run("evaluate", BERT, data, *TASK).fails(1, "queries.jsonl:1: q1", "at most 24 tokens", "--truncate", "--skip-invalid")
        assert list(evaluate(tmp_path, "--skip-invalid", data=data)[1]) == JUDGED[1:]
        report, cut, said = evaluate(tmp_path, "--truncate", "--mode", "dense", data=data)
        assert report["truncated_examples"] == 1 and report["truncated_tokens"] > 1000 and "cut" in said
        lines(data / "queries.jsonl", {"_id": "q1", "text": "the of " * 11}, *rows[1:])
        assert cut == evaluate(tmp_path, "--mode", "dense", data=data)[1]
        lines(data / "queries.jsonl", rows[0], *rows[1:])
        assert evaluate(tmp_path, "--mode", "lexical", data=data)[1]["q1"]["ranking"]

    def test_a_run_of_other_queries(self, tmp_path):
        trec = tmp_path / "run.trec"
        trec.write_text("x Q0 d1 1 1 t\n")
        run("evaluate", "--score", trec, DATA, *TASK).fails(1, "run.trec", "rankings of queries")
        trec.write_text("q1 Q0 d1 1 1 t\nq1 Q0 d1\n")
        run("evaluate", "--score", trec, DATA, *TASK).fails(1, "run.trec:2", "Q0, document")

    def test_usage(self, tmp_path):
        run("evaluate", BERT, DATA, "--mode", "dense").fails(2, "--mode needs --task retrieval")
        run("evaluate", BERT, DATA, *TASK, "--stride", 4).fails(2, "--stride")
        run("evaluate", BERT, DATA, *TASK, "--mode", "best").fails(2, "--mode", "best")
        run("evaluate", BERT, DATA, *TASK, "--predictions", tmp_path / "no" / "x").fails(1, "no/x")
        run("evaluate", BERT, DATA, *TASK, "--passage-tokens", 5000).fails(2, "--passage-tokens", "5000")
