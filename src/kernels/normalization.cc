#include "kernels/normalization.h"

#include <cmath>

#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalization.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_float_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
void normalise_row(const LayerNormRows& r, float* x, const T* residual, T* out) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const Index columns = r.columns;
  const Index whole = columns / lanes * lanes;
  auto sums = hn::Zero(d);
  float sum = 0;
  for (Index c = 0; c < whole; c += lanes) {
    auto value = hn::LoadU(d, x + c);
    if (residual != nullptr) value = hn::Add(value, LoadFloats(residual + c));
    hn::StoreU(value, d, x + c);
    sums = hn::Add(sums, value);
  }
  for (Index c = whole; c < columns; ++c) {
    if (residual != nullptr) x[c] += static_cast<float>(residual[c]);
    sum += x[c];
  }
  const float mean = (sum + hn::GetLane(hn::SumOfLanes(d, sums))) / static_cast<float>(columns);
  const auto means = hn::Set(d, mean);
  auto squares = hn::Zero(d);
  float square = 0;
  for (Index c = 0; c < whole; c += lanes) {
    const auto centred = hn::Sub(hn::LoadU(d, x + c), means);
    squares = hn::MulAdd(centred, centred, squares);
  }
  for (Index c = whole; c < columns; ++c) square += (x[c] - mean) * (x[c] - mean);
  const float variance =
      (square + hn::GetLane(hn::SumOfLanes(d, squares))) / static_cast<float>(columns);
  const float scale = 1.0f / std::sqrt(variance + r.epsilon);
  const auto scales = hn::Set(d, scale);
  for (Index c = 0; c < whole; c += lanes) {
    const auto normal = hn::Mul(hn::Sub(hn::LoadU(d, x + c), means), scales);
    StoreFloats(hn::MulAdd(normal, hn::LoadU(d, r.gamma + c), hn::LoadU(d, r.beta + c)), out + c);
  }
  for (Index c = whole; c < columns; ++c) {
    out[c] = T((x[c] - mean) * scale * r.gamma[c] + r.beta[c]);
  }
}

template <typename T>
void normalise_rows(const LayerNormRows& r, T* out) {
  const T* residual = static_cast<const T*>(r.residual);
  for (Index row = 0; row < r.rows; ++row) {
    const Index at = row * r.columns;
    normalise_row(r, r.x + at, residual == nullptr ? nullptr : residual + at, out + at);
  }
}

void add_layer_norm(const LayerNormRows& rows, void* out, DType dtype) {
  if (dtype == DType::bf16) {
    normalise_rows(rows, static_cast<BFloat16*>(out));
  } else {
    normalise_rows(rows, static_cast<float*>(out));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(add_layer_norm);

void add_layer_norm(const LayerNormRows& rows, void* out, DType dtype) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(add_layer_norm)(rows, out, dtype);
}

}  // namespace longformer::kernels
#endif
