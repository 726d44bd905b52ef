"""Compares the Funnel Transformer with `transformers` on random models: hidden states, heads, losses, gradients, pictures.

    python3 tests/parity/funnel_parity.py PROGRAM [--count 64] [--seed 2] [--only INDEX,…]

One document at a time: in a batch `transformers` pools the padding along, and leaves out the last token of the longest
document alone. Here a list of documents is compared with each alone. `transformers` also runs in double precision,
where its casts to fp32 are taken out; its own rounding is not held against us. States of pooled rows are compared with
those that we give to each of their tokens. Folders that `finetune` makes of one model for several tasks are loaded by
`transformers`. Exit code 1 when a difference is too large; a NaN is.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types

from funnel_models import POOLED, blocks_of_states, double_precision, rows_of_tokens, spread, token_states
import longformer_cpp
import model_parity
import numpy
import random_models
import torch
import transformers

HEADS = ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
CLASSES = ("Model", "Model", "BaseModel", *(f"For{head}" for head in HEADS))
OUTPUTS = ("logits", "start_logits", "end_logits")
VOCABULARY = 97


def draw(index, decks):
    blocks = decks.deal("blocks", (1, 2, 3, 3, 4))
    config = {
        "vocab_size": VOCABULARY, "d_model": decks.deal("width", (12, 32, 48)), "n_head": decks.deal("heads", (1, 2, 3)),
        "d_head": decks.deal("head size", (4, 8, 20)), "d_inner": decks.deal("wide", (24, 130)),
        "block_sizes": [decks.deal("layers of a block", (1, 2, 2, 3)) for _ in range(blocks)],
        "num_decoder_layers": decks.deal("decoder", (0, 1, 2, 2)), "hidden_act": decks.deal("activation", ("gelu_new", "gelu_new", "relu")),
        "pooling_type": decks.deal("pooling", ("mean", "mean", "max")), "separate_cls": decks.deal("apart", (True, True, False)),
        "attention_type": decks.deal("form", ("relative_shift", "factorized")), "truncate_seq": decks.deal("truncate", (True, True, False)),
        "pool_q_only": decks.deal("queries only", (True, True, False)), "layer_norm_eps": decks.deal("epsilon", (1e-9, 1e-5)),
        "num_labels": 3,
    }  # fmt: skip
    if decks.deal("repeats", (False, False, True)):
        config["block_repeats"] = [decks.deal("repeat", (1, 2, 3)) for _ in range(blocks)]
    case = types.SimpleNamespace(
        index=index,
        config=config,
        name="Funnel" + decks.deal("class", CLASSES),
        tokens=decks.deal("tokens", (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 30, 31, 33, 64, 101, 160)),
        mask=decks.deal("mask", (None, None, "holes", "stretch")),
        types=decks.deal("types", ("none", "one", "two", "all")),
        describe=lambda: f"{case.name} {case.tokens} tokens, mask {case.mask}, types {case.types}, {config}",
    )
    if "QuestionAnswering" in case.name:
        config["num_labels"] = 2
    if case.tokens <= 2 ** (blocks - 1):
        # The other form cannot go on when no more is pooled.
        config["attention_type"] = "factorized"
    return case


def save(case, folder, seed):
    torch.manual_seed(seed)
    model = getattr(transformers, case.name)(transformers.FunnelConfig(**case.config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = "layer_norm.weight" in name
            parameter.normal_(1.0, 0.2) if norm else parameter.normal_(0, 0.6 if "word" in name else 0.2)
    model.save_pretrained(folder)


def documents_of(case, generator):
    shape = (1, 3, case.tokens) if "MultipleChoice" in case.name else (1, case.tokens)
    call = {"input_ids": torch.randint(6, VOCABULARY, shape, generator=generator)}
    call["attention_mask"] = torch.ones(shape, dtype=torch.long)
    if case.mask == "holes":
        call["attention_mask"] = (torch.rand(shape, generator=generator) < 0.8).long()
    if case.mask == "stretch":
        call["attention_mask"][..., case.tokens // 3 : (2 * case.tokens + 1) // 3] = 0
    # Masked tokens behind the last one are padding.
    call["attention_mask"][..., [0, -1]] = 1
    if case.types != "none":
        call["token_type_ids"] = torch.zeros(shape, dtype=torch.long)
    if case.types == "two":
        call["token_type_ids"][..., case.tokens // 2 :] = 1
        call["token_type_ids"][..., 0] = 2
    if case.types == "all":
        call["token_type_ids"] = torch.randint(0, 3, shape, generator=generator)
    return call


def targets_of(case, generator):
    n = case.tokens
    return {
        "FunnelForMaskedLM": lambda: {"labels": torch.randint(0, VOCABULARY, (1, n), generator=generator)},
        "FunnelForSequenceClassification": lambda: {"labels": torch.tensor([2])},
        "FunnelForTokenClassification": lambda: {"labels": torch.randint(0, 3, (1, n), generator=generator)},
        "FunnelForQuestionAnswering": lambda: {"start_positions": torch.tensor([n // 2]), "end_positions": torch.tensor([n - 1])},
        "FunnelForMultipleChoice": lambda: {"labels": torch.tensor([1])},
    }[case.name]()


def run_theirs(case, folder, call, dtype):
    model = getattr(transformers, case.name).from_pretrained(folder, dtype=dtype).eval()
    with torch.inference_mode(), double_precision():
        out = model(**call, output_hidden_states=True)
    values = {key: value.numpy() for key in OUTPUTS if (value := getattr(out, key, None)) is not None}
    values["hidden_states"] = [s.numpy() for s in token_states(model.config, out.hidden_states, case.tokens)]
    if case.name in ("FunnelModel", "FunnelBaseModel"):
        last = out.last_hidden_state
        if case.name == "FunnelBaseModel":
            last = spread(model.config, last, case.tokens, len(model.config.block_sizes) - 1)
        values["last_hidden_state"] = last.numpy()
    return values


def run_ours(folder, call):
    out = longformer_cpp.load(folder)(**{k: v.numpy() for k, v in call.items()}, output_hidden_states=True)
    keys = (*OUTPUTS, "last_hidden_state")
    values = {key: numpy.asarray(value) for key in keys if (value := getattr(out, key, None)) is not None}
    values["hidden_states"] = [numpy.asarray(states) for states in out.hidden_states]
    return values


def compare(table, case, ours, fp32, double):
    for key, expected in double.items():
        pairs = zip(ours[key], fp32[key], expected, strict=True) if key == "hidden_states" else [(ours[key], fp32[key], expected)]
        for found, rounded, exact in pairs:
            found, rounded, exact = ([numpy.asarray(x).reshape(exact.shape)] for x in (found, rounded, exact))
            rounding = model_parity.largest_difference(rounded, exact)
            table.record((key, model_parity.THEIR_ROUNDING), case, rounding, math.inf)
            table.record((key, model_parity.OURS_TO_FP32), case, model_parity.largest_difference(found, rounded), math.inf)
            limit = max(1e-4, rounding)
            table.record((key, model_parity.OURS_TO_DOUBLE), case, model_parity.largest_difference(found, exact), limit)


def compare_gradients(table, case, folder, call, targets):
    def gradients(dtype):
        model = getattr(transformers, case.name).from_pretrained(folder, dtype=dtype).eval()
        with double_precision():
            loss = model(**call, **targets).loss
            loss.backward()
        return loss.item(), {key: p.grad.numpy() for key, p in model.named_parameters() if p.grad is not None}

    given = {k: v.numpy() for k, v in (call | targets).items()}
    found = longformer_cpp.loss_and_gradients(longformer_cpp.load(folder), **given)
    table.compare_gradients(case, found, gradients(torch.float64), gradients(torch.float32), lambda key: "gradients by the largest of a tensor")


def compare_attentions(table, case, folder, call):
    """Probabilities as those of tokens: each looks where its row does, and the tokens of a key share what it gets."""
    model = getattr(transformers, case.name).from_pretrained(folder, dtype=torch.float64).eval()
    with torch.inference_mode(), double_precision():
        expected = model(**call, output_attentions=True).attentions
    blocks, n = blocks_of_states(model.config), case.tokens
    decoder = 0 if case.name.endswith(POOLED) else case.config["num_decoder_layers"]
    found = longformer_cpp.load(folder)(**{k: v.numpy() for k, v in call.items()}, output_attentions=True).attentions
    for theirs, ours, block, before in zip(expected, found, blocks[1:] + [0] * decoder, blocks[:-1] + [0] * decoder, strict=True):
        pools = block > before and case.config["pool_q_only"]
        queries, keys = numpy.array(rows_of_tokens(model.config, n, block)), rows_of_tokens(model.config, n, before if pools else block)
        right = theirs[0].numpy()[:, numpy.minimum(queries, theirs.shape[2] - 1)]
        shares = [0 if row >= theirs.shape[3] else 1 / keys.count(row) for row in keys]
        right = right[:, :, numpy.minimum(keys, theirs.shape[3] - 1)] * numpy.array(shares)
        table.compare("probabilities", case, [numpy.asarray(ours[0])], [right], 1e-5)


def run_case(table, case, seed):
    generator = torch.Generator().manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        save(case, folder, seed)
        call = documents_of(case, generator)
        exact = run_theirs(case, folder, call, torch.float64)
        compare(table, case, run_ours(folder, call), run_theirs(case, folder, call, torch.float32), exact)
        if "For" in case.name:
            compare_gradients(table, case, folder, call, targets_of(case, generator))
            return
        if case.mask is None:
            compare_attentions(table, case, folder, call)
        model = longformer_cpp.load(folder)
        ids = call["input_ids"][0].numpy()
        parts = [ids, ids[: max(1, len(ids) // 3)], ids[: max(1, len(ids) - 1)]]
        together = model(input_ids=parts).last_hidden_state
        for one, states in zip(parts, together):
            alone = model(input_ids=[one]).last_hidden_state[0]
            table.compare("list of documents, one at a time", case, [states], [alone], 1e-5)


EXAMPLES = {
    "classify": {"text": "w7 w8 w9 w10 w11", "label": "yes"},
    "ner": {"tokens": ["w7", "w8", "w9"], "tags": ["O", "B-x", "O"]},
    "qa": {"question": "w7 w8", "context": "w9 w10 w11 w12", "answers": {"text": ["w10"], "answer_start": [3]}},
    "choose": {"question": "w7 w8", "choices": ["w9", "w10 w11"], "label": 1},
    "pretrain-mlm": {"text": "w7 w8 w9 w10 w11 w12 w13 w14"},
}
TRAINED = {
    "classify": "SequenceClassification",
    "ner": "TokenClassification",
    "qa": "QuestionAnswering",
    "choose": "MultipleChoice",
    "pretrain-mlm": "MaskedLM",
}


def write_tokenizer(folder):
    words = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<s>", "</s>", *(f"w{i}" for i in range(7, VOCABULARY))]
    transformers.FunnelTokenizer(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)


def compare_training(table, program, verbs):
    """Folders that `finetune` makes of a FunnelModel: no tensor more or less than `transformers` reads, and its numbers."""
    ids = torch.randint(7, VOCABULARY, (1, 21), generator=torch.Generator().manual_seed(4))
    with tempfile.TemporaryDirectory() as place:
        config = {"vocab_size": VOCABULARY, "d_model": 32, "n_head": 2, "d_head": 16, "d_inner": 48, "block_sizes": [2, 1, 1]}
        case = types.SimpleNamespace(index="finetune", name="FunnelModel", config=config, describe=lambda: "finetune")
        save(case, f"{place}/model", 3)
        write_tokenizer(f"{place}/model")
        for verb in verbs:
            data = pathlib.Path(place, f"{verb}.jsonl")
            row = EXAMPLES[verb]
            rows = [row, row | ({"label": "no"} if verb == "classify" else {})]
            data.write_text("".join(json.dumps(row) + "\n" for row in rows))
            target = f"{place}/{verb}"
            begin = [verb] if verb == "pretrain-mlm" else ["finetune", "--task", verb]
            subprocess.run([program, *begin, f"{place}/model", data, "--per-device-train-batch-size", "2",
                            "--max-steps", "2", "--output-dir", target], check=True, capture_output=True)  # fmt: skip
            model, loading = getattr(transformers, f"FunnelFor{TRAINED[verb]}").from_pretrained(target, output_loading_info=True)
            for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
                if loading[kind]:
                    table.failures.append(f"finetune {verb}: {kind}: {sorted(loading[kind])}")
            call = {"input_ids": ids[None] if verb == "choose" else ids}
            with torch.inference_mode():
                out = model.eval()(**call)
            found = longformer_cpp.load(target)(**{k: v.numpy() for k, v in call.items()})
            for key in OUTPUTS:
                if getattr(out, key, None) is None:
                    continue
                ours = [numpy.asarray(getattr(found, key)).reshape(getattr(out, key).shape)]
                table.compare("logits of a trained folder", case, ours, [getattr(out, key).numpy()], 1e-4)


def main():
    options, cases = random_models.deck(__doc__, count=64, seed=2, draw=draw)
    table = model_parity.Table()
    table.run(cases, options.only, lambda case: run_case(table, case, options.seed * 1009 + case.index))
    if options.only is None:
        compare_training(table, options.program, list(TRAINED))
    table.print()
    return table.end(f"{len(cases)} cases against transformers {transformers.__version__}, seed {options.seed}")


if __name__ == "__main__":
    sys.exit(main())
