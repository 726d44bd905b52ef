// Places in a text as a client counts them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "http.h"
#include "longformer/text.h"

namespace longformer::server {

/// Code points; with ?offsets=utf16 the units of JavaScript. Throws Failure for another value.
class Offsets {
 public:
  Offsets(const HttpRequest& request, std::string_view text);

  CharacterSpan of(CharacterSpan span) const {
    if (units_.empty()) return span;
    return {units_[static_cast<std::size_t>(span.begin)],
            units_[static_cast<std::size_t>(span.end)]};
  }

 private:
  /// For each character, and for the end, the units before it; empty: characters count.
  std::vector<std::int64_t> units_;
};

}  // namespace longformer::server
