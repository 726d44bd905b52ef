// Products of blocks of rows in the arithmetic of their dtype. In bf16 factors are rounded and sums
// are fp32 (docs/spec/low-rank-and-kernels.md#f4).
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "core/dtype.h"
#include "kernels/gemm.h"

namespace longformer::kernels {

/// A matrix in fp32, and the same in bf16 where it is multiplied so.
struct Factor {
  const float* wide = nullptr;
  const BFloat16* narrow = nullptr;
};

/// For one thread.
class FeatureProducts {
 public:
  explicit FeatureProducts(bool is_narrow) : is_narrow_(is_narrow) {}

  bool is_narrow() const { return is_narrow_; }

  /// `count` numbers that become a factor; `memory` keeps the rounded ones.
  Factor factor(const float* values, Index count, std::vector<BFloat16>& memory) const;

  /// In bf16 where both factors are there and rows follow each other, else in fp32.
  void multiply(const GemmShape& shape, const Factor& a, const Factor& b, float* c);

 private:
  bool is_narrow_;
  std::map<std::tuple<Index, Index, Index, bool, bool, bool>, PreparedProduct> prepared_;
};

}  // namespace longformer::kernels
