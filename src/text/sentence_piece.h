// Model files of SentencePiece ("spm.model"): messages in the wire format of protocol buffers, by
// sentencepiece_model.proto (docs/spec/tokenizers.md#sentencepiece).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::text {

struct SentencePieceModel {
  /// A file has the numbers of these, from 1 on.
  enum class Type { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    double score = 0;
    Type type = Type::normal;
  };

  /// The id of a piece is its place.
  std::vector<Piece> pieces;
  /// Else it is of another kind, such as byte-pair encoding.
  bool is_unigram = true;
  std::int32_t unknown = 0;
  /// See CharacterMap; empty for none.
  std::string character_map;
};

/// Reads the bytes of a file; `name` is for messages. Throws Error for what is no such model.
SentencePieceModel parse_sentence_piece(std::string_view bytes, const std::string& name);

}  // namespace longformer::text
