"""Compares the verbs ner and qa with `transformers`.

    python3 tests/parity/span_parity.py PROGRAM

Folders and texts are those of pipeline_parity.py. `ner` runs against the token-classification
pipeline with every aggregation, with and without ignored labels; on documents longer than the model
against the same pipeline, fed with the logits of the segments that the documentation describes. `qa`
has no pipeline any more: its answers are decoded here, by trying every span, from the logits of the
model class, on one segment and on many. Exit code 1 when anything differs.
"""

import itertools
import random
import re
import sys
import tempfile
import types
import warnings

import numpy
import torch
import transformers
from pipeline_parity import MOST_TOKENS, Folder, Report, ours, texts, train_tokenizers

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "other"]
AGGREGATIONS = ("none", "simple", "first", "average", "max")
MOST_ANSWER_TOKENS = 12


def segments(tokens, capacity, stride):
    """(begin, end, owned begin, owned end) of segments that overlap by at least the stride."""
    if tokens <= capacity:
        return [(0, tokens, 0, tokens)]
    count = -(-(tokens - stride) // (capacity - stride))
    begins = [(tokens - capacity) * i // (count - 1) for i in range(count)]
    cuts = [(b + a + capacity) // 2 for a, b in itertools.pairwise(begins)]
    owned = itertools.pairwise([0, *cuts, tokens])
    return [(b, b + capacity, *o) for b, o in zip(begins, owned, strict=True)]


def shortened(folder, text, tokens):
    """The text up to a token."""
    offsets = folder.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return text[: offsets["offset_mapping"][:tokens][-1][1]]


def compare_entities(report, what, found, expected):
    name = "entity_group" if expected and "entity_group" in expected[0] else "entity"
    report.same(f"{what}: labels and characters",
                [(e["label"], e["begin"], e["end"]) for e in found],
                [(e[name], e["start"], e["end"]) for e in expected])  # fmt: skip
    report.close(f"{what}: scores", [e["score"] for e in found], [e["score"] for e in expected])


def compare_ner(report, program, folder, documents):
    pipe = folder.pipeline("token-classification")
    short = [shortened(folder, text, MOST_TOKENS - 2) for text in documents]
    for aggregation in AGGREGATIONS:
        for ignored in (["O"], ["PER", "B-PER", "other"]):
            rows = ours(program, folder.path, "ner", [{"text": t} for t in short], "--field", "text",
                        "--aggregation", aggregation, "--ignore-labels", ",".join(ignored))  # fmt: skip
            for row, text in zip(rows, short, strict=True):
                expected = pipe(text, aggregation_strategy=aggregation, ignore_labels=ignored)
                what = f"ner {folder.path.name}, {aggregation}"
                compare_entities(report, what, row["entities"], expected)
                for entity in row["entities"]:
                    substring = text[entity["begin"] : entity["end"]]
                    report.same("ner: text of an entity", entity["text"], substring)


def compare_long_ner(report, program, folder, documents, stride):
    """The pipeline sees one long document whose logits come from the segments that own the tokens."""
    pipe = folder.pipeline("token-classification")
    model, tokenizer = folder.model, folder.tokenizer
    first, last = tokenizer("a")["input_ids"][0], tokenizer("a")["input_ids"][-1]

    def forward(input_ids, **_):
        ids = input_ids[0, 1:-1].tolist()
        merged = torch.zeros(1, len(ids) + 2, len(LABELS))
        for begin, end, owned_begin, owned_end in segments(len(ids), MOST_TOKENS - 2, stride):
            logits = model(torch.tensor([[first, *ids[begin:end], last]])).logits
            merged[0, owned_begin + 1 : owned_end + 1] = logits[
                0, owned_begin - begin + 1 : owned_end - begin + 1
            ]
        return {"logits": merged}

    rows = ours(program, folder.path, "ner", [{"text": t} for t in documents], "--field", "text",
                "--aggregation", "average", "--stride", stride)  # fmt: skip
    for row, text in zip(rows, documents, strict=True):
        pipe.model = types.SimpleNamespace(
            config=model.config, device=model.device, dtype=model.dtype)  # fmt: skip
        pipe._forward = lambda inputs: {
            "special_tokens_mask": inputs.pop("special_tokens_mask"),
            "offset_mapping": inputs.pop("offset_mapping"),
            "sentence": inputs.pop("sentence"),
            "is_last": inputs.pop("is_last"),
            "logits": forward(inputs["input_ids"])["logits"],
            "input_ids": inputs["input_ids"],
        }
        expected = pipe(text, aggregation_strategy="average")
        what = f"ner {folder.path.name}, --stride {stride}"
        compare_entities(report, what, row["entities"], expected)


def question_logits(folder, question, context_ids):
    """Start and end logits of the tokens of a context, and of the first token of the input."""
    tokenizer = folder.tokenizer
    around = tokenizer(question, "a", return_token_type_ids=True)
    ids, types_ = around["input_ids"], around["token_type_ids"]
    place = max(i for i, s in enumerate(around.sequence_ids()) if s == 1)
    whole = ids[:place] + context_ids + ids[place + 1 :]
    kinds = types_[:place] + [types_[place]] * len(context_ids) + types_[place + 1 :]
    arguments = {"input_ids": torch.tensor([whole]), "token_type_ids": torch.tensor([kinds])}
    if type(folder.model).__name__.startswith("Longformer"):
        # By hand, for transformers refuses other templates than that of RoBERTa.
        separator = whole.index(folder.model.config.sep_token_id)
        mask = torch.zeros(1, len(whole), dtype=torch.long)
        mask[0, :separator] = 1
        arguments["global_attention_mask"] = mask
    with torch.inference_mode():
        out = folder.model(**arguments)
    start, end = out.start_logits[0].double().numpy(), out.end_logits[0].double().numpy()
    inside = slice(place, place + len(context_ids))
    return start[inside], end[inside], start[0] + end[0], (start[0], end[0])


def decode(folder, question, text, stride, top_k):
    """Answers [(score, begin, end)] and the score of none, by trying every span."""
    encoding = folder.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = encoding["input_ids"], encoding["offset_mapping"]
    capacity = MOST_TOKENS - len(folder.tokenizer(question, "a")["input_ids"]) + 1
    plan = segments(len(ids), capacity, stride)
    seen = [question_logits(folder, question, ids[begin:end]) for begin, end, _, _ in plan]
    none = min(seen, key=lambda one: one[2])[3]
    starts, ends = numpy.empty(len(ids)), numpy.empty(len(ids))
    for (begin, _, low, high), (start, end, _, _) in zip(plan, seen, strict=True):
        starts[low:high], ends[low:high] = start[low - begin : high - begin], end[low - begin : high - begin]
    total = sum(numpy.logaddexp.reduce([*values, first]) for values, first in
                zip((starts, ends), none, strict=True))  # fmt: skip
    spans = []
    for (begin, finish, low, high), (start, end, _, _) in zip(plan, seen, strict=True):
        for i in range(begin, finish):
            for j in range(i, min(i + MOST_ANSWER_TOKENS, finish)):
                if low <= (i + j) // 2 < high:
                    spans.append((start[i - begin] + end[j - begin], -i, -j))
    inside = [bool(b) and b < len(text) and bool(re.fullmatch(r"\w\w", text[b - 1 : b + 1])) and i > 0
              for i, (b, _) in enumerate(offsets)]  # fmt: skip
    answers, taken = [], []
    for logit, i, j in sorted(spans, reverse=True):
        i, j = -i, -j
        if len(answers) == top_k:
            break
        if any(i <= b and a <= j for a, b in taken):
            continue
        while inside[i]:
            i -= 1
        while j + 1 < len(ids) and inside[j + 1]:
            j += 1
        taken.append((i, j))
        answers.append((numpy.exp(logit - total), offsets[i][0], offsets[j][1]))
    return answers, numpy.exp(sum(none) - total)


def compare_qa(report, program, folder, documents, stride):
    draw = random.Random(11)
    asked = []
    for text in documents:
        words = text.split()
        begin = draw.randrange(len(words))
        asked.append({"question": " ".join(words[begin : begin + 7]) + "?", "context": text})
    if stride == 0:
        asked = [a | {"context": shortened(folder, a["context"], 400)} for a in asked]
    flags = ["--stride", stride] if stride else []
    rows = ours(program, folder.path, "qa", asked, "--field", "context", "--question-field", "question",
                "--top-k", 4, "--max-answer-tokens", MOST_ANSWER_TOKENS, *flags)  # fmt: skip
    what = f"qa {folder.path.name}" + (f", --stride {stride}" if stride else "")
    for row, one in zip(rows, asked, strict=True):
        answers, none = decode(folder, one["question"], one["context"], stride, 4)
        found = row["answers"]
        report.same(f"{what}: characters", [(a["begin"], a["end"]) for a in found],
                    [(begin, end) for _, begin, end in answers])  # fmt: skip
        # Relative: a probability over hundreds of tokens is small.
        report.close(f"{what}: log scores", numpy.log([a["score"] for a in found]),
                     numpy.log([score for score, _, _ in answers]))  # fmt: skip
        report.close(f"{what}: log score of none", [numpy.log(row["no_answer_score"])], [numpy.log(none)])
        for answer in found:
            substring = one["context"][answer["begin"] : answer["end"]]
            report.same("qa: text of an answer", answer["text"], substring)


def main():
    program = sys.argv[1]
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    report, documents = Report(), texts()[::2]
    with tempfile.TemporaryDirectory() as root:
        train_tokenizers(root)
        labels = dict(enumerate(LABELS))
        kinds = (("Longformer", "bytes"), ("Longformer", "pieces"), ("Bert", "pieces"),
                 ("Roberta", "bytes"))  # fmt: skip
        for model, kind in kinds:
            folder = Folder(root, f"{model} {kind} tags", f"{model}ForTokenClassification", kind,
                            id2label=labels)  # fmt: skip
            compare_ner(report, program, folder, documents)
            compare_long_ner(report, program, folder, documents, 64)
        for model, kind in kinds:
            folder = Folder(root, f"{model} {kind} answers", f"{model}ForQuestionAnswering", kind)
            compare_qa(report, program, folder, documents, 0)
            compare_qa(report, program, folder, documents, 48)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
