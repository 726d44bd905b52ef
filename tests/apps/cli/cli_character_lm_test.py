"""The verbs pretrain-lm and generate, and evaluate on language models.

The expected numbers of tests/fixtures/character_lm are those of a PyTorch version of the model.
"""

import json
import math
import shutil
import signal
import struct
import subprocess
import time

import numpy as np
import pytest
from cli_test import BERT, BINARY, FIXTURES, ROOT, run

MODEL = FIXTURES / "character_lm" / "tied"
TEXT = "the quick brown fox jumps over the lazy dog and runs away "
CONFIG = {
    "model_type": "longformer-character-lm",
    "alphabet": "text8",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "windows": [4, 8],
    "dilations": [0, 1],
    "dropout": 0.1,
}


def tensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    data = raw[8 + length :]
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
        for name, entry in header.items()
    }


EXPECTED = tensors(MODEL / "expected.safetensors")


def written(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.fixture
def config(tmp_path):
    return written(tmp_path / "config.json", CONFIG)


@pytest.fixture
def text(tmp_path):
    return written(tmp_path / "text.txt", TEXT * 40)


def train(config, text, output, *flags, rows=4, length=("--length", 32)):
    return run("pretrain-lm", "--config", config, text, "--output-dir", output, *length,
               "--per-device-train-batch-size", rows, "--threads", 1, *flags)  # fmt: skip


def score(model, text, *flags):
    return run("evaluate", model, text, "--json", *flags).works().json[0]


class TestHeldOutText:
    @pytest.mark.parametrize("flags", [[], ["--segments", "consecutive"]])
    def test_a_validation_file_alone_is_evaluated(self, config, text, tmp_path, flags):
        unread, out = written(tmp_path / "unread.txt", "a lazy fox and a quick dog jump away " * 20), tmp_path / "out"
        done = train(config, text, out, "--max-steps", 3, "--validation-file", unread, *flags)
        assert done.code == 0, done.err
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines if "eval_bpc" in line] == [3]

    def test_a_validation_file_is_what_is_evaluated(self, config, text, tmp_path):
        unread, out = written(tmp_path / "unread.txt", "a lazy fox and a quick dog jump away " * 20), tmp_path / "out"
        done = train(config, text, out, "--max-steps", 20, "--learning-rate", 1e-2, "--eval-strategy", "steps",
                     "--eval-steps", 20, "--validation-file", unread)  # fmt: skip
        assert done.code == 0, done.err
        last = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()][-1]
        whole = score(out, unread)
        assert whole["characters"] == len(unread.read_text()) - 1
        assert math.isclose(last["eval_bpc"], whole["metrics"]["bpc"], rel_tol=1e-5)

    def test_all_of_the_text_is_for_training(self, config, tmp_path):
        # Nine tenths of 34 characters hold no segment of 32 and its next character.
        text, unread = written(tmp_path / "text.txt", TEXT[:34]), written(tmp_path / "unread.txt", TEXT)
        refused = train(config, text, tmp_path / "out", "--max-steps", 1)
        assert refused.code == 1 and "whose first 90 % are longer than a segment of 32 characters" in refused.err
        assert train(config, text, tmp_path / "out", "--max-steps", 1, "--validation-file", unread).code == 0

    def test_files_are_read_as_one(self, config, text, tmp_path):
        parts = [written(tmp_path / name, TEXT[begin:] * 20) for name, begin in (("a.txt", 0), ("b.txt", 4))]
        whole = written(tmp_path / "whole.txt", "".join(part.read_text() for part in parts))
        for name, files in (("one", [whole]), ("two", parts)):
            run("pretrain-lm", "--config", config, *files, "--output-dir", tmp_path / name, "--length", 32, "--max-steps",
                5, "--threads", 1).passes()  # fmt: skip
        one, two = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
        more = run("pretrain-lm", tmp_path / "one", *parts, "--output-dir", tmp_path / "more", "--length", 32,
                   "--max-steps", 5, "--threads", 1)  # fmt: skip
        assert more.code == 0, more.err

    def test_bad_files(self, config, text, tmp_path):
        def refused(*flags, code=1):
            done = train(config, text, tmp_path / "out", "--max-steps", 1, *flags)
            assert done.code == code and not (tmp_path / "out").exists()
            return done.err

        assert "none.txt" in refused("--validation-file", tmp_path / "none.txt")
        short = written(tmp_path / "short.txt", "a")
        assert "expected two characters or more to evaluate on, found 1" in refused("--validation-file", short)
        bad = written(tmp_path / "bad.txt", "UPPER")
        assert "bad.txt" in refused("--validation-file", bad)
        found = run("pretrain-lm", "--config", config, text, bad, "--output-dir", tmp_path / "out").err
        assert "bad.txt" in found
        done = run("pretrain-lm", "--config", config, MODEL, text, "--output-dir", tmp_path / "out")
        assert done.code == 2 and "found a model too" in done.err
        done = train(config, text, tmp_path / "out", "--max-steps", 1, "--validation-file", text, "--eval-strategy", "no")
        assert "is not read" in done.err


class TestTraining:
    def test_loss_falls_and_the_folder_is_a_model(self, config, text, tmp_path):
        done = train(config, text, tmp_path / "out", "--max-steps", 60, "--learning-rate", 1e-2,
                     "--logging-steps", 20, "--eval-strategy", "steps", "--eval-steps", 30,
                     "--warmup-steps", 5, "--json")  # fmt: skip
        assert done.code == 0, done.err
        assert "BPC" in done.err and ", bpc " in done.err
        assert (done.json[0]["steps"], done.json[0]["interrupted"]) == (60, False)
        log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        losses = [row["loss"] for row in log if "loss" in row]
        assert losses[0] > losses[-1] + 0.5 and losses[-1] < 0.8 * math.log(27)
        last = [row for row in log if "eval_bpc" in row][-1]
        assert math.isclose(last["eval_bpc"], last["eval_loss"] / math.log(2))
        here = score(tmp_path / "out", text, "--part", "validation", "--streaming")
        assert here["characters"] == len(TEXT) * 40 // 20 - 1
        assert math.isclose(here["metrics"]["bpc"], last["eval_bpc"], rel_tol=1e-5)
        assert json.loads((tmp_path / "out" / "config.json").read_text())["windows"] == [4, 8]

    def test_going_on_from_a_model(self, text, tmp_path):
        done = run("pretrain-lm", MODEL, text, "--output-dir", tmp_path / "out", "--length", 50,
                   "--max-steps", 2, "--learning-rate", 1e-5, "--per-device-train-batch-size", 2)  # fmt: skip
        assert done.code == 0, done.err
        before, after = tensors(MODEL / "model.safetensors"), tensors(tmp_path / "out" / "model.safetensors")
        assert before.keys() == after.keys()
        for name in before:
            assert 0 < np.abs(after[name] - before[name]).max() < 1e-3, name

    def test_the_same_seed_gives_the_same_bits(self, config, text, tmp_path):
        weights = []
        for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
            train(config, text, tmp_path / name, "--max-steps", 3, "--seed", seed)
            weights.append((tmp_path / name / "model.safetensors").read_bytes())
        assert weights[0] == weights[1] != weights[2]

    def test_consecutive_segments_are_all_of_the_text(self, config, text, tmp_path):
        done = train(config, text, tmp_path / "out", "--segments", "consecutive", "--num-train-epochs", 2,
                     "--logging-steps", 1)  # fmt: skip
        assert done.code == 0, done.err
        log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        segments = (int(len(TEXT) * 40 * 0.9) - 1) // 32
        assert len(log) == 2 * math.ceil(segments / 4)
        assert log[-1]["tokens"] == 2 * segments * 32

    def test_clean_up_of_a_dump(self, config, tmp_path):
        dump = FIXTURES / "character_lm" / "text8" / "dump.xml"
        letters = FIXTURES / "character_lm" / "text8" / "letters.txt"
        for name, file, flags in [("a", dump, ["--clean-up"]), ("b", letters, [])]:
            done = train(config, file, tmp_path / name, "--max-steps", 1, *flags)
            assert done.code == 0, done.err
        a, b = (tmp_path / name / "model.safetensors" for name in "ab")
        assert a.read_bytes() == b.read_bytes()
        train(config, dump, tmp_path / "c").fails(1, "dump.xml: byte 0", "text8", "0x3c")


PHASES = [
    {"name": "short", "length": 16, "windows": [2, 4], "learning_rate": 1e-2, "batch": 4, "steps": 3},
    {"length": 32, "windows": [4, 8], "learning_rate": 5e-3, "batch": 2, "steps": 4, "warmup_steps": 0},
]


class TestPhases:
    @pytest.fixture
    def phases(self, tmp_path):
        return written(tmp_path / "phases.json", PHASES)

    def staged(self, config, text, output, phases, *flags):
        return train(config, text, output, "--phases", phases, "--logging-steps", 1, *flags, rows=2, length=())

    @pytest.mark.parametrize("option", ["--length", "--max-steps", "--learning-rate", "--num-train-epochs", "--warmup-steps"])
    def test_what_the_phases_say_is_not_said_again(self, config, text, tmp_path, phases, option):
        failed = self.staged(config, text, tmp_path / "out", phases, option, 1)
        failed.fails(2, "--phases", option)
        assert not (tmp_path / "out").exists()

    def test_length_windows_and_rate_change(self, config, text, tmp_path, phases):
        done = self.staged(config, text, tmp_path / "out", phases, "--save-steps", 2, "--save-total-limit", 0)
        assert done.code == 0, done.err
        assert "(short)" in done.err and "(phase 2)" in done.err
        log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        assert [row["tokens"] for row in log] == [64, 128, 192, 256, 320, 384, 448]
        rates = [row["learning_rate"] for row in log]
        assert rates == [0, 1e-2, 1e-2, 5e-3, 5e-3, 5e-3, 5e-3]
        windows = [json.loads((tmp_path / "out" / folder / "config.json").read_text())["windows"]
                   for folder in ("checkpoint-2", "checkpoint-4", ".")]  # fmt: skip
        assert windows == [[2, 4], [4, 8], [4, 8]]

    @pytest.mark.parametrize("step", [2, 4, 6])
    def test_resumed_in_any_phase_it_ends_with_the_same_bits(self, config, text, tmp_path, phases, step):
        whole, resumed = tmp_path / "whole", tmp_path / "resumed"
        self.staged(config, text, whole, phases, "--save-steps", 2, "--save-total-limit", 0)
        shutil.copytree(whole / f"checkpoint-{step}", resumed / f"checkpoint-{step}")
        done = self.staged(config, text, resumed, phases, "--save-steps", 2, "--save-total-limit", 0, "--resume-from-checkpoint", "last")
        assert done.code == 0, done.err
        assert (whole / "model.safetensors").read_bytes() == (resumed / "model.safetensors").read_bytes()

    @pytest.mark.parametrize("change,words", [
        ({"windows": [4]}, ["phase 2", "windows", "2 numbers", "[4]"]),
        ({"lenght": 3}, ["phase 2", "lenght"]),
        ({"steps": 0}, ["phase 2", "steps", "0"]),
        ({"learning_rate": -1}, ["phase 2", "learning_rate", "-1"]),
        ({"batch": 3}, ["divisor of the batch of 3", "found 2"]),
        ({"length": 5000}, ["text.txt", "5000", "2088"]),
    ])  # fmt: skip
    def test_broken_phases(self, config, text, tmp_path, change, words):
        phases = written(tmp_path / "phases.json", [PHASES[0], PHASES[1] | change])
        self.staged(config, text, tmp_path / "out", phases).fails(2 if "batch" in change else 1, *words)

    @pytest.mark.parametrize("size", ["small", "large"])
    def test_phases_of_the_paper_start(self, text, tmp_path, size):
        """The plan is told, and Ctrl-C ends it within the first steps."""
        examples = ROOT / "examples" / "language-models"
        long_text = written(tmp_path / "long.txt", TEXT * 500)
        process = subprocess.Popen(
            [BINARY, "pretrain-lm", "--config", examples / f"{size}.json", long_text, "--phases",
             examples / f"{size}-phases.json", "--output-dir", tmp_path / "out"],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        try:
            line = process.stderr.readline().decode()
        finally:
            process.kill()
            process.wait()
        millions = {"small": 41.06, "large": 102.48}[size]
        steps = {"small": "570,000", "large": "395,000"}[size]
        assert math.isclose(int(line.split()[0].replace(",", "")) / 1e6, millions, rel_tol=0.01)
        assert f"{steps} steps of 368,640 tokens" in line


class TestEvaluate:
    @pytest.fixture
    def short(self, tmp_path):
        return written(tmp_path / "short.txt", TEXT)

    @pytest.mark.parametrize("flags", [[], ["--streaming"], ["--step-characters", 7]])
    def test_loss_is_that_of_pytorch(self, short, flags):
        result = score(MODEL, short, *flags)
        assert (result["task"], result["characters"]) == ("character-lm", len(TEXT) - 1)
        wanted = float(EXPECTED["loss"][0]) / (len(TEXT) - 1)
        assert math.isclose(result["metrics"]["loss"], wanted, rel_tol=2e-6)
        assert math.isclose(result["metrics"]["bpc"], wanted / math.log(2), rel_tol=2e-6)

    def test_streaming_is_the_protocol_where_all_that_is_seen_fits(self, text):
        # The last layer sees 5 + 2 · 100 + 4 · 9 characters back.
        streaming = score(MODEL, text, "--streaming")["metrics"]["bpc"]
        fits = score(MODEL, text, "--window-characters", 300, "--step-characters", 59)["metrics"]["bpc"]
        assert math.isclose(streaming, fits, rel_tol=1e-5)
        cut = score(MODEL, text, "--window-characters", 40, "--step-characters", 20)["metrics"]["bpc"]
        assert abs(streaming - cut) > 1e-3

    def test_parts_are_taken_by_position(self, text, tmp_path):
        size = 40 * len(TEXT)
        parts = {"train": (0, 0.9), "validation": (0.9, 0.95), "test": (0.95, 1)}
        for part, (begin, end) in parts.items():
            piece = written(tmp_path / part, (TEXT * 40)[int(begin * size) : int(end * size)])
            assert score(MODEL, text, "--part", part)["metrics"] == score(MODEL, piece)["metrics"]
        assert score(MODEL, text, "--characters", 100)["characters"] == 100

    def test_text_for_people(self, short):
        assert "bpc" in run("evaluate", MODEL, short).works().out

    def test_bad_input(self, tmp_path, short):
        run("evaluate", MODEL, written(tmp_path / "a", "a")).fails(1, "at least 2 characters", "found 1")
        run("evaluate", MODEL, written(tmp_path / "b", "ab cD")).fails(1, "byte 4", "text8", "0x44")
        run("evaluate", MODEL, tmp_path / "none").fails(1, "none")
        run("evaluate", MODEL, short, "--step-characters", 20, "--window-characters", 10).fails(2, "20", "10")
        run("evaluate", MODEL, short, "--streaming", "--window-characters", 10).fails(2, "--window-characters")
        run("evaluate", BERT, short, "--streaming").fails(1, "language model", "--streaming")


class TestGenerate:
    def generated(self, *flags):
        return run("generate", MODEL, *flags).works().out

    def test_the_most_likely_character_is_that_of_pytorch(self):
        wanted = " abcdefghijklmnopqrstuvwxyz"[int(EXPECTED["logits"][-1].argmax())]
        for flags in (["--temperature", 0], ["--top-k", 1]):
            assert self.generated("--prompt", TEXT[:-1], "-n", 1, *flags) == wanted

    def test_drawn_one_by_one_it_is_the_model_on_the_whole_text(self):
        """Each greedy character is the best one after the prompt with all that came before."""
        prompt, text = "the ", self.generated("--prompt", "the ", "-n", 20, "--temperature", 0)
        for i in range(20):
            assert self.generated("--prompt", prompt + text[:i], "-n", 1, "--temperature", 0) == text[i]

    def test_seeds(self):
        text = self.generated("-n", 300, "--seed", 3)
        assert len(text) == 300 and set(text) <= set(" abcdefghijklmnopqrstuvwxyz")
        assert self.generated("-n", 300, "--seed", 3) == text
        assert self.generated("-n", 100, "--seed", 3) == text[:100]
        assert self.generated("-n", 300, "--seed", 4) != text

    def test_json(self):
        row = run("generate", MODEL, "--prompt", "a", "-n", 5, "--json").works().json[0]
        assert row == {"prompt": "a", "text": self.generated("--prompt", "a", "-n", 5)}

    def test_it_streams_and_ends_when_nobody_reads(self):
        process = subprocess.Popen([BINARY, "generate", MODEL, "-n", "1000000000"], stdout=subprocess.PIPE)
        assert len(process.stdout.read(50)) == 50
        process.stdout.close()
        assert process.wait(timeout=60) in (0, 1, -signal.SIGPIPE, 128 + signal.SIGPIPE)

    def test_nothing_is_written_beyond_the_positions(self, tmp_path):
        found = 0
        for config in sorted(FIXTURES.glob("*_lm/*/config.json")):
            settings = json.loads(config.read_text())
            if settings.get("positions") not in ("learned", "grid"):
                continue
            most = settings["max_position_embeddings"] - 3
            assert len(run("generate", config.parent, "--prompt", "abcd", "-n", most).works().out) == most
            refused = run("generate", config.parent, "--prompt", "abcd", "-n", most + 1).fails(2, f"at most {most} behind")
            assert refused.out == ""
            run("generate", config.parent, "--prompt", "abcd" * 20, "-n", 1).fails(2, "prompt", f"at most {most + 3} tokens")
            found += 1
        assert found >= 6

    def test_bad_input(self):
        run("generate", MODEL, "--prompt", "Ab").fails(1, "prompt", "byte 0", "text8")
        run("generate", MODEL, "--temperature", -1).fails(2, "--temperature")
        run("generate", BERT).fails(1, "longformer-lm", "bert")

    def test_verbs_of_encoders_point_to_those_that_run_it(self, tmp_path):
        text = written(tmp_path / "text", "the fox")
        for verb in ("embed", "search", "classify", "ner", "qa", "choose", "fill-mask", "tokenize"):
            more = {"search": ["--query", "fox"], "qa": ["--question", "who"]}.get(verb, [])
            run(verb, MODEL, text, *more).fails(1, "expected an encoder", "longformer generate", "longformer evaluate")
        for verb in ("finetune", "pretrain-mlm"):
            run(verb, MODEL, text, "--output-dir", tmp_path / "out").fails(1, "longformer generate")
        run("convert", MODEL, tmp_path / "out").fails(1, "longformer generate", "longformer evaluate")


class TestInfo:
    def test_it_says_what_the_config_says(self):
        info = run("info", MODEL, "--json").works().json[0]
        config = json.loads((MODEL / "config.json").read_text())
        keys = ("alphabet", "windows", "dilations")
        assert {key: info[key] for key in keys} == {key: config[key] for key in keys}
        assert (info["model_type"], info["attention"]) == ("longformer-lm", "window")
        assert info["parameters"] == sum(t.size for t in tensors(MODEL / "model.safetensors").values())
        # Windows 5, 100, 9 with strides 1, 2, 4.
        assert info["receptive_field"] == 5 + 200 + 36
        out = run("info", MODEL).works().out
        assert "text8" in out and "5, 100, 9" in out and "241 characters" in out


class TestBadInput:
    def test_which_model(self, config, text, tmp_path):
        out = ["--output-dir", tmp_path / "out"]
        run("pretrain-lm", text, *out).fails(2, "MODEL DATA")
        run("pretrain-lm", MODEL, text, "--config", config, *out).fails(2, "--config")
        run("pretrain-lm", BERT, text, *out).fails(1, "model_type", "longformer-character-lm", "bert")

    def test_text_too_short(self, config, tmp_path):
        short = written(tmp_path / "short.txt", "abc " * 8)
        train(config, short, tmp_path / "out").fails(1, "short.txt", "32", "30")

    @pytest.mark.parametrize("change,words", [
        ({"windows": [4]}, ["windows", "2 numbers"]),
        ({"vocab_size": 256}, ["vocab_size", "27", "text8", "256"]),
        ({"hidden_size": 30}, ["head_dim", "4 heads"]),
        ({"dilated_heads": 9}, ["dilated_heads", "9"]),
    ])  # fmt: skip
    def test_config_that_contradicts_itself(self, text, tmp_path, change, words):
        config = written(tmp_path / "config.json", CONFIG | change)
        train(config, text, tmp_path / "out").fails(1, "config.json", *words)

    def test_clean_up_is_for_letters(self, text, tmp_path):
        config = written(tmp_path / "config.json", CONFIG | {"alphabet": "bytes"})
        train(config, text, tmp_path / "out", "--clean-up").fails(2, "clean-up", "text8", "bytes")

    def test_weights_of_another_shape(self, text, tmp_path):
        folder = tmp_path / "model"
        shutil.copytree(MODEL, folder)
        config = json.loads((folder / "config.json").read_text()) | {"intermediate_size": 40}
        written(folder / "config.json", config)
        run("evaluate", folder, text).fails(1, "layers.0.up.weight", "[40, 24]", "[36, 24]")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_within_a_step_does_no_harm(threads, tmp_path):
    """A handler on the stack of a thread that multiplies has overwritten the heap."""
    data = tmp_path / "text"
    data.write_bytes(bytes(32 + i * 7919 % 90 for i in range(200_000)))
    for moment in (0.1, 0.3):
        out = tmp_path / f"out{moment}"
        command = [BINARY, "pretrain-lm", "--config", ROOT / "examples" / "language-models" / "small.json", data,
                   "--length", 512, "--max-steps", 2, "--per-device-train-batch-size", 1, "--output-dir", out,
                   "--save-strategy", "no", "--threads", threads]  # fmt: skip
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            process.stderr.readline()
            time.sleep(moment)
            process.send_signal(signal.SIGINT)
            said = process.stderr.read().decode()
        assert process.returncode == 130 and "stopped after step 1" in said, (process.returncode, said)
