// Words are scored as FTS5 scores them, to the last bit, whatever its tables look like inside.
#include "index/word_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "error_testing.h"
#include "index/passage_store.h"
#include "index/word_query.h"
#include "index/word_tokenizer.h"
#include "temporary_folder.h"

namespace longformer::index::word_index_test {
namespace {

using Texts = std::vector<std::string>;

/// The first ones are in most texts.
const Texts kWords = {"the",  "and",   "dog",      "dogs", "running",  "run",     "café",
                      "cafe", "größe", "covid-19", "U.S.", "機械学習", "the dog", "x1"};

/// The tables of words, in memory.
class IndexedTexts {
 public:
  explicit IndexedTexts(unsigned seed) : generator_(seed), tables_("", Access::write) {
    tables_.run("CREATE TABLE passages (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT)");
    tables_.run(
        "CREATE VIRTUAL TABLE words USING fts5 (text, content='passages', content_rowid='id', "
        "tokenize='longformer english')");
  }

  const Database& tables() const { return tables_; }
  Index below(Index end) { return std::uniform_int_distribution<Index>(0, end - 1)(generator_); }

  /// A reader that knows nothing so far.
  WordIndex index() {
    WordIndex index(tables_);
    index.use(splitter_);
    return index;
  }

  std::string word() {
    // The smaller of two numbers is small more often.
    const auto place = std::min(below(40), below(40));
    return place < std::ssize(kWords) ? kWords[at(place)] : "w" + std::to_string(place);
  }

  std::string text(Index words) {
    std::string text = "the";
    for (Index i = 0; i < words; ++i) text += " " + word();
    return text;
  }

  void put(const Texts& texts) {
    Transaction transaction(tables_);
    Statement passage = tables_.prepare("INSERT INTO passages (text) VALUES (?)");
    Statement words = tables_.prepare("INSERT INTO words (rowid, text) VALUES (?, ?)");
    for (const std::string& text : texts) {
      passage.bind(1, text).run();
      words.bind(1, tables_.last_row()).bind(2, text).run();
    }
    transaction.commit();
  }

  /// Some passages come in, or some of those that are there go.
  void change() {
    if (below(4) != 0) {
      Texts texts(at(below(6)));
      for (std::string& one : texts) one = text(below(4) == 0 ? below(400) : below(30));
      put(texts);
      return;
    }
    const Index wanted = below(5);
    Transaction transaction(tables_);
    for (const char* sql : {"INSERT INTO words (words, rowid, text) "
                            "SELECT 'delete', id, text FROM passages WHERE id % 5 = ?",
                            "DELETE FROM passages WHERE id % 5 = ?"}) {
      tables_.prepare(sql).bind(1, wanted).run();
    }
    transaction.commit();
  }

  /// A command of FTS5 with a number.
  void tell_tables(const std::string& command, Index number) {
    tables_.prepare("INSERT INTO words (words, rank) VALUES (?, ?)")
        .bind(1, command)
        .bind(2, number)
        .run();
  }

  std::vector<std::string> terms() {
    std::string question;
    for (Index left = 1 + below(6); left > 0; --left) question += word() + " ";
    if (below(4) == 0) question += "\"the dog\" unknown";
    return WordQuery(question).terms();
  }

 private:
  std::mt19937 generator_;
  Database tables_;
  text::WordSplitter splitter_{kDefaultLanguage};
};

/// A query of FTS5 for passages with any of some terms.
std::string any_of(const Texts& terms) {
  std::string query;
  for (const std::string& term : terms) query += (query.empty() ? "" : " OR ") + fts_string(term);
  return query;
}

/// All passages by bm25() of FTS5 itself.
WordScores plain_scores(const Database& tables, const Texts& terms) {
  WordScores scores;
  Statement rows = tables.prepare("SELECT rowid, -bm25(words) FROM words WHERE words MATCH ?");
  rows.bind(1, any_of(terms));
  while (rows.step()) scores.emplace_back(rows.integer(0), rows.real(1));
  return scores;
}

WordScores best_of(WordScores scores, Index most) {
  const auto is_better = [](const auto& a, const auto& b) {
    const auto first = static_cast<float>(a.second), second = static_cast<float>(b.second);
    return first != second ? first > second : a.first < b.first;
  };
  std::sort(scores.begin(), scores.end(), is_better);
  scores.resize(std::min(scores.size(), at(most)));
  std::sort(scores.begin(), scores.end());
  return scores;
}

/// Equal to the last bit where no compiler fuses products and sums in its own way, else nearly.
void expect_equal(const WordScores& scores, const WordScores& wanted) {
#ifdef __FP_FAST_FMA
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
#else
  constexpr double kRounding = 0;
#endif
  ASSERT_EQ(scores.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(scores[i].first, wanted[i].first);
    EXPECT_LE(std::abs(scores[i].second - wanted[i].second), kRounding * wanted[i].second);
  }
}

void expect_plain_scores(IndexedTexts& texts, WordIndex& index) {
  const Texts terms = texts.terms();
  SCOPED_TRACE(any_of(terms));
  const WordScores scores = index.match(terms);
  expect_equal(scores, plain_scores(texts.tables(), terms));
  for (const Index most : {1, 3, 20, 1000}) {
    EXPECT_EQ(index.best(terms, most), best_of(scores, most)) << most;
  }
}

TEST(WordIndex, ScoresAllCollectionsAsFts5) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    IndexedTexts texts(seed);
    WordIndex index = texts.index();
    // Lists that fill pages, and places of one passage that do.
    if (seed % 4 != 0) texts.tell_tables("pgsz", 32 << texts.below(5));
    for (int change = 0; change < 60; ++change) {
      texts.change();
      if (change % 20 == 7) texts.tell_tables("merge", 1 + texts.below(3));
      index.forget_counts();
      if (change % 6 == 0) expect_plain_scores(texts, index);
    }
    if (seed % 3 == 0) texts.tables().run("INSERT INTO words (words) VALUES ('optimize')");
    for (int question = 0; question < 20; ++question) expect_plain_scores(texts, index);
  }
}

TEST(WordIndex, ScoresLongListsAndLongPassages) {
  IndexedTexts texts(1);
  std::string often;
  for (int i = 0; i < 20000; ++i) often += "dog ";
  Texts passages = {"one dog", often, "two dogs"};
  // Many of them are equal, and so are their scores.
  for (int i = 0; i < 8000; ++i) passages.push_back(i % 3 == 0 ? "the dog" : texts.text(i % 7));
  texts.put(passages);
  WordIndex index = texts.index();
  for (int question = 0; question < 40; ++question) expect_plain_scores(texts, index);
  for (const Index most : {1, 399, 1700, 3000, 100000}) {
    const Texts terms = {"dog", "w20"};
    EXPECT_EQ(index.best(terms, most), best_of(index.match(terms), most)) << most;
  }
}

TEST(WordIndex, CountsThePassagesOfTerms) {
  IndexedTexts texts(2);
  WordIndex index = texts.index();
  EXPECT_EQ(index.match(Texts{"dog"}), WordScores());
  EXPECT_EQ(index.match(Texts()), WordScores());
  EXPECT_EQ(index.best(Texts{"dog"}, 5), WordScores());
  EXPECT_EQ(index.count(Texts{"dog", "the"}), (std::vector<Index>{0, 0}));
  for (int change = 0; change < 40; ++change) {
    texts.change();
    index.forget_counts();
    const Texts terms = texts.terms();
    std::vector<Index> wanted;
    for (const std::string& term : terms) {
      wanted.push_back(std::ssize(plain_scores(texts.tables(), {term})));
    }
    EXPECT_EQ(index.count(terms), wanted) << any_of(terms);
  }
}

/// A document of one passage.
void put_one(const PassageStore& store, const std::string& text) {
  const NewPassage passage = {0, std::ssize(text), text};
  store.put({.name = text, .text = text}, {&passage, 1}, {});
}

TEST(WordIndex, FollowsOthersAndItself) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  const PassageStore store(file, Access::write), other(file, Access::write);
  const Database tables(file, Access::read);
  const Texts terms = {"dog", "cat"};
  const auto expect_plain = [&] {
    const WordScores wanted = plain_scores(tables, terms);
    for (const PassageStore* one : {&store, &other}) {
      expect_equal(one->match(terms), wanted);
      EXPECT_EQ(one->known(WordQuery("cat")).reach, other.known(WordQuery("cat")).reach);
    }
  };
  for (const char* text : {"a dog", "two cats", "dogs and cats", "a bird", "none", "a long text"}) {
    put_one(store, text);
    expect_plain();
    put_one(other, std::string(text) + " and more of it");
    expect_plain();
  }
  store.remove("a dog");
  expect_plain();
  other.remove("dogs and cats");
  expect_plain();
}

TEST(WordIndex, FollowsWordsThatAreMadeAgain) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  const PassageStore store(file, Access::write);
  for (const char* text : {"running the dogs", "a run", "it runs and runs"}) put_one(store, text);
  const WordScores before = store.match(Texts{"run"});
  EXPECT_EQ(before.size(), 3u);
  {
    const PassageStore other(file, Access::write, "none");
    EXPECT_EQ(other.match(Texts{"run"}).size(), 1u);
  }
  const PassageStore again(file, Access::write, "english");
  EXPECT_EQ(store.match(Texts{"run"}), before);
  // Passages of other lengths under the same ids.
  const Database tables(file, Access::change);
  tables.run("UPDATE passages SET text = text || ' and far away' WHERE id <= 2");
  tables.run("INSERT INTO words (words) VALUES ('rebuild')");
  EXPECT_NE(store.match(Texts{"run"}), before);
  expect_equal(store.match(Texts{"run"}), plain_scores(tables, {"run"}));
}

TEST(WordIndex, ReadsDamagedTablesWithoutHarm) {
  const Texts terms = {"dog", "the", "run", "w20", "\u6a5f\u68b0"};
  IndexedTexts texts(4);
  texts.tell_tables("pgsz", 64);
  for (int change = 0; change < 20; ++change) texts.change();
  std::vector<Index> ids;
  Statement rows = texts.tables().prepare("SELECT id FROM words_data");
  while (rows.step()) ids.push_back(rows.integer(0));
  int errors = 0;
  for (int damage = 0; damage < 3000; ++damage) {
    // It is taken back at the end of the round.
    const Transaction transaction(texts.tables());
    const Index row = ids[at(texts.below(std::ssize(ids)))];
    Statement block = texts.tables().prepare("SELECT block FROM words_data WHERE id = ?");
    ASSERT_TRUE(block.bind(1, row).step());
    std::vector<std::byte> bytes(block.bytes(0).begin(), block.bytes(0).end());
    block.reset();
    if (bytes.empty()) continue;
    for (int i = 0; i < 3; ++i) {
      bytes[at(texts.below(std::ssize(bytes)))] = static_cast<std::byte>(texts.below(256));
    }
    if (damage % 5 == 0) bytes.resize(at(texts.below(std::ssize(bytes))));
    Statement set = texts.tables().prepare("UPDATE words_data SET block = ? WHERE id = ?");
    set.bind(1, std::span<const std::byte>(bytes)).bind(2, row).run();
    WordIndex index = texts.index();
    const std::string error = error_of([&] { index.match(terms); });
    if (error.empty()) continue;
    ++errors;
    expect_error(error, {"whole search index", "damaged"});
  }
  EXPECT_GT(errors, 300);
}

}  // namespace
}  // namespace longformer::index::word_index_test
