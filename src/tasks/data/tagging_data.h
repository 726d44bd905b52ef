// Data sets for labelling the words of documents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tasks/data/data_file.h"
#include "tasks/data/labels.h"

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
  DataReport report;
};

/// Reads JSON lines or a JSON list of {"tokens", "ner_tags" | "labels" | "tags"}, with names or
/// numbers as labels, or CoNLL columns: a word and its columns on a line, the last one the label,
/// an empty line behind a sentence; a line -DOCSTART- is no word. Labels are those given, else
/// those of the data in sorted order. Throws Error that names file and line.
TaggingData read_tagging(const std::string& path, const DataOptions& options,
                         const std::optional<LabelSet>& labels);

}  // namespace longformer::tasks
