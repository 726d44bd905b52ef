#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "control_characters.h"
#include "output.h"

namespace longformer::cli {

namespace {

constexpr double kQuietSeconds = 2.0;

/// The first columns of UTF-8 in which every character takes one.
std::string_view cut(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t taken = 0; at < text.size(); ++at) {
    const bool begins_character = (text[at] & 0xC0) != 0x80;
    if (begins_character && taken++ == columns) break;
  }
  return text.substr(0, at);
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::size_t terminal_columns() {
  constexpr std::size_t kUsual = 80;
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

std::string joined(std::vector<ProgressPart> parts, std::size_t columns) {
  const auto join = [&parts] {
    std::string line;
    for (const ProgressPart& part : parts) line += (line.empty() ? "" : ", ") + part.text;
    return line;
  };
  std::string line = join();
  while (parts.size() > 1 && columns_of(line) > columns) {
    parts.erase(std::ranges::min_element(parts, {}, &ProgressPart::weight));
    line = join();
  }
  return line;
}

void show_line(std::string_view line) {
  // A line of full width would be two on some terminals. The carriage return lets the next message
  // or update write over it. A terminal that is gone is no reason to stop.
  const std::string text =
      fmt::format("\x1b[K{}\r", cut(with_visible_controls(line), terminal_columns() - 1));
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

ProgressLine::ProgressLine(const Messages& messages, std::int64_t total_documents,
                           std::int64_t total_bytes)
    : total_documents_(total_documents),
      total_bytes_(total_bytes),
      enabled_(isatty(STDERR_FILENO) == 1 && !messages.is_quiet()) {}

ProgressLine::~ProgressLine() {
  if (visible_) std::fputs("\x1b[K", stderr);
}

ProgressCallback ProgressLine::unit(std::int64_t documents, std::int64_t bytes) {
  finished_documents_ += unit_documents_;
  finished_bytes_ += unit_bytes_;
  finished_tokens_ += unit_tokens_;
  unit_documents_ = documents;
  unit_bytes_ = bytes;
  unit_tokens_ = 0;
  if (!enabled_) return {};
  // Units that turn out to be no work report nothing themselves.
  show({});
  return [this](const Progress& progress) { show(progress); };
}

void ProgressLine::show(const Progress& progress) {
  unit_tokens_ = progress.tokens_done;
  if (!is_due()) return;
  const double elapsed = std::chrono::duration<double>(shown_ - start_).count();
  const std::int64_t documents = finished_documents_ + progress.documents_done;
  // A unit of no documents of its own is all the work, and knows how many there are.
  const std::int64_t total = unit_documents_ > 0 ? total_documents_ : progress.documents_total;
  std::string line = total > 0 ? fmt::format("{} of {}", documents, counted(total, "document"))
                               : counted(documents, "document");
  const auto tokens = static_cast<double>(finished_tokens_ + progress.tokens_done);
  line += fmt::format(", {:.0f} tokens/s", tokens / elapsed);
  if (total_bytes_ > 0 && progress.tokens_total > 0) {
    const double unit_fraction =
        static_cast<double>(progress.tokens_done) / static_cast<double>(progress.tokens_total);
    const double bytes =
        static_cast<double>(finished_bytes_) + unit_fraction * static_cast<double>(unit_bytes_);
    if (bytes > 0) {
      const double left = elapsed * (static_cast<double>(total_bytes_) / bytes - 1);
      line += fmt::format(", {} left", duration(left > 0 ? left : 0));
    }
  }
  print(line);
}

void ProgressLine::leave_out(std::int64_t documents, std::int64_t bytes) {
  const auto reduce = [](std::int64_t& total, std::int64_t by) {
    if (total > 0) total = std::max<std::int64_t>(total - by, 1);
  };
  reduce(total_documents_, documents);
  reduce(total_bytes_, bytes);
}

void ProgressLine::tell(std::string_view line) {
  if (enabled_ && is_due()) print(line);
}

bool ProgressLine::is_due() {
  const auto now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double since_shown = std::chrono::duration<double>(now - shown_).count();
  if (elapsed < kQuietSeconds || since_shown < kSecondsBetweenUpdates) return false;
  shown_ = now;
  return true;
}

void ProgressLine::print(std::string_view line) {
  visible_ = true;
  show_line(line);
}

}  // namespace longformer::cli
