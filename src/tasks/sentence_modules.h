// The sentence-transformers files of a folder: which pooling and normalisation it was trained with.
#pragma once

#include <optional>
#include <string>

namespace longformer::tasks {

struct SentenceModules {
  /// "cls", "mean" or "max"; absent when the folder has no 1_Pooling/config.json.
  std::optional<std::string> pooling;
  /// Whether vectors are scaled to length 1 (a Normalize module).
  bool normalize = false;
};

/// Reads 1_Pooling/config.json, and modules.json or the folder 2_Normalize. Throws Error for
/// malformed files and for a pooling mode that is not supported.
SentenceModules read_sentence_modules(const std::string& folder);

}  // namespace longformer::tasks
