// Rows of a benchmark: each is measured in a process of its own and printed when it is there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longformer/bench.h"
#include "messages.h"
#include "output.h"

namespace longformer::cli {

/// What was measured, and the pattern it was measured with.
struct BenchRow {
  BenchResult result;
  std::int64_t window = 0;
  std::int64_t dilation = 1;
  std::int64_t global = 0;
};

enum class BenchKind { model, attention, train };

/// Prints rows as a table, CSV or JSON lines; the columns of design.md §6.
class BenchTable {
 public:
  /// format: text, csv or json.
  BenchTable(BenchKind kind, const std::string& format) : kind_(kind), format_(format) {}
  void print(const BenchRow& row);

 private:
  void print_header();
  void print_text(const BenchRow& row);

  BenchKind kind_;
  std::string format_;
  bool header_printed_ = false;
  Output output_;
};

/// One row as the child process writes it and its parent reads it.
std::string row_line(const BenchRow& row);

/// Runs this program again with `arguments`, which make it print one row_line, so that peak memory
/// is that of the row alone and a crash costs one row. Reports a failure and returns false; the
/// reason that the child gives goes to stderr.
bool measure_in_child(const std::vector<std::string>& arguments, BenchRow& row, Messages& messages);

/// "512,1024" or "4096-65536*2" as numbers of at least `least`. Throws UsageError that names the
/// option.
std::vector<std::int64_t> number_list(const std::string& option, const std::string& text,
                                      std::int64_t least = 1);

}  // namespace longformer::cli
