"""Results of models for documents. The numbers of the heads are compared with PyTorch in tests/."""

import json

import longformer_cpp
import pytest

TEXT = "he was in the house. she was with him at the house. " * 3


@pytest.fixture(scope="module")
def resolver(folder):
    return longformer_cpp.CoreferenceResolver(folder("coreference"))


@pytest.fixture(scope="module")
def answerer(folder):
    return longformer_cpp.QuestionAnswerer(folder("tiny_longformer_qa"))


class TestCoreference:
    def test_mentions_are_spans_of_the_text(self, resolver):
        clusters = resolver(TEXT)
        assert clusters and all(TEXT[one.begin : one.end] == one.text for cluster in clusters for one in cluster)
        assert resolver.resolve([TEXT, "he", TEXT]) == [clusters, resolver("he"), clusters]
        assert resolver(TEXT, singletons=False) == [cluster for cluster in clusters if len(cluster) > 1]

    def test_segments(self, resolver):
        assert resolver(TEXT, segments="independent", max_segment_length=12)
        with pytest.raises(longformer_cpp.Error, match="segments: expected") as raised:
            resolver(TEXT, segments="many")
        assert (raised.value.option, raised.value.document, raised.value.remedies) == ("segments", None, ())

    def test_a_text_is_no_list_of_texts(self, resolver):
        with pytest.raises(TypeError, match="expected a list of texts"):
            resolver.resolve(TEXT)

    def test_a_folder_without_the_head(self, folder):
        with pytest.raises(longformer_cpp.Error, match="coreference"):
            longformer_cpp.CoreferenceResolver(folder("tiny_bert"))


class TestAnswers:
    def test_answers_are_spans_of_their_documents(self, answerer):
        texts = ["he was in the house.", "she was with him."]
        answers = answerer("who?", texts, top_k=2)
        assert [one.document for one in answers] == sorted(one.document for one in answers)
        assert all(texts[one.document][one.begin : one.end] == one.text for one in answers)
        assert answerer("who?", texts[0]) == [answers[0]]

    def test_the_best_of_all_documents_by_logit(self, answerer):
        texts = ["he was in the house.", "she was with him.", "at the house"]
        all_of_them = answerer("who?", texts, top_k=3)
        best = answerer("who?", texts, top_k=3, best=True)
        assert best == sorted(all_of_them, key=lambda one: -one.logit)[:3]

    def test_long_documents(self, answerer):
        with pytest.raises(longformer_cpp.Error, match="expected at most"):
            answerer("who?", TEXT)
        with pytest.raises(longformer_cpp.Error, match="found both"):
            answerer("who?", TEXT, truncate=True, stride=4)
        assert answerer("who?", TEXT, truncate=True)


def test_choices(folder):
    chooser = longformer_cpp.Chooser(folder("tiny_longformer_choice"))
    choice = chooser("who?", ["he", "she", "him"], context="she was in the house.")
    assert sum(choice.probabilities) == pytest.approx(1) and len(choice.probabilities) == 3
    assert choice.probabilities[choice.best] == max(choice.probabilities)


def test_score_without_a_model(tmp_path):
    data = [{"id": name, "context": "a b c", "question": "?", "answers": [{"text": "b", "answer_start": 2}]}
            for name in ("one", "two")]  # fmt: skip
    (tmp_path / "data.json").write_text(json.dumps(data))
    (tmp_path / "said.json").write_text(json.dumps({"one": "the b!"}))
    found = longformer_cpp.score(tmp_path / "said.json", tmp_path / "data.json", task="qa")
    assert found == {"f1": 50, "exact_match": 50}
    with pytest.raises(longformer_cpp.Error, match="published"):
        longformer_cpp.score(tmp_path / "said.json", tmp_path / "data.json")


def test_score_of_a_run(folder):
    data = folder("retrieval")
    cases = json.loads((data / "cases.json").read_text())["run"]
    for name, options in (("dropped", {}), ("kept", {"keep_identical_ids": True})):
        found = longformer_cpp.score(data / "run.trec", data, **options)
        queries = cases[name].values()
        assert found == pytest.approx({key: sum(one[key] for one in queries) / len(queries) for key in found})
    assert longformer_cpp.score(data / "run.trec", data, split="dev") != found
