// Unigram tokenizers against what the `tokenizers` package encodes
// (tests/fixtures/make_tokenizer_fixtures.py), and with files that are not in order.
#include "text/unigram.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "text/character_map.h"
#include "text/decoding.h"
#include "text/graphemes.h"
#include "text/json_stream.h"
#include "text/unicode.h"
#include "tokenizer_cases.h"

namespace longformer::unigram_test {
namespace {

using Words = std::vector<std::string>;

TEST(UnigramJson, XlmRoberta) { expect_cases("xlm_roberta", "xlm_roberta"); }
TEST(UnigramJson, AlbertWithNormalizedTokens) { expect_cases("albert", "albert"); }
TEST(UnigramJson, ByteFallbackAndTheFirstPrefix) { expect_cases("unigram", "unigram"); }

TEST(Unigram, KnowsItsVocabulary) {
  const auto roberta = Tokenizer::load(fixture("xlm_roberta"));
  EXPECT_EQ(roberta.kind(), "Unigram");
  EXPECT_EQ(roberta.special_tokens().cls, 0);
  EXPECT_EQ(roberta.special_tokens().pad, 1);
  EXPECT_EQ(roberta.special_tokens().sep, 2);
  EXPECT_EQ(roberta.special_tokens().unk, 3);
  EXPECT_EQ(roberta.special_tokens().mask, roberta.vocabulary_size() - 1);
  const auto albert = Tokenizer::load(fixture("albert"));
  EXPECT_EQ(albert.special_tokens().pad, 0);
  EXPECT_EQ(albert.special_tokens().cls, 2);
  EXPECT_EQ(albert.special_tokens().sep, 3);
  EXPECT_EQ(albert.special_tokens().mask, 4);
}

text::Vocabulary vocabulary_of(const Words& words) {
  text::Vocabulary vocabulary;
  for (std::size_t i = 0; i < words.size(); ++i) {
    vocabulary.add(words[i], static_cast<std::int64_t>(i), "test");
  }
  vocabulary.finish("test", true);
  return vocabulary;
}

Ids ids_of(const Words& words, const text::UnigramOptions& options, const std::string& text) {
  const auto vocabulary = vocabulary_of(words);
  const text::UnigramModel model(vocabulary, options);
  text::UnigramModel::Workspace work;
  std::vector<text::PieceToken> tokens;
  model.encode(text, work, tokens);
  Ids ids;
  for (const auto& token : tokens) ids.push_back(token.id);
  return ids;
}

// The example of the package: abcd a cd, and one unknown token for xx.
TEST(Unigram, TakesTheMostProbableTokens) {
  const Words words{"<unk>", "a", "b", "c", "d", "cd", "ab", "abc", "abcd"};
  const text::UnigramOptions options{.scores = {0, 0, 0, 0, 0, 1, 2, 5, 10}, .unknown = 0};
  EXPECT_EQ(ids_of(words, options, "abcdacdxx"), (Ids{8, 1, 5, 0}));
}

// The values of the package.
TEST(Unigram, OfEqualCutsTheFirstFoundStays) {
  const Words words{"<unk>", "a", "aa"};
  EXPECT_EQ(ids_of(words, {.scores = {0, -1, -2}, .unknown = 0}, "aaa"), (Ids{1, 2}));
}

TEST(Unigram, RepeatedTokensHaveTheLastId) {
  const Words words{"<unk>", "a", "a"};
  EXPECT_EQ(ids_of(words, {.scores = {0, -1, -2}, .unknown = 0}, "a"), (Ids{2}));
  const auto vocabulary = vocabulary_of(words);
  EXPECT_EQ(vocabulary.token(1), "a");
  EXPECT_EQ(vocabulary.count(), 3);
}

TEST(Unigram, BytesStandForUnknownCharacters) {
  const Words words{"<unk>", "a", "<0xC3>", "<0xA9>"};
  const text::UnigramOptions options{
      .scores = {0, -1, -9, -9}, .unknown = 0, .byte_fallback = true};
  EXPECT_EQ(ids_of(words, options, "a\u00e9"), (Ids{1, 2, 3}));
  EXPECT_EQ(ids_of(words, options, "a\u00e8"), (Ids{1, 0}));
}

TEST(Unigram, WithoutUnknownTokenUnknownTextIsAnError) {
  const Words words{"a"};
  EXPECT_EQ(ids_of(words, {.scores = {-1}, .unknown = {}}, "aa"), (Ids{0, 0}));
  EXPECT_THROW(ids_of(words, {.scores = {-1}, .unknown = {}}, "ab"), Error);
}

// Scores that the package writes after reading these.
TEST(Unigram, ScoresAreReadWithTheRoundingOfThePackage) {
  const std::map<std::string, double> numbers{
      {"-3.0154635906219482", -3.015463590621948},
      {"-10.773894309997559", -10.77389430999756},
      {"-12.830850601196289", -12.830850601196287},
      {"-14.521411895751953", -14.521411895751951},
      {"-10.634415626525879", -10.63441562652588},
      {"-100.0", -100.0},
      {"1e-3", 0.001},
      {"0.0", 0.0},
      {"-2.5E2", -250.0},
  };
  for (const auto& [digits, value] : numbers) EXPECT_EQ(text::number_of_json(digits), value);
}

Words graphemes_of(const std::u32string& text) {
  text::GraphemeBreaks breaks;
  Words graphemes;
  for (const auto c : text) {
    if (breaks.begins(c)) graphemes.emplace_back();
    text::append_utf8(c, graphemes.back());
  }
  return graphemes;
}

// Examples of Unicode's GraphemeBreakTest.txt.
TEST(Graphemes, BreakAsUnicodeSays) {
  EXPECT_EQ(graphemes_of(U"a\u0308b"), (Words{"a\u0308", "b"}));
  EXPECT_EQ(graphemes_of(U"\r\n\r"), (Words{"\r\n", "\r"}));
  EXPECT_EQ(graphemes_of(U"\u0001\u0308"), (Words{"\u0001", "\u0308"}));
  EXPECT_EQ(graphemes_of(U"\u1100\u1160\u11a8\uac00\u11a8\uac01"),
            (Words{"\u1100\u1160\u11a8", "\uac00\u11a8", "\uac01"}));
  EXPECT_EQ(graphemes_of(U"a\u0903b\u0600b"), (Words{"a\u0903", "b", "\u0600b"}));
  EXPECT_EQ(graphemes_of(U"\u00a9\u0308\u200d\u00a9"), (Words{"\u00a9\u0308\u200d\u00a9"}));
  EXPECT_EQ(graphemes_of(U"a\u200d\u00a9"), (Words{"a\u200d", "\u00a9"}));
  EXPECT_EQ(graphemes_of(U"\u0915\u094d\u0924"), (Words{"\u0915\u094d\u0924"}));
  EXPECT_EQ(graphemes_of(U"\u0915\u0924"), (Words{"\u0915", "\u0924"}));
}

TEST(Decoding, BytesThatAreNoTextAreReplaced) {
  const std::vector<text::DecodingStep> steps{{.kind = text::DecodingKind::byte_fallback}};
  EXPECT_EQ(text::decode(steps, {"a", "<0xC3>", "<0xA9>", "b"}), "a\u00e9b");
  EXPECT_EQ(text::decode(steps, {"<0xC3>", "<0x0>", "<0xC3>", "<0xC3>"}),
            "\uFFFD<0x0>\uFFFD\uFFFD");
}

std::string random_text(std::mt19937& random) {
  static const Words atoms{"a",      "The",    "house",  " ",          "  ",     "\n",
                           "``",     "''",     "\u00e9", "e\u0301",    "\u0301", "\u2122",
                           "\x01",   "\u200b", "\u2581", "\ufb01",     "\uff21", "\u65e5",
                           "\u0915", "\u094d", "\u0958", "<mask>",     "[MASK]", "\uac00",
                           "\u11a8", "\u304b", "\uff9e", "\U0001f468", "\u200d", "\u2603"};
  std::uniform_int_distribution<std::size_t> atom(0, atoms.size() - 1);
  std::uniform_int_distribution<int> length(0, 30);
  std::string text;
  for (int i = length(random); i > 0; --i) text += atoms[atom(random)];
  return text;
}

// A token that may begin anywhere in normalised text makes the whole text be normalised at once.
TEST(Properties, WordByWordIsAsWhole) {
  std::mt19937 random(1);
  for (const auto* name : {"xlm_roberta", "albert", "unigram"}) {
    const auto by_words = Tokenizer::load(fixture(name));
    const Json anywhere{{"id", by_words.vocabulary_size()}, {"content", "\u2604\u2604"}};
    const TemporaryFolder folder(
        {{"tokenizer.json", tokenizer_json(name, "/added_tokens/-", anywhere)}});
    const auto whole = Tokenizer::load(folder.name());
    for (int round = 0; round < 2000; ++round) {
      const auto text = random_text(random);
      const auto got = by_words.encode(text);
      const auto want = whole.encode(text);
      EXPECT_EQ(got.ids, want.ids) << text;
      EXPECT_TRUE(got.offsets == want.offsets) << text;
    }
  }
}

TEST(HugeTexts, TakeLinearTimeByUnigram) {
  for (const auto* name : {"xlm_roberta", "albert", "unigram"}) {
    const auto tokenizer = Tokenizer::load(fixture(name));
    for (const std::string unit : {"a", " ", "\n", "\u65e5", "\u0301", "\x01", "a ", "\u2581"}) {
      std::string text;
      while (text.size() < (1u << 20)) text += unit;
      const auto start = std::chrono::steady_clock::now();
      const auto encoding = tokenizer.encode(text);
      tokenizer.decode(encoding.ids);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      EXPECT_LT(seconds.count(), 20.0) << name << " " << unit;
    }
  }
}

TEST(BadFiles, UnigramTables) {
  for (const auto& value : {Json(7), Json("text"), Json(nullptr), Json{7}, Json{"a"}}) {
    EXPECT_NE(replaced_error("unigram", "/model/vocab", value), "");
    EXPECT_NE(replaced_error("unigram", "/model/vocab/3", value), "");
  }
  EXPECT_NE(replaced_error("unigram", "/model/vocab", Json::array()), "");
  EXPECT_NE(replaced_error("unigram", "/model/vocab/3", {1.0, "a"}), "");
  EXPECT_NE(replaced_error("unigram", "/model/vocab/3", {"a", 1.0, 2.0}), "");
  EXPECT_NE(replaced_error("unigram", "/model/vocab/3", {"a", "b"}), "");
  EXPECT_NE(replaced_error("unigram", "/model/vocab/3", {"a", {1.0}}), "");
  expect_contains(replaced_error("unigram", "/model/unk_id", 1 << 20), "unk_id");
  expect_contains(replaced_error("unigram", "/model/unk_id", -1), "unk_id");
}

TEST(BadFiles, UnigramStepsAreNamed) {
  const auto expression = [](const std::string& pattern) {
    return Json{{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", " "}};
  };
  for (const std::string pattern : {"a|b", "(a)", "\\s+", "a*", "ab+", "a{2}", "a{2,3}", "a{,2}",
                                    "a{0,}", "a{2,}b", "a++", "[ab]", "a.", "\\"}) {
    expect_contains(replaced_error("unigram", "/normalizer", expression(pattern)), pattern);
  }
  const auto map = [](const Json& value) {
    return replaced_error("unigram", "/normalizer",
                          {{"type", "Precompiled"}, {"precompiled_charsmap", value}});
  };
  for (const auto& value : {Json(nullptr), Json(7), Json(""), Json("AAA"), Json("AA*="),
                            Json("////"), Json("//8AAA=="), Json("AAAAAP8=")}) {
    expect_contains(map(value), "precompiled_charsmap");
  }
  const Json empty{{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", " "}};
  expect_contains(replaced_error("unigram", "/normalizer", empty), "pattern");
  expect_contains(replaced_error("unigram", "/pre_tokenizer", {{"type", "Digits"}}), "Digits");
  for (const auto& value : {Json(""), Json("ab"), Json(7)}) {
    expect_contains(replaced_error("unigram", "/pre_tokenizer/replacement", value), "replacement");
  }
  expect_contains(replaced_error("unigram", "/pre_tokenizer/prepend_scheme", "last"), "last");
}

// Files say add_prefix_space alone, or prepend_scheme, or both where they agree.
TEST(UnigramJson, OlderMetaspace) {
  const auto ids = [](const Json& metaspace) {
    const TemporaryFolder folder(
        {{"tokenizer.json", tokenizer_json("unigram", "/pre_tokenizer", metaspace)}});
    return Tokenizer::load(folder.name()).encode("house of zz top road").ids;
  };
  const auto with = [](const Json& more) {
    Json metaspace{{"type", "Metaspace"}, {"replacement", "\u2581"}};
    metaspace.update(more);
    return metaspace;
  };
  const auto always = ids(with({{"prepend_scheme", "always"}}));
  const auto never = ids(with({{"prepend_scheme", "never"}}));
  EXPECT_NE(always, never);
  EXPECT_EQ(ids(with(Json::object())), always);
  EXPECT_EQ(ids(with({{"add_prefix_space", true}, {"str_rep", "\u2581"}})), always);
  EXPECT_EQ(ids(with({{"add_prefix_space", false}, {"prepend_scheme", "never"}})), never);
}

TEST(BadFiles, SentencePieceAloneSaysHowToConvert) {
  for (const std::string name : {"sentencepiece.bpe.model", "spiece.model"}) {
    const auto message = load_error({{name, "not read"}});
    expect_contains(message, name);
    expect_contains(message, "AutoTokenizer.from_pretrained(");
    expect_contains(message, ".save_pretrained(");
  }
}

TEST(CharacterMaps, AnyBytesAreSafe) {
  std::mt19937 random(2);
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int round = 0; round < 3000; ++round) {
    std::string base64 = "QAAA";  // 64 bytes of trie
    while (base64.size() < 108) base64 += digits[random() % (round % 2 ? 64 : 8)];
    try {
      const text::CharacterMap map(base64, "map");
      for (int byte = 1; byte < 128; ++byte) map.find(std::string(3, static_cast<char>(byte)));
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace longformer::unigram_test
