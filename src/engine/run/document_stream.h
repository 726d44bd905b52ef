// Documents through a model, one after another: tokenized on a thread of their own while the model
// computes, and run in batches of a number of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/reading/document.h"
#include "longformer/model.h"

namespace longformer {

using engine::Document;
using engine::read_document;

struct StreamOptions {
  /// Rows of one forward pass together hold at most this many tokens (at least one row).
  std::int64_t batch_tokens = 8192;
};

/// Calls `next` on another thread until it returns nothing, and `done` on this one for every
/// document in order, with one output for each row. A document that the model refuses, or whose
/// logits are not finite, is done with an error and no outputs. A forward pass never waits for
/// documents that are not there yet. Rethrows what `next` and `done` throw.
void stream_documents(const Model& model, const StreamOptions& options,
                      const std::function<std::optional<Document>()>& next,
                      const std::function<void(const Document&)>& done);

/// Source of a streaming call, over a list that outlives it.
template <typename Input>
auto source_over(std::span<const Input> inputs) {
  return [inputs, next = std::size_t{0}]() mutable -> std::optional<Input> {
    if (next == inputs.size()) return std::nullopt;
    return inputs[next++];
  };
}

/// The rule as positions in a row; null without a rule. Throws Error for a model without global
/// attention.
engine::GlobalPositions global_positions(const Model& model,
                                         const std::optional<GlobalAttention>& rule);

/// How the folder's task makes rows of texts, by the options of a verb. Throws Error as
/// global_positions, and for options that the task does not have.
engine::ReadingOptions task_reading(const Model& model, TooLong too_long, std::int64_t stride,
                                    const std::optional<GlobalAttention>& rule);

/// The longest document in tokens: `max_length`, or for 0 the model's. Throws Error for more than
/// the model takes.
std::int64_t longest_document(const Model& model, std::int64_t max_length);

template <typename Options>
engine::ReadingOptions reading_options(const Model& model, const Options& options) {
  engine::ReadingOptions reading =
      task_reading(model, options.too_long, options.stride, options.global_attention);
  if constexpr (requires { options.max_length; }) {
    reading.max_tokens = longest_document(model, options.max_length);
  }
  return reading;
}

}  // namespace longformer
