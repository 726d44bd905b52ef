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
void MultiplyRows(const T* a, const T* b, Index rows, Index columns, float* products) {
  const Float d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  for (Index row = 0; row < rows; ++row) {
    const T *left = a + row * columns, *right = b + row * columns;
    auto sum = hn::Zero(d);
    Index c = 0;
    for (; c + lanes <= columns; c += lanes) {
      sum = hn::MulAdd(LoadFloats(left + c), LoadFloats(right + c), sum);
    }
    float product = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; c < columns; ++c) product += static_cast<float>(left[c]) * static_cast<float>(right[c]);
    products[row] = product;
  }
}
void MultiplyWide(const float* a, const float* b, Index rows, Index columns, float* products) {
  MultiplyRows(a, b, rows, columns, products);
}
void MultiplyNarrow(const BFloat16* a, const BFloat16* b, Index rows, Index columns,
                    float* products) {
  MultiplyRows(a, b, rows, columns, products);
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(WidenRows);
HWY_EXPORT(ScaleRows);
HWY_EXPORT(NarrowRows);
HWY_EXPORT(MultiplyWide);
HWY_EXPORT(MultiplyNarrow);

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

void read_rows(const Tensor& x, const RowPlace& place, const RowsOf<float>& to) {
  if (x.dtype() == DType::f32) {
    copy_rows(RowsOf<const float>{x.data<float>() + place.first, to.rows, to.columns, place.stride},
              to);
  } else {
    copy_rows(
        RowsOf<const BFloat16>{x.data<BFloat16>() + place.first, to.rows, to.columns, place.stride},
        to);
  }
}

void write_rows(const RowsOf<const float>& from, Tensor& x, const RowPlace& place,
                const RowFactors& by) {
  if (x.dtype() == DType::f32) {
    copy_rows(from,
              RowsOf<float>{x.data<float>() + place.first, from.rows, from.columns, place.stride},
              by);
  } else {
    copy_rows(
        from,
        RowsOf<BFloat16>{x.data<BFloat16>() + place.first, from.rows, from.columns, place.stride},
        by);
  }
}

void multiply_rows(const float* a, const float* b, Index rows, Index columns, float* products) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(MultiplyWide)(a, b, rows, columns, products);
}

void multiply_rows(const BFloat16* a, const BFloat16* b, Index rows, Index columns,
                   float* products) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(MultiplyNarrow)(a, b, rows, columns, products);
}

}  // namespace longformer::kernels
#endif
