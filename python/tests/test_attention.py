"""band_attention against a plain double-precision one."""

import threading
import time

import numpy as np
import pytest

import longformer_cpp

TOLERANCE = 1e-5


def dense(q, k, v, window, dilation=1, causal=False, global_positions=()):
    """Softmax over a full matrix of visible pairs."""
    heads, n, size = q.shape
    dilations = np.broadcast_to(dilation, heads)
    distance = np.arange(n)[None, :] - np.arange(n)[:, None]
    reach = window if causal else window // 2
    is_global = np.isin(np.arange(n), list(global_positions))
    result = np.empty(q.shape)
    for head in range(heads):
        step = dilations[head]
        visible = (distance % step == 0) & (np.abs(distance) <= reach * step)
        visible |= is_global[:, None] | is_global[None, :]
        if causal:
            visible &= distance <= 0
        scores = q[head].astype(np.float64) @ k[head].T / np.sqrt(size)
        scores = np.where(visible, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        result[head] = weights / weights.sum(axis=1, keepdims=True) @ v[head]
    return result


def inputs(heads=3, n=37, size=8, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((heads, n, size)).astype(np.float32) for _ in range(3)]


PATTERNS = {
    "window": dict(window=6),
    "wider than the text": dict(window=200),
    "causal": dict(window=5, causal=True),
    "dilated": dict(window=6, dilation=3),
    "dilation per head": dict(window=4, dilation=[1, 2, 5]),
    "dilation per head, array": dict(window=4, dilation=np.array([1, 2, 5])),
    "globals": dict(window=4, global_positions=[0, 17, 36]),
    "globals, array": dict(window=4, global_positions=np.array([3, 4])),
    "all": dict(window=4, dilation=2, causal=True, global_positions=(1, 20)),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern):
    q, k, v = inputs()
    found = longformer_cpp.band_attention(q, k, v, **PATTERNS[pattern])
    assert found.dtype == np.float32
    assert found.shape == q.shape
    assert np.abs(found - dense(q, k, v, **PATTERNS[pattern])).max() <= TOLERANCE


@pytest.mark.parametrize("backend", ["fused", "loop", "chunks", "full"])
def test_backends(backend):
    q, k, v = inputs(n=64)
    found = longformer_cpp.band_attention(q, k, v, 16, backend=backend)
    assert np.abs(found - dense(q, k, v, 16)).max() <= TOLERANCE


def test_memory_of_the_caller():
    q, k, v = inputs()
    out = np.full_like(q, np.nan)
    expected = longformer_cpp.band_attention(q, k, v, 6, global_positions=[3])
    assert longformer_cpp.band_attention(q, k, v, 6, global_positions=[3], out=out) is out
    np.testing.assert_array_equal(out, expected)
    whole = np.zeros((5, *q.shape), np.float32)
    longformer_cpp.band_attention(q, k, v, 6, global_positions=[3], out=whole[2])
    np.testing.assert_array_equal(whole[2], expected)
    assert not whole[[0, 1, 3, 4]].any()
    locked = np.empty_like(q)
    locked.flags.writeable = False
    for wrong in (out[:, 1:], out.astype(np.float64), out.transpose(1, 0, 2), locked, out.tolist(), "out"):
        with pytest.raises(longformer_cpp.Error, match=r"out: expected a contiguous array of float32 \[3, 37, 8\]"):
            longformer_cpp.band_attention(q, k, v, 6, out=wrong)
    with pytest.raises(longformer_cpp.Error, match="out: expected memory of its own"):
        longformer_cpp.band_attention(q, k, v, 6, out=k)


def has_opencl():
    try:
        longformer_cpp.band_attention(*inputs(n=4), 2, backend="opencl")
    except longformer_cpp.Error as error:
        return "not installed" not in str(error) and "no platform" not in str(error)
    return True


@pytest.mark.parametrize("pattern", PATTERNS)
def test_opencl(pattern):
    if not has_opencl():
        pytest.skip("no device of OpenCL (tools/packages.sh opencl)")
    q, k, v = inputs()
    found = longformer_cpp.band_attention(q, k, v, **PATTERNS[pattern], backend="opencl")
    assert np.abs(found - dense(q, k, v, **PATTERNS[pattern])).max() <= TOLERANCE


def test_arrays_with_strides_and_other_types():
    q, k, v = inputs()
    expected = longformer_cpp.band_attention(q, k, v, 6)
    token_major = [np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2) for x in (q, k, v)]
    assert not token_major[0].flags.c_contiguous
    np.testing.assert_array_equal(longformer_cpp.band_attention(*token_major, 6), expected)
    doubles = [x.astype(np.float64) for x in (q, k, v)]
    np.testing.assert_array_equal(longformer_cpp.band_attention(*doubles, 6), expected)


WRONG = {
    "odd window": (dict(window=5), "window"),
    "negative window": (dict(window=-2), "window"),
    "two dilations for three heads": (dict(window=4, dilation=[1, 2]), "dilation"),
    "dilation 0": (dict(window=4, dilation=0), "dilation"),
    "global out of range": (dict(window=4, global_positions=[37]), "37"),
    "unknown backend": (dict(window=4, backend="magic"), "magic"),
    "chunks cannot dilate": (dict(window=4, dilation=2, backend="chunks"), "chunks"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_patterns(what):
    arguments, words = WRONG[what]
    with pytest.raises(longformer_cpp.Error, match=words):
        longformer_cpp.band_attention(*inputs(), **arguments)


def test_wrong_arrays():
    q, k, v = inputs()
    with pytest.raises(longformer_cpp.Error, match=r"q: expected \[heads, n, head_size\], found \[37, 8\]"):
        longformer_cpp.band_attention(q[0], k, v, 4)
    with pytest.raises(longformer_cpp.Error, match=r"v: expected \[3, 37, 8\] as q, found \[3, 36, 8\]"):
        longformer_cpp.band_attention(q, k, v[:, 1:], 4)
    with pytest.raises(longformer_cpp.Error, match="float32, found int64"):
        longformer_cpp.band_attention(q.astype(np.int64), k, v, 4)


def test_the_gil_is_released():
    """While one thread computes, this one keeps running: it could not tick once with the GIL held."""
    q, k, v = inputs(heads=4, n=2048, size=32)
    took = []

    def work():
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.5:
            longformer_cpp.band_attention(q, k, v, 2048, backend="full")
            took.append(time.perf_counter() - begin)

    worker = threading.Thread(target=work)
    ticks = []
    worker.start()
    while worker.is_alive():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    longest_call = max(np.diff([0.0, *took]))
    assert longest_call > 0.02, "the calls are too short to show anything"
    # Machines stall; half of the longest call is far from what a held GIL would give.
    assert len(ticks) > 20
    assert np.median(np.diff(ticks)) < longest_call / 2
