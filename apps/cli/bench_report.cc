#include "bench_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
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

/// The published size of LED-base.
constexpr const char* kLed = R"({
  "model_type": "led", "attention_window": 1024, "vocab_size": 50265, "d_model": 768,
  "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
  "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
  "activation_function": "gelu", "max_encoder_position_embeddings": 16384,
  "max_decoder_position_embeddings": 1024, "pad_token_id": 1, "bos_token_id": 0,
  "eos_token_id": 2, "decoder_start_token_id": 2
})";

/// A Transformer-XL, whose scores have relative positions.
constexpr const char* kRecurrent = R"({
  "model_type": "longformer-lm", "attention": "recurrent", "vocabulary": "bytes",
  "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
  "intermediate_size": 2048, "segment_length": 512, "memory_length": 512
})";

/// A file with these contents, as long as it lives.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& contents)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("longformer-bench-{}-{}.json", getpid(), name)) {
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

/// The configurations that are reported.
struct ReportConfigs {
  std::string encoder, led, recurrent;

  /// Puts a file in the place of that of its kind.
  void take(const std::string& file) {
    std::ifstream stream(file);
    const auto json = nlohmann::json::parse(stream, nullptr, false);
    if (!json.is_object()) throw Error(file + ": expected a config.json, found something else");
    const std::string type = json.value("model_type", "");
    (type == "led" ? led : type == "longformer-lm" ? recurrent : encoder) = file;
  }
};

/// A row, or those of reading and writing of `bench generate`.
struct ReportRow {
  std::string what;
  std::string dtype;
  std::vector<std::string> arguments;
  bool writes = false;
};

/// Rows equal on every machine, so that tables compare.
std::vector<ReportRow> report_rows(const ReportConfigs& configs) {
  std::vector<ReportRow> rows;
  for (const std::string dtype : {"fp32", "bf16", "int8"}) {
    const bool is_int8 = dtype == "int8";
    const auto add_attention = [&](const std::string& what, std::vector<std::string> arguments) {
      if (is_int8) return;
      for (const std::string pass : {"forward", "backward"}) {
        std::vector<std::string> all = {"bench", "attention", "-n", "4096", "--pass", pass};
        all.insert(all.end(), arguments.begin(), arguments.end());
        rows.push_back({fmt::format("{} {}", what, pass), dtype, std::move(all)});
      }
    };
    add_attention("attention", {"--backend", "fused", "-r", "15"});
    add_attention("attention, one global token,",
                  {"--backend", "fused", "--global-tokens", "1", "-r", "15"});
    add_attention("Performer, 256 features,", {"--pattern", "performer", "-r", "7"});
    for (const std::string n : {"64", "512", "4096"}) {
      rows.push_back({"forward, n " + n,
                      dtype,
                      {"bench", "model", "--config", configs.encoder, "-n", n, "-r", "7"}});
    }
    const auto add_training = [&](const std::string& what, const std::string& config) {
      if (is_int8) return;
      rows.push_back(
          {what, dtype, {"bench", "train", "--config", config, "-n", "4096", "-r", "3"}});
    };
    add_training("training step, n 4096", configs.encoder);
    add_training("training step of a Transformer-XL, n 4096", configs.recurrent);
    rows.push_back({"LED",
                    dtype,
                    {"bench", "generate", "--config", configs.led, "-n", "4096", "-r", "3"},
                    true});
  }
  return rows;
}

void write_row(Output& output, const std::string& what, const std::string& dtype,
               const std::vector<std::string>& cells) {
  output.write(fmt::format("| {} | {} | {} |\n", what, dtype, fmt::join(cells, " | ")));
  output.flush();
}

void report_row(Output& output, const ReportRow& wanted, std::vector<std::string> arguments,
                Messages& messages) {
  arguments.emplace_back("--one-row");
  BenchRow row;
  if (!measure_in_child(arguments, row, messages)) return;
  const BenchResult& result = row.result;
  write_row(output, wanted.what, wanted.dtype,
            {time_text(result.seconds, 1), fmt::format("{:.0f}", result.gflops),
             fmt::format("{:.0f}", result.gemm_gflops), bound_text(result.fraction_of_bound),
             bytes_text(static_cast<double>(result.peak_rss_bytes)),
             fmt::format("{:.2f}", result.memory_over_least())});
}

/// Reading is bound by products, a step by the rate of reading memory.
void report_writing(Output& output, const ReportRow& wanted, std::vector<std::string> arguments,
                    Messages& messages) {
  arguments.emplace_back("--json");
  const std::optional<std::string> line = line_of_child(arguments, messages);
  if (!line) return;
  const auto json = nlohmann::json::parse(*line);
  const auto number = [&](const char* key) { return json.at(key).get<double>(); };
  const std::string peak =
      fmt::format("{} | {:.2f}", bytes_text(number("peak_rss_bytes")), number("memory_over_least"));
  write_row(
      output, wanted.what + " reads 4096 tokens", wanted.dtype,
      {time_text(number("encode_seconds"), 1), fmt::format("{:.0f}", number("encode_gflops")),
       fmt::format("{:.0f}", number("gemm_gflops")), bound_text(number("encode_fraction")), peak});
  write_row(
      output, wanted.what + " writes a token", wanted.dtype,
      {time_text(number("step_seconds"), 1), "–", "–", bound_text(number("step_fraction")), peak});
}

}  // namespace

void report_machine(const std::vector<std::string>& files, std::int64_t threads,
                    Messages& messages) {
  const TemporaryFile base("base", kBase), led("led", kLed), recurrent("recurrent", kRecurrent);
  ReportConfigs configs = {
      .encoder = base.path(), .led = led.path(), .recurrent = recurrent.path()};
  std::string named;
  for (const std::string& file : files) {
    configs.take(file);
    named += " --config " + file;
  }
  const std::time_t now = std::time(nullptr);
  Output output;
  output.write(fmt::format(
      "### {}, {:%Y-%m-%d}\n\n    longformer bench --report{}\n\n"
      "Attention of 12 heads of 64, window 512, n 4096; models of {}; the step is a masked LM's. "
      "The bound of a written token is the rate of reading memory.\n\n| what | dtype | time | "
      "GFLOP/s | GEMM | fraction of the bound | peak memory | of the least "
      "|\n|---|---|---|---|---|---|---|---|\n",
      machine_name(static_cast<int>(threads)), fmt::localtime(now), named,
      named.empty()
          ? "the sizes of Longformer-base and LED-base, a Transformer-XL of 4 layers of 512"
          : "these configurations"));
  output.flush();
  for (const ReportRow& wanted : report_rows(configs)) {
    std::vector<std::string> arguments = wanted.arguments;
    arguments.insert(arguments.end(),
                     {"--dtype", wanted.dtype, "--threads", std::to_string(threads)});
    if (wanted.writes) {
      report_writing(output, wanted, std::move(arguments), messages);
    } else {
      report_row(output, wanted, std::move(arguments), messages);
    }
  }
}

}  // namespace longformer::cli
