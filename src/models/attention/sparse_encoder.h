// Attention of a Sparse Transformer that looks both ways (arXiv 1904.10509;
// docs/spec/other-attentions.md#h2-encoder): near keys and far ones, as parts of one softmax.
#pragma once

#include <vector>

#include "kernels/attention/spec.h"
#include "models/sparse_config.h"
#include "ops/attention_probabilities.h"

namespace longformer::models {

/// The specs of all parts that heads which are alike see, over the rows of texts. `pattern` is that
/// of the layer, whatever its heads.
std::vector<kernels::AttentionSpec> sparse_specs(kernels::AttentionPattern pattern,
                                                 const SparseConfig& sparse,
                                                 const SparseHeads& heads,
                                                 const kernels::AttentionRows& rows);

/// 0 where a token of a text of n tokens sees another, −∞ where not.
ops::ScoreTerm sparse_term(const SparseConfig& sparse, const SparseHeads& heads, Index n);

}  // namespace longformer::models
