"""Which passage answers a question? SQuAD's paragraphs and the pieces of COVID-QA's papers, found by words
(BM25) and by the vectors that `longformer embed` gives."""

import collections
import json
import math
import re
import time

import numpy as np

PIECE_TOKENS = 128

Question = collections.namedtuple("Question", "text document begin end")


def read_squad(file, every):
    """(lists of paragraphs, one per article; questions), every so manieth question."""
    articles, questions = [], []
    for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
        for number, paragraph in enumerate(article["paragraphs"]):
            questions += [Question(question["question"], len(articles), number, number + 1)
                          for question in paragraph["qas"]]
        articles.append([paragraph["context"] for paragraph in article["paragraphs"]])
    return articles, questions[::every]


def read_covidqa(file, every):
    """(papers, questions with the characters of their answer)."""
    papers, questions = {}, []
    for entry in json.loads(file.read_text(encoding="utf-8"))["data"]:
        for paragraph in entry["paragraphs"]:
            paper = papers.setdefault(paragraph["context"], len(papers))
            for question in paragraph["qas"]:
                answer = question["answers"][0]
                begin = answer["answer_start"]
                questions.append(
                    Question(question["question"], paper, begin, begin + len(answer["text"])))
    return list(papers), questions[::every]


class BM25:
    """Okapi BM25 over lower-cased words."""

    def __init__(self, passages, k1=1.2, b=0.75):
        counts = [collections.Counter(self.words(passage)) for passage in passages]
        lengths = np.array([sum(count.values()) for count in counts])
        norms = k1 * (1 - b + b * lengths / lengths.mean())
        self.count = len(passages)
        self.weights = collections.defaultdict(list)
        for number, count in enumerate(counts):
            for word, times in count.items():
                self.weights[word].append((number, times * (k1 + 1) / (times + norms[number])))

    @staticmethod
    def words(text):
        return re.findall(r"\w+", text.lower())

    def scores(self, question):
        scores = np.zeros(self.count)
        for word in self.words(question):
            found = self.weights.get(word, ())
            rarity = math.log(1 + (self.count - len(found) + 0.5) / (len(found) + 0.5))
            for number, weight in found:
                scores[number] += rarity * weight
        return scores


def ranks(scores, right, candidates):
    """For each row the number of candidates that score higher than the best of the right ones."""
    best = np.where(right, scores, -np.inf).max(axis=1, keepdims=True)
    return ((scores > best) & candidates).sum(axis=1)


def recall(scores, right, candidates, k):
    return float((ranks(scores, right, candidates) < k).mean())


class Squad:
    """2,067 paragraphs of 48 articles; the right one is that of which the question was asked."""

    def __init__(self, file, every):
        self.set(*read_squad(file, every))

    @classmethod
    def of(cls, articles, questions):
        """Other articles as lists of paragraphs, and questions for them."""
        task = cls.__new__(cls)
        task.set(articles, questions)
        return task

    def set(self, articles, questions):
        self.articles, self.questions = articles, questions
        self.passages = [paragraph for article in self.articles for paragraph in article]
        firsts = np.cumsum([0, *map(len, self.articles)])
        numbers = np.arange(len(self.passages))
        wanted = np.array([firsts[q.document] + q.begin for q in self.questions])
        owners = np.searchsorted(firsts, numbers, side="right") - 1
        self.right = numbers[None, :] == wanted[:, None]
        self.same_article = owners[None, :] == owners[wanted][:, None]

    def figures(self, scores):
        everywhere = np.ones_like(self.right)
        return [recall(scores, self.right, everywhere, 1), recall(scores, self.right, everywhere, 5),
                recall(scores, self.right, self.same_article, 1)]

    def alone(self, program, model):
        return program.embed(model, self.passages, "--truncate", "--max-length", "512")[0]

    def in_context(self, program, model, *options):
        """Means over the token states of each paragraph in the states of its whole article."""
        vectors = []
        for article in self.articles:
            tokens, known = program.embed(model, ["\n\n".join(article)], "--split", "--pooling", "tokens",
                                          *options, normalize=False)
            spans = np.array(known[0]["spans"])
            begin = 0
            for paragraph in article:
                end = begin + len(paragraph)
                inside = (spans[:, 0] >= begin) & (spans[:, 1] <= end) & (spans[:, 1] > spans[:, 0])
                mean = tokens[inside].mean(axis=0)
                vectors.append(mean / np.linalg.norm(mean))
                begin = end + 2
        return np.array(vectors)


class CovidQA:
    """Pieces of about 128 tokens of 98 papers; a piece is right when it shares characters with the
    answer, and competes with the other pieces of its paper."""

    def __init__(self, file, every):
        self.papers, self.questions = read_covidqa(file, every)
        self.right = None

    def set_pieces(self, known):
        """Takes the pieces from what `embed --pooling passages --json` says of the papers."""
        owners = np.repeat(np.arange(len(known)), [row["rows"] for row in known])
        spans = np.concatenate([row["spans"] for row in known])
        self.pieces = [self.papers[paper][begin:end] for paper, (begin, end) in zip(owners, spans)]
        papers = np.array([question.document for question in self.questions])
        begins = np.array([question.begin for question in self.questions])
        ends = np.array([question.end for question in self.questions])
        self.same_paper = owners[None, :] == papers[:, None]
        meets = (spans[None, :, 0] < ends[:, None]) & (spans[None, :, 1] > begins[:, None])
        self.right = self.same_paper & meets

    def figures(self, scores):
        return [recall(scores, self.right, self.same_paper, k) for k in (1, 5)]

    def embed(self, program, model, context, *options):
        vectors, known = program.embed(model, self.papers, "--pooling", "passages", "--passage-tokens",
                                       str(PIECE_TOKENS), "--context", context, *options)
        if self.right is None:
            self.set_pieces(known)
        return vectors


def measure(program, bert, longformer, data, every):
    """Rows (method, figures, seconds that embedding the passages took)."""
    squad = Squad(data / "squad" / "dev-v1.1.json", every)
    covidqa = CovidQA(next((data / "covidqa").glob("*.json")), every)
    rows = []
    for name, model, context in [("BERT, each passage alone", bert, "none"),
                                 ("Longformer, each passage alone", longformer, "none"),
                                 ("Longformer, pooled in the context of the document", longformer,
                                  "document")]:
        start = time.perf_counter()
        paragraphs = (squad.alone if context == "none" else squad.in_context)(program, model)
        pieces = covidqa.embed(program, model, context)
        seconds = time.perf_counter() - start
        figures = []
        for task, vectors in ((squad, paragraphs), (covidqa, pieces)):
            questions, _ = program.embed(model, [question.text for question in task.questions])
            figures += task.figures(questions @ vectors.T)
        rows.append((name, figures, seconds))
    start = time.perf_counter()
    found = [BM25(squad.passages), BM25(covidqa.pieces)]
    seconds = time.perf_counter() - start
    figures = []
    for task, words in zip((squad, covidqa), found):
        figures += task.figures(np.array([words.scores(q.text) for q in task.questions]))
    return [("BM25: words, no model", figures, seconds), *rows], len(squad.questions), len(
        covidqa.questions)


def table(rows, squad_questions, covidqa_questions):
    lines = ["| passages found by | SQuAD R@1 | R@5 | in its article R@1 | COVID-QA in its paper R@1 | R@5 "
             "| seconds |", "|---|---|---|---|---|---|---|"]
    for name, figures, seconds in rows:
        cells = " | ".join(f"{figure:.3f}" for figure in figures)
        lines.append(f"| {name} | {cells} | {seconds:.1f} |")
    return "\n".join(lines) + (f"\n\n{squad_questions:,} questions of SQuAD, {covidqa_questions:,} of "
                               "COVID-QA.\n")
