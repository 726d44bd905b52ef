// A product of matrices whose numbers are of one type or another.
#pragma once

#include "core/dtype.h"
#include "kernels/gemm.h"

namespace longformer::ops {

/// c = a·b: fp32 in fp32, or bf16 in fp32 or bf16.
inline void product(const kernels::GemmShape& shape, DType in, const void* a, const void* b,
                    DType out, void* c) {
  if (in == DType::f32) {
    kernels::gemm(shape, static_cast<const float*>(a), static_cast<const float*>(b),
                  static_cast<float*>(c));
  } else if (out == DType::f32) {
    kernels::gemm(shape, static_cast<const BFloat16*>(a), static_cast<const BFloat16*>(b),
                  static_cast<float*>(c));
  } else {
    kernels::gemm(shape, static_cast<const BFloat16*>(a), static_cast<const BFloat16*>(b),
                  static_cast<BFloat16*>(c));
  }
}

}  // namespace longformer::ops
