"""jina-embeddings-v2 in PyTorch, for modern_parity.py: `transformers` has no class for it.

Written from its description (arXiv 2310.19923) and that of ALiBi (arXiv 2108.12409), with the names of tensors in
the published files: BERT whose scores have -slope · |i - j| in place of a table of positions, and whose
feed-forward block is Wo(gelu(first half) · second half) of one projection without bias. The softmax, the slopes and
everything else are computed in the dtype of the weights. The heads are BERT's.
"""

import math

import torch
from torch import nn
import transformers
from transformers import modeling_outputs
from transformers.activations import ACT2FN


class JinaBertConfig(transformers.PreTrainedConfig):
    model_type = "bert"

    def __init__(self, **settings):
        usual = {
            "vocab_size": 30528,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "hidden_act": "gelu",
            "max_position_embeddings": 8192,
            "type_vocab_size": 2,
            "layer_norm_eps": 1e-12,
            "pad_token_id": 0,
            "position_embedding_type": "alibi",
            "feed_forward_type": "geglu",
            "emb_pooler": "mean",
        }
        for name, value in usual.items():
            setattr(self, name, settings.pop(name, value))
        super().__init__(**settings)


def slopes(heads):
    """One slope for each head: 2^(-8/n), 2^(-16/n), …; for other n than powers of two, those of the next smaller
    power and every other one of the next larger."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)]
    below = 2 ** int(math.log2(heads))
    return slopes(below) + slopes(2 * below)[::2][: heads - below]


def module(**children):
    parent = nn.Module()
    for name, child in children.items():
        parent.add_module(name, child)
    return parent


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size

        def norm():
            return nn.LayerNorm(width, eps=config.layer_norm_eps)

        projections = {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        output = module(dense=nn.Linear(width, width), LayerNorm=norm())
        self.attention = module(self=module(**projections), output=output)
        self.gated = config.feed_forward_type == "geglu"
        if self.gated:
            self.mlp = module(
                gated_layers=nn.Linear(width, 2 * inner, bias=False), wo=nn.Linear(inner, width), layernorm=norm()
            )
        else:
            self.intermediate = module(dense=nn.Linear(width, inner))
            self.output = module(dense=nn.Linear(inner, width), LayerNorm=norm())
            self.activation = ACT2FN[config.hidden_act]
        self.heads = config.num_attention_heads

    def forward(self, x, bias):
        parts = self.attention.get_submodule("self")
        batch, n, width = x.shape
        query, key, value = (
            projection(x).reshape(batch, n, self.heads, -1).transpose(1, 2)
            for projection in (parts.query, parts.key, parts.value)
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads) + bias
        attended = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, n, width)
        output = self.attention.output
        x = output.LayerNorm(x + output.dense(attended))
        if not self.gated:
            return self.output.LayerNorm(x + self.output.dense(self.activation(self.intermediate.dense(x))))
        first, second = self.mlp.gated_layers(x).chunk(2, dim=-1)
        return self.mlp.layernorm(x + self.mlp.wo(nn.functional.gelu(first) * second))


class Base(transformers.PreTrainedModel):
    config_class = JinaBertConfig
    base_model_prefix = "bert"


class JinaBertModel(Base):
    def __init__(self, config, pools=True):
        super().__init__(config)
        width = config.hidden_size
        self.embeddings = module(
            word_embeddings=nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id),
            token_type_embeddings=nn.Embedding(config.type_vocab_size, width),
            LayerNorm=nn.LayerNorm(width, eps=config.layer_norm_eps),
        )
        self.encoder = module(layer=nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers)))
        self.pooler = module(dense=nn.Linear(width, width)) if pools else None
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings

    def biases(self, n, mask, dtype):
        distance = (torch.arange(n)[:, None] - torch.arange(n)[None, :]).abs()
        slope = torch.tensor(slopes(self.config.num_attention_heads), dtype=dtype)
        biases = -slope[:, None, None] * distance.to(dtype)
        return biases if mask is None else biases.masked_fill(mask[:, None, None, :] == 0, -1e30)

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, **_):
        parts = self.embeddings
        kinds = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = parts.LayerNorm(parts.word_embeddings(input_ids) + parts.token_type_embeddings(kinds))
        bias = self.biases(input_ids.shape[1], attention_mask, x.dtype)
        states = [x]
        for layer in self.encoder.layer:
            states.append(layer(states[-1], bias))
        pooled = None if self.pooler is None else self.pooler.dense(states[-1][:, 0]).tanh()
        return modeling_outputs.BaseModelOutputWithPooling(
            last_hidden_state=states[-1], hidden_states=tuple(states), pooler_output=pooled
        )


class Headed(Base):
    def run(self, labels, logits_of, **arguments):
        """`logits_of` of the outputs, and the loss that `transformers` takes for such logits."""
        arguments.pop("output_hidden_states", None)
        out = self.bert(**arguments)
        logits = logits_of(out)
        loss = None
        if labels is not None and logits.shape[:-1] == labels.shape:
            loss = nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
        elif labels is not None:
            loss = self.other_loss(logits, labels)
        return modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=out.hidden_states)

    def other_loss(self, logits, labels):
        if self.config.problem_type == "multi_label_classification":
            return nn.functional.binary_cross_entropy_with_logits(logits, labels)
        return nn.functional.mse_loss(logits.squeeze(), labels.squeeze())


class JinaBertForMaskedLM(Headed):
    _tied_weights_keys = {  # noqa: RUF012
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config):
        super().__init__(config)
        self.bert = JinaBertModel(config, pools=False)
        width = config.hidden_size
        transform = module(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=config.layer_norm_eps))
        self.cls = module(
            predictions=module(transform=transform, decoder=nn.Linear(width, config.vocab_size, bias=True))
        )
        self.cls.predictions.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.post_init()

    def get_output_embeddings(self):
        return self.cls.predictions.decoder

    def forward(self, labels=None, **arguments):
        parts = self.cls.predictions
        activation = ACT2FN[self.config.hidden_act]

        def logits_of(out):
            return parts.decoder(parts.transform.LayerNorm(activation(parts.transform.dense(out.last_hidden_state))))

        return self.run(labels, logits_of, **arguments)


class JinaBertForSequenceClassification(Headed):
    def __init__(self, config):
        super().__init__(config)
        self.bert = JinaBertModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, labels=None, **arguments):
        return self.run(labels, lambda out: self.classifier(out.pooler_output), **arguments)


class JinaBertForTokenClassification(Headed):
    def __init__(self, config):
        super().__init__(config)
        self.bert = JinaBertModel(config, pools=False)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, labels=None, **arguments):
        return self.run(labels, lambda out: self.classifier(out.last_hidden_state), **arguments)


CLASSES = {
    kind.__name__: kind
    for kind in (JinaBertModel, JinaBertForMaskedLM, JinaBertForSequenceClassification, JinaBertForTokenClassification)
}
