// Character references of HTML: &eacute;, &#233;, &#xe9;.
#pragma once

#include <string>
#include <string_view>

namespace longformer::text {

/// The text with its references as characters, as the HTML standard has them in text: old names
/// without a semicolon count, 128 to 159 are those of windows-1252, 0, surrogates and numbers that
/// are none become U+FFFD. References to control characters and to what is no character become
/// nothing, as in html.unescape of Python.
std::string without_references(std::string_view text);

}  // namespace longformer::text
