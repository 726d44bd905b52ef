"""Compares BigBird with `transformers` on random models: hidden states, heads, losses, gradients, and drawn blocks.

    python3 tests/parity/block_parity.py PROGRAM [--count 48] [--seed 2] [--only INDEX,…]

One document at a time, and a model of `transformers` for each of them: it pads all documents of a batch to one number
of blocks, and after a short document its layers see everything for good. Here a list of documents is compared with
each alone. `transformers` also runs in double precision; its own rounding is not held against us. While training it
draws blocks with numpy: the losses of `finetune` without dropout and with a rate of 0 are compared with those of
`model.train()`. `convert` makes a BigBird of a BERT, and a Longformer of a BigBird. Exit code 1 when a difference is too large; a NaN is.
"""

import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import types

import longformer_cpp
import model_parity
import numpy
import random_models
import torch
import transformers

HEADS = ("", "", "MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
OUTPUTS = ("last_hidden_state", "pooler_output", "logits", "start_logits", "end_logits")
SEPARATOR, VOCABULARY = 5, 97
# Texts whose losses in training are compared; numpy draws otherwise for the first.
TRAINED_TOKENS = (1024, 700, 333)


def draw(index, decks):
    """A case: a configuration, and a document whose length lies around that from which blocks count."""
    head_size = decks.deal("head size", (8, 16, 32, 64, 80))
    heads = decks.deal("heads", (1, 2, 3))
    block = decks.deal("block", (2, 3, 8, 16, 64))
    drawn = decks.deal("random blocks", (1, 2, 3))
    dense = (5 + 2 * drawn) * block
    length = decks.deal("length", ("one", 0.4, 1.0, 1.01, 1.3, 2.0, 2.03, 4.4))
    tokens = 1 if length == "one" else max(1, math.ceil(dense * length))
    config = {
        "vocab_size": VOCABULARY, "hidden_size": head_size * heads, "num_hidden_layers": decks.deal("layers", (1, 2, 3)),
        "num_attention_heads": heads, "intermediate_size": decks.deal("wide", (24, 130)), "block_size": block,
        "num_random_blocks": drawn, "hidden_act": decks.deal("activation", ("gelu_new", "gelu", "relu", "silu")),
        "max_position_embeddings": 64 * ((tokens + block) // 64 + 1) * block, "type_vocab_size": decks.deal("types", (2, 16)),
        "layer_norm_eps": decks.deal("epsilon", (1e-12, 1e-5)), "use_bias": decks.deal("bias", (True, True, False)),
        "rescale_embeddings": decks.deal("scale", (False, False, True)), "sep_token_id": SEPARATOR,
        "attention_type": decks.deal("type", ("block_sparse",) * 7 + ("original_full",)), "num_labels": 3,
    }  # fmt: skip
    return types.SimpleNamespace(
        index=index,
        config=config,
        head=decks.deal("head", HEADS),
        tokens=tokens,
        mask=decks.deal("mask", (None, None, "holes", "stretch")),
        describe=lambda: f"{config} {tokens} tokens",
    )


def save(case, folder, seed, deviation=0.15):
    torch.manual_seed(seed)
    config = transformers.BigBirdConfig(**case.config)
    name = f"BigBirdFor{case.head}" if case.head else "BigBirdModel"
    model = getattr(transformers, name)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, deviation) if parameter.dim() > 1 else parameter.normal_(0.5, 0.3)
    model.save_pretrained(folder)
    return name


def documents_of(case, generator):
    """Arguments of the call, [1, n] or, for choices, [1, choices, n]."""
    shape = (1, 3, case.tokens) if case.head == "MultipleChoice" else (1, case.tokens)
    ids = torch.randint(6, VOCABULARY, shape, generator=generator)
    ids[..., min(7, case.tokens - 1)] = SEPARATOR
    call = {"input_ids": ids}
    call["attention_mask"] = torch.ones_like(ids)
    if case.mask == "holes":
        call["attention_mask"] = (torch.rand(shape, generator=generator) < 0.7).long()
    if case.mask == "stretch":
        call["attention_mask"][..., case.tokens // 3 : case.tokens // 2] = 0
    # Masked tokens behind the last one are padding, which counts in the blocks of transformers, and not here.
    call["attention_mask"][..., [0, -1]] = 1
    if case.head != "QuestionAnswering":
        call["token_type_ids"] = torch.randint(0, case.config["type_vocab_size"], shape, generator=generator)
    return call


def targets_of(case, generator):
    n = case.tokens
    return {
        "MaskedLM": lambda: {"labels": torch.randint(0, VOCABULARY, (1, n), generator=generator)},
        "SequenceClassification": lambda: {"labels": torch.tensor([2])},
        "TokenClassification": lambda: {"labels": torch.randint(0, 3, (1, n), generator=generator)},
        "QuestionAnswering": lambda: {"start_positions": torch.tensor([n - 1]), "end_positions": torch.tensor([n - 1])},
        "MultipleChoice": lambda: {"labels": torch.tensor([1])},
    }[case.head]()


def run_theirs(name, folder, call, dtype):
    model = getattr(transformers, name).from_pretrained(folder, dtype=dtype).eval()
    with torch.inference_mode(), model_parity.softmax_in_input_precision():
        out = model(**call, output_hidden_states=True)
    values = {key: value.numpy() for key in OUTPUTS if (value := getattr(out, key, None)) is not None}
    values["hidden_states"] = [states.numpy()[:, : call["input_ids"].shape[-1]] for states in out.hidden_states]
    return values


def run_ours(folder, call):
    # The types of a question and its text are those that transformers makes of the first separator.
    call = dict(call)
    if "token_type_ids" not in call:
        ends = (call["input_ids"] == SEPARATOR).long().argmax(-1) + 1
        call["token_type_ids"] = (torch.arange(call["input_ids"].shape[-1]) >= ends[..., None]).long()
    out = longformer_cpp.load(folder)(**{k: v.numpy() for k, v in call.items()}, output_hidden_states=True)
    values = {key: numpy.asarray(value) for key in OUTPUTS if (value := getattr(out, key, None)) is not None}
    values["hidden_states"] = [numpy.asarray(states) for states in out.hidden_states]
    return values


def seen(value, mask, is_rows):
    value = value.reshape(-1, value.shape[-1]) if is_rows else value
    return value[mask.reshape(-1) != 0] if is_rows else value


def compare(table, case, ours, fp32, double, mask):
    for key, expected in double.items():
        if key == "pooler_output" and case.head:
            continue
        pairs = zip(ours[key], fp32[key], expected) if key == "hidden_states" else [(ours[key], fp32[key], expected)]
        rows = key in ("last_hidden_state", "hidden_states") or case.head in ("MaskedLM", "TokenClassification")
        for found, rounded, exact in pairs:
            if "logits" in key and key != "logits":
                found, rounded, exact = (numpy.asarray(x).reshape(-1, 1) for x in (found, rounded, exact))
                rows = True
            found, rounded, exact = (seen(numpy.asarray(x), mask, rows) for x in (found, rounded, exact))
            # Hidden answers have logits of a million, whose last place in fp32 is 0.06.
            keep = numpy.abs(exact) < 1e5
            rounding = model_parity.largest_difference([rounded[keep]], [exact[keep]])
            difference = model_parity.largest_difference([found[keep]], [exact[keep]])
            table.record((key, model_parity.THEIR_ROUNDING), case, rounding, math.inf)
            to_theirs = model_parity.largest_difference([found[keep]], [rounded[keep]])
            table.record((key, model_parity.OURS_TO_FP32), case, to_theirs, math.inf)
            table.record((key, model_parity.OURS_TO_DOUBLE), case, difference, max(1e-4, 2 * rounding))
            if not (numpy.abs(found[~keep] / exact[~keep] - 1) < 1e-3).all():
                table.failures.append(f"{key}: hidden answers: {model_parity.label(case)}")


def compare_gradients(table, case, name, folder, call, targets):
    def gradients(dtype):
        model = getattr(transformers, name).from_pretrained(folder, dtype=dtype).eval()
        with model_parity.softmax_in_input_precision():
            loss = model(**call, **targets).loss
        loss.backward()
        return loss.item(), {key: p.grad.numpy() for key, p in model.named_parameters() if p.grad is not None}

    given = {k: v.numpy() for k, v in call.items()}
    if "token_type_ids" not in given:
        ends = int((call["input_ids"][0] == SEPARATOR).long().argmax()) + 1
        given["token_type_ids"] = (numpy.arange(case.tokens) >= ends).astype(int)[None]
    found = longformer_cpp.loss_and_gradients(
        longformer_cpp.load(folder), **given, **{k: v.numpy() for k, v in targets.items()}
    )
    table.compare_gradients(case, found, gradients(torch.float64), gradients(torch.float32))


def compare_attentions(table, case, name, folder, call):
    """Probabilities; those of the first block stand once in transformers, which gives it 1 + num_random_blocks of them."""
    n, size, drawn = case.tokens, case.config["block_size"], case.config["num_random_blocks"]
    is_dense = n <= (5 + 2 * drawn) * size or case.config["attention_type"] == "original_full"
    # Layers that change to dense attention by themselves return no probabilities.
    kind = {"attention_type": "original_full"} if is_dense else {}
    model = getattr(transformers, name).from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **kind)
    with torch.inference_mode(), model_parity.softmax_in_input_precision():
        expected = model.eval()(**call, output_attentions=True).attentions
    found = longformer_cpp.load(folder)(**{k: v.numpy() for k, v in call.items()}, output_attentions=True).attentions
    for theirs, ours in zip(expected, found, strict=True):
        right = theirs[0, :, :n, :n].numpy().copy()
        if not is_dense:
            right[:, size : (n - 1) // size * size, :size] *= 1 + drawn
        table.compare("probabilities", case, [numpy.asarray(ours[0])], [right], 1e-5)


def run_case(table, case, seed):
    generator = torch.Generator().manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        name = save(case, folder, seed)
        call = documents_of(case, generator)
        wide = run_theirs(name, folder, call, torch.float64)
        compare(table, case, run_ours(folder, call), run_theirs(name, folder, call, torch.float32), wide,
                call["attention_mask"].numpy())  # fmt: skip
        if case.head and case.mask is None:
            compare_gradients(table, case, name, folder, call, targets_of(case, generator))
        if not case.head and case.mask is None and case.tokens < 1500:
            compare_attentions(table, case, name, folder, call)
        if not case.head:
            ids = call["input_ids"][0].numpy()
            pair = [ids, ids[: max(1, len(ids) // 3)]]
            model = longformer_cpp.load(folder)
            together = model(input_ids=pair).last_hidden_state
            for one, states in zip(pair, together):
                alone = model(input_ids=[one]).last_hidden_state[0]
                table.compare("list of documents, one at a time", case, [states], [alone], 1e-5)


def compare_training(table, program):
    """Losses of `finetune` with a rate of 0, and those of transformers while it draws blocks."""
    config = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
              "intermediate_size": 48, "block_size": 16, "num_random_blocks": 3, "max_position_embeddings": 1024,
              "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}  # fmt: skip
    for tokens in TRAINED_TOKENS:
        case = types.SimpleNamespace(index=tokens, head="SequenceClassification",
                                     config=config | {"num_labels": 2}, describe=lambda: f"{tokens} tokens")  # fmt: skip
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place, "model")
            name = save(case, folder, tokens, 0.5)
            write_tokenizer(folder)
            draw = random.Random(tokens)
            texts = [[draw.randrange(3, 40) for _ in range(tokens - 2)] for _ in range(2)]
            data = pathlib.Path(place, "data.jsonl")
            rows = [{"text": " ".join(f"w{i}" for i in text), "label": f"LABEL_{label}"} for label, text in enumerate(texts)]
            data.write_text("".join(json.dumps(row) + "\n" for row in rows))
            log = subprocess.run(
                [program, "finetune", folder, data, "--per-device-train-batch-size", "2", "--max-steps", "1", "--learning-rate", "1e-12",
                 "--logging-steps", "1", "--json", "--output-dir", pathlib.Path(place, "out")],
                stdout=subprocess.PIPE, text=True, check=True).stdout  # fmt: skip
            losses = [row["loss"] for row in map(json.loads, log.splitlines()) if "loss" in row]
            model = getattr(transformers, name).from_pretrained(folder, dtype=torch.float64).train()
            call = {"input_ids": torch.tensor([[1, *text, 2] for text in texts]), "labels": torch.tensor([0, 1])}
            with model_parity.softmax_in_input_precision():
                drawn = model(**call).loss.item()
                still = model.eval()(**call).loss.item()
            table.record("loss while blocks are drawn", case, abs(losses[0] - drawn), 1e-4)
            if abs(drawn - still) < 1e-3:
                table.failures.append(f"{tokens} tokens: drawn blocks change nothing")


def compare_conversions(table, program):
    """`convert` to and from BigBird: `transformers` loads all tensors, and short texts have the states of the source."""
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    ids = torch.randint(3, 40, (1, 40), generator=torch.Generator().manual_seed(4))
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**sizes, max_position_embeddings=64))
    blocks = transformers.BigBirdForMaskedLM(transformers.BigBirdConfig(**sizes, hidden_act="gelu"))
    for source, to, target in (
        (bert, ["--to", "big_bird"], transformers.BigBirdForMaskedLM),
        (blocks, ["--max-positions", "4096"], transformers.LongformerForMaskedLM),
    ):
        case = types.SimpleNamespace(index=target.__name__, describe=lambda: "a conversion")
        with tempfile.TemporaryDirectory() as place:
            source.save_pretrained(f"{place}/source")
            write_tokenizer(f"{place}/source")
            subprocess.run([program, "convert", f"{place}/source", f"{place}/target", *to], check=True, capture_output=True)
            model, loading = target.from_pretrained(f"{place}/target", output_loading_info=True)
            for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
                # A pooler is part of some classes for masked words, and not of others.
                if keys := [key for key in loading[kind] if ".pooler." not in str(key)]:
                    table.failures.append(f"{target.__name__}: {kind}: {sorted(keys)}")
            with torch.inference_mode():
                expected, found = (m.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits for m in (source, model))
        table.compare("short texts behind convert", case, [found.numpy()], [expected.numpy()], 1e-4)


def write_tokenizer(folder):
    words = {f"w{i}": i for i in range(3, 40)} | {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None,
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "[PAD]"},
    }  # fmt: skip
    pathlib.Path(folder, "tokenizer.json").write_text(json.dumps(tokenizer))


def main():
    options, cases = random_models.deck(__doc__, count=48, seed=2, draw=draw)
    table = model_parity.Table()
    table.run(cases, options.only, lambda case: run_case(table, case, options.seed * 1009 + case.index))
    compare_training(table, options.program)
    compare_conversions(table, options.program)
    table.print()
    return table.end(f"{len(cases)} cases against transformers {transformers.__version__}, seed {options.seed}")


if __name__ == "__main__":
    sys.exit(main())
