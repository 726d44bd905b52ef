// Products of rows with matrices on a device: by CLBlast where it is installed and the device is a
// GPU, else by the kernels of products.cl.
#pragma once

#include "core/tensor.h"
#include "kernels/opencl/device.h"

namespace longformer::kernels::opencl {

/// A matrix [in, out], laid out for the products of its device.
struct Matrix {
  Tensor numbers;
  Index in = 0, out = 0;
  /// How CLBlast reads it: the numbers are those of the transpose.
  bool is_transpose = false;
};

/// Ways of multiplying.
enum class Products { clblast, vectors, tiles };

/// The way of the device; LONGFORMER_OPENCL_PRODUCTS=clblast, vectors or tiles names another.
/// Throws Error where CLBlast is named and not installed.
Products products_of(const DeviceFacts& facts);

// Whoever calls these has the turn of the device.

/// The transpose of a tensor [out, in], as weights are stored, or a tensor [in, out] itself.
Matrix matrix_of_weights(const Tensor& weights);
Matrix matrix_of_rows(const Tensor& rows);

/// x [n, in] times the matrix, [n, out].
Tensor multiply(const Tensor& x, const Matrix& matrix);

}  // namespace longformer::kernels::opencl
