// The loss of a folder's head and its gradients: what an optimizer starts from, and what can be
// held against PyTorch (docs/spec/encoder.md#a6).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longformer/document_target.h"
#include "longformer/model.h"

namespace longformer {

struct NamedGradient {
  /// The name of the tensor in the folder.
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

struct LossGradients {
  /// The mean that `transformers` gives; 0 when nothing counts.
  double loss = 0;
  /// One for every floating-point tensor of the folder, sorted by name; zeros for those that the
  /// loss does not depend on. Tensors that are tied have the same one.
  std::vector<NamedGradient> gradients;
};

/// A model whose weights take part in a backward pass. Threads may share it: their calls take
/// turns.
class GradientModel {
 public:
  /// Throws Error like Model::load, and for a folder without a head.
  static GradientModel load(const std::string& folder, const LoadOptions& options = {});

  /// Dropout is off. `choices` says how many documents each question of multiple choice or
  /// candidate scoring has, and of question answering how many rows each document, which share one
  /// softmax; empty for other heads, or one for each. Throws Error for what Model::forward refuses,
  /// and for targets that do not fit.
  LossGradients loss_and_gradients(std::span<const DocumentInput> documents,
                                   std::span<const DocumentTarget> targets,
                                   std::span<const std::int64_t> choices = {}) const;

 private:
  explicit GradientModel(std::shared_ptr<const Model::Implementation> implementation);
  std::shared_ptr<const Model::Implementation> implementation_;
};

}  // namespace longformer
