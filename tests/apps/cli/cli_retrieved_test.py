"""`qa` and `summarize` with --retrieve: what a search finds is read, and nothing else."""

import csv
import shutil

import pytest

from cli_test import BERT, FIXTURES, longformer, run  # noqa: F401

READER = FIXTURES / "tiny_longformer_qa"
TEXTS = {"a.txt": "he was in the house. she had been there. " * 12, "b.txt": "they were all with them. it was his. " * 12,
         "notes/c.txt": "the house of her people. they would be here. " * 12}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def answers(folder, *flags):
    (row,) = run("qa", READER, *flags, "--json", "--question", "were her people there?", folder=folder).works().json
    return row


def check(row, folder, most):
    """Places are those of the documents, and answers stand in what was read."""
    assert 0 < len(row["read"]) <= most and row["answers"] and row["tokens"] > 0
    scores = [part["score"] for part in row["read"]]
    assert scores == sorted(scores, reverse=True)
    ranks = [answer["rank"] for answer in row["answers"]]
    assert ranks == sorted(ranks, reverse=True)
    for answer in row["answers"]:
        text = (folder / answer["file"]).read_text()
        assert text[answer["begin"] : answer["end"]] == answer["text"]
        part = row["read"][answer["part"]]
        assert part["file"] == answer["file"] and part["begin"] <= answer["begin"] and answer["end"] <= part["end"]
    return row


def test_a_folder_by_words(folder):
    row = check(answers(folder, ".", "--retrieve", 3, "--around", 30, "--top-k", 4), folder, 3)
    assert "notes/c.txt" in {part["file"] for part in row["read"]} and "date" in row["read"][0]["metadata"]
    (line,) = run("qa", READER, ".", "--retrieve", 3, "--around", 30, "--question", "were her people there?", folder=folder).works().out.splitlines()
    first = row["answers"][0]
    assert line.split("\t")[:2] == [first["file"], "were her people there?"] and line.split("\t")[5] == first["text"]


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_an_index_with_its_model(folder, longformer, mode):
    run("search", longformer, ".", "--index", "i", "--query", "a", "--passage-tokens", 16, folder=folder).works()
    flags = ["--index", "i", "--embedder", longformer, "--mode", mode, "--retrieve", 4, "--around", 20, "--top-k", 3]
    row = check(answers(folder, *flags), folder, 4)
    within = check(answers(folder, *flags, "--within", "notes"), folder, 4)
    filtered = check(answers(folder, *flags, "--filter", "path=notes/*"), folder, 4)
    assert {part["file"] for part in within["read"]} == {"notes/c.txt"}
    assert within["read"] == filtered["read"] and within["answers"] == filtered["answers"]
    if mode == "lexical":
        assert answers(folder, "--index", "i", *flags[4:])["read"] == row["read"]


def test_what_is_read_is_what_the_search_finds(folder, longformer):
    """Without surroundings the parts are the hits of the same search."""
    run("search", longformer, ".", "--index", "i", "--query", "a", "--passage-tokens", 16, folder=folder).works()
    question = "were her people there?"
    (found,) = run("search", longformer, "--index", "i", "--query", question, "--top-k", 3, "--json", folder=folder).works().json
    row = answers(folder, "--index", "i", "--embedder", longformer, "--retrieve", 3, "--around", 0)
    covered = [(part["file"], part["begin"], part["end"]) for part in row["read"]]
    for hit in found["hits"]:
        assert any(file == hit["file"] and begin <= hit["begin"] and hit["end"] <= end for file, begin, end in covered)
    assert sum(end - begin for _, begin, end in covered) <= sum(hit["end"] - hit["begin"] for hit in found["hits"]) + 3


def test_what_is_cut_is_told(folder, longformer):
    """A part that is longer than the reader is read in segments, or with --truncate cut, and rows say so."""
    flags = ["a.txt", "--embedder", longformer, "--retrieve", 60, "--around", 4000]
    row = answers(folder, *flags)
    assert row["segments"] > 1 and row["truncated"] == 0
    said = run("qa", READER, *flags, "--truncate", "--json", "--question", "were her people there?", folder=folder)
    assert said.code == 0 and said.json[0]["truncated"] > 0 and "cut" in said.err


def test_tables_have_all_questions(folder, longformer):
    shutil.copy(FIXTURES / "documents" / "animals.epub", folder)
    asked = ["--question", "zzz", "--question", "Who is Minka?"]
    run("qa", READER, "animals.epub", "--retrieve", 2, "--around", 5, "--quiet", "-o", "x.csv", *asked, folder=folder)
    with open(folder / "x.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["question"] for row in rows} == {"zzz", "Who is Minka?"} and "chapter" in rows[-1]["place"]


def test_questions_come_from_stdin(folder):
    rows = run("qa", READER, ".", "--retrieve", 2, "--json", stdin="were her people there?\n\nwho were they?\n", folder=folder).works().json
    assert [row["question"] for row in rows] == ["were her people there?", "who were they?"]


def test_the_search_may_count(folder):
    flags = [".", "--retrieve", 6, "--around", 0, "--top-k", 9]
    alone, both = answers(folder, *flags, "--search-weight", 0), answers(folder, *flags, "--search-weight", 1e6)
    assert all(answer["rank"] == pytest.approx(answer["logit"]) for answer in alone["answers"])
    scores = [both["read"][answer["part"]]["score"] for answer in both["answers"]]
    assert scores == sorted(scores, reverse=True)


def test_words_of_nobody(folder):
    (row,) = run("qa", READER, ".", "--retrieve", 2, "--json", "--question", "zzz", folder=folder).json
    assert row["answers"] == [] and row["read"] == []


def test_wrong_use(folder, longformer):
    question = ["--question", "who?"]
    run("qa", READER, "--retrieve", 2, *question, folder=folder).fails(2, "nothing to search in")
    run("qa", READER, ".", "--retrieve", 2, "--mode", "dense", *question, folder=folder).fails(2, "--mode", "--embedder")
    run("qa", READER, ".", "--retrieve", 2, "--best", *question, folder=folder).fails(2, "--best")
    run("qa", READER, "--text", "a", "--retrieve", 2, *question, folder=folder).fails(2, "--text")
    run("qa", READER, ".", "--retrieve", 2, "--filter", "nobody=1", *question, folder=folder).fails(2, "nobody")
    run("qa", READER, "--index", "none", *question, folder=folder).fails(1, "none")
    run("summarize", FIXTURES / "tiny_bart", ".", "--question", "a", folder=folder).fails(2, "--retrieve")


def test_an_index_of_words_alone(folder):
    """Nothing is computed for it, and others than searches by words are refused."""
    run("search", BERT, ".", "--index", "i", "--vectors", "none", "--passage-tokens", 16, "--query", "house", folder=folder).works()
    (stats,) = run("search", "--index", "i", "--stats", "--json", folder=folder).works().json
    assert stats["vectors"] == "none" and stats["passages"] > 0
    (row,) = run("search", BERT, "--index", "i", "--query", "house", "--json", folder=folder).works().json
    assert row["hits"][0]["words"] > 0 and "similarity" not in row["hits"][0]
    run("search", BERT, "--index", "i", "--mode", "dense", "--query", "house", folder=folder).fails(1, "none")
    (row,) = run("search", BERT, "--index", "i", "--query", "zzz", "--json", folder=folder).works().json
    assert row["hits"] == []


@pytest.fixture
def writer(tmp_path_factory):
    """An LED with a tokenizer."""
    folder = tmp_path_factory.mktemp("writer") / "led"
    shutil.copytree(FIXTURES / "tiny_led", folder)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(FIXTURES / "tiny_roberta" / name, folder)
    return folder


def test_a_summary_of_what_is_found(folder, longformer, writer):
    run("search", longformer, ".", "--index", "i", "--query", "a", "--passage-tokens", 16, folder=folder).works()
    flags = ["--index", "i", "--embedder", longformer, "--retrieve", 3, "--around", 0, "--max-new-tokens", 8]
    (row,) = run("summarize", writer, *flags, "--question", "house", "--json", folder=folder).passes().json
    assert row["question"] == "house" and row["read"] and row["texts"][0]["text"] is not None
    # The same text as a document gives the same summary.
    parts = sorted(row["read"], key=lambda part: -part["score"])
    files = list(dict.fromkeys(part["file"] for part in parts))
    texts = [(folder / part["file"]).read_text()[part["begin"] : part["end"]]
             for file in files for part in sorted((one for one in parts if one["file"] == file), key=lambda one: one["begin"])]  # fmt: skip
    (alone,) = run("summarize", writer, "--text", "\n\n".join(texts), "--max-new-tokens", 8, "--json", folder=folder).passes().json
    assert alone["texts"] == row["texts"]


def test_a_summary_of_files_by_words(folder, writer):
    """No embedder is needed, as in `qa`."""
    flags = [".", "--retrieve", 2, "--around", 0, "--max-new-tokens", 8, "--question", "house"]
    (row,) = run("summarize", writer, *flags, "--json", folder=folder).passes().json
    assert row["texts"][0]["text"] is not None and {part["file"] for part in row["read"]} <= {"a.txt", "notes/c.txt"}
    (kept,) = run("summarize", writer, *flags, "--index", "i", "--json", folder=folder).passes().json
    assert kept["read"] == row["read"] and kept["texts"] == row["texts"]


def test_words_belong_to_no_model(folder, longformer, writer):
    """An index of words that one model made is read and added to with every other, and with none."""
    found = {"a.txt"}
    (folder / "later.txt").write_text("a house of cards. " * 9)
    run("summarize", writer, "a.txt", "--index", "i", "--retrieve", 1, "--max-new-tokens", 2, "--question", "house", folder=folder).passes()
    for file, verb in (("b.txt", ["qa", READER]), ("notes/c.txt", ["search", BERT]), ("later.txt", ["search", longformer])):
        more = ["--retrieve", 9, "--question", "house"] if verb[0] == "qa" else ["--query", "house"]
        run(*verb, file, "--index", "i", *more, folder=folder).passes()
        found.add(file)
        listed = run("search", "--index", "i", "--list", "--json", folder=folder).works().json
        assert {document["file"] for document in listed} == found
    hits = [run("search", *model, "--index", "i", "--mode", "lexical", "--query", "house", "--json", folder=folder).passes().json[0]["hits"]
            for model in ([], [BERT], [longformer])]  # fmt: skip
    assert hits[0] == hits[1] == hits[2] and {hit["file"] for hit in hits[0]} == {"a.txt", "notes/c.txt", "later.txt"}
    run("search", longformer, "a.txt", "--index", "meaning", "--query", "house", folder=folder).passes()
    run("qa", READER, "b.txt", "--index", "meaning", "--question", "house", folder=folder).fails(1, "meaning", "words alone", "dense")
