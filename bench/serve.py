"""Short requests beside a book, and many at once, against `longformer serve`.

    python3 bench/serve.py MODEL [--words 60000] [--dtype fp32] [--seconds 20]
    python3 bench/serve.py MODEL --load 0.9 --seconds 300

Bars, with L the seconds of one layer at the longest row and q the idle median of a short request: short
requests beside a book have a median of at most L/2 + 4q and a 99th percentile of at most 1.5 L + 8q; the book
takes at most 1.5 times what it takes alone; vectors are those alone within 1e-5; 32 clients of 200 tokens
get at least 0.8 of the tokens/s of `longformer bench model -n 256`; HTTP adds at most 1.5 ms.

With --load requests come at random times, so many that they take this share of the machine: 95 % of 5 to 200
tokens, 4.9 % of 500 to 4,000, 0.1 % of 30,000 to 100,000. The server answers them in its own order, and then,
with --by-arrival, as a server with one queue and batches of 16,384 tokens does.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

BINARY = os.environ.get("LONGFORMER_BINARY", "build/longformer")
WORDS = "the old house stood near a river and nobody knew who had lived there before the war came".split()


def text_of(words, seed=0):
    return " ".join(WORDS[(i * 7 + seed) % len(WORDS)] for i in range(words))


class Server:
    def __init__(self, model, dtype, *flags):
        self.process = subprocess.Popen(
            [BINARY, "serve", model, "--port", "0", "--dtype", dtype, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        begin = time.monotonic()
        self.address = re.match(r"listening on (\S+)", self.process.stdout.readline()).group(1)
        self.start_seconds = time.monotonic() - begin

    def post(self, path, body):
        request = urllib.request.Request(
            self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        begin = time.perf_counter()
        with urllib.request.urlopen(request, timeout=3600) as answer:
            result = json.load(answer)
        return time.perf_counter() - begin, result

    def get(self, path):
        with urllib.request.urlopen(self.address + path) as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def distance(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def beside_a_book(server, book, short):
    alone = [server.post("/embed", {"inputs": short})[0] for _ in range(30)]
    quiet = server.post("/embed", {"inputs": short})[1][0]
    book_seconds, book_vector = server.post("/embed", {"inputs": book})
    result = {}

    def read_book():
        result["book"] = server.post("/embed", {"inputs": book})

    reader = threading.Thread(target=read_book)
    reader.start()
    time.sleep(0.3)
    times, vectors = [], []
    while reader.is_alive():
        seconds, vector = server.post("/embed", {"inputs": short})
        times.append(seconds)
        vectors.append(vector[0])
        time.sleep(0.02)
    reader.join()
    if not times:
        sys.exit("error: the book was over before a short request came: give more --words")
    return {
        "q": statistics.median(alone),
        "short p50": statistics.median(times),
        "short p99": percentile(times, 0.99),
        "short requests": len(times),
        "book alone": book_seconds,
        "book beside": result["book"][0],
        "difference": max(distance(result["book"][1][0], book_vector[0]), *(distance(v, quiet) for v in vectors)),
    }


def many(server, clients, words, seconds):
    body = {"inputs": text_of(words)}
    tokens = len(server.post("/tokenize", body)[1][0])
    times, end = [[] for _ in range(clients)], time.monotonic() + seconds

    def ask(number):
        while time.monotonic() < end:
            times[number].append(server.post("/embed", {"inputs": text_of(words, number)})[0])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [time for own in times for time in own]
    return f"{len(every) * tokens / seconds:.0f} tokens/s, p50 {statistics.median(every):.4f}, p99 {percentile(every, 0.99):.4f}"


SIZES = (("short", 0.95, 5, 200), ("page", 0.049, 500, 4000), ("book", 0.001, 30000, 100000))


def drawn_requests(rate, seconds, seed=0):
    """(second, kind, tokens), the same for every server."""
    draw, now, requests = random.Random(seed), 0.0, []
    while True:
        now += draw.expovariate(rate)
        if now > seconds:
            return requests
        kind, _, least, most = draw.choices(SIZES, [size[1] for size in SIZES])[0]
        requests.append((now, kind, draw.randint(least, most)))


def rate_of(server, load):
    """Requests per second that take this share of the machine."""
    server.post("/embed", {"inputs": text_of(4000)})
    seconds = {n: min(server.post("/embed", {"inputs": text_of(n)})[0] for _ in range(5)) for n in (100, 4000)}
    per_token = (seconds[4000] - seconds[100]) / 3900
    fixed = max(0.0, seconds[100] - 100 * per_token)
    mean = sum(share * (least + most) / 2 for _, share, least, most in SIZES)
    return load / (fixed + per_token * mean)


def under_load(model, dtype, flags, requests):
    """Seconds of each request by kind; none of them is refused."""
    server = Server(model, dtype, "--max-wait", "100000", "--max-concurrent-requests", "100000", *flags)
    times = {kind: [] for kind, *_ in SIZES}

    def ask(kind, tokens):
        times[kind].append(server.post("/embed", {"inputs": text_of(tokens)})[0])

    begin, threads = time.monotonic(), []
    try:
        for second, kind, tokens in requests:
            time.sleep(max(0.0, begin + second - time.monotonic()))
            threads.append(threading.Thread(target=ask, args=(kind, tokens)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return times, time.monotonic() - begin
    finally:
        server.stop()


def compare_orders(options):
    server = Server(options.model, options.dtype)
    try:
        rate = rate_of(server, options.load)
    finally:
        server.stop()
    requests = drawn_requests(rate, options.seconds)
    print(f"load {options.load}: {rate:.1f} requests/s, {len(requests)} in {options.seconds:.0f} s")
    print(f"{'order':12} " + " ".join(f"{kind + ' p50':>10} {kind + ' p99':>10}" for kind, *_ in SIZES) + "      ended")
    for name, flags in (("by arrival", ["--by-arrival"]), ("shortest", [])):
        times, seconds = under_load(options.model, options.dtype, flags, requests)
        cells = []
        for kind, *_ in SIZES:
            own = times[kind] or [float("nan")]
            cells.append(f"{statistics.median(own):10.3f} {percentile(own, 0.99):10.3f}")
        print(f"{name:12} " + " ".join(cells) + f" {seconds:10.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--words", type=int, default=60000)
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32], help="so many at once, of 200 tokens each")
    parser.add_argument("--load", type=float, help="requests of all sizes at random times, of this share of the machine")
    options = parser.parse_args()
    if options.load is not None:
        return compare_orders(options)
    server = Server(options.model, options.dtype)
    print(f"start {server.start_seconds:.2f} s")
    try:
        found = beside_a_book(server, text_of(options.words), text_of(12))
        for name, value in found.items():
            print(f"{name:16} {value:.6g}")
        for clients in options.clients:
            print(f"{f'{clients} clients':16} {many(server, clients, 170, options.seconds)}", flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
