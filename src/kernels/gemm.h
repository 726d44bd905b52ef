// Matrix products at the machine's rate. gemm.cc is the one file that includes oneDNN.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "core/tensor.h"
#include "kernels/activation.h"

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

/// The same with bf16 factors and sums in fp32, for alpha 1 and beta 0 or 1. c is rounded once, at
/// the end.
void gemm(const GemmShape& shape, const BFloat16* a, const BFloat16* b, float* c);
void gemm(const GemmShape& shape, const BFloat16* a, const BFloat16* b, BFloat16* c);

/// Widest row block that a PackedLinear is asked for: 256 rows keep a block of the 4-times wide
/// activations inside the last-level cache and the GEMM at its peak.
inline constexpr Index kRowBlock = 256;

/// y = activation(x·Wᵀ + b) with W [out, in] packed once for this machine. Several matrices given
/// together are stacked along `out`.
class PackedLinear {
 public:
  /// biases has one tensor [out] for each weight, or is empty. dtype is that of x, and of W when
  /// packed.
  PackedLinear(std::span<const Tensor> weights, std::span<const Tensor> biases, DType dtype,
               std::optional<Activation> activation = std::nullopt);
  PackedLinear(PackedLinear&&) noexcept;
  PackedLinear& operator=(PackedLinear&&) noexcept;
  ~PackedLinear();

  Index in_features() const;
  Index out_features() const;
  DType dtype() const;

  /// A compiled product for a number of rows; cheap to ask for again. `all_threads` makes one that
  /// spreads over all threads and must be run outside parallel_for; else it runs on the calling
  /// thread. Not thread-safe: ask before the parallel loop.
  class Kernel;
  const Kernel& kernel(Index rows, DType output, bool all_threads = false) const;
  /// x [rows, in] of dtype(), y [rows, out] of the kernel's output type; both contiguous.
  void run(const Kernel& kernel, const void* x, void* y) const;

 private:
  struct Packed;
  std::unique_ptr<Packed> packed_;
};

}  // namespace longformer::kernels
