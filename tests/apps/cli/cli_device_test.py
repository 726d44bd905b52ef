"""`--device opencl` of the verbs that run encoders, and `info --devices`.

The faults come from build/tests/libfake_opencl.so; the rest needs a device, such as Debian's pocl-opencl-icd.
"""

import json

import numpy as np
import pytest
from cli_opencl_test import fake  # noqa: F401 (a fixture)
from cli_test import BERT, FIXTURES, run

TEXTS = ["hello world of cats", "a"]
LINES = [word for text in TEXTS for word in ("--text", text)]
CLASSIFIER, QA = FIXTURES / "tiny_longformer_classifier", FIXTURES / "tiny_longformer_qa"


def numbers(value):
    """All numbers of a JSON value, in order."""
    if isinstance(value, dict):
        return [number for one in value.values() for number in numbers(one)]
    if isinstance(value, list):
        return [number for one in value for number in numbers(one)]
    return [float(value)] if isinstance(value, (int, float)) else []


@pytest.mark.usefixtures("fake")
class TestFaults:
    @pytest.mark.parametrize("fault, words", [
        ("no-platform", "expected a device, found no platform"),
        ("no-device", "expected a device, found a driver without one (PoCL has none where it cannot write its cache"),
        ("no-local-memory", "fake device: expected a device with local memory"),
        ("memory", "fake device: out of memory"),
        ("compile", "fake device: its compiler refused the kernels: attention.cl:7: error: no such word (log: "),
    ])
    def test_one_line(self, monkeypatch, fault, words):
        monkeypatch.setenv("FAKE_OPENCL", fault)
        result = run("embed", BERT, "--device", "opencl", *LINES).fails(1, words)
        assert result.out == ""

    def test_a_model_that_does_not_fit_is_told_before(self, monkeypatch):
        monkeypatch.setenv("FAKE_OPENCL", "small")
        run("embed", FIXTURES / "tiny_roberta", "--device", "opencl", *LINES).fails(
            1, "fake device: expected a model of at most 0.03 MB, found ", "MB in fp32")

    def test_missing_library_names_the_packages(self, monkeypatch, tmp_path):
        monkeypatch.setenv("LONGFORMER_OPENCL_LIBRARY", str(tmp_path / "none.so"))
        run("embed", BERT, "--device", "opencl", *LINES).fails(1, "ocl-icd-libopencl1", "pocl-opencl-icd")
        run("info", "--devices").fails(1, "ocl-icd-libopencl1")

    def test_missing_clblast_names_the_package(self, monkeypatch, tmp_path):
        monkeypatch.setenv("LONGFORMER_OPENCL_PRODUCTS", "clblast")
        monkeypatch.setenv("LONGFORMER_CLBLAST_LIBRARY", str(tmp_path / "none.so"))
        run("embed", BERT, "--device", "opencl", *LINES).fails(1, "libclblast1")

    def test_devices(self):
        shown = run("info", "--devices", "--json").works().json
        assert [(row["device"], row["name"], row["kind"]) for row in shown] == [("opencl:0", "fake device", "GPU")]
        assert shown[0]["memory"] == 2**32 and shown[0]["local_memory"] == 32768
        line = run("info", "--devices").works().out
        assert line.startswith("opencl:0  fake device (GPU), 4.3 GB, 32 KiB of local memory") and line.count("\n") == 1

    def test_info_takes_a_folder_or_devices(self):
        run("info").fails(2, "MODEL is required")
        run("info", BERT, "--devices").fails(2, "--devices")

    @pytest.mark.parametrize("arguments, code, words", [
        (["embed", BERT, "--device", "cuda", *LINES], 2, "--device: expected cpu, opencl or opencl:N, found 'cuda'"),
        (["embed", BERT, "--device", "opencl:x", *LINES], 2, "--device: expected cpu, opencl or opencl:N"),
        (["embed", BERT, "--device", "opencl:3", *LINES], 2, "--device: expected opencl:0 to opencl:0, found opencl:3"),
        (["embed", BERT, "--device", "opencl", "--dtype", "bf16", *LINES], 2, "--dtype: expected fp32 on a device"),
        (["embed", FIXTURES / "vectors_static", "--device", "opencl", *LINES], 2, "whose layers are a table of tokens"),
        (["qa", FIXTURES / "tiny_led", "--device", "opencl", "-q", "x", *LINES], 2, "expected cpu for a led"),
        (["evaluate", FIXTURES / "character_lm" / "tied", BERT / "vocab.txt", "--device", "opencl"], 2,
         "expected cpu for a character language model"),
        (["classify", CLASSIFIER, "--device", "opencl", "--explain", "gradient", *LINES], 2,
         "expected cpu for training and gradients"),
        (["finetune", BERT, "x.jsonl", "--output-dir", "y", "--device", "opencl"], 2, "as training runs on it alone"),
        (["pretrain-mlm", BERT, "x.txt", "--output-dir", "y", "--device", "opencl"], 2, "as training runs on it alone"),
        (["pretrain-lm", BERT, "x.txt", "--output-dir", "y", "--device", "opencl"], 2, "as training runs on it alone"),
        (["generate", FIXTURES / "tiny_led", "--device", "opencl", *LINES], 2, "as a decoder runs on it alone"),
        (["summarize", FIXTURES / "tiny_led", "--device", "opencl", *LINES], 2, "as a decoder runs on it alone"),
    ])  # fmt: skip
    def test_refusals(self, arguments, code, words):
        run(*arguments).fails(code, words)


class TestDevice:
    @pytest.fixture(autouse=True)
    def device(self):
        shown = run("info", "--devices", "--json")
        if "not installed" in shown.err or "no platform" in shown.err:
            pytest.skip("no device of OpenCL (tools/packages.sh opencl)")

    @pytest.mark.parametrize("arguments", [
        ["embed", BERT], ["embed", FIXTURES / "sentence_dense"], ["embed", FIXTURES / "sentence_instructed"],
        ["embed", FIXTURES / "vectors_splade", "--sparse"], ["embed", FIXTURES / "vectors_colbert", "--multi"],
        ["classify", CLASSIFIER], ["classify", FIXTURES / "tiny_distilbert_classifier"], ["qa", QA, "-q", "who sat"],
        ["ner", FIXTURES / "tiny_bert_tagger"],
    ], ids=lambda arguments: "-".join([str(arguments[0]), arguments[1].name]))  # fmt: skip
    def test_results_are_those_of_the_cpu(self, arguments):
        here = run(*arguments, *LINES, "--json", "--quiet")
        there = run(*arguments, *LINES, "--json", "--quiet", "--device", "opencl")
        assert (here.code, here.err) == (there.code, there.err) and len(there.json) == len(here.json)
        assert np.abs(np.array(numbers(here.json)) - np.array(numbers(there.json))).max(initial=0) <= 1e-4

    def test_search_and_evaluate(self, tmp_path):
        (tmp_path / "a.txt").write_text("hello world of cats")
        (tmp_path / "b.txt").write_text("a dog")
        found = [run("search", BERT, tmp_path / "a.txt", tmp_path / "b.txt", "--query", "cats", "--passage-tokens", 16,
                     "--json", "--quiet", "--device", device).json[0]["hits"] for device in ("cpu", "opencl")]  # fmt: skip
        assert np.abs(np.array(numbers(found[0])) - np.array(numbers(found[1]))).max() <= 1e-4
        data = tmp_path / "data.jsonl"
        data.write_text("".join(json.dumps({"text": text, "label": i % 2}) + "\n" for i, text in enumerate(TEXTS * 3)))
        rows = [run("evaluate", CLASSIFIER, data, "--json", "--quiet", "--device", device).json
                for device in ("cpu", "opencl")]  # fmt: skip
        metrics = [{key: value for key, value in row[0].items() if "second" not in key} for row in rows]
        assert np.abs(np.array(numbers(metrics[0])) - np.array(numbers(metrics[1]))).max() <= 1e-4

    def test_a_cpu_is_told(self):
        kinds = [row["kind"] for row in run("info", "--devices", "--json").works().json]
        result = run("embed", BERT, *LINES, "--device", "opencl:0")
        note = "longformer: note: device opencl:0: "
        assert result.code == 0 and result.err.startswith(note if kinds[0] == "CPU" else "")
        assert len(result.err.splitlines()) == (1 if kinds[0] == "CPU" else 0)
        run("embed", BERT, *LINES, "--device", "opencl:0", "--quiet").works()

    def test_a_family_without_ops_is_named(self):
        run("embed", FIXTURES / "tiny_deberta_v2", *LINES, "--device", "opencl", "--quiet").fails(
            1, "deberta-v2: ", "expected a model on the CPU, found one on a device")
