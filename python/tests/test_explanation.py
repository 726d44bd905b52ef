"""Why a classifier decided so: arrays, and that deleting what speaks for a class changes it most."""

import json

import numpy as np
import pytest
from conftest import FIXTURES

import longformer_cpp
from longformer_cpp import Error

LONGFORMER = FIXTURES / "tiny_longformer_classifier"
MODERNBERT = FIXTURES / "tiny_modernbert_classifier"
TEXT = "he was in the house. they had not been there. she is with her."


@pytest.mark.parametrize("folder", [LONGFORMER, MODERNBERT])
def test_arrays_are_those_of_the_program(folder, program):
    model = longformer_cpp.load(folder)
    for method in ("gradient", "integrated", "occlusion"):
        found = model.explain(TEXT, method, steps=10, label="good")[0]
        steps = ["--steps", 10] if method == "integrated" else []
        said = program("classify", folder, "--text", TEXT, "--explain", method, *steps, "--label", "good",
                       "--top-k", 0, "--json")[0]  # fmt: skip
        expected = said["explanation"]
        assert (found.method, found.label, found.tokens) == (method, "good", said["tokens"])
        assert found.scores == {one["label"]: pytest.approx(one["score"], abs=1e-6) for one in said["labels"]}
        assert [one.text for one in found.sentences] == [one["text"] for one in expected["sentences"]]
        assert [one.value for one in found.sentences] == pytest.approx([one["value"] for one in expected["sentences"]], abs=1e-5)
        if method == "occlusion":
            assert found.values.size == 0 and found.words == [] and found.baseline == "remove"
            continue
        assert found.values.dtype == np.float32 and found.values.shape == found.ids.shape == found.offsets.shape[:1]
        np.testing.assert_allclose(found.values, expected["tokens"]["value"], atol=1e-5)
        assert [one.text for one in found.words] == [one["text"] for one in expected["words"]]
    assert found.complete


def test_gradient_times_input_is_that_of_numpy():
    """A difference quotient of the model's logits along one word embedding, by a vocabulary whose row is moved."""
    model = longformer_cpp.load(LONGFORMER)
    found = model.explain(TEXT, "integrated", label="bad", steps=200)[0]
    ids = model.tokenizer.encode(TEXT).ids
    index = model.labels.index("bad")
    assert found.logit == pytest.approx(model([ids]).logits[0][index], abs=1e-5)
    pads = [ids[0], *[model.config["pad_token_id"]] * (len(ids) - 2), ids[-1]]
    positions = np.arange(len(ids)) + model.config["pad_token_id"] + 1
    same = model([ids], position_ids=[positions]).logits[0][index]
    assert same == pytest.approx(found.logit, abs=1e-5)
    at_baseline = model([pads], position_ids=[positions]).logits[0][index]
    assert found.baseline_logit == pytest.approx(at_baseline, abs=1e-5)
    assert found.sum == pytest.approx(found.logit - at_baseline, abs=max(0.02 * abs(found.sum), 1e-3))


def test_several_texts_and_empty_ones():
    model = longformer_cpp.load(LONGFORMER)
    found = model.explain([TEXT, "", "he"], "gradient")
    assert [len(one.values) for one in found][1:] == [0, 1] and found[1].offsets.shape == (0, 2)
    alone = model.explain("he", "gradient")[0]
    np.testing.assert_allclose(found[2].values, alone.values, atol=1e-6)


def test_mistakes():
    classifier = longformer_cpp.Classifier(LONGFORMER)
    with pytest.raises(Error, match="expected one of bad, fair, good, found 'none'") as error:
        classifier.explain(TEXT, label="none")
    assert error.value.option == "label"
    with pytest.raises(Error, match="gradient, integrated or occlusion"):
        classifier.explain(TEXT, "shap")
    with pytest.raises(Error, match=r"texts\[1\]: expected at most") as error:
        classifier.explain(["he", TEXT * 9])
    assert error.value.document == 1 and "split" in error.value.remedies
    with pytest.raises(TypeError, match="steps"):
        classifier.explain(TEXT, steps="many")
    with pytest.raises(TypeError, match="texts"):
        classifier.explain(b"he")
    with pytest.raises(Error, match="multiple"):
        longformer_cpp.Classifier(MODERNBERT).explain(TEXT, baseline="zero")


# ---- faithful: what has a large value matters ----

WORDS = "the of and to in a is was he for it with as on be at by had not are but from or have an they which one you".split()
MARKS = {"calm": ["his", "her", "she"], "wild": ["all", "him", "been"]}


def write_documents(file, count, seed):
    """Documents of 36 words, of which 6 belong to a class and 2 to the other one."""
    draw = np.random.default_rng(seed)
    texts, labels = [], []
    for i in range(count):
        label = ("calm", "wild")[i % 2]
        other = ("wild", "calm")[i % 2]
        words = [*draw.choice(WORDS, 28), *draw.choice(MARKS[label], 6), *draw.choice(MARKS[other], 2)]
        texts.append(" ".join(draw.permutation(words)))
        labels.append(label)
    rows = [json.dumps({"text": text, "label": label}) for text, label in zip(texts, labels)]
    file.write_text("\n".join(rows) + "\n")
    return texts, labels


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small model that has learned which words stand for which class."""
    folder = tmp_path_factory.mktemp("trained")
    longformer_cpp.convert(FIXTURES / "tiny_bert", folder / "longer", to="longformer", max_positions=64, window=16)
    write_documents(folder / "train.jsonl", 512, 1)
    longformer_cpp.finetune(folder / "longer", folder / "train.jsonl", folder / "model", task="classify", learning_rate=1e-2,
                            num_train_epochs=10, per_device_train_batch_size=8, seed=3)  # fmt: skip
    return longformer_cpp.load(folder / "model"), write_documents(folder / "test.jsonl", 24, 2)


def logit_of(model, ids, label):
    return float(model([np.asarray(ids)]).logits[0][model.labels.index(label)])


@pytest.mark.parametrize("method", ["gradient", "integrated"])
def test_deleting_the_top_tenth_changes_the_logit_more_than_random_tenths(trained, method):
    model, (texts, labels) = trained
    draw = np.random.default_rng(5)
    right, top_falls, random_falls, marked = 0, [], [], []
    for text, label in zip(texts, labels):
        found = model.explain(text, method, label=label)[0]
        right += model.classify(text)[0].labels[0].label == label
        ids = np.array(model.tokenizer.encode(text).ids)
        assert list(ids[1:-1]) == list(found.ids)
        whole, count = logit_of(model, ids, label), max(1, len(found.ids) // 10)
        top = np.argsort(-found.values)[:count]
        top_falls.append(whole - logit_of(model, np.delete(ids, top + 1), label))
        others = [np.delete(ids, draw.choice(len(found.ids), count, replace=False) + 1) for _ in range(20)]
        random_falls.append(np.mean([whole - logit_of(model, other, label) for other in others]))
        strongest = {found.words[i].text for i in np.argsort([-word.value for word in found.words])[:2]}
        marked.append(bool(strongest & set(MARKS[label])))
    assert right >= 0.9 * len(texts)
    assert np.mean(top_falls) > 2 * abs(np.mean(random_falls)), (np.mean(top_falls), np.mean(random_falls))
    assert np.mean(marked) >= 0.9
