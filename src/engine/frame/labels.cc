#include "engine/frame/labels.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/words.h"
#include "engine/frame/data_file.h"
#include "formats/json.h"
#include "text/normalization.h"

namespace longformer::engine {
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

/// The labels in their order, each once.
std::vector<std::string> once_each(std::vector<std::string> labels) {
  std::unordered_set<std::string> seen, forms;
  std::erase_if(labels, [&](const std::string& label) {
    // Most of many labels are known by their bytes.
    return !seen.insert(label).second || !forms.insert(text::composed(label)).second;
  });
  return labels;
}

}  // namespace

std::optional<std::size_t> place_of_label(std::span<const std::string> labels,
                                          std::string_view label) {
  auto found = std::ranges::find(labels, label);
  if (found == labels.end()) {
    found = std::ranges::find_if(
        labels, [&](const std::string& one) { return text::are_equivalent(one, label); });
  }
  if (found == labels.end()) return std::nullopt;
  return static_cast<std::size_t>(found - labels.begin());
}

std::string names_of_one(const std::string& a, const std::string& b) {
  const auto spelt = [](const std::string& name) {
    const std::string ascii = Json(name).dump(-1, ' ', true, Json::error_handler_t::replace);
    const std::string quoted = formats::quote(name);
    return ascii == quoted ? quoted : fmt::format("{} ({})", quoted, ascii);
  };
  return fmt::format("{} and {}", spelt(a), spelt(b));
}

std::string one_class_note(const std::string& path, std::string_view kind, const std::string& a,
                           const std::string& b) {
  return fmt::format("{}: the {} {} are one class", path, kind, names_of_one(a, b));
}

std::optional<std::int64_t> whole_number(std::string_view label) {
  if (const auto number = parsed_number<std::int64_t>(label)) return number;
  constexpr double kMost = 1e15;
  const auto real = finite_number<double>(label);
  const bool is_whole = real && std::abs(*real) < kMost && std::trunc(*real) == *real;
  return is_whole ? std::optional(static_cast<std::int64_t>(*real)) : std::nullopt;
}

LabelSet::LabelSet(std::vector<std::string> names) : names_(std::move(names)) {
  std::set<std::int64_t> repeated;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    index_.emplace(names_[i], static_cast<std::int32_t>(i));
    composed_.emplace(text::composed(names_[i]), static_cast<std::int32_t>(i));
    const auto number = whole_number(names_[i]);
    if (!number) continue;
    if (!whole_.emplace(*number, static_cast<std::int32_t>(i)).second) repeated.insert(*number);
  }
  for (const std::int64_t number : repeated) whole_.erase(number);
}

LabelSet LabelSet::collected(std::vector<std::string> labels) {
  labels = once_each(std::move(labels));
  const bool numbers = std::all_of(labels.begin(), labels.end(), [](const std::string& label) {
    return parsed_number<std::int64_t>(label).has_value();
  });
  std::stable_sort(
      labels.begin(), labels.end(), [numbers](const std::string& a, const std::string& b) {
        return numbers ? parsed_number<std::int64_t>(a) < parsed_number<std::int64_t>(b) : a < b;
      });
  return LabelSet(std::move(labels));
}

std::optional<std::int32_t> LabelSet::named(const std::string& label) const {
  const auto found = index_.find(label);
  if (found != index_.end()) return found->second;
  const auto equivalent = composed_.find(text::composed(label));
  if (equivalent != composed_.end()) return equivalent->second;
  const auto number = whole_number(label);
  if (!number) return std::nullopt;
  const auto same = whole_.find(*number);
  return same == whole_.end() ? std::nullopt : std::optional(same->second);
}

std::optional<std::int32_t> LabelSet::numbered(const std::string& label) const {
  const auto number = whole_number(label);
  const bool is_class =
      number && *number >= 0 && *number < static_cast<std::int64_t>(names_.size());
  return is_class ? std::optional(static_cast<std::int32_t>(*number)) : std::nullopt;
}

std::int32_t LabelSet::index(const std::string& label, LabelKind kind) const {
  const auto found = kind == LabelKind::names ? named(label) : numbered(label);
  if (found) return *found;
  if (kind == LabelKind::numbers) {
    fail({Remedy::new_head}, "expected the number of a class, from 0 to {}, found {}",
         names_.size() - 1, formats::quote(label));
  }
  fail({Remedy::new_head}, "expected a label of {}, found {}", listed(names_),
       formats::quote(label));
}

void LabelKindFinder::add(const std::string& label, const std::string& place) {
  const auto name = labels_.named(label), number = labels_.numbered(label);
  const auto take = [&](std::optional<Seen>& seen) {
    if (!seen) seen = Seen{label, place};
  };
  if (name && number && *name != *number) take(both_);
  if (name && !number) take(name_);
  if (number && !name) take(number_);
}

std::optional<LabelKind> LabelKindFinder::found() const {
  if (name_ && number_) {
    fail({Remedy::new_head},
         "{}: expected labels that are all names of classes ({}) or all numbers of classes (0 to "
         "{}), found {}, which is no name, and at {} {}, which is no number of a class",
         number_->place, listed(labels_.names()), labels_.size() - 1,
         formats::quote(number_->label), name_->place, formats::quote(name_->label));
  }
  if (number_) return LabelKind::numbers;
  return name_ || both_ ? std::optional(LabelKind::names) : std::nullopt;
}

std::optional<LabelKind> LabelKindFinder::decided(std::optional<LabelKind> known, bool has_classes,
                                                  DataReport& report) const {
  if (known) return known;
  // The data name the classes of a new head.
  if (!has_classes) return LabelKind::names;
  if (std::string said = note(); !said.empty()) report.notes.push_back(std::move(said));
  return found();
}

std::string LabelKindFinder::note() const {
  if (number_) {
    const std::string& name =
        labels_.names()[static_cast<std::size_t>(labels_.numbered(number_->label).value())];
    return fmt::format("labels are the numbers of the classes: {} is {}",
                       formats::quote(number_->label), formats::quote(name));
  }
  if (!both_ || name_) return {};
  return fmt::format(
      "labels are the names of the classes, though each is the number of a class "
      "too: {} is the class of this name",
      formats::quote(both_->label));
}

}  // namespace longformer::engine
