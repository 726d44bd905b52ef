"""Random configurations and inputs, built with `transformers` and saved as checkpoint folders.

Every dimension that a config or an input can vary in is a deck: its values are shuffled and dealt
until the deck is empty, so that a run of some dozens of cases meets all of them.
"""

import argparse
import json
import pathlib
import warnings
from dataclasses import dataclass, field

import numpy
import torch
import transformers

FAMILIES = (
    ["LongformerModel"] * 5
    + ["LongformerForMaskedLM"] * 2
    + [
        "LongformerForMaskedLM untied",
        "BertModel",
        "BertForMaskedLM",
        "RobertaModel",
        "RobertaForMaskedLM",
        "XLMRobertaModel",
        "XLMRobertaForMaskedLM",
        "CamembertModel",
        "CamembertForMaskedLM",
        "DistilBertModel",
        "DistilBertForMaskedLM",
        "ElectraModel",
        "ElectraForMaskedLM",
    ]
)
# Families whose positions do not follow the row of padding.
FROM_ZERO = ("Bert", "DistilBert", "Electra")
# Names of keys that other families call otherwise.
KEYS_OF_DISTILBERT = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
}
HEAD_SIZES = {8: (2, 3, 6), 16: (2, 4), 32: (1, 3), 64: (1, 3), 80: (1, 2), 128: (1, 2)}
ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu", "tanh", "quick_gelu", "mish")
LENGTHS = (
    1,
    2,
    3,
    7,
    17,
    63,
    64,
    65,
    127,
    129,
    255,
    256,
    257,
    333,
    511,
    512,
    513,
    777,
    1025,
    1536,
    2047,
    4095,
    4096,
)
# `transformers` pads to the widest window, every window must divide the widest, and 2 fails.
DIVIDING_WINDOWS = (
    (4,),
    (6,),
    (16,),
    (34,),
    (64,),
    (128,),
    (512,),
    (8, 16),
    (32, 4),
    (96, 24),
    (256, 64),
    (512, 128),
)
OTHER_WINDOWS = ((2,), (2, 2), (2, 8), (8, 2), (6, 4), (10, 14), (30, 64), (100, 46), (258, 130))
# Forms of `attention_dilation`, which `transformers` does not know.
DILATIONS = ("absent", "one number", "of layers", "of heads", "absent", "of heads")
GLOBALS = ("absent", "none", "first", "one", "several", "block", "hundreds", "all")
MASKS = ("absent", "ones", "random", "sparse", "stretch", "right", "left", "single")
# Dense attention keeps n² scores per head in the oracle, and the scalar reference loops over rows.
MOST_TOKENS_WITH_ALL_GLOBAL = 1536
MOST_TOKENS_DENSE = 2047
MOST_TOKENS_SCALAR = 800


@dataclass
class Document:
    """One sequence; a mask that is None is left out of the call."""

    ids: numpy.ndarray
    attention_mask: numpy.ndarray | None = None
    token_type_ids: numpy.ndarray | None = None
    position_ids: numpy.ndarray | None = None
    global_attention_mask: numpy.ndarray | None = None

    def seen(self):
        """True where the attention mask is 1: the rows whose values are specified."""
        return (
            numpy.ones(len(self.ids), bool)
            if self.attention_mask is None
            else self.attention_mask != 0
        )


@dataclass
class Case:
    index: int
    family: str
    config: dict
    documents: list
    storage: str
    gains_around_one: bool
    ragged: bool
    plain_config: bool
    windows: tuple = field(default_factory=tuple)

    @property
    def class_name(self):
        return self.family.split()[0]

    @property
    def is_longformer(self):
        return self.family.startswith("Longformer")

    def settings(self):
        """Arguments of the configuration class."""
        keys = KEYS_OF_DISTILBERT if self.family.startswith("DistilBert") else {}
        return {keys.get(key, key): value for key, value in self.config.items()}

    def describe(self):
        config = self.config
        lengths = ",".join(str(len(document.ids)) for document in self.documents)
        parts = [
            self.family,
            f"layers {config['num_hidden_layers']} of {config['hidden_size']}",
            f"heads {config['num_attention_heads']}",
            f"n {lengths}",
            "list" if self.ragged else "array",
            config["hidden_act"],
            self.storage,
        ]
        if self.is_longformer:
            count = [
                0 if d.global_attention_mask is None else int(d.global_attention_mask.sum())
                for d in self.documents
            ]
            parts += [
                f"window {','.join(map(str, self.windows))}",
                f"globals {','.join(map(str, count))}",
            ]
        return " ".join(parts)


def parse_quietly(parser):
    """The options; from here on warnings and progress bars do not interrupt the table."""
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return options


def add_only(parser):
    """The option that runs some cases of the deck, by their indices, and leaves them what they are."""
    parser.add_argument(
        "--only",
        type=lambda text: {int(index) for index in text.split(",")},
        help="run only the cases of these indices, such as 3,17",
    )


class Decks:
    """Deals the values of each named dimension in shuffled rounds."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self._left = {}

    def deal(self, name, values):
        left = self._left.setdefault(name, [])
        if not left:
            left.extend(values[i] for i in self.random.permutation(len(values)))
        return left.pop()


def deck(description, count, seed, draw):
    """The options of a script, PROGRAM, --count, --seed and --only, and the cases that it draws; from here on as
    parse_quietly."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=seed)
    add_only(parser)
    options = parse_quietly(parser)
    decks = Decks(options.seed)
    return options, [draw(i, decks) for i in range(options.count)]


def batch_lengths(decks, longest):
    """The length of each document of a batch; the first is the longest."""
    batch = decks.deal("batch", (1, 1, 2, 3))
    return [longest] + [int(decks.random.integers(1, longest + 1)) for _ in range(batch - 1)]


def draw_case(index, decks, beyond_transformers=False, families=FAMILIES):
    """A case; `beyond_transformers` gives a Longformer whose windows `transformers` refuses."""
    family = "LongformerModel" if beyond_transformers else decks.deal("family", families)
    head_size = decks.deal("head size", tuple(HEAD_SIZES))
    heads = decks.deal(f"heads of {head_size}", HEAD_SIZES[head_size])
    hidden = head_size * heads
    pad = decks.deal("pad", (0, 1))
    types = 1 if family.startswith("DistilBert") else decks.deal("type vocabulary", (1, 2))
    longformer = family.startswith("Longformer")
    group = "beyond" if beyond_transformers else ("longformer" if longformer else "dense")

    windows = decks.deal(
        f"windows {group}", OTHER_WINDOWS if beyond_transformers else DIVIDING_WINDOWS
    )
    layers = len(windows) if len(windows) > 1 else decks.deal("layers", (1, 2, 3))
    globals_kind = decks.deal(f"globals {group}", GLOBALS) if longformer else "absent"
    length = decks.deal(f"length {group}", LENGTHS)
    if beyond_transformers:
        length = min(length, MOST_TOKENS_SCALAR)
    elif not longformer:
        length = min(length, MOST_TOKENS_DENSE)
    elif globals_kind == "all":
        length = min(length, MOST_TOKENS_WITH_ALL_GLOBAL)

    spare = decks.deal("spare positions", (0, 0, 1, 40))
    config = {
        "vocab_size": decks.deal("vocabulary", (37, 96, 211)),
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": decks.deal("intermediate", (hidden, 4 * hidden, 2 * hidden + 12)),
        "hidden_act": decks.deal("activation", ACTIVATIONS),
        "max_position_embeddings": length + spare + (0 if family.startswith(FROM_ZERO) else pad + 1),
        "type_vocab_size": types,
        "layer_norm_eps": decks.deal("epsilon", (1e-12, 1e-5, 1e-3)),
        "pad_token_id": pad,
        "bos_token_id": 3,
        "eos_token_id": 2,
    }
    if longformer:
        config["attention_window"] = list(windows) * (layers if len(windows) == 1 else 1)
        config["sep_token_id"] = 2
    if beyond_transformers:
        draw_dilation(decks, config)
    if family.startswith("Electra"):
        config["embedding_size"] = decks.deal("embedding", (hidden, hidden + 4, hidden // 2))
    if family.endswith("untied"):
        config["tie_word_embeddings"] = False

    lengths = batch_lengths(decks, length)
    documents = [draw_document(decks, config, n, group, globals_kind) for n in lengths]
    share_absence(documents)
    return Case(
        index=index,
        family=family,
        config=config,
        documents=documents,
        storage=decks.deal("storage", ("float32", "float32", "float16", "bfloat16")),
        gains_around_one=decks.deal("gains", (True, False)),
        ragged=decks.deal("form", (True, False))
        if len(lengths) > 1
        else decks.deal("form of one", (True, False)),
        plain_config=decks.deal("plain config", (True, False)),
        windows=windows if longformer else (),
    )


def draw_dilation(decks, config):
    layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
    kind, draw = decks.deal("dilation", DILATIONS), decks.random.integers
    if kind == "one number":
        config["attention_dilation"] = int(draw(2, 5))
    elif kind == "of layers":
        config["attention_dilation"] = [int(d) for d in draw(1, 6, layers)]
    elif kind == "of heads":
        config["attention_dilation"] = [[int(d) for d in draw(1, 8, heads)] for _ in range(layers)]


def draw_document(decks, config, n, group, globals_kind):
    random = decks.random
    ids = random.integers(0, config["vocab_size"], n)
    pads = decks.deal("pads inside", (0.0, 0.1, 0.5))
    ids[random.random(n) < pads] = config["pad_token_id"]
    document = Document(
        ids, attention_mask=draw_mask(random, decks.deal(f"mask {group}", MASKS), n)
    )
    if config["type_vocab_size"] == 2 and decks.deal("token types", (True, True, False)):
        document.token_type_ids = random.integers(0, 2, n)
    rule = decks.deal("positions", ("rule", "rule", "rule", "random", "backwards"))
    if rule == "random":
        document.position_ids = random.integers(0, config["max_position_embeddings"], n)
    elif rule == "backwards":
        document.position_ids = numpy.arange(n)[::-1].copy()
    document.global_attention_mask = draw_globals(random, globals_kind, n)
    return document


def draw_mask(random, kind, n):
    if kind == "absent":
        return None
    mask = numpy.ones(n, numpy.int64)
    begin, end = sorted(int(x) for x in random.integers(0, n + 1, 2))
    if kind == "random":
        mask[random.random(n) < 0.2] = 0
    elif kind == "sparse":
        mask[random.random(n) < 0.85] = 0
    elif kind == "stretch":
        mask[begin:end] = 0
    elif kind == "right":
        mask[end:] = 0
    elif kind == "left":
        mask[:begin] = 0
    elif kind == "single":
        mask[:] = 0
    if not mask.any():
        mask[random.integers(n)] = 1
    return mask


def draw_globals(random, kind, n):
    if kind == "absent":
        return None
    mask = numpy.zeros(n, numpy.int64)
    if kind == "first":
        mask[0] = 1
    elif kind == "one":
        mask[random.integers(n)] = 1
    elif kind == "several":
        mask[random.integers(0, n, 5)] = 1
    elif kind == "block":
        begin = int(random.integers(n))
        mask[begin : begin + 20] = 1
    elif kind == "hundreds":
        mask[random.permutation(n)[: min(n, 300)]] = 1
    elif kind == "all":
        mask[:] = 1
    return mask


def share_absence(documents):
    """One call takes a mask for every document or for none: absent ones become the defaults."""
    for name, default in (
        ("attention_mask", numpy.ones),
        ("token_type_ids", numpy.zeros),
        ("global_attention_mask", numpy.zeros),
    ):
        if any(getattr(d, name) is not None for d in documents):
            for d in documents:
                if getattr(d, name) is None:
                    setattr(d, name, default(len(d.ids), numpy.int64))
    if any(d.position_ids is None for d in documents):
        for d in documents:
            d.position_ids = None


def build(case, folder, seed):
    """Saves the case's random model as a checkpoint folder: all weights and biases from N(0, 0.15).

    LayerNorm gains come from N(0, 0.15) in one half of the cases. It makes all activations small
    and the softmax nearly flat, so in the other half they come from 1 + N(0, 0.15).
    """
    torch.manual_seed(seed)
    model_class = getattr(transformers, case.class_name)
    model = model_class(model_class.config_class(**case.settings())).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, 0.15)
            if case.gains_around_one and name.lower().endswith(
                ("layernorm.weight", "layer_norm.weight")
            ):
                parameter.add_(1.0)
    model.to(getattr(torch, case.storage)).save_pretrained(folder)
    config_file = pathlib.Path(folder, "config.json")
    config = json.loads(config_file.read_text())
    if case.plain_config:
        # The form of hand-written files: one number for all windows, no key that equals its
        # default.
        defaults = model_class.config_class().to_dict()
        config = {
            k: v
            for k, v in config.items()
            if k == "model_type" or k not in defaults or defaults[k] != v
        }
        if len(set(config.get("attention_window", (1, 2)))) == 1:
            config["attention_window"] = config["attention_window"][0]
        config_file.write_text(json.dumps(config))


def load(case, folder, dtype=torch.float32):
    return getattr(transformers, case.class_name).from_pretrained(folder, dtype=dtype).eval()


def padded(case, documents=None):
    """Keyword arguments of `transformers`: padded on the right, absent masks left out."""
    documents = case.documents if documents is None else documents
    width = max(len(d.ids) for d in documents)
    pad = case.config["pad_token_id"]

    def stack(rows, fill):
        return torch.tensor(
            numpy.stack([numpy.pad(r, (0, width - len(r)), constant_values=fill) for r in rows])
        )

    arguments = {"input_ids": stack([d.ids for d in documents], pad)}
    if any(len(d.ids) < width for d in documents) or documents[0].attention_mask is not None:
        arguments["attention_mask"] = stack([d.seen().astype(numpy.int64) for d in documents], 0)
    fills = {"token_type_ids": 0, "position_ids": pad, "global_attention_mask": 0}
    for name, fill in fills.items():
        rows = [getattr(d, name) for d in documents]
        if rows[0] is not None:
            arguments[name] = stack(rows, fill)
    return arguments


def ragged(documents):
    """Keyword arguments of `longformer_cpp`: lists of arrays, absent masks left out."""
    arguments = {"input_ids": [d.ids for d in documents]}
    for name in ("attention_mask", "token_type_ids", "position_ids", "global_attention_mask"):
        rows = [getattr(d, name) for d in documents]
        if rows[0] is not None:
            arguments[name] = rows
    return arguments
