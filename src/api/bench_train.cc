#include <cstdint>
#include <vector>

#include "api/measurement.h"
#include "api/model_cost.h"
#include "api/trained_model.h"
#include "core/random.h"
#include "longformer/bench.h"
#include "training/optimizer.h"
#include "training/trainer.h"

namespace longformer {
namespace {

constexpr double kLabelled = 0.15;

/// One document of random tokens of which some are to be guessed.
models::Batch random_batch(const models::EncoderConfig& config, std::int64_t n,
                           models::Targets& targets) {
  models::Batch batch;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    batch.ids.push_back(static_cast<std::int32_t>(random_bits(7, at) %
                                                  static_cast<std::uint64_t>(config.vocab_size)));
    batch.positions.push_back(static_cast<std::int32_t>(i % config.max_position_embeddings));
    const bool labelled = random_uniform(8, at) < static_cast<float>(kLabelled);
    targets.labels.push_back(labelled ? batch.ids.back() : ops::kIgnored);
  }
  batch.types.assign(batch.ids.size(), 0);
  batch.starts = {0, n};
  return batch;
}

}  // namespace

BenchResult bench_train(const TrainBenchOptions& options) {
  TrainingOptions training;
  training.dtype = options.dtype;
  training.threads = options.threads;
  training.gradient_checkpointing = options.gradient_checkpointing;
  TrainedModel model(
      {.folder = options.model, .config_file = options.config, .head = models::HeadKind::masked_lm},
      training);
  const int threads = thread_count(options.threads);
  const auto optimizer = training::Optimizer::make(training, model.parameters(), threads);
  models::Targets targets;
  const models::Batch batch = random_batch(model.config(), options.n, targets);
  std::uint64_t seed = 0;
  const Timing timing = measure(options.repeats, [&] {
    model.step(batch, targets, seed++);
    optimizer->step(training.learning_rate, 1);
  });
  const double flops = model_flops(model.config(), options.n, 0) +
                       masked_lm_flops(model.config(), kLabelled * static_cast<double>(options.n));
  BenchResult result = result_of(timing, options.n, options.dtype, 3 * flops, threads);
  const std::int64_t activations =
      activation_bytes(model.config(), {.tokens = options.n,
                                        .dtype = model.implementation().dtype,
                                        .checkpointing = options.gradient_checkpointing,
                                        .masked_lm = true});
  result.predicted_peak_bytes =
      training::memory_plan(model.parameters(), *optimizer, activations).peak_bytes;
  return result;
}

}  // namespace longformer
