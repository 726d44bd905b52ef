// JSON as Python writes it.
#pragma once

#include <string>
#include <string_view>

namespace longformer {

/// The text as the standard has it, for parsers that are strict: NaN, infinite and too large
/// numbers become null, and half of a surrogate pair, as texts have that were cut in UTF-16,
/// becomes U+FFFD. All else stays as it is, what is no JSON too.
std::string standard_json(std::string_view text);

}  // namespace longformer
