// Requests of an evaluation to a model that makes vectors of texts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longformer/options.h"
#include "longformer/text.h"

namespace longformer::engine {

/// Purpose of a text, which decides its prompt.
enum class TextUse { plain, query, document };

/// How long the texts were of which vectors were made.
struct TextLengths {
  /// Tokens with prompts and special ones, before truncation, and how many of them were cut off.
  std::int64_t tokens = 0, truncated = 0;
};

class TextVectors {
 public:
  virtual ~TextVectors() = default;
  /// Comparison of the vectors. For the cosine they have length 1.
  virtual Similarity similarity() const = 0;
  /// One vector for each text, whose lengths are added. Throws Error.
  virtual std::vector<std::vector<float>> of(std::span<const std::string> texts, TextUse use,
                                             TextLengths& lengths) const = 0;
  /// One for each passage, from the states of the document. Throws Error.
  virtual std::vector<std::vector<float>> of_passages(const std::string& document,
                                                      std::span<const CharacterSpan> passages,
                                                      TextLengths& lengths) const = 0;
  /// A vector of a training, which is neither cut nor scaled yet, as of() gives it.
  virtual std::vector<float> finished(std::vector<float> vector) const = 0;
};

}  // namespace longformer::engine
