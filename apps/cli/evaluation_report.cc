#include "evaluation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "output.h"

namespace longformer::cli {
namespace {

constexpr std::string_view kRetrievalTask = "retrieval";

}  // namespace

void tell(const std::vector<CountNote>& notes, Messages& messages) {
  for (const CountNote& note : notes) {
    std::string option(note.option);
    std::ranges::replace(option, '_', '-');
    messages.note(option.empty() ? note.text : fmt::format("{}: see --{}", note.text, option));
  }
}

std::string table_of(const Evaluation& result) {
  std::string text;
  const auto row = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:<22} {:>12}\n", name, value);
  };
  for (const auto& [name, value] : result.metrics) row(name, fmt::format("{:.4f}", value));
  row("examples", grouped(result.examples));
  if (result.task != kRetrievalTask) row("tokens", grouped(result.tokens));
  for (const auto& [counter, number] : result.counts.all()) {
    if (number > 0 && !counter->row.empty()) row(counter->row, grouped(number));
  }
  if (result.labels.empty()) return text;
  std::size_t width = 22;
  for (const LabelMetrics& one : result.labels) width = std::max(width, one.label.size());
  text += fmt::format("\n{:<{}} {:>12} {:>9} {:>9} {:>9}\n", "label", width, "precision", "recall",
                      "f1", "support");
  for (const LabelMetrics& one : result.labels) {
    text += fmt::format("{:<{}} {:>12.4f} {:>9.4f} {:>9.4f} {:>9}\n", on_one_line(one.label), width,
                        one.precision, one.recall, one.f1, grouped(one.support));
  }
  return text;
}

}  // namespace longformer::cli
