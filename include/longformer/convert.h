// Turning the folder of an encoder into that of a Longformer (docs/spec/conversion.md#c1), or into
// the same encoder with the attention of a Linformer or a Performer
// (docs/spec/low-rank-and-kernels.md#e5, #f6).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longformer {

struct ConvertOptions {
  /// "longformer" (of a BART: LED), "linformer" or "performer". Only the first computes what the
  /// source does, for documents within its windows: the others have to be trained. "longformer-lm"
  /// reads a Transformer-XL with the names of its authors' code; beside the weights stands a
  /// config.json with "symbols" or "vocabulary", and mem_len, tgt_len and so on where they are
  /// known. Of the other options it knows the format and what is overwritten.
  std::string target = "longformer";
  /// Longest document of the result in tokens, special tokens included. Absent: 4096 for a
  /// Longformer that is made of another encoder, else that of the source.
  std::optional<std::int64_t> max_positions = {};
  /// For a Linformer: rows that stand for all tokens (N/4, at most 256); "linear", "mean", "max",
  /// "convolution" or "full-convolution"; "layerwise", "key-value", "headwise" or "none"; "pooled",
  /// "xavier", "gaussian" or "orthogonal". Empty: linear, layerwise, pooled.
  std::optional<std::int64_t> projected_length = {};
  std::string projection = {}, projection_sharing = {}, projection_initialization = {};
  /// For a Performer: their number (256), "softmax", "hyperbolic", "trigonometric", "relu" or
  /// "elu", and what is added to each.
  std::optional<std::int64_t> features = {};
  std::string feature_kernel = {};
  std::optional<double> feature_epsilon = {};
  /// Random projections and features follow from it.
  std::uint64_t seed = 42;
  /// Total windows, half on each side; even: one for all layers, or one for each. Empty: those of
  /// the source if it is a Longformer, else 512.
  std::vector<std::int64_t> windows = {};
  /// "safetensors" or "bin": which file holds the weights.
  std::string format = "safetensors";
  /// "fp32", "fp16" or "bf16"; empty keeps that of every tensor.
  std::string dtype = {};
  /// The folder of a LoRA adapter of the source: its additions are merged into the weights, and
  /// nothing else becomes otherwise. Of the other options only format, dtype and overwrite go with
  /// it. Empty: none.
  std::string merge_adapter = {};
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
