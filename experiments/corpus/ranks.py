#!/usr/bin/env python3
"""One document over ranks: bytes that each sends, seconds of two processes, and weak scaling to 1,024 ranks.

    python3 experiments/corpus/ranks.py MODEL --tokens 4096 --results docs/results/ranks.jsonl

MODEL has windows in every layer, and positions for three times the tokens (longformer convert … --max-positions). Each rank reads so
many tokens on one thread, so a document is as many times longer as there are ranks. Rows without "simulated" are measured: one
process alone, and two on two cores, joined by pipes. A machine should be idle.

Rows with "simulated" are no measurement. Their parts are: the seconds between two exchanges of a rank in the middle, measured in
passes whose neighbours answer at once, of which each rank and layer draws one; and a network of --latency and --bandwidth. A rank
begins a layer when its own and those of its two neighbours have ended and their rows have come. With global tokens every layer also
waits for the sums of all ranks, in 2·log2(ranks) steps.
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
            values[:] = values[self.rank]
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


def alone(folder, tokens, repeats):
    model = load(folder, None)
    return [end - began for began, end in (a_pass(model, tokens, 0) for _ in range(repeats + 1))][1:]


def layers(folder, tokens, globals_, repeats):
    """Seconds of each layer of a rank in the middle, bytes of a halo and of the largest sum, and what a pass sends."""
    ranks = Alone()
    model = load(folder, ranks)
    seconds, sent = [], []
    for _ in range(repeats + 1):
        ranks.times, before = [], model.bytes_sent
        began, end = a_pass(model, 3 * tokens, globals_)
        sent.append(model.bytes_sent - before)
        times = [began, *ranks.times, end]
        seconds.append([later - earlier for earlier, later in zip(times, times[1:])])
    return seconds[1:], ranks.halo, ranks.sums, sent[-1]


def member(rank, pipe, folder, tokens, globals_, repeats, out):
    model = load(folder, Pair(rank, pipe))
    times = [a_pass(model, 2 * tokens, globals_) for _ in range(repeats + 1)]
    if rank == 0:
        out.put([end - began for began, end in times[1:]])


def pair(folder, tokens, globals_, repeats):
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
    one = statistics.median(alone(folder, tokens, chosen.repeats))
    rows = [{"ranks": 1, "tokens": tokens, "seconds": one}]
    for globals_ in (0, chosen.globals):
        seconds, halo, summed, sent = layers(folder, tokens, globals_, chosen.repeats)
        twice = layers(folder, 2 * tokens // 3, globals_, 1)[3]
        row = {"globals": globals_, "halo_bytes": halo, "bytes_sent": sent, "bytes_sent_of_shorter": twice}
        real = statistics.median(pair(folder, tokens, globals_, chosen.repeats))
        rows.append({"ranks": 2, "tokens": 2 * tokens, **row, "seconds": real})
        for count in chosen.counts:
            found = simulated(count, seconds, halo, summed if globals_ else None, (chosen.latency, chosen.bandwidth))
            rows.append({"ranks": count, "tokens": count * tokens, **row, "seconds": found, "simulated": True})
    for row in rows:
        row["efficiency"] = round(one / row["seconds"], 3)
        row["seconds"] = round(row["seconds"], 4)
        print(json.dumps(row), flush=True)
        if chosen.results:
            with chosen.results.open("a") as file:
                print(json.dumps(row), file=file)


if __name__ == "__main__":
    main()
