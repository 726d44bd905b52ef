"""A Longformer in double precision numpy, one row of attention at a time, from the definition.

It has none of the limits of `transformers`: any even window per layer, any dilation per head, any
length. A local row sees every global key and every unmasked key of its window, whose keys stand
`dilation` tokens apart, each once, through the local projections;
a global row sees every unmasked key through the global projections; a masked row attends to
nothing.
"""

import json
import math
import pathlib

import numpy
import torch
from safetensors.torch import load_file

CLASS_DEFAULTS = {
    "attention_dilation": 1,
    "attention_window": 512,
    "hidden_act": "gelu",
    "hidden_size": 768,
    "layer_norm_eps": 1e-12,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 1,
}


def gelu(x):
    return 0.5 * x * (1.0 + torch.erf(torch.from_numpy(x / math.sqrt(2.0))).numpy())


def gelu_new(x):
    return 0.5 * x * (1.0 + numpy.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_new": gelu_new,
    "quick_gelu": lambda x: x / (1 + numpy.exp(-1.702 * x)),
    "mish": lambda x: x * numpy.tanh(numpy.logaddexp(0, x)),
    "relu": lambda x: numpy.maximum(x, 0.0),
    "silu": lambda x: x * 0.5 * (1.0 + numpy.tanh(0.5 * x)),
    "tanh": numpy.tanh,
}


def softmax(scores):
    e = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class ScalarLongformer:
    """Reads the folder of a LongformerModel or LongformerForMaskedLM."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = CLASS_DEFAULTS | json.loads((folder / "config.json").read_text())
        tensors = load_file(folder / "model.safetensors")
        self.weights = {
            k.removeprefix("longformer."): v.double().numpy() for k, v in tensors.items()
        }
        window = self.config["attention_window"]
        layers = self.config["num_hidden_layers"]
        self.windows = [window] * layers if isinstance(window, int) else window
        dilation = self.config["attention_dilation"]
        of_layers = [dilation] * layers if isinstance(dilation, int) else dilation
        heads = self.config["num_attention_heads"]
        self.dilations = [[d] * heads if isinstance(d, int) else d for d in of_layers]

    def forward(self, document):
        """The embedding output and the output of every layer, float64 [n, hidden] each."""
        n = len(document.ids)
        mask = (
            numpy.ones(n, numpy.int64)
            if document.attention_mask is None
            else document.attention_mask
        )
        is_global = numpy.zeros(n, bool)
        if document.global_attention_mask is not None:
            is_global = (document.global_attention_mask != 0) & (mask != 0)
        is_local = (mask != 0) & ~is_global
        states = [self.embed(document)]
        for layer, window in enumerate(self.windows):
            pattern = (window // 2, self.dilations[layer])
            states.append(
                self.layer(f"encoder.layer.{layer}.", states[-1], pattern, is_local, is_global)
            )
        return states

    def pool(self, last_hidden_state):
        return numpy.tanh(self.linear("pooler.dense", last_hidden_state[0]))

    def masked_lm_logits(self, last_hidden_state):
        x = self.normalise(
            "lm_head.layer_norm", gelu(self.linear("lm_head.dense", last_hidden_state))
        )
        decoder = self.weights.get(
            "lm_head.decoder.weight", self.weights["embeddings.word_embeddings.weight"]
        )
        bias = self.weights.get("lm_head.decoder.bias", self.weights.get("lm_head.bias"))
        return x @ decoder.T + bias

    def embed(self, document):
        ids, pad = document.ids, self.config["pad_token_id"]
        positions = document.position_ids
        if positions is None:
            real = ids != pad
            positions = numpy.cumsum(real) * real + pad
        types = document.token_type_ids
        types = numpy.zeros(len(ids), numpy.int64) if types is None else types
        table = {
            k: self.weights[f"embeddings.{k}_embeddings.weight"]
            for k in ("word", "position", "token_type")
        }
        total = table["word"][ids] + table["position"][positions] + table["token_type"][types]
        return self.normalise("embeddings.LayerNorm", total)

    def layer(self, prefix, x, pattern, is_local, is_global):
        attended = self.attention(prefix + "attention.self.", x, pattern, is_local, is_global)
        x = self.normalise(
            prefix + "attention.output.LayerNorm",
            self.linear(prefix + "attention.output.dense", attended) + x,
        )
        activation = ACTIVATIONS[self.config["hidden_act"]]
        inner = activation(self.linear(prefix + "intermediate.dense", x))
        return self.normalise(
            prefix + "output.LayerNorm", self.linear(prefix + "output.dense", inner) + x
        )

    def attention(self, prefix, x, pattern, is_local, is_global):
        n, hidden = x.shape
        reach, dilations = pattern
        heads = self.config["num_attention_heads"]
        size = hidden // heads

        def project(name):
            return self.linear(prefix + name, x).reshape(n, heads, size).transpose(1, 0, 2)

        query, key, value = project("query"), project("key"), project("value")
        query_global, key_global, value_global = (
            project(f"{p}_global") for p in ("query", "key", "value")
        )
        every = numpy.flatnonzero(is_local | is_global)
        out = numpy.zeros((heads, n, size))
        for i in every:
            if is_global[i]:
                q, k, v = query_global[:, i], key_global[:, every], value_global[:, every]
            else:
                for head, dilation in enumerate(dilations):
                    steps = numpy.arange(i - reach * dilation, i + reach * dilation + 1, dilation)
                    inside = numpy.zeros(n, bool)
                    inside[steps[(steps >= 0) & (steps < n)]] = True
                    visible = numpy.flatnonzero((inside & is_local) | is_global)
                    weights = softmax(key[head, visible] @ query[head, i] / math.sqrt(size))
                    out[head, i] = weights @ value[head, visible]
                continue
            scores = numpy.einsum("hd,hkd->hk", q / math.sqrt(size), k)
            out[:, i] = numpy.einsum("hk,hkd->hd", softmax(scores), v)
        return out.transpose(1, 0, 2).reshape(n, hidden)

    def linear(self, name, x):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def normalise(self, name, x):
        mean = x.mean(axis=-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        scaled = (x - mean) / numpy.sqrt(variance + self.config["layer_norm_eps"])
        return scaled * self.weights[name + ".weight"] + self.weights[name + ".bias"]
