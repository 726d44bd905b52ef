// Weights of classes in a loss.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace longformer::engine {

/// How often each class is right in the examples of a training.
struct ClassCounts {
  std::vector<Index> counts = {};
  /// Labels in all; of several labels for each example, the examples.
  Index total = 0;
  /// Each example may have several labels: every class is a question of its own.
  bool is_multi_label = false;
};

/// Factors of the loss; none: all are 1.
struct ClassWeights {
  /// Factor for each class of a label that is right.
  std::vector<double> right = {};
  /// Factor for each class that an example with several labels lacks; else none.
  std::vector<double> other = {};

  bool empty() const { return right.empty(); }
};

/// "balanced": n ÷ (k · count) for each of the k classes that there are, as scikit-learn weighs
/// them; with several labels for each example n ÷ (2 · count) for those with and those without a
/// label. Else "label=weight,label=weight" or a JSON object of weights; the other labels weigh 1.
/// Throws Error that names the option.
ClassWeights class_weights(const std::string& text, const std::vector<std::string>& labels,
                           const ClassCounts& counts);

/// Σ of the weights of the labels that count.
double weight_of(const ClassWeights& weights, std::span<const std::int32_t> labels);

}  // namespace longformer::engine
