#include "ops/embedding.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

#include "core/threads.h"
#include "ops/device.h"
#include "ops/dropout.h"
#include "ops/gradients.h"
#include "ops/on_device.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

using kernels::opencl::Fold;

/// Adds the gradient of the rows that were looked up to that of their table.
void send_rows(const Context& context, const Tensor& gradient, const kernels::RowScatter& scatter,
               const Tensor& table) {
  if (!wants_gradient(table)) return;
  kernels::scatter_rows(gradient, scatter, parameter_gradient(table), context.threads);
}

}  // namespace

Tensor embed(const Context& context, const EmbeddingTables& tables, const EmbeddingRows& rows,
             const Dropout& dropout) {
  if (tables.words.is_on_device()) return on_device::embed(tables, rows);
  const Index n = static_cast<Index>(rows.words.size());
  const Index width = tables.words.columns();
  const Tensor words = rows.given.empty() ? tables.words : rows.given;
  using Rows = std::vector<std::int32_t>;
  Rows places(rows.given.empty() ? 0 : rows.words.size());
  std::iota(places.begin(), places.end(), 0);
  const std::span<const std::int32_t> word_rows = rows.given.empty() ? rows.words : places;
  const Index padding = rows.given.empty() ? tables.word_padding : -1;
  const bool has_norm = !tables.norm.weight.empty();
  Tensor x = context.memory.tensor({n, width}, context.dtype);
  const RowPlan plan = plan_rows(n, context.threads);
  std::vector<kernels::RowLookup> lookups = {{words, word_rows, tables.word_scale}};
  if (!tables.types.empty()) lookups.push_back({tables.types, rows.types});
  if (!tables.positions.empty()) lookups.push_back({tables.positions, rows.positions});
  // Only a backward pass needs the sums of all rows.
  const bool trained = wants_backward(context, tables, words);
  const bool kept = trained || !has_norm;
  Tensor sum = kept ? context.memory.tensor({n, width}, DType::f32)
                    : scratch(context, plan, width, DType::f32);
  parallel_for(plan.workers, plan.count(), [&](Index b) {
    const RowBlock block = plan.blocks[static_cast<std::size_t>(b)];
    auto* sums = static_cast<float*>(row_of(sum, kept ? block.begin : thread_number()));
    kernels::sum_table_rows(lookups, {block.begin, block.begin + block.rows}, sums);
    if (has_norm) normalise_block(tables.norm, sums, nullptr, x, block);
  });
  if (!has_norm) x = sum.to(context.dtype);
  if (!has_norm) sum = {};
  drop_elements(context, dropout, x);
  if (!trained) return x;
  record(context, "embed", x,
         [context, &tables, sum, dropout, words, padding,
          word_rows = Rows(word_rows.begin(), word_rows.end()),
          positions = Rows(rows.positions.begin(), rows.positions.end()),
          types = Rows(rows.types.begin(), rows.types.end())](Tensor gradient) {
           drop_elements(context, dropout, gradient);
           if (!sum.empty()) add_norm_backward(context, sum, tables.norm, gradient);
           send_rows(context, gradient, {word_rows, padding, tables.word_scale}, words);
           send_rows(context, gradient, {positions, tables.position_padding}, tables.positions);
           send_rows(context, gradient, {types}, tables.types);
         });
  return x;
}

Tensor embed_scaled(const Context& context, const Tensor& table, std::span<const std::int32_t> ids,
                    float scale, const Dropout& dropout) {
  refuse_device("embed_scaled", table);
  const Index width = table.columns();
  Tensor x = context.memory.tensor({static_cast<Index>(ids.size()), width}, DType::f32);
  const kernels::RowLookup lookup = {table, ids, scale};
  for_row_blocks(context, x.rows(), [&](Index first, Index rows) {
    kernels::sum_table_rows(std::span(&lookup, 1), {first, first + rows},
                            static_cast<float*>(row_of(x, first)));
  });
  Tensor y = x.to(context.dtype);
  drop_elements(context, dropout, y);
  if (!wants_backward(context, table)) return y;
  record(context, "embed_scaled", y,
         [context, table, scale, dropout,
          kept = std::vector<std::int32_t>(ids.begin(), ids.end())](Tensor gradient) {
           drop_elements(context, dropout, gradient);
           send_rows(context, gradient, {.rows = kept, .scale = scale}, table);
         });
  return y;
}

Tensor select_rows(const Context& context, const Tensor& x, std::span<const Index> rows) {
  if (x.is_on_device()) return on_device::select_rows(x, rows);
  const auto count = static_cast<Index>(rows.size());
  Tensor selected = context.memory.tensor({count, x.columns()}, x.dtype());
  for_row_blocks(context, count, [&](Index first, Index size) {
    Tensor part = selected.slice_rows(first, size);
    kernels::select_rows(x, rows.subspan(at(first), at(size)), part);
  });
  if (!wants_backward(context, x)) return selected;
  record(context, "select_rows", selected,
         [context, x, chosen = std::vector(rows.begin(), rows.end())](const Tensor& gradient) {
           Tensor dx = context.memory.zeros(x.shape(), x.dtype());
           kernels::select_rows_backward(gradient, chosen, dx);
           send_gradient(context, x, std::move(dx));
         });
  return selected;
}

void copy_rows(const Tensor& x, std::span<const RowRange> ranges, Tensor to) {
  assert(to.dtype() == x.dtype() && to.columns() == x.columns());
  if (x.is_on_device()) return on_device::copy_rows(x, ranges, to);
  auto* next = static_cast<std::byte*>(to.raw());
  for (const RowRange& range : ranges) {
    const Tensor part = x.slice_rows(range.begin, range.end - range.begin);
    next = std::copy_n(static_cast<const std::byte*>(part.raw()), part.bytes(), next);
  }
  assert(next == static_cast<std::byte*>(to.raw()) + to.bytes());
}

Tensor sum_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges) {
  if (x.is_on_device()) return on_device::fold_rows(x, ranges, Fold::sum);
  const auto count = static_cast<Index>(ranges.size());
  Tensor sums = context.memory.tensor({count, x.columns()}, DType::f32);
  kernels::sum_rows(x, ranges, sums, context.threads);
  if (!wants_backward(context, x)) return sums;
  record(context, "sum_rows", sums,
         [context, x, chosen = std::vector(ranges.begin(), ranges.end())](const Tensor& gradient) {
           Tensor dx = context.memory.zeros(x.shape(), x.dtype());
           kernels::sum_rows_backward(gradient.to(x.dtype()), chosen, dx);
           send_gradient(context, x, std::move(dx));
         });
  return sums;
}

Tensor mean_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges,
                 RowDivisor divisor) {
  if (x.is_on_device()) {
    const bool is_root = divisor == RowDivisor::root;
    return on_device::fold_rows(x, ranges, is_root ? Fold::root_mean : Fold::mean);
  }
  const auto count = static_cast<Index>(ranges.size());
  Tensor means = context.memory.tensor({count, x.columns()}, DType::f32);
  kernels::sum_rows(x, ranges, means, context.threads);
  const auto divide = [divisor](Tensor& rows, std::span<const RowRange> sizes) {
    for (Index i = 0; i < rows.rows(); ++i) {
      const RowRange& range = sizes[static_cast<std::size_t>(i)];
      const auto size = static_cast<float>(range.end - range.begin);
      const float by = divisor == RowDivisor::root ? std::sqrt(size) : size;
      auto* row = static_cast<float*>(row_of(rows, i));
      std::for_each(row, row + rows.columns(), [by](float& value) { value /= by; });
    }
  };
  divide(means, ranges);
  if (!wants_backward(context, x)) return means;
  record(context, "mean_rows", means,
         [context, x, divide, chosen = std::vector(ranges.begin(), ranges.end())](Tensor gradient) {
           Tensor dx = context.memory.zeros(x.shape(), x.dtype());
           divide(gradient, chosen);
           kernels::sum_rows_backward(gradient.to(x.dtype()), chosen, dx);
           send_gradient(context, x, std::move(dx));
         });
  return means;
}

Tensor max_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges) {
  if (x.is_on_device()) return on_device::fold_rows(x, ranges, Fold::largest);
  const auto count = static_cast<Index>(ranges.size());
  Tensor highest = context.memory.tensor({count, x.columns()}, DType::f32);
  kernels::max_rows(x, ranges, highest, context.threads);
  if (!wants_backward(context, x)) return highest;
  record(context, "max_rows", highest,
         [context, x, chosen = std::vector(ranges.begin(), ranges.end())](const Tensor& gradient) {
           Tensor dx = context.memory.zeros(x.shape(), x.dtype());
           kernels::max_rows_backward(x, chosen, gradient, dx);
           send_gradient(context, x, std::move(dx));
         });
  return highest;
}

Tensor joined_rows(const Context& context, std::span<const Tensor> parts) {
  if (parts[0].is_on_device()) return on_device::joined_rows(parts);
  Index rows = 0;
  bool is_trained = false;
  for (const Tensor& part : parts) {
    is_trained = is_trained || wants_backward(context, part);
    rows += part.rows();
  }
  Tensor joined = context.memory.tensor({rows, parts[0].columns()}, parts[0].dtype());
  auto* to = static_cast<std::byte*>(joined.raw());
  for (const Tensor& part : parts)
    to = std::copy_n(static_cast<const std::byte*>(part.raw()), part.bytes(), to);
  if (!is_trained) return joined;
  record(context, "joined_rows", joined,
         [context, kept = std::vector(parts.begin(), parts.end())](const Tensor& gradient) {
           Index begin = 0;
           for (const Tensor& part : kept) {
             send_gradient(context, part, gradient.slice_rows(begin, part.rows()));
             begin += part.rows();
           }
         });
  return joined;
}

}  // namespace longformer::ops
