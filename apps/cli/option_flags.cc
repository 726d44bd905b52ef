#include "option_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "flags.h"
#include "longformer/error.h"
#include "output.h"
#include "usage.h"

namespace longformer::cli {
namespace {

/// A real number within the bounds of a field.
CLI::Validator real_within(const OptionField& field) {
  if (field.is_above_least) return share_above_0(field.is_below_most);
  if (std::isinf(field.least)) return finite_number();
  return number_up_to(field.most, field.is_below_most);
}

/// Four numbers as "1,1,1,1".
std::string read_numbers(const std::string& text, OptionField::Numbers numbers) {
  constexpr std::array<std::string_view, 6> kWords = {"no", "one", "two", "three", "four", "five"};
  const std::vector<std::string> parts = CLI::detail::split(text, ',');
  std::vector<double> found;
  for (const std::string& part : parts) {
    const auto number = real_number(part);
    if (number && *number >= 0) found.push_back(*number);
  }
  if (found.size() != numbers.size() || parts.size() != numbers.size()) {
    const std::vector<int> ones(numbers.size(), 1);
    return fmt::format("expected {} numbers of at least 0, as in {}, found {}",
                       kWords.at(numbers.size()), fmt::join(ones, ","), in_quotes(text));
  }
  std::ranges::copy(found, numbers.begin());
  return "";
}

/// Adds the flag of one field, by the type of its value.
class FlagOf {
 public:
  FlagOf(CLI::App& verb, const OptionField& field)
      : verb_(verb),
        field_(field),
        name_((field.letter.empty() ? "" : "-" + field.letter + ",") + flag_of(field.name)),
        help_(help_of(field)) {}

  CLI::Option* operator()(bool* value) const {
    if (!field_.is_contrary) return verb_.add_flag(name_, *value, help_);
    return verb_.add_flag_callback(
        name_, [value] { *value = false; }, help_);
  }
  CLI::Option* operator()(std::optional<bool>* value) const {
    if (field_.type.empty()) {
      CLI::Option* option = verb_.add_flag_callback(
          name_, [value] { *value = true; }, help_);
      CLI::Option* contrary = verb_.add_flag_callback(
          "--no-" + name_.substr(2), [value] { *value = false; }, "the contrary of " + name_);
      contrary->excludes(option);
      if (!field_.group.empty()) contrary->group(field_.group);
      return option;
    }
    return verb_.add_option_function<bool>(
        name_, [value](const bool& given) { *value = given; }, help_);
  }
  CLI::Option* operator()(std::int64_t* value) const {
    return add_number(verb_, name_, *value, range(), help_);
  }
  CLI::Option* operator()(std::optional<std::int64_t>* value) const {
    return add_number(verb_, name_, *value, range(), help_);
  }
  CLI::Option* operator()(std::uint64_t* value) const {
    return not_negative(verb_.add_option_function<std::uint64_t>(
        name_, [value](const std::uint64_t& given) { *value = given; }, help_));
  }
  CLI::Option* operator()(double* value) const { return real(*value); }
  CLI::Option* operator()(float* value) const { return real(*value); }
  CLI::Option* operator()(std::optional<double>* value) const { return real(*value); }
  CLI::Option* operator()(std::string* value) const { return text(*value); }
  CLI::Option* operator()(std::optional<std::string>* value) const { return text(*value); }
  CLI::Option* operator()(std::vector<std::string>* values) const {
    if (field_.is_repeated) return add_repeatable(verb_, name_, *values, help_);
    return verb_.add_option(name_, *values, help_)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("LIST");
  }
  CLI::Option* operator()(std::vector<std::int64_t>* values) const {
    CLI::Option* option = verb_.add_option(name_, *values, help_);
    return limited(option->delimiter(','), range());
  }
  CLI::Option* operator()(OptionField::Numbers numbers) const {
    return read_text([numbers](const std::string& text) { return read_numbers(text, numbers); });
  }
  CLI::Option* operator()(const OptionField::Text& text) const {
    return read_text([read = text.read](const std::string& given) -> std::string {
      try {
        read(given);
        return "";
      } catch (const Error& error) {
        return error.what();
      }
    });
  }
  CLI::Option* operator()(const OptionField::Whole& number) const {
    const auto read = [read = number.read](const std::int64_t& given) { read(given); };
    return limited(verb_.add_option_function<std::int64_t>(name_, read, help_), range());
  }
  CLI::Option* operator()(const OptionField::Flag& flag) const {
    return verb_.add_flag_callback(name_, flag.raise, help_);
  }

 private:
  Range range() const {
    const bool is_bounded = std::isfinite(field_.most);
    return {.least = static_cast<std::int64_t>(field_.least),
            .most = is_bounded ? static_cast<std::int64_t>(field_.most) : OptionField::kMostWhole};
  }
  template <typename Value>
  CLI::Option* real(Value& value) const {
    return verb_.add_option(name_, value, help_)->check(real_within(field_))->type_name("NUMBER");
  }
  template <typename Value>
  CLI::Option* text(Value& value) const {
    CLI::Option* option = verb_.add_option(name_, value, help_)->type_name("NAME");
    return field_.choices.empty() ? option : option->check(one_of(field_.choices));
  }
  /// `read` fills in the value, and says what was wrong.
  template <typename Read>
  CLI::Option* read_text(Read read) const {
    const auto given = [read](const std::string& text) { read(text); };
    CLI::Option* option = verb_.add_option_function<std::string>(name_, given, help_);
    return option->check(field_.choices.empty() ? CLI::Validator(read, "") : one_of(field_.choices))
        ->type_name("NAME");
  }

  CLI::App& verb_;
  const OptionField& field_;
  std::string name_, help_;
};

}  // namespace

void add_fields(CLI::App& verb, const OptionFields& fields) {
  for (const OptionField& field : fields) {
    CLI::Option* option = std::visit(FlagOf(verb, field), field.value);
    if (!field.type.empty()) option->type_name(field.type);
    if (!field.group.empty()) option->group(field.group);
    for (const std::string& other : field.excludes) {
      option->excludes(verb.get_option(flag_of(other)));
    }
    if (field.shorthand.empty()) continue;
    std::string* value = std::get<std::string*>(field.value);
    CLI::Option* flag = verb.add_flag_callback(
        flag_of(field.shorthand), [value, text = field.shorthand] { *value = text; },
        fmt::format("{} {}", flag_of(field.name), field.shorthand));
    if (!field.group.empty()) flag->group(field.group);
  }
}

}  // namespace longformer::cli
