// The one exception type of the library.
#pragma once

#include <cstdint>
#include <optional>
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

/// The fields of an Error.
struct ErrorParts {
  /// Name before the first colon of the message: a file, a text or an option. May be empty.
  std::string subject = {};
  /// The message without the subject.
  std::string reason;
  /// The option that is wrong, by its path in the structs of the library: "stride",
  /// "training.warmup_steps", "data.format". Empty: the error is about no option.
  std::string option = {};
  /// The key that is wrong in a configuration, whose file is the subject.
  std::string key = {};
  /// Index of the text or question in the call; absent: the error is about no single one.
  std::optional<std::int64_t> document = std::nullopt;
  /// In the order in which they are best offered; mostly none.
  std::vector<Remedy> remedies = {};
};

/// Thrown for every input that cannot be used. The message is one line that says what was expected
/// and what was found, and names the file, tensor or option that it concerns. Programs decide by
/// the fields, never by the words of the message.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::vector<Remedy> remedies = {})
      : Error(ErrorParts{.reason = message, .remedies = std::move(remedies)}) {}

  /// The message is the subject, a colon and the reason.
  explicit Error(ErrorParts parts)
      : std::runtime_error(parts.subject.empty() ? parts.reason
                                                 : parts.subject + ": " + parts.reason),
        parts_(std::move(parts)) {}

  const std::string& reason() const { return parts_.reason; }
  const std::string& option() const { return parts_.option; }
  const std::string& key() const { return parts_.key; }
  const std::optional<std::int64_t>& document() const { return parts_.document; }
  const std::vector<Remedy>& remedies() const { return parts_.remedies; }

  /// All fields, to throw the error again with others.
  const ErrorParts& parts() const { return parts_; }

 private:
  ErrorParts parts_;
};

}  // namespace longformer
