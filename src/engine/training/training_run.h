// How every training of the API ends: a Trainer over its objective.
#pragma once

#include <vector>

#include "longformer/training.h"
#include "training/trainer.h"

namespace longformer {

/// The processes that train together.
inline int rank_count(const TrainingCallbacks& callbacks) {
  return callbacks.ranks == nullptr ? 1 : callbacks.ranks->count();
}

/// Runs the phases, whose costs are those of one rank, with the machine's GEMM rate for plan and
/// progress. Throws Error.
TrainingResult run_training(const TrainingOptions& options, std::vector<training::Phase> phases,
                            training::ParameterSet& parameters, training::Objective& objective,
                            const TrainingCallbacks& callbacks);

}  // namespace longformer
