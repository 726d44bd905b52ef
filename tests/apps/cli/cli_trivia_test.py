"""TriviaQA with the program: the official metric, written here once more from its definition, on random and
on published data; training, evaluation, predictions in the published form, bad input; and `qa --best`."""

import collections
import json
import math
import os
import pathlib
import random
import re
import string

import pytest
from cli_test import FIXTURES, run
from cli_training_test import EACH_STEP, FAST, losses_of, ran

QA = FIXTURES / "tiny_longformer_qa"
DATA = pathlib.Path(os.environ.get("LONGFORMER_DATA") or FIXTURES.parents[2] / "shared" / "data")
SAMPLE = DATA / "tasks" / "triviaqa_sample"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def normalized(text):
    text = text.replace("_", " ").lower()
    text = "".join(" " if c in set(string.punctuation) | set("‘’´`") else c for c in text)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(said, right):
    said, right = normalized(said).split(), normalized(right).split()
    common = sum((collections.Counter(said) & collections.Counter(right)).values())
    if common == 0:
        return 0
    precision, recall = common / len(said), common / len(right)
    return 2 * precision * recall / (precision + recall)


def gold_of(data):
    gold = {}
    for question in data["Data"]:
        if data.get("VerifiedEval") and not question["QuestionPartOfVerifiedEval"]:
            continue
        right = question["Answer"]["NormalizedAliases"] + [normalized(one) for one in question["Answer"].get("HumanAnswers", [])]
        if data["Domain"] == "Wikipedia":
            gold[question["QuestionId"]] = right
            continue
        for page in question.get("EntityPages", []) + question.get("SearchResults", []):
            if not data.get("VerifiedEval") or page["DocPartOfVerifiedEval"]:
                gold[f"{question['QuestionId']}--{page['Filename']}"] = right
    return gold


def official(data, said):
    gold = gold_of(data)
    common = [key for key in gold if key in said]
    exact = sum(max(normalized(said[key]) == normalized(one) for one in gold[key]) for key in common)
    return {"f1": 100 * sum(max(f1(said[key], one) for one in gold[key]) for key in common) / len(gold),
            "exact_match": 100 * exact / len(gold), "common": len(common), "denominator": len(gold)}  # fmt: skip


def check_score(folder, data, said, *flags):
    """Largest difference of the program's numbers from the official ones."""
    file, predictions = folder / "data.json", folder / "said.json"
    file.write_text(json.dumps(data))
    predictions.write_text(json.dumps(said))
    report = run("evaluate", "--score", predictions, file, "--json", *flags).json[0]
    expected = official(data, said)
    assert list(report["metrics"]) == list(expected)
    assert report["missing"] == expected["denominator"] - expected["common"] and report["examples"] == expected["denominator"]
    difference = max(abs(report["metrics"][name] - value) for name, value in expected.items())
    assert difference <= 1e-9
    return difference


def page(name, **more):
    return {"Filename": name, "Title": "t"} | more


def question(id, aliases, wiki=(), web=(), **more):
    return {"QuestionId": id, "Question": "who was he", "EntityPages": [page(name) for name in wiki],
            "SearchResults": [page(name) for name in web],
            "Answer": {"Value": "x", "NormalizedAliases": list(aliases)}} | more  # fmt: skip


def published(domain, questions, **more):
    return {"Data": questions, "Domain": domain, "Split": "dev", "VerifiedEval": False, "Version": 1.0} | more


PIECES = ["the", "a", "An", "x", "Yy", "z", "-", "_", "'", "‘", "’", "´", "`", " ", "  ", "\n", "\u00a0", "\u3000", "\x1c", "\x85",
          "É", "ß", "İ", "Σ", "ΟΣ", "a\u0301", "the\u0301", "“", "–", "½", "²", "中", "\U0001f600", ".", "!", "א", "ª", "ǅ", "Ⅷ"]  # fmt: skip


class TestOfficialMetric:
    @pytest.mark.parametrize("domain", ["Wikipedia", "Web"])
    def test_random_predictions(self, domain, tmp_path):
        draw = random.Random(domain)

        def text(most):
            return "".join(draw.choice(PIECES) for _ in range(draw.randint(0, most)))

        questions = [question(f"q{i}", [normalized(text(4)) for _ in range(draw.randint(1, 4))],
                              [f"{i}.txt", "b.txt"], [f"w/{i}.txt"]) for i in range(1500)]  # fmt: skip
        for one in questions[::3]:
            one["Answer"]["HumanAnswers"] = [text(5)]
        data = published(domain, questions)
        # Near what is right, far from it, missing, and of no question.
        said = {key: draw.choice([text(4), draw.choice(right).title(), " ".join(right), ""])
                for key, right in gold_of(data).items() if draw.random() < 0.9} | {"unknown": "x"}  # fmt: skip
        check_score(tmp_path, data, said)
        assert official(data, said)["exact_match"] > 20

    def test_traps(self, tmp_path):
        data = published("Wikipedia", [question("hyphen", ["campbell bannerman"]), question("empty", [""]), question("york", ["york"]),
                                       question("missing", ["x"]), question("twice", ["y"]), question("twice", ["z"])])  # fmt: skip
        said = {"hyphen": "Sir Campbell-Bannerman", "empty": "The", "york": "Yorkshire", "twice": "z", "other": "x"}
        assert official(data, said) == {"f1": 100 * (0.8 + 1) / 5, "exact_match": 40, "common": 4, "denominator": 5}
        check_score(tmp_path, data, said)
        check_score(tmp_path, data, said, "--task", "trivia")
        check_score(tmp_path, data, {})

    def test_verified(self, tmp_path):
        yes, no = {"DocPartOfVerifiedEval": True}, {"DocPartOfVerifiedEval": False}
        questions = [question("a", ["x"], QuestionPartOfVerifiedEval=True), question("b", ["x"], QuestionPartOfVerifiedEval=False)]
        questions[0]["SearchResults"] = [page("1.txt", **yes), page("2.txt", **no)]
        questions[0]["EntityPages"] = [page("3.txt", **no)]
        questions[1]["SearchResults"] = [page("4.txt", **yes)]
        said = {"a--1.txt": "x", "a--2.txt": "x", "b--4.txt": "y", "a": "x"}
        for domain, keys in (("Web", 1), ("Wikipedia", 1)):
            data = published(domain, questions, VerifiedEval=True)
            assert official(data, said)["denominator"] == keys
            check_score(tmp_path, data, said)

    def test_bad_predictions(self, tmp_path):
        data = write(tmp_path / "d.json", json.dumps(published("Wikipedia", [question("q", ["x"], ["a.txt"])])))
        run("evaluate", "--score", write(tmp_path / "p.json", "[1]"), data).fails(1, "p.json", "object of answers by id")
        run("evaluate", "--score", write(tmp_path / "p.json", '{"q": 1}'), data).fails(1, "p.json", "q", "string")
        run("evaluate", "--score", tmp_path / "none.json", data).fails(1, "none.json")


WORDS = "he was in a house by the man and she was at an old garden".split()


def corpus(folder, domain="Wikipedia", count=6):
    """Questions about two documents each; the answer stands in the first one."""
    draw = random.Random(5)
    questions = []
    for i in range(count):
        names = [f"{i}_{k}.txt" for k in range(2)]
        for k, name in enumerate(names):
            words = [draw.choice(WORDS) for _ in range(12)]
            if k == 0:
                words[draw.randrange(12)] = "had"
            for place in ("wikipedia", "web"):
                write(folder / "evidence" / place / name, " ".join(words))
        pages = {"wiki": names} if domain == "Wikipedia" else {"wiki": names[:1], "web": names[1:]}
        questions.append(question(f"q{i}", ["had"], **pages))
    return write(folder / "qa" / "train.json", json.dumps(published(domain, questions)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trivia")
    corpus(folder)
    return folder


class TestFinetune:
    def test_learns_a_word_wherever_it_stands(self, folder, tmp_path):
        data = folder / "qa" / "train.json"
        done = ran("finetune", QA, data, "--task", "trivia", "--output-dir", tmp_path / "out", "--max-steps", 150,
                   "--learning-rate", 0.01, *FAST, "--gradient-accumulation-steps", 1)  # fmt: skip
        assert "trivia: 12 examples, 6 rows" in done.err
        assert "6 documents, which teach nothing, have no answer in what is read" in done.err
        # The head is that of question answering, and goes on.
        assert "new weights" not in done.err
        assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == ["LongformerForQuestionAnswering"]
        report = run("evaluate", tmp_path / "out", data, "--json").passes().json[0]
        assert report["task"] == "question-answering" and report["unreached_answers"] == 6 and report["examples"] == 12
        assert report["metrics"]["exact_match"] > 60 and report["metrics"]["denominator"] == 6
        assert report["metrics"]["oracle_exact_match"] >= report["metrics"]["exact_match"]
        again = ran("finetune", tmp_path / "out", data, "--output-dir", tmp_path / "more", "--max-steps", 1, *FAST)
        assert "12 examples, 6 rows" in again.err and "new weights" not in again.err

    def test_a_folder_without_the_head_gets_one(self, folder, tmp_path):
        done = ran("finetune", FIXTURES / "tiny_bert", folder / "qa" / "train.json", "--task", "trivia", "--output-dir",
                   tmp_path / "out", "--max-steps", 1, *FAST)  # fmt: skip
        assert "new weights: qa_outputs.bias, qa_outputs.weight" in done.err

    def test_rows_of_a_document_stay_together(self, folder, tmp_path):
        data = folder / "qa" / "train.json"
        flags = ["finetune", QA, data, "--task", "trivia", "--max-steps", 3, *FAST]
        done = ran(*flags, "--output-dir", tmp_path / "a", "--stride", 2, "--max-question-tokens", 1, "--max-source-length", 12)
        rows = int(re.search(r"trivia: 12 examples, (\d+) rows", done.err)[1])
        assert rows >= 12
        ran(*flags, "--output-dir", tmp_path / "b", "--stride", 2, "--max-question-tokens", 1, "--max-source-length", 12)
        assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()

    def test_goes_on_with_the_same_bits(self, folder, tmp_path):
        flags = ["finetune", QA, folder / "qa" / "train.json", "--task", "trivia", "--logging-steps", 1, "--max-steps", 6,
                 "--per-device-train-batch-size", 2, "--gradient-accumulation-steps", 1]  # fmt: skip
        ran(*flags, "--output-dir", tmp_path / "a", "--save-strategy", "steps", "--save-steps", 3)
        ran(*flags, "--output-dir", tmp_path / "b", "--resume-from-checkpoint", tmp_path / "a" / "checkpoint-3", "--save-strategy", "no")
        assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()

    def test_losses_and_matchings_differ(self, folder, tmp_path):
        for i in range(6):
            write(tmp_path / "evidence" / "wikipedia" / f"{i}_0.txt", "he had and had and hads in the house")
            write(tmp_path / "evidence" / "wikipedia" / f"{i}_1.txt", "hads and he was")
        weights = {}
        for flags in ([], ["--answer-loss", "or", "--answer-matching", "words"], ["--answer-loss", "first"],
                      ["--answer-matching", "substring"]):  # fmt: skip
            out = tmp_path / "-".join(["out", *flags])
            done = ran("finetune", QA, folder / "qa" / "train.json", "--evidence", tmp_path / "evidence", "--task", "trivia",
                       "--output-dir", out, "--max-steps", 2, *FAST, *flags)  # fmt: skip
            assert ("6 documents, which teach nothing," in done.err) == ("substring" not in flags)
            weights[" ".join(flags)] = (out / "model.safetensors").read_bytes()
        assert len(set(weights.values())) == 3
        run("finetune", QA, folder / "qa" / "train.json", "--output-dir", tmp_path / "x", "--answer-loss", "all").fails(2, "or, first")

    def test_validation(self, folder, tmp_path):
        data = folder / "qa" / "train.json"
        ran("finetune", QA, data, "--task", "trivia", "--output-dir", tmp_path / "out", "--max-steps", 2, "--validation-file", data,
            "--eval-strategy", "steps", "--eval-steps", 1, *FAST)  # fmt: skip
        lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        named = [line for line in lines if "eval_f1" in line]
        assert named and all(line["eval_denominator"] == 6 and line["eval_loss"] > 0 for line in named)


class TestEvaluate:
    def test_predictions_are_the_best_of_all_documents_of_a_question(self, folder, tmp_path):
        data = folder / "qa" / "train.json"
        report = run("evaluate", QA, data, "--json", "--predictions", tmp_path / "p.jsonl", "--official-predictions",
                     tmp_path / "p.json").passes().json[0]  # fmt: skip
        said = json.loads((tmp_path / "p.json").read_text())
        rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
        assert [row["id"] for row in rows[:2]] == ["q0--0_0.txt", "q0--0_1.txt"]
        best = {}
        for row in rows:
            text = (folder / "evidence" / "wikipedia" / row["id"].split("--")[1]).read_text()
            alone = run("qa", QA, "--text", text, "-q", "who was he", "--json").works().json[0]["answers"][0]
            assert row["prediction"] == alone["text"] and row["logit"] == pytest.approx(alone["logit"], abs=1e-4)
            if row["key"] not in best or row["logit"] > best[row["key"]]["logit"]:
                best[row["key"]] = row
        assert said == {key: row["prediction"] for key, row in best.items()}
        expected = official(json.loads(data.read_text()), said)
        for name, value in expected.items():
            assert report["metrics"][name] == pytest.approx(value, abs=1e-9)
        oracle = [any(row["exact_match"] for row in rows if row["key"] == key) for key in said]
        assert report["metrics"]["oracle_exact_match"] == pytest.approx(100 * sum(oracle) / len(oracle))
        scored = run("evaluate", "--score", tmp_path / "p.json", data, "--json").works().json[0]["metrics"]
        assert scored == {name: report["metrics"][name] for name in expected}
        assert run("evaluate", QA, data, "--task", "trivia", "--json").passes().json[0]["metrics"] == report["metrics"]

    def test_web_has_a_prediction_for_each_document(self, tmp_path):
        data = corpus(tmp_path, "Web")
        run("evaluate", QA, data, "--official-predictions", tmp_path / "p.json").passes()
        said = json.loads((tmp_path / "p.json").read_text())
        assert set(said) == set(gold_of(json.loads(data.read_text()))) and len(said) == 12

    def test_long_documents_and_those_without_text(self, tmp_path):
        data = write(tmp_path / "qa" / "d.json", json.dumps(published("Wikipedia", [question("q", ["had"], ["a.txt", "b.txt"])])))
        write(tmp_path / "evidence" / "wikipedia" / "a.txt", " ".join(WORDS * 8) + " had")
        write(tmp_path / "evidence" / "wikipedia" / "b.txt", "")
        run("evaluate", QA, data).fails(1, "d.json:1: q--a.txt", "41 tokens", "--truncate")
        cut = run("evaluate", QA, data, "--truncate", "--json", "--predictions", tmp_path / "p.jsonl")
        report = cut.json[0]
        assert report["unreached_answers"] == 2 and report["truncated_examples"] == 1 and report["empty"] == 1
        assert "2 of 2 documents have no answer in what is read" in cut.err
        # [CLS] who was he [SEP] document [SEP], and the same of an empty one.
        lost, tokens = 6 + 8 * len(WORDS) + 1 - 41, 6 + 8 * len(WORDS) + 1 + 6
        assert report["truncated_tokens"] == lost and report["tokens"] == tokens
        assert f"1 of 2 examples is longer than the model: cut {lost} of {tokens} tokens" in cut.err
        told = write(tmp_path / "qa" / "he.json", json.dumps(published("Wikipedia", [question("q", ["he"], ["a.txt", "b.txt"])])))
        done = ran("finetune", QA, told, "--task", "trivia", "--truncate", "--output-dir", tmp_path / "out", "--max-steps", 1, *FAST)
        assert f"1 document is longer than the model: cut {lost} tokens" in done.err
        rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
        assert rows[1]["prediction"] == "" and rows[1]["logit"] == -1e6
        split = run("evaluate", QA, data, "--stride", 0, "--json").json[0]
        assert split["unreached_answers"] == 1 and split["segmented_examples"] == 1

    def test_over_rows_the_best_logit_wins(self, tmp_path):
        text = " ".join(WORDS * 6)
        data = write(tmp_path / "qa" / "d.json", json.dumps(published("Web", [question("q", ["had"], ["a.txt"])])))
        write(tmp_path / "evidence" / "wikipedia" / "a.txt", text)
        run("evaluate", QA, data, "--stride", 8, "--max-answer-tokens", 3, "--predictions", tmp_path / "p.jsonl").passes()
        row = json.loads((tmp_path / "p.jsonl").read_text())
        # The verb qa scores each of these short answers in the row with most context, so it finds at most as much.
        alone = run("qa", QA, "--text", text, "-q", "who was he", "--stride", 8, "--max-answer-tokens", 3, "--json").json[0]
        assert row["logit"] >= alone["answers"][0]["logit"] - 1e-5 and row["prediction"] in text

    def test_the_question_is_cut(self, folder, tmp_path):
        data = json.loads((folder / "qa" / "train.json").read_text())
        for one in data["Data"]:
            one["Question"] = "who was he and where was he"
        long = write(folder / "qa" / "long.json", json.dumps(data))
        for one in data["Data"]:
            one["Question"] = "who was"
        short = write(folder / "qa" / "short.json", json.dumps(data))
        files = [tmp_path / name for name in ("long", "cut", "short")]
        run("evaluate", QA, long, "--predictions", files[0]).passes()
        run("evaluate", QA, long, "--max-question-tokens", 2, "--predictions", files[1]).passes()
        run("evaluate", QA, short, "--predictions", files[2]).passes()
        assert files[1].read_text() == files[2].read_text() != files[0].read_text()
        cut = run("evaluate", QA, long, "--max-question-tokens", 2, "--json").json[0]
        whole = run("evaluate", QA, long, "--json").json[0]
        read = run("evaluate", QA, short, "--json").json[0]["tokens"]
        assert cut["truncated_tokens"] == cut["tokens"] - read > 0
        assert cut["tokens"] == whole["tokens"] and whole["truncated_tokens"] == 0

    def test_the_question_is_cut_at_55_tokens(self, tmp_path):
        run("convert", QA, tmp_path / "long", "--max-positions", 200).works()
        write(tmp_path / "evidence" / "wikipedia" / "a.txt", " ".join(WORDS))
        logits = {}
        for count in (54, 55, 56, 70):
            asked = question("q", ["had"], ["a.txt"], Question="who " * count)
            data = write(tmp_path / "qa" / "d.json", json.dumps(published("Wikipedia", [asked])))
            done = run("evaluate", tmp_path / "long", data, "--json", "--predictions", tmp_path / "p.jsonl")
            assert done.json[0]["truncated_tokens"] == max(0, count - 55)
            logits[count] = json.loads((tmp_path / "p.jsonl").read_text())["logit"]
        assert logits[54] != logits[55] == logits[56] == logits[70]

    def test_documents_of_one_word(self, tmp_path):
        write(tmp_path / "evidence" / "wikipedia" / "a.txt", "had")
        data = write(tmp_path / "qa" / "d.json", json.dumps(published("Wikipedia", [question("q", ["had"], ["a.txt"])])))
        ran("finetune", QA, data, "--task", "trivia", "--output-dir", tmp_path / "out", "--max-steps", 2, "--validation-file", data,
            "--eval-strategy", "steps", "--eval-steps", 2, *EACH_STEP)  # fmt: skip
        losses = losses_of(tmp_path / "out")
        assert len(losses) == 3 and all(math.isfinite(loss) for loss in losses)
        report = run("evaluate", tmp_path / "out", data, "--json", "--predictions", tmp_path / "p.jsonl").works().json[0]
        row = json.loads((tmp_path / "p.jsonl").read_text())
        assert report["metrics"]["exact_match"] == 100 and row["prediction"] == "had" and math.isfinite(row["logit"])

    def test_the_authors_form_of_squad(self, folder, tmp_path):
        entries = []
        for one in json.loads((folder / "qa" / "train.json").read_text())["Data"]:
            for page in one["EntityPages"]:
                text = (folder / "evidence" / "wikipedia" / page["Filename"]).read_text()
                qa = {"id": f"{one['QuestionId']}--{page['Filename']}", "qid": one["QuestionId"], "question": one["Question"],
                      "aliases": one["Answer"]["NormalizedAliases"], "answers": [{"text": "had", "answer_start": 0}]}  # fmt: skip
                entries.append({"paragraphs": [{"context": text, "qas": [qa]}]})
        squad = write(tmp_path / "squad-wikipedia-dev-4096.json", json.dumps({"data": entries, "version": "1.0"}))
        one = run("evaluate", QA, folder / "qa" / "train.json", "--json").passes().json[0]
        two = run("evaluate", QA, squad, "--json").passes().json[0]
        assert one["metrics"] == two["metrics"] and one["tokens"] == two["tokens"]
        web = write(tmp_path / "squad-web-dev-4096.json", squad.read_text())
        assert run("evaluate", QA, web, "--json").passes().json[0]["metrics"]["denominator"] == 12

    def test_files_for_predictions_alone(self, folder, tmp_path):
        data = json.loads((folder / "qa" / "train.json").read_text())
        for one in data["Data"]:
            del one["Answer"]
        test = write(folder / "qa" / "test-without-answers.json", json.dumps(data))
        report = run("evaluate", QA, test, "--json", "--official-predictions", tmp_path / "p.json").works().json[0]
        assert report["metrics"] == {"common": 0, "denominator": 0} and report["unreached_answers"] == 0
        assert len(json.loads((tmp_path / "p.json").read_text())) == 6
        run("finetune", QA, test, "--task", "trivia", "--output-dir", tmp_path / "x").fails(1, "questions with answers", "none")


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="no data sets")
class TestPublishedData:
    @pytest.mark.parametrize("name", ["web-dev", "web-train", "wikipedia-dev", "wikipedia-train"])
    def test_published_files(self, name, tmp_path):
        data = json.loads((SAMPLE / "qa" / f"{name}.json").read_text())
        draw = random.Random(name)
        said = {}
        for key, right in gold_of(data).items():
            said[key] = draw.choice([draw.choice(right).upper(), "the " + right[0] + "s", right[-1] + " x"])
        check_score(tmp_path, data, said)

    @pytest.mark.parametrize("name", ["web-dev", "wikipedia-train"])
    def test_published_documents(self, name, tmp_path):
        file = SAMPLE / "qa" / f"{name}.json"
        report = run("evaluate", QA, file, "--truncate", "--json", "--official-predictions", tmp_path / "p.json").json[0]
        said = json.loads((tmp_path / "p.json").read_text())
        expected = official(json.loads(file.read_text()), said)
        assert {key: report["metrics"][key] for key in expected} == pytest.approx(expected, abs=1e-9)
        assert report["truncated_examples"] > 0 and report["missing"] == 0


class TestBadInput:
    def data(self, folder, questions, **more):
        return write(folder / "qa" / "d.json", json.dumps(published("Wikipedia", questions, **more)))

    def test_documents_that_are_not_there(self, tmp_path):
        data = self.data(tmp_path, [question("q1", ["a"], ["a.txt"]), question("q2", ["had"], ["b.txt"])])
        write(tmp_path / "evidence" / "wikipedia" / "b.txt", "he had a house")
        for command in (["evaluate", QA, data], ["finetune", QA, data, "--task", "trivia", "--output-dir", tmp_path / "o"]):
            run(*command).fails(1, "d.json:1: q1--a.txt", "evidence/wikipedia/a.txt", "no such file", "--evidence", "--skip-invalid")
        skipped = run("evaluate", QA, data, "--skip-invalid", "--json")
        assert "left out 1 broken example" in skipped.err and "1 example has no prediction" in skipped.err
        report = skipped.json[0]
        assert report["skipped"] == 1 and report["missing"] == 1 and report["metrics"]["denominator"] == 2
        run("evaluate", QA, data, "--evidence", tmp_path / "nowhere").fails(1, "nowhere/wikipedia/a.txt")
        done = ran("finetune", QA, data, "--task", "trivia", "--output-dir", tmp_path / "o", "--skip-invalid", "--max-steps", 1, *FAST)
        assert "trivia: 1 example, 1 row" in done.err and "left out 1 broken example" in done.err

    def test_nothing_to_learn_from(self, tmp_path):
        data = self.data(tmp_path, [question("q1", ["unheard"], ["a.txt", "b.txt"])])
        for name in "ab":
            write(tmp_path / "evidence" / "wikipedia" / f"{name}.txt", "he had a house")
        run("finetune", QA, data, "--task", "trivia", "--output-dir", tmp_path / "o").fails(
            1, "d.json: expected a document with an answer in what is read", "found none among 2")  # fmt: skip

    def test_documents_outside_the_folder(self, tmp_path):
        write(tmp_path / "secret.txt", "had")
        data = self.data(tmp_path, [question("q1", ["had"], ["../../secret.txt"])])
        run("evaluate", QA, data).fails(1, "record 1", '"q1"', "inside the folder", "../../secret.txt")

    def test_broken_records(self, tmp_path):
        write(tmp_path / "evidence" / "wikipedia" / "b.txt", "he had a house")
        good = question("good", ["had"], ["b.txt"])
        broken = {"NormalizedAliases": question("q", [1], ["b.txt"]), "QuestionId": question(7, ["x"], ["b.txt"]),
                  "at least one answer": question("q", [], ["b.txt"]), "Filename": question("q", ["x"], EntityPages=[{}]),
                  "EntityPages": question("q", ["x"], EntityPages="b.txt")}  # fmt: skip
        for named, record in broken.items():
            data = self.data(tmp_path, [good, record])
            run("evaluate", QA, data).fails(1, "d.json: record 2", named, "--skip-invalid")
            report = run("evaluate", QA, data, "--skip-invalid", "--json").json[0]
            assert report["skipped"] == 1 and report["examples"] == 1
        run("evaluate", QA, self.data(tmp_path, [good], Domain="Books")).fails(1, "Domain", "Books")
        run("evaluate", QA, self.data(tmp_path, [good], VerifiedEval=True)).fails(1, "QuestionPartOfVerifiedEval")
        verified = good | {"QuestionPartOfVerifiedEval": True, "EntityPages": []}
        run("evaluate", QA, self.data(tmp_path, [verified], VerifiedEval=True)).fails(1, '"good"', "verified evaluation")
        run("evaluate", QA, self.data(tmp_path, [])).fails(1, "at least one question")
        run("finetune", QA, write(tmp_path / "x.json", "{}"), "--task", "trivia", "--output-dir", tmp_path / "o").fails(1, '"Domain"')

    def test_models_without_the_head(self, tmp_path):
        data = self.data(tmp_path, [question("q", ["x"], ["b.txt"])])
        run("evaluate", FIXTURES / "tiny_bert_tagger", data, "--task", "trivia").fails(1, "trivia", "token-classification")
        run("finetune", QA, data, "--task", "trivia", "--output-dir", tmp_path / "o", "--max-question-tokens", 0).fails(2, "max-question-tokens")


class TestBestOfDocuments:
    TEXTS = ["he was in the house", "she was at the garden and he had it", "it was by the man"]

    def files(self, folder):
        return [write(folder / f"{i}.txt", text) for i, text in enumerate(self.TEXTS)]

    def test_answers_of_all_documents_by_logit(self, tmp_path):
        files = self.files(tmp_path)
        asked = ["-q", "who was he", "-q", "where was it", "--top-k", 4]
        rows = run("qa", QA, *files, *asked, "--best", "--json").works().json
        assert [row["question"] for row in rows] == ["who was he", "where was it"]
        each = run("qa", QA, *files, *asked, "--json").works().json
        for row in rows:
            found = [dict(file=one["file"], **answer) for one in each if one["question"] == row["question"] for answer in one["answers"]]
            found.sort(key=lambda answer: -answer["logit"])
            assert row["documents"] == 3 and len(row["answers"]) == 4
            for said, expected in zip(row["answers"], found):
                assert {key: said[key] for key in expected} == expected
        lines = run("qa", QA, *files, *asked, "--best").works().out.splitlines()
        answer = rows[0]["answers"][0]
        assert lines[0] == "\t".join(map(str, [answer["file"], "who was he", f"{answer['logit']:.4f}", answer["begin"], answer["end"],
                                              answer["text"]]))  # fmt: skip
        assert len(lines) == 8

    def test_questions_of_json_lines_belong_together(self):
        lines = [{"id": i, "context": text, "question": asked} for i, text in enumerate(self.TEXTS) for asked in ("who", "where")]
        rows = run("qa", QA, "--field", "context", "--question-field", "question", "--best", "--json",
                   stdin="".join(json.dumps(line) + "\n" for line in lines)).works().json  # fmt: skip
        assert [(row["question"], row["documents"]) for row in rows] == [("who", 3), ("where", 3)]
        assert rows[0]["answers"][0]["id"] in (0, 1, 2)

    def test_bad_documents_cost_the_others_nothing(self, tmp_path):
        files = self.files(tmp_path)
        done = run("qa", QA, files[0], tmp_path / "missing.txt", files[1], "-q", "who", "--best", "--json")
        done.fails(1, "missing.txt")
        assert done.json[-1]["documents"] == 2 and "error" in done.json[0]
        run("qa", QA, *files, "-q", "who", "--best", "--no-answer").fails(2, "--no-answer")
        empty = run("qa", QA, "--text", "", "-q", "who", "--best", "--json").works().json[0]
        assert empty["answers"] == [] and empty["documents"] == 1
