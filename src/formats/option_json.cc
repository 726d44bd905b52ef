#include "formats/option_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "formats/unused_keys.h"

namespace longformer::formats {
namespace {

using Json = nlohmann::ordered_json;

/// The value of a member as JSON.
struct Written {
  template <typename Value>
  Json operator()(const Value* value) const {
    return *value;
  }
  template <typename Value>
  Json operator()(const std::optional<Value>* value) const {
    return *value ? Json(**value) : Json();
  }
  Json operator()(OptionField::Numbers values) const {
    return std::vector<double>(values.begin(), values.end());
  }
  Json operator()(const OptionField::Text& text) const { return text.shown(); }
  Json operator()(const OptionField::Whole& number) const {
    const auto value = number.shown();
    return value ? Json(*value) : Json();
  }
  Json operator()(const OptionField::Flag& flag) const { return flag.shown(); }
};

/// Fills in a member from JSON.
class Reader {
 public:
  Reader(const Json& json, const std::string& name, const std::string& key)
      : json_(json), name_(name), key_(key) {}

  template <typename Value>
  void operator()(Value* value) const {
    if (!fits(value)) refuse(kind(value));
    *value = json_.get<Value>();
  }
  template <typename Value>
  void operator()(std::optional<Value>* value) const {
    (*this)(&value->emplace());
  }
  void operator()(OptionField::Numbers values) const {
    const bool fits =
        json_.is_array() && json_.size() == values.size() &&
        std::ranges::all_of(json_, [](const Json& one) { return is_finite_number(one); });
    if (!fits) refuse("a list of numbers");
    std::ranges::copy(json_.get<std::vector<double>>(), values.begin());
  }
  void operator()(const OptionField::Text& text) const {
    if (!json_.is_string()) refuse("a string");
    try {
      text.read(json_.get<std::string>());
    } catch (const Error& error) {
      fail("{}{}", where(), error.what());
    }
  }
  void operator()(const OptionField::Whole& number) const {
    std::int64_t value = 0;
    (*this)(&value);
    number.read(value);
  }
  void operator()(const OptionField::Flag& flag) const {
    bool is_raised = false;
    (*this)(&is_raised);
    if (is_raised) flag.raise();
  }

 private:
  bool fits(const bool*) const { return json_.is_boolean(); }
  bool fits(const std::string*) const { return json_.is_string(); }
  bool fits(const double*) const { return is_finite_number(json_); }
  bool fits(const float*) const { return is_finite_number(json_); }
  bool fits(const std::uint64_t*) const { return json_.is_number_unsigned(); }
  bool fits(const std::int64_t*) const {
    return json_.is_number_integer() &&
           (!json_.is_number_unsigned() || std::in_range<std::int64_t>(json_.get<std::uint64_t>()));
  }
  template <typename Value>
  bool fits(const std::vector<Value>*) const {
    const auto fits_one = [this](const Json& one) {
      return Reader(one, name_, key_).fits(static_cast<const Value*>(nullptr));
    };
    return json_.is_array() && std::ranges::all_of(json_, fits_one);
  }

  static const char* kind(const bool*) { return "true or false"; }
  static const char* kind(const std::string*) { return "a string"; }
  static const char* kind(const double*) { return "a number"; }
  static const char* kind(const float*) { return "a number"; }
  static const char* kind(const std::uint64_t*) { return "a whole number"; }
  static const char* kind(const std::int64_t*) { return "a whole number"; }
  static const char* kind(const std::vector<std::string>*) { return "a list of strings"; }
  static const char* kind(const std::vector<std::int64_t>*) { return "a list of whole numbers"; }

  [[noreturn]] void refuse(const char* expected) const {
    fail("{}expected {}, found {}", where(), expected, shown(json_));
  }

  /// Messages begin with it; nothing where the caller says which option it is.
  std::string where() const {
    return name_.empty() ? std::string() : fmt::format("{}: {}: ", name_, key_);
  }

  const Json& json_;
  const std::string& name_;
  const std::string& key_;
};

}  // namespace

Json json_of(const OptionFields& fields) {
  Json object = Json::object();
  for (const OptionField& field : fields) object[field.name] = std::visit(Written(), field.value);
  return object;
}

namespace {

/// Whole numbers without an exponent.
std::string digits(double value) {
  constexpr double kExact = 9007199254740992;
  const bool is_whole = std::abs(value) < kExact && value == std::trunc(value);
  return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:g}", value);
}

double most_of(const OptionField& field) {
  const bool is_whole = std::holds_alternative<std::int64_t*>(field.value) ||
                        std::holds_alternative<std::vector<std::int64_t>*>(field.value) ||
                        std::holds_alternative<std::optional<std::int64_t>*>(field.value) ||
                        std::holds_alternative<OptionField::Whole>(field.value);
  return is_whole ? std::min<double>(field.most, OptionField::kMostWhole) : field.most;
}

void check_bounds(const OptionField& field, double value) {
  const double highest = most_of(field);
  const bool is_within = (field.is_below_most ? value < highest : value <= highest) &&
                         (field.is_above_least ? value > field.least : value >= field.least);
  if (is_within) return;
  const std::string least =
      fmt::format("{}{}", field.is_above_least ? "more than " : "at least ", digits(field.least));
  const std::string most =
      std::isinf(highest) ? ""
                          : fmt::format(" and {} {}", field.is_below_most ? "less than" : "at most",
                                        digits(highest));
  fail(OptionName(field.name), "expected {}{}, found {}", least, most, digits(value));
}

/// The value of one option: its type, its bounds, its names.
void read_option(const OptionField& field, const Json& value) {
  if (!std::holds_alternative<OptionField::Numbers>(field.value)) {
    for (const Json& one : value.is_array() ? value : Json::array({value})) {
      if (one.is_number()) check_bounds(field, one.get<double>());
    }
  }
  const std::string found = value.is_string() ? value.get<std::string>() : "";
  if (value.is_string() && !field.choices.empty() &&
      std::ranges::find(field.choices, found) == field.choices.end()) {
    fail(OptionName(field.name), "expected one of {}, found '{}'", fmt::join(field.choices, ", "),
         found);
  }
  try {
    std::visit(Reader(value, "", field.name), field.value);
  } catch (const Error& error) {
    const std::string reason = error.parts().reason;
    fail(OptionName(field.name), "{}", reason);
  }
}

}  // namespace

void read_options(const OptionFields& fields, const Json& object, const std::string& name) {
  const ConfigReader file(object, name);
  for (const OptionField& field : fields) file.has(field.name);
  refuse_unused_keys(file);
  const auto is_set = [&object](const std::string& key) {
    const auto found = object.find(key);
    return found != object.end() && !found->is_null() && *found != false;
  };
  for (const OptionField& field : fields) {
    for (const std::string& other : field.excludes) {
      require(!is_set(field.name) || !is_set(other),
              "{}: {} and {}: expected one of them, found both", name, other, field.name);
    }
    const auto found = object.find(field.name);
    if (found == object.end() || found->is_null()) continue;
    std::visit(Reader(*found, name, field.name), field.value);
  }
}

}  // namespace longformer::formats

namespace longformer {

void read_options(const OptionFields& fields, const std::string& json) {
  const formats::Json object = formats::parse_json(json, "options");
  for (const OptionField& field : fields) {
    const auto found = object.find(field.name);
    if (found != object.end() && !found->is_null()) formats::read_option(field, *found);
  }
}

}  // namespace longformer
