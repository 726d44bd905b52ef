#include "models/distances.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/distance_bias.h"
#include "ops/embedding.h"

namespace longformer::models {
namespace {

Index longest_of(std::span<const Index> starts) {
  Index longest = 1;
  for (std::size_t i = 1; i < starts.size(); ++i) {
    longest = std::max(longest, starts[i] - starts[i - 1]);
  }
  return longest;
}

}  // namespace

Distances::Distances(const EncoderConfig& config, const LayerSource& source)
    : bias_(config.recipe.distance_bias), heads_(config.heads), keys_(config.recipe.distance_keys) {
  if (bias_ == DistanceBias::buckets) {
    const LinearShape shape = {config.recipe.bucket_rows, config.heads};
    constexpr const char* kName = "encoder.relative_attention_bias.weight";
    buckets_ = source.weights.get_fp32(kName, {shape.out, shape.in}, source.init(kName, shape));
  }
  if (!keys_ || !keys_->has_table) return;
  const LinearShape shape = {2 * keys_->buckets.span(), config.hidden_size};
  constexpr const char* kName = "encoder.rel_embeddings.weight";
  table_ = source.weights.get_fp32(kName, {shape.out, shape.in}, source.init(kName, shape));
  if (keys_->has_norm) norm_ = layer_norm(source, "encoder.LayerNorm", config.hidden_size);
}

void Distances::fill(const ops::Context& context, SharedInput& shared) const {
  const Index farthest = longest_of(shared.starts) - 1;
  if (bias_ == DistanceBias::buckets) {
    shared.distance_bias = ops::bucket_biases(context, buckets_, {});
  } else if (bias_ == DistanceBias::slopes) {
    shared.distance_bias = ops::slope_biases(context, heads_, farthest);
  }
  if (table_.empty()) return;
  std::vector<std::int32_t> all(static_cast<std::size_t>(table_.rows()));
  std::iota(all.begin(), all.end(), 0);
  Tensor table = ops::embed_scaled(context, table_, all, 1);
  shared.distance_table = norm_ ? ops::layer_norm(context, table, *norm_) : std::move(table);
  shared.distance_rows = std::make_shared<const std::vector<std::int32_t>>(
      ops::distance_rows(keys_->buckets, farthest));
}

}  // namespace longformer::models
