"""GAP: `evaluate` with and without a model against a second count and a second reading of the clusters, and what is refused."""

import csv
import json
import os
import pathlib
import random

import pytest
from cli_coreference_test import SMALL, bert  # noqa: F401 (bert is a fixture)
from cli_test import BERT, FIXTURES, run
from cli_training_test import ran, write

DATA = os.environ.get("LONGFORMER_DATA")
COLUMNS = ["ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL"]
FEMININE, MASCULINE = {"she", "her", "hers"}, {"he", "him", "his"}

# Clusters by numbers of words. A pronoun alone, as part of a mention only, and in none; mentions of several words; a text whose
# characters are not its bytes.
STORIES = [
    ("he was at the of and she had been there he had her", [[(0, 0), (2, 4), (10, 10)], [(6, 6), (12, 12), (7, 8)]]),
    ("é the of was in his for she had been at and her it", [[(1, 2), (5, 6), (8, 10)], [(7, 7), (12, 13), (4, 4)]]),
]  # fmt: skip


def words_of(text):
    """[begin, end) of each word."""
    spans, at = [], 0
    for word in text.split(" "):
        spans.append((at, at + len(word)))
        at += len(word) + 1
    return spans


def example(name, text, pronoun, a, b, right=(True, False)):
    """A row whose pronoun and names are [begin, end) of the text."""
    row = {"ID": name, "Text": text, "URL": "http://x"}
    for column, (begin, end) in (("Pronoun", pronoun), ("A", a), ("B", b)):
        row |= {column: text[begin:end], f"{column}-offset": begin}
    return row | {"A-coref": str(right[0]).upper(), "B-coref": str(right[1]).upper()}


def tsv(path, rows, columns=COLUMNS, header=True, mark=""):
    lines = [columns] * header + [[str(row[column]) for column in columns if column in row] for row in rows]
    path.write_text(mark + "".join("\t".join(line) + "\n" for line in lines))
    return path


def answers(path, said, mark=""):
    return tsv(path, [{"ID": name, "A": a, "B": b} for name, (a, b) in said.items()], ["ID", "A", "B"], False, mark)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def scorecard(rows, said):
    """Figures of the official scorer, from 0 to 1: two decisions for each row, both missed where nothing is said."""
    scores = {}
    for prefix, pronouns in (("", FEMININE | MASCULINE), ("masculine_", MASCULINE), ("feminine_", FEMININE)):
        right = wrong = missed = 0
        for row in rows:
            if row["Pronoun"].lower() not in pronouns:
                continue
            for gold, found in zip((row["A-coref"], row["B-coref"]), said.get(row["ID"], (None, None)), strict=True):
                gold = gold.lower() == "true"
                missed += found is None or (gold and not found)
                right += bool(gold and found)
                wrong += bool(not gold and found)
        precision = right / (right + wrong) if right + wrong else 0
        recall = right / (right + missed) if right + missed else 0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
        scores |= {f"{prefix}f1": f1, f"{prefix}precision": precision, f"{prefix}recall": recall}
    he, she = scores["masculine_f1"], scores["feminine_f1"]
    return scores | {"bias": she / he if he and she else 0}


def drawn_rows(count, seed):
    """Rows with more of one gender than of the other, and labels that are not alike for both."""
    chosen = random.Random(seed)
    rows = []
    for number in range(count):
        pronoun = chosen.choice(["he", "His", "him", "he", "HE", "she", "Her", "hers"])
        text = f"Zoë met Ann, and {pronoun} left"
        is_a = chosen.random() < (0.7 if pronoun.lower() in FEMININE else 0.3)
        is_b = not is_a and chosen.random() < 0.8
        rows.append(example(f"x-{number}", text, (17, 17 + len(pronoun)), (0, 3), (8, 11), (is_a, is_b)))
    return rows


def drawn_answers(rows, seed):
    """A tenth is missing."""
    chosen = random.Random(seed)
    return {row["ID"]: (chosen.random() < 0.5, chosen.random() < 0.4) for row in rows if chosen.random() < 0.9}


def scored(said, gold, *flags):
    return run("evaluate", "--score", said, gold, "--json", *flags).passes().json[0]


def assert_counts_alike(gold, tmp_path):
    rows = rows_of(gold)
    said = drawn_answers(rows, 1)
    missing = len(rows) - len(said)
    assert 0.05 * len(rows) < missing < 0.15 * len(rows)
    expected = scorecard(rows, said)
    assert len(set(expected.values())) == len(expected) == 10
    report = scored(answers(tmp_path / "said.tsv", said), gold)
    assert report["task"] == "coreference" and report["examples"] == len(rows) and report["missing"] == missing
    assert list(report["metrics"]) == list(expected) and report["metrics"] == pytest.approx(expected, abs=1e-12)


class TestScore:
    def test_counts_as_a_second_counter_does(self, tmp_path):
        assert_counts_alike(tsv(tmp_path / "gold.tsv", drawn_rows(400, 3)), tmp_path)

    def test_labels_in_any_case(self, tmp_path):
        gold = tsv(tmp_path / "gold.tsv", drawn_rows(40, 3))
        said = drawn_answers(rows_of(gold), 1)
        expected = scored(answers(tmp_path / "said.tsv", said), gold)["metrics"]
        for case in (str.lower, str.title, str.upper, str.swapcase):
            rows = [row | {"A-coref": case(row["A-coref"].title())} for row in rows_of(gold)]
            spelt = {name: (case(str(a)), case(str(b))) for name, (a, b) in said.items()}
            found = scored(answers(tmp_path / "said.tsv", spelt), tsv(tmp_path / "cased.tsv", rows))
            assert found["metrics"] == expected

    def test_byte_order_marks(self, tmp_path):
        rows = drawn_rows(40, 3)
        gold, said = tsv(tmp_path / "gold.tsv", rows, mark="\ufeff"), drawn_answers(rows, 1)
        report = scored(answers(tmp_path / "said.tsv", said, mark="\ufeff"), gold)
        assert report["missing"] == 40 - len(said)
        assert report["metrics"] == pytest.approx(scorecard(rows_of(tsv(tmp_path / "g.tsv", rows)), said), abs=1e-12)

    def test_the_encoding_of_the_data(self, tmp_path):
        # The id is the one of the answers, which are UTF-8.
        gold = tsv(tmp_path / "gold.tsv", [example("Zoë", "Zoë saw Ann and he left", (16, 18), (0, 3), (8, 11))])
        gold.write_bytes(gold.read_text().encode("latin-1"))
        said = answers(tmp_path / "said.tsv", {"Zoë": (True, False)})
        assert scored(said, gold, "--encoding", "latin-1")["metrics"]["f1"] == 1

    def test_without_what_a_ratio_is_of(self, tmp_path):
        rows = drawn_rows(40, 3)
        gold = tsv(tmp_path / "gold.tsv", rows)
        said = {row["ID"]: (row["A-coref"] == "TRUE", row["B-coref"] == "TRUE") for row in rows}
        assert set(scored(answers(tmp_path / "said.tsv", said), gold)["metrics"].values()) == {1}
        for silent in (MASCULINE, FEMININE, MASCULINE | FEMININE):
            part = {row["ID"]: said[row["ID"]] for row in rows if row["Pronoun"].lower() not in silent}
            part["nobody"] = (True, True)
            found = scored(answers(tmp_path / "said.tsv", part), gold)["metrics"]
            assert found == pytest.approx(scorecard(rows, part), abs=1e-12) and found["bias"] == 0


@pytest.fixture(scope="module")
def resolver(bert, tmp_path_factory):  # noqa: F811
    """Learns the stories by heart."""
    folder = tmp_path_factory.mktemp("resolver")
    rows = []
    for text, clusters in STORIES:
        at = words_of(text)
        characters = [[[at[first][0], at[last][1]] for first, last in cluster] for cluster in clusters]
        rows.append({"doc_key": str(len(rows)), "text": text, "clusters": characters})
    ran("finetune", bert, write(folder / "train.jsonl", rows), "--task", "coreference", "--output-dir", folder / "model",
        "--max-steps", 80, "--learning-rate", 0.005, "--top-lambda", 0.6, *SMALL)  # fmt: skip
    return folder / "model"


@pytest.fixture(scope="module")
def every_name(tmp_path_factory):
    """Each pronoun of the stories with all names of one to three words, as A and, in another order, as B."""
    chosen, rows = random.Random(5), []
    for text, _ in STORIES:
        at = words_of(text)
        names = [(at[i][0], at[i + more][1]) for more in range(3) for i in range(len(at) - more)]
        for pronoun in (span for span in at if text[slice(*span)] in FEMININE | MASCULINE):
            for a, b in zip(names, chosen.sample(names, len(names)), strict=True):
                rows.append(example(f"r{len(rows)}", text, pronoun, a, b, (chosen.random() < 0.5, chosen.random() < 0.5)))
    return tsv(tmp_path_factory.mktemp("every") / "gap.tsv", rows)


def span_in(row, column):
    begin = int(row[f"{column}-offset"])
    return begin, begin + len(row[column])


def holds(outer, inner):
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def mentions_of_pronoun(row, clusters):
    """The cluster that has exactly the pronoun; empty where none has."""
    return next((cluster for cluster in clusters if span_in(row, "Pronoun") in cluster), [])


class TestEvaluate:
    def test_follows_the_clusters_that_coref_finds(self, resolver, every_name, tmp_path):
        files = [tmp_path / "p.jsonl", tmp_path / "said.tsv"]
        flags = ["--predictions", files[0], "--official-predictions", files[1]]
        report = run("evaluate", resolver, every_name, "--json", *flags).passes().json[0]
        clusters_of = {}
        for text, _ in STORIES:
            found = run("coref", resolver, "--text", text, "--json").passes().json[0]["clusters"]
            clusters_of[text] = [[(mention["begin"], mention["end"]) for mention in cluster] for cluster in found]
        rows, said, ways, without = rows_of(every_name), {}, set(), 0
        for row in rows:
            mentions = mentions_of_pronoun(row, clusters_of[row["Text"]])
            without += not mentions
            spans = [span_in(row, column) for column in "AB"]
            said[row["ID"]] = tuple(any(holds(m, name) or holds(name, m) for m in mentions) for name in spans)
            ways |= {(m == name, holds(m, name), holds(name, m)) for m in mentions for name in spans}
        # Names that are a mention, lie in one, hold one, and have none; pronouns that are in no cluster by themselves.
        assert ways == {(True, True, True), (False, True, False), (False, False, True), (False, False, False)}
        assert 0 < without < len(rows) and set(said.values()) == {(x, y) for x in (True, False) for y in (True, False)}
        predictions = [json.loads(line) for line in files[0].read_text().splitlines()]
        assert [(one["line"], one["id"]) for one in predictions] == [(i + 2, row["ID"]) for i, row in enumerate(rows)]
        assert {one["id"]: (one["predicted_a_coref"], one["predicted_b_coref"]) for one in predictions} == said
        assert all((one["a_coref"], one["b_coref"]) == (row["A-coref"] == "TRUE", row["B-coref"] == "TRUE")
                   for one, row in zip(predictions, rows, strict=True))  # fmt: skip
        lines = [line.split("\t") for line in files[1].read_text().splitlines()]
        assert lines == [[name, str(a).upper(), str(b).upper()] for name, (a, b) in said.items()]
        assert report["metrics"] == pytest.approx(scorecard(rows, said), abs=1e-12)
        assert 0 < report["metrics"]["f1"] < 1 and scored(files[1], every_name)["metrics"] == report["metrics"]

    def test_a_byte_order_mark(self, resolver, every_name, tmp_path):
        rows = rows_of(every_name)[:50]
        plain, marked = tsv(tmp_path / "plain.tsv", rows), tsv(tmp_path / "marked.tsv", rows, mark="\ufeff")
        one, two = (run("evaluate", resolver, file, "--json").passes().json[0] for file in (plain, marked))
        assert one["metrics"] == two["metrics"] and two["examples"] == 50


GOOD = example("good", "Zoë met Ann, and she left Ann.", (17, 20), (0, 3), (8, 11))
# A change of the good row, and what stands in the error.
BROKEN = [
    ({"A-offset": 1}, ['A: expected "Zoë" at character 1 of the text, found "oë "']),
    ({"B-offset": 9}, ['B: expected "Ann" at character 9', 'found "nn,"']),
    ({"Pronoun-offset": 18}, ['Pronoun: expected "she" at character 18', 'found "he "']),
    ({"B-offset": 28}, ['B: expected "Ann" at character 28', "found its end before that"]),
    ({"A-offset": -1}, ['A-offset: expected a number of characters, found "-1"']),
    ({"B-offset": ""}, ['B-offset: expected a number of characters, found ""']),
    ({"A": ""}, ['A: expected "" at character 0']),
    ({"Pronoun": "Ann", "Pronoun-offset": 8}, ["Pronoun: expected he, him, his, she, her or hers", 'found "Ann"']),
    ({"URL": "x\ty"}, ["expected 11 columns, found 12"]),
    ({"B-coref": "FALSE\n"}, ["expected 11 columns, found 10"]),
    ({"A-coref": "yes"}, ['A-coref: expected TRUE or FALSE, found "yes"']),
    ({"B-coref": ""}, ['B-coref: expected TRUE or FALSE, found ""']),
    ({"ID": "good"}, ['expected each id once, found "good" again']),
]  # fmt: skip


def broken(change):
    return GOOD | {"ID": "broken"} | change


class TestRefusals:
    @pytest.mark.parametrize("change,words", BROKEN)
    def test_broken_rows_name_file_and_line(self, change, words, tmp_path):
        data = tsv(tmp_path / "gap.tsv", [GOOD, broken(change)])
        said = answers(tmp_path / "said.tsv", {"good": (True, False)})
        run("evaluate", "--score", said, data).fails(1, f"{data}:3: ", "--skip-invalid", *words)
        run("evaluate", FIXTURES / "coreference", data).fails(1, f"{data}:3: ", "--skip-invalid", *words)

    def test_skipping_measures_the_rest(self, resolver, every_name, tmp_path):
        rows = [GOOD, *rows_of(every_name)[:60]]
        # A row that is two lines is two broken rows.
        faults = [broken(change) for change, _ in BROKEN if "\n" not in change.get("B-coref", "")]
        mixed = tsv(tmp_path / "mixed.tsv", [*rows[:30], *faults, *rows[30:]])
        bare = run("evaluate", resolver, tsv(tmp_path / "rest.tsv", rows), "--json").passes().json[0]
        done = run("evaluate", resolver, mixed, "--json", "--skip-invalid").passes()
        report = done.json[0]
        assert f"left out {len(faults)} broken examples" in done.err and f"{mixed}:32: A: expected" in done.err
        assert report["skipped"] == len(faults) == 12 and report["examples"] == 61
        assert report["metrics"] == bare["metrics"]
        said = drawn_answers(rows, 1)
        report = scored(answers(tmp_path / "said.tsv", said), mixed, "--skip-invalid")
        assert report["skipped"] == 12 and report["missing"] == 61 - len(said)
        assert report["metrics"] == pytest.approx(scorecard(rows, said), abs=1e-12)

    @pytest.mark.parametrize("line,words", [
        ("b\tTRUE", ["expected id, A-coref and B-coref, found 2 columns"]),
        ("b\tTRUE\tFALSE\tx", ["found 4 columns"]),
        ("b\tTRUE\t1", ['B-coref: expected TRUE or FALSE, found "1"']),
        ("good\tTRUE\tTRUE", ['expected each id once, found "good" again']),
    ])  # fmt: skip
    def test_broken_answers_name_file_and_line(self, line, words, tmp_path):
        said = write(tmp_path / "said.tsv", f"good\tTRUE\tFALSE\n{line}\n")
        run("evaluate", "--score", said, tsv(tmp_path / "gap.tsv", [GOOD])).fails(1, f"{said}:2: ", *words)

    def test_no_rows(self, tmp_path):
        data = tsv(tmp_path / "gap.tsv", [])
        run("evaluate", FIXTURES / "coreference", data).fails(1, f"{data}: expected at least one example, found none")

    def test_nothing_is_learnt_of_it(self, tmp_path):
        data = tsv(tmp_path / "gap.tsv", [GOOD])
        flags = ["--task", "coreference", "--output-dir", tmp_path / "out"]
        run("finetune", BERT, data, *flags).fails(1, f"{data}: ", "to learn from, found GAP, which measures")
        assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not DATA, reason="LONGFORMER_DATA is not set")
class TestPublishedData:
    def test_every_file_is_read_whole(self, tmp_path):
        files = sorted(pathlib.Path(DATA, "gap").glob("gap-*.tsv"))
        if not files:
            pytest.skip("no files of GAP in LONGFORMER_DATA")
        sizes = {"gap-development": 2000, "gap-test": 2000, "gap-validation": 454}
        for file in files:
            rows = rows_of(file)
            assert len(rows) == sizes[file.stem]
            assert 2 * sum(row["Pronoun"].lower() in FEMININE for row in rows) == len(rows)
            assert_counts_alike(file, tmp_path)
