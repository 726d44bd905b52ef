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

/// Gains of the columns from c on, of rows in either direction.
template <typename Rows>
auto gain_at(const Rows& r, Index c) {
  const Float d;
  return hn::Add(hn::LoadU(d, r.gamma + c), hn::Set(d, r.gamma_offset));
}

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
    if (residual != nullptr) {
      value = hn::Add(value, LoadFloats(residual + c));
      hn::StoreU(value, d, x + c);
    }
    sums = hn::Add(sums, value);
  }
  for (Index c = whole; c < columns; ++c) {
    if (residual != nullptr) x[c] += static_cast<float>(residual[c]);
    sum += x[c];
  }
  const float mean =
      r.centres ? (sum + hn::GetLane(hn::SumOfLanes(d, sums))) / static_cast<float>(columns) : 0;
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
    const auto shift = r.beta != nullptr ? hn::LoadU(d, r.beta + c) : hn::Zero(d);
    StoreFloats(hn::MulAdd(normal, gain_at(r, c), shift), out + c);
  }
  for (Index c = whole; c < columns; ++c) {
    const float shift = r.beta != nullptr ? r.beta[c] : 0;
    out[c] = T((x[c] - mean) * scale * (r.gamma[c] + r.gamma_offset) + shift);
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

/// Mean and 1/√(variance + ε) of a row.
struct Moments {
  float mean;
  float scale;
};

Moments moments_of(const LayerNormGradientRows& r, const float* x) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const Index whole = r.columns / lanes * lanes;
  const auto count = static_cast<float>(r.columns);
  auto sums = hn::Zero(d);
  float sum = 0;
  for (Index c = 0; c < whole; c += lanes) sums = hn::Add(sums, hn::LoadU(d, x + c));
  for (Index c = whole; c < r.columns; ++c) sum += x[c];
  const float mean = r.centres ? (sum + hn::GetLane(hn::SumOfLanes(d, sums))) / count : 0;
  auto squares = hn::Zero(d);
  float square = 0;
  for (Index c = 0; c < whole; c += lanes) {
    const auto centred = hn::Sub(hn::LoadU(d, x + c), hn::Set(d, mean));
    squares = hn::MulAdd(centred, centred, squares);
  }
  for (Index c = whole; c < r.columns; ++c) square += (x[c] - mean) * (x[c] - mean);
  const float variance = (square + hn::GetLane(hn::SumOfLanes(d, squares))) / count;
  return {mean, 1.0f / std::sqrt(variance + r.epsilon)};
}

/// x̂ is the normalised row and a = gradient·gamma: scale·(a − mean(a) − x̂·mean(a·x̂)), without
/// mean(a) where rows are not centred.
template <typename T>
void normalise_row_backward(const LayerNormGradientRows& r, const float* x, T* gradient) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const Index whole = r.columns / lanes * lanes;
  const auto count = static_cast<float>(r.columns);
  const Moments m = moments_of(r, x);
  const auto normal = [&](Index c) {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + c), hn::Set(d, m.mean)), hn::Set(d, m.scale));
  };
  auto sums = hn::Zero(d);
  auto products = hn::Zero(d);
  float sum = 0, product = 0;
  for (Index c = 0; c < whole; c += lanes) {
    const auto g = LoadFloats(gradient + c);
    const auto a = hn::Mul(g, gain_at(r, c));
    const auto n = normal(c);
    sums = hn::Add(sums, a);
    products = hn::MulAdd(a, n, products);
    if (r.gamma_gradient != nullptr) {
      hn::StoreU(hn::MulAdd(g, n, hn::LoadU(d, r.gamma_gradient + c)), d, r.gamma_gradient + c);
    }
    if (r.beta_gradient != nullptr) {
      hn::StoreU(hn::Add(g, hn::LoadU(d, r.beta_gradient + c)), d, r.beta_gradient + c);
    }
  }
  for (Index c = whole; c < r.columns; ++c) {
    const auto g = static_cast<float>(gradient[c]);
    const float n = (x[c] - m.mean) * m.scale;
    const float a = g * (r.gamma[c] + r.gamma_offset);
    sum += a;
    product += a * n;
    if (r.gamma_gradient != nullptr) r.gamma_gradient[c] += g * n;
    if (r.beta_gradient != nullptr) r.beta_gradient[c] += g;
  }
  const float mean = r.centres ? (sum + hn::GetLane(hn::SumOfLanes(d, sums))) / count : 0;
  const float along = (product + hn::GetLane(hn::SumOfLanes(d, products))) / count;
  for (Index c = 0; c < whole; c += lanes) {
    const auto a = hn::Mul(LoadFloats(gradient + c), gain_at(r, c));
    const auto across = hn::NegMulAdd(normal(c), hn::Set(d, along), hn::Sub(a, hn::Set(d, mean)));
    StoreFloats(hn::Mul(across, hn::Set(d, m.scale)), gradient + c);
  }
  for (Index c = whole; c < r.columns; ++c) {
    const float n = (x[c] - m.mean) * m.scale;
    const float a = static_cast<float>(gradient[c]) * (r.gamma[c] + r.gamma_offset);
    gradient[c] = T((a - mean - n * along) * m.scale);
  }
}

template <typename T>
void normalise_rows_backward(const LayerNormGradientRows& r, T* gradient) {
  for (Index row = 0; row < r.rows; ++row) {
    normalise_row_backward(r, r.x + row * r.columns, gradient + row * r.columns);
  }
}

void layer_norm_backward(const LayerNormGradientRows& rows, void* gradient, DType dtype) {
  if (dtype == DType::bf16) {
    normalise_rows_backward(rows, static_cast<BFloat16*>(gradient));
  } else {
    normalise_rows_backward(rows, static_cast<float*>(gradient));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(add_layer_norm);
HWY_EXPORT(layer_norm_backward);

void add_layer_norm(const LayerNormRows& rows, void* out, DType dtype) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(add_layer_norm)(rows, out, dtype);
}

void layer_norm_backward(const LayerNormGradientRows& rows, void* gradient, DType dtype) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(layer_norm_backward)(rows, gradient, dtype);
}

}  // namespace longformer::kernels
#endif
