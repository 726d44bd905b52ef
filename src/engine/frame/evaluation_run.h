// Evaluating a model on a data set: what the tasks ask of the model, and the report that they fill
// in.
#pragma once

#include <algorithm>
#include <any>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/frame/data_file.h"
#include "engine/frame/head.h"
#include "engine/frame/measured_pass.h"
#include "engine/frame/metrics.h"
#include "engine/reading/document.h"
#include "longformer/options.h"
#include "longformer/report.h"

namespace longformer::engine {

class TextVectors;  // text_vectors.h

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

  /// Runs the encoder over rows and gives `use` their states behind each other, while nothing else
  /// computes. Throws Error.
  virtual void with_states(std::span<const TokenRow> rows, const UseStates& use) const = 0;
};

/// A text that a model wrote about a document, or why it did not.
struct TextResult {
  std::string text;
  Index source_tokens = 0, truncated = 0, segments = 1, written_tokens = 0;
  /// Whether it reached the longest length, and whether it is one token again and again.
  bool is_cut = false, repeats = false;
  std::string error = {};
  std::vector<Remedy> remedies = {};
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
  /// Writes a text about each document; null for a model that writes none.
  std::function<std::vector<TextResult>(std::span<const std::string>)> write = {};
  /// Makes vectors of texts; null for a model of which none are asked.
  const TextVectors* vectors = nullptr;
  bool rouge_stems = false, rouge_intervals = false;
  /// Called with a JSON object on one line for every example.
  std::function<void(std::string_view)> predictions = {};
  /// Called with the text of a file of predictions in the published form, in parts.
  std::function<void(std::string_view)> official_predictions = {};
  /// Called with the parts of the data set with the paragraphs that a second stage reads.
  std::function<void(std::string_view)> selected = {};
  ProgressCallback progress = {};
};

/// {"line", "id"} of a prediction, with "record" where there is one; prediction_text() writes the
/// id.
Json named_prediction(const Origin& origin);
/// The JSON of a prediction, whose member "id" becomes that of the origin, as the data have it.
std::string prediction_text(const Json& prediction, const Origin& origin);

/// Adds notes on reading the data for the reader of an evaluation; counts of skipped and empty
/// examples are added.
void tell(const DataReport& report, Evaluation& result);

class EvaluationRun {
 public:
  EvaluationRun(const EvaluatedModel& model, const std::string& path,
                const EvaluationOptions& options)
      : model(model), path(path), options(options) {}

  const EvaluatedModel& model;
  const std::string& path;
  const EvaluationOptions& options;
  /// In a training: the pass over the rows of the data set, which gives its loss too. Null: the
  /// model is asked.
  MeasuredPass* pass = nullptr;
  Evaluation result = {};

  /// Notes on reading the data, and the number of examples.
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
    const auto judge = [&](const Record& record, const Document& document) {
      one(record.origin, document, [&](Json& prediction) { score(record, document, prediction); });
    };
    if (pass == nullptr) {
      model.stream(next, [&, i = std::size_t{0}](const Document& document) mutable {
        judge(records[i++], document);
      });
    } else {
      for (std::size_t i = 0; i < records.size(); ++i) {
        judge(records[i], measured(i, [&] { return read(records[i]); }));
      }
    }
    finish();
  }

  /// Values that collating kept of the record of this number; null for none.
  template <typename Read>
  const Read* kept(std::size_t number) const {
    return pass == nullptr ? nullptr : std::any_cast<Read>(&pass->record(number).reading);
  }

  /// For tasks whose head reads the states of a document: those of the record's `rows`, from the
  /// pass of a training where it has them. Throws Error.
  void with_states(std::size_t number, std::span<const TokenRow> rows, const UseStates& use) const {
    if (pass != nullptr && pass->record(number).has_examples()) {
      pass->with_states(number, use);
    } else {
      model.with_states(rows, use);
    }
  }

  /// One record of which the model has said what it says, for tasks that ask it themselves:
  /// `score(prediction)` compares. finish() follows the last one. Returns false for a record that
  /// the model could not read, which is left out.
  template <typename Score>
  bool one(const Origin& origin, const Document& document, const Score& score) {
    if (!usable(origin, document)) return false;
    answer(origin, score);
    read(document.reading);
    return true;
  }

  /// One example that is scored, of a record whose reading is counted apart.
  template <typename Score>
  void answer(const Origin& origin, const Score& score) {
    Json prediction = named_prediction(origin);
    score(prediction);
    predict(prediction, origin);
    ++result.examples;
  }

  /// Counts what was read of a record.
  void read(const Reading& reading);

  /// Throws Error where there was no example that could be scored.
  void finish() const;

  /// Runs with a text that the model writes about `source(record)`.
  template <typename Record, typename Source, typename Score>
  void each_text(const std::vector<Record>& records, const Source& source, const Score& score) {
    // Enough to decode together, few enough to see progress.
    constexpr std::size_t kTogether = 16;
    for (std::size_t first = 0; first < records.size(); first += kTogether) {
      const std::size_t count = std::min(kTogether, records.size() - first);
      std::vector<std::string> sources;
      for (std::size_t i = 0; i < count; ++i) sources.push_back(source(records[first + i]));
      const std::vector<TextResult> results = options.write(sources);
      for (std::size_t i = 0; i < count; ++i) {
        const Record& record = records[first + i];
        if (!usable(record.origin, document_of(results[i]))) continue;
        Json prediction = named_prediction(record.origin);
        score(record, results[i], prediction);
        predict(prediction, record.origin);
        count_text(results[i]);
      }
    }
    finish();
  }

  bool wants_predictions() const { return static_cast<bool>(options.predictions); }
  void predict(const Json& prediction, const Origin& origin = {}) const;
  /// Whether a file of predictions in the published form is wanted.
  bool publishes() const { return static_cast<bool>(options.official_predictions); }
  /// Hands on a part of the file of predictions in the published form, where one is wanted.
  void publish(std::string_view part) const {
    if (publishes()) options.official_predictions(part);
  }

  void add(const std::string& name, double value) { result.metrics.emplace_back(name, value); }
  void add_labels(const ClassificationMetrics& metrics);

 private:
  /// A record with what the pass has of it; one without examples is run by itself.
  Document measured(std::size_t number, const std::function<Reading()>& read) const;
  static Document document_of(const TextResult& result);
  void count_text(const TextResult& result);
  void count_length(Index truncated, Index segments);
  void report_progress();
  bool usable(const Origin& origin, const Document& document);

  /// Records in all, and those that were read.
  std::int64_t total_ = 0, records_ = 0;
};

}  // namespace longformer::engine
