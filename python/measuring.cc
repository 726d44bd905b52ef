// How far two models are from each other, and how fast models are on this machine.
#include <functional>
#include <string>
#include <vector>

#include "bindings.h"
#include "fetched.h"
#include "interruptible.h"
#include "keywords.h"
#include "longformer/analysis.h"
#include "longformer/checkpoint.h"
#include "model.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

Record compared(const PythonModel& first, const PythonModel& second, const Texts& texts,
                std::int64_t max_length) {
  const std::vector<std::string> read = texts_of(texts);
  const ModelComparison found = without_gil([&] {
    return compare_models(first.model(), second.model(), first.tokenizer(), read, max_length,
                          [](std::int64_t) { Interruption::poll(); });
  });
  nb::list layers;
  for (const LayerDifference& layer : found.layers) {
    layers.append(nb::make_tuple(layer.relative_error, layer.alone, layer.cosine));
  }
  return nb::make_tuple(layers, found.texts, found.tokens);
}

Options timing_of(const BenchResult& found) {
  nb::dict dict;
  dict["n"] = found.n;
  dict["dtype"] = found.dtype;
  dict["seconds"] = found.seconds;
  dict["seconds_min"] = found.seconds_min;
  dict["seconds_max"] = found.seconds_max;
  dict["tokens_per_second"] = found.tokens_per_second;
  dict["gflops"] = found.gflops;
  dict["gemm_gflops"] = found.gemm_gflops;
  dict["fraction_of_bound"] = found.fraction_of_bound;
  dict["peak_rss_bytes"] = found.peak_rss_bytes;
  return dict;
}

template <typename Bench>
Keywords& take_common(Keywords& keywords, Bench& options) {
  keywords.take("n", options.n).take("dtype", options.dtype);
  return keywords.take("threads", options.threads).take("repeats", options.repeats);
}

/// A folder or a name of the Hub, or the config.json of a model with random weights; and nothing
/// more.
template <typename Bench>
void finish_with_model(Keywords& keywords, Bench& options) {
  keywords.take("model", options.model).take("config", options.config).finish();
  if (options.model.empty() == options.config.empty()) {
    throw Error("model and config: expected one of them, found " +
                std::string(options.model.empty() ? "neither" : "both"));
  }
  if (!options.model.empty()) options.model = model_folder(options.model);
}

Options time_attention(const Options& given) {
  AttentionBenchOptions options;
  Keywords keywords("bench_attention", given);
  take_common(keywords, options).take("pattern", options.pattern).take("rows", options.rows);
  keywords.take("features", options.features).take("heads", options.heads);
  keywords.take("head_size", options.head_size).take("window", options.window);
  keywords.take("dilation", options.dilation).take("global_tokens", options.global_tokens);
  keywords.take("causal", options.causal).take("backend", options.backend);
  keywords.take("pass_", options.pass).finish();
  const BenchResult found = without_gil([&] { return bench_attention(options); });
  Options dict = timing_of(found);
  dict["backend"] = found.backend;
  dict["pass"] = found.pass;
  return dict;
}

Options time_model(const Options& given) {
  struct : ModelBenchOptions {
    std::string model, config;
  } options;
  Keywords keywords("bench_model", given);
  take_common(keywords, options).take("global_tokens", options.global_tokens);
  finish_with_model(keywords, options);
  const BenchResult found = without_gil([&] {
    const LoadOptions load = {.dtype = options.dtype, .threads = options.threads};
    return bench_model(options.config.empty() ? Model::load(options.model, load)
                                              : Model::random(options.config, load),
                       options);
  });
  Options dict = timing_of(found);
  dict["head_seconds"] = found.head_seconds;
  return dict;
}

Options time_train(const Options& given) {
  TrainBenchOptions options;
  Keywords keywords("bench_train", given);
  take_common(keywords, options).take("text_tokens", options.text_tokens);
  keywords.take("optim", options.optim).take("lora_rank", options.lora_rank);
  keywords.take("gradient_checkpointing", options.gradient_checkpointing);
  finish_with_model(keywords, options);
  const BenchResult found = without_gil([&] { return bench_train(options); });
  Options dict = timing_of(found);
  dict["predicted_peak_bytes"] = found.predicted_peak_bytes;
  return dict;
}

Options time_generate(const Options& given) {
  GenerateBenchOptions options;
  Keywords keywords("bench_generate", given);
  take_common(keywords, options).take("new_tokens", options.new_tokens);
  keywords.take("beams", options.beams).take("documents", options.documents);
  finish_with_model(keywords, options);
  const GenerateBenchResult found = without_gil([&] { return bench_generate(options); });
  nb::dict dict;
  dict["encode_seconds"] = found.encode_seconds;
  dict["step_seconds"] = found.step_seconds;
  dict["tokens_per_second"] = found.tokens_per_second();
  dict["encode_gflops"] = found.encode_gflops;
  dict["gemm_gflops"] = found.gemm_gflops;
  dict["encode_fraction"] = found.encode_fraction();
  dict["step_bytes"] = found.step_bytes;
  dict["read_bytes_per_second"] = found.read_bytes_per_second;
  dict["step_fraction"] = found.step_fraction();
  dict["peak_rss_bytes"] = found.peak_rss_bytes;
  return dict;
}

Options time_search(const Options& given) {
  SearchBenchOptions options;
  Keywords keywords("bench_search", given);
  keywords.take("passages", options.passages).take("vector_size", options.vector_size);
  keywords.take("top_k", options.top_k).take("threads", options.threads);
  keywords.take("repeats", options.repeats).finish();
  const SearchBenchResult found = without_gil([&] { return bench_search(options); });
  nb::dict dict;
  dict["threads"] = found.threads;
  dict["seconds"] = found.seconds;
  dict["bytes"] = found.bytes;
  dict["read_bytes_per_second"] = found.read_bytes_per_second;
  dict["fraction"] = found.fraction();
  return dict;
}

}  // namespace

void bind_measuring(nb::module_& module) {
  module.def("compare_models", &compared, "first"_a, "second"_a, "texts"_a, "max_length"_a);
  module.def("bench_attention", &time_attention, "options"_a);
  module.def("bench_model", &time_model, "options"_a);
  module.def("bench_train", &time_train, "options"_a);
  module.def("bench_generate", &time_generate, "options"_a);
  module.def("bench_search", &time_search, "options"_a);
  module.def("machine_name", &machine_name, "threads"_a);
}

}  // namespace longformer
