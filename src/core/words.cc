#include "core/words.h"

#include <fmt/format.h>

#include <algorithm>

namespace longformer {

std::string counted(std::int64_t number, std::string_view one, std::string_view many) {
  if (number == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", number, one) : fmt::format("{} {}", number, many);
}

std::string alternatives(std::span<const std::string_view> names) {
  const std::string last(names.back());
  if (names.size() == 1) return last;
  return fmt::format("{} or {}", fmt::join(names.first(names.size() - 1), ", "), last);
}

std::vector<std::string_view> parts_of_list(std::string_view list) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(list.find(','), list.size());
    std::string_view part = list.substr(0, end);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    parts.push_back(part.substr(0, part.find_last_not_of(' ') + 1));
    if (end == list.size()) return parts;
    list.remove_prefix(end + 1);
  }
}

}  // namespace longformer
