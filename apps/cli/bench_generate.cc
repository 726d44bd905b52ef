// longformer bench generate: how fast texts are written.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench_rows.h"
#include "longformer/analysis.h"
#include "longformer/checkpoint.h"
#include "longformer/error.h"
#include "output.h"
#include "verbs.h"

namespace longformer::cli {
namespace {

struct GenerateBenchFlags {
  GenerateBenchOptions options;
  std::int64_t threads = 0, repeats = 3;
  std::string lengths = "4096", beams = "1", documents = "1";
  std::vector<std::string> dtypes = {"fp32"};
  BenchOutput output = {};
};

BenchCells cells(const GenerateBenchResult& result) {
  const GenerateBenchOptions& options = result.options;
  return {{"n", std::to_string(options.n)},
          {"new_tokens", std::to_string(options.new_tokens)},
          {"beams", std::to_string(options.beams)},
          {"documents", std::to_string(options.documents)},
          {"dtype", options.dtype},
          bench_cell("encode_seconds", result.encode_seconds),
          bench_cell("step_seconds", result.step_seconds),
          bench_cell("tokens_per_second", result.tokens_per_second()),
          bench_cell("encode_gflops", result.encode_gflops),
          bench_cell("gemm_gflops", result.gemm_gflops),
          bench_cell("encode_fraction", result.encode_fraction()),
          bench_cell("step_bytes", result.step_bytes),
          bench_cell("read_bytes_per_second", result.read_bytes_per_second),
          bench_cell("step_fraction", result.step_fraction()),
          {"peak_rss_bytes", std::to_string(result.peak_rss_bytes)},
          bench_cell("memory_over_least", result.memory_over_least())};
}

void print_header(Output& output) {
  output.write(fmt::format("{:>7} {:>5} {:>5} {:>5} {:>9} {:>8} {:>9} {:>9} {:>8} {:>9} {:>8}\n",
                           "tokens", "dtype", "beams", "texts", "encode", "of GEMM", "step",
                           "tokens/s", "of read", "peak", "of least"));
}

void print_row(Output& output, const GenerateBenchResult& result) {
  const GenerateBenchOptions& options = result.options;
  output.write(fmt::format(
      "{:>7} {:>5} {:>5} {:>5} {:>7.3f} s {:>8} {:>6.1f} ms {:>9.1f} {:>8} {:>9} {:>8.2f}\n",
      options.n, options.dtype, options.beams, options.documents, result.encode_seconds,
      bound_text(result.encode_fraction()), result.step_seconds * 1e3, result.tokens_per_second(),
      bound_text(result.step_fraction()), bytes_text(static_cast<double>(result.peak_rss_bytes)),
      result.memory_over_least()));
}

void run(const GenerateBenchFlags& flags) {
  const std::string format = flags.output.chosen_format();
  const std::unique_ptr<Output> output = flags.output.open();
  bool is_first = true;
  GenerateBenchOptions options = flags.options;
  options.threads = static_cast<int>(flags.threads);
  options.repeats = static_cast<int>(flags.repeats);
  if (options.config.empty()) options.model = find_model(options.model);
  for (const std::string& dtype : flags.dtypes) {
    for (const std::int64_t n : number_list("-n", flags.lengths)) {
      for (const std::int64_t documents : number_list("--documents", flags.documents)) {
        for (const std::int64_t beams : number_list("--beams", flags.beams)) {
          options.dtype = dtype;
          options.n = n;
          options.documents = documents;
          options.beams = beams;
          const GenerateBenchResult result = bench_generate(options);
          if (format != "text") {
            write_cells(*output, cells(result), format, is_first);
          } else {
            if (is_first) print_header(*output);
            print_row(*output, result);
          }
          output->flush();
          is_first = false;
        }
      }
    }
  }
  output->finish();
}

}  // namespace

void add_generate_bench(CLI::App& bench, Action& action) {
  const auto flags = std::make_shared<GenerateBenchFlags>();
  CLI::App& verb = add_verb(
      bench,
      {.name = "generate",
       .description = "Time reading documents of random tokens and writing texts about them, or "
                      "going on with a text of so many tokens.",
       .details =
           "\"of GEMM\" is the useful work of reading ÷ (time · GEMM rate); \"of read\" is what a "
           "step must read, weights and keys and values, ÷ (time · rate of reading memory). "
           "Rows share a process: peak memory is the largest so far.",
       .examples = "longformer bench generate LED -n 4096 --beams 1,4\n"
                   "longformer bench generate --config bench/led_base.json -n 4096,16384 "
                   "--documents 1,8 --dtype fp32,bf16,int8 -o rows.csv\n"
                   "longformer bench generate --config "
                   "examples/language-models/tiny-performer.json -n 100,100000"});
  CLI::Option* model = verb.add_option("MODEL", flags->options.model,
                                       "folder of a model with a decoder, or a language model, or "
                                       "org/name[@revision] of the Hub")
                           ->type_name("");
  verb.add_option("--config", flags->options.config, "a config.json alone, with random weights")
      ->type_name("FILE")
      ->excludes(model);
  verb.add_option("-n,--length", flags->lengths, "tokens of a document (4096)")->type_name("LIST");
  add_number(verb, "-t,--new-tokens", flags->options.new_tokens, {.least = 4},
             "tokens of a text (32)");
  verb.add_option("--beams", flags->beams, "1 is greedy (1)")->type_name("LIST");
  verb.add_option("--documents", flags->documents, "how many are written together (1)")
      ->type_name("LIST");
  add_choices(verb, "--dtype", flags->dtypes, {"fp32", "bf16", "int8"},
              "one or more of fp32, bf16, int8 (fp32)");
  add_threads(verb, flags->threads);
  add_number(verb, "-r,--repeats", flags->repeats, {.least = 1, .most = 10000},
             "runs, of which medians count (3)");
  add_bench_output(verb, flags->output);
  verb.callback([flags, &action] {
    if (flags->options.model.empty() && flags->options.config.empty()) {
      throw UsageError("bench generate: name a MODEL folder or give --config FILE");
    }
    action = [flags](Messages&) { run(*flags); };
  });
}

}  // namespace longformer::cli
