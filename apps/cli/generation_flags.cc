#include "generation_flags.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/error.h"
#include "option_flags.h"
#include "output.h"
#include "usage.h"

namespace longformer::cli {
namespace {

using Ids = std::vector<std::int32_t>;

[[noreturn]] void refuse(const std::string& option, std::string_view expected,
                         std::string_view text) {
  throw UsageError(option, fmt::format("expected {}, found {}", expected, in_quotes(text)));
}

double real(const std::string& option, std::string_view text, const char* expected) {
  const auto value = real_number(text);
  if (!value) refuse(option, expected, text);
  return *value;
}

std::int64_t whole(const std::string& option, std::string_view text, const char* expected) {
  const auto value = whole_number(text);
  if (!value) refuse(option, expected, text);
  return *value;
}

Ids ids_of(const std::string& option, const std::string& text) {
  constexpr const char* kExpected = "token ids such as 5,81";
  Ids ids;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const std::int64_t id = whole(option, part, kExpected);
    if (!std::in_range<std::int32_t>(id)) refuse(option, kExpected, part);
    ids.push_back(static_cast<std::int32_t>(id));
  }
  if (ids.empty()) refuse(option, kExpected, text);
  return ids;
}

/// Adds the flag of one option, by its type.
struct FlagAdder {
  CLI::App& verb;

  template <typename Value>
  void operator()(const char* name, const char* help, std::optional<Value>& option) const {
    add(flag_of(name), option, help);
  }

  /// An option that takes a text and reads it.
  template <typename Read>
  CLI::Option* add_text(const std::string& flag, const std::string& type,
                        const std::string& description, Read read) const {
    return verb
        .add_option_function<std::vector<std::string>>(
            flag,
            [read](const std::vector<std::string>& texts) {
              for (const std::string& text : texts) read(text);
            },
            description)
        ->expected(1)
        ->allow_extra_args(false)
        ->type_name(type);
  }

  void add(const std::string& flag, std::optional<std::int64_t>& to,
           const std::string& description) const {
    add_text(flag, "N", description,
             [flag, &to](const std::string& text) { to = whole(flag, text, "an integer"); });
  }
  void add(const std::string& flag, std::optional<double>& to,
           const std::string& description) const {
    add_text(flag, "X", description,
             [flag, &to](const std::string& text) { to = real(flag, text, "a number"); });
  }
  void add(const std::string& flag, std::optional<bool>& to, const std::string& description) const {
    verb.add_flag_function(
        flag + ",!--no-" + flag.substr(2), [&to](std::int64_t count) { to = count > 0; },
        description);
  }
  void add(const std::string& flag, std::optional<std::string>& to,
           const std::string& description) const {
    verb.add_option_function<std::string>(
            flag, [&to](const std::string& text) { to = text; }, description)
        ->check(CLI::IsMember({"true", "false", "never"}).description(""))
        ->type_name("WHEN");
  }
  void add(const std::string& flag, std::optional<std::vector<std::string>>& to,
           const std::string& description) const {
    repeatable(flag, "TEXT", description, to, [](const std::string& text) { return text; });
  }
  void add(const std::string& flag, std::optional<Ids>& to, const std::string& description) const {
    add_text(flag, "IDS", description,
             [flag, &to](const std::string& text) { to = ids_of(flag, text); });
  }
  void add(const std::string& flag, std::optional<std::vector<Ids>>& to,
           const std::string& description) const {
    repeatable(flag, "IDS", description, to,
               [flag](const std::string& text) { return ids_of(flag, text); });
  }
  void add(const std::string& flag, std::optional<std::vector<SequenceBias>>& to,
           const std::string& description) const {
    repeatable(flag, "IDS=X", description, to, [flag](const std::string& text) {
      const std::size_t sign = text.find('=');
      if (sign == std::string::npos) {
        refuse(flag, "ids and a number such as 5,81=-2.5", text);
      }
      return SequenceBias{ids_of(flag, text.substr(0, sign)),
                          real(flag, text.substr(sign + 1), "a number behind =")};
    });
  }
  void add(const std::string& flag, std::optional<std::pair<std::int64_t, double>>& to,
           const std::string& description) const {
    add_text(flag, "N,F", description, [flag, &to](const std::string& text) {
      const std::vector<std::string> parts = CLI::detail::split(text, ',');
      if (parts.size() != 2) refuse(flag, "N,F", text);
      to = {whole(flag, parts[0], "N,F"), real(flag, parts[1], "N,F")};
    });
  }
  template <typename Item, typename Read>
  void repeatable(const std::string& flag, const std::string& type, const std::string& description,
                  std::optional<std::vector<Item>>& to, Read read) const {
    add_text(flag, type, description, [&to, read](const std::string& text) {
      if (!to) to.emplace();
      to->push_back(read(text));
    })->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
};

/// The value of an option as its flag takes it.
struct Shown {
  static std::string of(bool value) { return value ? "true" : "false"; }
  static std::string of(std::int64_t value) { return std::to_string(value); }
  static std::string of(std::int32_t value) { return std::to_string(value); }
  static std::string of(double value) { return fmt::format("{}", value); }
  static std::string of(const std::string& value) { return value; }
  static std::string of(const Ids& ids) { return fmt::format("{}", fmt::join(ids, ",")); }
  static std::string of(const std::pair<std::int64_t, double>& value) {
    return fmt::format("{},{}", value.first, value.second);
  }
  static std::string of(const SequenceBias& bias) {
    return fmt::format("{}={}", of(bias.ids), bias.bias);
  }
  template <typename Item>
  static std::string of(const std::vector<Item>& items) {
    std::string text;
    for (const Item& item : items) text += (text.empty() ? "" : " ") + of(item);
    return text;
  }
};

}  // namespace

void add_generation_options(CLI::App& verb, GenerationOptions& options) {
  for_each_generation_option(FlagAdder{verb}, options);
}

std::vector<std::pair<std::string, std::string>> described(const GenerationOptions& options) {
  std::vector<std::pair<std::string, std::string>> rows;
  for_each_generation_option(
      [&rows](const char* name, const char*, const auto& option) {
        if (option) rows.emplace_back(name, Shown::of(*option));
      },
      options);
  return rows;
}

void add_writing(CLI::App& verb, WritingFlags& flags) {
  add_fields(verb, fields(flags.request));
  verb.add_flag("--stream", flags.stream,
                "with --json: before the line of a document a line with every new piece of its "
                "text, in \"delta\"");
}

}  // namespace longformer::cli
