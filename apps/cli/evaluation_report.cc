#include "evaluation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "output.h"

namespace longformer::cli {
namespace {

constexpr std::string_view kRetrievalTask = "retrieval";

/// A counter, and the tasks that it means something for.
struct Counter {
  std::string_view name;
  std::int64_t Evaluation::*value;
  /// Names as in Evaluation::task, each in spaces.
  std::string_view tasks;
};

constexpr std::string_view kReaders =
    " sequence-classification token-classification question-answering multiple-choice "
    "candidate-scoring coreference multi-hop-question-answering sequence-to-sequence embedding ";
constexpr std::string_view kOfficial =
    " question-answering multiple-choice candidate-scoring coreference "
    "multi-hop-question-answering ";

/// Counters of what a model read or wrote.
constexpr std::array kOfModels = std::to_array<Counter>({
    {"truncated_examples", &Evaluation::truncated_examples, kReaders},
    {"truncated_tokens", &Evaluation::truncated_tokens, kReaders},
    {"segmented_examples", &Evaluation::segmented_examples, kReaders},
    {"unread_words", &Evaluation::unread_words, " token-classification coreference "},
    {"wide_mentions", &Evaluation::wide_mentions, " coreference "},
    {"unread_paragraphs", &Evaluation::unread_paragraphs, " multi-hop-question-answering "},
    {"unread_sentences", &Evaluation::unread_sentences, " multi-hop-question-answering "},
    {"documents", &Evaluation::documents, " retrieval "},
    {"passages", &Evaluation::passages, " retrieval "},
    {"masked_tokens", &Evaluation::masked_tokens, " masked-lm "},
    {"unreached_answers", &Evaluation::unreached_answers,
     " question-answering multi-hop-question-answering "},
    {"written_tokens", &Evaluation::written_tokens, " sequence-to-sequence "},
    {"cut_texts", &Evaluation::cut_texts, " sequence-to-sequence "},
    {"repeating_texts", &Evaluation::repeating_texts, " sequence-to-sequence "},
});

/// Counters of the data.
constexpr std::array kOfData = std::to_array<Counter>({
    {"missing", &Evaluation::missing, kOfficial},
    {"repeated_mentions", &Evaluation::repeated_mentions, " coreference "},
    {"missing_facts", &Evaluation::missing_facts, " multi-hop-question-answering "},
    {"unjudged_queries", &Evaluation::unjudged_queries, " retrieval "},
    {"irrelevant_queries", &Evaluation::irrelevant_queries, " retrieval "},
    {"unknown_documents", &Evaluation::unknown_documents, " retrieval "},
    {"identical_ids", &Evaluation::identical_ids, " retrieval "},
});

}  // namespace

std::string json_of(const Evaluation& result, bool is_of_file) {
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
  json.add("examples", result.examples).add("skipped", result.skipped).add("empty", result.empty);
  if (!is_of_file && result.task != kRetrievalTask) json.add("tokens", result.tokens);
  const std::string task = " " + result.task + " ";
  // A counter that counted something is never left out.
  const auto add = [&](const Counter& counter, bool is_there) {
    const std::int64_t value = result.*counter.value;
    const bool applies = is_there && counter.tasks.find(task) != std::string_view::npos;
    if (applies || value != 0) json.add(counter.name, value);
  };
  for (const Counter& counter : kOfData) add(counter, true);
  for (const Counter& counter : kOfModels) add(counter, !is_of_file);
  return json.add("seconds", result.seconds).line();
}

std::string table_of(const Evaluation& result) {
  std::string text;
  const auto row = [&text](const std::string& name, const std::string& value) {
    text += fmt::format("{:<22} {:>12}\n", name, value);
  };
  for (const auto& [name, value] : result.metrics) row(name, fmt::format("{:.4f}", value));
  row("examples", grouped(result.examples));
  if (result.documents > 0) row("documents", grouped(result.documents));
  if (result.passages > 0) row("passages", grouped(result.passages));
  if (result.task != kRetrievalTask) row("tokens", grouped(result.tokens));
  if (result.written_tokens > 0) row("written tokens", grouped(result.written_tokens));
  if (result.masked_tokens > 0) row("masked tokens", grouped(result.masked_tokens));
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
