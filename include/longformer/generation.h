// Writing a text for a document: LED, BART, Pegasus and kin (docs/spec/led-and-generation.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longformer/error.h"
#include "longformer/model.h"
#include "longformer/options.h"
#include "longformer/text.h"

namespace longformer {

struct TextGeneratorInfo {
  std::string model_type;
  std::int64_t hidden_size = 0;
  std::int64_t encoder_layers = 0, encoder_heads = 0;
  std::int64_t decoder_layers = 0, decoder_heads = 0;
  std::int64_t vocabulary_size = 0;
  std::int64_t pad_token_id = 0;
  /// Total window per layer of the encoder; empty for full attention.
  std::vector<std::int64_t> windows;
  /// Longest document, and longest text with its start token, in tokens.
  std::int64_t max_source_tokens = 0, max_text_tokens = 0;
  /// Whether tokens of the document may have global attention.
  bool has_global_attention = false;
};

/// One text for a document.
struct WrittenText {
  /// Ids with the start token, and with the end token if it was written.
  std::vector<std::int32_t> ids;
  /// Without special tokens.
  std::string text;
  /// For beams, the sequences_scores of transformers.
  std::optional<double> score;
  /// Why it ended: "end_token", "length", "stop_string", "time" or "interrupted".
  std::string end;
};

struct WrittenDocument {
  /// Best first; num_return_sequences of them, or fewer where beams ran out.
  std::vector<WrittenText> texts;
  /// Tokens of the document with the special ones, how many of them were cut off, in how many
  /// segments it was read, and how many tokens had global attention.
  std::int64_t source_tokens = 0, truncated = 0, segments = 0, global_tokens = 0;
  /// Why there is no text; empty when there is.
  std::string error;
  std::vector<Remedy> remedies;
};

/// {"tokens", "truncated", "segments", "global_tokens", "texts": [{"text", "score", "end", "ids"},
/// …]}; "score" only where the text has one.
std::string to_json(const WrittenDocument& document);

/// Event while documents are read and written.
struct GenerationEvent {
  /// Documents that were read, and their tokens; then tokens that were written.
  std::int64_t documents_read = 0, tokens_read = 0, tokens_written = 0;
  /// The document that `text` continues; −1 where nothing is certain that was not told.
  std::int64_t document = -1;
  /// Text that can no longer change: whole characters.
  std::string text = {};
};

/// Returns whether to go on; texts then end as they are.
using GenerationCallback = std::function<bool(const GenerationEvent&)>;

struct GenerationRequest {
  GenerationOptions options = {};
  /// Draws depend on it and on the number of the document alone.
  std::uint64_t seed = 1;
  /// Number of the first document.
  std::uint64_t first_document = 0;
  /// Tokens that every text begins with. The start token stands before them, unless it is the first
  /// of them.
  std::vector<std::int32_t> prompt = {};
  /// Which tokens of a document have global attention; absent: none, as in `transformers`.
  std::optional<GlobalAttention> global_attention = std::nullopt;
  TooLong too_long = TooLong::split;
  /// Documents that are longer than the encoder are read whole instead: token t has the position
  /// t mod N of the N that there are, as `convert` would repeat them.
  bool extend = false;
  /// Tokens of a document with the special ones beyond which it is too long; 0: what the model
  /// takes.
  std::int64_t max_source_tokens = 0;
  /// Least overlap of segments in tokens; absent: 1,024, or a quarter of a short segment.
  std::optional<std::int64_t> stride = {};
  /// Documents that are written together, as far as they have no more than 32,768 tokens: keys and
  /// values of all of them are kept.
  std::int64_t together = 8;
};

/// All but first_document, prompt and `options`, whose names and help for_each_generation_option
/// has.
OptionFields fields(GenerationRequest& request);

/// The options of a JSON object. Throws Error for other keys and for values of other types.
GenerationOptions parse_generation_options(const std::string& json);

/// The options that a folder has, and the file that they are from; an empty name when it has
/// neither generation_config.json nor such keys in config.json. Throws Error for malformed files.
struct FolderOptions {
  GenerationOptions options;
  std::string file;
};
FolderOptions read_generation_options(const std::string& folder);

/// Attention of a text to its document while it is written.
struct SourceAttention {
  /// n and m tokens with the special ones; offsets are characters.
  Encoding document, text;
  /// [m, n]: how much weight the decoder gives to each token of the document when it writes a token
  /// of the text; the mean over layers and heads.
  std::vector<float> weights;
};

struct SourceAttentionOptions {
  /// From 0; empty for all.
  std::vector<std::int64_t> layers = {}, heads = {};
  /// Absent: none, as in `transformers`.
  std::optional<GlobalAttention> global_attention = std::nullopt;
  /// Keep the first tokens of a document that is too long; without, it is an Error.
  bool truncate = false;
};

/// Threads may share an object, as they may a Model: turns are taken for every step.
class TextGenerator {
 public:
  /// Whether a folder holds a model that this class runs; false for what cannot be read.
  static bool is_one(const std::string& folder);
  /// Throws Error for a folder that is missing, malformed, inconsistent or of an unsupported type.
  static TextGenerator load(const std::string& folder, const LoadOptions& options = {});

  /// Shares the weights of a model that was loaded from the folder, whose options and tokenizer it
  /// takes. `note` as in LoadOptions.
  static TextGenerator of(const Model& model, const std::string& folder,
                          const std::function<void(const std::string&)>& note = {});

  const TextGeneratorInfo& info() const;
  /// Global attention of all recipes for summaries: the first token; absent for a model without
  /// windows.
  std::optional<GlobalAttention> summary_globals() const;
  /// A request for summaries: where it says nothing, they have summary_globals(), and at most 512
  /// tokens if the folder names no length.
  GenerationRequest for_summaries(GenerationRequest request) const;
  /// The options that the folder has, or that `transformers` would take from it.
  const GenerationOptions& folder_options() const;

  /// The result of each document is that of the document alone. A document that cannot be read or
  /// written has an error; Error is thrown for options that no document could be written with.
  std::vector<WrittenDocument> generate(std::span<const std::string> documents,
                                        const GenerationRequest& request = {},
                                        const GenerationCallback& callback = {}) const;

  /// Writes texts for documents that are tokens, which name their own global tokens. Nothing is
  /// decoded: texts are ids alone, and events have no text.
  std::vector<WrittenDocument> generate(std::span<const DocumentInput> documents,
                                        const GenerationRequest& request = {},
                                        const GenerationCallback& callback = {}) const;

  /// [m, V]: logits of the token that follows each of the m tokens of a text about a document.
  /// Throws Error for ids, masks and lengths that the model does not take.
  std::vector<float> logits(const DocumentInput& document,
                            std::span<const std::int32_t> text) const;

  /// Throws Error for a text that is empty or longer than the model can write, and for layers and
  /// heads that the decoder does not have.
  SourceAttention source_attention(const std::string& document, const std::string& text,
                                   const SourceAttentionOptions& options = {}) const;

  struct Implementation;

 private:
  explicit TextGenerator(std::shared_ptr<const Implementation> implementation)
      : implementation_(std::move(implementation)) {}
  std::shared_ptr<const Implementation> implementation_;
};

}  // namespace longformer
