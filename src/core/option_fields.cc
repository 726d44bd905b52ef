#include "core/option_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <variant>

namespace longformer {
namespace {

/// "0.05" and so on: a value as help shows it.
struct Shown {
  template <typename Value>
  std::string operator()(const Value* value) const {
    return fmt::format("{}", *value);
  }
  template <typename Value>
  std::string operator()(const std::optional<Value>* value) const {
    return *value ? fmt::format("{}", **value) : "";
  }
  template <typename Value>
  std::string operator()(const std::vector<Value>* values) const {
    return fmt::format("{}", fmt::join(*values, ","));
  }
  std::string operator()(OptionField::Numbers numbers) const {
    return fmt::format("{}", fmt::join(numbers, ","));
  }
  std::string operator()(const OptionField::Text& text) const { return text.shown(); }
  std::string operator()(const OptionField::Whole& number) const {
    const auto value = number.shown();
    return value ? fmt::format("{}", *value) : "";
  }
  std::string operator()(const OptionField::Flag& flag) const {
    return fmt::format("{}", flag.shown());
  }
};

}  // namespace

std::string help_of(const OptionField& field) {
  const std::size_t place = field.help.find("{}");
  if (place == std::string::npos) return field.help;
  return std::string(field.help).replace(place, 2, std::visit(Shown(), field.value));
}

void append(OptionFields& fields, OptionFields more) {
  std::ranges::move(more, std::back_inserter(fields));
}

OptionFields only(OptionFields fields, const std::vector<std::string>& names) {
  std::erase_if(fields, [&names](const OptionField& field) {
    return std::ranges::find(names, field.name) == names.end();
  });
  return fields;
}

OptionFields without(OptionFields fields, const std::vector<std::string>& names) {
  std::erase_if(fields, [&names](const OptionField& field) {
    return std::ranges::find(names, field.name) != names.end();
  });
  return fields;
}

}  // namespace longformer
