// Attention of a Sparse Transformer (arXiv 1904.10509; docs/spec/other-attentions.md#h2): near keys
// and far ones, as parts of one softmax.
#pragma once

#include <vector>

#include "models/attention/query_key_value.h"
#include "models/sparse_config.h"

namespace longformer::models {

/// Query–key pairs that the heads of a layer see in a text of n tokens.
double sparse_pairs(const LanguageModelConfig& config, Index layer, Index n);

class SparseAttention final : public Attention {
 public:
  SparseAttention(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const override;
  /// A state keeps the last near keys, and all far ones: for the pattern `fixed` the columns alone.
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

 private:
  SparseConfig sparse_;
  Index head_size_;
  std::vector<SparseHeads> groups_;
  double dropout_;
  std::uint64_t place_;
  QueryKeyValue query_key_value_;
};

}  // namespace longformer::models
