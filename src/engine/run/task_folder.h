// Parts of a checkpoint folder that tasks need besides the model: its head, and a tokenizer that
// fits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "engine/frame/task.h"
#include "longformer/model.h"
#include "longformer/text.h"

namespace longformer {

/// Throws Error unless the model of the folder has the head of the task.
void require_task(const Model& model, const std::string& folder, const engine::Task& task);

/// Loads the model of a folder for the verb of a task, which decides on the head where the folder
/// names none.
Model load_for_task(const std::string& folder, const LoadOptions& options,
                    const engine::Task& task);

/// A tokenizer for a table of so many rows. What may surprise is told, if there is a callback.
Tokenizer fitting_tokenizer(const Tokenizer& tokenizer, std::int64_t rows,
                            const std::string& folder,
                            const std::function<void(const std::string&)>& note);

/// The tokenizer of the folder, or of the model's adapter, with the further arguments of
/// Tokenizer::load, for the rows of the model's table.
Tokenizer matching_tokenizer(const Model& model, const std::string& folder,
                             std::span<const std::string> added = {}, bool lowercase = false);

}  // namespace longformer
