"""`longformer bench`: rows of every form, lists that are wrong, and the report of a machine."""

import json
import pathlib
import re

import pytest
from cli_test import BERT, FIXTURES, ROOT, longformer, run  # noqa: F401  (longformer is a fixture)


class TestBench:
    KEYS = ["n", "dtype", "seconds", "tokens_per_second", "gflops", "gemm_gflops",
            "fraction_of_bound", "peak_rss_bytes", "memory_over_least"]

    def test_model(self, longformer):
        rows = run("bench", "model", longformer, "-n", "8,32", "--dtype", "fp32,bf16", "-r", 1,
                   "--global-tokens", 1, "--json").works().json
        assert [(row["dtype"], row["n"]) for row in rows] == [
            ("fp32", 8), ("fp32", 32), ("bf16", 8), ("bf16", 32)]
        for row in rows:
            assert list(row) == [*self.KEYS, "head_seconds"] and row["head_seconds"] == 0
            assert all(row[key] > 0 for key in self.KEYS if key != "dtype")
            assert row["tokens_per_second"] == pytest.approx(row["n"] / row["seconds"], rel=1e-3)

    def test_what_libraries_write_on_stdout_goes_to_stderr(self, monkeypatch):
        monkeypatch.setenv("ONEDNN_VERBOSE", "1")
        result = run("bench", "model", BERT, "-n", "8", "-r", 1, "--json")
        assert result.code == 0 and result.json[0]["n"] == 8, result.err
        assert "onednn_verbose" in result.err and "onednn" not in result.out

    def test_a_head(self):
        row = run("bench", "model", FIXTURES / "tiny_longformer_classifier", "-n", 8, "-r", 1, "--json").works().json[0]
        assert 0 < row["head_seconds"] < 10

    def test_a_model_that_writes_nothing_is_named(self):
        run("bench", "generate", BERT, "-n", 8, "-t", 4).fails(1, str(BERT), "writes texts")

    def test_config_alone(self):
        out = run("bench", "model", "--config", BERT / "config.json", "-n", "8", "-r", 1, "--format",
                  "csv").works().out
        header, row = out.splitlines()
        assert header.split(",") == [*self.KEYS, "head_seconds"] and row.startswith("8,fp32,")

    @pytest.mark.parametrize("what", ["model", "train", "attention", "search", "generate"])
    def test_output_is_a_file(self, tmp_path, what):
        flags = {"model": [BERT, "-n", 8], "train": [BERT, "-n", 8], "generate": [FIXTURES / "tiny_led", "-n", 8, "-t", 4],
                 "attention": ["-n", 8, "--heads", 1, "--head-size", 16, "--window", 4, "--backend", "fused"],
                 "search": ["--passages", 50, "--size", 8]}[what]  # fmt: skip
        for name in ("rows.csv", "rows.jsonl", "rows.txt"):
            assert run("bench", what, *flags, "-r", 1, "-o", tmp_path / name).works().out == ""
        header, values = (tmp_path / "rows.csv").read_text().splitlines()
        row = json.loads((tmp_path / "rows.jsonl").read_text())
        assert header.split(",") == list(row) and len(values.split(",")) == len(row)
        assert len((tmp_path / "rows.txt").read_text().splitlines()) == 2
        run("bench", what, *flags, "-r", 1, "-o", tmp_path / "rows.pdf").fails(2, "-o", ".csv", "rows.pdf")
        assert not (tmp_path / "rows.pdf").exists()

    def test_attention(self):
        rows = run("bench", "attention", "-n", "64-128*2", "--heads", 2, "--head-size", 16, "--window",
                   16, "--backend", "loop,fused", "-r", 1, "--json").works().json
        assert [(row["n"], row["backend"]) for row in rows] == [
            (64, "loop"), (64, "fused"), (128, "loop"), (128, "fused")]
        keys = ["n", "dtype", "backend", "pass", "window", "dilation", "global", *self.KEYS[2:]]
        assert all(list(row) == keys and row["pass"] == "forward" for row in rows)

    def test_peak_memory_is_that_of_the_row(self):
        flags = ["--heads", 2, "--head-size", 16, "--window", 16, "--backend", "fused", "-r", 1, "--json"]
        rows = run("bench", "attention", "-n", "200000,64", *flags).works().json
        assert rows[1]["peak_rss_bytes"] < rows[0]["peak_rss_bytes"] - 20e6

    def test_a_backend_that_cannot_keeps_the_others(self):
        result = run("bench", "attention", "-n", 64, "--heads", 2, "--head-size", 16, "--window", 16,
                     "--dilation", 2, "--backend", "chunks,fused", "-r", 1, "--json")
        assert result.code == 1 and [row["backend"] for row in result.json] == ["fused"]
        assert len(result.err.splitlines()) == 1 and "chunks" in result.err

    def test_backward_is_that_of_fused(self):
        flags = ["--heads", 2, "--head-size", 16, "--window", 16, "--global", 1, "-r", 1, "--json"]
        result = run("bench", "attention", "-n", 64, "--pass", "forward,backward", "--backend",
                     "loop,fused", *flags)
        assert result.code == 1
        assert [(row["backend"], row["pass"]) for row in result.json] == [
            ("loop", "forward"), ("fused", "forward"), ("fused", "backward")]
        assert all(row["gflops"] > 0 for row in result.json)
        assert len(result.err.splitlines()) == 1 and "loop" in result.err

    def test_text(self):
        out = run("bench", "attention", "-n", 64, "--backend", "fused", "-r", 1).works().out
        assert out.splitlines()[0].split()[:3] == ["n", "dtype", "backend"] and len(out.splitlines()) == 2

    @pytest.mark.parametrize("list_", ["x", "1,", "1-2", "4-16*1", "4-16*", "-5", "1;2"])
    def test_wrong_lists(self, list_):
        run("bench", "attention", f"--length={list_}").fails(2, "-n")

    def test_nothing_named(self):
        run("bench", "model").fails(2, "--config")
        run("bench").fails(2, "longformer bench --help")

    def test_report_names_the_machine_and_fills_every_row(self, tmp_path):
        def small(name, **sizes):
            config = tmp_path / pathlib.Path(name).name
            config.write_text(json.dumps({**json.loads((ROOT / name).read_text()), **sizes}))
            return ("--config", config)

        configs = [
            *small("bench/longformer_base.json", vocab_size=50, hidden_size=32, num_hidden_layers=1,
                   num_attention_heads=2, intermediate_size=64),
            *small("bench/led_base.json", vocab_size=50, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                   decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64),
            *small("examples/language-models/small-recurrent.json", hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                   intermediate_size=64),
        ]  # fmt: skip
        lines = run("bench", "--report", *configs, seconds=600).works().out.splitlines()
        assert lines[0].startswith("### ") and re.search(" threads?, ", lines[0])
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
        attention = [f"{what} {one}" for what in ("attention", "attention, one global token,", "Performer, 256 features,")
                     for one in ("forward", "backward")]  # fmt: skip
        forward = ["forward, n 64", "forward, n 512", "forward, n 4096"]
        training = ["training step, n 4096", "training step of a Transformer-XL, n 4096"]
        writing = ["LED reads 4096 tokens", "LED writes a token"]
        everything = attention + forward + training + writing
        assert [row[0] for row in rows] == 2 * everything + forward + writing
        assert [row[1] for row in rows] == len(everything) * ["fp32"] + len(everything) * ["bf16"] + 5 * ["int8"]
        for row in rows:
            # So small a model may reach 0.00 of a bound, and more than a rate that a busy machine gave.
            assert float(row[5].removeprefix("≥ ")) >= 0 and float(row[2].split()[0]) > 0 and row[2].endswith("s") and (row[3] == "–") == (row[0] == "LED writes a token")
            assert len(row) == 8 and 0.1 < float(row[7]) < 20

    def test_report_refuses_what_is_no_configuration(self, tmp_path):
        (tmp_path / "a.json").write_text("[]")
        run("bench", "--report", "--config", tmp_path / "a.json").fails(1, "a.json", "config.json")
        run("bench", "--report", "--config", tmp_path / "none.json").fails(1, "none.json")

    def test_missing_folder(self):
        run("bench", "model", "/nowhere", "-n", "8").fails(1, "/nowhere")
