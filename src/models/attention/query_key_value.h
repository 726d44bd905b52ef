// Queries, keys and values of a language model. With infused positions (Shortformer, arXiv
// 2012.15832 §5; docs/spec/language-models.md#k) queries and keys are those of rows with their
// positions added, and values those of the rows alone.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/attention/attention.h"
#include "models/language_model_config.h"

namespace longformer::models {

class QueryKeyValue {
 public:
  QueryKeyValue(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  /// x [n, D] to three tensors [H, n, d]; row i is at the position of row places[i] of the table
  /// [P, D], which counts where positions are infused.
  std::vector<Tensor> project(const ops::Context& context, const Tensor& x, const Tensor& table,
                              std::span<const Index> places) const;
  /// Without positions. Constant weights get no gradient.
  std::vector<Tensor> project(const ops::Context& context, const Tensor& x,
                              ops::WeightsAre weights = ops::WeightsAre::trained) const;
  bool is_infused() const { return infused_; }

 private:
  Index heads_, head_size_;
  bool infused_;
  ops::Linear query_key_value_;
  /// The same weights without their bias, which positions do not have.
  std::optional<ops::Linear> unbiased_;
};

}  // namespace longformer::models
