#include "messages.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace longformer::cli {

namespace {

void print_line(std::string_view kind, std::string_view message) {
  std::string line(message);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  // A progress line may stand where this message goes.
  const char* clear = isatty(STDERR_FILENO) ? "\x1b[K" : "";
  const std::string text = fmt::format("{}longformer: {}: {}\n", clear, kind, line);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

void print_error(std::string_view message) { print_line("error", message); }

void Messages::error(std::string_view message) {
  print_error(message);
  failed_ = true;
}

void Messages::note(std::string_view message) { print_line("note", message); }

}  // namespace longformer::cli
