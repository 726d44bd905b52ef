"""Checks `longformer convert` against `transformers`.

    python3 convert_parity.py BINARY [--trials 48] [--seed 1]

Each trial draws an encoder of a random family and sizes, converts it to a random length and window,
and requires of the result: it loads as the Longformer class of its head with no key missing or
unexpected (but for the pooler of families that have none); its position table follows the rule; the global projections equal the local ones; dtypes
are kept; it gives the numbers of the source for documents of at most window / 2 + 1 tokens, where
the window covers everything; AutoTokenizer gives the ids of the source, and the new length.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import random_models
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

TEXTS = [
    "",
    "the cat",
    "The quick brown fox jumps over the lazy dog. " * 20,
    "Caf\u00e9  \u4f60\u597d \U0001f600 isn't 1234 <mask> [MASK] </s> [SEP]",
]
TOLERANCE = 1e-5
WORD_PIECES = {"bert": "Bert", "distilbert": "DistilBert", "electra": "Electra"}
CLASSES = {**WORD_PIECES, "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}
HEADS = ("Model", "ForMaskedLM", "ForTokenClassification", "ForQuestionAnswering")
# BERT's masked-LM head has the activation of the layers, Longformer's always has gelu.
HEAD_LIKE_LAYERS = ("bert", "distilbert")


def redraw(model):
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_gain = "norm" in name.lower() and name.endswith("weight")
            weight.copy_(torch.randn_like(weight) * 0.15 + float(is_gain))
    return model.eval()


def bert_tokenizer_files(folder, draw, length, prefix):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["the", "quick", "brown", "fox", "cat", "over", "dog", "isn", "caf", "##e", "##s", ".", "'"]
    fillers = [f"[unused{i}]" for i in range(draw.randint(0, 9))]
    vocabulary = specials[:1] + fillers + specials[1:] + words
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    config = {"do_lower_case": True, "model_max_length": length}
    if draw.random() < 0.5:
        config["tokenizer_class"] = f"{prefix}{draw.choice(['Tokenizer', 'TokenizerFast'])}"
    if draw.random() < 0.8:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if draw.random() < 0.7:
        tokenizer = BertWordPieceTokenizer(str(folder / "vocab.txt"))
        tokenizer.enable_truncation(length // 2 + 3)
        tokenizer.enable_padding(length=length // 2 + 3)
        tokenizer.save(str(folder / "tokenizer.json"))
    return vocabulary


def roberta_tokenizer_files(folder, draw, length, _):
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(TEXTS * 2, vocab_size=290, min_frequency=2, show_progress=False,
                                  special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.save_model(str(folder))
    loaded = transformers.RobertaTokenizer.from_pretrained(str(folder), model_max_length=length)
    if draw.random() < 0.7:
        loaded.save_pretrained(str(folder))
        saved = json.loads((folder / "tokenizer.json").read_text())
        saved["truncation"] = {"direction": "Right", "max_length": length, "strategy": "LongestFirst",
                               "stride": 0}
        (folder / "tokenizer.json").write_text(json.dumps(saved, ensure_ascii=False))
    return [loaded.convert_ids_to_tokens(i) for i in range(len(loaded))]


def unigram_tokenizer_files(folder, draw, length, prefix):
    words = ["\u2581the", "\u2581quick", "\u2581fo", "\u2581caf", "over", "og", "\u2581"]
    letters = sorted(set("".join(TEXTS[1:])) - {" "})
    pieces = [(special, 0.0) for special in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces += [(piece, -draw.uniform(2, 9)) for piece in words + letters]
    tokenizer = getattr(transformers, f"{prefix}Tokenizer")(vocab=pieces, model_max_length=length)
    tokenizer.save_pretrained(str(folder))
    return [tokenizer.convert_ids_to_tokens(i) for i in range(len(tokenizer))]


TOKENIZERS = {
    **dict.fromkeys(WORD_PIECES, bert_tokenizer_files),
    "roberta": roberta_tokenizer_files,
    **dict.fromkeys(("xlm-roberta", "camembert"), unigram_tokenizer_files),
}


def make_source(folder, draw, with_tokenizer):
    """Writes a model folder and returns its model (fp32 values that its file's dtype can hold)."""
    kind = draw.choice(tuple(CLASSES))
    head = draw.choice(HEADS)
    positions_from_zero = kind in WORD_PIECES
    heads = draw.choice([1, 2, 3, 4])
    length = draw.choice([5, 16, 33, 64])
    pad = int(not positions_from_zero) if draw.random() < 0.8 else draw.choice([0, 1, 2])
    vocabulary_size = draw.randint(60, 70)
    if with_tokenizer:
        files = TOKENIZERS[kind]
        vocabulary_size = len(files(folder, draw, length, CLASSES[kind]))
        pad = int(not positions_from_zero)
    settings = dict(
        vocab_size=vocabulary_size,
        hidden_size=heads * draw.choice([3, 5, 8, 10]),
        num_hidden_layers=draw.choice([1, 2, 3]),
        num_attention_heads=heads,
        intermediate_size=draw.choice([7, 24]),
        max_position_embeddings=length + (0 if positions_from_zero else pad + 1),
        type_vocab_size=draw.choice([1, 2]),
        layer_norm_eps=draw.choice([1e-12, 1e-5]),
        pad_token_id=pad,
        tie_word_embeddings=draw.random() < 0.6,
        hidden_act="gelu" if kind in HEAD_LIKE_LAYERS and head == "ForMaskedLM"
        else draw.choice(["gelu", "gelu_new", "relu", "silu", "tanh", "quick_gelu", "mish"]),
    )
    if kind == "electra":
        settings["embedding_size"] = settings["hidden_size"]
    if kind == "distilbert":
        settings = {random_models.KEYS_OF_DISTILBERT.get(k, k): v for k, v in settings.items()}
    model_class = getattr(transformers, CLASSES[kind] + head)
    config_class = model_class.config_class
    model = redraw(model_class(config_class(**settings)))
    dtype = draw.choice([torch.float32, torch.float16, torch.bfloat16])
    model = model.to(dtype)
    model.save_pretrained(folder)
    # Keys that equal the class default may be absent.
    path = folder / "config.json"
    config = json.loads(path.read_text())
    defaults = config_class().to_dict()
    for key in list(config):
        if key != "model_type" and config[key] == defaults.get(key, "none") and draw.random() < 0.5:
            del config[key]
    path.write_text(json.dumps(config))
    return model.float(), kind, head, length


def check_positions(source, target, first, count):
    wanted = torch.zeros(first["target"] + count, source.shape[1], dtype=source.dtype)
    reserved = min(first.values())
    wanted[:reserved] = source[:reserved]
    period = source.shape[0] - first["source"]
    for t in range(count):
        wanted[first["target"] + t] = source[first["source"] + t % period]
    assert torch.equal(wanted, target), "position table"


def check_tokenizer(source, target, length):
    before = transformers.AutoTokenizer.from_pretrained(str(source))
    after = transformers.AutoTokenizer.from_pretrained(str(target))
    assert after.model_max_length == length, after.model_max_length
    for text in TEXTS:
        for arguments in ((text,), (text, TEXTS[1])):
            assert before(*arguments)["input_ids"] == after(*arguments)["input_ids"], text
    if (target / "tokenizer.json").exists():
        saved = json.loads((target / "tokenizer.json").read_text())
        assert saved["truncation"] is None and saved["padding"] is None
    config = json.loads((target / "config.json").read_text())
    assert config["sep_token_id"] == before.sep_token_id, config["sep_token_id"]
    assert config["bos_token_id"] == before.cls_token_id
    assert config["eos_token_id"] == before.sep_token_id
    assert config["pad_token_id"] == before.pad_token_id


def check_weights(source, target, kind, config, count):
    before = load_file(source / "model.safetensors")
    after = load_file(target / "model.safetensors")
    dtypes = {tensor.dtype for tensor in before.values()}
    assert {tensor.dtype for tensor in after.values()} == dtypes, dtypes
    for name, tensor in after.items():
        if "_global" in name:
            assert torch.equal(tensor, after[name.replace("_global", "")]), name
    [(_, old)] = [item for item in before.items() if "position_embeddings" in item[0]]
    [(_, new)] = [item for item in after.items() if "position_embeddings" in item[0]]
    pad = config.pad_token_id
    check_positions(old, new, {"source": 0 if kind in WORD_PIECES else pad + 1, "target": pad + 1}, count)


def trial(binary, draw, folder):
    with_tokenizer = draw.random() < 0.7
    source, target = folder / "source", folder / "target"
    source.mkdir()
    model, kind, head, length = make_source(source, draw, with_tokenizer)
    count = draw.choice([3, length - 1, length, length + 1, 2 * length, 100])
    window = draw.choice([4, 6, 16, 32])
    subprocess.run([binary, "convert", source, target, "--max-positions", str(count),
                    "--window", str(window)], check=True, stdout=subprocess.DEVNULL)

    check_weights(source, target, kind, model.config, count)
    has_pooler = kind not in ("distilbert", "electra")
    target_class = getattr(transformers, f"Longformer{head}")
    converted, loading = target_class.from_pretrained(str(target), dtype=torch.float32,
                                                      output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        found = {key for key in loading.get(problem) or () if has_pooler or "pooler" not in key}
        assert not found, (problem, found)
    assert converted.config.max_position_embeddings == count + model.config.pad_token_id + 1

    n = min(window // 2 + 1, length, count)
    largest = 0.0
    ids = torch.randint(5, model.config.vocab_size, (2, n))
    for mask in (torch.ones_like(ids), torch.ones_like(ids).index_fill(1, torch.tensor([n - 1]), 0)):
        if mask.sum() == 0:
            continue
        inputs = dict(input_ids=ids, attention_mask=mask)
        if kind != "distilbert" and model.config.type_vocab_size > 1:
            inputs["token_type_ids"] = torch.randint(0, 2, ids.shape)
        with torch.no_grad():
            wanted = model(**inputs, output_hidden_states=True)
            found = converted.eval()(**inputs, output_hidden_states=True,
                                     global_attention_mask=torch.zeros_like(ids))
        pairs = [(wanted.hidden_states[-1], found.hidden_states[-1])]
        for name in ("logits", "start_logits", "end_logits"):
            if name in wanted:
                pairs.append((wanted[name], found[name]))
        if head == "Model" and n > 1 and has_pooler:
            pairs.append((wanted.pooler_output[:, None], found.pooler_output[:, None]))
        for a, b in pairs:
            keep = mask.bool() if a.shape[1] == n else torch.ones(a.shape[:2], dtype=torch.bool)
            largest = max(largest, (a - b[:, : a.shape[1]]).abs()[keep].max().item())
    assert largest <= TOLERANCE, largest
    if with_tokenizer:
        check_tokenizer(source, target, count)
    return kind, head, with_tokenizer, length, count, window, largest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    largest = 0.0
    for index in range(arguments.trials):
        draw = random.Random(arguments.seed * 1000 + index)
        torch.manual_seed(arguments.seed * 1000 + index)
        with tempfile.TemporaryDirectory() as folder:
            row = trial(arguments.binary, draw, pathlib.Path(folder))
        largest = max(largest, row[-1])
        print("{:11} {:22} tokenizer={:d} length {:3} -> {:3}, window {:2}: {:.1e}".format(*row))
    print(f"{arguments.trials} conversions, largest difference {largest:.1e}")


if __name__ == "__main__":
    sys.exit(main())
