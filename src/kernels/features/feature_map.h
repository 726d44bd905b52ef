// Features whose products stand for the weight of a key: FAVOR+ and the generalised kernels of the
// Performer (arXiv 2009.14794; docs/spec/low-rank-and-kernels.md#f1, #f2).
//
// d head size, m random directions (rows of Ω), F features of a query or key.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace longformer::kernels {

/// Kernel that the products of features estimate.
enum class FeatureKernel {
  softmax,        ///< e^{q·k/√d} by positive features, F = m
  hyperbolic,     ///< the same by pairs of ±, F = 2m
  trigonometric,  ///< the same by cosines and sines, F = 2m; products may be negative
  relu,           ///< max(0, ω·x) + ε
  elu,            ///< elu(x) + 1 without Ω, F = d
};

struct FeatureMap {
  FeatureKernel kernel = FeatureKernel::softmax;
  Index head_size = 0;
  /// m; 0 where features are made of the numbers of a row themselves.
  Index directions = 0;
  /// Added to every feature. With softmax and hyperbolic features above 0 the features are made as
  /// the paper's code makes them, for attention in both directions only.
  double epsilon = 0;
  /// Whether queries and keys are divided by d^{1/4} first.
  bool normalizes = true;

  /// F.
  Index features() const;
  bool is_exponential() const {
    return kernel == FeatureKernel::softmax || kernel == FeatureKernel::hyperbolic;
  }
  bool has_pairs() const {
    return kernel == FeatureKernel::hyperbolic || kernel == FeatureKernel::trigonometric;
  }
  /// Whether exponentials are stabilised by one maximum for all features, and ε follows
  /// (docs/spec/low-rank-and-kernels.md#f1).
  bool has_floor() const { return is_exponential() && epsilon > 0; }
  /// The factor of queries and keys.
  float factor() const;
};

/// Random directions: how long they are, and how they lie to each other
/// (docs/spec/low-rank-and-kernels.md#f3).
struct FeatureDraw {
  bool orthogonal = true;
  /// All of length √d, rather than as long as rows of normal numbers.
  bool constant_lengths = false;
};

/// Ω of one head, [m, d] fp32: the same for the same seed on every machine.
void draw_features(const FeatureDraw& draw, std::uint64_t seed, Tensor& directions);

/// Directions for all heads, [H, m, d], each with a draw of its own, or for one that they share.
void draw_head_features(const FeatureDraw& draw, std::uint64_t seed, Tensor& directions);

}  // namespace longformer::kernels
