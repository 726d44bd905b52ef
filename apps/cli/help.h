// How --help looks: names on the left, wrapped descriptions on the right, examples at the end.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace longformer::cli {

/// Width of the help texts.
inline constexpr std::size_t kColumns = 100;

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  /// In a list of verbs the first line of the description is enough.
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

/// Words in lines of at most `width` columns; `indent` stands before every line. Line breaks of the
/// text count as spaces.
std::string wrapped(const std::string& text, std::size_t width, const std::string& indent);

}  // namespace longformer::cli
