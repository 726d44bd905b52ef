// Turning the folder of an encoder into a Longformer folder, and a Longformer folder into another
// (spec.md C.1).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longformer {

struct ConvertOptions {
  /// Longest document of the result in tokens, special tokens included. Absent: that of the source
  /// if it is a Longformer, else 4096.
  std::optional<std::int64_t> max_positions = {};
  /// Total windows, half on each side; even: one for all layers, or one for each. Empty: those of
  /// the source if it is a Longformer, else 512.
  std::vector<std::int64_t> windows = {};
  /// "safetensors" or "bin": which file holds the weights.
  std::string format = "safetensors";
  /// "fp32", "fp16" or "bf16"; empty keeps that of every tensor.
  std::string dtype = {};
  /// Replace a previous conversion in the target folder.
  bool overwrite = false;
  /// Told in one line which weights of the source are NaN or infinite, if any; they are kept.
  std::function<void(const std::string&)> note = {};
};

/// What the source of a conversion was.
struct ConvertedFrom {
  /// Its model_type, or "original longformer".
  std::string model_type;
  std::int64_t max_tokens = 0;
};

/// Position rows are copied cyclically or cut; query/key/value are copied into the global
/// projections where the source has none; heads are kept; the tokenizer and sentence-transformers
/// files are carried over with their lengths and truncation rewritten. The result loads in
/// `transformers` unchanged. The source may also be of the original implementation of Longformer.
/// Writes into a temporary folder beside the target, which takes its place in one step: a failure
/// leaves everything as it was. Throws Error.
ConvertedFrom convert(const std::string& source_folder, const std::string& target_folder,
                      const ConvertOptions& options = {});

}  // namespace longformer
