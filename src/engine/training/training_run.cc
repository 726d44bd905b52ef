#include "engine/training/training_run.h"

#include <utility>

#include "engine/run/machine_rate.h"

namespace longformer {

TrainingResult run_training(const TrainingOptions& options, std::vector<training::Phase> phases,
                            training::ParameterSet& parameters, training::Objective& objective,
                            const TrainingCallbacks& callbacks) {
  constexpr int kRepeats = 3;
  const double rate = product_gflops(options.dtype, static_cast<int>(options.threads), kRepeats);
  const int ranks = rank_count(callbacks);
  for (training::Phase& phase : phases) phase.cost.tokens_per_step *= ranks;
  training::Trainer trainer({.options = options,
                             .phases = std::move(phases),
                             .gemm_flops = 1e9 * rate * ranks,
                             .ranks = callbacks.ranks},
                            parameters, objective);
  return trainer.run(callbacks);
}

}  // namespace longformer
