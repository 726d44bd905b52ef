// How weights begin: drawn from distributions, or from that of a table that grows.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace longformer::kernels {

/// A fp32 tensor of independent N(1, deviation²) numbers.
Tensor random_gains(const Shape& shape, float deviation, std::uint64_t seed);

/// A fp32 tensor of independent N(0, deviation²) numbers within ± cutoff deviations.
Tensor truncated_normal(const Shape& shape, float deviation, double cutoff, std::uint64_t seed);

/// A fp32 tensor of independent numbers that are uniform from `low` to `high`.
Tensor uniform_numbers(const Shape& shape, double low, double high, std::uint64_t seed);

/// A Linformer's projection [k, N] or [H, k, N] (docs/spec/low-rank-and-kernels.md#e3): uniform
/// within √(6/(N + k))/√2.
Tensor xavier_projection(const Shape& shape, std::uint64_t seed);
/// Row r is the mean of those columns j for which ⌊j·k/N⌋ = r.
Tensor pooled_projection(const Shape& shape);
/// A convolution over s rows, [D, 1, s] or [D, D, s], that gives the mean of each feature.
Tensor averaging_convolution(const Shape& shape);
/// √(N/k) times k rows of a random rotation.
Tensor orthogonal_projection(const Shape& shape, std::uint64_t seed);

/// Gram–Schmidt: makes rows [count, width] orthonormal, in their order. Of normal numbers they
/// become those of (Q·diag(sign R_rr))ᵀ with QR the decomposition of the transpose, and so
/// uniformly distributed, unlike those of the Q that libraries return. count ≤ width.
void orthogonalize(double* rows, Index count, Index width);

/// Sets a row of a fp32 table to zero.
void clear_row(Tensor& table, Index row);

/// A fp32 table with rows behind its own, [rows, columns], drawn from the normal distribution with
/// mean and deviation of its values.
Tensor with_further_rows(const Tensor& table, Index rows, std::uint64_t seed);

}  // namespace longformer::kernels
