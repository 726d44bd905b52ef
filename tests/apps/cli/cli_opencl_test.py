"""The backend opencl of `longformer bench attention`: faults of drivers, and the cache of programs.

The faults come from build/tests/libfake_opencl.so; the cache needs a device, such as Debian's pocl-opencl-icd.
"""

import pathlib

import pytest
from cli_test import BINARY, run

FAKE = pathlib.Path(BINARY).resolve().parent / "tests" / "libfake_opencl.so"
BENCH = ["bench", "attention", "-n", 64, "--heads", 2, "--head-size", 16, "--window", 16, "-r", 1, "--json"]


def bench(*flags):
    return run(*BENCH, "--backend", "opencl", *flags)


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.setenv("LONGFORMER_OPENCL_LIBRARY", str(FAKE))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("fake")
class TestFaults:
    @pytest.mark.parametrize("fault, words", [
        ("no-platform", "expected a device, found no platform"),
        ("no-local-memory", "fake device: expected a device with local memory"),
        ("memory", "fake device: out of memory"),
    ])
    def test_one_line(self, monkeypatch, fault, words):
        monkeypatch.setenv("FAKE_OPENCL", fault)
        result = bench()
        assert result.code == 1 and result.json == []
        assert len(result.err.splitlines()) == 1 and words in result.err

    def test_compiler_that_refuses_has_its_first_line_and_the_log(self, monkeypatch, tmp_path):
        monkeypatch.setenv("FAKE_OPENCL", "compile")
        result = bench()
        log = next(tmp_path.glob("longformer/opencl/*.log"))
        assert result.code == 1 and len(result.err.splitlines()) == 1
        assert f"attention.cl:7: error: no such word (log: {log})" in result.err
        assert "attention.cl:9: more" in log.read_text()

    def test_wrong_numbers_are_not_timed(self):
        result = bench()
        assert result.code == 1 and "expected opencl attention within" in result.err

    def test_wrong_device(self, monkeypatch):
        monkeypatch.setenv("LONGFORMER_OPENCL_DEVICE", "7")
        assert 'LONGFORMER_OPENCL_DEVICE: expected 0 to 0, found "7"' in bench().err

    def test_missing_library_names_the_packages(self, monkeypatch, tmp_path):
        monkeypatch.setenv("LONGFORMER_OPENCL_LIBRARY", str(tmp_path / "none.so"))
        result = bench()
        assert result.code == 1 and len(result.err.splitlines()) == 1
        assert "ocl-icd-libopencl1" in result.err and "pocl-opencl-icd" in result.err

    def test_other_backends_need_none(self, monkeypatch, tmp_path):
        monkeypatch.setenv("LONGFORMER_OPENCL_LIBRARY", str(tmp_path / "none.so"))
        result = run(*BENCH, "--backend", "loop,opencl")
        assert result.code == 1 and [row["backend"] for row in result.json] == ["loop"]


class TestDevice:
    @pytest.fixture(autouse=True)
    def device(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        result = bench()
        if "not installed" in result.err or "no platform" in result.err:
            pytest.skip("no device of OpenCL (tools/packages.sh opencl)")

    def test_both_passes(self):
        rows = bench("--pass", "forward,backward", "--global", 2, "--causal").works().json
        assert [row["pass"] for row in rows] == ["forward", "backward"]

    def test_damaged_programs_are_compiled_again(self, tmp_path):
        program = next(tmp_path.glob("longformer/opencl/*.bin"))
        good = program.read_bytes()
        for bad in (b"", b"x", good[:100], good[:-1], good[:-1] + bytes([good[-1] ^ 1])):
            program.write_bytes(bad)
            bench().works()
            assert len(program.read_bytes()) > 1000 and program.read_bytes() != bad
        assert [path.suffix for path in program.parent.iterdir()] == [".bin"]

    def test_cache_that_cannot_be_written(self, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        # PoCL finds no device when it cannot write its own cache.
        monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
        bench().works()
