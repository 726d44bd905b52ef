#include "offsets.h"

#include <algorithm>

namespace longformer::server {

std::int64_t characters_of(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return !is_continuation(byte); });
}

bool counts_units(const HttpRequest& request) {
  return request.query_value("offsets").value_or("") == "utf16";
}

Offsets::Offsets(const HttpRequest& request, std::string_view text) {
  if (!counts_units(request)) return;
  std::int64_t units = 0;
  for (const std::size_t start : character_starts(text)) {
    units_.push_back(units);
    // Characters of four bytes in UTF-8 are pairs in UTF-16.
    const bool is_pair = start < text.size() && static_cast<unsigned char>(text[start]) >= 0xF0;
    units += is_pair ? 2 : 1;
  }
}

std::int64_t Offsets::character_at(std::int64_t unit, bool is_end) const {
  const auto first = std::ranges::lower_bound(units_, unit);
  const bool is_half = first == units_.end() || (!is_end && *first != unit);
  return first - units_.begin() - (is_half ? 1 : 0);
}

CharacterSpan Offsets::characters_of(CharacterSpan span) const {
  if (units_.empty()) return span;
  return {character_at(span.begin, false), character_at(span.end, true)};
}

}  // namespace longformer::server
