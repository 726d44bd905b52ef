#!/usr/bin/env python3
"""Writes src/text/boundary_classes.h: what a character says about ends of words and sentences.

The properties are those of the Unicode Character Database, as the package `regex` has them. Run it
again when the package changes its Unicode version.

    python3 tools/make_boundary_classes.py > src/text/boundary_classes.h
"""

import regex
from code_points import print_classes

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
    print_classes(
        "boundary_classes",
        "What a character says about ends of words and sentences.",
        "make_boundary_classes.py",
        "BoundaryClass of all but other characters, in increasing order.",
        lambda character: class_of(character, patterns),
    )


main()
