// WordPiece: the longest known pieces of one word, from the left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/token.h"
#include "text/vocabulary.h"

namespace longformer::text {

struct WordPieceOptions {
  std::int32_t unknown = 0;
  std::string continuing_prefix = "##";
  std::int64_t longest_word = 100;  ///< In characters; longer words are unknown.
};

class WordPieceEncoder {
 public:
  WordPieceEncoder(const Vocabulary& vocabulary, WordPieceOptions options);

  /// Buffers that calls use again.
  struct Workspace {
    std::vector<std::uint64_t> hashes;
  };

  /// Writes the tokens of a normalised word of UTF-8 text: one unknown token for the whole word
  /// when a part of it is not known.
  void encode(std::string_view word, Workspace& work, std::vector<PieceToken>& tokens) const;

 private:
  struct Table {
    struct Slot {
      std::uint32_t tag;
      std::int32_t id;
    };
    std::vector<Slot> slots;
    std::size_t longest = 0;  // bytes of the longest key

    void insert(std::uint64_t hash, std::int32_t id);
  };
  Table build(bool continuing) const;
  /// The longest token at the start of `text`: its id, −1 when there is none, and its size.
  PieceToken longest_match(bool continuing, std::string_view text, Workspace& work) const;

  const Vocabulary& vocabulary_;
  WordPieceOptions options_;
  Table starting_;
  Table continuing_;
};

}  // namespace longformer::text
