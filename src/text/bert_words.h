// WordPiece of text: normalises it, cuts it into words as BERT does, and splits each.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalization.h"
#include "text/token.h"
#include "text/tokenizer_spec.h"
#include "text/unicode.h"
#include "text/word_piece.h"

namespace longformer::text {

class BertWordEncoder {
 public:
  /// Effect of normalisation on a character. It depends on the neighbours for few characters only.
  enum class Effect : std::uint8_t {
    not_known_yet,
    word,      ///< Continues a word with `bytes`.
    isolated,  ///< `bytes` are a word of their own.
    space,     ///< Ends a word.
    dropped,   ///< Vanishes without ending a word.
    several,   ///< Several characters of different kinds.
    context,   ///< Depends on its neighbours: the text must be normalised as a whole.
  };
  struct NormalForm {
    Effect effect = Effect::not_known_yet;
    std::uint8_t size = 0;
    std::array<char, 14> bytes{};
  };

  /// Buffers that calls of one thread reuse.
  struct Workspace {
    PieceCache cache;
    CharacterTable<NormalForm> forms;
    WordPieceEncoder::Workspace matching;
    std::vector<PieceToken> tokens;
    std::string word;                         // normalised
    std::vector<std::uint32_t> begins, ends;  // place in the text of each byte of the word
  };

  /// The vocabulary of the specification must outlive the encoder.
  explicit BertWordEncoder(const TokenizerSpec& spec);

  /// Normalises the bytes [begin, end) of valid UTF-8 text and appends their tokens.
  void encode(std::string_view text, std::size_t begin, std::size_t end, Workspace& work,
              std::vector<TokenSpan>& spans) const;

  /// Appends the tokens of text that is normalised already.
  void encode_normalized(std::span<const NormalizedCharacter> characters, Workspace& work,
                         std::vector<TokenSpan>& spans) const;

 private:
  NormalForm normal_form(char32_t character) const;
  /// Encodes from `position` to the end of a word that is not plain ASCII. False when a character
  /// depends on its neighbours.
  bool encode_general_word(std::string_view text, std::size_t& position, std::size_t end,
                           Workspace& work, std::vector<TokenSpan>& spans) const;
  void encode_ascii_word(std::string_view text, std::size_t begin, std::size_t end, Workspace& work,
                         std::vector<TokenSpan>& spans) const;
  void feed(const NormalizedCharacter& character, Workspace& work,
            std::vector<TokenSpan>& spans) const;
  void flush(Workspace& work, std::vector<TokenSpan>& spans) const;

  WordPieceEncoder pieces_;
  std::vector<NormalizationStep> steps_;
  bool decomposes_;
  bool composes_;
  bool lowercases_ascii_;
  std::array<Effect, 256> byte_effects_;  // Effect::several for bytes that the fast loop leaves
};

}  // namespace longformer::text
