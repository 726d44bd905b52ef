"""Compares the hidden states and the attention of language models with an independent version in PyTorch, in double.

    python3 tests/parity/text_states_parity.py

The models are those of tests/fixtures/memory_lm: windows, dense attention, Transformer-XL, Compressive Transformer and
Performer, with all kinds of positions; the version is that of tests/fixtures/make_memory_lm.py. A text is read segment
by segment. Compared are the logits, the rows before and behind every layer, and the probabilities of every head: of
tokens, and of compressed rows. Exit code 1 when a number differs by more than 1e-5 of the largest, or 1e-5 of a
probability; a NaN does.
"""

import json
import pathlib
import sys

import numpy
import pipeline_parity
import torch
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "fixtures"))

import make_memory_lm  # noqa: E402

TEXT = "the quick brown fox jumps over the lazy dog"
TOLERANCE = 1e-5


def relative(found, expected):
    largest = max(1.0, float(numpy.abs(expected).max(initial=0.0)))
    return numpy.abs(numpy.asarray(found, float) - expected).max(initial=0.0) / largest


class Read:
    """A text that the version in PyTorch has read."""

    def __init__(self, folder, ids):
        self.config = json.loads((folder / "config.json").read_text())
        weights = {name: value.double() for name, value in load_file(folder / "model.safetensors").items()}
        self.model = make_memory_lm.Model(make_memory_lm.BASE | self.config, weights)
        self.layers, self.n = self.config["num_hidden_layers"], len(ids)
        has_memory = self.config["attention"] in make_memory_lm.MEMORIES
        length = self.config["segment_length"] if has_memory else self.n
        width, empty = self.config["hidden_size"], self.config.get("empty_memory") == "zeros"
        rows = lambda count: torch.zeros(count if empty and has_memory else 0, width, dtype=torch.float64)  # noqa: E731
        memories = [[(rows(self.config.get("compressed_memory_length", 0)), rows(self.config["memory_length"]))
                     for _ in range(self.layers)]]  # fmt: skip
        self.begins, logits = list(range(0, self.n, length)), []
        with torch.no_grad():
            for begin in self.begins:
                piece = torch.tensor([ids[begin : begin + length]])
                logits.append(self.model.segment(piece, memories, begin)[0][0])
        self.logits = torch.cat(logits).numpy()

    def states(self):
        """Rows before and behind each layer."""
        step = self.layers + 1
        return [torch.cat(self.model.states[layer::step]).numpy() for layer in range(step)]

    def attention(self, layer):
        """[heads, n, n] of tokens, and [heads, n, rows] of compressed rows."""
        parts = [(p.numpy(), older) for of, p, older in self.model.seen if of == layer]
        most = max(older for _, older in parts)
        heads = parts[0][0].shape[0]
        tokens, compressed = numpy.zeros((heads, self.n, self.n)), numpy.zeros((heads, self.n, most))
        for begin, (p, older) in zip(self.begins, parts):
            count = p.shape[1]
            compressed[:, begin : begin + count, :older] = p[:, :, :older]
            keys = p.shape[2] - older
            first = begin + count - keys
            kept = max(0, -first)  # rows of zeros before the text
            tokens[:, begin : begin + count, first + kept : begin + count] = p[:, :, older + kept :]
        return tokens, compressed


def compare(report, engine, folder):
    kind = json.loads((folder / "config.json").read_text())
    text = TEXT[: kind.get("max_position_embeddings", len(TEXT))]
    model = engine.LanguageModel(folder)
    out = model(text, output_hidden_states=True, output_attentions=True)
    read, name = Read(folder, [int(one) for one in out.ids]), kind["attention"]
    report.same(f"{name}: tokens", b"".join(out.tokens), text.encode())
    report.close(f"{name}: logits", relative(out.logits, read.logits), 0)
    states = read.states()
    report.same(f"{name}: states", len(out.hidden_states), len(states))
    for layer, (found, expected) in enumerate(zip(out.hidden_states, states)):
        if layer == len(states) - 1 and kind.get("final_layer_norm", True):
            expected = read.model.norm("final_norm", torch.tensor(expected)).numpy()
        report.close(f"{name}: hidden states", relative(found, expected), 0)
    for layer in range(read.layers):
        tokens, compressed = read.attention(layer)
        report.close(f"{name}: attention", out.attentions[layer], tokens)
        if compressed.shape[2]:
            report.close(f"{name}: attention to compressed rows", out.compressed_attentions[layer], compressed)


def main():
    import longformer_cpp as engine

    report = pipeline_parity.Report(TOLERANCE)
    for folder in sorted((ROOT / "tests" / "fixtures" / "memory_lm").iterdir()):
        before = len(report.failures)
        compare(report, engine, folder)
        report.failures[before:] = [f"{folder.name}: {failure}" for failure in report.failures[before:]]
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
