#!/usr/bin/env python3
"""A GPT with learned positions of the size of the small language models of experiments/compare: PyTorch, no part of the product.

    experiments/compare/gpt_baseline.py TEXT VALIDATION [--characters 2M] [--scale] [--seed 1]

Tells whether what models without relative positions do not learn is due to the program. Bytes, 4 layers of 128, 4 heads,
256 characters a row, 16 rows a step, AdamW at 1e-3 with warm-up and cosine, gradients clipped at 0.25, weights from N(0, 0.02);
--scale multiplies embeddings by the root of their size, as pretrain-lm does. Prints one JSON line.
"""

import argparse
import json
import math
import pathlib
import sys

import torch
from torch.nn import functional

WIDTH, LAYERS, HEADS, INNER, LENGTH, ROWS = 128, 4, 4, 512, 256, 16


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.query_key_value = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.output = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = torch.nn.Linear(WIDTH, INNER), torch.nn.Linear(INNER, WIDTH)
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, x):
        rows, n, _ = x.shape
        query, key, value = (self.query_key_value(self.attention_norm(x)).view(rows, n, 3, HEADS, WIDTH // HEADS)
                             .permute(2, 0, 3, 1, 4))  # fmt: skip
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.output(seen.transpose(1, 2).reshape(rows, n, WIDTH)))
        return x + self.dropout(self.down(functional.gelu(self.up(self.feed_forward_norm(x)))))


class Model(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = math.sqrt(WIDTH) if scale else 1.0
        self.embedding, self.positions = torch.nn.Embedding(256, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.layers = torch.nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.bias = torch.nn.Parameter(torch.zeros(256))
        for weight in self.parameters():
            if weight.dim() == 2:
                torch.nn.init.normal_(weight, 0, 0.02)

    def loss(self, ids):
        x = self.embedding(ids[:, :-1]) * self.scale + self.positions.weight[: ids.shape[1] - 1]
        logits = self.norm(self.layers(x)) @ self.embedding.weight.T + self.bias
        return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def text_of(path, most=None):
    return torch.tensor(list(pathlib.Path(path).read_bytes()[:most]), dtype=torch.long)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("validation")
    parser.add_argument("--characters", type=int, default=2_000_000)
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    for path in (chosen.text, chosen.validation):
        if not pathlib.Path(path).exists():
            sys.exit(f"error: {path}: expected a text, found nothing (language_models.py makes such files of LONGFORMER_DATA: docs/data.md)")
    torch.manual_seed(chosen.seed)
    text, validation = text_of(chosen.text), text_of(chosen.validation, 65537)
    model, steps = Model(chosen.scale), chosen.characters // (LENGTH * ROWS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    warm_up = min(500, steps // 5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(
        (step + 1) / warm_up, 0.5 * (1 + math.cos(math.pi * max(0, step - warm_up) / max(1, steps - warm_up)))))
    for _ in range(steps):
        begins = torch.randint(len(text) - LENGTH - 1, (ROWS,))
        loss = model.loss(torch.stack([text[begin:begin + LENGTH + 1] for begin in begins]))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        losses = [model.loss(validation[None, begin:begin + LENGTH + 1]).item()
                  for begin in range(0, len(validation) - LENGTH - 1, LENGTH)]
    print(json.dumps({"weights": sum(weight.numel() for weight in model.parameters()), "steps": steps,
                      "validation_loss": round(sum(losses) / len(losses), 4)}))


if __name__ == "__main__":
    main()
