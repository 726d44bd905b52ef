// One document over ranks: each computes a part of the tokens in every layer, and asks its
// neighbours for the rows that its windows reach (docs/corpora.md#one-document-over-processes).
#pragma once

#include <vector>

#include "core/collective.h"
#include "models/batch.h"
#include "models/config.h"
#include "ops/embedding.h"

namespace longformer::models {

/// Throws Error for a model whose layers cannot be divided among ranks.
void check_divisible(const EncoderConfig& config);

/// Tokens that a token sees to its left and to its right in the layer where it sees farthest.
struct Reach {
  Index left = 0, right = 0;
};
Reach longest_reach(const EncoderConfig& config);

/// The part of this rank. Its rows are those of its tokens, of as many tokens before and behind
/// them as windows reach, and, before and behind all of these, of the other global tokens.
/// Attention reads all of them; before the next layer the neighbours send what rows of theirs have
/// become. Rows of global tokens become the same in all ranks, from sums over all of them.
class DocumentPart {
 public:
  /// A batch of one document. Throws Error for a model that cannot be divided, for a document that
  /// is shorter than its ranks need, and for edges. `ranks` must outlive the part.
  DocumentPart(const CheckedRanks& ranks, const EncoderConfig& config, const Batch& document);

  /// The rows of this rank, as one document.
  const Batch& batch() const { return batch_; }
  kernels::Division division() const { return {&ranks_, own_rows()}; }
  /// Rows that this rank computes: its own, and those of global tokens that are far away.
  std::vector<kernels::Range> computed() const {
    const auto [begin, end] = own_rows();
    return {{0, begin - before_}, {begin, end}, {end + behind_, batch_.rows()}};
  }

  /// Writes the rows of the neighbours into x [rows, D], a result of a layer.
  void refresh(Tensor& x) const;

  /// The tokens of the range that this rank computes, as rows of its batch.
  ops::RowRange own(ops::RowRange tokens) const;
  /// The rows of all tokens, [n, C] fp32, from those of all ranks, [rows, C]: what is sent grows
  /// with the document.
  Tensor gathered(const Tensor& rows) const;
  /// The row of the first token, [1, C] fp32, for all ranks.
  Tensor first_row(const Tensor& rows) const;

 private:
  kernels::Range own_rows() const { return {own_.begin + first_, own_.end + first_}; }

  const CheckedRanks& ranks_;
  Index tokens_ = 0;
  /// Tokens of this rank, and what is added to their numbers for those of their rows.
  kernels::Range own_;
  Index first_ = 0;
  /// Rows of the neighbours here, and rows of this rank there.
  Index before_ = 0, behind_ = 0, for_before_ = 0, for_behind_ = 0;
  Batch batch_;
};

}  // namespace longformer::models
