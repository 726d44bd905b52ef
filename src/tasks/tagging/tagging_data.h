// Data sets for labelling the words of documents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/frame/data_file.h"
#include "engine/frame/labels.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

struct TaggingExample {
  Origin origin;
  std::vector<std::string> words;
  /// One per word.
  std::vector<std::int32_t> labels;
};

struct TaggingData {
  std::string path;
  std::vector<TaggingExample> examples;
  LabelSet labels;
  /// Absent where names and numbers mean the same.
  std::optional<LabelKind> kind;
  DataReport report;
};

/// Reads JSON lines or a JSON list of {"tokens", "ner_tags" | "labels" | "tags"}, with names or
/// numbers as labels, or words in columns (conll_columns.h). Labels are those known, else those of
/// the data in sorted order. Throws Error that names file and line.
TaggingData read_tagging(const std::string& path, const DataOptions& options,
                         const KnownLabels& known);

}  // namespace longformer::tasks
