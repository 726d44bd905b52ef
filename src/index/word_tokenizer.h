// The words of the full-text index. Scripts without blanks between words are found by overlapping
// pairs of characters: "機械学習" has 機械, 械学 and 学習, and each character alone.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/search_words.h"

struct sqlite3;

namespace longformer::index {

/// Changes when the words of a text change: an index of another version is made again from its
/// texts.
inline constexpr int kWordsVersion = 1;
/// The language of a new index.
inline constexpr const char* kDefaultLanguage = "english";

/// A text that goes into the index, or one that is looked for: of pairs and single characters a
/// query has only what decides.
enum class WordsOf { document, query };

/// A word of the index, with the bytes of the text that it stands for.
struct IndexWord {
  std::string_view form;
  /// Another form at the place of the word before.
  bool is_other = false;
  std::size_t begin = 0, end = 0;
};

/// Calls `sink` with every word, until it returns false.
void index_words(text::WordSplitter& splitter, std::string_view text, WordsOf kind,
                 const std::function<bool(const IndexWord&)>& sink);

/// A part of a text in bytes.
using ByteSpan = std::pair<std::size_t, std::size_t>;

/// Finds the places of words and phrases in texts, as the full-text index does.
class TermFinder {
 public:
  /// Each term as WordQuery writes it. The splitter must live as long.
  TermFinder(text::WordSplitter& splitter, std::span<const std::string> terms);
  ~TermFinder();

  /// Parts that do not overlap, in their order.
  std::vector<ByteSpan> places_in(std::string_view text) const;

 private:
  struct Terms;
  text::WordSplitter& splitter_;
  std::unique_ptr<Terms> terms_;
};

/// The function of SQL that counts how often a row has what a MATCH asked for.
inline constexpr const char* kOccurrences = "occurrences";

/// Makes kOccurrences and the tokenizer known to a database, as "longformer LANGUAGE".
void register_tokenizer(sqlite3* database);

}  // namespace longformer::index
