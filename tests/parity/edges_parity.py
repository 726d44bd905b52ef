"""Compares Longformers with edges with plain loops in PyTorch: dense masks in double precision, on random models.

    python3 tests/parity/edges_parity.py PROGRAM [--count 40] [--seed 5] [--only INDEX,…]

Embeddings, feed-forward blocks and heads are those of `transformers`; attention is written here, from its weights: one softmax over window,
global tokens and edges, whose scores have keys of their kinds too, q·(k + a). Hidden states, losses and gradients, those of the
keys of kinds included. Edges are drawn: into the window, from and to global and masked tokens, several between two tokens. Lists of
documents, models without edges and bf16 are compared with our own results. Exit code 1 when a difference is too large; a NaN is.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types

import longformer_cpp
import model_parity
import numpy
import random_models
import safetensors.torch
import torch
import transformers

VOCABULARY = 97
HEADS = ("", "", "SequenceClassification", "TokenClassification", "MaskedLM", "QuestionAnswering")
KINDS = (["names"], ["titles"], ["names", "titles"], ["titles", "names"])


def draw(index, decks):
    heads, layers = decks.deal("heads", (1, 2, 3, 4)), decks.deal("layers", (1, 2, 3))
    config = {
        "vocab_size": VOCABULARY, "hidden_size": decks.deal("head size", (4, 8, 16, 33, 64)) * heads,
        "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": decks.deal("wide", (24, 130)),
        "attention_window": [decks.deal("window", (2, 4, 8, 16, 64)) for _ in range(layers)],
        "max_position_embeddings": 600, "pad_token_id": 1, "type_vocab_size": 1, "num_labels": 3, "sep_token_id": 5,
    }  # fmt: skip
    head = decks.deal("head", HEADS)
    if head == "QuestionAnswering":
        config["num_labels"] = 2
    return types.SimpleNamespace(
        index=index,
        config=config,
        head=head,
        kinds=decks.deal("kinds", KINDS),
        dilation=[decks.deal("dilation", (1, 1, 1, 2, 3)) for _ in range(layers)],
        tokens=decks.deal("length", (1, 2, 7, 33, 64, 129, 250)),
        globals=decks.deal("globals", ("none", "first", "some")),
        mask=decks.deal("mask", (None, None, "holes")),
        density=decks.deal("edges", (0.0, 0.01, 0.1, 0.5)),
        describe=lambda: f"{config} {head}",
    )


def class_of(case):
    return f"LongformerFor{case.head}" if case.head else "LongformerModel"


def table_name(case, layer):
    return ("longformer." if case.head else "") + f"encoder.layer.{layer}.attention.self.edge_keys"


def save(case, folder, generator):
    """The folder for transformers, and that with dilation, kinds of edges and their keys."""
    torch.manual_seed(int(torch.randint(1 << 30, (1,), generator=generator)))
    model = getattr(transformers, class_of(case))(transformers.LongformerConfig(**case.config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.15) if parameter.dim() > 1 else parameter.normal_(0.5, 0.3)
    model.save_pretrained(f"{folder}/theirs")
    source, target = pathlib.Path(folder, "theirs"), pathlib.Path(folder, "ours")
    target.mkdir()
    config = json.loads((source / "config.json").read_text())
    written = config | {"edges": case.kinds, "attention_dilation": case.dilation}
    (target / "config.json").write_text(json.dumps(written))
    heads = case.config["num_attention_heads"]
    shape = (heads, len(case.kinds), case.config["hidden_size"] // heads)
    tables = [torch.randn(shape, generator=generator) * 0.4 for _ in range(case.config["num_hidden_layers"])]
    tensors = safetensors.torch.load_file(source / "model.safetensors")
    tensors |= {table_name(case, layer): table for layer, table in enumerate(tables)}
    safetensors.torch.save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return tables


def call_of(case, generator):
    n = case.tokens
    ids = torch.randint(6, VOCABULARY, (1, n), generator=generator)
    seen = torch.ones((1, n), dtype=torch.long)
    if case.mask == "holes":
        seen = (torch.rand((1, n), generator=generator) < 0.7).long()
    seen[0, [0, -1]] = 1
    is_global = torch.zeros((1, n), dtype=torch.long)
    if case.globals != "none":
        is_global[0, 0] = 1
    if case.globals == "some":
        is_global[0, torch.randint(0, n, (3,), generator=generator)] = 1
    return {"input_ids": ids, "attention_mask": seen, "global_attention_mask": is_global}


def edges_of(case, generator):
    """[edges, 3]: drawn pairs, some of them twice, also of another kind."""
    pairs = (torch.rand((case.tokens, case.tokens), generator=generator) < case.density).nonzero()
    pairs = torch.cat([pairs, pairs[::5], pairs[::7]])
    kinds = torch.randint(0, len(case.kinds), (len(pairs), 1), generator=generator)
    return torch.cat([pairs, kinds], dim=1)[torch.randperm(len(pairs), generator=generator)].numpy()


def own_attention(case, call, edges, layer, module, table):
    """Attention of a layer with dense masks, in place of that of transformers."""
    n, heads = case.tokens, case.config["num_attention_heads"]
    seen, is_global = call["attention_mask"][0] != 0, call["global_attention_mask"][0] != 0
    is_global = is_global & seen
    place = torch.arange(n)
    step = case.dilation[layer]
    distance = place[None, :] - place[:, None]
    window = (distance % step == 0) & (distance.abs() <= case.config["attention_window"][layer] // 2 * step)
    near = (window | is_global[None, :]) & seen[None, :]
    # The kind of each edge that adds a key; −1 for none.
    kind = torch.full((n, n), -1)
    for query, key, number in sorted((int(q), int(k), -int(c)) for q, k, c in edges):
        if seen[query] and seen[key] and not is_global[query] and not is_global[key] and not near[query, key]:
            kind[query, key] = -number
    visible = near | (kind >= 0)

    def split(x):
        return x.view(n, heads, -1).transpose(0, 1)

    def forward(hidden_states, *args, **kwargs):
        x = hidden_states[0, :n]
        q, k, v = (split(one(x)) for one in (module.query, module.key, module.value))
        terms = torch.einsum("hnd,hld->hnl", q, table.to(q.dtype))
        chosen = terms.gather(2, kind.clamp(min=0)[None].expand(heads, n, n))
        scores = torch.einsum("hnd,hmd->hnm", q, k) + torch.where(kind[None] >= 0, chosen, torch.zeros_like(chosen))
        scores = scores / math.sqrt(q.shape[-1])
        p = scores.masked_fill(~visible[None], -math.inf).softmax(-1)
        out = torch.einsum("hnm,hmd->hnd", torch.where(visible[None], p, torch.zeros_like(p)), v)
        qg, kg, vg = (split(one(x)) for one in (module.query_global, module.key_global, module.value_global))
        scores = torch.einsum("hnd,hmd->hnm", qg, kg) / math.sqrt(q.shape[-1])
        everything = torch.einsum("hnm,hmd->hnd", scores.masked_fill(~seen[None, None], -math.inf).softmax(-1), vg)
        out = torch.where(is_global[None, :, None], everything, out)
        rows = torch.where(seen[:, None], out.transpose(0, 1).reshape(n, -1), torch.zeros((), dtype=x.dtype))
        return (torch.nn.functional.pad(rows, (0, 0, 0, hidden_states.shape[1] - n))[None],)

    return forward


def run_plain(case, folder, call, edges, tables, dtype, targets=None):
    model = getattr(transformers, class_of(case)).from_pretrained(f"{folder}/theirs", dtype=dtype).eval()
    body = model.longformer if case.head else model
    for layer, block in enumerate(body.encoder.layer):
        attention = block.attention.self
        attention.forward = own_attention(case, call, edges, layer, attention, tables[layer])
    return model, model(**call, output_hidden_states=True, **(targets or {}))


def targets_of(case, generator):
    n = case.tokens
    return {
        "MaskedLM": lambda: {"labels": torch.randint(0, VOCABULARY, (1, n), generator=generator)},
        "SequenceClassification": lambda: {"labels": torch.tensor([2])},
        "TokenClassification": lambda: {"labels": torch.randint(0, 3, (1, n), generator=generator)},
        "QuestionAnswering": lambda: {"start_positions": torch.tensor([n - 1]), "end_positions": torch.tensor([n // 2])},
    }[case.head]()


def numbers(call):
    return {key: value.numpy() for key, value in call.items()}


def compare_states(table, case, folder, call, edges, tables):
    with torch.inference_mode():
        _, double = run_plain(case, folder, call, edges, tables, torch.float64)
        _, single = run_plain(case, folder, call, edges, tables, torch.float32)
    ours = longformer_cpp.load(f"{folder}/ours")(**numbers(call), output_hidden_states=True, edges=[edges])
    rows = call["attention_mask"][0].numpy() != 0
    for one, near, right in zip(ours.hidden_states, single.hidden_states, double.hidden_states, strict=True):
        one, near, right = (numpy.asarray(x)[0][: case.tokens][rows] for x in (one, near, right))
        rounding = model_parity.largest_difference([near], [right])
        difference = model_parity.largest_difference([one], [right])
        to_theirs = model_parity.largest_difference([one], [near])
        table.record(("hidden states", model_parity.THEIR_ROUNDING), case, rounding, math.inf)
        table.record(("hidden states", model_parity.OURS_TO_FP32), case, to_theirs, math.inf)
        table.record(("hidden states", model_parity.OURS_TO_DOUBLE), case, difference, max(1e-4, 2 * rounding))


def compare_gradients(table, case, folder, call, edges, tables, targets):
    def gradients(dtype):
        own = [one.to(dtype).requires_grad_() for one in tables]
        model, out = run_plain(case, folder, call, edges, own, dtype, targets)
        out.loss.backward()
        found = {key: p.grad.numpy() for key, p in model.named_parameters() if p.grad is not None}
        found |= {table_name(case, i): one.grad.numpy() for i, one in enumerate(own) if one.grad is not None}
        return out.loss.item(), found

    def category(key):
        return f"gradients{' of keys of kinds' if key.endswith('edge_keys') else ''}, relative"

    model = longformer_cpp.load(f"{folder}/ours")
    found = longformer_cpp.loss_and_gradients(model, **numbers(call | targets), edges=[edges])
    table.compare_gradients(case, found, gradients(torch.float64), gradients(torch.float32), category)


def compare_own(table, case, folder, call, edges):
    """Lists against each document alone; no edges against the folder without them; bf16 against fp32."""
    given = {key: [value[0].numpy()] for key, value in call.items()}
    model = longformer_cpp.load(f"{folder}/ours")
    alone = model(**given, edges=[edges]).last_hidden_state[0]
    half = max(1, case.tokens // 2)
    first = {key: [value[0][:half], value[0]] for key, value in given.items()}
    inside = edges[(edges[:, 0] < half) & (edges[:, 1] < half)]
    short = model(**{k: v[:1] for k, v in first.items()}, edges=[inside]).last_hidden_state[0]
    together = model(**first, edges=[inside, edges]).last_hidden_state
    seen = [mask != 0 for mask in first["attention_mask"]]
    table.compare("list of documents, one at a time", case, [x[s] for x, s in zip(together, seen)],
                  [x[s] for x, s in zip((short, alone), seen)], 1e-5)  # fmt: skip
    config = json.loads(pathlib.Path(folder, "ours", "config.json").read_text())
    del config["edges"]
    plain = pathlib.Path(folder, "plain")
    plain.mkdir()
    (plain / "config.json").write_text(json.dumps(config))
    (plain / "model.safetensors").symlink_to(pathlib.Path(folder, "theirs", "model.safetensors"))
    without = longformer_cpp.load(str(plain))(**given).last_hidden_state[0]
    table.compare("no edges, and the model without", case, [model(**given).last_hidden_state[0]], [without], 0)
    narrow = longformer_cpp.load(f"{folder}/ours", dtype="bf16")(**given, edges=[edges]).last_hidden_state[0]
    rows = call["attention_mask"][0].numpy() != 0
    rough = float(numpy.sqrt(numpy.mean((narrow[rows] - alone[rows]) ** 2)) / max(1e-6, numpy.std(alone[rows])))
    table.record("bf16, relative root mean square", case, rough, 0.05)


def check_info(program, folder, case):
    text = subprocess.run([program, "info", f"{folder}/ours"], check=True, capture_output=True, text=True).stdout
    assert " and ".join(case.kinds) in text, text


def run_case(table, case, program, seed):
    generator = torch.Generator().manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        tables = save(case, folder, generator)
        call, edges = call_of(case, generator), edges_of(case, generator)
        compare_states(table, case, folder, call, edges, tables)
        if case.head and case.mask is None:
            compare_gradients(table, case, folder, call, edges, tables, targets_of(case, generator))
        compare_own(table, case, folder, call, edges)
        check_info(program, folder, case)


def main():
    options, cases = random_models.deck(__doc__, count=40, seed=5, draw=draw)
    table = model_parity.Table()
    table.run(cases, options.only, lambda case: run_case(table, case, options.program, options.seed * 1013 + case.index))
    table.print()
    return table.end(f"{len(cases)} cases against plain loops, weights of transformers {transformers.__version__}, seed {options.seed}")


if __name__ == "__main__":
    sys.exit(main())
