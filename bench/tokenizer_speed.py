#!/usr/bin/env python3
"""Times our tokenizers against the `tokenizers` package, one thread each, alternating, over enwik8.

    python3 bench/tokenizer_speed.py --dump build/tests/tokenizer_dump [--data DIR] [--rounds 5]

The data is the folder of LONGFORMER_DATA (docs/data.md). Both sides return ids, offsets, type
ids and masks for the same documents; reading files and loading the tokenizer are not part of the
time. Prints the medians as JSON lines.
"""

import argparse
import json
import lzma
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "experiments"))
import data_sets  # noqa: E402

TEXT = "enwik8_head/enwik8.head4154064.xz"
VOCABULARIES = {
    "roberta": ["roberta_bpe/vocab.json", "roberta_bpe/merges.txt"],
    "bert-uncased": ["bert_vocab/bert-base-uncased-vocab.txt"],
    "bert-cased": ["bert_vocab/bert-base-cased-vocab.txt"],
}
PACKAGE = """
import sys, time
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
data = open(sys.argv[2], "rb").read()
texts, position = [], 0
while position < len(data):
    size = int.from_bytes(data[position:position + 4], "little")
    texts.append(data[position + 20:position + 20 + size].decode("utf-8", "replace"))
    position += 20 + size
for _ in range(int(sys.argv[3])):
    start = time.perf_counter()
    encodings = tokenizer.encode_batch(texts)
    seconds = time.perf_counter() - start
    print(seconds, sum(map(len, encodings)), flush=True)
"""
HERE = pathlib.Path(__file__).resolve().parent
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def package_json(name, data, target):
    """Saves the tokenizer in the form that both sides read."""
    # The folder of this file would hide the package of the same name.
    sys.path[:] = [path for path in sys.path if pathlib.Path(path).resolve() != HERE]
    from tokenizers import AddedToken, processors
    from tokenizers.implementations import BertWordPieceTokenizer, ByteLevelBPETokenizer

    if name == "roberta":
        files = data / "roberta_bpe"
        made = ByteLevelBPETokenizer(
            str(files / "vocab.json"), str(files / "merges.txt"), trim_offsets=True
        )
        made.add_special_tokens(
            ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)]
        )
        made._tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), True, False
        )
    elif name.startswith("unigram"):
        sys.path.append(str(HERE.parent / "tests" / "parity"))
        import unigram_cases

        build = getattr(unigram_cases, name.removeprefix("unigram-"))
        unigram_cases.saved(build, data, target)
        return target
    else:
        file = data / "bert_vocab" / f"bert-base-{name.removeprefix('bert-')}-vocab.txt"
        made = BertWordPieceTokenizer(str(file), lowercase=name == "bert-uncased")
    target.mkdir()
    made.save(str(target / "tokenizer.json"))
    return target


def documents(data, size):
    """enwik8 cut at line ends."""
    text = lzma.decompress((data / TEXT).read_bytes())
    start, parts = 0, []
    while start < len(text):
        end = text.find(b"\n", start + size)
        end = len(text) if end < 0 else end + 1
        parts.append(text[start:end])
        start = end
    return parts


def passes(command, environment=None):
    output = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    lines = [line.split() for line in output.stdout.splitlines()]
    return [float(line[0]) for line in lines], int(lines[-1][1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("LONGFORMER_DATA")
    parser.add_argument("--dump", required=True, help="the program tokenizer_dump")
    parser.add_argument("--data", type=pathlib.Path, default=default and pathlib.Path(default))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--document", type=int, default=10_000, help="bytes of a document")
    parser.add_argument(
        "--passes", type=int, default=2, help="passes of a round; the best one counts"
    )
    parser.add_argument(
        "--tokenizers",
        default="roberta,bert-uncased,bert-cased,unigram-xlm_roberta_words,unigram-albert",
        help="which; unigram ones (sentencepiece trains them) by their names in"
        " tests/parity/unigram_cases.py",
    )
    arguments = parser.parse_args()
    needed = [file for name in arguments.tokenizers.split(",") for file in VOCABULARIES.get(name, [])]
    data_sets.folder(TEXT, *needed, given=arguments.data)
    parts = documents(arguments.data, arguments.document)
    size = sum(map(len, parts))
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        records = scratch / "records"
        records.write_bytes(b"".join(struct.pack("<5i", len(p), -1, -1, 0, 1) + p for p in parts))
        for tokenizer in arguments.tokenizers.split(","):
            folder = package_json(tokenizer, arguments.data, scratch / tokenizer)
            ours, theirs = [], []
            count = str(arguments.passes)
            for _ in range(arguments.rounds):
                seconds, our_tokens = passes([arguments.dump, folder, records, "--time", count])
                ours.append(min(seconds))
                seconds, their_tokens = passes(
                    [sys.executable, "-c", PACKAGE, folder / "tokenizer.json", records, count],
                    ONE_THREAD,
                )
                theirs.append(min(seconds))
                assert our_tokens == their_tokens
            our_rate, their_rate = (size / statistics.median(s) / 1e6 for s in (ours, theirs))
            load = statistics.median(passes([arguments.dump, folder, "--load", "5"])[0])
            print(
                json.dumps(
                    {
                        "tokenizer": tokenizer,
                        "bytes": size,
                        "documents": len(parts),
                        "tokens": our_tokens,
                        "our_mb_per_second": round(our_rate, 1),
                        "package_mb_per_second": round(their_rate, 2),
                        "times_faster": round(our_rate / their_rate, 1),
                        "load_ms": round(load * 1e3, 1),
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
