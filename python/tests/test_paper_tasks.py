"""The tasks of the paper from Python: trainings give the weights of the program, and everything else its results."""

import json
import shutil

import longformer_cpp
import pytest
from test_training import weights
from test_verbs import close, flags, keys

#: A step on one example.
STEP = {"max_steps": 1, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 1, "learning_rate": 1e-3,
        "lr_scheduler_type": "constant", "save_strategy": "no", "seed": 3, "threads": 1}  # fmt: skip
#: The options of each task that change what is learnt.
TRAININGS = {
    "coreference": {"head_learning_rate": 5e-4, "mention_loss_weight": 0.5, "top_lambda": 0.4, "max_span_width": 5,
                    "max_training_tokens": 12, "segments": "independent", "max_segment_length": 10, "head_size": 16},
    "candidates": {"stride": 0, "adam_beta2": 0.9, "head_learning_rate": 5e-4},
    "trivia": {"stride": 8, "answer_loss": "first", "answer_matching": "substring", "max_question_tokens": 2},
    "multihop": {"loss_weights": [1, 5, 10, 10], "global_attention": "question", "truncate": True},
}  # fmt: skip
READING = {"coreference": {"head_size": 16, "top_lambda": 0.6}, "candidates": {"stride": 0}, "trivia": {"stride": 8},
           "multihop": {"truncate": True}}  # fmt: skip
LONG = "the of to " * 20
STORY = "he was at the of and. she had been there. he had her"


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def document(name, first):
    sentences = [text.split() for text in (first, "she had been there", "he had her")]
    clusters = [[[0, 0], [10, 10]], [[6, 6], [12, 12]], [[0, 5]]]
    return {"doc_key": name, "sentences": sentences, "clusters": clusters}


def write_trivia(folder):
    """Two questions, the second with a document that is not there."""
    pages = folder / "evidence" / "wikipedia"
    pages.mkdir(parents=True)
    (pages / "a.txt").write_text("he was in the shad. she had been with him. " + LONG + "Had")
    question = {"Question": "who was he in the", "Answer": {"NormalizedAliases": ["had"]}}
    questions = [
        {"QuestionId": name, "EntityPages": [{"Filename": name}], **question} for name in ("a.txt", "b.txt")
    ]
    data = {"Data": questions, "Domain": "Wikipedia", "Split": "dev", "VerifiedEval": False, "Version": 1.0}
    (folder / "qa").mkdir()
    (folder / "qa" / "trivia.json").write_text(json.dumps(data))
    return folder / "qa" / "trivia.json"


def hop(name, sentence):
    context = [["he", ["of to .", f" his {sentence} ."]], ["she", [" her of .", "the"]], ["they", [LONG]]]
    facts = [["he", 1], ["she", 0], ["he", 9]]
    return {"_id": name, "question": "they were", "answer": "his", "supporting_facts": facts, "context": context}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file for each task; the last example of some is broken."""
    folder = tmp_path_factory.mktemp("data")
    choices = {"query": "it is", "candidates": ["his", "at", "on"], "supports": ["the at .", LONG]}
    choices = [{"id": answer, "answer": answer, **choices} for answer in ("his", "nobody")]
    (folder / "candidates.json").write_text(json.dumps(choices))
    (folder / "multihop.json").write_text(json.dumps([hop("a", "of"), hop("b", "crowd[s]")]))
    repeated = document("b", "she had her in the of")
    repeated["clusters"].append([[0, 0], [1, 1]])
    text = "he was at the of and she had been there he had her"
    gap = [("a", "he", 0, "he", 40, "TRUE", "she", 21, "FALSE"), ("b", "she", 21, "he", 0, "FALSE", "her", 47, "TRUE")]
    header = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL".split()
    rows = [header, *([name, text, *rest, "u"] for name, *rest in gap)]
    (folder / "gap.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return {
        "coreference": jsonl(folder / "stories.jsonl", [document("a", "he was at the of and"), repeated]),
        "candidates": folder / "candidates.json",
        "trivia": write_trivia(folder),
        "multihop": folder / "multihop.json",
        "gap": folder / "gap.tsv",
    }


@pytest.fixture(scope="module")
def sources(folder, tmp_path_factory):
    """The encoder that each task begins with, without dropout."""
    place = tmp_path_factory.mktemp("sources")
    shutil.copytree(folder("tiny_bert"), place / "bert")
    config = json.loads((place / "bert" / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (place / "bert" / "config.json").write_text(json.dumps(config))
    longformer_cpp.convert(place / "bert", place / "long", max_positions=64, window=8)
    return {"coreference": place / "bert", "candidates": place / "long", "multihop": place / "long",
            "trivia": folder("tiny_longformer_qa")}  # fmt: skip


@pytest.fixture(scope="module")
def train(sources, data):
    def finetune(task, target, **options):
        options = {"skip_invalid": True, **STEP, **options}
        return longformer_cpp.finetune(sources[task], data[task], target, task=task, **options)

    return finetune


@pytest.fixture(scope="module")
def trained(train, tmp_path_factory):
    """A model of each task after a step with all options."""
    place = tmp_path_factory.mktemp("trained")

    def of(task):
        if not (place / task).exists():
            train(task, place / task, **TRAININGS[task])
        return place / task

    return of


@pytest.fixture(scope="module")
def tuned(train, tmp_path_factory):
    """A model of each task that has learnt the first example."""
    place = tmp_path_factory.mktemp("tuned")

    def of(task):
        if not (place / task).exists():
            train(task, place / task, **READING[task], max_steps=40, learning_rate=5e-3)
        return place / task

    return of


@pytest.mark.parametrize("task", TRAININGS)
def test_finetune(trained, sources, data, program, tmp_path, task):
    options = {"task": task, "skip_invalid": True, **STEP, **TRAININGS[task]}
    program("finetune", sources[task], data[task], "--output-dir", tmp_path, *flags(options))
    assert weights(trained(task)) == weights(tmp_path)
    assert (trained(task) / "config.json").read_text() == (tmp_path / "config.json").read_text()


@pytest.mark.parametrize(("task", "option"), [(task, name) for task in TRAININGS for name in TRAININGS[task]])
def test_no_option_of_a_training_is_passed_over(train, trained, tmp_path, task, option):
    others = {name: value for name, value in TRAININGS[task].items() if name != option}
    if option in ("stride", "truncate"):
        with pytest.raises(longformer_cpp.Error, match="found none"):
            train(task, tmp_path, **others)
    else:
        train(task, tmp_path, **others)
        assert weights(trained(task)) != weights(tmp_path)


def test_evidence_of_a_folder(trained, data, sources, tmp_path):
    moved = shutil.copy(data["trivia"], tmp_path)
    options = {"task": "trivia", **STEP, **TRAININGS["trivia"]}
    with pytest.raises(longformer_cpp.Error, match=r"a\.txt"):
        longformer_cpp.finetune(sources["trivia"], moved, tmp_path / "none", **options)
    options |= {"evidence": data["trivia"].parents[1] / "evidence", "skip_invalid": True}
    longformer_cpp.finetune(sources["trivia"], moved, tmp_path / "moved", **options)
    assert weights(trained("trivia")) == weights(tmp_path / "moved")


def check_evaluation(found, row):
    assert found.task == row["task"] and close(found.metrics, row["metrics"])
    # The program prints the counters that the task has.
    assert found.counts == {name: row.get(name, 0) for name in found.counts}


EVALUATIONS = [
    ("coreference", {}),
    ("coreference", {"no_singletons": True, "segments": "independent", "max_segment_length": 10}),
    ("gap", {}),
    ("candidates", {"stride": 0, "skip_invalid": True}),
    ("trivia", {"task": "trivia", "stride": 8, "max_answer_tokens": 31, "skip_invalid": True}),
    ("multihop", {"truncate": True, "skip_invalid": True, "evidence_paragraphs": 1}),
]


@pytest.mark.parametrize(("name", "options"), EVALUATIONS)
def test_evaluate_and_score(tuned, data, program, tmp_path, name, options):
    path = tuned("coreference" if name == "gap" else name)
    found = longformer_cpp.load(path).evaluate(data[name], official_predictions=tmp_path / "here", **options)
    written = ["--official-predictions", tmp_path / "there", "--json"]
    (row,) = program("evaluate", path, data[name], *written, *flags(options))
    check_evaluation(found, row)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
    scoring = {one: value for one, value in options.items() if one in ("no_singletons", "skip_invalid", "task")}
    scores = longformer_cpp.score(tmp_path / "here", data[name], **scoring)
    (row,) = program("evaluate", "--score", tmp_path / "here", data[name], "--json", *flags(scoring))
    check_evaluation(scores, row)
    assert scores == scores.metrics and scores.counts["examples"] > 0


def test_select_paragraphs(tuned, data, program, tmp_path):
    path = tuned("multihop")
    options = {"truncate": True, "skip_invalid": True, "keep_paragraphs": 2, "paragraph_threshold": -1e9}
    found = longformer_cpp.load(path).evaluate(data["multihop"], write_selected=tmp_path / "here.json", **options)
    written = ["--write-selected", tmp_path / "there.json", "--json"]
    (row,) = program("evaluate", path, data["multihop"], *written, *flags(options))
    check_evaluation(found, row)
    assert "selected_all_gold" in found.metrics and found.counts["skipped"] == 1
    assert (tmp_path / "here.json").read_bytes() == (tmp_path / "there.json").read_bytes()
    assert len(json.loads((tmp_path / "here.json").read_text())[0]["context"]) == 2


def test_score_counts_what_does_not_fit(data, tmp_path):
    """Predictions of a document are not there, and a mention is in two clusters."""
    said = jsonl(tmp_path / "said.jsonl", [document("a", "he was at the of and")])
    found = longformer_cpp.score(said, data["coreference"])
    assert found.task == "coreference" and found["mentions_precision"] == 1 > found["mentions_recall"]
    assert found.counts["examples"] == 2 and found.counts["missing"] == 1 and found.counts["repeated_mentions"] == 1
    assert json.loads(json.dumps(found)) == found == dict(found.metrics)
    with pytest.raises(longformer_cpp.Error, match="nobody"):
        longformer_cpp.score(tmp_path / "none.json", data["candidates"])
    (tmp_path / "choices.json").write_text('{"his": "his"}')
    found = longformer_cpp.score(tmp_path / "choices.json", data["candidates"], skip_invalid=True)
    assert found == {"accuracy": 1} and found.counts["skipped"] == 1 and "nobody" in found.first_skipped
    with pytest.raises(TypeError, match="score: expected the keyword skip_invalid, found 'skip_invalids'"):
        longformer_cpp.score(said, data["coreference"], skip_invalids=True)


def test_singletons_have_two_names(tuned, data, tmp_path):
    model = longformer_cpp.load(tuned("coreference"))
    stories = data["coreference"]
    model.evaluate(stories, official_predictions=tmp_path / "said.conll")
    for call in (
        lambda **options: model.evaluate(stories, **options).metrics,
        lambda **options: longformer_cpp.score(tmp_path / "said.conll", stories, **options),
        lambda **options: model.coref(STORY, **options),
    ):
        whole, without = call(), call(no_singletons=True)
        assert without == call(singletons=False) != whole
        assert whole == call(singletons=True) == call(no_singletons=False)


def test_choose(tuned, program):
    path = tuned("candidates")
    asked = {"query": "it is", "candidates": ["at", "his"], "supports": ["the at .", LONG * 2]}
    chooser = longformer_cpp.Chooser(path)
    found = chooser(asked["query"], asked["candidates"], supports=asked["supports"], stride=0)
    (row,) = program("choose", path, "--stride", 0, "--json", stdin=json.dumps(asked))
    assert close(vars(found), keys(row, "best", "probabilities", "logits", "tokens", "truncated", "segments"))
    assert found.segments > 1 and found.logits != chooser("it is", ["at", "his"]).logits


@pytest.mark.parametrize(
    "options", [{}, {"global_attention": "none"}, {"global_attention": "question", "batch_tokens": 8}]
)
def test_multi_hop(tuned, program, tmp_path, options):
    path, asked = tuned("multihop"), hop("a", "of")
    answerer = longformer_cpp.MultiHopAnswerer(path)
    found = answerer(asked["question"], [tuple(one) for one in asked["context"]], too_long="split", **options)
    (row,) = program("qa", path, jsonl(tmp_path / "q.jsonl", [asked]), "--stride", 0, "--json", *flags(options))
    assert close(keys(vars(found), "type", "score", "logit"), keys(row, "type", "score", "logit"))
    assert found.text == row["answer"] and found.rows == row["segments"] > 1
    assert close(found.paragraph_logits, [one["logit"] for one in row["paragraphs"]])
    names = ("paragraph", "sentence", "score", "logit")
    assert close([keys(vars(one), *names) for one in found.evidence], [keys(one, *names) for one in row["evidence"]])


def test_multi_hop_options(tuned):
    answerer = longformer_cpp.MultiHopAnswerer(tuned("multihop"))
    ask = lambda **options: answerer("they were", [("he", "his of"), ("she", "her of")], **options)  # noqa: E731
    assert len({ask(global_attention=rule).paragraph_logits[0] for rule in (None, "question", "none")}) == 3
    with pytest.raises(longformer_cpp.Error, match="question or none"):
        ask(global_attention="sentences")
    with pytest.raises(longformer_cpp.Error, match="batch tokens"):
        ask(batch_tokens=0)
    with pytest.raises(TypeError, match="answer: batch_tokens: expected an integer, found 'x'"):
        ask(batch_tokens="x")


class TestConll:
    @pytest.mark.parametrize("options", [{}, {"no_singletons": True}])
    def test_is_that_of_the_program(self, tuned, program, tmp_path, options):
        path, texts = tuned("coreference"), {"é": f"“{STORY}” — \U0001f600 he", "one": STORY, "empty": ""}
        written = b""
        for key, text in texts.items():
            (tmp_path / key).write_text(text, encoding="utf-8")
            program("coref", path, tmp_path / key, "-o", tmp_path / "one.conll", *flags(options))
            written += (tmp_path / "one.conll").read_bytes()
        found = longformer_cpp.CoreferenceResolver(path).resolve(list(texts.values()), **options)
        said = [
            longformer_cpp.conll_text(text, one, str(tmp_path / key)) for (key, text), one in zip(texts.items(), found)
        ]
        assert "".join(said).encode() == written
        assert any(found) and written.count(b"#begin document") == 3

    def test_what_was_read(self, tuned, program):
        path = tuned("coreference")
        found = longformer_cpp.load(path).coref(STORY)
        (row,) = program("coref", path, "--json", stdin=STORY)
        assert (found.tokens, found.segments, len(found.words)) == (row["tokens"], row["segments"], row["words"])
        assert [STORY[begin:end] for begin, end in found.words][5:8] == ["and", ".", "she"]
        assert found.sentences == [0, 7, 12]
        for mention in (mention for cluster in found for mention in cluster):
            words = found.words[mention.first_word : mention.end_word]
            assert (words[0][0], words[-1][1]) == (mention.begin, mention.end)

    def test_what_is_no_result(self, tuned):
        found = longformer_cpp.load(tuned("coreference")).coref(STORY)
        assert found
        with pytest.raises(TypeError, match=r"expected the clusters of a CoreferenceResolver, found \[\] \(list\)"):
            longformer_cpp.conll_text(STORY, [], "a")
        with pytest.raises(longformer_cpp.Error, match="expected the one that the clusters are of, found 2 characters"):
            longformer_cpp.conll_text("he", found, "a")
        for first, end in ((-1, 1), (1, 1), (0, 99)):
            found[0][0] = longformer_cpp.Mention(0, 2, "he", first, end)
            with pytest.raises(longformer_cpp.Error, match=f"mentions among 15 words, found words {first} to {end}"):
                longformer_cpp.conll_text(STORY, found, "a")
