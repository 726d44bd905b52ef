// The one exception type of the library, and help for its messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longformer {

/// An option with which the work would have gone on. A program says how it is called there.
enum class Remedy {
  /// Keep the first tokens of a text that is too long: TooLong::truncate.
  truncate,
  /// Keep the first tokens of the context of a question or, without one, of the question.
  truncate_context,
  truncate_question,
  /// Read such a text in segments that overlap: TooLong::split.
  split,
  /// Another pooling than that of the folder.
  pooling,
  /// DataOptions of the same name.
  format,
  text_field,
  label_field,
  id_field,
  delimiter,
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
  /// The option that is wrong: its name among the OptionFields of its struct, behind the path of
  /// the struct: "stride", "training.warmup_steps", "data.format". Empty: the error is about no
  /// option.
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

/// The candidate that is closest in spelling to a word, or empty when none is close.
std::string nearest(const std::string& word, std::span<const std::string> candidates);

/// First bytes that tell the kind of a file, except for what is in a zip archive.
inline constexpr std::size_t kKindBytes = 512;

struct FileKind {
  /// Its name in messages: "a PDF". Empty for plain text and for what is not known.
  std::string_view name = {};
  /// Advice to the user: "pdftotext makes text of it"; may be empty.
  std::string_view advice = {};
  /// Text with marks: HTML and XML.
  bool is_markup = false;

  bool is_known() const { return !name.empty(); }
  /// Whether it may be read as text.
  bool may_be_text() const { return !is_known() || is_markup; }
};

/// The kind of a file that begins so: kKindBytes of it, some thousand bytes to tell what is in a
/// zip archive, or the whole.
FileKind file_kind(std::string_view beginning);

}  // namespace longformer
