// The modules of sentence-transformers that work on pooled vectors, with their weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "ops/context.h"
#include "ops/linear.h"
#include "tasks/embedding/sentence_modules.h"

namespace longformer::tasks {

/// Scales each row of `width` elements to length 1; zeros stay.
void scale_to_unit_length(std::span<float> rows, Index width);

/// The first `kept` elements of each row of `width`.
std::vector<float> first_columns(std::span<const float> rows, Index width, Index kept);

class VectorModules {
 public:
  /// `width` is the size of the vectors that come in; `note`, which may be empty, is told which
  /// weights are not finite. Throws Error for weights that cannot be read and for sizes that do not
  /// follow each other.
  VectorModules(std::span<const VectorModule> modules, Index width,
                const std::function<void(const std::string&)>& note);

  /// The size of the vectors that come out.
  Index width() const { return width_; }

  bool is_empty() const { return steps_.empty(); }

  /// The vectors [rows, width] after all modules, without a Normalize at the end. What is
  /// not finite stays so, whatever an activation would make of it.
  std::vector<float> apply(const ops::Context& context, std::vector<float> vectors) const;

  /// A number that other weights hardly share.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  /// A Dense, or a Normalize between two of them.
  struct Step {
    std::shared_ptr<const ops::Linear> dense;
    std::optional<kernels::Activation> activation = {};
  };
  std::vector<Step> steps_;
  Index first_width_ = 0;
  Index width_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace longformer::tasks
