#include "ops/linear.h"

#include <algorithm>

#include "core/threads.h"
#include "kernels/elementwise.h"
#include "kernels/head_rows.h"
#include "ops/device.h"
#include "ops/dropout.h"
#include "ops/gradients.h"
#include "ops/on_device.h"
#include "ops/row_blocks.h"
#include "ops/typed_product.h"

namespace longformer::ops {
namespace {

using kernels::GemmShape;
using kernels::HeadLayout;

/// The columns of the stacked result that belong to one of the weights. Where nothing is packed
/// they are a matrix [n, width] of their own, one after the other: with rows further apart than
/// they are wide oneDNN leaves its fast path.
struct WeightColumns {
  std::size_t index = 0;
  Index begin = 0;
  Index width = 0;
};

std::vector<WeightColumns> parts_of(const Linear& dense) {
  std::vector<WeightColumns> parts;
  Index begin = 0;
  for (std::size_t i = 0; i < dense.weights().size(); ++i) {
    const Index width = dense.weights()[i].rows();
    parts.push_back({i, begin, width});
    begin += width;
  }
  return parts;
}

/// Start of the matrix of a part, from row `row` on.
std::byte* part_of(Tensor& stacked, const WeightColumns& part, Index row = 0) {
  const Index rows = stacked.rows();
  return static_cast<std::byte*>(stacked.raw()) +
         static_cast<std::size_t>(part.begin * rows + row * part.width) *
             element_size(stacked.dtype());
}
const std::byte* part_of(const Tensor& stacked, const WeightColumns& part, Index row = 0) {
  return part_of(const_cast<Tensor&>(stacked), part, row);
}

void add_bias(const Context& context, const Tensor& bias, const WeightColumns& part, Tensor& y) {
  for_row_blocks(context, y.rows(), [&](Index first, Index rows) {
    kernels::add_bias(
        {.bias = bias.data<float>(), .rows = rows, .columns = part.width, .stride = part.width},
        part_of(y, part, first), y.dtype());
  });
}

/// Threads share the columns, so the order of every sum is the same for any number of them.
void bias_backward(const Context& context, const Tensor& gradient, const WeightColumns& part,
                   Tensor& sums) {
  constexpr Index kColumns = 64;
  parallel_for(context.threads, (part.width + kColumns - 1) / kColumns, [&](Index block) {
    const Index first = block * kColumns;
    kernels::add_column_sums({.x = part_of(gradient, part) +
                                   static_cast<std::size_t>(first) * element_size(gradient.dtype()),
                              .rows = gradient.rows(),
                              .columns = std::min(kColumns, part.width - first),
                              .stride = part.width},
                             gradient.dtype(), sums.data<float>() + first);
  });
}

/// Multiplies the rows block by block into the columns of one weight. Rows of another dtype are
/// converted there, where they stay in the cache.
void multiply_packed(const Context& context, const Tensor& x, const kernels::PackedLinear& packed,
                     const WeightColumns& part, Tensor& y) {
  const RowPlan plan = plan_rows(x.rows(), context.threads);
  const auto kernels = kernels_of(packed, plan, y.dtype());
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const auto i = static_cast<std::size_t>(b);
    const Index first = plan.blocks[i].begin;
    const Tensor rows = x.slice_rows(first, plan.blocks[i].rows).to(packed.dtype());
    packed.run(*kernels[i], rows.raw(), part_of(y, part, first));
  });
}

Tensor linear_packed(const Context& context, const Tensor& x, const kernels::PackedLinear& packed,
                     DType output) {
  Tensor y = context.memory.tensor({x.rows(), packed.out_features()}, output);
  multiply_packed(context, x, packed, {.width = packed.out_features()}, y);
  return y;
}

void project_packed(const Context& context, const Tensor& x, const kernels::PackedLinear& packed,
                    HeadLayout layout, std::vector<Tensor>& projected) {
  const Index width = layout.heads * layout.head_size;
  const RowPlan plan = plan_rows(x.rows(), context.threads);
  const auto kernels = kernels_of(packed, plan, context.dtype);
  Tensor stacked = scratch(context, plan, packed.out_features(), context.dtype);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const auto i = static_cast<std::size_t>(b);
    void* rows = row_of(stacked, thread_number());
    packed.run(*kernels[i], row_of(x, plan.blocks[i].begin), rows);
    HeadLayout block = layout;
    block.begin = plan.blocks[i].begin;
    for (Tensor& part : projected) {
      kernels::split_heads(block, rows, part, plan.blocks[i].rows);
      block.column += width;
    }
  });
}

/// Calls body(layout, part, number) for each projection, with where it lies in the matrix of its
/// weight: one weight may hold several.
template <typename Body>
void for_projections(const Linear& projections, HeadLayout layout, const Body& body) {
  const Index width = layout.heads * layout.head_size;
  for (const WeightColumns& part : parts_of(projections)) {
    layout.stride = part.width;
    for (layout.column = 0; layout.column < part.width; layout.column += width) {
      body(layout, part, at((part.begin + layout.column) / width));
    }
  }
}

void project_plain(const Context& context, const Tensor& x, const Linear& projections,
                   const HeadLayout& layout, std::vector<Tensor>& projected) {
  const Tensor stacked = multiply(context, x, projections, context.dtype);
  for_projections(
      projections, layout, [&](HeadLayout own, const WeightColumns& part, std::size_t index) {
        for_row_blocks(context, x.rows(), [&](Index first, Index rows) {
          HeadLayout block = own;
          block.begin = first;
          kernels::split_heads(block, part_of(stacked, part, first), projected[index], rows);
        });
      });
}

void project_backward(const Context& context, const Tensor& x, const Linear& projections,
                      const HeadLayout& layout, std::span<const Tensor> gradients,
                      WeightsAre weights) {
  Tensor stacked = context.memory.tensor({x.rows(), projections.out_features()}, context.dtype);
  for_projections(
      projections, layout, [&](HeadLayout own, const WeightColumns& part, std::size_t index) {
        for_row_blocks(context, x.rows(), [&](Index first, Index rows) {
          HeadLayout block = own;
          block.begin = first;
          kernels::join_heads(block, gradients[index], part_of(stacked, part, first), rows);
        });
      });
  multiply_backward(context, x, projections, stacked, weights);
}

/// Multiplies with what is written once for all ways of a low-rank addition.
void scale_all(Tensor& x, float factor) {
  if (factor == 1) return;
  kernels::scale(factor, x.raw(), x.size(), x.dtype());
}

/// Input of A, and scale·A·x [n, r], in the dtype of x.
struct LowRankRows {
  Tensor x, inner;
};

LowRankRows low_rank_rows(const Context& context, const Tensor& x, const LowRank& addition) {
  const Index rank = addition.a.rows();
  Context untaped = context;
  untaped.tape = nullptr;
  LowRankRows rows = {.x = dropout(untaped, x, context.dropout(addition.dropout, addition.place)),
                      .inner = context.memory.tensor({x.rows(), rank}, x.dtype())};
  product({.m = x.rows(), .n = rank, .k = x.columns(), .transpose_b = true}, x.dtype(),
          rows.x.raw(), addition.a.to(x.dtype()).raw(), x.dtype(), rows.inner.raw());
  scale_all(rows.inner, addition.scale);
  return rows;
}

void add_low_rank(const Context& context, const Tensor& x, const LowRank& addition,
                  const WeightColumns& part, Tensor& y) {
  const LowRankRows rows = low_rank_rows(context, x, addition);
  product(
      {.m = x.rows(), .n = part.width, .k = rows.inner.columns(), .transpose_b = true, .beta = 1},
      x.dtype(), rows.inner.raw(), addition.b.to(x.dtype()).raw(), y.dtype(), part_of(y, part));
}

/// Adds aᵀ·b of n rows to the gradient of a parameter [m, n].
void add_parameter_gradient(const Tensor& parameter, DType dtype, const void* a, const void* b,
                            Index rows) {
  const ParameterGradient to = parameter_gradient_to_write(parameter);
  product({.m = parameter.rows(),
           .n = parameter.columns(),
           .k = rows,
           .transpose_a = true,
           .beta = to.fresh ? 0.0f : 1.0f},
          dtype, a, b, DType::f32, to.sum.raw());
}

/// `columns` is the gradient of a part of y, both in the dtype of x; adds to dx unless that is
/// empty.
void low_rank_backward(const Context& context, const Tensor& x, const LowRank& addition,
                       const void* columns, Tensor& dx, WeightsAre weights) {
  const bool trains = weights == WeightsAre::trained;
  const Index n = x.rows(), rank = addition.a.rows();
  const DType dtype = x.dtype();
  const LowRankRows rows = low_rank_rows(context, x, addition);
  if (trains && wants_gradient(addition.b)) {
    add_parameter_gradient(addition.b, dtype, columns, rows.inner.raw(), n);
  }
  Tensor inner = context.memory.tensor({n, rank}, dtype);
  product({.m = n, .n = rank, .k = addition.b.rows()}, dtype, columns, addition.b.to(dtype).raw(),
          dtype, inner.raw());
  scale_all(inner, addition.scale);
  if (trains && wants_gradient(addition.a)) {
    add_parameter_gradient(addition.a, dtype, inner.raw(), rows.x.raw(), n);
  }
  if (dx.empty()) return;
  const Dropout dropped = context.dropout(addition.dropout, addition.place);
  Tensor way = dropped.active() ? context.memory.tensor(x.shape(), dtype) : dx;
  product({.m = n, .n = x.columns(), .k = rank, .beta = dropped.active() ? 0.0f : 1.0f}, dtype,
          inner.raw(), addition.a.to(dtype).raw(), dtype, way.raw());
  if (!dropped.active()) return;
  drop_elements(context, dropped, way);
  add_to(context, way, dx);
}

/// On all threads: a training step rounds some hundred million numbers.
void round_to(const Tensor& wide, Tensor& narrow) {
  constexpr Index kPiece = Index{1} << 16;
  parallel_for(free_threads(), (wide.size() + kPiece - 1) / kPiece, [&](Index piece) {
    const Index first = piece * kPiece;
    kernels::narrow_all(wide.data<float>() + first, narrow.data<BFloat16>() + first,
                        std::min(kPiece, wide.size() - first));
  });
}

/// A copy as by Tensor::to(), but in memory that the pool keeps.
Tensor rounded(const Context& context, const Tensor& x, DType dtype) {
  if (x.dtype() != DType::f32 || dtype != DType::bf16) return x.to(dtype);
  Tensor narrow = context.memory.tensor(x.shape(), dtype);
  round_to(x, narrow);
  return narrow;
}

std::uint64_t version_of(const Tensor& parameter) {
  return wants_gradient(parameter) ? parameter.gradient()->version : 0;
}

}  // namespace

Linear::Linear(std::span<const Tensor> weights, std::span<const Tensor> biases,
               const LinearOptions& options)
    : options_(options), in_(weights[0].columns()) {
  for (const Tensor& weight : weights) out_ += weight.rows();
  if (weights[0].is_on_device()) {
    dense_ = on_device::dense_of(weights, biases);
    options_.dtype = DType::f32;
  } else if (options.trainable) {
    weights_.assign(weights.begin(), weights.end());
    biases_.assign(biases.begin(), biases.end());
    copies_.resize(weights_.size());
    packed_copies_.resize(weights_.size());
  } else {
    packed_ = std::make_shared<const kernels::PackedLinear>(
        weights, biases,
        kernels::PackedLinearOptions{.dtype = options.dtype,
                                     .activation = options.activation,
                                     .slabs = options.slabs,
                                     .int8 = options.int8});
  }
}

Linear Linear::adapted(std::span<const LowRank> additions, std::span<const Tensor> biases) const {
  require(dense_ == nullptr,
          "adapters of shared layers: expected a model on the CPU, found one on a device");
  std::vector<kernels::LowRankProduct> products;
  const Index width = out_ / std::ssize(additions);
  Index column = 0;
  for (const LowRank& addition : additions) {
    if (!addition.empty()) {
      products.push_back(
          {.column = column, .a = addition.a, .b = addition.b, .scale = addition.scale});
    }
    column += width;
  }
  Linear layer = *this;
  layer.packed_ = std::make_shared<const kernels::PackedLinear>(*packed_, biases, products);
  return layer;
}

bool wants_gradient(const Linear& dense) {
  const auto trained = [](const Tensor& tensor) { return wants_gradient(tensor); };
  for (std::size_t i = 0; i < dense.weights().size(); ++i) {
    const LowRank* addition = dense.low_rank(i);
    if (addition != nullptr && (trained(addition->a) || trained(addition->b))) return true;
  }
  return std::any_of(dense.weights().begin(), dense.weights().end(), trained) ||
         std::any_of(dense.biases().begin(), dense.biases().end(), trained);
}

const Tensor& Linear::operand(std::size_t index) const {
  const Tensor& weight = weights_[index];
  if (options_.dtype == DType::f32) return weight;
  Copy& copy = copies_[index];
  const std::uint64_t version = version_of(weight);
  if (copy.tensor.empty() || copy.version != version) {
    if (copy.tensor.empty()) copy.tensor = Tensor(weight.shape(), DType::bf16);
    round_to(weight, copy.tensor);
    copy.version = version;
  }
  return copy.tensor;
}

const kernels::PackedLinear* Linear::packed_for(std::size_t index, Index rows) const {
  if (!kernels::packs_for_training(rows, in_, options_.dtype)) return nullptr;
  const std::span<const Tensor> weight(&weights_[index], 1);
  PackedCopy& copy = packed_copies_[index];
  const std::uint64_t version = version_of(weight[0]);
  if (!copy.packed) {
    const std::span<const Tensor> bias(biases_.data() + index, biases_.empty() ? 0 : 1);
    copy.packed = std::make_shared<kernels::PackedLinear>(
        weight, bias, kernels::PackedLinearOptions{.dtype = options_.dtype});
  } else if (copy.version != version) {
    copy.packed->repack(weight);
  }
  copy.version = version;
  return copy.packed.get();
}

Tensor activated(const Context& context, Activation activation, const Tensor& x) {
  refuse_device("activated", x);
  Tensor y = context.memory.tensor(x.shape(), x.dtype());
  for_row_blocks(context, x.rows(), [&](Index first, Index rows) {
    Tensor to = y.slice_rows(first, rows);
    kernels::activate(activation, row_of(x, first), to.raw(), to.size(), to.dtype());
  });
  return y;
}

void activation_backward(const Context& context, Activation activation, const Tensor& x,
                         Tensor& gradient) {
  for_row_blocks(context, x.rows(), [&](Index first, Index rows) {
    Tensor to = gradient.slice_rows(first, rows);
    kernels::activation_backward(activation, row_of(x, first), to.raw(), to.size(), to.dtype());
  });
}

Tensor multiply(const Context& context, const Tensor& x, const Linear& dense, DType output) {
  refuse_device("multiply", x);
  // fp32 products are always written in fp32.
  const DType written = dense.dtype() == DType::f32 ? DType::f32 : output;
  const Tensor operand = x.to(dense.dtype());
  Tensor y = context.memory.tensor({x.rows(), dense.out_features()}, written);
  for (const WeightColumns& part : parts_of(dense)) {
    if (const auto* packed = dense.packed_for(part.index, x.rows())) {
      multiply_packed(context, operand, *packed, part, y);
    } else {
      product({.m = x.rows(), .n = part.width, .k = dense.in_features(), .transpose_b = true},
              dense.dtype(), operand.raw(), dense.operand(part.index).raw(), y.dtype(),
              part_of(y, part));
      if (!dense.biases().empty()) add_bias(context, dense.biases()[part.index], part, y);
    }
    if (const LowRank* addition = dense.low_rank(part.index)) {
      add_low_rank(context, operand, *addition, part, y);
    }
  }
  return y.to(output);
}

void multiply_backward(const Context& context, const Tensor& x, const Linear& dense,
                       const Tensor& gradient, WeightsAre weights) {
  const bool trains = weights == WeightsAre::trained;
  if (!wants_gradient(x) && !(trains && wants_gradient(dense))) return;
  const Index n = x.rows();
  const Tensor dy = rounded(context, gradient, dense.dtype());
  const Tensor operand = x.to(dense.dtype());
  Tensor dx;
  if (wants_gradient(x)) dx = context.memory.tensor(x.shape(), dense.dtype());
  for (const WeightColumns& part : parts_of(dense)) {
    const void* columns = part_of(dy, part);
    const Tensor& weight = dense.weights()[part.index];
    if (trains && wants_gradient(weight) && n > 0) {
      add_parameter_gradient(weight, dense.dtype(), columns, operand.raw(), n);
    }
    if (trains && !dense.biases().empty() && wants_gradient(dense.biases()[part.index])) {
      bias_backward(context, dy, part, parameter_gradient(dense.biases()[part.index]));
    }
    if (!dx.empty()) {
      product({.m = n,
               .n = dense.in_features(),
               .k = part.width,
               .beta = part.index == 0 ? 0.0f : 1.0f},
              dense.dtype(), columns, dense.operand(part.index).raw(), dx.dtype(), dx.raw());
    }
    const LowRank* addition = dense.low_rank(part.index);
    if (addition != nullptr && n > 0) {
      low_rank_backward(context, operand, *addition, columns, dx, weights);
    }
  }
  if (!dx.empty()) send_gradient(context, x, dx.to(x.dtype()));
}

Tensor linear(const Context& context, const Tensor& x, const Linear& dense, DType output) {
  if (dense.on_device() != nullptr) return on_device::linear(x, dense);
  refuse_packed(context, "linear", dense, x);
  if (dense.packed() != nullptr) {
    return linear_packed(context, x, *dense.packed(), output);
  }
  Tensor y = multiply(context, x, dense, output);
  Tensor before;
  if (dense.activation()) {
    before = y;
    y = activated(context, *dense.activation(), before);
  }
  if (!wants_backward(context, x, dense)) return y;
  record(context, "linear", y, [context, x, &dense, before](Tensor gradient) {
    if (dense.activation()) activation_backward(context, *dense.activation(), before, gradient);
    multiply_backward(context, x, dense, gradient);
  });
  return y;
}

std::vector<Tensor> project_heads(const Context& context, const Tensor& x,
                                  const Linear& projections, Index heads, Index head_size,
                                  WeightsAre weights) {
  if (projections.on_device() != nullptr) {
    return on_device::project_heads(x, projections, heads, head_size);
  }
  const Index n = x.rows();
  const Index parts = projections.out_features() / (heads * head_size);
  const HeadLayout layout = {
      .heads = heads, .head_size = head_size, .stride = projections.out_features(), .n = n};
  std::vector<Tensor> projected;
  for (Index part = 0; part < parts; ++part) {
    projected.push_back(context.memory.tensor({heads, n, head_size}, context.dtype));
  }
  refuse_packed(context, "project_heads", projections, x);
  if (projections.packed() != nullptr) {
    project_packed(context, x, *projections.packed(), layout, projected);
    return projected;
  }
  project_plain(context, x, projections, layout, projected);
  const bool trains = weights == WeightsAre::trained && wants_backward(context, projections);
  if (!trains && !wants_backward(context, x)) return projected;
  record(context, "project_heads", std::span(projected),
         [context, x, &projections, layout, weights](std::vector<Tensor> gradients) {
           for (Tensor& gradient : gradients) {
             if (!gradient.empty()) continue;
             gradient =
                 context.memory.zeros({layout.heads, layout.n, layout.head_size}, context.dtype);
           }
           project_backward(context, x, projections, layout, gradients, weights);
         });
  return projected;
}

void merge_into(Tensor& weight, const LowRank& addition) {
  kernels::gemm({.m = weight.rows(),
                 .n = weight.columns(),
                 .k = addition.a.rows(),
                 .alpha = addition.scale,
                 .beta = 1},
                addition.b.data<float>(), addition.a.data<float>(), weight.data<float>());
}

Tensor merged(const Tensor& weight, const LowRank& addition) {
  Tensor sum = weight.copied();
  merge_into(sum, addition);
  return sum;
}

Tensor adapted_weight(const Context& context, const Tensor& weight, const LowRank& addition) {
  refuse_device("adapted_weight", weight);
  Tensor sum = merged(weight, addition);
  if (!wants_backward(context, addition.a, addition.b)) return sum;
  record(context, "adapted_weight", sum, [addition](Tensor gradient) {
    scale_all(gradient, addition.scale);
    const Index out = gradient.rows(), in = gradient.columns(), rank = addition.a.rows();
    const float* values = gradient.data<float>();
    const auto add = [&](const Tensor& parameter, GemmShape shape, const float* a, const float* b) {
      const ParameterGradient to = parameter_gradient_to_write(parameter);
      shape.beta = to.fresh ? 0.0f : 1.0f;
      kernels::gemm(shape, a, b, to.sum.data<float>());
    };
    const float *a = addition.a.data<float>(), *b = addition.b.data<float>();
    add(addition.b, {.m = out, .n = rank, .k = in, .transpose_b = true}, values, a);
    add(addition.a, {.m = rank, .n = in, .k = out, .transpose_a = true}, b, values);
  });
  return sum;
}

}  // namespace longformer::ops
