// longformer bench: how fast a model or one layer of attention is on this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "bench_report.h"
#include "bench_rows.h"
#include "longformer/analysis.h"
#include "longformer/checkpoint.h"
#include "longformer/error.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct CommonFlags {
  std::string lengths = "512,4096";
  std::vector<std::string> dtypes = {"fp32"};
  std::int64_t threads = 0;
  std::int64_t repeats = 5;
  BenchOutput output = {};
  /// This process is the child that measures a single row.
  bool one_row = false;
};

struct ModelBenchFlags {
  CommonFlags common;
  std::string model;
  std::string config;
  std::string globals = "0";
};

struct TrainBenchFlags {
  CommonFlags common = {.lengths = "4096", .repeats = 3};
  std::string model;
  std::string config;
  std::int64_t text_tokens = TrainBenchOptions().text_tokens;
  bool gradient_checkpointing = false;
  std::string optim = TrainBenchOptions().optim;
  std::int64_t lora_rank = 0;
};

struct AttentionBenchFlags {
  CommonFlags common;
  std::int64_t heads = 12;
  std::int64_t head_size = 64;
  std::string windows = "512";
  std::string dilations = "1";
  std::string globals = "0";
  bool causal = false;
  std::string pattern = "band";
  std::int64_t rows = AttentionBenchOptions().rows;
  std::int64_t features = AttentionBenchOptions().features;
  std::vector<std::string> backends = {"loop", "chunks", "fused", "full"};
  std::vector<std::string> passes = {"forward"};
};

constexpr const char* kBound =
    "The bound is the time that the useful operations would take at the rate of this machine's "
    "matrix multiplication, which the column GEMM has in GFLOP/s; 0.14 of the bound is seven times "
    "slower than that, and ≥ 1 says that part of the weights stays in cache.";

std::vector<std::string> common_arguments(const CommonFlags& flags, std::int64_t n,
                                          const std::string& dtype) {
  return {"-n",        std::to_string(n),
          "--dtype",   dtype,
          "--threads", std::to_string(flags.threads),
          "--repeats", std::to_string(flags.repeats),
          "--one-row"};
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void measure_model(const ModelBenchFlags& flags) {
  const LoadOptions load = {.dtype = flags.common.dtypes.at(0),
                            .threads = static_cast<int>(flags.common.threads)};
  const Model model = flags.config.empty() ? Model::load(find_model(flags.model), load)
                                           : Model::random(flags.config, load);
  ModelBenchOptions options;
  options.n = number_list("-n", flags.common.lengths).at(0);
  options.dtype = load.dtype;
  options.threads = load.threads;
  options.repeats = static_cast<int>(flags.common.repeats);
  options.global_tokens = number_list("--global-tokens", flags.globals, 0).at(0);
  BenchRow row;
  row.result = bench_model(model, options);
  row.global = options.global_tokens;
  Output().write(row_line(row));
}

void run_model(const ModelBenchFlags& flags, Messages& messages) {
  if (flags.common.one_row) {
    measure_model(flags);
    return;
  }
  BenchTable table(BenchKind::model, flags.common.output);
  for (const std::int64_t global : number_list("--global-tokens", flags.globals, 0)) {
    for (const std::string& dtype : flags.common.dtypes) {
      for (const std::int64_t n : number_list("-n", flags.common.lengths)) {
        std::vector<std::string> arguments = {"bench", "model"};
        append(arguments, common_arguments(flags.common, n, dtype));
        append(arguments, {"--global-tokens", std::to_string(global)});
        append(arguments, flags.config.empty()
                              ? std::vector<std::string>{"--", flags.model}
                              : std::vector<std::string>{"--config", flags.config});
        BenchRow row;
        if (measure_in_child(arguments, row, messages)) table.print(row);
      }
    }
  }
  table.finish();
}

void measure_training(const TrainBenchFlags& flags) {
  TrainBenchOptions options;
  options.model = flags.config.empty() ? find_model(flags.model) : "";
  options.config = flags.config;
  options.n = number_list("-n", flags.common.lengths).at(0);
  options.dtype = flags.common.dtypes.at(0);
  options.threads = static_cast<int>(flags.common.threads);
  options.repeats = static_cast<int>(flags.common.repeats);
  options.gradient_checkpointing = flags.gradient_checkpointing;
  options.text_tokens = flags.text_tokens;
  options.optim = flags.optim;
  options.lora_rank = flags.lora_rank;
  BenchRow row;
  row.result = bench_train(options);
  Output().write(row_line(row));
}

void run_training(const TrainBenchFlags& flags, Messages& messages) {
  if (flags.common.one_row) {
    measure_training(flags);
    return;
  }
  BenchTable table(BenchKind::train, flags.common.output);
  for (const std::string& dtype : flags.common.dtypes) {
    for (const std::int64_t n : number_list("-n", flags.common.lengths)) {
      std::vector<std::string> arguments = {"bench", "train"};
      append(arguments, common_arguments(flags.common, n, dtype));
      if (flags.gradient_checkpointing) arguments.push_back("--gradient-checkpointing");
      append(arguments, {"--text-tokens", std::to_string(flags.text_tokens)});
      append(arguments, {"--optim", flags.optim});
      if (flags.lora_rank > 0) append(arguments, {"--lora-rank", std::to_string(flags.lora_rank)});
      append(arguments, flags.config.empty() ? std::vector<std::string>{"--", flags.model}
                                             : std::vector<std::string>{"--config", flags.config});
      BenchRow row;
      if (measure_in_child(arguments, row, messages)) table.print(row);
    }
  }
  table.finish();
}

void measure_attention(const AttentionBenchFlags& flags) {
  AttentionBenchOptions options;
  options.n = number_list("-n", flags.common.lengths).at(0);
  options.heads = flags.heads;
  options.head_size = flags.head_size;
  options.window = number_list("--window", flags.windows, 0).at(0);
  options.dilation = number_list("--dilation", flags.dilations).at(0);
  options.global_tokens = number_list("--global-tokens", flags.globals, 0).at(0);
  options.causal = flags.causal;
  options.backend = flags.backends.at(0);
  options.dtype = flags.common.dtypes.at(0);
  options.threads = static_cast<int>(flags.common.threads);
  options.repeats = static_cast<int>(flags.common.repeats);
  options.pass = flags.passes.at(0);
  options.pattern = flags.pattern;
  options.rows = flags.rows;
  options.features = flags.features;
  BenchRow row;
  row.result = bench_attention(options);
  row.window = flags.pattern == "linformer"   ? options.rows
               : flags.pattern == "performer" ? options.features
                                              : options.window;
  row.dilation = options.dilation;
  row.global = options.global_tokens;
  Output().write(row_line(row));
}

/// The arguments of every combination that the lists ask for, longest documents last.
std::vector<std::vector<std::string>> combinations(const AttentionBenchFlags& flags) {
  std::vector<std::vector<std::string>> all = {{"bench", "attention"}};
  const auto times = [&all](const std::vector<std::vector<std::string>>& choices) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& left : all) {
      for (const auto& choice : choices) {
        longer.push_back(left);
        append(longer.back(), choice);
      }
    }
    all = std::move(longer);
  };
  const auto numbers = [&times](const std::string& name, const std::string& list,
                                std::int64_t least) {
    std::vector<std::vector<std::string>> choices;
    for (const std::int64_t value : number_list(name, list, least)) {
      choices.push_back({name, std::to_string(value)});
    }
    times(choices);
  };
  const auto words = [&times](const std::string& name, const std::vector<std::string>& list) {
    std::vector<std::vector<std::string>> choices;
    for (const std::string& word : list) choices.push_back({name, word});
    times(choices);
  };
  numbers("--global-tokens", flags.globals, 0);
  numbers("--dilation", flags.dilations, 1);
  numbers("--window", flags.windows, 0);
  words("--pass", flags.passes);
  std::vector<std::vector<std::string>> lengths_and_dtypes;
  for (const std::string& dtype : flags.common.dtypes) {
    for (const std::int64_t n : number_list("-n", flags.common.lengths)) {
      lengths_and_dtypes.push_back(common_arguments(flags.common, n, dtype));
    }
  }
  times(lengths_and_dtypes);
  const std::vector<std::string> fused = {"fused"};
  words("--backend", flags.pattern == "band" ? flags.backends : fused);
  return all;
}

void run_attention(const AttentionBenchFlags& flags, Messages& messages) {
  if (flags.pattern != "band" && flags.backends != AttentionBenchFlags().backends &&
      !flags.common.one_row) {
    throw UsageError("--backend", "expected none beside --pattern " + flags.pattern +
                                      ", which has one way of its own");
  }
  if (flags.common.one_row) {
    measure_attention(flags);
    return;
  }
  BenchTable table(BenchKind::attention, flags.common.output);
  for (std::vector<std::string>& arguments : combinations(flags)) {
    append(arguments, {"--heads", std::to_string(flags.heads)});
    append(arguments, {"--head-size", std::to_string(flags.head_size)});
    append(arguments, {"--pattern", flags.pattern, "--rows", std::to_string(flags.rows)});
    append(arguments, {"--features", std::to_string(flags.features)});
    if (flags.causal) arguments.push_back("--causal");
    BenchRow row;
    if (measure_in_child(arguments, row, messages)) table.print(row);
  }
  table.finish();
}

void add_common(CLI::App& verb, CommonFlags& flags,
                const std::vector<std::string>& dtypes = {"fp32", "bf16"}) {
  verb.add_option(
          "-n,--length", flags.lengths,
          fmt::format("tokens of the document: 512,4096 or 4096-65536*2 ({})", flags.lengths))
      ->type_name("LIST");
  add_choices(verb, "--dtype", flags.dtypes, dtypes,
              fmt::format("one or more of {} (fp32)", fmt::join(dtypes, ", ")));
  add_threads(verb, flags.threads);
  add_number(verb, "-r,--repeats", flags.repeats, {.least = 1, .most = 100000},
             fmt::format("runs, of which the median counts ({})", flags.repeats));
  add_bench_output(verb, flags.output);
  verb.add_flag("--one-row", flags.one_row)->group("");
}

void add_model_bench(CLI::App& bench, Action& action) {
  const auto flags = std::make_shared<ModelBenchFlags>();
  CLI::App& verb = add_verb(
      bench,
      {.name = "model",
       .description = "Time forward passes of one document of random tokens.",
       .details = std::string("Each row is measured in a process of its own, so peak memory is its "
                              "own too. ") +
                  kBound,
       .examples = "longformer bench model MODEL -n 512,4096 --dtype fp32,bf16\n"
                   "longformer bench model --config config.json -n 4096-65536*2 -o rows.jsonl"});
  CLI::Option* model =
      verb.add_option("MODEL", flags->model, "checkpoint folder, or org/name[@revision] of the Hub")
          ->type_name("");
  CLI::Option* config =
      verb.add_option("--config", flags->config, "a config.json alone, with random weights")
          ->type_name("FILE");
  config->excludes(model);
  verb.add_option("--global-tokens", flags->globals,
                  "tokens with global attention, at the start; one number or a list (0)")
      ->type_name("LIST");
  add_common(verb, flags->common, {"fp32", "bf16", "int8"});
  verb.callback([flags, &action] {
    if (flags->model.empty() && flags->config.empty()) {
      throw UsageError("bench model: name a MODEL folder or give --config FILE");
    }
    action = [flags](Messages& messages) { run_model(*flags, messages); };
  });
}

void add_train_bench(CLI::App& bench, Action& action) {
  const auto flags = std::make_shared<TrainBenchFlags>();
  CLI::App& verb = add_verb(
      bench,
      {.name = "train",
       .description = "Time training steps of one document of random tokens.",
       .details =
           "A masked LM guesses 15 % of the tokens, a model with a decoder learns a text, a "
           "character LM "
           "predicts each character. The bound is that of three forward passes. JSON and CSV also "
           "have the peak memory "
           "that the plan predicts.",
       .examples = "longformer bench train MODEL -n 4096\n"
                   "longformer bench train --config config.json -n 512-32768*2 --dtype fp32,bf16 "
                   "--gradient-checkpointing -o rows.csv\n"
                   "longformer bench train --config examples/language-models/small.json -n 2048"});
  CLI::Option* model =
      verb.add_option("MODEL", flags->model, "checkpoint folder, or org/name[@revision] of the Hub")
          ->type_name("");
  verb.add_option("--config", flags->config, "a config.json alone, with random weights")
      ->type_name("FILE")
      ->excludes(model);
  add_number(verb, "--text-tokens", flags->text_tokens, {.least = 1},
             "models with a decoder: tokens of the text that is learned (256)");
  verb.add_flag("--gradient-checkpointing", flags->gradient_checkpointing,
                "compute layers again in the backward pass instead of keeping them");
  add_choice(verb, "--optim", flags->optim, {"adamw", "adafactor"}, "adamw or adafactor (adamw)");
  add_number(verb, "--lora-rank", flags->lora_rank, {.least = 1, .most = 1 << 16},
             "train a LoRA adapter of this rank and the head alone, of a MODEL (none)");
  add_common(verb, flags->common);
  verb.callback([flags, &action] {
    if (flags->model.empty() && flags->config.empty()) {
      throw UsageError("bench train: name a MODEL folder or give --config FILE");
    }
    action = [flags](Messages& messages) { run_training(*flags, messages); };
  });
}

void add_attention_bench(CLI::App& bench, Action& action) {
  const auto flags = std::make_shared<AttentionBenchFlags>();
  CLI::App& verb = add_verb(
      bench, {.name = "attention",
              .description = "Time one layer of attention: the Longformer paper's Figure 1.",
              .details = "full is n² attention with the band as a mask. A Linformer's layer begins "
                         "with the rows that stand for all, a Performer's with queries, keys and "
                         "values; their number of rows or features stands in the column window.",
              .examples = "longformer bench attention -n 1024-16384*2\n"
                          "longformer bench attention -n 4096 --backend fused --dilation 1,4 "
                          "--dtype fp32,bf16 -o rows.csv\n"
                          "longformer bench attention -n 4096 --backend fused --pass "
                          "forward,backward\n"
                          "longformer bench attention -n 4096,65536 --pattern performer"});
  add_common(verb, flags->common);
  add_number(verb, "--heads", flags->heads, {.least = 1, .most = 4096}, "heads (12)");
  add_number(verb, "--head-size", flags->head_size, {.least = 1, .most = 4096},
             "size of a head (64)");
  add_choice(verb, "--pattern", flags->pattern, {"band", "linformer", "performer"},
             "attention pattern (band)");
  add_number(verb, "--rows", flags->rows, {.least = 1, .most = 1 << 24},
             "linformer: rows that stand for all tokens (256)");
  add_number(verb, "--features", flags->features, {.least = 1, .most = 1 << 16},
             "performer: random features (256)");
  verb.add_option("--window", flags->windows,
                  "tokens that a token sees, half on each side; with --causal all before it (512)")
      ->type_name("LIST");
  verb.add_option("--dilation", flags->dilations, "distance of neighbouring keys (1)")
      ->type_name("LIST");
  verb.add_option("--global-tokens,--global", flags->globals, "tokens with global attention (0)")
      ->type_name("LIST");
  verb.add_flag("--causal", flags->causal, "see no later token");
  add_choices(verb, "--backend", flags->backends, {"loop", "chunks", "fused", "full", "opencl"},
              "loop, chunks, fused, full, opencl (all but opencl)");
  add_choices(verb, "--pass", flags->passes, {"forward", "backward"},
              "forward, backward; backward is that of fused and of opencl (forward)");
  verb.callback([flags, &action] {
    action = [flags](Messages& messages) { run_attention(*flags, messages); };
  });
}

}  // namespace

void add_bench(CLI::App& program, Action& action) {
  CLI::App& verb = add_verb(
      program, {.name = "bench",
                .description = "Measure time, rate, peak memory and the fraction of the bound.",
                .details = kBound,
                .examples = "longformer bench model MODEL -n 512,4096 --dtype fp32,bf16\n"
                            "longformer bench attention -n 1024-16384*2\n"
                            "longformer bench --report > table.md"});
  add_model_bench(verb, action);
  add_attention_bench(verb, action);
  add_train_bench(verb, action);
  add_generate_bench(verb, action);
  add_search_bench(verb, action);
  const auto report = std::make_shared<bool>(false);
  const auto threads = std::make_shared<std::int64_t>(0);
  verb.add_flag(
      "--report", *report,
      "measure attention, forward passes, training steps and writing, and print the table for "
      "docs/benchmarks.md with the name of the CPU");
  const auto configs = std::make_shared<std::vector<std::string>>();
  add_repeatable(verb, "--config", *configs,
                 "of --report: a config.json in place of Longformer-base, LED-base or the "
                 "Transformer-XL, by its model_type; may be repeated")
      ->type_name("FILE");
  add_threads(verb, *threads);
  verb.require_subcommand(0, 1);
  verb.callback([&verb, &action, report, configs, threads] {
    if (!verb.get_subcommands().empty()) return;
    if (!*report)
      throw UsageError(
          "bench: expected model, attention, train, generate, search or --report; see 'longformer "
          "bench "
          "--help'");
    action = [configs, threads](Messages& messages) {
      report_machine(*configs, *threads, messages);
    };
  });
}

}  // namespace longformer::cli
