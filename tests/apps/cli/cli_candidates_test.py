"""Candidate scoring, the form of the Longformer paper for WikiHop: `finetune --task candidates` adds the tokens
and the head, `choose` and `evaluate` read what it wrote. Logits and gradients are held against PyTorch in
tests/parity/candidate_parity.py."""

import json
import os
import pathlib
import random
import unicodedata

import numpy as np
import pytest
from cli_test import BERT, FIXTURES, run
from cli_training_test import CHOOSER, EACH_STEP, FAST, losses_of, ran, tensors, without_added_tokens, without_dropout, write

ANSWER = "his"
NAMES = ("at", "on", "was", "he", "for")
MARKS = ["[question]", "[/question]", "[ent]", "[/ent]"]


def question(seed):
    """The answer is always the same word, at any place."""
    draw = random.Random(seed)
    candidates = [ANSWER, *draw.sample(NAMES, 2)]
    draw.shuffle(candidates)
    supports = [f"the {name} ." for name in draw.sample(NAMES, 2)]
    return {"id": f"q{seed}", "query": "it is", "candidates": candidates, "answer": ANSWER, "supports": supports}


@pytest.fixture(scope="module")
def longformer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidates")
    run("convert", without_dropout(BERT, folder / "bert"), folder / "long", "--max-positions", 64, "--window", 8).works()
    return folder / "long"


@pytest.fixture(scope="module")
def tuned(longformer, tmp_path_factory):
    """Two steps, whose rate changes next to nothing."""
    folder = tmp_path_factory.mktemp("tuned")
    data = write(folder / "w.json", json.dumps([question(i) for i in range(4)]))
    done = ran("finetune", longformer, data, "--task", "candidates", "--output-dir", folder / "model", "--max-steps", 2,
               "--learning-rate", 1e-9, *FAST)
    assert "new weights: candidate_scorer.weight" in done.err
    assert "new tokens: [question], [/question], [ent], [/ent]" in done.err
    return folder / "model"


class TestFinetune:
    def test_learns_a_word_wherever_it_stands(self, longformer, tmp_path):
        data = write(tmp_path / "w.json", json.dumps([question(i) for i in range(12)]))
        others = write(tmp_path / "o.json", json.dumps([question(i) for i in range(100, 120)]))
        ran("finetune", longformer, data, "--task", "candidates", "--output-dir", tmp_path / "out", "--max-steps", 200,
            "--learning-rate", 0.003, *FAST, "--gradient-accumulation-steps", 1)
        report = run("evaluate", tmp_path / "out", others, "--json").works().json[0]
        assert report["task"] == "candidate-scoring" and report["metrics"] == {"accuracy": 1.0}
        # Further training takes task, tokens and head from the folder.
        done = ran("finetune", tmp_path / "out", data, "--output-dir", tmp_path / "more", "--max-steps", 1, *FAST)
        assert "candidates: 12 examples" in done.err and "new" not in done.err

    def test_tokens_and_their_embeddings(self, longformer, tuned):
        name = "embeddings.word_embeddings.weight"
        before, after = tensors(longformer)[name], tensors(tuned)["longformer." + name]
        assert len(after) == len(before) + 4
        assert np.abs(after[:-4] - before).max() < 1e-6
        # 64 draws from the distribution of the table: mean and deviation within four standard errors.
        added, error = after[-4:], before.std() / 8
        assert abs(added.mean() - before.mean()) < 4 * error and abs(added.std() - before.std()) < 4 * error
        config = json.loads((tuned / "config.json").read_text())
        assert config["architectures"] == ["LongformerForCandidateScoring"] and config["vocab_size"] == len(after)
        assert "candidate-scoring" in run("info", tuned).works().out
        ids = run("tokenize", tuned, "--text", "the [ent] of", "--json").works().json[0]["ids"]
        assert len(before) + 2 in ids

    def test_order_of_candidates_is_the_seed_and_the_epoch_alone(self, longformer, tmp_path):
        data = write(tmp_path / "w.json", json.dumps([question(i) for i in range(6)]))
        flags = ["finetune", longformer, data, "--task", "candidates", "--logging-steps", 1,
                 "--per-device-train-batch-size", 2, "--gradient-accumulation-steps", 1]  # fmt: skip
        ran(*flags, "--output-dir", tmp_path / "whole", "--max-steps", 8, "--save-strategy", "steps", "--save-steps", 4)
        ran(*flags, "--output-dir", tmp_path / "whole2", "--max-steps", 8, "--resume-from-checkpoint",
            tmp_path / "whole" / "checkpoint-4", "--save-strategy", "no")
        one, two = tensors(tmp_path / "whole"), tensors(tmp_path / "whole2")
        assert all((one[name] == two[name]).all() for name in one)
        ran(*flags, "--output-dir", tmp_path / "other", "--max-steps", 8, "--seed", 7, "--save-strategy", "no")
        assert any((one[name] != value).any() for name, value in tensors(tmp_path / "other").items())

    @pytest.mark.parametrize("changes,orders", [({"supports": []}, 1), ({"candidates": [ANSWER, "at"]}, 2)])
    def test_every_epoch_draws_the_order_of_candidates_and_of_supports(self, tuned, tmp_path, changes, orders):
        """Nothing moves, so that the loss is the order alone. Two candidates have two orders; only supports make more of them."""
        data = write(tmp_path / "w.json", json.dumps([question(1) | {"supports": ["the at .", "of", "he was in"]} | changes]))

        def losses(seed):
            ran("finetune", tuned, data, "--output-dir", tmp_path / "out", "--overwrite-output-dir", "--learning-rate", 0,
                "--num-train-epochs", 10, "--seed", seed, *EACH_STEP)
            return losses_of(tmp_path / "out")

        first = losses(1)
        assert len(first) == 10 and len(set(first)) > orders
        assert losses(1) == first != losses(2)

    def test_a_bert_has_no_globals(self, tmp_path):
        data = write(tmp_path / "w.json", json.dumps([question(i) for i in range(4)]))
        done = ran("finetune", BERT, data, "--task", "candidates", "--output-dir", tmp_path / "out", "--max-steps", 2, *FAST)
        assert "candidate_scorer" in done.err
        run("choose", tmp_path / "out", data, "--global-attention", "cls").fails(2, "--global-attention", "bert")


class TestChoose:
    def test_one_pass_for_all_candidates(self, tuned):
        row = run("choose", tuned, "--json", stdin=json.dumps(question(1))).works().json[0]
        assert len(row["logits"]) == 3 and row["segments"] == 1 and row["truncated"] == 0
        assert row["choice"] == question(1)["candidates"][row["best"]]
        assert abs(sum(row["probabilities"]) - 1) < 1e-5
        assert np.argmax(row["logits"]) == row["best"]

    def test_supports_do_count(self, tuned):
        whole = run("choose", tuned, "--json", stdin=json.dumps(question(1))).works().json[0]
        other = run("choose", tuned, "--json", stdin=json.dumps(question(1) | {"supports": ["of the"]})).works().json[0]
        assert whole["logits"] != other["logits"]
        plain = {"context": "of the", "question": "it is", "choices": question(1)["candidates"]}
        assert run("choose", tuned, "--json", stdin=json.dumps(plain)).works().json[0]["logits"] == other["logits"]

    def test_parts_of_long_supports_are_added(self, tuned):
        long = question(1) | {"supports": ["the of to " * 20, "in at " * 20]}
        run("choose", tuned, stdin=json.dumps(long)).fails(1, "64 tokens", "--truncate", "--stride N")
        parts = run("choose", tuned, "--json", "--stride", 0, stdin=json.dumps(long)).works().json[0]
        cut = run("choose", tuned, "--json", "--truncate", stdin=json.dumps(long))
        assert "kept 64" in cut.err
        assert parts["segments"] > 1 and cut.json[0]["truncated"] == parts["tokens"] - 64
        assert parts["logits"] != cut.json[0]["logits"]
        run("choose", tuned, "--stride", 60, stdin=json.dumps(long)).fails(1, "question and candidates")

    def test_logits_of_rows_are_summed(self, tuned):
        """Each support fills a row."""

        def said(*supports):
            asked = json.dumps(question(1) | {"supports": supports})
            return run("choose", tuned, "--stride", 0, "--json", stdin=asked).works().json[0]

        room = 64 - said("the")["tokens"] + 1
        supports = [" ".join((words * room).split()[:room]) for words in ("the of to in ", "at he was ")]
        alone, joint = [said(support) for support in supports], said(*supports)
        assert [row["segments"] for row in (*alone, joint)] == [1, 1, 2] and alone[0]["tokens"] == 64
        total = np.add(alone[0]["logits"], alone[1]["logits"])
        assert np.allclose(joint["logits"], total, atol=1e-5) and np.abs(total).max() > 1e-3

    def test_global_attention(self, tuned):
        asked = json.dumps(question(1))
        rows = {rule: run("choose", tuned, "--json", "--global-attention", rule, stdin=asked).works().json[0]["logits"]
                for rule in ("default", "none", "cls", "all")}  # fmt: skip
        assert rows["default"] == run("choose", tuned, "--json", stdin=asked).works().json[0]["logits"]
        assert len({tuple(logits) for logits in rows.values()}) == 4
        run("choose", tuned, "--global-attention", "sentences", stdin=asked).fails(2, "--global-attention", "without sentences")

    def test_json_on_several_lines(self, tuned, tmp_path):
        """A file may be one list, or objects over lines; one that is broken is one error, not one for each line."""
        asked = [question(1) | {"id": "a"}, question(2) | {"id": 7}]
        (tmp_path / "lines").write_text("\n".join(map(json.dumps, asked)) + "\n")
        lines = run("choose", tuned, "lines", "--json", folder=tmp_path).works().json
        for indent in (None, 1, 4):
            (tmp_path / "list").write_text(json.dumps(asked, indent=indent) + "\n")
            (tmp_path / "one").write_text("\n\n" + json.dumps(asked[0], indent=indent))
            rows = run("choose", tuned, "list", "one", "lines", "--json", folder=tmp_path).works().json
            assert [row["logits"] for row in rows] == [row["logits"] for row in [*lines, lines[0], *lines]]
            assert [row["id"] for row in rows] == ["a", 7, "a", "a", 7]
        for indent, between in ((2, "\n"), (0, ""), (None, " ")):
            stream = between.join(json.dumps(one, indent=indent) for one in asked * 2)
            rows = run("choose", tuned, "--json", stdin=stream).works().json
            assert [(row["id"], row["logits"]) for row in rows] == [(row["id"], row["logits"]) for row in lines * 2]
            (tmp_path / "stream.json").write_text(stream)
            assert run("evaluate", tuned, "stream.json", "--json", folder=tmp_path).works().json[0]["examples"] == 4
        (tmp_path / "two").write_text(json.dumps(asked[0], indent=2).replace(": ", " ", 1) + "\n" + json.dumps(asked[1], indent=2))
        said = run("choose", tuned, "two", "lines", "--json", folder=tmp_path).fails(1, "two:1", "syntax error")
        assert len(said.err.splitlines()) == 1 and len([row for row in said.json if "logits" in row]) == 3
        # Lines of which one is broken stay lines.
        (tmp_path / "broken").write_text(json.dumps(asked[0]) + "\n{\n" + json.dumps(asked[1]) + "\n")
        assert [row["id"] for row in run("choose", tuned, "broken", "--json", folder=tmp_path).fails(1, "broken:2").json if "logits" in row] == ["a", 7]

    def test_bad_input(self, tuned):
        run("choose", tuned, stdin=json.dumps(question(1) | {"candidates": []})).fails(1, "at least one choice")
        asked = question(1) | {"candidates": ["the [ent] of", "a"]}
        run("choose", tuned, stdin=json.dumps(asked)).fails(1, "without the special token [ent]")
        run("choose", tuned, stdin=json.dumps(question(1) | {"candidates": ["the of"] * 40})).fails(
            1, "question and candidates")  # fmt: skip
        run("classify", tuned, "--text", "a").fails(1, "found candidate-scoring")
        run("choose", FIXTURES / "tiny_longformer_qa", stdin=json.dumps(question(1))).fails(1, "multiple-choice")
        run("choose", CHOOSER, "--stride", 4, stdin=json.dumps(question(1))).fails(2, "--stride: expected truncation", "--truncate")

    def test_models_that_cannot_read_marks_or_candidates(self, tuned, tmp_path):
        data = write(tmp_path / "w.json", json.dumps([question(1)]))
        bare = without_added_tokens(tuned, tmp_path / "bare")
        for done in (run("evaluate", bare, data), run("choose", bare, stdin=json.dumps(question(1)))):
            done.fails(1, "expected the special token [question], found none")
        qa = FIXTURES / "tiny_longformer_qa"
        run("evaluate", qa, data, "--task", "candidates").fails(1, "expected a head for candidates", "found question-answering")


def test_evaluate_tells_segments_and_predictions(tuned, tmp_path):
    rows = [question(i) for i in range(5)]
    rows[2]["supports"] = ["the of to " * 30]
    data = write(tmp_path / "w.json", json.dumps(rows))
    done = run("evaluate", tuned, data, "--task", "candidates", "--stride", 0, "--json", "--predictions", tmp_path / "p.jsonl")
    assert "1 of 5 examples is longer than the model: read in segments" in done.err
    report = done.json[0]
    assert report["examples"] == 5 and report["segmented_examples"] == 1
    said = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    expected = [run("choose", tuned, "--stride", 0, "--json", stdin=json.dumps(row)).works().json[0] for row in rows]
    assert [one["prediction"] for one in said] == [one["best"] for one in expected]
    right = np.mean([one["prediction"] == row["candidates"].index(row["answer"]) for one, row in zip(said, rows)])
    assert report["metrics"]["accuracy"] == pytest.approx(right)
    lost = expected[2]["tokens"] - 64
    done = run("evaluate", tuned, data, "--truncate", "--json")
    assert done.json[0]["truncated_examples"] == 1 and done.json[0]["truncated_tokens"] == lost > 0
    assert f"1 of 5 examples is longer than the model: cut {lost} of {report['tokens']} tokens" in done.err
    done = ran("finetune", tuned, data, "--truncate", "--output-dir", tmp_path / "out", "--max-steps", 1, *FAST)
    assert f"1 document is longer than the model: cut {lost} tokens" in done.err


def test_convert_carries_the_head(tuned, tmp_path):
    run("convert", tuned, tmp_path / "longer", "--max-positions", 128).works()
    asked = json.dumps(question(3))
    before, after = (run("choose", folder, "--json", stdin=asked).works().json[0]["logits"]
                     for folder in (tuned, tmp_path / "longer"))  # fmt: skip
    assert np.allclose(before, after, atol=1e-5)


class TestData:
    @pytest.mark.parametrize("change", [{"supports": []}, {"supports": [""]}, {"supports": ["", "at"]}, {"supports": ["his"]},
                                        {"candidates": [ANSWER]}, {"query": ""}])  # fmt: skip
    def test_little_is_legal(self, tuned, tmp_path, change):
        data = write(tmp_path / "w.json", json.dumps([question(1) | change]))
        report = run("evaluate", tuned, data, "--json").works().json[0]
        assert report["examples"] == 1 and report["metrics"]["accuracy"] in (0, 1)
        row = run("choose", tuned, "--json", stdin=json.dumps(question(1) | change)).works().json[0]
        assert np.isfinite(row["logits"]).all() and np.isclose(sum(row["probabilities"]), 1)
        ran("finetune", tuned, data, "--output-dir", tmp_path / "out", "--max-steps", 2, "--validation-file", data,
            "--eval-strategy", "steps", "--eval-steps", 2, *EACH_STEP)
        losses = losses_of(tmp_path / "out")
        assert len(losses) == 3 and np.isfinite(losses).all()
        # One candidate is right for sure.
        assert change.get("candidates") is None or losses == [0, 0, 0]
        assert all(np.isfinite(value).all() for value in tensors(tmp_path / "out").values())

    def test_broken_records_are_named_or_counted(self, tuned, longformer, tmp_path):
        good = question(1)
        broken = {"found \"his\" again": good | {"candidates": [ANSWER, "at", ANSWER]},
                  "one of the 2 choices": good | {"candidates": ["at", "on"]},
                  "at least one choice": good | {"candidates": []},
                  "\"candidates\"": good | {"candidates": "his"},
                  "\"supports\"": good | {"supports": "his"},
                  "the right choice": {key: value for key, value in good.items() if key != "answer"},
                  "the special token [ent]": good | {"supports": ["a [ent] b"]},
                  "question and candidates": good | {"candidates": ["the of " * 40, ANSWER]}}  # fmt: skip
        for named, record in broken.items():
            data = write(tmp_path / "w.json", json.dumps([good, record | {"id": "broken"}, question(2)]))
            for command in (["evaluate", tuned, data], ["finetune", longformer, data, "--task", "candidates", "--output-dir",
                                                        tmp_path / "o", "--max-steps", 1, "--overwrite-output-dir", *FAST]):  # fmt: skip
                for flags in ([], ["--stride", 0]):
                    run(*command, *flags).fails(1, "w.json", "2", named, "--skip-invalid")
            report = run("evaluate", tuned, data, "--skip-invalid", "--json").json[0]
            # Records that are no question do not belong to the data set; questions that the model
            # cannot read count as wrong.
            is_read = named not in ("the special token [ent]", "question and candidates")
            assert report["skipped"] == 1 and report["examples"] == 2 and report["missing"] == (0 if is_read else 1)
            predictions = tmp_path / "p.json"
            alone = run("evaluate", tuned, data, "--skip-invalid", "--json", "--official-predictions", predictions).json[0]["metrics"]
            scored = run("evaluate", "--score", predictions, data, "--skip-invalid", "--json").json[0]
            assert scored["metrics"] == alone and scored["examples"] == 2 + report["missing"]
            done = ran("finetune", longformer, data, "--task", "candidates", "--skip-invalid", "--output-dir", tmp_path / "o",
                       "--max-steps", 1, "--overwrite-output-dir", *FAST)  # fmt: skip
            assert "left out 1 broken example" in done.err and named in done.err and "candidates: 2 examples, 2 rows" in done.err

    def test_annotations_and_numbers_of_spaces_do_not_count(self, tuned):
        plain = run("choose", tuned, "--json", stdin=json.dumps(question(1))).works().json[0]
        other = question(1) | {"annotations": [["follows", "likely"]]}
        other["supports"] = ["\n " + text.replace(" ", " \t\u00a0 ") + "  " for text in other["supports"]]
        assert run("choose", tuned, "--json", stdin=json.dumps(other)).works().json[0]["logits"] == plain["logits"]

    def test_published_predictions(self, tuned, tmp_path):
        rows = [question(i) for i in range(5)]
        data = write(tmp_path / "w.json", json.dumps(rows))
        report = run("evaluate", tuned, data, "--json", "--official-predictions", tmp_path / "p.json").works().json[0]
        said = json.loads((tmp_path / "p.json").read_text())
        assert all(said[row["id"]] in row["candidates"] for row in rows) and len(said) == 5
        scored = run("evaluate", "--score", tmp_path / "p.json", data, "--json").works().json[0]
        right = sum(said[row["id"]] == row["answer"] for row in rows) / 5
        assert scored["metrics"] == report["metrics"] == {"accuracy": right}
        del said["q1"]
        write(tmp_path / "p.json", json.dumps(said))
        scored = run("evaluate", "--score", tmp_path / "p.json", data, "--json")
        assert scored.json[0]["missing"] == 1 and "1 example has no prediction" in scored.err
        assert scored.json[0]["metrics"]["accuracy"] == sum(said.get(row["id"]) == row["answer"] for row in rows) / 5
        write(data, json.dumps([*rows, question(5) | {"answer": "nobody"}]))
        scored = run("evaluate", "--score", tmp_path / "p.json", data, "--skip-invalid", "--json")
        assert scored.json[0]["skipped"] == 1 and scored.json[0]["examples"] == 5
        assert "left out 1 broken example" in scored.err


    @pytest.mark.parametrize("form,other", [("NFC", "NFD"), ("NFD", "NFC")])
    def test_answers_may_have_their_letters_composed_otherwise(self, tmp_path, form, other):
        names = ["café", "각", "ô"]
        rows = [question(i) | {"candidates": [unicodedata.normalize(form, one) for one in names],
                               "answer": unicodedata.normalize(form if i % 2 else other, names[i])} for i in range(3)]  # fmt: skip
        data = write(tmp_path / "w.json", json.dumps(rows))
        for said in (form, other):
            for wrong, accuracy in ((0, 1), (1, 0)):
                answers = {f"q{i}": unicodedata.normalize(said, names[(i + wrong) % 3]) for i in range(3)}
                scored = run("evaluate", "--score", write(tmp_path / "p.json", json.dumps(answers)), data, "--json").works().json[0]
                assert scored["metrics"]["accuracy"] == accuracy
        # Letters that only look alike are others.
        write(tmp_path / "p.json", json.dumps({"q0": "cafe", "q1": "각 ", "q2": "0"}))
        assert run("evaluate", "--score", tmp_path / "p.json", data, "--json").works().json[0]["metrics"]["accuracy"] == 0
        # Each of two candidates that look alike is itself.
        both = [question(0) | {"candidates": ["cafe\u0301", "caf\u00e9"], "answer": "caf\u00e9"}]
        write(data, json.dumps(both))
        for answer, accuracy in (("caf\u00e9", 1), ("cafe\u0301", 0)):
            write(tmp_path / "p.json", json.dumps({"q0": answer}))
            assert run("evaluate", "--score", tmp_path / "p.json", data, "--json").works().json[0]["metrics"]["accuracy"] == accuracy

    def test_questions_without_answers_are_answered(self, tuned, tmp_path):
        rows = [{key: value for key, value in question(i).items() if key != "answer"} for i in range(3)]
        data = write(tmp_path / "w.json", json.dumps(rows))
        report = run("evaluate", tuned, data, "--task", "candidates", "--json", "--official-predictions", tmp_path / "p.json").works().json[0]
        assert report["metrics"] == {} and report["examples"] == 3
        answered = write(tmp_path / "a.json", json.dumps([question(i) for i in range(3)]))
        run("evaluate", tuned, answered, "--official-predictions", tmp_path / "q.json").works()
        assert json.loads((tmp_path / "p.json").read_text()) == json.loads((tmp_path / "q.json").read_text())
        run("evaluate", "--score", tmp_path / "p.json", data, "--task", "candidates").fails(1, "w.json", "the right choice", '"answer"')
        run("finetune", tuned, data, "--task", "candidates", "--output-dir", tmp_path / "o").fails(1, "w.json", '"answer"', "none")
        mixed = write(tmp_path / "m.json", json.dumps([rows[0], question(1)]))
        run("evaluate", tuned, mixed, "--task", "candidates").fails(1, "m.json", "2", "expected no right choice")

    def test_choose_reads_published_files(self, tuned, tmp_path):
        rows = [question(i) for i in range(3)]
        lines = write(tmp_path / "w.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        expected = run("choose", tuned, lines, "--json").works().json
        said = run("choose", tuned, write(tmp_path / "w.json", json.dumps(rows)), "--json").works().json
        assert [row | {"file": lines.name} for row in said] == [row | {"file": lines.name} for row in expected]
        done = run("choose", tuned, "--json", stdin=json.dumps([rows[0], 7, rows[2]]))
        assert done.code == 1 and [row.get("best") for row in done.json] == [said[0]["best"], None, said[2]["best"]]
        assert done.json[1]["line"] == 2 and "JSON object" in done.json[1]["error"]
        assert run("choose", tuned, "--json", stdin="[]\n" + json.dumps(rows[1])).works().json[0]["logits"] == said[1]["logits"]


class TestPublishedData:
    def test_wikihop(self, tuned, tmp_path):
        data = pathlib.Path(os.environ.get("LONGFORMER_DATA") or FIXTURES.parents[2] / "shared" / "data")
        if not data.is_dir():
            pytest.skip("no data sets")
        file = data / "tasks" / "wikihop_sample.json"
        rows = json.loads(file.read_text())
        draw = random.Random(3)
        said = {row["id"]: draw.choice(row["candidates"]) for row in rows[1:]} | {"unknown": "x"}
        said[rows[2]["id"]] = rows[2]["answer"]
        write(tmp_path / "p.json", json.dumps(said))
        scored = run("evaluate", "--score", tmp_path / "p.json", file, "--json").passes().json[0]
        assert scored["metrics"]["accuracy"] == sum(said.get(row["id"]) == row["answer"] for row in rows) / len(rows) > 0
        assert scored["missing"] == 1 and scored["examples"] == len(rows)
        # The tiny model has 64 tokens: many records have candidates alone that exceed it.
        report = run("evaluate", tuned, file, "--stride", 0, "--skip-invalid", "--json", "--official-predictions", tmp_path / "q.json").json[0]
        assert report["skipped"] + report["examples"] == len(rows) and report["skipped"] > 0
        assert report["segmented_examples"] == report["examples"] == len(json.loads((tmp_path / "q.json").read_text()))
