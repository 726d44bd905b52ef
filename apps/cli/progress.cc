#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "output.h"

namespace longformer::cli {

namespace {

constexpr double kQuietSeconds = 2.0;

}  // namespace

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
  // The carriage return lets the next message or update write over the line.
  fmt::print(stderr, "\x1b[K{}\r", line);
  std::fflush(stderr);
}

}  // namespace longformer::cli
