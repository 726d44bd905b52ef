// Activations and their slopes on vectors of floats, for files that are compiled once per
// instruction set (hence the guard that Highway's foreach_target.h asks for).
#if defined(LONGFORMER_KERNELS_SIMD_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGFORMER_KERNELS_SIMD_ACTIVATION_INL_H_
#undef LONGFORMER_KERNELS_SIMD_ACTIVATION_INL_H_
#else
#define LONGFORMER_KERNELS_SIMD_ACTIVATION_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <type_traits>

#include "core/dtype.h"
#include "kernels/activation.h"
#include "kernels/simd_float_inl.h"
#include "kernels/simd_softmax_weight_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr Float kFloat;

HWY_INLINE FloatVector Constant(double value) { return hn::Set(kFloat, static_cast<float>(value)); }

/// The normal distribution function Φ(x) and e^(−x²/2), by Abramowitz and Stegun 7.1.26 (absolute
/// error below 1e-7).
struct Normal {
  FloatVector distribution;
  FloatVector bell;
};
HWY_INLINE Normal NormalOf(FloatVector x) {
  const auto size = hn::Abs(x);
  const auto exponent = hn::Mul(hn::Mul(x, x), Constant(-0.5));
  const auto bell = SoftmaxWeight(kFloat, exponent);
  const auto t =
      hn::Div(Constant(1), hn::MulAdd(size, Constant(0.3275911 * M_SQRT1_2), Constant(1)));
  auto series = Constant(1.061405429);
  series = hn::MulAdd(series, t, Constant(-1.453152027));
  series = hn::MulAdd(series, t, Constant(1.421413741));
  series = hn::MulAdd(series, t, Constant(-0.284496736));
  series = hn::MulAdd(series, t, Constant(0.254829592));
  const auto tail = hn::Mul(hn::Mul(hn::Mul(series, t), bell), Constant(0.5));
  const auto above = hn::Gt(x, hn::Zero(kFloat));
  return {hn::IfThenElse(above, hn::Sub(Constant(1), tail), tail), bell};
}

/// The bound for numbers beyond it. A NaN stays, which Max and Min of NEON would drop.
HWY_INLINE FloatVector AtLeast(double bound, FloatVector x) {
  return hn::IfThenElse(hn::Lt(x, Constant(bound)), Constant(bound), x);
}
HWY_INLINE FloatVector AtMost(double bound, FloatVector x) {
  return hn::IfThenElse(hn::Gt(x, Constant(bound)), Constant(bound), x);
}

/// Beyond ±10 tanh is ±1 in fp32, and what it is computed from would be subnormal. (CopySign in
/// place of the two bounds is made wrong by clang 14 and 15 for AVX-512.)
HWY_INLINE FloatVector TanhOf(FloatVector x) {
  return hn::Tanh(kFloat, AtLeast(-10, AtMost(10, x)));
}

/// Below −80 it would be subnormal, and Highway's exp is 0 beyond 104.
HWY_INLINE FloatVector SigmoidOf(FloatVector x) {
  return hn::Div(Constant(1), hn::Add(Constant(1), hn::Exp(kFloat, hn::Neg(AtLeast(-80, x)))));
}

constexpr double kQuickGelu = 1.702;

/// tanh(log(1 + e)) = e·(e + 2) / (e·(e + 2) + 2) with e = exp(x). Beyond 20 it is 1 in fp32; below
/// −80 it would be subnormal.
HWY_INLINE FloatVector TanhOfSoftplus(FloatVector x) {
  const auto e = hn::Exp(kFloat, AtLeast(-80, AtMost(20, x)));
  const auto part = hn::Mul(e, hn::Add(e, Constant(2)));
  return hn::Div(part, hn::Add(part, Constant(2)));
}

/// √(2/π)·(x + 0.044715·x³), whose tanh gelu_tanh takes.
HWY_INLINE FloatVector InnerOf(FloatVector x) {
  const auto cubic = hn::MulAdd(hn::Mul(x, x), Constant(0.044715), Constant(1));
  return hn::Mul(hn::Mul(x, cubic), Constant(0.7978845608028654));
}

template <Activation kActivation>
HWY_INLINE FloatVector ValueOf(FloatVector x) {
  if constexpr (kActivation == Activation::gelu) {
    return hn::Mul(x, NormalOf(x).distribution);
  } else if constexpr (kActivation == Activation::gelu_tanh) {
    return hn::Mul(hn::Mul(x, Constant(0.5)), hn::Add(Constant(1), TanhOf(InnerOf(x))));
  } else if constexpr (kActivation == Activation::relu) {
    // A maximum would make 0 of NaN.
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(kFloat)), x);
  } else if constexpr (kActivation == Activation::silu) {
    return hn::Mul(x, SigmoidOf(x));
  } else if constexpr (kActivation == Activation::quick_gelu) {
    return hn::Mul(x, SigmoidOf(hn::Mul(x, Constant(kQuickGelu))));
  } else if constexpr (kActivation == Activation::mish) {
    return hn::Mul(x, TanhOfSoftplus(x));
  } else {
    return TanhOf(x);
  }
}

template <Activation kActivation>
HWY_INLINE FloatVector SlopeOf(FloatVector x) {
  const auto one = Constant(1);
  if constexpr (kActivation == Activation::gelu) {
    const Normal normal = NormalOf(x);
    return hn::MulAdd(hn::Mul(x, normal.bell), Constant(0.3989422804014327), normal.distribution);
  } else if constexpr (kActivation == Activation::gelu_tanh) {
    const auto tanh = TanhOf(InnerOf(x));
    const auto inner = hn::Mul(hn::MulAdd(hn::Mul(x, x), Constant(3 * 0.044715), one),
                               Constant(0.7978845608028654));
    const auto curve = hn::Mul(hn::NegMulAdd(tanh, tanh, one), inner);
    return hn::Mul(Constant(0.5), hn::MulAdd(x, curve, hn::Add(one, tanh)));
  } else if constexpr (kActivation == Activation::relu) {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(kFloat)), one);
  } else if constexpr (kActivation == Activation::silu) {
    const auto sigmoid = SigmoidOf(x);
    return hn::Mul(sigmoid, hn::MulAdd(x, hn::Sub(one, sigmoid), one));
  } else if constexpr (kActivation == Activation::quick_gelu) {
    const auto scaled = hn::Mul(x, Constant(kQuickGelu));
    const auto sigmoid = SigmoidOf(scaled);
    return hn::Mul(sigmoid, hn::MulAdd(scaled, hn::Sub(one, sigmoid), one));
  } else if constexpr (kActivation == Activation::mish) {
    const auto tanh = TanhOfSoftplus(x);
    const auto curve = hn::Mul(hn::NegMulAdd(tanh, tanh, one), SigmoidOf(x));
    return hn::MulAdd(x, curve, tanh);
  } else {
    const auto tanh = TanhOf(x);
    return hn::NegMulAdd(tanh, tanh, one);
  }
}

HWY_INLINE Index LaneCount() { return static_cast<Index>(hn::Lanes(kFloat)); }

/// Calls body with the activation as a compile-time constant.
template <typename Body>
void WithActivation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::gelu:
      return body(std::integral_constant<Activation, Activation::gelu>());
    case Activation::gelu_tanh:
      return body(std::integral_constant<Activation, Activation::gelu_tanh>());
    case Activation::relu:
      return body(std::integral_constant<Activation, Activation::relu>());
    case Activation::silu:
      return body(std::integral_constant<Activation, Activation::silu>());
    case Activation::tanh:
      return body(std::integral_constant<Activation, Activation::tanh>());
    case Activation::quick_gelu:
      return body(std::integral_constant<Activation, Activation::quick_gelu>());
    case Activation::mish:
      return body(std::integral_constant<Activation, Activation::mish>());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#endif
