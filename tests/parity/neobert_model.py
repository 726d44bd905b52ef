"""NeoBERT (arXiv 2502.19587) in PyTorch, written from the published description, as `transformers` has no class of it:
the names of tensors and the keys of the folders on the Hub, plain attention, any dtype. An oracle for modern_models.py."""

from types import SimpleNamespace

import torch
from torch import nn
import transformers
from transformers.modeling_outputs import MaskedLMOutput, SequenceClassifierOutput
from transformers.utils import ModelOutput


class NeoBERTConfig(transformers.PreTrainedConfig):
    model_type = "neobert"

    def __init__(self, **named):
        usual = {"hidden_size": 768, "num_hidden_layers": 28, "num_attention_heads": 12, "intermediate_size": 3072}
        usual |= {"vocab_size": 30522, "pad_token_id": 0, "norm_eps": 1e-6, "classifier_dropout": 0.1}
        # `transformers` saves no model whose configuration has the key "max_length", that of generation.
        self.max_position_embeddings = named.pop("max_length", 4096)
        for key, value in usual.items():
            setattr(self, key, named.pop(key, value))
        self.dim_head = self.hidden_size // self.num_attention_heads
        super().__init__(**named | {"tie_word_embeddings": False, "pad_token_id": self.pad_token_id})


def squares_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


class Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        return squares_norm(x, self.weight, self.epsilon)


class GatedBlock(nn.Module):
    """SwiGLU; the wide rows are two thirds of intermediate_size, rounded up to a multiple of 8."""

    def __init__(self, config):
        super().__init__()
        inner = 8 * ((2 * config.intermediate_size // 3 + 7) // 8)
        self.w12 = nn.Linear(config.hidden_size, 2 * inner, bias=False)
        self.w3 = nn.Linear(inner, config.hidden_size, bias=False)

    def forward(self, x):
        gate, up = self.w12(x).chunk(2, dim=-1)
        return self.w3(nn.functional.silu(gate) * up)


def turned(x, angles):
    """Neighbours (2t, 2t + 1) of x [batch, n, heads, d] turn as complex numbers do."""
    cos, sin = angles.cos()[:, :, None].to(x.dtype), angles.sin()[:, :, None].to(x.dtype)
    real, imaginary = x[..., 0::2], x[..., 1::2]
    return torch.stack((real * cos - imaginary * sin, imaginary * cos + real * sin), dim=-1).flatten(-2)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.heads, self.size = config.num_attention_heads, config.dim_head
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.ffn = GatedBlock(config)
        self.attention_norm, self.ffn_norm = Norm(width, config.norm_eps), Norm(width, config.norm_eps)

    def attention(self, x, angles, closed):
        batch, n, width = x.shape
        query, key, value = self.qkv(x).view(batch, n, self.heads, 3 * self.size).chunk(3, dim=-1)
        query, key = turned(query, angles), turned(key, angles)
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * self.size**-0.5 + closed
        shares = torch.softmax(scores, dim=-1)
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", shares, value).reshape(batch, n, width))

    def forward(self, x, angles, closed):
        x = x + self.attention(self.attention_norm(x), angles, closed)
        return x + self.ffn(self.ffn_norm(x))


class PreTrained(transformers.PreTrainedModel):
    config_class = NeoBERTConfig
    base_model_prefix = "model"
    _supports_sdpa = True

    def _init_weights(self, module):
        pass


class NeoBERTModel(PreTrained):
    def __init__(self, config):
        super().__init__(config)
        self.encoder = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.transformer_encoder = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.layer_norm = Norm(config.hidden_size, config.norm_eps)
        self.post_init()

    def angles(self, positions):
        """In fp32 whatever the dtype of the model is, as its buffers are."""
        size = self.config.dim_head
        frequencies = 1.0 / 10000.0 ** (torch.arange(0, size, 2).float() / size)
        angles = positions[..., None].float() * frequencies
        return angles.double() if self.dtype == torch.float64 else angles

    def forward(self, input_ids, attention_mask=None, position_ids=None, output_hidden_states=None, **_):
        x = self.encoder(input_ids)
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1]).expand(input_ids.shape)
        closed = torch.zeros((1, 1, 1, 1), dtype=x.dtype)
        if attention_mask is not None:
            closed = torch.zeros(attention_mask.shape, dtype=x.dtype)
            closed = closed.masked_fill(attention_mask == 0, torch.finfo(x.dtype).min)[:, None, None]
        angles = self.angles(position_ids)
        states = [x]
        for block in self.transformer_encoder:
            x = block(x, angles, closed)
            states.append(x)
        states[-1] = self.layer_norm(x)
        return ModelOutput(last_hidden_state=states[-1], hidden_states=tuple(states))


class NeoBERTForMaskedLM(PreTrained):
    def __init__(self, config):
        super().__init__(config)
        self.model = NeoBERTModel(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def forward(self, input_ids, labels=None, **named):
        out = self.model(input_ids, **named)
        logits = self.decoder(out.last_hidden_state)
        loss = None if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=out.hidden_states)


class NeoBERTForSequenceClassification(PreTrained):
    def __init__(self, config):
        super().__init__(config)
        self.model = NeoBERTModel(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, labels=None, **named):
        out = self.model(input_ids, **named)
        logits = self.classifier(torch.tanh(self.dense(out.last_hidden_state[:, 0])))
        loss = None
        if labels is not None:
            kind = self.config.problem_type or ("single_label_classification" if logits.shape[1] > 1 else "regression")
            if kind == "regression":
                loss = nn.functional.mse_loss(logits.squeeze(), labels.squeeze())
            elif kind == "single_label_classification":
                loss = nn.functional.cross_entropy(logits, labels.flatten())
            else:
                loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=out.hidden_states)


CLASSES = SimpleNamespace(
    NeoBERTModel=NeoBERTModel,
    NeoBERTForMaskedLM=NeoBERTForMaskedLM,
    NeoBERTForSequenceClassification=NeoBERTForSequenceClassification,
)
