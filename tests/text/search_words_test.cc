// Words of a search index: what is one word, how it is compared, and where it stands.
#include "text/search_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "error_testing.h"

namespace longformer::text::search_words_test {
namespace {

using Texts = std::vector<std::string>;

/// The stems of a text; another form of a word stands behind a slash, characters of one run behind
/// a plus.
std::string words_of(std::string_view text, const std::string& language = "none") {
  WordSplitter splitter(language);
  std::string all;
  splitter.split(text, [&](const SearchWord& word) {
    if (!all.empty()) all += word.continues ? "+" : " ";
    all += word.stem;
    if (!word.accented_stem.empty()) all += "/" + word.accented_stem;
  });
  return all;
}

/// The parts of a text that are words.
std::string parts_of(std::string_view text) {
  WordSplitter splitter("none");
  std::string all;
  splitter.split(text, [&](const SearchWord& word) {
    all += "[" + std::string(text.substr(word.begin, word.end - word.begin)) + "]";
  });
  return all;
}

struct Case {
  const char* text;
  const char* words;
};

void expect_words(std::initializer_list<Case> cases, const std::string& language = "none") {
  for (const Case& one : cases) EXPECT_EQ(words_of(one.text, language), one.words) << one.text;
}

TEST(SearchWords, AreLettersAndDigitsWithoutCase) {
  expect_words({{"", ""},
                {" ? -- ", ""},
                {"The DOG's U.S. 3rd_time covid-19", "the dog s u s 3rd time covid 19"},
                {"Straße STRASSE Stra\u1e9ee", "strasse strasse strasse"},
                {"ΟΔΥΣΣΕΥΣ οδυσσευς", "οδυσσευσ οδυσσευσ"},
                {"İstanbul ISPARTA ısparta i\u0307", "istanbul isparta isparta i"},
                {"ŁÓDŹ Øre œuvre Æon đà Þór ðu ſ ŋ", "lodz ore oeuvre aeon da thor du s n"},
                {"a\xff b\xc3", "a b"},
                {"\xed\xa0\x80x", "x"}});
}

TEST(SearchWords, EquivalentTextsAreOne) {
  expect_words({{"\u0401\u043b\u043a\u0430 \u0415\u0308\u043b\u043a\u0430", "елка елка"},
                {"\u0439 \u0438\u0306", "и и"},
                {"\ufb01nancial o\ufb03ce", "financial office"},
                {"\uff28\uff25\uff2c\uff2c\uff2f \uff11\uff12", "hello 12"},
                {"H\u2082O x\u00b2", "h2o x2"},
                {"\u2167 \u2178", "viii ix"},
                {"\u00e9 e\u0301", "e e"},
                {"Vi\u1ec7t Vie\u0323\u0302t Vie\u0302\u0323t", "viet viet viet"},
                {"\uff76\uff9e\uff97\uff7d", "\u30ab\u3099+ラ+ス"},
                {"\u30ac\u30e9\u30b9", "\u30ab\u3099+ラ+ス"},
                {"\u30ab\u3099\u30e9\u30b9", "\u30ab\u3099+ラ+ス"},
                {"한국 \u1112\u1161\u11ab\u1100\u116e\u11a8", "한+국 한+국"},
                {"\u3131\u314f", "가"}});
}

TEST(SearchWords, AreWithoutWhatNobodySees) {
  expect_words(
      {{"infor\u00admation", "information"},
       {"data\u200bbase da\u2060ta a\ufeffb", "database data ab"},
       {"\u200fab\u200e \u202ac\u202c", "ab c"},
       {"می\u200cخواهم", "ميخواهم"},
       {"\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05e9\u05dc\u05d5\u05dd", "שלום שלום"},
       {"\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0651 \u0639\u0631\u0628\u064a", "عربي عربي"},
       {"\u0639\u0640\u0640\u0631\u0628\u064a", "عربي"},
       {"\ufecb\ufeae\ufe91\ufef2", "عربي"},
       {"أحمد إحمد آحمد", "احمد احمد احمد"},
       {"ی ى ي ک ك مدرسة مدرسه", "ي ي ي ك ك مدرسه مدرسه"},
       {"\u2764\ufe0f 1\ufe0f\u20e3", "1"},
       {"\u0301 x", "x"}});
}

TEST(SearchWords, KeepMarksThatAreLetters) {
  expect_words({{"हिन्दी भाषा", "हिन्दी भाषा"},
                {"\u0915\u093c \u0958", "\u0915\u093c \u0915\u093c"},
                {"বাংলা", "বাংলা"},
                {"தமிழ்", "தமிழ்"},
                {"\u0928\u0951\u092e", "नम"}});
}

TEST(SearchWords, DigitsAreThoseOfAllScripts) {
  expect_words({{"٢٠٢٤ ۲۰۲۴ २०२४ ๒๐๒๔ 2024", "2024 2024 2024 2024 2024"},
                {"\U0001d7ce\U0001d7d8\U0001d7ff", "009"},
                {"\u2460 \u00bd", "1 1 2"}});
}

TEST(SearchWords, ScriptsWithoutBlanksComeCharacterByCharacter) {
  expect_words({{"新款iPhone15手机2台", "新+款 iphone15 手+机 2 台"},
                {"東京の天気。サーバー", "東+京+の+天+気 サ+ー+ハ\u3099+ー"},
                {"机器\n学习", "机+器+学+习"},
                {"机器\r\n学习", "机+器+学+习"},
                {"机器\n\n学习 数据", "机+器 学+习 数+据"},
                {"한국\n어", "한+국 어"},
                {"기계학습을 AI와", "기+계+학+습+을 ai 와"},
                {"ผมรักภาษาไทย", "ผ+ม+รั+ก+ภ+า+ษ+า+ไ+ท+ย"},
                {"ພາສາ ភាសា", "ພ+າ+ສ+າ ភា+សា"},
                {"မြန်မာ", "မြ+န်+မာ"},
                {"བོད་སྐད", "བོ+ད སྐ+ད"},
                {"\u32ff\u3231", "令+和 株"},
                {"TNFα ΔG", "tnf α δ g"},
                {"5μm", "5μ m"}});
}

TEST(SearchWords, SignsStandAlone) {
  expect_words({{"Windows™ 11", "windows tm 11"},
                {"20℃ 5㎏", "20 c 5 kg"},
                {"1½", "1 1 2"},
                {"№5", "no 5"},
                {"C++ €5 a😀b", "c 5 a b"},
                {"l\u2019eau l'eau l\u02bceau", "l eau l eau l eau"}});
}

TEST(SearchWords, StandWhereTheTextHasThem) {
  EXPECT_EQ(parts_of("The infor\u00admation, \u00ado\ufb03ce\u00ad!"),
            "[The][infor\u00admation][o\ufb03ce]");
  EXPECT_EQ(parts_of("cafe\u0301s Vie\u0302\u0323t\u0301 x"),
            "[cafe\u0301s][Vie\u0302\u0323t\u0301][x]");
  EXPECT_EQ(parts_of("a新\u30ab\u3099b"), "[a][新][\u30ab\u3099][b]");
  EXPECT_EQ(parts_of("\u1112\u1161\u11ab국"), "[\u1112\u1161\u11ab][국]");
  EXPECT_EQ(parts_of("9½x"), "[9][½][½][x]");
  EXPECT_EQ(parts_of("\xff"
                     "a\xffz"),
            "[a][z]");
}

TEST(SearchWords, StemsAreThoseOfTheLanguage) {
  expect_words({{"running DOGS café 東京 бегущие", "run dog cafe 東+京 бегущие"}}, "english");
  expect_words({{"Häuser Haus hauser Katzen", "haus haus haus katz"}}, "german");
  expect_words({{"cantábamos cantar cantabamos", "cantab/cant cant cantab"}}, "spanish");
  expect_words({{"книги книга dogs", "книг книг dogs"}}, "russian");
  expect_words({{"élégantes thé", "eleg the"}}, "french");
  expect_words({{"kediler kedi KEDİLER", "kedi kedi kedi"}}, "turkish");
  EXPECT_EQ(words_of("नदियों नदी", "hindi"), "नद नद");
}

TEST(SearchWords, AnAccentedWordHasTheStemOfThePlainOneToo) {
  for (const char* language : {"french", "spanish", "portuguese", "german", "swedish", "italian"}) {
    WordSplitter splitter(language);
    const auto forms = [&](std::string_view text) {
      Texts found;
      splitter.split(text, [&](const SearchWord& word) {
        found.push_back(word.stem);
        found.push_back(word.accented_stem);
      });
      return found;
    };
    for (const auto& [accented, plain] : {std::pair("élégantes", "elegantes"),
                                          {"cantábamos", "cantabamos"},
                                          {"ações", "acoes"},
                                          {"Häuser", "Hauser"},
                                          {"città", "citta"}}) {
      EXPECT_EQ(forms(accented)[0], forms(plain)[0]) << language;
      EXPECT_EQ(forms(plain)[1], "") << language;
    }
  }
}

TEST(SearchWords, ATextOfWordsSplitsIntoThemAgain) {
  const char* kTexts[] = {"ΟΔΥΣΣΕΥΣ τῷ", "İ ı Straße ﬁ ½ ™",
                          "हिन्दी क़",     "Vie\u0323\u0302t",
                          "ｶﾞﾗｽ",        "\u1112\u1161\u11ab",
                          "ﷺ ㍿ ㎏",     "ภาษาไทย ำ",
                          "ŉ ǆ ᾳ",       "ℌ 𝕳 Ⅷ"};
  for (const char* language : {"none", "english", "german", "greek", "turkish", "hindi"}) {
    WordSplitter splitter(language);
    for (const char* text : kTexts) {
      std::vector<std::string> texts, stems;
      splitter.split(text, [&](const SearchWord& word) {
        texts.push_back(word.text);
        stems.push_back(word.stem + "/" + word.accented_stem);
      });
      for (std::size_t i = 0; i < texts.size(); ++i) {
        splitter.split(texts[i], [&](const SearchWord& word) {
          EXPECT_EQ(word.text, texts[i]);
          EXPECT_EQ(word.stem + "/" + word.accented_stem, stems[i]) << text;
        });
      }
    }
  }
}

TEST(SearchWords, KnowTheirLanguages) {
  const Texts languages = stem_languages();
  EXPECT_TRUE(std::find(languages.begin(), languages.end(), "german") != languages.end());
  EXPECT_TRUE(std::is_sorted(languages.begin(), languages.end()));
  for (const std::string& language : languages) EXPECT_EQ(words_of("a", language), "a");
  expect_error(error_of([] { WordSplitter("klingon"); }), {"english", "none", "\"klingon\""});
}

TEST(SearchWords, LongWordsAreTakenAsTheyAre) {
  const std::string word(100000, 'a'), accented = word + "é";
  EXPECT_EQ(words_of(word, "english"), word);
  EXPECT_EQ(words_of(accented, "english"), word + "e");
}

}  // namespace
}  // namespace longformer::text::search_words_test
