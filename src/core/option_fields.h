// Lists of options: how structs describe theirs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "longformer/options.h"

namespace longformer {

/// An enumeration as the names of its values.
template <typename Enum>
OptionField::Text named_choice(Enum& value, std::vector<std::pair<std::string, Enum>> names) {
  const auto read = [&value, names](const std::string& text) {
    std::vector<std::string> known;
    for (const auto& [name, meant] : names) {
      if (name == text) {
        value = meant;
        return;
      }
      known.push_back(name);
    }
    fail("expected one of {}, found '{}'", fmt::join(known, ", "), text);
  };
  const auto shown = [&value, names] {
    for (const auto& [name, meant] : names) {
      if (value == Enum(meant)) return name;
    }
    return std::string();
  };
  return {.read = read, .shown = shown};
}

/// Adds one list to another.
void append(OptionFields& fields, OptionFields more);
/// A list without the options of these names.
OptionFields without(OptionFields fields, const std::vector<std::string_view>& names);

}  // namespace longformer
