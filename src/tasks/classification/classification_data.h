// Data sets for classifying documents and pairs of texts, and for regression.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/frame/data_file.h"
#include "engine/frame/labels.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

enum class ProblemType { single_label, multi_label, regression };

/// "single_label_classification", "multi_label_classification", "regression": the problem_type of
/// config.json.
std::string_view name_of(ProblemType type);
/// Throws Error for any other name.
ProblemType problem_type(std::string_view name);

struct ClassificationExample {
  Origin origin;
  std::string text;
  /// The second text of a pair.
  std::optional<std::string> pair;
  /// Single-label: the class.
  std::int32_t label = 0;
  /// Multi-label: 1 for the classes of the document, else 0. Regression: its numbers.
  std::vector<float> values;
};

struct ClassificationData {
  std::string path;
  std::vector<ClassificationExample> examples;
  ProblemType problem = ProblemType::single_label;
  LabelSet labels;
  /// Absent where there are no classes, or names and numbers mean the same.
  std::optional<LabelKind> kind;
  DataReport report;
};

/// Settings that a model fixes before data is read; absent ones are taken from the data. A problem
/// without a name, here or in the options, is a regression for one label; else it is multi-label
/// when any document has a list of labels, a regression when all labels are numbers and any of them
/// is no whole one, or they are written as 3.0 and are more than 20, and otherwise single-label.
/// Labels are collected from the data in sorted order.
struct ClassificationTarget {
  std::optional<ProblemType> problem = std::nullopt;
  std::optional<LabelSet> labels = std::nullopt;
  std::optional<LabelKind> kind = std::nullopt;
};

/// Reads JSON lines or a JSON list of {"text", "label"} and {"text", "text_pair", "label"}, where a
/// list of labels makes a multi-label problem and a number with a decimal point a regression; a
/// list of 0 and 1 is a row with a place for each class, and so are members of 0 and 1 without
/// "label"; CSV and TSV with such columns; fastText lines; a folder with a folder of documents for
/// each class (IMDB, whose "unsup" has no labels and is left out); the articles of Hyperpartisan,
/// with their ground truth in the file beside whose name begins with ground-truth- instead of
/// articles-, or both in a folder. A null, an empty field, and in tables what pandas reads as none
/// (NaN, NA, None, …) is no label. Throws Error that names file and line.
ClassificationData read_classification(const std::string& path, const DataOptions& options,
                                       const ClassificationTarget& target);

/// A document before its labels are resolved.
struct UnresolvedDocument {
  Origin origin;
  /// Name of the target in messages.
  std::string place;
  std::string text;
  std::optional<std::string> pair;
  std::vector<std::string> labels;
  /// The data gives a list of labels, even of one.
  bool list = false;
  /// The labels as they stand in one field; empty for a list of JSON.
  std::string written = {};
};

/// The documents of a folder of classes, each a folder of files that read_one_document() reads.
std::vector<UnresolvedDocument> read_class_folders(const std::string& path,
                                                   const DataOptions& options, DataReport& report);
/// The articles of Hyperpartisan news, labels "true" and "false": the title, then the text of the
/// article without its tags, one line for a paragraph.
std::vector<UnresolvedDocument> read_hyperpartisan(const std::string& path,
                                                   const DataOptions& options, DataReport& report);

}  // namespace longformer::tasks
