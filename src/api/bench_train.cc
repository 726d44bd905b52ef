#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "api/measurement.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/threads.h"
#include "engine/run/least_memory.h"
#include "engine/run/model_cost.h"
#include "engine/training/adapter_training.h"
#include "engine/training/trained_model.h"
#include "longformer/analysis.h"
#include "models/language_model.h"
#include "models/registry.h"
#include "tasks/masked_lm/masked_lm.h"
#include "tasks/writing/sequence_to_sequence.h"
#include "training/optimizer.h"
#include "training/trainer.h"

namespace longformer {
namespace {

constexpr double kLabelled = 0.15;

/// One document of random tokens of which some are to be guessed.
engine::TrainingBatch random_batch(const models::EncoderConfig& config, std::int64_t n) {
  DocumentTarget target;
  std::vector<std::int32_t> ids, positions;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    ids.push_back(static_cast<std::int32_t>(random_bits(7, at) %
                                            static_cast<std::uint64_t>(config.vocab_size)));
    positions.push_back(static_cast<std::int32_t>(i % config.max_position_embeddings));
    const bool labelled = random_uniform(8, at) < static_cast<float>(kLabelled);
    target.labels.push_back(labelled ? ids.back() : ops::kIgnored);
  }
  models::BatchBuilder builder(config);
  builder.add({.ids = ids, .positions = positions}, "document");
  return {.tokens = builder.finish(), .targets = {std::move(target)}, .questions = {1}};
}

TrainingOptions training_of(const TrainBenchOptions& options) {
  TrainingOptions training;
  training.dtype = options.dtype;
  training.optim = options.optim;
  training.threads = options.threads;
  training.gradient_checkpointing = options.gradient_checkpointing;
  training.lora_rank = options.lora_rank;
  return training;
}

/// A document of random tokens, the first of them global, and a text to learn about it.
engine::TrainingBatch random_text_batch(const models::EncoderConfig& config,
                                        const TrainBenchOptions& options) {
  const auto token = [&config](std::uint64_t seed, std::int64_t i) {
    return static_cast<std::int32_t>(random_bits(seed, static_cast<std::uint64_t>(i)) %
                                     static_cast<std::uint64_t>(config.vocab_size));
  };
  DocumentTarget target;
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < options.n; ++i) ids.push_back(token(7, i));
  for (std::int64_t i = 0; i < options.text_tokens; ++i) target.labels.push_back(token(8, i));
  const std::vector<Index> first(config.has_global_projections() ? 1 : 0, 0);
  models::BatchBuilder builder(config);
  builder.add({.ids = ids, .globals = first}, "document");
  return {.tokens = builder.finish(), .targets = {std::move(target)}, .questions = {1}};
}

/// A masked LM, or a model that writes texts.
BenchResult bench_task(const TrainBenchOptions& options, bool writes_texts) {
  const TrainingOptions training = training_of(options);
  const engine::Task& task = writes_texts ? tasks::sequence_to_sequence() : tasks::masked_lm();
  TrainedModel model({.folder = options.model, .config_file = options.config, .task = &task},
                     training);
  const int threads = checked_threads(options.threads);
  const auto optimizer = training::Optimizer::make(training, model.parameters(), threads);
  const engine::TrainingBatch batch = writes_texts ? random_text_batch(model.config(), options)
                                                   : random_batch(model.config(), options.n);
  std::uint64_t seed = 0;
  const Timing timing = measure(options.repeats, [&] {
    model.step(batch, seed++);
    optimizer->step(training.learning_rate, 1);
  });
  const double head =
      writes_texts ? decoder_flops(model.config(), options.n, options.text_tokens)
                   : masked_lm_flops(model.config(), kLabelled * static_cast<double>(options.n));
  const double flops = model_flops(model.config(), options.n, writes_texts ? 1 : 0) + head;
  BenchResult result =
      result_of(timing, options.n, options.dtype, passes_of_step(training) * flops, threads);
  const std::int64_t activations =
      activation_bytes(model.config(), {.tokens = options.n,
                                        .text_tokens = writes_texts ? options.text_tokens : 0,
                                        .dtype = model.implementation().dtype,
                                        .recomputes = options.gradient_checkpointing,
                                        .masked_lm = !writes_texts});
  result.predicted_peak_bytes =
      training::memory_plan(model.parameters(), *optimizer, activations).peak_bytes;
  return result;
}

/// State of streams whose memories are full.
models::State full_memories(const models::LanguageModel& model, const ops::Context& context,
                            const models::Batch& segment) {
  const models::LanguageModelConfig& config = model.config();
  const Index rows =
      config.lengths.memory + config.compression_rate * (config.lengths.compressed + 1);
  models::State state = model.start(context.dtype, segment.documents());
  for (Index read = 0; read < rows; read += config.lengths.segment) {
    model.forward(context, segment, {.state = &state});
  }
  return state;
}

/// Segments of random characters, each of which is predicted: one of a model with windows, and as
/// many as n has room for of one with memories, which are full. Where gradients go from segment to
/// segment a row has as many as they go through.
BenchResult bench_character_lm(const TrainBenchOptions& options, const std::string& config_file) {
  require(options.lora_rank == 0,
          "{}: expected a model that is no language model to time an adapter "
          "of, found one",
          config_file);
  const TrainingOptions training = training_of(options);
  const models::LanguageModelConfig config = models::read_language_model(config_file);
  const int threads = checked_threads(options.threads);
  const DType dtype = compute_dtype(options.dtype);
  const ThreadLimit limit(threads);
  const auto weights = models::Weights::trained(models::Weights::drawn(training.seed), {});
  const models::LanguageModel model(config, weights, dtype);
  training::ParameterSet parameters;
  for (const auto& [name, value] : weights.parameters()) {
    parameters.add({.name = name, .value = value, .decays = training::decays_by_name(name)});
  }
  const auto optimizer = training::Optimizer::make(training, parameters, threads);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i <= options.n; ++i) {
    ids.push_back(static_cast<std::int32_t>(random_bits(7, static_cast<std::uint64_t>(i)) %
                                            static_cast<std::uint64_t>(config.vocab_size)));
  }
  const std::span<const std::int32_t> all(ids);
  const auto n = static_cast<std::size_t>(options.n);
  MemoryPool memory;
  models::Batch batch = models::segments_of(all.first(n), options.n);
  std::optional<models::State> state;
  if (config.has_memory()) {
    const Index segment = config.unroll_segments * config.lengths.segment;
    require(options.n % segment == 0,
            "-n: expected a multiple of the model's segments of {}, found {}", segment, options.n);
    batch = models::segments_of(all.first(n), segment);
    state = full_memories(model, {.memory = memory, .dtype = dtype, .threads = threads}, batch);
  }
  std::uint64_t seed = 0;
  const Timing timing = measure(options.repeats, [&] {
    Tape tape;
    const ops::Context context = {.memory = memory,
                                  .dtype = dtype,
                                  .threads = threads,
                                  .tape = &tape,
                                  .dropout_seed = seed++,
                                  .recomputes = options.gradient_checkpointing};
    model.loss(context, batch, all.last(n), {.scale = 1 / static_cast<double>(n)},
               {.state = state ? &*state : nullptr});
    tape.backward();
    optimizer->step(training.learning_rate, 1);
  });
  const Index length = config.has_memory() ? config.lengths.segment : options.n;
  const Index segments = options.n / length;
  const double flops =
      static_cast<double>(segments) * language_model_training_flops(config, length);
  BenchResult result = result_of(timing, options.n, options.dtype, flops, threads);
  const std::int64_t activations = activation_bytes(
      config, length,
      {.tokens = options.n, .dtype = dtype, .recomputes = options.gradient_checkpointing});
  result.predicted_peak_bytes =
      training::memory_plan(parameters, *optimizer, activations).peak_bytes;
  return result;
}

}  // namespace

BenchResult bench_train(const TrainBenchOptions& options) {
  check_positive(
      {{"n", options.n}, {"repeats", options.repeats}, {"text_tokens", options.text_tokens}});
  require(options.lora_rank >= 0, OptionName("lora_rank"), "expected at least 0, found {}",
          options.lora_rank);
  const std::string config =
      options.config.empty() ? options.model + "/config.json" : options.config;
  const auto program = static_cast<std::int64_t>(resident_bytes()) + kCodeBytes;
  BenchResult result = models::is_language_model(config)
                           ? bench_character_lm(options, config)
                           : bench_task(options, models::is_encoder_decoder(config));
  result.predicted_peak_bytes += program;
  result.least_bytes = result.predicted_peak_bytes;
  return result;
}

}  // namespace longformer
