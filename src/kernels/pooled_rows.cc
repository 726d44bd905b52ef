#include "kernels/pooled_rows.h"

#include <cmath>

namespace longformer::kernels {
namespace {

/// The row of a range that has the largest number of a column: the first of several, or the first
/// NaN.
template <typename T>
Index largest_row(const T* x, RowRange range, Index width, Index column) {
  Index best = range.begin;
  for (Index row = range.begin + 1; row < range.end; ++row) {
    const auto found = static_cast<float>(x[row * width + column]);
    const auto before = static_cast<float>(x[best * width + column]);
    if (!std::isnan(before) && (found > before || std::isnan(found))) best = row;
  }
  return best;
}

template <typename T>
void pool(const Tensor& x, std::span<const RowRange> ranges, RowPooling pooling, RowRange which,
          Tensor& pooled) {
  const Index width = x.columns();
  const T* from = x.data<T>();
  for (Index i = which.begin; i < which.end; ++i) {
    const RowRange range = ranges[at(i)];
    T* to = pooled.data<T>() + i * width;
    for (Index c = 0; c < width; ++c) {
      if (pooling == RowPooling::largest) {
        to[c] = from[largest_row(from, range, width, c) * width + c];
        continue;
      }
      float sum = 0;
      for (Index row = range.begin; row < range.end; ++row) {
        sum += static_cast<float>(from[row * width + c]);
      }
      to[c] = static_cast<T>(sum / static_cast<float>(range.end - range.begin));
    }
  }
}

template <typename T>
void send_back(const Tensor& x, std::span<const RowRange> ranges, RowPooling pooling,
               const Tensor& gradient, Tensor& dx) {
  const Index width = x.columns();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const RowRange range = ranges[i];
    const T* from = gradient.data<T>() + static_cast<Index>(i) * width;
    const float share = 1 / static_cast<float>(range.end - range.begin);
    for (Index c = 0; c < width; ++c) {
      const auto add = [&](Index row, float value) {
        T& to = dx.data<T>()[row * width + c];
        to = static_cast<T>(static_cast<float>(to) + value);
      };
      const auto sent = static_cast<float>(from[c]);
      if (pooling == RowPooling::largest) {
        add(largest_row(x.data<T>(), range, width, c), sent);
        continue;
      }
      for (Index row = range.begin; row < range.end; ++row) add(row, share * sent);
    }
  }
}

}  // namespace

void pool_rows(const Tensor& x, std::span<const RowRange> ranges, RowPooling pooling,
               RowRange which, Tensor& pooled) {
  if (x.dtype() == DType::bf16) {
    pool<BFloat16>(x, ranges, pooling, which, pooled);
  } else {
    pool<float>(x, ranges, pooling, which, pooled);
  }
}

void pool_rows_backward(const Tensor& x, std::span<const RowRange> ranges, RowPooling pooling,
                        const Tensor& gradient, Tensor& dx) {
  if (x.dtype() == DType::bf16) {
    send_back<BFloat16>(x, ranges, pooling, gradient, dx);
  } else {
    send_back<float>(x, ranges, pooling, gradient, dx);
  }
}

}  // namespace longformer::kernels
