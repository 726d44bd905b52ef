// Bytes as tokens (docs/spec/file-formats.md#o10): ids by the table of the page, offsets by a count
// of characters.
#include "text/byte_tokens.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "error_testing.h"
#include "tokenizer_cases.h"

namespace longformer::byte_tokens_test {
namespace {

using Files = std::map<std::string, std::string>;

const char* const kConfig = R"({"model_type": "roberta", "vocabulary": "bytes"})";

Tokenizer bytes() {
  const TemporaryFolder folder(Files{{"config.json", kConfig}});
  return Tokenizer::load(folder.name());
}

TEST(ByteTokens, EveryByteIsATokenBetweenClsAndSep) {
  const Tokenizer tokenizer = bytes();
  EXPECT_EQ(tokenizer.kind(), "bytes");
  EXPECT_EQ(tokenizer.vocabulary_size(), 260);
  const std::string text = "a\n\u00e9\U0001f600 z";
  const Encoding encoding = tokenizer.encode(text);
  ASSERT_EQ(encoding.ids.size(), text.size() + 2);
  EXPECT_EQ(encoding.ids.front(), 1);
  EXPECT_EQ(encoding.ids.back(), 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(encoding.ids[i + 1], 4 + static_cast<unsigned char>(text[i]));
  }
  // Characters: a, line end, é (2 bytes), a face (4 bytes), space, z.
  const std::vector<std::int64_t> characters = {0, 1, 2, 2, 3, 3, 3, 3, 4, 5};
  ASSERT_EQ(characters.size(), text.size());
  for (std::size_t i = 0; i < characters.size(); ++i) {
    EXPECT_EQ(encoding.offsets[i + 1].begin, characters[i]) << i;
    EXPECT_EQ(encoding.offsets[i + 1].end, characters[i] + 1) << i;
  }
  EXPECT_EQ(tokenizer.decode(encoding.ids), text);
}

TEST(ByteTokens, AllBytesOfUtf8ComeBack) {
  const Tokenizer tokenizer = bytes();
  std::string text;
  for (char32_t c = 0; c < 0x3000; ++c) text::append_utf8(c, text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).ids), text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xff z").ids), "a\ufffd z");
  EXPECT_EQ(tokenizer.encode("").ids, (Ids{1, 2}));
}

TEST(ByteTokens, PairsAndCuts) {
  const Tokenizer tokenizer = bytes();
  const Encoding pair = tokenizer.encode_pair("ab", "c");
  EXPECT_EQ(pair.ids, (Ids{1, 4 + 'a', 4 + 'b', 2, 4 + 'c', 2}));
  EXPECT_EQ(pair.type_ids, (Ids{0, 0, 0, 0, 1, 1}));
  EncodeOptions cut;
  cut.max_length = 4;
  const Encoding first = tokenizer.encode("abcdef", cut);
  EXPECT_EQ(first.ids, (Ids{1, 4 + 'a', 4 + 'b', 2}));
  EXPECT_EQ(first.truncated, 4);
  cut.add_special_tokens = false;
  EXPECT_EQ(tokenizer.encode("abcdef", cut).ids, (Ids{4 + 'a', 4 + 'b', 4 + 'c', 4 + 'd'}));
}

TEST(ByteTokens, SpecialTokensHaveNames) {
  const Tokenizer tokenizer = bytes();
  const SpecialTokens& special = tokenizer.special_tokens();
  EXPECT_EQ(special.pad, text::kBytePad);
  EXPECT_EQ(special.cls, text::kByteCls);
  EXPECT_EQ(special.sep, text::kByteSep);
  EXPECT_EQ(special.mask, text::kByteMask);
  EXPECT_FALSE(special.unk.has_value());
  EXPECT_EQ(tokenizer.encode("a[MASK]").ids, (Ids{1, 4 + 'a', 3, 2}));
  EXPECT_EQ(tokenizer.id("[PAD]"), 0);
  EXPECT_EQ(tokenizer.token(4 + ' '), "\u0120");
}

TEST(ByteTokens, AddedTokensStandBehindTheBytes) {
  const TemporaryFolder folder(
      {{"config.json", kConfig},
       {"added_tokens.json", R"({"<t>": 260})"},
       {"tokenizer_config.json", R"({"additional_special_tokens": ["<t>"]})"}});
  const Tokenizer tokenizer = Tokenizer::load(folder.name());
  EXPECT_EQ(tokenizer.vocabulary_size(), 261);
  EXPECT_EQ(tokenizer.encode("a<t>").ids, (Ids{1, 4 + 'a', 260, 2}));
  const std::vector<std::string> more = {"[ent]"};
  EXPECT_EQ(Tokenizer::load(folder.name(), more).id("[ent]"), 261);
  const Tokenizer small = Tokenizer::load(folder.name(), {}, true);
  EXPECT_EQ(small.encode("AB").ids, (Ids{1, 4 + 'a', 4 + 'b', 2}));
}

TEST(ByteTokens, OnlyEncodersReadThem) {
  const TemporaryFolder language_model(
      Files{{"config.json", R"({"model_type": "longformer-lm", "vocabulary": "bytes"})"}});
  EXPECT_FALSE(text::reads_bytes(language_model.name()));
  const TemporaryFolder broken(Files{{"config.json", "{"}});
  EXPECT_FALSE(text::reads_bytes(broken.name()));
  EXPECT_FALSE(text::reads_bytes(fixture("roberta")));
  expect_contains(load_error({{"config.json", kConfig}, {"vocab.txt", "a"}}),
                  "expected no vocab.txt beside the vocabulary bytes");
}

TEST(ByteTokens, MegabytesTakeLinearTime) {
  const Tokenizer tokenizer = bytes();
  const std::string text(std::size_t{1} << 22, 'a');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer.encode(text).ids.size(), text.size() + 2);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 20.0);
}

}  // namespace
}  // namespace longformer::byte_tokens_test
