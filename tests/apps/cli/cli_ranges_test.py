"""Numbers at the ends of their ranges: refused before anything is written, never a crash, a number that wraps, or a model
of NaN."""

import json

import numpy as np
import pytest
from cli_sequence_test import folder_of
from cli_test import BERT, FIXTURES, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
LM = FIXTURES / "character_lm" / "tied"


@pytest.fixture
def led(tmp_path):
    return folder_of("tiny_led", tmp_path)[0]


@pytest.fixture
def reviews(tmp_path):
    rows = [{"text": "a b c", "label": "bad"}, {"text": "d e f", "label": "good"}] * 8
    path = tmp_path / "reviews.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def weights_of(folder):
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    return np.frombuffer(data[8 + size :], np.float32)


class TestTextsOfADecoder:
    @pytest.mark.parametrize("option", ["--eos-token-id", "--suppress-tokens", "--begin-suppress-tokens", "--forced-eos-token-id"])
    @pytest.mark.parametrize("wrong", [-1, -(2**31), 300, 999999, 2**31 - 1])
    def test_ids_are_of_the_vocabulary(self, led, tmp_path, option, wrong):
        out = tmp_path / "out.jsonl"
        run("generate", led, "--text", "a", "--min-length", 5, f"{option}={wrong}", "-o", out).fails(2, f"{option}: expected ids from 0 to 299")
        assert not out.exists() and not list(tmp_path.glob("*.part"))

    def test_ids_of_a_folder_are_too(self, led):
        settings = led / "generation_config.json"
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {"eos_token_id": 999999, "min_length": 5}))
        run("generate", led, "--text", "a").fails(1, "eos_token_id", "expected ids from 0 to 299")

    @pytest.mark.parametrize("wrong", [32, 2**31 - 1, 2**63 - 1])
    def test_a_text_has_as_many_tokens_as_positions(self, led, wrong):
        run("generate", led, "--text", "a", "--max-new-tokens", wrong).fails(2, "--max-new-tokens", "at most 31", str(wrong))
        assert run("generate", led, "--text", "a", "--max-new-tokens", 5, "--min-new-tokens", wrong, "--quiet").passes().out

    @pytest.mark.parametrize("option", ["--length-penalty=-1e300", "--sequence-bias=1=1e300", "--repetition-penalty=1e-300",
                                        "--encoder-repetition-penalty=1e39", "--exponential-decay-length-penalty=1,1e300"])  # fmt: skip
    def test_factors_are_numbers_of_fp32(self, led, option):
        run("generate", led, "--text", "a", "--num-beams", 3, option).fails(2, option.split("=")[0])

    def test_random_choice(self, led):
        for wrong in ("1e39", "1e300", "1e-300"):
            run("generate", led, "--text", "a", "--do-sample", "--temperature", wrong).fails(2, "--temperature", "more than 0")


class TestWholeNumbers:
    """A number that begins with 0 is none of base 8."""

    def test_that_begin_with_zero(self, tmp_path):
        assert run("generate", LM, "-n", "010", "--seed", "010").works().out == run("generate", LM, "-n", 10, "--seed", 10).works().out
        eight, plain = (run("tokenize", BERT, "--text", "a b c d e f g h i j k", "--max-length", n, "--json").works().json
                        for n in ("08", 8))  # fmt: skip
        assert eight == plain and len(eight[0]["ids"]) == 8
        run("convert", BERT, tmp_path / "out", "--window", "010", "--dilation", "02", "--quiet").passes()
        config = json.loads((tmp_path / "out" / "config.json").read_text())
        assert set(config["attention_window"]) == {10} and set(config["attention_dilation"]) == {2}
        run("serve", BERT, "--port", "065536").fails(2, "--port: expected a whole number from 0 to 65535")

    @pytest.mark.parametrize("wrong", ["0x10", "1e3", " 5", "5x", "2.0"])
    def test_that_are_none(self, tmp_path, wrong):
        for verb in (["serve", BERT, f"--port={wrong}"], ["convert", BERT, tmp_path / "out", f"--dilation={wrong}"],
                     ["generate", LM, f"--characters={wrong}"]):  # fmt: skip
            run(*verb).fails(2, "expected a whole number")


class TestTrainings:
    def finetune(self, reviews, out, *flags):
        return run("finetune", CLASSIFIER, reviews, "--output-dir", out, "--max-steps", 1, "--threads", 1, *flags)

    @pytest.mark.parametrize("flags", [("--learning-rate", "1e38"), ("--head-learning-rate", "1e38")])
    def test_end_with_finite_weights_or_an_error(self, reviews, tmp_path, flags):
        failed = self.finetune(reviews, tmp_path / "out", *flags)
        assert failed.code == 1 and "expected finite weights behind it" in failed.err, failed.err
        assert not (tmp_path / "out" / "model.safetensors").exists()
        assert not list((tmp_path / "out").glob("checkpoint-*/model.safetensors"))

    @pytest.mark.parametrize("option", ["--learning-rate", "--weight-decay", "--max-grad-norm", "--adam-epsilon"])
    def test_take_numbers_of_fp32(self, reviews, tmp_path, option):
        self.finetune(reviews, tmp_path / "out", option, "1e39").fails(2, option, "expected a number from 0 to 3.4")

    @pytest.mark.parametrize("epsilon", ["0", "1e-46", "1e-320"])
    def test_no_epsilon_makes_nan_of_what_has_no_gradient(self, reviews, tmp_path, epsilon):
        self.finetune(reviews, tmp_path / "out", "--adam-epsilon", epsilon).passes()
        assert np.isfinite(weights_of(tmp_path / "out")).all()

    def test_have_an_end(self, reviews, tmp_path):
        for epochs in ("1e20", "1e300"):
            run("finetune", CLASSIFIER, reviews, "--output-dir", tmp_path / "out", "--num-train-epochs", epochs).fails(2, "--num-train-epochs")


def test_a_table_of_speeds_that_has_no_row_leaves_the_file(tmp_path):
    kept = tmp_path / "kept.csv"
    kept.write_text("what was there")
    run("bench", "attention", "-n", 16, "--window", 1, "-o", kept)
    assert kept.read_text() == "what was there"


@pytest.mark.parametrize("longest", [0, -1, -(2**63)])
def test_an_evaluation_needs_room(reviews, longest):
    run("evaluate", CLASSIFIER, reviews, f"--max-length={longest}").fails(2, "--max-length", "at least 1")
