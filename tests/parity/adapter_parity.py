"""LoRA adapters of ours and of the package peft, each read by the other, and the same training in both.

    python3 tests/parity/adapter_parity.py PROGRAM

Adapters that peft makes for random models, with what their configurations may say, are read by ours: equal
logits. The same adapters are trained on for some steps in both, from the same beginning and on the
same examples: equal losses, and equal parts afterwards. What `finetune --lora-rank` writes is read by
peft: equal tensors and logits. `convert --merge-adapter` writes folders that transformers reads: equal
logits. Exit code 1 when anything differs.
"""

import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import longformer_cpp
import numpy
import peft
import pipeline_parity
import safetensors.torch
import torch
import transformers

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
WORDS = "the of and to in a is was he for it with as his on be at by".split()
LABELS = ("bad", "fair", "good")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
STEPS = 4
RATE, EPSILON = 0.01, 1e-4
NOTHING_DROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tokenizer_folder(kind):
    return FIXTURES / ("tiny_bert" if kind == "bert" or kind in OTHERS else "tiny_roberta")


def make_base(kind, folder):
    """A model with random weights and a tokenizer."""
    tokenizer = tokenizer_folder(kind)
    vocabulary = json.loads((tokenizer / "config.json").read_text())["vocab_size"]
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
    if kind == "bert":
        config = transformers.BertConfig(
            vocab_size=vocabulary, max_position_embeddings=64, **SIZES, **NOTHING_DROPPED, **names)
        model = transformers.BertForSequenceClassification(config)
    elif kind == "roberta":
        config = transformers.RobertaConfig(
            vocab_size=vocabulary, max_position_embeddings=64, **SIZES, **NOTHING_DROPPED, **names)
        model = transformers.RobertaForSequenceClassification(config)
    elif kind == "longformer":
        config = transformers.LongformerConfig(
            vocab_size=vocabulary, max_position_embeddings=66, attention_window=[8, 8], sep_token_id=2, **SIZES, **NOTHING_DROPPED, **names)
        model = transformers.LongformerForSequenceClassification(config)
    elif kind in OTHERS:
        config = transformers.AutoConfig.for_model(kind, vocab_size=vocabulary, **OTHERS[kind], **names)
        model = transformers.AutoModelForSequenceClassification.from_config(config)
    else:
        config = transformers.LEDConfig(
            vocab_size=vocabulary, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, attention_window=[8, 8],
            max_encoder_position_embeddings=64, max_decoder_position_embeddings=64, dropout=0.0,
            attention_dropout=0.0, activation_dropout=0.0)  # fmt: skip
        model = transformers.LEDForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter) / (16**0.5 if parameter.dim() > 1 else 4)
    model.save_pretrained(folder)
    for file in tokenizer.iterdir():
        if "token" in file.name or file.name in ("vocab.txt", "vocab.json", "merges.txt"):
            shutil.copy(file, folder / file.name)
    return type(model)


def of_modules(queries, *others):
    """Adapters of the queries and values, of other modules with an alpha and a rank of their own, and of all."""
    return {
        "queries and values": {"r": 4, "target_modules": queries},
        "others": {"r": 2, "target_modules": list(others), "alpha_pattern": {others[0]: 3}, "rank_pattern": {others[-1]: 3}},
        "biases of its layers": {"r": 4, "target_modules": queries, "bias": "lora_only"},
        "all linear": {"r": 3, "target_modules": "all-linear"},
    }


# Encoders of the newer kinds, and of the older ones whose names are others.
LENGTH = {"max_position_embeddings": 64, "pad_token_id": 0}
OTHERS = {
    "nomic_bert": SIZES | LENGTH | NOTHING_DROPPED,
    "gte": SIZES | LENGTH | NOTHING_DROPPED,
    "jina_embeddings_v3": SIZES | LENGTH | NOTHING_DROPPED,
    "modernbert": SIZES | LENGTH | {"local_attention": 6, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3},
    "eurobert": SIZES | LENGTH | {"num_key_value_heads": 1},
    "mpnet": SIZES | NOTHING_DROPPED | {"max_position_embeddings": 64, "pad_token_id": 1},
    "deberta-v2": SIZES | LENGTH | NOTHING_DROPPED | {
        "relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"], "share_att_key": True,
        "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0, "pooler_hidden_size": 16,
        "cls_dropout": 0.0},  # fmt: skip
    "electra": SIZES | LENGTH | NOTHING_DROPPED | {"embedding_size": 12},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "dropout": 0.0, "attention_dropout": 0.0,
                   "seq_classif_dropout": 0.0} | LENGTH,  # fmt: skip
}
# Options of the adapters of each model.
VARIANTS = {
    "bert": {
        "plain": {"r": 4},
        "with patterns": {"r": 4, "rank_pattern": {"query": 2}, "alpha_pattern": {"layer.0.attention.self.value": 3}},
        "rank-stabilized": {"r": 4, "lora_alpha": 5, "use_rslora": True},
        "with biases": {"r": 4, "lora_bias": True},
        "biases of its layers": {"r": 4, "bias": "lora_only"},
        "all biases": {"r": 4, "bias": "all"},
        "all linear": {"r": 3, "target_modules": "all-linear"},
        "as .bin": {"r": 4},
        "fan_in_fan_out": {"r": 4, "fan_in_fan_out": True},
    },
    "roberta": {"plain": {"r": 4}, "of a pattern": {"r": 2, "target_modules": r".*\.(key|intermediate\.dense)"}},
    "longformer": {
        "queries and values": {"r": 4, "target_modules": ["query", "value"]},
        "global ones": {"r": 2, "target_modules": ["query_global", "key_global", "value_global", "key"]},
        "all linear": {"r": 4, "target_modules": "all-linear"},
    },
    "led": {
        "queries and values": {"r": 4, "target_modules": ["query", "value", "q_proj", "v_proj"]},
        "all linear": {"r": 2, "target_modules": "all-linear"},
    },
    "nomic_bert": of_modules(["q_proj", "v_proj"], "k_proj", "gate_proj"),
    "gte": of_modules(["q_proj", "v_proj"], "k_proj", "up_proj"),
    "jina_embeddings_v3": of_modules(["q_proj", "v_proj"], "k_proj", "fc1"),
    "modernbert": of_modules(["Wqkv"], "Wi", "attn.Wo"),
    "eurobert": of_modules(["q_proj", "v_proj"], "k_proj", "o_proj"),
    "mpnet": of_modules(["q", "v"], "k", "intermediate.dense"),
    "deberta-v2": of_modules(["query_proj", "value_proj"], "key_proj", "intermediate.dense"),
    "electra": of_modules(["query", "value"], "key", "embeddings_project"),
    # peft itself refuses all layers of its head.
    "distilbert": {name: settings for name, settings in of_modules(["q_lin", "v_lin"], "k_lin", "lin2").items() if name != "all linear"},
}
# Biases of modules that are packed in the file are read, not trained.
PACKED = {"gte", "jina_embeddings_v3"}
# Read, but not trained on.
READ_ALONE = {"with biases", "all biases"}


def make_adapter(base, model_class, kind, settings, folder):
    """An adapter whose parts are all random, and the model with it."""
    task = "SEQ_2_SEQ_LM" if kind == "led" else "SEQ_CLS"
    config = peft.LoraConfig(task_type=task, init_lora_weights=False, **settings)
    model = peft.get_peft_model(model_class.from_pretrained(base), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and "lora_" not in name:
                parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model.eval()


def as_bin(folder):
    """Adapter in the form of older versions."""
    file = folder / "adapter_model.safetensors"
    torch.save(safetensors.torch.load_file(file), folder / "adapter_model.bin")
    file.unlink()


def inputs_of(kind, tokenizer, chosen):
    ids = tokenizer(" ".join(chosen.choice(WORDS) for _ in range(14)))["input_ids"]
    inputs = {"input_ids": numpy.array([ids])}
    if kind in ("longformer", "led"):
        mask = numpy.zeros_like(inputs["input_ids"])
        mask[:, 0] = 1
        inputs["global_attention_mask"] = mask
    if kind == "led":
        inputs["decoder_input_ids"] = numpy.array([[2, 0, 5, 9, 7]])
    return inputs


def same_logits(report, what, kind, theirs, ours, tokenizer, chosen):
    for _ in range(2):
        inputs = inputs_of(kind, tokenizer, chosen)
        with torch.no_grad():
            expected = theirs(**{name: torch.from_numpy(value) for name, value in inputs.items()}).logits
        found = ours.text_logits(**inputs) if hasattr(ours, "text_logits") and kind == "led" else ours(**inputs).logits
        report.close(what, numpy.array(found), expected.numpy())


def write_examples(kind, folder, chosen):
    """One batch, so that its order does not count."""
    rows = []
    for i in range(6):
        words = " ".join(chosen.choice(WORDS) for _ in range(8 + i))
        summary = " ".join(words.split()[:3])
        rows.append({"text": words, "summary": summary} if kind == "led" else {"text": words, "label": LABELS[i % 3]})
    path = folder / "data.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path, rows


def finetune(program, kind, base, data, output, *flags):
    task = "seq2seq" if kind == "led" else "classify"
    subprocess.run(
        [program, "finetune", base, data, "--task", task, "--output-dir", output, "--max-steps", str(STEPS),
         "--learning-rate", str(RATE), "--adam-epsilon", str(EPSILON), "--lr-scheduler-type", "constant",
         "--save-strategy", "no", "--per-device-train-batch-size", "6", "--gradient-accumulation-steps", "1",
         "--logging-steps", "1", *flags],
        check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    lines = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def loss_of(model, kind, tokenizer, rows):
    """The mean over the examples, or over all tokens of the texts."""
    total, weight = 0, 0
    for row in rows:
        ids = torch.tensor([tokenizer(row["text"])["input_ids"]])
        inputs = {"input_ids": ids}
        if kind in ("longformer", "led"):
            inputs["global_attention_mask"] = torch.zeros_like(ids)
            inputs["global_attention_mask"][:, 0] = 1
        if kind == "led":
            labels = torch.tensor([tokenizer(row["summary"])["input_ids"]])
            count = labels.numel()
        else:
            labels, count = torch.tensor([LABELS.index(row["label"])]), 1
        total = total + count * model(**inputs, labels=labels).loss
        weight += count
    return total / weight


def train_theirs(base, model_class, adapter, kind, rows, tokenizer):
    """The losses of the steps, and the parts of the adapter afterwards."""
    model = peft.PeftModel.from_pretrained(model_class.from_pretrained(base), adapter, is_trainable=True).train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, eps=EPSILON, weight_decay=0)
    losses = []
    for _ in range(STEPS):
        loss = loss_of(model, kind, tokenizer, rows)
        losses.append(float(loss))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
    return losses, peft.get_peft_model_state_dict(model)


def stored(folder):
    return safetensors.torch.load_file(folder / "adapter_model.safetensors")


def compare_made(report, program, kind, variant, settings, chosen):
    """An adapter of peft: read, merged, and trained on."""
    what = f"{kind}, {variant}"
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        base, adapter, merged = folder / "base", folder / "adapter", folder / "merged"
        model_class = make_base(kind, base)
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder(kind))
        model = make_adapter(base, model_class, kind, settings, adapter)
        if variant == "as .bin":
            as_bin(adapter)
        ours = longformer_cpp.load(base, adapter=adapter)
        same_logits(report, f"{what}: logits", kind, model, ours, tokenizer, chosen)
        subprocess.run([program, "convert", base, merged, "--merge-adapter", adapter], check=True, capture_output=True)
        for reader, logits in (
            ("ours", longformer_cpp.load(merged)),
            ("transformers", Transformers(model_class.from_pretrained(merged).eval())),
        ):
            same_logits(report, f"{what}: merged, by {reader}", kind, model, logits, tokenizer, chosen)
        if variant in READ_ALONE or (kind in PACKED and variant == "biases of its layers"):
            return
        data, rows = write_examples(kind, folder, chosen)
        found = finetune(program, kind, base, data, folder / "on", "--adapter", adapter)
        losses, parts = train_theirs(base, model_class, adapter, kind, rows, tokenizer)
        report.close(f"{what}: losses of a training", found, losses)
        after = stored(folder / "on")
        report.same(f"{what}: names of its parts", sorted(after), sorted(parts))
        for name in sorted(set(after) & set(parts)):
            # A weight has moved by STEPS · RATE at most, and four digits of that are compared.
            report.close(f"{what}: parts after it", after[name].numpy() / 10, parts[name].detach().numpy() / 10)
        again = peft.PeftModel.from_pretrained(model_class.from_pretrained(base), folder / "on").eval()
        same_logits(report, f"{what}: trained on, by peft", kind, again,
                    longformer_cpp.load(base, adapter=folder / "on"), tokenizer, chosen)  # fmt: skip


class Transformers:
    """A model of transformers that is called as ours."""

    def __init__(self, model):
        self.model = model

    def __call__(self, **inputs):
        with torch.no_grad():
            return self.model(**{name: torch.from_numpy(value) for name, value in inputs.items()})


def compare_trained(report, program, kind, flags, chosen):
    """An adapter of ours, read by peft."""
    what = f"{kind}, of ours with {' '.join(flags) or 'no flags'}"
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        base, output = folder / "base", folder / "trained"
        model_class = make_base(kind, base)
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder(kind))
        data, _ = write_examples(kind, folder, chosen)
        finetune(program, kind, base, data, output, "--lora-rank", "4", *flags)
        config = transformers.AutoConfig.from_pretrained(output)
        model = peft.PeftModel.from_pretrained(model_class.from_pretrained(base, config=config), output).eval()
        file, read = stored(output), peft.get_peft_model_state_dict(model)
        report.same(f"{what}: names that peft reads", sorted(read), sorted(file))
        moved = 0.0
        for name, tensor in file.items():
            report.same(f"{what}: tensors that peft reads", bool(torch.equal(tensor, read[name])), True)
            if "lora_B" in name:
                moved = max(moved, float(tensor.abs().max()))
        report.same(f"{what}: it has learnt", moved > 1e-3, True)
        ours = longformer_cpp.load(base, adapter=output)
        same_logits(report, f"{what}: logits", kind, model, ours, tokenizer, chosen)


def main():
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.filterwarnings("ignore")
    report = pipeline_parity.Report()
    chosen = random.Random(11)
    torch.manual_seed(11)
    for kind, variants in VARIANTS.items():
        for variant, settings in variants.items():
            compare_made(report, sys.argv[1], kind, variant, settings, chosen)
        dropped = [] if kind in ("longformer", "led") else ["--lora-dropout", "0.2"]
        for flags in ([], ["--lora-target", "all-linear", *dropped], ["--lora-alpha", "3"]):
            compare_trained(report, sys.argv[1], kind, flags, chosen)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
