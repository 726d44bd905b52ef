// Guessing the tokens where a text has a mask: the fill-mask pipeline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/tokenizer.h"

namespace longformer {

struct FillMaskOptions {
  /// Candidates of each mask.
  std::int64_t top_k = 5;
  /// Keep the first tokens of a text that is too long; without, it is an Error.
  bool truncate = false;
  /// Absent: none.
  std::optional<GlobalAttention> global_attention = {};
};

struct MaskCandidate {
  std::int32_t id = 0;
  /// The entry of the vocabulary, and what it reads.
  std::string token, text;
  /// Softmax over the vocabulary.
  double probability = 0;
};

struct FilledMask {
  /// Token of the text, from 0, special ones included.
  std::int64_t position = 0;
  /// Best first; of equals the smaller id.
  std::vector<MaskCandidate> candidates;
};

struct FilledText {
  /// With the best candidate in place of every mask.
  std::string text;
  /// Each is guessed by itself while the others stay masked.
  std::vector<FilledMask> masks;
  /// Tokens that were read with the special ones, and tokens that were cut off.
  std::int64_t tokens = 0, truncated = 0;
};

/// {"filled", "masks": [{"position", "candidates": [{"id", "token", "text", "probability"}, …]},
/// …]}.
std::string to_json(const FilledText& text);

/// A model with a masked-LM head and its tokenizer.
class MaskFiller {
 public:
  /// Throws Error for a model without a masked-LM head and a tokenizer without a mask.
  MaskFiller(Model model, Tokenizer tokenizer);
  /// The same of a folder.
  static MaskFiller load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// [MASK] and <mask> both stand for the mask of the tokenizer. Throws Error for a text without a
  /// mask, one that is too long, and logits that are not finite.
  FilledText fill(const std::string& text, const FillMaskOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

}  // namespace longformer
