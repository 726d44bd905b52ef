// Entities in documents of any length (docs/spec/encoder.md#a6): the token-classification pipeline.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "longformer/aggregation.h"
#include "longformer/error.h"
#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/tokenizer.h"
#include "longformer/too_long.h"

namespace longformer {

/// Parses none, simple, first, average or max. Throws Error for anything else.
Aggregation aggregation(const std::string& name);

struct TagOptions {
  Aggregation aggregation = Aggregation::simple;
  /// Entities of these labels are left out.
  std::vector<std::string> ignored_labels = {"O"};
  /// TooLong::split reads a document that is longer than the model in segments of the model's
  /// length that overlap by at least `stride` tokens; a token takes its label from the segment in
  /// which it has most context.
  TooLong too_long = TooLong::refuse;
  std::int64_t stride = 128;
  /// Absent: none.
  std::optional<GlobalAttention> global_attention;
  /// Documents of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
};

struct Entity {
  /// Without "B-" or "I-", except with Aggregation::none.
  std::string label;
  /// Probability of the label; of a group the mean over its tokens or words.
  float score = 0;
  /// Characters of the document, and what stands there.
  CharacterSpan span;
  std::string text;
  /// First and last token + 1, counted from 0 without special tokens.
  std::int64_t first_token = 0, end_token = 0;
};

/// What became of one document: the reason when it cannot be tagged, else its entities in order.
struct TagOutcome {
  std::string error;
  std::vector<Entity> entities;
  /// Tokens of the document with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that TooLong::truncate cut off.
  std::int64_t truncated = 0;
  /// Segments that the document was read in.
  std::int64_t segments = 0;
  /// What would have helped; see Error.
  std::vector<Remedy> remedies = {};
};

/// {"tokens", "truncated", "segments", "entities": [{"label", "score", "begin", "end", "text"},
/// …]}; `with_tokens` adds the first token of each entity as "token".
std::string to_json(const TagOutcome& result, bool with_tokens = false);

/// What became of a document that is given as words: the reason when it cannot be tagged, else a
/// label for each word, that of its first token. Lengths as in TagOutcome.
struct WordLabels {
  std::string error;
  /// Index in ModelInfo::labels; −1 for words without a token and behind a truncation.
  std::vector<std::int32_t> labels;
  std::int64_t tokens = 0, truncated = 0, segments = 0;
  std::vector<Remedy> remedies = {};
};

/// A token-classification model with its tokenizer.
class Tagger {
 public:
  /// Throws Error for a model without a token-classification head.
  Tagger(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no token-classification head.
  static Tagger load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// The next text, or nothing at the end. Called on a thread of its own, so that reading and
  /// tokenizing overlap with computing.
  using Source = std::function<std::optional<std::string>()>;
  /// Called for every text in order, on the calling thread.
  using Sink = std::function<void(const TagOutcome&)>;

  /// Tags texts as they come. Throws Error for options that do not fit the model, and what source
  /// and sink throw; a text that cannot be tagged is an outcome.
  void tag(const Source& source, const Sink& sink, const TagOptions& options = {}) const;

  /// The words of the next document, or nothing at the end; called as a Source is.
  using WordSource = std::function<std::optional<std::vector<std::string>>()>;
  using WordSink = std::function<void(const WordLabels&)>;
  /// Labels words as they come, each read by itself as `transformers` reads is_split_into_words:
  /// a byte-level tokenizer sees a space before each. Aggregation and ignored labels play no part.
  /// Throws as tag does.
  void label_words(const WordSource& source, const WordSink& sink,
                   const TagOptions& options = {}) const;

  /// The entities of each text. Throws Error for a text that cannot be tagged.
  std::vector<std::vector<Entity>> tag(std::span<const std::string> texts,
                                       const TagOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

}  // namespace longformer
