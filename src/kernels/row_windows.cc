#include "kernels/row_windows.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/threads.h"

namespace longformer::kernels {
namespace {

template <typename T>
void windows_of(const Tensor& x, Index count, RowWindow kind, Tensor& out) {
  const Index width = x.columns();
  for (Index row = 0; row < out.rows(); ++row) {
    const T* from = x.data<T>() + row * count * width;
    T* to = out.data<T>() + row * out.columns();
    for (Index c = 0; c < width; ++c) {
      float sum = 0;
      auto largest = static_cast<float>(from[c]);
      for (Index tap = 0; tap < count; ++tap) {
        const T value = from[tap * width + c];
        if (kind == RowWindow::features) to[c * count + tap] = value;
        sum += static_cast<float>(value);
        const auto number = static_cast<float>(value);
        if (number > largest || std::isnan(number)) largest = number;
      }
      if (kind == RowWindow::mean) to[c] = static_cast<T>(sum / static_cast<float>(count));
      if (kind == RowWindow::largest) to[c] = static_cast<T>(largest);
    }
  }
}

template <typename T>
void features_backward(const Tensor& gradient, Index count, Tensor& dx) {
  const Index width = dx.columns();
  for (Index row = 0; row < gradient.rows(); ++row) {
    const T* from = gradient.data<T>() + row * gradient.columns();
    T* to = dx.data<T>() + row * count * width;
    for (Index tap = 0; tap < count; ++tap) {
      for (Index c = 0; c < width; ++c) to[tap * width + c] = from[c * count + tap];
    }
  }
}

template <typename T>
void gather(const Tensor& x, const NeighbourRows& neighbours, Tensor& out) {
  const Index width = x.columns(), taps = neighbours.taps;
  for (Index row = 0; row < out.rows(); ++row) {
    T* to = out.data<T>() + row * out.columns();
    for (Index tap = 0; tap < taps; ++tap) {
      const Index from = neighbours.rows[at(row * taps + tap)];
      const T* values = from < 0 ? nullptr : x.data<T>() + from * width;
      for (Index c = 0; c < width; ++c) to[c * taps + tap] = from < 0 ? T(0.0f) : values[c];
    }
  }
}

}  // namespace

void row_windows(const Tensor& x, Index count, RowWindow kind, Tensor& out) {
  assert(x.rows() == out.rows() * count && x.dtype() == out.dtype());
  if (x.dtype() == DType::bf16) {
    windows_of<BFloat16>(x, count, kind, out);
  } else {
    windows_of<float>(x, count, kind, out);
  }
}

void row_windows_backward(const Tensor& gradient, Index count, Tensor& dx) {
  assert(dx.rows() == gradient.rows() * count && dx.dtype() == gradient.dtype());
  if (dx.dtype() == DType::bf16) {
    features_backward<BFloat16>(gradient, count, dx);
  } else {
    features_backward<float>(gradient, count, dx);
  }
}

void gather_neighbours(const Tensor& x, const NeighbourRows& neighbours, Tensor& out) {
  assert(x.dtype() == out.dtype() && out.columns() == x.columns() * neighbours.taps);
  if (x.dtype() == DType::bf16) {
    gather<BFloat16>(x, neighbours, out);
  } else {
    gather<float>(x, neighbours, out);
  }
}

void scatter_neighbours(const Tensor& gradient, const NeighbourRows& neighbours, Tensor& dx,
                        int threads) {
  constexpr Index kColumns = 64;
  const Index width = dx.columns(), taps = neighbours.taps;
  parallel_for(threads, (width + kColumns - 1) / kColumns, [&](Index block) {
    const Index first = block * kColumns, last = std::min(first + kColumns, width);
    for (Index row = 0; row < gradient.rows(); ++row) {
      const float* from = gradient.data<float>() + row * gradient.columns();
      for (Index tap = 0; tap < taps; ++tap) {
        const Index target = neighbours.rows[at(row * taps + tap)];
        if (target < 0) continue;
        float* to = dx.data<float>() + target * width;
        for (Index c = first; c < last; ++c) to[c] += from[c * taps + tap];
      }
    }
  });
}

}  // namespace longformer::kernels
