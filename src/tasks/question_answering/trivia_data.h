// TriviaQA as it was published: questions, their answers in all spellings, and documents in files
// of their own that may say so (docs/spec/tasks.md#t1).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/frame/data_file.h"
#include "longformer/options.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

struct TriviaQuestion {
  std::string id;
  std::string text;
  /// All that count as right, normalised: NormalizedAliases and HumanAnswers. None where the file
  /// is one for predictions alone.
  std::vector<std::string> answers;
};

/// A question about one document.
struct TriviaExample {
  /// Its id is "QUESTION--FILE".
  Origin origin;
  std::shared_ptr<const TriviaQuestion> question;
  /// Key of its answer in files of predictions.
  std::string key;
  /// The file of the document; empty where the data have its text.
  std::string file;
  std::shared_ptr<const std::string> text;
};

struct TriviaData {
  std::string path;
  std::vector<TriviaExample> examples;
  /// Question of each key that a prediction is wanted for: the id of a question (Wikipedia) or that
  /// of an example (Web).
  std::map<std::string, std::shared_ptr<const TriviaQuestion>> gold;
  /// Whether the documents of a question have one prediction together (Wikipedia).
  bool by_question = true;
  /// Whether any question has answers.
  bool has_answers = false;
  /// Its examples are documents.
  DataReport report;
};

/// Whether a file is TriviaQA as published, or in the form of SQuAD with the members "qid" and
/// "aliases" that the authors of Longformer give it.
bool is_trivia_data(const std::string& path, const DataOptions& options);

/// Reads such a file, but for the documents that have files of their own. A document that would lie
/// outside the folder of evidence is a broken record. Throws Error that names file and record.
TriviaData read_trivia(const std::string& path, const DataOptions& options);

/// The document of an example. Throws Error that names its file.
std::string text_of(const TriviaExample& example, const DataOptions& options);

}  // namespace longformer::tasks
