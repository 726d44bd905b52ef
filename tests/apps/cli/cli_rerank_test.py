"""The verb `rerank`, the third stage of a search, and trainings for it: scores equal those of sentence-transformers,
and every way to them gives the same."""

import json
import math
import shutil

import pytest

from cli_test import BERT, FIXTURES, run

MADE = FIXTURES / "rerankers"
EXPECTED = json.loads((MADE / "expected.json").read_text())
CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
RERANKER = MADE / "bert"
QUERY = EXPECTED["bert"]["query"]
TEXTS = EXPECTED["bert"]["texts"]
LONG = "it was one of them and she had been there. " * 12


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """The rerankers by name; XLM-RoBERTa's tokenizer lies beside the other tokenizers."""
    folder = tmp_path_factory.mktemp("rerankers") / "xlm_roberta"
    shutil.copytree(MADE / "xlm_roberta", folder)
    shutil.copy(FIXTURES / "tokenizers" / "xlm_roberta" / "tokenizer.json", folder)
    return {"bert": MADE / "bert", "longformer": MADE / "longformer", "xlm_roberta": folder}


def lines(folder, rows, name="data.jsonl"):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / name


def texts_of(folder, texts=TEXTS):
    return lines(folder, [{"text": text, "id": number} for number, text in enumerate(texts)], "texts.jsonl")


def rerank(model, query, file, *flags):
    return run("rerank", model, query, file, "--field", "text", "--json", *flags).passes().json


def close(found, expected, tolerance=1e-5):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert math.isfinite(a) and abs(a - b) <= tolerance, (found, expected)


@pytest.mark.parametrize("name", EXPECTED)
class TestScores:
    def test_equal_those_of_the_package(self, folders, tmp_path, name):
        expected = EXPECTED[name]
        for number, (query, text) in enumerate(expected["pairs"]):
            if not query:
                continue
            file = texts_of(tmp_path, [text])
            close([row["score"] for row in rerank(folders[name], query, file, "--truncate")], expected["scores"][number : number + 1])
            raw = rerank(folders[name], query, file, "--truncate", "--raw-scores")
            close([row["score"] for row in raw], expected["logits"][number : number + 1])

    def test_ranking_is_that_of_the_package(self, folders, tmp_path, name):
        rows = rerank(folders[name], QUERY, texts_of(tmp_path), "--truncate", "--top-n", 4)
        assert [row["id"] for row in rows] == [number for number, _ in EXPECTED[name]["ranking"]]
        close([row["score"] for row in rows], [score for _, score in EXPECTED[name]["ranking"]])
        assert [row["rank"] for row in rows] == [1, 2, 3, 4]


class TestVerb:
    def test_text(self, tmp_path):
        out = run("rerank", RERANKER, QUERY, texts_of(tmp_path), "--field", "text", "--truncate", "--return-text").passes().out
        rows = [line.split("\t") for line in out.splitlines()]
        scores = [float(row[1]) for row in rows]
        assert len(rows) == len(TEXTS) and scores == sorted(scores, reverse=True)
        assert rows[0][0].endswith("texts.jsonl:2") and rows[0][2] == TEXTS[1]

    def test_lines_of_stdin(self):
        rows = run("rerank", RERANKER, "who", "--lines", "--json", stdin="he was\nof the\n").works().json
        assert sorted(row["line"] for row in rows) == [1, 2] and all(row["segments"] == 1 for row in rows)

    def test_a_long_text_has_the_score_of_its_best_segment(self, tmp_path):
        text = "of and to a. " * 20 + TEXTS[1] + " of and to a." * 20
        (row,) = rerank(RERANKER, QUERY, texts_of(tmp_path, [text]))
        (cut,) = rerank(RERANKER, QUERY, texts_of(tmp_path, [text]), "--truncate")
        assert row["segments"] > 2 and row["truncated"] == 0 and row["score"] >= cut["score"]
        assert cut["segments"] == 1 and cut["truncated"] > 50

    def test_a_long_query_needs_no_stride(self, tmp_path):
        """A pair that fits the model is read whole, as the package reads it."""
        query = "he was in the house of " * 8
        whole, cut = (rerank(RERANKER, query, texts_of(tmp_path, ["of and"]), *flags) for flags in ([], ["--truncate"]))
        assert whole == cut and whole[0]["tokens"] > 40

    def test_relevant_spans(self, tmp_path):
        text = "🙂 he was the one. " + LONG
        (row,) = rerank(RERANKER, "who", texts_of(tmp_path, [text]), "--relevant-spans", 5, "--span-threshold", 0, "--return-text")
        spans = row["relevant_spans"]
        assert row["text"] == text and len(spans) > 1
        assert [span["score"] for span in spans] == sorted((span["score"] for span in spans), reverse=True)
        for span in spans:
            part = text[span["begin"] : span["end"]]
            assert part == part.strip()
            (alone,) = rerank(RERANKER, "who", texts_of(tmp_path, [part]))
            close([alone["score"]], [span["score"]])
        (few,) = rerank(RERANKER, "who", texts_of(tmp_path, [text]), "--relevant-spans", 1, "--span-threshold", 0)
        assert few["relevant_spans"] == spans[:1]
        (none,) = rerank(RERANKER, "who", texts_of(tmp_path, [text]), "--relevant-spans", 1, "--span-threshold", 1)
        assert none["relevant_spans"] == []

    def test_one_bad_text_keeps_the_others(self, tmp_path):
        (tmp_path / "a.txt").write_text("he was")
        result = run("rerank", RERANKER, "who", tmp_path / "a.txt", tmp_path / "none.txt", "--json")
        assert result.code == 1 and "none.txt" in result.err
        assert [row.get("rank") for row in result.json if "error" not in row] == [1]

    def test_other_models_are_refused(self, tmp_path):
        file = texts_of(tmp_path)
        run("rerank", CLASSIFIER, "who", file, "--field", "text").fails(1, "one class", "3")
        run("rerank", BERT, "who", file, "--field", "text").fails(1, "sequence-classification", "none")

    @pytest.mark.parametrize("value", ["torch.nn.modules.activation.Softplus", "mine.Sigmoid", 3])
    def test_other_activations_are_refused(self, tmp_path, value):
        folder = shutil.copytree(MADE / "longformer", tmp_path / "model")
        config = json.loads((folder / "config.json").read_text())
        config["sbert_ce_default_activation_function"] = value
        (folder / "config.json").write_text(json.dumps(config))
        run("rerank", folder, "who", texts_of(tmp_path), "--field", "text").fails(1, "sbert_ce_default_activation_function", str(value))

    def test_prompt_of_the_folder(self, tmp_path):
        folder = shutil.copytree(RERANKER, tmp_path / "model")
        file = folder / "config_sentence_transformers.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"prompts": {"ask": "of all "}, "default_prompt_name": "ask"}))
        texts = texts_of(tmp_path, ["he was", "of the house"])
        assert rerank(folder, "who", texts) == rerank(RERANKER, "of all who", texts) != rerank(RERANKER, "who", texts)
        file.write_text(json.dumps(json.loads(file.read_text()) | {"default_prompt_name": "other"}))
        run("rerank", folder, "who", texts, "--field", "text").fails(1, "default_prompt_name", "other")


class TestSearch:
    PASSAGES = ["--passage-tokens", 16, "--query", "who was there"]

    @pytest.fixture
    def files(self, tmp_path):
        for name, text in {"x.txt": LONG, "y.txt": "he was in the house. she was with him. " * 8}.items():
            (tmp_path / name).write_text(text)
        return [tmp_path / "x.txt", tmp_path / "y.txt"]

    def search(self, files, *flags):
        return run("search", BERT, *files, *self.PASSAGES, "--json", *flags).passes().json[0]["hits"]

    def test_hits_have_the_order_of_the_reranker(self, files, tmp_path):
        plain = self.search(files, "--top-k", 100)
        hits = self.search(files, "--top-k", 5, "--rerank", RERANKER)
        scored = rerank(RERANKER, "who was there", texts_of(tmp_path, [hit["text"] for hit in plain]))
        close([hit["score"] for hit in hits], [row["score"] for row in scored[:5]])
        assert [hit["text"] for hit in hits] == [plain[row["id"]]["text"] for row in scored[:5]]
        assert all("similarity" in hit and "words" in hit for hit in hits)

    def test_depth(self, files):
        plain = self.search(files, "--top-k", 4)
        few = self.search(files, "--top-k", 2, "--rerank", RERANKER, "--rerank-depth", 4)
        assert {(hit["file"], hit["begin"]) for hit in few} <= {(hit["file"], hit["begin"]) for hit in plain}
        run("search", BERT, *files, *self.PASSAGES, "--rerank-depth", 4).fails(2, "--rerank-depth", "--rerank")

    def test_evaluation(self, tmp_path):
        flags = ["evaluate", BERT, FIXTURES / "retrieval", "--task", "retrieval", "--truncate", "--json"]
        run(*flags, "--predictions", tmp_path / "plain.jsonl").passes()
        found = run(*flags, "--rerank", RERANKER, "--rerank-depth", 3, "--predictions", tmp_path / "said.jsonl").passes().json[0]
        plain, said = ([json.loads(line) for line in (tmp_path / name).read_text().splitlines()] for name in ("plain.jsonl", "said.jsonl"))
        assert found["reranked_passages"] == 3 * found["examples"] and found["reranked_tokens"] > 3 * found["reranked_passages"]
        assert found["reranking_milliseconds"] >= 0
        corpus = [json.loads(line) for line in (FIXTURES / "retrieval" / "corpus.jsonl").read_text().splitlines()]
        texts = {row["_id"]: (row.get("title", "") + " " + row["text"]).strip() for row in corpus}
        for before, after in zip(plain, said):
            ids = [[hit["id"] for hit in one["ranking"]] for one in (before, after)]
            assert sorted(ids[0]) == sorted(ids[1])
            scores = [hit["score"] for hit in after["ranking"]]
            assert scores == sorted(scores, reverse=True)
            assert [one for one in ids[1] if one in ids[0][3:]][1:] == [one for one in ids[0][3:] if one in ids[1]][1:]
        assert texts


def trained(data, output, *flags, model=BERT, steps=2, batch=2, rate=1e-3):
    return run("finetune", model, data, "--task", "rerank", "--output-dir", output, "--max-steps", steps, "--learning-rate", rate,
               "--per-device-train-batch-size", batch, "--gradient-accumulation-steps", 1, *flags)  # fmt: skip


def losses(folder):
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


class TestTraining:
    PAIRS = [{"query": "who was it", "text": "he was", "label": 1}, {"query": "who was it", "text": "of the", "label": 0},
             {"query": "where was she", "text": "in the house", "label": 1}, {"query": "where was she", "text": "it had", "label": 0}]  # fmt: skip
    LISTS = [{"query": "who was it", "positive": "he was", "negatives": ["of the", "it had"]},
             {"query": "where was she", "positive": ["in the house", "at the house"], "negative_1": "it had"}]  # fmt: skip
    POSITIVES = [{"question": "who was in the house", "answer": "he was in the house"}, {"question": "who had one", "answer": "she had one"},
                 {"question": "was it the house", "answer": "it was all of the house"}]  # fmt: skip

    @pytest.mark.parametrize("rows", [PAIRS, LISTS, [{"query": "who", "docs": ["he", "of", "she"], "labels": [1, 0.25, 0.5]}]])
    def test_makes_a_reranker(self, tmp_path, rows):
        data = lines(tmp_path, rows)
        trained(data, tmp_path / "out").passes()
        config = json.loads((tmp_path / "out" / "config.json").read_text())
        assert config["architectures"] == ["BertForSequenceClassification"] and config["id2label"] == {"0": "LABEL_0"}
        ranked = rerank(tmp_path / "out", "who", texts_of(tmp_path, ["he was", "of the"]))
        assert all(0 < row["score"] < 1 for row in ranked)
        found = run("evaluate", tmp_path / "out", data, "--task", "rerank", "--json").passes().json[0]
        assert list(found["metrics"]) == ["ndcg_at_10", "mrr_at_10", "map", "recall_at_1"]
        assert all(0 < value <= 1 for value in found["metrics"].values())
        # Goes on with its head.
        trained(data, tmp_path / "more", model=tmp_path / "out").passes()

    def test_first_losses(self, tmp_path):
        """A head that was just drawn says about the same of all texts."""
        trained(lines(tmp_path, self.PAIRS), tmp_path / "pairs", "--logging-steps", 1).passes()
        assert losses(tmp_path / "pairs")[0] == pytest.approx(math.log(2), abs=0.1)
        trained(lines(tmp_path, self.LISTS), tmp_path / "lists", "--logging-steps", 1, batch=3).passes()
        assert losses(tmp_path / "lists")[0] == pytest.approx((math.log(3) + 2 * math.log(2)) / 3, abs=0.1)

    def test_learns_an_order(self, tmp_path):
        data = lines(tmp_path, self.LISTS + self.PAIRS)
        trained(data, tmp_path / "out", steps=60, rate=3e-3).passes()
        found = run("evaluate", tmp_path / "out", data, "--task", "rerank", "--json").passes().json[0]
        assert found["metrics"]["ndcg_at_10"] == 1 and found["examples"] == 2

    def test_hard_negatives(self, tmp_path):
        data = lines(tmp_path, self.POSITIVES)
        trained(data, tmp_path / "none").fails(1, "hard-negatives: expected at least 1", "data.jsonl:1")
        trained(data, tmp_path / "out", "--hard-negatives", 1).passes()
        run("evaluate", tmp_path / "out", data, "--task", "rerank", "--hard-negatives", 2, "--predictions", tmp_path / "said.jsonl").passes()
        rows = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
        assert [sum(hit["relevance"] for hit in row["ranking"]) for row in rows] == [1, 1, 1]
        assert [len(row["ranking"]) for row in rows] == [3, 3, 3]

    @pytest.mark.parametrize("row, words", [
        ({"query": "who", "text": "he", "label": 3}, ["from 0 to 1", "3"]), ({"text": "he", "label": 1}, ["query"]),
        ({"query": "who", "label": 1}, ["beside the query"]), ({"query": "who", "text": 5, "label": 1}, ["a text", "5"]),
        ({"query": "who", "docs": ["a", "b"], "labels": [1]}, ["as many relevances"]), ({"query": "", "text": "a"}, ["query"]),
    ])  # fmt: skip
    def test_broken_records(self, tmp_path, row, words):
        data = lines(tmp_path, [*self.PAIRS, row])
        trained(data, tmp_path / "out").fails(1, "data.jsonl:5", *words)
        trained(data, tmp_path / "out", "--skip-invalid").passes()

    def test_what_does_not_fit(self, tmp_path):
        data = lines(tmp_path, self.PAIRS)
        trained(data, tmp_path / "out", "--stride", 8).fails(2, "--stride", "--truncate")
        trained(data, tmp_path / "out", model=CLASSIFIER).fails(1, "one class", "3", "--new-head")
        trained(lines(tmp_path, [{"query": "who", "texts": ["a", "b"], "scores": [0.5, 1]}]), tmp_path / "out",
                "--rerank-loss", "listwise").fails(2, "--rerank-loss", "0 and 1")  # fmt: skip

    def test_validation(self, tmp_path):
        data = lines(tmp_path, self.LISTS)
        trained(data, tmp_path / "out", "--validation-file", data, "--eval-strategy", "steps", "--eval-steps", 1).passes()
        rows = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        last = [row for row in rows if "eval_ndcg_at_10" in row][-1]
        found = run("evaluate", tmp_path / "out", data, "--task", "rerank", "--json").passes().json[0]["metrics"]
        assert last["eval_ndcg_at_10"] == pytest.approx(found["ndcg_at_10"], abs=1e-6)
