// JSON of Python's json module, which the standard does not allow, for a parser of the standard.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace longformer::formats {

/// The text with a number in place of NaN, Infinity and numbers that are too large, and U+FFFD in
/// place of half of a surrogate pair. The length and all line breaks stay. Stand-ins alone have the
/// letter E; other numbers get an e.
std::string with_stand_ins(std::string_view text);

/// Value that a number of such a text represents; absent if it is an ordinary number.
std::optional<double> value_of_stand_in(std::string_view number);

}  // namespace longformer::formats
