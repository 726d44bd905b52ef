#include "help.h"

#include <algorithm>

namespace longformer::cli {

namespace {

constexpr std::size_t kNameColumns = 30;

/// Columns of a piece of UTF-8 where every character takes one: bytes that begin a character.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

HelpFormatter::HelpFormatter() { column_width(kNameColumns); }

std::string HelpFormatter::make_subcommand(const CLI::App* verb) const {
  const std::string text = verb->get_description();
  std::stringstream out;
  CLI::detail::format_help(out, verb->get_name(), text.substr(0, text.find('\n')),
                           get_column_width());
  return out.str();
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const bool takes_value = option->get_type_size() != 0;
  return takes_value && !option->get_type_name().empty() ? " " + option->get_type_name() : "";
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string text = wrapped(option->get_description(), kColumns - kNameColumns, "");
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string wrapped(const std::string& text, std::size_t width, const std::string& indent) {
  std::string result;
  std::string line;
  std::size_t line_columns = 0;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(" \t\r\n", at)) != std::string::npos) {
    const std::size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    const std::size_t word_columns = columns(std::string_view(text).substr(at, end - at));
    if (!line.empty() && line_columns + 1 + word_columns > width) {
      result += indent + line + "\n";
      line.clear();
      line_columns = 0;
    }
    if (!line.empty()) line += ' ';
    line.append(text, at, end - at);
    line_columns += word_columns + 1;
    at = end;
  }
  return line.empty() ? result : result + indent + line + "\n";
}

}  // namespace longformer::cli
