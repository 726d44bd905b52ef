// A vector for each token of a text (ColBERT), which are compared by MaxSim.
#pragma once

#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "engine/reading/reading.h"
#include "longformer/embedding.h"
#include "tasks/embedding/token_modules.h"
#include "tasks/embedding/vector_modules.h"

namespace longformer::tasks {

class MultiVectorHead {
 public:
  /// `note` is told which weights are not finite. Throws Error for weights that cannot be read.
  MultiVectorHead(const MultiVectorModules& modules, const Model& model,
                  const Tokenizer& tokenizer);

  /// Elements of a vector.
  Index width() const { return layers_.width(); }
  bool scores_mean() const { return modules_.scores_mean; }
  /// The longest text of a role in tokens, where the folder says it.
  std::optional<Index> length_of(TextRole role) const;

  /// Gives the row of a query its further tokens, and its mask where others do not attend to them.
  void expand(engine::TokenRow& row, std::vector<std::int32_t>& mask) const;

  /// Whether the vector of a token counts. `place` is that in its text.
  bool counts(std::int32_t id, Index place, TextRole role) const;

  /// Finished vectors [rows, width] of states [rows, D]. The caller holds a turn.
  std::vector<float> vectors(const ops::Context& context, std::vector<float> states) const;

  std::uint64_t fingerprint() const { return layers_.fingerprint(); }

 private:
  MultiVectorModules modules_;
  VectorModules layers_;
  std::unordered_set<std::int32_t> skipped_;
  std::int32_t further_ = 0;
};

}  // namespace longformer::tasks
