// How well a language model predicts a text (docs/spec/language-models.md#d4), and drawing from
// what it predicts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/language_model.h"
#include "tasks/language_model/symbol_text.h"

namespace longformer::tasks {

/// Part of a text to score: every character of the range but its first, or the first so many.
struct ScoredText {
  const SymbolText& text;
  SymbolText::Range range;
  /// 0: all.
  Index characters = 0;

  /// How many are scored. Throws Error when there is none.
  Index count() const;
};

/// Called with the number of characters that have been scored.
using ScoreCallback = std::function<void(Index)>;

struct TextScore {
  ops::LossSum loss;
  /// Loss of every character, if asked for.
  std::vector<float> losses = {};
  /// The layers that learn to compress add theirs, once for each segment.
  ops::LossSum compression = {};
  /// One for each layer, where they are asked for.
  std::vector<models::AttentionShares> shares = {};
};

/// Characters that are scored of each window of a model that learned to read texts of that length.
constexpr Index scored_part(Index window) { return (window + 1) / 2; }

/// For every `step` characters one window that ends with them: they see window − step characters
/// or more, where there are so many. Models that route a text as a whole read what is scored
/// character by character, as the others would tell of what comes. Throws Error unless 1 ≤ step ≤
/// window.
TextScore score_windows(const models::LanguageModel& model, const ops::Context& context,
                        const ScoredText& scored, const LanguageModelEvaluation& options,
                        const ScoreCallback& callback);

/// These are kept where they are asked for, beside the loss of a text.
struct ScoreDetails {
  bool attention_shares = false;
  bool losses = false;
};

/// In one pass on from a fresh state, in which every character sees all that the windows or
/// memories of the layers let it see.
TextScore score_streaming(const models::LanguageModel& model, const ops::Context& context,
                          models::State past, const ScoredText& scored,
                          const ScoreCallback& callback, const ScoreDetails& details = {});

/// Means of what was summed. Throws Error where no character had full memories.
std::vector<AttentionShares> mean_shares(const std::vector<models::AttentionShares>& layers);

/// Shares by name, cm_p0 and so on: first the means over layers, then layer_0_cm_p0 and so on.
std::vector<std::pair<std::string, double>> named_shares(
    const std::vector<AttentionShares>& layers);

/// Number of a character drawn from the softmax of its logits ÷ temperature, of the `top_k` largest
/// alone unless it is 0; with temperature 0 the largest. `uniform` lies between 0 and 1.
std::int32_t draw(std::span<const float> logits, const GenerateOptions& options, double uniform);

}  // namespace longformer::tasks
