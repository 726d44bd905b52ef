"""Compares rerankers with sentence-transformers' CrossEncoder.

    python3 tests/parity/rerank_parity.py PROGRAM

Folders with random weights and vocabularies trained on the novels of examples/novels are saved by the package: BERT, RoBERTa,
XLM-RoBERTa, Longformer and ModernBERT, with sigmoid and identity. The verb `rerank` gives scores and order of
CrossEncoder.predict and rank for short texts, and with --truncate for long ones. Then `finetune --task rerank` trains a
folder on pairs, on grades and on lists, and CrossEncoder gives texts the scores that the program gives them. Exit code 1 when anything differs.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
import transformers
from pipeline_parity import MOST_TOKENS, SIZES, Report, novels, train_tokenizers
from sentence_transformers import CrossEncoder

TOLERANCE = 1e-5
KINDS = {"Bert": "pieces", "Roberta": "bytes", "XLMRoberta": "bytes", "Longformer": "bytes", "ModernBert": "bytes"}
OPTIONS = {"Longformer": {"attention_window": [32, 32], "sep_token_id": 2}, "ModernBert": {"local_attention": 32, "sep_token_id": 2, "cls_token_id": 0}}


def drawn_folder(root, name, kind, identity):
    """A cross-encoder with random weights as the package saves it."""
    plain, saved = pathlib.Path(root, f"{name}-plain"), pathlib.Path(root, f"{name}-{identity}")
    pad = 1 if kind == "bytes" else 0
    model_class = getattr(transformers, f"{name}ForSequenceClassification")
    torch.manual_seed(len(name))
    config = model_class.config_class(
        **SIZES, **OPTIONS.get(name, {}), vocab_size=3000, pad_token_id=pad, num_labels=1,
        max_position_embeddings=MOST_TOKENS + (0 if name in ("Bert", "ModernBert") else pad + 1))  # fmt: skip
    model = model_class(config).eval()
    with torch.no_grad():
        for name_, parameter in model.named_parameters():
            parameter.normal_(0.0, 0.1)
            if "norm.weight" in name_.lower():
                parameter.add_(1.0)
    model.save_pretrained(plain)
    for file in pathlib.Path(root, kind).iterdir():
        (plain / file.name).write_bytes(file.read_bytes())
    tokenizer_class = transformers.RobertaTokenizerFast if kind == "bytes" else transformers.BertTokenizerFast
    tokenizer_class.from_pretrained(plain, model_max_length=MOST_TOKENS).save_pretrained(plain)
    activation = torch.nn.Identity() if identity else None
    CrossEncoder(str(plain), device="cpu", activation_fn=activation).save_pretrained(str(saved), create_model_card=False)
    return saved


def questions_and_texts():
    draw = random.Random(7)

    def piece(length):
        novel = draw.choice(novels())
        begin = draw.randrange(len(novel) - length)
        return novel[begin : begin + length]

    return [(piece(60), [piece(draw.choice((20, 200, 900, 4000))) for _ in range(12)]) for _ in range(3)]


def ours(program, folder, query, texts, *flags):
    lines = "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))
    command = [program, "rerank", folder, query, "--field", "text", "--json", "--truncate", *flags]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(report, program, folder, what):
    theirs = CrossEncoder(str(folder), device="cpu")
    for query, texts in questions_and_texts():
        rows = ours(program, folder, query, texts)
        found = {row["id"]: row["score"] for row in rows}
        report.close(f"{what}: scores", [found[i] for i in range(len(texts))], theirs.predict([[query, text] for text in texts]))
        ranked = theirs.rank(query, texts)
        gaps = numpy.diff([one["score"] for one in ranked])
        if numpy.abs(gaps).min() > TOLERANCE:
            report.same(f"{what}: order", [row["id"] for row in rows], [one["corpus_id"] for one in ranked])
        logits = theirs.predict([[query, text] for text in texts], activation_fn=torch.nn.Identity())
        raw = {row["id"]: row["score"] for row in ours(program, folder, query, texts, "--raw-scores")}
        report.close(f"{what}: logits", [raw[i] for i in range(len(texts))], logits)


def train(program, folder, root, form):
    """A folder that `finetune` trained on records of one form."""
    rows = []
    for query, texts in questions_and_texts():
        if form == "lists":
            rows.append({"query": query, "positive": texts[0], "negatives": texts[1:4]})
        else:
            rows += [{"query": query, "text": text, "label": (i % 4) / 3 if form == "grades" else i % 2} for i, text in enumerate(texts[:4])]
    data = pathlib.Path(root, f"{form}.jsonl")
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    target = pathlib.Path(root, f"trained-{form}")
    subprocess.run([program, "finetune", folder, data, "--task", "rerank", "--output-dir", target, "--max-steps", "3", "--learning-rate", "1e-3",
                    "--truncate"], check=True, capture_output=True)  # fmt: skip
    return target


def main():
    program = sys.argv[1]
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    report = Report(TOLERANCE)
    with tempfile.TemporaryDirectory() as root:
        train_tokenizers(root)
        for name, kind in KINDS.items():
            for identity in (False, True):
                folder = drawn_folder(root, name, kind, identity)
                compare(report, program, folder, f"{name}, {'identity' if identity else 'sigmoid'}")
        for form in ("pairs", "grades", "lists"):
            compare(report, program, train(program, pathlib.Path(root, "Bert-plain"), root, form), f"finetune on {form}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
