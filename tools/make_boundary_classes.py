#!/usr/bin/env python3
"""Writes src/text/boundary_classes.h: what a character says about ends of words and sentences.

The properties are those of the Unicode Character Database, as the package `regex` has them. Run it
again when the package changes its Unicode version.

    python3 tools/make_boundary_classes.py > src/text/boundary_classes.h
"""

import regex

# In the order in which they are asked: a character has the first class that it matches. The first
# is that of the value 1 in BoundaryClass of src/text/boundaries.cc.
CLASSES = (
    # Words go on behind them; a zero-width space ends one.
    ("invisible", r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]"),
    ("blank", r"[\p{White_Space}\u200B]"),
    ("stop", r"[\p{SB=ATerm}!?]"),
    # A shad ends what Tibetan has for sentences, and is only Terminal_Punctuation.
    ("terminal", r"[\p{Sentence_Terminal}\u0F0D-\u0F11]"),
    ("ellipsis", r"[\u2026\u22EF]"),
    ("opening", r"[\p{Ps}\p{Pi}]"),
    ("closing", r"[\p{Pe}\p{Pf}]"),
    # An underscore may close what Markdown emphasises.
    ("quote", r"[\p{SB=Close}_]"),
    ("pause", r"\p{SB=SContinue}"),
    ("punctuation", r"\p{P}"),
    ("nonstarter", r"[\p{LB=CJ}\p{LB=NS}]"),
    ("katakana", r"\p{WB=Katakana}"),
    ("unspaced", r"[\p{Alphabetic}&&\p{WB=Other}]"),
)


def class_of(character, patterns):
    for value, pattern in enumerate(patterns, 1):
        if pattern.match(character):
            return value
    return 0


def main():
    patterns = [regex.compile(pattern, regex.VERSION1) for _, pattern in CLASSES]
    rows = []
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        value = class_of(chr(c), patterns)
        if value == 0:
            continue
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == value:
            rows[-1][1] = c
        else:
            rows.append([c, c, value])
    print("// What a character says about ends of words and sentences.")
    print("// Written by tools/make_boundary_classes.py; do not edit.\n#pragma once\n")
    print('#include "text/unicode_differences.h"\n\nnamespace longformer::text {\n')
    print("/// BoundaryClass of all but other characters, in increasing order.")
    print("inline constexpr CodePointRange boundary_classes[] = {")
    for start in range(0, len(rows), 4):
        cells = ("{%#x, %#x, %d}," % tuple(row) for row in rows[start : start + 4])
        print("    " + " ".join(cells))
    print("};\n\n}  // namespace longformer::text")


main()
