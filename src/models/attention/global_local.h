// Attention of PegasusX (Phang et al. 2022, arXiv 2208.04347 §3;
// docs/spec/other-attentions.md#h7): blocks, and global tokens that are no tokens of a text.
//
// The rows of a pass are the n tokens of all its texts, then G global rows for each text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/attention/spec.h"
#include "models/attention/attention.h"
#include "ops/embedding.h"

namespace longformer::models {

/// "blocks of 512 tokens, …", for people.
std::string description_of(const GlobalLocalRecipe& recipe);

/// The specs of two parts of one softmax, from rows without global tokens: in the first, tokens see
/// the tokens of their block, and global rows see each other; in the second, tokens see the global
/// rows of their text, which see the tokens. `pattern` is how heads see everything.
std::vector<kernels::AttentionSpec> global_local_specs(const kernels::AttentionPattern& pattern,
                                                       const GlobalLocalRecipe& recipe,
                                                       const kernels::AttentionRows& rows,
                                                       bool is_staggered);

/// Query, key, value and output are those of tokens and of global rows alike.
std::unique_ptr<Attention> global_local_attention(const EncoderConfig& config, Index layer,
                                                  const LayerSource& source);

/// The table of global rows, and what becomes of them around the layers.
class GlobalRows {
 public:
  GlobalRows(const EncoderConfig& config, const LayerSource& source);

  /// x [n, D] with the global rows of each text behind them.
  Tensor appended(const ops::Context& context, const Tensor& x, Index texts) const;
  /// The first n rows.
  static Tensor dropped(const ops::Context& context, const Tensor& x, Index n);

 private:
  ops::EmbeddingTables table_;
};

}  // namespace longformer::models
