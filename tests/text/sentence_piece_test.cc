// Model files of SentencePiece against what `transformers` makes of them
// (tests/fixtures/make_tokenizer_fixtures.py), and files that are not in order.
#include "text/sentence_piece.h"

#include <gtest/gtest.h>

#include <string>

#include "core/random.h"
#include "text/json_stream.h"
#include "tokenizer_cases.h"

namespace longformer::sentence_piece_test {
namespace {

std::string model_file() { return text::read_text_file(fixture("deberta") + "/spm.model"); }

TEST(SentencePiece, DebertaFolder) { expect_cases("deberta", "deberta"); }
TEST(SentencePiece, DebertaFolderThatSplitsAtPunctuation) {
  expect_cases("deberta_split", "deberta_split");
}

TEST(SentencePiece, KnowsItsSpecialTokens) {
  const auto tokenizer = Tokenizer::load(fixture("deberta"));
  EXPECT_EQ(tokenizer.kind(), "Unigram");
  EXPECT_EQ(tokenizer.special_tokens().pad, 0);
  EXPECT_EQ(tokenizer.special_tokens().cls, 1);
  EXPECT_EQ(tokenizer.special_tokens().sep, 2);
  EXPECT_EQ(tokenizer.special_tokens().unk, 3);
  EXPECT_EQ(tokenizer.special_tokens().mask, tokenizer.vocabulary_size() - 1);
  ASSERT_EQ(tokenizer.notes().size(), 1u);
  expect_contains(tokenizer.notes()[0], "its character map counts");
}

TEST(SentencePiece, TheModelTypeTellsTheClass) {
  const TemporaryFolder folder(
      {{"spm.model", model_file()}, {"config.json", R"({"model_type": "deberta-v2"})"}});
  const auto named = Tokenizer::load(fixture("deberta"));
  const auto found = Tokenizer::load(folder.name());
  EXPECT_EQ(found.encode("the <old> house").ids, named.encode("the <old> house").ids);
}

TEST(SentencePiece, FoldersOfOtherClassesNeedATokenizerFile) {
  expect_contains(load_error({{"spm.model", model_file()},
                              {"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer"})"}}),
                  "expected tokenizer.json, found only spm.model");
}

TEST(SentencePiece, ReadsWhatTheFileSays) {
  // Two pieces, one of them unknown, a trainer with the type of byte-pair encoding, and a field
  // that nobody reads.
  const std::string bytes =
      "\x0a\x0a\x0a\x03"
      "abc\x15" +
      std::string("\x00\x00\x80\xbf", 4) +
      "\x0a\x05\x0a\x01"
      "?\x18\x02"
      "\x12\x05\x18\x02\xc0\x02\x01"
      "\x2a\x01z";
  const auto model = text::parse_sentence_piece(bytes, "test");
  ASSERT_EQ(model.pieces.size(), 2u);
  EXPECT_EQ(model.pieces[0].text, "abc");
  EXPECT_EQ(model.pieces[0].score, -1);
  EXPECT_EQ(model.pieces[1].type, text::SentencePieceModel::Type::unknown);
  EXPECT_FALSE(model.is_unigram);
  EXPECT_EQ(model.unknown, 1);
  EXPECT_EQ(model.character_map, "");
}

TEST(SentencePiece, FilesThatAreCutOrChangedAreRefusedOrRead) {
  const std::string whole = model_file();
  std::size_t refused = 0;
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    std::string changed = whole;
    const std::uint64_t bits = random_bits(3, size);
    changed[bits % whole.size()] = static_cast<char>(bits >> 40);
    for (const std::string& bytes : {whole.substr(0, size), changed}) {
      try {
        text::parse_sentence_piece(bytes, "spm.model");
      } catch (const Error& error) {
        expect_contains(error.what(), "spm.model: expected");
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, whole.size() / 14);
}

TEST(SentencePiece, OtherKindsOfModelsAreRefused) {
  const std::string pairs = "\x0a\x05\x0a\x01?\x18\x02\x12\x02\x18\x02";
  const std::string settings = R"({"tokenizer_class": "DebertaV2Tokenizer"})";
  expect_contains(load_error({{"spm.model", pairs}, {"tokenizer_config.json", settings}}),
                  "expected a unigram model");
  expect_contains(load_error({{"spm.model", "{}"}, {"tokenizer_config.json", settings}}),
                  "expected a SentencePiece model");
  EXPECT_THROW(text::parse_sentence_piece("", "spm.model"), Error);
}

}  // namespace
}  // namespace longformer::sentence_piece_test
