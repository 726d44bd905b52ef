"""Losses and gradients of heads, against what numpy makes of the logits."""

import numpy as np
import pytest
from conftest import FIXTURES

import longformer_cpp
from longformer_cpp import Error, loss_and_gradients

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
MASKED_LM = FIXTURES / "tiny_longformer_mlm"
QA = FIXTURES / "tiny_longformer_qa"
CHOICE = FIXTURES / "tiny_longformer_choice"


def softmax(logits, axis=-1):
    powers = np.exp(logits - logits.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def test_classes():
    model = longformer_cpp.load(CLASSIFIER)
    documents, labels = [np.arange(5, 25), np.arange(9, 16)], [2, 0]
    probabilities = softmax(model(documents).logits)
    loss, gradients = loss_and_gradients(model, documents, labels=labels)
    assert loss == pytest.approx(-np.log(probabilities[[0, 1], labels]).mean(), rel=1e-5)
    wrong = (probabilities - np.eye(3)[labels]).mean(0)
    np.testing.assert_allclose(gradients["classifier.out_proj.bias"], wrong, atol=1e-6)
    assert gradients["longformer.embeddings.word_embeddings.weight"].any()


def test_an_ignored_token_has_no_gradient_and_padding_changes_nothing():
    model = longformer_cpp.load(MASKED_LM)
    ids = np.arange(5, 19)[None]
    labels = np.full((1, 14), -100)
    labels[0, 3] = 7
    loss, gradients = loss_and_gradients(model, ids, labels=labels)
    logits = model(ids).logits[0, 3]
    assert loss == pytest.approx(-np.log(softmax(logits)[7]), rel=1e-5)
    padded = np.pad(ids, ((0, 0), (0, 4)))
    mask = np.pad(np.ones_like(ids), ((0, 0), (0, 4)))
    again, same = loss_and_gradients(model, padded, labels=np.pad(labels, ((0, 0), (0, 4)), constant_values=-100),
                                     attention_mask=mask)  # fmt: skip
    assert again == loss
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(gradient, same[name])
    none, zeros = loss_and_gradients(model, ids, labels=np.full((1, 14), -100))
    assert none == 0 and not any(gradient.any() for gradient in zeros.values())


def test_answers():
    model = longformer_cpp.load(QA)
    ids = np.array([[2, 5, 6, 3, 8, 9, 10, 3, 3]])
    out = model(ids, global_attention_mask=np.zeros_like(ids))
    starts, ends = softmax(out.start_logits), softmax(out.end_logits)
    loss, gradients = loss_and_gradients(model, ids, start_positions=[4], end_positions=[6],
                                         global_attention_mask=np.zeros_like(ids))  # fmt: skip
    assert loss == pytest.approx(-(np.log(starts[0, 4]) + np.log(ends[0, 6])) / 2, rel=1e-5)
    np.testing.assert_allclose(gradients["qa_outputs.bias"], 0, atol=1e-6)


def test_choices():
    model = longformer_cpp.load(CHOICE)
    question = [np.array([2, 5, 6, 3, 8, 3]), np.array([2, 5, 6, 3, 9, 10, 3])]
    probabilities = softmax(model([question]).logits[0])
    loss, _ = loss_and_gradients(model, [question], labels=[1])
    assert loss == pytest.approx(-np.log(probabilities[1]), rel=1e-5)


def test_wrong_targets():
    model = longformer_cpp.load(CLASSIFIER)
    with pytest.raises(Error, match="expected labels from 0 to 2"):
        loss_and_gradients(model, [np.arange(5, 9)], labels=[3])
    with pytest.raises(Error, match="labels: expected some"):
        loss_and_gradients(model, [np.arange(5, 9)])
    with pytest.raises(Error, match="expected a folder with a head"):
        loss_and_gradients(longformer_cpp.load(FIXTURES / "tiny_longformer"), [np.arange(5, 9)], labels=[0])
