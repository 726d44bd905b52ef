#include "tasks/classification/multi_hot.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "formats/json.h"

namespace longformer::tasks {
namespace {

using Documents = std::vector<UnresolvedDocument>;

bool is_of_bits(const UnresolvedDocument& document) {
  return document.list && std::ranges::all_of(document.labels, [](const std::string& label) {
           return bit_of(label).has_value();
         });
}

/// No list of names has one twice.
bool repeats(const UnresolvedDocument& document) {
  const std::set<std::string> once(document.labels.begin(), document.labels.end());
  return once.size() < document.labels.size();
}

/// Rows of two that are all 0 1 or 1 0 could be lists of the classes 0 and 1.
bool is_clear(const Documents& documents, const std::optional<LabelSet>& known) {
  if (std::ranges::any_of(documents, repeats)) return true;
  const auto& first = documents.front().labels;
  if (std::ranges::any_of(documents, [&](const auto& one) { return one.labels != first; })) {
    return true;
  }
  return known && std::ranges::none_of(known->names(),
                                       [](const auto& name) { return bit_of(name).has_value(); });
}

}  // namespace

std::optional<bool> bit_of(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, bool>, 8> kBits = {{{"0", false},
                                                                       {"1", true},
                                                                       {"0.0", false},
                                                                       {"1.0", true},
                                                                       {"false", false},
                                                                       {"true", true},
                                                                       {"False", false},
                                                                       {"True", true}}};
  for (const auto& [name, value] : kBits) {
    if (text == name) return value;
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> listed_labels(const std::string& field) {
  constexpr const char* kBetween = " ,;";
  std::vector<std::string> labels;
  if (field.starts_with('[')) {
    const Json list = Json::parse(field, nullptr, false);
    if (!list.is_array()) return std::nullopt;
    for (const Json& one : list) labels.push_back(scalar_text(one, "label"));
    return labels;
  }
  std::size_t begin = 0;
  while ((begin = field.find_first_not_of(kBetween, begin)) != std::string::npos) {
    const std::size_t end = std::min(field.find_first_of(kBetween, begin), field.size());
    labels.push_back(field.substr(begin, end - begin));
    if (labels.back() != "0" && labels.back() != "1") return std::nullopt;
    begin = end;
  }
  if (labels.size() < 2) return std::nullopt;
  return labels;
}

std::optional<std::vector<std::string>> name_places(Documents& documents,
                                                    const std::optional<LabelSet>& known,
                                                    const std::string& path) {
  if (documents.empty() || !std::ranges::all_of(documents, is_of_bits)) return std::nullopt;
  const std::size_t places = documents.front().labels.size();
  const auto other = std::ranges::find_if(
      documents, [&](const auto& document) { return document.labels.size() != places; });
  if (other != documents.end()) {
    require(std::ranges::none_of(documents, repeats),
            "{}: expected rows of 0 and 1 of one length, a place for each class, or lists of "
            "names, found rows of {} and {}",
            path, places, other->labels.size());
    return std::nullopt;
  }
  const bool is_of_two_known = !known || known->size() == 2;
  if (places < 2 || (places == 2 && !is_of_two_known && !std::ranges::any_of(documents, repeats))) {
    return std::nullopt;
  }
  require(is_clear(documents, known),
          "{}: expected lists of names, or rows of 0 and 1 that differ, found {} alone, which may "
          "be either: name the classes otherwise",
          path, formats::quote(fmt::format("{}", fmt::join(documents.front().labels, " "))));
  std::vector<std::string> names = known ? known->names() : std::vector<std::string>();
  for (std::size_t i = 0; !known && i < places; ++i) names.push_back(fmt::format("LABEL_{}", i));
  require(names.size() == places, {Remedy::new_head},
          "{}: expected rows of {} labels, a place for each of the model, found rows of {}", path,
          names.size(), places);
  for (UnresolvedDocument& document : documents) {
    std::vector<std::string> set;
    for (std::size_t i = 0; i < places; ++i) {
      if (*bit_of(document.labels[i])) set.push_back(names[i]);
    }
    document.labels = std::move(set);
  }
  return names;
}

}  // namespace longformer::tasks
