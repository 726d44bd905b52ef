"""Tokenizers and conversion through the Python package."""

import json
import pickle

import numpy as np
import pytest

import longformer_cpp


@pytest.fixture
def tokenizer(folder):
    return longformer_cpp.Tokenizer(folder("tiny_bert"))


def test_batches(tokenizer, folder):
    texts = ["The ofs xyz", "on THE"]
    batch = tokenizer.encode_batch(texts, max_length=5)
    assert batch == [tokenizer.encode(text, max_length=5) for text in texts]
    assert batch[1].tokens == ["[CLS]", "on", "the", "[SEP]"] and batch[1].attention_mask == [1] * 4
    assert tokenizer.encode_batch(texts, pairs=["the", "on"])[1] == tokenizer.encode("on THE", "on")
    with pytest.raises(longformer_cpp.Error, match="pairs: expected 2 as texts, found 1"):
        tokenizer.encode_batch(texts, pairs=["the"])
    with pytest.raises(TypeError, match=r"text: expected a text \(str\), found 3 \(int\)"):
        tokenizer.encode(3)
    with pytest.raises(TypeError, match="encode: max_length: expected an integer, found 'x'"):
        tokenizer.encode("a", max_length="x")


def test_what_it_says_of_itself(tokenizer, folder):
    model = longformer_cpp.load(folder("tiny_bert"))
    assert tokenizer.max_tokens == model.max_tokens
    assert tokenizer.id("the") == tokenizer.encode("the").ids[1] and tokenizer.id("nonsense") is None
    assert "WordPiece" in repr(tokenizer)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.encode("The ofs") == tokenizer.encode("The ofs") and again.encode("a").tokens


def test_models_say_what_they_are(folder):
    model = longformer_cpp.load(folder("tiny_longformer_classifier"), threads=1)
    assert model.config["model_type"] == "longformer" and model.max_tokens == 41
    assert "sequence-classification" in repr(model) and "41 tokens" in repr(model)
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model)
    ids = model.tokenizer.encode("he was").ids
    assert np.array_equal(again([ids]).logits, model([ids]).logits)


def test_encode(tokenizer, folder):
    vocabulary = (folder("tiny_bert") / "vocab.txt").read_text().splitlines()
    encoding = tokenizer.encode("The ofs xyz, on THE")
    tokens = ["[CLS]", "the", "of", "##s", "[UNK]", ",", "on", "the", "[SEP]"]
    assert encoding.ids == [vocabulary.index(token) for token in tokens]
    assert encoding.offsets == [
        (0, 0), (0, 3), (4, 6), (6, 7), (8, 11), (11, 12), (13, 15), (16, 19), (0, 0)
    ]
    assert encoding.special_tokens_mask == [1, *[0] * 7, 1]
    assert encoding.type_ids == [0] * 9
    assert encoding.sequence_ids == [None, *[0] * 7, None]
    assert encoding.truncated == 0
    assert len(encoding) == 9


def test_offsets_count_characters(tokenizer):
    encoding = tokenizer.encode("\U0001f600 é the", add_special_tokens=False)
    assert encoding.offsets[-1] == (4, 7)


def test_pairs(tokenizer):
    encoding = tokenizer.encode("the", "of and")
    assert encoding.type_ids == [0, 0, 0, 1, 1, 1]
    assert encoding.sequence_ids == [None, 0, None, 1, 1, None]


def test_special_tokens_are_optional(tokenizer):
    assert tokenizer.encode("the of", add_special_tokens=False).ids == [5, 6]
    assert tokenizer.encode("", add_special_tokens=False).ids == []


def test_nothing_is_cut_unasked(tokenizer):
    """The tokenizer.json of this folder asks for 8 tokens."""
    text = "the " * 100
    assert len(tokenizer.encode(text)) == 102
    cut = tokenizer.encode(text, max_length=10)
    assert len(cut) == 10
    assert cut.truncated == 92


def test_decode(tokenizer):
    ids = tokenizer.encode("the walked of").ids
    assert tokenizer.decode(tokenizer.encode("the of and").ids) == "the of and"
    assert "[CLS]" in tokenizer.decode(ids, skip_special_tokens=False)
    assert tokenizer.decode(np.array([5, 6])) == "the of"
    assert tokenizer.vocabulary_size == 58
    with pytest.raises(longformer_cpp.Error, match="58"):
        tokenizer.decode([58])
    with pytest.raises(longformer_cpp.Error, match="ids: expected"):
        tokenizer.decode([[5]])


def test_byte_level_bpe(folder):
    tokenizer = longformer_cpp.Tokenizer(str(folder("tiny_roberta")))
    encoding = tokenizer.encode(" the <mask> she")
    assert encoding.ids[:2] == [0, 270]
    assert 4 in encoding.ids
    text = "any text: ünïcode, \U0001f600"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_text_that_is_no_unicode(tokenizer):
    with pytest.raises(longformer_cpp.Error, match="text: expected a text of whole characters.*U.D800 at character 4"):
        tokenizer.encode("the \ud800")


def test_folder_without_tokenizer(tmp_path):
    with pytest.raises(longformer_cpp.Error, match=tmp_path.name):
        longformer_cpp.Tokenizer(tmp_path)


def test_convert(tmp_path, folder):
    target = tmp_path / "long"
    longformer_cpp.convert(folder("tiny_bert"), target, max_positions=96, window=8)
    config = json.loads((target / "config.json").read_text())
    assert config["model_type"] == "longformer"
    assert set(np.ravel(config["attention_window"])) == {8}
    assert "truncation\": null" in json.dumps(json.loads((target / "tokenizer.json").read_text()))

    ids = longformer_cpp.Tokenizer(target).encode("the of and to in " * 18).ids
    assert len(ids) == 92
    assert longformer_cpp.load(target)([ids]).last_hidden_state[0].shape == (92, 16)

    # The function is unchanged if the window covers everything and the positions are the first ones.
    longformer_cpp.convert(folder("tiny_bert"), tmp_path / "same", max_positions=24, window=64)
    short = ids[:20]
    before = longformer_cpp.load(folder("tiny_bert"))([short]).last_hidden_state[0]
    after = longformer_cpp.load(tmp_path / "same")([short]).last_hidden_state[0]
    assert np.abs(before - after).max() <= 1e-5


def test_convert_refuses(tmp_path, folder):
    with pytest.raises(longformer_cpp.Error, match="window"):
        longformer_cpp.convert(folder("tiny_bert"), tmp_path / "odd", window=7)
    assert not (tmp_path / "odd").exists()
    longformer_cpp.convert(folder("tiny_bert"), tmp_path / "made", max_positions=48, window=8)
    with pytest.raises(longformer_cpp.Error, match="made"):
        longformer_cpp.convert(folder("tiny_bert"), tmp_path / "made", max_positions=48, window=8)
    longformer_cpp.convert(folder("tiny_bert"), tmp_path / "made", max_positions=48, window=8, overwrite=True)
