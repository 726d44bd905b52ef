#include "models/encoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "ops/recompute.h"

namespace longformer::models {
namespace {

std::string layer_name(Index layer) { return fmt::format("encoder.layer.{}.", layer); }

std::unique_ptr<SelfAttention> self_attention(const EncoderConfig& config, Index layer,
                                              const Checkpoint& weights, DType dtype) {
  return config.windows.empty() ? dense_attention(config, layer, weights, dtype)
                                : longformer_attention(config, layer, weights, dtype);
}

SharedRows rows_of(const Batch& batch, bool with_globals) {
  kernels::AttentionRows rows = kernels::self_attention_rows(batch.starts);
  rows.key_mask = batch.mask;
  if (with_globals) rows.global_keys = batch.global_rows;
  return kernels::shared(std::move(rows));
}

}  // namespace

ops::LayerNorm layer_norm(const EncoderConfig& config, const Checkpoint& weights,
                          const std::string& name) {
  const Shape shape = {config.hidden_size};
  return {.weight = weights.get_fp32(name + ".weight", shape),
          .bias = weights.get_fp32(name + ".bias", shape),
          .epsilon = static_cast<float>(config.layer_norm_eps)};
}

ops::Linear linear(const Checkpoint& weights, const std::string& name, const Shape& shape,
                   DType dtype, std::optional<Activation> activation, kernels::LinearSlabs slabs) {
  const std::array matrix = {weights.get(name + ".weight", shape)};
  const std::array bias = {weights.get(name + ".bias", {shape[0]})};
  ops::Linear dense(matrix, bias,
                    {.dtype = dtype,
                     .activation = activation,
                     .trainable = weights.is_trainable(),
                     .slabs = slabs});
  weights.release(matrix[0]);
  return dense;
}

std::vector<std::int32_t> position_rows(const EncoderConfig& config,
                                        std::span<const std::int32_t> ids) {
  const auto pad = static_cast<std::int32_t>(config.pad_token_id);
  auto next = static_cast<std::int32_t>(config.first_position());
  std::vector<std::int32_t> rows;
  rows.reserve(ids.size());
  for (const std::int32_t id : ids) {
    const bool is_padding = config.model_type != ModelType::bert && id == pad;
    rows.push_back(is_padding ? pad : next++);
  }
  return rows;
}

ops::FeedForward feed_forward(const EncoderConfig& config, Index layer, const Checkpoint& weights,
                              DType dtype) {
  const Index slabs = kernels::feed_forward_slabs(config.intermediate_size, dtype);
  return {.up = linear(weights, layer_name(layer) + "intermediate.dense",
                       {config.intermediate_size, config.hidden_size}, dtype, config.activation,
                       {.out = slabs}),
          .down = linear(weights, layer_name(layer) + "output.dense",
                         {config.hidden_size, config.intermediate_size}, dtype, std::nullopt,
                         {.in = slabs})};
}

EncoderLayer::EncoderLayer(const EncoderConfig& config, Index layer, const Checkpoint& weights,
                           DType dtype)
    : attention_(self_attention(config, layer, weights, dtype)),
      attention_output_(linear(weights, layer_name(layer) + "attention.output.dense",
                               {config.hidden_size, config.hidden_size}, dtype)),
      attention_norm_(
          layer_norm(config, weights, layer_name(layer) + "attention.output.LayerNorm")),
      feed_forward_(feed_forward(config, layer, weights, dtype)),
      output_norm_(layer_norm(config, weights, layer_name(layer) + "output.LayerNorm")),
      dropout_(config.hidden_dropout),
      places_(dropout_places(layer)) {}

Tensor EncoderLayer::forward(const ops::Context& context, const Tensor& x, const SharedRows& rows,
                             const HeadObserver* observer) const {
  const Tensor attended = attention_->forward(context, x, rows, observer);
  const Tensor hidden =
      ops::linear_add_norm(context, attended, attention_output_, x, attention_norm_,
                           context.dropout(dropout_, places_.attention_output));
  return ops::feed_forward_add_norm(context, hidden, feed_forward_, output_norm_,
                                    context.dropout(dropout_, places_.output));
}

Encoder::Encoder(const EncoderConfig& config, const Checkpoint& weights, DType dtype)
    : dropout_(config.hidden_dropout), has_global_tokens_(!config.windows.empty()) {
  const Index width = config.hidden_size;
  embeddings_ = {
      .words = weights.get(kWordEmbeddings, {config.vocab_size, width}),
      .positions = weights.get(kPositionEmbeddings, {config.max_position_embeddings, width}),
      .types =
          weights.get("embeddings.token_type_embeddings.weight", {config.type_vocab_size, width}),
      .norm = layer_norm(config, weights, "embeddings.LayerNorm"),
      .word_padding = config.pad_token_id,
      .position_padding = config.model_type == ModelType::bert ? -1 : config.pad_token_id};
  for (Index layer = 0; layer < config.layers; ++layer) {
    layers_.emplace_back(config, layer, weights, dtype);
  }
  if (weights.has("pooler.dense.weight")) {
    pooler_ = linear(weights, "pooler.dense", {width, width}, dtype, Activation::tanh);
  }
}

Tensor Encoder::forward(const ops::Context& context, const Batch& batch,
                        std::vector<Tensor>* hidden_states,
                        const AttentionObserver* observer) const {
  Tensor x = ops::embed(context, embeddings_,
                        {.words = batch.ids, .positions = batch.positions, .types = batch.types},
                        context.dropout(dropout_, kEmbeddingPlace));
  const SharedRows rows = rows_of(batch, has_global_tokens_);
  if (hidden_states != nullptr) hidden_states->push_back(x);
  for (Index i = 0; i < static_cast<Index>(layers_.size()); ++i) {
    HeadObserver heads;
    const bool observed = observer != nullptr &&
                          std::binary_search(observer->layers.begin(), observer->layers.end(), i);
    if (observed) {
      heads = {observer->heads, [observer, i](const ops::HeadProbabilities& probabilities) {
                 observer->observe(i, probabilities);
               }};
    }
    const EncoderLayer& layer = layers_[static_cast<std::size_t>(i)];
    if (context.checkpointing) {
      const auto part = [&layer, rows](const ops::Context& inner, std::span<const Tensor> in) {
        return std::vector<Tensor>{layer.forward(inner, in[0], rows, nullptr)};
      };
      x = ops::recompute(context, {x}, part)[0];
    } else {
      x = layer.forward(context, x, rows, observed ? &heads : nullptr);
    }
    if (hidden_states != nullptr) hidden_states->push_back(x);
    if (observed && observer->alone && i == observer->layers.back()) break;
  }
  return x;
}

Tensor Encoder::pool(const ops::Context& context, const Tensor& hidden, const Batch& batch) const {
  const std::span<const Index> first(batch.starts.data(), batch.starts.size() - 1);
  return ops::linear(context, ops::select_rows(context, hidden, first), *pooler_, DType::f32);
}

}  // namespace longformer::models
