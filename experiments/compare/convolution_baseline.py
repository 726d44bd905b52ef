#!/usr/bin/env python3
"""A net of dilated causal convolutions of the size of the language models of experiments/compare: PyTorch, no part of the product.

    experiments/compare/convolution_baseline.py TEXT VALIDATION TEST [--characters 15M] [--hidden 128] [--inner 340] [--seed 1]

Bytes, six layers of 128 (0.89M weights) whose convolutions of three characters stand 1, 2, 4, 8, 16 and 32 characters apart,
each with a feed-forward block behind it, norms before both. A character sees the 126 before it. Rows of 1,024 characters, AdamW
at 1e-3 with a warm-up of 500 steps and cosine, gradients clipped at 0.25. Prints one JSON line.
"""

import baseline
import torch

KERNEL, RATES = 3, (1, 2, 4, 8, 16, 32)
REACH = (KERNEL - 1) * sum(RATES)


class Layer(torch.nn.Module):
    def __init__(self, hidden, inner, rate, dropout):
        super().__init__()
        self.norm, self.wide_norm = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.pad = (KERNEL - 1) * rate
        self.convolution = torch.nn.Conv1d(hidden, hidden, KERNEL, dilation=rate)
        self.wide = torch.nn.Sequential(torch.nn.Linear(hidden, inner), torch.nn.GELU(), torch.nn.Linear(inner, hidden))
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x):
        before = torch.nn.functional.pad(self.norm(x).transpose(1, 2), (self.pad, 0))
        x = x + self.dropout(torch.nn.functional.gelu(self.convolution(before)).transpose(1, 2))
        return x + self.dropout(self.wide(self.wide_norm(x)))


class Model(torch.nn.Module):
    """Its state is the characters that the next piece sees."""

    def __init__(self, hidden, inner, dropout):
        super().__init__()
        self.embedding = torch.nn.Embedding(baseline.BYTES, hidden)
        self.layers = torch.nn.Sequential(*(Layer(hidden, inner, rate, dropout) for rate in RATES))
        self.dropout, self.norm = torch.nn.Dropout(dropout), torch.nn.LayerNorm(hidden)
        self.output = torch.nn.Linear(hidden, baseline.BYTES)

    def forward(self, ids, state=None):
        seen = ids if state is None else torch.cat((state, ids), 1)
        rows = self.norm(self.layers(self.dropout(self.embedding(seen))))
        return self.output(self.dropout(rows[:, -ids.shape[1]:])), seen[:, -REACH:]


def main():
    parser = baseline.options(__doc__)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--inner", type=int, default=340)
    chosen = baseline.parsed(parser)
    model = Model(chosen.hidden, chosen.inner, baseline.dropout_of(chosen.text))
    baseline.train(model, chosen, segment=1024, carries_state=False)


if __name__ == "__main__":
    main()
