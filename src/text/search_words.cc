#include "text/search_words.h"

#include <fmt/ranges.h>
#include <libstemmer.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "text/word_characters.h"

namespace longformer::text {
namespace {

/// Scripts, in the numbers of tools/make_word_characters.py. Scripts without blanks stand between
/// east_asian (Han, kana and Bopomofo) and last_without_blanks; others follow.
enum WordScript : std::uint16_t {
  common,
  latin,
  greek,
  cyrillic,
  hebrew,
  arabic,
  armenian,
  devanagari,
  tamil,
  east_asian,
  hangul,
  last_without_blanks = 0x25
};

/// Flags beside the script.
constexpr std::uint16_t kScript = 0xff, kKeptMark = 0x100, kDigit = 0x200, kIgnored = 0x400,
                        kAccent = 0x800, kMark = kKeptMark | kAccent;
/// Mark between words.
constexpr std::uint16_t kBetween = 0xffff;

/// Longer words are no words of a language, and their stems would take long.
constexpr std::size_t kLongestStemmed = 128;

constexpr char32_t kDotAbove = 0x307;

const CodePointRange* range_of(const CodePointRange* begin, const CodePointRange* end,
                               char32_t character) {
  const auto* found =
      std::lower_bound(begin, end, character,
                       [](const CodePointRange& range, char32_t c) { return range.last < c; });
  return found != end && found->first <= character ? found : nullptr;
}

std::uint16_t kind_of(char32_t c) {
  const auto* found = range_of(std::begin(word_characters), std::end(word_characters), c);
  return found == nullptr ? kBetween : found->value;
}

bool is_later(char32_t c) {
  return range_of(std::begin(later_characters), std::end(later_characters), c) != nullptr;
}

bool is_without_blanks(std::uint16_t kind) {
  const auto script = static_cast<std::uint16_t>(kind & kScript);
  return kind != kBetween && script >= east_asian && script <= last_without_blanks;
}

/// 0 … 9: digits of a script stand behind each other, some scripts beside each other.
char32_t value_of_digit(char32_t digit) {
  char32_t zero = digit;
  while (zero > 0 && (kind_of(zero - 1) & kDigit) != 0 && kind_of(zero - 1) != kBetween) --zero;
  return U'0' + (digit - zero) % 10;
}

/// Full decomposition without case: what follows is in no order yet.
std::u32string decomposed(char32_t c) {
  std::array<utf8proc_int32_t, 64> parts;
  int boundary = 0;
  constexpr auto kOptions =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD);
  const auto count = is_later(c)
                         ? 0
                         : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                                   static_cast<utf8proc_ssize_t>(parts.size()),
                                                   kOptions, &boundary);
  if (count <= 0 || count > std::ssize(parts)) return std::u32string(1, c);
  std::u32string text;
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    text += static_cast<char32_t>(parts[static_cast<std::size_t>(i)]);
  }
  return text;
}

int class_of(char32_t c) {
  return is_later(c) ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

bool is_leading(char32_t c) { return (c >= 0x1100 && c < 0x1160) || (c >= 0xa960 && c < 0xa980); }
bool is_vowel(char32_t c) { return (c >= 0x1160 && c < 0x11a8) || (c >= 0xd7b0 && c < 0xd7c7); }
bool is_trailing(char32_t c) { return (c >= 0x11a8 && c < 0x1200) || (c >= 0xd7cb && c < 0xd800); }

/// Whether a Hangul letter belongs to the syllable that ends in `last`.
bool continues_syllable(char32_t last, char32_t next) {
  return (is_leading(last) && is_vowel(next)) || (is_vowel(last) && is_trailing(next));
}

struct PlainLetter {
  char32_t letter;
  std::string_view plain;
};

/// Letters with strokes and hooks, ligatures, and letters of Arabic and Persian that keyboards and
/// fonts exchange, in increasing order. They have no decomposition.
constexpr PlainLetter kPlainLetters[] = {
    {U'æ', "ae"}, {U'ð', "d"},       {U'ø', "o"},       {U'þ', "th"},      {U'đ', "d"},
    {U'ħ', "h"},  {U'ı', "i"},       {U'ł', "l"},       {U'ŋ', "n"},       {U'œ', "oe"},
    {U'ŧ', "t"},  {U'ƀ', "b"},       {U'ƃ', "b"},       {U'ƈ', "c"},       {U'ƌ', "d"},
    {U'ƒ', "f"},  {U'ƙ', "k"},       {U'ƚ', "l"},       {U'ƞ', "n"},       {U'ƥ', "p"},
    {U'ƫ', "t"},  {U'ƭ', "t"},       {U'ƴ', "y"},       {U'ƶ', "z"},       {U'ǥ', "g"},
    {U'ȥ', "z"},  {U'ȷ', "j"},       {U'ȼ', "c"},       {U'ȿ', "s"},       {U'ɇ', "e"},
    {U'ɉ', "j"},  {U'ɍ', "r"},       {U'ɏ', "y"},       {U'ɓ', "b"},       {U'ɖ', "d"},
    {U'ɗ', "d"},  {U'ɠ', "g"},       {U'ɨ', "i"},       {U'ɫ', "l"},       {U'ɬ', "l"},
    {U'ɲ', "n"},  {U'ɵ', "o"},       {U'ʂ', "s"},       {U'ʈ', "t"},       {U'ʉ', "u"},
    {U'ʋ', "v"},  {0x629, "\u0647"}, {0x649, "\u064a"}, {0x6a9, "\u0643"}, {0x6cc, "\u064a"}};

/// Form of a letter for comparing words; empty: the letter itself.
std::string_view plain_letter(char32_t c) {
  const auto* found =
      std::lower_bound(std::begin(kPlainLetters), std::end(kPlainLetters), c,
                       [](const PlainLetter& one, char32_t letter) { return one.letter < letter; });
  return found != std::end(kPlainLetters) && found->letter == c ? found->plain : std::string_view();
}

std::size_t end_of_ascii_word(std::string_view text, std::size_t begin) {
  const auto is_part = [](char byte) {
    const char lower = ascii_lower(byte);
    return (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9');
  };
  while (begin < text.size() && is_part(text[begin])) ++begin;
  return begin;
}

/// Canonical composition of letters in canonical order.
void compose_all(std::vector<utf8proc_int32_t>& letters) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const auto size = utf8proc_normalize_utf32(letters.data(), std::ssize(letters), kOptions);
  if (size > 0) letters.resize(static_cast<std::size_t>(size));
}

/// The scripts that the stems of a language are for.
std::array<WordScript, 2> scripts_of(std::string_view language) {
  if (language == "arabic") return {arabic, arabic};
  if (language == "armenian") return {armenian, armenian};
  if (language == "greek") return {greek, greek};
  if (language == "hindi" || language == "nepali") return {devanagari, devanagari};
  if (language == "russian") return {cyrillic, cyrillic};
  if (language == "serbian") return {cyrillic, latin};
  if (language == "tamil") return {tamil, tamil};
  if (language == "yiddish") return {hebrew, hebrew};
  return {latin, latin};
}

}  // namespace

std::vector<std::string> stem_languages() {
  std::vector<std::string> languages;
  for (const char** name = sb_stemmer_list(); *name != nullptr; ++name)
    languages.emplace_back(*name);
  std::sort(languages.begin(), languages.end());
  return languages;
}

bool is_word_character(char32_t c) {
  const std::uint16_t kind = kind_of(c);
  return kind != kBetween && (kind & (kIgnored | kAccent)) == 0;
}

bool is_accent(char32_t c) {
  const std::uint16_t kind = kind_of(c);
  return kind != kBetween && (kind & kAccent) != 0;
}

bool is_ignorable(char32_t c) {
  const std::uint16_t kind = kind_of(c);
  return kind != kBetween && (kind & kIgnored) != 0;
}

bool is_without_blanks(char32_t c) { return is_without_blanks(kind_of(c)); }

void check_language(const std::string& language) {
  if (language == kNoLanguage) return;
  const std::vector<std::string> known = stem_languages();
  require(std::find(known.begin(), known.end(), language) != known.end(),
          "language of a search index: expected {} or {}, found \"{}\"", fmt::join(known, ", "),
          kNoLanguage, language);
}

/// Snowball's stems of one language.
class WordSplitter::Stemmer {
 public:
  explicit Stemmer(const std::string& language) : scripts_(scripts_of(language)) {
    if (language == kNoLanguage) return;
    check_language(language);
    stemmer_.reset(sb_stemmer_new(language.c_str(), nullptr));
    require(stemmer_ != nullptr, "language of a search index: no stems for {}", language);
  }

  bool serves(std::uint16_t script) const {
    return stemmer_ != nullptr && (script == scripts_[0] || script == scripts_[1]);
  }

  /// A word in lower case.
  std::string stem(const std::string& word) {
    if (word.size() > kLongestStemmed) return word;
    // Half of the words of a text are among a few hundred. A stem takes five times a look-up.
    constexpr std::size_t kKept = 1 << 15;
    if (stems_.size() >= kKept) stems_.clear();
    const auto [found, is_new] = stems_.try_emplace(word);
    if (is_new) found->second = stem_of(word);
    return found->second;
  }

 private:
  struct Delete {
    void operator()(sb_stemmer* stemmer) const { sb_stemmer_delete(stemmer); }
  };

  std::string stem_of(const std::string& word) const {
    const auto* bytes = reinterpret_cast<const sb_symbol*>(word.data());
    const auto* found = sb_stemmer_stem(stemmer_.get(), bytes, static_cast<int>(word.size()));
    if (found == nullptr) return word;
    const auto size = static_cast<std::size_t>(sb_stemmer_length(stemmer_.get()));
    // A word is never empty.
    return size == 0 ? word : std::string(reinterpret_cast<const char*>(found), size);
  }

  std::array<WordScript, 2> scripts_;
  std::unique_ptr<sb_stemmer, Delete> stemmer_;
  std::unordered_map<std::string, std::string> stems_;
};

/// The words of one text, letter by letter.
class WordSplitter::Run {
 public:
  Run(WordSplitter& splitter, const Sink& sink) : splitter_(splitter), sink_(sink) {}

  void add(Letter letter, std::size_t begin, std::size_t end) {
    if (letter.kind & kMark) {
      if (!letters_.empty()) return add_mark(letter, end);
      // An accent of nothing is none.
      if (letter.kind & kAccent) return;
    }
    if (!letters_.empty() && begins_word(letter)) finish();
    const auto script = static_cast<std::uint16_t>(letter.kind & kScript);
    if (letters_.empty()) {
      word_.begin = begin;
      script_ = script;
    } else if (script_ == common) {
      script_ = script;
    }
    letters_.push_back(letter);
    word_.end = end;
  }

  bool is_open() const { return !letters_.empty(); }

  /// A whole word of ASCII letters and digits, where none is open.
  void add_ascii(std::string_view word, std::size_t begin) {
    word_.text.clear();
    bool has_letter = false;
    for (const char byte : word) {
      word_.text += ascii_lower(byte);
      has_letter = has_letter || byte > '9';
    }
    word_.begin = begin;
    word_.end = begin + word.size();
    word_.is_character = word_.continues = line_ended_ = false;
    script_before_ = common;
    splitter_.complete_ascii(has_letter ? latin : common, word_);
    sink_(word_);
  }

  /// Ends the word, and the run of characters. The line of a script without blanks ends anywhere
  /// in a word.
  void separate(char32_t between) {
    finish();
    const bool is_line_end = between == U'\n' || between == U'\r';
    if (is_line_end && script_before_ != hangul && !line_ended_) {
      line_ended_ = between == U'\n';
    } else {
      script_before_ = common;
    }
  }

  void finish() {
    if (letters_.empty()) return;
    word_.is_character = is_without_blanks(script_);
    word_.continues = word_.is_character && script_ == script_before_;
    script_before_ = word_.is_character ? script_ : std::uint16_t{common};
    line_ended_ = false;
    splitter_.complete(letters_, script_, word_);
    letters_.clear();
    sink_(word_);
  }

 private:
  void add_mark(Letter letter, std::size_t end) {
    word_.end = end;
    // Turkish and Lithuanian put a dot on an i that has one.
    if (letter.value == kDotAbove && letters_.back().value == U'i') return;
    letters_.push_back(letter);
  }

  bool begins_word(Letter letter) const {
    const auto script = static_cast<std::uint16_t>(letter.kind & kScript);
    if (is_without_blanks(script_) || is_without_blanks(script)) {
      return script != script_ || !continues_syllable(letters_.back().value, letter.value);
    }
    return script != script_ && script != common && script_ != common;
  }

  WordSplitter& splitter_;
  const Sink& sink_;
  SearchWord word_;
  std::vector<Letter> letters_;
  std::uint16_t script_ = common;
  /// The script of the character before, where nothing is between.
  std::uint16_t script_before_ = common;
  bool line_ended_ = false;
};

WordSplitter::WordSplitter(const std::string& language)
    : stemmer_(std::make_unique<Stemmer>(language)),
      table_(std::make_unique<CharacterTable<Folded>>()) {}
WordSplitter::~WordSplitter() = default;

void WordSplitter::split(std::string_view text, const Sink& sink) {
  Run run(*this, sink);
  for (std::size_t begin = 0; begin < text.size();) {
    // The plain words of a text take a shorter way, where no accent may follow.
    const std::size_t end_of_word = run.is_open() ? begin : end_of_ascii_word(text, begin);
    const bool is_plain = end_of_word == text.size() || is_ascii(text.substr(end_of_word, 1));
    if (end_of_word > begin && is_plain) {
      run.add_ascii(text.substr(begin, end_of_word - begin), begin);
      begin = end_of_word;
      continue;
    }
    const DecodedCharacter character = decode_character(text, begin);
    const std::size_t end = begin + character.size;
    const Folded& all = folded(character.value);
    const bool is_alone = all.is_alone;
    if (is_alone) run.finish();
    for (const Letter letter : all.letters) {
      if (letter.kind == kBetween) {
        run.separate(letter.value);
      } else {
        run.add(letter, begin, end);
      }
    }
    if (is_alone) run.finish();
    begin = end;
  }
  run.finish();
}

const WordSplitter::Folded& WordSplitter::folded(char32_t c) {
  Folded& found = table_->at(c);
  if (found.is_known) return found;
  found.is_known = true;
  const std::uint16_t own = kind_of(c);
  if (own != kBetween && (own & kIgnored)) return found;
  std::size_t words = 0, between = 0;
  for (const char32_t part : decomposed(c)) {
    const std::uint16_t kind = kind_of(part);
    if (kind == kBetween) {
      ++between;
    } else if (kind & kIgnored) {
      continue;
    } else if ((kind & kMark) == 0) {
      ++words;
    }
    const bool is_digit = kind != kBetween && (kind & kDigit) != 0;
    found.letters.push_back(is_digit ? Letter{value_of_digit(part), common} : Letter{part, kind});
  }
  found.is_alone = words > 0 && (between > 0 || own == kBetween);
  return found;
}

std::string WordSplitter::accented(const std::vector<Letter>& letters, bool composes) {
  std::vector<utf8proc_int32_t> values;
  for (const Letter letter : letters) values.push_back(static_cast<utf8proc_int32_t>(letter.value));
  if (composes) compose_all(values);
  std::string text;
  for (const utf8proc_int32_t value : values) append_utf8(static_cast<char32_t>(value), text);
  return text;
}

std::string WordSplitter::plain(std::vector<Letter> letters, bool composes) {
  std::erase_if(letters, [](Letter letter) { return (letter.kind & kAccent) != 0; });
  const std::string text = accented(letters, composes);
  std::string plain;
  for (std::size_t i = 0; i < text.size();) {
    const DecodedCharacter character = decode_valid(text.data() + i);
    const std::string_view instead = plain_letter(character.value);
    plain += instead.empty() ? std::string_view(text).substr(i, character.size) : instead;
    i += character.size;
  }
  return plain;
}

std::string WordSplitter::plain(std::string_view text, bool composes) {
  std::vector<Letter> letters;
  for (std::size_t i = 0; i < text.size();) {
    const DecodedCharacter character = decode_character(text, i);
    const Folded& all = folded(character.value);
    letters.insert(letters.end(), all.letters.begin(), all.letters.end());
    i += character.size;
  }
  return plain(std::move(letters), composes);
}

void WordSplitter::order_marks(std::vector<Letter>& letters) {
  const auto is_base = [](Letter letter) { return class_of(letter.value) == 0; };
  const auto before = [](Letter a, Letter b) { return class_of(a.value) < class_of(b.value); };
  const auto is_mark = [](Letter letter) { return (letter.kind & kMark) != 0; };
  auto begin = std::find_if(letters.begin(), letters.end(), is_mark);
  while (begin != letters.end()) {
    const auto end = std::find_if(begin, letters.end(), is_base);
    std::stable_sort(begin, end, before);
    begin = std::find_if(end == begin ? end + 1 : end, letters.end(), is_mark);
  }
}

void WordSplitter::complete_ascii(std::uint16_t script, SearchWord& word) {
  word.accented_stem.clear();
  if (stemmer_->serves(script)) {
    word.stem = stemmer_->stem(word.text);
  } else {
    word.stem = word.text;
  }
}

void WordSplitter::complete(std::vector<Letter>& letters, std::uint16_t script, SearchWord& word) {
  word.accented_stem.clear();
  const bool is_ascii = std::all_of(letters.begin(), letters.end(),
                                    [](Letter letter) { return letter.value < 0x80; });
  if (is_ascii) {
    word.text.clear();
    for (const Letter letter : letters) word.text += static_cast<char>(letter.value);
    return complete_ascii(script, word);
  }
  order_marks(letters);
  // Newer scripts compose by the version of utf8proc.
  const bool composes = script <= tamil || script == hangul;
  word.text = accented(letters, composes);
  word.stem = plain(letters, composes);
  if (!stemmer_->serves(script)) return;
  word.accented_stem = plain(stemmer_->stem(word.text), composes);
  word.stem = stemmer_->stem(word.stem);
  if (word.accented_stem == word.stem) word.accented_stem.clear();
}

}  // namespace longformer::text
