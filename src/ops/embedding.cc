#include "ops/embedding.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "core/threads.h"
#include "kernels/elementwise.h"
#include "kernels/normalization.h"
#include "ops/dropout.h"
#include "ops/gradients.h"
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
  with_row(table, row, [columns = table.columns(), to](auto value) {
#pragma omp simd
    for (Index c = 0; c < columns; ++c) to[c] += value(c);
  });
}

/// Adds row i of the gradient, times `scale`, to row rows[i] of that of a table, but for its row of
/// padding.
/// Threads share the columns, so the order of every sum is the same for any number of them.
void scatter_rows(const Context& context, const Tensor& gradient,
                  std::span<const std::int32_t> rows, const Tensor& table, Index padding,
                  float scale = 1) {
  if (!wants_gradient(table)) return;
  constexpr Index kColumns = 64;
  const Index width = gradient.columns();
  Tensor& sums = parameter_gradient(table);
  parallel_for(context.threads, (width + kColumns - 1) / kColumns, [&](Index block) {
    const Index first = block * kColumns;
    const Index last = std::min(first + kColumns, width);
    for (Index i = 0; i < gradient.rows(); ++i) {
      const Index row = rows[static_cast<std::size_t>(i)];
      if (row == padding) continue;
      float* to = sums.data<float>() + row * width;
      with_row(gradient, i, [&](auto value) {
#pragma omp simd
        for (Index c = first; c < last; ++c) to[c] += scale * value(c);
      });
    }
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

Tensor embed(const Context& context, const EmbeddingTables& tables, const EmbeddingRows& rows,
             const Dropout& dropout) {
  const Index n = static_cast<Index>(rows.words.size());
  const Index width = tables.words.columns();
  Tensor x = context.memory.tensor({n, width}, context.dtype);
  const RowPlan plan = plan_rows(n, context.threads);
  // Only a backward pass needs the sums of all rows.
  const bool kept = context.tape != nullptr;
  Tensor sum = kept ? context.memory.tensor({n, width}, DType::f32)
                    : scratch(context, plan, width, DType::f32);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const RowBlock block = plan.blocks[static_cast<std::size_t>(b)];
    auto* sums = static_cast<float*>(row_of(sum, kept ? block.begin : thread_number()));
    std::fill_n(sums, block.rows * width, 0.0f);
    for (Index i = 0; i < block.rows; ++i) {
      const auto token = static_cast<std::size_t>(block.begin + i);
      add_row(tables.words, rows.words[token], sums + i * width);
      add_row(tables.types, rows.types[token], sums + i * width);
      add_row(tables.positions, rows.positions[token], sums + i * width);
    }
    kernels::add_layer_norm({.x = sums,
                             .gamma = tables.norm.weight.data<float>(),
                             .beta = tables.norm.bias.data<float>(),
                             .epsilon = tables.norm.epsilon,
                             .rows = block.rows,
                             .columns = width},
                            row_of(x, block.begin), x.dtype());
  });
  drop_elements(context, dropout, x);
  using Rows = std::vector<std::int32_t>;
  if (context.tape == nullptr) return x;
  record(context, x,
         [context, &tables, sum, dropout, words = Rows(rows.words.begin(), rows.words.end()),
          positions = Rows(rows.positions.begin(), rows.positions.end()),
          types = Rows(rows.types.begin(), rows.types.end())](Tensor gradient) {
           drop_elements(context, dropout, gradient);
           add_norm_backward(context, sum, tables.norm, gradient);
           scatter_rows(context, gradient, words, tables.words, tables.word_padding);
           scatter_rows(context, gradient, positions, tables.positions, tables.position_padding);
           scatter_rows(context, gradient, types, tables.types, -1);
         });
  return x;
}

Tensor embed_scaled(const Context& context, const Tensor& table, std::span<const std::int32_t> ids,
                    float scale, const Dropout& dropout) {
  const Index width = table.columns();
  Tensor x = context.memory.tensor({static_cast<Index>(ids.size()), width}, DType::f32);
  for_row_blocks(context, x.rows(), [&](Index first, Index rows) {
    for (Index i = first; i < first + rows; ++i) {
      float* to = x.data<float>() + i * width;
      std::fill_n(to, width, 0.0f);
      add_row(table, ids[static_cast<std::size_t>(i)], to);
      for (Index c = 0; c < width; ++c) to[c] *= scale;
    }
  });
  Tensor y = x.to(context.dtype);
  drop_elements(context, dropout, y);
  if (context.tape == nullptr) return y;
  record(context, y,
         [context, table, scale, dropout,
          kept = std::vector<std::int32_t>(ids.begin(), ids.end())](Tensor gradient) {
           drop_elements(context, dropout, gradient);
           scatter_rows(context, gradient, kept, table, -1, scale);
         });
  return y;
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
  if (context.tape == nullptr) return selected;
  record(
      context, selected,
      [context, x, chosen = std::vector<Index>(rows.begin(), rows.end())](const Tensor& gradient) {
        Tensor dx = context.memory.zeros(x.shape(), x.dtype());
        for (std::size_t i = 0; i < chosen.size(); ++i) {
          kernels::add(row_of(gradient, static_cast<Index>(i)), row_of(dx, chosen[i]), x.columns(),
                       x.dtype());
        }
        send_gradient(context, x, dx);
      });
  return selected;
}

Tensor sum_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges) {
  Tensor sums =
      fold_rows(context, x, ranges, 0.0f, [](float sum, float value) { return sum + value; });
  if (context.tape == nullptr) return sums;
  record(context, sums,
         [context, x,
          chosen = std::vector<RowRange>(ranges.begin(), ranges.end())](const Tensor& sent) {
           const Tensor gradient = sent.to(x.dtype());
           Tensor dx = context.memory.zeros(x.shape(), x.dtype());
           for (std::size_t i = 0; i < chosen.size(); ++i) {
             for (Index row = chosen[i].begin; row < chosen[i].end; ++row) {
               kernels::add(row_of(gradient, static_cast<Index>(i)), row_of(dx, row), x.columns(),
                            x.dtype());
             }
           }
           send_gradient(context, x, dx);
         });
  return sums;
}

Tensor max_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges) {
  return fold_rows(context, x, ranges, -std::numeric_limits<float>::infinity(),
                   [](float highest, float value) { return larger(highest, value); });
}

}  // namespace longformer::ops
