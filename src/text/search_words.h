// Words as a search index compares them: NFKC without case, accents and characters that nobody
// sees, and stems of one language. Scripts without blanks between words come character by
// character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace longformer::text {

/// The language of an index without stems.
inline constexpr std::string_view kNoLanguage = "none";

/// The languages that have stems, in alphabetical order.
std::vector<std::string> stem_languages();

/// A word, or a character of a script without blanks, with the bytes of the text that it stands
/// for. Marks belong to their character.
struct SearchWord {
  /// The word with its accents and without case. It splits into this word again.
  std::string text;
  /// The stem without accents.
  std::string stem;
  /// The stem of the accented word, without accents, where it is another one; else empty.
  std::string accented_stem;
  std::size_t begin = 0, end = 0;
  /// Whether it is a character of a script without blanks.
  bool is_character = false;
  /// Whether such a character follows directly upon the one before, of the same script.
  bool continues = false;
};

/// Whether a character is a letter, digit or mark that makes a word.
bool is_word_character(char32_t character);
/// Whether it is a mark on a letter that words are compared without.
bool is_accent(char32_t character);
/// Whether nobody sees it, as a soft hyphen; it is in no word and between none.
bool is_ignorable(char32_t character);
/// Whether it is one of a script that is written without blanks between words.
bool is_without_blanks(char32_t character);

/// Throws Error for a language that is not among stem_languages() and not kNoLanguage.
void check_language(const std::string& language);

/// Splits texts into words. An object serves one thread at a time.
class WordSplitter {
 public:
  using Sink = std::function<void(const SearchWord&)>;

  /// Throws Error as check_language does.
  explicit WordSplitter(const std::string& language);
  ~WordSplitter();

  /// Calls `sink` with every word of the text, which may hold any bytes.
  void split(std::string_view text, const Sink& sink);

 private:
  class Run;
  class Stemmer;

  /// A character of a folded text: its value, and WordScript and flags of it.
  struct Letter {
    char32_t value = 0;
    std::uint16_t kind = 0;
  };
  /// The letters that a character stands for.
  struct Folded {
    std::vector<Letter> letters;
    bool is_known = false;
    /// Whether it is a word, or several, wherever it stands: a sign such as ™ or ½.
    bool is_alone = false;
  };

  const Folded& folded(char32_t character);
  static std::string accented(const std::vector<Letter>& letters, bool composes);
  /// The letters without accents, and those with strokes or hooks as plain ones.
  static std::string plain(std::vector<Letter> letters, bool composes);
  std::string plain(std::string_view text, bool composes);
  /// The marks of one letter come in the order of their classes.
  static void order_marks(std::vector<Letter>& letters);
  /// Fills in what a word is written and compared by.
  void complete(std::vector<Letter>& letters, std::uint16_t script, SearchWord& word);
  void complete_ascii(std::uint16_t script, SearchWord& word);

  std::unique_ptr<Stemmer> stemmer_;
  std::unique_ptr<CharacterTable<Folded>> table_;
};

}  // namespace longformer::text
