"""Common parts of the experiments of this folder: they run the program and keep one JSON line per
run.

A run has a key (which row, which seed) and gives figures. What is already in the file of results is not run
again, so an experiment can be stopped and continued, or widened with --seeds.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments"))
import data_sets  # noqa: E402, F401


class Program:
    """The program, bound to some cores: it takes as many threads."""

    def __init__(self, binary, cores):
        self.binary = binary
        self.cores = cores

    def __call__(self, *arguments):
        """The JSON objects that it prints; its messages are shown when it fails."""
        command = [self.binary, *map(str, arguments), "--json"]
        done = subprocess.run(command, capture_output=True, text=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]


@dataclasses.dataclass
class Run:
    key: dict
    measure: Callable[[Program], dict]


class Results:
    """A file of JSON lines: the keys of a run and its figures."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.lock = threading.Lock()
        self.rows = []
        if self.path.exists():
            self.rows = [json.loads(line) for line in self.path.read_text().splitlines()]

    def holds(self, key):
        return any(all(row.get(name) == value for name, value in key.items()) for row in self.rows)

    def add(self, row):
        with self.lock:
            self.rows.append(row)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as stream:
                stream.write(json.dumps(row) + "\n")


def options(description, results):
    """The arguments that every experiment takes."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build" / "longformer"))
    parser.add_argument("--results", default=str(ROOT / "docs" / "results" / results),
                        help="file of JSON lines to continue")
    parser.add_argument("--work", default=str(ROOT / "build" / "paper"), help="folder for data and models")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=len(all_cores()),
                        help="runs at the same time, each on its own cores")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--row", action="append", metavar="NAME", help="only the row of exactly this name; may be repeated")
    parser.add_argument("--minutes", type=float, help="begin no run after so many minutes")
    return parser


def all_cores():
    return sorted(os.sched_getaffinity(0))


def perform(runs, chosen):
    """Runs what is not yet in the results, chosen.jobs at a time."""
    results = Results(chosen.results)
    begin = time.monotonic()
    failed = threading.Event()
    cores = all_cores()
    share = max(1, len(cores) // chosen.jobs)
    free = queue.SimpleQueue()
    for job in range(chosen.jobs):
        free.put(cores[job * share:(job + 1) * share] or cores)

    def one(run):
        if failed.is_set():
            return
        if chosen.minutes and time.monotonic() - begin > 60 * chosen.minutes:
            return
        mine = free.get()
        started = time.monotonic()
        try:
            figures = run.measure(Program(chosen.binary, mine))
        except BaseException:
            failed.set()
            raise
        finally:
            free.put(mine)
        minutes = round((time.monotonic() - started) / 60, 1)
        results.add(run.key | figures | {"minutes": minutes})
        print(json.dumps(run.key | figures), f"({minutes} minutes)", file=sys.stderr)

    left = [run for run in runs
            if not results.holds(run.key) and chosen.only in str(run.key.get("row", ""))
            and (not chosen.row or run.key.get("row") in chosen.row)]
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        for done in [pool.submit(one, run) for run in left]:
            done.result()
