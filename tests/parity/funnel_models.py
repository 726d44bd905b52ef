"""The Funnel Transformer of `transformers` for the scripts: in double precision, and with states of rows as those of tokens."""

import contextlib

import torch

# They read the blocks alone.
POOLED = ("BaseModel", "ForSequenceClassification", "ForMultipleChoice")


@contextlib.contextmanager
def double_precision():
    """Attention casts its scores to fp32, whatever the model is in."""
    cast = torch.Tensor.float
    torch.Tensor.float = lambda x: x if x.dtype == torch.float64 else cast(x)
    try:
        yield
    finally:
        torch.Tensor.float = cast


def rows_of_tokens(config, n, block):
    """The row of a block that each of n tokens became a part of, or one beyond the last."""
    apart = int(config.separate_cls)
    return [0] * apart + [apart + t // 2**block for t in range(n - apart)]


def spread(config, states, n, block):
    """For each token the state of its row, or of the last one; states are [batch, rows, width]."""
    return states[:, [min(row, states.shape[1] - 1) for row in rows_of_tokens(config, n, block)]]


def blocks_of_states(config):
    """The block of each hidden state of the encoder: that of the tokens, and those of layers with their repeats."""
    sizes = zip(config.block_sizes, config.block_repeats, strict=True)
    return [0] + [b for b, (size, times) in enumerate(sizes) for _ in range(size * times)]


def token_states(config, hidden_states, n):
    """Hidden states as those of tokens; that which the decoder begins with is no output of a layer."""
    blocks = blocks_of_states(config)
    states = [spread(config, s, n, block) for s, block in zip(hidden_states, blocks)]
    return states + list(hidden_states[len(blocks) + 1 :])
