#include "bench_rows.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "flags.h"
#include "output.h"

extern char** environ;

namespace longformer::cli {

namespace {

/// All that a process tells of its row.
template <typename Row, typename Use>
void each_field(Row& row, const Use& use) {
  auto& result = row.result;
  use("n", result.n);
  use("dtype", result.dtype);
  use("seconds", result.seconds);
  use("seconds_min", result.seconds_min);
  use("seconds_max", result.seconds_max);
  use("tokens_per_second", result.tokens_per_second);
  use("gflops", result.gflops);
  use("gemm_gflops", result.gemm_gflops);
  use("fraction_of_bound", result.fraction_of_bound);
  use("peak_rss_bytes", result.peak_rss_bytes);
  use("least_bytes", result.least_bytes);
  use("head_seconds", result.head_seconds);
  use("predicted_peak_bytes", result.predicted_peak_bytes);
  use("backend", result.backend);
  use("pass", result.pass);
  use("window", row.window);
  use("dilation", row.dilation);
  use("global", row.global);
}

BenchCells cells(BenchKind kind, const BenchRow& row) {
  const BenchResult& result = row.result;
  BenchCells cells;
  cells.emplace_back("n", std::to_string(result.n));
  cells.emplace_back("dtype", result.dtype);
  if (kind == BenchKind::attention) {
    cells.emplace_back("backend", result.backend);
    cells.emplace_back("pass", result.pass);
    cells.emplace_back("window", std::to_string(row.window));
    cells.emplace_back("dilation", std::to_string(row.dilation));
    cells.emplace_back("global", std::to_string(row.global));
  }
  cells.push_back(bench_cell("seconds", result.seconds));
  cells.push_back(bench_cell("tokens_per_second", result.tokens_per_second));
  cells.push_back(bench_cell("gflops", result.gflops));
  cells.push_back(bench_cell("gemm_gflops", result.gemm_gflops));
  cells.push_back(bench_cell("fraction_of_bound", result.fraction_of_bound));
  cells.emplace_back("peak_rss_bytes", std::to_string(result.peak_rss_bytes));
  cells.push_back(bench_cell("memory_over_least", result.memory_over_least()));
  if (kind == BenchKind::model) cells.push_back(bench_cell("head_seconds", result.head_seconds));
  if (kind == BenchKind::train) {
    cells.emplace_back("predicted_peak_bytes", std::to_string(result.predicted_peak_bytes));
  }
  return cells;
}

constexpr std::array<NamedFormat<int>, 4> kBenchFormats = {
    {{".txt", "text", 0}, {".csv", "csv", 0}, {".json", "json", 0}, {".jsonl", "json", 0}}};

bool is_text(const std::string& key) { return key == "dtype" || key == "backend" || key == "pass"; }

/// Reads all that the child writes to the pipe.
std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t size = read(descriptor, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

/// Starts this program with stdout in a pipe; returns its process id and the pipe's end.
std::pair<pid_t, int> start(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"longformer"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  std::array<int, 2> ends = {};
  if (pipe(ends.data()) != 0) {
    throw std::runtime_error(fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  pid_t child = 0;
  const int status =
      posix_spawn(&child, "/proc/self/exe", &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (status != 0) {
    close(ends[0]);
    throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(status)));
  }
  return {child, ends[0]};
}

/// The line of the row. Libraries write on stdout too, such as oneDNN with ONEDNN_VERBOSE; their
/// lines go to stderr.
std::string line_of_row(const std::string& text) {
  std::string row;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('{')) {
      row = std::move(line);
    } else {
      fmt::print(stderr, "{}\n", line);
    }
  }
  return row;
}

BenchRow parse_row(const std::string& line) {
  const auto json = nlohmann::json::parse(line);
  BenchRow row;
  each_field(row, [&json](const char* key, auto& value) { json.at(key).get_to(value); });
  return row;
}

}  // namespace

std::string time_text(double seconds, int digits) {
  if (seconds >= 1) return fmt::format("{:.{}f} s", seconds, digits + 1);
  return seconds >= 1e-3 ? fmt::format("{:.{}f} ms", 1e3 * seconds, digits)
                         : fmt::format("{:.{}f} us", 1e6 * seconds, digits);
}

std::string BenchOutput::chosen_format() const {
  if (!format.empty()) return format;
  const auto* known = format_of_output(file, kBenchFormats);
  if (json) return "json";
  return std::string(known == nullptr ? "text" : known->name);
}

std::unique_ptr<Output> BenchOutput::open() const {
  return file.empty() ? std::make_unique<Output>() : std::make_unique<Output>(file);
}

void add_bench_output(CLI::App& verb, BenchOutput& output) {
  add_output(verb, output.file,
             "write to this file instead of stdout; the form follows from .txt, .csv, .json or "
             ".jsonl");
  CLI::Option* format = add_choice(verb, "--format", output.format, {"text", "csv", "json"},
                                   "text, csv or json; else by the name of --output, else text");
  verb.add_flag("--json", output.json, "print one JSON object per line")->excludes(format);
}

std::pair<std::string, std::string> bench_cell(const std::string& key, double value) {
  return {key, fmt::format("{:.6g}", value)};
}

void write_cells(Output& output, const BenchCells& cells, const std::string& format,
                 bool is_first) {
  std::string keys, values, object;
  for (const auto& [key, value] : cells) {
    const char* quote = is_text(key) ? "\"" : "";
    keys += (keys.empty() ? "" : ",") + key;
    values += (values.empty() ? "" : ",") + value;
    object += fmt::format("{}\"{}\":{}{}{}", object.empty() ? "" : ",", key, quote, value, quote);
  }
  if (format == "json") return output.write_object("{" + object + "}");
  output.write((is_first ? keys + "\n" : "") + values + "\n");
}

void BenchTable::print_text(const BenchRow& row) {
  const BenchResult& result = row.result;
  std::string pattern;
  if (is_first_) {
    if (kind_ == BenchKind::attention) {
      pattern = fmt::format("{:>8} {:>8} {:>6} {:>3} {:>6}  ", "backend", "pass", "window", "dil",
                            "global");
    }
    output_->write(fmt::format(
        "{:>8} {:>5}  {}{:>10} {:>21} {:>10} {:>8} {:>8} {:>6} {:>9} {:>8}\n", "n", "dtype",
        pattern, "time", "min … max", "tokens/s", "GFLOP/s", "GEMM", "bound", "peak", "of least"));
  }
  if (kind_ == BenchKind::attention) {
    pattern = fmt::format("{:>8} {:>8} {:>6} {:>3} {:>6}  ", result.backend, result.pass,
                          row.window, row.dilation, row.global);
  }
  const std::string spread =
      time_text(result.seconds_min, 2) + " … " + time_text(result.seconds_max, 2);
  output_->write(fmt::format(
      "{:>8} {:>5}  {}{:>10} {:>21} {:>10.0f} {:>8.1f} {:>8.1f} {:>6} {:>9} {:>8.2f}\n", result.n,
      result.dtype, pattern, time_text(result.seconds, 2), spread, result.tokens_per_second,
      result.gflops, result.gemm_gflops, bound_text(result.fraction_of_bound, 3),
      bytes_text(static_cast<double>(result.peak_rss_bytes)), result.memory_over_least()));
}

void BenchTable::print(const BenchRow& row) {
  if (format_ == "text") {
    print_text(row);
  } else {
    write_cells(*output_, cells(kind_, row), format_, is_first_);
  }
  is_first_ = false;
  output_->flush();
}

std::string row_line(const BenchRow& row) {
  JsonLine json;
  each_field(row, [&json](const char* key, const auto& value) { json.add(key, value); });
  return json.line();
}

std::optional<std::string> line_of_child(const std::vector<std::string>& arguments,
                                         Messages& messages) {
  const auto [child, descriptor] = start(arguments);
  std::string line = line_of_row(read_all(descriptor));
  close(descriptor);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSuccess) return line;
  if (WIFSIGNALED(status)) {
    messages.error(fmt::format("the process of a row was ended by signal {} ({})", WTERMSIG(status),
                               strsignal(WTERMSIG(status))));
  }
  const bool is_misused = WIFEXITED(status) && WEXITSTATUS(status) == kUsage;
  messages.failed(is_misused ? kUsage : kFailure);
  return std::nullopt;
}

bool measure_in_child(const std::vector<std::string>& arguments, BenchRow& row,
                      Messages& messages) {
  const std::optional<std::string> line = line_of_child(arguments, messages);
  if (line) row = parse_row(*line);
  return line.has_value();
}

std::vector<std::int64_t> number_list(const std::string& option, const std::string& text,
                                      std::int64_t least) {
  const auto fail = [&]() -> std::vector<std::int64_t> {
    throw UsageError(option,
                     fmt::format("expected numbers such as 512,4096 or 4096-65536*2, found {}",
                                 in_quotes(text)));
  };
  const auto number = [](const char*& at, const char* end, std::int64_t& value) {
    const auto [next, status] = std::from_chars(at, end, value);
    at = next;
    return status == std::errc() && value >= 0 && value <= (std::int64_t{1} << 40);
  };
  std::vector<std::int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t first = 0;
    if (!number(at, end, first)) return fail();
    if (first < least) {
      throw UsageError(option, fmt::format("expected at least {}, found {}", least, first));
    }
    numbers.push_back(first);
    if (at != end && *at == '-') {
      std::int64_t last = 0;
      std::int64_t factor = 0;
      if (!number(++at, end, last) || at == end || *at != '*') return fail();
      if (!number(++at, end, factor) || factor < 2 || first < 1) return fail();
      for (std::int64_t next = first * factor; next <= last; next *= factor) {
        numbers.push_back(next);
      }
    }
    if (at == end) return numbers;
    if (*at++ != ',') return fail();
  }
}

}  // namespace longformer::cli
