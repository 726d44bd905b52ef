// The verb `attention` over a language model.
#pragma once

#include <string>

#include "attention/maps.h"
#include "attention/reports.h"
#include "flags.h"
#include "inputs.h"
#include "messages.h"

namespace longformer::cli {

struct TextAttentionRun {
  const ModelFlags& model;
  const InputOptions& inputs;
  Choice layer, head;
  ReportOptions report;
  std::string output;
  /// An option was given that is for encoders: --truncate or --global-attention.
  bool reads_parts = false;
};

/// Throws UsageError and Error as the verb does for encoders.
void run_text_attention(const TextAttentionRun& run, Messages& messages);

}  // namespace longformer::cli
