// Data sets of documents with a text that shall be written about each.
#pragma once

#include <string>
#include <vector>

#include "engine/frame/data_file.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

struct SequenceExample {
  Origin origin;
  std::string source, target;
};

struct SequenceData {
  std::string path;
  std::vector<SequenceExample> examples;
  DataReport report;
};

/// Reads JSON lines, a JSON list, CSV or TSV. Without other names in the options the document is in
/// the first of the fields "text", "source", "document" and "article" that is there, and the text
/// in "summary", "target", "highlights" or "abstract". Texts that are empty are counted, or left
/// out as broken with skip_invalid. Throws Error that names file and line.
SequenceData read_sequences(const std::string& path, const DataOptions& options);

}  // namespace longformer::tasks
