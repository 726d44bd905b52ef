"""Vectors of decoders that are read as encoders, and of EuroBERT, against sentence-transformers.

    python3 tests/parity/decoder_embedding_parity.py BINARY [--trials 8] [--seed 1]

Each trial draws a small Qwen3 with a tokenizer of its form (last token, a prompt for queries, Normalize), a Gemma 3 with
that of Gemma (mean, two Dense modules, Normalize, a prompt for documents too), or a EuroBERT with that of Llama 3, saves
the folder with sentence-transformers, and compares all ways to embed with `longformer embed --truncate`.
"""

import argparse
import functools
import pathlib
import random
import sys
import tempfile

import numpy
import pair_cases
import sentence_parity
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import processors

SIZES = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4}
GROUPS = {"num_key_value_heads": 2, "head_dim": 20}
KINDS = ["sliding_attention", "full_attention", "sliding_attention"]
INSTRUCTION = "Instruct: Given a question, find passages that answer it\nQuery:"


@functools.cache
def training_texts():
    text = sentence_parity.NOVEL.read_text(encoding="utf-8")
    return tuple(text[i : i + 24] for i in range(0, 120_000, 24))


def model_of(special, **options):
    return pair_cases.train(list(training_texts()), special, 900, **options)


def wrapped(tokenizer, **roles):
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)


def qwen3(draw):
    tokenizer = pair_cases.qwen2(model_of)
    end = tokenizer.token_to_id("</s>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", end)]
    )
    windows = {"use_sliding_window": True, "sliding_window": 16, "layer_types": KINDS} if draw.random() < 0.5 else {}
    config = transformers.Qwen3Config(**SIZES | GROUPS | windows, vocab_size=tokenizer.get_vocab_size(), pad_token_id=end)
    side = draw.choice(["left", "right"])
    return (
        transformers.Qwen3Model(config),
        wrapped(tokenizer, eos_token="</s>", pad_token="</s>", padding_side=side),
        lambda width: [Pooling(width, "lasttoken"), Normalize()],
        {"query": INSTRUCTION},
    )


def gemma3(draw):
    tokenizer = pair_cases.gemma_words(model_of)
    config = transformers.Gemma3TextConfig(
        **SIZES | GROUPS,
        vocab_size=tokenizer.get_vocab_size(),
        layer_types=KINDS,
        sliding_window=16,
        use_bidirectional_attention=draw.random() < 0.7,
        query_pre_attn_scalar=draw.choice([20, 32]),
    )

    def modules(width):
        plain = torch.nn.Identity()
        wide, narrow = Dense(width, 96, bias=False, activation_function=plain), Dense(96, width, bias=False, activation_function=plain)
        return [Pooling(width, "mean"), wide, narrow, Normalize()]

    prompts = {"query": "task: search result | query: ", "document": "title: none | text: "}
    return transformers.Gemma3TextModel(config), wrapped(tokenizer, pad_token="<unk>", eos_token="<eos>"), modules, prompts


def eurobert(draw):
    tokenizer = pair_cases.llama3(model_of)
    config = transformers.EuroBertConfig(
        **SIZES, num_key_value_heads=draw.choice([1, 2, 4]), vocab_size=tokenizer.get_vocab_size(), pad_token_id=2
    )
    pooling = draw.choice(["mean", "cls"])
    return (
        transformers.EuroBertModel(config),
        wrapped(tokenizer, pad_token="<|end|>", bos_token="<s>", eos_token="</s>"),
        lambda width: [Pooling(width, pooling)],
        {"query": "Query: ", "document": "Document: "},
    )


def drawn(draw, build, scratch):
    """The folder of a model with random weights, whose gains differ from one."""
    model, tokenizer, modules, prompts = build(draw)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    plain, folder = pathlib.Path(scratch, "plain"), pathlib.Path(scratch, "folder")
    model.save_pretrained(plain)
    tokenizer.save_pretrained(plain)
    encoder = Transformer(str(plain), max_seq_length=draw.choice([64, 512]))
    behind = modules(encoder.get_embedding_dimension())
    sentences = SentenceTransformer(modules=[encoder, *behind], prompts=prompts, device="cpu")
    sentences.save_pretrained(str(folder), create_model_card=False)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    draw = random.Random(options.seed)
    torch.manual_seed(options.seed)
    texts = sentence_parity.texts_of(draw, 8)[1:]
    rows = []
    for build in (qwen3, gemma3, eurobert):
        found = []
        for _ in range(options.trials):
            with tempfile.TemporaryDirectory() as scratch:
                found.append(sentence_parity.difference(options.binary, drawn(draw, build, scratch), texts))
        rows.append((build.__name__, float(numpy.max(found))))
    print("| vectors | largest difference |\n|---|---|")
    for name, value in rows:
        print(f"| {name}, {options.trials} folders | {value:.1e} |")
    return 0 if all(value <= sentence_parity.TOLERANCE for _, value in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
