// Staged training of language models: window and length grow, the learning rate falls
// (docs/spec/language-models.md#d3).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/language_model_config.h"

namespace longformer::tasks {

struct LanguageModelPhase {
  std::string name;
  Index length = 0;
  /// One for each layer of a model with windows.
  std::vector<Index> windows;
  /// A model with memories has these; `length` is that of a segment.
  models::MemoryLengths lengths = {};
  double learning_rate = 0;
  /// Segments of a step.
  Index batch = 0;
  Index steps = 0;
  Index warmup_steps = 0;
};

/// A tenth of the steps, at most 10,000.
Index usual_warmup(Index steps);

/// Reads the JSON list of a file: objects with length, windows, learning_rate, batch, steps, and
/// optionally name and warmup_steps. Throws Error that names file, phase, key, expected and found.
std::vector<LanguageModelPhase> read_phases(const std::string& path,
                                            const models::LanguageModelConfig& config);

}  // namespace longformer::tasks
