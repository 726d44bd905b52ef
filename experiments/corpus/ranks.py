#!/usr/bin/env python3
"""One document over ranks: bytes that each sends, seconds of two processes, and weak scaling to 1,024 ranks.

    python3 experiments/corpus/ranks.py MODEL --tokens 4096 --results docs/results/ranks.jsonl

MODEL has windows in every layer, and positions for three times the tokens (longformer convert … --max-positions). Each rank reads so
many tokens on one thread, so a document is as many times longer as there are ranks. Rows without "simulated" are measured: one
process alone, two that each read a document of their own, and two joined by pipes, whose efficiency is that beside the former two.
A machine should be idle.

Rows with "simulated" are no measurement, and of the pass alone: every rank also tokenizes the whole text, which the first row has as
"tokenize". Their parts are: the seconds between two exchanges of a rank in the middle, measured in passes whose neighbours answer at
once, of which each rank and layer draws one; and a network of --latency and --bandwidth. A rank begins a layer when its own and
those of its two neighbours have ended and their rows have come. With global tokens every layer also waits for the sums of all ranks,
in 2·log2(ranks) steps.
"""

import argparse
import json
import math
import multiprocessing
import pathlib
import random
import statistics
import time

COUNTS = (2, 4, 16, 64, 256, 1024)


class Alone:
    """The second of three ranks, whose neighbours answer at once."""

    rank, count = 1, 3

    def __init__(self):
        self.times, self.halo, self.sums = [], 0, 0

    def sum(self, values):
        if values.dtype == "float64":
            # The comparison of documents, before the pass.
            values[:] = values[self.rank]
            self.times.append(time.perf_counter())
        else:
            self.sums = max(self.sums, values.nbytes)

    def max(self, values):
        pass

    def exchange(self, to_before, to_behind, from_before, from_behind):
        self.times.append(time.perf_counter())
        self.halo = max(to_before.nbytes, to_behind.nbytes)
        import numpy

        # Numbers of the right size: the same rows.
        from_before[:] = numpy.resize(to_behind, from_before.size)
        from_behind[:] = numpy.resize(to_before, from_behind.size)


class Pair:
    """Two ranks at the ends of a pipe."""

    count = 2

    def __init__(self, rank, pipe):
        self.rank, self.pipe = rank, pipe

    def swapped(self, mine):
        import numpy

        if self.rank == 0:
            self.pipe.send_bytes(mine)
        theirs = numpy.frombuffer(self.pipe.recv_bytes(), mine.dtype)
        if self.rank == 1:
            self.pipe.send_bytes(mine)
        return theirs

    def sum(self, values):
        values += self.swapped(values)

    def max(self, values):
        values[:] = [max(pair) for pair in zip(values, self.swapped(values), strict=True)]

    def exchange(self, to_before, to_behind, from_before, from_behind):
        if self.rank == 0:
            from_behind[:] = self.swapped(to_behind)
        else:
            from_before[:] = self.swapped(to_before)


def ids(tokens):
    return [5 + 7 * i % 900 for i in range(tokens)]


def load(folder, ranks):
    import longformer_cpp

    return longformer_cpp.load(folder, threads=1, ranks=ranks)


def a_pass(model, tokens, globals_):
    """Vectors alone: the states of tokens would be sent too."""
    text = model.tokenizer.decode(ids(tokens - 2))
    began = time.perf_counter()
    model.encode(text, truncate=True, max_length=tokens, global_attention=",".join(map(str, range(globals_))) or "none")
    return began, time.perf_counter()


def passes(folder, tokens, globals_, repeats):
    """Seconds of passes alone, and for 0 and so many global tokens what passes of a rank in the middle need. One after another in
    turn, so that a machine that becomes slower makes all of them slower."""
    ranks = Alone()
    alone, middle = load(folder, None), load(folder, ranks)
    seconds, tokenize, kinds = [], [], {0: Needs(), globals_: Needs()}
    text = alone.tokenizer.decode(ids(tokens - 2))
    for _ in range(repeats + 1):
        began, end = a_pass(alone, tokens, 0)
        seconds.append(end - began)
        alone.tokenizer.encode(text)
        tokenize.append(time.perf_counter() - end)
        for count, needs in kinds.items():
            ranks.times, ranks.sums, before = [], 0, middle.bytes_sent
            _, end = a_pass(middle, 3 * tokens, count)
            times = [*ranks.times, end]
            needs.layers.append([later - earlier for earlier, later in zip(times, times[1:])])
            needs.halo, needs.sums, needs.sent = ranks.halo, ranks.sums, middle.bytes_sent - before
    for count, needs in kinds.items():
        before = middle.bytes_sent
        a_pass(middle, 2 * tokens, count)
        needs.sent_of_shorter = middle.bytes_sent - before
        # The first pass takes memory.
        del needs.layers[0]
    return statistics.median(seconds[1:]), statistics.median(tokenize[1:]), kinds


class Needs:
    """Seconds of each layer, and bytes of a halo, of the largest sum and of all that a pass sends."""

    def __init__(self):
        self.layers, self.halo, self.sums, self.sent, self.sent_of_shorter = [], 0, 0, 0, 0


def member(rank, pipe, folder, tokens, globals_, repeats, out):
    model = load(folder, None if globals_ is None else Pair(rank, pipe))
    length = tokens if globals_ is None else 2 * tokens
    times = [a_pass(model, length, globals_ or 0) for _ in range(repeats + 1)]
    if rank == 0:
        out.put([end - began for began, end in times[1:]])


def pair(folder, tokens, globals_, repeats):
    """Seconds of two processes that read a document together, or, where `globals_` is None, each its own."""
    context = multiprocessing.get_context("spawn")
    ends, out = context.Pipe(), context.Queue()
    members = [context.Process(target=member, args=(rank, end, folder, tokens, globals_, repeats, out)) for rank, end in enumerate(ends)]
    for one in members:
        one.start()
    found = out.get()
    for one in members:
        one.join()
    return found


def simulated(count, seconds, halo, summed, network, seed=1):
    """Seconds until the last rank has its vectors. `summed` is None without global tokens."""
    latency, bandwidth = network
    chance = random.Random(seed)
    ended = [0.0] * count
    for layer in range(len(seconds[0])):
        ready = ended if layer == 0 else [max(ended[max(0, i - 1) : i + 2]) + latency + halo / bandwidth for i in range(count)]
        ended = [one + chance.choice(seconds)[layer] for one in ready]
        if summed is not None:
            ended = [max(ended) + 2 * math.log2(count) * (latency + summed / bandwidth)] * count
    return max(ended) + 2 * math.log2(count) * latency


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=4096, help="of each rank")
    parser.add_argument("--globals", type=int, default=1, help="global tokens of the rows that have some")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--latency", type=float, default=5e-5, help="seconds of a message")
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes per second of a rank")
    parser.add_argument("--counts", type=int, nargs="*", default=COUNTS)
    parser.add_argument("--results", type=pathlib.Path)
    chosen = parser.parse_args()
    folder, tokens = chosen.model, chosen.tokens
    one, tokenize, kinds = passes(folder, tokens, chosen.globals, chosen.repeats)
    two = statistics.median(pair(folder, tokens, None, chosen.repeats))
    rows = [{"ranks": 1, "tokens": tokens, "seconds": one, "tokenize": round(tokenize, 4)}, {"ranks": 1, "processes": 2, "tokens": tokens, "seconds": two}]
    for globals_, needs in kinds.items():
        row = {"globals": globals_, "halo_bytes": needs.halo, "bytes_sent": needs.sent, "bytes_sent_of_shorter": needs.sent_of_shorter}
        real = statistics.median(pair(folder, tokens, globals_, chosen.repeats))
        rows.append({"ranks": 2, "tokens": 2 * tokens, **row, "seconds": real})
        for count in chosen.counts:
            found = simulated(count, needs.layers, needs.halo, needs.sums if globals_ else None, (chosen.latency, chosen.bandwidth))
            rows.append({"ranks": count, "tokens": count * tokens, **row, "seconds": found, "simulated": True})
    for row in rows:
        is_pair = row["ranks"] == 2 and "simulated" not in row
        beside = two if is_pair else one - tokenize if "simulated" in row else one
        row["efficiency"] = round(beside / row["seconds"], 3)
        row["seconds"] = round(row["seconds"], 4)
        print(json.dumps(row), flush=True)
        if chosen.results:
            with chosen.results.open("a") as file:
                print(json.dumps(row), file=file)


if __name__ == "__main__":
    main()
