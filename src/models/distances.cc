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
  const Init init = Init::normal(source.initializer_range);
  if (bias_ == DistanceBias::buckets) {
    buckets_ = source.weights.get_fp32("encoder.relative_attention_bias.weight",
                                       {config.recipe.bucket_rows, config.heads}, init);
  }
  if (!keys_ || !keys_->has_table) return;
  table_ = source.weights.get_fp32("encoder.rel_embeddings.weight",
                                   {2 * keys_->buckets.span(), config.hidden_size}, init);
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
