// Weights of entries of the vocabulary: SPLADE, and a linear layer over the tokens of a text.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/model_implementation.h"
#include "longformer/embedding.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "tasks/embedding/token_modules.h"

namespace longformer::tasks {

/// States of several texts, one behind the other.
struct TextStates {
  /// [n, D]
  const Tensor& states;
  /// [n]
  std::span<const std::int32_t> ids;
  /// For each text the rows that stand for it, ascending, one text behind the other.
  std::span<const std::vector<ops::RowRange>> texts;
};

class SparseHead {
 public:
  /// The modules of the folder, or those of SPLADE where it has none. Throws Error for a head that
  /// the model has not.
  SparseHead(const SparseModules& modules, const Model& model, const Tokenizer& tokenizer);

  /// The weights of each text, ascending by token, none of them 0. The caller holds a turn.
  std::vector<std::vector<TokenWeight>> weights(const ops::Context& context,
                                                const TextStates& texts) const;

  /// Whether queries are looked up in a table.
  bool has_query_table() const { return table_.has_value(); }
  SparseEmbedding of_query(std::string_view text) const;

  std::optional<Index> most_weights() const { return modules_.most_weights; }
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  /// Weights of tokens by which a query is known.
  struct Table {
    Tokenizer tokenizer;
    std::vector<float> weights;
  };
  static Table read_table(const std::string& folder);
  std::vector<std::vector<TokenWeight>> of_vocabulary(const ops::Context& context,
                                                      const TextStates& texts) const;
  std::vector<std::vector<TokenWeight>> of_tokens(const ops::Context& context,
                                                  const TextStates& texts) const;
  float weight_of(float logit) const;

  SparseModules modules_;
  Model model_;
  std::shared_ptr<const ops::Linear> linear_;
  /// Tokens that say nothing of a text.
  std::vector<std::int32_t> skipped_;
  std::optional<Table> table_;
  std::uint64_t fingerprint_ = 0;
};

/// Keeps the largest so many weights, in ascending order of tokens.
void keep_largest(std::vector<TokenWeight>& weights, Index most);

}  // namespace longformer::tasks
