#!/usr/bin/env python3
"""Compares decoders that see few rows of a document with `transformers`, whose decoders get means of neighbours.

    python3 tests/parity/source_rows_parity.py [--count 40] [--seed 7] [--only INDEX,…]

The cases of generation_parity.py with `cross_attention_rows` in config.json: before each pass the decoder of
`transformers` has the states of the encoder, and their mask, replaced by means over the visible ones of as many
neighbours as leave at most so many rows. Logits, losses, gradients, and token ids of `generate`. Exit code 1 for a
difference; a NaN is.
"""

import functools
import json
import pathlib
import sys

import generation_parity
import torch


def means(hidden, mask, most):
    """Rows of each document [batch, ⌈n / window⌉, D], and which of them stand for something."""
    n = hidden.shape[1]
    window = -(-n // most)
    rows, seen = [], []
    for begin in range(0, n, window):
        part = mask[:, begin : begin + window, None].to(hidden.dtype)
        rows.append((hidden[:, begin : begin + window] * part).sum(1) / part.sum(1).clamp(min=1))
        seen.append(mask[:, begin : begin + window].amax(1))
    return torch.stack(rows, 1), torch.stack(seen, 1)


class Case(generation_parity.Case):
    def __init__(self, index, seed):
        super().__init__(index, seed)
        self.most = self.rng.choice([1, 2, 3, 7, 16, 64, 1000])

    def save(self, folder):
        super().save(folder)
        path = pathlib.Path(folder, "config.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"cross_attention_rows": self.most}))

    def before(self, model):
        decoder = model.get_decoder()
        if getattr(decoder, "sees_few_rows", False):
            return
        decoder.sees_few_rows = True
        forward = decoder.forward

        @functools.wraps(forward)
        def with_means(*arguments, encoder_hidden_states=None, encoder_attention_mask=None, **more):
            if encoder_attention_mask is None:
                encoder_attention_mask = torch.ones(encoder_hidden_states.shape[:2], dtype=torch.long)
            hidden, mask = means(encoder_hidden_states, encoder_attention_mask, self.most)
            return forward(*arguments, encoder_hidden_states=hidden, encoder_attention_mask=mask, **more)

        decoder.forward = with_means

    def run(self, model, **tensors):
        self.before(model)
        return model(**tensors)

    def padded_differ(self):
        return True

    def has_questions(self):
        return False

    def describe(self):
        return f"{super().describe()}, at most {self.most} rows"


if __name__ == "__main__":
    sys.exit(generation_parity.main(Case, __doc__.splitlines()[0], "source_rows_parity"))
