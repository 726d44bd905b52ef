"""The words of a search index over all characters, held to Python's unicodedata: NFKC without case, without marks of
scripts that readers write without them, digits of all scripts as 0 to 9."""

import os
import re
import subprocess
import unicodedata

import pytest

DUMP = os.path.join(os.path.dirname(os.environ["LONGFORMER_BINARY"]), "tests", "words_dump")
# Marks by the beginning of their names.
ACCENTS = ("COMBINING ", "CYRILLIC ", "HEBREW ", "ARABIC ", "SYRIAC ", "SAMARITAN ", "COPTIC ", "GLAGOLITIC ",
           "OLD PERMIC ", "IDEOGRAPHIC ", "HANGUL ", "DEVANAGARI STRESS ", "DEVANAGARI GRAVE ", "DEVANAGARI ACUTE ",
           "VEDIC ", "PHAISTOS ", "MUSICAL ", "VARIATION ", "ZNAMENNY ")  # fmt: skip
VOICE_MARKS = "\u3099\u309a"
IGNORED = re.compile("[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
                     "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
                     "\U000e0000-\U000e0fff\u0640\u07fa]")  # fmt: skip
APOSTROPHES = "ʹʺʻʼʽʾʿˈˮ"
# Letters without a decomposition that are found by plain ones.
PLAIN = re.compile("[æœþƀƃɓƈȼđðƌɖɗɇƒǥɠħıɨȷɉƙłƚɫɬŋƞɲøɵƥɍȿʂŧƫƭʈʉʋƴɏƶȥةىیک]")


def is_accent(character):
    return (
        unicodedata.category(character)[0] == "M"
        and character not in VOICE_MARKS
        and unicodedata.name(character, "").startswith(ACCENTS)
    )


def oracle(text):
    """The words without blanks between, so that it does not say where one ends."""
    folded = IGNORED.sub("", text)
    for _ in range(2):
        folded = unicodedata.normalize("NFKC", folded).casefold()
    folded = IGNORED.sub("", unicodedata.normalize("NFKD", folded).replace("i\u0307", "i"))
    words = ""
    for one in folded:
        category = unicodedata.category(one)
        if category == "Nd":
            words += str(unicodedata.decimal(one))
        elif category == "Co" or category[0] in "LNM" and one not in APOSTROPHES and not is_accent(one):
            words += one
    return words


def characters():
    for c in range(0x80, 0x110000):
        if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Cc"):
            yield chr(c)


def words_of(lines):
    result = subprocess.run([DUMP], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, check=True, encoding="utf-8")
    rows = result.stdout.split("\n")[:-1]
    assert len(rows) == len(lines)
    return [[tuple(word.split("=", 1)) for word in row.split("\t")[:-1]] for row in rows]


def forms(words):
    return unicodedata.normalize("NFKD", "".join(form for _, form in words))


@pytest.mark.skipif(not os.path.exists(DUMP), reason="words_dump was not built")
class TestAllCharacters:
    @pytest.mark.parametrize("around", ["{}", "x{}y"])
    def test_are_those_of_unicodedata(self, around):
        lines = [around.format(c) for c in characters() if c not in "\u2028\u2029\x85"]
        lines = [line for line in lines if not PLAIN.search(unicodedata.normalize("NFKD", line).casefold())]
        wrong = [(ascii(line), ascii(forms(words)), ascii(oracle(line)))
                 for line, words in zip(lines, words_of(lines)) if forms(words) != oracle(line)]  # fmt: skip
        assert len(lines) > 250000 and not wrong, (len(wrong), wrong[:40])

    def test_forms_of_one_text_are_one(self):
        """Every text has the words of its NFC, NFD, NFKC and NFKD."""
        lines = ["a " + c + " b" for c in characters() if unicodedata.normalize("NFKD", c) != c]
        ours = words_of(lines)
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            others = words_of([unicodedata.normalize(form, line) for line in lines])
            wrong = [(ascii(line), one, other) for line, one, other in zip(lines, ours, others)
                     if forms(one) != forms(other)]  # fmt: skip
            assert not wrong, (form, len(wrong), wrong[:20])

    def test_spans_are_the_characters(self):
        """Between two words a character is a word where it stands, or none."""
        lines = ["ab " + c + " yz" for c in characters()]
        for line, words in zip(lines, words_of(lines)):
            size = len(line.encode())
            spans = [tuple(map(int, span.split("-"))) for span, _ in words]
            assert spans[0] == (0, 2) and spans[-1] == (size - 2, size), ascii(line)
            assert all(span == (3, size - 3) for span in spans[1:-1]), (ascii(line), words)

    def test_accents_and_signs_that_nobody_sees_join(self):
        lines = ["ab" + c + "yz" for c in characters() if IGNORED.search(c) or is_accent(c)]
        wrong = [ascii(line) for line, words in zip(lines, words_of(lines)) if [form for _, form in words] != ["abyz"]]
        assert len(lines) > 1000 and not [line for line in wrong if "345" not in line], wrong[:20]
