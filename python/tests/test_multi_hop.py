"""Questions over paragraphs. What the model computes is held against PyTorch in tests/tasks/multi_hop_head_test.cc."""

import json
import math
import shutil

import longformer_cpp
import pytest

PARAGRAPHS = [("he", ["it is .", " his of"]), ("she", "her of. the to")]
MARKS = ["[q]", "[/q]", "<t>", "</t>", "[s]"]


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    """The head and encoder of the fixture; its marks take the place of the last five tokens."""
    path = tmp_path_factory.mktemp("multi_hop")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(folder("tiny_longformer_multi_hop") / name, path)
    source = folder("tiny_longformer_qa")
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(source / name, path)
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    words = tokenizer["model"]["vocab"]
    for mark, word in zip(MARKS, sorted(words, key=words.get)[-5:], strict=True):
        words[mark] = words.pop(word)
        tokenizer["added_tokens"].append({"id": words[mark], "content": mark, "single_word": False, "lstrip": False,
                                          "rstrip": False, "normalized": False, "special": True})  # fmt: skip
    (path / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return path


def test_paragraphs_are_a_list(model):
    answerer = longformer_cpp.MultiHopAnswerer(model)
    for value, message in (({"ab": "c"}, "a mapping"), ({("ab", "cd")}, "a set"), (["ab"], r"paragraphs\[0\]: expected"),
                           ([("a", {"b": "c"})], r"paragraphs\[0\]\[1\]: .*a mapping"), ("ab", "expected a list of"),
                           ([("a", 3)], r"paragraphs\[0\]\[1\]"), ([(3, "a")], r"paragraphs\[0\]\[0\]")):  # fmt: skip
        with pytest.raises(TypeError, match=message):
            answerer("it is", value)
    for value in ([("a", ["b\ud800"])], [("\ud800", "b")], [("a", "\udfff")]):
        with pytest.raises(longformer_cpp.Error, match=r"paragraphs\[0\].*half of a surrogate pair"):
            answerer("it is", value)


def test_answers_come_with_evidence(model):
    answerer = longformer_cpp.MultiHopAnswerer(model)
    found = answerer("it is", PARAGRAPHS)
    assert found.type in ("span", "yes", "no") and 0 <= found.score <= 1
    assert found.rows == 1 and found.truncated == 0 and len(found.paragraph_logits) == 2
    assert {one.paragraph for one in found.evidence} == {0, 1}
    texts = [PARAGRAPHS[0][1], ["her of. ", "the to"]]
    for one in found.evidence:
        assert one.text == texts[one.paragraph][one.sentence]
        assert one.score == pytest.approx(1 / (1 + math.exp(-one.logit)))
    if found.span is not None:
        span = found.span
        text = PARAGRAPHS[span.paragraph][0] if span.sentence is None else texts[span.paragraph][span.sentence]
        assert text[span.begin : span.end] == found.text
    assert len({one.paragraph for one in answerer("it is", PARAGRAPHS, evidence_paragraphs=1).evidence}) == 1


def test_long_input(model):
    answerer = longformer_cpp.MultiHopAnswerer(model)
    long = [*PARAGRAPHS, ("they", "of " * 30)]
    with pytest.raises(longformer_cpp.Error, match="41 tokens"):
        answerer("it is", long)
    assert answerer("it is", long, too_long="truncate").truncated > 0
    assert answerer("it is", long, too_long="split").rows > 1


def test_bad_input(model, folder):
    with pytest.raises(longformer_cpp.Error, match="multi-hop-question-answering"):
        longformer_cpp.MultiHopAnswerer(folder("tiny_longformer_qa"))
    answerer = longformer_cpp.MultiHopAnswerer(model)
    with pytest.raises(longformer_cpp.Error, match="refuse, truncate, split"):
        answerer("it is", PARAGRAPHS, too_long="cut")
    with pytest.raises(TypeError, match="a list of"):
        answerer("it is", "a text")
    with pytest.raises(longformer_cpp.Error, match=r"\[s\]"):
        answerer("it is", [("he", ["a [s] b"])])
