#include "core/words.h"

#include <algorithm>

namespace longformer {

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
