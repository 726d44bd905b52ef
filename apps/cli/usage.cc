#include "usage.h"

#include <algorithm>

#include "advice.h"

namespace longformer::cli {
namespace {

/// An option by the name that the command line has for it.
std::string as_typed(const CLI::Option& option, const std::vector<std::string>& typed) {
  for (const std::string& argument : typed) {
    if (argument == "--") break;
    const std::string word = argument.substr(0, argument.find('='));
    for (const std::string& name : option.get_lnames()) {
      if (normalized(word) == "--" + name) return word;
    }
    for (const std::string& name : option.get_snames()) {
      if (!word.starts_with("--") && word.starts_with("-" + name)) return "-" + name;
    }
  }
  return option.get_name();
}

/// Whether an option holds a value that is right or wrong by itself, not the name of a file.
bool is_value(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return option.count() > 0 && type != "FILE" && type != "FOLDER" && !type.starts_with("PATH");
}

}  // namespace

std::string normalized(std::string argument) {
  if (!argument.starts_with("--")) return argument;
  const auto end =
      argument.begin() + static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size()));
  std::replace(argument.begin(), end, '_', '-');
  return argument;
}

std::string flag_of(const std::string& option) {
  const std::string name = option.substr(option.rfind('.') + 1);
  return name.size() == 1 ? "-" + name : normalized("--" + name);
}

std::string with_typed_option(const UsageError& error, const CLI::App& verb,
                              const std::vector<std::string>& typed) {
  // A short name such as -n stays, as the shorter one.
  const bool is_long = error.option().starts_with("--");
  const CLI::Option* option = is_long ? verb.get_option_no_throw(error.option()) : nullptr;
  return option == nullptr ? error.what() : as_typed(*option, typed) + ": " + error.reason();
}

std::string with_typed_option(const CLI::ParseError& error, const CLI::App& verb,
                              const std::vector<std::string>& typed) {
  const std::string message = error.what();
  const std::size_t end = message.find(": ");
  if (end == std::string::npos) return message;
  return with_typed_option(UsageError(message.substr(0, end), message.substr(end + 2)), verb,
                           typed);
}

std::optional<UsageError> usage_error_of(const Error& error, const CLI::App& verb,
                                         const std::vector<std::string>& typed) {
  if (error.option().empty()) return std::nullopt;
  const CLI::Option* option = verb.get_option_no_throw(flag_of(error.option()));
  if (option == nullptr || !is_value(*option)) return std::nullopt;
  return UsageError(as_typed(*option, typed), advised(error.reason(), error.remedies()));
}

}  // namespace longformer::cli
