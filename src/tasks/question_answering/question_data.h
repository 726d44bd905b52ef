// Data sets of questions about documents whose answers are spans of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/frame/data_file.h"
#include "longformer/text.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

struct GoldAnswer {
  std::string text;
  /// Characters of the context.
  CharacterSpan span;
};

struct QuestionExample {
  Origin origin;
  /// Questions about one document share it.
  std::shared_ptr<const std::string> context;
  std::string question;
  /// All that count as right; none for a question that the document does not answer (SQuAD 2).
  std::vector<GoldAnswer> answers;
};

struct QuestionData {
  std::string path;
  std::vector<QuestionExample> examples;
  /// Questions without an answer.
  std::int64_t unanswerable = 0;
  DataReport report;
};

/// Reads SQuAD 1 and 2 JSON, and JSON lines or a JSON list of {"id", "context", "question",
/// "answers": {"text", "answer_start"}} with a value or a list each, or of a list of such objects.
/// An answer without a start counts wherever it stands in the context, as in data of distant
/// supervision (TriviaQA). An answer that is not in its context at its start, counted in
/// characters, is a broken record. Throws Error that names file, line and question.
QuestionData read_questions(const std::string& path, const DataOptions& options);

}  // namespace longformer::tasks
