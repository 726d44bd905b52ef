// Text to vectors: pooling of token states over documents and passages of any length.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/progress.h"
#include "longformer/tokenizer.h"

namespace longformer {

/// `tokens` gives one vector per token; the others one vector per document or passage.
enum class Pooling { cls, mean, max, tokens };

/// Parses cls, mean, max or tokens. Throws Error for anything else.
Pooling pooling(const std::string& name);

/// What to do with a document of more tokens than the model takes.
enum class TooLong {
  /// Throw Error with the length, the limit, and the options that help.
  refuse,
  /// Keep the first tokens that fit.
  truncate,
  /// Cut into overlapping segments of the full length; vectors pool over all tokens, each token
  /// taken from the segment in which it has most context.
  split,
};

struct EmbedOptions {
  /// Absent: what 1_Pooling/config.json of the folder says, mean when there is none.
  std::optional<Pooling> pooling;
  /// Scale vectors to length 1. Absent: whether the folder has a 2_Normalize module.
  std::optional<bool> normalize;
  TooLong too_long = TooLong::refuse;
  /// Absent: no token has global attention.
  std::optional<GlobalAttention> global_attention;
  /// Documents of one forward pass together hold at most this many tokens (at least one document).
  std::int64_t batch_tokens = 16384;
};

/// Vectors of one document: [rows, H] row-major; rows is 1, or the number of tokens or passages.
struct Embedding {
  std::int64_t rows = 0;
  std::vector<float> values;
  /// What each row covers, in characters of the text (token and passage rows; else the whole text).
  std::vector<CharacterSpan> spans;
  /// Tokens of the document with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that --truncate cut off.
  std::int64_t truncated = 0;
};

/// A model, its tokenizer, and the pooling that its folder asks for.
class Embedder {
 public:
  static Embedder load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::int64_t hidden_size() const { return model_.info().hidden_size; }

  /// One Embedding per text, in order. Throws Error for a document that cannot be embedded.
  std::vector<Embedding> embed(std::span<const std::string> texts, const EmbedOptions& options = {},
                               const ProgressCallback& progress = {}) const;

  /// Vectors of passages of about `passage_tokens` tokens that end at sentence or word ends, pooled
  /// from token states in the context of the whole segment ("late chunking"). Documents of any
  /// length: segments of the model's full length overlap by `overlap_tokens`, so that every passage
  /// has its window. Passages overlap by half when `overlapping_passages`.
  struct PassageOptions {
    std::int64_t passage_tokens = 128;
    std::int64_t overlap_tokens = 512;
    bool overlapping_passages = false;
  };
  Embedding embed_passages(std::string_view text, const PassageOptions& passages,
                           const EmbedOptions& options = {},
                           const ProgressCallback& progress = {}) const;

 private:
  Embedder(Model model, Tokenizer tokenizer, Pooling pooling, bool normalize)
      : model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        pooling_(pooling),
        normalize_(normalize) {}
  Model model_;
  Tokenizer tokenizer_;
  Pooling pooling_;
  bool normalize_;
};

}  // namespace longformer
