#include "bench_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench_rows.h"
#include "longformer/error.h"
#include "output.h"

namespace longformer::cli {
namespace {

/// The published size of Longformer-base, window 512.
constexpr const char* kBase = R"({
  "model_type": "longformer", "attention_window": 512, "vocab_size": 50265,
  "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
  "intermediate_size": 3072, "hidden_act": "gelu", "max_position_embeddings": 4098,
  "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1
})";

/// A file with these contents, as long as it lives.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& contents)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("longformer-bench-{}.json", getpid())) {
    std::ofstream file(path_);
    file << contents;
    if (!file.flush()) throw Error(path_.string() + ": expected to write a configuration");
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct ReportRow {
  std::string what;
  std::string dtype;
  std::vector<std::string> arguments;
};

/// Rows equal on every machine, so that tables compare.
std::vector<ReportRow> report_rows(const std::string& config) {
  std::vector<ReportRow> rows;
  for (const std::string dtype : {"fp32", "bf16"}) {
    for (const std::string pass : {"forward", "backward"}) {
      rows.push_back(
          {"attention " + pass,
           dtype,
           {"bench", "attention", "-n", "4096", "--backend", "fused", "--pass", pass, "-r", "15"}});
    }
    for (const std::string n : {"64", "512", "4096"}) {
      rows.push_back(
          {"forward, n " + n, dtype, {"bench", "model", "--config", config, "-n", n, "-r", "7"}});
    }
    rows.push_back({"training step, n 4096",
                    dtype,
                    {"bench", "train", "--config", config, "-n", "4096", "-r", "3"}});
  }
  return rows;
}

std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.2f} s", seconds);
}

}  // namespace

void report_machine(const std::string& config, std::int64_t threads, Messages& messages) {
  const TemporaryFile base(kBase);
  const std::time_t now = std::time(nullptr);
  Output output;
  output.write(fmt::format(
      "### {}, {:%Y-%m-%d}\n\n    longformer bench --report{}\n\n"
      "Attention of 12 heads of 64, window 512, n 4096; {}; the step is a masked LM's.\n\n| what | "
      "dtype | time | GFLOP/s | GEMM | fraction of the bound | peak memory |\n"
      "|---|---|---|---|---|---|---|\n",
      machine_name(static_cast<int>(threads)), fmt::localtime(now),
      config.empty() ? "" : " --config " + config,
      config.empty() ? "a model of the size of Longformer-base" : "a model of this configuration"));
  output.flush();
  for (const ReportRow& wanted : report_rows(config.empty() ? base.path() : config)) {
    std::vector<std::string> arguments = wanted.arguments;
    arguments.insert(arguments.end(),
                     {"--dtype", wanted.dtype, "--threads", std::to_string(threads), "--one-row"});
    BenchRow row;
    if (!measure_in_child(arguments, row, messages)) continue;
    const BenchResult& result = row.result;
    output.write(fmt::format("| {} | {} | {} | {:.0f} | {:.0f} | {} | {} |\n", wanted.what,
                             wanted.dtype, time_text(result.seconds), result.gflops,
                             result.gemm_gflops, bound_text(result.fraction_of_bound),
                             bytes_text(static_cast<double>(result.peak_rss_bytes))));
    output.flush();
  }
}

}  // namespace longformer::cli
