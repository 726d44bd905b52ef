// Text to token ids and back, equal to Hugging Face `tokenizers` (docs/spec/tokenizers.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longformer {

/// Half-open range of characters (Unicode code points) of the input text.
struct CharacterSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const CharacterSpan&) const = default;
};

/// The tokens of one text or pair. All vectors have one element per token.
struct Encoding {
  std::vector<std::int32_t> ids;
  /// Where the token comes from, in characters of its own sequence; {0, 0} for special tokens.
  std::vector<CharacterSpan> offsets;
  std::vector<std::int32_t> type_ids;
  /// 1 for tokens that the template added.
  std::vector<std::uint8_t> special_tokens_mask;
  /// 0 for the first text, 1 for its pair, −1 for special tokens.
  std::vector<std::int8_t> sequence_ids;
  /// How many tokens truncation removed from both texts together.
  std::int64_t truncated = 0;
};

enum class TruncationStrategy { longest_first, only_first, only_second };

struct EncodeOptions {
  bool add_special_tokens = true;
  /// Length limit in tokens with the special ones; nothing is cut when it is absent.
  std::optional<std::int64_t> max_length;
  TruncationStrategy strategy = TruncationStrategy::longest_first;
};

/// Ids of the tokens with a role; absent when the tokenizer has none.
struct SpecialTokens {
  std::optional<std::int32_t> cls, sep, pad, mask, unk, bos, eos;
};

/// The folder whose tokenizer belongs to a model with a LoRA adapter: that of the adapter where it
/// has one, else that of the model. An empty adapter is none.
std::string tokenizer_folder(const std::string& folder, const std::string& adapter);

class Tokenizer {
 public:
  /// Reads tokenizer.json, or vocab.json with merges.txt, or vocab.txt (in this order), and
  /// tokenizer_config.json, special_tokens_map.json and added_tokens.json where they exist. Length
  /// limits and padding that the files ask for are not applied: only EncodeOptions cut.
  /// Throws Error for a folder without tokenizer files, and for files that are malformed or of an
  /// unsupported kind. `added` are further special tokens; those that the folder does not have get
  /// the ids behind all others, in their order. With `lowercase` every text is lower-cased before
  /// anything else, as do_lower_case of sentence-transformers asks.
  static Tokenizer load(const std::string& folder, std::span<const std::string> added = {},
                        bool lowercase = false);

  /// The same tokenizer for a model whose table has `rows` rows. Its encode functions throw Error,
  /// naming the token, for a text with a token behind them.
  Tokenizer with_rows(std::int64_t rows) const;

  /// Tokens of a text. Invalid UTF-8 is read as U+FFFD, one per maximal ill-formed part.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Tokens of a pair in the pair template of the tokenizer.
  Encoding encode_pair(std::string_view text, std::string_view pair,
                       const EncodeOptions& options = {}) const;

  /// The text of the ids, as `tokenizers` decodes it. Throws Error for an id out of range.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;

  /// The vocabulary entry of an id (with its markers, such as "Ġ", "▁" or "##"); of an added token
  /// that is looked for in normalised text its normal form, as `tokenizers` says it. Throws Error
  /// when out of range.
  std::string token(std::int32_t id) const;
  std::optional<std::int32_t> id(std::string_view token) const;
  /// The ids of texts are below this number (added tokens included).
  std::int64_t vocabulary_size() const;
  const SpecialTokens& special_tokens() const;
  /// "byte-level BPE", "WordPiece" or "Unigram".
  std::string kind() const;
  /// How the tokens may differ from those of transformers, one sentence each.
  const std::vector<std::string>& notes() const;

 private:
  struct Implementation;
  explicit Tokenizer(std::shared_ptr<const Implementation> implementation);
  void check_rows(const Encoding& encoding) const;
  std::shared_ptr<const Implementation> implementation_;
  /// Rows of the model's table; any number where it is not known.
  std::int64_t rows_ = std::int64_t{1} << 31;
};

/// Byte position of every character of a UTF-8 text and, as last element, its size: turns character
/// spans into substrings. Invalid bytes count as Encoding counts them.
std::vector<std::size_t> character_starts(std::string_view text);

}  // namespace longformer
