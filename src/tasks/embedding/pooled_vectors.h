// Vectors of texts in the making: what is folded of their rows comes together here. These are plain
// numbers that have left the tensors.
#pragma once

#include <span>
#include <vector>

#include "core/dtype.h"
#include "ops/embedding.h"

namespace longformer::tasks {

/// Maximum of the tokens, their mean, or their sum divided by the square root of their number.
enum class VectorFold { maximum, mean, mean_sqrt };

class PooledVectors {
 public:
  PooledVectors(VectorFold fold, Index vectors, Index width);

  VectorFold fold() const { return fold_; }
  /// The sum or maximum of each range of tokens, [ranges, width], goes into the vector of it.
  void add(std::span<const Index> vectors, std::span<const ops::RowRange> ranges,
           std::span<const float> folded);
  /// [vectors, width]; nothing is left.
  std::vector<float> finish();

 private:
  VectorFold fold_;
  Index width_;
  std::vector<float> values_;
  /// Tokens of each vector.
  std::vector<Index> counts_;
};

}  // namespace longformer::tasks
