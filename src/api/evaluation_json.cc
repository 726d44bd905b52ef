#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/evaluation.h"

namespace longformer {
namespace {

/// Counters that every evaluation has; their keys stand before those of the others.
constexpr std::array<std::string_view, 2> kFirst = {"skipped", "empty"};

}  // namespace

std::string to_json(const Evaluation& result, ReadBy read_by) {
  JsonLine metrics;
  for (const auto& [name, value] : result.metrics) metrics.add(name, value);
  std::vector<JsonLine> labels;
  for (const LabelMetrics& one : result.labels) {
    JsonLine& row = labels.emplace_back();
    row.add("label", one.label).add("precision", one.precision).add("recall", one.recall);
    row.add("f1", one.f1).add("support", one.support);
  }
  JsonLine json;
  json.add("task", result.task).add_json("metrics", metrics.object()).add_objects("labels", labels);
  json.add("examples", result.examples);
  for (const std::string_view name : kFirst) json.add(name, result.counts[name]);
  const bool has_tokens = read_by == ReadBy::model && result.task != "retrieval";
  if (has_tokens) json.add("tokens", result.tokens);
  for (const bool is_of_model : {false, true}) {
    for (const auto& [counter, number] : result.counts.all()) {
      const bool is_first = std::ranges::find(kFirst, counter->name) != kFirst.end();
      if (counter->is_of_model == is_of_model && !is_first) json.add(counter->name, number);
    }
  }
  return json.add("seconds", result.seconds).object();
}

}  // namespace longformer
