#include "control_characters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace longformer::cli {
namespace {

/// A character of UTF-8; a byte that is none has value -1.
struct Character {
  std::int32_t value = -1;
  std::size_t size = 1;
};

Character character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {static_cast<std::int32_t>(lead), 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return {};
  std::int32_t value = static_cast<std::int32_t>(lead & (0xffu >> (size + 1)));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return {};
    value = (value << 6) | static_cast<std::int32_t>(byte(i) & 0x3fu);
  }
  return {value, size};
}

/// Characters of one byte are not asked about here.
bool is_long_control(std::int32_t c) {
  const bool is_c1 = c >= 0x80 && c <= 0x9f;
  // Embeddings, overrides and isolates of the bidirectional algorithm.
  return is_c1 || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

bool is_short_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }

bool stays(std::string_view text, std::size_t at) {
  const char c = text[at];
  return c == '\n' || c == '\t' || (c == '\r' && text.substr(at + 1).starts_with('\n'));
}

}  // namespace

std::string with_visible_controls(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text.substr(at));
    if (c.value < 0) {
      fmt::format_to(std::back_inserter(shown), "<{:02X}>", static_cast<unsigned char>(text[at]));
    } else if (c.size == 1 && is_short_control(text[at]) && !stays(text, at)) {
      shown += '^';
      shown += static_cast<char>(text[at] ^ 0x40);
    } else if (is_long_control(c.value)) {
      fmt::format_to(std::back_inserter(shown), "<U+{:04X}>", c.value);
    } else {
      shown += text.substr(at, c.size);
    }
    at += c.size;
  }
  return shown;
}

std::string quoted_name(std::string_view name) {
  if (std::none_of(name.begin(), name.end(), is_short_control)) return std::string(name);
  std::string quoted = "$'";
  for (const char c : name) {
    if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c == '\r') {
      quoted += "\\r";
    } else if (is_short_control(c)) {
      fmt::format_to(std::back_inserter(quoted), "\\{:03o}", static_cast<unsigned char>(c));
    } else {
      if (c == '\\' || c == '\'') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace longformer::cli
