#!/usr/bin/env python3
"""Writes src/text/word_characters.h: what each character is in a word of a search index.

Categories, scripts and decimal digits come from the packages unicodedata2 and fonttools, which have a newer Unicode
than any utf8proc that the program meets. So an index has the same words whichever utf8proc made it.

    pip install fonttools unicodedata2
    python3 tools/make_word_characters.py > src/text/word_characters.h
"""

import unicodedata2 as unicodedata
from code_points import ranges
from fontTools.unicodedata import script, script_extension

# Folding of characters up to this version is the same in every utf8proc.
FIRST_VERSION = "14.0.0"

# The first ones are those that have rules of their own; see WordScript in src/text/search_words.h.
NAMED = ["Zyyy", "Latn", "Grek", "Cyrl", "Hebr", "Arab", "Armn", "Deva", "Taml"]
EAST_ASIAN = {"Hani", "Hira", "Kana", "Bopo"}
# Written without blanks between words: the line-breaking classes SA, ID and AK of Unicode.
WITHOUT_BLANKS = """Hang Yiii Nshu Tang Kits Thai Laoo Khmr Mymr Tibt Tale Talu Lana Tavt Ahom Java Bali Bugi Maka Batk
    Kawi Cham Egyp Xsux Hluw Lina Linb Cpmn""".split()
# Marks of these scripts are accents, points and vowel signs that readers leave out.
ACCENTS = {"Zyyy", "Zinh", "Latn", "Grek", "Cyrl", "Hebr", "Arab", "Syrc", "Copt", "Samr", "Glag", "Perm", "Armn", "Geor"}

KEPT_MARK, DIGIT, IGNORED, ACCENT = 0x100, 0x200, 0x400, 0x800

# Default_Ignorable_Code_Point of DerivedCoreProperties.txt.
IGNORABLE = [
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]  # fmt: skip
# Letters by category that stand for an apostrophe, and lengthening lines of Arabic and N'Ko.
APOSTROPHES = set(range(0x2B9, 0x2C0)) | {0x2C8, 0x2EE}
LINES = {0x640, 0x7FA}
# The voice marks of kana are parts of letters.
VOICE_MARKS = {0x3099, 0x309A}


def numbers_of_scripts():
    numbers = {name: i for i, name in enumerate(NAMED)}
    numbers |= dict.fromkeys(EAST_ASIAN, len(NAMED))
    numbers |= {name: len(NAMED) + 1 + i for i, name in enumerate(WITHOUT_BLANKS)}
    return numbers


class Characters:
    def __init__(self):
        self.numbers = numbers_of_scripts()

    def script_of(self, character):
        name = script(character)
        if name in ("Zyyy", "Zinh"):
            extensions = script_extension(character)
            if extensions <= EAST_ASIAN | {"Hang"} and extensions & EAST_ASIAN:
                return "Hani"
            return "Zyyy"
        return name

    def number(self, character):
        return self.numbers.setdefault(self.script_of(character), len(self.numbers))

    def value(self, c):
        """None for what stands between words."""
        character = chr(c)
        if any(first <= c <= last for first, last in IGNORABLE) or c in LINES:
            return IGNORED
        category = unicodedata.category(character)
        if category[0] == "M":
            is_combined = unicodedata.name(character, "").startswith(("COMBINING ", "HANGUL "))
            if c not in VOICE_MARKS and (is_combined or script(character) in ACCENTS):
                return ACCENT
            return KEPT_MARK | self.number(character)
        if c in APOSTROPHES:
            return None
        if category == "Nd":
            return DIGIT
        if category == "Co":
            return 0
        if category[0] in "LN":
            return self.number(character)
        return None


def is_later(c):
    """Whether utf8proc knows by its version how the character folds."""
    import unicodedata as old  # of Python 3.11, Unicode 14

    assert old.unidata_version == FIRST_VERSION, "needs Python 3.11"
    character = chr(c)
    return old.category(character) == "Cn" and unicodedata.category(character) != "Cn" and (
        unicodedata.normalize("NFKD", character) != character
        or character.casefold() != character
        or unicodedata.combining(character) != 0
        or unicodedata.category(character) in ("Lu", "Ll")
    )  # fmt: skip


def table(name, comment, rows):
    print(f"/// {comment}")
    print(f"inline constexpr CodePointRange {name}[] = {{")
    for start in range(0, len(rows), 4):
        print("    " + " ".join("{%#x, %#x, %#x}," % row for row in rows[start : start + 4]))
    print("};\n")


def main():
    characters = Characters()
    code_points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    found = [(c, characters.value(c)) for c in code_points]
    print("// What each character is in a word of a search index.")
    print("// Written by tools/make_word_characters.py; do not edit.\n#pragma once\n")
    print('#include "text/unicode_differences.h"\n\nnamespace longformer::text {\n')
    table("word_characters", "WordScript and flags of WordCharacter, in increasing order.",
          ranges([(c, value) for c, value in found if value is not None]))  # fmt: skip
    table("later_characters", "Newer than Unicode 14, and not what they fold to.",
          ranges([(c, 1) for c in code_points if is_later(c)]))  # fmt: skip
    print("}  // namespace longformer::text")


main()
