"""Models that write texts: what the verbs say is what `transformers` writes with the same folders
(tests/fixtures/make_sequence_models.py).
"""

import json
import shutil

import numpy as np
import pytest
from cli_test import FIXTURES, run

NAMES = ["tiny_led", "tiny_bart", "tiny_bigbird_pegasus", "tiny_pegasus", "tiny_pegasus_x", "tiny_mbart"]


def folder_of(name, tmp_path):
    folder = tmp_path / name
    shutil.copytree(FIXTURES / name, folder)
    for file in ("vocab.json", "merges.txt"):
        shutil.copy(FIXTURES / "tiny_roberta" / file, folder)
    return folder, json.loads((FIXTURES / name / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(params=NAMES)
def model(request, tmp_path):
    return folder_of(request.param, tmp_path)


@pytest.fixture
def led(tmp_path):
    return folder_of("tiny_led", tmp_path)


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def flags_of(options):
    """--no-repeat-ngram-size 2 of {"no_repeat_ngram_size": 2}."""
    flags = []
    for name, value in options.items():
        flags += [f"--{name.replace('_', '-')}", str(value).lower()]
    return flags


def global_flags(folder):
    return ["--global-attention", "cls"] if folder.name == "tiny_led" else []


def generated(folder, texts, *flags, verb="generate"):
    stdin = lines_of({"text": text} for text in texts)
    return run(verb, folder, "-", "--field", "text", "--json", *flags, stdin=stdin).passes().json


class TestGenerate:
    def test_the_ids_of_transformers(self, model):
        folder, expected = model
        for case in expected["cases"]:
            flags = flags_of(case["options"])
            rows = generated(folder, expected["texts"], *flags, *global_flags(folder))
            for row, wanted in zip(rows, case["written"], strict=True):
                assert [text["ids"] for text in row["texts"]] == [one["ids"] for one in wanted]
                assert [text["text"] for text in row["texts"]] == [one["text"] for one in wanted]
                if "score" in wanted[0]:
                    scores = [text["score"] for text in row["texts"]]
                    assert scores == pytest.approx([one["score"] for one in wanted], abs=1e-4)

    def test_each_document_is_as_alone(self, model):
        folder, expected = model
        flags = ["--do-sample", "--temperature", 1.5, "--num-return-sequences", 2, "--max-new-tokens", 12]
        together = generated(folder, expected["texts"], *flags, "--together", 4)
        assert together == generated(folder, expected["texts"], *flags, "--together", 1)
        assert together != generated(folder, expected["texts"], *flags, "--seed", 2)

    def test_text_is_printed_as_it_comes(self, model):
        folder, expected = model
        wanted = expected["cases"][0]["written"][0][0]["text"]
        plain = run("generate", folder, "--text", expected["texts"][0], *global_flags(folder)).passes()
        assert plain.out == wanted + "\n"

    def test_pieces_of_texts_as_json(self, model):
        folder, expected = model
        rows = generated(folder, expected["texts"], "--max-new-tokens", "12", "--stream")
        pieces = [row for row in rows if "delta" in row]
        texts = [row for row in rows if "texts" in row]
        assert len(texts) == len(expected["texts"]) and len(pieces) > len(texts)
        for row in texts:
            told = [piece["delta"] for piece in pieces if piece["line"] == row["line"]]
            assert "".join(told) == row["texts"][0]["text"] and all(told)
        refused = run("generate", folder, "--text", "one", "--stream").fails(2)
        assert "--stream: expected --json" in refused.err

    def test_bf16_runs(self, model):
        folder, expected = model
        rows = generated(folder, expected["texts"], "--dtype", "bf16", "--num-beams", 2)
        assert all(row["texts"][0]["ids"][0] == 2 for row in rows)

    def test_a_long_document(self, led):
        folder, _ = led
        long = "The quick brown fox. " * 100
        run("generate", folder, "--text", long, "--refuse").fails(1, "256", "--truncate")
        cut = run("generate", folder, "--text", long, "--truncate", "--json").passes().json[0]
        assert cut["truncated"] == cut["tokens"] - 256 and cut["segments"] == 1
        done = run("generate", folder, "--text", long, "--stride", 32, "--json").passes()
        assert "overlapping segments" in done.err
        split = done.json[0]
        assert split["segments"] > 2 and split["truncated"] == 0 and split["texts"][0]["text"]

    def test_segments_overlap_by_the_stride_that_is_given(self, led):
        def generate(*flags):
            return run("generate", led[0], "--text", "the " * 200, "--max-source-length", 64, "--max-length", 4, "--json", *flags)

        found = {stride: generate("--stride", stride).passes().json[0]["segments"] for stride in (0, 16, 40, 60)}
        tokens = generate().passes().json[0]["tokens"]
        # Two special tokens stand around the 62 of a segment.
        for stride, segments in found.items():
            assert abs(segments - (tokens - 2 - stride) / (62 - stride)) <= 1, (stride, segments)
        # None given: a quarter of them.
        assert generate().passes().json[0]["segments"] == found[16]
        generate("--stride", 62, "--truncate").fails(2, "--stride")
        generate("--stride", 62).fails(2, "--stride: expected 0 to 61 tokens, found 62")
        run("generate", led[0], "--text", "the", "--max-source-length", 2).fails(2, "--max-source-length: expected at least 3 tokens")

    def test_extended_positions_are_those_of_convert(self, model, tmp_path):
        folder, _ = model
        long = ["The quick brown fox. " * 40, "fox"]
        flags = [*global_flags(folder), "--num-beams", 2]
        if folder.name != "tiny_led":
            # An LED sees windows where the others do not.
            assert generated(folder, long, *flags, "--extend")[0]["segments"] == 1
            return
        run("convert", folder, tmp_path / "longer", "--max-positions", 1000, "--window", "8,16").works()
        wanted = generated(tmp_path / "longer", long, *flags)
        assert wanted[0]["tokens"] > 600
        assert [r["texts"] for r in generated(folder, long, *flags, "--extend")] == [r["texts"] for r in wanted]

    def test_one_bad_document_loses_no_other(self, led):
        folder, expected = led
        texts = [expected["texts"][0], "long " * 400, expected["texts"][3]]
        stdin = lines_of({"text": text} for text in texts)
        result = run("generate", folder, "-", "--field", "text", "--json", "--global-attention", "cls", "--refuse", stdin=stdin)
        assert result.code == 1 and result.err.count("error") == 1
        rows = [json.loads(line) for line in result.out.splitlines()]
        assert "256" in rows[1]["error"]
        for row, place in ((rows[0], 0), (rows[2], 3)):
            assert row["texts"][0]["ids"] == expected["cases"][0]["written"][place][0]["ids"]


class TestSummarize:
    def test_says_what_it_did(self, led):
        folder, expected = led
        result = run("summarize", folder, "--text", expected["texts"][0])
        assert result.code == 0
        assert result.out == expected["cases"][0]["written"][0][0]["text"] + "\n"
        for word in ("1 of them with global attention", "wrote 13 with 1 beam"):
            assert word in result.err

    def test_the_first_token_is_global(self, led):
        folder, expected = led
        rows = generated(folder, expected["texts"], verb="summarize")
        for row, wanted in zip(rows, expected["cases"][0]["written"], strict=True):
            assert row["global_tokens"] == 1 and row["texts"][0]["ids"] == wanted[0]["ids"]
        rows = generated(folder, expected["texts"], "--global-attention", "none", verb="summarize")
        assert all(row["global_tokens"] == 0 for row in rows)


class TestBadInput:
    def test_options(self, led):
        folder, _ = led
        with_text = ("generate", folder, "--text", "fox")
        run(*with_text, "--max-length", 99).fails(2, "--max-length", "32")
        run(*with_text, "--num-beams", 2, "--num-return-sequences", 3).fails(2, "--num-return-sequences")
        run(*with_text, "--num-beams", 400).fails(2, "--num-beams")
        run(*with_text, "--bad-words-ids", 5000).fails(2, "--bad-words-ids", "5000")
        run(*with_text, "--early-stopping", "perhaps").fails(2, "--early-stopping")

    def test_folders(self, led, tmp_path):
        folder, _ = led
        (folder / "generation_config.json").write_text('{"num_beams": "two"}')
        run("generate", folder, "--text", "fox").fails(1, "generation_config.json", "num_beams")
        (folder / "generation_config.json").write_text('{"num_beams": 2, "nonsense": 1}')
        assert "nonsense" in run("generate", folder, "--text", "fox").err
        config = json.loads((folder / "config.json").read_text())
        config["decoder_layers"] = 3
        (folder / "config.json").write_text(json.dumps(config))
        run("generate", folder, "--text", "fox").fails(1, "decoder.layers.2")

    def test_other_models(self, led):
        folder, _ = led
        run("generate", FIXTURES / "tiny_bert", "--text", "fox").fails(1, "led, bart,", "bert")
        run("embed", folder, "--text", "fox").fails(1, "generate", "summarize")
        run("generate", folder, "--prompt", "fox").fails(2, "--prompt")

    def test_weights_that_are_not_finite_cost_one_document(self, led):
        folder, expected = led
        data = bytearray((folder / "model.safetensors").read_bytes())
        size = int.from_bytes(data[:8], "little")
        positions = json.loads(data[8 : 8 + size])["led.encoder.embed_positions.weight"]
        begin = 8 + size + positions["data_offsets"][0] + 4 * 16 * 60
        data[begin : begin + 4] = np.float32(np.nan).tobytes()
        (folder / "model.safetensors").write_bytes(data)
        stdin = lines_of({"text": text} for text in expected["texts"])
        result = run("generate", folder, "-", "--field", "text", "--json", "--global-attention", "cls", stdin=stdin)
        assert result.code == 1 and result.err.count("error") == 1
        rows = [json.loads(line) for line in result.out.splitlines()]
        assert "finite" in rows[1]["error"]
        for place in (0, 2, 3):
            wanted = expected["cases"][0]["written"][place][0]["ids"]
            assert rows[place]["texts"][0]["ids"] == wanted

    def test_an_empty_document(self, led):
        folder, _ = led
        rows = generated(folder, ["", "fox"])
        assert rows[0]["tokens"] == 2 and rows[0]["texts"][0]["ids"][0] == 2


class TestInfo:
    def test_both_halves(self, model):
        folder, _ = model
        info = run("info", folder, "--json").works().json[0]
        assert info["head"] == "sequence-to-sequence" and info["unsupported"] == []
        assert (info["layers"], info["decoder_layers"], info["decoder_heads"]) == (2, 2, 4)
        assert info["max_text_tokens"] == (32 if folder.name == "tiny_led" else 256)


    def test_generation(self, model):
        folder, _ = model
        text = run("info", folder, "--generation").works().out
        assert text.splitlines()[0].split() == ["options", "from", "generation_config.json"]
        assert "max_length                          14\n" in text
        (folder / "generation_config.json").unlink()
        found = run("info", folder, "--generation", "--json").works().json[0]
        assert found["file"] == "config.json" and found["options"]["eos_token_id"] == "2"
        run("info", FIXTURES / "tiny_bert", "--generation").fails(1, "a model with a decoder", "bert")


class TestAttention:
    def test_sources_of_a_text(self, led, tmp_path):
        folder, expected = led
        document = tmp_path / "document.txt"
        document.write_text("The quick brown fox. A lazy dog ran.\n\nThe cat is here.")
        flags = ["--summary", "The dog, a fox. It ran.", "--top-k", 3]
        lines = run("attention", folder, document, *flags).works().out.splitlines()
        assert len(lines) == 7 and lines[0].split("\t")[1:3] == ["sentence", "share"]
        row = run("attention", folder, document, *flags, "--json").works().json[0]
        assert [s["text"] for s in row["sentences"]] == ["The dog, a fox.", "It ran."]
        text = document.read_text()
        for sentence in row["sentences"]:
            sources = sentence["sources"]
            assert [s["share"] for s in sources] == sorted((s["share"] for s in sources), reverse=True)
            assert 0 < sum(s["share"] for s in sources) < 1
            for source in sources:
                assert text[source["begin"] : source["end"]] == source["text"]
            assert {s["text"] for s in sources} == {"The quick brown fox.", "A lazy dog ran.", "The cat is here."}

    def test_the_page(self, led, tmp_path):
        folder, expected = led
        page = tmp_path / "page.html"
        run("attention", folder, "--text", "Fox <b> & dog. The cat.", "--summarize", "-o", page).works()
        content = page.read_text()
        data = json.loads(content.split('id="data">')[1].split("</script>")[0])
        assert data["document"] == ["Fox <b> & dog.", "The cat."] and "<b>" not in content
        assert len(data["text"][0]["shares"]) == 2

    def test_bad_input(self, led):
        folder, _ = led
        run("attention", folder, "--text", "fox", "--summary", "a", "-o", "x.png").fails(2, ".html")
        run("attention", folder, "--text", "fox", "--summary", "").fails(2, "--summary: expected a value")
        run("attention", folder, "--text", "fox", "--summary", "a " * 40).fails(1, "32")
        run("attention", FIXTURES / "tiny_bert", "--text", "fox", "--summary", "a").fails(1, "led, bart,")

    def test_of_the_encoder(self, model):
        folder, _ = model
        flags = ["--text", "The fox", "--layer", 0, "--head", 0, "--json"]
        if folder.name == "tiny_pegasus_x":
            run("attention", folder, *flags).fails(1, "PegasusX")
            return
        rows = run("attention", folder, *flags).works().json
        assert rows[0]["tokens"] > 2 and sum(rows[0]["probability"]) > 1


class TestConvert:
    def test_short_documents_are_as_before(self, tmp_path):
        folder, expected = folder_of("tiny_bart", tmp_path)
        run("convert", folder, tmp_path / "led", "--max-positions", 700, "--window", 512).works()
        before = generated(folder, expected["texts"], "--num-beams", 3)
        after = generated(tmp_path / "led", expected["texts"], "--num-beams", 3)
        assert [r["texts"][0]["ids"] for r in before] == [r["texts"][0]["ids"] for r in after]
        config = json.loads((tmp_path / "led" / "config.json").read_text())
        assert config["max_encoder_position_embeddings"] == 700 and config["attention_window"] == [512, 512]
        assert config["tie_word_embeddings"] is False and "scale_embedding" not in config

    @pytest.mark.parametrize("name", ["tiny_bigbird_pegasus", "tiny_pegasus", "tiny_pegasus_x", "tiny_mbart"])
    def test_norms_before_the_layers_are_refused(self, name, tmp_path):
        folder, _ = folder_of(name, tmp_path)
        run("convert", folder, tmp_path / "longer", "--max-positions", 512).fails(1, name.removeprefix("tiny_"), "LED")

    def test_a_longer_led(self, led, tmp_path):
        folder, _ = led
        run("convert", folder, tmp_path / "longer", "--max-positions", 1000, "--dtype", "bf16").works()
        info = run("info", tmp_path / "longer", "--json").works().json[0]
        assert info["max_tokens"] == 1000 and info["windows"] == [8, 16] and "bf16" in info["dtype"]


EXAMPLES = [
    {"id": str(i), "text": f"fox {i % 7} and the {word} dog", "summary": f"the {word} fox"}
    for i, word in enumerate(["quick", "brown", "lazy", "over"] * 3)
]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text(lines_of(EXAMPLES))
    return path


class TestFinetune:
    def test_learns_and_is_evaluated(self, led, data, tmp_path):
        folder, _ = led
        # Drawn weights learn faster than those of the fixture.
        (folder / "model.safetensors").unlink()
        out = tmp_path / "out"
        flags = ["--task", "seq2seq", "--validation-file", data, "--eval-strategy", "steps", "--eval-steps", 300,
                 "--max-steps", 600, "--learning-rate", 0.01, "--generation-max-length", 24,
                 "--per-device-train-batch-size", 4, "--gradient-accumulation-steps", 1]  # fmt: skip
        run("finetune", folder, data, *flags, "--predict-with-generate", "--output-dir", out).passes()
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        evaluated = [line for line in lines if "eval_rougeL" in line]
        assert len(evaluated) == 2 and evaluated[1]["eval_loss"] < evaluated[0]["eval_loss"] < 6
        said = tmp_path / "said.jsonl"
        found = run("evaluate", out, data, "--max-length", 24, "--predictions", said, "--json").passes().json
        metrics = found[0]["metrics"]
        assert metrics["rouge1"] == pytest.approx(evaluated[1]["eval_rouge1"], abs=1e-6)
        assert metrics["rouge1"] > 0.5
        rows = [json.loads(line) for line in said.read_text().splitlines()]
        assert [row["id"] for row in rows] == [example["id"] for example in EXAMPLES]
        assert np.mean([row["rouge1"] for row in rows]) == pytest.approx(metrics["rouge1"], abs=1e-9)

    def test_what_is_not_trained_is_kept(self, model, data, tmp_path):
        folder, _ = model
        out = tmp_path / "out"
        run("finetune", folder, data, "--task", "seq2seq", "--max-steps", 1, "--learning-rate", 0,
            "--output-dir", out).passes()  # fmt: skip
        info = run("info", out, "--json").works().json[0]
        assert info["unsupported"] == [] and info["architecture"] == json.loads((folder / "config.json").read_text())["architectures"][0]
        texts = [example["text"] for example in EXAMPLES]
        assert generated(out, texts, "--num-beams", 2) == generated(folder, texts, "--num-beams", 2)

    def test_a_recipe(self, model, data, tmp_path):
        """Checkpointing, smoothing and Adafactor change nothing but the arithmetic."""
        folder, _ = model
        run("finetune", folder, data, "--task", "seq2seq", "--max-steps", 3, "--gradient-checkpointing",
            "--label-smoothing-factor", 0.1, "--optim", "adafactor", "--dtype", "bf16", "--max-target-length", 3,
            "--output-dir", tmp_path / "out").passes()  # fmt: skip

    def trained(self, folder, data, out, *flags):
        """The bytes of the model after six steps."""
        run("finetune", folder, data, "--task", "seq2seq", "--max-steps", 6, "--learning-rate", 0.01,
            "--save-strategy", "steps", "--save-steps", 3, "--output-dir", out, *flags).passes()  # fmt: skip
        return (out / "model.safetensors").read_bytes()

    def test_checkpointing_and_resuming_keep_the_bits(self, model, data, tmp_path):
        folder, _ = model
        whole = self.trained(folder, data, tmp_path / "whole")
        assert self.trained(folder, data, tmp_path / "less", "--gradient-checkpointing") == whole
        half = tmp_path / "half"
        self.trained(folder, data, half)
        (half / "model.safetensors").unlink()
        shutil.rmtree(half / "checkpoint-6")
        assert self.trained(folder, data, half, "--resume-from-checkpoint", "last") == whole

    def test_accumulation_is_a_mean_over_tokens(self, led, data, tmp_path):
        """Whatever the micro-batches: the Trainer adds their means for LED."""
        folder, _ = led
        config = json.loads((folder / "config.json").read_text())
        config["dropout"] = 0.0
        (folder / "config.json").write_text(json.dumps(config))
        losses = []
        for batch, rounds in ((6, 1), (2, 3), (1, 6)):
            out = tmp_path / f"{batch}"
            run("finetune", folder, data, "--task", "seq2seq", "--max-steps", 1, "--learning-rate", 0,
                "--per-device-train-batch-size", batch, "--gradient-accumulation-steps", rounds,
                "--logging-steps", 1, "--output-dir", out).passes()  # fmt: skip
            losses.append(json.loads((out / "log.jsonl").read_text().splitlines()[0]))
        for name in ("loss", "grad_norm"):
            values = [one[name] for one in losses]
            assert values == pytest.approx([values[0]] * 3, rel=1e-4), name

    def test_bad_data(self, led, tmp_path):
        folder, _ = led
        for content, words in [
            ('{"text": "fox"}\n', ("summary", ":1")),
            ('{"text": "fox", "summary": ""}\n', ("empty", ":1")),
            ('{"summary": "fox"}\n', ("text", "article")),
            ("", ("at least one example",)),
        ]:
            path = tmp_path / "bad.jsonl"
            path.write_text(content)
            flags = ["--task", "seq2seq", "--output-dir", tmp_path / "out"]
            run("finetune", folder, path, *flags).fails(1, "bad.jsonl", *words)
            assert not (tmp_path / "out").exists()

    def test_an_empty_reference_counts_as_0(self, led, tmp_path):
        folder, _ = led
        data, table = tmp_path / "d.jsonl", tmp_path / "d.csv"
        data.write_text('{"text": "a fox", "summary": ""}\n{"text": "a dog", "summary": "dog"}\n')
        table.write_text("text,summary\na fox,\na dog,dog\n")
        for file in (data, table):
            flags = ["--max-new-tokens", 3, "--json"]
            done = run("evaluate", folder, file, *flags, "--predictions", tmp_path / "p.jsonl").passes()
            rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
            assert done.json[0]["examples"] == 2 and done.json[0]["empty"] == 1 and "1 example is empty" in done.err
            assert rows[0]["target"] == "" and rows[0]["rouge1"] == rows[0]["rougeLsum"] == 0
            found = run("evaluate", folder, file, *flags, "--skip-invalid").passes().json[0]
            assert found["examples"] == 1 and found["skipped"] == 1 and found["empty"] == 0

    def test_tables(self, led, tmp_path):
        folder, _ = led
        table = tmp_path / "data.csv"
        table.write_text('article,highlights\n"a fox, and a dog",a fox\n')
        found = run("evaluate", folder, table, "--max-new-tokens", 3, "--json").passes().json[0]
        assert found["task"] == "sequence-to-sequence" and found["examples"] == 1
        table.write_text("first,second\na,b\n")
        run("evaluate", folder, table).fails(1, "data.csv", "article", "first, second")
