"""Tables in place of lists and files: pandas, polars, pyarrow, lists of dicts, columns. tests/apps/corpora has `datasets`."""

import dataclasses
import json
import subprocess
import sys

import longformer_cpp
import numpy as np
import pytest
from longformer_cpp import BatchEmbedder, Error

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

TEXTS = ["he was in the house", "she was not there", "they had been with him", "her and not the house", "he and she"]
LABELS = ["good", "bad", "good", "bad", "good"]
ROWS = [{"id": f"d{i}", "body": text, "kind": label} for i, (text, label) in enumerate(zip(TEXTS, LABELS))]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
FIELDS = {"text_field": "body", "label_field": "kind"}

KINDS = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "lazy": polars.LazyFrame,
    "table": pyarrow.table,
    "batch": pyarrow.RecordBatch.from_pydict,
    "records": lambda columns: [dict(zip(columns, values)) for values in zip(*columns.values())],
}
EVERY = pytest.mark.parametrize("kind", KINDS)


class Stranger:
    """A table of a package that nobody knows, which speaks Arrow."""

    def __init__(self, columns):
        self._table = pyarrow.table(columns)
        self.columns = list(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def rows_of(table):
    """The rows of a result."""
    if isinstance(table, list):
        return table
    if isinstance(table, dict):
        return [dict(zip(table, values)) for values in zip(*table.values())]
    if hasattr(table, "to_pylist"):
        return table.to_pylist()
    return table.to_dicts() if hasattr(table, "to_dicts") else table.to_dict("records")


@pytest.fixture(scope="module")
def classifier(folder):
    return longformer_cpp.load(folder("tiny_longformer_classifier"))


def labelled(model):
    """Rows whose labels the model has."""
    return [{**row, "kind": model.labels[i % 2]} for i, row in enumerate(ROWS)]


class TestResults:
    @EVERY
    def test_classes(self, classifier, kind):
        table = KINDS[kind](COLUMNS)
        found = classifier.classify(table, text_field="body")
        assert type(found) is (polars.DataFrame if kind == "lazy" else type(table))
        expected = classifier.classify(TEXTS, top_k=0)
        for row, before, one in zip(rows_of(found), ROWS, expected, strict=True):
            assert {name: row[name] for name in before} == before
            assert row["predicted_label"] == one.labels[0].label
            assert np.float32(row["predicted_score"]) == np.float32(one.labels[0].score)
        every = rows_of(classifier.classify(table, text_field="body", top_k=0))
        for row, one in zip(every, expected, strict=True):
            for label in one.labels:
                assert np.float32(row[f"score_{label.label}"]) == np.float32(label.score)
        two = rows_of(classifier.classify(table, text_field="body", top_k=2))
        for row, one in zip(two, expected, strict=True):
            assert [best["label"] for best in row["predicted_labels"]] == [best.label for best in one.labels[:2]]

    def test_pairs_are_a_column(self, classifier):
        frame = pandas.DataFrame({"a": TEXTS, "b": TEXTS[::-1]})
        found = classifier.classify(frame, text_field="a", pair_field="b")
        expected = [one.labels[0].score for one in classifier.classify(TEXTS, pairs=TEXTS[::-1])]
        assert np.array_equal(found["predicted_score"], np.float32(expected))
        with pytest.raises(Error, match="pairs: expected none beside a table"):
            classifier.classify(frame, text_field="a", pairs=TEXTS)
        with pytest.raises(Error, match="pair_field: expected one of a, b, found 'c'"):
            classifier.classify(frame, text_field="a", pair_field="c")

    @EVERY
    def test_entities(self, folder, kind):
        model = longformer_cpp.load(folder("tiny_bert_tagger"))
        found = rows_of(model.ner(KINDS[kind](COLUMNS), text_field="body"))
        for row, entities in zip(found, model.ner(TEXTS), strict=True):
            assert [(one["label"], one["start"], one["end"], one["text"]) for one in row["entities"]] == [
                (one.label, one.begin, one.end, one.text) for one in entities
            ]

    @EVERY
    def test_vectors(self, folder, kind):
        model = longformer_cpp.load(folder("tiny_bert"))
        for call in (model.encode, longformer_cpp.Embedder(model).encode_document):
            found = rows_of(call(KINDS[kind](COLUMNS), text_field="body"))
            expected = call(TEXTS)
            assert np.array_equal(np.float32([row["embedding"] for row in found]), expected)
        with pytest.raises(Error, match="expected texts for what is no vector"):
            model.encode(KINDS[kind](COLUMNS), text_field="body", output_value="token_embeddings")

    @pytest.mark.parametrize("kind", [*KINDS, "dict"])
    def test_batches_of_a_corpus(self, folder, kind):
        table = KINDS.get(kind, dict)(COLUMNS)
        found = rows_of(BatchEmbedder(folder("tiny_bert"), column="body", long="truncate")(table))
        assert [row["id"] for row in found] == COLUMNS["id"] and all(row["error"] is None for row in found)
        assert np.array_equal(np.float32([row["embedding"] for row in found]), longformer_cpp.load(folder("tiny_bert")).encode(TEXTS))
        passages = rows_of(BatchEmbedder(folder("tiny_bert"), column="body", passages=True, passage_tokens=8)(table))
        assert {row["id"] for row in passages} == set(COLUMNS["id"]) and passages[0]["start"] == 0

    def test_the_index_is_kept(self, classifier):
        frame = pandas.DataFrame({"text": TEXTS}, index=pandas.MultiIndex.from_product([["x"], range(5)]))
        assert classifier.classify(frame).index.equals(frame.index) and "predicted_label" not in frame
        with pytest.raises(Error, match="expected no column 'predicted_label'"):
            classifier.classify(classifier.classify(frame))
        assert len(classifier.classify(frame.iloc[:0])) == 0
        twice = pandas.DataFrame({"text": TEXTS}, index=[1, 1, 2, 2, 1])
        assert list(classifier.classify(twice)["predicted_score"]) == list(classifier.classify(frame)["predicted_score"])

    def test_other_packages_that_speak_arrow(self, classifier):
        found = classifier.classify(Stranger({"text": TEXTS}))
        assert isinstance(found, pyarrow.Table) and found.column_names == ["text", "predicted_label", "predicted_score"]
        chunked = polars.concat([polars.DataFrame({"text": [text]}) for text in TEXTS], rechunk=False)
        assert classifier.classify(chunked)["predicted_label"].to_list() == found.column("predicted_label").to_pylist()

    def test_categories_are_their_texts(self, classifier):
        frame = pandas.DataFrame({"text": pandas.Categorical(TEXTS)})
        assert list(classifier.classify(frame)["predicted_label"]) == [one.labels[0].label for one in classifier.classify(TEXTS)]


class TestFaults:
    def test_what_is_no_table(self, classifier, tmp_path):
        for value in (np.zeros((2, 2)), np.array(["a"]), ["a"], pandas.Series(["a"]), polars.Series(["a"]), pyarrow.array(["a"]), {"a"}, 3, None):
            for call in (classifier.evaluate, lambda data: longformer_cpp.finetune("none", data, tmp_path / "out")):
                with pytest.raises(TypeError, match="data: expected a path, found"):
                    call(value)

    @EVERY
    def test_columns_that_are_not_there(self, classifier, kind):
        with pytest.raises(Error, match="text_field: expected one of id, body, kind, found 'text'") as raised:
            classifier.classify(KINDS[kind](COLUMNS))
        assert raised.value.option == "text_field"

    @pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA, pandas.NaT, np.nan], ids=str)
    def test_missing_texts_are_told_with_their_rows(self, classifier, missing):
        frame = pandas.DataFrame({"text": ["a", missing, "b", missing]}, dtype=object)
        with pytest.raises(Error, match=r"column 'text': expected a text in every row, found none in 2 rows: 1, 3; .*drop") as raised:
            classifier.classify(frame)
        assert raised.value.document == 1
        with pytest.raises(Error, match=r"found none in row 1 \(index 'y'\)"):
            classifier.classify(pandas.DataFrame({"text": ["a", missing]}, index=["x", "y"], dtype=object))

    def test_many_missing_texts(self, classifier):
        with pytest.raises(Error, match=r"found none in 1,000 rows: 0, 1, 2, 3, 4, 5, 6, 7, …"):
            classifier.classify([{"text": None}] * 1000)

    def test_what_is_no_text(self, classifier):
        with pytest.raises(TypeError, match=r"column 'text', row 1: expected a text \(str\), found 3 \(int\)"):
            classifier.classify([{"text": "a"}, {"text": 3}])
        with pytest.raises(Error, match=r"column 'text', row 0: expected a text of whole characters"):
            classifier.classify([{"text": "a\ud800"}])
        with pytest.raises(TypeError, match="row 1: expected a dict"):
            classifier.classify([{"text": "a"}, "b"])

    def test_long_documents_are_numbered(self, classifier):
        texts = ["the", "he " * 5000]
        for given in (texts, [{"text": text} for text in texts]):
            with pytest.raises(Error, match="document 1: expected at most") as raised:
                classifier.classify(given)
            assert raised.value.document == 1 and raised.value.remedies[0] == "truncate"

    def test_odd_names_of_columns(self, folder):
        embedder = BatchEmbedder(folder("tiny_bert"), column="0")
        assert list(embedder(pandas.DataFrame({0: TEXTS})).columns) == [0, "embedding", "error"]
        assert list(embedder({0: TEXTS})) == [0, "embedding", "error"]
        assert list(BatchEmbedder(folder("tiny_bert"), column="('a', 1)")(pandas.DataFrame({("a", 1): TEXTS}))["error"]) == [None] * 5
        passages = BatchEmbedder(folder("tiny_bert"), column="0", passages=True, passage_tokens=16)(pandas.DataFrame({0: TEXTS}))
        assert list(passages[0]) == TEXTS
        twice = pyarrow.Table.from_arrays([pyarrow.array(TEXTS)] * 2, names=["0", "0"])
        frame = pandas.DataFrame([TEXTS[:2]] * 2, columns=["0", "0"])
        for table in (twice, frame, twice.to_batches()[0]):
            with pytest.raises(Error, match="column: expected one column '0'.*found 2 of this name"):
                embedder(table)
        for table in (pandas.DataFrame({1: TEXTS}), {1: TEXTS}, pyarrow.table({"1": TEXTS})):
            with pytest.raises(Error, match="column: expected one of 1, found '0'"):
                embedder(table)
        with pytest.raises(Error, match="column: expected one of some columns, found '0'"):
            embedder({})


class TestTraining:
    @pytest.mark.parametrize("kind", [*KINDS, "dict", "stranger"])
    def test_a_table_trains_as_its_file(self, folder, tmp_path, kind):
        table = {**KINDS, "dict": dict, "stranger": Stranger}[kind](COLUMNS)
        file = tmp_path / "data.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        options = {"task": "classify", "max_steps": 2, "save_strategy": "no", "logging_steps": 1, **FIELDS}
        ours = longformer_cpp.finetune(folder("tiny_bert"), table, tmp_path / "ours", validation_file=table, **options)
        theirs = longformer_cpp.finetune(folder("tiny_bert"), file, tmp_path / "theirs", validation_file=file, **options)
        assert ours.loss == theirs.loss and len(ours.evaluations) == 2
        for (step, mine), (other_step, other) in zip(ours.evaluations, theirs.evaluations, strict=True):
            assert step == other_step and {**mine, "runtime": 0} == {**other, "runtime": 0}
        assert longformer_cpp.load(tmp_path / "ours").labels == ["bad", "good"]

    @EVERY
    def test_a_table_is_evaluated_as_its_file(self, classifier, tmp_path, kind):
        rows = labelled(classifier)
        file = tmp_path / "data.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        table = KINDS[kind]({name: [row[name] for row in rows] for name in rows[0]})
        ours = classifier.evaluate(table, predictions=True, **FIELDS)
        theirs = classifier.evaluate(file, predictions=True, **FIELDS)
        assert ours.metrics == theirs.metrics and ours.counts == theirs.counts
        for number, (mine, other) in enumerate(zip(ours.predictions, theirs.predictions, strict=True)):
            assert mine.pop("row") == number and other.pop("line") == number + 1
            assert mine == other and mine["id"] == f"d{number}"

    def test_labels_of_many_kinds(self, folder, tmp_path):
        numbers = [3, 7, 3, 7, 3]
        kinds = {
            "categories": (pandas.Categorical(LABELS), ["bad", "good"]),
            "numbers of categories": (pandas.Categorical(numbers), ["3", "7"]),
            "integers": (pandas.Series(numbers, dtype="Int64"), ["3", "7"]),
            "small integers": (np.array(numbers, np.int8), ["3", "7"]),
            "truth": (np.array(numbers) > 3, ["false", "true"]),
            "texts": (pandas.Series(LABELS, dtype="string"), ["bad", "good"]),
        }
        for name, (labels, expected) in kinds.items():
            target = tmp_path / name
            longformer_cpp.finetune(folder("tiny_bert"), pandas.DataFrame({"text": TEXTS, "label": labels}), target,
                                    task="classify", max_steps=1, save_strategy="no")  # fmt: skip
            assert longformer_cpp.load(target).labels == expected, name
        polar = polars.DataFrame({"text": TEXTS, "label": polars.Series(LABELS, dtype=polars.Categorical)})
        longformer_cpp.finetune(folder("tiny_bert"), polar, tmp_path / "polars", task="classify", max_steps=1, save_strategy="no")
        assert longformer_cpp.load(tmp_path / "polars").labels == ["bad", "good"]

    def test_columns_that_json_has_not(self, folder, tmp_path):
        frame = pandas.DataFrame({"text": TEXTS, "label": LABELS, "when": pandas.Timestamp("2026-01-01"), "raw": [b"x"] * 5})
        options = {"task": "classify", "max_steps": 1, "save_strategy": "no"}
        longformer_cpp.finetune(folder("tiny_bert"), frame, tmp_path / "out", **options)
        with pytest.raises(Error, match="label_field: expected texts, numbers or lists in the column 'when', found Timestamp"):
            longformer_cpp.finetune(folder("tiny_bert"), frame, tmp_path / "no", label_field="when", **options)

    def test_tokens_and_tags(self, folder, tmp_path):
        frame = pandas.DataFrame({"tokens": [text.split() for text in TEXTS], "ner_tags": [["O"] * len(text.split()) for text in TEXTS]})
        frame.loc[0, "ner_tags"][0] = "B-P"
        arrow = pyarrow.Table.from_pandas(frame)
        for number, table in enumerate((frame, arrow, polars.from_arrow(arrow))):
            target = tmp_path / str(number)
            longformer_cpp.finetune(folder("tiny_bert"), table, target, task="ner", max_steps=1, save_strategy="no")
            assert longformer_cpp.load(target).labels == ["B-P", "O"] or "B-P" in longformer_cpp.load(target).labels

    def test_checkpoints_go_on(self, folder, tmp_path):
        options = {"task": "classify", "save_steps": 2, "save_strategy": "steps", **FIELDS}
        table = pandas.DataFrame(COLUMNS)
        longformer_cpp.finetune(folder("tiny_bert"), table, tmp_path / "out", max_steps=2, **options)
        more = longformer_cpp.finetune(folder("tiny_bert"), table, tmp_path / "out", max_steps=4, resume_from_checkpoint="last", **options)
        assert more.steps == 4


class TestFaultsOfData:
    def refused(self, folder, tmp_path, table, **options):
        with pytest.raises(Error) as raised:
            longformer_cpp.finetune(folder("tiny_bert"), table, tmp_path / "out", task="classify", max_steps=1, **options)
        assert ".jsonl" not in str(raised.value) and "\n" not in str(raised.value)
        assert not list(tmp_path.glob("out/*"))
        return raised.value

    def test_columns_are_named(self, folder, tmp_path):
        error = self.refused(folder, tmp_path, pandas.DataFrame(COLUMNS))
        assert str(error).startswith("data: row 0: expected") and error.document == 0
        assert str(error).endswith("; the columns are id, body, kind: text_field and label_field may name two of them")
        error = self.refused(folder, tmp_path, pandas.DataFrame(COLUMNS), text_field="body")
        assert "the columns are id, body, kind: label_field may name one of them" in str(error)
        error = self.refused(folder, tmp_path, pandas.DataFrame(COLUMNS), text_field="bode", label_field="kind")
        assert str(error) == "text_field: expected one of id, body, kind, found 'bode' (str)" and error.option == "text_field"

    @pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA], ids=str)
    @pytest.mark.parametrize("column", ["text", "label"])
    def test_missing_values(self, folder, tmp_path, column, missing):
        frame = pandas.DataFrame({"text": TEXTS, "label": LABELS}, dtype=object)
        frame.loc[[1, 4], column] = missing
        error = self.refused(folder, tmp_path, frame)
        assert str(error).startswith("data: row 1: ") and f"the column '{column}' has no value in 2 rows: 1, 4" in str(error)
        assert "skip_invalid" in error.remedies
        found = longformer_cpp.finetune(folder("tiny_bert"), frame, tmp_path / "out", task="classify", max_steps=1,
                                        skip_invalid=True, save_strategy="no")  # fmt: skip
        assert found.steps == 1

    def test_integers_beside_missing_ones_stay_integers(self, folder, tmp_path):
        frame = pandas.DataFrame({"text": TEXTS, "label": [1, 2, None, 2, 1]})
        assert frame["label"].dtype == float
        longformer_cpp.finetune(folder("tiny_bert"), frame, tmp_path / "out", task="classify", max_steps=1, skip_invalid=True, save_strategy="no")
        assert longformer_cpp.load(tmp_path / "out").labels == ["1", "2"]

    def test_rows_of_an_index_and_of_the_validation(self, folder, tmp_path):
        good, bad = pandas.DataFrame({"text": TEXTS, "label": LABELS}), pandas.DataFrame({"text": ["a", None], "label": LABELS[:2]}, index=["x", "y"])
        error = self.refused(folder, tmp_path, good, validation_file=bad)
        assert str(error).startswith("validation_file: row 1 (index 'y'): ")

    def test_options_of_files(self, folder, tmp_path):
        for name, value in {"format": "csv", "columns": ["a"], "delimiter": ";", "no_quotes": True, "encoding": "latin-1"}.items():
            assert self.refused(folder, tmp_path, pandas.DataFrame(COLUMNS), **{name: value}, **FIELDS).option == name

    def test_empty_tables(self, folder, tmp_path):
        for table in ([], {}, {"text": [], "label": []}, pandas.DataFrame(), pandas.DataFrame({"text": [], "label": []}),
                      polars.DataFrame({"text": [], "label": []}), pyarrow.table({"text": [], "label": []})):  # fmt: skip
            assert "data" in str(self.refused(folder, tmp_path, table))

    def test_surrogates_and_columns_of_other_lengths(self, folder, tmp_path):
        assert "data: column 'text', row 0: expected a text of whole characters" in str(
            self.refused(folder, tmp_path, [{"text": "a\ud800", "label": "x"}])
        )
        assert "expected columns of one length" in str(self.refused(folder, tmp_path, {"text": ["a"], "label": []}))

    def test_skipped_rows_of_an_evaluation_are_named(self, classifier):
        rows = labelled(classifier)
        rows[2]["body"] = None
        found = classifier.evaluate(pandas.DataFrame(rows), skip_invalid=True, **FIELDS)
        assert found.counts["skipped"] == 1 and found.first_skipped.startswith("data: row 2: ")

    def test_a_full_disk(self, folder, tmp_path):
        program = (
            "import resource, signal, longformer_cpp as lc\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
            "try: lc.finetune('m', [{'text': 'a' * 100, 'label': 'x'}] * 1000, 'o', task='classify')\n"
            "except lc.Error as error: print(error)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
        assert "data: cannot write the table into" in done.stdout and "TMPDIR" in done.stdout, done.stdout + done.stderr

    def test_nothing_is_left(self, folder, tmp_path, monkeypatch):
        place = tmp_path / "temporary"
        place.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(place))
        self.refused(folder, tmp_path, pandas.DataFrame(COLUMNS))
        assert not list(place.iterdir())


class TestSearch:
    @EVERY
    def test_documents_of_a_table(self, folder, kind):
        model = longformer_cpp.load(folder("tiny_bert"))
        index = longformer_cpp.SearchIndex(model, passage_tokens=16)
        assert index.add_documents(KINDS[kind](COLUMNS), text_field="body") == 5
        alone = longformer_cpp.SearchIndex(model, passage_tokens=16)
        for row in ROWS:
            alone.add(row["id"], row["body"])
        assert [(one.file, one.hash) for one in index.list()] == [(one.file, one.hash) for one in alone.list()]
        kinds = {row["id"]: row["kind"] for row in ROWS}
        expected = [dataclasses.replace(hit, metadata={"kind": kinds[hit.file]}) for hit in alone.query("the house")]
        assert index.query("the house") == expected
        assert index.add_documents(KINDS[kind](COLUMNS), text_field="body") == 0
        assert model.search("the house", KINDS[kind](COLUMNS), text_field="body", passage_tokens=16) == expected

    def test_names(self, folder):
        model = longformer_cpp.load(folder("tiny_bert"))

        def names(table, **options):
            index = longformer_cpp.SearchIndex(model, passage_tokens=16)
            index.add_documents(table, **options)
            return [one.file for one in index.list()]

        assert names({"a.md": "he was", "b.md": "she was"}) == ["a.md", "b.md"]
        assert names(pandas.DataFrame({"text": ["he", "she"]}, index=["x", "y"])) == ["x", "y"]
        assert names([{"text": "he"}, {"text": "she"}]) == ["0", "1"]
        assert names([{"text": "he", "n": 7}, {"text": "she", "n": 8}], id_field="n") == ["7", "8"]
        with pytest.raises(Error, match="id_field: expected other names in each row of the column 'n', found '7'.*2 rows: 0, 1"):
            names([{"text": "he", "n": 7}, {"text": "she", "n": 7}], id_field="n")
        with pytest.raises(Error, match="id_field: expected a value in every row of the column 'id', found none in row 1"):
            names([{"text": "he", "id": 7}, {"text": "she", "id": None}])
        with pytest.raises(Error, match="id_field: expected one of text, found 'n'"):
            names([{"text": "he"}], id_field="n")
        with pytest.raises(TypeError, match="documents: expected texts by their names or a table"):
            longformer_cpp.SearchIndex(model, passage_tokens=16).add_documents(["he"])

    def test_a_document_that_cannot_be_read(self, folder):
        index = longformer_cpp.SearchIndex(folder("tiny_bert"), passage_tokens=8)
        assert index.add_documents({str(i): "he was in the house " * (i % 7) for i in range(600)}) == 600
        assert len(index) == 600


def test_no_package_is_loaded(tmp_path):
    program = (
        "import sys, longformer_cpp as lc\n"
        "lc.BatchEmbedder\n"
        "try: lc.finetune('none', [{'text': 'a', 'label': 'b'}], 'out')\n"
        "except lc.Error: pass\n"
        "sys.exit([name for name in ('pandas', 'polars', 'pyarrow', 'datasets', 'sklearn') if name in sys.modules] or None)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
