// Tokens that are found in the text before anything else looks at it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longformer::text {

/// An added or special token with its options, as tokenizer files name them.
struct AddedToken {
  std::string content;
  std::int32_t id = -1;
  bool single_word = false;  ///< Only where no word character touches it.
  bool left_strip = false;   ///< Takes the whitespace before it.
  bool right_strip = false;  ///< Takes the whitespace behind it.
  bool normalized = true;    ///< Looked for in the normalised text.
  bool special = false;      ///< Left out of decoded text.
};

/// A part of a text: an added token, or text between two of them.
struct TextPart {
  const AddedToken* token;  ///< Null for text.
  std::size_t begin;
  std::size_t end;
};

/// Finds tokens in a text, the longest one at each place.
class AddedTokenMatcher {
 public:
  /// Looks for patterns[i].first and reports patterns[i].second, which must outlive the matcher.
  explicit AddedTokenMatcher(
      const std::vector<std::pair<std::string, const AddedToken*>>& patterns);

  bool empty() const { return nodes_.size() == 1; }
  /// The bytes that patterns begin with.
  std::string first_bytes() const;

  /// Cuts valid UTF-8 text into its parts, in order; no part of text is empty.
  std::vector<TextPart> split(std::string_view text) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;
    const AddedToken* token = nullptr;
  };
  std::size_t next_candidate(std::string_view text, std::size_t position) const;
  /// The longest token at a position and where it ends; null when there is none.
  std::pair<const AddedToken*, std::size_t> match(std::string_view text,
                                                  std::size_t position) const;

  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> first_{};  // node of a first byte, 0 when no token starts with it
  int distinct_first_ = 0;
  unsigned char only_first_ = 0;
};

}  // namespace longformer::text
