"""Compares encoders of the Sparse Transformer with `transformers`, whose BERT and RoBERTa get a mask for each head and layer.

    python3 tests/parity/sparse_encoder_parity.py PROGRAM [--count 48] [--seed 5] [--only INDEX,…]

Random models, both patterns and all ways to put near and far keys together: hidden states, probabilities, heads, losses
and gradients. transformers runs in double precision too, and its own rounding is not held against us. Masked tokens,
queries that see nothing, and lists of documents are among the cases. `convert` makes the encoder of each model; one
whose stride is as long as the text has the numbers of the source. Exit code 1 when a difference is too large; a NaN is.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import block_parity
import longformer_cpp
import masked_heads
import model_parity
import numpy
import random_models
import torch
import transformers

HEADS = ("", "", "MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
VOCABULARY = 97


def draw(index, decks):
    heads = decks.deal("heads", (2, 3, 4, 6))
    keys = {
        "pattern": decks.deal("pattern", ("strided", "fixed")),
        "stride": decks.deal("stride", (2, 3, 5, 8, 16, 32, 33, 64, 600)),
        "integration": decks.deal("integration", ("merged", "interleaved", "heads")),
    }
    if keys["pattern"] == "fixed":
        keys["summary"] = min(keys["stride"], decks.deal("summary", (1, 2, 3, 8, 500)))
        keys["summary_by_head"] = decks.deal("summary by head", (True, True, False))
    base = decks.deal("base", ("bert", "roberta"))
    head = decks.deal("head", HEADS)
    config = {
        "vocab_size": VOCABULARY, "hidden_size": decks.deal("head size", (4, 8, 24)) * heads,
        "num_hidden_layers": decks.deal("layers", (1, 2, 3)), "num_attention_heads": heads,
        "intermediate_size": decks.deal("wide", (24, 130)), "max_position_embeddings": 600, "pad_token_id": int(base == "roberta"),
        "type_vocab_size": 2, "num_labels": 2 if head == "QuestionAnswering" else 3,
    }  # fmt: skip
    tokens = decks.deal("length", (1, 5, 16, 31, 120, 257, 500))
    return types.SimpleNamespace(
        index=index,
        base=base,
        keys=keys,
        config=config,
        head=head,
        tokens=tokens,
        mask=decks.deal("mask", (None, None, "holes")),
        describe=lambda: f"{base} {keys} {config} {tokens} tokens",
    )


def save(case, folder, program, seed):
    """The model, and the encoder that `convert` makes of it."""
    masked_heads.save_source(case, folder, seed)
    options = [word for key in ("pattern", "stride", "integration", "summary") if key in case.keys
               for word in (f"--{key}", str(case.keys[key]))]  # fmt: skip
    subprocess.run([program, "convert", f"{folder}/source", f"{folder}/target", "--to", "sparse", *options], check=True,
                   capture_output=True)  # fmt: skip
    path = pathlib.Path(folder, "target", "config.json")
    written = json.loads(path.read_text())
    expected = case.keys | ({"summary_by_head": True} if "summary" in case.keys else {})
    assert written["model_type"] == "sparse" and {key: written[key] for key in expected} == expected, written
    path.write_text(json.dumps(written | case.keys))


def columns_of(case, number, tokens):
    """[n]: whether all heads that see the columns of this number see token j: those of each block, from its end."""
    stride, summary = case.keys["stride"], case.keys["summary"]
    is_column = torch.zeros(tokens, dtype=torch.bool)
    for begin in range(0, tokens, stride):
        block = list(range(begin, min(begin + stride, tokens)))[::-1]
        is_column[block[number * summary : (number + 1) * summary]] = True
    return is_column


def visible(case, layer, seen):
    """[heads, n, n]: query i sees key j."""
    n, heads, stride, integration = len(seen), case.config["num_attention_heads"], case.keys["stride"], case.keys["integration"]
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    masks = []
    for head in range(heads):
        near = integration == "merged" or (layer % 2 == 0 if integration == "interleaved" else head < (heads + 1) // 2)
        far = integration == "merged" or not near
        sees = torch.zeros(n, n, dtype=torch.bool)
        if case.keys["pattern"] == "strided":
            sees |= near & ((i - j).abs() < stride)
            sees |= far & ((i - j) % stride == 0)
        else:
            sees |= near & (i // stride == j // stride)
            number = head - ((heads + 1) // 2 if integration == "heads" else 0)
            sets = stride // case.keys["summary"] if case.keys["summary_by_head"] else 1
            if far:
                sees |= columns_of(case, number % sets, n)[None, :]
        masks.append(sees & (seen != 0)[None, :])
    return torch.stack(masks)


def call_of(case, generator):
    shape = (1, 3, case.tokens) if case.head == "MultipleChoice" else (1, case.tokens)
    ids = torch.randint(6, VOCABULARY, shape, generator=generator)
    seen = torch.ones(shape, dtype=torch.long)
    if case.mask == "holes":
        seen = (torch.rand(shape, generator=generator) < 0.7).long()
        # Masked tokens behind the last one are padding, which is not of the text.
        seen[..., [0, -1]] = 1
    return {"input_ids": ids, "attention_mask": seen}


@contextlib.contextmanager
def nothing_seen_is_zero():
    """A softmax over nothing is a mean of all values in transformers; here it is 0."""
    original = torch.nn.functional.softmax

    def softmax(x, dim, dtype=None):
        blind = x.amax(dim, keepdim=True) < torch.finfo(x.dtype).min / 2
        return original(x.masked_fill(blind, 0), dim=dim, dtype=dtype).masked_fill(blind, 0)

    torch.nn.functional.softmax = softmax
    try:
        yield
    finally:
        torch.nn.functional.softmax = original


def run_theirs(case, folder, call, dtype, targets=None):
    model = masked_heads.source(case, folder, dtype)

    def with_mask(layer):
        rows = call["attention_mask"].reshape(-1, case.tokens)
        mask = torch.stack([torch.zeros((), dtype=dtype).masked_fill(~visible(case, layer, seen), torch.finfo(dtype).min) for seen in rows])
        return lambda module, arguments, named: (arguments[:1], named | {"attention_mask": mask})

    base = getattr(model, "bert", getattr(model, "roberta", model))
    for number, layer in enumerate(base.encoder.layer):
        layer.attention.self.register_forward_pre_hook(with_mask(number), with_kwargs=True)
    with nothing_seen_is_zero(), model_parity.softmax_in_input_precision():
        return model, model(**call, output_hidden_states=True, output_attentions=True, **(targets or {}))


def compare_bf16(table, case, folder, call):
    """Errors in bf16, of the last hidden states: those of transformers with the same masks are as large."""
    with torch.inference_mode():
        exact = run_theirs(case, folder, call, torch.float64)[1].last_hidden_state.numpy()
        narrow = run_theirs(case, folder, call, torch.bfloat16)[1].last_hidden_state.float().numpy()
    found = longformer_cpp.load(f"{folder}/target", dtype="bf16")(**{k: v.numpy() for k, v in call.items()}).last_hidden_state
    rows = call["attention_mask"].numpy() != 0
    theirs = model_parity.largest_difference([narrow[rows]], [exact[rows]])
    ours = model_parity.largest_difference([numpy.asarray(found)[rows]], [exact[rows]])
    few = rows.sum() < model_parity.FEW_ROWS
    factor = model_parity.BF16_FACTOR_OF_FEW if few else model_parity.BF16_FACTOR
    table.record("error in bf16, as a part of what is allowed", case, ours / (factor * theirs + model_parity.BF16_SLACK), 1)


def run_case(table, case, program, seed):
    generator = torch.Generator().manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        save(case, folder, program, seed)
        call = call_of(case, generator)
        masked_heads.compare_values(table, case, folder, call, run_theirs)
        # An answer in a text of one token has no choice, and no gradient.
        if case.head and case.mask is None and not (case.head == "QuestionAnswering" and case.tokens == 1):
            masked_heads.compare_gradients(table, case, folder, call, block_parity.targets_of(case, generator), run_theirs)
        if not case.head:
            same = "a stride as long as the text, and the source" if case.keys["integration"] == "merged" and case.keys["stride"] >= case.tokens else ""
            masked_heads.compare_lists(table, case, folder, call, same)
            compare_bf16(table, case, folder, call)


def main():
    options, cases = random_models.deck(__doc__, count=48, seed=5, draw=draw)
    table = model_parity.Table()
    table.run(cases, options.only, lambda case: run_case(table, case, options.program, options.seed * 1013 + case.index))
    table.print()
    return table.end(f"{len(cases)} cases against transformers {transformers.__version__}, seed {options.seed}")


if __name__ == "__main__":
    sys.exit(main())
