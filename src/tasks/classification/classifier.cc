#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/frame/scores.h"
#include "engine/run/document_stream.h"
#include "engine/run/task_folder.h"
#include "longformer/report.h"
#include "longformer/tasks.h"
#include "tasks/classification/classification.h"

namespace longformer {
namespace {

ScoreFunction default_function(const ModelInfo& info) {
  if (info.problem_type == "regression") return ScoreFunction::none;
  const bool alone = info.problem_type == "multi_label_classification" || info.labels.size() == 1;
  return alone ? ScoreFunction::sigmoid : ScoreFunction::softmax;
}

std::vector<float> function_scores(std::span<const float> logits, ScoreFunction function) {
  if (function == ScoreFunction::softmax) return engine::softmax(logits);
  if (function == ScoreFunction::sigmoid) return engine::sigmoid(logits);
  return {logits.begin(), logits.end()};
}

}  // namespace

longformer::Classification tasks::classification_of(const ModelInfo& info, const Document& document,
                                                    const ClassifyOptions& options) {
  longformer::Classification result;
  result.tokens = document.reading.tokens;
  result.truncated = document.reading.truncated;
  result.segments = static_cast<std::int64_t>(document.reading.rows.size());
  if (!document.error.empty()) return result;
  result.logits = merged_logits(document.outputs, options.merge);
  const std::vector<float> scores =
      function_scores(result.logits, options.function.value_or(default_function(info)));
  for (std::size_t c = 0; c < scores.size(); ++c) {
    result.scores.push_back({info.labels[c], scores[c]});
  }
  std::stable_sort(result.scores.begin(), result.scores.end(),
                   [](const ClassScore& a, const ClassScore& b) { return a.score > b.score; });
  return result;
}

std::string to_json(const Classification& result, std::int64_t top_k) {
  JsonLine json;
  json.add("tokens", result.tokens).add("truncated", result.truncated);
  json.add("segments", result.segments);
  std::vector<JsonLine> labels;
  for (const ClassScore& one : result.scores) {
    if (top_k > 0 && std::ssize(labels) == top_k) break;
    labels.emplace_back().add("label", one.label).add("score", one.score);
  }
  return json.add_objects("labels", labels).object();
}

Classifier::Classifier(Model model, Tokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  require_task(model_, "model", tasks::classification());
}

Classifier Classifier::load(const std::string& folder, const LoadOptions& options) {
  Model model = load_for_task(folder, options, tasks::classification());
  require_task(model, folder, tasks::classification());
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return {std::move(model), std::move(tokenizer)};
}

void Classifier::classify(const Source& source, const Sink& sink,
                          const ClassifyOptions& options) const {
  const ModelInfo& info = model_.info();
  const engine::RowReader reader(tokenizer_, reading_options(model_, options));
  const auto next = [&]() -> std::optional<Document> {
    std::optional<ClassifyInput> input = source();
    if (!input) return std::nullopt;
    return read_document([&] {
      return input->pair ? reader.read_pair(input->text, std::move(*input->pair))
                         : reader.read(std::move(input->text));
    });
  };
  const auto done = [&](const Document& document) {
    ClassifyOutcome outcome{document.error, {}, document.remedies};
    outcome.classification = tasks::classification_of(info, document, options);
    sink(outcome);
  };
  stream_documents(model_, {.batch_tokens = options.batch_tokens}, next, done);
}

std::vector<Classification> Classifier::classify(std::span<const std::string> texts,
                                                 const ClassifyOptions& options) const {
  std::vector<Classification> results;
  classify(
      [next = source_over(texts)]() mutable -> std::optional<ClassifyInput> {
        std::optional<std::string> text = next();
        if (!text) return std::nullopt;
        return ClassifyInput{.text = std::move(*text)};
      },
      [&](const ClassifyOutcome& outcome) {
        require(outcome.error.empty(), outcome.remedies, TextIndex{"document", results.size()},
                "{}", outcome.error);
        results.push_back(outcome.classification);
      },
      options);
  return results;
}

}  // namespace longformer
