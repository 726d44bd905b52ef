// What the tasks ask of a checkpoint folder beyond the model: its head, and a tokenizer that fits.
#pragma once

#include <span>
#include <string>

#include "longformer/model.h"
#include "longformer/tokenizer.h"
#include "tasks/task.h"

namespace longformer {

/// Throws Error unless the model of the folder has the head of the task.
void require_task(const Model& model, const std::string& folder, const tasks::Task& task);

/// The tokenizer of the folder, or of the model's adapter, with the further arguments of
/// Tokenizer::load. Throws Error when it has ids that the model has not.
Tokenizer matching_tokenizer(const Model& model, const std::string& folder,
                             std::span<const std::string> added = {}, bool lowercase = false);

}  // namespace longformer
