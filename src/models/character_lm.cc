#include "models/character_lm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/relative_positions.h"

namespace longformer::models {
namespace {

// Numbers of the places where the model drops beside its layers.
constexpr std::uint64_t kSinusoidPlace = 1;
constexpr std::uint64_t kLastHiddenPlace = 2;

LayerSource source_of(const CharacterLmConfig& config, const Weights& weights, DType dtype) {
  return {.weights = weights,
          .dtype = dtype,
          .initializer_range = config.initializer_range,
          .layer_norm_eps = config.layer_norm_eps,
          .gain_range = config.initializer_range};
}

std::unique_ptr<Block> language_layer(const CharacterLmConfig& config, Index layer,
                                      const LayerSource& source,
                                      std::shared_ptr<const Attention> attention) {
  const auto name = [layer](const char* part) { return fmt::format("layers.{}.{}", layer, part); };
  const Index width = config.hidden_size;
  const Index inner = config.intermediate_size;
  return pre_norm_block(
      {.attention = std::move(attention),
       .attention_output = linear(source, name("attention_output"),
                                  {width, config.heads * config.head_size}, {.has_bias = false}),
       .attention_norm = layer_norm(source, name("attention_norm"), width),
       .feed_forward = {.up = linear(source, name("up"), {inner, width},
                                     {.activation = ops::Activation::gelu}),
                        .down = linear(source, name("down"), {width, inner})},
       .feed_forward_norm = layer_norm(source, name("feed_forward_norm"), width),
       .attention_dropout = config.dropout,
       .feed_forward_dropout = config.dropout,
       .activation_dropout = config.dropout,
       .place = layer_place(layer)});
}

}  // namespace

Index parameter_count(const CharacterLmConfig& config) {
  const Weights recording = Weights::recording();
  const CharacterLm model(config, recording, DType::f32);
  Index count = 0;
  for (const auto& [name, shape] : recording.recorded()) count += element_count(shape);
  return count;
}

Batch segments_of(std::span<const std::int32_t> ids, Index length) {
  Batch batch;
  batch.ids.assign(ids.begin(), ids.end());
  for (Index begin = 0; begin < batch.rows(); begin += length) batch.starts.push_back(begin);
  batch.starts.push_back(batch.rows());
  return batch;
}

CharacterLm::CharacterLm(CharacterLmConfig config, const Weights& weights, DType dtype)
    : config_(std::move(config)) {
  const LayerSource source = source_of(config_, weights, dtype);
  const Index width = config_.hidden_size;
  embedding_ = weights.get_fp32("embedding.weight", {config_.vocab_size, width},
                                Init::normal(config_.initializer_range));
  decoder_ = linear(source, config_.tie_word_embeddings ? "embedding" : "output",
                    {config_.vocab_size, width}, {.bias_name = "output.bias"});
  for (Index layer = 0; layer < config_.layers; ++layer) {
    attention_.push_back(std::make_shared<RelativeAttention>(config_, layer, source));
    layers_.add(language_layer(config_, layer, source, attention_.back()));
  }
  if (config_.final_layer_norm) final_norm_ = layer_norm(source, "final_norm", width);
}

void CharacterLm::set_windows(const std::vector<Index>& windows) {
  config_.windows = windows;
  for (std::size_t layer = 0; layer < attention_.size(); ++layer) {
    attention_[layer]->set_window(windows[layer]);
  }
}

Index CharacterLm::most_distance() const {
  Index most = 0;
  for (Index layer = 0; layer < config_.layers; ++layer) {
    most = std::max(most, config_.reach(layer));
  }
  return most;
}

Tensor CharacterLm::distances(const ops::Context& context, Index count) const {
  return ops::dropout(context, ops::sinusoids(context, count, config_.hidden_size),
                      context.dropout(config_.dropout, kSinusoidPlace));
}

Tensor CharacterLm::forward(const ops::Context& context, const Batch& batch,
                            const PassOptions& options) const {
  const auto shared = std::make_shared<SharedInput>();
  shared->starts = batch.starts;
  Index farthest = most_distance();
  if (options.state == nullptr) {
    shared->rows = kernels::shared(kernels::self_attention_rows(batch.starts));
    Index longest = 0;
    for (Index i = 0; i < batch.documents(); ++i) {
      longest = std::max(longest, batch.starts[at(i + 1)] - batch.starts[at(i)]);
    }
    farthest = std::min(longest - 1, farthest);
  }
  shared->make_distances = [this, context, farthest] { return distances(context, farthest + 1); };
  const Tensor embedded = ops::embed_scaled(context, embedding_, batch.ids,
                                            std::sqrt(static_cast<float>(config_.hidden_size)),
                                            context.dropout(config_.dropout, kEmbeddingPlace));
  const Tensor x = layers_.forward(context, embedded, shared, options);
  const Tensor last = final_norm_ ? ops::layer_norm(context, x, *final_norm_) : x;
  return ops::dropout(context, last, context.dropout(config_.dropout, kLastHiddenPlace));
}

State CharacterLm::start(DType dtype, Index streams) const { return layers_.start(dtype, streams); }

ops::LossSum CharacterLm::loss(const ops::Context& context, const Batch& batch,
                               std::span<const std::int32_t> labels,
                               const ops::LossOptions& options, const PassOptions& pass) const {
  return ops::linear_cross_entropy(context, forward(context, batch, pass), *decoder_, labels,
                                   options);
}

Tensor CharacterLm::logits(const ops::Context& context, const Tensor& hidden) const {
  return ops::linear(context, hidden, *decoder_, DType::f32);
}

}  // namespace longformer::models
