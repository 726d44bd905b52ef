#include "messages.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "control_characters.h"

namespace longformer::cli {

namespace {

void print_line(std::string_view kind, std::string_view message) {
  std::string line = shortened(std::string(message));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  if (is_terminal) line = with_visible_controls(line);
  // A progress line may stand where this message goes.
  const char* clear = is_terminal ? "\x1b[K" : "";
  const std::string text = fmt::format("{}longformer: {}: {}\n", clear, kind, line);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

std::string shortened(std::string message) {
  constexpr std::size_t kMost = 1200, kBeginning = 800, kEnd = 300;
  if (message.size() <= kMost) return message;
  const auto is_inside = [&](std::size_t i) {
    return (static_cast<unsigned char>(message[i]) & 0xc0u) == 0x80u;
  };
  std::size_t begin = kBeginning, end = message.size() - kEnd;
  while (is_inside(begin)) --begin;
  while (is_inside(end)) ++end;
  return message.replace(begin, end - begin, " … ");
}

void print_error(std::string_view message) { print_line("error", message); }

void Messages::error(std::string_view message) {
  print_error(message);
  failed();
}

void Messages::note(std::string_view message) {
  if (!quiet_) print_line("note", message);
}

}  // namespace longformer::cli
