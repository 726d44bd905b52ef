// Names that users misspell.
#pragma once

#include <span>
#include <string>

namespace longformer {

/// The candidate that is closest in spelling to a word, or empty when none is close.
std::string nearest(const std::string& word, std::span<const std::string> candidates);

}  // namespace longformer
