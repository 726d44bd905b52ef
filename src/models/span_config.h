// Spans that heads learn, in config.json (Adaptive Attention Span, arXiv 1905.07799;
// docs/spec/other-attentions.md#h4).
#pragma once

#include "formats/json.h"
#include "kernels/span_masks.h"

namespace longformer::models {

struct SpanConfig {
  kernels::SpanRamp ramp = {.longest = 1024, .ramp = 32};
  /// λ: the loss gets λ · S · mean z of every layer.
  double loss = 0;
  /// z of new heads.
  double initial = 0;
};

/// Throws Error that names file, key, expected and found.
SpanConfig read_spans(const formats::ConfigReader& config);
void write_spans(const SpanConfig& spans, nlohmann::ordered_json& json);

}  // namespace longformer::models
