"""Properties of any Longformer, checked on random models without another implementation.

    python3 tests/parity/property_parity.py [--count 12] [--seed 1]

Masked tokens at the end change no other row; documents of a batch do not see each other; a token
changes exactly the rows within layers · window / 2 · dilation of it, or all of them when it is
global; where the global projections equal the local ones and the window covers everything, no choice
of global tokens changes anything; and windows beyond the document are all alike.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile

import numpy
import random_models
import transformers
from random_models import Document
from safetensors.torch import load_file, save_file

TOLERANCE = 1e-4
# The same arithmetic on other rows of a batch.
BATCH_TOLERANCE = 1e-5
# A receptive field shows where a change is seen at all.
SEEN, UNSEEN = 1e-3, 1e-5


class Failures(list):
    def expect(self, condition, message):
        if not condition:
            self.append(message)


def last(model, documents):
    out = model(**random_models.ragged(documents))
    return [numpy.asarray(rows, numpy.float64) for rows in out.last_hidden_state]


def difference(a, b):
    return float(numpy.abs(a - b).max(initial=0.0))


def plain_case(index, decks):
    """A model with sharp attention, so that one key more or less shows."""
    case = random_models.draw_case(index, decks, beyond_transformers=True)
    case.gains_around_one, case.storage, case.plain_config = True, "float32", False
    case.config["max_position_embeddings"] = 600
    return case


def random_document(random, case, n):
    ids = random.integers(3, case.config["vocab_size"], n)
    return Document(ids, numpy.ones(n, numpy.int64), None, None, numpy.zeros(n, numpy.int64))


def check_masked_tail(failures, model, case, random):
    short = random_document(random, case, int(random.integers(1, 200)))
    short.global_attention_mask[random.integers(len(short.ids))] = 1
    tail = random_document(random, case, int(random.integers(1, 200)))
    longer = Document(
        numpy.concatenate([short.ids, tail.ids]),
        numpy.concatenate([short.attention_mask, 0 * tail.ids]),
        None,
        None,
        numpy.concatenate([short.global_attention_mask, tail.ids % 2]),
    )
    found = difference(last(model, [longer])[0][: len(short.ids)], last(model, [short])[0])
    failures.expect(
        found <= BATCH_TOLERANCE, f"masked tokens at the end changed others by {found:.2g}"
    )


def check_batch_order(failures, model, case, random):
    documents = [random_document(random, case, int(n)) for n in random.integers(1, 150, 4)]
    for count, document in enumerate(documents):
        document.global_attention_mask[random.permutation(len(document.ids))[: 3 * count]] = 1
    order = random.permutation(len(documents))
    forwards, shuffled = last(model, documents), last(model, [documents[i] for i in order])
    found = max(difference(shuffled[place], forwards[i]) for place, i in enumerate(order))
    failures.expect(
        found <= BATCH_TOLERANCE, f"the order of a batch changed documents by {found:.2g}"
    )


def dilation_of_layers(config):
    """The widest dilation of each layer's heads."""
    dilation = config.get("attention_dilation", 1)
    layers = [dilation] * config["num_hidden_layers"] if isinstance(dilation, int) else dilation
    return [numpy.max(heads) for heads in layers]


def check_receptive_field(failures, model, case, random):
    dilation = dilation_of_layers(case.config)
    reach = sum(w // 2 * d for w, d in zip(case.config["attention_window"], dilation))
    n = 2 * reach + 90
    if n + 2 > case.config["max_position_embeddings"]:
        return
    document = random_document(random, case, n)
    at = reach + int(random.integers(20, 60))
    other = dataclasses.replace(document, ids=document.ids.copy())
    other.ids[at] = 3 + (other.ids[at] - 2) % (case.config["vocab_size"] - 3)
    before, after = last(model, [document, other])
    moved = numpy.abs(after - before).max(axis=1)
    seen = numpy.abs(numpy.arange(n) - at) <= reach
    failures.expect(
        (moved[~seen] <= UNSEEN).all(),
        f"a token changed rows outside of {reach} of it by {moved[~seen].max():.2g}",
    )
    # One layer attends to its outermost key with a weight that always shows; several may dilute it.
    if len(case.config["attention_window"]) == 1:
        edges = moved[[at - reach, at + reach]]
        failures.expect(
            (edges > SEEN / reach).all(), f"a token did not reach rows {reach} away: {edges}"
        )
    marked = dataclasses.replace(
        document, global_attention_mask=(numpy.arange(n) == at).astype(int)
    )
    other_marked = dataclasses.replace(other, global_attention_mask=marked.global_attention_mask)
    before, after = last(model, [marked, other_marked])
    failures.expect(
        (numpy.abs(after - before).max(axis=1) > 0).all(), "a global token did not reach every row"
    )


def check_equal_projections(failures, engine, folder, case, random):
    """Global and local projections alike, a window over everything: globals do not matter."""
    n = int(random.integers(2, 180))
    folder = pathlib.Path(folder)
    tensors = load_file(folder / "model.safetensors")
    for name in [k for k in tensors if "_global." in k]:
        tensors[name] = tensors[name.replace("_global.", ".")].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config.pop("attention_dilation", None)
    results = []
    document = random_document(random, case, n)
    document.attention_mask[1 + random.permutation(n - 1)[: n // 4]] = 0
    seen = document.seen()
    for window in (2 * (n - 1), 2 * n + 64, 1 << 20):
        config["attention_window"] = [window] * config["num_hidden_layers"]
        (folder / "config.json").write_text(json.dumps(config))
        model = engine.load(str(folder))
        for count in (0, 1, n // 2, n):
            mask = numpy.zeros(n, numpy.int64)
            mask[random.permutation(n)[:count]] = 1
            results.append(
                last(model, [dataclasses.replace(document, global_attention_mask=mask)])[0][seen]
            )
    found = max(difference(result, results[0]) for result in results)
    failures.expect(
        found <= TOLERANCE, f"with equal projections the global tokens changed rows by {found:.2g}"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    import longformer_cpp as engine

    decks = random_models.Decks(options.seed)
    failed = 0
    for index in range(options.count):
        case, failures = plain_case(index, decks), Failures()
        with tempfile.TemporaryDirectory() as folder:
            random_models.build(case, folder, options.seed * 100_003 + index)
            model = engine.load(folder)
            check_masked_tail(failures, model, case, decks.random)
            check_batch_order(failures, model, case, decks.random)
            check_receptive_field(failures, model, case, decks.random)
            check_equal_projections(failures, engine, folder, case, decks.random)
        for failure in failures:
            print(f"FAIL model {index}, windows {case.config['attention_window']}: {failure}")
        failed += len(failures)
    print(f"{options.count} random models, 4 properties each: {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
