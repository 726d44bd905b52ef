"""Heads against the numbers of transformers, in every form that input may have."""

import numpy as np
import pytest

import longformer_cpp

FOLDERS = ["tiny_longformer_classifier", "tiny_bert_tagger", "tiny_longformer_qa", "tiny_longformer_choice"]
TOLERANCE = 1e-5


def inputs_of(case):
    """Case 0 has no global mask: the default of the head counts."""
    return {name: case[name] for name in ("input_ids", "attention_mask", "global_attention_mask") if name in case}


def batched(name, case, form):
    """One document as a batch; a choice is a question with one choice."""
    documents = {key: [[row]] if "choice" in name else [row] for key, row in inputs_of(case).items()}
    return {key: np.array(rows) for key, rows in documents.items()} if form == "array" else documents


@pytest.mark.parametrize("form", ["array", "list"])
@pytest.mark.parametrize("name", FOLDERS)
def test_logits(name, form, folder, cases):
    model = longformer_cpp.load(folder(name))
    for case in cases(name):
        output = model(**batched(name, case, form))
        seen = case["attention_mask"] == 1
        found = {key: getattr(output, key) for key in ("logits", "start_logits", "end_logits")}
        assert {key for key, value in found.items() if value is not None} == {key for key in found if key in case}
        for key, value in found.items():
            if value is None:
                continue
            rows = slice(None) if name in ("tiny_longformer_classifier", "tiny_longformer_choice") else seen
            assert value[0].shape == case[key].shape and value[0].dtype == np.float32
            assert np.abs(value[0] - case[key])[rows].max() <= TOLERANCE
        if form == "array" and "choice" in name:
            assert output.logits.shape == (1, 1)


def test_what_the_folder_says(folder):
    model = longformer_cpp.load(folder("tiny_longformer_classifier"))
    assert (model.head, model.labels, model.problem_type) == ("sequence-classification", ["bad", "fair", "good"], "")
    model = longformer_cpp.load(folder("tiny_bert"))
    assert (model.head, model.labels) == ("", [])


def test_padding_changes_nothing(folder, cases):
    for name in FOLDERS[:3]:
        model = longformer_cpp.load(folder(name))
        ids = cases(name)[0]["input_ids"]
        mask = np.pad(np.ones(len(ids), int), (0, 5))
        for padding in (0, 3):
            wide = model(np.pad(ids, (0, 5), constant_values=padding)[None], attention_mask=mask[None])
            alone = model(ids[None])
            for key in ("logits", "start_logits", "end_logits"):
                if getattr(alone, key) is None or (padding == 3 and name == "tiny_longformer_choice"):
                    continue
                found, expected = getattr(wide, key)[0], getattr(alone, key)[0]
                assert np.abs(found[: len(expected)] - expected).max() <= TOLERANCE


def test_questions_of_several_choices(folder, cases):
    model = longformer_cpp.load(folder("tiny_longformer_choice"))
    documents = [case["input_ids"] for case in cases("tiny_longformer_choice")]
    alone = [float(model([[ids]]).logits[0][0]) for ids in documents]
    ragged = model([documents[:2], documents[2:]]).logits
    assert [len(row) for row in ragged] == [2, 1]
    np.testing.assert_allclose(np.concatenate(ragged), alone, atol=TOLERANCE)
    grid = np.stack([documents[0]] * 6).reshape(2, 3, -1)
    np.testing.assert_allclose(model(grid).logits, np.full((2, 3), alone[0]), atol=TOLERANCE)


WRONG = [
    (np.full((2, 6), 7), r"expected \[batch, choices, n\] \(multiple-choice head\), found \[2, 6\]"),
    ([np.full(6, 7)], "for each question a list of choices"),
    ([], "for each question a list of choices"),
    ([[]], "for each question a list of choices"),
    (np.full((1, 2, 6), 7), r"expected a separator \(token id 2\)"),
]


@pytest.mark.parametrize("ids,words", WRONG)
def test_wrong_choices(ids, words, folder):
    with pytest.raises(longformer_cpp.Error, match=words):
        longformer_cpp.load(folder("tiny_longformer_choice"))(ids)


def test_question_without_separator(folder):
    model = longformer_cpp.load(folder("tiny_longformer_qa"))
    with pytest.raises(longformer_cpp.Error, match="expected a separator"):
        model([np.array([5, 6, 7])])
    assert model([np.array([5, 6, 7])], global_attention_mask=[np.array([1, 0, 0])]).start_logits[0].shape == (3,)
