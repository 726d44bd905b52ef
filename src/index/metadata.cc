#include "index/metadata.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/words.h"
#include "longformer/file_patterns.h"
#include "text/normalization.h"
#include "text/unicode.h"

namespace longformer::index {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSecondsOfDay = 86400;

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Takes numbers and signs from the beginning of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool is_done() const { return rest_.empty(); }
  bool take(std::string_view any_of) {
    if (rest_.empty() || any_of.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// So many digits as a number, which is at most `most`.
  std::optional<int> digits(std::size_t count, int most) {
    const std::string_view part = rest_.substr(0, count);
    const bool are_digits = part.size() == count && std::ranges::all_of(part, [](char byte) {
                              return byte >= '0' && byte <= '9';
                            });
    if (!are_digits) return std::nullopt;
    rest_.remove_prefix(count);
    const int value = *parsed_number<int>(part);
    return value <= most ? std::optional(value) : std::nullopt;
  }
  /// The digits behind a point.
  double fraction() {
    double value = 0, place = 0.1;
    while (const auto digit = digits(1, 9)) {
      value += place * *digit;
      place /= 10;
    }
    return value;
  }

 private:
  std::string_view rest_;
};

/// The time of a day, and its zone, from behind the T; absent where it is none.
std::optional<ValueRange> moment_of(Scanner& scanner, double day) {
  const auto hour = scanner.digits(2, 24);
  if (!hour) return std::nullopt;
  double begin = day + 3600.0 * *hour, length = 3600;
  for (const double unit : {60.0, 1.0}) {
    if (!scanner.take(":")) break;
    const auto part = scanner.digits(2, 60);
    if (!part) return std::nullopt;
    begin += unit * *part;
    length = unit;
  }
  if (length == 1 && scanner.take(".,")) {
    begin += scanner.fraction();
    length = 1e-3;
  }
  if (scanner.take("Z")) return ValueRange{ValueKind::date, begin, begin + length};
  for (const auto& [sign, factor] : {std::pair("+", -60.0), std::pair("-", 60.0)}) {
    if (!scanner.take(sign)) continue;
    const auto hours = scanner.digits(2, 24);
    if (!hours) return std::nullopt;
    scanner.take(":");
    begin += factor * (60 * *hours + scanner.digits(2, 59).value_or(0));
  }
  return ValueRange{ValueKind::date, begin, begin + length};
}

/// The day 1 of a month, which may be the 13th of a year, in seconds since 1970.
double first_of(int year, int month) {
  using std::chrono::month_day;
  using std::chrono::sys_days;
  const std::chrono::year_month_day day(std::chrono::year(year + (month - 1) / 12),
                                        std::chrono::month((month - 1) % 12 + 1U),
                                        std::chrono::day(1));
  return kSecondsOfDay * static_cast<double>(sys_days(day).time_since_epoch().count());
}

/// A date of ISO 8601; absent for anything else.
std::optional<ValueRange> date_of(std::string_view text) {
  Scanner scanner(text);
  const auto year = scanner.digits(4, 9999);
  if (!year) return std::nullopt;
  if (scanner.is_done())
    return ValueRange{ValueKind::date, first_of(*year, 1), first_of(*year, 13)};
  if (!scanner.take("-")) return std::nullopt;
  const auto month = scanner.digits(2, 12);
  if (!month || *month == 0) return std::nullopt;
  const double first = first_of(*year, *month), last = first_of(*year, *month + 1);
  if (scanner.is_done()) return ValueRange{ValueKind::date, first, last};
  if (!scanner.take("-")) return std::nullopt;
  const auto number = scanner.digits(2, 31);
  const double day = first + kSecondsOfDay * (number.value_or(0) - 1);
  if (!number || *number == 0 || day >= last) return std::nullopt;
  if (scanner.is_done()) return ValueRange{ValueKind::date, day, day + kSecondsOfDay};
  if (!scanner.take("T ")) return std::nullopt;
  const std::optional<ValueRange> moment = moment_of(scanner, day);
  return scanner.is_done() ? moment : std::nullopt;
}

/// A value with its place on the line of numbers or dates: a year alone is a number.
FieldValue value_of(std::string field, std::string text) {
  FieldValue value = {.field = std::move(field), .text = std::move(text)};
  const std::vector<ValueRange> ranges = ranges_of(value.text);
  if (!ranges.empty()) {
    value.kind = ranges.front().kind;
    value.number = ranges.front().begin;
  }
  return value;
}

std::string scalar_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

void add_values(const std::string& field, const Json& value, std::vector<FieldValue>& values) {
  if (value.is_null()) return;
  if (value.is_object()) {
    for (const auto& [name, one] : value.items()) {
      std::string inner = field;
      if (!inner.empty()) inner += '.';
      add_values(inner + name, one, values);
    }
  } else if (value.is_array()) {
    for (const Json& one : value) add_values(field, one, values);
  } else {
    values.push_back(value_of(field, scalar_text(value)));
  }
}

/// How deep lists and objects of a text stand in each other.
int depth_of(std::string_view json) {
  int depth = 0, deepest = 0;
  bool is_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char byte = json[i];
    if (is_text && byte == '\\') ++i;
    if (byte == '"') is_text = !is_text;
    if (is_text) continue;
    if (byte == '{' || byte == '[') deepest = std::max(deepest, ++depth);
    if (byte == '}' || byte == ']') --depth;
  }
  return deepest;
}

/// Who goes down into values does it by calls.
Json parsed(std::string_view json) {
  constexpr int kMostDepth = 64;
  const bool is_shallow = depth_of(json) <= kMostDepth;
  return is_shallow ? Json::parse(json, nullptr, false) : Json(Json::value_t::discarded);
}

Json object_of(std::string_view metadata) {
  Json object = parsed(metadata);
  require(object.is_object(), "metadata: expected a JSON object, found {}",
          object.is_discarded() ? "no JSON" : object.type_name());
  return object;
}

std::string folded(std::string_view text) {
  const std::vector steps = {text::NormalizationStep(text::NormalizationKind::compose_compatible),
                             text::NormalizationStep(text::NormalizationKind::lowercase)};
  const std::string whole = text::repaired_utf8(text);
  std::string all;
  for (const auto& one : text::normalize(steps, whole, 0, whole.size())) {
    text::append_utf8(one.value, all);
  }
  return all;
}

struct Operator {
  std::string_view sign;
  Comparison comparison;
};

/// Longer ones first.
constexpr std::array<Operator, 8> kOperators = {{{"!=", Comparison::unequal},
                                                 {">=", Comparison::at_least},
                                                 {"<=", Comparison::at_most},
                                                 {"==", Comparison::equal},
                                                 {"=", Comparison::equal},
                                                 {">", Comparison::greater},
                                                 {"<", Comparison::less},
                                                 {"~", Comparison::has_part}}};

[[noreturn]] void refuse(std::string_view expected, std::string_view found) {
  fail(OptionName("filter"), "expected {}, found '{}'", expected, found);
}

constexpr std::string_view kExpected =
    "FIELD=VALUE, FIELD!=VALUE, FIELD>=VALUE, FIELD<=VALUE, FIELD>VALUE, FIELD<VALUE or FIELD~PART";

/// A scalar behind an operator: in quotation marks where it would be read otherwise.
std::string operand_of(const Json& value) {
  if (value.is_array()) return json_text(value);
  const std::string text = scalar_text(value);
  const bool is_plain = trimmed(text) == text && !text.starts_with('"') && !text.starts_with('[') &&
                        !text.starts_with('=');
  return is_plain ? text : json_text(value);
}

}  // namespace

std::vector<ValueRange> ranges_of(std::string_view text) {
  std::vector<ValueRange> ranges;
  if (const auto number = finite_number<double>(text)) {
    ranges.push_back({ValueKind::number, *number,
                      std::nextafter(*number, std::numeric_limits<double>::infinity())});
  }
  if (const auto date = date_of(text)) ranges.push_back(*date);
  return ranges;
}

std::vector<FieldValue> values_of(std::string_view metadata) {
  std::vector<FieldValue> values;
  add_values("", object_of(metadata), values);
  std::erase_if(values, [](const FieldValue& value) { return value.field.empty(); });
  return values;
}

std::string normal_metadata(std::string_view metadata) {
  const Json object = object_of(metadata);
  Json normal = Json::object();
  for (const auto& [name, value] : object.items()) {
    if (!value.is_null()) normal[name] = value;
  }
  return json_text(normal);
}

Condition::Condition(const std::string& expression) {
  const std::size_t place = std::min(expression.find_first_of("!<>=~"), expression.size());
  const std::string_view rest = std::string_view(expression).substr(place);
  const auto* found = std::ranges::find_if(
      kOperators, [&](const Operator& one) { return rest.starts_with(one.sign); });
  field_ = trimmed(std::string_view(expression).substr(0, place));
  if (found == kOperators.end() || field_.empty()) refuse(kExpected, expression);
  comparison_ = found->comparison;
  const std::string_view value = trimmed(rest.substr(found->sign.size()));
  const bool may_be_json = value.starts_with('"') || value.starts_with('[');
  const Json json = may_be_json ? parsed(value) : Json();
  if (json.is_array()) {
    for (const Json& one : json) {
      if (one.is_structured() || one.is_null()) refuse("texts and numbers in a list", expression);
      const std::string text = scalar_text(one);
      operands_.push_back({text, ranges_of(text)});
    }
    if (is_ordering()) refuse("one value behind < and >", expression);
  } else if (json.is_string()) {
    operands_.push_back({json.get<std::string>(), {}});
  } else {
    operands_.push_back({std::string(value), ranges_of(value)});
  }
  if (field_ == kPathField && is_ordering()) refuse("=, != or ~ behind path", expression);
  if (comparison_ == Comparison::has_part) {
    for (Operand& operand : operands_) operand.text = folded(operand.text);
  }
}

bool Condition::is_ordering() const {
  return comparison_ != Comparison::equal && comparison_ != Comparison::unequal &&
         comparison_ != Comparison::has_part;
}

bool Condition::has_part(std::string_view text) const {
  const std::string whole = folded(text);
  return std::ranges::any_of(operands_, [&](const Operand& operand) {
    return whole.find(operand.text) != std::string::npos;
  });
}

bool Condition::matches_path(const std::string& path) const {
  if (comparison_ == Comparison::has_part) return has_part(path);
  return std::ranges::any_of(
      operands_, [&](const Operand& operand) { return longformer::matches(operand.text, path); });
}

std::vector<std::string> expressions_of(std::string_view json) {
  const Json value = parsed(json);
  std::vector<std::string> expressions;
  if (value.is_array()) {
    for (const Json& one : value) {
      if (!one.is_string()) refuse("a list of conditions such as 'year>=2020'", json_text(one));
      expressions.push_back(one.get<std::string>());
    }
    return expressions;
  }
  if (!value.is_object()) {
    refuse("a list of conditions, or an object of fields with their values",
           value.is_discarded() ? std::string(json) : json_text(value));
  }
  for (const auto& [field, wanted] : value.items()) {
    const bool is_plain = field.find_first_of("!<>=~") == std::string::npos;
    if (!is_plain) refuse("a field without an operator in its name", field);
    if (!wanted.is_object()) {
      if (wanted.is_null()) refuse("a value of the field", field + ": null");
      expressions.push_back(field + "=" + operand_of(wanted));
      continue;
    }
    for (const auto& [sign, operand] : wanted.items()) {
      const bool is_known = std::ranges::any_of(
          kOperators, [&sign = sign](const Operator& one) { return one.sign == sign; });
      if (!is_known) refuse("one of =, !=, >=, <=, >, < and ~ for the field " + field, sign);
      if (operand.is_object() || operand.is_null()) {
        refuse("a value of the field " + field, json_text(operand));
      }
      expressions.push_back(field + sign + operand_of(operand));
    }
  }
  return expressions;
}

}  // namespace longformer::index
