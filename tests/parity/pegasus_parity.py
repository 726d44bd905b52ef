#!/usr/bin/env python3
"""Compares BigBird-Pegasus, Pegasus, PegasusX and mBART of longformer_cpp with `transformers` on random models.

    python3 tests/parity/pegasus_parity.py [--count 60] [--seed 3] [--only INDEX,…]

The models whose norms come before the sub-layers, with the comparisons of generation_parity.py: logits, token ids and
scores of `generate`, losses, gradients, and heads for questions where `transformers` has one. Documents run alone
in `transformers`, which makes something else of a document that is padded with BigBird's blocks. Exit code 1 for a
difference; a NaN is.
"""

import json
import pathlib
import random
import sys
import tempfile
import types

import block_parity
import generation_parity
import longformer_cpp
import torch
import transformers
from safetensors.torch import load_file, save_file

KINDS = ("BigBirdPegasus", "Pegasus", "BigBirdPegasus", "MBart", "PegasusX")


class Case(generation_parity.Case):
    """A random model of one of the four families."""

    @staticmethod
    def kind_of(index):
        return KINDS[index % len(KINDS)]

    def config_of(self, sizes):
        rng = self.rng
        self.text_rows = self.rows
        is_mbart = self.kind == "MBart"
        self.tokens = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2} if is_mbart else {
            "pad_token_id": 0, "eos_token_id": 1}  # fmt: skip
        self.starts = (3, 5) if is_mbart else (0, 2)
        own = {}
        if self.kind == "BigBirdPegasus":
            own = {"block_size": rng.choice([2, 3, 4, 8, 16]), "num_random_blocks": rng.randint(1, 3),
                   "attention_type": rng.choice(["block_sparse"] * 4 + ["original_full"]),
                   "use_bias": rng.random() < 0.3, "activation_function": rng.choice(["gelu_new", "relu"]),
                   "decoder_start_token_id": rng.choice([2, 3])}  # fmt: skip
        elif self.kind == "PegasusX":
            own = {"block_size": rng.choice([2, 4, 6, 16, 64]), "num_global_tokens": rng.choice([1, 2, 5, 32]),
                   "stagger_local_blocks": rng.random() < 0.8}  # fmt: skip
        if self.kind in ("Pegasus", "PegasusX", "MBart"):
            own["forced_eos_token_id"] = None
        config = getattr(transformers, f"{self.kind}Config")
        return config(max_position_embeddings=self.rows, scale_embedding=rng.random() < 0.5,
                      **{**sizes, **own})  # fmt: skip

    def ids(self, count):
        """The first token of a text of an mBART counts: padding has no language."""
        found = super().ids(count)
        return [2 if i == 0 and token == 1 else token for i, token in enumerate(found)]

    def describe(self):
        config = self.config
        names = ("attention_type", "block_size", "num_random_blocks", "use_bias", "num_global_tokens", "stagger_local_blocks")
        own = {name: getattr(config, name) for name in names if hasattr(config, name)}
        return f"{super().describe()} {own}"

    def before(self, model):
        """A short document switches blocks off for good."""
        if self.kind == "BigBirdPegasus":
            model.model.encoder.set_attention_type(self.config.attention_type)

    def padded_differ(self):
        return self.kind == "BigBirdPegasus"

    def has_questions(self):
        return self.kind in ("BigBirdPegasus", "MBart")

    def save(self, folder):
        super().save(folder)
        if self.kind != "Pegasus" or self.index % 2:
            return
        # Older files have no sines and cosines: whoever reads them makes them.
        file = pathlib.Path(folder, "model.safetensors")
        kept = {n: t.clone() for n, t in load_file(file).items() if "embed_positions" not in n}
        save_file(kept, file, metadata={"format": "pt"})

    def compare_more(self, table, model, theirs):
        """A padded batch of `transformers`, where padding changes no block."""
        dense = (5 + 2 * getattr(self.config, "num_random_blocks", 0)) * getattr(self.config, "block_size", 0)
        has_blocks = self.kind == "BigBirdPegasus" and self.config.attention_type == "block_sparse"
        if has_blocks and max(len(ids) for ids, _, _ in self.documents) > dense:
            return
        ids, masks, _ = zip(*self.documents, strict=True)
        ids, mask = generation_parity.fill(ids, self.pad), generation_parity.fill(masks, 0)
        longest = max(map(len, self.texts))
        texts = [text + [2] * (longest - len(text)) for text in self.texts]
        with torch.inference_mode():
            out = self.run(theirs, input_ids=ids, attention_mask=mask, decoder_input_ids=torch.tensor(texts))
        found = model.text_logits(ids.numpy(), texts, attention_mask=mask.numpy())
        table.compare(f"{self.kind} logits of a padded batch", self, found, list(out.logits.numpy()), 2e-4)

    @staticmethod
    def compare_once(table):
        """Folders of `finetune` in `transformers`, and losses while blocks are drawn."""
        for kind, tokens in (("BigBirdPegasus", 1024), ("BigBirdPegasus", 700), ("BigBirdPegasus", 333),
                             ("BigBirdPegasus", 100), ("Pegasus", 100), ("PegasusX", 100), ("MBart", 100)):  # fmt: skip
            compare_training(table, kind, tokens)


def compare_training(table, kind, tokens):
    """The loss of `finetune` with a rate of 0 is that of `model.train()`, which draws blocks with numpy; the folder is whole."""
    sizes = {"vocab_size": 40, "d_model": 32, "encoder_layers": 3, "decoder_layers": 1, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 1024,
             "dropout": 0.0, "pad_token_id": 0}  # fmt: skip
    own = {"block_size": 16, "num_random_blocks": 3} if kind == "BigBirdPegasus" else {"block_size": 16} if kind == "PegasusX" else {}
    case = types.SimpleNamespace(index=tokens, describe=lambda: f"{kind}, {tokens} tokens")
    model_class = getattr(transformers, f"{kind}ForConditionalGeneration")
    with tempfile.TemporaryDirectory() as place:
        folder, data, out = (pathlib.Path(place, name) for name in ("model", "data.jsonl", "out"))
        torch.manual_seed(tokens)
        model = model_class(getattr(transformers, f"{kind}Config")(**sizes, **own))
        generation_parity.draw(model, 0.4)
        model.save_pretrained(folder)
        block_parity.write_tokenizer(folder)
        draw = random.Random(tokens)
        pairs = [[[draw.randrange(3, 40) for _ in range(count - 2)] for count in (tokens, 12)] for _ in range(2)]
        words = [[" ".join(f"w{i}" for i in ids) for ids in pair] for pair in pairs]
        data.write_text("".join(json.dumps({"text": a, "summary": b}) + "\n" for a, b in words))
        result = longformer_cpp.finetune(folder, data, out, task="seq2seq", max_steps=1, learning_rate=1e-12,
                                         per_device_train_batch_size=2, logging_steps=1)  # fmt: skip
        ids, labels = (torch.tensor([[1, *pair[i], 2] for pair in pairs]) for i in (0, 1))
        call = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
        double, loading = model_class.from_pretrained(out, dtype=torch.float64, output_loading_info=True)
        with torch.inference_mode():
            drawn, still = double.train()(**call).loss.item(), double.eval()(**call).loss.item()
    for keys in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if loading[keys]:
            table.failures.append(f"{kind}: {keys}: {sorted(map(str, loading[keys]))}")
    table.record(f"{kind} loss of finetune", case, abs(result.loss - drawn), 1e-4)
    if kind == "BigBirdPegasus" and tokens > 176 and abs(drawn - still) < 1e-4:
        table.failures.append(f"{tokens} tokens: drawn blocks change nothing")


if __name__ == "__main__":
    sys.exit(generation_parity.main(Case, __doc__.splitlines()[0], "pegasus_parity"))
