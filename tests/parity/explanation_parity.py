"""Compares `longformer classify --explain` with PyTorch autograd on `transformers`, in one live run.

    python3 tests/parity/explanation_parity.py PROGRAM

Folders with random weights are written by `transformers`, with a WordPiece vocabulary trained on the novels of
examples/novels, whose passages are the texts. PyTorch computes in double: the gradient of the logit to inputs_embeds,
times the difference to the baseline, at one point or at those of numpy's Gauss-Legendre quadrature; and the logits of
the tokens without those of a sentence. Each value of a token may be off by 1e-4 of the largest of its document.
Exit code 1 when one is off by more; a NaN is.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import pipeline_parity
import tokenizers
import torch
import transformers

TOLERANCE = 1e-4
STEPS = 12
VOCABULARY = 2000
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
LONGEST = 256
#: Classes of transformers, and what differs from SIZES.
MODELS = {
    "Longformer": {"attention_window": [32, 64]},
    "Bert": {},
    "Roberta": {},
    "DistilBert": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
    "Electra": {"embedding_size": 32},
    "BigBird": {"attention_type": "original_full", "rescale_embeddings": True},
    "DebertaV2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
    "Funnel": {"d_model": 64, "n_head": 4, "d_head": 16, "d_inner": 128, "block_sizes": [1, 1, 1]},
    "ModernBert": {"local_attention": 32, "global_attn_every_n_layers": 2},
    "NomicBert": {},
    "EuroBert": {"num_key_value_heads": 4},
    "Qwen3": {"num_key_value_heads": 2, "head_dim": 16},
}  # fmt: skip


def tokenizer_of(folder):
    """A WordPiece tokenizer of the novels, as a folder of transformers."""
    trained = tokenizers.BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(pipeline_parity.novels(), vocab_size=VOCABULARY, show_progress=False)
    trained.save_model(folder)
    return transformers.BertTokenizerFast(f"{folder}/vocab.txt")


def make(name, overrides, tokenizer, folder):
    """The model in double, saved in single precision."""
    torch.manual_seed(sum(map(ord, name)))
    model_class = getattr(transformers, f"{name}ForSequenceClassification")
    sizes = {} if name == "Funnel" else SIZES
    settings = sizes | {"max_position_embeddings": LONGEST + 8, "num_labels": 3, "vocab_size": len(tokenizer),
                        "pad_token_id": tokenizer.pad_token_id, "cls_token_id": tokenizer.cls_token_id,
                        "sep_token_id": tokenizer.sep_token_id, "bos_token_id": tokenizer.cls_token_id,
                        "eos_token_id": tokenizer.sep_token_id} | overrides  # fmt: skip
    model = model_class(model_class.config_class(**settings)).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter.normal_(0.0, 0.1)
            if "norm" in parameter_name.lower() and parameter_name.endswith("weight"):
                parameter.add_(1.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model_class.from_pretrained(folder, dtype=torch.float64).eval()


def logits_of(name, model, words):
    """Logits of rows of word embeddings, [batch, n, E]."""
    arguments = {"inputs_embeds": words, "attention_mask": torch.ones(words.shape[:2], dtype=torch.long)}
    if name == "Longformer":
        arguments["global_attention_mask"] = torch.zeros(words.shape[:2], dtype=torch.long)
        arguments["global_attention_mask"][:, 0] = 1
    return model(**arguments).logits


class Document:
    """A row of tokens in PyTorch, with the tokens of its text."""

    def __init__(self, name, model, ids, text_tokens):
        self.name, self.model, self.text = name, model, text_tokens
        with torch.no_grad():
            self.words = model.get_input_embeddings()(torch.tensor([ids]))

    def baseline(self, token):
        """The word embeddings with those of the text's tokens replaced by that of a token, or by zeros."""
        row = 0 if token is None else self.model.get_input_embeddings()(torch.tensor([token])).detach()[0]
        words = self.words.clone()
        words[0, self.text] = row
        return words

    def logit(self, words, label):
        with torch.no_grad():
            return logits_of(self.name, self.model, words)[0, label].item()

    def attributions(self, token, label, points):
        """Values of the tokens of the text: points are pairs of place and weight."""
        base = self.baseline(token)
        values = torch.zeros(self.words.shape[1], dtype=torch.float64)
        for at, weight in points:
            words = (base + at * (self.words - base)).requires_grad_(True)
            logits_of(self.name, self.model, words)[0, label].backward()
            values += weight * ((self.words - base) * words.grad)[0].sum(-1)
        return values[self.text].numpy()


def quadrature(steps):
    places, weights = numpy.polynomial.legendre.leggauss(steps)
    return [(float((1 + at) / 2), float(weight / 2)) for at, weight in zip(places, weights)]


def ours(program, folder, text, method, *flags):
    """The JSON of the explanation of a text."""
    command = [program, "classify", folder, "--explain", method, "--json", "--top-k", "0", "--lines", *map(str, flags)]
    done = subprocess.run(command, input=text + "\n", capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def relative(found, expected):
    """Largest difference as a share of the largest number; a NaN stays one."""
    found, expected = numpy.asarray(found, float), numpy.asarray(expected, float)
    if found.shape != expected.shape:
        return float("nan")
    largest = numpy.abs(expected).max(initial=0.0)
    return float(numpy.abs(found - expected).max(initial=0.0) / max(largest, 1e-12))


def compare_gradients(report, program, name, folder, document, text, tokenizer):
    for label in range(3):
        for baseline, token in (("pad", tokenizer.pad_token_id), ("mask", tokenizer.mask_token_id), ("zero", None)):
            alone = name in ("ModernBert", "DebertaV2", "Funnel")
            if baseline == "zero" and alone:
                continue  # such a model normalises word embeddings alone: refused
            flags = ("--label", f"LABEL_{label}", "--baseline", baseline)
            found = ours(program, folder, text, "gradient", *flags)["explanation"]
            expected = document.attributions(token, label, [(1, 1)])
            report.close(f"{name}: gradient × input", relative(found["tokens"]["value"], expected), 0)
            if label > 0:
                continue
            found = ours(program, folder, text, "integrated", *flags, "--steps", STEPS)["explanation"]
            expected = document.attributions(token, label, quadrature(STEPS))
            report.close(f"{name}: integrated gradients", relative(found["tokens"]["value"], expected), 0)
            base = document.logit(document.baseline(token), label)
            report.close(f"{name}: logits", [found["baseline_logit"], found["logit"]],
                         [base, document.logit(document.words, label)])  # fmt: skip


def compare_occlusion(report, program, name, folder, model, encoding, text, mask):
    """Sentences are taken by their characters."""
    ids, offsets = encoding["input_ids"], encoding["offset_mapping"]
    special = {i for i, one in enumerate(encoding["special_tokens_mask"]) if one}
    for occlusion in ("remove", "mask"):
        row = ours(program, folder, text, "occlusion", "--label", "LABEL_1", "--occlusion", occlusion)
        whole = Document(name, model, ids, []).words
        document = Document(name, model, ids, [])
        expected = []
        for sentence in row["explanation"]["sentences"]:
            inside = [
                i for i, (begin, end) in enumerate(offsets)
                if i not in special and begin >= sentence["begin"] and end <= sentence["end"]
            ]  # fmt: skip
            if occlusion == "remove":
                kept = [i for i in range(len(ids)) if i not in inside]
                without = whole[:, kept]
            else:
                changed = [mask if i in inside else token for i, token in enumerate(ids)]
                without = Document(name, model, changed, []).words
            expected.append(document.logit(whole, 1) - document.logit(without, 1))
        found = [sentence["value"] for sentence in row["explanation"]["sentences"]]
        report.close(f"{name}: occlusion", found, expected)


def compare_segments(report, program, folder, model, tokenizer, text):
    """A BERT reads a long text in two segments or more: the gradient of the merged logit."""
    encoding = tokenizer(text, add_special_tokens=False)["input_ids"]
    capacity, overlap = LONGEST + 8 - 2, 32
    step = capacity - overlap
    count = (len(encoding) - overlap + step - 1) // step
    begins = [(len(encoding) - capacity) * i // (count - 1) for i in range(count)]
    documents = []
    for begin in begins:
        ids = [tokenizer.cls_token_id, *encoding[begin : begin + capacity], tokenizer.sep_token_id]
        documents.append(Document("Bert", model, ids, list(range(1, capacity + 1))))
    pad = tokenizer.pad_token_id
    for merge in ("mean", "max"):
        found = ours(program, folder, text, "integrated", "--label", "LABEL_1", "--stride", overlap, "--merge", merge,
                     "--steps", STEPS)  # fmt: skip
        report.same("segments", found["segments"], count)
        expected = numpy.zeros(len(encoding))
        for at, weight in quadrature(STEPS):
            bases = [document.baseline(pad) for document in documents]
            logits = [d.logit(b + at * (d.words - b), 1) for d, b in zip(documents, bases)]
            shares = numpy.full(count, 1 / count) if merge == "mean" else numpy.eye(count)[numpy.argmax(logits)]
            for begin, document, share in zip(begins, documents, shares):
                if share:
                    expected[begin : begin + capacity] += share * document.attributions(pad, 1, [(at, weight)])
        report.close(f"segments, {merge}", relative(found["explanation"]["tokens"]["value"], expected), 0)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = sys.argv[1]
    transformers.logging.set_verbosity_error()
    report = pipeline_parity.Report(TOLERANCE)
    all_texts = pipeline_parity.texts()
    texts = [" ".join(all_texts[i].split()) for i in (0, 1)] + [" ".join(all_texts[2].split())[:700]]
    with tempfile.TemporaryDirectory() as root:
        pathlib.Path(root, "vocabulary").mkdir()
        tokenizer = tokenizer_of(str(pathlib.Path(root, "vocabulary")))
        for name, overrides in MODELS.items():
            folder = str(pathlib.Path(root, name))
            model = make(name, overrides, tokenizer, folder)
            for text in texts:
                encoding = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
                special = {i for i, one in enumerate(encoding["special_tokens_mask"]) if one}
                ids = encoding["input_ids"]
                inside = [i for i in range(len(ids)) if i not in special]
                document = Document(name, model, ids, inside)
                compare_gradients(report, program, name, folder, document, text, tokenizer)
                compare_occlusion(report, program, name, folder, model, encoding, text, tokenizer.mask_token_id)
            if name == "Bert":
                long_text = " ".join(all_texts[3].split())[:2200]
                compare_segments(report, program, folder, model, tokenizer, long_text)
            print(f"{name}: done", flush=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
