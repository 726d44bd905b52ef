// Unigram language model of SentencePiece: the most probable way to cut a piece of text into
// tokens.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/token.h"
#include "text/vocabulary.h"

namespace longformer::text {

struct UnigramOptions {
  std::vector<double> scores;           ///< Logarithm of the probability of each id.
  std::optional<std::int32_t> unknown;  ///< For characters that no token has.
  bool byte_fallback = false;           ///< Tokens of bytes instead, where all of them exist.
};

class UnigramModel {
 public:
  /// The vocabulary must outlive the model.
  UnigramModel(const Vocabulary& vocabulary, UnigramOptions options);

  /// The best way to a place in the text.
  struct Step {
    double score;
    std::uint32_t begin;  ///< Begin of the last token.
    std::int32_t id;
  };
  /// Buffers that calls use again.
  struct Workspace {
    std::vector<Step> steps;
  };

  /// Writes the tokens of normalised UTF-8 text, which is not empty. Unknown characters beside each
  /// other are one token. A token that ends where the one before it does is a byte of the same
  /// place. Throws Error where the model needs an unknown token and has none.
  void encode(std::string_view text, Workspace& work, std::vector<PieceToken>& tokens) const;

 private:
  static constexpr std::uint32_t unreached = ~std::uint32_t{0};

  void build_trie();
  std::uint32_t child(std::uint32_t node, char byte) const;
  std::int32_t unknown_id() const;
  void find_best(std::string_view text, std::vector<Step>& steps) const;
  void append_unknown(std::string_view text, std::uint32_t end,
                      std::vector<PieceToken>& reversed) const;

  const Vocabulary& vocabulary_;
  UnigramOptions options_;
  double unknown_score_ = 0;
  // Nodes are numbered by depth; the children of one are neighbours, sorted by their bytes.
  std::vector<std::uint32_t> first_child_;  // of each node, and one more
  std::vector<char> bytes_;                 // that leads to each node
  std::vector<std::int32_t> ids_;           // of the token that ends at each node, −1: none
  std::array<std::int32_t, 256> byte_ids_;  // of tokens like <0x0A>, −1: none
};

}  // namespace longformer::text
