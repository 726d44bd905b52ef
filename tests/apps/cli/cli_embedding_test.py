"""`finetune --task embedding` and `evaluate --task embedding`. Losses and gradients are held against
sentence-transformers in tests/parity/embedding_training_parity.py."""

import json
import random

import numpy as np
import pytest
from cli_test import BERT, FIXTURES, run
from cli_training_test import ran, tensors, without_dropout, write

WORDS = ["at", "on", "was", "he", "for", "his", "the", "of", "to", "in", "it", "is"]
DENSE = FIXTURES / "sentence_dense"
FULL = ["--task", "embedding", "--logging-steps", 1, "--save-strategy", "no"]


def text(seed, words=6):
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(words))


def pairs(count, negatives=0):
    rows = []
    for i in range(count):
        row = {"anchor": text(i), "positive": text(100 + i)}
        rows.append(row | {f"negative_{j}": text(1000 * j + 200 + i) for j in range(1, negatives + 1)})
    return rows


def document(seed, passages=3):
    parts = [text(10 * seed + i, 8) for i in range(passages)]
    marks, begin = [], 0
    for number, part in enumerate(parts):
        marks.append({"begin": begin, "end": begin + len(part), "query": text(500 + 10 * seed + number, 3)})
        begin += len(part) + 1
    return {"text": " ".join(parts), "passages": marks}


def cosines(model, rows):
    texts = "".join(json.dumps({"text": row}) + "\n" for row in rows)
    found = run("embed", model, "--field", "text", "--json", "--normalize", stdin=texts).works().json
    return np.array([row["embedding"] for row in found])


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return without_dropout(BERT, tmp_path_factory.mktemp("bert") / "model")


@pytest.fixture(scope="module")
def longformer(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("long") / "model"
    run("convert", bert, folder, "--max-positions", 64, "--window", 8).works()
    return folder


class TestFinetune:
    def test_anchors_find_their_positives(self, bert, tmp_path):
        data = write(tmp_path / "p.jsonl", pairs(12))
        before = run("evaluate", bert, data, "--task", "embedding", "--json").works().json[0]["metrics"]
        done = ran("finetune", bert, data, *FULL, "--per-device-train-batch-size", 12, "--gradient-accumulation-steps", 1,
                   "--max-steps", 60, "--learning-rate", 0.003, "--output-dir", tmp_path / "out")
        assert "embedding: 12 examples, 24 rows" in done.err
        after = run("evaluate", tmp_path / "out", data, "--task", "embedding", "--json").works().json[0]["metrics"]
        assert before["recall_at_1"] < 0.6 and after == {"recall_at_1": 1.0, "recall_at_10": 1.0, "mrr_at_10": 1.0}
        vectors = cosines(tmp_path / "out", [row[name] for row in pairs(12) for name in ("anchor", "positive")])
        assert (np.argmax(vectors[::2] @ vectors[1::2].T, axis=1) == np.arange(12)).all()

    def test_parts_of_a_batch_give_the_same_weights(self, bert, tmp_path):
        data = write(tmp_path / "p.jsonl", pairs(8, negatives=1))
        flags = ["--per-device-train-batch-size", 8, "--gradient-accumulation-steps", 1, "--max-steps", 3,
                 "--learning-rate", 1, "--adam-epsilon", 1]  # fmt: skip
        ran("finetune", bert, data, *FULL, *flags, "--output-dir", tmp_path / "whole")
        for size in (1, 3, 8):
            ran("finetune", bert, data, *FULL, *flags, "--mini-batch-size", size, "--output-dir", tmp_path / f"parts{size}")
            one, two = tensors(tmp_path / "whole"), tensors(tmp_path / f"parts{size}")
            assert all(np.abs(one[name] - two[name]).max() < 2e-5 for name in one)
        start = tensors(bert)
        assert max(np.abs(value - start[name.removeprefix("bert.")]).max() for name, value in one.items()) > 1e-2

    def test_a_text_that_is_as_right_is_no_wrong_answer(self, bert, tmp_path):
        """Equal positives leave no wrong candidate: the loss is 0, as for a single candidate."""
        rows = [{"anchor": text(i), "positive": text(99)} for i in range(4)]
        data = write(tmp_path / "p.jsonl", rows)
        ran("finetune", bert, data, *FULL, "--per-device-train-batch-size", 4, "--gradient-accumulation-steps", 1,
            "--max-steps", 1, "--output-dir", tmp_path / "out")
        log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        assert abs(log[0]["loss"]) < 1e-6

    def test_passages_of_a_document(self, longformer, tmp_path):
        data = write(tmp_path / "d.jsonl", [document(i) for i in range(6)])
        before = run("evaluate", longformer, data, "--task", "embedding", "--json").works().json[0]
        assert before["examples"] == 18
        ran("finetune", longformer, data, *FULL, "--per-device-train-batch-size", 6, "--gradient-accumulation-steps", 1,
            "--max-steps", 60, "--learning-rate", 0.003, "--output-dir", tmp_path / "out")
        after = run("evaluate", tmp_path / "out", data, "--task", "embedding", "--json").works().json[0]["metrics"]
        assert after["recall_at_1"] > max(0.8, before["metrics"]["recall_at_1"])
        # The folder says that passages are read in their document, which embed and search follow.
        assert json.loads((tmp_path / "out" / "config_sentence_transformers.json").read_text())["passage_context"] == "document"
        assert run("info", tmp_path / "out", "--json").works().json[0]["passage_context"] == "document"

    def test_a_teacher_is_followed(self, bert, longformer, tmp_path):
        rows = [{"text": text(i, 40)} for i in range(8)]
        data = write(tmp_path / "t.jsonl", rows)
        ran("finetune", longformer, data, *FULL, "--teacher", bert, "--passage-tokens", 8, "--gradient-accumulation-steps", 1,
            "--max-steps", 60, "--learning-rate", 0.001, "--output-dir", tmp_path / "out")
        log = [json.loads(line)["loss"] for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()[:60]]
        assert np.mean(log[-8:]) < 0.5 * np.mean(log[:8])

    def test_given_vectors_are_the_same_as_a_teacher(self, bert, longformer, tmp_path):
        rows = [text(i, 12) for i in range(4)]
        told = run("embed", bert, "--field", "text", "--json", stdin="".join(json.dumps({"text": row}) + "\n" for row in rows))
        given = [{"text": row, "vector": found["embedding"]} for row, found in zip(rows, told.works().json)]
        flags = [*FULL, "--gradient-accumulation-steps", 1, "--max-steps", 2]
        ran("finetune", longformer, write(tmp_path / "g.jsonl", given), *flags, "--output-dir", tmp_path / "given")
        plain = write(tmp_path / "t.jsonl", [{"text": row} for row in rows])
        ran("finetune", longformer, plain, *flags, "--teacher", bert, "--output-dir", tmp_path / "taught")
        one, two = tensors(tmp_path / "given"), tensors(tmp_path / "taught")
        assert all(np.abs(one[name] - two[name]).max() < 1e-5 for name in one)

    def test_resumes_with_the_same_bits(self, bert, tmp_path):
        data = write(tmp_path / "p.jsonl", pairs(6))
        flags = ["finetune", bert, data, "--task", "embedding", "--per-device-train-batch-size", 3, "--mini-batch-size", 2,
                 "--gradient-accumulation-steps", 1, "--max-steps", 6, "--logging-steps", 1]  # fmt: skip
        ran(*flags, "--output-dir", tmp_path / "whole", "--save-strategy", "steps", "--save-steps", 3)
        ran(*flags, "--output-dir", tmp_path / "again", "--resume-from-checkpoint", tmp_path / "whole" / "checkpoint-3",
            "--save-strategy", "no")
        one, two = tensors(tmp_path / "whole"), tensors(tmp_path / "again")
        assert all((one[name] == two[name]).all() for name in one)

    def test_twice_into_one_folder(self, bert, tmp_path):
        """The folders of modules are there already: their files are replaced."""
        source = tmp_path / "model"
        run("convert", bert, source, "--max-positions", 64, "--window", 8).works()
        (source / "modules.json").write_text(json.dumps([
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))  # fmt: skip
        (source / "1_Pooling").mkdir()
        (source / "1_Pooling" / "config.json").write_text(
            json.dumps({"word_embedding_dimension": 16, "pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": False}))
        data = write(tmp_path / "p.jsonl", pairs(4))
        for _ in range(2):
            ran("finetune", source, data, *FULL, "--per-device-train-batch-size", 4, "--max-steps", 1, "--output-dir",
                tmp_path / "out", "--overwrite-output-dir")
        assert run("info", tmp_path / "out", "--json").works().json[0]["pooling"] == "max"

    def test_an_evaluation_chooses_the_best_model(self, bert, tmp_path):
        data, held = write(tmp_path / "p.jsonl", pairs(6)), write(tmp_path / "h.jsonl", pairs(6, negatives=2))
        done = ran("finetune", bert, data, "--task", "embedding", "--per-device-train-batch-size", 6, "--max-steps", 2,
                   "--validation-file", held, "--eval-strategy", "steps", "--eval-steps", 1, "--save-strategy", "steps",
                   "--save-steps", 1, "--load-best-model-at-end", "--output-dir", tmp_path / "out", "--logging-steps", 1)
        log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        told = next(line for line in log if "eval_recall_at_1" in line)
        assert {"eval_loss", "eval_mrr_at_10", "eval_triplet_accuracy"} <= told.keys(), done.err


    def test_validation_data_may_be_of_another_kind(self, bert, tmp_path):
        """Their metrics are measured, and the first one chooses the best model."""
        data = write(tmp_path / "p.jsonl", pairs(4))
        scored = write(tmp_path / "s.jsonl", [{"sentence1": text(i), "sentence2": text(9 + i), "score": i / 5} for i in range(5)])
        flags = ["--per-device-train-batch-size", 4, "--max-steps", 2, "--eval-strategy", "steps", "--eval-steps", 1,
                 "--save-strategy", "steps", "--save-steps", 1, "--load-best-model-at-end", "--task", "embedding"]  # fmt: skip
        ran("finetune", bert, data, "--validation-file", scored, *flags, "--output-dir", tmp_path / "out")
        state = json.loads((tmp_path / "out" / "checkpoint-2" / "trainer_state.json").read_text())
        log = (tmp_path / "out" / "log.jsonl").read_text()
        assert "eval_spearman" in log and "best_metric" in json.dumps(state)
        alone = write(tmp_path / "t.jsonl", [{"text": text(i)} for i in range(3)])
        ran("finetune", bert, data, "--validation-file", alone, "--teacher", bert, *flags, "--output-dir", tmp_path / "taught")
        log = [json.loads(line) for line in (tmp_path / "taught" / "log.jsonl").read_text().splitlines()]
        told = next(line for line in log if "eval_loss" in line)
        assert not [name for name in told if name.startswith("eval_") and name not in ("eval_loss", "eval_runtime")]

    def test_longest_text_is_that_of_the_option(self, longformer, tmp_path):
        """In training, in the evaluation during it, and in the folder that is written."""
        rows = [{"anchor": text(i, 30), "positive": text(50 + i, 30)} for i in range(3)]
        data = write(tmp_path / "p.jsonl", rows)
        flags = ["--per-device-train-batch-size", 3, "--max-steps", 1, "--task", "embedding", "--validation-file", data,
                 "--eval-strategy", "steps", "--eval-steps", 1, "--save-strategy", "no"]  # fmt: skip
        run("finetune", longformer, data, *flags, "--max-source-length", 16, "--output-dir", tmp_path / "out").fails(
            1, "p.jsonl:1", "16 tokens")  # fmt: skip
        ran("finetune", longformer, data, *flags, "--max-source-length", 60, "--output-dir", tmp_path / "out")

    def test_an_adapter_keeps_what_it_was_trained_for(self, longformer, tmp_path):
        data = write(tmp_path / "d.jsonl", [document(i) for i in range(4)])
        ran("finetune", longformer, data, *FULL, "--lora-rank", 4, "--per-device-train-batch-size", 4, "--max-steps", 5,
            "--output-dir", tmp_path / "adapter")
        assert not (tmp_path / "adapter" / "model.safetensors").exists()
        run("convert", longformer, tmp_path / "merged", "--merge-adapter", tmp_path / "adapter").works()
        asked = [longformer, data, "--task", "embedding", "--json"]
        one = run("evaluate", *asked, "--adapter", tmp_path / "adapter").works().json[0]["metrics"]
        two = run("evaluate", tmp_path / "merged", *asked[1:]).works().json[0]["metrics"]
        assert one == two
        words = ["embed", longformer, "--pooling", "passages", "--passage-tokens", 8, "--json", "--field", "text"]
        row = json.dumps(document(1))
        context = run(*words, "--adapter", tmp_path / "adapter", stdin=row).works().json[0]["embeddings"]
        told = run(*words, "--adapter", tmp_path / "adapter", "--context", "document", stdin=row).works().json[0]["embeddings"]
        assert context == told != run(*words, "--adapter", tmp_path / "adapter", "--context", "none", stdin=row).works().json[0]["embeddings"]
        assert run("info", tmp_path / "merged", "--json").works().json[0]["passage_context"] == "document"


class TestEvaluate:
    def test_scores_correlate_as_their_vectors_do(self, bert, tmp_path):
        rows = [(text(i), text(50 + i), round(random.Random(i).random(), 3)) for i in range(9)]
        data = write(tmp_path / "sts.csv", "sentence1,sentence2,score\n" + "".join(f"{a},{b},{s}\n" for a, b, s in rows))
        told = tmp_path / "told.jsonl"
        found = run("evaluate", bert, data, "--task", "embedding", "--json", "--predictions", told).works().json[0]
        one, two = cosines(bert, [row[0] for row in rows]), cosines(bert, [row[1] for row in rows])
        near, scores = (one * two).sum(1), [row[2] for row in rows]
        ranked = np.corrcoef(np.argsort(np.argsort(near)), np.argsort(np.argsort(scores)))[0, 1]
        assert abs(found["metrics"]["pearson"] - np.corrcoef(near, scores)[0, 1]) < 1e-4
        assert abs(found["metrics"]["spearman"] - ranked) < 1e-6
        lines = [json.loads(line) for line in told.read_text().splitlines()]
        assert np.abs([line["cosine"] for line in lines] - near).max() < 1e-5

    def test_every_anchor_is_searched_among_all_texts(self, bert, tmp_path):
        rows = pairs(7, negatives=2)
        found = run("evaluate", bert, write(tmp_path / "p.jsonl", rows), "--task", "embedding", "--json").works()
        names = ("anchor", "positive", "negative_1", "negative_2")
        vectors = {name: cosines(bert, [row[name] for row in rows]) for name in names}
        scores = vectors["anchor"] @ np.concatenate([vectors[name] for name in names[1:]]).T
        own = np.diag(scores)
        ranks = (scores > own[:, None]).sum(1)
        metrics = found.json[0]["metrics"]
        assert abs(metrics["recall_at_1"] - (ranks == 0).mean()) < 1e-9
        assert abs(metrics["mrr_at_10"] - np.where(ranks < 10, 1 / (ranks + 1), 0).mean()) < 1e-9
        nearer = [own[i] > scores[i, 7 * k + i] for i in range(7) for k in (1, 2)]
        assert abs(metrics["triplet_accuracy"] - np.mean(nearer)) < 1e-9

    def test_passages_are_pooled_in_their_document(self, longformer, tmp_path):
        rows = [document(i) for i in range(3)]
        found = run("evaluate", longformer, write(tmp_path / "d.jsonl", rows), "--task", "embedding", "--json").works()
        passages = []
        for row in rows:
            told = run("embed", longformer, "--field", "text", "--json", "--pooling", "tokens", stdin=json.dumps(row)).works()
            spans, states = np.array(told.json[0]["spans"]), np.array(told.json[0]["embeddings"])
            for one in row["passages"]:
                inside = (spans[:, 0] >= one["begin"]) & (spans[:, 1] <= one["end"]) & (spans[:, 1] > spans[:, 0])
                mean = states[inside].mean(0)
                passages.append(mean / np.linalg.norm(mean))
        queries = cosines(longformer, [one["query"] for row in rows for one in row["passages"]])
        right = np.argmax(queries @ np.array(passages).T, axis=1) == np.arange(9)
        assert abs(found.json[0]["metrics"]["recall_at_1"] - right.mean()) < 1e-9


    def test_tokens_and_cuts_are_told(self, longformer, tmp_path):
        rows = [{"anchor": text(1, 90), "positive": "a"}, {"anchor": "a b", "positive": "b"}]
        data = write(tmp_path / "l.jsonl", rows)
        found = run("evaluate", longformer, data, "--task", "embedding", "--truncate", "--json").passes()
        texts = "\n".join(row[name] for row in rows for name in ("anchor", "positive"))
        lengths = [len(row["ids"]) for row in run("tokenize", longformer, "--lines", "--json", stdin=texts).works().json]
        report = found.json[0]
        assert report["tokens"] == sum(lengths) and report["examples"] == 2 and report["truncated_examples"] == 1
        assert report["truncated_tokens"] == lengths[0] - 64 and "1 of 2 examples is longer than the model: cut" in found.err
        passages = run("evaluate", longformer, write(tmp_path / "d.jsonl", [document(1)]), "--task", "embedding", "--json")
        assert passages.works().json[0]["tokens"] > 30 and passages.json[0]["examples"] == 3


class TestBadInput:
    @pytest.mark.parametrize(("row", "flags", "words"), [
        ({"anchor": "a"}, [], ["p.jsonl:1", "positive"]),
        ({"anchor": "a", "positive": 3}, [], ["p.jsonl:1", "positive", "3"]),
        ({"sentence1": "a", "sentence2": "b", "score": "near"}, [], ["p.jsonl:1", "score", "near"]),
        ({"text": "a b", "passages": []}, [], ["p.jsonl:1", "passages", "none"]),
        ({"text": "a b", "passages": [{"begin": 1, "end": 9}]}, [], ["p.jsonl:1", "3 characters", "1 to 9"]),
        ({"text": "a b", "passages": [{"begin": 1, "end": 2}]}, ["--loss", "distillation"], ["teacher", "--teacher"]),
        ({"text": "a b", "passages": [{"begin": 1, "end": 2, "query": "a"}]}, [], ["p.jsonl:1", "characters 1 to 2"]),
        ({"text": "a", "vector": ["x"]}, [], ["p.jsonl:1", "numbers", "vector"]),
        ({"text": "a", "vector": [1.0, 2.0]}, [], ["p.jsonl:1", "teacher", "16", "2"]),
        ({"text": "a"}, [], ["p.jsonl", "--teacher"]),
        ({"anchor": "a", "positive": "b"}, [], ["per_device_train_batch_size", "at least 2"]),
        ({"anchor": "a", "positive": "b"}, ["--loss", "cosine"], ["scores"]),
        ({"anchor": "a", "positive": "b"}, ["--loss", "triplet"], ["p.jsonl:1", "negative"]),
        ({"anchor": ["a", "b"], "positive": "c"}, [], ["p.jsonl:1", "one anchor", "list"]),
        ({"query": "a", "question": "b", "positive": "c"}, [], ["p.jsonl:1", "one anchor", "question"]),
        ({"anchor": "a", "answer": "b", "passage": "c"}, [], ["p.jsonl:1", "one member", "passage"]),
        ({"anchor": "a", "positive": "b", "vector": [1.0]}, [], ["p.jsonl:1", "vector", "several"]),
        ({"text": "a", "vector": [1.0], "passages": [{"begin": 0, "end": 1}]}, [], ["p.jsonl:1", "whole document"]),
        ({"text": "a"}, ["--teacher", BERT, "--stride", 4], ["stride", "--truncate"]),
        ({"text": "a"}, ["--teacher", DENSE], ["teacher", "16"]),
        ({"text": "a"}, ["--teacher", "nowhere"], ["nowhere"]),
    ])  # fmt: skip
    def test_one_line(self, bert, tmp_path, row, flags, words):
        data = write(tmp_path / "p.jsonl", [row])
        done = run("finetune", bert, data, "--task", "embedding", "--output-dir", tmp_path / "out", "--max-steps", 1, *flags)
        done.fails(2 if "--stride" in flags else 1, *words)

    def test_others(self, bert, longformer, tmp_path):
        data = write(tmp_path / "p.jsonl", pairs(3))
        out = ["--output-dir", tmp_path / "out", "--max-steps", 1]
        run("finetune", DENSE, data, "--task", "embedding", *out, "--per-device-train-batch-size", 3).fails(1, "Dense")
        other = run("finetune", bert, data, "--task", "classify", *out, "--mini-batch-size", 3)
        assert other.code == 1 and "p.jsonl" in other.err and "--mini-batch-size has no effect" in other.err
        run("evaluate", bert, write(tmp_path / "t.jsonl", [{"text": "a"}]), "--task", "embedding").fails(1, "t.jsonl", "scores")
        long = write(tmp_path / "l.jsonl", [{"anchor": text(1, 90), "positive": "a"}, {"anchor": "a", "positive": "b"}])
        run("finetune", longformer, long, "--task", "embedding", *out, "--per-device-train-batch-size", 2).fails(
            1, "l.jsonl:1", "64", "--truncate")  # fmt: skip
        ran("finetune", longformer, long, "--task", "embedding", *out, "--per-device-train-batch-size", 2, "--truncate")
