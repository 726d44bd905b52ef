#!/usr/bin/env python3
"""An LSTM of the size of the language models of experiments/compare, to compare with: PyTorch, no part of the product.

    experiments/compare/lstm_baseline.py TEXT VALIDATION TEST [--characters 20M] [--hidden 460] [--seed 1]

Bytes, an embedding of 128, two layers of 460 (2.95M weights), 16 streams of which it reads 256 characters a step and
carries its state on, AdamW at 1e-3 with a warm-up of 500 steps and cosine, gradients clipped at 0.25. Prints one JSON line.
"""

import baseline
import torch


class Model(torch.nn.Module):
    def __init__(self, hidden, dropout):
        super().__init__()
        self.embedding = torch.nn.Embedding(baseline.BYTES, 128)
        self.lstm = torch.nn.LSTM(128, hidden, 2, dropout=dropout, batch_first=True)
        self.dropout = torch.nn.Dropout(dropout)
        self.output = torch.nn.Linear(hidden, baseline.BYTES)

    def forward(self, ids, state=None):
        rows, state = self.lstm(self.dropout(self.embedding(ids)), state)
        return self.output(self.dropout(rows)), tuple(part.detach() for part in state)


def main():
    parser = baseline.options(__doc__)
    parser.add_argument("--hidden", type=int, default=460)
    chosen = baseline.parsed(parser)
    baseline.train(Model(chosen.hidden, baseline.dropout_of(chosen.text)), chosen, segment=256, carries_state=True)


if __name__ == "__main__":
    main()
