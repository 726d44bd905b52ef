#include <algorithm>
#include <chrono>
#include <vector>

#include "api/bench_language_model.h"
#include "api/measurement.h"
#include "core/compute.h"
#include "core/error.h"
#include "core/random.h"
#include "engine/run/least_memory.h"
#include "engine/run/model_cost.h"
#include "engine/run/model_implementation.h"
#include "longformer/analysis.h"
#include "longformer/generation.h"
#include "models/source_rows.h"

namespace longformer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// Bytes that a step reads once, for any number of texts: the matrices of the decoder and the
/// output; and for each document the keys and values of its tokens and of half of its text.
double step_bytes(const models::EncoderConfig& config, const GenerateBenchOptions& options) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto layers = static_cast<double>(config.decoder->layers);
  const auto inner = static_cast<double>(config.decoder->intermediate_size);
  const double weights = layers * (6 * width * width + 2 * width * inner);
  const double output = static_cast<double>(config.vocab_size) * width;
  const double text = static_cast<double>(options.beams * options.new_tokens) / 2;
  const auto source =
      static_cast<double>(models::rows_of_source(options.n, config.decoder->source_rows));
  const double keys = layers * 2 * width * (source + text);
  const Compute compute = compute_of(options.dtype);
  const auto size = static_cast<double>(element_size(compute.dtype));
  return (compute.int8 ? 1 : size) * weights +
         size * (output + static_cast<double>(options.documents) * keys);
}

/// One run: time until all documents are read, and of each token behind the second.
void run_once(const TextGenerator& generator, const GenerateBenchOptions& options,
              std::span<const DocumentInput> documents, std::vector<double>& reading,
              std::vector<double>& steps) {
  GenerationRequest request;
  request.together = options.documents;
  request.options.max_new_tokens = request.options.min_new_tokens = options.new_tokens;
  request.options.num_beams = options.beams;
  request.options.decoder_start_token_id = 2;
  request.options.eos_token_id = std::vector<std::int32_t>{2};
  const Clock::time_point begin = Clock::now();
  Clock::time_point last = begin;
  std::int64_t written = 0;
  double read = 0;
  generator.generate(documents, request, [&](const GenerationEvent& event) {
    // All documents write their tokens in one step, the last of which ends it.
    if (event.tokens_written == 0) {
      read = seconds_between(begin, Clock::now());
      last = Clock::now();
    } else if (event.tokens_written % options.documents == 0) {
      const Clock::time_point now = Clock::now();
      if (++written > 2) steps.push_back(seconds_between(last, now));
      last = now;
    }
    return true;
  });
  reading.push_back(read);
}

}  // namespace

GenerateBenchResult bench_generate(const GenerateBenchOptions& options) {
  check_positive({{"n", options.n},
                  {"documents", options.documents},
                  {"beams", options.beams},
                  {"repeats", options.repeats}});
  require(options.new_tokens >= 4, OptionName("new_tokens"), "expected at least 4, found {}",
          options.new_tokens);
  const std::string file = options.config.empty() ? options.model + "/config.json" : options.config;
  if (models::is_language_model(file)) {
    return bench_language_model(options, file, options.config.empty());
  }
  const LoadOptions load = {.dtype = options.dtype, .threads = options.threads};
  const Model model = options.config.empty() ? Model::load(options.model, load)
                                             : Model::random(options.config, load);
  const models::EncoderConfig& config = model.implementation().config;
  require(config.decoder.has_value(), "{}: model_type: expected one that writes texts, found {}",
          file, config.model_type());
  const TextGenerator generator = TextGenerator::of(model, "");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(options.n));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(random_bits(7, i) %
                                       static_cast<std::uint64_t>(config.vocab_size));
  }
  std::vector<std::int32_t> globals(ids.size(), 0);
  globals[0] = 1;
  DocumentInput document = {.ids = ids,
                            .attention_mask = {},
                            .token_type_ids = {},
                            .position_ids = {},
                            .global_attention_mask = {}};
  if (config.has_global_attention()) document.global_attention_mask = globals;
  const std::vector<DocumentInput> documents(static_cast<std::size_t>(options.documents), document);
  std::vector<double> reading, steps;
  for (int run = 0; run <= options.repeats; ++run) {
    if (run == 1) {
      reading.clear();
      steps.clear();
    }
    run_once(generator, options, documents, reading, steps);
  }
  GenerateBenchResult result = {.options = options};
  result.peak_rss_bytes = peak_resident_bytes();
  result.encode_seconds = median(reading);
  result.step_seconds = median(steps);
  const auto width = static_cast<double>(config.hidden_size);
  const Index rows = models::rows_of_source(options.n, config.decoder->source_rows);
  const double source_keys = 4 * width * width * static_cast<double>(rows * config.decoder->layers);
  const double flops =
      model_flops(config, options.n, config.has_global_attention() ? 1 : 0) + source_keys;
  result.encode_gflops =
      static_cast<double>(options.documents) * flops / result.encode_seconds * 1e-9;
  const int threads = model.implementation().threads;
  result.gemm_gflops = gemm_gflops(options.dtype, threads, 9);
  result.step_bytes = step_bytes(config, options);
  result.least_bytes = least_writing_bytes(config, model.implementation().task,
                                           {.tokens = options.n,
                                            .documents = options.documents,
                                            .new_tokens = options.new_tokens,
                                            .beams = options.beams},
                                           compute_of(options.dtype));
  result.read_bytes_per_second = read_rate(threads);
  return result;
}

}  // namespace longformer
