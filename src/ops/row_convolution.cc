#include "ops/row_convolution.h"

#include <algorithm>
#include <span>
#include <utility>

#include "kernels/elementwise.h"
#include "kernels/row_windows.h"
#include "ops/device.h"
#include "ops/dropout.h"
#include "ops/linear.h"
#include "ops/typed_product.h"

namespace longformer::ops {
namespace {

/// Some rows of a result, and what they read.
struct ConvolutionBlock {
  Index first = 0, rows = 0;
  kernels::NeighbourRows neighbours = {};
  /// [rows, D·taps]
  Tensor features = {};
};

/// Calls body with one block after another.
template <typename Body>
void for_convolution_blocks(const Context& context, const Tensor& x, Index taps,
                            const NeighboursOfRows& neighbours, const Body& body) {
  constexpr Index kRows = 256;
  for (std::size_t document = 0; document + 1 < neighbours.starts.size(); ++document) {
    const Index end = neighbours.starts[document + 1];
    for (Index first = neighbours.starts[document]; first < end; first += kRows) {
      ConvolutionBlock block = {.first = first, .rows = std::min(kRows, end - first)};
      block.neighbours = {
          std::span(neighbours.rows).subspan(at(first * taps), at(block.rows * taps)), taps};
      block.features = context.memory.tensor({block.rows, x.columns() * taps}, x.dtype());
      kernels::gather_neighbours(x, block.neighbours, block.features);
      body(block);
    }
  }
}

/// The numbers of a matrix from those of a group on.
const void* columns_of(const Tensor& matrix, Index first) {
  return static_cast<const std::byte*>(matrix.raw()) +
         static_cast<std::size_t>(first) * element_size(matrix.dtype());
}
void* columns_of(Tensor& matrix, Index first) {
  return const_cast<void*>(columns_of(std::as_const(matrix), first));
}

/// Sizes of the product of one group: numbers of a result, and of what is multiplied for them.
struct GroupSizes {
  Index out, in;
};
GroupSizes sizes_of(const RowConvolution& convolution) {
  return {convolution.weight.rows() / convolution.groups, convolution.weight.columns()};
}

/// W * x + b
Tensor convolved(const Context& context, const Tensor& x, const RowConvolution& convolution,
                 const NeighboursOfRows& neighbours) {
  const auto [out, in] = sizes_of(convolution);
  const Tensor weight = convolution.weight.to(x.dtype());
  Tensor y = context.memory.tensor(x.shape(), x.dtype());
  for_convolution_blocks(context, x, convolution.taps(), neighbours,
                         [&, out = out, in = in](const ConvolutionBlock& block) {
                           Tensor rows = y.slice_rows(block.first, block.rows);
                           for (Index group = 0; group < convolution.groups; ++group) {
                             product({.m = block.rows,
                                      .n = out,
                                      .k = in,
                                      .transpose_b = true,
                                      .lda = in * convolution.groups,
                                      .ldc = y.columns()},
                                     x.dtype(), columns_of(block.features, group * in),
                                     columns_of(weight, group * out * in), y.dtype(),
                                     columns_of(rows, group * out));
                           }
                           kernels::add_bias({.bias = convolution.bias.data<float>(),
                                              .rows = block.rows,
                                              .columns = y.columns(),
                                              .stride = y.columns()},
                                             rows.raw(), y.dtype());
                         });
  return y;
}

/// From the gradient of that to those of weight, bias and x.
void convolved_backward(const Context& context, const Tensor& x, const RowConvolution& convolution,
                        const NeighboursOfRows& neighbours, const Tensor& dy) {
  const auto [out, in] = sizes_of(convolution);
  const Tensor weight = convolution.weight.to(x.dtype());
  Tensor dx;
  if (wants_gradient(x)) dx = context.memory.zeros(x.shape(), DType::f32);
  if (wants_gradient(convolution.bias)) {
    kernels::add_column_sums(
        {.x = dy.raw(), .rows = dy.rows(), .columns = dy.columns(), .stride = dy.columns()},
        dy.dtype(), parameter_gradient(convolution.bias).data<float>());
  }
  for_convolution_blocks(
      context, x, convolution.taps(), neighbours,
      [&, out = out, in = in](const ConvolutionBlock& block) {
        const Tensor rows = dy.slice_rows(block.first, block.rows);
        Tensor dfeatures;
        if (!dx.empty()) dfeatures = context.memory.tensor(block.features.shape(), DType::f32);
        for (Index group = 0; group < convolution.groups; ++group) {
          const void* own = columns_of(rows, group * out);
          if (wants_gradient(convolution.weight)) {
            product({.m = out,
                     .n = in,
                     .k = block.rows,
                     .transpose_a = true,
                     .lda = dy.columns(),
                     .ldb = in * convolution.groups,
                     .beta = 1},
                    x.dtype(), own, columns_of(block.features, group * in), DType::f32,
                    columns_of(parameter_gradient(convolution.weight), group * out * in));
          }
          if (dx.empty()) continue;
          product({.m = block.rows,
                   .n = in,
                   .k = out,
                   .lda = dy.columns(),
                   .ldc = in * convolution.groups},
                  x.dtype(), own, columns_of(weight, group * out * in), DType::f32,
                  columns_of(dfeatures, group * in));
        }
        if (dx.empty()) return;
        kernels::scatter_neighbours(dfeatures, block.neighbours, dx, context.threads);
      });
  if (!dx.empty()) send_gradient(context, x, dx.to(x.dtype()));
}

}  // namespace

Tensor convolve_rows(const Context& context, const Tensor& x, const RowConvolution& convolution,
                     std::shared_ptr<const NeighboursOfRows> neighbours, const Dropout& dropout) {
  refuse_device("convolve_rows", x);
  Tensor before = convolved(context, x, convolution, *neighbours);
  drop_elements(context, dropout, before);
  Tensor y = activated(context, convolution.activation, before);
  if (!wants_backward(context, x, convolution)) return y;
  record(context, "convolve_rows", y,
         [context, x, &convolution, neighbours = std::move(neighbours), dropout,
          before](Tensor gradient) {
           activation_backward(context, convolution.activation, before, gradient);
           drop_elements(context, dropout, gradient);
           convolved_backward(context, x, convolution, *neighbours, gradient);
         });
  return y;
}

}  // namespace longformer::ops
