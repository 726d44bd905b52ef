"""Settings of OpenMP that give a program fewer threads than it asks for change no result."""

import json
import os
import subprocess

import numpy as np
import pytest
from cli_test import BINARY, FIXTURES, run
from wide_models import wide_model

ONE_CORE = "one core"
SETTINGS = [
    {"OMP_DYNAMIC": "true"},
    {"OMP_THREAD_LIMIT": "1"},
    {"OMP_THREAD_LIMIT": "2"},
    {"OMP_THREAD_LIMIT": "3"},
    {"OMP_MAX_ACTIVE_LEVELS": "0"},
    {"OMP_MAX_ACTIVE_LEVELS": "1", "OMP_NUM_THREADS": "1"},
    {"OMP_MAX_ACTIVE_LEVELS": "2", "OMP_NUM_THREADS": "2,3"},
    {"OMP_NUM_THREADS": "64", "OMP_DYNAMIC": "true", "OMP_THREAD_LIMIT": "2"},
    {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"},
    {"OMP_SCHEDULE": "static", "OMP_WAIT_POLICY": "passive", ONE_CORE: "yes"},
]  # fmt: skip
THREADS = [2, 4, 7, 1]
TEXT = "the of and to in a is was he for it with as his on be"
TASKS = {
    "embed": ("tiny_bert", ["--text", TEXT, "--json"]),
    "classify": ("tiny_longformer_classifier", ["--text", TEXT, "--json"]),
    "ner": ("tiny_bert_tagger", ["--text", TEXT, "--json"]),
    "qa": ("tiny_longformer_qa", ["--text", TEXT, "--question", "is it", "--json"]),
    "generate": ("tiny_led", ["--text", TEXT, "--max-new-tokens", 6, "--num-beams", 1, "--json"]),
    "finetune": ("tiny_longformer_classifier", None),
}  # fmt: skip


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("wide")
    tokenizers = {"tiny_led": FIXTURES / "tiny_roberta"}
    names = {name for name, _ in TASKS.values()}
    return {name: wide_model(FIXTURES / name, root / name, tokenizers.get(name)) for name in names}


def learned(model, flags, environment, folder):
    """The norms of the gradients and the losses of two steps."""
    data = folder / "data.jsonl"
    rows = [{"text": " ".join([TEXT] * 2)[i:], "label": ["bad", "good"][i % 2]} for i in range(4)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = folder / "out"
    done = run("finetune", model, data, "--task", "classify", "--max-steps", 2, "--logging-steps", 1,
               "--per-device-train-batch-size", 4, "--gradient-accumulation-steps", 1, "--save-strategy", "no",
               "--output-dir", output, "--overwrite-output-dir", "--quiet", *flags, environment=environment)
    assert done.code == 0, done.err
    log = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    return [[row["grad_norm"], row["loss"]] for row in log if "grad_norm" in row]


def found(verb, model, flags, environment, folder):
    """Results of a verb, once as numbers and once as words."""
    environment = dict(environment)
    affinity = os.sched_getaffinity(0)
    if environment.pop(ONE_CORE, None):
        os.sched_setaffinity(0, {min(affinity)})
    try:
        if verb == "finetune":
            return parts(learned(model, flags, environment, folder))
        done = run(verb, model, *TASKS[verb][1], *flags, environment=environment)
    finally:
        os.sched_setaffinity(0, affinity)
    assert done.code == 0, done.err
    return parts([{key: value for key, value in row.items() if "seconds" not in key} for row in done.json])


def parts(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        both = [parts(item) for item in value]
        return [n for numbers, _ in both for n in numbers], [w for _, words in both for w in words]
    return ([], [value]) if isinstance(value, str) else ([float(value)], [])


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("verb", TASKS)
def test_the_threads_that_come_compute_the_same(models, tmp_path, verb, dtype):
    model = models[TASKS[verb][0]]
    tolerance = {"fp32": 1e-4, "bf16": 0.03}[dtype]
    wanted = found(verb, model, ["--dtype", dtype, "--threads", 4], {}, tmp_path)
    assert len(wanted[0]) > 0 and np.isfinite(wanted[0]).all()
    for number, environment in enumerate(SETTINGS):
        threads = THREADS[number % 4] if number % 2 else 4
        numbers, words = found(verb, model, ["--dtype", dtype, "--threads", threads], environment, tmp_path)
        assert dtype == "bf16" or words == wanted[1], (environment, threads)
        if words == wanted[1]:
            np.testing.assert_allclose(numbers, wanted[0], tolerance, tolerance, err_msg=f"{environment} {threads}")


@pytest.mark.parametrize("setting", ["OMP_STACKSIZE", "ulimit"])
def test_small_stacks_are_an_error_or_enough(models, setting):
    """Never a crash: a thread needs room for the numbers of one tile."""
    model = models["tiny_longformer_classifier"]
    flags = ["classify", model, "--text", TEXT, "--threads", 4]
    wanted = run(*flags).works().out
    # Less than 64 KB leaves the loader of programs no room.
    for kilobytes in (64, 128, 200, 256, 1024):
        if setting == "ulimit":
            command = ["sh", "-c", f'ulimit -s {kilobytes} && exec "$0" "$@"', BINARY, *map(str, flags)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            done = run(*flags, environment={"OMP_STACKSIZE": f"{kilobytes}K"})
            code, out, err = done.code, done.out, done.err
        assert (code, out) == (0, wanted) or (code == 1 and "stack: expected at least " in err), (kilobytes, code, err)
        assert kilobytes < 1024 or code == 0
