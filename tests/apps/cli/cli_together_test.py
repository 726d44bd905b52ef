"""Options of a command line together: empty values, options that contradict or mean nothing beside others, `-o -`."""

import json
import subprocess

import numpy as np
import pytest
from cli_tables_test import VERBS
from cli_test import BERT, BINARY, FIXTURES, run
from cli_training_test import CLASSIFIER, FAST, text, write

LED = FIXTURES / "tiny_led"
LM = FIXTURES / "character_lm" / "tied"
FEW = ["--max-steps", 1, *FAST]
#: An empty text means something for these.
MAY_BE_EMPTY = {"--text", "--pair", "--prompt", "--query-prompt", "--passage-prompt", "--ignore-labels"}
TOGETHER = ["info", "pull", "tokenize", "embed", "search", "rerank", "serve", "fill-mask", "classify", "ner", "coref", "qa", "choose", "evaluate",
            "finetune", "pretrain-mlm", "pretrain-lm", "summarize", "generate", "attention", "convert", "compare"]  # fmt: skip


def options_of(verb):
    """The options of a verb that take a value, by its help."""
    lines = subprocess.run([BINARY, verb, "--help"], capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split() for line in lines if line.startswith("  -")]
    return [words[0].split(",")[-1] for words in names if len(words) > 1 and words[1].isupper() or "|" in "".join(words[1:2])]


class TestEmptyValues:
    @pytest.mark.parametrize("verb", TOGETHER)
    def test_are_refused_by_name(self, verb):
        options = options_of(verb)
        assert len(options) >= 2 or verb in ("info", "pull"), options
        for option in options:
            if option in MAY_BE_EMPTY:
                continue
            for typed in ([option, ""], [f"{option}="]):
                run(verb, BERT, *typed).fails(2, f"{option}: expected a value, found an empty one")
        run(verb, "").fails(2, "found an empty argument")

    def test_of_short_names(self):
        run("tokenize", BERT, "--text", "a", "-o", "").fails(2, "-o: expected a value")
        run("qa", FIXTURES / "tiny_longformer_qa", "--text", "a", "-q", "").fails(2, "-q: expected a value")

    def test_of_lists(self, tmp_path):
        (tmp_path / "a.csv").write_text("1,a\n")
        for columns in ("id,", ",text", "id,,text", ","):
            run("tokenize", BERT, "a.csv", "--columns", columns, folder=tmp_path).fails(2, "--columns: expected values between commas", columns)
        assert run("tokenize", BERT, "a.csv", "--columns", "id,text", "--json", folder=tmp_path).works().json[0]["id"] == "1"

    def test_texts_may_be_empty(self):
        run("tokenize", BERT, "--text", "", "--pair", "").works()
        run("embed", BERT, "--text", "", "--prompt", "").passes()

    def test_a_list_takes_no_other_word(self, tmp_path):
        run("convert", "--window", "8", BERT, tmp_path / "out", "--max-positions", 64).works()
        run("convert", "--window", "8", "--max-positions", 64, BERT, "-o", tmp_path / "two").works()
        run("serve", "--check", "--allowed-host", "a", BERT).passes()


class TestContradictions:
    @pytest.mark.parametrize("arguments, words", [
        (["tokenize", BERT, "a.csv", "--lines", "--text-field", "text"], ["--text-field", "--lines"]),
        (["tokenize", BERT, "a.csv", "--lines", "--field", "text"], ["--field", "--lines"]),
        (["tokenize", BERT, "a.csv", "--lines", "--id-field", "id"], ["--id-field", "--lines"]),
        (["tokenize", BERT, "a.csv", "--lines", "--columns", "text"], ["--columns", "--lines"]),
        (["tokenize", BERT, "a.csv", "--lines", "--no-quotes"], ["--no-quotes", "--lines"]),
        (["tokenize", BERT, "--text", "a", "--text-field", "text"], ["--text-field", "--text alone"]),
        (["tokenize", BERT, "--text", "a", "--delimiter", ";"], ["--delimiter", "--text alone"]),
        (["tokenize", BERT, "a.txt", "--id-field", "id"], ["--id-field", "expected a table", "--text-field"]),
        (["tokenize", BERT, "--columns", "text"], ["--columns", "expected a table", "--text-field"]),
        (["search", BERT, "a.txt", "--format", "html", "--text-field", "text", "--query", "a"], ["--text-field", "--format"]),
        (["evaluate", CLASSIFIER, "a.jsonl", "--format", "jsonl", "--columns", "a,b"], ["--columns", "--format jsonl"]),
        (["finetune", CLASSIFIER, "a.jsonl", "--format", "imdb", "--delimiter", ";", "--output-dir", "o"], ["--delimiter", "--format imdb"]),
        (["pretrain-mlm", BERT, "a.txt", "--format", "lines", "--text-field", "a", "--output-dir", "o"], ["--text-field", "--format lines"]),
        (["classify", CLASSIFIER, "--text", "a", "--explain", "gradient", "--steps", 8], ["--steps", "--explain integrated"]),
        (["classify", CLASSIFIER, "--text", "a", "--explain", "occlusion", "--tolerance", 0.1], ["--tolerance", "--explain integrated"]),
        (["classify", CLASSIFIER, "--text", "a", "--explain", "occlusion", "--baseline", "mask"], ["--baseline", "--explain gradient or integrated"]),
        (["classify", CLASSIFIER, "--text", "a", "--explain", "integrated", "--occlusion", "mask"], ["--occlusion", "--explain occlusion"]),
        (["embed", BERT, "--text", "a", "--passage-tokens", 8], ["--passage-tokens", "--pooling passages"]),
        (["serve", BERT, "--check", "--api-key", "a", "--api-key-file", "a.txt"], ["--api-key", "--api-key-file"]),
        (["serve", BERT, "--check", "--auto-truncate", "--long", "split"], ["--auto-truncate", "--long split"]),
        (["convert", BERT, "a", "-o", "b"], ["TARGET"]),
        (["convert", BERT], ["TARGET"]),
    ])  # fmt: skip
    def test_are_refused(self, tmp_path, arguments, words):
        (tmp_path / "a.csv").write_text("id,text\n1,a\n")
        (tmp_path / "a.txt").write_text("a")
        run(*arguments, folder=tmp_path).fails(2, *words)

    @pytest.mark.parametrize("flags, note", [
        (["--eval-steps", 1], "--eval-steps has no effect without --eval-strategy steps"),
        (["--save-steps", 1], "--save-steps has no effect without --save-strategy steps"),
        (["--early-stopping-threshold", 0.1], "--early-stopping-threshold has no effect without --early-stopping-patience"),
        (["--lr-power", 2], "--lr-power has no effect without --lr-scheduler-type polynomial"),
        (["--adam-beta2", 0.9, "--optim", "adagrad"], "--adam-beta2 has no effect without --optim adamw"),
        (["--warmup-ratio", 0.1, "--warmup-steps", 1], "--warmup-ratio has no effect beside --warmup-steps"),
        (["--num-train-epochs", 2], "--num-train-epochs has no effect beside --max-steps"),
        (["--task", "classify", "--margin", 2], "--margin has no effect: it is for --task embedding"),
    ])  # fmt: skip
    def test_of_trainings_are_noted(self, tmp_path, flags, note):
        data = write(tmp_path / "data.jsonl", [{"text": text(4, i), "label": ["good", "bad"][i % 2]} for i in range(6)])
        done = run("finetune", CLASSIFIER, data, "--output-dir", tmp_path / "out", *FEW, *flags).passes()
        assert [line for line in done.err.splitlines() if "has no effect" in line] == [f"longformer: note: {note}"], done.err

    def test_the_best_model_needs_no_checkpoints_of_steps(self, tmp_path):
        """--save-strategy no, which FEW has, writes those of the best evaluations alone."""
        data = write(tmp_path / "data.jsonl", [{"text": text(4, i), "label": ["good", "bad"][i % 2]} for i in range(6)])
        done = run("finetune", CLASSIFIER, data, "--validation-split", 0.4, "--load-best-model-at-end",
                   "--output-dir", tmp_path / "out", "--json", *FEW).passes()  # fmt: skip
        assert done.json[0]["best_checkpoint"].endswith("checkpoint-1") and (tmp_path / "out" / "model.safetensors").exists()


class TestStandardOutput:
    @pytest.mark.parametrize("verb", VERBS)
    def test_of_results(self, tmp_path, verb):
        for flags in ([], ["--json"]):
            plain = run(verb, *VERBS[verb], "--text", "a <mask>", *flags, folder=tmp_path)
            named = run(verb, *VERBS[verb], "--text", "a <mask>", *flags, "-o", "-", folder=tmp_path)
            assert named.raw == plain.raw and plain.code == named.code == 0
        assert not list(tmp_path.iterdir())

    def test_of_other_verbs(self, tmp_path):
        data = write(tmp_path / "data.jsonl", [{"text": text(4, i), "label": ["good", "bad"][i % 2]} for i in range(4)])
        for arguments in (["info", BERT], ["compare", BERT, BERT, "--text", "a"], ["choose", FIXTURES / "tiny_longformer_choice", "--question", "a", "--choice", "b"],
                          ["rerank", FIXTURES / "rerankers" / "bert", "a", "--text", "b"], ["search", BERT, data, "--query", "a", "--passage-tokens", 8, "--json"],
                          ["generate", LM, "--characters", 4, "--seed", 1]):  # fmt: skip
            named = run(*arguments, "-o", "-", folder=tmp_path).passes()
            assert named.out and not (tmp_path / "-").exists()
        said = run("evaluate", CLASSIFIER, data, "--predictions", "-", "-o", "r.json", folder=tmp_path).passes()
        assert len(said.json) == 4 and json.loads((tmp_path / "r.json").read_text())
        run("evaluate", CLASSIFIER, data, "--predictions", "-", "-o", "-", folder=tmp_path).fails(2, "expected another file")
        array = run("embed", BERT, "--text", "a", "--format", "npy", "-o", "-", folder=tmp_path).passes()
        assert array.raw.startswith(b"\x93NUMPY")
        page = run("classify", CLASSIFIER, "--text", "a", "--explain", "gradient", "-o", "-", folder=tmp_path).passes()
        assert page.out.startswith("document\t")
        run("embed", BERT, "--text", "a", "--resume", "-o", "-").fails(2, "--resume", "expected a file")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl", "r.json"]


class TestOneOutput:
    def test_has_a_short_name(self, tmp_path):
        data = write(tmp_path / "data.jsonl", [{"text": text(4, i), "label": ["good", "bad"][i % 2]} for i in range(4)])
        words = write(tmp_path / "a.txt", "the house " * 200)
        run("finetune", CLASSIFIER, data, "-o", tmp_path / "tuned", *FEW).passes()
        run("pretrain-mlm", FIXTURES / "tiny_roberta", words, "-o", tmp_path / "mlm", *FEW).passes()
        run("convert", BERT, "-o", tmp_path / "long", "--max-positions", 64, "--window", 8).passes()
        for name in ("tuned", "mlm", "long"):
            assert (tmp_path / name / "config.json").exists()
        for verb in ("finetune", "pretrain-mlm", "pretrain-lm", "convert"):
            assert "-o," in run(verb, "--help").works().out

    @pytest.mark.parametrize("arguments", [
        ["info", BERT], ["tokenize", BERT, "--text", "a"], ["evaluate", CLASSIFIER, "a.jsonl"], ["compare", BERT, BERT, "--text", "a"],
        ["search", BERT, "a.txt", "--query", "a"], ["classify", CLASSIFIER, "--text", "a"], ["summarize", LED, "--text", "a"],
        ["embed", BERT, "--text", "a"], ["coref", FIXTURES / "coreference", "--text", "a"], ["attention", BERT, "--text", "a"]])  # fmt: skip
    def test_errors_name_only_options_of_the_verb(self, arguments):
        known = run(arguments[0], "--help").works().out
        failed = run(*arguments, "-o", "a.unknown").fails(2, "-o: expected a name that ends in")
        results = "text, json" in known or "text (lines of" in known
        assert ("--format" in failed.err) == ("--format" in known and results), failed.err


def test_a_check_of_a_server_changes_nothing(tmp_path):
    done = run("serve", BERT, "--check", "--index", "new.index", folder=tmp_path).passes()
    assert "not there yet" in done.err and not list(tmp_path.iterdir())
    (tmp_path / "a.txt").write_text("a b c")
    run("search", BERT, "a.txt", "--index", "a.index", "--query", "a", "--passage-tokens", 8, folder=tmp_path).passes()
    before = (tmp_path / "a.index").read_bytes()
    run("serve", BERT, "--check", "--index", "a.index", folder=tmp_path).passes()
    assert (tmp_path / "a.index").read_bytes() == before and sorted(path.name for path in tmp_path.iterdir()) == ["a.index", "a.txt"]
    (tmp_path / "b.index").write_text("no index")
    assert run("serve", BERT, "--check", "--index", "b.index", folder=tmp_path).code == 1
    assert np.array_equal(sorted(path.name for path in tmp_path.iterdir()), ["a.index", "a.txt", "b.index"])
