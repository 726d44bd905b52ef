// Training of an adapter, by its options.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longformer/training.h"
#include "models/adapter.h"
#include "models/config.h"

namespace longformer {

bool trains_adapter(const TrainingOptions& options);

/// Nothing where the options ask for none. `usual` are the targets where they name none; for
/// `is_kept` see models::AdapterTraining.
std::optional<models::AdapterTraining> adapter_training(
    const TrainingOptions& options, std::vector<std::string> usual,
    std::function<bool(const std::string& name)> is_kept);

/// Adapter training of an encoder, alone or with a decoder: queries and values, and all but the
/// head.
std::optional<models::AdapterTraining> adapter_training(const TrainingOptions& options,
                                                        const models::EncoderConfig& config);

/// How many forward passes a training step is worth: backward passes of a model that keeps its
/// weights go to the inputs of its layers alone.
double passes_of_step(const TrainingOptions& options);

}  // namespace longformer
