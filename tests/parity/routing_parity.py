#!/usr/bin/env python3
"""Compares Routing Transformers with the package routing-transformer in double precision, in one live run.

    python3 tests/parity/routing_parity.py [PROGRAM] [--count 24] [--seed 5] [--only INDEX,…]

Every trial draws a configuration, weights, centroids and a text. The layers are those of the package, with all heads
routed; embeddings, sinusoids and the last norm stand around them here. Compared are the loss of a training step (at most
1e-4: the package's mean of clusters has 1e-5 in its denominator), the gradient of every weight with the loss of far
tokens (1e-3 of the largest number of its tensor), and the centroids behind one step with the means that the package
finds (1e-4). A text in which two tokens stand within 1e-6 of each other where a cluster ends is left out and counted:
rounding decides there. Exit code 1 on a difference; a NaN is one.
"""

import math
import pathlib
import random
import sys
import tempfile

import pattern_lm_parity as parity
import routing_transformer.routing_transformer as package
import torch

reference = parity.reference
LOSSES, GRADIENTS, CENTROIDS = 1e-4, 1e-3, 1e-4
topk = torch.Tensor.topk


def watched_topk(scores, k, dim=-1):
    """topk that notes how near the first one that is left out came."""
    if k < scores.shape[dim]:
        values = topk(scores, k + 1, dim=dim).values.movedim(dim, -1)
        reference.NEAREST[0] = min(reference.NEAREST[0], float((values[..., -2] - values[..., -1]).min()))
    return topk(scores, k, dim=dim)


def draw(index, seed):
    dealer = random.Random(f"{seed} routing {index}")
    heads, size, clusters = dealer.randint(1, 4), dealer.choice([1, 5, 16, 40]), dealer.randint(1, 9)
    config = reference.BASE | reference.ROUTING | {
        "hidden_size": 2 * dealer.randint(4, 24), "num_hidden_layers": dealer.randint(1, 3),
        "num_attention_heads": heads, "head_dim": dealer.choice([3, 8, 16]), "intermediate_size": 0, "clusters": clusters,
        "cluster_size": size, "local_heads": 0, "routing_norm": "unit", "commitment_loss": dealer.choice([0.0, 1e-2]),
    }  # fmt: skip
    config["intermediate_size"] = 4 * config["hidden_size"]
    return config, "".join(dealer.choices(parity.LETTERS, k=dealer.choice([5, 17, 64, 129, 300])))


def layers_of(config, weights):
    """The layers of the package with these weights."""
    size, clusters = config["cluster_size"], config["clusters"]
    stack = package.RoutingTransformer(
        config["hidden_size"], config["num_hidden_layers"], size * clusters, heads=config["num_attention_heads"],
        dim_head=config["head_dim"], window_size=size, causal=True, rel_pos_emb=False,
        commitment_factor=config["commitment_loss"],
    ).double()  # fmt: skip
    for layer, (attend, forward) in enumerate(stack.layers.layers):
        name = f"layers.{layer}."
        query, value = weights[name + "query_value.weight"].double().chunk(2)
        kmeans = attend.fn.global_attn.kmeans
        kmeans.means.copy_(weights[name + "centroids"].double())
        kmeans.initted.fill_(True)
        own = {
            attend.norm.weight: weights[name + "attention_norm.weight"],
            attend.norm.bias: weights[name + "attention_norm.bias"],
            attend.fn.to_q.weight: query, attend.fn.to_v.weight: value,
            attend.fn.to_out.weight: weights[name + "attention_output.weight"],
            forward.norm.weight: weights[name + "feed_forward_norm.weight"],
            forward.norm.bias: weights[name + "feed_forward_norm.bias"],
            forward.fn.fn.w1.weight: weights[name + "up.weight"], forward.fn.fn.w1.bias: weights[name + "up.bias"],
            forward.fn.fn.w2.weight: weights[name + "down.weight"], forward.fn.fn.w2.bias: weights[name + "down.bias"],
        }  # fmt: skip
        with torch.no_grad():
            for parameter, stored in own.items():
                parameter.copy_(stored.double())
    return stack


def wanted_of(config, weights, ids):
    """Losses, gradients by our names, and the centroids of the first step."""
    stack = layers_of(config, weights).train()
    exact = {name: value.double().requires_grad_() for name, value in weights.items()}
    x, own = stack(reference.embedded(exact, ids[:-1], config)[None])
    h = reference.norm(exact, "final_norm", x[0], config)
    losses = torch.nn.functional.cross_entropy(
        h @ exact["output.weight"].T + exact["output.bias"], ids[1:], reduction="none"
    )
    (losses.sum() + len(losses) * own.sum()).backward()
    gradients = {name: value.grad for name, value in exact.items() if value.grad is not None}
    centroids = {}
    for layer, (attend, forward) in enumerate(stack.layers.layers):
        name = f"layers.{layer}."
        for norm, of in (("attention_norm", attend.norm), ("feed_forward_norm", forward.norm)):
            gradients |= {f"{name}{norm}.weight": of.weight.grad, f"{name}{norm}.bias": of.bias.grad}
        gradients[name + "query_value.weight"] = torch.cat([attend.fn.to_q.weight.grad, attend.fn.to_v.weight.grad])
        gradients[name + "attention_output.weight"] = attend.fn.to_out.weight.grad
        for ours, of in (("up", forward.fn.fn.w1), ("down", forward.fn.fn.w2)):
            gradients |= {f"{name}{ours}.weight": of.weight.grad, f"{name}{ours}.bias": of.bias.grad}
        centroids[name + "centroids"] = attend.fn.global_attn.kmeans.new_means
    return losses.detach(), gradients, centroids


def farthest(found, wanted, least=0.0):
    """Largest difference relative to the largest number; NaN for what is missing."""
    if found is None or found.shape != wanted.shape:
        return math.nan
    return float((found - wanted).abs().max()) / max(float(wanted.abs().max()), least)


def worst(values):
    return max(values, key=lambda value: math.inf if math.isnan(value) else value)


def compare(program, index, seed):
    config, characters = draw(index, seed)
    weights = reference.draw(config, index)
    ids = reference.ids_of(characters)
    reference.NEAREST[0] = 1.0
    wanted, gradients, centroids = wanted_of(config, weights, ids)
    if reference.NEAREST[0] < 1e-6:
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        reference.write_model(folder, config, weights)
        text = folder / "text.txt"
        text.write_text(characters)
        length = len(ids) - 1
        step, loss = parity.step_of(program, folder, text, length)
    largest = max(float(value.abs().max()) for value in gradients.values())
    found = [abs(loss - float(wanted.mean()))]
    found.append(worst([
        farthest(step["exp_avg." + name].double() * 10 * length, value, 1e-3 * largest)
        for name, value in gradients.items()
    ]))  # fmt: skip
    found.append(worst([farthest(step[name].double(), value) for name, value in centroids.items()]))
    if not all(value <= most for value, most in zip(found, (LOSSES, GRADIENTS, CENTROIDS))):
        print(f"trial {index}: {found}: {config}, {len(characters)} characters")
        found.append("bad")
    return found


def main():
    options, trials = parity.parsed(__doc__)
    torch.Tensor.topk = watched_topk
    results = [compare(options.program, index, options.seed) for index in trials]
    rows = [row for row in results if row]
    if not rows:
        sys.exit("no trial was compared")
    print(f"{len(rows)} trials, {len(results) - len(rows)} left out")
    for place, name in enumerate(("losses", "gradients", "centroids")):
        print(f"{name:<10} {worst([row[place] for row in rows]):.1e}")
    sys.exit(1 if any("bad" in row for row in rows) else 0)


if __name__ == "__main__":
    main()
