// Documents through a model, one after another: tokenized on a thread of their own while the model
// computes, and run in batches of a number of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/segment_reader.h"
#include "longformer/model.h"

namespace longformer {

struct StreamOptions {
  /// Segments of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
};

/// Calls `next` on another thread until it returns nothing, and `done` on this one for every
/// document in order, with one output for each segment (no last hidden state). A document that the
/// model refuses, or whose logits are not finite, is done with an error and no outputs. A forward
/// pass never waits for documents that are not there yet. Rethrows what `next` and `done` throw.
void stream_documents(
    const Model& model, const StreamOptions& options,
    const std::function<std::optional<SegmentedDocument>()>& next,
    const std::function<void(const SegmentedDocument&, std::span<const DocumentOutput>)>& done);

/// What a streaming call takes as its source, over a list that outlives it.
template <typename Input>
auto source_over(std::span<const Input> inputs) {
  return [inputs, next = std::size_t{0}]() mutable -> std::optional<Input> {
    if (next == inputs.size()) return std::nullopt;
    return inputs[next++];
  };
}

}  // namespace longformer
