#include "kernels/span_masks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/threads.h"

namespace longformer::kernels {
namespace {

/// Rows of a piece of parallel work.
constexpr Index kPieceRows = 256;

double unclamped(const SpanRamp& ramp, double span, Index distance) {
  const double left = span * static_cast<double>(ramp.longest) - static_cast<double>(distance);
  return left / static_cast<double>(ramp.ramp) + 1;
}

template <typename T>
void fill_keys(const SpanRamp& ramp, const Tensor& spans, const Tensor& distances, Tensor& keys,
               int threads) {
  const Index heads = keys.dimension(0), count = keys.dimension(1), d = keys.dimension(2) - 1;
  const double scale = std::sqrt(static_cast<double>(d + 1));
  parallel_for(threads, heads, [&](Index head) {
    const auto span = static_cast<double>(spans.data<float>()[head]);
    T* to = keys.data<T>() + head * count * (d + 1);
    const float* from = distances.data<float>();
    for (Index x = 0; x < count; ++x, to += d + 1, from += d) {
      for (Index c = 0; c < d; ++c) to[c] = T(from[c]);
      const double mask = span_mask(ramp, span, x);
      to[d] = T(static_cast<float>(mask > 0 ? scale * std::log(mask) : 0));
    }
  });
}

template <typename T>
void add_to_spans(const SpanRamp& ramp, const Tensor& spans, const Tensor& gradient, Tensor& sums) {
  const Index heads = gradient.dimension(0), count = gradient.dimension(1);
  const Index width = gradient.dimension(2);
  const double slope = std::sqrt(static_cast<double>(width)) * static_cast<double>(ramp.longest) /
                       static_cast<double>(ramp.ramp);
  for (Index head = 0; head < heads; ++head) {
    const auto span = static_cast<double>(spans.data<float>()[head]);
    const T* of = gradient.data<T>() + head * count * width + width - 1;
    double sum = 0;
    for (Index x = 0; x < count; ++x) {
      const double mask = unclamped(ramp, span, x);
      if (mask > 0 && mask <= 1)
        sum += static_cast<double>(static_cast<float>(of[x * width])) / mask;
    }
    sums.data<float>()[head] += static_cast<float>(slope * sum);
  }
}

template <typename T>
void add_to_distances(const Tensor& gradient, Tensor& sums, int threads) {
  const Index heads = gradient.dimension(0), count = gradient.dimension(1);
  const Index d = gradient.dimension(2) - 1;
  parallel_for(threads, (count + kPieceRows - 1) / kPieceRows, [&](Index piece) {
    const Index end = std::min((piece + 1) * kPieceRows, count);
    for (Index x = piece * kPieceRows; x < end; ++x) {
      float* to = sums.data<float>() + x * d;
      for (Index head = 0; head < heads; ++head) {
        const T* from = gradient.data<T>() + (head * count + x) * (d + 1);
        for (Index c = 0; c < d; ++c) to[c] += static_cast<float>(from[c]);
      }
    }
  });
}

template <typename T>
void resize_all(const RowResize& resize, const Tensor& from, Tensor& to, int threads) {
  const Index rows = from.size() / resize.from;
  const Index kept = std::min(resize.from, resize.to);
  parallel_for(threads, (rows + kPieceRows - 1) / kPieceRows, [&](Index piece) {
    const Index end = std::min((piece + 1) * kPieceRows, rows);
    for (Index row = piece * kPieceRows; row < end; ++row) {
      const T* x = from.data<T>() + row * resize.from;
      T* y = to.data<T>() + row * resize.to;
      for (Index c = 0; c < kept; ++c) y[c] = T(resize.factor * static_cast<float>(x[c]));
      std::fill(y + kept, y + resize.to, T(0.0f));
    }
  });
}

}  // namespace

double span_mask(const SpanRamp& ramp, double span, Index distance) {
  return std::clamp(unclamped(ramp, span, distance), 0.0, 1.0);
}

Index span_count(const SpanRamp& ramp, double span) {
  const double end = span * static_cast<double>(ramp.longest) + static_cast<double>(ramp.ramp);
  Index count = std::clamp<Index>(static_cast<Index>(std::ceil(end)) + 1, 1, ramp.longest);
  while (count > 1 && span_mask(ramp, span, count - 1) <= 0) --count;
  return count;
}

void fill_span_keys(const SpanRamp& ramp, const Tensor& spans, const Tensor& distances,
                    Tensor& keys, int threads) {
  if (keys.dtype() == DType::bf16) {
    fill_keys<BFloat16>(ramp, spans, distances, keys, threads);
  } else {
    fill_keys<float>(ramp, spans, distances, keys, threads);
  }
}

void span_keys_backward(const SpanRamp& ramp, const Tensor& spans, const Tensor& gradient,
                        const SpanKeyGradients& to, int threads) {
  const bool is_short = gradient.dtype() == DType::bf16;
  if (to.spans != nullptr) {
    is_short ? add_to_spans<BFloat16>(ramp, spans, gradient, *to.spans)
             : add_to_spans<float>(ramp, spans, gradient, *to.spans);
  }
  if (to.distances != nullptr) {
    is_short ? add_to_distances<BFloat16>(gradient, *to.distances, threads)
             : add_to_distances<float>(gradient, *to.distances, threads);
  }
}

void resize_rows(const RowResize& resize, const Tensor& from, Tensor& to, int threads) {
  if (from.dtype() == DType::bf16) {
    resize_all<BFloat16>(resize, from, to, threads);
  } else {
    resize_all<float>(resize, from, to, threads);
  }
}

}  // namespace longformer::kernels
