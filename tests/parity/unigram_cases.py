"""Unigram tokenizers for tokenizer_parity.py: trained by SentencePiece, put together as the files of
XLM-RoBERTa, ALBERT, CamemBERT and T5 are, and in ways that no file is but might be."""

import functools
import io
import json
import lzma
import types

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers.convert_slow_tokenizer import DebertaV2Converter

SPACE = "\u2581"
# Special tokens of microsoft/deberta-v3-*, and a token that the text is searched for.
DEBERTA = {
    **{"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3},
    **{"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"},
    "user_defined_symbols": ["zz top"],
}


def train(lines, rule, vocabulary_size, byte_fallback=False, **options):
    """A SentencePiece model of the lines."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=vocabulary_size,
        hard_vocab_limit=False,
        model_type="unigram",
        **({"normalization_rule_name": rule} if rule else {}),
        character_coverage=0.9995,
        byte_fallback=byte_fallback,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto


@functools.cache
def trained(data, rule, byte_fallback=False, deberta=False):
    """The model of a part of enwik8, which has a few words of many languages."""
    text = lzma.decompress((data / "enwik8_head" / "enwik8.head4154064.xz").read_bytes())
    lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
    links = [line for line in lines if line.startswith("[[") and ":" in line[:15]]
    return train(lines[:6000] + links, rule, 6000, byte_fallback, **(DEBERTA if deberta else {}))


def pieces(proto):
    return [(piece.piece, piece.score) for piece in proto.pieces]


def charsmap(proto):
    return normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)


def metaspace(scheme="always", split=True):
    return pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=split)


def words(scheme="always"):
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace(scheme)])


def template(tokenizer, first, last, double=True):
    separator = f" {last}" if double else ""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last}{separator} $B {last}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )


def spaces_joined(content):
    return normalizers.Replace(Regex(" {2,}"), content)


def odd_tokens(normalized):
    return [
        AddedToken("Unbelievable", single_word=True, normalized=normalized),
        AddedToken("zz top", lstrip=True, rstrip=True, normalized=normalized),
        AddedToken("ZZ", rstrip=True, normalized=normalized),
    ]


def xlm_roberta(proto):
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = [(token, 0.0) for token in special] + pieces(proto)[3:] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 3, False))
    tokenizer.normalizer = charsmap(proto)
    tokenizer.pre_tokenizer = words()
    tokenizer.decoder = decoders.Metaspace(SPACE, "always")
    tokenizer.add_special_tokens([*special, AddedToken("<mask>", lstrip=True, special=True)])
    template(tokenizer, "<s>", "</s>")
    return tokenizer


def xlm_roberta_words(model):
    return xlm_roberta(model("nmt_nfkc"))


def xlm_roberta_converted(model):
    """The form of transformers 4."""
    proto = model("nmt_nfkc")
    tokenizer = xlm_roberta(proto)
    tokenizer.normalizer = normalizers.Sequence(
        [charsmap(proto), normalizers.Strip(left=False, right=True), spaces_joined(SPACE)]
    )
    tokenizer.pre_tokenizer = metaspace()
    return tokenizer


def folded(model):
    tokenizer = xlm_roberta(model("nmt_nfkc_cf"))
    tokenizer.pre_tokenizer = metaspace("first")
    tokenizer.add_tokens(odd_tokens(True) + [AddedToken("\u00c5ngstr\u00f6m", normalized=True)])
    return tokenizer


def albert(model):
    proto = model("nmt_nfkc_cf")
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [(token, 0.0) for token in special] + pieces(proto)[3:]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 1, False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            charsmap(proto),
            spaces_joined(" "),
        ]
    )
    tokenizer.pre_tokenizer = metaspace()
    tokenizer.decoder = decoders.Metaspace(SPACE, "always")
    tokenizer.add_special_tokens([*special[:4], AddedToken("[MASK]", lstrip=True, special=True)])
    template(tokenizer, "[CLS]", "[SEP]", double=False)
    return tokenizer


def deberta(proto, steps):
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    vocabulary = [(token, 0.0) for token in special] + pieces(proto)[3:] + [("[MASK]", 0.0)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 3, False))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([metaspace()])
    tokenizer.decoder = decoders.Metaspace(SPACE, "always")
    tokenizer.add_special_tokens([*special, "[MASK]"])
    template(tokenizer, "[CLS]", "[SEP]", double=False)
    return tokenizer


def deberta_v2(model):
    spaces = normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " ")
    return deberta(model("nmt_nfkc"), [spaces, normalizers.NFC(), normalizers.Strip(left=False, right=True)])


def deberta_v2_converted(model):
    """The form of transformers 4."""
    proto = model("nmt_nfkc")
    return deberta(proto, [normalizers.Strip(), charsmap(proto), spaces_joined(" ")])


def write_deberta(proto, folder, **options):
    """Writes a folder whose vocabulary is spm.model alone; its tokenizer as `transformers` 4 converts it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spm.model"
    path.write_bytes(proto.SerializeToString())
    settings = {"tokenizer_class": "DebertaV2Tokenizer", "vocab_type": "spm", **options}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")
    slow = {"vocab_file": str(path), "do_lower_case": False, "split_by_punct": False} | options
    ids = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    tokenizer = DebertaV2Converter(types.SimpleNamespace(**slow, convert_tokens_to_ids=ids.get)).converted()
    # The roles of the class, in its order.
    tokenizer.add_special_tokens(["[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]"])
    return tokenizer


def sentence_piece(model, folder):
    return write_deberta(model("nmt_nfkc", deberta=True), folder)


def sentence_piece_lower(model, folder):
    return write_deberta(model("nmt_nfkc_cf", deberta=True), folder, do_lower_case=True)


def sentence_piece_split(model, folder):
    return write_deberta(model("identity", deberta=True), folder, split_by_punct=True)


def camembert(model):
    proto = model("nmt_nfkc")
    vocabulary = [
        ("<s>NOTUSED", 0.0),
        ("<pad>", 0.0),
        ("</s>NOTUSED", 0.0),
        ("<unk>", 0.0),
        ("<unk>NOTUSED", -100.0),
        *pieces(proto)[1:],
        ("<mask>", 0.0),
    ]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 3, False))
    tokenizer.normalizer = normalizers.Sequence([charsmap(proto), spaces_joined(" ")])
    tokenizer.pre_tokenizer = words()
    tokenizer.decoder = decoders.Metaspace(SPACE, "always")
    tokenizer.add_special_tokens(
        [
            "<s>",
            "<pad>",
            "</s>",
            "<unk>",
            "<s>NOTUSED",
            "</s>NOTUSED",
            AddedToken("<mask>", lstrip=True, special=True, normalized=True),
        ]
    )
    template(tokenizer, "<s>", "</s>")
    return tokenizer


def t5_bytes(model):
    proto = model("nfkc", byte_fallback=True)
    tokenizer = Tokenizer(models.Unigram(pieces(proto), 0, True))
    tokenizer.normalizer = normalizers.Sequence(
        [charsmap(proto), normalizers.Strip(left=True, right=True), spaces_joined(SPACE)]
    )
    tokenizer.pre_tokenizer = metaspace("first")
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens([f"<extra_id_{i}>" for i in range(5)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    return tokenizer


def plain_steps(model):
    tokenizer = Tokenizer(models.Unigram(pieces(model("identity")), 0, False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Nmt(),
            normalizers.NFKC(),
            normalizers.Lowercase(),
            normalizers.Replace("qu", "k"),
            normalizers.Replace(Regex("-+"), "\u2014"),
        ]
    )
    tokenizer.pre_tokenizer = metaspace("never")
    tokenizer.decoder = decoders.Metaspace(SPACE, "never")
    tokenizer.add_tokens(odd_tokens(False))
    return tokenizer


def whole_text(model):
    tokenizer = Tokenizer(models.Unigram(pieces(model("identity")), 0, False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    )
    return tokenizer


def unsplit(model):
    proto = model("nmt_nfkc")
    tokenizer = Tokenizer(models.Unigram(pieces(proto), 0, False))
    tokenizer.normalizer = charsmap(proto)
    tokenizer.pre_tokenizer = metaspace("always", split=False)
    tokenizer.decoder = decoders.Metaspace(SPACE, "always")
    return tokenizer


# Each takes a function of a normalisation rule that gives a SentencePiece model.
LARGE = [xlm_roberta_words, xlm_roberta_converted]
SWEPT = [*LARGE, folded, albert, deberta_v2, plain_steps]
# These write folders of their own.
FOLDERS = [sentence_piece, sentence_piece_lower, sentence_piece_split]
ALL = [*SWEPT, camembert, deberta_v2_converted, t5_bytes, whole_text, unsplit, *FOLDERS]


def saved(build, data, folder):
    """The tokenizer as the package reads its own file, which rounds the scores."""
    if build in FOLDERS:
        return build(functools.partial(trained, data), folder)
    folder.mkdir(parents=True)
    path = folder / "tokenizer.json"
    build(functools.partial(trained, data)).save(str(path))
    return Tokenizer.from_file(str(path))
