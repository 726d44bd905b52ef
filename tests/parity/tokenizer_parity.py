#!/usr/bin/env python3
"""Compares our tokenizers with the `tokenizers` package: ids, offsets, masks, decoded text.

    python3 tests/parity/tokenizer_parity.py --dump build/tests/tokenizer_dump [--model FOLDER ...]

The data is the folder of LONGFORMER_DATA or ../shared/data; --model adds folders with a
tokenizer.json. Prints one line per comparison and exits with 1 when anything differs.
"""

import argparse
import contextlib
import functools
import io
import itertools
import json
import lzma
import multiprocessing
import os
import pathlib
import random
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unicodedata

import numpy as np
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.implementations import BertWordPieceTokenizer, ByteLevelBPETokenizer

import pair_cases
import unigram_cases

STRATEGIES = ["longest_first", "only_first", "only_second"]
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one process per core instead


# ---------------------------------------------------------------- the two sides


class Record:
    """One call of encode; `text` and `pair` are bytes, decoded with U+FFFD for the package."""

    def __init__(self, text, pair=None, max_length=None, strategy=0, special=True):
        self.text = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        self.pair = pair.encode() if isinstance(pair, str) else pair
        self.max_length, self.strategy, self.special = max_length, strategy, special

    def packed(self):
        header = (
            len(self.text),
            -1 if self.pair is None else len(self.pair),
            -1 if self.max_length is None else self.max_length,
            self.strategy,
            int(self.special),
        )
        return struct.pack("<5i", *header) + self.text + (self.pair or b"")

    def package(self, tokenizer):
        """The expected result as a tuple of arrays, None for an error."""
        tokenizer.no_truncation()
        tokenizer.no_padding()
        text = self.text.decode("utf-8", "replace")
        pair = None if self.pair is None else self.pair.decode("utf-8", "replace")
        try:
            full = tokenizer.encode(text, pair, add_special_tokens=self.special)
            kept = full
            if self.max_length is not None:
                added = tokenizer.num_special_tokens_to_add(pair is not None) if self.special else 0
                if self.max_length < added:
                    return None
                tokenizer.enable_truncation(self.max_length, strategy=STRATEGIES[self.strategy])
                kept = tokenizer.encode(text, pair, add_special_tokens=self.special)
                tokenizer.no_truncation()
        except BaseException as error:  # the package panics on some truncations
            if isinstance(error, KeyboardInterrupt):
                raise
            return None
        return as_arrays(kept, len(full.ids) - len(kept.ids))


def as_arrays(encoding, truncated):
    flat = itertools.chain.from_iterable(encoding.offsets)
    offsets = np.fromiter(flat, np.int32, 2 * len(encoding)).reshape(-1, 2)
    sequences = [-1 if s is None else s for s in encoding.sequence_ids]
    return (
        np.array(encoding.ids, np.int32),
        offsets[:, 0],
        offsets[:, 1],
        np.array(encoding.type_ids, np.int32),
        np.array(encoding.special_tokens_mask, np.int32),
        np.array(sequences, np.int32),
        np.array([truncated], np.int32),
    )


def package_batches(tokenizer, records, size=256):
    """A few hundred texts at a time bound the memory of the package."""
    for start in range(0, len(records), size):
        texts = [r.text.decode("utf-8", "replace") for r in records[start : start + size]]
        for encoding in tokenizer.encode_batch(texts):
            yield as_arrays(encoding, 0)


FIELDS = ["ids", "begins", "ends", "type ids", "special marks", "sequence ids", "truncated"]


class Ours:
    def __init__(self, program, folder, scratch):
        self.program, self.folder, self.scratch = program, str(folder), scratch

    def run(self, *arguments):
        subprocess.run([self.program, self.folder, *map(str, arguments)], check=True)

    def encode(self, records):
        source, target = self.scratch / "records", self.scratch / "results"
        source.write_bytes(b"".join(r.packed() for r in records))
        self.run(source, target)
        values = np.fromfile(target, np.int32)
        position, results = 0, []
        for _ in records:
            count = int(values[position])
            position += 1
            if count < 0:
                results.append(None)
                continue
            arrays = [values[position + i * count : position + (i + 1) * count] for i in range(6)]
            position += 6 * count
            results.append((*arrays, values[position : position + 1]))
            position += 1
        assert position == len(values)
        return results

    def decode(self, lists):
        source, target = self.scratch / "ids", self.scratch / "texts"
        source.write_bytes(
            b"".join(
                struct.pack("<i", len(ids)) + np.array(ids, np.int32).tobytes() for ids in lists
            )
        )
        self.run("--decode", source, target)
        data, position, results = target.read_bytes(), 0, []
        while position < len(data):
            (size,) = struct.unpack_from("<i", data, position)
            results.append(data[position + 4 : position + 4 + size].decode())
            position += 4 + size
        return results


class Report:
    def __init__(self):
        self.differences = 0

    def line(self, name, what, count, tokens, bad, start):
        self.differences += bad
        print(
            f"{name:28} {what:22} {count:7} texts {tokens:9} tokens {bad:5} differences"
            f" {time.time() - start:6.1f} s",
            flush=True,
        )

    def compare(self, name, what, tokenizer, ours, records):
        """Encodes and compares; long lists of plain records go through the package as one batch."""
        start = time.time()
        plain = len(records) > 64 and all(
            r.pair is None and r.max_length is None and r.special for r in records
        )
        if plain:
            tokenizer.no_truncation()
            tokenizer.no_padding()
            expected = package_batches(tokenizer, records)
        else:
            expected = (r.package(tokenizer) for r in records)
        bad = tokens = 0
        for record, want, got in zip(records, expected, ours.encode(records)):
            tokens += 0 if got is None else len(got[0])
            wrong = self.first_difference(want, got)
            if wrong:
                bad += 1
                if bad <= 3:
                    shown = (
                        record.text[:80],
                        record.pair and record.pair[:40],
                        record.max_length,
                        record.special,
                    )
                    print(f"    {name}, {what}: {wrong}\n      {shown}")
        self.line(name, what, len(records), tokens, bad, start)

    @staticmethod
    def first_difference(want, got):
        if want is None or got is None:
            return (
                None
                if want is got
                else f"package {'fails' if want is None else 'works'}, we do not agree"
            )
        for field, a, b in zip(FIELDS, want, got):
            if len(a) != len(b):
                return f"{field}: package has {len(a)} {a[:12]}, we have {len(b)} {b[:12]}"
            if not np.array_equal(a, b):
                at = int(np.nonzero(a != b)[0][0])
                return f"{field} at token {at}: package {a[at:at + 6]}, ours {b[at:at + 6]}"
        return None

    def compare_decoding(self, name, tokenizer, ours, lists):
        start = time.time()
        got = ours.decode(lists)
        want = [
            tokenizer.decode(ids, skip_special_tokens=skip)
            for ids in lists
            for skip in (True, False)
        ]
        bad = sum(a != b for a, b in zip(want, got)) + abs(len(want) - len(got))
        for a, b in zip(want, got):
            if a != b:
                print(f"    {name}, decoding: package {a[:100]!r}, ours {b[:100]!r}")
                break
        self.line(name, "decoding", len(lists), sum(map(len, lists)), bad, start)


# ---------------------------------------------------------------- texts


def pieces(data, size):
    """Bytes cut at line ends into pieces of about `size`."""
    result, start = [], 0
    while start < len(data):
        end = data.find(b"\n", start + size)
        end = len(data) if end < 0 else end + 1
        result.append(data[start:end])
        start = end
    return result


def ugly_texts(seed):
    """Texts that break tokenizers; lists of bytes."""
    rng = random.Random(seed)
    # fmt: off
    atoms = [
        "a", "Z", "don't", "DON'T", "'ll", "' s", " ", "  ", "\t", "\n", "\r\n", "\u00a0",
        "\u2003", "\u3000", "\x00", "\x07", "\x1f", "\x7f", "\u0085", "\u00ad", "\u200b",
        "\u200d", "\ufeff", "\ufffd", "\U0001f468\u200d\U0001f469" "\u200d\U0001f467",
        "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "e\u0301", "\u00e9", "a\u0323\u0302",
        "a\u0302\u0323", "\u1ea5", "\u0130", "\u0131", "\u00df", "\u1e9e", "\ufb01", "\u01c5",
        "\u03a3\u03c2", "\u4e2d", "\u65e5\u672c\u8a9e", "\uf900", "\U00020000", "\U0002b820",
        "\ud55c\uad6d\uc5b4", "\u1112\u1161\u11ab", "\u0e44\u0e17\u0e22",
        "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05b8",
        "\U0001d15e", "\U0001d165", "\u0344", "\u1b44", "\ua953", "\ua9c0", "\u302e", "\u302f",
        "\U000116b6", "\u0f73\u0f71", "\u037e", "\u2260", "\u226e", "\u2163", "\u00bd", "\u0663",
        "12", "3.14", "x1y2", "#tag", "##ing", "[MASK]", "[SEP]", "[CLS", "<s>", "</s>",
        " <mask> ", "<mask>", "<|endoftext|>", "_", "-", "--", "...", "\u2026", "\u201cq\u201d",
        "\u20ac", "$", "^", "`", "~", "word", "Unbelievable", "pneumono", "x" * 40, "y" * 120,
        "\u00e4" * 20, "\U00010400", "\ue000", "\U000e0001", "\u0378", "\u1c89", "\ua7cb",
    ]
    # fmt: on
    texts = ["", " ", "\n", "a", "\u0301", "\u0301a", " \u0301", "\u4e2d\u0301\u302e", "\x00"]
    for _ in range(1500):
        texts.append("".join(rng.choice(atoms) for _ in range(rng.randint(1, 24))))
    invalid = [
        b"\xff",
        b"\xc3(",
        b"a\xe2\x82",
        b"\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf4\x90\x80\x80",
        b"\x80\x80x",
        b"ab\xf0\x80\x80\x80cd",
        b"\xe2\x28\xa1",
        bytes(range(256)),
    ]
    for _ in range(300):
        invalid.append(
            bytes(
                rng.choice(b"ab \xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\xff\xed\xa0")
                for _ in range(30)
            )
        )
    return [t.encode() for t in texts] + invalid


def huge_texts():
    return [
        b"a" * 1_000_000,
        b" " * 1_000_000,
        b"\n" * 100_000,
        "é".encode() * 100_000,
        "日".encode() * 100_000,
        b"ab" * 60_000 + b" end",
        b" " * 1000 + b"x",
        ("\u0301" * 50_000).encode(),
    ]


def lines_of(texts, per_record=64):
    return ["\n".join(texts[i : i + per_record]).encode() for i in range(0, len(texts), per_record)]


def every_code_point():
    """Each code point between two letters."""
    return lines_of([f"a{chr(c)}b" for c in range(0x110000) if not 0xD800 <= c < 0xE000])


def random_characters(seed, count=40_000):
    """Short texts of characters near each other, with marks, joiners and spaces among them."""
    rng = random.Random(seed)
    marks = "\u0301\u0308\u0323\u200d\u200c\u094d\u3099\uff9e\ufe0f\u1161\u11a8 \u00a0\r\n\u2581"
    # Most of the assigned characters, and some of the rest.
    blocks = [*range(0x20, 0x3400, 0x40), *range(0xA000, 0xAC00, 0x40), 0xAC00]
    blocks += [*range(0xF900, 0x10000 - 0x40, 0x20), *range(0x10000, 0x11F00, 0x100)]
    blocks += [0x1D100, 0x1D400, 0x1F100, 0x1F1E6, 0x1F400, 0xE0000]
    texts = []
    for _ in range(count):
        near = rng.choice(blocks)
        pick = [lambda: chr(near + rng.randrange(64)), lambda: rng.choice(marks)]
        pick += [lambda: rng.choice(" ab<"), lambda: chr(rng.choice(blocks) + rng.randrange(64))]
        texts.append("".join(rng.choice(pick)() for _ in range(rng.randint(1, 24))))
    return [text.encode() for text in texts]


def characters_in_context():
    """The assigned characters where their classes show; 1 in 97 of the Chinese and Korean."""
    texts = []
    for code in range(0x110000):
        c = chr(code)
        bulk = (
            0x3400 <= code < 0x9F00
            or 0xAC00 <= code < 0xD700
            or 0x17000 <= code < 0x18D00
            or 0x20000 <= code < 0x32000
        )
        if unicodedata.category(c) in ("Cn", "Co", "Cs") or (bulk and code % 97):
            continue
        texts.append(f"a{c}b 1{c}2 !{c}? {c} {c}{c} A{c}\u0323\u0301")
    return lines_of(texts)


def pair_records(texts, seed, count=600):
    rng = random.Random(seed)
    short = [t[:200] for t in texts if t] + [b"", b"one", b"one two three"]
    records = []
    for _ in range(count):
        pair = rng.choice(short) if rng.random() < 0.7 else None
        limit = rng.choice([None, 0, 2, 3, 4, 5, 7, 8, 16, 31, 64])
        records.append(Record(rng.choice(short), pair, limit, rng.randrange(3), rng.random() < 0.7))
    return records


def random_ids(tokenizer, seed):
    rng = random.Random(seed)
    known = sorted(tokenizer.get_vocab().values())
    lists = [[rng.choice(known) for _ in range(rng.randint(0, 40))] for _ in range(500)]
    return lists + [
        tokenizer.encode(t).ids
        for t in ("Hello, world! It's fine.", "don't ' stop .", "日本語 text")
    ]


# ---------------------------------------------------------------- tokenizers


def roberta(folder, prefix, trim, masks):
    files = (str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = ByteLevelBPETokenizer(*files, add_prefix_space=prefix, trim_offsets=trim)._tokenizer
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim, prefix)
    tokenizer.add_special_tokens(
        ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)]
    )
    tokenizer.add_tokens(masks)
    return tokenizer


def added_tokens(normalized):
    return [
        AddedToken("Unbelievable", single_word=True, normalized=normalized),
        AddedToken("zz top", lstrip=True, rstrip=True, normalized=normalized),
        AddedToken("ZZ", rstrip=True, normalized=normalized),
        AddedToken(" x", normalized=normalized),
    ]


def save(tokenizer, folder):
    """The package's own tokenizer.json."""
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def link(folder, **files):
    folder.mkdir(parents=True)
    for name, source in files.items():
        (folder / name.replace("_", ".")).symlink_to(source)
    return folder


def write_config(folder, **values):
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    return folder


class Case:
    """A tokenizer on both sides; `large`: over all data, `sweep`: over every code point, `odd`: number of odd texts."""

    def __init__(self, name, package, folder, large=False, sweep=False, odd=0):
        self.name, self.package, self.folder = name, package, folder
        self.large, self.sweep, self.odd = large, sweep, odd


def roberta_files(data, scratch):
    files = data / "roberta_bpe"
    folder = link(
        scratch / "files", vocab_json=files / "vocab.json", merges_txt=files / "merges.txt"
    )
    return Case("roberta files", roberta(files, False, True, []), folder, large=True, sweep=True)


def gpt2_files(data, scratch):
    files = data / "gpt2_bpe"
    tokenizer = ByteLevelBPETokenizer(
        str(files / "encoder.json"),
        str(files / "vocab.bpe"),
        add_prefix_space=False,
        trim_offsets=False,
    )._tokenizer
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B:1", special_tokens=[]
    )
    tokenizer.add_special_tokens(["<|endoftext|>"])
    folder = link(
        scratch / "files", vocab_json=files / "encoder.json", merges_txt=files / "vocab.bpe"
    )
    return Case("gpt2 files", tokenizer, folder, large=True)


def roberta_prefix(data, scratch):
    tokenizer = roberta(data / "roberta_bpe", True, True, added_tokens(False))
    return Case("roberta prefix, added", tokenizer, save(tokenizer, scratch / "saved"))


def roberta_normalized(data, scratch):
    tokenizer = roberta(data / "roberta_bpe", True, True, added_tokens(True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    )
    return Case("roberta normalized", tokenizer, save(tokenizer, scratch / "saved"))


def bert_normalizer_bytes(data, scratch):
    """Shows every character that BertNormalizer writes, which WordPiece hides behind [UNK]."""
    tokenizer = roberta(data / "roberta_bpe", False, True, [])
    tokenizer.normalizer = normalizers.BertNormalizer()
    return Case(
        "bytes of BertNormalizer", tokenizer, save(tokenizer, scratch / "saved"), sweep=True
    )


def roberta_sequence(data, scratch):
    tokenizer = roberta(data / "roberta_bpe", False, False, added_tokens(True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
            processors.TemplateProcessing(
                single="<s> $A </s>",
                pair="<s> $A </s> $B:1 </s>:1",
                special_tokens=[("<s>", 0), ("</s>", 2)],
            ),
        ]
    )
    return Case("roberta NFC, sequence", tokenizer, save(tokenizer, scratch / "saved"))


def bert_vocabulary(data, case):
    return data / "bert_vocab" / f"bert-base-{case}-vocab.txt"


def bert(data, case, **options):
    return BertWordPieceTokenizer(str(bert_vocabulary(data, case)), **options)._tokenizer


def bert_uncased_files(data, scratch):
    folder = link(scratch / "files", vocab_txt=bert_vocabulary(data, "uncased"))
    return Case("bert uncased files", bert(data, "uncased"), folder, large=True, sweep=True)


def bert_cased_files(data, scratch):
    folder = link(scratch / "files", vocab_txt=bert_vocabulary(data, "cased"))
    write_config(folder, do_lower_case=False)
    return Case(
        "bert cased files", bert(data, "cased", lowercase=False), folder, large=True, sweep=True
    )


def bert_cased_stripped(data, scratch):
    tokenizer = bert(data, "cased", lowercase=False, strip_accents=True)
    return Case("bert cased, stripped", tokenizer, save(tokenizer, scratch / "saved"))


def bert_lowercase_only(data, scratch):
    tokenizer = bert(
        data, "uncased", strip_accents=False, handle_chinese_chars=False, clean_text=False
    )
    return Case("bert lowercase only", tokenizer, save(tokenizer, scratch / "saved"))


def bert_added(data, scratch):
    tokenizer = bert(data, "uncased")
    tokenizer.add_tokens(added_tokens(True) + [AddedToken("[E1]", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $B:1 [SEP]:1 $A:0 [SEP]:0 [SEP]:1",
        special_tokens=[("[CLS]", 101), ("[SEP]", 102)],
    )
    return Case("bert added, template", tokenizer, save(tokenizer, scratch / "saved"))


def word_piece_sequence(data, scratch):
    tokenizer = Tokenizer(
        models.WordPiece.from_file(
            str(bert_vocabulary(data, "uncased")), unk_token="[UNK]", max_input_chars_per_word=30
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer()])
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return Case("wordpiece sequence", tokenizer, save(tokenizer, scratch / "saved"))


def word_piece_composed(data, scratch):
    tokenizer = Tokenizer(
        models.WordPiece.from_file(str(bert_vocabulary(data, "cased")), unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Case("wordpiece NFC", tokenizer, save(tokenizer, scratch / "saved"))


def unigram(build, name, data, scratch):
    folder = scratch / "saved"
    package = unigram_cases.saved(build, data, folder)
    large, sweep = build in unigram_cases.LARGE, build in unigram_cases.SWEPT
    odd = 100_000 if build in unigram_cases.FOLDERS else 0
    return Case(name, package, folder, large=large, sweep=sweep or odd > 0, odd=odd)


def pairs(build, name, data, scratch):
    folder = scratch / "saved"
    package = pair_cases.saved(build, data, folder)
    large, sweep = build in pair_cases.LARGE, build in pair_cases.SWEPT
    return Case(name, package, folder, large=large, sweep=sweep, odd=100_000 if sweep else 20_000)


def built(make, name, build):
    label = f"{name}_{build.__name__}"
    case = functools.partial(make, build, label.replace("_", " "))
    case.__name__ = label
    return case


CASES = [
    *(built(unigram, "unigram", build) for build in unigram_cases.ALL),
    *(built(pairs, "pairs", build) for build in pair_cases.ALL),
    roberta_files,
    bert_uncased_files,
    bert_normalizer_bytes,
    bert_cased_files,
    gpt2_files,
    roberta_prefix,
    roberta_normalized,
    roberta_sequence,
    bert_cased_stripped,
    bert_lowercase_only,
    bert_added,
    word_piece_sequence,
    word_piece_composed,
]


def corpora(data):
    """{name: pieces of bytes}"""
    enwik8 = lzma.decompress((data / "enwik8_head" / "enwik8.head4154064.xz").read_bytes())
    wikitext = b"".join(
        (data / "wikitext2_valtest" / f"{part}.txt").read_bytes() for part in ("valid", "test")
    )
    with tarfile.open(data / "litbank" / "original.tar.xz") as archive:
        novel = next(
            m for m in archive if m.isfile() and m.name.endswith(".txt") and m.size > 400_000
        )
        text = archive.extractfile(novel).read()
    return {
        "enwik8_head": pieces(enwik8, 8000),
        "wikitext2_valtest": pieces(wikitext, 8000),
        "novel": [text],
    }


def check(case, program, data, scratch):
    report = Report()
    ours = Ours(program, case.folder, scratch)

    def compare(what, texts):
        report.compare(case.name, what, case.package, ours, [Record(t) for t in texts])

    for corpus, parts in corpora(data).items():
        compare(corpus, parts if case.large else parts[:40])
    ugly = ugly_texts(1)
    compare("ugly text", ugly)
    compare("huge text", huge_texts() if case.large else huge_texts()[2:])
    compare("characters in context", characters_in_context())
    if case.sweep:
        compare("every code point", every_code_point())
        compare("random characters", random_characters(4))
    if case.odd:
        compare("odd text", pair_cases.odd_texts(5, case.odd))
    report.compare(case.name, "pairs and truncation", case.package, ours, pair_records(ugly, 2))
    report.compare_decoding(case.name, case.package, ours, random_ids(case.package, 3))
    return report.differences


def run_case(job):
    """Text and differences of one case, in its own process."""
    source, program, data = job
    output = io.StringIO()
    with contextlib.redirect_stdout(output), tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        if callable(source):
            case = source(data, scratch)
        else:
            package = Tokenizer.from_file(str(source / "tokenizer.json"))
            case = Case(str(source)[-28:], package, source, large=True)
        differences = check(case, program, data, scratch)
    return output.getvalue(), differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get(
        "LONGFORMER_DATA", pathlib.Path(__file__).parents[2].parent / "shared" / "data"
    )
    parser.add_argument("--dump", required=True, help="the program tokenizer_dump")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(default))
    parser.add_argument(
        "--model",
        type=pathlib.Path,
        action="append",
        default=[],
        help="folder with a tokenizer.json",
    )
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in case.__name__]
    jobs = [(source, arguments.dump, arguments.data) for source in [*cases, *arguments.model]]
    differences = 0
    start = time.time()
    with multiprocessing.get_context("fork").Pool(
        len(os.sched_getaffinity(0)), maxtasksperchild=1
    ) as pool:
        for text, count in pool.imap(run_case, jobs, chunksize=1):
            print(text, end="", flush=True)
            differences += count
    print(f"{differences} differences in {time.time() - start:.0f} s")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
