#include "text/character_map.h"

#include <cstring>

#include "core/error.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

// −1 for a character that is none of the 64.
int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

std::string decoded_base64(std::string_view text, const std::string& name) {
  require(text.size() % 4 == 0, "{}: expected base64 in groups of four, found {} characters", name,
          text.size());
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    require(value >= 0, "{}: expected base64, found a character of another kind", name);
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xffffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

// A unit of the trie: its label and where its children are, relative to itself.
struct Unit {
  std::uint32_t bits;
  bool has_value() const { return (bits >> 8 & 1) != 0; }
  std::uint32_t value() const { return bits & 0x7fffffffu; }
  std::uint32_t label() const { return bits & 0x800000ffu; }
  std::uint32_t offset() const { return bits >> 10 << ((bits & 0x200u) >> 6); }
};

}  // namespace

CharacterMap::CharacterMap(std::string_view base64, const std::string& name) {
  read(decoded_base64(base64, name), name);
}

CharacterMap CharacterMap::of_bytes(const std::string& bytes, const std::string& name) {
  CharacterMap map;
  map.read(bytes, name);
  return map;
}

void CharacterMap::read(const std::string& bytes, const std::string& name) {
  std::uint32_t size = 0;
  require(bytes.size() >= sizeof size, "{}: expected a map of at least 4 bytes, found {}", name,
          bytes.size());
  std::memcpy(&size, bytes.data(), sizeof size);
  require(size <= bytes.size() - sizeof size, "{}: expected a trie of {} bytes, found {}", name,
          size, bytes.size() - sizeof size);
  units_.resize(size / sizeof(std::uint32_t));
  const auto trie_size = units_.size() * sizeof(std::uint32_t);
  if (trie_size > 0) std::memcpy(units_.data(), bytes.data() + sizeof size, trie_size);
  replacements_ = bytes.substr(sizeof size + trie_size);
  require(is_valid_utf8(replacements_), "{}: expected replacements in UTF-8, found other bytes",
          name);
}

std::optional<std::string_view> CharacterMap::find(std::string_view text) const {
  if (units_.empty()) return std::nullopt;
  std::size_t node = Unit{units_[0]}.offset();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return std::nullopt;
    const Unit unit{units_[node]};
    if (unit.label() != byte) return std::nullopt;
    node ^= unit.offset();
    if (!unit.has_value()) continue;
    if (node >= units_.size()) return std::nullopt;
    const auto begin = Unit{units_[node]}.value();
    const bool inside = begin < replacements_.size() &&
                        (static_cast<unsigned char>(replacements_[begin]) & 0xc0) != 0x80;
    if (!inside) return std::nullopt;
    const std::string_view rest = std::string_view(replacements_).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

}  // namespace longformer::text
