"""Settings of OpenMP by other libraries of the process change no result, and stay as they were."""

import ctypes
import json
import os
import subprocess
import sys
import threading

import longformer_cpp
import numpy as np
import pytest
from wide_models import wide_model

TEXTS = ["the of and to in a is was he for it with as his on be"]


@pytest.fixture(scope="module")
def wide(tmp_path_factory, folder):
    root = tmp_path_factory.mktemp("wide")
    return {name: wide_model(folder(name), root / name) for name in ("tiny_bert", "tiny_longformer_classifier")}


@pytest.fixture
def openmp():
    """The settings of this thread; they are put back."""
    runtime = ctypes.CDLL("libgomp.so.1")
    names = ("dynamic", "max_active_levels", "num_threads")

    class OpenMP:
        def set(self, *values):
            for name, value in zip(names, values):
                getattr(runtime, f"omp_set_{name}")(value)

        def get(self):
            reads = ("omp_get_dynamic", "omp_get_max_active_levels", "omp_get_max_threads")
            return tuple(getattr(runtime, name)() for name in reads)

    settings = OpenMP()
    before = settings.get()
    yield settings
    settings.set(*before)


SETTINGS = [(1, 1, 2), (0, 0, 2), (0, 1, 1), (1, 0, 64)]


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("threads", [1, 2, 4, 7])
def test_settings_of_others(wide, openmp, dtype, threads):
    model = longformer_cpp.load(wide["tiny_bert"], dtype=dtype, threads=threads)
    wanted = model.encode(TEXTS)
    for settings in SETTINGS:
        openmp.set(*settings)
        np.testing.assert_allclose(model.encode(TEXTS), wanted, atol=1e-5)
        loaded = longformer_cpp.load(wide["tiny_bert"], dtype=dtype, threads=threads)
        np.testing.assert_allclose(loaded.encode(TEXTS), wanted, atol=1e-5)
        assert openmp.get() == settings


def test_several_threads_with_settings_of_their_own(wide, openmp):
    model = longformer_cpp.load(wide["tiny_bert"], threads=4)
    wanted, found = model.encode(TEXTS), []

    def work(settings):
        openmp.set(*settings)
        found.extend(model.encode(TEXTS) for _ in range(5))

    workers = [threading.Thread(target=work, args=(settings,)) for settings in SETTINGS]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 5 * len(SETTINGS)
    for vectors in found:
        np.testing.assert_allclose(vectors, wanted, atol=1e-5)


def test_a_callback_that_changes_the_settings(wide, openmp, tmp_path):
    """It runs with the settings of its process, and what it sets stays set."""
    data = tmp_path / "data.jsonl"
    rows = [{"text": TEXTS[0][i:], "label": ["bad", "good"][i % 2]} for i in range(4)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    seen = []

    def losses(settings):
        steps = []

        def tell(step):
            steps.append(step["loss"])
            seen.append(openmp.get())
            openmp.set(*settings)

        longformer_cpp.finetune(
            wide["tiny_longformer_classifier"], data, tmp_path / "out", task="classify", max_steps=3, logging_steps=1,
            gradient_accumulation_steps=1, threads=4, save_strategy="no", overwrite_output_dir=True, callback=tell
        )  # fmt: skip
        return steps

    quiet = openmp.get()
    wanted = losses(quiet)
    assert set(seen) == {quiet} and len(wanted) >= 3
    for settings in SETTINGS:
        openmp.set(*quiet)
        np.testing.assert_allclose(losses(settings), wanted, rtol=1e-4)
        assert openmp.get() == settings


def ends(program, *arguments, **environment):
    """Output of a separate Python process, which must end well and without a complaint."""
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, env={**os.environ, **environment})  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_limit_of_openmp_counts_for_the_default():
    program = "import longformer_cpp; print(longformer_cpp.machine_name())"
    assert ", 1 thread, " in ends(program, OMP_THREAD_LIMIT="1")


def test_the_variable_for_the_runtime_does_not_stay():
    program = "import os, longformer_cpp; print(sorted(name for name in os.environ if name.startswith('GOMP')))"
    assert ends(program) == "[]\n"


def test_models_of_daemon_threads_are_no_leaks(folder):
    program = (
        "import queue, sys, threading, longformer_cpp\n"
        "done = queue.Queue()\n"
        "def work():\n"
        "    model = longformer_cpp.load(sys.argv[1], threads=2)\n"
        "    done.put(len(model.encode(['the of'])))\n"
        "    threading.Event().wait()\n"
        "for _ in range(2): threading.Thread(target=work, daemon=True).start()\n"
        "print(done.get() + done.get())\n"
    )
    assert ends(program, folder("tiny_bert")) == "2\n"
