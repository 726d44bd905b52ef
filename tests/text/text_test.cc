// Tokenizers against what the `tokenizers` package encodes
// (tests/fixtures/make_tokenizer_fixtures.py), against the published values of the real
// vocabularies, and with files and texts that are not in order.
//
// Reruns: tsan
#include "longformer/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "longformer/error.h"
#include "temporary_folder.h"
#include "text/byte_pair_encoding.h"
#include "text/normalization.h"
#include "text/unicode.h"
#include "tokenizer_cases.h"

namespace longformer::text_test {
namespace {

TEST(TokenizerJson, ByteLevelBpe) { expect_cases("roberta", "roberta"); }
TEST(TokenizerJson, PrefixSpaceNormalizerAndAddedTokens) {
  expect_cases("prefix_space", "prefix_space");
}
TEST(TokenizerJson, BertUncased) { expect_cases("bert_uncased", "bert_uncased"); }
TEST(TokenizerJson, BertCasedWithAddedTokens) { expect_cases("bert_cased", "bert_cased"); }
TEST(OlderFiles, VocabularyAndMerges) { expect_cases("roberta/files", "roberta"); }
TEST(OlderFiles, VocabularyText) { expect_cases("bert_uncased/files", "bert_uncased"); }

TEST(Tokenizer, KnowsItsVocabulary) {
  const auto bpe = Tokenizer::load(fixture("roberta"));
  EXPECT_EQ(bpe.kind(), "byte-level BPE");
  EXPECT_EQ(bpe.special_tokens().cls, 0);
  EXPECT_EQ(bpe.special_tokens().pad, 1);
  EXPECT_EQ(bpe.special_tokens().sep, 2);
  EXPECT_EQ(bpe.special_tokens().unk, 3);
  EXPECT_EQ(bpe.special_tokens().mask, bpe.vocabulary_size() - 1);
  EXPECT_EQ(bpe.token(*bpe.special_tokens().mask), "<mask>");
  const auto space = bpe.id("\u0120");
  ASSERT_TRUE(space.has_value());
  EXPECT_EQ(bpe.token(*space), "\u0120");
  EXPECT_FALSE(bpe.id("no such token").has_value());
  const auto bert = Tokenizer::load(fixture("bert_uncased"));
  EXPECT_EQ(bert.kind(), "WordPiece");
  EXPECT_EQ(bert.special_tokens().pad, 0);
  EXPECT_EQ(bert.special_tokens().mask, 4);
  EXPECT_FALSE(bert.special_tokens().bos.has_value());
}

TEST(Tokenizer, IdsOutOfRangeAreErrors) {
  const auto tokenizer = Tokenizer::load(fixture("roberta"));
  const auto end = static_cast<std::int32_t>(tokenizer.vocabulary_size());
  EXPECT_NO_THROW(tokenizer.token(end - 1));
  EXPECT_THROW(tokenizer.token(end), Error);
  EXPECT_THROW(tokenizer.token(-1), Error);
  EXPECT_THROW(tokenizer.decode(Ids{0, end}), Error);
  EXPECT_THROW(tokenizer.decode(Ids{-1}), Error);
}

TEST(Tokenizer, LimitBelowTheSpecialTokensIsAnError) {
  const auto tokenizer = Tokenizer::load(fixture("roberta"));
  EncodeOptions options;
  options.max_length = 1;
  EXPECT_THROW(tokenizer.encode("text", options), Error);
  options.max_length = 2;
  const auto encoding = tokenizer.encode("text", options);
  EXPECT_EQ(encoding.ids, (Ids{0, 2}));
  EXPECT_GT(encoding.truncated, 0);
  options.max_length = -1;
  options.add_special_tokens = false;
  EXPECT_THROW(tokenizer.encode("text", options), Error);
}

TEST(Tokenizer, InvalidUtf8IsReadAsReplacementCharacters) {
  const std::map<std::string, std::string> repaired{
      {"a\xff", "a\uFFFD"},
      {"\xc3(", "\uFFFD("},
      {"x\xe2\x82", "x\uFFFD"},
      {"\xf0\x9f\x98y", "\uFFFDy"},
      {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xc0\xaf", "\uFFFD\uFFFD"},
      {"\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
  };
  const auto tokenizer = Tokenizer::load(fixture("roberta"));
  for (const auto& [text, replaced] : repaired) {
    EXPECT_EQ(text::repaired_utf8(text), replaced);
    const auto got = tokenizer.encode(text);
    const auto want = tokenizer.encode(replaced);
    EXPECT_EQ(got.ids, want.ids);
    EXPECT_TRUE(got.offsets == want.offsets);
    EXPECT_EQ(character_starts(text).size(), character_starts(replaced).size());
  }
}

TEST(Tokenizer, CharacterStartsCoverTheText) {
  EXPECT_EQ(character_starts(""), (std::vector<std::size_t>{0}));
  EXPECT_EQ(character_starts("a\u00e9\u65e5z"), (std::vector<std::size_t>{0, 1, 3, 6, 7}));
}

/// A random text of characters of all sizes and classes.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> atoms{"a",
                                              "B",
                                              "the",
                                              "house",
                                              "'s",
                                              "'ll",
                                              "1",
                                              "42",
                                              " ",
                                              "  ",
                                              "\n",
                                              "\t",
                                              ".",
                                              "--",
                                              "\u00e9",
                                              "e\u0301",
                                              "\u0130",
                                              "\u65e5",
                                              "\U0001f468\u200d\U0001f469",
                                              "\u00a0",
                                              "\u3000",
                                              "\u0344",
                                              "\U0001d165",
                                              "\ud55c",
                                              "\u00df",
                                              "<",
                                              "[",
                                              "\x01",
                                              "\u200b"};
  std::uniform_int_distribution<std::size_t> atom(0, atoms.size() - 1);
  std::uniform_int_distribution<int> length(0, 40);
  std::string text;
  for (int i = length(random); i > 0; --i) text += atoms[atom(random)];
  return text;
}

TEST(Properties, ByteLevelDecodingInvertsEncoding) {
  const auto tokenizer = Tokenizer::load(fixture("roberta"));
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto text = random_text(random);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).ids), text);
  }
}

TEST(Properties, OffsetsAreOrderedAndInsideTheText) {
  std::mt19937 random(2);
  for (const auto* name : {"roberta", "bert_uncased", "bert_cased"}) {
    const auto tokenizer = Tokenizer::load(fixture(name));
    for (int round = 0; round < 1000; ++round) {
      const auto text = random_text(random);
      const auto characters = static_cast<std::int64_t>(character_starts(text).size()) - 1;
      const auto encoding = tokenizer.encode(text);
      std::int64_t last = 0;
      for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
        if (encoding.special_tokens_mask[i]) continue;
        const auto [begin, end] = encoding.offsets[i];
        EXPECT_LE(last, begin) << text;
        EXPECT_LE(begin, end) << text;
        EXPECT_LE(end, characters) << text;
        last = begin;
      }
    }
  }
}

TEST(Properties, LongAndShortPiecesMergeAlike) {
  const auto folder = data_folder();
  if (folder.empty()) GTEST_SKIP() << "no data folder";
  // Words of at most 64 symbols and longer ones take different ways to the same merges: a long word
  // that falls apart into short ones at a byte that never merges must have their tokens.
  const auto tokenizer = Tokenizer::load((folder / "roberta_bpe").string());
  std::mt19937 random(3);
  const std::string letters = "aeinorst";
  for (int round = 0; round < 200; ++round) {
    std::string joined;
    Ids separate;
    for (int part = 0; part < 8; ++part) {
      std::string word;
      for (int i = 0; i < 40; ++i) word += letters[random() % letters.size()];
      joined += word + "\U00010450";
      EncodeOptions plain;
      plain.add_special_tokens = false;
      const auto ids = tokenizer.encode(word + "\U00010450", plain).ids;
      separate.insert(separate.end(), ids.begin(), ids.end());
    }
    EncodeOptions plain;
    plain.add_special_tokens = false;
    EXPECT_EQ(tokenizer.encode(joined, plain).ids, separate);
  }
}

TEST(Tokenizer, ThreadsShareOneTokenizer) {
  const auto tokenizer = Tokenizer::load(fixture("bert_uncased"));
  std::mt19937 random(4);
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int i = 0; i < 300; ++i) {
    texts.push_back(random_text(random));
    expected.push_back(tokenizer.encode(texts.back()).ids);
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        wrong[t] += tokenizer.encode(texts[i]).ids != expected[i];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::vector<int>{0, 0, 0, 0}));
}

/// Seconds to encode a text.
double seconds(const Tokenizer& tokenizer, const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_GE(tokenizer.encode(text).ids.size(), 2u);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(HugeTexts, TakeLinearTime) {
  for (const auto* name : {"roberta", "prefix_space", "bert_uncased", "bert_cased"}) {
    const auto tokenizer = Tokenizer::load(fixture(name));
    for (const std::string unit : {"a", " ", "\n", "\u65e5", "\u0301", "\U0001d165", "<", "zz "}) {
      std::string text;
      while (text.size() < (1u << 20)) text += unit;
      // Quadratic work on a megabyte takes minutes; a sanitizer build stays far below.
      EXPECT_LT(seconds(tokenizer, text), 20.0) << name << " " << unit;
    }
  }
}

TEST(RealVocabularies, PublishedIds) {
  const auto folder = data_folder();
  if (folder.empty()) GTEST_SKIP() << "no data folder";
  const auto roberta = Tokenizer::load((folder / "roberta_bpe").string());
  EXPECT_EQ(roberta.vocabulary_size(), 50265);
  EXPECT_EQ(roberta.encode("Hello world").ids, (Ids{0, 31414, 232, 2}));
  EXPECT_EQ(roberta.encode(" Hello world").ids, (Ids{0, 20920, 232, 2}));
  EXPECT_EQ(roberta.special_tokens().mask, 50264);
  EXPECT_EQ(roberta.encode_pair("Hello", "world").ids, (Ids{0, 31414, 2, 2, 8331, 2}));
  const TemporaryFolder uncased;
  fs::copy_file(folder / "bert_vocab" / "bert-base-uncased-vocab.txt",
                uncased.path() / "vocab.txt");
  const auto bert = Tokenizer::load(uncased.name());
  EXPECT_EQ(bert.vocabulary_size(), 30522);
  EXPECT_EQ(bert.encode("Hello, world!").ids, (Ids{101, 7592, 1010, 2088, 999, 102}));
  EXPECT_EQ(bert.special_tokens().mask, 103);
}

// ---------------------------------------------------------------- files that are not in order

const std::string kVocabulary = R"({"<s>":0,"</s>":1,"a":2,"b":3,"ab":4})";

std::map<std::string, std::string> byte_pair_files(const std::string& vocabulary,
                                                   const std::string& merges) {
  return {{"vocab.json", vocabulary}, {"merges.txt", merges}};
}

TEST(BadFiles, GoodOnesLoad) {
  const TemporaryFolder folder(byte_pair_files(kVocabulary, "#version: 0.2\na b\n"));
  EXPECT_EQ(Tokenizer::load(folder.name()).encode("ab").ids, (Ids{0, 4, 1}));
}

TEST(BadFiles, MissingFiles) {
  EXPECT_THROW(Tokenizer::load("/no/such/folder"), Error);
  expect_contains(load_error({}), "tokenizer.json");
  expect_contains(load_error({{"vocab.json", kVocabulary}}), "merges.txt");
}

TEST(BadFiles, MalformedJson) {
  expect_contains(load_error({{"tokenizer.json", "{\"model\": "}}), "tokenizer.json");
  expect_contains(load_error({{"tokenizer.json", "[]"}}), "object");
  expect_contains(load_error({{"tokenizer.json", "{}"}}), "model");
  expect_contains(load_error({{"tokenizer.json", ""}}), "empty");
  expect_contains(load_error({{"tokenizer.json", std::string(100000, '[')}}), "levels");
  expect_contains(load_error(byte_pair_files("{\"a\":", "")), "vocab.json");
  expect_contains(load_error(byte_pair_files("[1]", "")), "object");
  expect_contains(load_error(byte_pair_files("{\"a\xff\": 1}", "")), "vocab.json");
}

TEST(BadFiles, Vocabularies) {
  expect_contains(load_error(byte_pair_files("{}", "")), "no token");
  expect_contains(load_error(byte_pair_files(R"({"a":"b"})", "")), "an id");
  expect_contains(load_error(byte_pair_files(R"({"a":{}})", "")), "an id");
  expect_contains(load_error(byte_pair_files(R"({"a":-1})", "")), "found -1");
  expect_contains(load_error(byte_pair_files(R"({"a":1.5})", "")), "an id");
  expect_contains(load_error(byte_pair_files(R"({"a":99999999999999999999})", "")), "an id");
  expect_contains(load_error(byte_pair_files(R"({"a":4000000000})", "")), "ids from 0");
  expect_contains(load_error(byte_pair_files(R"({"a":1,"b":1})", "")), "one token per id");
  expect_contains(load_error({{"vocab.txt", ""}}), "empty");
  expect_contains(load_error({{"vocab.txt", "a\nb\n"}}), "vocab.txt");
  expect_contains(load_error({{"vocab.txt", "[UNK]\n\xff\n"}}), "UTF-8");
}

TEST(BadFiles, GapsAndRepeatedTokensAreFine) {
  const TemporaryFolder folder(
      byte_pair_files(R"({"<s>":0,"</s>":5,"a":9,"b":3,"ab":4,"a":2})", "a b"));
  const auto tokenizer = Tokenizer::load(folder.name());
  EXPECT_EQ(tokenizer.vocabulary_size(), 6);
  EXPECT_EQ(tokenizer.id("a"), 2);
  EXPECT_EQ(tokenizer.token(1), "");
  EXPECT_EQ(tokenizer.encode("abb").ids, (Ids{0, 4, 3, 5}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 4}), "ab");
}

TEST(BadFiles, Merges) {
  expect_contains(load_error(byte_pair_files(kVocabulary, "a c")), "'c' in merge 1");
  expect_contains(load_error(byte_pair_files(kVocabulary, "a b\nb a")), "'ba' in merge 2");
  expect_contains(load_error(byte_pair_files(kVocabulary, "ab")), "one space");
  expect_contains(load_error(byte_pair_files(kVocabulary, "a b c")), "one space");
}

TEST(BadFiles, UnsupportedKindsAreNamed) {
  expect_contains(replaced_error("roberta", "/model/type", "WordNet"), "WordNet");
  expect_contains(replaced_error("roberta", "/normalizer", {{"type", "ByteLevel"}}), "ByteLevel");
  expect_contains(replaced_error("roberta", "/pre_tokenizer", {{"type", "Digits"}}), "Digits");
  const Json unknown = {{"type", "Split"},
                        {"pattern", {{"Regex", "\\d+"}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  expect_contains(replaced_error("roberta", "/pre_tokenizer",
                                 {{"type", "Sequence"}, {"pretokenizers", {unknown, byte_level}}}),
                  "\\\\d+");
  expect_contains(replaced_error("roberta", "/pre_tokenizer", unknown), "ByteLevel");
  expect_contains(replaced_error("llama3", "/pre_tokenizer/pretokenizers/0/behavior", "Removed"),
                  "Removed with invert");
  expect_contains(replaced_error("bert_uncased", "/pre_tokenizer", nullptr), "BertPreTokenizer");
  expect_contains(replaced_error("roberta", "/post_processor", {{"type", "Other"}}), "Other");
  expect_contains(replaced_error("roberta", "/decoder", {{"type", "CTC"}}), "CTC");
  expect_contains(replaced_error("roberta", "/model/dropout", 0.1), "0.1");
  expect_contains(replaced_error("roberta", "/model/byte_fallback", true), "byte_fallback");
  expect_contains(replaced_error("roberta", "/model/continuing_subword_prefix", "##"), "##");
}

TEST(BadFiles, WrongTypes) {
  for (const auto& value : {Json(7), Json("text"), Json(nullptr)}) {
    EXPECT_NE(replaced_error("roberta", "/model", value), "");
    EXPECT_NE(replaced_error("roberta", "/model/vocab", value), "");
    EXPECT_NE(replaced_error("roberta", "/model/merges", value), "");
    EXPECT_NE(replaced_error("bert_uncased", "/post_processor/single", value), "");
  }
  EXPECT_NE(replaced_error("roberta", "/normalizer", 7), "");
  EXPECT_NE(replaced_error("roberta", "/pre_tokenizer", 7), "");
  EXPECT_NE(replaced_error("roberta", "/post_processor/cls", "x"), "");
  EXPECT_NE(replaced_error("roberta", "/added_tokens", 7), "");
  EXPECT_NE(replaced_error("roberta", "/added_tokens/0/content", 7), "");
  EXPECT_NE(replaced_error("roberta", "/added_tokens/0/content", ""), "");
  EXPECT_NE(replaced_error("roberta", "/added_tokens/0/lstrip", "yes"), "");
  EXPECT_NE(replaced_error("roberta", "/model/merges", {{"a"}}), "");
  EXPECT_NE(replaced_error("roberta", "/model/merges", {{"a", "b", "c"}}), "");
  EXPECT_NE(replaced_error("roberta", "/model/merges", {7}), "");
  EXPECT_NE(replaced_error("bert_uncased", "/model/unk_token", "absent"), "");
  EXPECT_NE(replaced_error("bert_uncased", "/model/max_input_chars_per_word", -1), "");
  EXPECT_NE(replaced_error("bert_uncased", "/post_processor/special_tokens", Json::object()), "");
  EXPECT_NE(replaced_error("bert_uncased", "/post_processor/single/0",
                           {{"Sequence", {{"id", "C"}, {"type_id", 0}}}}),
            "");
}

TEST(BadFiles, DeepNestingIsAnError) {
  Json deep = {{"type", "Lowercase"}};
  for (int i = 0; i < 100; ++i) deep = {{"type", "Sequence"}, {"normalizers", {deep}}};
  expect_contains(replaced_error("roberta", "/normalizer", deep), "levels");
}

TEST(BadFiles, ConfigFiles) {
  auto files = byte_pair_files(kVocabulary, "a b");
  files["tokenizer_config.json"] = R"({"add_prefix_space": "yes"})";
  expect_contains(load_error(files), "add_prefix_space");
  files["tokenizer_config.json"] = "{";
  expect_contains(load_error(files), "tokenizer_config.json");
  files.erase("tokenizer_config.json");
  files["added_tokens.json"] = R"({"<x>": "y"})";
  expect_contains(load_error(files), "<x>");
}

TEST(BadFiles, LimitsAndPaddingOfTheFilesAreNotApplied) {
  auto json = read_json(kFixtures / "bert_uncased" / "tokenizer.json");
  json["truncation"] = {{"max_length", 4}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {{"strategy", {{"Fixed", 128}}}, {"pad_id", 0}};
  const TemporaryFolder folder({{"tokenizer.json", json.dump()}});
  const auto plain = Tokenizer::load(fixture("bert_uncased")).encode("the old house on the road");
  EXPECT_EQ(Tokenizer::load(folder.name()).encode("the old house on the road").ids, plain.ids);
}

// ---------------------------------------------------------------- characters

TEST(Unicode, FlagsFollowThePackage) {
  using Flags = text::CharacterFlags;
  EXPECT_TRUE(text::character_flags('a') & Flags::letter);
  EXPECT_TRUE(text::character_flags(0x663) & Flags::number);
  EXPECT_TRUE(text::character_flags(0x3000) & Flags::whitespace);
  EXPECT_TRUE(text::character_flags(0x200d) & Flags::dropped);
  EXPECT_FALSE(text::character_flags('\n') & Flags::dropped);
  EXPECT_TRUE(text::character_flags('$') & Flags::punctuation);
  EXPECT_FALSE(text::character_flags(0x20ac) & Flags::punctuation);
  // Assigned after the Unicode version of utf8proc, or before that of the package.
  EXPECT_TRUE(text::character_flags(0x1c89) & Flags::letter);
  EXPECT_FALSE(text::character_flags(0x7fd) & Flags::nonspacing);
}

TEST(Unicode, NormalizationKeepsPlaces) {
  using Step = text::NormalizationKind;
  const std::string text = "\u00e9e\u0301";
  const auto stripped = text::normalize(
      {text::NormalizationStep(Step::decompose), text::NormalizationStep(Step::strip_nonspacing)},
      text, 0, text.size());
  ASSERT_EQ(stripped.size(), 2u);
  EXPECT_EQ(stripped[0].value, U'e');
  EXPECT_EQ(stripped[0].end, 2u);
  EXPECT_EQ(stripped[1].begin, 2u);
  EXPECT_EQ(stripped[1].end, 3u);
  const auto composed =
      text::normalize({text::NormalizationStep(Step::compose)}, text, 0, text.size());
  ASSERT_EQ(composed.size(), 2u);
  EXPECT_EQ(composed[1].value, U'\u00e9');
}

TEST(Unicode, BytesHaveCharacters) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto character = text::character_of_byte(static_cast<unsigned char>(byte));
    EXPECT_EQ(text::byte_of_character(character), byte);
  }
  EXPECT_EQ(text::character_of_byte(' '), U'\u0120');
  EXPECT_EQ(text::character_of_byte('\n'), U'\u010a');
  EXPECT_EQ(text::character_of_byte(0xad), U'\u0143');
  EXPECT_FALSE(text::byte_of_character(U' ').has_value());
}

}  // namespace
}  // namespace longformer::text_test
