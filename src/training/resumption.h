// Whether a training may go on from a checkpoint.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace longformer::training {

/// Throws Error where the checkpoint is that of another model or order of data: `before` is
/// Objective::setup of its training. Keys that are new count for nothing, as older checkpoints have
/// none, and there may be more phases now.
void check_setup(const nlohmann::ordered_json& before, const nlohmann::ordered_json& now,
                 const std::string& file);

/// A line for each option that has changed since the checkpoint. Throws Error for those that decide
/// the model or the order of its data.
std::vector<std::string> changed_options(const nlohmann::ordered_json& before,
                                         const nlohmann::ordered_json& now,
                                         const std::string& file);

}  // namespace longformer::training
