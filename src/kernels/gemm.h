// Matrix products at the machine's rate. gemm_onednn.h is the one header that includes oneDNN.
#pragma once

#include <memory>

#include "core/tensor.h"

namespace longformer::kernels {

/// Row-major C = alpha·op(A)·op(B) + beta·C, with op(A) [m, k] and op(B) [k, n].
struct GemmShape {
  Index m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  /// Row strides in elements, of the matrices as they are stored; 0 where rows follow each other.
  Index lda = 0, ldb = 0, ldc = 0;
  float alpha = 1, beta = 0;
};

/// fp32; runs on one thread when called inside parallel_for, else on all.
void gemm(const GemmShape& shape, const float* a, const float* b, float* c);

/// Product with bf16 factors and sums in fp32, for alpha 1 and beta 0 or 1. c is rounded once, at
/// the end.
void gemm(const GemmShape& shape, const BFloat16* a, const BFloat16* b, float* c);
void gemm(const GemmShape& shape, const BFloat16* a, const BFloat16* b, BFloat16* c);

/// A product of bf16 matrices with sums in fp32, prepared for many calls from one thread. Tiles of
/// attention take a few microseconds, as long as looking a product up does. Row strides are tight:
/// with others oneDNN leaves its fast path. Runs on the calling thread.
class PreparedProduct {
 public:
  /// alpha 1, beta 0 or 1.
  explicit PreparedProduct(const GemmShape& shape);
  PreparedProduct(PreparedProduct&&) noexcept;
  ~PreparedProduct();

  void run(const BFloat16* a, const BFloat16* b, float* c) const;

 private:
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace longformer::kernels
