#include "models/character_lm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/recompute.h"
#include "ops/relative_positions.h"

namespace longformer::models {
namespace {

// Numbers of the places where the model drops (ops::Context::dropout).
constexpr std::uint64_t kEmbeddings = 0;
constexpr std::uint64_t kSinusoids = 1;
constexpr std::uint64_t kLastHidden = 2;
constexpr std::uint64_t kPlacesOfLayer = 4;

std::string name_in(Index layer, const char* name) {
  return fmt::format("layers.{}.{}", layer, name);
}

ops::LayerNorm norm(const CharacterLmConfig& config, const Checkpoint& weights,
                    const std::string& name) {
  const Shape shape = {config.hidden_size};
  return {.weight = weights.get_fp32(name + ".weight", shape),
          .bias = weights.get_fp32(name + ".bias", shape),
          .epsilon = static_cast<float>(config.layer_norm_eps)};
}

struct Dense {
  std::string name;
  Shape shape;
  std::string bias = {};
  std::optional<ops::Activation> activation = std::nullopt;
};

ops::Linear dense(const Checkpoint& weights, const Dense& layer, DType dtype) {
  const std::array matrix = {weights.get(layer.name + ".weight", layer.shape)};
  std::vector<Tensor> bias;
  if (!layer.bias.empty()) bias.push_back(weights.get(layer.bias, {layer.shape[0]}));
  ops::Linear made(
      matrix, bias,
      {.dtype = dtype, .activation = layer.activation, .trainable = weights.is_trainable()});
  weights.release(matrix[0]);
  return made;
}

ops::Linear biased(const Checkpoint& weights, const std::string& name, const Shape& shape,
                   DType dtype, std::optional<ops::Activation> activation = std::nullopt) {
  return dense(weights,
               {.name = name, .shape = shape, .bias = name + ".bias", .activation = activation},
               dtype);
}

ops::Linear decoder(const CharacterLmConfig& config, const Checkpoint& weights, DType dtype) {
  return dense(weights,
               {.name = config.tie_word_embeddings ? "embedding" : "output",
                .shape = {config.vocab_size, config.hidden_size},
                .bias = "output.bias"},
               dtype);
}

}  // namespace

CharacterLmLayer::CharacterLmLayer(const CharacterLmConfig& config, Index layer,
                                   const Checkpoint& weights, DType dtype)
    : window_(0),
      reach_(0),
      heads_(config.heads),
      head_size_(config.head_size),
      dropout_(config.dropout),
      attention_dropout_(config.attention_dropout),
      place_(kPlacesOfLayer * (static_cast<std::uint64_t>(layer) + 1)),
      content_bias_(weights.get_fp32("relative_content", {heads_, head_size_})),
      position_bias_(weights.get_fp32("relative_position", {heads_, head_size_})),
      attention_norm_(norm(config, weights, name_in(layer, "attention_norm"))),
      feed_forward_norm_(norm(config, weights, name_in(layer, "feed_forward_norm"))),
      query_key_value_(dense(weights,
                             {.name = name_in(layer, "query_key_value"),
                              .shape = {3 * heads_ * head_size_, config.hidden_size}},
                             dtype)),
      relative_key_(dense(weights,
                          {.name = name_in(layer, "relative_key"),
                           .shape = {heads_ * head_size_, config.hidden_size}},
                          dtype)),
      attention_output_(dense(weights,
                              {.name = name_in(layer, "attention_output"),
                               .shape = {config.hidden_size, heads_ * head_size_}},
                              dtype)),
      feed_forward_{.up = biased(weights, name_in(layer, "up"),
                                 {config.intermediate_size, config.hidden_size}, dtype,
                                 ops::Activation::gelu),
                    .down = biased(weights, name_in(layer, "down"),
                                   {config.hidden_size, config.intermediate_size}, dtype)} {
  for (Index head = 0; head < heads_; ++head) strides_.push_back(config.stride(layer, head));
  set_window(config.windows[static_cast<std::size_t>(layer)]);
}

void CharacterLmLayer::set_window(Index window) {
  window_ = window;
  reach_ = window * strides_.back();
}

kernels::AttentionPattern CharacterLmLayer::pattern(const ops::Context& context) const {
  kernels::AttentionPattern pattern;
  pattern.head_size = head_size_;
  for (const Index stride : strides_) pattern.heads.push_back({window_, 0, stride});
  pattern.causal = true;
  pattern.relative_positions = true;
  pattern.dropout = context.dropout(attention_dropout_, place_);
  return pattern;
}

Tensor CharacterLmLayer::relative_keys(const ops::Context& context, const Tensor& sinusoids) const {
  const Index farthest = sinusoids.rows() - 1;
  const Index count = std::min(window_, farthest) + 1;
  // Dilated heads have a section of their own; steps that go too far are seen by nobody.
  const bool dilated = strides_.back() > 1 && strides_.front() == 1;
  std::vector<Index> strides = {strides_.front()};
  if (dilated) strides.push_back(strides_.back());
  std::vector<Index> rows;
  for (const Index stride : strides) {
    for (Index step = 0; step < count; ++step) rows.push_back(std::min(step * stride, farthest));
  }
  const Tensor table = ops::select_rows(context, sinusoids, rows);
  const Tensor keys = ops::project_heads(context, table, relative_key_, heads_, head_size_)[0];
  if (!dilated) return keys;
  std::vector<Index> sections;
  for (const Index stride : strides_) sections.push_back(stride > 1 ? 1 : 0);
  return ops::head_sections(context, keys, count, sections);
}

CharacterLayerPast CharacterLmLayer::start(const ops::Context& context) const {
  return {.ring = ops::KeyRing(heads_, head_size_, reach_, context.dtype), .relative_keys = {}};
}

Tensor CharacterLmLayer::attend(const ops::Context& context, const Tensor& x,
                                const CharacterPass& pass, CharacterLayerPast* past) const {
  const auto projected = ops::project_heads(context, x, query_key_value_, heads_, head_size_);
  kernels::AttentionSpec spec = {pattern(context), pass.rows};
  ops::RelativePositions relative = {
      .content_bias = content_bias_, .position_bias = position_bias_, .keys = {}};
  if (past == nullptr) {
    relative.keys = relative_keys(context, pass.sinusoids);
    return ops::attention(context, spec, projected[0], projected[1], projected[2], &relative);
  }
  past->ring.append(projected[1], projected[2]);
  if (past->relative_keys.empty()) past->relative_keys = relative_keys(context, pass.sinusoids);
  relative.keys = past->relative_keys;
  const Index count = x.rows();
  const ops::KeyRing& ring = past->ring;
  // The empty document takes the rows of the ring that hold nothing.
  kernels::AttentionRows rows;
  rows.documents = {{.query_begin = 0,
                     .query_count = count,
                     .key_begin = ring.begin(),
                     .key_count = ring.count(),
                     .query_offset = ring.count() - count},
                    {.query_begin = count, .key_begin = ring.capacity()}};
  spec.rows = kernels::shared(std::move(rows));
  return ops::attention(context, spec, projected[0], ring.keys(), ring.values(), &relative);
}

Tensor CharacterLmLayer::forward(const ops::Context& context, const Tensor& x,
                                 const CharacterPass& pass, CharacterLayerPast* past) const {
  const Tensor attended = attend(context, ops::layer_norm(context, x, attention_norm_), pass, past);
  const Tensor hidden = ops::linear_add(context, attended, attention_output_, x,
                                        context.dropout(dropout_, place_ + 1));
  return ops::feed_forward_add(context, ops::layer_norm(context, hidden, feed_forward_norm_),
                               feed_forward_, hidden,
                               {.inner = context.dropout(dropout_, place_ + 2),
                                .outer = context.dropout(dropout_, place_ + 3)});
}

CharacterLm::CharacterLm(CharacterLmConfig config, const Checkpoint& weights, DType dtype)
    : config_(std::move(config)),
      embedding_(weights.get_fp32("embedding.weight", {config_.vocab_size, config_.hidden_size})),
      decoder_(decoder(config_, weights, dtype)) {
  for (Index layer = 0; layer < config_.layers; ++layer) {
    layers_.emplace_back(config_, layer, weights, dtype);
  }
  if (config_.final_layer_norm) final_norm_ = norm(config_, weights, "final_norm");
}

void CharacterLm::set_windows(const std::vector<Index>& windows) {
  config_.windows = windows;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    layers_[layer].set_window(windows[layer]);
  }
}

Index CharacterLm::most_distance() const {
  Index most = 0;
  for (Index layer = 0; layer < config_.layers; ++layer) {
    most = std::max(most, config_.reach(layer));
  }
  return most;
}

Tensor CharacterLm::embedded(const ops::Context& context, std::span<const std::int32_t> ids) const {
  return ops::embed_scaled(context, embedding_, ids,
                           std::sqrt(static_cast<float>(config_.hidden_size)),
                           context.dropout(config_.dropout, kEmbeddings));
}

Tensor CharacterLm::finished(const ops::Context& context, const Tensor& x) const {
  const Tensor last = final_norm_ ? ops::layer_norm(context, x, *final_norm_) : x;
  return ops::dropout(context, last, context.dropout(config_.dropout, kLastHidden));
}

Tensor CharacterLm::run(const ops::Context& context, std::span<const std::int32_t> ids,
                        const std::shared_ptr<const CharacterPass>& pass) const {
  Tensor x = embedded(context, ids);
  for (const CharacterLmLayer& layer : layers_) {
    if (context.checkpointing) {
      const auto part = [&layer, pass](const ops::Context& inner, std::span<const Tensor> in) {
        return std::vector<Tensor>{layer.forward(inner, in[0], *pass, nullptr)};
      };
      x = ops::recompute(context, {x}, part)[0];
    } else {
      x = layer.forward(context, x, *pass, nullptr);
    }
  }
  return finished(context, x);
}

Tensor CharacterLm::forward(const ops::Context& context, std::span<const std::int32_t> ids,
                            Index length) const {
  const auto pass = std::make_shared<CharacterPass>();
  const auto n = static_cast<Index>(ids.size());
  std::vector<Index> starts;
  for (Index begin = 0; begin < n; begin += length) starts.push_back(begin);
  starts.push_back(n);
  pass->rows = kernels::shared(kernels::self_attention_rows(starts));
  const Index distances = std::min({length, n, most_distance() + 1});
  pass->sinusoids = ops::dropout(context, ops::sinusoids(context, distances, config_.hidden_size),
                                 context.dropout(config_.dropout, kSinusoids));
  return run(context, ids, pass);
}

ops::LossSum CharacterLm::loss(const ops::Context& context, std::span<const std::int32_t> ids,
                               std::span<const std::int32_t> labels, Index length,
                               const ops::LossOptions& options) const {
  return ops::linear_cross_entropy(context, forward(context, ids, length), decoder_, labels,
                                   options);
}

CharacterPast CharacterLm::start(const ops::Context& context) const {
  CharacterPast past;
  for (const CharacterLmLayer& layer : layers_) past.layers_.push_back(layer.start(context));
  return past;
}

Tensor CharacterLm::forward(const ops::Context& context, std::span<const std::int32_t> ids,
                            CharacterPast& past) const {
  CharacterPass pass;
  if (past.characters_ == 0) {
    pass.sinusoids = ops::sinusoids(context, most_distance() + 1, config_.hidden_size);
  }
  Tensor x = embedded(context, ids);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    x = layers_[layer].forward(context, x, pass, &past.layers_[layer]);
  }
  past.characters_ += static_cast<Index>(ids.size());
  return finished(context, x);
}

ops::LossSum CharacterLm::loss(const ops::Context& context, std::span<const std::int32_t> ids,
                               std::span<const std::int32_t> labels, CharacterPast& past) const {
  return ops::linear_cross_entropy(context, forward(context, ids, past), decoder_, labels, {});
}

Tensor CharacterLm::logits(const ops::Context& context, const Tensor& hidden) const {
  return ops::linear(context, hidden, decoder_, DType::f32);
}

}  // namespace longformer::models
