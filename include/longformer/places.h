// Places in a document as its readers know them: pages of a PDF, chapters of a book, paragraphs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longformer/text.h"

namespace longformer {

/// All places of a document.
struct DocumentPlaces {
  /// "page", "chapter" or "paragraph"; empty where a document has none.
  std::string unit = {};
  /// The first characters of the places 1, 2, …, ascending. A page without text begins where the
  /// next one does.
  std::vector<std::int64_t> starts = {};
};

/// Places from `first` to `last`, counted from 1.
struct PlaceSpan {
  std::string unit = {};
  std::int64_t first = 0, last = 0;
  bool operator==(const PlaceSpan&) const = default;
};

/// The places that characters of a document lie in; absent where it has none.
std::optional<PlaceSpan> place_of(const DocumentPlaces& places, CharacterSpan span);

/// "page 3", "pages 3-4".
std::string described(const PlaceSpan& place);

/// {"unit", "first", "last"}.
std::string to_json(const PlaceSpan& place);

}  // namespace longformer
