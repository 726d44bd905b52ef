// Byte pair encoding, of bytes or of characters: the merges of one piece of text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/token.h"
#include "text/vocabulary.h"

namespace longformer::text {

/// Two tokens that become one; earlier merges come first.
struct Merge {
  std::int32_t left;
  std::int32_t right;
  std::int32_t result;
};

struct BytePairOptions {
  /// Token for symbols without one; they vanish when absent.
  std::optional<std::int32_t> unknown;
  bool fuse_unknown = false;   ///< Neighbouring unknown symbols are one token.
  bool ignore_merges = false;  ///< A piece that is a token needs no merges.
  /// Symbols are characters, as in SentencePiece, rather than bytes.
  bool merges_characters = false;
  /// A character without a token is its bytes, tokens such as <0x0A>, where all of these exist.
  bool byte_fallback = false;
};

/// The character that stands for a byte in vocabulary entries ("Ġ" for the space).
char32_t character_of_byte(unsigned char byte);
/// The byte that a character stands for; nothing for characters that stand for none.
std::optional<unsigned char> byte_of_character(char32_t character);

class BytePairEncoder {
 public:
  BytePairEncoder(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                  BytePairOptions options);

  /// Buffers that calls use again.
  struct Workspace {
    std::vector<std::int32_t> ids;
    std::vector<std::uint32_t> ends;
    std::vector<std::uint64_t> ranks;
    std::vector<std::int32_t> previous, next;
    std::vector<std::array<std::uint32_t, 3>> heap;
  };

  /// Writes the tokens of a piece of UTF-8 text. O(n log n) for any piece.
  void encode(std::string_view piece, Workspace& work, std::vector<PieceToken>& tokens) const;

  /// Whether pieces can be cut, with the same tokens, before a character that stands behind another
  /// one: no merge goes across such a place.
  bool may_cut_before(std::string_view character) const;

 private:
  struct Slot {
    std::uint64_t pair;
    std::uint32_t rank;
    std::int32_t result;
  };
  /// Rank and result of a pair; the rank is no_rank when it does not merge.
  const Slot& lookup(std::int32_t left, std::int32_t right) const;
  void start_bytes(std::string_view piece, Workspace& work) const;
  void start_characters(std::string_view piece, Workspace& work) const;
  void merge_short(Workspace& work) const;
  void merge_long(Workspace& work) const;
  std::optional<std::int32_t> whole_token(std::string_view piece) const;

  const Vocabulary& vocabulary_;
  BytePairOptions options_;
  /// Token of each byte, −1: none.
  std::array<std::int32_t, 256> id_of_byte_;
  std::vector<Slot> slots_;
};

}  // namespace longformer::text
