"""Coreference: `finetune --task coreference`, `evaluate` with and without a model, and what they refuse. The head itself is held
against PyTorch in coreference_test.cc, and against fastcoref in tests/fixtures/make_fastcoref.py."""

import io
import json
import lzma
import os
import pathlib
import tarfile

import numpy as np
import pytest
from cli_test import BERT, FIXTURES, HIDDEN, run
from cli_training_test import EACH_STEP, FAST, losses_of, ran, tensors, without_added_tokens, without_dropout, write

SMALL = ["--head-size", 16, *FAST, "--gradient-accumulation-steps", 1]
DATA = os.environ.get("LONGFORMER_DATA")


def document(name, clusters=(), speakers=(), words=("he was at the of and", "she had been there", "he had her")):
    sentences = [sentence.split() for sentence in words]
    made = {"doc_key": name, "sentences": sentences, "clusters": list(clusters)}
    return made | ({"speakers": [[name] * len(s) for name, s in zip(speakers, sentences, strict=True)]} if speakers else {})


def conll(name, *sentences):
    """Sentences of "word:label" or "word"."""
    lines = [f"#begin document ({name}); part 000"]
    for sentence in sentences:
        for number, word in enumerate(sentence.split()):
            text, _, label = word.partition(":")
            lines.append(f"{name}\t0\t{number}\t{text}\t{label or '-'}")
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


HE_AND_SHE = [[[0, 0], [10, 10]], [[6, 6], [12, 12]], [[3, 3]]]
STORIES = [document("a", HE_AND_SHE), document("b", HE_AND_SHE, words=("he was in the of is", "she had been there", "he had her"))]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return without_dropout(BERT, tmp_path_factory.mktemp("bert") / "bert")


@pytest.fixture(scope="module")
def tuned(bert, tmp_path_factory):
    """Learns two documents by heart."""
    folder = tmp_path_factory.mktemp("tuned")
    data = write(folder / "train.jsonl", STORIES)
    done = ran("finetune", bert, data, "--task", "coreference", "--output-dir", folder / "model", "--max-steps", 80, "--learning-rate", 0.005,
               "--top-lambda", 0.6, *SMALL)
    assert "antecedent_s2s_classifier.weight" in done.err and "new tokens: [speaker], [/speaker]" in done.err
    return folder / "model"


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    return write(tmp_path_factory.mktemp("stories") / "stories.jsonl", STORIES)


def evaluated(folder, data, *flags):
    return run("evaluate", folder, data, "--json", *flags).passes().json[0]


class TestFinetune:
    def test_what_was_learnt_is_found_again(self, tuned, stories, tmp_path):
        report = evaluated(tuned, stories, "--predictions", tmp_path / "p.jsonl", "--official-predictions", tmp_path / "o.conll")
        assert report["task"] == "coreference" and report["examples"] == 2
        assert report["metrics"]["conll_f1"] > 0.95 and report["metrics"]["pruning_recall"] == 1
        config = json.loads((tuned / "config.json").read_text())
        assert config["architectures"] == ["BertForCoreference"]
        head = config["coref_head"]
        assert head["singletons"] and head["same_sentence"] and head["top_lambda"] == 0.6 and head["segments"] == "overlapping"
        assert head["mention_scale"] == pytest.approx(16**-0.5) and head["antecedent_scale"] == pytest.approx(32**-0.5)
        # Both files of predictions give the same figures without a model.
        for name in ("p.jsonl", "o.conll"):
            again = run("evaluate", "--score", tmp_path / name, stories, "--json").works().json[0]["metrics"]
            assert again == {name: value for name, value in report["metrics"].items() if name != "pruning_recall"}
        said = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
        assert [one["doc_key"] for one in said] == ["a", "b"]

    @pytest.mark.parametrize("clusters,singletons,share", [(HE_AND_SHE[:2], False, 0.4), (HE_AND_SHE, True, 0.3)])
    def test_a_new_head_has_the_defaults(self, bert, tmp_path, clusters, singletons, share):
        """Data without singletons make a head without."""
        data = write(tmp_path / "d.jsonl", [document("a", clusters)])
        ran("finetune", bert, data, "--task", "coreference", "--output-dir", tmp_path / "out", "--max-steps", 1, "--learning-rate", 1e-9,
            *SMALL[2:])  # fmt: skip
        head, size = json.loads((tmp_path / "out" / "config.json").read_text())["coref_head"], 2 * HIDDEN
        usual = {"max_span_length": 30, "ffnn_size": size, "dropout_prob": 0.3, "mention_loss_weight": 1, "segments": "overlapping"}
        assert head == head | usual | {"singletons": singletons, "top_lambda": share, "same_sentence": True}
        drawn = tensors(tmp_path / "out")
        assert drawn["start_mention_mlp.dense.weight"].shape == (size, HIDDEN)
        # Few spans are mentions, and are not taken for one in the beginning.
        assert drawn["mention_start_classifier.bias"] == pytest.approx(-3, abs=1e-6)
        assert drawn["mention_end_classifier.bias"] == pytest.approx(0, abs=1e-6)

    def test_goes_on_bit_equal_and_the_seed_draws(self, bert, tmp_path):
        # Longer than a step takes: another run of sentences in every epoch, which the seed draws.
        data = write(tmp_path / "d.jsonl", [*STORIES, document("c", HE_AND_SHE, ("he", "she", "he"))])
        flags = ["finetune", bert, data, "--task", "coreference", "--max-training-tokens", 8, "--mention-loss-weight", 0.5, *SMALL[:2],
                 "--logging-steps", 1, "--per-device-train-batch-size", 1, "--gradient-accumulation-steps", 1]  # fmt: skip
        ran(*flags, "--output-dir", tmp_path / "whole", "--max-steps", 8, "--save-strategy", "steps", "--save-steps", 4)
        ran(*flags, "--output-dir", tmp_path / "more", "--max-steps", 8, "--resume-from-checkpoint", tmp_path / "whole" / "checkpoint-4", "--save-strategy", "no")
        one, two = tensors(tmp_path / "whole"), tensors(tmp_path / "more")
        assert one.keys() == two.keys() and all((one[name] == two[name]).all() for name in one)
        ran(*flags, "--output-dir", tmp_path / "other", "--max-steps", 8, "--seed", 7, "--save-strategy", "no")
        assert any((one[name] != value).any() for name, value in tensors(tmp_path / "other").items())

    def test_more_training_keeps_the_head(self, tuned, stories, tmp_path):
        done = ran("finetune", tuned, stories, "--output-dir", tmp_path / "more", "--max-steps", 1, "--learning-rate", 1e-12, *SMALL[2:])
        assert "new" not in done.err and "coreference: 2 examples" in done.err
        assert evaluated(tmp_path / "more", stories)["metrics"] == evaluated(tuned, stories)["metrics"]

    def test_counts_what_cannot_be_learnt(self, bert, tmp_path):
        data = write(tmp_path / "d.conll", conll("a", "he:(1)(2) was:(3 at the:3)") + conll("b", "he:(1 was") + conll("c", ""))
        done = ran("finetune", bert, data, "--task", "coreference", "--output-dir", tmp_path / "out", "--max-steps", 1, "--max-span-width", 2,
                   "--skip-invalid", *SMALL)  # fmt: skip
        assert "1 mention has too many words to be found" in done.err
        assert "1 mention is in a second cluster, which does not count" in done.err
        assert "left out 1 broken example" in done.err and "d.conll:8" in done.err and "1 example is empty" in done.err
        assert "coreference: 2 examples, 2 rows" in done.err
        report = run("evaluate", tmp_path / "out", data, "--json", "--skip-invalid").passes().json[0]
        assert report["wide_mentions"] == 1 and report["repeated_mentions"] == 1 and report["skipped"] == 1 and report["empty"] == 1

    def test_documents_without_clusters_words_or_kept_spans(self, bert, tmp_path):
        rows = [document("a"), document("b", words=()), document("c", [[[0, 0]]], words=("he",))]
        data = write(tmp_path / "d.jsonl", rows)
        done = ran("finetune", bert, data, "--task", "coreference", "--output-dir", tmp_path / "out", "--max-steps", 6, *SMALL)
        assert "nan" not in done.err.lower()
        assert all(np.isfinite(value).all() for value in tensors(tmp_path / "out").values())
        report = evaluated(tmp_path / "out", data)
        assert report["examples"] == 3 and all(np.isfinite(list(report["metrics"].values())))

    @pytest.mark.parametrize("row,teaches", [
        (document("a"), True), (document("b", words=()), False), (document("c", [[[0, 0]]], words=("he",)), True),
        (document("d", words=("he",)), True), (document("e", [[[0, 0], [3, 3]]], words=("he was at the",)), True)])  # fmt: skip
    def test_a_document_with_little_in_it_is_legal_alone(self, bert, tmp_path, row, teaches):
        data = write(tmp_path / "d.jsonl", [row])
        ran("finetune", bert, data, "--task", "coreference", "--output-dir", tmp_path / "out", "--max-steps", 2, "--validation-file", data,
            "--eval-strategy", "steps", "--eval-steps", 2, *SMALL[:2], *EACH_STEP)  # fmt: skip
        losses = losses_of(tmp_path / "out")
        assert len(losses) == 3 and np.isfinite(losses).all() and all((loss > 0) == teaches for loss in losses)
        assert all(np.isfinite(value).all() for value in tensors(tmp_path / "out").values())
        report = evaluated(tmp_path / "out", data)
        assert report["examples"] == 1 and np.isfinite(list(report["metrics"].values())).all()


class TestSegments:
    def test_a_long_document_is_one_document(self, tuned, tmp_path):
        words = ("he was at the of and", "she had been there", "he had her") * 6
        long = write(tmp_path / "long.jsonl", [document("a", HE_AND_SHE, words=words)])
        rows = {}
        for flags in ([], ["--segments", "independent"], ["--segments", "continued"], ["--max-segment-length", 12], ["--stride", 8]):
            done = run("evaluate", tuned, long, "--json", "--predictions", tmp_path / "p.jsonl", *flags).passes()
            assert "1 of 1 example is longer than the model: read in segments" in done.err
            rows[tuple(flags)] = json.loads((tmp_path / "p.jsonl").read_text())["clusters"]
        assert all(max(m[1] for cluster in clusters for m in cluster) > 40 for clusters in rows.values())
        cut = run("evaluate", tuned, long, "--json", "--truncate")
        assert cut.json[0]["unread_words"] == 78 - 22 and "words were not read" in cut.err
        assert cut.json[0]["truncated_tokens"] == 56 and "1 of 1 example is longer than the model: cut 56 of 80 tokens" in cut.err
        done = ran("finetune", tuned, long, "--truncate", "--output-dir", tmp_path / "out", "--max-steps", 1, *SMALL[2:])
        assert "1 document is longer than the model: cut 56 tokens" in done.err
        run("evaluate", tuned, long, "--stride", 22).fails(2, "--stride", "found 22")


class TestSpeakers:
    def test_marks_stand_where_two_are_named(self, tuned, tmp_path):
        def tokens(*speakers):
            data = write(tmp_path / "d.jsonl", [document("a", HE_AND_SHE, speakers)])
            return evaluated(tuned, data)["tokens"]

        plain = tokens()
        assert tokens("he", "he", "he") == plain == tokens("he", "-", None)
        assert tokens("he", "she", "she") == plain + 6
        assert tokens("he", "she", "he") == plain + 9
        assert tokens("he", "", "she") == plain + 6

    def test_a_name_with_the_marks_is_refused(self, tuned, tmp_path):
        data = write(tmp_path / "d.jsonl", [document("k", HE_AND_SHE, ("he", "[speaker]", "she"))])
        run("evaluate", tuned, data).fails(1, "d.jsonl:1: k: ", "[speaker]")
        data = write(tmp_path / "w.jsonl", [document("k", words=("he [/speaker]",))])
        run("evaluate", tuned, data).fails(1, "w.jsonl:1: k: ", "without the special tokens [speaker] and [/speaker]")
        # A document that the model cannot read counts as a document without results.
        rows = [document("k", HE_AND_SHE, ("he", "[speaker]", "she")), document("a", HE_AND_SHE)]
        data = write(tmp_path / "two.jsonl", rows)
        done = run("evaluate", tuned, data, "--skip-invalid", "--json", "--official-predictions", tmp_path / "p.conll")
        report = done.json[0]
        assert report["skipped"] == report["missing"] == report["examples"] == 1 and "counts as wrong" in done.err
        scored = run("evaluate", "--score", tmp_path / "p.conll", data, "--json").json[0]["metrics"]
        assert 0 < scored["mentions_recall"] <= 0.5
        assert all(report["metrics"][name] == value for name, value in scored.items())
        assert 0 < report["metrics"]["pruning_recall"] <= 0.5
        done = ran("finetune", tuned, data, "--skip-invalid", "--output-dir", tmp_path / "out", "--max-steps", 1, *SMALL[2:])
        assert "coreference: 1 example, 1 row" in done.err

    def test_a_tokenizer_without_the_marks_is_refused(self, tuned, tmp_path):
        bare = without_added_tokens(tuned, tmp_path / "bare")
        run("evaluate", bare, write(tmp_path / "one.jsonl", [document("k", HE_AND_SHE)])).passes()
        data = write(tmp_path / "d.jsonl", [document("k", HE_AND_SHE, ("he", "she", "he"))])
        run("evaluate", bare, data).fails(1, "d.jsonl:1: k: ", "the special token [speaker]", "none")


class TestScore:
    def test_of_conll_by_hand(self, tmp_path):
        gold = write(tmp_path / "gold.conll", conll("a", "he:(1) was:(2", "she:2) he:(1)") + conll("b", "it:(1)"))
        said = write(tmp_path / "said.conll", conll("a", "he:(9) was", "she he:(9)"))
        done = run("evaluate", "--score", said, gold, "--json")
        assert "1 example has no prediction, and counts as wrong" in done.err
        report = done.json[0]
        assert report["missing"] == 1 and report["examples"] == 2
        metrics = report["metrics"]
        assert metrics["muc_f1"] == 1 and metrics["mentions_recall"] == 0.5 and metrics["mentions_precision"] == 1
        assert metrics["b_cubed_recall"] == 0.5 and metrics["ceaf_e_recall"] == pytest.approx(1 / 3)
        bare = run("evaluate", "--score", said, gold, "--json", "--no-singletons").json[0]["metrics"]
        assert all(value == 1 for value in bare.values())

    def test_forms_of_predictions_and_keys(self, tmp_path):
        gold = write(tmp_path / "gold.jsonl", [document("a", HE_AND_SHE), {"tokens": ["he"], "clusters": [[[0, 0]]]}])
        short = [{"doc_key": "a", "clusters": HE_AND_SHE}, {"clusters": [[[0, 0]]]}]
        for said in (write(tmp_path / "whole.jsonl", gold.read_text()), write(tmp_path / "short.jsonl", short)):
            assert run("evaluate", "--score", said, gold, "--json").works().json[0]["metrics"]["conll_f1"] == 1
        text = conll("a", "he:(1) was at the:(2) of and", "she:(3) had been there", "he:(1) had her:(3)") + conll("2", "he:(1)")
        said = write(tmp_path / "o.conll", text)
        assert run("evaluate", "--score", said, gold, "--json").works().json[0]["metrics"]["conll_f1"] == 1
        late = write(tmp_path / "late.conll", "\ufeff\n \n" + text)
        assert run("evaluate", "--score", said, late, "--json").works().json[0]["metrics"]["conll_f1"] == 1

    def test_what_does_not_fit_is_named(self, tmp_path):
        gold = write(tmp_path / "gold.jsonl", [document("a", HE_AND_SHE)])
        say = lambda *rows: run("evaluate", "--score", write(tmp_path / "said.jsonl", rows), gold)  # noqa: E731
        say(document("a", words=("he was",))).fails(1, "said.jsonl:1: a: expected 13 words, found 2")
        say({"doc_key": "a", "clusters": [[[3, 13]]]}).fails(1, "said.jsonl:1: a: ", "among 13 words", "[3, 13]")
        say({"doc_key": "a", "clusters": []}, {"doc_key": "a", "clusters": []}).fails(1, "said.jsonl:2: a: ", "each document once")
        say({"doc_key": "a"}).fails(1, "said.jsonl:1", "clusters")
        run("evaluate", "--score", tmp_path / "none.jsonl", gold).fails(1, "none.jsonl")
        double = write(tmp_path / "double.jsonl", [document("a"), document("a")])
        run("evaluate", "--score", gold, double).fails(1, "double.jsonl:2: a: ", "each document once")


@pytest.mark.skipif(not DATA, reason="LONGFORMER_DATA is not set")
class TestPublishedData:
    def test_litbank_is_read_as_a_second_reader_reads_it(self, tmp_path):
        texts, rows = [], []
        with tarfile.open(pathlib.Path(DATA, "litbank", "coref.tar.xz")) as archive:
            for member in archive:
                path = pathlib.PurePath(member.name)
                if path.parent.name == "conll" and path.suffix == ".conll":
                    texts.append(archive.extractfile(member).read().decode())
        for text in texts:
            open_mentions, clusters, words = {}, {}, 0
            for line in io.StringIO(text):
                columns = line.rstrip("\n").split("\t")
                if len(columns) < 5:
                    continue
                for label in filter(lambda x: x not in ("", "_"), columns[-1].split("|")):
                    number = label.strip("()")
                    if label.startswith("("):
                        open_mentions.setdefault(number, []).append(words)
                    if label.endswith(")"):
                        clusters.setdefault(number, []).append([open_mentions[number].pop(), words])
                words += 1
            rows.append({"doc_key": text.splitlines()[0].removeprefix("#begin document "), "tokens": ["x"] * words,
                         "clusters": list(clusters.values())})  # fmt: skip
        assert len(rows) == 100 and sum(len(row["tokens"]) for row in rows) == 210532
        counts = [len(cluster) for row in rows for cluster in row["clusters"]]
        assert sum(counts) == 29103 and len(counts) == 7927 and counts.count(1) == 5763
        gold = write(tmp_path / "gold.conll", "".join(texts))
        report = run("evaluate", "--score", write(tmp_path / "said.jsonl", rows), gold, "--json").works().json[0]
        assert report["examples"] == 100 and report["missing"] == 0 and report["repeated_mentions"] == 0
        assert all(value == pytest.approx(1, abs=1e-12) for value in report["metrics"].values())

    @pytest.mark.parametrize("name", ["ontogum_dev", "craft_coref_dev", "fantasycoref_gft_dev"])
    def test_published_sets_come_back_from_conll(self, name, tmp_path):
        packed = pathlib.Path(DATA, "tasks", f"{name}.jsonl.xz")
        gold = write(tmp_path / "gold.jsonl", lzma.decompress(packed.read_bytes()).decode())
        report = run("evaluate", "--score", gold, gold, "--json").passes().json[0]
        assert report["missing"] == 0 and all(value == pytest.approx(1, abs=1e-12) for value in report["metrics"].values())


class TestFastcoref:
    @pytest.mark.parametrize("family", ["roberta", "longformer"])
    def test_folders_give_the_clusters_that_fastcoref_finds(self, family, tmp_path):
        folder = FIXTURES / f"fastcoref_{family}"
        expected = [json.loads(line) for line in (folder / "expected.jsonl").read_text().splitlines()]
        assert "coreference" in run("info", folder).works().out

        def clusters(*flags):
            run("evaluate", folder, folder / "expected.jsonl", "--predictions", tmp_path / "p.jsonl", *flags).passes()
            return [json.loads(line)["clusters"] for line in (tmp_path / "p.jsonl").read_text().splitlines()]

        assert clusters() == [row["clusters"] for row in expected]
        # Segments of their own special tokens are other input.
        assert clusters("--segments", "independent") != clusters()

    def test_goes_on_learning(self, tmp_path):
        folder = FIXTURES / "fastcoref_roberta"
        ran("finetune", folder, folder / "expected.jsonl", "--output-dir", tmp_path / "more", "--max-steps", 1, "--learning-rate", 1e-12, *FAST)
        config, before = (json.loads((path / "config.json").read_text()) for path in (tmp_path / "more", folder))
        # Neither scales nor a loss of mention scores that fastcoref does not have.
        assert config["coref_head"] == before["coref_head"] and "FCorefModel" in before["architectures"]
        # The class of fastcoref has a pooler, which nothing reads.
        left = {name for name in tensors(folder) if "pooler" not in name}
        assert len(left) > 60 and tensors(tmp_path / "more").keys() == left
        assert evaluated(tmp_path / "more", folder / "expected.jsonl")["metrics"]["conll_f1"] == 1


class TestConvert:
    def test_carries_the_head(self, tuned, stories, tmp_path):
        run("convert", tuned, tmp_path / "long", "--max-positions", 64, "--window", 62).passes()
        before, after = tensors(tuned), tensors(tmp_path / "long")
        head = [name for name in before if not name.startswith("bert.")]
        assert len(head) == 30 and all((before[name] == after[name]).all() for name in head)
        config = json.loads((tmp_path / "long" / "config.json").read_text())
        assert config["architectures"] == ["LongformerForCoreference"]
        assert config["coref_head"] == json.loads((tuned / "config.json").read_text())["coref_head"]
        # Documents are within the window: what is found stays.
        long, short = evaluated(tmp_path / "long", stories)["metrics"], evaluated(tuned, stories)["metrics"]
        assert long == pytest.approx(short)


class TestRefusals:
    @pytest.mark.parametrize("row,words", [
        ({"tokens": ["he"], "clusters": [[[0, 1]]]}, ["whole words among 1"]),
        ({"tokens": ["he"], "clusters": [[[0]]]}, ["mentions [first, last]"]),
        ({"tokens": ["he"]}, ["clusters"]),
        ({"clusters": []}, ["sentences", "tokens", "text"]),
        ({"tokens": ["he"], "speakers": ["a", "b"], "clusters": []}, ["each of 1 words, found 2"]),
        ({"text": "the well", "clusters": [[[0, 2]]]}, ["whole words among 2", "[0,2]"]),
    ])  # fmt: skip
    def test_broken_records_name_file_and_line(self, tuned, tmp_path, row, words):
        data = write(tmp_path / "d.jsonl", [document("a", HE_AND_SHE), row])
        run("evaluate", tuned, data).fails(1, "d.jsonl:2: ", "--skip-invalid", *words)
        done = run("evaluate", tuned, data, "--skip-invalid", "--json")
        assert done.code == 0 and "left out 1 broken example" in done.err and done.json[0]["skipped"] == 1
        run("finetune", BERT, data, "--task", "coreference", "--output-dir", tmp_path / "out").fails(1, "d.jsonl:2: ", *words)

    def test_broken_conll_names_file_line_and_cluster(self, tuned, tmp_path):
        data = write(tmp_path / "d.conll", conll("a", "he was:(4 at"))
        run("evaluate", tuned, data).fails(1, "d.conll:1: ", "cluster 4 of line 3")
        data = write(tmp_path / "e.conll", conll("a", "he was at:4)"))
        run("evaluate", tuned, data).fails(1, "e.conll:4: ", "cluster 4 that ends here")

    def test_no_documents(self, tuned, tmp_path):
        run("evaluate", tuned, write(tmp_path / "d.conll", "")).fails(1, "d.conll", "at least one document")

    def test_folders_that_are_no_resolver(self, tuned, stories, tmp_path):
        run("evaluate", BERT, stories, "--task", "coreference").fails(1, "coreference")
        run("classify", tuned, "--text", "a").fails(1, "found coreference")
        bare = without_dropout(tuned, tmp_path / "bare")
        config = json.loads((bare / "config.json").read_text())
        del config["coref_head"]
        (bare / "config.json").write_text(json.dumps(config))
        run("evaluate", bare, stories).fails(1, "coref_head")
        for key, value, words in (("ffnn_size", 17, ["[17"]), ("top_lambda", -1, ["top_lambda"]), ("segments", "x", ["segments"]),
                                  ("singletons", 2, ["singletons"])):  # fmt: skip
            head = json.loads((tuned / "config.json").read_text())
            head["coref_head"][key] = value
            (bare / "config.json").write_text(json.dumps(head))
            run("evaluate", bare, stories).fails(1, *words)

    def test_flags(self, bert, stories, tmp_path):
        finetune = ["finetune", bert, stories, "--task", "coreference", "--output-dir", tmp_path / "out"]
        run(*finetune, "--segments", "x").fails(2, "--segments")
        run(*finetune, "--max-span-width", 0).fails(2, "--max-span-width")
        run(*finetune, "--label-smoothing-factor", 0.1).fails(2, "--label-smoothing-factor")
