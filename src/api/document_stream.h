// Documents through a model, one after another: tokenized on a thread of their own while the model
// computes, and run in batches of a number of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longformer/model.h"
#include "longformer/tokenizer.h"

namespace longformer {

/// A part of a document as the model reads it.
struct Segment {
  Encoding tokens;
  /// 1 for global tokens; empty for the default of the model's head.
  std::vector<std::int32_t> global_mask;
};

/// A document as segments, or why there are none.
struct SegmentedDocument {
  std::vector<Segment> segments;
  std::string error;
};

struct StreamOptions {
  /// Segments of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
};

/// Calls `next` on another thread until it returns nothing, and `done` on this one for every
/// document in order, with one output for each segment (no last hidden state). A document that the
/// model refuses is done with an error and no outputs. A forward pass never waits for documents
/// that are not there yet. Rethrows what `next` and `done` throw.
void stream_documents(
    const Model& model, const StreamOptions& options,
    const std::function<std::optional<SegmentedDocument>()>& next,
    const std::function<void(const SegmentedDocument&, std::span<const DocumentOutput>)>& done);

}  // namespace longformer
