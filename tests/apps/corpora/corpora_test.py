"""The classes for corpora in pandas, pyarrow, Ray Data, Spark, datasets, Daft and LangChain, whose workers are killed.

`make corpora` makes the environment that has these packages (requirements/corpora.txt) and runs this file in it, and
so does `make test` where it can. Everywhere else the tests are skipped.
"""

import importlib.util
import json
import os
import pathlib
import pickle
import random
import runpy
import shutil
import signal
import subprocess
import sys
import time

import pytest

PACKAGES = ("ray", "pyspark", "pandas", "pyarrow", "datasets", "daft", "langchain_core")
HAS_FRAMEWORKS = all(map(importlib.util.find_spec, PACKAGES)) and shutil.which("java") is not None
pytestmark = pytest.mark.skipif(not HAS_FRAMEWORKS, reason="no Ray, Spark or Java: make corpora")

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests" / "fixtures"
EXAMPLES = ROOT / "examples" / "corpus"
BINARY = os.environ.get("LONGFORMER_BINARY", str(ROOT / "build" / "longformer"))
WORDS = "he she was in the house with him her and not they had been there of".split()
#: Seconds after which a program of Ray hangs.
LIMIT = 600
COUNT, BAD = 200, {17: None, 90: b"half \xc3", 151: b"\xff\xfe"}

if HAS_FRAMEWORKS:
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", DO_NOT_TRACK="1",
                      RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0", HF_HUB_OFFLINE="1", DAFT_PROGRESS_BAR="0")  # fmt: skip
    # Ray's workers have niceness 15: beside other tests the first one here took 238 s instead of 26.
    os.environ["RAY_worker_niceness"] = "0"
    import longformer_cpp
    import numpy as np
    import pandas
    import pyarrow
    import pyarrow.parquet
    from longformer_cpp import BatchClassifier, BatchEmbedder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    target = tmp_path_factory.mktemp("models") / "model"
    longformer_cpp.convert(FIXTURES / "tiny_bert", target, max_positions=512, window=16)
    return str(target)


@pytest.fixture(scope="module")
def texts():
    """Documents of 5 to 20,000 tokens."""
    draw = random.Random(1)
    lengths = [round(5 * 4000 ** (i / (COUNT - 1))) for i in range(COUNT)]
    draw.shuffle(lengths)
    return [" ".join(draw.choices(WORDS, k=length)) for length in lengths]


@pytest.fixture(scope="module")
def table(texts):
    """The documents with ids; one is null, two are no UTF-8."""
    rows = [BAD.get(i, text if i in BAD else text.encode()) for i, text in enumerate(texts)]
    return pyarrow.table({"id": range(COUNT), "text": pyarrow.array(rows, pyarrow.binary()).view(pyarrow.string())})


@pytest.fixture(scope="module")
def corpus(table, tmp_path_factory):
    file = tmp_path_factory.mktemp("corpus") / "documents.parquet"
    pyarrow.parquet.write_table(table, file)
    return str(file)


@pytest.fixture(scope="module")
def expected(model, texts, tmp_path_factory):
    """The vectors of `longformer embed`, and None for the bad documents."""
    lines = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    command = [BINARY, "embed", model, lines, "--field", "text", "--split", "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    vectors = [np.float32(json.loads(line)["embedding"]) for line in done.stdout.splitlines()]
    assert len(vectors) == COUNT
    return [None if i in BAD else vector for i, vector in enumerate(vectors)]


def assert_rows(rows, expected):
    """Each id once, with its vector bit for bit, and errors of the two documents that are no UTF-8."""
    assert sorted(row["id"] for row in rows) == list(range(COUNT))
    for row in rows:
        wanted = expected[row["id"]]
        assert (row["embedding"] is None) == (wanted is None), row["id"]
        assert wanted is None or np.array_equal(np.float32(row["embedding"]), wanted), row["id"]
        assert (row["error"] is not None) == (BAD.get(row["id"]) is not None), row


# ---- pyarrow, pandas ----


def test_arrow(model, table, expected, tmp_path):
    found = BatchEmbedder(model)(table)
    assert found.column_names == ["id", "text", "embedding", "error"]
    assert found.schema.field("embedding").type == pyarrow.list_(pyarrow.float32(), 16)
    assert found.column("embedding").null_count == 3
    # Python cannot read the bad texts again.
    rows = found.drop_columns(["text"])
    assert_rows(rows.to_pylist(), expected)
    assert "0xc3" in rows.to_pylist()[90]["error"]
    # Arrow reads nulls of a fixed size from version 26 on.
    lists = BatchEmbedder(model, fixed_size=False)(table).drop_columns(["text"])
    assert lists.schema.field("embedding").type == pyarrow.list_(pyarrow.float32())
    pyarrow.parquet.write_table(lists, tmp_path / "rows.parquet")
    assert_rows(pyarrow.parquet.read_table(tmp_path / "rows.parquet").to_pylist(), expected)


def test_datasets_of_labels(tmp_path):
    """A Dataset in place of a file: labels have the names of their features, and results are a Dataset."""
    import datasets

    texts, names = ["he was in the house", "she was with her", "him and the house", "her and she"], ["good", "bad"]
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=names), tokens=datasets.List(datasets.Value("string")),
        ner_tags=datasets.List(datasets.ClassLabel(names=["O", "B-P"])),
    )  # fmt: skip
    columns = {"text": texts, "label": [0, 1, 0, 1], "tokens": [text.split() for text in texts]}
    columns["ner_tags"] = [[1] + [0] * (len(words) - 1) for words in columns["tokens"]]
    made = datasets.Dataset.from_dict(columns, features=features)
    options = {"max_steps": 1, "save_strategy": "no"}
    for number, one in enumerate((made, made.with_format("numpy"), made.shuffle(seed=1))):
        longformer_cpp.finetune(FIXTURES / "tiny_bert", one, tmp_path / str(number), task="classify", validation_file=made, **options)
        model = longformer_cpp.load(tmp_path / str(number))
        assert sorted(model.labels) == sorted(names)
        found = model.classify(one.select_columns(["text"]), truncate=True)
        assert isinstance(found, datasets.Dataset) and found.column_names == ["text", "predicted_label", "predicted_score"]
        assert list(found["predicted_label"]) == [two.labels[0].label for two in model.classify(list(one["text"]), truncate=True)]
        assert model.evaluate(one, truncate=True).counts["examples"] == 4
    longformer_cpp.finetune(FIXTURES / "tiny_bert", made, tmp_path / "ner", task="ner", **options)
    assert "B-P" in longformer_cpp.load(tmp_path / "ner").labels
    vectors = BatchEmbedder(FIXTURES / "tiny_bert", long="truncate")(made)
    assert isinstance(vectors, datasets.Dataset) and np.float32(vectors[0]["embedding"]).shape == (16,)
    passages = BatchEmbedder(FIXTURES / "tiny_bert", passages=True, passage_tokens=8)(made)
    assert set(passages["text"]) and max(passages["document"]) == 3
    unknown = made.cast_column("label", datasets.ClassLabel(names=names)).map(lambda row: {"label": -1})
    with pytest.raises(longformer_cpp.Error, match="data: row 0: .*no value in 4 rows"):
        longformer_cpp.finetune(FIXTURES / "tiny_bert", unknown, tmp_path / "no", task="classify", **options)
    with pytest.raises(TypeError, match="data: expected"):
        longformer_cpp.finetune(FIXTURES / "tiny_bert", datasets.DatasetDict(train=made), tmp_path / "no", task="classify", **options)


def test_record_batches(model, table):
    batch = table.slice(0, 8).combine_chunks().to_batches()[0]
    found = BatchEmbedder(model)(batch)
    assert isinstance(found, pyarrow.RecordBatch) and found.column("embedding").null_count == 0
    nothing = BatchEmbedder(model)(batch.slice(0, 0))
    assert nothing.num_rows == 0 and nothing.schema == found.schema
    assert BatchEmbedder(model)(table.slice(17, 1)).schema == found.schema


def test_kinds_of_arrow_columns(model):
    for kind in (pyarrow.large_string(), pyarrow.string_view(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())):
        found = BatchEmbedder(model, passages=True, passage_tokens=8)(
            pyarrow.table({"id": ["a", "b"], "text": pyarrow.array(["he was in the house . " * 4, None], kind)}))  # fmt: skip
        rows = found.to_pylist()
        assert len(rows) > 3 and rows[-1]["id"] == "b" and rows[-1]["start"] is None and rows[-1]["embedding"] is None
        assert rows[1]["text"] and rows[1]["start"] > 0 and rows[1]["id"] == "a" and rows[1]["document"] == 0


def test_arrow_of_records(table):
    found = BatchClassifier(str(FIXTURES / "tiny_longformer_classifier"), top_k=2)(table.slice(15, 4))
    records = pyarrow.list_(pyarrow.struct([("label", pyarrow.string()), ("score", pyarrow.float32())]))
    assert found.schema.field("labels").type == records
    assert [row is None for row in found.column("labels").to_pylist()] == [False, False, True, False]


def test_pandas(model, texts, expected):
    values = [None if i == 17 else 3.5 if i in BAD else text for i, text in enumerate(texts)]
    frame = pandas.DataFrame({"id": range(COUNT), "text": pandas.Series(values, dtype=object)}).set_axis(range(7, COUNT + 7))
    found = BatchEmbedder(model)(frame)
    assert list(found.columns) == ["id", "text", "embedding", "error"] and list(found.index) == list(frame.index)
    assert_rows(found.to_dict("records"), expected)
    missing = BatchEmbedder(model)(pandas.DataFrame({"text": ["he", pandas.NA, float("nan")]}))
    assert list(missing["embedding"].isna()) == [False, True, True] and list(missing["error"]) == [None] * 3
    passages = BatchEmbedder(model, passages=True, passage_tokens=8)(frame.head(20)[["id", "text"]])
    assert set(passages["id"]) == set(range(20)) and passages["start"].isna().sum() == 1


def test_pickle(model):
    data = pickle.dumps(BatchEmbedder(model, passages=True, passage_tokens=8))
    assert len(data) < 2048


# ---- Ray ----

#: The example with blocks for small vectors, and work that takes a while.
SLOW_RAY = """
import sys, time, pathlib
import longformer_cpp
class Slow(longformer_cpp.BatchEmbedder):
    def __call__(self, batch):
        time.sleep(0.05)
        with open({log!r}, "a") as log:
            log.write("".join(f"{{one}}\\n" for one in batch["id"].to_pylist()))
        return super().__call__(batch)
longformer_cpp.BatchEmbedder = Slow
program = pathlib.Path({example!r}).read_text()
assert "150_000" in program
exec(compile(program.replace("150_000", "1_000"), {example!r}, "exec"))
"""


def processes_with(folder):
    """Numbers of the processes that name a folder of this test or hold a file of it: Ray's workers change their names."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            files = (os.readlink(one) for one in (process / "fd").iterdir())
            if int(process.name) != os.getpid() and (
                    folder in (process / "cmdline").read_bytes().decode(errors="replace")
                    or any(file.startswith(folder) for file in files)):  # fmt: skip
                found.append(int(process.name))
        except OSError:
            pass
    return found


def end(process, temp):
    """Kills a program, and the daemons that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20
    while (left := processes_with(temp)) and time.monotonic() < deadline:
        for number in left:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.1)
    assert not left, "Ray lives on"


def rows_of(folder):
    rows = []
    for file in sorted(pathlib.Path(folder).glob("*.parquet")):
        try:
            rows += pyarrow.parquet.read_table(file).to_pylist()
        except (pyarrow.ArrowInvalid, OSError):
            pass  # It is being written.
    return rows


@pytest.fixture
def short_folder():
    """Sockets of Ray have short names."""
    folder = pathlib.Path("/tmp") / f"lf-ray-{os.getpid()}-{time.monotonic_ns() % 10**6}"
    folder.mkdir()
    yield str(folder)
    for number in processes_with(str(folder)):
        os.kill(number, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def test_ray_goes_on_where_it_was_killed(model, corpus, expected, tmp_path, short_folder):
    vectors, log = str(tmp_path / "vectors"), tmp_path / "log"
    program = tmp_path / "slow.py"
    program.write_text(SLOW_RAY.format(log=str(log), example=str(EXAMPLES / "ray_data.py")))
    environment = os.environ | {"RAY_TMPDIR": short_folder}
    command = [sys.executable, program, model, corpus, vectors, "2", "1"]
    first = subprocess.Popen(list(map(str, command)), start_new_session=True, env=environment,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
    try:
        deadline = time.monotonic() + LIMIT
        while len(rows_of(vectors)) < COUNT * 0.6:
            assert first.poll() is None, first.stderr.read()[-3000:].decode()
            assert time.monotonic() < deadline, "nothing is written"
            time.sleep(0.1)
    finally:
        end(first, short_folder)
    kept, computed = len(rows_of(vectors)), len(log.read_text().split())
    assert COUNT * 0.6 <= kept < COUNT
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_rows(rows_of(vectors), expected)
    # A file may have been written without its mark.
    again = len(log.read_text().split()) - computed
    assert COUNT - kept <= again <= COUNT - kept + 40, (kept, computed, again)


#: Workers of Ray that tell their threads and memory.
ABOUT_WORKERS = """
import json, os, pathlib, sys
import ray
model, temp = sys.argv[1:]
class About:
    def threads(self):
        return int(pathlib.Path("/proc/self/status").read_text().split("Threads:")[1].split()[0])
    def memory(self):
        return int(pathlib.Path("/proc/self/smaps_rollup").read_text().split("Pss:")[1].split()[0])
    def begin(self, model):
        from longformer_cpp import BatchEmbedder
        self.embedder = BatchEmbedder(model)
        return self.memory()
    def more_threads(self):
        before = self.threads()
        self.embedder({"text": ["he was in the house " * 300]})
        return self.threads() - before
ray.init(num_cpus=4, include_dashboard=False, object_store_memory=100_000_000, _temp_dir=temp, logging_level="error")
workers = [ray.remote(num_cpus=cpus)(About).remote() for cpus in (1, 1, 2)]
ask = lambda method, *arguments: ray.get([getattr(worker, method).remote(*arguments) for worker in workers])
print(json.dumps([ask("begin", model), ask("more_threads"), ask("memory")]))
"""


def large(model, target):
    """The model with a vocabulary of 100 MB of weights."""
    raw = (pathlib.Path(model) / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    shutil.copytree(model, target)
    name = next(name for name in header if name.endswith("word_embeddings.weight"))
    rows, width = header[name]["shape"]
    more = 100_000_000 // (4 * width)
    begin, stop = header[name]["data_offsets"]
    body = raw[8 + size :]
    extra = np.full((more, width), 0.01, np.float32).tobytes()
    header[name] |= {"shape": [rows + more, width], "data_offsets": [len(body), len(body) + stop - begin + len(extra)]}
    # The tensor moves to the end; a gap is no valid file, so the others close up.
    order = sorted((one for one in header if one not in (name, "__metadata__")), key=lambda one: header[one]["data_offsets"][0])
    parts, place = [], 0
    for one in order:
        first, last = header[one]["data_offsets"]
        parts.append(body[first:last])
        header[one]["data_offsets"] = [place, place + last - first]
        place += last - first
    parts += [body[begin:stop], extra]
    header[name]["data_offsets"] = [place, place + stop - begin + len(extra)]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (target / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))
    config = json.loads((target / "config.json").read_text()) | {"vocab_size": rows + more}
    (target / "config.json").write_text(json.dumps(config))
    return str(target)


def test_ray_gives_threads_and_workers_share_weights(model, tmp_path, short_folder):
    command = [sys.executable, "-c", ABOUT_WORKERS, large(model, tmp_path / "large"), short_folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    before, threads, after = json.loads(done.stdout.splitlines()[-1])
    # A second thread comes where Ray gives two processors.
    assert threads == [0, 0, 1]
    # No worker has a copy of the 100 MB of weights.
    assert all(new - old < 40_000 for old, new in zip(before, after, strict=True)), (before, after)


# ---- Spark ----

SCHEMA = "id long, embedding array<float>, error string"


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    # Two tasks at a time; a task may fail twice.
    session = (SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
               .config("spark.sql.execution.arrow.maxRecordsPerBatch", 16).config("spark.sql.shuffle.partitions", 2)
               .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark")))
               .config("spark.sql.files.openCostInBytes", 100_000_000).getOrCreate())  # fmt: skip
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def rows_of_spark(frame):
    return [row.asDict() for row in frame.drop("text").collect()]


def test_spark_repeats_what_a_killed_worker_did(spark, model, corpus, expected, tmp_path):
    embedder, mark = BatchEmbedder(model), str(tmp_path / "mark")

    def killed_once(batches):
        for batch in batches:
            if 70 in batch.column("id").to_pylist() and not os.path.exists(mark):
                pathlib.Path(mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield embedder(batch).drop_columns(["text"])

    found = spark.read.parquet(corpus).repartition(4).mapInArrow(killed_once, SCHEMA)
    assert_rows(rows_of_spark(found), expected)
    assert os.path.exists(mark)


def test_spark_with_pandas_and_a_udf(spark, model, corpus, expected):
    from pyspark.ml.functions import predict_batch_udf
    from pyspark.sql.types import ArrayType, FloatType

    good = spark.read.parquet(corpus).where("id not in (90, 151)")
    embedder = BatchEmbedder(model)
    found = good.mapInPandas(lambda frames: (embedder(frame).drop(columns="text") for frame in frames), SCHEMA)
    wanted = {i: vector for i, vector in enumerate(expected) if i not in (90, 151)}
    rows = {row["id"]: row["embedding"] for row in rows_of_spark(found)}
    assert rows.keys() == wanted.keys() and rows[17] is None
    assert all(np.array_equal(np.float32(rows[i]), wanted[i]) for i in wanted if i != 17)
    predict = predict_batch_udf(embedder.make_predict_fn, return_type=ArrayType(FloatType()), batch_size=16)
    rows = {row["id"]: np.float32(row["embedding"]) for row in good.select("id", predict("text").alias("embedding")).collect()}
    assert np.isnan(rows[17]).all() and all(np.array_equal(rows[i], wanted[i]) for i in wanted if i != 17)


def test_spark_gives_threads(spark, model):
    from longformer_cpp import _corpora

    def asked(batches):
        for _ in batches:
            yield pyarrow.record_batch({"threads": [_corpora.worker_threads()]})

    assert [row.threads for row in spark.range(1).repartition(1).mapInArrow(asked, "threads long").collect()] == [1]


def test_spark_example(spark, model, corpus, expected, tmp_path, monkeypatch):
    """A second run computes only the ids that are not there."""
    vectors = tmp_path / "vectors"
    monkeypatch.setattr(sys, "argv", ["spark.py", model, corpus, str(vectors), "2"])
    runpy.run_path(str(EXAMPLES / "spark.py"), run_name="__main__")
    assert_rows(rows_of(vectors), expected)
    files = sorted(vectors.glob("*.parquet"))
    lost = [row["id"] for row in pyarrow.parquet.read_table(files[0]).to_pylist()]
    files[0].unlink()
    (vectors / f".{files[0].name}.crc").unlink(missing_ok=True)
    assert 0 < len(lost) < COUNT
    runpy.run_path(str(EXAMPLES / "spark.py"), run_name="__main__")
    assert_rows(rows_of(vectors), expected)


# ---- others ----


def test_datasets(model, texts, expected):
    import datasets

    values = [None if i in BAD else text for i, text in enumerate(texts)]
    rows = datasets.Dataset.from_dict({"id": range(COUNT), "text": values})
    found = rows.map(BatchEmbedder(model), batched=True, batch_size=16)
    for row in found:
        assert (row["embedding"] is None) == (row["id"] in BAD)
        assert row["id"] in BAD or np.array_equal(np.float32(row["embedding"]), expected[row["id"]])
    arrow = rows.with_format("arrow").map(BatchEmbedder(model), batched=True, batch_size=16)
    assert arrow.with_format(None)[5]["embedding"] == found[5]["embedding"]


def test_daft(model, texts, expected):
    import daft

    embedder = BatchEmbedder(model)

    @daft.func.batch(return_dtype=daft.DataType.list(daft.DataType.float32()))
    def embedded(series):
        return embedder.embed_text(series.to_pylist())

    frame = daft.from_pydict({"id": list(range(40)), "text": [None if i in BAD else text for i, text in enumerate(texts[:40])]})
    rows = frame.with_column("embedding", embedded(daft.col("text"))).to_pylist()
    assert len(rows) == 40 and [row["id"] for row in rows if row["embedding"] is None] == [17]
    assert all(np.array_equal(np.float32(row["embedding"]), expected[row["id"]]) for row in rows if row["id"] != 17)


def test_langchain(model, texts):
    from langchain_core.embeddings import Embeddings
    from longformer_cpp.langchain import LongformerEmbeddings

    embeddings = LongformerEmbeddings(model)
    assert isinstance(embeddings, Embeddings)
    embedder = longformer_cpp.Embedder(model)
    assert np.array_equal(embeddings.embed_query(texts[0]), embedder.encode_query(texts[0], split=True))
    assert np.array_equal(embeddings.embed_documents(texts[:3]), embedder.encode_document(texts[:3], split=True))
    with pytest.raises(longformer_cpp.Error):
        LongformerEmbeddings(model, long="refuse").embed_documents(["he", texts[int(np.argmax([len(one) for one in texts]))]])
    with pytest.raises(TypeError):
        embeddings.embed_documents(["he", None])
