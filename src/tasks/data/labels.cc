#include "tasks/data/labels.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/words.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    list += (i == 0 ? "" : ", ") + formats::quote(names[i]);
  }
  if (names.size() > kMost) list += fmt::format(", … ({} labels)", names.size());
  return list;
}

}  // namespace

LabelSet::LabelSet(std::vector<std::string> names) : names_(std::move(names)) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    index_.emplace(names_[i], static_cast<std::int32_t>(i));
  }
}

LabelSet LabelSet::collected(std::vector<std::string> labels) {
  const bool numbers = std::all_of(labels.begin(), labels.end(), [](const std::string& label) {
    return parsed_number<std::int64_t>(label).has_value();
  });
  std::sort(labels.begin(), labels.end(), [numbers](const std::string& a, const std::string& b) {
    return numbers ? parsed_number<std::int64_t>(a) < parsed_number<std::int64_t>(b) : a < b;
  });
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return LabelSet(std::move(labels));
}

std::int32_t LabelSet::index(const std::string& label) const {
  const auto found = index_.find(label);
  if (found != index_.end()) return found->second;
  const auto number = parsed_number<std::int64_t>(label);
  require(number && *number >= 0 && *number < static_cast<std::int64_t>(names_.size()),
          {Remedy::new_head}, "expected a label of {}, found {}", listed(names_),
          formats::quote(label));
  return static_cast<std::int32_t>(*number);
}

}  // namespace longformer::tasks
