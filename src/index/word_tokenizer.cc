#include "index/word_tokenizer.h"

#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <set>

#include "core/error.h"

namespace longformer::index {
namespace {

using Sink = std::function<bool(const IndexWord&)>;

/// Makes words of the index from words of a text.
class Words {
 public:
  Words(WordsOf kind, const Sink& sink) : kind_(kind), sink_(sink) {}

  void add(const text::SearchWord& word) {
    const bool is_pair = word.is_character && word.continues && last_;
    if (is_pair) {
      const std::string pair = last_->form + word.stem;
      put({pair, kind_ == WordsOf::document, last_->begin, word.end});
    } else {
      put_last();
    }
    last_.reset();
    if (!word.is_character) {
      put({word.stem, false, word.begin, word.end});
      if (!word.accented_stem.empty()) put({word.accented_stem, true, word.begin, word.end});
      return;
    }
    last_ = {word.stem, word.begin, word.end, is_pair};
    if (kind_ == WordsOf::document) put({word.stem, false, word.begin, word.end});
  }

  /// The last character of a query is in a pair, if there is one.
  void finish() {
    if (last_ && !last_->is_paired) put_last();
  }

 private:
  struct Character {
    std::string form;
    std::size_t begin, end;
    bool is_paired;
  };

  /// Before another word a single character keeps the distance.
  void put_last() {
    if (last_ && kind_ == WordsOf::query) put({last_->form, false, last_->begin, last_->end});
  }

  void put(const IndexWord& word) { goes_on_ = goes_on_ && sink_(word); }

  WordsOf kind_;
  const Sink& sink_;
  std::optional<Character> last_;
  bool goes_on_ = true;
};

/// The words at one place of a text.
struct Place {
  struct Form {
    std::string text;
    std::size_t end;
  };
  std::vector<Form> forms;
  std::size_t begin = 0;
};

using Forms = std::set<std::string, std::less<>>;

/// The places of a text, those of a term too; only forms among `wanted` are kept, null: all.
std::vector<Place> places_of(text::WordSplitter& splitter, std::string_view text, WordsOf kind,
                             const Forms* wanted = nullptr) {
  std::vector<Place> places;
  index_words(splitter, text, kind, [&](const IndexWord& word) {
    if (!word.is_other) places.push_back({{}, word.begin});
    const bool is_kept = wanted == nullptr || wanted->contains(word.form);
    if (is_kept) places.back().forms.push_back({std::string(word.form), word.end});
    return true;
  });
  return places;
}

/// End of a form of one place that is a form of the other too.
std::optional<std::size_t> end_of_match(const Place& found, const Place& wanted) {
  for (const Place::Form& one : found.forms) {
    for (const Place::Form& other : wanted.forms) {
      if (one.text == other.text) return one.end;
    }
  }
  return std::nullopt;
}

/// End of words that begin at a place of a text, if the text has them there.
std::optional<std::size_t> end_of_match(std::span<const Place> text,
                                        std::span<const Place> wanted) {
  if (wanted.empty() || text.size() < wanted.size()) return std::nullopt;
  std::optional<std::size_t> end;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    end = end_of_match(text[i], wanted[i]);
    if (!end) break;
  }
  return end;
}

std::vector<ByteSpan> without_overlaps(std::vector<ByteSpan> spans) {
  std::sort(spans.begin(), spans.end());
  std::vector<ByteSpan> whole;
  for (const auto& [begin, end] : spans) {
    if (!whole.empty() && begin < whole.back().second) {
      whole.back().second = std::max(whole.back().second, end);
    } else {
      whole.emplace_back(begin, end);
    }
  }
  return whole;
}

int create(void*, const char** arguments, int count, Fts5Tokenizer** made) {
  try {
    const std::string language = count > 0 ? arguments[0] : kDefaultLanguage;
    *made = reinterpret_cast<Fts5Tokenizer*>(new text::WordSplitter(language));
    return SQLITE_OK;
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  } catch (const Error&) {
    return SQLITE_ERROR;
  }
}

void destroy(Fts5Tokenizer* tokenizer) {
  const std::unique_ptr<text::WordSplitter> owner(reinterpret_cast<text::WordSplitter*>(tokenizer));
}

using PutToken = int (*)(void*, int, const char*, int, int, int);

int tokenize(Fts5Tokenizer* tokenizer, void* context, int flags, const char* bytes, int size,
             PutToken put) {
  int result = SQLITE_OK;
  try {
    const WordsOf kind = flags & FTS5_TOKENIZE_QUERY ? WordsOf::query : WordsOf::document;
    const std::string_view text(size == 0 ? "" : bytes, static_cast<std::size_t>(size));
    index_words(*reinterpret_cast<text::WordSplitter*>(tokenizer), text, kind,
                [&](const IndexWord& word) {
                  result = put(context, word.is_other ? FTS5_TOKEN_COLOCATED : 0, word.form.data(),
                               static_cast<int>(word.form.size()), static_cast<int>(word.begin),
                               static_cast<int>(word.end));
                  return result == SQLITE_OK;
                });
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  }
  return result == SQLITE_DONE ? SQLITE_OK : result;
}

/// The result of kOccurrences in SQL: how often a passage has what was asked for.
void count_occurrences(const Fts5ExtensionApi* api, Fts5Context* context, sqlite3_context* result,
                       int, sqlite3_value**) {
  int count = 0;
  const int code = api->xInstCount(context, &count);
  if (code == SQLITE_OK) {
    sqlite3_result_int(result, count);
  } else {
    sqlite3_result_error_code(result, code);
  }
}

/// https://www.sqlite.org/fts5.html#extending_fts5
fts5_api* full_text_api(sqlite3* database) {
  fts5_api* api = nullptr;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, "SELECT fts5(?1)", -1, &statement, nullptr) == SQLITE_OK) {
    sqlite3_bind_pointer(statement, 1, static_cast<void*>(&api), "fts5_api_ptr", nullptr);
    sqlite3_step(statement);
  }
  sqlite3_finalize(statement);
  return api;
}

}  // namespace

void index_words(text::WordSplitter& splitter, std::string_view text, WordsOf kind,
                 const Sink& sink) {
  Words words(kind, sink);
  splitter.split(text, [&](const text::SearchWord& word) { words.add(word); });
  words.finish();
}

struct TermFinder::Terms {
  std::vector<std::vector<Place>> places;
  Forms forms;
};

TermFinder::TermFinder(text::WordSplitter& splitter, std::span<const std::string> terms)
    : splitter_(splitter), terms_(std::make_unique<Terms>()) {
  for (const std::string& term : terms) {
    terms_->places.push_back(places_of(splitter, term, WordsOf::query));
    for (const Place& place : terms_->places.back()) {
      for (const Place::Form& form : place.forms) terms_->forms.insert(form.text);
    }
  }
}

TermFinder::~TermFinder() = default;

std::vector<ByteSpan> TermFinder::places_in(std::string_view text) const {
  const std::vector<Place> places = places_of(splitter_, text, WordsOf::document, &terms_->forms);
  std::vector<ByteSpan> spans;
  for (const std::vector<Place>& wanted : terms_->places) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].forms.empty()) continue;
      const auto end = end_of_match(std::span(places).subspan(i), wanted);
      if (end) spans.emplace_back(places[i].begin, *end);
    }
  }
  return without_overlaps(std::move(spans));
}

void register_tokenizer(sqlite3* database) {
  fts5_api* api = full_text_api(database);
  require(api != nullptr, "SQLite: expected a library with FTS5, found one without");
  fts5_tokenizer tokenizer = {create, destroy, tokenize};
  require(
      api->xCreateTokenizer(api, "longformer", nullptr, &tokenizer, nullptr) == SQLITE_OK &&
          api->xCreateFunction(api, kOccurrences, nullptr, count_occurrences, nullptr) == SQLITE_OK,
      "SQLite: expected FTS5 to take a tokenizer and a function, found an error: {}",
      sqlite3_errmsg(database));
}

}  // namespace longformer::index
