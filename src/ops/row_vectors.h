// Vectors of texts, which are compared by their directions and distances: what embeddings are
// trained with.
//
// D elements of a vector; all tensors are fp32.
#pragma once

#include <span>
#include <utility>

#include "kernels/row_vectors.h"
#include "ops/context.h"
#include "ops/loss.h"

namespace longformer::ops {

/// Each row of x [n, D] divided by its length; zeros stay zeros.
Tensor unit_rows(const Context& context, const Tensor& x);

/// A row of a and one of b that are not to be compared.
using ExcludedPair = std::pair<Index, Index>;

/// scale · a·bᵀ of a [n, D] and b [m, D], [n, m]; −∞ where a pair is excluded.
Tensor row_products(const Context& context, const Tensor& a, const Tensor& b, float scale,
                    std::span<const ExcludedPair> excluded = {});

/// The dot product of each row of a with the same row of b, both [n, D]: [n, 1].
Tensor row_dots(const Context& context, const Tensor& a, const Tensor& b);

using kernels::Triplet;

/// See kernels::triplet_loss.
LossSum triplet_loss(const Context& context, const Tensor& x, std::span<const Triplet> triplets,
                     double margin, const LossOptions& options);

}  // namespace longformer::ops
