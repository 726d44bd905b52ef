// How every training of the API ends: a Trainer over its objective.
#pragma once

#include <vector>

#include "longformer/training.h"
#include "training/trainer.h"

namespace longformer {

/// Runs the phases on one rank, with the machine's GEMM rate for plan and progress. Throws Error.
TrainingResult run_training(const TrainingOptions& options, std::vector<training::Phase> phases,
                            training::ParameterSet& parameters, training::Objective& objective,
                            const TrainingCallbacks& callbacks);

}  // namespace longformer
