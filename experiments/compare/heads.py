"""Queries, keys and values of the heads of a BERT, in numpy: the states of every layer come from the program's own
Python package (`pip install .`), the projections from the folder."""

import json
import pathlib

import longformer_cpp
import numpy
from safetensors.numpy import load_file


class Heads:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        config = json.loads((folder / "config.json").read_text())
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.tensors = {name.removeprefix("bert."): tensor.astype(numpy.float64)
                        for name, tensor in load_file(folder / "model.safetensors").items()}
        self.tokenizer = longformer_cpp.Tokenizer(str(folder))
        self.model = longformer_cpp.load(str(folder))

    def ids(self, text, length):
        """The first tokens of a text, as many as that with the special ones."""
        return self.tokenizer.encode(text).ids[: length - 1] + self.tokenizer.encode("").ids[-1:]

    def of(self, ids):
        """For every layer q, k, v [heads, n, d] of a document."""
        states = self.model([ids], output_hidden_states=True).hidden_states
        found = []
        for layer in range(self.layers):
            x = states[layer][0].astype(numpy.float64)
            parts = []
            for part in ("query", "key", "value"):
                name = f"encoder.layer.{layer}.attention.self.{part}"
                rows = x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]
                parts.append(rows.reshape(len(ids), self.heads, -1).transpose(1, 0, 2))
            found.append(parts)
        return found


def softmax(scores):
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def probabilities(q, k):
    return softmax(q @ k.swapaxes(-1, -2) / numpy.sqrt(q.shape[-1]))
