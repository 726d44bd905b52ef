#!/usr/bin/env python3
"""Classifiers of news articles in scikit-learn: words and logistic regression, vectors of a model, a model that is trained.

    LONGFORMER_DATA=data experiments/tables/estimators.py MODEL [--rows majority,words,vectors,adapter] [--folds 5]

MODEL is a folder of an encoder, as quickstart/longformer-minilm-4096. The articles are the 645 of Hyperpartisan; each row is
cross-validated over the same folds (stratified, by a seed), in one process after another. "words" is TF-IDF of words and
pairs of words with logistic regression, "vectors" LongformerVectors with it (they are made once, as no label changes
them), "adapter" LongformerClassifier with LoRA. An environment with pandas and scikit-learn is that of requirements/test.txt. Prints a table; larger accuracy is better, smaller
times are.
"""

import argparse
import html
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import data_sets

SEED = 7


def articles():
    """Texts and labels: 1 for hyperpartisan articles."""
    truth = data_sets.file("hyperpartisan/ground-truth-training-byarticle-20181122.xml").read_text(encoding="utf-8")
    labels = {}
    for tag in re.findall(r"<article ([^>]*)>", truth):
        keys = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        labels[keys["id"]] = "hyperpartisan" if keys["hyperpartisan"] == "true" else "mainstream"
    texts, classes = [], []
    source = data_sets.file("hyperpartisan/articles-training-byarticle-20181122.xml").read_text(encoding="utf-8")
    for attributes, body in re.findall(r"<article ([^>]*)>(.*?)</article>", source, re.DOTALL):
        keys = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        text = html.unescape(re.sub(r"<[^>]*>", " ", body))
        texts.append(re.sub(r"\s+", " ", html.unescape(keys.get("title", "")) + ". " + text).strip())
        classes.append(labels[keys["id"]])
    return texts, classes


def estimator_of(row, model):
    from longformer_cpp.sklearn import LongformerClassifier
    from sklearn.dummy import DummyClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if row == "majority":
        return DummyClassifier()
    if row == "words":
        words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
        return make_pipeline(words, LogisticRegression(C=10, max_iter=1000))
    if row == "vectors":
        return make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
    options = {"num_train_epochs": 4, "learning_rate": 5e-4, "head_learning_rate": 1e-3, "lora_rank": 8, "dtype": "bf16"}
    return LongformerClassifier(model, per_device_train_batch_size=1, gradient_accumulation_steps=8, long="truncate", **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rows", default="majority,words,vectors,adapter")
    parser.add_argument("--folds", type=int, default=5)
    chosen = parser.parse_args()
    texts, classes = articles()

    from longformer_cpp.sklearn import LongformerVectors
    from sklearn.model_selection import StratifiedKFold, cross_validate

    folds = StratifiedKFold(chosen.folds, shuffle=True, random_state=SEED)
    print(f"{len(texts)} articles, {chosen.folds} folds")
    print("| row | accuracy | F1 (macro) | seconds in all |\n|---|---|---|---|")
    for row in chosen.rows.split(","):
        begin = time.perf_counter()
        inputs = LongformerVectors(chosen.model).fit_transform(texts) if row == "vectors" else texts
        found = cross_validate(estimator_of(row, chosen.model), inputs, classes, cv=folds, scoring=["accuracy", "f1_macro"], error_score="raise")
        cells = [f"{found[key].mean():.3f} ± {found[key].std():.3f}" for key in ("test_accuracy", "test_f1_macro")]
        print(f"| {row} | {' | '.join(cells)} | {time.perf_counter() - begin:.1f} |", flush=True)


if __name__ == "__main__":
    main()
