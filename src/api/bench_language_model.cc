#include "api/bench_language_model.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "api/measurement.h"
#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "engine/run/least_memory.h"
#include "engine/run/model_cost.h"
#include "models/language_model.h"

namespace longformer {
namespace {

/// Characters that are read at a time.
constexpr std::int64_t kPiece = 2048;

std::vector<std::int32_t> random_ids(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(random_bits(7, i) % static_cast<std::uint64_t>(vocabulary));
  }
  return ids;
}

class Reader {
 public:
  Reader(const models::LanguageModel& model, const ops::Context& context)
      : model_(model), context_(context), past_(model.start(context.dtype)) {}

  /// Seconds to read on, with the logits of the last.
  double read(std::span<const std::int32_t> ids) {
    const auto begin = std::chrono::steady_clock::now();
    const auto batch = models::segments_of(ids, std::ssize(ids));
    const Tensor hidden = model_.forward(context_, batch, {.state = &past_});
    model_.logits(context_, hidden.slice_rows(hidden.rows() - 1, 1));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return taken.count();
  }

 private:
  const models::LanguageModel& model_;
  const ops::Context& context_;
  models::State past_;
};

}  // namespace

GenerateBenchResult bench_language_model(const GenerateBenchOptions& options,
                                         const std::string& config_file, bool has_weights) {
  require(options.beams == 1 && options.documents == 1,
          "bench: expected one text without beams of a language model, found {} of {} beams",
          options.documents, options.beams);
  const DType dtype = compute_dtype(options.dtype);
  const int threads = checked_threads(options.threads);
  models::LanguageModelConfig config = models::read_language_model(config_file);
  require(config.vocab_size > 0, "{}: vocab_size: expected the number of tokens, found none",
          config_file);
  const auto weights =
      has_weights ? models::Weights::open(options.model, {}) : models::Weights::drawn(1);
  const std::int64_t piece = config.reads_whole() ? options.n : std::min(kPiece, options.n);
  GenerateBenchResult result = {.options = options};
  with_threads(threads, [&] {
    const models::LanguageModel model(config, weights, dtype);
    const std::vector<std::int32_t> ids =
        random_ids(options.n + options.new_tokens, config.vocab_size);
    // A program that reads one text after another has the pages of the first.
    MemoryPool memory;
    const ops::Context context = {.memory = memory, .dtype = dtype, .threads = threads};
    std::vector<double> reading, steps;
    for (int run = 0; run <= options.repeats; ++run) {
      if (run == 1) {
        reading.clear();
        steps.clear();
      }
      Reader reader(model, context);
      double seconds = 0;
      for (std::int64_t begin = 0; begin < options.n; begin += piece) {
        const auto count = static_cast<std::size_t>(std::min(piece, options.n - begin));
        seconds += reader.read(std::span(ids).subspan(static_cast<std::size_t>(begin), count));
      }
      reading.push_back(seconds);
      for (std::int64_t i = 0; i < options.new_tokens; ++i) {
        const double step =
            reader.read(std::span(ids).subspan(static_cast<std::size_t>(options.n + i), 1));
        if (i >= 2) steps.push_back(step);
      }
    }
    result.encode_seconds = median(reading);
    result.step_seconds = median(steps);
    return 0;
  });
  result.peak_rss_bytes = peak_resident_bytes();
  // Memories are read segment by segment.
  const std::int64_t segment =
      config.has_memory() ? std::min(config.lengths.segment, options.n) : options.n;
  const double flops = language_model_flops(config, segment) * static_cast<double>(options.n) /
                       static_cast<double>(segment);
  result.encode_gflops = flops / result.encode_seconds * 1e-9;
  result.gemm_gflops = gemm_gflops(options.dtype, threads, 9);
  result.step_bytes = static_cast<double>(models::parameter_count(config)) *
                          static_cast<double>(element_size(dtype)) +
                      static_cast<double>(state_bytes(config));
  result.least_bytes = least_reading_bytes(config, piece, dtype);
  result.read_bytes_per_second = read_rate(threads);
  return result;
}

}  // namespace longformer
