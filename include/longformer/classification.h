// Classes of documents of any length (docs/spec/encoder.md#a6): the text-classification pipeline.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "longformer/error.h"
#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/progress.h"
#include "longformer/segment_merge.h"
#include "longformer/tokenizer.h"
#include "longformer/too_long.h"

namespace longformer {

/// How logits become scores: over all classes together, for each class by itself, or not at all.
enum class ScoreFunction { softmax, sigmoid, none };

struct ClassifyOptions {
  /// Absent, as in the pipeline of `transformers`: none for problem_type regression, sigmoid for
  /// multi_label_classification and for a single class, else softmax.
  std::optional<ScoreFunction> function;
  /// TooLong::split reads a document that is longer than the model in segments of the model's
  /// length that overlap by at least `stride` tokens, and merges their logits.
  TooLong too_long = TooLong::refuse;
  std::int64_t stride = 128;
  SegmentMerge merge = SegmentMerge::mean;
  /// Absent: the first token of every document or segment (Longformer).
  std::optional<GlobalAttention> global_attention;
  /// Documents of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
};

/// A text, or a pair of texts. Of a pair that is too long TooLong::truncate cuts the longer text;
/// TooLong::split keeps the first one whole and reads the second in segments.
struct ClassifyInput {
  std::string text;
  std::optional<std::string> pair = {};
};

struct ClassScore {
  std::string label;
  float score = 0;
};

struct Classification {
  /// Every class, best score first; classes with the same score in the order of the model.
  std::vector<ClassScore> scores;
  /// Every class, in the order of the model (ModelInfo::labels).
  std::vector<float> logits;
  /// Tokens of the document with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that TooLong::truncate cut off.
  std::int64_t truncated = 0;
  /// Segments that the document was read in.
  std::int64_t segments = 0;
};

/// What became of one document: the reason when it cannot be classified, else its classes.
struct ClassifyOutcome {
  std::string error;
  Classification classification;
  /// What would have helped; see Error.
  std::vector<Remedy> remedies = {};
};

/// {"tokens", "truncated", "segments", "labels": [{"label", "score"}, …]}, the best `top_k`
/// classes; 0: all.
std::string to_json(const Classification& result, std::int64_t top_k = 0);

/// A sequence-classification model with its tokenizer.
class Classifier {
 public:
  /// Throws Error for a model without a sequence-classification head.
  Classifier(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no sequence-classification head.
  static Classifier load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// The next text or pair, or nothing at the end. Called on a thread of its own, so that reading
  /// and tokenizing overlap with computing.
  using Source = std::function<std::optional<ClassifyInput>()>;
  /// Called for every text in order, on the calling thread.
  using Sink = std::function<void(const ClassifyOutcome&)>;

  /// Classifies texts as they come. Throws Error for options that do not fit the model, and what
  /// source and sink throw; a text that cannot be classified is an outcome.
  void classify(const Source& source, const Sink& sink, const ClassifyOptions& options = {}) const;

  /// One result per text, in order. Throws Error for a text that cannot be classified.
  std::vector<Classification> classify(std::span<const std::string> texts,
                                       const ClassifyOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

}  // namespace longformer
