// The character maps of SentencePiece ("precompiled_charsmap"): a double-array trie of texts and
// what stands for each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::text {

class CharacterMap {
 public:
  /// Reads a map in base64; `name` is for messages. Throws Error for a malformed one.
  CharacterMap(std::string_view base64, const std::string& name);
  /// Reads one as it stands in a model file.
  static CharacterMap of_bytes(const std::string& bytes, const std::string& name);

  /// Replacement of the shortest key that the text begins with; absent if there is none. Keys that
  /// lead out of the map are no keys.
  std::optional<std::string_view> find(std::string_view text) const;

 private:
  CharacterMap() = default;
  void read(const std::string& bytes, const std::string& name);

  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

}  // namespace longformer::text
