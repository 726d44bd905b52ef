// Rules between the logits of a model and the choice of a token
// (docs/spec/led-and-generation.md#b8).
#pragma once

#include <map>
#include <span>
#include <vector>

#include "tasks/writing/settings.h"

namespace longformer::tasks {

/// For one document. V numbers go in and come out: logits, or their log-softmax.
class LogitsRules {
 public:
  /// The settings must outlive the rules.
  LogitsRules(const GenerationSettings& settings, std::span<const std::int32_t> source,
              Index prompt_tokens);

  /// Rules 1 to 15 and 24, in that order; `ids` is the text so far, its prompt included. With
  /// do_sample 16 to 23 come between them.
  void apply(std::span<const std::int32_t> ids, std::span<float> scores) const;

 private:
  void repeat_nothing(std::span<const std::int32_t> ids, std::span<float> scores) const;
  void add_biases(std::span<const std::int32_t> ids, std::span<float> scores,
                  std::span<const SequenceBias> biases) const;
  void force(std::span<const std::int32_t> ids, std::span<float> scores) const;
  void suppress(Index length, std::span<float> scores) const;
  void warp(std::span<float> scores) const;

  const GenerationSettings& settings_;
  Index prompt_tokens_;
  /// Each id once.
  std::vector<std::int32_t> source_ids_;
  std::vector<SequenceBias> bad_words_;
  /// Ids that follow k − 1 ids in the source.
  std::map<std::vector<std::int32_t>, std::vector<std::int32_t>> source_ngrams_;
};

/// ln of the softmax, in place.
void log_softmax(std::span<float> scores);

}  // namespace longformer::tasks
