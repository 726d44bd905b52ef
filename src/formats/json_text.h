// Places in the text of JSON that is known to be well formed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longformer::formats {

/// Position behind the JSON string that starts at `begin`.
std::size_t string_end(std::string_view text, std::size_t begin);

/// Position of the first character from `i` on that is no blank.
std::size_t skip_spaces(std::string_view text, std::size_t i);

/// Position behind the value that starts at `begin`.
std::size_t value_end(std::string_view text, std::size_t begin);

/// A value without the blanks and line breaks outside its strings.
std::string without_spaces(std::string_view value);

}  // namespace longformer::formats
