#!/usr/bin/env python3
"""Writes src/text/unicode_differences.h: where `tokenizers` and utf8proc disagree.

Asks both about every code point: utf8proc through ctypes, `tokenizers` through its own normalizers
and pre-tokenizers. Run it again when either of the two changes its Unicode version.

    python3 tools/make_unicode_differences.py > src/text/unicode_differences.h
"""

import ctypes
import ctypes.util

from code_points import ranges
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

# The bits of CharacterFlags in src/text/unicode.h.
LETTER, NUMBER, WHITESPACE, DROPPED, PUNCTUATION, NONSPACING, MARK, WORD, INDECOMPOSABLE, LATER_MARK = (
    1 << i for i in range(10)
)

CATEGORIES = (
    "CN LU LL LT LM LO MN MC ME ND NL NO PC PD PS PE PI PF PO SM SC SK SO ZS ZL ZP CC CF CS CO"
).split()
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# One mark of each canonical combining class that the classes of other marks are compared with.
CLASS_MARKS = [
    (0x334, 1),
    (0x93C, 7),
    (0x3099, 8),
    (0x94D, 9),
    (0x5B0, 10),
    (0x64B, 27),
    (0x321, 202),
    (0x316, 220),
    (0x59A, 222),
    (0x302E, 224),
    (0x1D16D, 226),
    (0x5AE, 228),
    (0x301, 230),
    (0x315, 232),
    (0x35C, 233),
    (0x35D, 234),
    (0x345, 240),
]

library = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
library.utf8proc_get_property.restype = ctypes.POINTER(ctypes.c_int16 * 2)


def utf8proc_category(code_point):
    return CATEGORIES[library.utf8proc_category(code_point)]


def utf8proc_class(code_point):
    return library.utf8proc_get_property(code_point).contents[1]


def utf8proc_decomposition(code_point, compatibility=False):
    buffer, boundary = (ctypes.c_int32 * 64)(), ctypes.c_int(0)
    options = 1 << 4 | compatibility << 2
    count = library.utf8proc_decompose_char(
        code_point, buffer, ctypes.c_ssize_t(64), options, ctypes.byref(boundary)
    )
    return "".join(map(chr, buffer[:count]))


def utf8proc_flags(c):
    """Flags that character_flags() of src/text/unicode.cc derives from utf8proc alone."""
    category = utf8proc_category(c)
    flags = 0
    if category[0] == "L":
        flags |= LETTER
    if category[0] == "N":
        flags |= NUMBER
    if category[0] == "Z" or 9 <= c <= 13 or c == 0x85:
        flags |= WHITESPACE
    if (category in ("CC", "CF", "CS", "CO") and c not in (9, 10, 13)) or c == 0xFFFD:
        flags |= DROPPED
    if category[0] == "P" or (c < 128 and category[0] == "S"):
        flags |= PUNCTUATION
    if category == "MN":
        flags |= NONSPACING
    if category[0] == "M":
        flags |= MARK | LATER_MARK
    circled = (
        0x24B6 <= c <= 0x24E9
        or 0x1F130 <= c <= 0x1F149
        or 0x1F150 <= c <= 0x1F169
        or 0x1F170 <= c <= 0x1F189
    )
    if category[0] in "LM" or category in ("ND", "NL", "PC") or c in (0x200C, 0x200D) or circled:
        flags |= WORD
    return flags


class Package:
    """The same questions, answered by `tokenizers`."""

    def __init__(self):
        def bert(**on):
            options = dict(
                clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False
            )
            return normalizers.BertNormalizer(**{**options, **on}).normalize_str

        self.byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
        marks = pre_tokenizers.Split(Regex(r"\p{M}"), behavior="isolated")
        self.marks_split = marks.pre_tokenize_str
        self.bert_split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
        self.clean = bert(clean_text=True)
        self.strip = bert(strip_accents=True)
        self.strip_marks = normalizers.StripAccents().normalize_str
        self.nfd = normalizers.NFD().normalize_str
        self.nfkd = normalizers.NFKD().normalize_str
        self.lower = normalizers.Lowercase().normalize_str
        self.words = Tokenizer(models.WordLevel({"[UNK]": 0, "foo": 1}, unk_token="[UNK]"))
        self.words.add_tokens([AddedToken("foo", single_word=True)])

    def flags(self, c):
        character = chr(c)
        flags = 0
        if len(self.byte_level("a" + character)) == 1:
            flags |= LETTER
        elif len(self.byte_level("1" + character)) == 1:
            flags |= NUMBER
        elif len(self.byte_level("!" + character)) == 2:
            flags |= WHITESPACE
        cleaned = self.clean("a" + character + "a")
        if cleaned == "aa":
            flags |= DROPPED
        pieces = len(self.bert_split("a" + character + "a"))
        if pieces == 3:
            flags |= PUNCTUATION
        assert (pieces == 2) == bool(flags & WHITESPACE), hex(c)
        assert (cleaned == "a a") == (bool(flags & WHITESPACE) and not flags & DROPPED), hex(c)
        if self.strip("a" + character) == "a":
            flags |= NONSPACING
        if self.strip_marks("a" + character) == "a":
            flags |= MARK
        if len(self.words.encode("foo" + character).ids) == 1:
            flags |= WORD
        if len(self.marks_split("a" + character)) == 2:
            flags |= LATER_MARK
        if utf8proc_decomposition(c) != self.nfd(character):
            assert self.nfd(character) == character, hex(c)
            flags |= INDECOMPOSABLE
        return flags

    def orders_like(self, c, combining_class):
        """Whether the canonical order around c is that of a character with the given class."""
        character = chr(c)
        for mark_code, mark_class in CLASS_MARKS:
            mark = chr(mark_code)
            after = mark + character if 0 < mark_class < combining_class else character + mark
            before = character + mark if 0 < combining_class < mark_class else mark + character
            if (
                self.nfd("a" + character + mark) != "a" + after
                or self.nfd("a" + mark + character) != "a" + before
            ):
                return False
        return True

    def combining_class(self, c):
        known = utf8proc_class(c)
        if self.orders_like(c, known):
            return known
        return next(k for k in range(255) if self.orders_like(c, k))


def table(kind, name, comment, rows):
    print(f"/// {comment}")
    print(f"inline constexpr {kind} {name}[] = {{")
    for start in range(0, len(rows), 4):
        print("    " + " ".join("{" + ", ".join(row) + "}," for row in rows[start : start + 4]))
    print("};\n")


def main():
    package = Package()
    flags, classes, lower, indecomposable = [], [], [], []
    for c in CODE_POINTS:
        ours, theirs = utf8proc_flags(c), package.flags(c)
        if ours != theirs:
            flags.append((c, theirs))
        if len(package.nfd(chr(c))) == 1 and package.nfd(chr(c)) == chr(c):
            theirs = package.combining_class(c)
            if theirs != utf8proc_class(c):
                classes.append((c, theirs))
        if utf8proc_decomposition(c, True) != package.nfkd(chr(c)):
            assert package.nfkd(chr(c)) == chr(c), hex(c)
            indecomposable.append((c, 1))
        theirs = package.lower(chr(c))
        if theirs != chr(library.utf8proc_tolower(c)) and c != 0x130:
            assert len(theirs) == 1, hex(c)
            lower.append((c, ord(theirs)))
    print("// Characters about which `tokenizers` and utf8proc disagree. Written by")
    print("// tools/make_unicode_differences.py; do not edit.\n#pragma once\n")
    print("#include <cstdint>\n\nnamespace longformer::text {\n")
    print(
        "struct CodePointRange {\n  std::uint32_t first;\n  std::uint32_t last;\n"
        "  std::uint16_t value;\n};\n"
    )
    print("struct CodePointPair {\n  std::uint32_t from;\n  std::uint32_t to;\n};\n")
    as_rows = [
        [(hex(a), hex(b), hex(v)) for a, b, v in ranges(values)] for values in (flags, classes, indecomposable)
    ]
    table("CodePointRange", "different_flags", "CharacterFlags, in increasing order.", as_rows[0])
    table(
        "CodePointRange",
        "different_classes",
        "Canonical combining classes, in increasing order.",
        as_rows[1],
    )
    table(
        "CodePointRange",
        "compatibility_indecomposable",
        "Characters that NFKD leaves alone, in increasing order.",
        as_rows[2],
    )
    table(
        "CodePointPair",
        "different_lowercase",
        "Lower-case letters, in increasing order.",
        [(hex(a), hex(b)) for a, b in lower],
    )
    print("}  // namespace longformer::text")


main()
