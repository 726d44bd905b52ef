"""Random models of the newer encoder families for modern_parity.py: configurations, documents, weights, and double
precision in `transformers`."""

import contextlib
import copy
import json
import math
import pathlib
import types

import alibi_models
import gradient_parity
import head_parity
import model_parity
import neobert_model
import numpy
import random_models
import torch
import transformers
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.eurobert import modeling_eurobert
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.gte import modeling_gte
from transformers.models.jina_embeddings_v3 import modeling_jina_embeddings_v3
from transformers.models.modernbert import modeling_modernbert
from transformers.models.nomic_bert import modeling_nomic_bert
from transformers.models.qwen3 import modeling_qwen3

HEADS = head_parity.HEADS
# Families that longformer_cpp runs; the others have their oracles alone.
RUN = ["modernbert", "nomic_bert", "gte", "jina_embeddings_v3", "mpnet", "jina_v2", "deberta-v2"]
RUN += ["eurobert", "neobert", "qwen3", "gemma3_text"]
# Families whose classes know one way to compute attention.
ONE_ROUTE = ("mpnet", "deberta-v2", "jina_v2")
FAMILIES = {
    "modernbert": ("ModernBertModel",) * 4
    + ("ModernBertForMaskedLM", "ModernBertForMaskedLM untied", "ModernBertForSequenceClassification")
    + tuple(f"ModernBertFor{head}" for head in HEADS),
    "mpnet": ("MPNetModel", "MPNetForMaskedLM", *(f"MPNetFor{head}" for head in HEADS)),
    "nomic_bert": ("NomicBertModel",) * 2
    + ("NomicBertForMaskedLM", "NomicBertForSequenceClassification", "NomicBertForTokenClassification"),
    "eurobert": ("EuroBertModel", "EuroBertForMaskedLM", "EuroBertForMaskedLM untied")
    + ("EuroBertForSequenceClassification",) * 2
    + ("EuroBertForTokenClassification",),
    "neobert": ("NeoBERTModel", "NeoBERTForMaskedLM", "NeoBERTForSequenceClassification"),
    "qwen3": ("Qwen3Model", "Qwen3ForSequenceClassification", "Qwen3ForTokenClassification"),
    "gemma3_text": ("Gemma3TextModel",) * 2 + ("Gemma3TextForSequenceClassification",),
    "deberta-v2": ("DebertaV2Model",) * 2
    + ("DebertaV2ForMaskedLM", *(f"DebertaV2For{head}" for head in HEADS)),
    "gte": ("GteModel", "GteForMaskedLM", "GteForSequenceClassification", "GteForTokenClassification"),
    "jina_embeddings_v3": ("JinaEmbeddingsV3Model", "JinaEmbeddingsV3ForMaskedLM")
    + tuple(f"JinaEmbeddingsV3For{head}" for head in HEADS[:3]),
    "jina_v2": ("JinaBertModel",) * 2 + tuple(alibi_models.CLASSES)[1:],
}
ROTARY = {
    "modernbert": modeling_modernbert.ModernBertRotaryEmbedding,
    "nomic_bert": modeling_nomic_bert.NomicBertRotaryEmbedding,
    "eurobert": modeling_eurobert.EuroBertRotaryEmbedding,
    "qwen3": modeling_qwen3.Qwen3RotaryEmbedding,
    "gemma3_text": modeling_gemma3.Gemma3RotaryEmbedding,
    "gte": modeling_gte.GteRotaryEmbedding,
    "jina_embeddings_v3": modeling_jina_embeddings_v3.JinaEmbeddingsV3RotaryEmbedding,
}
# Longest document per family: the oracle of DeBERTa keeps several n² scores per head.
LONGEST = {"deberta-v2": 333}
ROPE_TYPES = ("default", "default", "default", "linear", "yarn", "dynamic")
THETAS = (50.0, 1000.0, 10000.0, 160000.0)
KINDS = ("full_attention", "sliding_attention")
OUTPUTS = ("last_hidden_state", "hidden_states", "pooler_output", "logits", "start_logits", "end_logits")
BETWEEN_ROUTES = 1e-9
# Frequencies come in fp32 from `transformers`: some units in the last place.
FREQUENCY_TOLERANCE = 1e-6
SHORTEST_RUN_FOR_COVERAGE = 96
BIASES = ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias", "decoder_bias")


# ---------------------------------------------------------------- transformers in double precision


def _exact_tables(original):
    """Cosines and sines of the fp32 angles of `transformers`, in double where the model is."""

    def forward(self, x, position_ids, layer_type=None):
        arguments = () if layer_type is None else (layer_type,)
        tables = original(self, x, position_ids, *arguments)
        if x.dtype != torch.float64:
            return tables
        prefix = "" if layer_type is None else f"{layer_type}_"
        frequencies = getattr(self, f"{prefix}inv_freq").float()
        angles = (position_ids[..., None].float() * frequencies).double()
        angles = torch.cat((angles, angles), dim=-1)
        scale = getattr(self, f"{prefix}attention_scaling")
        return angles.cos() * scale, angles.sin() * scale

    return forward


def _rotate(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    rotate_half = modeling_modernbert.rotate_half
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def _normalize(original):
    def forward(self, x):
        if x.dtype != torch.float64:
            return original(self, x)
        is_gemma = isinstance(self, modeling_gemma3.Gemma3RMSNorm)
        epsilon = self.eps if is_gemma else self.variance_epsilon
        return (self.weight + int(is_gemma)) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon))

    return forward


@contextlib.contextmanager
def double_precision():
    """Takes out the roundings to fp32 that `transformers` makes inside a model in float64.

    They are in the softmax, the rotation and its tables, the RMS norm and the scale of DeBERTa. The angles
    (position times frequency) stay in fp32: they define the model.
    """
    patches = [(kind, "forward", _exact_tables(kind.forward)) for kind in ROTARY.values()]
    for norm in (modeling_eurobert.EuroBertRMSNorm, modeling_qwen3.Qwen3RMSNorm, modeling_gemma3.Gemma3RMSNorm):
        patches.append((norm, "forward", _normalize(norm.forward)))
    original = modeling_modernbert.apply_rotary_pos_emb

    def rotate(q, k, *arguments, **named):
        return (_rotate if q.dtype == torch.float64 else original)(q, k, *arguments, **named)

    def scale(query, factor):
        return torch.sqrt(torch.tensor(query.size(-1), dtype=torch.float64) * factor)

    patches.append((modeling_modernbert, "apply_rotary_pos_emb", rotate))
    patches.append((modeling_deberta_v2, "scaled_size_sqrt", scale))
    saved = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        with model_parity.softmax_in_input_precision():
            yield
    finally:
        for owner, name, value in saved:
            setattr(owner, name, value)


# ---------------------------------------------------------------- the formulas of the frequencies


def frequencies(parameters, size, most, length):
    """Frequencies of a head of `size` in double, and the factor of the cosines and sines.

    `most` is max_position_embeddings, `length` the largest position plus one. Written from the descriptions.
    """
    theta, kind = float(parameters["rope_theta"]), parameters["rope_type"]
    factor = parameters.get("factor")
    if kind == "dynamic" and length > most:
        theta *= (factor * length / most - (factor - 1)) ** (size / (size - 2))
    plain = theta ** (-numpy.arange(0, size, 2) / size)
    if kind == "linear":
        return plain / factor, 1.0
    if kind != "yarn":
        return plain, 1.0

    trained = parameters.get("original_max_position_embeddings", most)

    def index_of(turns):
        return size * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(index_of(parameters.get("beta_fast", 32))), 0)
    high = min(math.ceil(index_of(parameters.get("beta_slow", 1))), size - 1)
    if low == high:
        high += 0.001
    share = numpy.clip((numpy.arange(size // 2) - low) / (high - low), 0, 1)
    scale = parameters.get("attention_factor")
    if scale is None:
        scale = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    return plain / factor * share + plain * (1 - share), scale


# ---------------------------------------------------------------- drawn cases


class Case(random_models.Case):
    """A model, documents, and what the head needs; `old_keys` writes config.json as transformers 4 did."""

    old_keys = False
    choices = 0
    problem = None
    globals = "given"

    @property
    def model_type(self):
        return next(name for name, families in FAMILIES.items() if self.family in families)

    @property
    def head(self):
        return self.family.split("For")[1].split()[0] if "For" in self.family else ""

    def settings(self):
        return dict(self.config)

    def ropes(self):
        """Rotary parameters by kind of layer; the kind is None where all layers are alike."""
        parameters = self.config.get("rope_parameters")
        if parameters is None:
            return {}
        return parameters if self.model_type in ("modernbert", "gemma3_text") else {None: parameters}

    @property
    def is_dynamic(self):
        return any(rope["rope_type"] == "dynamic" for rope in self.ropes().values())

    def describe(self):
        config = self.config
        ropes = [f"{rope['rope_type']} {rope['rope_theta']:g}" for rope in self.ropes().values()]
        return " ".join(
            [
                self.family,
                f"layers {config['num_hidden_layers']} of {config['hidden_size']}",
                f"heads {config['num_attention_heads']}",
                f"n {','.join(str(len(d.ids)) for d in self.documents)}",
                "list" if self.ragged else "array",
                config.get("hidden_activation") or config.get("hidden_act", "silu"),
                self.storage,
                *ropes,
                *([f"window {config['local_attention']}"] if "local_attention" in config else []),
                *(["old keys"] if self.old_keys else []),
                *([self.problem] if self.problem else []),
            ]
        )


def draw(index, decks, families):
    # ModernBERT three times: most published models are of that family.
    name = decks.deal("model type", (*families, *(["modernbert"] * 2 if "modernbert" in families else [])))
    family = decks.deal(f"family of {name}", FAMILIES[name])
    size = decks.deal("head size", tuple(random_models.HEAD_SIZES))
    heads = decks.deal(f"heads of {size}", random_models.HEAD_SIZES[size])
    longest = LONGEST.get(name, random_models.MOST_TOKENS_DENSE)
    length = min(decks.deal(f"length of {name}", random_models.LENGTHS), longest)
    pad = 1 if name == "mpnet" else decks.deal("pad", (0, 1))
    config = {
        "vocab_size": decks.deal("vocabulary", (37, 96, 211)),
        "hidden_size": size * heads,
        "num_hidden_layers": decks.deal("layers", (1, 2, 4)),
        "num_attention_heads": heads,
        "intermediate_size": decks.deal("intermediate", (size * heads, 2 * size * heads + 12, 20)),
        "pad_token_id": pad,
        "bos_token_id": 3,
        "eos_token_id": 2,
        "num_labels": 2,
    }
    config["hidden_activation" if name in ("modernbert", "gemma3_text") else "hidden_act"] = decks.deal(
        "activation", random_models.ACTIVATIONS
    )
    types = DRAW[name](decks, config, length, size)
    if family.endswith("untied"):
        config["tie_word_embeddings"] = False
    lengths = random_models.batch_lengths(decks, length)
    inputs = {
        "vocab_size": config["vocab_size"],
        "pad_token_id": pad,
        "type_vocab_size": types,
        "max_position_embeddings": max(length, min(config["max_position_embeddings"], 2 * length)),
    }
    documents = [random_models.draw_document(decks, inputs, n, name, "absent") for n in lengths]
    random_models.share_absence(documents)
    case = Case(
        index=index,
        family=family,
        config=config,
        documents=documents,
        storage=decks.deal("storage", ("float32", "float32", "float16", "bfloat16")),
        gains_around_one=decks.deal("gains", (True, False)),
        ragged=decks.deal("form", (True, False)),
        plain_config=False,
    )
    case.old_keys = name == "modernbert" and every_of_old_keys(config) > 0 and decks.deal("old keys", (True, False))
    finish(case, decks)
    return case


def draw_rope(decks, name, length, theta):
    kind = decks.deal(f"rope of {name}", ROPE_TYPES)
    parameters = {"rope_type": kind, "rope_theta": theta}
    if kind != "default":
        parameters["factor"] = decks.deal("factor", (1.5, 2.0, 4.0))
    if kind == "yarn":
        parameters["original_max_position_embeddings"] = max(2, length // 2)
        if decks.deal("yarn keys", (True, False)):
            parameters |= {"beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.25}
    return parameters


def flat_rope(decks, name, config, length, **other):
    config |= other
    positions = {"more": length + 5, "fewer": max(2, length // 3)}
    config["max_position_embeddings"] = positions[decks.deal(f"positions of {name}", ("more", "more", "fewer"))]
    config["rope_parameters"] = draw_rope(decks, name, length, decks.deal("theta", THETAS))


def draw_modernbert(decks, config, length, _size):
    config |= {key: decks.deal(key, (True, False)) for key in BIASES}
    config |= {
        "norm_eps": decks.deal("epsilon", (1e-12, 1e-5, 1e-3)),
        "local_attention": decks.deal("window", (2, 4, 9, 16, 64, 128, 512)),
        "classifier_activation": decks.deal("classifier activation", ("gelu", "silu", "relu")),
        "classifier_pooling": decks.deal("pooling", ("cls", "mean")),
        "cls_token_id": 3,
        "sep_token_id": 2,
    }
    positions = {"more": length + 5, "usual": 8192, "fewer": max(2, length // 3)}
    config["max_position_embeddings"] = positions[decks.deal("positions of modernbert", tuple(positions))]
    layers = config["num_hidden_layers"]
    every = decks.deal("full every", (1, 2, 3, 4, 0))
    config["layer_types"] = [
        KINDS[int(decks.random.integers(2)) if every == 0 else int(i % every > 0)] for i in range(layers)
    ]
    config["rope_parameters"] = {
        kind: {"rope_type": "default", "rope_theta": decks.deal("theta", THETAS)} for kind in KINDS
    }
    if decks.deal("scaled", (True, False)):
        config["rope_parameters"] = {
            kind: draw_rope(decks, kind, length, decks.deal("theta", THETAS)) for kind in KINDS
        }
    return 0


def every_of_old_keys(config):
    """`global_attn_every_n_layers` of a configuration; 0 where the keys of transformers 4 cannot say it."""
    kinds = config["layer_types"]
    every = next((i for i in range(1, len(kinds)) if kinds[i] == KINDS[0]), len(kinds) + 1)
    is_regular = kinds == [KINDS[int(i % every > 0)] for i in range(len(kinds))]
    is_plain = all(rope["rope_type"] == "default" for rope in config["rope_parameters"].values())
    return every if is_regular and is_plain else 0


def draw_mpnet(decks, config, length, _size):
    config["max_position_embeddings"] = length + 2 + decks.deal("spare positions", (0, 40))
    config["layer_norm_eps"] = decks.deal("epsilon", (1e-12, 1e-5, 1e-3))
    return 0


def draw_nomic(decks, config, length, _size):
    epsilon = decks.deal("epsilon", (1e-12, 1e-5, 1e-3))
    flat_rope(decks, "nomic", config, length, layer_norm_eps=epsilon, type_vocab_size=2)
    return 2


def draw_eurobert(decks, config, length, _size):
    heads = config["num_attention_heads"]
    groups = [n for n in range(1, heads + 1) if heads % n == 0]
    flat_rope(
        decks,
        "eurobert",
        config,
        length,
        rms_norm_eps=decks.deal("epsilon", (1e-12, 1e-5, 1e-3)),
        num_key_value_heads=groups[int(decks.random.integers(len(groups)))],
        attention_bias=decks.deal("attention_bias", (True, False)),
        mlp_bias=decks.deal("mlp_bias", (True, False)),
        classifier_pooling=decks.deal("pooling of eurobert", ("late", "mean", "bos")),
        tie_word_embeddings=True,
    )
    return 0


def draw_neobert(decks, config, length, size):
    del config["hidden_act"], config["bos_token_id"], config["eos_token_id"]
    config["max_length"] = config["max_position_embeddings"] = length + decks.deal("spare positions", (0, 40))
    config["norm_eps"] = decks.deal("epsilon", (1e-12, 1e-5, 1e-3))
    return 0


def draw_decoder(decks, config, size):
    """Heads of a size of their own, and fewer of keys."""
    heads = config["num_attention_heads"]
    groups = [n for n in range(1, heads + 1) if heads % n == 0]
    config["num_key_value_heads"] = groups[int(decks.random.integers(len(groups)))]
    config["head_dim"] = decks.deal("size of decoder heads", (size, 2 * size, size + 2))
    config["rms_norm_eps"] = decks.deal("epsilon", (1e-12, 1e-5, 1e-3))
    config["attention_bias"] = decks.deal("attention_bias", (True, False))
    config["layer_types"] = [KINDS[int(decks.random.integers(2))] for _ in range(config["num_hidden_layers"])]


def draw_qwen3(decks, config, length, size):
    draw_decoder(decks, config, size)
    flat_rope(decks, "qwen3", config, length)
    if decks.deal("windows of qwen3", (True, False)):
        config |= {"use_sliding_window": True, "sliding_window": decks.deal("window", (2, 4, 9, 16, 64))}
    else:
        del config["layer_types"]
    return 0


def draw_gemma3(decks, config, length, size):
    draw_decoder(decks, config, size)
    config["max_position_embeddings"] = length + 5
    config["sliding_window"] = decks.deal("window of gemma", (2, 4, 9, 16, 64, 512))
    config["use_bidirectional_attention"] = decks.deal("bidirectional", (True, False))
    config["query_pre_attn_scalar"] = decks.deal("scalar", (config["head_dim"], 7, 256))
    ropes = {kind: draw_rope(decks, kind, length, decks.deal("theta", THETAS)) for kind in KINDS}
    if decks.deal("scaled", (True, False)):
        ropes = {kind: {"rope_type": "default", "rope_theta": decks.deal("theta", THETAS)} for kind in KINDS}
    config["rope_parameters"] = ropes
    return 0


def draw_gte(decks, config, length, _size):
    types = decks.deal("types of gte", (0, 1, 2))
    flat_rope(decks, "gte", config, length, layer_norm_eps=decks.deal("epsilon", (1e-12, 1e-5)), type_vocab_size=types)
    return types


def draw_jina(decks, config, length, _size):
    flat_rope(decks, "jina", config, length, layer_norm_eps=decks.deal("epsilon", (1e-12, 1e-5)), type_vocab_size=2)
    return 2


def draw_jina_v2(decks, config, length, _size):
    config |= {
        "max_position_embeddings": length + 5,
        "layer_norm_eps": decks.deal("epsilon", (1e-12, 1e-5, 1e-3)),
        "type_vocab_size": 2,
        "feed_forward_type": decks.deal("feed-forward", ("geglu", "geglu", "original")),
    }
    return 2


def draw_deberta(decks, config, length, _size):
    types = decks.deal("types of deberta", (0, 0, 2))
    config |= {
        "max_position_embeddings": length + decks.deal("spare positions", (0, 40)) + 2,
        "layer_norm_eps": decks.deal("epsilon", (1e-12, 1e-7, 1e-3)),
        "type_vocab_size": types,
        "relative_attention": True,
        "position_buckets": decks.deal("buckets", (-1, 4, 16, 256)),
        "max_relative_positions": decks.deal("relative positions", (-1, 40, 512)),
        "pos_att_type": list(decks.deal("terms", (("p2c", "c2p"), ("p2c", "c2p"), ("c2p",), ("p2c",), ()))),
        "share_att_key": decks.deal("shared keys", (True, True, False)),
        "norm_rel_ebd": decks.deal("relative norm", ("layer_norm", "none")),
        "position_biased_input": decks.deal("biased input", (False, False, True)),
        "pooler_hidden_act": decks.deal("pooler activation", ("gelu", "tanh")),
        "legacy": decks.deal("legacy", (True, False)),
        "conv_kernel_size": decks.deal("convolution", (0, 0, 3, 5)),
    }
    if config["conv_kernel_size"]:
        config["conv_act"] = decks.deal("activation of convolution", ("gelu", "tanh", "relu"))
        divisors = [groups for groups in (1, 2, 4) if config["hidden_size"] % groups == 0]
        config["conv_groups"] = decks.deal("groups", divisors)
    buckets, most = config["position_buckets"], config["max_relative_positions"]
    if buckets > 0 and (most if most > 0 else config["max_position_embeddings"]) <= buckets // 2 + 1:
        config["max_relative_positions"] = 2 * buckets
    return types


DRAW = {
    "neobert": draw_neobert,
    "qwen3": draw_qwen3,
    "gemma3_text": draw_gemma3,
    "modernbert": draw_modernbert,
    "mpnet": draw_mpnet,
    "nomic_bert": draw_nomic,
    "eurobert": draw_eurobert,
    "deberta-v2": draw_deberta,
    "gte": draw_gte,
    "jina_embeddings_v3": draw_jina,
    "jina_v2": draw_jina_v2,
}


def finish(case, decks):
    """Makes masks and labels that have a meaning for the head and for the rotary type."""
    if case.head.endswith("Classification"):
        case.config["num_labels"] = decks.deal(f"labels of {case.head}", (2, 3, 9))
    if case.head == "MultipleChoice":
        case.choices = decks.deal("choices", (2, 3))
        while len(case.documents) % case.choices:
            case.documents.append(case.documents[-1])
    if case.head:
        gradient_parity.set_problem(case, decks)
    for document in case.documents:
        if document.attention_mask is None:
            continue
        if case.head:
            document.attention_mask[0] = 1
        if case.is_dynamic:
            # The last token sets the length, and we leave masked tokens at the end out.
            document.attention_mask[-1] = 1
    if case.model_type in ("qwen3", "gemma3_text") and case.head == "SequenceClassification":
        # `transformers` reads the last token that is not padding, whatever the mask says.
        for document in case.documents:
            document.ids[-1] = 2
            if document.attention_mask is not None:
                document.attention_mask[-1] = 1
    if case.config.get("classifier_pooling") == "mean" and case.head == "MultipleChoice":
        for document in case.documents:
            # `transformers` needs a mask there.
            document.attention_mask = document.seen().astype(numpy.int64)
    if case.head == "QuestionAnswering":
        # Rows of padding are in the loss of `transformers`, and have no values in ours. One token has no gradient.
        width = max(2, min(len(d.ids) for d in case.documents))
        for document in case.documents:
            for name in ("ids", "token_type_ids", "position_ids"):
                value = getattr(document, name)
                if value is not None:
                    setattr(document, name, numpy.resize(value, width))
            document.attention_mask = None
    if case.is_dynamic:
        # One length: `transformers` rotates all rows of a batch by the length of the longest.
        first = case.documents[0]
        case.documents = [copy.copy(first) for _ in range(max(case.choices, 1))]
        for document in case.documents:
            document.ids = decks.random.integers(0, case.config["vocab_size"], len(first.ids))
    case.targets = gradient_parity.draw_targets(case, decks) if case.head else {}


# ---------------------------------------------------------------- running


def class_named(name):
    own = alibi_models.CLASSES.get(name) or getattr(neobert_model.CLASSES, name, None)
    return own or getattr(transformers, name)


def redraw(model, deviation, gains_around_one, seed):
    """Draws all parameters from N(0, deviation), and gains of norms around one where wanted."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation)
            module = name.lower().rsplit(".", 2)[-2]
            if gains_around_one and "norm" in module and name.endswith("weight"):
                parameter.add_(1.0)
    return model.eval()


def build(case, folder, seed):
    model_class = class_named(case.class_name)
    model = redraw(model_class(model_class.config_class(**case.settings())), 0.15, case.gains_around_one, seed)
    model.to(getattr(torch, case.storage)).save_pretrained(folder)
    if case.old_keys:
        write_old_keys(pathlib.Path(folder, "config.json"))
    if case.model_type == "neobert":
        write_neobert_keys(pathlib.Path(folder, "config.json"))


def write_neobert_keys(file):
    config = json.loads(file.read_text())
    config["max_length"] = config.pop("max_position_embeddings")
    file.write_text(json.dumps(config, indent=2) + "\n")


def write_old_keys(file):
    """Writes the rotary and layer keys as transformers 4 did, and keys of that time that have no effect."""
    config = json.loads(file.read_text())
    config["global_attn_every_n_layers"] = every_of_old_keys(config)
    del config["layer_types"]
    ropes = config.pop("rope_parameters")
    config["global_rope_theta"] = ropes[KINDS[0]]["rope_theta"]
    config["local_rope_theta"] = ropes[KINDS[1]]["rope_theta"]
    config |= {"position_embedding_type": "absolute", "layer_norm_eps": 0.5, "reference_compile": None}
    file.write_text(json.dumps(config, indent=2) + "\n")


def load(case, folder, dtype, attention="sdpa"):
    """The model in fp32 first: its rotary buffers are those of every user."""
    model_class = class_named(case.class_name)
    named = {} if case.model_type in ONE_ROUTE else {"attn_implementation": attention}
    loaded = model_class.from_pretrained(folder, dtype=torch.float32, **named)
    return loaded.to(dtype).eval()
