// The model card of a training for a task.
#pragma once

#include <optional>
#include <string>

#include "engine/frame/task.h"
#include "longformer/finetuning.h"

namespace longformer {

struct CardFacts {
  std::string folder;
  std::string model_type;
  bool is_drawn = false;
  FinetuneData training = {};
  std::optional<FinetuneData> validation = {};
};

/// The text of README.md, for the options as they were given.
std::string model_card(const CardFacts& facts, const FinetuneOptions& options,
                       const engine::Task& task, const TrainingResult& result);

/// The card of a masked LM that was trained on these rows.
std::string model_card(const std::string& folder, const std::string& model_type,
                       const MaskedLmTraining& options, const engine::CollationReport& rows,
                       const TrainingResult& result);

}  // namespace longformer
