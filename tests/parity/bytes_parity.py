#!/usr/bin/env python3
"""Encoders that read bytes beside `transformers`: texts as ids, norms before the sub-layers, and what a training writes.

    python3 tests/parity/bytes_parity.py PROGRAM

Models of `transformers` with drawn weights get the key `vocabulary`; texts go into ours as texts, into theirs as the ids
of docs/spec/file-formats.md#o10. RoBERTa with norm_first is compared with RobertaPreLayerNorm, whose tensors have other
names. What `finetune` makes of a config.json alone is loaded by `transformers` and gives the same logits. All in double
there. Exit code 1 when a difference is too large; a NaN is.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

import longformer_cpp
import numpy
import safetensors.torch
import torch
import transformers

TEXTS = ["plain", "é 日本 \U0001f600\n\ttabs", "x" * 300, "The quick brown fox. " * 20, "a"]
SIZES = {"vocab_size": 260, "pad_token_id": 0, "sep_token_id": 2, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 520, "type_vocab_size": 2, "num_labels": 3}  # fmt: skip
KINDS = {"Roberta": {}, "Bert": {}, "Longformer": {"attention_window": 512}, "BigBird": {"block_size": 8, "num_random_blocks": 1},
         "RobertaPreLayerNorm": {}}  # fmt: skip
LIMIT = 1e-4


def ids_of(text):
    return [1, *(4 + byte for byte in text.encode()), 2]


def our_name(name):
    """The name of RobertaPreLayerNorm's tensor in a RoBERTa with norm_first."""
    for theirs, ours in (("roberta_prelayernorm.LayerNorm", "roberta.encoder.final_norm"), ("roberta_prelayernorm.", "roberta."),
                         (".attention.LayerNorm.", ".attention.output.LayerNorm."), (".intermediate.LayerNorm.", ".output.LayerNorm.")):
        name = name.replace(theirs, ours)
    return name


def drawn(kind, folder):
    torch.manual_seed(len(kind))
    config = getattr(transformers, f"{kind}Config")(**SIZES, **KINDS[kind])
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.15) if parameter.dim() > 1 else parameter.normal_(0.5, 0.3)
    model.save_pretrained(folder)
    own = json.loads((folder / "config.json").read_text()) | {"vocabulary": "bytes"}
    if kind == "RobertaPreLayerNorm":
        own |= {"model_type": "roberta", "norm_first": True, "architectures": ["RobertaForSequenceClassification"]}
        tensors = {our_name(name): value.contiguous() for name, value in model.state_dict().items()}
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(own))
    return model.double().eval()


def call_of(kind, text):
    call = {"input_ids": torch.tensor([ids_of(text)])}
    if kind == "Longformer":
        call["global_attention_mask"] = torch.zeros_like(call["input_ids"])
        call["global_attention_mask"][:, 0] = 1
    return call


def compare(kind):
    largest = {"hidden states": 0.0, "logits": 0.0}
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        model = drawn(kind, folder)
        loaded = longformer_cpp.load(folder)
        tokenizer = longformer_cpp.Tokenizer(folder)
        for text in TEXTS:
            ids = list(tokenizer.encode(text).ids)
            if ids != ids_of(text):
                raise SystemExit(f"{kind}: ids of {text!r}: expected {ids_of(text)}, found {ids}")
            # transformers keeps dense layers after a short document.
            theirs = drawn_again(kind, model) if kind == "BigBird" else model
            with torch.inference_mode():
                out = theirs(**call_of(kind, text), output_hidden_states=True)
            ours = loaded(**{key: value.numpy() for key, value in call_of(kind, text).items()}, output_hidden_states=True)
            hidden = [(a, b) for a, b in zip(ours.hidden_states, out.hidden_states, strict=True)]
            for a, b in hidden:
                largest["hidden states"] = worse(largest["hidden states"], a, b.numpy()[:, : len(ids)])
            largest["logits"] = worse(largest["logits"], ours.logits, out.logits.numpy())
    return largest


def drawn_again(kind, model):
    again = type(model)(type(model.config)(**SIZES, **KINDS[kind])).double().eval()
    again.load_state_dict(model.state_dict())
    return again


def worse(before, found, expected):
    difference = float(numpy.abs(numpy.asarray(found, float) - expected).max())
    return difference if math.isnan(difference) else max(before, difference)


def trained(program):
    """Logits of a model that began with nothing, and of `transformers` with what was written."""
    with tempfile.TemporaryDirectory() as place:
        config, data, out = (pathlib.Path(place, name) for name in ("config", "data.jsonl", "out"))
        config.mkdir()
        keys = {key: value for key, value in SIZES.items() if key not in ("vocab_size", "pad_token_id", "num_labels")}
        (config / "config.json").write_text(json.dumps({"model_type": "roberta", "vocabulary": "bytes", **keys}))
        data.write_text("".join(json.dumps({"text": text, "label": str(at % 3)}) + "\n" for at, text in enumerate(TEXTS)))
        subprocess.run([program, "finetune", config, data, "--task", "classify", "--max-steps", "5", "--learning-rate", "1e-3", "--quiet",
                        "--output-dir", out], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        model = transformers.RobertaForSequenceClassification.from_pretrained(out, dtype=torch.float64).eval()
        loaded, largest = longformer_cpp.load(out), 0.0
        for text in TEXTS:
            ids = torch.tensor([ids_of(text)])
            with torch.inference_mode():
                expected = model(input_ids=ids).logits.numpy()
            largest = worse(largest, loaded(input_ids=ids.numpy()).logits, expected)
    return largest


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = [(f"{kind}: {what}", value) for kind in KINDS for what, value in compare(kind).items()]
    rows.append(("finetune from nothing, logits in transformers", trained(sys.argv[1])))
    print("| what | largest difference |\n|---|---|")
    for what, value in rows:
        print(f"| {what} | {value:.1e} |")
    sys.exit(any(not value <= LIMIT for _, value in rows))


if __name__ == "__main__":
    main()
