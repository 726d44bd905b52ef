"""Training as its users meet it: killed, stopped, out of disk, resumed; what it says and writes.

Runs toy_trainer, which trains a network of two layers through the loop, flags and messages of the
program.
"""

import fcntl
import json
import os
import pathlib
import pty
import random
import re
import resource
import signal
import struct
import subprocess
import termios
import time

import pytest
from terminal import read_to_the_end

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer")))
TRAINER = BINARY.parent / "tests" / "toy_trainer"
# Keys that depend on the clock.
TIMES = ("tokens_per_second", "fraction_of_bound", "eval_runtime", "train_runtime")


def command(output, *arguments):
    return [str(TRAINER), "--output-dir", str(output), *map(str, arguments)]


def train(output, *arguments, limit=None):
    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(command(output, *arguments), capture_output=True, text=True, timeout=120, check=False,
                          preexec_fn=limit_files if limit else None)  # fmt: skip


def fails(done, code, *words):
    """One error line with the words."""
    assert done.returncode == code, done
    errors = [line for line in done.stderr.splitlines() if line.startswith("longformer: error: ")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0], (word, errors[0])


def log(output):
    lines = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def model(output):
    return (output / "model.safetensors").read_bytes()


def checkpoints(output):
    return sorted(int(path.name.split("-")[1]) for path in output.glob("checkpoint-*"))


def wait_for_step(process, step):
    """Reads stderr up to the line of a step, and stays a moment within the next ones."""
    for line in process.stderr:
        if line.startswith(f"step {step}/"):
            return
    raise AssertionError(f"step {step} never came")


@pytest.mark.parametrize("options", [["--optim", "adamw"], ["--optim", "adafactor", "--gradient-checkpointing"]])
def test_killed_ten_times_at_random_moments(tmp_path, options):
    """The bits and the log of a training that nothing has disturbed."""
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    arguments = ["--max-steps", 160, "--save-steps", 2, "--save-total-limit", 2, "--eval-strategy",
                 "epoch", "--learning-rate", 0.01, "--warmup-ratio", 0.1, "--gradient-accumulation-steps", 2,
                 "--load-best-model-at-end", *options]  # fmt: skip
    whole = tmp_path / "whole"
    assert train(whole, *arguments).returncode == 0
    killed = tmp_path / "killed"
    resumed_from = []
    for _ in range(10):
        with subprocess.Popen(command(killed, *arguments, "--pause", 8, "--resume-from-checkpoint", "last"),
                              stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:  # fmt: skip
            process.stderr.readline()
            time.sleep(moments.uniform(0, 0.2))
            process.kill()
        assert process.returncode == -signal.SIGKILL, f"seed {seed}: it ended before it was killed"
        for folder in killed.glob("checkpoint-*"):
            # A folder with the name of a checkpoint is whole.
            if ".tmp" not in folder.name:
                json.loads((folder / "trainer_state.json").read_text())
                assert (folder / "optimizer.safetensors").stat().st_size > 100, f"seed {seed}"
        resumed_from.append(max(steps_of_whole(killed), default=0))
    assert len(set(resumed_from)) >= 4, f"seed {seed}: {resumed_from}"
    done = train(killed, *arguments, "--resume-from-checkpoint", "last")
    assert done.returncode == 0, done.stderr
    assert model(killed) == model(whole), f"seed {seed}"
    assert log(killed) == log(whole), f"seed {seed}"
    assert checkpoints(killed) == checkpoints(whole)
    assert not list(killed.glob("*.tmp*"))


def steps_of_whole(output):
    return [int(path.name.split("-")[1]) for path in output.glob("checkpoint-*") if ".tmp" not in path.name]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_writes_a_checkpoint_and_ends(tmp_path, name):
    number = getattr(signal, name)
    arguments = ["--max-steps", 600, "--save-steps", 1000]
    whole = tmp_path / "whole"
    assert train(whole, *arguments).returncode == 0
    output = tmp_path / "stopped"
    with subprocess.Popen(command(output, *arguments, "--pause", 10), stderr=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, preexec_fn=usual_signals) as process:  # fmt: skip
        wait_for_step(process, 10)
        process.send_signal(number)
        result, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    (step,) = checkpoints(output)
    assert 10 <= step < 600
    assert f"stopped after step {step}" in errors and "--resume-from-checkpoint last" in errors
    assert f"checkpoint-{step}" in result
    assert not (output / "model.safetensors").exists() and not list(output.glob("*.tmp*"))
    done = train(output, *arguments, "--resume-from-checkpoint", "last")
    assert done.returncode == 0 and f"after {step}" in done.stderr
    assert model(output) == model(whole) and log(output) == log(whole)


def usual_signals():
    """Restores signals that are ignored around the tests, in the background or under nohup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def test_a_signal_that_comes_twice_is_one(tmp_path):
    """`timeout` sends its signal to the process and then to its group."""
    output = tmp_path / "stopped"
    with subprocess.Popen(command(output, "--max-steps", 600, "--pause", 150), stderr=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:  # fmt: skip
        wait_for_step(process, 5)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.04)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert len(checkpoints(output)) == 1


def test_timeout_leaves_a_checkpoint(tmp_path):
    output = tmp_path / "out"
    done = subprocess.run(["timeout", "1.5", *command(output, "--max-steps", 6000, "--pause", 10, "--save-steps", 6000)],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 124 and len(checkpoints(output)) == 1, done.stderr


def test_nohup(tmp_path):
    """A training that shall outlive its terminal does."""
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    with subprocess.Popen(command(tmp_path / "out", "--max-steps", 40, "--pause", 20), stderr=subprocess.PIPE,
                          text=True, preexec_fn=ignore) as process:  # fmt: skip
        wait_for_step(process, 5)
        process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_a_terminal_that_is_closed(tmp_path):
    """Nobody can read what the training tells; its checkpoint is written all the same."""
    terminal, ours = pty.openpty()

    def take_terminal():
        usual_signals()
        fcntl.ioctl(ours, termios.TIOCSCTTY, 0)

    output = tmp_path / "out"
    process = subprocess.Popen(command(output, "--max-steps", 600, "--pause", 20, "--save-steps", 601), stdin=ours, stdout=ours, stderr=ours,
                               start_new_session=True, preexec_fn=take_terminal)  # fmt: skip
    os.close(ours)
    time.sleep(1)
    os.close(terminal)
    process.wait(timeout=60)
    assert len(checkpoints(output)) == 1 and not (output / "model.safetensors").exists()


def test_two_trainings_in_one_folder(tmp_path):
    output = tmp_path / "out"
    arguments = ["--max-steps", 60, "--save-steps", 5]
    with subprocess.Popen(command(output, *arguments, "--pause", 100), stderr=subprocess.PIPE, text=True) as first:
        wait_for_step(first, 5)
        for flags in ([], ["--overwrite-output-dir"], ["--resume-from-checkpoint", "last"]):
            fails(train(output, *arguments, *flags), 1, "output_dir", str(output), f"process {first.pid}")
        # Its line comes before the checkpoint has its name.
        deadline = time.monotonic() + 60
        while 5 not in steps_of_whole(output) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert 5 in steps_of_whole(output)
        first.kill()
    done = train(output, *arguments, "--resume-from-checkpoint", "last")
    assert done.returncode == 0, done.stderr
    assert checkpoints(output)[-1] == 60 and not (output / ".lock").exists()


def test_a_finished_training_has_nothing_left_to_do(tmp_path):
    output = tmp_path / "out"
    assert train(output, "--max-steps", 8).returncode == 0
    before = model(output)
    arguments = ["--max-steps", 8, "--resume-from-checkpoint", "last"]
    done = train(output, *arguments)
    assert done.returncode == 0 and "loss" not in done.stdout, done
    assert done.stdout == f"nothing was left to do after 8 steps; the model is in {output}\n"
    assert json.loads(train(output, *arguments, "--json").stdout)["loss"] is None
    assert model(output) == before


def test_a_warm_up_that_never_ends(tmp_path):
    done = train(tmp_path / "out", "--max-steps", 4, "--warmup-steps", 10)
    assert "longformer: note: the warm-up of 10 steps is longer than the training of 4" in done.stderr


def test_a_second_signal_ends_at_once(tmp_path):
    with subprocess.Popen(command(tmp_path / "out", "--max-steps", 30, "--pause", 3000),
                          stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
        process.stderr.readline()
        time.sleep(0.2)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(1.2)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
    assert process.returncode == -signal.SIGINT and time.monotonic() - start < 2.5


def test_a_loss_that_is_not_a_number(tmp_path):
    done = train(tmp_path / "out", "--max-steps", 30, "--bad-step", 12)
    fails(done, 1, "step 12", "finite loss", "nan", "last good checkpoint", "checkpoint-7")
    assert checkpoints(tmp_path / "out") == [7]
    fails(train(tmp_path / "early", "--max-steps", 30, "--bad-step", 3), 1, "no checkpoint yet")


def test_a_full_disk(tmp_path):
    """Files of more than 1,700 bytes cannot be written: that of the moments."""
    output = tmp_path / "out"
    assert train(output, "--max-steps", 14).returncode == 0
    done = train(output, "--max-steps", 28, "--resume-from-checkpoint", "last", limit=1700)
    fails(done, 1, "could not be written", "last good one", "checkpoint-14", os.strerror(27))
    assert checkpoints(output) == [7, 14] and not list(output.glob("*.tmp*"))
    done = train(output, "--max-steps", 28, "--resume-from-checkpoint", "last")
    assert done.returncode == 0 and "max_steps is 28, the checkpoint was written with 14" in done.stderr


def test_the_plan_and_progress(tmp_path):
    done = train(tmp_path / "out", "--max-steps", 12, "--gradient-accumulation-steps", 2, "--json")
    lines = done.stderr.splitlines()
    assert lines[0] == "384 trained parameters; 12 steps of 16 tokens"
    plan = re.fullmatch(r"memory about ([0-9.]+) MB: weights 1.5 kB, gradients 1.5 kB, optimizer 3.1 kB, activations "
                        r"123.5 MB, data and program ([0-9.]+) MB; disk about 10.8 kB of [0-9.]+ [kMGT]?B free; "
                        r"time about 0 s", lines[1])  # fmt: skip
    assert plan and float(plan[1]) == pytest.approx(123.5 + float(plan[2]), abs=0.11)
    assert [line.split(",")[0] for line in lines[2:5]] == ["step 5/12", "step 10/12", "step 12/12"]
    # The table of epochs: 23 micro-batches are twelve steps.
    assert lines[5].split() == ["epoch", "step", "loss", "seconds"]
    assert [line.split()[:2] for line in lines[6:]] == [["1.00", "12"]]
    for word in ("epoch 0.43", "loss ", "learning rate 3.33e-05", " tokens/s", " of the bound", " s left"):
        assert word in lines[2], lines[2]
    result = json.loads(done.stdout)
    assert result["steps"] == 12 and not result["interrupted"] and result["best_metric"] is None
    assert result["last_checkpoint"] == str(tmp_path / "out" / "checkpoint-12")


def test_progress_on_a_terminal(tmp_path):
    terminal, stderr = pty.openpty()
    process = subprocess.run(command(tmp_path / "out", "--max-steps", 6, "--pause", 100, "--eval-strategy", "steps",
                                     "--eval-steps", 4), stderr=stderr, stdout=subprocess.DEVNULL, check=True)  # fmt: skip
    os.close(stderr)
    assert process.returncode == 0
    text = read_to_the_end(terminal)
    assert "\x1b[Kstep 1/6" in text and "\r\x1b[Kstep 3/6" in text and "\x1b[Kstep 6/6" in text
    assert "evaluation after step 4: loss " in text


@pytest.mark.parametrize("columns", [None, 30, 60, 120])
def test_progress_fits_into_the_terminal(tmp_path, columns):
    terminal, stderr = pty.openpty()
    if columns:
        fcntl.ioctl(stderr, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    subprocess.run(command(tmp_path / "out", "--max-steps", 40, "--pause", 20), stderr=stderr, stdout=subprocess.DEVNULL,
                   check=True)  # fmt: skip
    os.close(stderr)
    text = read_to_the_end(terminal)
    shown = [line for line in re.split(r"[\r\n]+", text.replace("\x1b[K", "")) if line.startswith("step ")]
    assert shown and max(map(len, shown)) < (columns or 80), shown
    last = shown[-1]
    assert last.startswith("step 40/40") and "loss " in last
    assert (" left" in last) == (columns != 30) and ("of the bound" in last) == (columns == 120)


def test_options(tmp_path):
    output = tmp_path / "out"
    values = {
        "per_device_train_batch_size": 3, "gradient_accumulation_steps": 2,
        "num_train_epochs": 1.5, "max_steps": 4, "optim": "adafactor", "learning_rate": 1e-3, "weight_decay": 0.02,
        "adam_beta1": 0.8, "adam_beta2": 0.95, "adam_epsilon": 1e-6, "max_grad_norm": 0.25,
        "lr_scheduler_type": "polynomial", "warmup_steps": 2, "warmup_ratio": 0.3, "lr_power": 2.5, "lr_end": 1e-7,
        "logging_steps": 3, "eval_strategy": "steps", "eval_steps": 2, "save_strategy": "epoch", "save_steps": 11,
        "save_total_limit": 4, "metric_for_best_model": "eval_loss", "greater_is_better": False,
        "early_stopping_patience": 9, "early_stopping_threshold": 0.5, "seed": 2**64 - 1, "dtype": "bf16",
        "label_smoothing_factor": 0.1, "threads": 1,
    }  # fmt: skip
    flags = ["adafactor_relative_step", "load_best_model_at_end", "gradient_checkpointing", "overwrite_output_dir"]  # fmt: skip
    arguments = []
    for key, value in values.items():
        arguments += ["--" + key.replace("_", "-"), json.dumps(value).strip('"')]
    done = train(output, *arguments, *["--" + flag.replace("_", "-") for flag in flags])
    assert done.returncode == 0, done.stderr
    written = json.loads((output / "training_args.json").read_text())
    expected = {**values, **dict.fromkeys(flags, True), "output_dir": str(output), "resume_from_checkpoint": "",
                "group_by_length": False, "lora_rank": 0, "lora_alpha": 0, "lora_target": "", "lora_dropout": 0,
                "adapter": "", "adagrad_clip": 0}  # fmt: skip
    assert written == expected
    assert json.loads((output / "checkpoint-4" / "training_args.json").read_text()) == expected


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--learning-rate", "-1"], ["--learning-rate", "at least 0", "-1"]),
        (["--learning-rate", "fast"], ["--learning-rate", "'fast'"]),
        (["--warmup-ratio", "1.5"], ["--warmup-ratio", "from 0 to 1"]),
        (["--adam-beta1", "1"], ["--adam-beta1", "below 1"]),
        (["--optim", "sgd"], ["--optim", "adamw", "'sgd'"]),
        (["--save-steps", "0"], ["--save-steps", "whole number"]),
        (["--early-stopping-patience", "2"], ["--eval-strategy", "early"]),
        (["--greater-is-better", "maybe"], ["--greater-is-better"]),
    ],
)
def test_wrong_options(tmp_path, arguments, words):
    fails(train(tmp_path / "out", *arguments), 2, *words)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_taken(tmp_path):
    output = tmp_path / "out"
    assert train(output, "--max-steps", 8).returncode == 0
    fails(train(output, "--max-steps", 8), 1, "former training")
    assert train(output, "--max-steps", 4, "--overwrite-output-dir").returncode == 0
    assert checkpoints(output) == [4] and len(list((output / "runs").iterdir())) == 1
    (tmp_path / "file").write_text("")
    fails(train(tmp_path / "file", "--max-steps", 8), 1, "output_dir", "file")


def crc32c(data):
    """Bit by bit, as the polynomial says."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def masked(data):
    value = crc32c(data)
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(field, value) of a protocol buffer message."""
    position = 0

    def varint():
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value = data[position : position + size]
            position += size
        yield key >> 3, value


def events(path):
    """Events of a file as dictionaries by field number; every checksum is checked."""
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        message = data[12 : 12 + length]
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        assert struct.unpack("<I", data[12 + length : 16 + length])[0] == masked(message)
        yield dict(fields(message))
        data = data[16 + length :]


def scalars(event):
    values = {}
    for _, value in fields(event[5]):
        one = dict(fields(value))
        values[one[1].decode()] = struct.unpack("<f", one[2])[0]
    return values


def test_event_files(tmp_path):
    output = tmp_path / "out"
    assert crc32c(b"123456789") == 0xE3069283
    arguments = ["--max-steps", 10, "--eval-strategy", "epoch", "--gradient-accumulation-steps", 4]
    before = time.time()
    assert train(output, *arguments).returncode == 0
    (path,) = (output / "runs").iterdir()
    first, *rest = events(path)
    assert path.name.startswith("events.out.tfevents.") and first[3] == b"brain.Event:2"
    lines = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    assert [event[2] for event in rest] == [line["step"] for line in lines] == [5, 6, 10, 10]
    for event, line in zip(rest, lines, strict=True):
        assert before - 1 <= struct.unpack("<d", event[1])[0] <= time.time() + 1
        values = scalars(event)
        expected = {("eval/" + key[5:] if key.startswith("eval_") else "train/" + key): value
                    for key, value in line.items() if key != "step"}  # fmt: skip
        assert values == pytest.approx(expected, rel=1e-6)
    # Resumed, a second file says from where.
    time.sleep(1.1)
    arguments[1] = 20
    assert train(output, *arguments, "--resume-from-checkpoint", output / "checkpoint-7").returncode == 0
    _, second = sorted((output / "runs").iterdir())
    version, session, *rest = events(second)
    assert version[3] == b"brain.Event:2"
    assert session[2] == 7 and dict(fields(session[7])) == {1: 1}
    assert [event[2] for event in rest] == [10, 12, 15, 18, 20, 20]
    assert [line["step"] for line in log(output)] == [5, 6, 10, 12, 15, 18, 20, 20]
