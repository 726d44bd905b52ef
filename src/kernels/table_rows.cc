#include "kernels/table_rows.h"

#include <algorithm>

#include "core/threads.h"

namespace longformer::kernels {
namespace {

/// Rows of a tensor with or without heads.
struct Rows {
  explicit Rows(const Tensor& x)
      : heads(x.shape().size() == 3 ? x.dimension(0) : 1),
        count(x.shape()[x.shape().size() - 2]),
        width(x.shape().back()) {}
  Index heads, count, width;
};

template <typename T>
void add_row(const T* x, const T* table, Index width, T* sum) {
  for (Index c = 0; c < width; ++c) {
    sum[c] = static_cast<T>(static_cast<float>(x[c]) + static_cast<float>(table[c]));
  }
}

template <typename T>
void add_all(const Tensor& x, const Tensor& table, std::span<const Index> rows, Tensor& sum,
             int threads) {
  const Rows of(x), in(table);
  constexpr Index kBlock = 64;
  const Index blocks = (of.count + kBlock - 1) / kBlock;
  parallel_for(threads, of.heads * blocks, [&](Index number) {
    const Index head = number / blocks, begin = number % blocks * kBlock;
    for (Index row = begin; row < std::min(begin + kBlock, of.count); ++row) {
      const Index place = (head * of.count + row) * of.width;
      add_row(x.data<T>() + place, table.data<T>() + (head * in.count + rows[at(row)]) * of.width,
              of.width, sum.data<T>() + place);
    }
  });
}

template <typename T>
void scatter_all(const Tensor& gradient, std::span<const Index> rows, Tensor& sums, int threads) {
  const Rows of(gradient), in(sums);
  // One thread for the columns of a head, so that the order of the sums is always the same.
  constexpr Index kColumns = 64;
  const Index blocks = (of.width + kColumns - 1) / kColumns;
  parallel_for(threads, of.heads * blocks, [&](Index number) {
    const Index head = number / blocks, begin = number % blocks * kColumns;
    const Index end = std::min(begin + kColumns, of.width);
    for (Index row = 0; row < of.count; ++row) {
      const T* from = gradient.data<T>() + (head * of.count + row) * of.width;
      float* to = sums.data<float>() + (head * in.count + rows[at(row)]) * of.width;
      for (Index c = begin; c < end; ++c) to[c] += static_cast<float>(from[c]);
    }
  });
}

}  // namespace

void add_table_rows(const Tensor& x, const Tensor& table, std::span<const Index> rows, Tensor& sum,
                    int threads) {
  if (x.dtype() == DType::bf16) return add_all<BFloat16>(x, table, rows, sum, threads);
  add_all<float>(x, table, rows, sum, threads);
}

void add_table_rows_backward(const Tensor& gradient, std::span<const Index> rows, Tensor& sums,
                             int threads) {
  if (gradient.dtype() == DType::bf16) return scatter_all<BFloat16>(gradient, rows, sums, threads);
  scatter_all<float>(gradient, rows, sums, threads);
}

}  // namespace longformer::kernels
