"""Models in forked processes, and how many threads they may have."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
import warnings

import longformer_cpp
import numpy as np
import pytest
from longformer_cpp import Error

NAME = "tiny_longformer_classifier"
#: Several blocks of rows, so that there is work for several threads.
IDS = [np.arange(600, dtype=np.int32) % 40 + 5, np.arange(40, dtype=np.int32) + 5]
SECONDS = 60


def states(model):
    return [model([ids[:count]]).last_hidden_state[0] for ids, count in zip(IDS, (model_tokens(model), 40))]


def model_tokens(model):
    return min(600, model._native.max_tokens)


def in_fork(work):
    """Checks that `work` returns true in a forked process; a process that hangs is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 2
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the forked process hangs")


def same(model, expected):
    return all(np.array_equal(a, b) for a, b in zip(states(model), expected))


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_model_works_after_a_fork(folder, dtype):
    model = longformer_cpp.load(folder(NAME), dtype=dtype, threads=3)
    expected = states(model)
    assert in_fork(lambda: same(model, expected))
    # A process that a fork made forks too, and the first one goes on.
    assert in_fork(lambda: in_fork(lambda: same(model, expected)))
    assert same(model, expected)


def test_a_fork_loads_a_model_of_its_own(folder):
    expected = states(longformer_cpp.load(folder(NAME), threads=2))
    assert in_fork(lambda: same(longformer_cpp.load(folder(NAME), threads=2), expected))


def test_a_thread_of_a_fork(folder):
    model = longformer_cpp.load(folder(NAME), threads=2)
    expected = states(model)

    def on_a_thread():
        found = []
        worker = threading.Thread(target=lambda: found.append(same(model, expected)))
        worker.start()
        worker.join()
        return found == [True]

    assert in_fork(on_a_thread)


def test_everything_else_works_after_a_fork(folder, cases):
    """Gradients, masked-LM logits, attention alone."""
    model = longformer_cpp.load(folder("tiny_longformer_mlm"), threads=2)
    q = np.random.default_rng(1).standard_normal((2, 300, 8)).astype(np.float32)
    labels = [np.arange(40, dtype=np.int32)]

    def work():
        ids = [IDS[1] % 40]
        loss, gradients = longformer_cpp.loss_and_gradients(model, ids, labels)
        parts = [model(ids).logits[0], longformer_cpp.band_attention(q, q, q, 16)]
        return [np.float64(loss), *parts, *(gradients[name] for name in sorted(gradients))]

    expected = work()
    assert in_fork(lambda: all(np.allclose(a, b, atol=1e-6) for a, b in zip(work(), expected)))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_pool_of_processes(folder):
    model = longformer_cpp.load(folder(NAME), threads=2)
    expected = states(model)
    with multiprocessing.get_context("fork").Pool(2, initializer=share, initargs=(model, expected)) as pool:
        assert pool.map_async(shared_is_same, range(4)).get(timeout=SECONDS) == [True] * 4


SHARED = []


def share(*values):
    SHARED[:] = values


def shared_is_same(_number):
    return same(*SHARED)


@pytest.mark.parametrize("threads", [-1, 1025, 100000, 2**31 - 1])
def test_numbers_of_threads_that_nobody_means(folder, threads):
    program = (
        "import sys, longformer_cpp\n"
        "try:\n"
        "    longformer_cpp.load(sys.argv[1], threads=int(sys.argv[2]))\n"
        "except longformer_cpp.Error as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder(NAME)), str(threads)], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout.startswith("threads: expected 0 (as many as there are) to 1024, found " + str(threads))


def test_many_threads(folder):
    expected = states(longformer_cpp.load(folder(NAME), threads=1))
    assert same(longformer_cpp.load(folder(NAME), threads=64), expected)


def test_gradients_check_the_threads_too(folder):
    model = longformer_cpp.load(folder("tiny_longformer_mlm"), threads=1)
    with pytest.raises(Error, match="expected 0 .* to 1024, found 5000"):
        longformer_cpp._native.GradientModel(str(folder("tiny_longformer_mlm")), {"threads": 5000})
    assert model.head == "masked-lm"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_fork_during_calls_of_other_threads(folder, dtype):
    model = longformer_cpp.load(folder(NAME), dtype=dtype, threads=2)
    expected = states(model)
    ended = threading.Event()

    def work(count):
        while not ended.is_set():
            model([ids[:count] for ids in IDS])

    callers = [threading.Thread(target=work, args=(count,)) for count in (3, model_tokens(model), 20)]
    for caller in callers:
        caller.start()
    try:
        for number in range(20):
            time.sleep(0.003 * (number % 7))
            assert in_fork(lambda: same(model, expected))
        # The former process goes on, too.
        assert same(model, expected)
    finally:
        ended.set()
        for caller in callers:
            caller.join()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_while_threads_load_tokenize_and_embed(folder):
    embedder = longformer_cpp.Embedder(folder("sentence_dense"))
    texts = ["the of and", "he was " * 3]
    expected = embedder.encode(texts)
    ended = threading.Event()

    def work():
        while not ended.is_set():
            longformer_cpp.Embedder(folder("sentence_dense")).encode(texts)

    callers = [threading.Thread(target=work) for _ in range(2)]
    for caller in callers:
        caller.start()

    def is_same():
        loaded = longformer_cpp.Embedder(folder("sentence_dense"))
        return all(np.allclose(one.encode(texts), expected, atol=1e-6) for one in (embedder, loaded))

    try:
        for _ in range(10):
            time.sleep(0.005)
            assert in_fork(is_same)
    finally:
        ended.set()
        for caller in callers:
            caller.join()


def test_a_short_call_does_not_wait_for_a_long_one(folder):
    embedder = longformer_cpp.Embedder(folder("sentence_dense"), threads=1)
    book = ["he was with the of and " * 40] * 3000
    embedder.encode(["the of"])
    ends = {}

    def embed_book():
        embedder.encode(book, truncate=True)
        ends["book"] = time.monotonic()

    caller = threading.Thread(target=embed_book)
    caller.start()
    time.sleep(0.05)
    for _ in range(5):
        embedder.encode(["the of"])
    ends["short"] = time.monotonic()
    caller.join()
    assert ends["short"] < ends["book"]
