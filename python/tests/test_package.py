"""Facts of the package about itself, and its types."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import longformer_cpp
import pytest

PACKAGE = pathlib.Path(longformer_cpp.__file__).parent

USER_PROGRAM = """
import longformer_cpp
import numpy as np

model: longformer_cpp.Model = longformer_cpp.load("folder", dtype="bf16", threads=2)
out = model(np.zeros((1, 3), np.int64), attention_mask=None, output_hidden_states=True)
pooled = out.pooler_output
if pooled is not None:
    total: float = float(pooled.sum())
ids: list[int] = longformer_cpp.Tokenizer("folder").encode("text", max_length=8).ids
longformer_cpp.load(folder=3)  # wrong
longformer_cpp.Tokenizer("folder").encode(3)  # wrong
"""


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", longformer_cpp.__version__)


def test_error_is_an_exception_of_its_own():
    assert issubclass(longformer_cpp.Error, RuntimeError)
    assert longformer_cpp.Error is not RuntimeError


def test_public_names():
    for name in longformer_cpp.__all__:
        assert getattr(longformer_cpp, name) is not None
    assert not [name for name in longformer_cpp.__all__ if name.startswith("_") and name != "__version__"]


def test_native_types_are_described():
    assert (PACKAGE / "py.typed").exists()
    text = (PACKAGE / "_native.pyi").read_text()
    for name in ("class Model", "class Tokenizer", "class Encoding", "def convert", "def band_attention"):
        assert name in text


def test_types_hold(tmp_path):
    """mypy accepts the package under --strict, and finds the two mistakes of a user's program."""
    # An installed package is found by its py.typed; one in a build folder by the path.
    mypy_path = "" if PACKAGE.parent.name == "site-packages" else str(PACKAGE.parent)
    program = tmp_path / "program.py"
    program.write_text(USER_PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path)]
    result = subprocess.run(
        [*command, str(program)], capture_output=True, text=True, env={"MYPYPATH": mypy_path}
    )
    errors = [line for line in result.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 2, result.stdout
    assert all("program.py" in line for line in errors), result.stdout


def test_import_is_light(tmp_path):
    """No numpy, nor anything else that is loaded when it is used. Processor seconds count, as other tests run beside, and
    those of a package whose sources pip has compiled."""
    compiled = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    compiled.pop("PYTHONDONTWRITEBYTECODE", None)
    program = "import sys, time; begin = time.process_time(); import longformer_cpp; print(time.process_time() - begin, *sys.modules)"
    seconds = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], env=compiled, capture_output=True, text=True, check=True)
        first, *modules = done.stdout.split()
        seconds.append(float(first))
        assert not {"numpy", "pandas", "pyarrow", "matplotlib", "torch"} & set(modules)
    assert min(seconds) < 0.1, seconds


class TestInstalled:
    """`make python` and `make wheel` say in LONGFORMER_INSTALLED how the package came here."""

    @pytest.mark.skipif("LONGFORMER_INSTALLED" not in os.environ, reason="about an installed package")
    def test_the_program_is_inside(self):
        program = pathlib.Path(sysconfig.get_path("scripts")) / "longformer"
        run = lambda *arguments: subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert run("--version").stdout == f"longformer {longformer_cpp.__version__}\n"
        done = run("no-such-verb")
        assert done.returncode == 2 and done.stderr.startswith("longformer: error: "), done

    @pytest.mark.skipif(os.environ.get("LONGFORMER_INSTALLED") != "wheel", reason="about a wheel with its libraries")
    def test_every_library_has_its_license(self):
        files = [str(file) for file in importlib.metadata.files("longformer-cpp")]
        libraries = [file for file in files if file.startswith("longformer_cpp.libs/")]
        licenses = [file for file in files if "/licenses/debian/" in file]
        assert libraries and licenses
        fields = importlib.metadata.metadata("longformer-cpp").get_all("License-File")
        assert sorted(fields) == sorted(file.partition("/licenses/")[2] for file in files if "/licenses/" in file)
        for file in importlib.metadata.files("longformer-cpp"):
            if "/licenses/" in str(file):
                assert len(file.read_text()) > 200, file
