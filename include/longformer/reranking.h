// Texts in the order of their relevance to a query, by cross-encoders: models with a head of one
// class that read query and text together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "longformer/error.h"
#include "longformer/model.h"
#include "longformer/options.h"
#include "longformer/tasks.h"
#include "longformer/text.h"

namespace longformer {

/// How a logit becomes a score, as sentence-transformers names it for its CrossEncoder: `sigmoid`
/// is a probability, `identity` the logit itself.
enum class RerankActivation { sigmoid, identity };

/// Settings of a cross-encoder, from the files of its folder.
struct RerankSettings {
  RerankActivation activation = RerankActivation::sigmoid;
  /// Prefix of every query.
  std::string prompt = {};
};

struct RerankOptions {
  /// So many texts are in a ranking, the best ones. Absent: all.
  std::optional<std::int64_t> top_n = {};
  /// Scores are logits, whatever the folder says.
  bool raw_scores = false;
  /// At most so many relevant passages of each text of a ranking; 0: none.
  std::int64_t relevant_spans = 0;
  /// A passage counts whose probability (the sigmoid of its logit) is at least this.
  double span_threshold = 0.1;
  /// Handling of a text that does not fit the model behind its query. TooLong::split reads it in
  /// segments that overlap by at least `stride` tokens (at most a quarter of what the model takes),
  /// and the best segment counts. TooLong::truncate cuts the longer of the two, as
  /// sentence-transformers does.
  TooLong too_long = TooLong::split;
  std::int64_t stride = 128;
  /// Absent: the first token of every pair or segment (Longformer).
  std::optional<GlobalAttention> global_attention = {};
  /// Pairs of one forward pass together hold at most this many tokens (at least one pair).
  std::int64_t batch_tokens = 8192;
  /// Longest pair in tokens with the special ones: longer ones are too long. 0: the model's.
  std::int64_t max_length = 0;
};

OptionFields fields(RerankOptions& options);

/// A pair that is scored.
struct QueryText {
  std::string query, text;
};

/// Outcome of one pair: its score, or the reason why it has none.
struct RerankOutcome {
  std::string error;
  /// Larger is more relevant: the folder's activation of the logit, or the logit itself.
  float score = 0;
  float logit = 0;
  /// Tokens of the pair with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that TooLong::truncate cut off.
  std::int64_t truncated = 0;
  /// Segments that the text was read in.
  std::int64_t segments = 0;
  /// Remedies; see Error.
  std::vector<Remedy> remedies = {};
};

/// A passage of a text with its own score.
struct RelevantSpan {
  /// Characters of the text.
  CharacterSpan span;
  float score = 0;
};

/// A text of a ranking.
struct RankedText {
  /// Its number among the texts, from 0.
  std::size_t index = 0;
  RerankOutcome outcome;
  /// Best first.
  std::vector<RelevantSpan> spans = {};
};

/// {"score", "tokens", "truncated", "segments"}, and "relevant_spans": [{"begin", "end", "score"},
/// …] where `with_spans`.
std::string to_json(const RankedText& text, bool with_spans = false);

/// A cross-encoder with its tokenizer. Scores equal those of sentence-transformers' CrossEncoder
/// for pairs that fit the model.
class Reranker {
 public:
  /// Throws Error for a model of another number of classes than one.
  explicit Reranker(Classifier classifier, RerankSettings settings = {});
  /// Throws Error for a folder that cannot be loaded, that has no sequence-classification head of
  /// one class, or that names an activation which is none of RerankActivation.
  static Reranker load(const std::string& folder, const LoadOptions& options = {});
  /// A reranker of a loaded classifier, with the settings of its folder. The activation is
  /// "activation_fn" of config_sentence_transformers.json, else of "sentence_transformers" in
  /// config.json (that of the adapter if it has one), else "sbert_ce_default_activation_function"
  /// there, else sigmoid. The prompt is the one that "default_prompt_name" of
  /// config_sentence_transformers.json names.
  static Reranker of(Classifier classifier, const std::string& folder,
                     const std::string& adapter = {});

  const Model& model() const { return classifier_.model(); }
  const Tokenizer& tokenizer() const { return classifier_.tokenizer(); }
  const RerankSettings& settings() const { return settings_; }

  /// The next pair, or nothing at the end. Called on a thread of its own, so that reading and
  /// tokenizing overlap with computing.
  using Source = std::function<std::optional<QueryText>()>;
  /// Called for every pair in order, on the calling thread.
  using Sink = std::function<void(const RerankOutcome&)>;

  /// Scores pairs as they come. Throws Error for options that do not fit the model, and what source
  /// and sink throw; a pair that cannot be scored is an outcome.
  void score(const Source& source, const Sink& sink, const RerankOptions& options = {}) const;

  /// The score of each pair, in order (CrossEncoder.predict). Throws Error for a pair that cannot
  /// be scored; Error::document is its number.
  std::vector<float> predict(std::span<const QueryText> pairs,
                             const RerankOptions& options = {}) const;

  /// The texts by their relevance, best first; equal ones in the order of the list
  /// (CrossEncoder.rank). Throws Error as predict().
  std::vector<RankedText> rank(const std::string& query, std::span<const std::string> texts,
                               const RerankOptions& options = {}) const;

  /// The passages of a text that are relevant, best first: of at most 128 tokens, as far as the
  /// query leaves room, that end at paragraphs, sentences or words. Of a text that
  /// TooLong::truncate cuts, those of the part that is read. Throws Error for a query that leaves
  /// no room.
  std::vector<RelevantSpan> relevant_spans(const std::string& query, const std::string& text,
                                           const RerankOptions& options) const;

 private:
  Classifier classifier_;
  RerankSettings settings_;
};

}  // namespace longformer
