// Convolution over the rows of documents (docs/spec/modern-encoders.md#disentangled).
#pragma once

#include <memory>
#include <vector>

#include "kernels/activation.h"
#include "ops/gradients.h"

namespace longformer::ops {

struct RowConvolution {
  /// [D, D / groups, taps] and [D]: numbers of group g of a result are of group g of the rows.
  Tensor weight, bias;
  Index groups = 1;
  kernels::Activation activation = kernels::Activation::tanh;

  Index taps() const { return weight.dimension(2); }
};
inline bool wants_gradient(const RowConvolution& convolution) {
  return wants_gradient(convolution.weight) || wants_gradient(convolution.bias);
}

/// Rows that each row of some documents reads, `taps` for each; −1 stands for zeros.
struct NeighboursOfRows {
  std::vector<Index> rows;
  /// First row of each document, and the number of rows at the end.
  std::vector<Index> starts;
};

/// activation(dropout(W * x + b)), [n, D]. Working memory is that of a block of rows, which are of
/// one document, so that each has the numbers that it has alone.
Tensor convolve_rows(const Context& context, const Tensor& x, const RowConvolution& convolution,
                     std::shared_ptr<const NeighboursOfRows> neighbours,
                     const Dropout& dropout = {});

}  // namespace longformer::ops
