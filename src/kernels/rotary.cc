#include "kernels/rotary.h"

#include <cmath>

#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotary.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_float_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
void RotateRow(const float* cosines, float sign, Index half, const T* x, T* y) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const float* sines = cosines + half;
  const auto signs = hn::Set(d, sign);
  Index t = 0;
  for (; t + lanes <= half; t += lanes) {
    const auto a = LoadFloats(x + t), b = LoadFloats(x + half + t);
    const auto cosine = hn::LoadU(d, cosines + t);
    const auto sine = hn::Mul(hn::LoadU(d, sines + t), signs);
    StoreFloats(hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), y + t);
    StoreFloats(hn::MulAdd(a, sine, hn::Mul(b, cosine)), y + half + t);
  }
  for (; t < half; ++t) {
    const auto a = static_cast<float>(x[t]), b = static_cast<float>(x[half + t]);
    const float sine = sines[t] * sign;
    y[t] = T(a * cosines[t] - b * sine);
    y[half + t] = T(b * cosines[t] + a * sine);
  }
}

template <typename T>
void RotateNeighbours(const float* cosines, float sign, Index half, const T* x, T* y) {
  for (Index t = 0; t < half; ++t) {
    const auto a = static_cast<float>(x[2 * t]), b = static_cast<float>(x[2 * t + 1]);
    const float sine = cosines[half + t] * sign;
    y[2 * t] = T(a * cosines[t] - b * sine);
    y[2 * t + 1] = T(b * cosines[t] + a * sine);
  }
}

template <typename T>
void RotateRowsTyped(const RotatedRows& r, const T* x, T* y) {
  const Index width = r.table.columns();
  const float* table = r.table.data<float>();
  const float sign = r.turn == Turn::forward ? 1.0f : -1.0f;
  for (Index i = r.first; i < r.first + r.rows; ++i) {
    const float* cosines = table + r.places[static_cast<std::size_t>(i)] * width;
    const auto rotate = r.pairs_neighbours ? RotateNeighbours<T> : RotateRow<T>;
    rotate(cosines, sign, width / 2, x + i * width, y + i * width);
  }
}

void RotateRows(const RotatedRows& rotated, const void* x, void* y, DType dtype) {
  if (dtype == DType::bf16) {
    RotateRowsTyped(rotated, static_cast<const BFloat16*>(x), static_cast<BFloat16*>(y));
  } else {
    RotateRowsTyped(rotated, static_cast<const float*>(x), static_cast<float*>(y));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(RotateRows);

void fill_rotations(std::span<const float> frequencies, float scale, Index first, Index rows,
                    Tensor& table) {
  const auto half = static_cast<Index>(frequencies.size());
  for (Index row = first; row < first + rows; ++row) {
    float* cosines = table.data<float>() + row * 2 * half;
    for (Index t = 0; t < half; ++t) {
      const float angle = static_cast<float>(row) * frequencies[static_cast<std::size_t>(t)];
      cosines[t] = static_cast<float>(std::cos(static_cast<double>(angle))) * scale;
      cosines[half + t] = static_cast<float>(std::sin(static_cast<double>(angle))) * scale;
    }
  }
}

void rotate_rows(const RotatedRows& rotated, const void* x, void* y, DType dtype) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(RotateRows)(rotated, x, y, dtype);
}

}  // namespace longformer::kernels
#endif
