// Texts whose vectors are to be near each other, or near given ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/frame/data_file.h"
#include "longformer/text.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// A passage of a document, and what its vector should be near to.
struct MarkedPassage {
  /// Characters of the document.
  CharacterSpan span;
  /// Questions that it answers.
  std::vector<std::string> queries;
  /// The teacher's vector; empty: none is given.
  std::vector<float> vector;
  /// Text that a teacher reads instead of the passage; absent: the passage.
  std::optional<std::string> target;
};

struct EmbeddingExample {
  Origin origin;
  /// The anchor, its positive, and negatives; one text of which the vector alone is learned; or a
  /// document.
  std::vector<std::string> texts;
  /// How near two texts are.
  std::optional<float> score;
  /// The teacher's vector of the one text.
  std::vector<float> vector;
  /// Absent: not a document with passages.
  std::optional<std::vector<MarkedPassage>> passages;
};

struct EmbeddingData {
  std::string path;
  std::vector<EmbeddingExample> examples;
  DataReport report;

  bool has_scores() const;
  /// Whether there are anchors with positives, or passages with questions.
  bool has_pairs() const;
  bool has_vectors() const;
};

/// Reads JSON lines, a JSON list, CSV or TSV. A record is
/// - texts in their order: "anchor" ("query", "question", "sentence1"), "positive" ("pos",
///   "answer", "passage", "sentence2"), and "negative", "negative_1", … ("neg"), or, without any of
///   these names, all strings in their order, as sentence-transformers reads columns. "score",
///   "scores", "label" or "labels" is a number. A list of positives makes an example of each, a
///   list of negatives belongs to each;
/// - a document {"text", "passages": [{"begin", "end", "query" or "queries", "vector", "target"}]};
/// - or one text {"text", "vector"}, perhaps without a vector.
/// Throws Error that names file and line.
EmbeddingData read_embedding_data(const std::string& path, const DataOptions& options);

}  // namespace longformer::tasks
