"""Keys of the files of a folder that nothing reads, files that are not what they should be, and trainings that go on
with another model."""

import json
import shutil

import pytest
from cli_adapter_test import copied, scores
from cli_adapter_test import adapter, base, data  # noqa: F401
from cli_character_lm_test import CONFIG, TEXT, train, written
from cli_test import BERT, FIXTURES, ROBERTA, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
DENSE = FIXTURES / "sentence_dense"
CHARACTERS = FIXTURES / "character_lm" / "tied"
IGNORED = "ignored, as nothing here reads it: "
WORDS = "he was with the of and"


def changed(source, target, file, **values):
    """A copy of a folder with other values in one of its JSON files."""
    shutil.copytree(source, target)
    path = target / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))
    return target


def notes_of(result):
    assert result.code == 0, result.err
    return [line.removeprefix("longformer: note: ") for line in result.err.splitlines()]


def refuses(result, *words):
    """An error behind notes on what was read."""
    *notes, error = result.err.splitlines()
    assert result.code == 1 and all(line.startswith("longformer: note: ") for line in notes), result.err
    assert error.startswith("longformer: error: ") and all(word in error for word in words), (words, error)


class TestKeysThatNothingReads:
    @pytest.mark.parametrize("source,verb,file,key,value", [
        (CLASSIFIER, "classify", "config.json", "rotary_base", 1e4),
        (CLASSIFIER, "classify", "tokenizer_config.json", "split_special_tokens", True),
        (BERT, "embed", "config.json", "pruned_heads", {"0": [1]}),
        (DENSE, "embed", "sentence_bert_config.json", "pad_to_multiple_of", 8),
        (DENSE, "embed", "config_sentence_transformers.json", "score_function", "torch.nn.Sigmoid"),
        (DENSE, "embed", "1_Pooling/config.json", "pooling_weights", [1, 2])])  # fmt: skip
    def test_are_told_once_and_by_info(self, tmp_path, source, verb, file, key, value):
        model = changed(source, tmp_path / "model", file, **{key: value})
        assert run(verb, source, "--text", WORDS, "--json").works().out == (done := run(verb, model, "--text", WORDS, "--json")).out
        (note,) = notes_of(done)
        assert note.startswith(f"{model / file}: {IGNORED}\"{key}\": "), note
        assert note in run("info", model, "--json").works().json[0]["unsupported"]
        assert f"unsupported         {note}\n" in run("info", model).works().out

    @pytest.mark.parametrize("key,near", [("attention_windows", "attention_window"), ("hidden_dropout_prop", "hidden_dropout_prob")])
    def test_with_the_key_that_is_meant(self, tmp_path, key, near):
        model = changed(CLASSIFIER, tmp_path / "model", "config.json", **{key: 4})
        (note,) = notes_of(run("classify", model, "--text", WORDS))
        assert note.endswith(f'{IGNORED}"{key}": 4 (did you mean "{near}"?)')

    @pytest.mark.parametrize("file,values", [
        ("config.json", {"use_cache": False, "chunk_size_feed_forward": 0, "tie_encoder_decoder": False, "transformers_version": "4.2",
                         "torch_dtype": "float16", "gradient_checkpointing": True, "label2id": {"bad": 0}, "rotary": None}),
        ("tokenizer_config.json", {"padding_side": "left", "max_length": 128, "errors": "replace", "name_or_path": "x"})])  # fmt: skip
    def test_what_changes_nothing_is_not_told(self, tmp_path, file, values):
        run("classify", changed(CLASSIFIER, tmp_path / "model", file, **values), "--text", WORDS).works()

    def test_of_generation(self, tmp_path):
        led = tmp_path / "led"
        shutil.copytree(FIXTURES / "tiny_led", led)
        for file in ("vocab.json", "merges.txt"):
            shutil.copy(ROBERTA / file, led)
        flags = ["--text", WORDS, "--max-new-tokens", 3]
        plain = run("summarize", led, *flags).passes()
        for values, told in (({"guidance_scale": 1.0, "num_beam_groups": 1, "use_cache": False}, 0), ({"guidance_scale": 2.5}, 1)):
            model = changed(led, tmp_path / f"led{told}", "generation_config.json", decoder_start_token_id=2, eos_token_id=2, bos_token_id=0, pad_token_id=1, **values)
            done = run("summarize", model, *flags)
            notes = [note for note in notes_of(done) if IGNORED in note]
            assert len(notes) == told and len(plain.out.splitlines()) == len(done.out.splitlines())
            unsupported = run("info", model, "--json").works().json[0]["unsupported"]
            assert [line for line in unsupported if "guidance_scale" in line] == notes


class TestFormatsOfOurOwn:
    @pytest.mark.parametrize("key,near", [("dilation", "dilations"), ("dropuot", "dropout"), ("hiden_size", "hidden_size"), ("window", "windows")])
    def test_a_configuration(self, tmp_path, key, near):
        text = written(tmp_path / "text.txt", TEXT * 40)
        config = written(tmp_path / "config.json", {**CONFIG, key: CONFIG.get(near)})
        train(config, text, tmp_path / "out", "--max-steps", 1).fails(1, f'{config}: expected only keys that are read here, found "{key}"', f'did you mean "{near}"?')
        assert not (tmp_path / "out").exists()

    def test_phases(self, tmp_path):
        text = written(tmp_path / "text.txt", TEXT * 40)
        config = written(tmp_path / "config.json", CONFIG)
        phase = {"length": 32, "windows": [4, 8], "learning_rate": 1e-3, "batch": 4, "steps": 2}
        phases = written(tmp_path / "phases.json", [{**phase, "warmup_step": 1}])
        train(config, text, tmp_path / "out", "--phases", phases, length=()).fails(1, "phases.json: phase 1", '"warmup_step"', '"warmup_steps"')

    def test_an_adapter(self, base, adapter, tmp_path):  # noqa: F811
        scores(base, "--adapter", copied(adapter, tmp_path / "new", use_something_new=False, new_config=None))
        wrong = copied(adapter, tmp_path / "wrong", lora_alhpa=64)
        run("classify", base, "--adapter", wrong, "--text", "a").fails(1, "adapter_config.json", '"lora_alhpa"', '"lora_alpha"')


class TestFilesOfAnotherKind:
    KINDS = {
        "git lfs pull": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 + b"\nsize 438007537\n",
        "an HTML page": b"<!DOCTYPE html>\n<html><body>404</body></html>",
        "a gzip archive": b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + bytes(40),
        "an empty file": b"",
    }  # fmt: skip

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
    def test_in_a_model(self, tmp_path, file, kind):
        model = tmp_path / "model"
        shutil.copytree(BERT, model)
        (model / file).write_bytes(self.KINDS[kind])
        run("embed", model, "--text", "a").fails(1, str(model / file), f"found {kind}" if "git" not in kind else kind)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("file", ["vocab.json", "merges.txt", "tokenizer.json", "pytorch_model.bin"])
    def test_in_another_form(self, tmp_path, file, kind):
        model = tmp_path / "model"
        shutil.copytree(ROBERTA, model)
        if file == "pytorch_model.bin":
            (model / "model.safetensors").unlink()
        (model / file).write_bytes(self.KINDS[kind])
        run("fill-mask", model, "--text", "a <mask>").fails(1, str(model / file), kind)

    @pytest.mark.parametrize("kind", list(KINDS)[:3])
    def test_an_index(self, tmp_path, kind):
        (tmp_path / "index").write_bytes(self.KINDS[kind] + bytes(600))
        run("search", BERT, "--index", tmp_path / "index", "--query", "a").fails(1, "expected a search index", kind)


class TestGoingOn:
    def test_with_another_configuration_is_an_error(self, tmp_path):
        text = written(tmp_path / "text.txt", TEXT * 40)
        config = written(tmp_path / "config.json", CONFIG)
        out = tmp_path / "out"
        train(config, text, out, "--max-steps", 2, "--save-steps", 1).passes()
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        again = ["--max-steps", 4, "--resume-from-checkpoint", "last"]
        for key, value in (("windows", [8, 8]), ("dilations", [0, 0]), ("dropout", 0.3)):
            other = written(tmp_path / "other.json", {**CONFIG, key: value})
            refuses(train(other, text, out, *again), f"trainer_state.json: config.json: {key}: expected ", "as the checkpoint has it")
        refuses(train(config, text, out, *again, length=("--length", 16)), "phase 1: length: expected 32")
        refuses(train(config, text, out, *again, "--seed", 3), "training_args.json: seed: expected 42")
        more = written(tmp_path / "more.txt", TEXT * 41)
        refuses(train(config, more, out, *again), "length of the training text")
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
        train(config, text, out, *again).passes()

    def test_with_another_model_is_an_error(self, base, data, tmp_path):  # noqa: F811
        flags = ["--task", "classify", "--output-dir", tmp_path / "out", "--per-device-train-batch-size", 3, "--save-steps", 1]
        run("finetune", base, data, *flags, "--max-steps", 2).passes()
        again = [*flags, "--max-steps", 3, "--resume-from-checkpoint", "last"]
        other = changed(base, tmp_path / "other", "config.json", hidden_dropout_prob=0.5)
        refuses(run("finetune", other, data, *again), "config.json: hidden_dropout_prob: expected ", "found 0.5")
        rows = [json.loads(line) for line in data.read_text().splitlines()]
        (tmp_path / "others.jsonl").write_text("".join(json.dumps({**row, "text": row["text"] + " was he"}) + "\n" for row in rows))
        refuses(run("finetune", base, tmp_path / "others.jsonl", *again), "lengths of the rows")
        run("finetune", base, data, *again).passes()

    def test_an_adapter_of_other_weights_is_an_error(self, base, data, tmp_path):  # noqa: F811
        flags = ["--task", "classify", "--output-dir", tmp_path / "out", "--per-device-train-batch-size", 3, "--save-steps", 1, "--lora-rank", 2]
        run("finetune", base, data, *flags, "--max-steps", 2).passes()
        other = tmp_path / "other"
        shutil.copytree(base, other)
        weights = bytearray((other / "model.safetensors").read_bytes())
        size = int.from_bytes(weights[:8], "little")
        weights[8 + size] ^= 1
        (other / "model.safetensors").write_bytes(weights)
        again = ["--max-steps", 3, "--resume-from-checkpoint", "last"]
        refuses(run("finetune", other, data, *flags, *again), "base weights")
        refuses(run("finetune", base, data, *flags[:-1], 4, *again), "lora_rank: expected 2")
        run("finetune", base, data, *flags, *again).passes()

    def test_where_nothing_is_left_the_best_model_stays(self, tmp_path):
        text = written(tmp_path / "text.txt", TEXT * 40)
        config, out = written(tmp_path / "config.json", CONFIG), tmp_path / "out"
        flags = ["--max-steps", 6, "--save-steps", 2, "--eval-strategy", "steps", "--eval-steps", 2]
        # A rate at which the loss grows: the first model is the best.
        train(config, text, out, *flags, "--learning-rate", 3, "--lr-scheduler-type", "constant", "--load-best-model-at-end").passes()
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        assert before[out / "model.safetensors"] != before[out / "checkpoint-6" / "model.safetensors"]
        done = train(config, text, out, *flags, "--resume-from-checkpoint", "last").passes()
        assert "nothing was left to do after 6 steps" in done.out
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
