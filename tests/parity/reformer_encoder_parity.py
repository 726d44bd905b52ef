"""Compares Reformer encoders with `transformers` on random models: states, heads, masks, losses, gradients, folders.

    python3 tests/parity/reformer_encoder_parity.py PROGRAM [--count 64] [--seed 2] [--only INDEX,…]

Local, lsh and mixed layers that look both ways, one to four rounds of hashing, buckets by length, by number and by two
factors, axial and learned positions, texts within a chunk, whole and padded, masks. One document at a time: in a batch
the chunks of `transformers` go round the padding of the longest text. Here a list of documents is compared with each
alone. `transformers` also runs in double precision, with hashes drawn in fp32; its own rounding is not held against us.
Gradients are those of `model.train()` without dropout, for texts of whole chunks, as it asks for; where positions are
axial, of all of them. A text with a token whose hash lies within 1e-5 of another bucket is left out and counted:
rounding decides there. Rows of masked tokens are not compared. Folders that `finetune` makes of one model for several
tasks, and an adapter, are loaded by `transformers`. Exit code 1 when a difference is too large; a NaN is.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types

import longformer_cpp
import model_parity
import numpy
import random_models
import reformer_models
import tokenizers
import torch
import transformers

CLASSES = ("Model", "Model", "ForMaskedLM", "ForSequenceClassification", "ForQuestionAnswering")
OUTPUTS = ("logits", "start_logits", "end_logits")
VOCABULARY = 97
NEAR = 1e-5


def draw(index, decks):
    deal = decks.deal
    first = deal("axial width", (3, 5, 8))
    chunks = {kind: deal(f"{kind} chunk", (2, 3, 4, 6, 8)) for kind in ("local", "lsh")}
    layers = deal("layers", (["local"], ["lsh"], ["local", "lsh"], ["lsh", "local", "lsh"], ["local", "local"]))
    whole = int(numpy.lcm.reduce([chunks[kind] for kind in set(layers)]))
    times = deal("chunks", (2, 3, 5, 6))
    config = {
        "vocab_size": VOCABULARY, "hidden_size": first + deal("other width", (5, 9, 16)), "num_attention_heads": deal("heads", (1, 2, 4)),
        "attention_head_size": deal("head size", (2, 5, 8)), "feed_forward_size": deal("wide", (12, 40)), "attn_layers": layers,
        "hidden_act": deal("activation", ("relu", "relu", "gelu", "silu")), "num_hashes": deal("hashes", (1, 1, 2, 3, 4)),
        "num_buckets": deal("buckets", (None, None, 2, 8, 16, [2, 4], [4, 4])), "hash_seed": deal("seed", (0, 7, 999)),
        "axial_pos_embds": deal("axial", (True, False)), "axial_pos_shape": [times, whole], "axial_norm_std": 0.3,
        "max_position_embeddings": times * whole, "layer_norm_eps": deal("epsilon", (1e-12, 1e-5)), "initializer_range": 0.3,
        "hidden_dropout_prob": 0.0, "local_attention_probs_dropout_prob": 0.0, "num_labels": 3, "use_cache": False,
    }  # fmt: skip
    config["axial_pos_embds_dim"] = [first, config["hidden_size"] - first]
    for kind in ("local", "lsh"):
        config[f"{kind}_attn_chunk_length"] = chunks[kind]
        config[f"{kind}_num_chunks_before"] = deal(f"{kind} before", (0, 1, 1, 2, 7))
        config[f"{kind}_num_chunks_after"] = deal(f"{kind} after", (0, 1, 1, 2, 7))
    case = types.SimpleNamespace(
        index=index,
        config=config,
        name="Reformer" + deal("class", CLASSES),
        tokens=max(1, round(times * whole * deal("tokens", (0.05, 0.2, 0.4, 0.5, 0.7, 0.8, 0.95, 1.0)))),
        mask=deal("mask", (None, None, "holes", "stretch")),
        describe=lambda: f"{case.name} {case.tokens} tokens, mask {case.mask}, {config}",
    )
    if "QuestionAnswering" in case.name:
        config["num_labels"] = 2
    return case


def save(case, folder, seed):
    torch.manual_seed(seed)
    model = getattr(transformers, case.name)(transformers.ReformerConfig(**case.config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.add_(0.2 * torch.randn(parameter.shape))
            elif name.endswith("bias") and name != "lm_head.bias":
                parameter.copy_(0.2 * torch.randn(parameter.shape))
    model.save_pretrained(folder)


def document_of(case, tokens, mask, generator):
    call = {"input_ids": torch.randint(1, VOCABULARY, (1, tokens), generator=generator)}
    call["attention_mask"] = torch.ones((1, tokens), dtype=torch.long)
    if mask == "holes":
        call["attention_mask"] = (torch.rand((1, tokens), generator=generator) < 0.8).long()
    if mask == "stretch":
        call["attention_mask"][0, tokens // 3 : (2 * tokens + 1) // 3] = 0
    # Masked tokens behind the last one are padding.
    call["attention_mask"][0, [0, -1]] = 1
    return call


def load(case, folder, dtype):
    return getattr(transformers, case.name).from_pretrained(folder, dtype=torch.float32).to(dtype).eval()


def run_theirs(case, folder, call, dtype):
    """Outputs by name, and how near the best two buckets of a hash came."""
    model, n = load(case, folder, dtype), call["input_ids"].shape[1]
    with torch.inference_mode(), reformer_models.fp32_hashes() as nearest:
        out = model(**call, output_hidden_states=True)
        values = {key: value.numpy() for key in OUTPUTS if (value := getattr(out, key, None)) is not None}
        values["hidden_states"] = [states[:, :n].numpy() for states in out.hidden_states]
        reformer_models.forget_buckets(model, case.config["num_buckets"])
        values["last_hidden_state"] = getattr(model, "reformer", model)(**call).last_hidden_state.numpy()
    return values, nearest.gap


def run_ours(model, call):
    out = model(**{k: v.numpy() for k, v in call.items()}, output_hidden_states=True)
    keys = (*OUTPUTS, "last_hidden_state")
    values = {key: numpy.asarray(value) for key in keys if (value := getattr(out, key, None)) is not None}
    values["hidden_states"] = [numpy.asarray(states) for states in out.hidden_states]
    return values


def compare(table, case, call, ours, fp32, double):
    seen = call["attention_mask"].numpy().astype(bool)
    for key, expected in double.items():
        pairs = zip(ours[key], fp32[key], expected, strict=True) if key == "hidden_states" else [(ours[key], fp32[key], expected)]
        for found, rounded, exact in pairs:
            is_of_document = key == "logits" and case.name == "ReformerForSequenceClassification"
            rows = slice(None) if is_of_document else seen
            found, rounded, exact = ([numpy.asarray(x).reshape(exact.shape)[rows]] for x in (found, rounded, exact))
            rounding = model_parity.largest_difference(rounded, exact)
            table.record((key, model_parity.THEIR_ROUNDING), case, rounding, math.inf)
            table.record((key, model_parity.OURS_TO_FP32), case, model_parity.largest_difference(found, rounded), math.inf)
            limit = max(1e-4, rounding)
            table.record((key, model_parity.OURS_TO_DOUBLE), case, model_parity.largest_difference(found, exact), limit)


def compare_attentions(table, case, folder, call):
    """Texts within a chunk alone: otherwise transformers returns the probabilities of chunks."""
    if case.mask or case.tokens > min(case.config[f"{kind}_attn_chunk_length"] for kind in case.config["attn_layers"]):
        return
    with torch.inference_mode():
        expected = load(case, folder, torch.float64)(**call, output_attentions=True).attentions
    found = longformer_cpp.load(folder)(**{k: v.numpy() for k, v in call.items()}, output_attentions=True).attentions
    for right, ours in zip(expected, found, strict=True):
        table.compare("probabilities of texts within a chunk", case, [numpy.asarray(ours[0])], [right[0].numpy()], 1e-5)


def targets_of(case, call, generator):
    n = call["input_ids"].shape[1]
    if case.name == "ReformerForMaskedLM":
        labels = torch.randint(0, VOCABULARY, (1, n), generator=generator)
        return {"labels": labels.masked_fill(call["attention_mask"] == 0, -100)}
    if case.name == "ReformerForQuestionAnswering":
        return {"start_positions": torch.tensor([n // 3]), "end_positions": torch.tensor([n // 2])}
    return {"labels": torch.tensor([2])}


def compare_gradients(table, case, folder, generator):
    """The text is one of whole chunks. The loss of answers is one of masked tokens too."""
    tokens = case.config["max_position_embeddings"]
    mask = None if case.name == "ReformerForQuestionAnswering" else case.mask
    call = document_of(case, tokens, mask, generator)
    targets = targets_of(case, call, generator)

    def gradients(dtype):
        model = load(case, folder, dtype).train()
        loss = model(**call, **targets).loss
        loss.backward()
        return loss.item(), {key: p.grad.numpy() for key, p in model.named_parameters() if p.grad is not None}

    with reformer_models.fp32_hashes() as nearest:
        exact, rounded = gradients(torch.float64), gradients(torch.float32)
    if nearest.gap < NEAR:
        return False
    given = {k: v.numpy() for k, v in (call | targets).items()}
    found = longformer_cpp.loss_and_gradients(longformer_cpp.load(folder), **given)
    table.compare_gradients(case, found, exact, rounded, lambda key: "gradients by the largest of a tensor")
    return True


def run_case(table, case, seed, near):
    generator = torch.Generator().manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        save(case, folder, seed)
        call = document_of(case, case.tokens, case.mask, generator)
        exact, gap = run_theirs(case, folder, call, torch.float64)
        near.append(gap < NEAR)
        model = longformer_cpp.load(folder)
        if gap >= NEAR:
            compare(table, case, call, run_ours(model, call), run_theirs(case, folder, call, torch.float32)[0], exact)
        if "For" in case.name:
            near.append(not compare_gradients(table, case, folder, generator))
            return
        compare_attentions(table, case, folder, call)
        ids = call["input_ids"][0].numpy()
        parts = [ids, ids[: max(1, len(ids) // 3)], ids[: max(1, len(ids) - 1)]]
        together = model(input_ids=parts).last_hidden_state
        for one, states in zip(parts, together):
            alone = model(input_ids=[one]).last_hidden_state[0]
            table.compare("list of documents, one at a time", case, [states], [alone], 1e-5)


EXAMPLES = {
    "classify": {"text": "w7 w8 w9 w10 w11 w12 w13", "label": "yes"},
    "qa": {"question": "w7 w8", "context": "w9 w10 w11 w12", "answers": {"text": ["w10"], "answer_start": [3]}},
    "pretrain-mlm": {"text": "w7 w8 w9 w10 w11 w12 w13 w14"},
}
TRAINED = {"classify": "SequenceClassification", "qa": "QuestionAnswering", "pretrain-mlm": "MaskedLM"}


def write_tokenizer(folder):
    words = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<s>", "</s>", *(f"w{i}" for i in range(7, VOCABULARY))]
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<cls> $A <sep>", pair="<cls> $A <sep> $B <sep>", special_tokens=[("<cls>", 2), ("<sep>", 3)])  # fmt: skip
    names = {f"{name}_token": f"<{name}>" for name in ("pad", "unk", "cls", "sep", "mask")}
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names).save_pretrained(folder)


def trained_model(folder, verb, adapter):
    """The model that `transformers` reads of a folder, and the keys that do not fit."""
    made = getattr(transformers, f"ReformerFor{TRAINED[verb]}")
    if adapter:
        import peft

        return peft.PeftModel.from_pretrained(made.from_pretrained(adapter, num_labels=2), folder), []
    model, loading = made.from_pretrained(folder, output_loading_info=True)
    return model, [key for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in loading[kind]]


def compare_training(table, program, verb, rank=0):
    """A folder, or an adapter, that is made of a ReformerModel: no tensor more or less than `transformers` reads, and its
    numbers. Axial positions, which an adapter leaves as they are, allow it texts of any length."""
    ids = torch.randint(7, VOCABULARY, (1, 21), generator=torch.Generator().manual_seed(4))
    config = {"vocab_size": VOCABULARY, "hidden_size": 24, "num_attention_heads": 2, "attention_head_size": 6, "feed_forward_size": 30,
              "attn_layers": ["local", "lsh"], "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 8, "num_buckets": 4, "hash_seed": 5,
              "local_num_chunks_after": 1, "max_position_embeddings": 64, "axial_pos_embds": rank > 0, "axial_pos_shape": [4, 16],
              "axial_pos_embds_dim": [10, 14], "initializer_range": 0.2, "use_cache": False}  # fmt: skip
    case = types.SimpleNamespace(index="finetune", name="ReformerModel", config=config, describe=lambda: "finetune")
    with tempfile.TemporaryDirectory() as place:
        save(case, f"{place}/model", 3)
        write_tokenizer(f"{place}/model")
        data, target = pathlib.Path(place, "data.jsonl"), f"{place}/made"
        row = EXAMPLES[verb]
        rows = [row, row | ({"label": "no"} if verb == "classify" else {})]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        begin = [verb] if verb == "pretrain-mlm" else ["finetune", "--task", verb]
        adapter = ["--lora-rank", str(rank)] if rank else []
        subprocess.run([program, *begin, f"{place}/model", data, "--per-device-train-batch-size", "2", "--max-steps", "3",
                        "--learning-rate", "1e-2", "--output-dir", target, *adapter], check=True, capture_output=True)  # fmt: skip
        model, wrong = trained_model(target, verb, f"{place}/model" if rank else "")
        if wrong:
            table.failures.append(f"{verb}: {sorted(wrong)}")
        with torch.inference_mode():
            out = model.eval()(input_ids=ids)
        ours = longformer_cpp.load(f"{place}/model", adapter=target) if rank else longformer_cpp.load(target)
        found = ours(input_ids=ids.numpy())
        for key in (key for key in OUTPUTS if getattr(out, key, None) is not None):
            numbers = [numpy.asarray(getattr(found, key)).reshape(getattr(out, key).shape)]
            table.compare(f"logits of a trained {'adapter' if rank else 'folder'}", case, numbers, [getattr(out, key).numpy()], 1e-4)


def main():
    options, cases = random_models.deck(__doc__, count=64, seed=2, draw=draw)
    table, near = model_parity.Table(), []
    table.run(cases, options.only, lambda case: run_case(table, case, options.seed * 1009 + case.index, near))
    if options.only is None:
        for verb in TRAINED:
            compare_training(table, options.program, verb)
        compare_training(table, options.program, "classify", rank=3)
    table.print()
    print(f"{sum(near)} of {len(near)} texts with a hash between two buckets left out")
    return table.end(f"{len(cases)} cases against transformers {transformers.__version__}, seed {options.seed}")


if __name__ == "__main__":
    sys.exit(main())
