// Who attends to whom, as the verb `attention` shows it: one map per chosen layer and head, or
// means of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "inputs.h"
#include "longformer/model.h"
#include "longformer/text.h"

namespace longformer::cli {

/// A number from 0, all of them one by one, or their mean.
struct Choice {
  enum class Kind { one, all, mean };
  Kind kind = Kind::mean;
  std::int64_t number = 0;

  bool is_mean() const { return kind == Kind::mean; }
};

/// Probabilities between the n tokens of a document, laid out as HeadAttention says.
struct AttentionMap {
  /// Absent: the mean of all.
  std::optional<std::int64_t> layer, head;
  HeadAttention values;

  std::int64_t tokens() const { return values.tokens; }
  std::int64_t globals() const { return static_cast<std::int64_t>(values.global_positions.size()); }
  /// Tokens to each side of a window.
  std::int64_t reach() const {
    return values.dense ? tokens() : (values.columns - globals() - 1) / 2;
  }
  /// Which global token it is; absent for others.
  std::optional<std::int64_t> global_index(std::int64_t token) const;
  std::span<const float> row(std::int64_t token) const {
    return std::span(values.local)
        .subspan(static_cast<std::size_t>(token * values.columns),
                 static_cast<std::size_t>(values.columns));
  }

  /// visit(key, probability) for every token that `query` attends to at all.
  template <typename Visit>
  void visit_keys(std::int64_t query, Visit visit) const;
};

/// The mean of maps of one document. A narrow window counts as a wide one with zeros around, and
/// beside a dense layer as all tokens with zeros around.
class MapMean {
 public:
  void add(const AttentionMap& map);
  std::int64_t count() const { return count_; }
  /// The mean under the name of a layer and head; nothing is left behind.
  AttentionMap take(std::optional<std::int64_t> layer, std::optional<std::int64_t> head);

 private:
  /// Adds a map that is dense exactly when the sum is.
  void add_alike(const AttentionMap& map);
  void widen(std::int64_t reach);

  AttentionMap sum_;
  std::int64_t count_ = 0;
};

/// A token that is attended to.
struct Attended {
  std::int64_t key = 0;
  float probability = 0;
};

struct AttentionLimits {
  /// 0 for all.
  std::int64_t top_k = 0;
  /// Smallest probability that counts.
  double threshold = 0;
};

/// Tokens that a token attends to, strongest first, within limits.
std::vector<Attended> strongest(const AttentionMap& map, std::int64_t query,
                                AttentionLimits limits);

/// "3" or "mean"; what files and titles call a layer or head.
std::string name_of(const std::optional<std::int64_t>& number);

/// A document as the reports need it.
struct AttentionDocument {
  const Document& source;
  const Encoding& encoding;
  /// Vocabulary entries of the tokens.
  std::vector<std::string> tokens;
  /// Ascending; those that the model treats as global.
  std::vector<std::int64_t> global_positions;
  /// The chosen layers and heads in the order of the maps; absent: mean.
  std::vector<std::optional<std::int64_t>> layers, heads;
};

/// Takes the probabilities of one document, layers ascending, heads ascending within each, and
/// hands over what is chosen of them: each map, or means when they are complete.
class ChosenMaps {
 public:
  /// The last head that will come completes the means of a layer.
  ChosenMaps(Choice layer, Choice head, std::int64_t last_head,
             std::function<void(const AttentionMap&)> show)
      : layer_(layer), head_(head), last_head_(last_head), show_(std::move(show)) {}

  void add(HeadAttention seen);
  void finish();

 private:
  using Number = std::optional<std::int64_t>;
  Choice layer_, head_;
  std::int64_t last_head_;
  std::function<void(const AttentionMap&)> show_;
  std::map<std::pair<Number, Number>, MapMean> means_;
};

/// Runs the model over one document and hands over the maps: layers ascending, heads ascending
/// within each; means when they are complete. In memory is one map, or as many as there are means
/// in the making.
void attention_maps(const Model& model, const DocumentInput& input, Choice layer, Choice head,
                    const std::function<void(const AttentionMap&)>& show);

/// The layers or heads of the maps, out of `count`. Throws Error for a number that is too large.
std::vector<std::optional<std::int64_t>> chosen(Choice choice, std::int64_t count,
                                                const std::string& what);

template <typename Visit>
void AttentionMap::visit_keys(std::int64_t query, Visit visit) const {
  if (const auto column = global_index(query)) {
    for (std::int64_t i = 0; i < tokens(); ++i) {
      const float p = values.global[static_cast<std::size_t>(i * globals() + *column)];
      if (p > 0) visit(i, p);
    }
    return;
  }
  const std::span<const float> probabilities = row(query);
  const std::int64_t first = globals();
  for (std::int64_t c = 0; c < values.columns; ++c) {
    const float p = probabilities[static_cast<std::size_t>(c)];
    if (!(p > 0)) continue;
    const bool in_global_columns = c < first;
    const std::int64_t in_window = values.dense ? c : query + (c - first) - reach();
    visit(in_global_columns ? values.global_positions[static_cast<std::size_t>(c)] : in_window, p);
  }
}

}  // namespace longformer::cli
