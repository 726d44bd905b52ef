"""Estimators of scikit-learn: its own checks, pipelines, searches, pickles."""

import copy
import os
import pathlib
import pickle
import subprocess
import sys
import warnings

import longformer_cpp
import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")

from longformer_cpp import Error
from longformer_cpp.sklearn import LongformerClassifier, LongformerVectors
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils import InputTags
from sklearn.utils.validation import check_is_fitted, validate_data

TEXTS = ["he was in the house", "she was with her", "him and the house", "her and she", "he had been there", "she was her"] * 2
LABELS = np.array(["he", "she"] * 6)
QUICK = {"num_train_epochs": 2, "learning_rate": 3e-3, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 1}


@pytest.fixture(scope="module")
def bert(folder):
    return str(folder("tiny_bert"))


@pytest.fixture(scope="module")
def fitted(bert):
    return LongformerClassifier(bert, **{**QUICK, "num_train_epochs": 12}).fit(TEXTS, LABELS)


class TestClassifier:
    def test_it_learns(self, fitted):
        assert fitted.score(TEXTS, LABELS) == 1 and list(fitted.classes_) == ["he", "she"]
        shares = fitted.predict_proba(TEXTS)
        assert shares.shape == (12, 2) and np.allclose(shares.sum(1), 1, atol=1e-12)
        assert (fitted.classes_[shares.argmax(1)] == fitted.predict(TEXTS)).all()
        assert ((fitted.decision_function(TEXTS) > 0) == (fitted.predict(TEXTS) == "she")).all()
        assert is_classifier(fitted)

    def test_numbers_are_those_of_the_package(self, fitted, tmp_path):
        fitted.save_model(tmp_path / "saved")
        expected = longformer_cpp.load(tmp_path / "saved").classify(TEXTS, top_k=0)
        for shares, one in zip(fitted.predict_proba(TEXTS), expected, strict=True):
            scores = {label.label: label.score for label in one.labels}
            assert np.allclose(shares, [scores["he"], scores["she"]], atol=1e-6)

    @pytest.mark.parametrize("labels", [["b", "a", "c"], [3, 7, 11], [2.5, 1.0, 7.0], ["10", "9", "2"], ["nan", "None", "x"], ["a b", "ä", ""]], ids=str)
    def test_classes_of_any_kind(self, bert, labels):
        y = np.array(labels * 4)
        if y.dtype == float:
            with pytest.raises(ValueError, match="Unknown label type"):
                LongformerClassifier(bert, **QUICK).fit(TEXTS, y)
            y = y.astype(int)
        model = LongformerClassifier(bert, **QUICK).fit(TEXTS, y)
        assert list(model.classes_) == sorted(set(y.tolist())) and set(model.predict(TEXTS)) <= set(y.tolist())
        assert model.predict(TEXTS).dtype == model.classes_.dtype

    def test_order_of_classes(self, bert):
        """Labels whose order in the folder is not that of numpy."""
        y = np.array([10, 9, 2] * 4)
        model = LongformerClassifier(bert, **{**QUICK, "num_train_epochs": 40}).fit(TEXTS[:3] * 4, y)
        assert model.score(TEXTS[:3] * 4, y) == 1

    def test_truth_values(self, bert):
        model = LongformerClassifier(bert, **QUICK).fit(TEXTS, LABELS == "he")
        assert model.classes_.dtype == bool and model.predict(TEXTS).dtype == bool

    def test_inputs(self, fitted):
        expected = fitted.predict(TEXTS)
        frame = pandas.DataFrame({"n": range(12), "text": TEXTS})
        for X in (pandas.Series(TEXTS), np.array(TEXTS), np.array(TEXTS, object), np.array(TEXTS, object).reshape(-1, 1), frame,
                  frame[["text"]].rename(columns={"text": "other"}), tuple(TEXTS), [{"text": text} for text in TEXTS]):  # fmt: skip
            assert (fitted.predict(X) == expected).all()
        assert fitted.predict([]).shape == (0,) and fitted.predict_proba([]).shape == (0, 2)

    def test_long_documents(self, bert):
        texts = [text * 40 for text in TEXTS]
        for long in ("split", "truncate"):
            assert LongformerClassifier(bert, long=long, **QUICK).fit(texts, LABELS).predict_proba(texts).shape == (12, 2)
        with pytest.raises(Error, match="expected at most 24 tokens"):
            LongformerClassifier(bert, long="refuse", **QUICK).fit(texts, LABELS)
        with pytest.raises(Error, match="long: expected one of split, truncate, refuse, found 'cut'"):
            LongformerClassifier(bert, long="cut", **QUICK).fit(TEXTS, LABELS)

    def test_faults(self, bert, fitted):
        with pytest.raises(NotFittedError):
            LongformerClassifier(bert).predict(TEXTS)
        with pytest.raises(Error, match="model: expected the folder of a model, found none"):
            LongformerClassifier().fit(TEXTS, LABELS)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            LongformerClassifier(bert).fit(TEXTS[:3], LABELS)
        with pytest.raises(ValueError, match="two classes or more, found 1 class"):
            LongformerClassifier(bert).fit(TEXTS, ["a"] * 12)
        with pytest.raises(ValueError, match="y: expected a class in every row, found NaN or none in 1, the first of them row 3"):
            LongformerClassifier(bert).fit(TEXTS, np.array(["a", "b", "a", None] + ["b"] * 8, object))
        with pytest.raises(ValueError, match="target y is None"):
            LongformerClassifier(bert).fit(TEXTS, None)
        with pytest.raises(Error, match="column 'text': expected a text in every row, found none in row 1"):
            fitted.predict(pandas.DataFrame({"text": ["a", None]}))
        with pytest.raises(TypeError, match=r"X\[1\]: expected a text"):
            fitted.predict(["a", 3])
        with pytest.raises(TypeError, match="expected the keyword learning_rate, found 'lerning_rate'"):
            LongformerClassifier(bert, options={"lerning_rate": 1}).fit(TEXTS, LABELS)

    def test_the_same_state_gives_the_same_weights(self, bert):
        one, two, other = (LongformerClassifier(bert, random_state=state, **QUICK).fit(TEXTS, LABELS).predict_proba(TEXTS) for state in (1, 1, 2))
        assert np.array_equal(one, two) and not np.array_equal(one, other)


class TestPickles:
    @pytest.mark.parametrize("rank", [None, 2])
    def test_a_pickle_has_the_weights(self, bert, tmp_path, rank):
        model = LongformerClassifier(bert, lora_rank=rank, **QUICK).fit(TEXTS, LABELS)
        expected, folder = model.predict_proba(TEXTS), model.model_folder_
        text = pickle.dumps(model)
        again = copy.deepcopy(model)
        del model
        assert not os.path.exists(folder)
        assert np.array_equal(again.predict_proba(TEXTS), expected)
        (tmp_path / "model.pickle").write_bytes(text)
        program = (
            "import pickle, sys, numpy as np\n"
            "model = pickle.load(open(sys.argv[1], 'rb'))\n"
            f"np.save(sys.argv[2], model.predict_proba({TEXTS!r}))\n"
        )
        command = [sys.executable, "-c", program, tmp_path / "model.pickle", tmp_path / "found.npy"]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(pathlib.Path(longformer_cpp.__file__).parents[1])})
        assert np.array_equal(np.load(tmp_path / "found.npy"), expected)

    def test_folders_go_with_their_objects(self, bert, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        model = LongformerClassifier(bert, **QUICK).fit(TEXTS, LABELS)
        first = model.model_folder_
        model.fit(TEXTS, LABELS)
        assert not os.path.exists(first) and len(list(tmp_path.iterdir())) == 1
        child = os.fork()
        if child == 0:
            del model
            os._exit(0)
        os.waitpid(child, 0)
        assert os.path.exists(model.model_folder_)
        del model
        assert not list(tmp_path.iterdir())

    def test_what_is_not_fitted(self, bert):
        model = pickle.loads(pickle.dumps(LongformerClassifier(bert, lora_rank=2)))
        assert model.get_params()["lora_rank"] == 2 and clone(model).get_params() == model.get_params()
        vectors = LongformerVectors(bert).fit(TEXTS)
        vectors.transform(TEXTS)
        assert len(pickle.dumps(vectors)) < 2000
        assert np.array_equal(pickle.loads(pickle.dumps(vectors)).transform(TEXTS), vectors.transform(TEXTS))


class TestSelection:
    def test_cross_validation(self, bert):
        assert cross_val_score(LongformerClassifier(bert, **QUICK), TEXTS, LABELS, cv=2, error_score="raise").shape == (2,)
        assert cross_val_score(LongformerClassifier(bert, **QUICK), pandas.Series(TEXTS), LABELS, cv=2, scoring="roc_auc", error_score="raise").shape == (2,)

    def test_search_over_parameters(self, bert):
        search = GridSearchCV(LongformerClassifier(bert, **QUICK), {"learning_rate": [1e-9, 1e-2], "lora_rank": [None, 2]}, cv=2, error_score="raise")
        search.fit(TEXTS, LABELS)
        assert set(search.best_params_) == {"learning_rate", "lora_rank"} and len(search.cv_results_["params"]) == 4
        assert search.predict(TEXTS).shape == (12,)

    def test_pipelines(self, bert):
        model = make_pipeline(LongformerVectors(bert), LogisticRegression(C=100))
        assert model.fit(TEXTS, LABELS).score(TEXTS, LABELS) == 1
        search = GridSearchCV(model, {"longformervectors__truncate_dim": [4, None], "logisticregression__C": [1, 100]}, cv=2, error_score="raise")
        assert search.fit(pandas.Series(TEXTS), LABELS).best_score_ > 0.5


class TestVectors:
    def test_they_are_those_of_the_embedder(self, bert):
        vectors = LongformerVectors(bert, normalize_embeddings=True, truncate_dim=8)
        expected = longformer_cpp.Embedder(bert).encode(TEXTS, normalize_embeddings=True, truncate_dim=8)
        assert np.array_equal(vectors.transform(TEXTS), expected)
        assert np.array_equal(vectors.fit_transform(TEXTS), expected) and vectors.embedding_size_ == 8
        assert list(vectors.get_feature_names_out())[:2] == ["longformervectors0", "longformervectors1"]
        assert vectors.set_params(truncate_dim=None, normalize_embeddings=None).transform(TEXTS).shape == (12, 16)
        assert LongformerVectors(bert).transform([]).shape == (0, 16)

    def test_frames(self, bert):
        vectors = LongformerVectors(bert).set_output(transform="pandas")
        found = vectors.fit_transform(pandas.Series(TEXTS, index=range(20, 32)))
        assert list(found.columns) == [f"longformervectors{i}" for i in range(16)] and list(found.index) == list(range(20, 32))
        columns = ColumnTransformer([("text", LongformerVectors(bert), "text"), ("number", "passthrough", ["n"])])
        assert columns.fit_transform(pandas.DataFrame({"text": TEXTS, "n": range(12)})).shape == (12, 17)

    def test_long_documents(self, bert):
        texts = [text * 40 for text in TEXTS[:3]]
        embedder = longformer_cpp.Embedder(bert)
        assert np.array_equal(LongformerVectors(bert).transform(texts), embedder.encode(texts, split=True))
        assert np.array_equal(LongformerVectors(bert, long="truncate").transform(texts), embedder.encode(texts, truncate=True))
        with pytest.raises(Error, match="expected at most 24 tokens"):
            LongformerVectors(bert, long="refuse").transform(texts)


class OverNumbers:
    """Rows of numbers are texts: the checks of scikit-learn draw matrices."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = InputTags()
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True
        return tags

    @staticmethod
    def told(X):
        return [" ".join("he" if value > 0 else "she" for value in row[:8]) for row in X]

    def fit(self, X, y=None):
        if y is None:
            X = validate_data(self, X)
            return super().fit(self.told(X)) if isinstance(self, LongformerVectors) else super().fit(self.told(X), None)
        X, y = validate_data(self, X, y)
        return super().fit(self.told(X), y)

    def _logits(self, X):
        check_is_fitted(self)
        return super()._logits(self.told(validate_data(self, X, reset=False)))


class ClassifierOverNumbers(OverNumbers, LongformerClassifier):
    pass


class VectorsOverNumbers(OverNumbers, LongformerVectors):
    def transform(self, X):
        return super().transform(self.told(validate_data(self, X, reset=False)))


@pytest.mark.parametrize("kind", [ClassifierOverNumbers, VectorsOverNumbers])
def test_checks_of_scikit_learn_over_numbers(bert, kind):
    options = {**QUICK, "per_device_train_batch_size": 32, "options": {"max_steps": 2}} if kind is ClassifierOverNumbers else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(kind(bert, **options), on_fail=None)
    failed = {one["check_name"]: str(one["exception"]) for one in results if one["status"] == "failed"}
    assert not failed and sum(one["status"] == "passed" for one in results) > 40


def test_checks_of_scikit_learn_for_texts(bert):
    """Its checks draw matrices of numbers; for estimators that take texts it runs those that need no data."""
    for estimator in (LongformerClassifier(bert, **QUICK), LongformerVectors(bert)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(estimator)
        assert results and all(one["status"] in ("passed", "skipped") for one in results)


def test_types_hold(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(
        "from longformer_cpp.sklearn import LongformerClassifier, LongformerVectors\n"
        "model: LongformerClassifier = LongformerClassifier('m', lora_rank=4)\n"
        "size: int = LongformerVectors('m').transform(['a']).shape[1]\n"
        "LongformerClassifier('m', lora_rank='a')  # wrong\n"
    )
    packages = str(pathlib.Path(longformer_cpp.__file__).parents[1])
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path), str(program)]
    path = "" if packages.endswith("site-packages") else packages
    done = subprocess.run(command, capture_output=True, text=True, env={"MYPYPATH": path})
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1 and "program.py:4" in errors[0], done.stdout


def test_without_scikit_learn():
    program = "import sys; sys.modules['sklearn'] = None; sys.modules['sklearn.base'] = None; import longformer_cpp.sklearn"
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(longformer_cpp.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "pip install scikit-learn" in done.stderr.splitlines()[-1]
