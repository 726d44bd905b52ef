// The search for the text of one document: greedy, by drawing, or with beams
// (docs/spec/led-and-generation.md#b9 to #b11).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tasks/writing/rules.h"

namespace longformer::tasks {

/// Why a text ended.
enum class TextEnd { end_token, length, stop_string, time, interrupted };
std::string_view name_of(TextEnd end);

struct FoundText {
  /// The prompt, and what was written; the end token included.
  std::vector<std::int32_t> ids;
  /// For beams, the sum of the scores of its tokens ÷ length^length_penalty.
  std::optional<double> score = std::nullopt;
  TextEnd end = TextEnd::length;
};

/// Start of a search.
struct SearchStart {
  /// The start token, and what follows it.
  std::span<const std::int32_t> prompt;
  std::span<const std::int32_t> source;
  /// Draws depend on the seed, this number and the text, not on other documents.
  std::uint64_t document = 0;
  /// Whether a text has come to what ends it beside its end token.
  std::function<bool(std::span<const std::int32_t> ids)> is_complete = {};
};

/// A search has rows: texts that go on. A model gives the logits behind each, and the search says
/// which rows there are then.
class TextSearch {
 public:
  virtual ~TextSearch() = default;

  virtual Index rows() const = 0;
  /// Prompt and text of a row.
  virtual std::span<const std::int32_t> ids(Index row) const = 0;
  bool done() const { return rows() == 0; }
  /// Takes the logits [rows, V], which it overwrites. For each row that there is then, the row that
  /// it continues; `hurry` ends all texts behind this token. Throws Error for logits that are not
  /// finite, unless remove_invalid_values is set.
  virtual std::vector<Index> step(std::span<float> logits, std::optional<TextEnd> hurry = {}) = 0;
  /// Tokens, the prompt included, that every text has that may still come out.
  virtual std::span<const std::int32_t> certain() const = 0;
  /// Best first; those that are not done are given as they are.
  virtual std::vector<FoundText> found() const = 0;
};

/// The settings must outlive the search.
std::unique_ptr<TextSearch> start_search(const GenerationSettings& settings,
                                         const SearchStart& start);

}  // namespace longformer::tasks
