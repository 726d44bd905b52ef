"""convert to Linformer, Performer, BlockBERT and Sparse Transformer, compare, and the verbs of encoders on all of them."""

import json
import math
import shutil

import pytest
from cli_test import FIXTURES, run

KINDS = {
    "linformer": ["--projected-length", 8], "performer": ["--features", 24], "blockwise": ["--blocks", 2],
    "sparse": ["--pattern", "fixed", "--stride", 8],
}  # fmt: skip


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def converted(kind, source, target, *flags):
    done = run("convert", FIXTURES / source, target, "--to", kind, *KINDS[kind], "--json", *flags).works()
    return done.json[0]


class TestConvert:
    def test_an_encoder_keeps_its_weights(self, kind, tmp_path):
        for source, base in (("tiny_bert", "bert"), ("tiny_roberta", "roberta"), ("tiny_longformer", "roberta")):
            out = tmp_path / f"{source}-{kind}"
            before = run("info", FIXTURES / source, "--json").works().json[0]
            line = converted(kind, source, out)
            assert line["model_type"] == kind and line["max_tokens"] == before["max_tokens"], line
            config = json.loads((out / "config.json").read_text())
            assert config["base_model_type"] == base and "attention_window" not in config
            own = json.loads((FIXTURES / source / "config.json").read_text())["architectures"][0]
            name = source.removeprefix("tiny_").capitalize()
            assert config["architectures"] == [own.replace(name, kind.capitalize())] != [own]
            info = run("info", out, "--json").works().json[0]
            assert not info["unsupported"] and info["attention"] == line["attention"]

    def test_it_says_that_training_follows(self, kind, tmp_path):
        done = run("convert", FIXTURES / "tiny_bert", tmp_path / "out", "--to", kind).works()
        assert "has to be trained" in done.out and "longformer compare" in done.out

    def test_all_rows_are_the_model_itself(self, tmp_path):
        most = run("info", FIXTURES / "tiny_bert", "--json").works().json[0]["max_tokens"]
        out = tmp_path / "out"
        run("convert", FIXTURES / "tiny_bert", out, "--to", "linformer", "--projected-length", most).works()
        text = "paris is the capital of france . " * 40
        same = run("compare", FIXTURES / "tiny_bert", out, "--text", text, "--json").works().json[0]
        # The text is cut at the longest that the model reads: then every token has a row of its own.
        assert same["tokens"] == most and all(layer["relative_error"] < 1e-5 for layer in same["layers"])

    def test_back_to_a_longformer_is_told(self, kind, tmp_path):
        run("convert", FIXTURES / "tiny_bert", tmp_path / "out", "--to", kind, *KINDS[kind]).works()
        back = run("convert", tmp_path / "out", tmp_path / "back", "--window", 8).passes()
        assert "another attention than the source" in back.err and kind in back.err
        own = {*json.loads((tmp_path / "out" / "config.json").read_text())} - {*json.loads((FIXTURES / "tiny_bert" / "config.json").read_text())}
        left = {*json.loads((tmp_path / "back" / "config.json").read_text())}
        assert not left & (own - {"model_type", "architectures"}), left & own
        assert run("info", tmp_path / "back").works().out.count("unsupported") == 1

    def test_report(self, kind, tmp_path):
        text = tmp_path / "text.txt"
        text.write_text("paris is the capital of france . " * 6)
        done = run("convert", FIXTURES / "tiny_bert", tmp_path / "out", "--to", kind, "--report", text).works()
        assert "relative error" in done.out and done.out.count("\n") > 6
        layers = run("compare", FIXTURES / "tiny_bert", tmp_path / "out", text, "--json").works().json[0]["layers"]
        # The first layer has nothing below it that could be wrong; those above it have.
        assert layers[1]["alone"] == layers[1]["relative_error"] > 0
        assert layers[-1]["alone"] != layers[-1]["relative_error"]
        run("convert", FIXTURES / "tiny_bert", tmp_path / "other", "--to", kind, "--report", "none.txt").fails(
            1, "none.txt"
        )

    def test_seeds_and_settings(self, tmp_path):
        flags = [FIXTURES / "tiny_bert", "--to", "performer", "--overwrite"]
        files = []
        for seed in (1, 1, 2):
            run("convert", flags[0], tmp_path / "out", *flags[1:], "--seed", seed).works()
            files.append((tmp_path / "out" / "model.safetensors").read_bytes())
        assert files[0] == files[1] != files[2]
        for projection in ("mean", "max", "convolution", "full-convolution"):
            run("convert", FIXTURES / "tiny_bert", tmp_path / "out", "--to", "linformer", "--projected-length", 8,
                "--projection", projection, "--overwrite").works()  # fmt: skip
            run("embed", tmp_path / "out", "--text", "paris is the capital of france .", "--json").works()

    def test_bad_input(self, tmp_path):
        source, out = FIXTURES / "tiny_bert", tmp_path / "out"
        to = ["--to", "linformer"]
        run("convert", source, out, *to, "--projected-length", 100000).fails(2, "--projected-length", "100000")
        run("convert", source, out, *to, "--projected-length", 7, "--projection", "mean").fails(
            2, "--projected-length", "divisors", "7"
        )
        run("convert", source, out, *to, "--projection", "mean", "--projection-sharing", "none").fails(
            2, "--projection-sharing", "mean"
        )
        run("convert", source, out, *to, "--window", 8).fails(2, "--window", "linformer")
        run("convert", source, out, "--to", "performer", "--features", 0).fails(2, "--features", "1 or more")
        run("convert", source, out, "--to", "reformer").fails(2, "--to", "reformer")
        run("convert", FIXTURES / "tiny_distilbert", out, *to).fails(1, "bert, roberta", "distilbert")
        run("convert", FIXTURES / "tiny_led", out, *to).fails(1, "bert, roberta", "led")
        assert not out.exists()
        converted("performer", "tiny_bert", out)
        run("convert", out, tmp_path / "other", *to).fails(1, "bert, roberta", "performer")
        config = json.loads((out / "config.json").read_text())
        for change, wanted in [
            ({"base_model_type": "gpt2"}, ["base_model_type", "bert or roberta", "gpt2"]),
            ({"base_model_type": None}, ["base_model_type", "none"]),
            ({"features": 3}, ["features", "[3,", "[24,"]),
        ]:
            (out / "config.json").write_text(json.dumps(config | change))
            run("embed", out, "--text", "a").fails(1, *wanted)

    def test_bad_sparse_patterns(self, tmp_path):
        source, out, to = FIXTURES / "tiny_bert", tmp_path / "out", ("--to", "sparse")
        for flags, words in [
            (("--stride", 0), ("--stride", "2", "0")),
            (("--pattern", "diagonal"), ("--pattern", "strided", "diagonal")),
            (("--integration", "sum"), ("--integration", "merged", "sum")),
            (("--blocks", 2), ("--blocks", "none for a sparse")),
        ]:
            run("convert", source, out, *to, *flags).fails(2, *words)
        run("convert", source, out, *to, "--summary", 4).fails(2, "--summary: expected none with the pattern strided")
        run("convert", source, out, *to, "--pattern", "fixed", "--stride", 4, "--summary", 5).fails(2, "--summary: ", "stride of 4", "found 5")
        run("convert", source, out, "--to", "blockwise", "--block-heads", 9).fails(2, "--block-heads: ", "2 numbers", "[9]")
        run("convert", source, out, *to, "--max-positions", 2).fails(2, "--max-positions: ", "from 3", "'2'")
        assert not out.exists()
        converted("sparse", "tiny_bert", out)
        run("convert", out, tmp_path / "other", "--to", "performer").fails(1, "bert, roberta", "sparse")
        config = json.loads((out / "config.json").read_text())
        for change, wanted in [({"stride": 1}, ["stride", "found 1"]), ({"pattern": "fixed", "stride": 3}, ["summary", "stride of 3"])]:
            (out / "config.json").write_text(json.dumps(config | {"summary": 4} | change))
            run("embed", out, "--text", "a").fails(1, *wanted)

    def test_compare_refuses_others(self, tmp_path):
        bert = FIXTURES / "tiny_bert"
        run("compare", bert, FIXTURES / "tiny_roberta", "--text", "a").fails(1, "comparison", "as many")
        run("compare", bert, bert, "--text", "a", "--max-length", 100000).fails(2, "--max-length", "100000")
        run("compare", bert, bert, tmp_path / "none.txt").fails(1, "none.txt")


class TestUse:
    def test_batches_and_dtypes(self, kind, tmp_path):
        out = tmp_path / "out"
        converted(kind, "tiny_bert", out)
        texts = tmp_path / "texts.txt"
        texts.write_text("paris is the capital of france .\nparis\nthe capital of france is paris .\n")
        rows = run("embed", out, texts, "--lines", "--json").works().json
        for text, row in zip(texts.read_text().splitlines(), rows, strict=True):
            alone = run("embed", out, "--text", text, "--json").works().json[0]["embedding"]
            assert all(math.isclose(a, b, abs_tol=1e-5) for a, b in zip(alone, row["embedding"], strict=True))
        half = run("embed", out, texts, "--lines", "--json", "--dtype", "bf16").works().json
        for a, b in zip(rows, half, strict=True):
            assert sum((x - y) ** 2 for x, y in zip(a["embedding"], b["embedding"], strict=True)) < 1e-3

    def test_too_long(self, kind, tmp_path):
        out = tmp_path / "out"
        line = converted(kind, "tiny_bert", out)
        text = "paris " * (line["max_tokens"] + 1)
        run("classify", out, "--text", text).fails(1)
        run("fill-mask", out, "--text", text + "[MASK]").fails(1)

    def test_attention_is_shown_where_tokens_see_tokens(self, kind, tmp_path):
        out = tmp_path / "out"
        converted(kind, "tiny_bert", out)
        shown = run("attention", out, "--text", "paris is the capital .", "--layer", "all", "--head", "all", "--json", "--threshold", 0)
        if kind in ("linformer", "performer"):
            shown.fails(1, kind, "attention")
        else:
            for row in shown.works().json:
                assert math.isclose(sum(row["probability"]), len(set(row["query"])), abs_tol=1e-5)

    def test_heads_run_and_train(self, kind, tmp_path):
        out = tmp_path / "tagger"
        converted(kind, "tiny_bert_tagger", out)
        run("ner", out, "--text", "paris is the capital of france .", "--json").works()
        data = tmp_path / "train.jsonl"
        rows = [{"text": f"{word} is", "label": label} for word, label in (("his", "yes"), ("her", "no"))] * 8
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        encoder = tmp_path / "encoder"
        converted(kind, "tiny_bert", encoder)
        tuned = tmp_path / "tuned"
        run("finetune", encoder, data, "--task", "classify", "--output-dir", tuned, "--max-steps", 60,
            "--learning-rate", 5e-3, "--per-device-train-batch-size", 8).passes()  # fmt: skip
        assert json.loads((tuned / "config.json").read_text())["model_type"] == kind
        for word, label in (("his", "yes"), ("her", "no")):
            line = run("classify", tuned, "--text", f"{word} is", "--json").works().json[0]
            assert line["labels"][0]["label"] == label

    def test_masked_lm(self, kind, tmp_path):
        encoder, text = tmp_path / "encoder", tmp_path / "text.txt"
        converted(kind, "tiny_bert", encoder)
        text.write_text("paris is the capital of france . " * 50)
        run("pretrain-mlm", encoder, text, "--output-dir", tmp_path / "mlm", "--max-steps", 4).passes()
        run("fill-mask", tmp_path / "mlm", "--text", "paris is the [MASK] of france .").works()
        shutil.rmtree(tmp_path / "mlm")


class TestSparse:
    def test_layers_that_are_computed_again_give_the_same_bits(self, tmp_path):
        """Everything is dropped, probabilities of near and far tokens too."""
        rows = [{"text": f"{word} is the capital of france . " * 3, "label": word} for word in ("his", "her")] * 8
        (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for flags in (("--pattern", "strided", "--stride", 5), ("--pattern", "fixed", "--stride", 6, "--integration", "heads")):
            encoder = tmp_path / flags[1]
            run("convert", FIXTURES / "tiny_bert", encoder, "--to", "sparse", *flags).works()
            config = json.loads((encoder / "config.json").read_text())
            dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2}
            (encoder / "config.json").write_text(json.dumps(config | dropout))
            weights = []
            for name, more in (("kept", ()), ("again", ("--gradient-checkpointing",))):
                out = tmp_path / f"{flags[1]}-{name}"
                run("finetune", encoder, tmp_path / "train.jsonl", "--task", "classify", "--output-dir", out, "--max-steps", 3,
                    "--per-device-train-batch-size", 4, "--save-strategy", "no", *more).passes()  # fmt: skip
                weights.append((out / "model.safetensors").read_bytes())
            assert weights[0] == weights[1]

    def test_a_stride_longer_than_the_text_is_the_model_itself(self, tmp_path):
        text = ("--text", "paris is the capital of france . " * 3, "--json")
        for flags in (("--pattern", "strided"), ("--pattern", "fixed")):
            out = tmp_path / flags[1]
            run("convert", FIXTURES / "tiny_bert", out, "--to", "sparse", *flags, "--stride", 64).works()
            layers = run("compare", FIXTURES / "tiny_bert", out, *text).works().json[0]["layers"]
            assert all(layer["relative_error"] < 1e-5 for layer in layers)
