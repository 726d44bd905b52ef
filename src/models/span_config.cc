#include "models/span_config.h"

#include "core/error.h"

namespace longformer::models {
namespace {

constexpr Index kMaxSpan = Index{1} << 24;

}  // namespace

SpanConfig read_spans(const formats::ConfigReader& config) {
  for (const char* key : {"windows", "dilations", "dilated_heads"}) {
    require(!config.has(key), "{}: {}: expected none with the attention adaptive, which learns it",
            config.name(), key);
  }
  SpanConfig spans;
  spans.ramp.longest = config.integer("max_span", 1024, 1, kMaxSpan);
  spans.ramp.ramp = config.integer("span_ramp", 32, 1, kMaxSpan);
  require(spans.ramp.ramp <= spans.ramp.longest,
          "{}: span_ramp: expected at most the max_span of {}, found {}", config.name(),
          spans.ramp.longest, spans.ramp.ramp);
  spans.loss = config.number("span_loss", 5e-7);
  require(spans.loss >= 0 && spans.loss <= 1,
          "{}: span_loss: expected a number from 0 to 1, found {}", config.name(), spans.loss);
  spans.initial = config.number("initial_span", 0);
  require(spans.initial >= 0 && spans.initial <= 1,
          "{}: initial_span: expected a number from 0 to 1, a part of max_span, found {}",
          config.name(), spans.initial);
  return spans;
}

void write_spans(const SpanConfig& spans, nlohmann::ordered_json& json) {
  json["max_span"] = spans.ramp.longest;
  json["span_ramp"] = spans.ramp.ramp;
  json["span_loss"] = spans.loss;
  json["initial_span"] = spans.initial;
}

}  // namespace longformer::models
