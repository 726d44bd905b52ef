// A question as queries of the full-text index.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longformer::index {

/// What quotation marks in a question mean: a phrase that must be there, or nothing.
enum class QuotationMarks { phrases, ignored };

/// The words of a question, and its phrases in quotation marks. Words are what is between blanks
/// and apostrophes: the full-text index takes them apart as it took the passages apart ("U.S." is
/// "u" before "s").
class WordQuery {
 public:
  explicit WordQuery(std::string_view question, QuotationMarks marks = QuotationMarks::phrases);

  /// Words and phrases as queries, each once.
  const std::vector<std::string>& terms() const { return terms_; }
  /// Passages with any word or phrase; empty where the question has none.
  const std::string& any() const { return any_; }
  /// Passages with all phrases; empty where there are none.
  const std::string& required() const { return required_; }

 private:
  /// Whether there is a word in it.
  bool add(std::string_view words);

  std::vector<std::string> terms_;
  std::string any_, required_;
};

}  // namespace longformer::index
