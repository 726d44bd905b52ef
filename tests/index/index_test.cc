// The file of a search index: what is put in comes out, what is killed loses nothing, and words are
// scored by the formula of BM25.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "error_testing.h"
#include "index/passage_store.h"
#include "index/ranking.h"
#include "index/word_query.h"
#include "index_testing.h"
#include "temporary_folder.h"

namespace longformer::index::index_test {
namespace {

PassageRow passage(const PassageStore& store, Index id) { return store.passages({&id, 1}).at(0); }

/// The texts that match, in order of their ids.
Texts matching(const PassageStore& store, const std::string& question) {
  Texts found;
  for (const auto& [id, score] : store.match(WordQuery(question).terms())) {
    found.push_back(passage(store, id).text);
  }
  return found;
}

TEST(PassageStore, GivesBackWhatWasPutIn) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  {
    const PassageStore store(file, Access::write);
    put(store, "b.txt", {"the dog ", "a cat"}, 1);
    put(store, "a.txt", {"", "nothing"}, 7);
    store.set({{"model", "x"}, {"dtype", "fp32"}});
    store.set({{"model", "y"}});
  }
  const PassageStore store(file, Access::read);
  EXPECT_EQ(store.settings(), (Settings{{"model", "x"}, {"dtype", "fp32"}}));
  EXPECT_EQ(store.documents(), 2);
  EXPECT_EQ(store.passages(), 4);
  const auto documents = store.list();
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].name, "a.txt");
  EXPECT_EQ(documents[1].passages, 2);
  EXPECT_EQ(documents[1].characters, 13);
  EXPECT_EQ(documents[1].hash, text_hash("the dog a cat"));
  EXPECT_EQ(documents[1].time.size(), std::string("2026-11-24 23:44:46").size());
  EXPECT_TRUE(store.contains("b.txt", "the dog a cat"));
  EXPECT_FALSE(store.contains("b.txt", "the dog a cat "));
  EXPECT_FALSE(store.contains("c.txt", "the dog a cat"));
  const Codes codes = store.codes(kWidth);
  ASSERT_EQ(codes.vectors.size(), 4);
  const auto passages = store.passages(codes.passages);
  EXPECT_EQ(passages.at(1).document, "b.txt");
  EXPECT_EQ(passages.at(1).text, "a cat");
  EXPECT_EQ(passages.at(1).begin, 8);
  EXPECT_EQ(passages.at(3).text, "nothing");
  EXPECT_EQ(store.vectors(codes.passages, kWidth),
            (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
}

TEST(PassageStore, ReplacesAndRemoves) {
  const PassageStore store("", Access::write);
  put(store, "a", {"old words", "of it"});
  put(store, "b", {"other words"});
  put(store, "a", {"new words"});
  EXPECT_EQ(matching(store, "words"), (Texts{"other words", "new words"}));
  EXPECT_EQ(matching(store, "old"), Texts());
  EXPECT_EQ(store.passages(), 2);
  EXPECT_EQ(store.remove("b"), 1);
  EXPECT_EQ(store.remove("b"), 0);
  EXPECT_EQ(matching(store, "words other"), (Texts{"new words"}));
  EXPECT_EQ(store.codes(kWidth).passages.size(), 1u);
  EXPECT_EQ(store.documents(), 1);
}

TEST(PassageStore, ReadsTheVectorsOfFurtherPassagesAlone) {
  const PassageStore store("", Access::write);
  EXPECT_FALSE(put(store, "a", {"old words", "of it"}, 1));
  Codes codes = store.codes(kWidth);
  EXPECT_FALSE(put(store, "b", {"other words"}, 9));
  EXPECT_FALSE(put(store, "c", {"more", "and more"}, 20));
  store.add_new_codes(codes);
  store.add_new_codes(codes);
  const Codes whole = store.codes(kWidth);
  EXPECT_EQ(codes.passages, whole.passages);
  EXPECT_EQ(codes.vectors.bytes, whole.vectors.bytes);
  EXPECT_EQ(codes.vectors.scales, whole.vectors.scales);
  EXPECT_EQ(whole.passages.size(), 5u);
  EXPECT_TRUE(put(store, "a", {"new words"}));
}

TEST(PassageStore, CountsBytesOfTexts) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  const PassageStore store(file, Access::write), other(file, Access::write);
  EXPECT_EQ(store.text_bytes(), 0);
  put(store, "a", {"old words", "of it"});
  put(store, "b", {"words"});
  EXPECT_EQ(store.text_bytes(), 19);
  EXPECT_EQ(other.text_bytes(), 19);
  put(store, "a", {"new words"});
  put(other, "c", {"it"});
  EXPECT_EQ(store.text_bytes(), 16);
  EXPECT_EQ(store.remove("b"), 1);
  EXPECT_EQ(store.text_bytes(), 11);
  EXPECT_EQ(other.text_bytes(), 11);
}

TEST(PassageStore, FindsDocumentsByTheirTexts) {
  const PassageStore store("", Access::write);
  put(store, "a", {"some words"});
  put(store, "b", {"other words"});
  EXPECT_EQ(store.with_hash(text_hash("other words"))->name, "b");
  EXPECT_FALSE(store.with_hash(text_hash("words")));
}

/// Files of programs that did not count bytes: what is there is counted, and what such a program
/// puts in later.
TEST(PassageStore, CountsTheTextsOfOlderFiles) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  { put(PassageStore(file, Access::write), "a", {"some words", "her"}); }
  Database(file, Access::change).run(R"(
    DROP INDEX documents_of;
    ALTER TABLE documents DROP COLUMN bytes;)");
  EXPECT_EQ(PassageStore(file, Access::read).documents(), 1);
  const PassageStore store(file, Access::change);
  EXPECT_EQ(store.text_bytes(), 13);
  EXPECT_EQ(store.with_hash(text_hash("some wordsher"))->name, "a");
  Database(file, Access::change).run("UPDATE documents SET bytes = NULL");
  EXPECT_EQ(store.text_bytes(), 13);
  EXPECT_EQ(PassageStore(file, Access::write).text_bytes(), 13);
}

TEST(PassageStore, FindsDocumentsByTheirFolder) {
  const PassageStore store("", Access::write);
  for (const char* name : {"a", "a/x", "a/b/y", "a.txt", "a0", "ab/x", "A/x", "a%/x"}) {
    put(store, name, {name, "more"});
  }
  const auto names = [&](const std::string& folder) {
    Texts found;
    for (const Index document : store.find(folder)) {
      const std::vector<Index> passages = store.passages_of(document);
      EXPECT_EQ(passages.size(), 2u);
      found.push_back(passage(store, passages.at(0)).document);
    }
    return found;
  };
  // A document with the name itself comes before documents in a folder of this name.
  EXPECT_EQ(names("a"), (Texts{"a"}));
  EXPECT_EQ(names("a/b"), (Texts{"a/b/y"}));
  EXPECT_EQ(names("a%"), (Texts{"a%/x"}));
  EXPECT_EQ(names(""), Texts());
  EXPECT_EQ(store.passages_of(1000), std::vector<Index>());
  put(store, "a", {"anew", "more"});
  EXPECT_EQ(store.documents(), 8);
  EXPECT_EQ(store.remove("a"), 1);
  EXPECT_EQ(names("a"), (Texts{"a/x", "a/b/y"}));
  EXPECT_EQ(store.remove("a"), 2);
  EXPECT_EQ(store.documents(), 5);
  EXPECT_EQ(store.passages(), 10);
}

TEST(PassageStore, TwoWritersLoseNothing) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  const PassageStore one(file, Access::write), two(file, Access::write);
  const PassageStore reader(file, Access::read);
  const Index before = reader.version();
  for (int i = 0; i < 20; ++i) put(i % 2 == 0 ? one : two, fmt::format("{}", i), {"word"});
  EXPECT_EQ(one.documents(), 20);
  EXPECT_EQ(reader.documents(), 20);
  EXPECT_NE(reader.version(), before);
}

TEST(PassageStore, AKilledProcessLosesTheDocumentInWorkAlone) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  const pid_t child = fork();
  if (child == 0) {
    const PassageStore store(file, Access::write);
    put(store, "whole", {"one", "two"});
    const Database database(file, Access::write);
    Transaction transaction(database);
    database.run(
        "DELETE FROM documents; INSERT INTO documents VALUES (9, 'half', '', 1, 1, '', 4, NULL)");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const PassageStore store(file, Access::write);
  ASSERT_EQ(store.list().size(), 1u);
  EXPECT_EQ(store.list()[0].name, "whole");
  EXPECT_EQ(matching(store, "one two"), (Texts{"one", "two"}));
}

TEST(PassageStore, RefusesWhatIsNotAnIndex) {
  const TemporaryFolder folder({{"text", std::string(5000, 'x')},
                                {"old", "longformer-index-2\n" + std::string(100, '\0')},
                                {"other", ""}});
  const auto open = [&](const std::string& name, Access access) {
    return error_of([&] { PassageStore(folder.path() / name, access); });
  };
  expect_error(open("text", Access::read), {"text", "another kind of file"});
  expect_error(open("text", Access::write), {"text", "another kind of file"});
  expect_error(open("old", Access::read), {"old", "older one", "make it anew"});
  expect_error(open("none", Access::read), {"none", "can be opened"});
  expect_error(open("none", Access::change), {"none", "can be opened and written"});
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "none"));
  expect_error(open("none/none", Access::write), {"none", "can be opened and written"});
  Database(folder.path() / "other", Access::write).run("CREATE TABLE of_another_program (x)");
  expect_error(open("other", Access::read), {"other", "another kind of file"});
  expect_error(open("other", Access::write), {"other", "another kind of file"});
  { const PassageStore store(folder.path() / "new", Access::write); }
  Database(folder.path() / "new", Access::write).run("UPDATE made_words SET version = 99");
  expect_error(open("new", Access::write), {"new", "version 99", "newer program", "make it anew"});
  Database(folder.path() / "new", Access::write).run("PRAGMA user_version = 99");
  expect_error(open("new", Access::write), {"found one of version 99", "make it anew"});
}

TEST(PassageStore, TellsDamage) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  const PassageStore store(file, Access::write);
  put(store, "a", {"one", "two"});
  const Codes codes = store.codes(kWidth);
  expect_error(error_of([&] { store.codes(kWidth + 1); }),
               {"index: passage 1", "4 bytes, found 3"});
  expect_error(error_of([&] { store.vectors(codes.passages, 2); }), {"2 numbers, found 12 bytes"});
  const float spoiled[kWidth] = {1, std::numeric_limits<float>::quiet_NaN(), 2};
  Database(file, Access::write)
      .prepare("UPDATE vectors SET vector = ? WHERE passage = 2")
      .bind(1, std::as_bytes(std::span(spoiled)))
      .run();
  expect_error(error_of([&] { store.vectors(codes.passages, kWidth); }), {"index", "finite"});
  expect_error(error_of([&] { passage(store, 17); }), {"passage 17", "none"});
}

TEST(PassageStore, ScoresWordsByTheFormula) {
  const PassageStore store("", Access::write);
  const Texts texts = {"the dog and the cat", "The DOG, the dog! and a dog", "a cat", "one more",
                       "and yet more words that are of no use at all"};
  put(store, "a", texts);
  const auto words_of = [](const std::string& text) {
    Texts words;
    std::string word;
    for (const char letter : text + " ") {
      if (std::isalpha(static_cast<unsigned char>(letter)) != 0) {
        word += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      } else if (!word.empty()) {
        words.push_back(std::exchange(word, ""));
      }
    }
    return words;
  };
  double length = 0;
  for (const auto& text : texts) length += static_cast<double>(words_of(text).size()) / 5;
  const auto bm25 = [&](const std::string& text, const Texts& question) {
    double score = 0;
    const Texts words = words_of(text);
    for (const std::string& word : question) {
      double having = 0;
      for (const auto& other : texts) {
        const Texts all = words_of(other);
        having += std::count(all.begin(), all.end(), word) > 0 ? 1 : 0;
      }
      const double rarity = std::max(1e-6, std::log((5 - having + 0.5) / (having + 0.5)));
      const auto count = static_cast<double>(std::count(words.begin(), words.end(), word));
      const auto size = static_cast<double>(words.size());
      score += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * size / length));
    }
    return score;
  };
  const auto found = store.match(WordQuery("dog cat").terms());
  ASSERT_EQ(found.size(), 3u);
  for (const auto& [id, score] : found) {
    const double wanted = bm25(passage(store, id).text, {"dog", "cat"});
    EXPECT_TRUE(std::abs(score - wanted) <= 1e-9) << id << ": " << score << " and " << wanted;
  }
}

TEST(PassageStore, KnowsWhichWordsTellPassagesApart) {
  const PassageStore store("", Access::write);
  put(store, "a", {"the dog", "the cat", "the dogs and", "the bird", "none"});
  const KnownWords known = store.known(WordQuery("The dog and unknown, the dog"));
  // Two passages have the stem of "dog".
  EXPECT_EQ(known.terms, (Texts{"dog", "and"}));
  const double dog = std::log(3.5 / 2.5), rare = std::log(4.5 / 1.5), unknown = std::log(5.5 / 0.5);
  EXPECT_NEAR(known.reach, 2.2 * (1e-6 + dog + rare + unknown), 1e-9);
  EXPECT_EQ(store.known(WordQuery("the")).terms, Texts{"the"});
  EXPECT_EQ(store.known(WordQuery("?")).terms, Texts());
  // A phrase counts even where most passages have it.
  EXPECT_EQ(store.known(WordQuery("\"the\" none")).terms, (Texts{"the", "none"}));
}

TEST(PassageStore, MarksWhatMatched) {
  const PassageStore store("", Access::write);
  const auto marked = [&](std::string text, const char* question) {
    const auto found = store.finder(WordQuery(question).terms()).places_in(text);
    for (auto span = found.rbegin(); span != found.rend(); ++span) {
      text.insert(span->second, ">").insert(span->first, "<");
    }
    return text;
  };
  const std::string cafe = "The Café in the U.S. café";
  EXPECT_EQ(marked(cafe, "cafe U.S."), "The <Café> in the <U.S>. <café>");
  EXPECT_EQ(marked(cafe, "\"in the\""), "The Café <in the> U.S. café");
  EXPECT_EQ(marked("none", "cafe"), "none");
  EXPECT_EQ(marked("the infor\u00admation o\ufb03ce", "information office"),
            "the <infor\u00admation> <o\ufb03ce>");
  EXPECT_EQ(marked("cafe\u0301s", "Café"), "<cafe\u0301s>");
  EXPECT_EQ(marked("我们学习机器学习。", "机器学习"), "我们<学习><机器学习>。");
  EXPECT_EQ(marked("我们学习机器学习。", "\"机器学习\""), "我们学习<机器学习>。");
  EXPECT_EQ(marked("서울에서 기계학습을", "기계학습"), "서울에서 <기계학습>을");
  EXPECT_EQ(marked("新款iPhone手机", "iphone 机"), "新款<iPhone>手<机>");
  EXPECT_EQ(marked(std::string("a\0b \x02 c", 7), "b c"), std::string("a\0<b> \x02 <c>", 11));
}

TEST(PassageStore, FindsWordsOfAllScripts) {
  const PassageStore store("", Access::write);
  const Texts texts = {"我们在北京的大学一起学习机器学习。",
                       "東京の天気は晴れです。",
                       "ผมรักภาษาไทย",
                       "서울에서 기계학습을 공부합니다",
                       "新款iPhone手机已经上市",
                       "The o\ufb03ce of infor\u00admation",
                       "\u0415\u0308\u043b\u043a\u0430 стоит",
                       "Łódź und Straße",
                       "ＨＥＬＬＯ ｶﾞﾗｽ"};
  put(store, "a", texts);
  const std::pair<const char*, std::size_t> cases[] = {
      {"北京", 0},         {"机器学习", 0},
      {"器", 0},           {"天気", 1},
      {"ภาษา", 2},         {"기계학습", 3},
      {"iPhone", 4},       {"information", 5},
      {"office", 5},       {"ёлка", 6},
      {"елка", 6},         {"lodz", 7},
      {"STRASSE", 7},      {"hello", 8},
      {"ガラス", 8},       {"\"机器学习\"", 0},
      {"\"学习机器\"", 0}, {"\"iPhone手机\"", 4},
      {"\"기계학습\"", 3}, {"\"office of information\"", 5}};
  for (const auto& [question, number] : cases) {
    EXPECT_EQ(matching(store, question), Texts{texts[number]}) << question;
  }
  EXPECT_EQ(matching(store, "\"器机\""), Texts());
  EXPECT_EQ(matching(store, "\"手机iPhone\""), Texts());
  EXPECT_EQ(store.remove("a"), 1);
  EXPECT_EQ(matching(store, "北京 iPhone 기계학습"), Texts());
}

TEST(PassageStore, HasTheStemsOfItsLanguage) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  {
    const PassageStore store(file, Access::write, "german");
    put(store, "a", {"viele Häuser", "running dogs"});
    EXPECT_EQ(store.language(), "german");
    EXPECT_EQ(matching(store, "Haus"), Texts{"viele Häuser"});
    EXPECT_EQ(matching(store, "hauser"), Texts{"viele Häuser"});
    EXPECT_EQ(matching(store, "run"), Texts());
  }
  EXPECT_EQ(PassageStore(file, Access::write).language(), "german");
  const PassageStore other(file, Access::read, "english");
  EXPECT_EQ(matching(other, "Haus"), Texts());
  EXPECT_EQ(matching(other, "run"), Texts{"running dogs"});
  const PassageStore none(file, Access::write, "none");
  EXPECT_EQ(matching(none, "dog"), Texts());
  EXPECT_EQ(matching(none, "dogs"), Texts{"running dogs"});
  expect_error(error_of([&] { PassageStore(file, Access::write, "klingon"); }),
               {"klingon", "german"});
  EXPECT_EQ(PassageStore(file, Access::read).language(), "none");
}

/// An index as the version before made it: its words are those of a tokenizer of FTS5.
void make_older(const std::string& file) {
  Database(file, Access::write).run(R"(
    DROP TABLE words;
    DROP TABLE made_words;
    CREATE VIRTUAL TABLE words USING fts5 (
      text, content='passages', content_rowid='id', tokenize="porter unicode61 remove_diacritics 2");
    INSERT INTO words (words) VALUES ('rebuild');
    PRAGMA user_version = 3;)");
}

TEST(PassageStore, MakesTheWordsOfAnOlderIndexAgain) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  { put(PassageStore(file, Access::write), "a", {"我们在北京", "running dogs"}); }
  for (const Access access : {Access::read, Access::write}) {
    make_older(file);
    const PassageStore store(file, access);
    EXPECT_EQ(matching(store, "北京 dog"), (Texts{"我们在北京", "running dogs"}));
    EXPECT_EQ(store.language(), "english");
    EXPECT_EQ(store.passages(), 2);
  }
  make_older(file);
  EXPECT_EQ(matching(PassageStore(file, Access::read, "none"), "dog"), Texts());
  EXPECT_EQ(PassageStore(file, Access::change, "french").former_language(), "none");
  EXPECT_EQ(PassageStore(file, Access::read, "dutch").former_language(), "french");
  EXPECT_EQ(PassageStore(file, Access::read, "dutch").former_language(), std::nullopt);
  EXPECT_EQ(PassageStore("", Access::write, "dutch").former_language(), std::nullopt);
  if (geteuid() == 0) return;  // Root writes everywhere.
  make_older(file);
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  expect_error(error_of([&] { PassageStore(file, Access::read); }), {"index", "older", "writable"});
}

TEST(PassageStore, FindsDocumentsByEquivalentNames) {
  const PassageStore store("", Access::write);
  put(store, "cafe\u0301.txt", {"one"});
  put(store, "de\u0301/a", {"two"});
  put(store, "caf\xff", {"three"});
  const auto count = [&](const char* name) { return store.find(name).size(); };
  EXPECT_EQ(count("caf\u00e9.txt"), 1u);
  EXPECT_EQ(count("cafe\u0301.txt"), 1u);
  EXPECT_EQ(count("cafe.txt"), 0u);
  EXPECT_EQ(count("d\u00e9"), 1u);
  EXPECT_EQ(count("d\u00e9/"), 1u);
  EXPECT_EQ(count("caf\xff"), 1u);
  put(store, "caf\u00e9.txt", {"four"});
  EXPECT_EQ(store.find("caf\u00e9.txt"), store.find("caf\u00e9.txt"));
  EXPECT_EQ(count("caf\u00e9.txt"), 1u);
  EXPECT_NE(store.find("caf\u00e9.txt"), store.find("cafe\u0301.txt"));
}

TEST(WordQuery, WordsAndPhrases) {
  struct Case {
    const char* question;
    Texts terms, phrases;
  };
  const Case cases[] = {
      {"", {}, {}},
      {" ? -- ", {}, {}},
      {"Who? (who)", {"who"}, {}},
      {"the U.S. don't", {"the", "u s", "don", "t"}, {}},
      {"Tesla’s dogs’ covid-19", {"tesla", "s", "dogs", "covid 19"}, {}},
      {"\"don’t\"", {"don t"}, {"don t"}},
      {"a  b\tc\n\u00a0d\u3000e", {"a", "b", "c", "d", "e"}, {}},
      {"who \"old  dog\" x", {"who", "old dog", "x"}, {"old dog"}},
      {"\"a b\" \"c\"", {"a b", "c"}, {"a b", "c"}},
      {"a \"b c", {"a", "b", "c"}, {}},
      {"\"?\" a", {"a"}, {}},
      {"AND OR NOT NEAR(", {"and", "or", "not", "near"}, {}},
      {"什么是机器学习？天", {"什么", "么是", "是机", "机器", "器学", "学习", "天"}, {}},
      {"新款iPhone手机", {"新款", "iphone", "手机"}, {}},
      {"wait—what…now", {"wait", "what", "now"}, {}},
      {"TNFα", {"tnf α"}, {}},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(WordQuery(one.question).terms(), one.terms) << one.question;
    EXPECT_EQ(WordQuery(one.question).phrases(), one.phrases) << one.question;
  }
  EXPECT_EQ(WordQuery("\"a b\" \"c\" d").required(), "\"a b\" AND \"c\"");
  EXPECT_EQ(WordQuery("a").required(), "");
}

TEST(WordQuery, MarksOfAllLanguagesMakePhrases) {
  const char* kPhrases[] = {"„Haus am See“",
                            "„Haus am See”",
                            "“Haus am See”",
                            "”Haus am See”",
                            "«Haus am See»",
                            "« Haus am See »",
                            "»Haus am See«",
                            "»Haus am See»",
                            "‹Haus am See›",
                            "›Haus am See‹",
                            "‚Haus am See‘",
                            "‘Haus am See’",
                            "’Haus am See’",
                            "'Haus am See'",
                            "「Haus am See」",
                            "『Haus am See』",
                            "｢Haus am See｣",
                            "〝Haus am See〟",
                            "＂Haus am See＂",
                            "\"Haus am See\"",
                            "\"Haus am See.\"",
                            "„(Haus) am See!“",
                            "\u00ad\"Haus am See\"\u200b"};
  for (const char* phrase : kPhrases) {
    for (const char* form : {"{}", "Was ist {}?", "({})", "ist {}, und"}) {
      const std::string question = fmt::format(fmt::runtime(form), phrase);
      EXPECT_EQ(WordQuery(question).phrases(), Texts{"haus am see"}) << question;
      const WordQuery ignored(question, QuotationMarks::ignored);
      EXPECT_EQ(ignored.phrases(), Texts()) << question;
      EXPECT_NE(std::find(ignored.terms().begin(), ignored.terms().end(), "see"),
                ignored.terms().end());
    }
  }
  EXPECT_EQ(WordQuery("Was bedeuten „Haus“ und „Garten“?").phrases(), (Texts{"haus", "garten"}));
  EXPECT_EQ(WordQuery("Vad är ”hus” och ”träd”?").phrases(), (Texts{"hus", "träd"}));
  EXPECT_EQ(WordQuery("»dom« i »ogród«").phrases(), (Texts{"dom", "ogród"}));
  EXPECT_EQ(WordQuery("«a» “b” 'c'").phrases(), (Texts{"a", "b", "c"}));
  EXPECT_EQ(WordQuery("什么是“机器学习”和\"天气\"？").phrases(), (Texts{"机器学习", "天气"}));
  EXPECT_EQ(WordQuery("「東京」と『大阪』").phrases(), (Texts{"東京", "大阪"}));
  EXPECT_EQ(WordQuery("He said “the ‘big’ dog”").phrases(), Texts{"the big dog"});
  EXPECT_EQ(WordQuery("‘I don’t know’").phrases(), Texts{"i don t know"});
}

TEST(WordQuery, OtherMarksAreText) {
  for (const char* question :
       {"Ist der 5\" Baum oder der 7\" Baum im Garten?", "6' 2\" tall, 5'11\" or 5′ 11″",
        "Haus“ und „Garten", "\u05e6\u05d4\"\u05dc \u05d7\u05d1\"\u05e8",
        "the dogs' and cats' food", "don't and won't", "l'eau d'Évian", "a \" b \" c", "”", "\"",
        "''", "« »", "„ “", "what \"is", "is\" what", "5\"x7\"", "O’Brien’s", "a«b c"}) {
    EXPECT_EQ(WordQuery(question).phrases(), Texts()) << question;
  }
}

TEST(WordQuery, ManyMarksTakeNoLongTime) {
  std::string question;
  for (int i = 0; i < 200000; ++i) question += i % 2 == 0 ? "«a " : "\"b ";
  EXPECT_EQ(WordQuery(question).phrases(), Texts());
}

TEST(WordQuery, HasSoManyWords) {
  std::string question;
  for (int i = 0; i < 200'000; ++i) question += "w" + std::to_string(i) + " ";
  const WordQuery words(question + "\"the end\"");
  EXPECT_EQ(words.terms().size(), 1024u);
  EXPECT_EQ(words.terms().back(), "w1023");
  EXPECT_TRUE(words.phrases().empty());
  const PassageStore store("", Access::write);
  put(store, "a", {"w7 and", "w2000"});
  EXPECT_EQ(matching(store, question), (Texts{"w7 and"}));
}

TEST(WordQuery, EveryQuestionIsAQuery) {
  const PassageStore store("", Access::write);
  put(store, "a", {"text: a (b) c* ^d 'e' {f} - “ ” — é ß 漢字"});
  for (const char* question : {"a:b",      "text:",
                               "(",        "*",
                               "^a",       "'",
                               "''",       "{",
                               "}",        "-a",
                               "—",        "“",
                               "\"",       "\"\"",
                               "é",        "漢字",
                               "a OR",     "NEAR(a b)",
                               "\xff\xfe", "a\"b\"c",
                               "\\",       ";DROP TABLE words"}) {
    const WordQuery words(question);
    EXPECT_EQ(error_of([&] { store.match(words.terms()); }), "") << question;
  }
}

/// A fusion of one kind of vectors with words.
Fusion fusion_of(const std::vector<float>& cosines, double reach) {
  const std::span<const float> kind = cosines;
  return Fusion({&kind, 1}, reach);
}

float score(const Fusion& fusion, float cosine, float words) { return fusion({&cosine, 1}, words); }

TEST(Fusion, SeveralKindsCountByTheMeanOfTheirDeviations) {
  const std::vector<float> a = {0.1f, 0.5f, 0.3f, 0.2f}, b = {7, 3, 5, 8};
  const std::array<std::span<const float>, 2> kinds = {a, b};
  const Fusion both(kinds, 10), first = fusion_of(a, 10), second = fusion_of(b, 10);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::array<float, 2> scores = {a[i], b[i]};
    const float mean = (score(first, a[i], 0) + score(second, b[i], 0)) / 2;
    EXPECT_NEAR(both(scores, 0), mean, 1e-4);
  }
}

TEST(Fusion, IgnoresScaleAndOrder) {
  const std::vector<float> cosines = {0.1f, 0.5f, 0.3f, 0.2f}, words = {0, 3, 6, 0};
  std::vector<float> other_cosines, other_words;
  for (const float cosine : cosines) other_cosines.push_back(0.8f + cosine / 10);
  for (const float score : words) other_words.push_back(7 * score);
  const Fusion one = fusion_of(cosines, 10), other = fusion_of(other_cosines, 70);
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    EXPECT_NEAR(score(one, cosines[i], words[i]), score(other, other_cosines[i], other_words[i]),
                1e-4);
  }
}

TEST(Fusion, WithoutOneOfBothTheOtherOrders) {
  const std::vector<float> rising = {0.1f, 0.2f, 0.3f}, alike = {0.4f, 0.4f, 0.4f};
  const Fusion by_meaning = fusion_of(rising, 0), by_words = fusion_of(alike, 1);
  for (std::size_t i = 1; i < rising.size(); ++i) {
    EXPECT_GT(score(by_meaning, rising[i], 0), score(by_meaning, rising[i - 1], 0));
    EXPECT_GT(score(by_words, alike[i], rising[i]), score(by_words, alike[i - 1], rising[i - 1]));
  }
  const std::vector<float> one = {0.5f};
  EXPECT_EQ(score(fusion_of(one, 0), 0.5f, 0), 0);
}

}  // namespace
}  // namespace longformer::index::index_test
