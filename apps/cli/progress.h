// A line on stderr that says how far long work is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/report.h"
#include "messages.h"

namespace longformer::cli {

/// A line that tells how far the work is.
inline constexpr double kSecondsBetweenUpdates = 0.2;

/// "12 s", "3:07" or "2:10:00".
std::string duration(double seconds);

/// Columns of the terminal on stderr; 80 where it does not tell.
std::size_t terminal_columns();

/// A part of a line of progress; of little weight where it may be left out first.
struct ProgressPart {
  std::string text;
  int weight = 0;
};

/// The parts that fit beside each other, separated by commas.
std::string joined(std::vector<ProgressPart> parts, std::size_t columns);

/// Writes a line over the one before, cut to the width of the terminal.
void show_line(std::string_view line);

/// Documents, tokens per second and time left; only on a terminal, only for work of more than two
/// seconds, and not where messages are quiet. Time left follows from the bytes read, so nothing is
/// tokenized twice to know it.
class ProgressLine {
 public:
  /// Zero where a total is unknown, as on stdin.
  ProgressLine(const Messages& messages, std::int64_t total_documents, std::int64_t total_bytes);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// The next unit of work: so many documents of so many bytes. Closes the unit before.
  ProgressCallback unit(std::int64_t documents, std::int64_t bytes);
  /// So many documents and bytes of the totals are no work.
  void leave_out(std::int64_t documents, std::int64_t bytes);
  /// Reports work before the first unit.
  void tell(std::string_view line);

 private:
  void show(const Progress& progress);
  bool is_due();
  void print(std::string_view line);

  using Clock = std::chrono::steady_clock;
  std::int64_t total_documents_;
  std::int64_t total_bytes_;
  std::int64_t finished_documents_ = 0;
  std::int64_t finished_bytes_ = 0;
  std::int64_t finished_tokens_ = 0;
  std::int64_t unit_documents_ = 0;
  std::int64_t unit_bytes_ = 0;
  std::int64_t unit_tokens_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool enabled_;
  bool visible_ = false;
};

}  // namespace longformer::cli
