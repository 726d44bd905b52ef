#include "ops/embedding.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "core/threads.h"
#include "kernels/normalization.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

/// Calls body with the elements of a row as a function index → float.
template <typename Body>
void with_row(const Tensor& table, Index row, Body&& body) {
  const Index at = row * table.columns();
  switch (table.dtype()) {
    case DType::bf16: {
      const auto* values = table.data<BFloat16>() + at;
      return body([values](Index c) { return static_cast<float>(values[c]); });
    }
    case DType::f16: {
      const auto* values = table.data<std::uint16_t>() + at;
      return body([values](Index c) { return half_to_float(values[c]); });
    }
    case DType::f64: {
      const auto* values = table.data<double>() + at;
      return body([values](Index c) { return static_cast<float>(values[c]); });
    }
    default: {
      const auto* values = table.data<float>() + at;
      return body([values](Index c) { return values[c]; });
    }
  }
}

void add_row(const Tensor& table, Index row, float* to) {
  with_row(table, row, [&](auto value) {
    for (Index c = 0; c < table.columns(); ++c) to[c] += value(c);
  });
}

/// Folds the rows of each range into one row of floats.
template <typename Fold>
Tensor fold_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges,
                 float start, Fold fold) {
  const Index width = x.columns();
  Tensor folded = context.memory.tensor({static_cast<Index>(ranges.size()), width}, DType::f32);
  parallel_for(context.threads, folded.rows(), [&](Index i) {
    const RowRange range = ranges[static_cast<std::size_t>(i)];
    float* to = folded.data<float>() + i * width;
    std::fill_n(to, width, start);
    for (Index row = range.begin; row < range.end; ++row) {
      with_row(x, row, [&](auto value) {
        for (Index c = 0; c < width; ++c) to[c] = fold(to[c], value(c));
      });
    }
  });
  return folded;
}

}  // namespace

Tensor embed(const Context& context, const EmbeddingTables& tables, const EmbeddingRows& rows) {
  const Index n = static_cast<Index>(rows.words.size());
  const Index width = tables.words.columns();
  Tensor x = context.memory.tensor({n, width}, context.dtype);
  const RowPlan plan = plan_rows(n, context.threads);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const RowBlock block = plan.blocks[static_cast<std::size_t>(b)];
    std::vector<float> sums(static_cast<std::size_t>(block.rows * width), 0.0f);
    for (Index i = 0; i < block.rows; ++i) {
      const auto token = static_cast<std::size_t>(block.begin + i);
      float* sum = sums.data() + i * width;
      add_row(tables.words, rows.words[token], sum);
      add_row(tables.types, rows.types[token], sum);
      add_row(tables.positions, rows.positions[token], sum);
    }
    Tensor out = x.slice_rows(block.begin, block.rows);
    kernels::add_layer_norm({.x = sums.data(),
                             .gamma = tables.norm.weight.data<float>(),
                             .beta = tables.norm.bias.data<float>(),
                             .epsilon = tables.norm.epsilon,
                             .rows = block.rows,
                             .columns = width},
                            out.raw(), out.dtype());
  });
  return x;
}

Tensor select_rows(const Context& context, const Tensor& x, std::span<const Index> rows) {
  const Index width = x.columns();
  Tensor selected = context.memory.tensor({static_cast<Index>(rows.size()), width}, x.dtype());
  const std::size_t bytes = static_cast<std::size_t>(width) * element_size(x.dtype());
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(selected.raw());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(to + i * bytes, from + static_cast<std::size_t>(rows[i]) * bytes, bytes);
  }
  return selected;
}

Tensor sum_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges) {
  return fold_rows(context, x, ranges, 0.0f, [](float sum, float value) { return sum + value; });
}

Tensor max_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges) {
  return fold_rows(context, x, ranges, -std::numeric_limits<float>::infinity(),
                   [](float highest, float value) { return std::max(highest, value); });
}

}  // namespace longformer::ops
