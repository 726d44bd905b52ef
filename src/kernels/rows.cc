#include "kernels/rows.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <vector>

#include "core/threads.h"
#include "kernels/elementwise.h"

namespace longformer::kernels {
namespace {

std::size_t row_bytes(const Tensor& x) {
  return static_cast<std::size_t>(x.columns()) * element_size(x.dtype());
}
std::byte* row_of(Tensor& x, Index row) {
  return static_cast<std::byte*>(x.raw()) + static_cast<std::size_t>(row) * row_bytes(x);
}
const std::byte* row_of(const Tensor& x, Index row) {
  return static_cast<const std::byte*>(x.raw()) + static_cast<std::size_t>(row) * row_bytes(x);
}

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

/// Adds a row of the table, times a scale, to D floats.
void add_row(const Tensor& table, Index row, float scale, float* to) {
  with_row(table, row, [columns = table.columns(), scale, to](auto value) {
#pragma omp simd
    for (Index c = 0; c < columns; ++c) to[c] += scale * value(c);
  });
}

/// Folds the rows of each range into one row of floats.
template <typename Fold>
void fold_rows(const Tensor& x, std::span<const RowRange> ranges, float start, Tensor& folded,
               int threads, Fold fold) {
  const Index width = x.columns();
  parallel_for(threads, folded.rows(), [&](Index i) {
    const RowRange range = ranges[static_cast<std::size_t>(i)];
    float* to = folded.data<float>() + i * width;
    std::fill_n(to, width, start);
    for (Index row = range.begin; row < range.end; ++row) {
      with_row(x, row, [&](auto value) {
        for (Index c = 0; c < width; ++c) to[c] = fold(to[c], value(c));
      });
    }
  });
}

/// The row of the largest value of each column.
void find_highest(const Tensor& x, RowRange range, std::span<float> highest,
                  std::span<Index> rows) {
  std::fill(highest.begin(), highest.end(), -std::numeric_limits<float>::infinity());
  std::fill(rows.begin(), rows.end(), range.begin);
  for (Index row = range.begin; row < range.end; ++row) {
    with_row(x, row, [&](auto value) {
      for (std::size_t c = 0; c < rows.size(); ++c) {
        const float own = value(static_cast<Index>(c));
        if (std::isnan(highest[c]) || own <= highest[c]) continue;
        highest[c] = own;
        rows[c] = row;
      }
    });
  }
}

template <typename T>
void add_to_rows(const float* gradient, std::span<const Index> rows, T* dx) {
  const auto width = static_cast<Index>(rows.size());
  for (Index c = 0; c < width; ++c) {
    T& to = dx[rows[static_cast<std::size_t>(c)] * width + c];
    to = static_cast<T>(static_cast<float>(to) + gradient[c]);
  }
}

}  // namespace

void sum_table_rows(std::span<const RowLookup> lookups, RowRange tokens, float* to) {
  const Index width = lookups[0].table.columns();
  std::fill_n(to, (tokens.end - tokens.begin) * width, 0.0f);
  for (Index token = tokens.begin; token < tokens.end; ++token, to += width) {
    for (const auto& [table, rows, scale] : lookups) {
      add_row(table, rows[static_cast<std::size_t>(token)], scale, to);
    }
  }
}

void scatter_rows(const Tensor& gradient, const RowScatter& scatter, Tensor& sums, int threads) {
  constexpr Index kColumns = 64;
  const Index width = gradient.columns();
  const float scale = scatter.scale;
  parallel_for(threads, (width + kColumns - 1) / kColumns, [&](Index block) {
    const Index first = block * kColumns;
    const Index last = std::min(first + kColumns, width);
    for (Index i = 0; i < gradient.rows(); ++i) {
      const Index row = scatter.rows[static_cast<std::size_t>(i)];
      if (row == scatter.padding) continue;
      float* to = sums.data<float>() + row * width;
      with_row(gradient, i, [&](auto value) {
#pragma omp simd
        for (Index c = first; c < last; ++c) to[c] += scale * value(c);
      });
    }
  });
}

void select_rows(const Tensor& x, std::span<const Index> rows, Tensor& selected) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(row_of(selected, static_cast<Index>(i)), row_of(x, rows[i]), row_bytes(x));
  }
}

void select_rows_backward(const Tensor& gradient, std::span<const Index> rows, Tensor& dx) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    add(row_of(gradient, static_cast<Index>(i)), row_of(dx, rows[i]), dx.columns(), dx.dtype());
  }
}

Tensor gathered_rows(const Tensor& table, std::span<const Index> rows, const Tensor& factors) {
  Tensor gathered({static_cast<Index>(rows.size()), table.columns()}, DType::f32);
  select_rows(table, rows, gathered);
  if (factors.empty()) return gathered;
  const auto* factor = factors.data<float>();
  auto* row = gathered.data<float>();
  for (std::size_t i = 0; i < rows.size(); ++i, row += table.columns()) {
    std::for_each(row, row + table.columns(), [by = factor[i]](float& value) { value *= by; });
  }
  return gathered;
}

void sum_rows(const Tensor& x, std::span<const RowRange> ranges, Tensor& sums, int threads) {
  fold_rows(x, ranges, 0.0f, sums, threads, [](float sum, float value) { return sum + value; });
}

void sum_rows_backward(const Tensor& gradient, std::span<const RowRange> ranges, Tensor& dx) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    for (Index row = ranges[i].begin; row < ranges[i].end; ++row) {
      add(row_of(gradient, static_cast<Index>(i)), row_of(dx, row), dx.columns(), dx.dtype());
    }
  }
}

void max_rows(const Tensor& x, std::span<const RowRange> ranges, Tensor& highest, int threads) {
  fold_rows(x, ranges, -std::numeric_limits<float>::infinity(), highest, threads,
            [](float a, float b) { return larger(a, b); });
}

void max_rows_backward(const Tensor& x, std::span<const RowRange> ranges, const Tensor& gradient,
                       Tensor& dx) {
  const auto width = static_cast<std::size_t>(x.columns());
  std::vector<float> highest(width);
  std::vector<Index> rows(width);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].begin >= ranges[i].end) continue;
    find_highest(x, ranges[i], highest, rows);
    const float* own = gradient.data<float>() + i * width;
    if (dx.dtype() == DType::f32) {
      add_to_rows(own, rows, dx.data<float>());
    } else {
      add_to_rows(own, rows, dx.data<BFloat16>());
    }
  }
}

void clear_rows(Tensor& x, std::span<const Index> rows, Index first) {
  const Index width = x.columns();
  for (const Index row : rows) std::fill_n(x.data<float>() + (row - first) * width, width, 0.0f);
}

void transpose(const Tensor& x, Tensor& y) {
  const Index rows = x.dimension(0), columns = x.dimension(1);
  const float* from = x.data<float>();
  float* to = y.data<float>();
  for (Index c = 0; c < rows; ++c) {
    for (Index i = 0; i < columns; ++i) to[i * rows + c] = from[c * columns + i];
  }
}

Tensor tile_rows(const Tensor& table, const RowTiling& tiling) {
  const Index period = table.rows() - tiling.source_reserved;
  assert(period > 0);
  Tensor result =
      Tensor::zeros({tiling.target_reserved + tiling.count, table.columns()}, table.dtype());
  const auto copy = [&](Index to, Index from, Index rows) {
    if (rows == 0) return;
    std::memcpy(row_of(result, to), row_of(table, from),
                static_cast<std::size_t>(rows) * row_bytes(table));
  };
  copy(0, 0, std::min(tiling.source_reserved, tiling.target_reserved));
  for (Index t = 0; t < tiling.count; t += period) {
    copy(tiling.target_reserved + t, tiling.source_reserved, std::min(period, tiling.count - t));
  }
  return result;
}

Tensor scaled(const Tensor& table, float factor) {
  Tensor result = table.to(DType::f32).copied();
  for (float& value : std::span(result.data<float>(), static_cast<std::size_t>(result.size()))) {
    value *= factor;
  }
  return result.to(table.dtype());
}

}  // namespace longformer::kernels
