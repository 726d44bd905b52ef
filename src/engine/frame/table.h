// The table of tasks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/frame/task.h"

namespace longformer::engine {

/// All tasks: one row each in table.cc.
std::span<const Task* const> all_tasks();

/// The task whose head the weights have and that architectures[0] names. Without a name the tensors
/// decide, where no other head has such tensors. Null for an encoder alone.
const Task* task_of(const models::EncoderConfig& config, const models::Weights& weights);

/// The task whose published data a file holds. Throws Error for a file of none.
const Task& task_of_data(const std::string& path, const DataOptions& options);

/// Task for a verb that wants a head: if architectures names none, the verb's task if the weights
/// have its tensors. An empty verb wants any.
const Task* task_for(const models::EncoderConfig& config, const models::Weights& weights,
                     std::string_view verb);

/// The task that architectures[0] names; null for others.
const Task* task_named(const models::EncoderConfig& config);

/// The task that `finetune` calls by this name. Throws Error that lists those there are.
const Task& task_of_verb(std::string_view verb);

/// "classify, ner, …": the names of `finetune`, for messages.
std::string verb_names();

/// These names as a list, and the names of all tasks in `evaluate`.
std::vector<std::string> training_verbs();
std::vector<std::string> evaluation_names();

/// The task whose logits are computed on request; null where the table has none.
const Task* requested_task();

/// Keys of config.json that neither the encoder nor a head reads, in one line; empty for none.
std::string unused_keys(const models::EncoderConfig& config);

/// ModelInfo::head; empty for none.
std::string_view head_name(const Task* task);

}  // namespace longformer::engine
