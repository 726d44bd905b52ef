// Byte-level BPE of text: cuts it into words as the expressions of its file do, and merges each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_pair_encoding.h"
#include "text/expression_splitter.h"
#include "text/token.h"
#include "text/tokenizer_spec.h"

namespace longformer::text {

class ByteLevelEncoder {
 public:
  /// The vocabulary of the specification must outlive the encoder.
  explicit ByteLevelEncoder(const TokenizerSpec& spec);

  /// Buffers that calls of one thread reuse.
  struct Workspace {
    PieceCache cache;
    ExpressionSplitter::Classes classes;
    BytePairEncoder::Workspace merging;
    std::vector<PieceToken> tokens;
    std::string prefixed;
  };

  /// Appends the tokens of the bytes [begin, end) of valid UTF-8 text.
  void encode(std::string_view text, std::size_t begin, std::size_t end, Workspace& work,
              std::vector<TokenSpan>& spans) const;

 private:
  struct Range {
    std::size_t begin, end;
  };
  /// Cuts the range by one expression after another, and its words as ByteLevel says.
  void encode_words(std::string_view text, Range range, std::span<const WordExpression> expressions,
                    Workspace& work, std::vector<TokenSpan>& spans) const;
  std::size_t encode_prefixed(std::string_view text, std::size_t begin, std::size_t end,
                              Workspace& work, std::vector<TokenSpan>& spans) const;
  /// Appends the tokens of one piece, which starts at `base` of the text.
  void append_piece(std::string_view piece, std::size_t readable, std::uint32_t base,
                    Workspace& work, std::vector<TokenSpan>& spans) const;

  BytePairEncoder merges_;
  WordExpression gpt2_ = {};
  std::vector<WordExpression> expressions_;
  bool add_prefix_space_;
  bool split_words_;
};

}  // namespace longformer::text
