#include <fmt/format.h>

#include <algorithm>

#include "longformer/places.h"

namespace longformer {

std::optional<PlaceSpan> place_of(const DocumentPlaces& places, CharacterSpan span) {
  const auto& starts = places.starts;
  if (places.unit.empty() || starts.empty()) return std::nullopt;
  const auto first = std::upper_bound(starts.begin(), starts.end(), span.begin) - starts.begin();
  const auto last = std::lower_bound(starts.begin(), starts.end(), span.end) - starts.begin();
  PlaceSpan place = {.unit = places.unit};
  place.first = std::max<std::int64_t>(first, 1);
  place.last = std::max<std::int64_t>(last, place.first);
  return place;
}

std::string described(const PlaceSpan& place) {
  if (place.first == place.last) return fmt::format("{} {}", place.unit, place.first);
  return fmt::format("{}s {}-{}", place.unit, place.first, place.last);
}

std::string to_json(const PlaceSpan& place) {
  return fmt::format(R"({{"unit":"{}","first":{},"last":{}}})", place.unit, place.first,
                     place.last);
}

}  // namespace longformer
