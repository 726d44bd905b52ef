"""Training vectors of texts against sentence-transformers: losses, gradients, and what is written.

    python3 tests/parity/embedding_training_parity.py TOKENIZER_FOLDER BINARY [--trials 2] [--seed 1]

Every loss meets drawn small BERTs with each pooling, with and without Normalize and prompts, in one piece
and in mini-batches (GradCache). One step of AdamW with a learning rate and an epsilon of 10⁶ moves every
weight by its gradient, which PyTorch tells of the package's loss. Passages are pooled by hand from the
states of their document. What was written loads in the package and gives the vectors of `embed`.
"""

import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOVEL = ROOT / "examples" / "novels" / "alices_adventures_in_wonderland.txt"
POOLINGS = ["mean", "cls", "max", "mean_sqrt_len_tokens", "lasttoken"]
LOSS_TOLERANCE, GRADIENT_TOLERANCE, VECTOR_TOLERANCE = 1e-5, 1e-4, 1e-5
SCALE = 1e6
EXAMPLES = 7


def novel_words():
    return re.split(r"(?<=\s)", NOVEL.read_text(encoding="utf-8"))


def draw_text(draw, words):
    start = draw.randrange(len(words) - 60)
    return "".join(words[start:start + draw.choice([1, 5, 12, 40])]).strip() or "word"


def draw_model(draw, tokenizer, folder, pooling, most=64):
    """A sentence encoder whose gradients are as large as those of a trained one."""
    config = transformers.BertConfig(
        vocab_size=len(transformers.AutoTokenizer.from_pretrained(tokenizer)), hidden_size=32,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0, initializer_range=0.3)
    encoder = folder / "encoder"
    transformers.BertModel(config, add_pooling_layer=draw.random() < 0.5).save_pretrained(encoder)
    for file in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (tokenizer / file).exists():
            shutil.copy(tokenizer / file, encoder / file)
    modules = [Transformer(str(encoder), max_seq_length=most), Pooling(32, pooling)]
    if draw.random() < 0.5:
        modules.append(Normalize())
    prompts = draw.choice([None, {"query": "query: ", "document": "passage: "}])
    model = SentenceTransformer(modules=modules, prompts=prompts, device="cpu")
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    return model


def trained(binary, folder, records, flags):
    """The loss of the first step, and the gradient of every tensor."""
    data, target = folder / "data.jsonl", folder / "trained"
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    done = subprocess.run(
        [binary, "finetune", folder / "model", data, "--task", "embedding", "--output-dir", target,
         "--per-device-train-batch-size", str(len(records)), "--gradient-accumulation-steps", "1",
         "--max-steps", "1", "--learning-rate", str(SCALE), "--adam-epsilon", str(SCALE),
         "--weight-decay", "0", "--max-grad-norm", "0", "--lr-scheduler-type", "constant",
         "--warmup-steps", "0", "--save-strategy", "no", "--overwrite-output-dir", "--logging-steps", "1",
         "--truncate", *map(str, flags)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    log = [json.loads(line) for line in (target / "log.jsonl").read_text().splitlines()]
    loss = next(line["loss"] for line in log if "loss" in line)
    before, after = (load_file(path / "model.safetensors") for path in (folder / "model", target))
    prefix = "bert."
    plain = {name.removeprefix(prefix): value for name, value in after.items()}
    return loss, {name: (value - plain[name]).double() for name, value in before.items()}


def features(model, texts, prompt=""):
    return model.tokenize([prompt + text for text in texts])


def draw_case(draw, words, model, name):
    """Records for the program, its flags, and the loss of the package."""
    prompts = model.prompts
    columns = [[draw_text(draw, words) for _ in range(EXAMPLES)] for _ in range(4)]
    query, document = prompts.get("query", ""), prompts.get("document", "")

    def records(*names):
        return [dict(zip(names, texts)) for texts in zip(*columns[:len(names)])]

    def tokens(count, asked=True):
        return [features(model, column, (query if i == 0 else document) if asked else "")
                for i, column in enumerate(columns[:count])]

    if name in ("contrastive", "symmetric"):
        temperature = draw.choice([0.05, 0.5])
        make = (losses.MultipleNegativesSymmetricRankingLoss if name == "symmetric"
                else losses.MultipleNegativesRankingLoss)
        flags = ["--temperature", temperature, *(["--symmetric"] if name == "symmetric" else [])]
        return (records("anchor", "positive"), flags,
                lambda: make(model, scale=1 / temperature)(tokens(2), None))
    if name == "hard negatives":
        names = ("query", "answer", "negative_1", "negative_2")
        return (records(*names), [], lambda: losses.MultipleNegativesRankingLoss(model)(tokens(4), None))
    if name == "triplet":
        return (records("anchor", "positive", "negative"), ["--loss", "triplet", "--margin", 3],
                lambda: losses.TripletLoss(model, triplet_margin=3)(tokens(3), None))
    if name == "cosine":
        scores = [draw.random() for _ in range(EXAMPLES)]
        data = [record | {"score": score} for record, score in zip(records("sentence1", "sentence2"), scores)]
        return (data, [], lambda: losses.CosineSimilarityLoss(model)(tokens(2, asked=False),
                                                                     torch.tensor(scores)))
    vectors = numpy.random.RandomState(draw.randrange(1000)).randn(EXAMPLES, 32).astype("float32")
    data = [{"text": text, "vector": vector.tolist()} for text, vector in zip(columns[0], vectors)]
    return (data, [], lambda: losses.MSELoss(model)(tokens(1, asked=False), torch.tensor(vectors)))


def draw_passages(draw, words, model):
    """Documents with marked passages: questions, teacher's vectors, both."""
    records, weight = [], draw.choice([0.5, 3])
    for _ in range(3):
        parts = [draw_text(draw, words) for _ in range(4)]
        text, passages, begin = " ".join(parts), [], 0
        for part in parts:
            passage = {"begin": begin, "end": begin + len(part)}
            if draw.random() < 0.6:
                passage["queries"] = [draw_text(draw, words) for _ in range(draw.choice([1, 2]))]
            if draw.random() < 0.6:
                passage["vector"] = numpy.random.RandomState(draw.randrange(1000)).randn(32).tolist()
            passages.append(passage)
            begin += len(part) + 1
        records.append({"text": text, "passages": passages})
    records[0]["passages"][0] |= {"queries": ["Where is the rabbit?"], "vector": [0.5] * 32}
    return records, ["--distillation-weight", weight], lambda: passage_loss(model, records, weight)


def passage_loss(model, records, weight):
    tokenizer, encoder = model.tokenizer, model[0].auto_model
    prompt = model.prompts.get("document", "")
    passages, queries, right, taught, teachers = [], [], [], [], []
    for record in records:
        batch = tokenizer(prompt + record["text"], return_offsets_mapping=True, return_tensors="pt")
        offsets = batch.pop("offset_mapping")[0].tolist()
        hidden = encoder(**batch).last_hidden_state[0]
        for passage in record["passages"]:
            begin, end = (passage[name] + len(prompt) for name in ("begin", "end"))
            inside = [i for i, (a, b) in enumerate(offsets) if a < end and b > begin]
            states = hidden[inside]
            vector = states.amax(0) if model[1].pooling_mode == "max" else states.mean(0)
            if "queries" in passage:
                queries += passage["queries"]
                right += [len(passages)] * len(passage["queries"])
            if "vector" in passage:
                taught.append(len(passages))
                teachers.append(passage["vector"])
            passages.append(vector)
    vectors = torch.stack(passages)
    if isinstance(model[-1], Normalize):
        vectors = torch.nn.functional.normalize(vectors)
    asked = model(features(model, queries, model.prompts.get("query", "")))["sentence_embedding"]
    logits = torch.nn.functional.normalize(asked) @ torch.nn.functional.normalize(vectors).T / 0.05
    # The other answers of a passage's questions are the same passage, once in the list.
    contrastive = torch.nn.functional.cross_entropy(logits, torch.tensor(right))
    return contrastive + weight * torch.nn.functional.mse_loss(vectors[taught], torch.tensor(teachers))


def compare(binary, folder, model, case):
    """Differences of loss and gradients, and of the vectors of what was written."""
    records, flags, loss_of = case
    loss, gradients = trained(binary, folder, records, flags)
    model.zero_grad()
    expected = loss_of()
    expected.backward()
    parameters = dict(model[0].auto_model.named_parameters())
    largest = max(value.grad.abs().max() for value in parameters.values() if value.grad is not None)
    worst = 0
    for name, found in gradients.items():
        own = parameters.get(name)
        right = torch.zeros_like(found) if own is None or own.grad is None else own.grad.double()
        scale = max(right.abs().max(), 1e-2 * largest)
        worst = max(worst, float((found - right).abs().max() / scale))
    texts = [text for record in records for text in record.values() if isinstance(text, str)][:5]
    again = SentenceTransformer(str(folder / "trained"), device="cpu").encode(texts)
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = subprocess.run([binary, "embed", folder / "trained", "--field", "text", "--json", "--truncate"],
                          input=lines, capture_output=True, text=True, check=True)
    ours = numpy.array([json.loads(line)["embedding"] for line in done.stdout.splitlines()])
    vectors = float(numpy.abs(again - ours).max() / max(1, numpy.abs(again).max()))
    right = expected.item()
    return abs(loss - right) / max(1, abs(right)), worst, vectors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    draw = random.Random(options.seed)
    torch.manual_seed(options.seed)
    words = novel_words()
    names = ["contrastive", "symmetric", "hard negatives", "triplet", "cosine", "distillation",
             "passages in their document"]
    failed = False
    print("| loss | cases | loss differs by | gradient | written vectors |\n|---|---|---|---|---|")
    for number, name in enumerate(names):
        found = []
        for trial in range(options.trials):
            pooling = POOLINGS[(number + 2 * trial) % len(POOLINGS)]
            if name.startswith("passages"):
                pooling = ["mean", "max"][trial % 2]
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch)
                most = 512 if name.startswith("passages") else 64
                model = draw_model(draw, options.tokenizer, folder, pooling, most)
                case = (draw_passages(draw, words, model) if name.startswith("passages")
                        else draw_case(draw, words, model, name))
                found.append(compare(options.binary, folder, model, case))
                parts = (case[0], [*case[1], "--mini-batch-size", draw.choice([1, 3])], case[2])
                found.append(compare(options.binary, folder, model, parts))
        worst = numpy.array(found).max(0)
        print(f"| {name} | {len(found)} | {worst[0]:.1e} | {worst[1]:.1e} | {worst[2]:.1e} |")
        limits = (LOSS_TOLERANCE, GRADIENT_TOLERANCE, VECTOR_TOLERANCE)
        failed = failed or not all(value <= limit for value, limit in zip(worst, limits))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
