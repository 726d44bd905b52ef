// WordLevel: every piece of a text is one token, or unknown.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/token.h"
#include "text/vocabulary.h"

namespace longformer::text {

struct WordLevelOptions {
  std::int32_t unknown = 0;
};

class WordLevelModel {
 public:
  /// The vocabulary must outlive the model.
  WordLevelModel(const Vocabulary& vocabulary, WordLevelOptions options)
      : vocabulary_(vocabulary), options_(options) {}

  /// Writes the token of a piece.
  void encode(std::string_view piece, std::vector<PieceToken>& tokens) const {
    tokens.assign(1, {vocabulary_.find(piece).value_or(options_.unknown),
                      static_cast<std::uint32_t>(piece.size())});
  }

 private:
  const Vocabulary& vocabulary_;
  WordLevelOptions options_;
};

}  // namespace longformer::text
