// Losses and their gradients. A gradient is that of `scale` times the sum of the losses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "kernels/rows.h"

namespace longformer::kernels {

/// A label that does not count.
inline constexpr std::int32_t kIgnored = -100;

struct LossOptions {
  double scale = 1;
  /// For cross-entropy: (1 − s)·NLL + s times the mean of −log p over all classes.
  double label_smoothing = 0;
  /// Cross-entropy: a factor for the rows of each label; binary cross-entropy: for the targets 1
  /// and 0 of each column. May be empty.
  std::span<const double> class_weights = {}, other_weights = {};
  /// Receives the cross-entropy of every row, 0 without a label; may be empty.
  std::span<float> each = {};
};

struct LossSum {
  double sum = 0;
  /// How many things counted; of labels with weights, the sum of the weights.
  double weight = 0;
};

/// Cross-entropy of each row of logits [n, C] fp32 with its label. Turns the rows into their
/// gradient, in place, and sums the losses in the order of the rows.
LossSum cross_entropy_rows(Tensor& logits, std::span<const std::int32_t> labels,
                           const LossOptions& options, int threads);

/// Binary cross-entropy of every logit with its target. Writes the gradient, fp32.
LossSum binary_cross_entropy(const Tensor& logits, std::span<const float> targets,
                             const LossOptions& options, Tensor& gradient);

/// Squared difference of every logit and its target. Writes the gradient, fp32.
LossSum squared_error(const Tensor& logits, std::span<const float> targets,
                      const LossOptions& options, Tensor& gradient);

/// Mean of (x − target)²; fp32 or bf16, both alike.
double mean_square_difference(const Tensor& x, const Tensor& target);
/// to = factor·(x − target), all of one dtype.
void scaled_difference(const Tensor& x, const Tensor& target, float factor, Tensor& to);

/// Rows of which one is to be chosen, and those that are right; none are right: it does not count.
struct RowChoice {
  RowRange range;
  std::vector<Index> right;
};

/// −log of the probability that a softmax down a column of logits [n, outputs] fp32, over the rows
/// of each choice, gives to its right rows together. Writes the gradient [n, outputs] fp32 where a
/// choice has rows, and leaves the rest.
LossSum row_cross_entropy(const Tensor& logits, Index column, std::span<const RowChoice> choices,
                          const LossOptions& options, Tensor& gradient);

}  // namespace longformer::kernels
