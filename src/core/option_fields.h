// Lists of options: how structs describe theirs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "longformer/options.h"

namespace longformer {

/// A field whose value is one of an enumeration, or absent, by the names of its values.
template <typename Enum>
OptionField with_names(OptionField field, Enum& value,
                       std::vector<std::pair<std::string, Enum>> names) {
  for (const auto& [name, meant] : names) field.choices.push_back(name);
  const auto read = [&value, names, known = field.choices](const std::string& text) {
    for (const auto& [name, meant] : names) {
      if (name == text) {
        value = meant;
        return;
      }
    }
    fail("expected one of {}, found '{}'", fmt::join(known, ", "), text);
  };
  const auto shown = [&value, names] {
    for (const auto& [name, meant] : names) {
      if (value == meant) return name;
    }
    return std::string();
  };
  field.value = OptionField::Text{read, shown};
  return field;
}

/// Adds one list to another.
void append(OptionFields& fields, OptionFields more);

}  // namespace longformer
