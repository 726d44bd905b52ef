"""Texts of models with a decoder, against what transformers wrote with the same folders."""

import json

import longformer_cpp
import numpy as np
import pytest

NAMES = ["tiny_led", "tiny_bart", "tiny_bigbird_pegasus", "tiny_pegasus", "tiny_pegasus_x", "tiny_mbart"]


@pytest.fixture(params=NAMES)
def model(request, folder):
    return longformer_cpp.load(folder(request.param))


@pytest.fixture
def led(folder):
    return longformer_cpp.load(folder("tiny_led"))


def expected_of(folder, model):
    name = f"tiny_{model._native.model_type}"
    expected = json.loads((folder(name) / "expected.json").read_text(encoding="utf-8"))
    tokenizer = longformer_cpp.Tokenizer(folder("tiny_roberta"))
    ids = [tokenizer.encode(text).ids for text in expected["texts"]]
    globals_ = [[1] + [0] * (len(row) - 1) for row in ids] if name == "tiny_led" else None
    return expected, ids, globals_


def test_generate(model, folder):
    expected, ids, globals_ = expected_of(folder, model)
    for case in expected["cases"]:
        out = model.generate(ids, global_attention_mask=globals_, **case["options"])
        wanted = [row for rows in case["written"] for row in rows]
        assert out.ids == [row["ids"] for row in wanted]
        assert out.sequences.shape == (len(wanted), max(len(row["ids"]) for row in wanted))
        if "score" in wanted[0]:
            assert out.sequences_scores == pytest.approx([row["score"] for row in wanted], abs=1e-4)
        else:
            assert out.sequences_scores is None


def test_text_logits(model, folder):
    expected, ids, globals_ = expected_of(folder, model)
    masks = None if globals_ is None else [globals_[1]]
    logits = model.text_logits([ids[1]], [expected["prompt"]], global_attention_mask=masks)
    assert logits[0] == pytest.approx(np.array(expected["logits"]), abs=1e-4)


def test_a_padded_batch_is_a_list(model):
    ids = [[0, 20, 31, 2], [0, 9, 2]]
    padded = np.array([ids[0], [*ids[1], 1]])
    mask = np.array([[1, 1, 1, 1], [1, 1, 1, 0]])
    options = {"max_new_tokens": 6, "num_beams": 3}
    assert model.generate(padded, attention_mask=mask, **options).ids == model.generate(ids, **options).ids


def test_prompts_and_seeds(led):
    ids = [[0, 20, 31, 2]]
    out = led.generate(ids, decoder_input_ids=[[2, 0, 5]], max_new_tokens=3)
    assert out.ids[0][:3] == [2, 0, 5] and len(out.ids[0]) <= 6
    draw = {"do_sample": True, "top_k": None, "temperature": 3.0, "max_new_tokens": 20}
    assert led.generate(ids, seed=1, **draw).ids == led.generate(ids, seed=1, **draw).ids
    assert led.generate(ids, seed=1, **draw).ids != led.generate(ids, seed=2, **draw).ids


def test_each_document_may_begin_in_its_own_way(led):
    ids = [[0, 20, 31, 2], [0, 9, 2], [0, 9, 31, 2]]
    draw = {"do_sample": True, "temperature": 3.0, "top_k": None}
    for options in ({}, {"num_beams": 2, "num_return_sequences": 2}):
        alone = [led.generate([one], decoder_start_token_id=start, max_new_tokens=4, **options).ids
                 for one, start in zip(ids, (2, 5, 5))]  # fmt: skip
        together = led.generate(ids, decoder_start_token_id=[2, 5, 5], max_new_tokens=4, **options).ids
        assert together == sum(alone, []) and [row[0] for row in together][:: len(together) // 3] == [2, 5, 5]
    prompts = [[2, 0, 7], [2, 0, 8], [2, 0, 8]]
    for value in (prompts, np.array(prompts)):
        found = led.generate(ids, decoder_input_ids=value, max_new_tokens=3).ids
        alone = [led.generate([one], decoder_input_ids=row, max_new_tokens=3).ids[0] for one, row in zip(ids, prompts)]
        assert found == alone
    # One for all, as a list too; draws are those of the place in the batch.
    same = led.generate(ids, decoder_start_token_id=2, max_new_tokens=4, seed=3, **draw).ids
    assert led.generate(ids, decoder_start_token_id=[2], max_new_tokens=4, seed=3, **draw).ids == same
    mixed = led.generate(ids, decoder_start_token_id=[5, 5, 2], max_new_tokens=4, seed=3, **draw).ids
    assert mixed[2] == same[2]
    for name, value in (("decoder_start_token_id", [2, 5]), ("decoder_input_ids", [[2, 0], [2, 1]])):
        with pytest.raises(longformer_cpp.Error, match=f"{name}: expected one row for each of 3 documents"):
            led.generate(ids, max_new_tokens=3, **{name: value})
    with pytest.raises(longformer_cpp.Error, match=r"input_ids\[2\]"):
        led.generate([ids[0], ids[1], [0] * 5000], decoder_start_token_id=[2, 5, 2], max_new_tokens=3)


def test_gradients_follow_the_loss(model):
    ids, labels = [[0, 20, 31, 2]], [[0, 9, -100, 2]]
    loss, gradients = longformer_cpp.loss_and_gradients(model, ids, labels)
    # An mBART begins with the last token of so many as are not padding: here −100, which is read as padding.
    first = 1 if model._native.model_type == "mbart" else 2
    logits = model.text_logits(ids, [[first, 0, 9, 1]])[0].astype(np.float64)
    log_sums = np.log(np.exp(logits).sum(1))
    wanted = np.mean([log_sums[i] - logits[i, label] for i, label in enumerate(labels[0]) if label >= 0])
    assert loss == pytest.approx(wanted, abs=1e-4)
    if model._native.model_type != "pegasus_x":
        assert "final_logits_bias" in gradients and not gradients["final_logits_bias"].any()
    assert all(np.isfinite(gradient).all() for gradient in gradients.values())


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ([[[0, 2]]], {"nonsense": 3}, "nonsense"),
        ([[[0, 2]]], {"num_beams": "two"}, "num_beams"),
        ([[[0, 2]]], {"max_new_tokens": 99}, "32"),
        ([[[0, 5000]]], {}, "5000"),
        ([[[]]], {}, "none"),
        ([[[0, 2]], [[0, 0]]], {}, "visible"),
    ],
)
def test_bad_input(led, arguments, options, words):
    with pytest.raises(longformer_cpp.Error, match=words):
        led.generate(*arguments, **options)


def test_other_models(folder):
    model = longformer_cpp.load(folder("tiny_bert"))
    with pytest.raises(longformer_cpp.Error, match="led, bart,"):
        model.generate([[0, 2]])
