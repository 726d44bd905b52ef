// Rows of a benchmark: each is measured in a process of its own and printed when it is there.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longformer/analysis.h"
#include "messages.h"
#include "output.h"

namespace longformer::cli {

/// Measurement, and the pattern of its attention.
struct BenchRow {
  BenchResult result;
  std::int64_t window = 0;
  std::int64_t dilation = 1;
  std::int64_t global = 0;
};

/// Target and format of the rows of a benchmark.
struct BenchOutput {
  std::string file, format;
  bool json = false;

  /// text, csv or json. Throws UsageError for a file of another name.
  std::string chosen_format() const;
  std::unique_ptr<Output> open() const;
};

/// --output, --format and --json.
void add_bench_output(CLI::App& verb, BenchOutput& output);

/// Seconds with so many digits behind the point and one more, or smaller units with as many.
std::string time_text(double seconds, int digits);

/// Keys and values of a row, in the order of the columns.
using BenchCells = std::vector<std::pair<std::string, std::string>>;
std::pair<std::string, std::string> bench_cell(const std::string& key, double value);
/// Writes a line of CSV, behind one of the keys when `is_first`, or a JSON object.
void write_cells(Output& output, const BenchCells& cells, const std::string& format, bool is_first);

enum class BenchKind { model, attention, train };

/// Prints rows as a table, CSV or JSON lines; the columns of docs/spec/performance.md#p1.
class BenchTable {
 public:
  BenchTable(BenchKind kind, const BenchOutput& output)
      : kind_(kind), format_(output.chosen_format()), output_(output.open()) {}
  void print(const BenchRow& row);
  /// Without a row the file stays what it was.
  void finish() {
    if (!is_first_) output_->finish();
  }

 private:
  void print_text(const BenchRow& row);

  BenchKind kind_;
  std::string format_;
  bool is_first_ = true;
  std::unique_ptr<Output> output_;
};

/// One row as the child process writes it and its parent reads it.
std::string row_line(const BenchRow& row);

/// Runs this program again with `arguments`, which make it print one JSON object, and gives that
/// line: so peak memory is that of the row alone, and a crash costs one row. Reports a failure and
/// gives nothing; the reason that the child gives goes to stderr.
std::optional<std::string> line_of_child(const std::vector<std::string>& arguments,
                                         Messages& messages);

/// line_of_child() for arguments that make it print one row_line. False for a failure.
bool measure_in_child(const std::vector<std::string>& arguments, BenchRow& row, Messages& messages);

/// "512,1024" or "4096-65536*2" as numbers of at least `least`. Throws UsageError that names the
/// option.
std::vector<std::int64_t> number_list(const std::string& option, const std::string& text,
                                      std::int64_t least = 1);

}  // namespace longformer::cli
