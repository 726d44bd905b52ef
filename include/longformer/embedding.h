// Text to vectors: pooling of token states over documents and passages of any length.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/error.h"
#include "longformer/model.h"
#include "longformer/options.h"
#include "longformer/report.h"
#include "longformer/text.h"

namespace longformer {

/// `tokens` gives one vector per token; the others one vector per document or passage.
/// `mean_sqrt_len` divides the sum by the square root of the number of tokens, `last` takes the
/// last token.
enum class Pooling { cls, mean, max, mean_sqrt_len, last, tokens };

/// Parses cls, mean, max, mean_sqrt_len_tokens, lasttoken or tokens. Throws Error for anything
/// else.
Pooling pooling(const std::string& name);

/// Context that the model reads together with a passage: nothing, so that each passage is embedded
/// as a text of its own, or the document around it, from whose token states the passage is pooled.
enum class PassageContext { none, document };

/// Parses none or document. Throws Error for anything else.
PassageContext passage_context(const std::string& name);

struct EmbedOptions {
  /// Absent: what the Pooling of the folder says, mean when there is none.
  std::optional<Pooling> pooling;
  /// True: scale vectors to length 1 in the end; false: leave out a Normalize with which the
  /// modules of the folder end. Absent: as the folder says. Token vectors are scaled only when it
  /// is true.
  std::optional<bool> normalize;
  TooLong too_long = TooLong::refuse;
  /// Absent: no token has global attention.
  std::optional<GlobalAttention> global_attention;
  /// Prefix of every text. Absent: the prompt that `prompt_name` names.
  std::optional<std::string> prompt;
  /// A prompt of config_sentence_transformers.json. "query" and "document" always exist, empty
  /// unless the folder fills them. Absent: default_prompt_name of the folder, else no prompt.
  std::optional<std::string> prompt_name;
  /// Only so many first elements of each vector are kept, and scaled where `normalize` is true.
  /// Absent: what the folder says (truncate_dim). Token vectors stay whole.
  std::optional<std::int64_t> truncate_dim;
  /// Longest text in tokens, with prompt and special tokens. Absent: what the folder says
  /// (max_seq_length). Never more than the model takes.
  std::optional<std::int64_t> max_length;
  /// Documents of one forward pass together hold at most this many tokens (at least one document).
  std::int64_t batch_tokens = 16384;
};

OptionFields fields(EmbedOptions& options);

/// A text, or its tokens where they are known. The memory must outlive the call that gets it.
struct EmbedInput {
  std::string_view text = {};
  /// Tokens without special ones, run as they are behind those of the prompt; the text then counts
  /// for nothing, and spans are empty. Empty: the tokens of the text.
  std::span<const std::int32_t> ids = {};
};

/// Vectors of one document: [rows, embedding size] row-major; rows is 1, or the number of tokens or
/// passages.
struct Embedding {
  std::int64_t rows = 0;
  std::vector<float> values;
  /// Span of each row, in characters of the text (token and passage rows; else the whole text).
  std::vector<CharacterSpan> spans;
  /// Tokens of the document with its prompt and special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that --truncate cut off.
  std::int64_t truncated = 0;
};

/// Outcome of one text: its vectors, or the reason why it cannot be embedded.
struct EmbedOutcome {
  std::string error;
  Embedding embedding;
  /// Remedies; see Error.
  std::vector<Remedy> remedies = {};
};

/// Kinds of vectors of a text: one of its own, weights of entries of the vocabulary (SPLADE), and
/// one for each token (ColBERT).
struct VectorKinds {
  bool dense = false, sparse = false, multi = false;
  bool operator==(const VectorKinds&) const = default;
};
/// Parses dense, sparse and multi between commas, or none. Throws Error for anything else.
VectorKinds vector_kinds(const std::string& names);
std::string name_of(const VectorKinds& kinds);

/// An entry of the vocabulary and what it weighs in a text.
struct TokenWeight {
  std::int32_t token = 0;
  float weight = 0;
};

struct SparseEmbedding {
  /// Ascending by token, none of them 0.
  std::vector<TokenWeight> weights;
  /// Tokens, and those that were cut: see Embedding.
  std::int64_t tokens = 0, truncated = 0;
};
/// {"tokens", "truncated", "sparse": [{"index", "token", "value"}, …]}, the largest weight first.
std::string to_json(const SparseEmbedding& embedding, const Tokenizer& tokenizer);

/// Whether a text is looked for, or looks for others: a folder may read the two in other ways.
enum class TextRole { document, query };

struct KindOptions {
  VectorKinds kinds = {};
  TextRole role = TextRole::document;
  /// At most so many weights of a sparse vector, the largest. Absent: as the folder says.
  std::optional<std::int64_t> top_k = {};
  /// Without prompt or name the prompt of the role is put before a text. `pooling`, `normalize` and
  /// `truncate_dim` are for dense vectors.
  EmbedOptions text = {};
};

/// Without `text` and `kinds`.
OptionFields fields(KindOptions& options);

/// The vectors of one text, of the kinds that were asked for.
struct TextVectors {
  Embedding dense;
  SparseEmbedding sparse;
  /// A row for each token that counts; the span of a token that the model added is empty.
  Embedding multi;
};
struct VectorsOutcome {
  std::string error = {};
  TextVectors vectors = {};
  std::vector<Remedy> remedies = {};
};

/// The vectors of passages: places and dense vectors, and one of each other kind for each passage.
struct PassageVectors {
  Embedding dense = {};
  std::vector<SparseEmbedding> sparse = {};
  std::vector<Embedding> multi = {};
};

struct PassagesOutcome {
  std::string error = {};
  PassageVectors vectors = {};
  std::vector<Remedy> remedies = {};
};

/// The score of a text for a query (MaxSim): the largest product of each query vector with a vector
/// of the text, summed. Both have vectors of one size.
float max_sim(const Embedding& query, const Embedding& text);

/// How an Embedding is written as JSON.
struct EmbeddingForm {
  /// The text has a vector for each token or passage, not one of its own.
  bool many_rows = false;
  /// Number of the first vector in an array that holds them; the JSON then has none.
  std::optional<std::int64_t> first_row = std::nullopt;
};
/// {"tokens", "truncated", "embedding"}; many rows: "rows", "spans", "embeddings" in place of the
/// last.
std::string to_json(const Embedding& embedding, const EmbeddingForm& form = {});

/// The passages of a text that Embedder::embed_passages and a search make: at most so many tokens
/// each, which end at paragraphs, sentences or words. Throws Error unless passage_tokens ≥ 1.
std::vector<CharacterSpan> passages_of(const Tokenizer& tokenizer, std::string_view text,
                                       std::int64_t passage_tokens);

/// A model, its tokenizer, and what a folder of sentence-transformers says of texts and vectors:
/// pooling, Dense and Normalize modules, prompts.
class Embedder {
 public:
  /// Throws Error for files that cannot be read, and for a module of modules.json that cannot be
  /// run. A pooling that cannot be run is an error only where it is asked for.
  static Embedder load(const std::string& folder, const LoadOptions& options = {});
  /// An embedder of a loaded model, with the other files of its folder, or those of its adapter if
  /// that has any.
  static Embedder of(Model model, const std::string& folder, const std::string& adapter = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// Elements of a vector: the hidden size for token vectors, else what the last Dense gives and
  /// truncate_dim leaves.
  std::int64_t embedding_size(const EmbedOptions& options = {}) const;
  /// Longest text in tokens, with prompt and special tokens.
  std::int64_t max_length(const EmbedOptions& options = {}) const;
  /// Prefix of every text. Throws Error for a name that the folder does not have.
  std::string prompt(const EmbedOptions& options = {}) const;
  /// Context of passages that the folder names (`passage_context` of
  /// config_sentence_transformers.json); none if absent.
  PassageContext passage_context() const;
  /// The similarity that the folder names for its vectors (similarity_fn_name).
  Similarity similarity() const;
  /// A number that embedders whose vectors cannot be compared hardly share.
  std::uint64_t fingerprint() const;
  /// A number that embedders with different tokenizers hardly share.
  std::uint64_t tokenizer_fingerprint() const;
  /// A number that embedders with equal weights hardly share if their folders say otherwise how
  /// vectors are made of these: activation, norms and rotary positions of config.json, the modules
  /// behind the pooling, lower case.
  std::uint64_t settings_fingerprint() const;

  /// One Embedding per text, in order. Throws Error for a document that cannot be embedded, or
  /// whose vectors are not finite.
  std::vector<Embedding> embed(std::span<const std::string> texts, const EmbedOptions& options = {},
                               const ProgressCallback& progress = {}) const;
  std::vector<Embedding> embed(std::span<const EmbedInput> inputs, const EmbedOptions& options = {},
                               const ProgressCallback& progress = {}) const;

  /// An outcome for each text: one that cannot be embedded costs the others nothing.
  /// Throws Error for options that do not fit the model.
  std::vector<EmbedOutcome> embed_each(std::span<const std::string> texts,
                                       const EmbedOptions& options = {},
                                       const ProgressCallback& progress = {}) const;

  /// The kinds that the folder was made for. A masked-LM head makes sparse vectors too, where they
  /// are asked for.
  VectorKinds kinds() const;
  /// Elements of the vector of a token; 0 for a folder that makes none.
  std::int64_t multi_size() const;
  /// Whether the score of a query is the mean over its tokens, not the sum (meanmaxsim).
  bool scores_mean() const;

  /// Vectors of the chosen kinds out of one pass, for each text. Throws Error for a text that
  /// cannot be read, for vectors that are not finite, and for kinds that the folder does not make.
  std::vector<TextVectors> vectors(std::span<const EmbedInput> inputs, const KindOptions& options,
                                   const ProgressCallback& progress = {}) const;
  /// An outcome for each text. Throws Error for options that do not fit the model.
  std::vector<VectorsOutcome> vectors_each(std::span<const EmbedInput> inputs,
                                           const KindOptions& options,
                                           const ProgressCallback& progress = {}) const;

  /// Passages of about `passage_tokens` tokens that end at sentence or word ends, and overlap by
  /// half when `overlapping_passages`.
  struct PassageOptions {
    std::int64_t passage_tokens = 128;
    bool overlapping_passages = false;
    /// Absent: what the folder says.
    std::optional<PassageContext> context;
    /// In the context of the document: segments of the full length overlap by so many tokens, so
    /// that every passage has its window.
    std::int64_t overlap_tokens = 512;
  };
  /// Vectors of the passages of a document of any length. Without context each passage is embedded
  /// as `embed` embeds its text, prompt included. In the context of the document it is pooled from
  /// the token states of a whole segment ("late chunking"); the prompt stands before the document.
  /// Throws Error as `embed` does.
  Embedding embed_passages(std::string_view text, const PassageOptions& passages,
                           const EmbedOptions& options = {},
                           const ProgressCallback& progress = {}) const;
  /// Vectors of the chosen kinds of the passages of a document; of no kind: only their places.
  /// Kinds other than dense are of passages alone: throws Error for them in the context of the
  /// document.
  PassageVectors passage_vectors(std::string_view text, const PassageOptions& passages,
                                 const KindOptions& options,
                                 const ProgressCallback& progress = {}) const;
  /// Those of several documents, an outcome for each. Passages that are texts of their own, with
  /// dense vectors, run together: many short documents take the time of few long ones. Throws Error
  /// for options that do not fit the model.
  std::vector<PassagesOutcome> passage_vectors_each(std::span<const std::string_view> texts,
                                                    const PassageOptions& passages,
                                                    const KindOptions& options,
                                                    const ProgressCallback& progress = {}) const;
  /// Embeds passages that are given by their characters, in the context of the document. Throws
  /// Error also for one without a token or longer than half of what the model takes.
  Embedding embed_spans(std::string_view text, std::span<const CharacterSpan> spans,
                        const EmbedOptions& options = {},
                        const ProgressCallback& progress = {}) const;

  /// Implementation detail of the library.
  struct Modules;

 private:
  Embedder(Model model, Tokenizer tokenizer, std::shared_ptr<const Modules> modules)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)), modules_(std::move(modules)) {}
  Pooling pooling_of(const EmbedOptions& options) const;
  enum class OnError { keep_others, stop };
  std::vector<EmbedOutcome> outcomes(std::span<const EmbedInput> inputs,
                                     const EmbedOptions& options, OnError on_error,
                                     const ProgressCallback& progress) const;
  struct PassageTexts;
  PassageTexts passage_texts(std::string_view text, const PassageOptions& passages,
                             const EmbedOptions& options) const;
  std::optional<std::int32_t> dropped_token() const;
  std::int64_t length_of(const KindOptions& options) const;
  std::vector<VectorsOutcome> one_pass(std::span<const EmbedInput> inputs,
                                       const KindOptions& options,
                                       const ProgressCallback& progress) const;
  Embedding embed_texts(std::string_view text, std::span<const CharacterSpan> spans,
                        const EmbedOptions& options, const ProgressCallback& progress) const;
  Embedding embed_passages_alone(std::string_view text, const PassageOptions& passages,
                                 const EmbedOptions& options,
                                 const ProgressCallback& progress) const;
  Embedding embed_passages_in_document(std::string_view text, const PassageOptions& passages,
                                       const EmbedOptions& options,
                                       const ProgressCallback& progress) const;
  struct MarkedText;
  Embedding embed_marked(MarkedText marked, const EmbedOptions& options,
                         const ProgressCallback& progress) const;

  Model model_;
  Tokenizer tokenizer_;
  std::shared_ptr<const Modules> modules_;
};

OptionFields fields(Embedder::PassageOptions& options);

}  // namespace longformer
