#!/usr/bin/env python3
"""Vectors of many short texts: this program beside sentence-transformers, ONNX Runtime and OpenVINO, with their int8 too.

    LONGFORMER_DATA=data python3 bench/short_texts.py MODEL [--texts 10000] [--rows fp32,bf16,int8,sentence-transformers,…]
                                                      [--rounds 2] [--threads 2] [--binary build/longformer]

MODEL is a folder of sentence-transformers whose vectors are means of tokens, as all-MiniLM-L6-v2. The texts are sentences of SQuAD. Each row is a
process of its own, in turns, and each reads a file of lines and writes a file of vectors; seconds are without the start (of this program:
without the seconds that one text takes). The peers get texts sorted by length in batches of 32, as sentence-transformers makes them. ONNX Runtime and OpenVINO run an export of the
`transformers` model for any length; their int8 is what their own tools make of it (quantize_dynamic; nncf's quantize with 300 of the texts). Cosines are to
the vectors of sentence-transformers. Packages: sentence-transformers, onnxruntime, onnx, onnxscript, openvino, nncf.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "experiments"))
import data_sets  # noqa: E402

OURS = ("fp32", "bf16", "int8")
PEERS = ("sentence-transformers", "onnxruntime", "onnxruntime-int8", "openvino", "openvino-int8")
BATCH = 32
LONGEST = 256


def sentences(count):
    """Sentences of SQuAD's paragraphs, each once."""
    data = json.loads(data_sets.file("squad/dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    texts = [paragraph["context"] for article in data for paragraph in article["paragraphs"]]
    found = dict.fromkeys(one.strip() for text in texts for one in re.split(r"(?<=[.?!])\s+", text.replace("\n", " ")))
    return [one for one in found if len(one) > 20][:count]


def measure_ours(dtype, options, lines, vectors):
    def seconds(file):
        begin = time.perf_counter()
        command = [options.binary, "embed", options.model, file, "--lines", "--truncate", "--dtype", dtype, "-o", vectors]
        subprocess.run([*map(str, command), "--threads", str(options.threads), "--quiet"], check=True)
        return time.perf_counter() - begin

    one = lines.with_name("one.txt")
    one.write_text(lines.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    start = seconds(one)
    return seconds(lines) - start


class Exported:
    """The `transformers` model, exported for any length and run by another package."""

    def __init__(self, options):
        import transformers

        self.options = options
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)

    def tokens(self, texts, kind="np"):
        found = self.tokenizer(list(texts), padding=True, truncation=True, max_length=LONGEST, return_tensors=kind)
        return {name: found[name] for name in ("input_ids", "attention_mask")}

    def onnx(self):
        import torch
        import transformers

        class Encoder(torch.nn.Module):
            def __init__(self, folder):
                super().__init__()
                self.model = transformers.AutoModel.from_pretrained(folder).eval()

            def forward(self, input_ids, attention_mask):
                return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[0]

        file = self.options.work / "model.onnx"
        if not file.exists():
            example = self.tokens(["a text", "and another"], "pt")
            sizes = {0: torch.export.Dim("batch", min=1, max=64), 1: torch.export.Dim("tokens", min=2, max=LONGEST)}
            torch.onnx.export(Encoder(self.options.model), (example["input_ids"], example["attention_mask"]), file, output_names=["states"],
                              dynamic_shapes=(sizes, sizes), dynamo=True, external_data=False)  # fmt: skip
        return file

    def quantized_onnx(self):
        from onnxruntime.quantization import QuantType, quantize_dynamic

        file = self.options.work / "model-int8.onnx"
        if not file.exists():
            quantize_dynamic(self.onnx(), file, weight_type=QuantType.QInt8, per_channel=True)
        return file

    def quantized_openvino(self, texts):
        import nncf
        import openvino

        file = self.options.work / "model-int8.xml"
        if not file.exists():
            samples = nncf.Dataset([self.tokens([text]) for text in texts[:: max(1, len(texts) // 300)]])
            openvino.save_model(nncf.quantize(openvino.Core().read_model(self.onnx()), samples, model_type=nncf.ModelType.TRANSFORMER), file)
        return file

    def states(self, peer, texts):
        """The call that gives hidden states of a batch of tokens."""
        if peer.startswith("onnxruntime"):
            import onnxruntime

            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = self.options.threads
            file = self.quantized_onnx() if peer.endswith("int8") else self.onnx()
            session = onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
            return lambda tokens: session.run(None, tokens)[0]
        import openvino

        file = self.quantized_openvino(texts) if peer.endswith("int8") else self.onnx()
        settings = {"INFERENCE_NUM_THREADS": self.options.threads, "PERFORMANCE_HINT": "LATENCY"}
        settings["INFERENCE_PRECISION_HINT"] = "bf16" if peer.endswith("int8") else "f32"
        request = openvino.Core().compile_model(file, "CPU", settings).create_infer_request()
        return lambda tokens: request.infer(tokens)[0]

    def vectors(self, states, texts):
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        rows = [None] * len(texts)
        for begin in range(0, len(order), BATCH):
            batch = order[begin : begin + BATCH]
            tokens = self.tokens([texts[i] for i in batch])
            mask = tokens["attention_mask"][:, :, None].astype(numpy.float32)
            means = (states(tokens) * mask).sum(1) / mask.sum(1)
            for place, row in zip(batch, means / numpy.linalg.norm(means, axis=1, keepdims=True)):
                rows[place] = row
        return numpy.stack(rows)


def measure_peer(peer, options, lines, vectors):
    """In this process: a warm-up with the first texts, then all."""
    texts = lines.read_text(encoding="utf-8").splitlines()
    if peer == "sentence-transformers":
        import sentence_transformers
        import torch

        torch.set_num_threads(options.threads)
        model = sentence_transformers.SentenceTransformer(options.model, device="cpu")
        encode = lambda some: model.encode(some, batch_size=BATCH, normalize_embeddings=True)  # noqa: E731
    else:
        exported = Exported(options)
        states = exported.states(peer, texts)
        encode = lambda some: exported.vectors(states, some)  # noqa: E731
    encode(texts[:BATCH])
    begin = time.perf_counter()
    made = encode(texts)
    seconds = time.perf_counter() - begin
    numpy.save(vectors, made)
    return seconds


def in_child(row, options, lines, vectors):
    command = [sys.executable, __file__, options.model, "--child", row, "--work", options.work, "--threads", options.threads]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{row}: {done.stderr[-1000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a sentence-embedding model")
    parser.add_argument("--texts", type=int, default=10000)
    parser.add_argument("--rows", type=lambda text: text.split(","), default=[*OURS, *PEERS], help=f"{', '.join([*OURS, *PEERS])} (all)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--binary", default="build/longformer")
    parser.add_argument("--work", type=pathlib.Path, help="folder for texts, exports and vectors, which stay")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure_peer(options.child, options, options.work / "texts.txt", options.work / f"{options.child}.npy")))
        return
    for row in options.rows:
        if row not in (*OURS, *PEERS):
            parser.error(f"--rows: expected {', '.join([*OURS, *PEERS])}, found {row}")
    with tempfile.TemporaryDirectory() as temporary:
        options.work = options.work or pathlib.Path(temporary)
        options.work.mkdir(exist_ok=True)
        lines = options.work / "texts.txt"
        lines.write_text("".join(text + "\n" for text in sentences(options.texts)), encoding="utf-8")
        count = len(lines.read_text(encoding="utf-8").splitlines())
        seconds = {row: [] for row in options.rows}
        for _ in range(options.rounds):
            for row, all_seconds in seconds.items():
                vectors = options.work / f"{row}.npy"
                all_seconds.append((measure_ours if row in OURS else in_child)(row, options, lines, vectors))
        report(options, seconds, count)


def report(options, seconds, count):
    truth = options.work / "sentence-transformers.npy"
    exact = numpy.load(truth) if truth.exists() else None
    first = statistics.median(seconds["sentence-transformers"]) if "sentence-transformers" in seconds else None
    print(f"{count:,} sentences, {options.threads} threads, medians of {options.rounds} rounds\n")
    print("| row | seconds | texts/s | times sentence-transformers | cosine: mean, least |\n|---|---|---|---|---|")
    for row, all_seconds in seconds.items():
        median = statistics.median(all_seconds)
        close = "–"
        if exact is not None:
            made = numpy.load(options.work / f"{row}.npy")
            cosines = (made * exact).sum(1) / numpy.linalg.norm(made, axis=1) / numpy.linalg.norm(exact, axis=1)
            close = f"{cosines.mean():.5f}, {cosines.min():.4f}"
        name = f"longformer.cpp {row}" if row in OURS else row
        print(f"| {name} | {median:.1f} | {count / median:,.0f} | {f'{first / median:.1f}' if first else '–'} | {close} |", flush=True)


if __name__ == "__main__":
    main()
