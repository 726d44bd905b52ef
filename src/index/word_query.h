// A question as queries of the full-text index.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace longformer::index {

/// Meaning of quotation marks in a question: a phrase that must be there, or nothing.
enum class QuotationMarks { phrases, ignored };

/// The words of a question, and its phrases in quotation marks. A word is what stands between
/// blanks and apostrophes: the full-text index takes it apart as it took the passages apart ("U.S."
/// is "u" before "s"). In scripts without blanks each pair of characters is a word.
///
/// A phrase stands between two quotation marks of one kind, of any language; the first one opens
/// before a word, the second closes behind one. Other marks are text: 5" is five inches.
class WordQuery {
 public:
  explicit WordQuery(std::string_view question, QuotationMarks marks = QuotationMarks::phrases);

  /// Words and phrases, each once, at most 1,024: words with a blank between.
  const std::vector<std::string>& terms() const { return terms_; }
  /// Those that are phrases.
  const std::vector<std::string>& phrases() const { return phrases_; }
  /// Passages with all phrases; empty where there are none.
  std::string required() const;

 private:
  void add_words(std::string_view text);
  void add_phrase(std::string_view text);
  /// False where the question has too many words already.
  bool add(const std::string& term);

  std::vector<std::string> terms_, phrases_;
  std::unordered_set<std::string> known_;
};

/// A word or phrase as FTS5 wants it.
std::string fts_string(std::string_view term);

}  // namespace longformer::index
