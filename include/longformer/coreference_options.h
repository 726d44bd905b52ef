// How documents are read for coreference, and what a new head is like.
#pragma once

#include <cstdint>
#include <string>

namespace longformer {

struct CoreferenceOptions {
  /// "overlapping": a document longer than the model is read in segments that overlap, and a token
  /// comes from the one in which it has most context. "independent": segments of as many whole
  /// sentences as fit, one behind the other. "continued": the document with special tokens around
  /// it is cut behind every so many tokens, as fastcoref does it. Empty: that of the folder, else
  /// overlapping.
  std::string segments = {};
  /// Longest segment in tokens with special ones; 0: that of the folder, else the model's.
  std::int64_t max_segment_tokens = 0;
  /// Training: of a longer document a run of whole sentences of so many tokens is read, another one
  /// in every epoch.
  std::int64_t max_training_tokens = 8192;
  /// Evaluation: clusters of one mention count on neither side.
  bool without_singletons = false;

  // A new head; that of a folder keeps its own.

  /// Longest mention in words.
  std::int64_t max_span_width = 30;
  /// Mentions that are kept for linking, as a share of the tokens; 0: 0.3 where data have clusters
  /// of one mention, else 0.4.
  double top_lambda = 0;
  /// Width of its layers; 0: twice the hidden size.
  std::int64_t head_size = 0;
  double dropout = 0.3;
  /// Weight of the loss of the mention scores; 0 trains the links alone.
  double mention_loss = 1;
};

}  // namespace longformer
