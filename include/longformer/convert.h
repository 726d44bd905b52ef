// Turning a BERT or RoBERTa folder into a Longformer folder (spec.md C.1).
#pragma once

#include <cstdint>
#include <string>

namespace longformer {

struct ConvertOptions {
  /// Longest document of the result in tokens, special tokens included.
  std::int64_t max_positions = 4096;
  /// Total window of every layer, half on each side; even.
  std::int64_t window = 512;
  /// Replace files of a previous conversion in the target folder.
  bool overwrite = false;
};

/// Position rows are copied cyclically, query/key/value are copied into the global projections, the
/// tokenizer and sentence-transformers files are carried over with their lengths and truncation
/// rewritten. The result loads in `transformers` unchanged. Writes into a temporary folder beside
/// the target and renames, so a failure leaves nothing half done. Throws Error.
void convert(const std::string& source_folder, const std::string& target_folder,
             const ConvertOptions& options = {});

}  // namespace longformer
