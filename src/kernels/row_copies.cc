#include "kernels/row_copies.h"

#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/row_copies.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// This follows foreach_target.h, which includes this file once for each instruction set.
#include "kernels/simd_float_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class From, class To>
void CopyRows(const RowsOf<const From>& from, const RowsOf<To>& to, const RowFactors& by) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  for (Index row = 0; row < to.rows; ++row) {
    const float factor = by.each == nullptr ? by.all : by.all * by.each[row];
    const From* source = from.first + row * from.stride;
    To* target = to.first + row * to.stride;
    Index c = 0;
    for (; c + lanes <= to.columns; c += lanes) {
      StoreFloats(hn::Mul(LoadFloats(source + c), hn::Set(d, factor)), target + c);
    }
    for (; c < to.columns; ++c) {
      target[c] = static_cast<To>(static_cast<float>(source[c]) * factor);
    }
  }
}

void WidenRows(const RowsOf<const BFloat16>& from, const RowsOf<float>& to) {
  CopyRows(from, to, RowFactors());
}
void ScaleRows(const RowsOf<const float>& from, const RowsOf<float>& to, const RowFactors& by) {
  CopyRows(from, to, by);
}
void NarrowRows(const RowsOf<const float>& from, const RowsOf<BFloat16>& to, const RowFactors& by) {
  CopyRows(from, to, by);
}

template <class T>
float Dot(const T* a, const T* b, Index count) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  auto sum = hn::Zero(d), other = sum;
  Index c = 0;
  for (; c + 2 * lanes <= count; c += 2 * lanes) {
    sum = hn::MulAdd(LoadFloats(a + c), LoadFloats(b + c), sum);
    other = hn::MulAdd(LoadFloats(a + c + lanes), LoadFloats(b + c + lanes), other);
  }
  float rest = 0;
  for (; c < count; ++c) rest += static_cast<float>(a[c]) * static_cast<float>(b[c]);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, other))) + rest;
}
float DotWide(const float* a, const float* b, Index count) { return Dot(a, b, count); }
float DotNarrow(const BFloat16* a, const BFloat16* b, Index count) { return Dot(a, b, count); }

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(WidenRows);
HWY_EXPORT(ScaleRows);
HWY_EXPORT(NarrowRows);
HWY_EXPORT(DotWide);
HWY_EXPORT(DotNarrow);

void copy_rows(const RowsOf<const BFloat16>& from, const RowsOf<float>& to) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(WidenRows)(from, to);
}

void copy_rows(const RowsOf<const float>& from, const RowsOf<float>& to, const RowFactors& by) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(ScaleRows)(from, to, by);
}

void copy_rows(const RowsOf<const float>& from, const RowsOf<BFloat16>& to, const RowFactors& by) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(NarrowRows)(from, to, by);
}

float dot(const float* a, const float* b, Index count) {
  limit_simd_targets();
  return HWY_DYNAMIC_DISPATCH(DotWide)(a, b, count);
}

float dot(const BFloat16* a, const BFloat16* b, Index count) {
  limit_simd_targets();
  return HWY_DYNAMIC_DISPATCH(DotNarrow)(a, b, count);
}

}  // namespace longformer::kernels
#endif
