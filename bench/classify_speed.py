"""How near `longformer classify` comes to `longformer bench model` on real articles, and how soon it
answers. Needs transformers (the oracle environment) and the data sets in LONGFORMER_DATA.

    python3 bench/classify_speed.py [--articles 200] [--hidden 768] [--layers 12] [--program build/longformer]

A folder with random weights is written: LongformerForSequenceClassification of the given size, with
the vocabulary of RoBERTa. Articles of the hyperpartisan news set are classified in one run, --truncate
where they are longer than 4,096 tokens. `bench model` gives the seconds of a forward pass at some
lengths, between which time is interpolated; their sum over the articles is what the run is compared
with. Then the first answer: a document of 512 tokens, from a folder in the page cache, compared with
loading it (an answer for one token) plus the forward pass of 512 tokens.
"""

import argparse
import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "experiments"))
import data_sets  # noqa: E402

LENGTHS = (16, 64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096)
MOST_TOKENS = 4096
VOCABULARY = ("roberta_bpe/vocab.json", "roberta_bpe/merges.txt")
ARTICLES = "hyperpartisan/articles-training-byarticle-20181122.xml"


def make_folder(folder, hidden, layers):
    import shutil

    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.LongformerConfig(
        vocab_size=50265, hidden_size=hidden, num_hidden_layers=layers,
        num_attention_heads=hidden // 64, intermediate_size=4 * hidden,
        attention_window=[512] * layers, max_position_embeddings=MOST_TOKENS + 2,
        type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2, sep_token_id=2)  # fmt: skip
    transformers.LongformerForSequenceClassification(config).save_pretrained(folder)
    for name in VOCABULARY:
        shutil.copy(data_sets.file(name), folder)


def write_articles(folder, count):
    """Articles of the hyperpartisan set as text files."""
    xml = data_sets.file(ARTICLES).read_text()
    files = []
    for article in re.findall(r"<article .*?</article>", xml, re.DOTALL)[:count]:
        text = html.unescape(re.sub(r"<[^>]+>", " ", article))
        files.append(pathlib.Path(folder, f"{len(files):03}.txt"))
        files[-1].write_text(text)
    return files


def run(program, *arguments):
    """The JSON lines of a command, and the seconds it took."""
    begin = time.perf_counter()
    done = subprocess.run(
        [program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL, check=True)  # fmt: skip
    seconds = time.perf_counter() - begin
    return [json.loads(line) for line in done.stdout.splitlines()], seconds


def bench_seconds(program, folder, dtype):
    """Seconds of a forward pass at each of LENGTHS."""
    lengths = ",".join(map(str, LENGTHS))
    rows, _ = run(program, "bench", "model", folder, "-n", lengths, "-r", 3, "--global-tokens", 1,
                  "--dtype", dtype, "--json")  # fmt: skip
    return [row["seconds"] for row in rows]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--articles", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--program", default="build/longformer")
    parser.add_argument("--folder", help="keep the random folder here, and take it when it is there")
    options = parser.parse_args()
    data_sets.folder(*VOCABULARY, ARTICLES)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.folder or pathlib.Path(temporary, "model"))
        if not folder.exists():
            make_folder(folder, options.hidden, options.layers)
        measure(options, folder, temporary)


def measure(options, folder, temporary):
    files = write_articles(temporary, options.articles)
    more = [] if options.batch_tokens is None else ["--batch-tokens", options.batch_tokens]
    flags = ["--json", "--dtype", options.dtype, *more]
    forward = bench_seconds(options.program, folder, options.dtype)
    one = files[0].with_name("one.txt")
    one.write_text("a")
    start = min(run(options.program, "classify", folder, one, *flags)[1] for _ in range(3))
    rows, seconds = run(options.program, "classify", folder, *files, "--truncate", *flags)
    tokens = numpy.array([row["tokens"] - row["truncated"] for row in rows])
    expected = float(numpy.interp(tokens, LENGTHS, forward).sum())
    print(f"{len(rows)} articles, {tokens.sum():,} tokens, median {numpy.median(tokens):.0f}")
    print(f"bench model, sum over the articles   {expected:8.3f} s  {tokens.sum() / expected:8.0f} tokens/s")
    inner = seconds - start
    print(f"classify, without start and loading  {inner:8.3f} s  {tokens.sum() / inner:8.0f} tokens/s")
    print(f"fraction of bench                    {expected / inner:8.3f}")
    one.write_text(" a" * (512 - 2))
    first = min(run(options.program, "classify", folder, one, *flags)[1] for _ in range(3))
    compute = float(numpy.interp(512, LENGTHS, forward))
    print(f"start and load, answer for one token {start:8.3f} s")
    print(f"first answer, 512 tokens             {first:8.3f} s")
    print(f"over load and compute                {first / (start + compute):8.3f}")


if __name__ == "__main__":
    main()
