// Passes over rows of tokens whose word embeddings may be given: their logits, and the gradient of
// the logit of a class.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "engine/reading/reading.h"
#include "longformer/model.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// A row of n tokens.
struct GivenRow {
  TokenRow row;
  /// [n, E] in place of the word embeddings of its ids; empty: those.
  std::vector<float> words = {};
};

class RowPasses {
 public:
  /// The model must outlive it, and have weights that are kept (models::Weights::kept). A pass has
  /// at most so many tokens, or one row.
  RowPasses(const Model& model, Index batch_tokens) : model_(model), batch_tokens_(batch_tokens) {}

  /// Is told of the tokens of each pass that is over; one with gradients counts as three.
  void set_report(std::function<void(Index tokens)> report) { report_ = std::move(report); }
  /// Tokens of a pass with gradients count so often.
  static constexpr Index kGradientPasses = 3;

  /// E.
  Index word_size() const;
  /// The word embeddings of tokens, [n, E].
  std::vector<float> words(std::span<const std::int32_t> ids) const;

  /// Row `number`, which is made when its pass begins.
  using Make = std::function<GivenRow(std::size_t number)>;
  using Take = std::function<void(std::size_t number, std::vector<float> values)>;
  /// Takes the logits of each row, [outputs]. Throws Error for one that the model refuses, and for
  /// numbers that are not finite.
  void logits(std::size_t rows, const Make& make, const Take& take) const;
  /// Takes the gradient of the logit of a class to the word embeddings of each row, [n, E]. The
  /// rows that are made must have words. Throws as logits does.
  void gradients(std::size_t rows, Index label, const Make& make, const Take& take) const;

 private:
  struct Pass;
  void in_batches(std::size_t rows, const Make& make,
                  const std::function<void(const Pass&)>& run) const;

  const Model& model_;
  Index batch_tokens_;
  std::function<void(Index tokens)> report_ = {};
};

}  // namespace longformer::tasks
