// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace longformer {

/// An option with which the work would have gone on. A program says how it is called there.
enum class Remedy {
  /// Keep the first tokens of a text that is too long: TooLong::truncate.
  truncate,
  /// The same, of the context of a question or, without one, of the question.
  truncate_context,
  truncate_question,
  /// Read such a text in segments that overlap: TooLong::split.
  split,
  /// Another pooling than that of the folder.
  pooling,
  /// DataOptions of the same name.
  format,
  columns,
  quotes,
  skip_invalid,
  /// TriviaOptions::evidence: another folder of documents.
  evidence,
  /// EmbeddingTrainingOptions::teacher: a model to learn from.
  teacher,
  /// An adapter is given beside the folder of its model.
  adapter,
  /// Go on from the last checkpoint of the folder, or overwrite it.
  resume_or_overwrite,
  /// TrainingOptions::save_total_limit: fewer checkpoints at a time.
  fewer_checkpoints,
  /// FinetuneOptions::new_head: train a head with the labels of the data in place of the folder's.
  new_head,
};

/// Thrown for every input that cannot be used. The message is one line that says what was expected
/// and what was found, and names the file, tensor or option that it concerns.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::vector<Remedy> remedies = {})
      : std::runtime_error(message), remedies_(std::move(remedies)) {}

  /// In the order in which they are best offered; mostly none.
  const std::vector<Remedy>& remedies() const { return remedies_; }

 private:
  std::vector<Remedy> remedies_;
};

}  // namespace longformer
