#include "offsets.h"

#include <algorithm>

namespace longformer::server {

std::int64_t characters_of(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return !is_continuation(byte); });
}

Offsets::Offsets(const HttpRequest& request, std::string_view text) {
  const std::string_view kind = request.query_value("offsets").value_or("");
  if (kind != "utf16") return;
  std::int64_t units = 0;
  for (const std::size_t start : character_starts(text)) {
    units_.push_back(units);
    // Characters of four bytes in UTF-8 are pairs in UTF-16.
    const bool is_pair = start < text.size() && static_cast<unsigned char>(text[start]) >= 0xF0;
    units += is_pair ? 2 : 1;
  }
}

}  // namespace longformer::server
