"""Compares BlockBERT with `transformers`, whose BERT and RoBERTa get a mask of blocks for each head, on random models.

    python3 tests/parity/blockwise_parity.py PROGRAM [--count 40] [--seed 3] [--only INDEX,…]

Hidden states, probabilities, heads, losses and gradients; transformers runs in double precision too, and its own rounding
is not held against us. Masked tokens and lists of documents are among the cases. `convert` makes a BlockBERT of each
model; that of one block has the numbers of the source. Exit code 1 when a difference is too large; a NaN is.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import types

import block_parity
import masked_heads
import model_parity
import random_models
import torch
import transformers

HEADS = ("", "", "MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering")
VOCABULARY = 97


def draw(index, decks):
    heads = decks.deal("heads", (2, 3, 6, 12))
    blocks = min(heads, decks.deal("blocks", (2, 3, 2, 4, 1, 5)))
    of_shift = [max(1, heads // 6)] * blocks
    of_shift[0] = heads - sum(of_shift[1:])
    if decks.deal("heads of blocks", ("usual", "usual", "given")) == "given":
        of_shift.reverse()
    base = decks.deal("base", ("bert", "roberta"))
    config = {
        "vocab_size": VOCABULARY, "hidden_size": decks.deal("head size", (4, 8, 24)) * heads,
        "num_hidden_layers": decks.deal("layers", (1, 2, 3)), "num_attention_heads": heads,
        "intermediate_size": decks.deal("wide", (24, 130)), "max_position_embeddings": 600, "pad_token_id": int(base == "roberta"),
        "type_vocab_size": 2, "num_labels": 3,
    }  # fmt: skip
    tokens = max(blocks, decks.deal("length", (5, 16, 31, 120, 257, 500)))
    head = decks.deal("head", HEADS)
    if head == "QuestionAnswering":
        config["num_labels"] = 2
    return types.SimpleNamespace(
        index=index,
        base=base,
        blocks=of_shift,
        config=config,
        head=head,
        tokens=tokens,
        mask=decks.deal("mask", (None, None, "holes")),
        describe=lambda: f"{base} {of_shift} {config} {tokens} tokens",
    )


def save(case, folder, program, seed):
    """The model, and the BlockBERT that `convert` makes of it."""
    masked_heads.save_source(case, folder, seed)
    heads = ["--blocks", str(len(case.blocks)), "--block-heads", ",".join(map(str, case.blocks))]
    subprocess.run([program, "convert", f"{folder}/source", f"{folder}/target", "--to", "blockwise", *heads], check=True,
                   capture_output=True)  # fmt: skip
    written = json.loads(pathlib.Path(folder, "target", "config.json").read_text())
    assert written["model_type"] == "blockwise" and written["block_heads"] == case.blocks, written


def visible(case, seen):
    """[heads, n, n]: query i sees key j."""
    n, blocks = case.tokens, len(case.blocks)
    block = torch.arange(n) * blocks // n
    shifts = torch.tensor([shift for shift, heads in enumerate(case.blocks) for _ in range(heads)])
    to = (block[None, :, None] + shifts[:, None, None]) % blocks
    return (to == block[None, None, :]) & (seen[None, None, :] != 0)


def call_of(case, generator):
    ids = torch.randint(6, VOCABULARY, (1, case.tokens), generator=generator)
    seen = torch.ones(case.tokens, dtype=torch.long)
    if case.mask == "holes":
        seen = (torch.rand(case.tokens, generator=generator) < 0.7).long()
        # A block without a visible token would be seen as a mean by transformers, and as nothing here.
        n, blocks = case.tokens, len(case.blocks)
        for block in range(blocks):
            seen[-(-block * n // blocks)] = 1
        # Masked tokens behind the last one are padding, which is not of the text.
        seen[-1] = 1
    return {"input_ids": ids, "attention_mask": seen[None]}


def run_theirs(case, folder, call, dtype, targets=None):
    model = masked_heads.source(case, folder, dtype)
    mask = torch.zeros((1, len(visible(case, call["attention_mask"][0])), case.tokens, case.tokens), dtype=dtype)
    mask.masked_fill_(~visible(case, call["attention_mask"][0])[None], torch.finfo(dtype).min)
    with model_parity.softmax_in_input_precision():
        return model, model(input_ids=call["input_ids"], attention_mask=mask, output_hidden_states=True,
                            output_attentions=True, **(targets or {}))  # fmt: skip


def run_case(table, case, program, seed):
    generator = torch.Generator().manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        save(case, folder, program, seed)
        call = call_of(case, generator)
        masked_heads.compare_values(table, case, folder, call, run_theirs)
        if case.head and case.mask is None:
            masked_heads.compare_gradients(table, case, folder, call, block_parity.targets_of(case, generator), run_theirs)
        if not case.head:
            same = "one block, and the source" if len(case.blocks) == 1 else ""
            masked_heads.compare_lists(table, case, folder, call, same)


def main():
    options, cases = random_models.deck(__doc__, count=40, seed=3, draw=draw)
    table = model_parity.Table()
    table.run(cases, options.only, lambda case: run_case(table, case, options.program, options.seed * 1013 + case.index))
    table.print()
    return table.end(f"{len(cases)} cases against transformers {transformers.__version__}, seed {options.seed}")


if __name__ == "__main__":
    sys.exit(main())
