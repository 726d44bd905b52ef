// How weights begin: drawn from distributions, or from that of a table that grows.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace longformer::kernels {

/// A fp32 tensor of independent N(1, deviation²) numbers.
Tensor random_gains(const Shape& shape, float deviation, std::uint64_t seed);

/// Sets a row of a fp32 table to zero.
void clear_row(Tensor& table, Index row);

/// A fp32 table with rows behind its own, [rows, columns], drawn from the normal distribution with
/// mean and deviation of its values.
Tensor with_further_rows(const Tensor& table, Index rows, std::uint64_t seed);

}  // namespace longformer::kernels
