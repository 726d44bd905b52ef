// Places in a text as a client counts them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "http.h"
#include "longformer/text.h"

namespace longformer::server {

/// Code points of a text.
std::int64_t characters_of(std::string_view text);
/// Whether a byte of UTF-8 is not the first one of its character.
inline bool is_continuation(char byte) { return (byte & 0xc0) == 0x80; }

/// Whether the client counts the units of JavaScript: ?offsets=utf16.
bool counts_units(const HttpRequest& request);

/// Code points; with ?offsets=utf16 the units of JavaScript.
class Offsets {
 public:
  Offsets(const HttpRequest& request, std::string_view text);

  CharacterSpan of(CharacterSpan span) const {
    if (units_.empty()) return span;
    return {units_[static_cast<std::size_t>(span.begin)],
            units_[static_cast<std::size_t>(span.end)]};
  }

  /// The characters of a span that the client has counted. A half of a pair counts as all of it.
  CharacterSpan characters_of(CharacterSpan span) const;

 private:
  std::int64_t character_at(std::int64_t unit, bool is_end) const;

  /// For each character, and for the end, the units before it; empty: characters count.
  std::vector<std::int64_t> units_;
};

}  // namespace longformer::server
