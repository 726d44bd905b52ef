#!/usr/bin/env python3
"""Texts to train longformer-minilm-4096 with, and a validation part; nothing that an evaluation uses.

    LONGFORMER_DATA=data experiments/long-minilm/texts.py FOLDER [--seed 1]

From $LONGFORMER_DATA: wiki_en_extract/enwiki_AA.txt.xz, litbank/original.tar.xz and, for its titles, squad/dev-v1.1.json. Left out are the articles of
which experiments/retrieval/run.py draws its samples (seeds 1 to 3), those with a title of SQuAD's, and the novels of
examples/novels, which the quickstart searches. FOLDER gets train.jsonl, one document {"text", "passages"} a line in
random order, in which every passage of about 128 tokens has a question made of the text (below), and
validation.json: articles as lists of paragraphs, with questions. articles.jsonl has {"anchor", "positive"}: a
paragraph of the second half of a long article, and the article without it, twice for each with two paragraphs;
validation-articles.jsonl 160 others, once.

A question of the text is made of a sentence of a passage: half of its words, or a question word and what stands
around the words that it asks for; a pronoun at its beginning becomes the title. Half of these sentences are taken
out of what is trained, none of what validates.
"""

import argparse
import html
import json
import lzma
import pathlib
import random
import re
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments" / "retrieval"))

import run  # noqa: E402
from run import data_sets  # noqa: E402

LEAST_CHARACTERS = 2000
NOVEL_CHARACTERS = 17000
JOINED_CHARACTERS = 10000
PASSAGE_CHARACTERS = 560
VALIDATION_ARTICLES = 60
QUERY_WORDS = (10, 40)
EVALUATION_SEEDS = (1, 2, 3)
ARTICLE_CHARACTERS = 7000
HELD_ARTICLES = 160


def sentence_spans(text):
    """(begin, end) of sentences and of paragraphs without one."""
    spans, begin = [], 0
    for match in re.finditer(r'(?<=[.!?])["”’]?\s+(?=[A-Z"“‘])|\n+', text):
        if match.start() > begin:
            spans.append((begin, match.start()))
        begin = match.end()
    if begin < len(text):
        spans.append((begin, len(text)))
    return spans


def short_spans(text):
    """Spans of sentences; long ones, such as tables, are cut at a space."""
    for begin, end in sentence_spans(text):
        while end - begin > 2 * PASSAGE_CHARACTERS:
            cut = text.rfind(" ", begin + PASSAGE_CHARACTERS, begin + 2 * PASSAGE_CHARACTERS)
            cut = begin + PASSAGE_CHARACTERS if cut < 0 else cut
            yield begin, cut
            begin = cut
        yield begin, end


def named(words, title, draw):
    """The words with the title in place of a pronoun at their beginning, or, now and then, before them."""
    if not title:
        return words
    if words[0] in ("He", "She", "It", "They"):
        return [title, *words[1:]]
    if words[0] in ("His", "Her", "Its", "Their"):
        return [title + "'s", *words[1:]]
    return [title + ":", *words] if draw.random() < 0.25 else words


def what_stands_there(word):
    """Which question asks for a word."""
    bare = word.strip(",;:.()'\"")
    if re.fullmatch(r"1\d{3}|20\d\d", bare):
        return ["when", "in what year"]
    if bare[:1].isdigit():
        return ["how many", "how much"]
    if bare[:1].isupper():
        return ["who", "which", "where", "what"]
    return ["what", "how", "what kind of"]


def question_of(sentence, draw, title=None):
    """A question that the sentence answers; None for one that is too short or too long.

    Half of the words, in their order; or what is left of them without one to four that a question word asks for.
    """
    words = sentence.split()
    if not QUERY_WORDS[0] <= len(words) <= QUERY_WORDS[1]:
        return None
    words = named(words, title, draw)
    if draw.random() < 0.5:
        kept = sorted(draw.sample(range(len(words)), len(words) // 2))
        return " ".join(words[place] for place in kept).strip(" ,;:.")
    begin = draw.randrange(len(words))
    end = min(begin + draw.randint(1, 4), len(words))
    asked = draw.choice(what_stands_there(words[begin]))
    rest = words[max(0, begin - draw.randint(4, 12)):begin] + words[end:end + draw.randint(4, 12)]
    return f"{asked} {' '.join(rest).strip(' ,;:.')}?"


def marked_document(text, draw, title=None, taken_out=0.5):
    """The text in passages of whole sentences, each asked for by one of them, which is taken out of so many."""
    passages, pieces, begin, group = [], [], 0, []

    def close():
        nonlocal begin, group
        if not group:
            return
        choices = [number for number in range(len(group)) if question_of(group[number], random.Random(0))]
        query = None
        if len(group) >= 3 and choices:
            place = draw.choice(choices)
            query = question_of(group[place], draw, title)
            if draw.random() < taken_out:
                group.pop(place)
        passage = " ".join(group)
        passages.append({"begin": begin, "end": begin + len(passage)} | ({"query": query} if query else {}))
        pieces.append(passage)
        begin += len(passage) + 2
        group = []

    size = 0
    for first, last in short_spans(text):
        group.append(text[first:last].replace("\n", " ").strip())
        size += last - first
        if size >= PASSAGE_CHARACTERS:
            close()
            size = 0
    close()
    return {"text": "\n\n".join(pieces), "passages": passages}


def joined(documents, least):
    """Documents of at least so many characters each: shorter ones stand behind each other in one.

    Without them the later of the 4,096 positions would hardly be trained.
    """
    whole, passages, pieces, begin = [], [], [], 0
    for one in documents:
        if len(one["text"]) >= least:
            whole.append(one)
            continue
        passages += [marked | {"begin": marked["begin"] + begin, "end": marked["end"] + begin}
                     for marked in one["passages"]]
        pieces.append(one["text"])
        begin += len(one["text"]) + 2
        if begin >= least:
            whole.append({"text": "\n\n".join(pieces), "passages": passages})
            passages, pieces, begin = [], [], 0
    return whole


def evaluated_articles(data):
    """Beginnings of the articles that experiments/retrieval/run.py draws, and the titles of SQuAD."""
    file = data / "wiki_en_extract" / "enwiki_AA.txt.xz"
    texts = {rest[:200] for seed in EVALUATION_SEEDS for rest in run.sample(file, seed)[0]}
    squad = json.loads((data / "squad" / "dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    return texts, {article["title"].replace("_", " ").casefold() for article in squad}


def wikipedia(data):
    """(title, text) of the articles that no evaluation uses."""
    beginnings, titles = evaluated_articles(data)
    with lzma.open(data / "wiki_en_extract" / "enwiki_AA.txt.xz", "rt", encoding="utf-8") as stream:
        for title, block in re.findall(r'<doc [^>]*title="([^"]*)">\n(.*?)</doc>', stream.read(), re.DOTALL):
            raw = block.split("\n", 1)[-1].strip()
            text = html.unescape(raw)
            if len(text) < LEAST_CHARACTERS or title.casefold() in titles or raw[:200] in beginnings:
                continue
            yield title, text


def novels(data):
    """Texts of the novels, without those that the project ships."""
    shipped = {path.stem for path in (ROOT / "examples" / "novels").glob("*.txt")}
    with tarfile.open(data / "litbank" / "original.tar.xz") as archive:
        for member in archive:
            name = pathlib.PurePath(member.name).stem
            if member.name.endswith(".txt") and not any(one in name for one in shipped):
                yield archive.extractfile(member).read().decode("utf-8", "replace")


def novel_parts(text, draw):
    """Every fourth part of a novel, of up to so many characters."""
    begin = draw.randrange(NOVEL_CHARACTERS)
    while begin < len(text):
        size = draw.randrange(NOVEL_CHARACTERS // 2, NOVEL_CHARACTERS)
        part = re.sub(r"(?<!\n)\n(?!\n)", " ", text[begin:begin + size]).strip()
        if len(part) > LEAST_CHARACTERS:
            yield part
        begin += 4 * size


def validation(articles, draw):
    """Paragraphs of whole articles, and a question made of a sentence of each."""
    parts, questions = [], []
    for number, (title, text) in enumerate(articles):
        document = marked_document(text, draw, title, taken_out=0)
        parts.append([document["text"][one["begin"]:one["end"]] for one in document["passages"]])
        questions += [{"text": one["query"], "article": number, "paragraph": place}
                      for place, one in enumerate(document["passages"]) if "query" in one]
    return {"articles": parts, "questions": questions}


def articles_and_paragraphs(articles, draw):
    """Long articles, each with a paragraph that was taken out of it, in random order."""
    long = [text for _, text in articles if len(text) > ARTICLE_CHARACTERS]
    pairs = [pair for pair in (run.take_out_paragraph(text, draw) for text in long) if pair]
    draw.shuffle(pairs)
    return [{"anchor": paragraph, "positive": rest} for rest, paragraph in pairs]


def with_second_paragraphs(pairs, draw):
    """And each article once more, without another paragraph too."""
    more = (run.take_out_paragraph(pair["positive"], draw) for pair in pairs)
    return pairs + [{"anchor": paragraph, "positive": rest} for rest, paragraph in filter(None, more)]


def write_lines(file, rows):
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    data = data_sets.folder("wiki_en_extract/enwiki_AA.txt.xz", "litbank/original.tar.xz", "squad/dev-v1.1.json")
    options.folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(options.seed)
    articles = list(wikipedia(data))
    draw.shuffle(articles)
    long = [article for article in articles if len(article[1]) > 3 * LEAST_CHARACTERS]
    held = long[:VALIDATION_ARTICLES]
    names = {title for title, _ in held}
    documents = [marked_document(text, draw, title) for title, text in articles if title not in names]
    wiki = sum(len(one["text"]) for one in documents)
    for text in novels(data):
        documents += [marked_document(part, draw) for part in novel_parts(text, draw)]
    draw.shuffle(documents)
    documents = joined(documents, JOINED_CHARACTERS)
    write_lines(options.folder / "train.jsonl", documents)
    paragraphs = random.Random(options.seed + 10)
    pairs = articles_and_paragraphs([article for article in articles if article[0] not in names], paragraphs)
    write_lines(options.folder / "articles.jsonl", with_second_paragraphs(pairs[HELD_ARTICLES:], paragraphs))
    write_lines(options.folder / "validation-articles.jsonl", pairs[:HELD_ARTICLES])
    (options.folder / "validation.json").write_text(json.dumps(validation(held, draw)), encoding="utf-8")
    total = sum(len(one["text"]) for one in documents)
    print(f"{len(documents):,} documents of {total / 1e6:.1f} million characters, {wiki / 1e6:.1f} of Wikipedia; "
          f"{VALIDATION_ARTICLES} articles to validate", file=sys.stderr)


if __name__ == "__main__":
    main()
