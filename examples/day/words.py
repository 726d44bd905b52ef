#!/usr/bin/env python3
"""The day of day.sh in pandas and scikit-learn: words and a linear model.

    examples/day/words.py train.csv test.csv FOLDER
"""

import pathlib
import pickle
import sys
import time

import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import classification_report
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

begin = [time.perf_counter(), time.process_time()]


def step(name):
    """Prints seconds on the clock and on the processors since the last step."""
    end = [time.perf_counter(), time.process_time()]
    print("step", name, end[0] - begin[0], end[1] - begin[1], sep="\t", file=sys.stderr)
    begin[:] = end


train, test, folder = pd.read_csv(sys.argv[1]), pd.read_csv(sys.argv[2]), pathlib.Path(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)
print(train.text.str.split().str.len().describe())
step("look")

words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
search = GridSearchCV(make_pipeline(words, LogisticRegression(max_iter=1000)), {"logisticregression__C": [1, 10, 100]}, cv=5).fit(train.text, train.label)
model = search.best_estimator_
step("train")

(folder / "words.pickle").write_bytes(pickle.dumps(model))
step("publish")

print(classification_report(test.label, model.predict(test.text), digits=4))
step("measure")

scores = pd.DataFrame(model.predict_proba(test.text), columns=model.classes_)
pd.concat([test.id, scores], axis=1).to_csv(folder / "classes.csv", index=False)
step("label")

names, weights = words.fit(train.text).get_feature_names_out(), model[1].coef_[0]
for row in model[0].transform(test.text[::40]):
    best = sorted(zip(row.data * weights[row.indices], row.indices), key=lambda one: -abs(one[0]))[:20]
    print(*(f"{names[place]} {value:+.3f}" for value, place in best), sep=", ")
step("explain")

matrix = model[0].transform(train.text)
step("index")

hits = (matrix @ model[0].transform(["a story about a dog"]).T).toarray().ravel().argsort()[::-1][:3]
print(train.iloc[hits][["id", "text"]])
step("search")
