// The loss of a folder's head and its gradients: what an optimizer starts from, and what can be
// held against PyTorch (spec.md A.6).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longformer/model.h"

namespace longformer {

/// What the head should have said about one document. −100 does not count.
struct DocumentTarget {
  /// Sequence classification: the class, [1]. Token classification and masked LM: one for each
  /// token. Multiple choice and candidate scoring: the number of the right choice, [1], at the
  /// first document of a question.
  std::vector<std::int32_t> labels;
  /// Regression and multi-label classification: one for each label of the model.
  std::vector<float> values;
  /// Question answering: tokens at which a right answer starts and ends. Several are right
  /// together; none, or one beyond the document: it does not count.
  std::vector<std::int64_t> starts, ends;
  /// Candidate scoring: the token at which each candidate stands; the same number of them in all
  /// documents of a question.
  std::vector<std::int64_t> candidates = {};
};

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

/// A model whose weights take part in a backward pass. Thread-compatible.
class GradientModel {
 public:
  /// Throws Error like Model::load, and for a folder without a head.
  static GradientModel load(const std::string& folder, const LoadOptions& options = {});

  /// Dropout is off. `choices` says how many documents each question of multiple choice or
  /// candidate scoring has; empty for other heads. Throws Error for what Model::forward refuses,
  /// and for targets that do not fit.
  LossGradients loss_and_gradients(std::span<const DocumentInput> documents,
                                   std::span<const DocumentTarget> targets,
                                   std::span<const std::int64_t> choices = {}) const;

 private:
  explicit GradientModel(std::shared_ptr<const Model::Implementation> implementation);
  std::shared_ptr<const Model::Implementation> implementation_;
};

}  // namespace longformer
