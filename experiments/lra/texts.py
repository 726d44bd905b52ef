"""Texts of the data sets as examples: reviews of IMDB, and pairs of passages of Wikipedia.

LONGFORMER_DATA names their folder (docs/data.md).
"""

import lzma
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import data_sets  # noqa: E402

IMDB = "imdb/imdb_train.tsv.xz", "imdb/imdb_test.tsv.xz"
WIKIPEDIA = "wiki_en_extract/enwiki_AA.txt.xz"
#: Every so many-th article is held out.
HELD_OUT = 20


def cut(text, most):
    """The text cut to at most so many bytes, at the end of a character."""
    return text.encode()[:most].decode("utf-8", "ignore")


def reviews(part, count, seed):
    """Reviews of a part, "train" or "test", in random order."""
    with lzma.open(data_sets.file(IMDB[part == "test"]), "rt", encoding="utf-8") as stream:
        rows = [line.rstrip("\n").split("\t") for line in stream]
    made = [{"text": re.sub(r"<br */?>", " ", row[3]), "label": row[0]} for row in rows if len(row) == 4 and row[0] in ("pos", "neg")]
    random.Random(seed).shuffle(made)
    return made[:count]


def articles(part, shortest):
    """Texts of the articles of a part of at least so many bytes."""
    with lzma.open(data_sets.file(WIKIPEDIA), "rt", encoding="utf-8") as stream:
        every = re.findall(r"<doc [^>]*>\n(.*?)</doc>", stream.read(), re.DOTALL)
    # The title stands in the first line.
    every = [text.strip().partition("\n")[2].strip() for text in every]
    return [text for at, text in enumerate(every) if (at % HELD_OUT == 0) == (part == "test") and len(text.encode()) >= shortest]


def passage(text, begin, size):
    """About `size` bytes from a byte on, from the beginning of a word."""
    rest = text.encode()[begin:begin + size].decode("utf-8", "ignore")
    return rest if begin == 0 else rest.partition(" ")[2] or rest


def pairs(part, count, seed, size):
    """Two passages of `size` bytes: parts of one article that do not overlap, or of two articles."""
    every = articles(part, 2 * size)
    dealer = random.Random(seed)
    made = []
    for _ in range(count):
        one, other = dealer.sample(every, 2)
        label = dealer.randrange(2)
        source = one if label else other
        middle = len(source.encode()) - size
        first = passage(one, dealer.randrange(len(one.encode()) // 2 - size + 1), size)
        second = passage(source, dealer.randrange(len(source.encode()) // 2, middle + 1), size)
        made.append({"text": first, "text_pair": second, "label": "same" if label else "different"})
    return made
