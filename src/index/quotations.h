// Phrases between quotation marks.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace longformer::index {

/// The bytes between two quotation marks and, with the marks, around them.
struct Quotation {
  std::size_t begin = 0, end = 0;
  std::size_t outer_begin = 0, outer_end = 0;
};

/// Parts of a text between two quotation marks of one kind, in order. The marks are those of
/// Unicode's property Quotation_Mark, in the pairs that languages make of them.
std::vector<Quotation> quotations(std::string_view text);

}  // namespace longformer::index
