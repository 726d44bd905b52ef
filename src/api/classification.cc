#include "longformer/classification.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <numeric>
#include <utility>

#include "api/document_stream.h"
#include "core/error.h"
#include "tasks/segments.h"
#include "tasks/text_template.h"

namespace longformer {
namespace {

ScoreFunction default_function(const ModelInfo& info) {
  if (info.problem_type == "regression") return ScoreFunction::none;
  const bool alone = info.problem_type == "multi_label_classification" || info.labels.size() == 1;
  return alone ? ScoreFunction::sigmoid : ScoreFunction::softmax;
}

std::vector<float> scores_of(std::span<const float> logits, ScoreFunction function) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (function == ScoreFunction::none) return scores;
  // A logistic function is a softmax beside a logit of 0.
  const bool softmax = function == ScoreFunction::softmax;
  const double largest = softmax ? *std::max_element(logits.begin(), logits.end()) : 0.0;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  for (float& score : scores) {
    const auto logit = static_cast<double>(score);
    score =
        static_cast<float>(softmax ? std::exp(logit - largest) / sum : 1 / (1 + std::exp(-logit)));
  }
  return scores;
}

std::vector<float> merged(std::span<const DocumentOutput> segments, SegmentMerge merge) {
  std::vector<double> sums(segments[0].logits.begin(), segments[0].logits.end());
  for (const DocumentOutput& segment : segments.subspan(1)) {
    for (std::size_t c = 0; c < sums.size(); ++c) {
      const auto logit = static_cast<double>(segment.logits[c]);
      sums[c] = merge == SegmentMerge::mean ? sums[c] + logit : std::max(sums[c], logit);
    }
  }
  const double divisor = merge == SegmentMerge::mean ? static_cast<double>(segments.size()) : 1.0;
  std::vector<float> logits;
  for (const double sum : sums) logits.push_back(static_cast<float>(sum / divisor));
  return logits;
}

/// Turns texts into segments, and remembers what the result will say of each.
class TextReader {
 public:
  TextReader(const Model& model, const Tokenizer& tokenizer, const ClassifyOptions& options)
      : model_(model),
        tokenizer_(tokenizer),
        options_(options),
        around_(tokenizer),
        capacity_(model.info().max_tokens - around_.size()) {
    require(capacity_ > 0, "model: expected room for more than {} tokens, found {}", around_.size(),
            model.info().max_tokens);
    require(
        options.too_long != TooLong::split || (options.stride >= 0 && options.stride < capacity_),
        "stride: expected 0 to {} tokens, found {}", capacity_ - 1, options.stride);
  }

  SegmentedDocument read(std::string_view text) {
    Classification result;
    SegmentedDocument document;
    try {
      document.segments = segments(text, result);
    } catch (const Error& error) {
      document.error = error.what();
    }
    result.segments = static_cast<std::int64_t>(document.segments.size());
    const std::lock_guard lock(mutex_);
    results_.push_back(std::move(result));
    return document;
  }

  /// What is known beforehand of the next document in order.
  Classification next_result() {
    const std::lock_guard lock(mutex_);
    Classification result = std::move(results_.front());
    results_.pop_front();
    return result;
  }

 private:
  std::vector<Segment> segments(std::string_view text, Classification& result) const {
    const Encoding encoding =
        tokenizer_.encode(text, {.add_special_tokens = false, .max_length = {}});
    auto tokens = static_cast<Index>(encoding.ids.size());
    result.tokens = tokens + around_.size();
    if (tokens > capacity_) {
      require(options_.too_long != TooLong::refuse,
              "expected at most {} tokens, found {} (--truncate keeps the first ones, --stride N "
              "reads all in segments that overlap by N tokens)",
              model_.info().max_tokens, result.tokens);
      if (options_.too_long == TooLong::truncate) {
        result.truncated = tokens - capacity_;
        tokens = capacity_;
      }
    }
    std::vector<Segment> segments;
    const Index overlap = options_.too_long == TooLong::split ? options_.stride : 0;
    for (const auto& range : tasks::plan_segments(tokens, capacity_, overlap)) {
      Segment& segment = segments.emplace_back();
      segment.tokens = around_.around(encoding, range);
      if (options_.global_attention) {
        segment.global_mask = options_.global_attention->mask(model_, segment.tokens, text);
      }
    }
    return segments;
  }

  const Model& model_;
  const Tokenizer& tokenizer_;
  const ClassifyOptions& options_;
  tasks::TextTemplate around_;
  Index capacity_;
  std::mutex mutex_;
  std::deque<Classification> results_;
};

}  // namespace

Classifier Classifier::load(const std::string& folder, const LoadOptions& options) {
  Model model = Model::load(folder, options);
  require(model.info().head == "sequence-classification",
          "{}: expected a sequence-classification head (…ForSequenceClassification), found {}",
          folder, model.info().head.empty() ? "none" : model.info().head);
  Tokenizer tokenizer = Tokenizer::load(folder);
  require(tokenizer.vocabulary_size() <= model.info().vocabulary_size,
          "{}: expected a tokenizer of at most {} tokens (vocab_size of config.json), found {}",
          folder, model.info().vocabulary_size, tokenizer.vocabulary_size());
  return {std::move(model), std::move(tokenizer)};
}

void Classifier::classify(const Source& source, const Sink& sink,
                          const ClassifyOptions& options) const {
  const ModelInfo& info = model_.info();
  require(!options.global_attention || info.has_global_attention,
          "global attention: expected a Longformer model, found {}", info.model_type);
  const ScoreFunction function = options.function.value_or(default_function(info));
  TextReader reader(model_, tokenizer_, options);
  const auto next = [&]() -> std::optional<SegmentedDocument> {
    const std::optional<std::string> text = source();
    if (!text) return std::nullopt;
    return reader.read(*text);
  };
  const auto done = [&](const SegmentedDocument& document,
                        std::span<const DocumentOutput> outputs) {
    ClassifyOutcome outcome{document.error, reader.next_result()};
    if (document.error.empty()) {
      Classification& result = outcome.classification;
      result.logits = merged(outputs, options.merge);
      const std::vector<float> scores = scores_of(result.logits, function);
      for (std::size_t c = 0; c < scores.size(); ++c) {
        result.scores.push_back({info.labels[c], scores[c]});
      }
      std::stable_sort(result.scores.begin(), result.scores.end(),
                       [](const ClassScore& a, const ClassScore& b) { return a.score > b.score; });
    }
    sink(outcome);
  };
  stream_documents(model_, {.batch_tokens = options.batch_tokens}, next, done);
}

std::vector<Classification> Classifier::classify(std::span<const std::string> texts,
                                                 const ClassifyOptions& options) const {
  std::size_t next = 0;
  std::vector<Classification> results;
  classify(
      [&]() -> std::optional<std::string> {
        if (next == texts.size()) return std::nullopt;
        return texts[next++];
      },
      [&](const ClassifyOutcome& outcome) {
        require(outcome.error.empty(), "document {}: {}", results.size(), outcome.error);
        results.push_back(outcome.classification);
      },
      options);
  return results;
}

}  // namespace longformer
