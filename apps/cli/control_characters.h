// Control characters of documents, names of files and labels, as text that can be seen.
#pragma once

#include <string>
#include <string_view>

namespace longformer::cli {

/// The text with control characters as they are written, ^[ for the escape character and <U+009B>;
/// so are those that change the direction of a line, and bytes that are no UTF-8 (<9B>). Line
/// breaks and tabs stay.
std::string with_visible_controls(std::string_view text);

/// The name of a file as one field of a line, as GNU tools quote it: $'a\nb' where it has control
/// characters, else as it is.
std::string quoted_name(std::string_view name);

}  // namespace longformer::cli
