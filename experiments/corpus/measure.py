#!/usr/bin/env python3
"""Vectors of Wikipedia articles by Ray Data: ours with 1 actor of 2 threads and 2 actors of 1, and sentence-transformers in the same pipeline.

    ~/.cache/longformer/corpora/bin/python experiments/corpus/measure.py MODEL --articles 2000 --results docs/results/corpora.jsonl

MODEL is a folder of sentence-transformers. The environment is that of `make corpora`; sentence-transformers comes from the one of
`make oracle` (--peer: another folder of packages; none: ours alone). Both cut texts at the model's length and compute in fp32. An article counts
from the first to the last batch of its pipeline: workers start, and load the model, before. Use of cores is processor time of the
workers by cores and seconds, PSS is the sum over workers. A machine should be idle.

Rows with "simulated" are no measurement: more actors than there are cores, each with threads of its own, take the batches of the first
measurement, in turn and as long as they took there; between two batches of an actor lies the shortest such time that was
measured, and the driver, of which there is one, spends on each batch its processor time of that measurement.
"""

import argparse
import json
import lzma
import os
import pathlib
import re
import resource
import site
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import data_sets

SETTINGS = ((1, 2), (2, 1))
PACKAGES = pathlib.Path.home() / ".cache/longformer/oracle/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def articles(path, count, least=100):
    """The first articles of some length."""
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        for text in re.findall(r"<doc[^>]*>\n(.*?)</doc>", stream.read(), re.S):
            if len(text) >= least:
                yield text.strip()
                count -= 1
            if count == 0:
                return


def memory():
    """PSS of this process in MB."""
    roll = pathlib.Path("/proc/self/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+)", roll, re.M)[1]) / 1024


class Measured:
    """A worker that says when it computed, and how long."""

    def encode(self, texts):
        raise NotImplementedError

    def __call__(self, batch):
        began, used = time.time(), resource.getrusage(resource.RUSAGE_SELF)
        vectors = self.encode(list(batch["text"]))
        now = resource.getrusage(resource.RUSAGE_SELF)
        seconds = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        row = {"worker": os.getpid(), "began": began, "ended": time.time(), "processor": seconds, "texts": len(vectors), "mb": memory()}
        return {name: [value] for name, value in row.items()}


class Ours(Measured):
    def __init__(self, model, peer):
        from longformer_cpp import BatchEmbedder

        self.embedder = BatchEmbedder(model, long="truncate")
        self.encode(["Loads the model."])

    def encode(self, texts):
        return self.embedder.embed_text(texts)


class Theirs(Measured):
    def __init__(self, model, peer):
        site.addsitedir(peer)
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self.model = SentenceTransformer(model, device="cpu", local_files_only=True)
        self.encode(["Loads the model."])

    def encode(self, texts):
        return self.model.encode(texts, batch_size=16)


def simulated(batches, actors, between, driver):
    """Articles per second: (articles, seconds) of batches go to actors that are free, each through the driver."""
    free, driver_free = [0.0] * actors, 0.0
    for _, seconds in batches:
        first = min(range(actors), key=free.__getitem__)
        # The driver hands a batch out while the one before it is computed.
        driver_free = max(driver_free, free[first] - between - driver) + driver
        free[first] = max(driver_free, free[first]) + seconds + between
    return sum(articles for articles, _ in batches) / max(free)


def measure(worker, model, corpus, actors, threads, peer):
    import ray.data
    from ray.data import ActorPoolStrategy, DataContext

    # A small corpus is one block by default, which one actor gets.
    context = DataContext.get_current()
    context.target_min_block_size, context.target_max_block_size = 1, 150_000
    documents = ray.data.read_parquet(str(corpus), override_num_blocks=32)
    used = time.process_time()
    rows = documents.map_batches(worker, fn_constructor_args=(model, peer), batch_size=16, compute=ActorPoolStrategy(size=actors),
                                 num_cpus=threads).take_all()
    driver = (time.process_time() - used) / len(rows)
    seconds = max(row["ended"] for row in rows) - min(row["began"] for row in rows)
    largest = {row["worker"]: max(one["mb"] for one in rows if one["worker"] == row["worker"]) for row in rows}
    texts = sum(row["texts"] for row in rows)
    in_order = sorted(rows, key=lambda row: row["began"])
    pauses = [later["began"] - row["ended"] for row, later in zip(in_order, in_order[1:]) if row["worker"] == later["worker"]]
    parts = {"batches": [(row["texts"], row["ended"] - row["began"]) for row in in_order], "between": max(0.0, min(pauses)), "driver": driver}
    return parts, {"package": worker.__name__.lower(), "actors": actors, "threads": threads, "articles": texts,
            "articles_per_second": round(texts / seconds, 2), "cores": round(sum(row["processor"] for row in rows) / seconds, 2),
            "workers": len(largest), "pss_mb": round(sum(largest.values()))}  # fmt: skip


def write(row, results):
    print(json.dumps(row), flush=True)
    if results:
        with results.open("a") as file:
            print(json.dumps(row), file=file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--articles", type=int, default=2000)
    parser.add_argument("--peer", default=str(PACKAGES))
    parser.add_argument("--results", type=pathlib.Path)
    chosen = parser.parse_args()
    source = data_sets.file("wiki_en_extract/enwiki_AA.txt.xz")
    import pyarrow
    import pyarrow.parquet
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory(prefix="lf-corpus-") as folder:
        corpus = pathlib.Path(folder) / "articles.parquet"
        texts = list(articles(source, chosen.articles))
        pyarrow.parquet.write_table(pyarrow.table({"id": range(len(texts)), "text": texts}), corpus, row_group_size=64)
        ray.init(num_cpus=4, include_dashboard=False, _temp_dir=f"{folder}/ray", logging_level="error")
        cpu = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
        name = re.search(r"^Model name:\s+(.*)", cpu, re.M)[1]
        for worker in (Ours, Theirs) if pathlib.Path(chosen.peer).is_dir() else (Ours,):
            for actors, threads in SETTINGS:
                parts, row = measure(worker, os.path.abspath(chosen.model), corpus, actors, threads, chosen.peer)
                about = {"model": chosen.model, "cpu": name}
                write({**row, **about}, chosen.results)
                if worker is not Ours or actors > 1:
                    continue
                for count in (1, 2, 4, 8, 64):
                    rate = simulated(parts["batches"] * 25, count, parts["between"], parts["driver"])
                    write({"package": "ours", "simulated": True, "actors": count, "threads": threads, "articles": 25 * row["articles"],
                           "articles_per_second": round(rate, 2), "between_ms": round(1e3 * parts["between"], 1),
                           "driver_ms": round(1e3 * parts["driver"], 1), **about}, chosen.results)  # fmt: skip


if __name__ == "__main__":
    main()
