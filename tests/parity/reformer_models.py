"""The Reformer of `transformers` for the scripts: hashes as a model in fp32 draws them, and how near they came to another."""

import contextlib

import torch


class Nearest:
    """The least gap between the best two buckets of a hash, relative to its size: rounding decides where it is tiny."""

    def __init__(self):
        self.gap = 1.0


@contextlib.contextmanager
def fp32_hashes():
    """In double precision PyTorch draws other numbers. Notes how near the best two buckets of a hash are."""
    drawn, argmax, nearest = torch.randn, torch.argmax, Nearest()

    def fp32_randn(*shape, **options):
        dtype = options.pop("dtype", None)
        return drawn(*shape, **options).to(dtype or torch.float32)

    def watched_argmax(x, dim=None, **options):
        if dim == -1 and x.dim() == 5:
            best = x.topk(2, dim=-1).values
            gap = ((best[..., 0] - best[..., 1]) / best[..., 0].abs().clamp_min(1e-9)).min().item()
            nearest.gap = min(nearest.gap, gap)
        return argmax(x, dim=dim, **options)

    torch.randn, torch.argmax = fp32_randn, watched_argmax
    try:
        yield nearest
    finally:
        torch.randn, torch.argmax = drawn, argmax


def forget_buckets(model, buckets):
    """transformers keeps the number of buckets that the first text asked for."""
    for module in model.modules():
        if hasattr(module, "num_buckets"):
            module.num_buckets = module.config.num_buckets = buckets
