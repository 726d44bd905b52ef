"""Compares the verbs classify, choose and fill-mask with the pipelines of `transformers`.

    python3 tests/parity/pipeline_parity.py PROGRAM

Folders with random weights are written by `transformers`, with vocabularies trained on the novels of
examples/novels, whose passages are also the texts; with LONGFORMER_DATA set news articles are added.
The text-classification pipeline runs with every problem type, function_to_apply and top_k; fill-mask
with several masks in one text; multiple choice, which has no pipeline, through the model class. Long
documents and chosen global tokens are compared with the model class on the segments and masks that
the documentation describes. Exit code 1 when anything differs.
"""

import collections
import html
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

import numpy
import tokenizers
import torch
import transformers

TOLERANCE = 1e-4
ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = dict(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
)
MOST_TOKENS = 512
WINDOW = 32


class Report:
    def __init__(self, tolerance=TOLERANCE):
        self.tolerance = tolerance
        self.largest = collections.defaultdict(float)
        self.count = collections.Counter()
        self.failures = []

    def close(self, what, found, expected):
        found, expected = numpy.asarray(found, float), numpy.asarray(expected, float)
        self.count[what] += found.size
        if found.shape != expected.shape:
            self.failures.append(f"{what}: {found.shape} numbers, expected {expected.shape}")
            return
        difference = float(numpy.abs(found - expected).max(initial=0.0))
        # Written so that a NaN is kept and fails.
        if not difference <= self.largest[what]:
            self.largest[what] = difference
        if not difference <= self.tolerance:
            self.failures.append(f"{what}: differ by {difference:.3g}")

    def same(self, what, found, expected):
        self.count[what] += 1
        if found != expected:
            self.failures.append(f"{what}: found {found}, expected {expected}")

    def finish(self):
        print("| what | compared | largest difference |\n|---|---|---|")
        for what, count in self.count.items():
            cell = f"{self.largest[what]:.1e}" if what in self.largest else "equal"
            print(f"| {what} | {count} | {cell} |")
        for failure in self.failures[:40]:
            print("FAIL", failure)
        total = sum(self.count.values())
        print(f"transformers {transformers.__version__}: {total} comparisons, {len(self.failures)} failures")
        return 1 if self.failures or not total else 0


def novels():
    return [file.read_text() for file in sorted((ROOT / "examples" / "novels").glob("*.txt"))]


def texts():
    """Passages of novels from a line to far more than the models take, and news articles."""
    draw = random.Random(5)
    found = ["It was late."]
    for novel in novels():
        for length in (60, 1500, 9000):
            begin = draw.randrange(len(novel) - length)
            found.append(novel[begin : begin + length])
    if os.environ.get("LONGFORMER_DATA"):
        name = "hyperpartisan/articles-training-byarticle-20181122.xml"
        xml = pathlib.Path(os.environ["LONGFORMER_DATA"], name).read_text()
        articles = re.findall(r"<article .*?</article>", xml, re.DOTALL)[:4]
        found += [html.unescape(re.sub(r"<[^>]+>", " ", article)) for article in articles]
    return found


def train_tokenizers(folder):
    """Files of a WordPiece and of a byte-level BPE tokenizer, trained on the novels."""
    for name in ("pieces", "bytes"):
        pathlib.Path(folder, name).mkdir()
    pieces = tokenizers.BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(novels(), vocab_size=3000, show_progress=False)
    pieces.save_model(str(pathlib.Path(folder, "pieces")))
    encoding = tokenizers.ByteLevelBPETokenizer()
    encoding.train_from_iterator(
        novels(), vocab_size=3000, show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])  # fmt: skip
    encoding.save_model(str(pathlib.Path(folder, "bytes")))


class Folder:
    """A model of random weights with its tokenizer, on disk and in transformers."""

    def __init__(self, root, name, class_name, kind, **config):
        self.path = pathlib.Path(root, name)
        self.kind = kind
        bert = class_name.startswith("Bert")
        separator = 2 if kind == "bytes" else 3
        pad = 1 if kind == "bytes" else 0
        if class_name.startswith("Longformer"):
            config |= {"attention_window": [WINDOW] * 2, "sep_token_id": separator}
        model_class = getattr(transformers, class_name)
        torch.manual_seed(len(name))
        self.model = model_class(
            model_class.config_class(
                **SIZES, **config, vocab_size=3000, pad_token_id=pad,
                max_position_embeddings=MOST_TOKENS + (0 if bert else pad + 1))
        ).eval()  # fmt: skip
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.normal_(0.0, 0.15)
            for name_, parameter in self.model.named_parameters():
                if "norm.weight" in name_.lower():
                    parameter.add_(1.0)
        self.model.save_pretrained(self.path)
        for file in pathlib.Path(root, kind).iterdir():
            (self.path / file.name).write_bytes(file.read_bytes())
        tokenizer_class = "RobertaTokenizer" if kind == "bytes" else "BertTokenizer"
        (self.path / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": tokenizer_class, "do_lower_case": True})
        )
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.path)
        self.tokenizer.save_pretrained(self.path)

    def pipeline(self, task):
        return transformers.pipeline(task, model=self.model, tokenizer=self.tokenizer, device="cpu")


def ours(program, folder, verb, objects, *flags):
    """The JSON rows of a verb for JSON lines; every one of them must be answered, under its id."""
    lines = "".join(json.dumps({"id": i, **one}) + "\n" for i, one in enumerate(objects))
    done = subprocess.run(
        [program, verb, str(folder), "--json", *map(str, flags)], input=lines.encode(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or [row["id"] for row in rows] != list(range(len(objects))):
        raise RuntimeError(f"{verb} {folder.name} {flags}: {done.stderr.decode()[:500]}")
    return rows


def classify(program, folder, documents, *flags):
    objects = [{"text": text} for text in documents]
    rows = ours(program, folder.path, "classify", objects, "--field", "text", *flags)
    return [row["labels"] for row in rows]


def compare_labels(report, what, found, expected):
    report.same(f"{what}: labels", [one["label"] for one in found], [e["label"] for e in expected])
    report.close(f"{what}: scores", [one["score"] for one in found], [e["score"] for e in expected])


def compare_classify(report, program, folder, documents):
    """Every function and number of classes of the pipeline, on documents cut to the model."""
    pipe = folder.pipeline("text-classification")
    cut = {"truncation": True, "max_length": MOST_TOKENS}
    for function, top_k in ((None, None), (None, 1), ("softmax", 2), ("sigmoid", None), ("none", 1)):
        settings = {"top_k": top_k, **({} if function is None else {"function_to_apply": function})}
        expected = pipe(documents, **settings, **cut)
        flags = ["--truncate", "--top-k", top_k or 0]
        flags += [] if function is None else ["--function-to-apply", function]
        found = classify(program, folder, documents, *flags)
        what = f"{type(folder.model).__name__}, {folder.model.config.problem_type or 'no type'}"
        for a, b in zip(found, expected, strict=True):
            compare_labels(report, what, a, b)


def logits(folder, ids, global_mask=None):
    arguments = {"input_ids": torch.tensor([ids])}
    if global_mask is not None:
        arguments["global_attention_mask"] = torch.tensor([global_mask])
    with torch.inference_mode():
        return folder.model(**arguments).logits[0].numpy()


def compare_globals(report, program, folder, documents):
    rule = "cls,every:50,3-7,300"
    found = classify(program, folder, documents, "--truncate", "--top-k", 0,
                     "--function-to-apply", "none", "--global-attention", rule)  # fmt: skip
    for labels, text in zip(found, documents, strict=True):
        ids = folder.tokenizer(text, truncation=True, max_length=MOST_TOKENS)["input_ids"]
        mask = [int(i % 50 == 0 or 3 <= i <= 7 or i == 300) for i in range(len(ids))]
        by_name = {one["label"]: one["score"] for one in labels}
        names = folder.model.config.id2label
        expected = logits(folder, ids, mask)
        report.close(f"--global-attention {rule}: logits", [by_name[names[i]] for i in names], expected)


def compare_segments(report, program, folder, documents, stride, merge):
    """Segments of the full length, spread evenly, that overlap by at least the stride."""
    found = classify(program, folder, documents, "--stride", stride, "--merge", merge,
                     "--top-k", 0, "--function-to-apply", "none")  # fmt: skip
    capacity, step = MOST_TOKENS - 2, MOST_TOKENS - 2 - stride
    first, last = folder.tokenizer("a")["input_ids"][0], folder.tokenizer("a")["input_ids"][-1]
    for labels, text in zip(found, documents, strict=True):
        ids = folder.tokenizer(text, add_special_tokens=False)["input_ids"]
        count = 1 if len(ids) <= capacity else -(-(len(ids) - stride) // step)
        begins = [(len(ids) - capacity) * i // (count - 1) if count > 1 else 0 for i in range(count)]
        rows = [logits(folder, [first, *ids[b : b + capacity], last]) for b in begins]
        expected = numpy.mean(rows, 0) if merge == "mean" else numpy.max(rows, 0)
        by_name = {one["label"]: one["score"] for one in labels}
        names = folder.model.config.id2label
        what = f"{type(folder.model).__name__}, --stride {stride} --merge {merge}: logits"
        report.close(what, [by_name[names[i]] for i in names], expected)


def compare_fill_mask(report, program, folder, documents):
    pipe = folder.pipeline("fill-mask")
    draw = random.Random(9)
    masked = []
    for text in documents:
        words = text.split()[:150]
        for _ in range(draw.choice((1, 2, 3, 5))):
            words[draw.randrange(len(words))] = folder.tokenizer.mask_token
        masked.append(" ".join(words))
    rows = ours(program, folder.path, "fill-mask", [{"text": m} for m in masked], "--field", "text",
                "--top-k", 7)  # fmt: skip
    name = type(folder.model).__name__
    for row, text in zip(rows, masked, strict=True):
        expected = pipe(text, top_k=7)
        expected = [expected] if isinstance(expected[0], dict) else expected
        report.same(f"{name}: masks", len(row["masks"]), len(expected))
        for mask, candidates in zip(row["masks"], expected, strict=True):
            found = mask["candidates"]
            report.same(f"{name}: tokens", [c["id"] for c in found], [c["token"] for c in candidates])
            report.same(f"{name}: texts", [c["text"] for c in found], [c["token_str"] for c in candidates])
            report.close(f"{name}: probabilities", [c["probability"] for c in found],
                         [c["score"] for c in candidates])  # fmt: skip


def draw_questions(documents):
    """Contexts, questions and choices of real text; one in three without context."""
    draw = random.Random(3)
    questions = []
    for i, text in enumerate(documents):
        words = text.split()

        def phrase(words=words):
            begin = draw.randrange(len(words))
            return " ".join(words[begin : begin + 8])

        one = {"question": phrase(), "choices": [phrase() for _ in range(draw.choice((1, 2, 4)))]}
        questions.append(one | ({"context": text} if i % 3 else {}))
    return questions


def compare_choose(report, program, folder, documents):
    questions = draw_questions(documents)
    rows = ours(program, folder.path, "choose", questions, "--truncate")
    doubled = len(folder.tokenizer("a", "a")["input_ids"]) == 6
    name = type(folder.model).__name__
    for row, one in zip(rows, questions, strict=True):
        first = one.get("context", one["question"])
        second = [f"{one['question']} {c}" if "context" in one else c for c in one["choices"]]
        batch = folder.tokenizer(
            [first] * len(second), second, truncation="only_first", max_length=MOST_TOKENS,
            padding=True, return_tensors="pt")  # fmt: skip
        batch = {key: value[None] for key, value in batch.items()}
        if name.startswith("Longformer") and not doubled:
            # transformers insists on three separators: by hand, what stands behind the first.
            separators = (batch["input_ids"] == folder.model.config.sep_token_id).cumsum(-1)
            shifted = torch.nn.functional.pad(separators, (1, -1))
            batch["global_attention_mask"] = (shifted > 0).long()
        with torch.inference_mode():
            expected = folder.model(**batch).logits[0]
        report.close(f"{name}, {folder.kind}: logits", row["logits"], expected.numpy())
        probabilities = expected.softmax(-1).numpy()
        report.close(f"{name}, {folder.kind}: probabilities", row["probabilities"], probabilities)
        report.same(f"{name}, {folder.kind}: choice", row["choice"], one["choices"][expected.argmax()])


def main():
    program = sys.argv[1]
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # The models are tiny: more threads than one only wait for each other.
    torch.set_num_threads(1)
    report, documents = Report(), texts()
    with tempfile.TemporaryDirectory() as root:
        train_tokenizers(root)
        # Class, tokenizer, labels, problem type.
        classifiers = (
            ("Longformer", "bytes", 3, None),
            ("Longformer", "pieces", 2, "single_label_classification"),
            ("Longformer", "bytes", 5, "multi_label_classification"),
            ("Longformer", "bytes", 1, "regression"),
            ("Longformer", "bytes", 1, None),
            ("Bert", "pieces", 4, None),
            ("Roberta", "bytes", 3, "regression"),
        )
        for i, (model, kind, count, problem) in enumerate(classifiers):
            names = {n: f"class {n}" for n in range(count)}
            folder = Folder(root, f"classifier{i}", f"{model}ForSequenceClassification", kind,
                            problem_type=problem, id2label=names)  # fmt: skip
            compare_classify(report, program, folder, documents)
            if i in (0, 5):
                compare_segments(report, program, folder, documents, 64, "mean")
                compare_segments(report, program, folder, documents, 0, "max")
            if i == 0:
                compare_globals(report, program, folder, documents)
        for model, kind in (("Longformer", "bytes"), ("Bert", "pieces"), ("Roberta", "bytes")):
            folder = Folder(root, f"{model}-mlm", f"{model}ForMaskedLM", kind)
            compare_fill_mask(report, program, folder, documents)
        for model, kind in (("Longformer", "bytes"), ("Longformer", "pieces"), ("Bert", "pieces"),
                            ("Roberta", "bytes")):  # fmt: skip
            folder = Folder(root, f"{model}-{kind}-choice", f"{model}ForMultipleChoice", kind)
            compare_choose(report, program, folder, documents)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
