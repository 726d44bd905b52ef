#!/usr/bin/env python3
"""Writes src/text/grapheme_classes.h: how characters join into graphemes for `tokenizers`.

The package shows its graphemes through the normalizer Precompiled, which replaces a short grapheme
as a whole. Small maps of our own make every code point visible. Run it again when the package
changes its Unicode version.

    python3 tools/make_grapheme_classes.py > src/text/grapheme_classes.h
"""

import struct

from code_points import print_classes
from tokenizers import normalizers

# The values of GraphemeClass in src/text/graphemes.h.
OTHER, CONTROL, EXTEND, SPACING, PREPEND, PICTOGRAPHIC, CONSONANT, LINKER, CONJUNCT_EXTEND = range(9)

ACUTE, GRAVE, JOINER, COPYRIGHT = "\u0301", "\u0300", "\u200d", "\u00a9"
KA, VIRAMA, KHA = "\u0915", "\u094d", "\u0916"


class DoubleArray:
    """The trie of a precompiled map, one block of 256 units for the children of each node."""

    def __init__(self, keys):
        self.units, self.text = [0] * 512, b""
        trie = {}
        for key, value in keys.items():
            node = trie
            for byte in key.encode():
                node = node.setdefault(byte, {})
            node[-1] = value
        self.place(0, trie, 256)

    def place(self, position, node, base):
        self.units[position] |= (position ^ base) << 10
        if -1 in node:
            self.units[position] |= 1 << 8
            self.units[base] = len(self.text) | 1 << 31
            self.text += node[-1].encode() + b"\0"
        for byte, child in node.items():
            if byte >= 0:
                self.units[base ^ byte] |= byte
                self.units += [0] * 256
                self.place(base ^ byte, child, len(self.units) - 256)

    def normalizer(self):
        size = len(self.units)
        bytes_of_map = struct.pack(f"<{size + 1}I", 4 * size, *self.units) + self.text
        return normalizers.Precompiled(bytes_of_map).normalize_str


def replacing(*keys):
    return DoubleArray(dict.fromkeys(keys, "Y")).normalizer()


class Package:
    """Each question replaces what begins a grapheme of less than six bytes."""

    def __init__(self):
        self.letter = replacing("a")
        self.acute = replacing(ACUTE)
        self.copyright = replacing(COPYRIGHT)
        self.kha = replacing(KHA)

    def class_of(self, c):
        # An accent behind a short grapheme vanishes with it, one in a long grapheme stays.
        if self.letter("a" + c) == "Y":
            return self.class_of_mark(c)
        if self.acute(c + ACUTE + GRAVE).endswith("Y"):
            own = replacing(c, ACUTE)
            if len(c.encode()) > 1 or own(c + ACUTE + GRAVE) == "YY":
                return CONTROL
        if replacing(c)(c + "a") == "Y":
            return PREPEND
        if self.copyright(c + JOINER + COPYRIGHT + ACUTE).endswith("Y" + ACUTE):
            return PICTOGRAPHIC
        if self.kha(c + VIRAMA + KHA + ACUTE).endswith("Y" + ACUTE):
            return CONSONANT
        return OTHER

    def class_of_mark(self, c):
        if self.kha(KA + c + KHA + ACUTE).endswith("Y" + ACUTE):
            return LINKER
        if self.kha(KA + VIRAMA + c + KHA + ACUTE).endswith("Y" + ACUTE):
            return CONJUNCT_EXTEND
        joined = COPYRIGHT + c + JOINER + COPYRIGHT + ACUTE
        return EXTEND if self.copyright(joined).endswith("Y" + ACUTE) else SPACING


def main():
    print_classes(
        "grapheme_classes",
        "How characters join into graphemes for `tokenizers`.",
        "make_grapheme_classes.py",
        "GraphemeClass of all but Hangul, line ends and other characters, in increasing order.",
        Package().class_of,
        first=1,
    )


main()
