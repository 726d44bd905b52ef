// longformer bench search: how fast a question is compared with all passages of an index.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "bench_rows.h"
#include "longformer/analysis.h"
#include "messages.h"
#include "output.h"
#include "verbs.h"

namespace longformer::cli {
namespace {

struct SearchBenchFlags {
  SearchBenchOptions options;
  std::int64_t threads = 0, repeats = 21;
  std::string passages = "1000000";
  BenchOutput output = {};
};

BenchCells cells(const SearchBenchResult& result) {
  return {{"passages", std::to_string(result.options.passages)},
          {"vector_size", std::to_string(result.options.vector_size)},
          {"threads", std::to_string(result.threads)},
          bench_cell("seconds", result.seconds),
          bench_cell("read_bytes_per_second", result.read_bytes_per_second),
          bench_cell("fraction", result.fraction())};
}

std::string text_row(const SearchBenchResult& result) {
  return fmt::format("{:>10} {:>5} {:>8} {:>7.1f} ms {:>8}\n", grouped(result.options.passages),
                     result.options.vector_size, result.threads, 1e3 * result.seconds,
                     bound_text(result.fraction()));
}

void run(const SearchBenchFlags& flags) {
  const std::string format = flags.output.chosen_format();
  const std::unique_ptr<Output> output = flags.output.open();
  SearchBenchOptions options = flags.options;
  options.threads = static_cast<int>(flags.threads);
  options.repeats = static_cast<int>(flags.repeats);
  bool is_first = true;
  for (const std::int64_t passages : number_list("--passages", flags.passages)) {
    options.passages = passages;
    const SearchBenchResult result = bench_search(options);
    if (format == "text" && is_first) {
      output->write(fmt::format("{:>10} {:>5} {:>8} {:>10} {:>8}\n", "passages", "size", "threads",
                                "a question", "of read"));
    }
    if (format == "text") {
      output->write(text_row(result));
    } else {
      write_cells(*output, cells(result), format, is_first);
    }
    output->flush();
    is_first = false;
  }
  output->finish();
}

}  // namespace

void add_search_bench(CLI::App& bench, Action& action) {
  const auto flags = std::make_shared<SearchBenchFlags>();
  CLI::App& verb = add_verb(
      bench, {.name = "search",
              .description = "Time comparing a question with every passage of an index in memory.",
              .details = "\"of read\" is the bytes of the vectors ÷ (time · rate of reading "
                         "memory). The vectors are random.",
              .examples = "longformer bench search --passages 10000,1000000 --size 384"});
  verb.add_option("--passages", flags->passages, "passages of the index (1000000)")
      ->type_name("LIST");
  add_number(verb, "--size", flags->options.vector_size, {.least = 1, .most = 65536},
             "elements of a vector (384)");
  add_number(verb, "--top-k", flags->options.top_k, {.least = 1, .most = 1 << 20},
             "best passages that are taken (10)");
  add_threads(verb, flags->threads);
  add_number(verb, "-r,--repeats", flags->repeats, {.least = 1, .most = 10000},
             "runs, of which the median counts (21)");
  add_bench_output(verb, flags->output);
  verb.callback([flags, &action] {
    number_list("--passages", flags->passages);
    action = [flags](Messages&) { run(*flags); };
  });
}

}  // namespace longformer::cli
