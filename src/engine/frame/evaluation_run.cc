#include "engine/frame/evaluation_run.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/frame/counters.h"

namespace longformer::engine {

void tell(const DataReport& report, Evaluation& result) {
  result.counts[kSkipped] += report.skipped;
  result.first_skipped = report.first_skipped();
  result.counts[kEmpty] += report.empty;
  result.notes = report.notes;
}

void EvaluationRun::start(const DataReport& report) {
  tell(report, result);
  total_ = report.examples;
}

void EvaluationRun::read(const Reading& reading) {
  ++records_;
  result.tokens += reading.tokens;
  count_length(reading.truncated, std::ssize(reading.ranges));
  report_progress();
}

void EvaluationRun::count_length(Index truncated, Index segments) {
  result.counts[kTruncatedExamples] += truncated > 0 ? 1 : 0;
  result.counts[kTruncatedTokens] += truncated;
  result.counts[kSegmentedExamples] += segments > 1 ? 1 : 0;
}

void EvaluationRun::count_text(const TextResult& text) {
  ++result.examples;
  ++records_;
  result.tokens += text.source_tokens;
  count_length(text.truncated, text.segments);
  report_progress();
}

Document EvaluationRun::measured(std::size_t number, const std::function<Reading()>& read) const {
  const Reading* kept = this->kept<Reading>(number);
  Document document = read_document([&] { return kept != nullptr ? *kept : read(); });
  if (!document.error.empty()) return document;
  if (pass->record(number).has_examples()) {
    try {
      document.outputs = pass->logits(number);
    } catch (const Error& error) {
      document.error = error.what();
    }
    return document;
  }
  Document run;
  model.stream(
      [&, is_read = false]() mutable -> std::optional<Document> {
        return std::exchange(is_read, true) ? std::nullopt : std::optional(std::move(document));
      },
      [&](const Document& done) { run = done; });
  return run;
}

Document EvaluationRun::document_of(const TextResult& result) {
  Document document;
  document.error = result.error;
  document.remedies = result.remedies;
  return document;
}

Json named_prediction(const Origin& origin) {
  Json prediction = Json::object();
  prediction["line"] = origin.line > 0 ? Json(origin.line) : Json();
  if (origin.record > 0) prediction["record"] = origin.record;
  prediction["id"] = Json();
  return prediction;
}

void EvaluationRun::report_progress() {
  if (!options.progress) return;
  const double share = static_cast<double>(total_) / static_cast<double>(records_);
  options.progress({records_, total_, result.tokens,
                    static_cast<std::int64_t>(share * static_cast<double>(result.tokens))});
}

bool EvaluationRun::usable(const Origin& origin, const Document& document) {
  if (document.error.empty()) return true;
  const std::string message = fmt::format("{}: {}", place_of(path, origin), document.error);
  if (!options.data.skip_invalid) {
    std::vector<Remedy> remedies = document.remedies;
    remedies.push_back(Remedy::skip_invalid);
    throw Error(message, std::move(remedies));
  }
  if (result.counts[kSkipped]++ == 0) result.first_skipped = message;
  return false;
}

void EvaluationRun::finish() const {
  require(result.examples > 0, "{}: expected an example that can be scored, found none: {}", path,
          result.first_skipped);
}

void EvaluationRun::predict(const Json& prediction, const Origin& origin) const {
  if (options.predictions) options.predictions(prediction_text(prediction, origin));
}

std::string prediction_text(const Json& prediction, const Origin& origin) {
  JsonLine line;
  for (const auto& [key, value] : prediction.items()) {
    line.add_json(key, key == "id" ? origin.id_json()
                                   : value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return line.object();
}

void EvaluationRun::add_labels(const ClassificationMetrics& metrics) {
  for (const LabelScores& one : metrics.labels) {
    result.labels.push_back({one.label, one.precision, one.recall, one.f1, one.support});
  }
}

}  // namespace longformer::engine
