// Queries with texts that are more or less relevant to them.
#pragma once

#include <string>
#include <vector>

#include "engine/frame/data_file.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

struct JudgedText {
  std::string text;
  /// 0: not relevant, 1: relevant.
  float relevance = 0;
};

struct RerankExample {
  /// The first record of the query.
  Origin origin;
  std::string query;
  std::vector<JudgedText> texts;

  bool has_relevant() const;
  bool has_irrelevant() const;
};

struct RerankData {
  std::string path;
  /// One for each query, in the order in which they appear first.
  std::vector<RerankExample> examples;
  /// Some record is a list: it has positives or negatives rather than a label.
  bool has_lists = false;
  /// Every relevance is 0 or 1.
  bool is_binary = true;
  DataReport report;
};

/// Reads JSON lines, a JSON list, CSV or TSV. The query of a record is its "query", "question",
/// "anchor" or "sentence1". Beside it stands
/// - a text ("text", "passage", "document", "answer" or "sentence2") and its relevance ("label",
///   "score" or "relevance", or the field that the options name), from 0 to 1,
/// - a list of texts ("texts", "passages", "documents" or "docs") and the list of their relevances
///   (also "labels" or "scores"),
/// - or positives ("positive", "positives", "pos", or a text without relevance), and perhaps
///   negatives ("negative", "negatives", "neg", "negative_1", …), each a text or a list of texts.
/// Records of the same query are one example. Throws Error that names file and line.
RerankData read_rerank_data(const std::string& path, const DataOptions& options);

}  // namespace longformer::tasks
