// Rows as vectors whose directions and distances are compared.
//
// D columns; all tensors are fp32.
#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"
#include "kernels/losses.h"

namespace longformer::kernels {

/// Writes each row of x [n, D], divided by its length, to y, and the lengths; zeros stay zeros.
void unit_rows(const Tensor& x, Tensor& y, std::vector<float>& lengths);
/// From the gradient of y to that of x, in place.
void unit_rows_backward(const Tensor& y, std::span<const float> lengths, Tensor& gradient);

/// Writes the dot product of each row of a with the same row of b, both [n, D], to dots [n, 1].
void row_dots(const Tensor& a, const Tensor& b, Tensor& dots);
/// Writes the rows of `other`, each times its element of the gradient [n, 1], to dx.
void row_dots_backward(const Tensor& gradient, const Tensor& other, Tensor& dx);

/// Rows of one tensor: what shall be nearer to the anchor, and what farther from it.
struct Triplet {
  Index anchor = 0, positive = 0, negative = 0;
};

/// max(0, |a − p| − |a − n| + margin) of rows of x [n, D], with Euclidean lengths of differences to
/// each element of which 10⁻⁶ is added, as PyTorch's pairwise_distance does. Adds the gradient to
/// that of x, [n, D].
LossSum triplet_loss(const Tensor& x, std::span<const Triplet> triplets, double margin,
                     const LossOptions& options, Tensor& gradient);

}  // namespace longformer::kernels
