// How well predictions agree with what is right: classes, numbers, entities.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longformer::engine {

/// A ratio of 0 ÷ 0 is 0, as in scikit-learn and seqeval.
struct LabelScores {
  std::string label;
  double precision = 0, recall = 0, f1 = 0;
  /// How often the label is right.
  std::int64_t support = 0;
};

struct ClassificationMetrics {
  /// Share of documents with the right class, or of multi-label with exactly the right classes.
  double accuracy = 0;
  /// Counts over all labels together; mean over labels; mean weighted by support.
  LabelScores micro, macro, weighted;
  std::vector<LabelScores> labels;
};

/// Scores of one class per document, as scikit-learn counts: macro is the mean over the labels that
/// are right or predicted anywhere; `labels` has those, in order. Elements below 0 of `expected`
/// are left out. Throws Error for vectors of different lengths.
ClassificationMetrics class_metrics(std::span<const std::int32_t> predicted,
                                    std::span<const std::int32_t> expected,
                                    std::span<const std::string> labels);

/// Scores of any number of classes per document: predicted are those whose score exceeds the
/// threshold. Both [documents, C]. All labels count for the means.
ClassificationMetrics multi_label_metrics(std::span<const float> scores,
                                          std::span<const float> expected,
                                          std::span<const std::string> labels, float threshold);

struct RegressionMetrics {
  double mean_squared_error = 0, mean_absolute_error = 0;
  /// NaN where one side is constant.
  double pearson = 0, spearman = 0;
};

RegressionMetrics regression_metrics(std::span<const float> predicted,
                                     std::span<const float> expected);

/// An entity of a sequence of labels: its type, first element and last + 1.
struct LabelledRange {
  std::string type;
  std::int64_t begin = 0, end = 0;
  bool operator==(const LabelledRange&) const = default;
};

/// The entities of labels in IOB1, IOB2, IOE or IOBES, leniently, as conlleval and seqeval read
/// them: a label that does not fit what is before it begins an entity too. A label without "B-",
/// "I-", "E-" or "S-" counts as if it had "I-".
std::vector<LabelledRange> entities_of(std::span<const std::string> labels);

/// Precision, recall and F1 of whole entities as seqeval gives them (accuracy is of single labels);
/// `labels` are the types, sorted.
class EntityCounter {
 public:
  /// One document; throws Error for sequences of different lengths.
  void add(std::span<const std::string> predicted, std::span<const std::string> expected);
  ClassificationMetrics metrics() const;

 private:
  struct Counts {
    std::string type;
    std::int64_t both = 0, predicted = 0, expected = 0;
  };
  Counts& counts_of(const std::string& type);

  std::vector<Counts> counts_;
  std::int64_t labels_ = 0, right_ = 0;
};

}  // namespace longformer::engine
