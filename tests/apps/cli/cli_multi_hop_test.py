"""Questions over paragraphs, the form of the Longformer paper for HotpotQA: `finetune --task multihop` adds tokens and
head, `evaluate` counts as the official script does, which is written here once more, selects paragraphs for a second
stage, and `qa` answers with evidence. Logits and gradients are held against PyTorch in multi_hop_head_test.cc."""

import collections
import csv
import json
import lzma
import math
import os
import pathlib
import random
import re
import shutil
import string

import numpy as np
import pytest
from cli_test import BERT, FIXTURES, ROOT, run
from cli_training_test import EACH_STEP, FAST, QA, losses_of, ran, tensors, without_added_tokens, without_dropout, write

MARKS = ["[q]", "[/q]", "<t>", "</t>", "[s]"]
WORDS = "of to in is for it with as on be at by had not are but".split()
HEAD = ["paragraph_scorer.dense", "paragraph_scorer.out_proj", "qa_outputs", "sentence_scorer.dense",
        "sentence_scorer.out_proj", "type_classifier"]  # fmt: skip


def question(seed):
    """Evidence has "his" or "her"; these words are the answers, and titles tell the paragraphs. Some are yes."""
    draw = random.Random(seed)
    words = lambda: " ".join(draw.choices(WORDS, k=2))
    is_yes = seed % 3 == 0
    context = [["he", [words() + " .", " his " + words() + " ."]], ["she", [" her " + words() + " .", words()]],
               ["they", [words() + " .", words() + " .", ""]]]  # fmt: skip
    facts = [["he", 1], ["she", 0]]
    draw.shuffle(context)
    return {"_id": f"q{seed}", "question": "has the" if is_yes else "they were", "answer": "yes" if is_yes else "his",
            "supporting_facts": facts, "context": context, "type": "bridge", "level": "easy"}  # fmt: skip


@pytest.fixture(scope="module")
def longformer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("multihop")
    run("convert", without_dropout(BERT, folder / "bert"), folder / "long", "--max-positions", 64, "--window", 8).works()
    return folder / "long"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data") / "d.json", json.dumps([question(i) for i in range(12)]))


@pytest.fixture(scope="module")
def tuned(longformer, data, tmp_path_factory):
    """Knows the answers. The head has dropout."""
    folder = tmp_path_factory.mktemp("tuned")
    done = ran("finetune", longformer, data, "--task", "multihop", "--output-dir", folder / "model", "--max-steps", 150,
               "--learning-rate", 0.005, *FAST, "--gradient-accumulation-steps", 1)  # fmt: skip
    assert "new tokens: [q], [/q], <t>, </t>, [s]" in done.err
    return folder / "model"


class TestFinetune:
    def test_learns_answers_and_evidence(self, tuned, tmp_path):
        others = write(tmp_path / "o.json", json.dumps([question(i) for i in range(100, 130)]))
        report = run("evaluate", tuned, others, "--json").works().json[0]
        assert report["task"] == "multi-hop-question-answering"
        metrics = report["metrics"]
        assert list(metrics)[0] == "joint_f1" and metrics["joint_f1"] > 0.9 and metrics["type_accuracy"] > 0.9
        assert metrics["paragraph_recall"] > 0.9
        config = json.loads((tuned / "config.json").read_text())
        assert config["architectures"] == ["LongformerForMultiHopQuestionAnswering"]
        assert "multi-hop-question-answering" in run("info", tuned).works().out

    def test_tensors_of_the_head(self, tuned, longformer):
        after, before = tensors(tuned), tensors(longformer)
        heads = {name for name in after if not name.startswith("longformer.")}
        assert heads == {f"{layer}.{part}" for layer in HEAD for part in ("weight", "bias")}
        assert after["paragraph_scorer.dense.weight"].shape == (16, 16)
        assert after["type_classifier.weight"].shape == (3, 16) and after["qa_outputs.bias"].shape == (2,)
        words = "embeddings.word_embeddings.weight"
        assert len(after["longformer." + words]) == len(before[words]) + 5

    def test_further_training_takes_all_from_the_folder(self, tuned, data, tmp_path):
        done = ran("finetune", tuned, data, "--output-dir", tmp_path / "more", "--max-steps", 1, *FAST)
        assert "multihop: 12 examples" in done.err and "new" not in done.err

    def test_spans_begin_as_those_of_a_model_for_one_document(self, tmp_path):
        row = {"_id": "a", "question": "it", "answer": "his", "supporting_facts": [["he", 0]], "context": [["he", ["his ."]]]}
        data = write(tmp_path / "d.json", json.dumps([row]))
        done = ran("finetune", QA, data, "--task", "multihop", "--output-dir", tmp_path / "out", "--max-steps", 1,
                   "--learning-rate", 1e-9, *FAST)  # fmt: skip
        assert "new weights: paragraph_scorer.dense.bias" in done.err and "qa_outputs" not in done.err
        assert np.allclose(tensors(tmp_path / "out")["qa_outputs.weight"], tensors(QA)["qa_outputs.weight"], atol=1e-6)

    def test_goes_on_bit_equal(self, longformer, data, tmp_path):
        flags = ["finetune", longformer, data, "--task", "multihop", "--logging-steps", 1, "--save-strategy", "steps",
                 "--save-steps", 4, "--per-device-train-batch-size", 2, "--gradient-accumulation-steps", 1,
                 "--stride", 0]  # fmt: skip
        ran(*flags, "--output-dir", tmp_path / "whole", "--max-steps", 8)
        ran(*flags, "--output-dir", tmp_path / "again", "--max-steps", 8, "--resume-from-checkpoint",
            tmp_path / "whole" / "checkpoint-4")  # fmt: skip
        one, two = tensors(tmp_path / "whole"), tensors(tmp_path / "again")
        assert all((one[name] == two[name]).all() for name in one)

    def test_the_seed_draws(self, tuned, data, tmp_path):
        """An existing head leaves only order and dropout to draw."""
        said = []
        for run_number, seed in enumerate((5, 5, 6)):
            out = tmp_path / str(run_number)
            ran("finetune", tuned, data, "--output-dir", out, "--max-steps", 3, "--seed", seed, *FAST)
            said.append((out / "model.safetensors").read_bytes())
        assert said[0] == said[1] != said[2]

    def test_loss_weights(self, longformer, data, tmp_path):
        ran("finetune", longformer, data, "--task", "multihop", "--output-dir", tmp_path / "all", "--max-steps", 3, *FAST)
        ran("finetune", longformer, data, "--task", "multihop", "--output-dir", tmp_path / "spans", "--max-steps", 3,
            "--loss-weights", "1,1,0,0", "--weight-decay", 0, *FAST)  # fmt: skip
        name = "sentence_scorer.dense.weight"
        ran("finetune", longformer, data, "--task", "multihop", "--output-dir", tmp_path / "none", "--max-steps", 1,
            "--learning-rate", 1e-12, *FAST)  # fmt: skip
        drawn, kept, moved = (tensors(tmp_path / run)[name] for run in ("none", "spans", "all"))
        assert np.abs(drawn - kept).max() < 1e-9 and np.abs(drawn - moved).max() > 1e-3
        for out, weights in (("ones", "1,1,1,1"), ("others", "1,5,10,10")):
            ran("finetune", longformer, data, "--task", "multihop", "--output-dir", tmp_path / out, "--max-steps", 3,
                "--loss-weights", weights, *FAST)  # fmt: skip
        usual, ones, others = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("all", "ones", "others"))
        assert usual == ones != others
        for weights in ("1,1,1", "1,1,1,x", "1,1,1,-1"):
            run("finetune", longformer, data, "--output-dir", tmp_path / "bad", "--loss-weights", weights).fails(
                2, "four numbers", weights)  # fmt: skip

    def test_a_bert_has_no_globals(self, data, tmp_path):
        # 24 tokens: rows of one paragraph, cut where that is too long.
        ran("finetune", BERT, data, "--task", "multihop", "--stride", 0, "--output-dir", tmp_path / "out", "--max-steps", 2,
            *FAST)  # fmt: skip
        done = run("evaluate", tmp_path / "out", data, "--stride", 0, "--json")
        assert done.json[0]["segmented_examples"] == 12 and done.json[0]["examples"] == 12
        run("evaluate", tmp_path / "out", data, "--stride", 0, "--global-attention", "question").fails(
            2, "--global-attention", "bert")  # fmt: skip

    def test_rules_of_global_attention(self, tuned, data):
        said = {}
        for rule in (None, "question", "none"):
            flags = ["--global-attention", rule] if rule else []
            rows = run("qa", tuned, data, "--json", *flags).works().json
            said[rule] = tuple(row["paragraphs"][0]["logit"] for row in rows)
        assert len(set(said.values())) == 3
        run("evaluate", tuned, data, "--global-attention", "sentences").fails(2, "--global-attention", "question or none", "sentences")

    def test_reports_what_is_not_there(self, tuned, tmp_path):
        rows = [question(1), question(2), question(4)]
        rows[0]["supporting_facts"] += [["he", 9], ["nobody", 0]]
        rows[1]["answer"] = "unheard of"
        rows[2]["context"][0][1] = ["of to in " * 30]
        data = write(tmp_path / "d.json", json.dumps(rows))
        ran("finetune", tuned, data, "--output-dir", tmp_path / "out", "--max-steps", 1, "--truncate", *FAST)
        done = ran("finetune", tuned, data, "--output-dir", tmp_path / "more", "--max-steps", 1, "--truncate", *FAST)
        for note in ("2 supporting facts are of sentences that there are not", "questions have no answer in what is read",
                     "1 document is longer than the model", "2 paragraphs and 6 sentences are not read"):  # fmt: skip
            assert note in done.err, done.err
        report = run("evaluate", tuned, data, "--truncate", "--json").json[0]
        assert report["missing_facts"] == 2 and report["unread_paragraphs"] == 2 and report["truncated_examples"] == 1
        assert report["unreached_answers"] == 2
        assert "2 of 3 questions have no answer in what is read" in run("evaluate", tuned, data, "--truncate").err
        assert run("evaluate", tuned, data, "--stride", 0, "--json").json[0]["segmented_examples"] == 1
        # [CLS] [q] they were [/q], paragraphs, [SEP]
        lost = 5 + 94 + 12 + 12 + 1 - 64
        assert report["truncated_tokens"] == lost and f"1 document is longer than the model: cut {lost} tokens" in done.err
        note = f"1 of 3 examples is longer than the model: cut {lost} of {report['tokens']} tokens"
        assert note in run("evaluate", tuned, data, "--truncate").err

    def test_bad_input(self, tuned, longformer, data, tmp_path):
        marked = question(5)
        marked["context"][1][1][0] = "crowd[s] of"
        texts = write(tmp_path / "marked.json", json.dumps([question(1), marked]))
        run("evaluate", tuned, texts).fails(1, "marked.json:2: q5", "without the special token [s]")
        run("finetune", tuned, texts, "--output-dir", tmp_path / "out").fails(
            1, "marked.json:2: q5", "without the special token [s]", "--skip-invalid")  # fmt: skip
        done = ran("finetune", tuned, texts, "--skip-invalid", "--output-dir", tmp_path / "out", "--max-steps", 1, *FAST)
        assert "multihop: 1 example, 1 row" in done.err and "left out 1 broken example" in done.err
        run("evaluate", tuned, write(tmp_path / "long.json", json.dumps([question(1) | {"question": "of " * 100}])),
            "--truncate").fails(1, "q1", "question", "63 tokens")  # fmt: skip
        run("evaluate", tuned, write(tmp_path / "much.json", json.dumps([question(1) | {"context": [["t", ["of " * 99]]]}]))
            ).fails(1, "q1", "64 tokens", "--truncate", "--stride N")  # fmt: skip
        tests = [{"_id": "a", "question": "of", "context": []}]
        run("finetune", longformer, write(tmp_path / "test.json", json.dumps(tests)), "--task", "multihop", "--output-dir",
            tmp_path / "out").fails(1, "test.json", "answers or supporting facts to learn from")  # fmt: skip
        run("finetune", longformer, write(tmp_path / "bad.json", json.dumps([question(1) | {"context": [["t"]]}])), "--task",
            "multihop", "--output-dir", tmp_path / "out").fails(1, "bad.json: record 1", "[title, [sentence")  # fmt: skip
        run("evaluate", QA, data, "--task", "multihop").fails(1, "multihop", "question-answering")
        run("classify", tuned, "--text", "a").fails(1, "found multi-hop-question-answering")
        bare = without_added_tokens(tuned, tmp_path / "bare")
        run("evaluate", bare, data).fails(1, "the special token [q]", "none")
        run("qa", bare, data).fails(1, "the special token [q]", "none")


class TestEdges:
    def train(self, folder, data, out, *flags):
        return ran("finetune", folder, data, "--task", "multihop", "--output-dir", out, "--max-steps", 3, *FAST, *flags)

    def test_a_training_adds_them_and_the_folder_keeps_them(self, longformer, data, tmp_path):
        done = self.train(longformer, data, tmp_path / "out", "--edges", "names,titles")
        assert "edge_keys" in done.err
        config = json.loads((tmp_path / "out" / "config.json").read_text())
        assert config["edges"] == ["names", "titles"]
        tables = {name: x for name, x in tensors(tmp_path / "out").items() if name.endswith(".edge_keys")}
        assert tables and all(x.shape[1] == 2 for x in tables.values())
        # Words in small letters are no names, and titles have sentences beyond their windows.
        assert all(np.abs(x[:, 0]).max() == 0 < np.abs(x[:, 1]).max() for x in tables.values())
        assert "edges between names and titles" in run("info", tmp_path / "out").works().out
        plain = tmp_path / "plain"
        shutil.copytree(tmp_path / "out", plain)
        (plain / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "edges"}))
        said = [run("qa", folder, data, "--json").works().json for folder in (tmp_path / "out", plain)]
        assert said[0] != said[1]
        assert "not used" in run("info", plain).works().out
        self.train(tmp_path / "out", data, tmp_path / "more")
        assert json.loads((tmp_path / "more" / "config.json").read_text())["edges"] == ["names", "titles"]
        done = self.train(tmp_path / "out", data, tmp_path / "other", "--edges", "titles")
        assert "edge_keys" in done.err
        others = [x for name, x in tensors(tmp_path / "other").items() if name.endswith(".edge_keys")]
        assert others and all(x.shape[1] == 1 for x in others)

    def test_recomputation_changes_nothing(self, longformer, data, tmp_path):
        for name, flags in (("kept", []), ("again", ["--gradient-checkpointing"])):
            self.train(longformer, data, tmp_path / name, "--edges", "titles", *flags)
        one, two = tensors(tmp_path / "kept"), tensors(tmp_path / "again")
        # Biases of keys and of starts change no loss, so rounding moves them.
        assert all(np.allclose(one[name], two[name], atol=1e-4) for name in one if not name.endswith("bias"))
        assert any(name.endswith("edge_keys") for name in one)

    def test_what_cannot_be(self, longformer, data, tmp_path):
        flags = [data, "--task", "multihop", "--output-dir", tmp_path / "out", "--edges"]
        run("finetune", longformer, *flags, "chains").fails(2, "--edges", "names and titles", "chains")
        run("finetune", longformer, *flags, "names,names").fails(2, "--edges", "at most once")
        run("finetune", BERT, *flags, "names").fails(2, "--edges", "Longformer", "bert")
        run("finetune", longformer, *flags, "names", "--lora-rank", 2).fails(1, "adapter")


def test_empty_things_are_legal(tuned, tmp_path):
    rows = [question(1) | {"_id": "none", "context": []}, question(2) | {"_id": "one", "context": [["he", ["his"]]]},
            question(3) | {"_id": "blank", "context": [["", ["", " "]], ["he", []]]}]  # fmt: skip
    data = write(tmp_path / "d.json", json.dumps(rows))
    done = run("evaluate", tuned, data, "--json", "--official-predictions", tmp_path / "p.json")
    assert "1 example is empty" in done.err and all(math.isfinite(v) for v in done.json[0]["metrics"].values())
    said = json.loads((tmp_path / "p.json").read_text())
    assert said["sp"]["none"] == [] and set(said["answer"]) == {"none", "one", "blank"}
    done = ran("finetune", tuned, data, "--output-dir", tmp_path / "out", "--max-steps", 2, *FAST)
    assert "nan" not in done.err.lower()


@pytest.mark.parametrize("change", [{"context": []}, {"context": [], "answer": "yes"}, {"context": [], "supporting_facts": []},
                                    {"context": [["he", ["his"]]]}, {"context": [["", ["", " "]], ["he", []]]}])  # fmt: skip
def test_an_empty_thing_is_legal_alone(tuned, tmp_path, change):
    data = write(tmp_path / "d.json", json.dumps([question(1) | change]))
    ran("finetune", tuned, data, "--output-dir", tmp_path / "out", "--max-steps", 2, "--validation-file", data, "--eval-strategy", "steps",
        "--eval-steps", 2, *EACH_STEP)  # fmt: skip
    losses = losses_of(tmp_path / "out")
    assert len(losses) == 3 and all(math.isfinite(loss) for loss in losses)
    assert all(np.isfinite(value).all() for value in tensors(tmp_path / "out").values())
    report = run("evaluate", tmp_path / "out", data, "--json").passes().json[0]
    assert report["examples"] == 1 and all(math.isfinite(value) for value in report["metrics"].values())


# The official script, from its description in docs/multi-hop.md.


def normal(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def words(predicted, gold):
    """em, f1, precision, recall"""
    found, right = normal(predicted), normal(gold)
    em = float(found == right)
    if found != right and ({found, right} & {"yes", "no", "noanswer"}):
        return em, 0.0, 0.0, 0.0
    common = sum((collections.Counter(found.split()) & collections.Counter(right.split())).values())
    if common == 0:
        return em, 0.0, 0.0, 0.0
    precision, recall = common / len(found.split()), common / len(right.split())
    return em, 2 * precision * recall / (precision + recall), precision, recall


def sets(predicted, gold):
    found, right = set(map(tuple, predicted)), set(map(tuple, gold))
    common = len(found & right)
    precision = common / len(found) if found else 0.0
    recall = common / len(right) if right else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    return float(found == right), f1, precision, recall


def official(predictions, gold):
    names = ("em", "f1", "prec", "recall")
    sums = collections.Counter({prefix + name: 0.0 for prefix in ("", "sp_", "joint_") for name in names})
    for row in gold:
        key, parts = row["_id"], {}
        if key in predictions["answer"] and "answer" in row:
            parts[""] = words(predictions["answer"][key], row["answer"])
        if key in predictions["sp"] and "supporting_facts" in row:
            parts["sp_"] = sets(predictions["sp"][key], row["supporting_facts"])
        if len(parts) == 2:
            (em, _, precision, recall), (sp_em, _, sp_precision, sp_recall) = parts[""], parts["sp_"]
            precision, recall = precision * sp_precision, recall * sp_recall
            f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
            parts["joint_"] = (em * sp_em, f1, precision, recall)
        for prefix, values in parts.items():
            for name, value in zip(names, values):
                sums[prefix + name] += value
    return {name: value / len(gold) for name, value in sums.items()}


TRAPS = ["yes", "no", "Yes.", "yes it is", "the", "", "noanswer", "No answer", "a b a", "b a b", "É à la", "x-y", "xy", "not",
         "the no", "1,000", "“q”", "a  b", "b\u00a0a"]  # fmt: skip


def compared(gold, predictions, folder, *flags):
    """The largest difference of our figures from the official ones."""
    write(folder / "gold.json", json.dumps(gold))
    write(folder / "said.json", json.dumps(predictions))
    done = run("evaluate", "--score", folder / "said.json", folder / "gold.json", "--json", *flags)
    assert done.code == 0, done.err
    ours, right = done.json[0]["metrics"], official(predictions, gold)
    assert set(right) <= set(ours)
    assert max(abs(ours[name] - value) for name, value in right.items()) <= 1e-9, (ours, right)
    return done


def test_metrics_are_those_of_the_official_script_in_traps(tmp_path):
    draw = random.Random(3)
    facts = [["A", 0], ["A", 1], ["B", 0], ["B", 0], ["C", 7], ["D\t", 2]]
    gold, predictions = [], {"answer": {}, "sp": {}}
    for i, (answer, said) in enumerate([(a, b) for a in TRAPS for b in TRAPS]):
        row = {"_id": f"t{i}", "question": "q", "answer": answer, "context": [["A", ["x", "y"]]],
               "supporting_facts": draw.sample(facts, draw.randrange(5))}  # fmt: skip
        if i % 23 == 5:
            del row["answer"]
        if i % 29 == 6:
            del row["supporting_facts"]
        gold.append(row)
        if i % 17:
            predictions["answer"][f"t{i}"] = said
        if i % 19:
            predictions["sp"][f"t{i}"] = draw.choice([row.get("supporting_facts", []), draw.sample(facts, draw.randrange(5))])
    predictions["answer"]["unasked"] = "x"
    done = compared(gold, predictions, tmp_path)
    missing = sum(row["_id"] not in predictions["answer"] or row["_id"] not in predictions["sp"] for row in gold)
    assert done.json[0]["missing"] == missing and f"{missing} examples have no prediction" in done.err


PIECES = ["the", "a", "An", "x", "Yy", "-", "_", "'", "‘", " ", "  ", "\n", "\u00a0", "\x1c", "É", "ß", "İ", "Σ", "ΟΣ", "a\u0301",
          "the\u0301", "“", "–", "½", "²", "中", "‿", ".", "!", "ª", "ǅ", "Ⅷ"]  # fmt: skip


def test_metrics_are_those_of_the_official_script_over_any_characters(tmp_path):
    draw = random.Random(5)

    def text():
        return "".join(draw.choice(PIECES) for _ in range(draw.randint(0, 5)))

    gold, predictions = [], {"answer": {}, "sp": {}}
    for i in range(1500):
        row = {"_id": f"t{i}", "question": "q", "answer": text(), "context": [["A", ["x"]]], "supporting_facts": [["A", 0]]}
        gold.append(row)
        predictions["answer"][f"t{i}"] = draw.choice([normal(row["answer"]), row["answer"].upper(), text()])
        predictions["sp"][f"t{i}"] = [["A", 0]]
    compared(gold, predictions, tmp_path)
    assert official(predictions, gold)["em"] > 0.5


def test_what_the_model_could_not_read_counts_as_wrong(tuned, tmp_path):
    marked = question(5)
    marked["context"][1][1][0] = "crowd[s] of"
    data = write(tmp_path / "d.json", json.dumps([question(1), marked]))
    short = tmp_path / "short.json"
    done = run("evaluate", tuned, data, "--skip-invalid", "--json", "--official-predictions", tmp_path / "p.json", "--write-selected", short)
    report = done.json[0]
    assert report["skipped"] == 1 and report["examples"] == 1 and report["missing"] == 1 and "d.json:2: q5" in done.err
    assert "1 example has no prediction, and counts as wrong" in done.err
    scored = run("evaluate", "--score", tmp_path / "p.json", data, "--json").json[0]
    official_names = [name for name in scored["metrics"] if not name.startswith("selected")]
    assert report["metrics"]["sp_f1"] > 0 and all(scored["metrics"][name] == report["metrics"][name] for name in official_names)
    assert json.loads(short.read_text())[1] == marked


def test_predictions_that_are_none(data, tmp_path):
    def refused(text, *words):
        run("evaluate", "--score", write(tmp_path / "p.json", text), data).fails(1, "p.json", *words)

    refused('{"answer": {}}', '"sp"')
    refused('{"answer": {"q1": 3}, "sp": {}}', "q1", "string")
    refused('{"answer": {}, "sp": {"q1": [["T"]]}}', "sp: q1", "[title, sentence]")


def test_predictions_that_were_written_score_as_the_model_did(tuned, data, tmp_path):
    done = run("evaluate", tuned, data, "--json", "--official-predictions", tmp_path / "p.json", "--predictions",
               tmp_path / "p.jsonl").works()  # fmt: skip
    scored = run("evaluate", "--score", tmp_path / "p.json", data, "--json").works().json[0]
    assert scored["metrics"] == done.json[0]["metrics"]
    said = json.loads((tmp_path / "p.json").read_text())
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [said["answer"][row["id"]] for row in rows] == [row["prediction"] for row in rows]
    assert [said["sp"][row["id"]] for row in rows] == [row["predicted_facts"] for row in rows]
    gold = [question(i) for i in range(12)]
    right = official(said, gold)
    assert all(abs(scored["metrics"][name] - value) <= 1e-9 for name, value in right.items())
    # Figures printed besides the official ones.
    titles = [len({t for t, _ in said["sp"][row["_id"]]} & {"he", "she"}) / 2 for row in gold]
    types = [(normal(said["answer"][row["_id"]]) == "yes") == (row["answer"] == "yes") for row in gold]
    assert scored["metrics"]["paragraph_recall"] == pytest.approx(np.mean(titles))
    assert scored["metrics"]["type_accuracy"] == pytest.approx(np.mean(types))


class TestSelection:
    def test_two_stages_through_files(self, tuned, data, longformer, tmp_path):
        short = tmp_path / "short.json"
        report = run("evaluate", tuned, data, "--json", "--write-selected", short, "--predictions",
                     tmp_path / "p.jsonl").works().json[0]  # fmt: skip
        before, after = json.loads(data.read_text()), json.loads(short.read_text())
        said = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
        kept = 0
        for old, new, row in zip(before, after, said, strict=True):
            logits = row["paragraph_logits"]
            best = sorted(range(3), key=lambda p: -logits[p])
            chosen = [p for p in best if logits[p] > -3][:5]
            chosen = sorted(chosen if len(chosen) >= 2 else best[:2])
            assert new == old | {"context": [old["context"][p] for p in chosen]}
            kept += sum(old["context"][p][0] in ("he", "she") for p in chosen)
        assert report["metrics"]["selected_gold_recall"] == pytest.approx(kept / 24)
        # The second stage learns and is measured on what was written.
        ran("finetune", longformer, short, "--task", "multihop", "--output-dir", tmp_path / "two", "--max-steps", 2, *FAST)
        run("evaluate", tmp_path / "two", short).works()

    def test_how_many_are_kept(self, tuned, data, tmp_path):
        def sizes(*flags):
            run("evaluate", tuned, data, "--write-selected", tmp_path / "s.json", *flags).works()
            return {len(row["context"]) for row in json.loads((tmp_path / "s.json").read_text())}

        assert sizes("--paragraph-threshold", -1e9) == {3}
        assert sizes("--paragraph-threshold", -1e9, "--keep-paragraphs", 2) == {2}
        assert sizes("--paragraph-threshold", 1e9) == {2}

    def test_facts_of_dropped_paragraphs_stay_in_the_metric(self, tuned, tmp_path):
        row = question(1)
        data = write(tmp_path / "d.json", json.dumps([row | {"supporting_facts": [["they", 0]]}]))
        run("evaluate", tuned, data, "--write-selected", tmp_path / "s.json", "--keep-paragraphs", 2).passes()
        done = run("evaluate", tuned, tmp_path / "s.json", "--json")
        assert [title for title, _ in json.loads((tmp_path / "s.json").read_text())[0]["context"]].count("they") == 0
        assert done.json[0]["missing_facts"] == 1 and done.json[0]["metrics"]["sp_recall"] == 0
        assert "1 supporting fact is of a sentence that there is not" in done.err

    def test_bad_use(self, tuned, data, tmp_path):
        run("evaluate", tuned, data, "--keep-paragraphs", 4).fails(2, "--write-selected")
        run("evaluate", tuned, data, "--write-selected", tmp_path / "s", "--keep-paragraphs", 1).fails(2, "from 2")
        run("evaluate", "--score", data, data, "--write-selected", tmp_path / "s").fails(2, "--score")
        tags = write(tmp_path / "a.jsonl", [{"text": "a", "label": "good"}])
        run("evaluate", FIXTURES / "tiny_longformer_classifier", tags, "--write-selected", tmp_path / "s").fails(
            1, "questions over paragraphs")  # fmt: skip


def test_evidence_of_any_number_of_paragraphs(tuned, data, tmp_path):
    def facts(count):
        run("evaluate", tuned, data, "--evidence-paragraphs", count, "--official-predictions", tmp_path / "p.json").works()
        return json.loads((tmp_path / "p.json").read_text())["sp"]

    one, two, all_above = facts(1), facts(2), facts(0)
    for row in json.loads(data.read_text()):
        key = row["_id"]
        assert len({title for title, _ in one[key]}) == 1 and len({title for title, _ in two[key]}) == 2
        order = [title for title, _ in row["context"]]
        assert two[key] == sorted(two[key], key=lambda fact: (order.index(fact[0]), fact[1]))
        assert set(map(tuple, all_above[key])) <= {(t, i) for t, s in row["context"] for i in range(len(s))}


def test_convert_carries_the_head(tuned, data, tmp_path):
    run("convert", tuned, tmp_path / "longer", "--max-positions", 128).works()
    before, after = (run("qa", folder, data, "--json").works().json for folder in (tuned, tmp_path / "longer"))
    for one, two in zip(before, after, strict=True):
        assert one["answer"] == two["answer"] and one["logit"] == pytest.approx(two["logit"], abs=1e-4)


class TestQa:
    def test_documents_are_paragraphs(self, tuned, tmp_path):
        write(tmp_path / "he.txt", "It is at of. His to in it.")
        write(tmp_path / "she.txt", "Her with as on.\n\nBe at by.")
        write(tmp_path / "they.txt", "Of to in. For it.")
        files = [tmp_path / name for name in ("he.txt", "she.txt", "they.txt")]
        found = run("qa", tuned, *files, "--question", "they were", "--json").works().json[0]
        assert found["question"] == "they were" and found["segments"] == 1
        assert [row["title"] for row in found["paragraphs"]] == ["he", "she", "they"]
        assert len({row["file"] for row in found["evidence"]}) == 2
        for row in [*found["evidence"], *([found["span"]] if found["span"] else [])]:
            text = pathlib.Path(row["file"]).read_text() if row["sentence"] is not None else row["title"]
            assert text[row["begin"] : row["end"]] == row["text"] != ""
        lines = [line.split("\t") for line in run("qa", tuned, *files, "--question", "they were").works().out.splitlines()]
        assert [line[0] for line in lines] == ["answer"] + ["evidence"] * len(found["evidence"])
        assert lines[0][6] == found["answer"] and float(lines[0][3]) == pytest.approx(found["score"], abs=1e-4)
        assert [line[6] for line in lines[1:]] == [row["text"] for row in found["evidence"]]
        twice = run("qa", tuned, *files, "--question", "they were", "-q", "has the", "--json").works().json
        assert len(twice) == 2 and twice[0] == found

    def test_titles_are_those_of_objects(self, tuned):
        lines = "".join(json.dumps({"title": title, "text": text, "id": i}) + "\n" for i, (title, text) in
                        enumerate((("he", "his of. to in."), ("she", "her as."))))  # fmt: skip
        found = run("qa", tuned, "--field", "text", "--question", "they were", "--json", stdin=lines).works().json[0]
        assert [(row["title"], row["line"], row["id"]) for row in found["paragraphs"]] == [("he", 1, 0), ("she", 2, 1)]

    def test_questions_of_data_sets(self, tuned, data, tmp_path):
        rows = json.loads(data.read_text())
        found = run("qa", tuned, data, "--json").works().json
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        piped = run("qa", tuned, "--json", stdin=lines).works().json
        drop = lambda row: {key: value for key, value in row.items() if key != "file"}
        assert list(map(drop, found)) == list(map(drop, piped))
        # Objects on one line are told apart, in tables too.
        write(tmp_path / "s.jsonl", "".join(lines.splitlines()[:2]) + "\n" + lines.splitlines()[2])
        places = [("1", ""), ("1", "2"), ("2", "")]
        for verb, more in (("qa", "-o"), ("evaluate", "--predictions")):
            for name in ("o.jsonl", "o.csv"):
                run(verb, tuned, "s.jsonl", more, name, folder=tmp_path).works()
            with open(tmp_path / "o.csv", newline="") as file:
                assert [(row["line"], row["record"]) for row in csv.DictReader(file)] == places
            told = [json.loads(row) for row in (tmp_path / "o.jsonl").read_text().splitlines()]
            assert [(str(row["line"]), str(row.get("record", ""))) for row in told] == places
        run("evaluate", tuned, data, "--official-predictions", tmp_path / "p.json").works()
        said = json.loads((tmp_path / "p.json").read_text())
        for row, record in zip(found, rows, strict=True):
            assert row["id"] == record["_id"] and row["answer"] == said["answer"][row["id"]]
            assert [[one["title"], one["sentence"]] for one in row["evidence"]] == said["sp"][row["id"]]
            for one in row["evidence"]:
                text = "".join(record["context"][one["paragraph"]][1])
                assert one["text"] == record["context"][one["paragraph"]][1][one["sentence"]].strip()
                assert text[one["begin"] : one["end"]] == one["text"] or "." not in text
        assert all(0 <= row["score"] <= 1 for row in found)

    def test_bad_input(self, tuned, data, tmp_path):
        run("qa", tuned, tmp_path / "none.txt", "--question", "q").fails(1, "none.txt", "expected a readable file")
        run("qa", tuned, write(tmp_path / "a.json", "[{}]")).fails(1, "a.json: record 1", '"question"')
        run("qa", tuned, stdin='{"question": "q"}\n').fails(1, "standard input:1", '"context"')
        run("qa", tuned, stdin="\n").fails(1, "standard input", "an empty text")
        run("qa", tuned, data, "--top-k", 3).fails(2, "--top-k")
        run("qa", tuned, data, "--no-answer").fails(2, "--no-answer")
        row = question(1) | {"question": "of [q] to"}
        run("qa", tuned, stdin=json.dumps(row)).fails(1, "without the special token [q]")
        run("qa", QA, "--text", "of").fails(2, "--question")


@pytest.fixture(scope="module")
def folder():
    data = pathlib.Path(os.environ.get("LONGFORMER_DATA") or ROOT.parent / "shared" / "data")
    if not (data / "tasks" / "hotpotqa_dev.json.xz").exists():
        pytest.skip("no data sets")
    return data / "tasks"


class TestPublishedData:
    @pytest.mark.parametrize("name", ["hotpotqa_dev", "2wikimultihopqa_dev"])
    def test_made_up_predictions_score_as_the_official_script_says(self, folder, name, tmp_path):
        gold = json.loads(lzma.open(folder / f"{name}.json.xz").read())
        draw = random.Random(1)
        predictions = {"answer": {}, "sp": {}}
        for row in gold:
            sentences = [[title, i] for title, texts in row["context"] for i in range(len(texts))]
            near = row["answer"].split()
            answers = [row["answer"], " ".join(near[:-1]), "the " + row["answer"].upper() + "!", "no", draw.choice(gold)["answer"]]
            if draw.random() < 0.95:
                predictions["answer"][row["_id"]] = draw.choice(answers)
            if draw.random() < 0.95:
                facts = [fact for fact in row["supporting_facts"] if draw.random() < 0.8]
                predictions["sp"][row["_id"]] = facts + draw.sample(sentences, draw.randrange(3))
        compared(gold, predictions, tmp_path)

    @pytest.mark.parametrize("name", ["hotpotqa_dev", "hotpotqa_train", "2wikimultihopqa_dev", "2wikimultihopqa_train"])
    def test_training_reads_whole_files(self, folder, longformer, name, tmp_path):
        """In a model with room for every token, and every answer is found."""
        gold = lzma.open(folder / f"{name}.json.xz").read()
        (tmp_path / "d.json").write_bytes(gold)
        run("convert", longformer, tmp_path / "long", "--max-positions", 4096).works()
        done = ran("finetune", tmp_path / "long", tmp_path / "d.json", "--task", "multihop", "--skip-invalid", "--output-dir",
                   tmp_path / "out", "--max-steps", 1, *FAST)  # fmt: skip
        legal = sum(not any(mark in json.dumps(row, ensure_ascii=False) for mark in MARKS) for row in json.loads(gold))
        assert f"multihop: {legal} examples, {legal} rows" in done.err
        assert "no answer in what is read" not in done.err and "longer than the model" not in done.err
