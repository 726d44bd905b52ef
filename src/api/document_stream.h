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

#include "longformer/error.h"
#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "tasks/reading.h"

namespace longformer {

/// A document on its way: its rows, what the head says of each, or why there is nothing.
struct Document {
  tasks::Reading reading;
  /// Logits of each row that has been run; see RowResult.
  std::vector<std::vector<float>> outputs;
  std::string error;
  std::vector<Remedy> remedies;
};

/// What `read` returns; a document with an error when it throws Error.
template <typename Read>
Document read_document(Read&& read) {
  Document document;
  try {
    document.reading = read();
  } catch (const Error& error) {
    document.error = error.what();
    document.remedies = error.remedies();
  }
  return document;
}

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

/// What a streaming call takes as its source, over a list that outlives it.
template <typename Input>
auto source_over(std::span<const Input> inputs) {
  return [inputs, next = std::size_t{0}]() mutable -> std::optional<Input> {
    if (next == inputs.size()) return std::nullopt;
    return inputs[next++];
  };
}

/// The rule as positions in a row; null without a rule. Throws Error for a model without global
/// attention.
tasks::GlobalPositions global_positions(const Model& model,
                                        const std::optional<GlobalAttention>& rule);

/// How texts become rows of the model by the options of a verb. Throws Error as global_positions.
template <typename Options>
tasks::ReadingOptions reading_options(const Model& model, const Options& options) {
  return {.max_tokens = model.info().max_tokens,
          .too_long = options.too_long,
          .stride = options.stride,
          .global_positions = global_positions(model, options.global_attention)};
}

}  // namespace longformer
