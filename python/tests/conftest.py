"""The tiny model folders of tests/fixtures, and the numbers that transformers computed for them."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures"
# Makers of models that the tests of the program use too.
sys.path.append(str(FIXTURES.parent / "apps" / "cli"))


def read_safetensors(path):
    data = path.read_bytes()
    header_size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_size])
    header.pop("__metadata__", None)
    types = {"F32": np.float32, "I32": np.int32}
    arrays = {}
    for name, entry in header.items():
        begin, end = (8 + header_size + offset for offset in entry["data_offsets"])
        arrays[name] = np.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
    return arrays


@pytest.fixture(scope="session")
def folder():
    return lambda name: FIXTURES / name


@pytest.fixture(scope="session")
def cases():
    """The cases of a folder: a list of dicts from argument or output name to array."""

    def of(name):
        arrays = read_safetensors(FIXTURES / name / "expected.safetensors")
        found = [{} for _ in {key.split(".")[0] for key in arrays}]
        for key, array in arrays.items():
            number, field = key.split(".")
            found[int(number)][field] = array
        return found

    return of


@pytest.fixture(scope="session")
def program():
    """Output of `longformer … --json`: a list of objects. Without the program the package is tested alone."""
    binary = os.environ.get("LONGFORMER_BINARY")
    if not binary:
        pytest.skip("LONGFORMER_BINARY names no program")

    def run(*arguments, stdin=""):
        done = subprocess.run([binary, *map(str, arguments)], input=stdin, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return run


@pytest.fixture(scope="session")
def led(tmp_path_factory):
    """A tiny LED with a tokenizer."""
    target = tmp_path_factory.mktemp("models") / "led"
    shutil.copytree(FIXTURES / "tiny_led", target)
    for file in ("vocab.json", "merges.txt"):
        shutil.copy(FIXTURES / "tiny_roberta" / file, target)
    return target


@pytest.fixture(autouse=True, scope="session")
def answers_to_ctrl_c():
    """A shell that runs the tests in the background may have it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
