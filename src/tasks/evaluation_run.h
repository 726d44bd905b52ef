// Evaluating a model on a data set: what the tasks ask of the model, and the report that they fill
// in.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/evaluation_result.h"
#include "longformer/masking_options.h"
#include "longformer/progress.h"
#include "longformer/segment_merge.h"
#include "tasks/data/data_file.h"
#include "tasks/document.h"
#include "tasks/head.h"
#include "tasks/metrics/metrics.h"

namespace longformer::tasks {

/// A loaded model with its tokenizer.
class EvaluatedModel {
 public:
  virtual ~EvaluatedModel() = default;
  virtual const models::EncoderConfig& config() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;

  using Next = std::function<std::optional<Document>()>;
  using Done = std::function<void(const Document&)>;
  /// Calls `next` on another thread until it returns nothing, and `done` on this one for every
  /// document in order, with the logits of its rows or an error.
  virtual void stream(const Next& next, const Done& done) const = 0;

  using Use = std::function<void(const ops::Context&, const Head&, const Tensor& hidden)>;
  /// Runs the encoder over one row and gives `use` its states, while nothing else computes. Throws
  /// Error.
  virtual void with_states(const TokenRow& row, const Use& use) const = 0;
};

struct EvaluationOptions {
  DataOptions data = {};
  ReadingOptions reading = {};
  SegmentMerge merge = SegmentMerge::mean;
  /// Least score of a class of multi-label classification.
  float threshold = 0.5f;
  Index max_answer_tokens = 30;
  float no_answer_threshold = 0;
  MaskingOptions masking = {};
  /// Called with a JSON object on one line for every example.
  std::function<void(std::string_view)> predictions = {};
  ProgressCallback progress = {};
};

class EvaluationRun {
 public:
  EvaluationRun(const EvaluatedModel& model, const std::string& path,
                const EvaluationOptions& options)
      : model(model), path(path), options(options) {}

  const EvaluatedModel& model;
  const std::string& path;
  const EvaluationOptions& options;
  Evaluation result = {};

  /// What reading the data said, and how many examples there are.
  void start(const DataReport& report);

  /// Runs all records through the model, in order: `read` makes a Reading of each, on another
  /// thread; `score(record, document, prediction)` compares, and adds to {"line", "id"}. A record
  /// without a result is left out as a broken one would be.
  template <typename Record, typename Read, typename Score>
  void each(const std::vector<Record>& records, const Read& read, const Score& score) {
    const auto next = [&, i = std::size_t{0}]() mutable -> std::optional<Document> {
      if (i == records.size()) return std::nullopt;
      const Record& record = records[i++];
      return read_document([&] { return read(record); });
    };
    const auto done = [&, i = std::size_t{0}](const Document& document) mutable {
      const Record& record = records[i++];
      if (!usable(record.origin, document)) return;
      Json prediction = Json::object();
      prediction["line"] = record.origin.line > 0 ? Json(record.origin.line) : Json();
      prediction["id"] = record.origin.id.empty() ? Json() : Json(record.origin.id);
      score(record, document, prediction);
      predict(prediction);
      count(document.reading);
    };
    model.stream(next, done);
    require_examples();
  }

  bool wants_predictions() const { return static_cast<bool>(options.predictions); }
  void predict(const Json& prediction) const;

  void add(const std::string& name, double value) { result.metrics.emplace_back(name, value); }
  void add_labels(const ClassificationMetrics& metrics);

 private:
  void count(const Reading& reading);
  bool usable(const Origin& origin, const Document& document);
  void require_examples() const;

  std::int64_t total_ = 0;
};

}  // namespace longformer::tasks
