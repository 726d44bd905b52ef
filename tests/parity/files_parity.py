"""Checks every form of weights that is read or written against torch and `transformers`.

    python3 files_parity.py BINARY [--trials 24] [--seed 1]

Forms: the same random model is saved as model.safetensors, as several files with an index, and by
torch.save in both of its formats, in one file and in several, with old names, shared storages and
transposed matrices; `longformer_cpp` must give the same bits for each, in fp32, fp16, bf16 and fp64.

Conversions: each trial draws a BERT, RoBERTa or Longformer with a head, converts it to a random
length, window, dtype and file format, and requires that the result loads in `transformers` with no
key missing or unexpected and gives the logits of the source.

Originals: a Longformer in the form of its first implementation (windows of one side, the names of
RoBERTa, the stream format) is converted back and must give the logits it had, global tokens included.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import save_file

import longformer_cpp
from convert_parity import redraw

HEADS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification",
         "ForQuestionAnswering", "ForMultipleChoice")
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = 1e-5


def make_model(draw, family, head, length):
    pad = 0 if family == "Bert" else 1
    heads = draw.choice([1, 2, 3])
    settings = dict(
        vocab_size=60, hidden_size=heads * draw.choice([4, 8]), num_attention_heads=heads,
        num_hidden_layers=draw.choice([1, 2]), intermediate_size=24, pad_token_id=pad,
        max_position_embeddings=length + (0 if family == "Bert" else pad + 1),
        type_vocab_size=draw.choice([1, 2]), layer_norm_eps=draw.choice([1e-12, 1e-5]))
    if family == "Longformer":
        settings["attention_window"] = [draw.choice([4, 8]) for _ in range(settings["num_hidden_layers"])]
        settings["attention_window"][0] = 8
    if head in ("ForSequenceClassification", "ForTokenClassification"):
        settings["num_labels"] = draw.choice([1, 3])
    config = getattr(transformers, family + "Config")(**settings)
    return redraw(getattr(transformers, family + head)(config))


def old_names(weights):
    state = {}
    for name, tensor in weights.items():
        for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
            name = name.replace(new, old)
        state[name] = tensor.t().contiguous().t() if name.endswith("dense.weight") else tensor
    state["embeddings.position_ids"] = torch.arange(30)[None]
    return state


def write_shards(folder, stem, ending, weights, write):
    names, index = list(weights), {}
    for part in range(3):
        file = f"{stem}-{part + 1:05}-of-00003{ending}"
        write({name: weights[name] for name in names[part::3]}, folder / file)
        index.update({name: file for name in names[part::3]})
    text = json.dumps({"metadata": {"total_size": 0}, "weight_map": index})
    (folder / f"{stem}{ending}.index.json").write_text(text)


def forms(weights):
    """Functions that each write the weights into a folder in another form."""
    def stream(state, path):
        torch.save(state, path, _use_new_zipfile_serialization=False)

    one_storage = torch.cat([tensor.flatten() for tensor in weights.values()])
    views, offset = {}, 0
    for name, tensor in weights.items():
        views[name] = one_storage[offset:offset + tensor.numel()].view(tensor.shape)
        offset += tensor.numel()
    return {
        "safetensors": lambda folder: save_file(weights, folder / "model.safetensors"),
        "safetensors shards": lambda folder: write_shards(folder, "model", ".safetensors", weights,
                                                          save_file),
        "zip": lambda folder: torch.save(weights, folder / "pytorch_model.bin"),
        "stream": lambda folder: stream(weights, folder / "pytorch_model.bin"),
        "zip, old names, transposed": lambda folder: torch.save(old_names(weights),
                                                                folder / "pytorch_model.bin"),
        "stream, old names, transposed": lambda folder: stream(old_names(weights),
                                                               folder / "pytorch_model.bin"),
        "zip, one storage": lambda folder: torch.save(views, folder / "pytorch_model.bin"),
        "stream, one storage": lambda folder: stream(views, folder / "pytorch_model.bin"),
        "zip shards": lambda folder: write_shards(folder, "pytorch_model", ".bin", weights, torch.save),
        "stream shards": lambda folder: write_shards(folder, "pytorch_model", ".bin", weights, stream),
    }


def check_forms(draw, folder):
    for family in ("Bert", "Roberta", "Longformer"):
        model = make_model(draw, family, "Model", 40)
        ids = torch.randint(5, 60, (33,)).numpy()
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            weights = {name: tensor.to(dtype).contiguous() for name, tensor in model.state_dict().items()}
            wanted = None
            for form, write in forms(weights).items():
                place = folder / f"{family} {dtype} {form}"
                place.mkdir()
                model.config.save_pretrained(place)
                write(place)
                found = longformer_cpp.load(place)([ids]).last_hidden_state[0]
                wanted = found if wanted is None else wanted
                assert (found == wanted).all(), (family, dtype, form)
            print(f"{family:10} {str(dtype)[6:]:9} the same bits in {len(forms(weights))} forms")


def logits_of(model, ids, **more):
    with torch.no_grad():
        output = model(input_ids=ids, output_hidden_states=True, **more)
    found = [output.hidden_states[-1][:, : ids.shape[-1]]]
    for key in ("logits", "start_logits", "end_logits"):
        if output.get(key) is not None:
            found.append(output[key])
    return found


def load_converted(folder, architecture):
    converted, loading = getattr(transformers, architecture).from_pretrained(
        str(folder), dtype=torch.float32, output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not loading.get(problem), (problem, loading[problem])
    return converted.eval()


def largest_difference(wanted, found):
    assert len(wanted) == len(found)
    return max((a - b).abs().max().item() for a, b in zip(wanted, found))


def conversion(binary, draw, folder, family, head):
    source, target = folder / "source", folder / "target"
    length, count = draw.choice([20, 33]), draw.choice([17, 33, 50, 100])
    model = make_model(draw, family, head, length)
    model.save_pretrained(source)
    form, dtype = draw.choice(["safetensors", "bin"]), draw.choice([None, "fp32", "fp16", "bf16"])
    command = [binary, "convert", source, target, "--to", form, "--max-positions", str(count)]
    window = draw.choice([None, 16, 32]) if family == "Longformer" else 32
    command += [] if window is None else ["--window", str(window)]
    command += [] if dtype is None else ["--dtype", dtype]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    config = json.loads((target / "config.json").read_text())
    assert config["architectures"] == ["Longformer" + head], config["architectures"]
    stored = (torch.load(target / "pytorch_model.bin", weights_only=True) if form == "bin" else None)
    if stored and dtype:
        assert {tensor.dtype for tensor in stored.values()} == {DTYPES[dtype]}
    if dtype:
        model = model.to(DTYPES[dtype]).float()
    converted = load_converted(target, "Longformer" + head)
    if family == "Longformer" and window is None:
        assert converted.config.attention_window == model.config.attention_window
    n = min(length, count, 17)
    shape = (2, 2, n) if head == "ForMultipleChoice" else (2, n)
    ids = torch.randint(5, 60, shape)
    mask = {"global_attention_mask": torch.zeros_like(ids)}
    same_model = family != "Longformer" or window is None
    if not same_model:
        model.config.attention_window = converted.config.attention_window
        model = type(model)(model.config)
        model.load_state_dict(load_state(source, dtype))
        model.eval()
    wanted = logits_of(model, ids, **(mask if family == "Longformer" else {}))
    largest = largest_difference(wanted, logits_of(converted, ids, **mask))
    assert largest <= TOLERANCE, largest
    return form, dtype or "kept", length, count, largest


def load_state(folder, dtype):
    loaded = transformers.AutoConfig.from_pretrained(str(folder))
    model = getattr(transformers, loaded.architectures[0]).from_pretrained(str(folder))
    return (model.to(DTYPES[dtype]) if dtype else model).float().state_dict()


def original(binary, draw, folder, mode):
    """A folder of the first implementation, or (mode None) a RoBERTa with its attention replaced."""
    source, target = folder / "source", folder / "target"
    source.mkdir()
    model = make_model(draw, "Longformer", "ForMaskedLM", 70)
    layers = model.config.num_hidden_layers
    config = {key: getattr(model.config, key) for key in (
        "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
        "max_position_embeddings", "type_vocab_size", "layer_norm_eps", "vocab_size",
        "attention_probs_dropout_prob", "hidden_dropout_prob", "initializer_range")}
    config["attention_window"] = [w if mode is None else w // 2 for w in model.config.attention_window]
    if mode is not None:
        config.update(attention_mode=mode, attention_dilation=[1] * layers, autoregressive=False)
    if mode != "tvm":
        config["model_type"] = "roberta"
    (source / "config.json").write_text(json.dumps(config))
    state = {name.replace("longformer.", "roberta."): tensor for name, tensor in model.state_dict().items()}
    torch.save(state, source / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    refused = subprocess.run([binary, "embed", source, "--text", "x"], capture_output=True, text=True)
    assert refused.returncode == 1 and "longformer convert" in refused.stderr, refused.stderr
    subprocess.run([binary, "convert", source, target], check=True, stdout=subprocess.DEVNULL)
    converted = load_converted(target, "LongformerForMaskedLM")
    assert converted.config.attention_window == model.config.attention_window
    ids = torch.randint(5, 60, (2, 64))
    mask = {"global_attention_mask": (torch.rand(2, 64) < 0.1).long()}
    largest = largest_difference(logits_of(model, ids, **mask), logits_of(converted, ids, **mask))
    assert largest <= TOLERANCE, largest
    return largest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=36)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        check_forms(random.Random(arguments.seed), pathlib.Path(folder))
    largest = 0.0
    for index in range(arguments.trials):
        draw = random.Random(arguments.seed * 1000 + index)
        torch.manual_seed(arguments.seed * 1000 + index)
        family, head = ("Bert", "Roberta", "Longformer")[index % 3], HEADS[index // 3 % len(HEADS)]
        with tempfile.TemporaryDirectory() as folder:
            row = conversion(arguments.binary, draw, pathlib.Path(folder), family, head)
        largest = max(largest, row[-1])
        print("{:10} {:25} {:11} {:4} length {:2} -> {:3}: {:.1e}".format(family, head, *row))
    for mode in ("tvm", "sliding_chunks", None):
        with tempfile.TemporaryDirectory() as folder:
            difference = original(arguments.binary, random.Random(arguments.seed), pathlib.Path(folder), mode)
        largest = max(largest, difference)
        print(f"original folder, attention_mode {mode}: {difference:.1e}")
    print(f"{arguments.trials} conversions, largest difference {largest:.1e}")


if __name__ == "__main__":
    sys.exit(main())
