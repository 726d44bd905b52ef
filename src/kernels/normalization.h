// LayerNorm and RMS norm over rows, fused with the residual addition before them
// (docs/spec/README.md#conventions, docs/spec/encoder.md#a5).
#pragma once

#include "core/tensor.h"

namespace longformer::kernels {

/// Rows of [rows, columns]: out = norm(x + residual)·gamma + beta with the biased variance.
struct LayerNormRows {
  /// fp32; overwritten with x + residual where there is one.
  float* x = nullptr;
  /// Same dtype as out; null adds nothing.
  const void* residual = nullptr;
  const float* gamma = nullptr;
  /// Is added to gamma.
  float gamma_offset = 0;
  /// Null adds nothing.
  const float* beta = nullptr;
  float epsilon = 0;
  Index rows = 0;
  Index columns = 0;
  /// Whether the mean is taken off each row; without that it is the RMS norm (arXiv 1910.07467).
  bool centres = true;
};

/// out has dtype fp32 or bf16 and may be the residual itself.
void add_layer_norm(const LayerNormRows& rows, void* out, DType dtype);

/// The backward pass of rows that were x + residual before.
struct LayerNormGradientRows {
  /// fp32, as add_layer_norm has left it.
  const float* x = nullptr;
  const float* gamma = nullptr;
  float gamma_offset = 0;
  float epsilon = 0;
  Index rows = 0;
  Index columns = 0;
  bool centres = true;
  /// Gradients of gamma and beta are added here, fp32; null where they are not wanted.
  float* gamma_gradient = nullptr;
  float* beta_gradient = nullptr;
};

/// Turns the gradient of the output into that of x, in place; dtype fp32 or bf16.
void layer_norm_backward(const LayerNormGradientRows& rows, void* gradient, DType dtype);

}  // namespace longformer::kernels
