"""The verbs of the program as methods: the same numbers as `longformer VERB --json`."""

import json

import longformer_cpp
import pytest

TEXTS = ["he was in the house.", "she was with him at the house", "the"]
LONG = "he was in the house. she was with him at the house. " * 6


def lines(texts):
    return "".join(text + "\n" for text in texts)


def close(found, expected):
    """Equal with numbers that differ by their printed digits at most."""
    if isinstance(expected, dict):
        assert set(found) >= set(expected), (found, expected)
        return all(close(found[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(close(a, b) for a, b in zip(found, expected))
    if isinstance(expected, float):
        return found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    return found == expected


def keys(row, *names):
    return {name: row[name] for name in names}


@pytest.mark.parametrize(
    "options", [{}, {"top_k": 0}, {"function_to_apply": "sigmoid", "top_k": 2}, {"global_attention": "none"}]
)
def test_classify(folder, program, options):
    path = folder("tiny_longformer_classifier")
    found = longformer_cpp.load(path).classify(TEXTS, **options)
    expected = program("classify", path, "--lines", "--json", *flags(options), stdin=lines(TEXTS))
    for one, row in zip(found, expected, strict=True):
        assert close([vars(score) for score in one.labels], row["labels"])
        assert keys(vars(one), "tokens", "truncated", "segments") == keys(row, "tokens", "truncated", "segments")
        assert len(one.logits) == 3


def flags(options):
    """Those of the program for keywords; a list is joined by commas."""
    result = []
    for name, value in options.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        result += ["--" + name.replace("_", "-"), *([] if value is True else [text])]
    return result


@pytest.mark.parametrize("options", [{"truncate": True}, {"stride": 8}, {"stride": 8, "merge": "max"}])
def test_long_documents(folder, program, options):
    path = folder("tiny_longformer_classifier")
    model = longformer_cpp.load(path)
    (one,) = model.classify(LONG, **options)
    (row,) = program("classify", path, "--json", *flags(options), stdin=LONG)
    assert close(vars(one.labels[0]), row["labels"][0])
    assert (one.tokens, one.truncated, one.segments) == (row["tokens"], row["truncated"], row["segments"])
    with pytest.raises(longformer_cpp.Error, match="document 0: expected at most"):
        model.classify(LONG)


@pytest.mark.parametrize("options", [{}, {"aggregation": "none"}, {"aggregation": "max"}])
def test_ner(folder, program, options):
    path = folder("tiny_bert_tagger")
    found = longformer_cpp.load(path).ner(TEXTS, **options)
    expected = program("ner", path, "--lines", "--json", *flags(options), stdin=lines(TEXTS))
    for entities, row in zip(found, expected, strict=True):
        assert len(entities) == len(row["entities"])
        for entity, expected_entity in zip(entities, row["entities"]):
            names = ("label", "score", "begin", "end", "text")
            assert close(keys(vars(entity), *names), keys(expected_entity, *names))
    assert any(found)


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_k": 2, "no_answer": True}])
def test_qa(folder, program, options):
    path = folder("tiny_longformer_qa")
    answers = longformer_cpp.load(path).qa("who?", TEXTS, **options)
    expected = program("qa", path, "--question", "who?", "--lines", "--json", *flags(options), stdin=lines(TEXTS))
    wanted = [{"document": i, **answer} for i, row in enumerate(expected) for answer in row["answers"]]
    assert close([vars(answer) for answer in answers], wanted)


def test_choose(folder, program):
    path = folder("tiny_longformer_choice")
    question = {"context": "she was in the house.", "question": "who?", "choices": ["he", "she", "him"]}
    choice = longformer_cpp.load(path).choose("who?", question["choices"], context=question["context"])
    (row,) = program("choose", path, "--json", stdin=json.dumps(question))
    assert close(vars(choice), keys(row, "best", "probabilities", "logits", "tokens", "truncated", "segments"))


def test_coref(folder, program):
    path = folder("coreference")
    clusters = longformer_cpp.load(path).coref(LONG, singletons=False)
    (row,) = program("coref", path, "--json", "--no-singletons", stdin=LONG)
    mentions = [[keys(vars(mention), "begin", "end", "text") for mention in cluster] for cluster in clusters]
    assert mentions == row["clusters"]


def test_fill_mask(folder, program):
    path = folder("tiny_roberta")
    texts = ["he was <mask> the house", "a [MASK] b <mask>"]
    found = longformer_cpp.load(path).fill_mask(texts, top_k=3)
    expected = program("fill-mask", path, "--top-k", 3, "--lines", "--json", stdin=lines(texts))
    for one, row in zip(found, expected, strict=True):
        masks = [{"position": mask.position, "candidates": [vars(best) for best in mask.candidates]} for mask in one.masks]
        assert close({"filled": one.filled, "masks": masks}, keys(row, "filled", "masks"))
    with pytest.raises(longformer_cpp.Error, match=r"texts\[1\]: expected a mask '<mask>'"):
        longformer_cpp.load(path).fill_mask([texts[0], "he was"])


@pytest.mark.parametrize("verb", ["summarize", "generate"])
@pytest.mark.parametrize("options", [{}, {"num_beams": 3, "max_new_tokens": 8}, {"max_new_tokens": 5, "truncate": True}])
def test_texts(led, program, verb, options):
    model = longformer_cpp.load(led)
    seen = []
    write = model.summarize if verb == "summarize" else model.write
    documents = write([LONG, TEXTS[0]], lambda document, text: seen.append((document, text)), **options)
    expected = program(verb, led, "--json", "--lines", *flags(options), stdin=lines([LONG, TEXTS[0]]))
    for document, row in zip(documents, expected, strict=True):
        names = ("tokens", "truncated", "segments", "global_tokens")
        assert keys(vars(document), *names) == keys(row, *names)
        assert [text.ids for text in document.texts] == [text["ids"] for text in row["texts"]]
        assert document.text == row["texts"][0]["text"]
    for number, document in enumerate(documents):
        assert "".join(text for which, text in seen if which == number) == document.text


def test_an_exception_of_a_callback(led):
    model = longformer_cpp.load(led)
    with pytest.raises(ZeroDivisionError):
        model.summarize(TEXTS, lambda document, text: 1 / 0, max_new_tokens=20)
    assert model.summarize(TEXTS[0], max_new_tokens=3)[0].texts


def write_reviews(path):
    rows = [("he was in the house", "good"), ("she was with him", "bad"), ("the house", "good"), ("at the", "bad")]
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return path


def test_evaluate(folder, program, tmp_path):
    path, data = folder("tiny_longformer_classifier"), write_reviews(tmp_path / "data.jsonl")
    model = longformer_cpp.load(path)
    found = model.evaluate(data, predictions=True)
    (row,) = program("evaluate", path, data, "--json", "--predictions", tmp_path / "said.jsonl")
    assert found.task == row["task"] and close(found.metrics, row["metrics"])
    assert close([vars(label) for label in found.labels], row["labels"])
    assert found.counts == {name: row.get(name, 0) for name in found.counts}
    said = (tmp_path / "said.jsonl").read_text()
    assert found.predictions == [json.loads(line) for line in said.splitlines()]
    assert "accuracy" in repr(found) and "4 examples" in repr(found)
    model.evaluate(data, predictions=tmp_path / "here.jsonl")
    assert (tmp_path / "here.jsonl").read_text() == said
    with pytest.raises(TypeError, match="evaluate: expected the keyword truncate, found 'truncat'"):
        model.evaluate(data, truncat=True)
    with pytest.raises(TypeError, match=r"evaluate: stride: expected an integer, found 'x' \(str\)"):
        model.evaluate(data, stride="x")


def test_evaluate_fields_and_encoding(folder, program, tmp_path):
    path, data = folder("tiny_longformer_classifier"), tmp_path / "data.csv"
    data.write_bytes("text;label\nhe was, é;good\nshe was;bad\n".encode("latin-1"))
    options = {"delimiter": ";", "encoding": "latin-1"}
    found = longformer_cpp.load(path).evaluate(data, **options)
    (row,) = program("evaluate", path, data, "--json", *flags(options))
    assert close(found.metrics, row["metrics"]) and found.counts["examples"] == 2
    with pytest.raises(longformer_cpp.Error, match="delimiter: expected one character"):
        longformer_cpp.load(path).evaluate(data, delimiter=";;")


def test_evaluate_retrieval(folder, program):
    options = {"mode": "dense", "top_k": 20}
    path, data = folder("tiny_bert"), folder("retrieval")
    found = longformer_cpp.load(path).evaluate(data, task="retrieval", truncate=True, **options)
    (row,) = program("evaluate", path, data, "--task", "retrieval", "--truncate", "--json", *flags(options))
    assert found.task == "retrieval" and close(found.metrics, row["metrics"])


def test_evaluate_masks_and_texts(folder, led, program, tmp_path):
    (tmp_path / "text.txt").write_text(LONG)
    path = folder("tiny_roberta")
    found = longformer_cpp.load(path).evaluate(tmp_path / "text.txt", mask_every=3)
    (row,) = program("evaluate", path, tmp_path / "text.txt", "--mask-every", 3, "--json")
    assert close(found.metrics, row["metrics"])
    (tmp_path / "sums.jsonl").write_text(json.dumps({"text": LONG, "summary": "he was"}) + "\n")
    options = {"max_new_tokens": 6, "truncate": True}
    found = longformer_cpp.load(led).evaluate(tmp_path / "sums.jsonl", **options)
    (row,) = program("evaluate", led, tmp_path / "sums.jsonl", "--json", *flags(options))
    assert close(found.metrics, row["metrics"])


def test_language_models(folder, program, tmp_path):
    path = folder("character_lm") / "tied"
    model = longformer_cpp.LanguageModel(path)
    options = {"characters": 30, "seed": 3, "top_k": 5}
    (row,) = program("generate", path, "--prompt", "he ", "--json", *flags(options))
    pieces = []
    assert model.generate("he ", callback=pieces.append, **options) == row["text"]
    assert b"".join(pieces).decode(errors="replace") == row["text"]
    (tmp_path / "text.txt").write_text(LONG.replace(".", ""))
    found = model.evaluate(tmp_path / "text.txt", streaming=True, losses=True)
    (row,) = program("evaluate", path, tmp_path / "text.txt", "--streaming", "--json")
    assert close(found.metrics, row["metrics"]) and found.characters == row["characters"]
    assert len(found.losses) == found.characters


def test_info(folder, program):
    (row,) = program("info", folder("sentence_dense"), "--json")
    found = longformer_cpp.info(folder("sentence_dense"))
    assert {name: found[name] for name in row if name in found} == {name: row[name] for name in row if name in found}
    assert len(found) > 30


def test_convert_to_other_attention(folder, tmp_path):
    longformer_cpp.convert(folder("tiny_roberta"), tmp_path / "performer", to="performer", features=8)
    assert "performer" in longformer_cpp.info(tmp_path / "performer")["model_type"]
    with pytest.raises(TypeError, match="convert: expected the keyword features, found 'feature'"):
        longformer_cpp.convert(folder("tiny_roberta"), tmp_path / "other", to="performer", feature=8)


def test_types_of_arguments(folder):
    model = longformer_cpp.load(folder("tiny_longformer_classifier"))
    for call, words in (
        (lambda: model.classify(3), r"texts: expected a list of texts, found 3 \(int\)"),
        (lambda: model.classify(["a", None]), r"texts\[1\]: expected a text \(str\), found None \(NoneType\)"),
        (lambda: model.classify("a", stride=1.5), r"classify: stride: expected an integer, found 1.5 \(float\)"),
        (lambda: model.classify("a", truncate=1), r"classify: truncate: expected True or False, found 1 \(int\)"),
        (lambda: longformer_cpp.load(folder("tiny_bert"), dtype=3), r"load: dtype: expected a text \(str\), found 3"),
        (lambda: longformer_cpp.load(folder("tiny_bert"), threads="2"), r"load: threads: expected an integer, found '2'"),
        (lambda: model.tokenizer.token("x"), r"id: expected an integer, found 'x' \(str\)"),
        (lambda: model.evaluate(3), r"data: expected a path, found 3 \(int\)"),
        (lambda: longformer_cpp.band_attention(*[[[[1.0]]]] * 3, window="8"), r"window: expected an integer, found '8'"),
        (lambda: longformer_cpp.load(3), r"folder: expected a path, found 3 \(int\)"),
    ):
        with pytest.raises(TypeError, match=words) as error:
            call()
        assert "\n" not in str(error.value)
