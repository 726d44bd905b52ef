"""The generators of experiments/lra: values and labels by other means than they were made, lengths, seeds; and a tiny run of it all."""

import collections
import json
import lzma
import os
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LRA = ROOT / "experiments" / "lra"
BINARY = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
sys.path.insert(0, str(LRA))
import listops  # noqa: E402
import pictures  # noqa: E402
import texts  # noqa: E402


def evaluated(tokens):
    """The value of published tokens, with a stack."""
    stack = [[]]
    for token in tokens:
        if token.startswith("["):
            stack.append([token])
        elif token == "]":
            operator, *numbers = stack.pop()
            value = {"[MIN": min, "[MAX": max, "[MED": lambda x: int(statistics.median(x)), "[SM": lambda x: sum(x) % 10}[operator](numbers)
            stack[-1].append(value)
        else:
            stack[-1].append(int(token))
    (value,) = stack.pop()
    assert not stack
    return value


@pytest.fixture(scope="module")
def trees():
    return listops.examples(200, 3)


class TestListOps:
    def test_values(self, trees):
        words = {character: token for token, character in listops.CHARACTERS.items()}
        assert len(words) == 15
        for row in trees:
            assert str(evaluated([words[character] for character in row["text"]])) == row["label"]

    def test_lengths_and_repetitions(self, trees):
        assert all(500 < len(row["text"]) < 2000 for row in trees)
        assert len({row["text"] for row in trees}) == len(trees)
        assert all(500 < len(row["text"]) <= 1024 for row in listops.examples(40, 3, 500, 1025))

    def test_shape_of_trees(self):
        """Shares of leaves and operators, numbers of arguments and depth, as the published constants say."""
        dealer, numbers, operators, leaves, nodes = listops.random.Random(5), collections.Counter(), collections.Counter(), 0, 0
        depths = set()

        def visit(one, depth):
            nonlocal leaves, nodes
            depths.add(depth)
            if depth < listops.MAX_DEPTH:
                nodes += 1
                leaves += isinstance(one, int)
            if isinstance(one, int):
                return
            operators[one[0]] += 1
            numbers[len(one[1])] += 1
            for argument in one[1]:
                visit(argument, depth + 1)

        for _ in range(3000):
            one, length = listops.tree(dealer)
            assert length == len(listops.tokens(one))
            visit(one, 1)
        assert max(depths) == 10 and sorted(numbers) == list(range(2, 11)) and len(operators) == 4
        assert abs(leaves / nodes - 0.75) < 0.01
        for counts in (operators, numbers):
            assert max(counts.values()) < 1.15 * min(counts.values()), counts

    def test_published_text(self):
        """( and ) are removed by the published reader; an application is nested to the left."""
        one = ("MAX", [3, ("SM", [4, 5]), 0])
        assert listops.published(one) == "( ( ( ( [MAX 3 ) ( ( ( [SM 4 ) 5 ) ] ) ) 0 ) ] )"
        assert listops.published(one).replace("(", "").replace(")", "").split() == listops.tokens(one)
        assert listops.value(one) == 9 and listops.value(("MED", [1, 4])) == 2 and listops.value(("MED", [9, 1, 4])) == 4
        assert listops.value(("MIN", [7, 2, 5])) == 2


def connected(text, side):
    """Whether the two brightest places are connected by steps of at most LINK pixels over what is drawn."""
    rows = [text[at:at + side] for at in range(0, len(text), side)]
    drawn = {(y, x) for y, row in enumerate(rows) for x, level in enumerate(row) if level != "."}
    bright = {(y, x) for y, x in drawn if rows[y][x] == "%"}
    assert len(bright) == 10
    seen, waiting = set(), [min(bright)]
    while waiting:
        y, x = waiting.pop()
        if (y, x) not in seen:
            seen.add((y, x))
            waiting += [(b, a) for b, a in drawn - seen if max(abs(b - y), abs(a - x)) <= pictures.LINK]
    marked = {place for place in bright if max(abs(place[0] - min(bright)[0]), abs(place[1] - min(bright)[1])) <= 2}
    assert len(marked) in (5, 10)
    return bright <= seen


class TestPathfinder:
    @pytest.mark.parametrize("difficulty,side", [("easy", 32), ("hard", 32), ("easy", 45)])
    def test_labels(self, difficulty, side):
        rows = pictures.pathfinder(60, 5, difficulty, side)
        assert {row["label"] for row in rows} == {"connected", "apart"}
        for row in rows:
            assert len(row["text"]) == side * side
            assert connected(row["text"], side) == (row["label"] == "connected")

    def test_brightness_and_distance_say_nothing(self):
        """Pixels that are drawn, and how far apart the marked places are, have equal means for both labels."""
        found = {"connected": [], "apart": []}
        for row in pictures.pathfinder(400, 6):
            bright = np.argwhere(np.array(list(row["text"])).reshape(32, 32) == "%")
            first = bright[np.abs(bright - bright[0]).max(1) <= 2].mean(0)
            last = bright[np.abs(bright - bright[-1]).max(1) <= 2].mean(0)
            found[row["label"]].append((len(row["text"].replace(".", "")), np.hypot(*(first - last))))
        a, b = (np.array(found[label]) for label in found)
        error = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))
        assert (np.abs(a.mean(0) - b.mean(0)) < 4 * error).all()


class TestDigits:
    def test_pictures(self):
        rows = pictures.digits(600, 4)
        counts = collections.Counter(row["label"] for row in rows)
        assert sorted(counts) == list("0123456789") and min(counts.values()) > 30
        assert all(len(row["text"]) == 1024 and set(row["text"]) <= set(pictures.LEVELS) for row in rows)
        assert len({row["text"] for row in rows}) == len(rows)

    def test_they_are_digits(self):
        """The mean picture of a class is nearer to its pictures than those of others, mostly."""
        rows = pictures.digits(900, 4)
        x = np.array([[pictures.LEVELS.index(level) for level in row["text"]] for row in rows], float)
        y = np.array([int(row["label"]) for row in rows])
        means = np.stack([x[:600][y[:600] == digit].mean(0) for digit in range(10)])
        nearest = ((x[600:, None] - means) ** 2).sum(2).argmin(1)
        assert 0.5 < (nearest == y[600:]).mean() < 0.99

    def test_other_sizes(self):
        assert {len(row["text"]) for row in pictures.digits(3, 1, 64)} == {4096}


def test_seeds():
    for make in (lambda seed: listops.examples(5, seed), lambda seed: pictures.digits(3, seed), lambda seed: pictures.pathfinder(3, seed)):
        assert make(1) == make(1) != make(2)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A few articles and reviews in the form of the data sets."""
    (tmp_path / "data" / "imdb").mkdir(parents=True)
    (tmp_path / "data" / "wiki_en_extract").mkdir()
    for part in ("train", "test"):
        rows = [f"{label}\t8\t{at}\t{part} review {at}.<br /><br />Second part." for label in ("pos", "neg") for at in range(30)]
        with lzma.open(tmp_path / "data" / "imdb" / f"imdb_{part}.tsv.xz", "wt") as stream:
            stream.write("\n".join(rows))
    docs = [f'<doc id="{at}">\nTitle {at}\n\n' + " ".join(f"w{at}é{word}" for word in range(300)) + "\n</doc>\n" for at in range(80)]
    with lzma.open(tmp_path / "data" / "wiki_en_extract" / "enwiki_AA.txt.xz", "wt", encoding="utf-8") as stream:
        stream.write("".join(docs))
    monkeypatch.setenv("LONGFORMER_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


class TestTexts:
    def test_reviews(self, data):
        rows = texts.reviews("test", 40, 1)
        assert len(rows) == 40 and {row["label"] for row in rows} == {"pos", "neg"}
        assert all(row["text"].startswith("test review") and "<br" not in row["text"] for row in rows)
        assert rows == texts.reviews("test", 40, 1) != texts.reviews("test", 40, 2)

    def test_pairs(self, data):
        articles = {"train": set(), "test": set()}
        for part in articles:
            rows = texts.pairs(part, 60, 2, 200)
            assert {row["label"] for row in rows} == {"same", "different"}
            for row in rows:
                first, second = ([word.split("é") for word in row[key].split()[:-1]] for key in ("text", "text_pair"))
                assert all(len(row[key].encode()) <= 200 for key in ("text", "text_pair"))
                names = {name for name, _ in first} | {name for name, _ in second}
                assert len(names) == (1 if row["label"] == "same" else 2)
                articles[part] |= names
                if len(names) == 1:
                    assert max(int(at) for _, at in first) < min(int(at) for _, at in second)
        assert not articles["train"] & articles["test"]


class TestArena:
    def run(self, tmp_path, *arguments):
        done = subprocess.run(
            [sys.executable, LRA / "arena.py", "digits", "--binary", BINARY, "--tokens", "100", "--steps", "10", "--batch", "12", "--hidden", "32",
             "--layers", "1", "--tested", "8", "--seeds", "2", "--work", tmp_path / "work", "--results", tmp_path / "lra.jsonl", *arguments],
            capture_output=True, text=True, timeout=300)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def test_every_row_runs_once(self, tmp_path):
        rows = "first byte,bag of bytes,dense,window,BigBird,Blockwise,Funnel,Reformer,Sparse,Linformer,Performer"
        table = self.run(tmp_path, "--rows", rows)
        found = [json.loads(line) for line in (tmp_path / "lra.jsonl").read_text().splitlines()]
        # The two rows without a seed run once, the nine encoders twice.
        assert len(found) == 2 + 2 * 9
        for row in found:
            assert 0 <= row["accuracy"] <= 1
            if row["row"] in rows.split(",")[2:]:
                assert row["steps_per_second"] > 0 and row["peak_bytes"] > 1e6 and row["seconds_per_document"] > 0
        assert all(f"| {name} |" in table for name in rows.split(","))
        before = (tmp_path / "lra.jsonl").read_bytes()
        assert self.run(tmp_path, "--rows", rows) == table and (tmp_path / "lra.jsonl").read_bytes() == before
        assert self.run(tmp_path, "--table") == table

    def test_bad_arguments(self, tmp_path):
        for arguments, words in ((["chess"], "found chess"), (["--rows", "none"], "found none"), (["listops", "--tokens", "99"], "at least 520")):
            done = subprocess.run([sys.executable, LRA / "arena.py", *arguments], capture_output=True, text=True, timeout=60, cwd=tmp_path)
            assert done.returncode == 2 and words in done.stderr, done.stderr
