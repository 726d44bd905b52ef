"""BPE and WordLevel tokenizers for tokenizer_parity.py, put together as the files of Gemma, Llama 2, Llama 3, Qwen and
GPT-4 are, and in ways that no file is but might be. The merges are trained by `tokenizers` over parts of lines, across
words and line ends, so that each cut shows."""

import functools
import json
import lzma
import random

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

SPACE = "\u2581"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Llama 3 has that of GPT-4.
GPT4 = rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{LINES}"
QWEN2 = GPT4.replace("{1,3}", "")
QWEN35 = QWEN2.replace(r"\p{L}+", r"[\p{L}\p{M}]+", 1).replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
BYTES = [f"<0x{i:02X}>" for i in range(256)]

ATOMS = (
    ["'s", "'S", "'\u017f", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'Ve", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D"]
    + ["'", "''", "'\u212a", "'k", "'l", "'r", "'v\u0301", "'x", "\u2019s", "'\u0301s", "\ufb05", "'\ufb06", "'\u00df"]
    + [" ", "  ", "   ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", "\n\t", "\u00a0", "\u2003", "\u3000"]
    + ["\u2028", "\u0085", "\x0b", "\x0c", "\x1c", "\u1680", "\u200b", "\ufeff", "\u180e", SPACE, f"{SPACE}{SPACE}"]
    + ["1", "12", "123", "1234", "12345678", "\u0663", "\u0664\u0665\u0666", "\u0967\u0968", "\u00b2", "\u00bd", "\u2163"]
    + ["\U0001d7d8", "\u3007", "\u5341", "\u0c66", "\U0001f100", "\uff11\uff12\uff13", "\u2460", "\U00010107"]
    + ["a", "Z", "word", "don't", "WON'T", "caf\u00e9", "cafe\u0301", "\u0301", "\u0308\u0323", "\u0928\u093f", "\u0e01\u0e33"]
    + ["\u4e2d\u6587", "\u65e5", "\ud55c\uae00", "\u1112\u1161", "\u05e9\u05b8", "\u0645\u064e", "\U00010400", "\u01c5", "\u02b0"]
    + ["!", "!?", "...", "\u2026", "(", ")", "//", "<", ">", "_", "-", "\u2014", "\u201c", "\u20ac", "$", "^", "`", "\u00b7"]
    + ["\U0001f468\u200d\U0001f469", "\U0001f44d\U0001f3fd", "\u200d", "\ufe0f", "\ue000", "\u0378", "\U000e0001", "\x00"]
    + ["\x07", "\u00ad", "\ufffd", "<0x41>", "<unk>", "<bos>", "<|end|>", "zz top", "ZZ", " x", "Unbelievable", "y" * 40]
)


def odd_texts(seed, count=100_000):
    """Texts of odd atoms, of any code points, and of bytes that are no text; lists of bytes."""
    rng = random.Random(seed)
    marks = ["'", " ", "\n", "1", "a", "\u0301", "s"]
    texts = []

    def any_character():
        code = rng.choice((rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x110000)))
        return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)

    for i in range(count):
        size = rng.randint(1, 20)
        if i % 10 == 0:
            alphabet = b"a1 '\n\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\xff\xed\xa0\xc5\xbf"
            texts.append(bytes(rng.choice(alphabet) for _ in range(size)))
        elif i % 10 < 4:
            texts.append("".join(rng.choice((any_character(), rng.choice(marks))) for _ in range(size)).encode())
        else:
            texts.append("".join(rng.choice(ATOMS) for _ in range(size)).encode())
    return texts


@functools.cache
def training_texts(data):
    text = lzma.decompress((data / "enwik8_head" / "enwik8.head4154064.xz").read_bytes()).decode(errors="replace")
    lines = [text[i : i + 24] for i in range(0, 400_000, 24)]
    return [*lines, *(t.decode(errors="replace") for t in odd_texts(11, 8000))]


def train(texts, special, size, **options):
    """The vocabulary and the merges of a BPE over whole texts, whatever words are in them."""
    tokenizer = Tokenizer(models.BPE())
    if options.get("bytes"):
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    else:
        tokenizer.normalizer = normalizers.Replace(" ", SPACE)
        if options.get("words"):
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="never")
        limit = options.get("characters", 300)
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, limit_alphabet=limit, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


# ---------------------------------------------------------------- byte level


def later(model, expression, behavior="isolated", invert=False, use_regex=False, prefix=False):
    special = ["<s>", "</s>", "<|end|>"]
    vocabulary, merges = model(special, bytes=True)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(expression), behavior=behavior, invert=invert),
            pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single="<s> $A </s>", pair="<s> $A </s> <s>:1 $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 1)]
            ),
        ]
    )
    return tokenizer


def llama3(model):
    return later(model, GPT4)


def gpt4(model):
    """The form in which the tokenizers of tiktoken are converted."""
    tokenizer = later(model, GPT4, "removed", invert=True)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens([AddedToken("zz top", lstrip=True, rstrip=True), AddedToken("Unbelievable", single_word=True)])
    return tokenizer


def qwen2(model):
    tokenizer = later(model, QWEN2)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def qwen35(model):
    tokenizer = later(model, QWEN35, "merged_with_previous")
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def gpt2_split(model):
    return later(model, GPT2, "merged_with_next", prefix=True)


def split_twice(model):
    return later(model, QWEN35, use_regex=True, prefix=True)


# ---------------------------------------------------------------- characters


def characters(model, special=("<unk>", "<bos>", "<eos>"), fallback=True, fuse=True, unknown="<unk>", **options):
    special = [*special, *(BYTES if fallback else [])]
    vocabulary, merges = model(special, **options)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=fuse, byte_fallback=fallback))
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(list(special[:3]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>",
        pair="<bos> $A <eos> <bos>:1 $B:1 <eos>:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("<bos>", "<eos>")],
    )
    return tokenizer


def gemma(model, **options):
    tokenizer = characters(model, **options)
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous", invert=False)
    tokenizer.add_tokens(
        [AddedToken("\n" * i, normalized=False) for i in (2, 3)] + [AddedToken(SPACE * 2, normalized=False), "zz top"]
    )
    return tokenizer


def gemma_words(model):
    """No token goes across words, as in a large vocabulary."""
    return gemma(model, words=True)


def gemma_across_words(model):
    return gemma(model, words=False)


def llama2(model):
    tokenizer = characters(model, words=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def llama2_metaspace(model):
    """The form of `legacy` false."""
    tokenizer = characters(model, words=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False)
    return tokenizer


def pairs_of_words(model):
    tokenizer = characters(model, fallback=False, words=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always")
    return tokenizer


def unknowns_apart(model):
    """Bytes that are not all there, so that unknown characters and bytes mix."""
    special = ["<unk>", "<bos>", "<eos>", *(token for i, token in enumerate(BYTES) if i % 3)]
    vocabulary, merges = model(special, characters=60)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=False, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "contiguous")
    return tokenizer


def vanishing(model):
    tokenizer = characters(model, fallback=False, unknown=None, words=True, characters=60)
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split("a", "removed")
    return tokenizer


def split_characters(behavior, invert, model):
    tokenizer = characters(model, words=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("''", behavior, invert=invert)]
    )
    return tokenizer


def split_case(behavior, invert):
    build = functools.partial(split_characters, behavior, invert)
    build.__name__ = f"split_{behavior}{'_inverted' if invert else ''}"
    return build


SPLITS = [
    split_case(behavior, invert)
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
    for invert in (False, True)
]


# ---------------------------------------------------------------- WordLevel


def word_level(tokenizer_of_words, texts):
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizer_of_words
    trainer = trainers.WordLevelTrainer(vocab_size=3000, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


def words(model):
    tokenizer = word_level(pre_tokenizers.Whitespace(), model.keywords["texts"])
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    return tokenizer


def words_between_spaces(model):
    return word_level(pre_tokenizers.WhitespaceSplit(), model.keywords["texts"])


# Each takes a function of special tokens and options that gives a vocabulary and merges.
LARGE = [llama3, qwen2, gemma_words]
SWEPT = [*LARGE, gpt4, qwen35, gemma_across_words, llama2, llama2_metaspace, words]
ALL = [*SWEPT, gpt2_split, split_twice, pairs_of_words, unknowns_apart, vanishing, *SPLITS, words_between_spaces]


def saved(build, data, folder):
    folder.mkdir(parents=True)
    path = folder / "tokenizer.json"
    build(functools.partial(_train, texts=training_texts(data))).save(str(path))
    return Tokenizer.from_file(str(path))


def _train(special, texts, **options):
    return train(texts, special, 6000, **options)
