// Tokens of models that read pieces of normalised text (Unigram, BPE of characters, WordLevel):
// normalises a text, cuts it, and hands each piece to the model.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/byte_pair_encoding.h"
#include "text/normalization.h"
#include "text/token.h"
#include "text/tokenizer_spec.h"
#include "text/unicode.h"
#include "text/unigram.h"
#include "text/word_level.h"

namespace longformer::text {

class PieceEncoder {
 public:
  /// Normal form of a character, if it does not depend on neighbours.
  struct NormalForm {
    enum class Kind : std::uint8_t { not_known_yet, simple, context };
    Kind kind = Kind::not_known_yet;
    bool same_size = false;  ///< One character of as many bytes.
    std::uint8_t size = 0;
    std::array<char, 13> bytes{};
  };

  /// Buffers that calls of one thread reuse.
  struct Workspace {
    PieceCache cache;
    CharacterTable<NormalForm> forms;
    UnigramModel::Workspace best;
    BytePairEncoder::Workspace merging;
    std::vector<PieceToken> tokens;
    std::string piece;                        // normalised
    std::vector<std::uint32_t> begins, ends;  // place in the text of each byte of the piece
  };

  /// The vocabulary of the specification must outlive the encoder. `guards` are the first bytes of
  /// tokens that are looked for in normalised text.
  PieceEncoder(const TokenizerSpec& spec, const std::string& guards);

  /// Normalises the bytes [begin, end) of valid UTF-8 text and appends their tokens. False when
  /// normalised text may hold a guard: some tokens are then appended for nothing.
  bool encode(std::string_view text, std::size_t begin, std::size_t end, Workspace& work,
              std::vector<TokenSpan>& spans) const;

  /// Appends the tokens of text that is normalised already.
  void encode_normalized(std::span<const NormalizedCharacter> characters, Workspace& work,
                         std::vector<TokenSpan>& spans) const;

 private:
  using Characters = std::vector<NormalizedCharacter>;
  using Model = std::variant<UnigramModel, BytePairEncoder, WordLevelModel>;

  static Model model_of(const TokenizerSpec& spec);
  /// Writes work.tokens.
  void encode_with_model(std::string_view piece, Workspace& work) const;

  bool works_by_words() const;
  NormalForm normal_form(char32_t character) const;
  bool is_inert(char32_t character) const;
  bool meets_pattern(std::string_view character) const;
  const NormalForm& form_at(const char* position, std::uint32_t& size, Workspace& work) const;
  bool is_simple(std::string_view text, std::size_t position, Workspace& work) const;
  /// End of the characters from `begin` on that depend on nothing beside them.
  std::size_t simple_end(std::string_view text, std::size_t begin, Workspace& work) const;
  /// Whether a simple character, a space and a simple character stand there.
  bool is_cut(std::string_view text, std::size_t position, bool behind_simple,
              Workspace& work) const;
  std::size_t next_cut(std::string_view text, std::size_t position, bool behind_simple,
                       Workspace& work) const;
  bool encode_region(std::string_view text, std::size_t begin, std::size_t end, TextEnds ends,
                     Workspace& work, std::vector<TokenSpan>& spans) const;
  void encode_word(std::string_view text, std::size_t begin, bool behind_space, Workspace& work,
                   std::vector<TokenSpan>& spans) const;
  void encode_piece(std::span<const NormalizedCharacter> characters, Workspace& work,
                    std::vector<TokenSpan>& spans) const;
  /// Writes the tokens of work.piece, which has `size` bytes.
  void find_tokens(std::size_t size, Workspace& work) const;

  Model model_;
  std::vector<NormalizationStep> steps_;
  std::vector<PieceCut> cuts_;
  std::string guards_;
  bool guarded_spaces_;
  bool cuts_before_marks_ = false;  // where words begin, with the same tokens
  bool by_words_ = false;
  bool joins_spaces_ = false;  // a space is the first character of the piece behind it
  bool has_map_ = false;
  bool has_prepend_ = false;
  std::string mark_;                  // the replacement of spaces
  std::array<char, 128> ascii_form_;  // of simple ASCII characters, 0 for others
};

}  // namespace longformer::text
