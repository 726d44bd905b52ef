// Symbols of a language model (docs/spec/file-formats.md#o1): characters of an alphabet, chosen
// bytes, or tokens of a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/text.h"
#include "models/language_model_config.h"

namespace longformer::tasks {

class Symbols {
 public:
  /// A tokenizer is read from the folder. Throws Error where it has more tokens than the model.
  Symbols(const models::LanguageModelConfig& config, const std::string& folder);

  bool are_tokens() const { return tokenizer_.has_value(); }
  /// "bytes", "text8", "204 bytes" or "30,522 tokens (WordPiece)".
  std::string description() const;
  /// Only an alphabet has rules for a Wikipedia dump.
  bool are_letters() const { return alphabet_ == text::Alphabet::text8 && !are_tokens(); }

  /// Throws Error for a byte that no number stands for, with its place; `name` stands for the text.
  void check(std::string_view text, const std::string& name) const;
  /// Number of every byte of a checked text, where numbers stand for bytes.
  std::vector<std::int32_t> encode_bytes(std::string_view text) const;

  struct Tokens {
    std::vector<std::int32_t> ids;
    /// Byte of the text at which each ends.
    std::vector<std::int64_t> ends;
  };
  /// No special tokens are added.
  Tokens encode_tokens(std::string_view text) const;

  /// Numbers of any text, and the text of numbers.
  std::vector<std::int32_t> encode(std::string_view text, const std::string& name) const;
  std::string decode(std::span<const std::int32_t> ids) const;

  /// Prompt of a text without one: a line break, a space, or the token for that. Throws Error where
  /// a tokenizer has none.
  std::vector<std::int32_t> usual_prompt() const;

 private:
  text::Alphabet alphabet_;
  /// Chosen bytes, if the vocabulary is a choice.
  std::vector<std::uint8_t> bytes_;
  std::optional<Tokenizer> tokenizer_;
};

/// Decodes numbers that come one after another: a piece of text ends with a whole character.
class SymbolDecoder {
 public:
  explicit SymbolDecoder(const Symbols& symbols) : symbols_(symbols) {}

  /// The text that is complete with this number, maybe none.
  std::string next(std::int32_t id);
  /// Characters left at the end.
  std::string rest();

 private:
  std::string told(bool all);

  const Symbols& symbols_;
  /// Those since the last text that was complete, behind those that it ended with: what a token
  /// stands for depends on whether one is before it.
  std::vector<std::int32_t> ids_;
  std::size_t read_ = 0;
};

}  // namespace longformer::tasks
