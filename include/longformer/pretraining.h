// Training masked-language models on plain text (Longformer paper §5, docs/spec/training.md#c3).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longformer/dataset.h"
#include "longformer/evaluation.h"
#include "longformer/training.h"

namespace longformer {

struct MaskedLmTraining {
  TrainingOptions training = {};
  /// Plain text, one document per file, line or object (DataOptions::format).
  std::vector<std::string> train_files = {};
  /// Held-out text: loss, BPC and perplexity where training.eval_strategy asks for them. Empty:
  /// none.
  std::string validation_file = {};
  DataOptions data = {};
  /// Which tokens to guess, and how documents are packed into rows. Of its seed only evaluation
  /// makes use.
  MaskingOptions masking = {};
  /// Not 0: only the rows of positions from this one on are trained, all other weights are frozen
  /// (the paper's "extra positions only").
  std::int64_t only_positions_from = 0;
  /// Copy query, key and value into the global projections of what is written: no token is global
  /// here, so they are not trained.
  bool copy_globals = true;
};

/// Trains the masked LM of a folder: a converted BERT or RoBERTa, a model without such a head,
/// which gets one, or a folder with config.json and tokenizer alone, whose weights are drawn.
/// Checkpoints and the final model go to training.output_dir. Throws Error.
TrainingResult train_masked_lm(const std::string& folder, const MaskedLmTraining& options,
                               const TrainingCallbacks& callbacks = {});

}  // namespace longformer
