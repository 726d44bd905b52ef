// Symbols of language models: bytes, chosen bytes, tokens.
#include "tasks/language_model/symbols.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "error_testing.h"
#include "fixtures.h"
#include "tasks/language_model/symbol_text.h"
#include "temporary_folder.h"

namespace longformer::tasks::symbols_test {
namespace {

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

models::LanguageModelConfig of_tokens(Index size) {
  models::LanguageModelConfig config;
  config.reads_tokens = true;
  config.vocab_size = size;
  return config;
}

const std::string kText =
    "“I can’t go back to yesterday,” she said,\n\nbecause I was  someone else – naïve, 日本語 😀.\n";

TEST(Symbols, PiecesOfTokensAreTheTextWithWholeCharacters) {
  for (const char* folder : {"tiny_roberta", "tiny_bert", "tokenizers/xlm_roberta"}) {
    const Symbols symbols(of_tokens(1 << 20), fixture(folder));
    const std::vector<std::int32_t> ids = symbols.encode(kText, "text");
    SymbolDecoder decoder(symbols);
    std::string text;
    std::size_t pieces = 0;
    for (const std::int32_t id : ids) {
      const std::string piece = decoder.next(id);
      EXPECT_FALSE(piece.ends_with("\xEF\xBF\xBD") && std::string(folder) == "tiny_roberta");
      pieces += !piece.empty();
      text += piece;
    }
    text += decoder.rest();
    EXPECT_EQ(text, symbols.decode(ids)) << folder;
    EXPECT_GT(pieces, 10u) << folder;
    if (std::string(folder) != "tiny_roberta") continue;
    EXPECT_EQ(text, kText);
  }
}

TEST(Symbols, ABeginningOfACharacterComesAtTheEnd) {
  const Symbols symbols(of_tokens(1 << 20), fixture("tiny_roberta"));
  const std::vector<std::int32_t> ids = symbols.encode("😀", "text");
  ASSERT_GT(ids.size(), 1u);
  SymbolDecoder decoder(symbols);
  EXPECT_EQ(decoder.next(ids[0]), "");
  EXPECT_EQ(decoder.rest(), symbols.decode(std::vector<std::int32_t>{ids[0]}));
}

TEST(Symbols, ChosenBytes) {
  models::LanguageModelConfig config;
  config.symbols = {'b', 'a', '\n'};
  const Symbols symbols(config, "");
  EXPECT_EQ(symbols.encode("ab\na", "text"), (std::vector<std::int32_t>{1, 0, 2, 1}));
  EXPECT_EQ(symbols.decode(std::vector<std::int32_t>{1, 0, 2}), "ab\n");
  EXPECT_EQ(symbols.usual_prompt(), std::vector<std::int32_t>{2});
  expect_error(error_of([&] { symbols.check("abc", "file.txt"); }),
               {"file.txt", "3 symbols", "99 at byte 2"});
}

TEST(Symbols, ATokenizerOfAnotherVocabulary) {
  // A text may need none of the tokens that have no row.
  const Symbols symbols(of_tokens(5), fixture("tiny_roberta"));
  expect_error(error_of([&] { symbols.encode_tokens("a word"); }), {"5 rows"});
  expect_error(error_of([] { Symbols(of_tokens(5), fixture("rouge")); }), {"tokenizer.json"});
}

/// Models of bytes and of tokens have the same text to train on, and their bits count the same
/// bytes.
TEST(Symbols, PartsAreCutAlike) {
  const TemporaryFolder folder;
  const std::string file = (std::filesystem::path(folder.path()) / "text.txt").string();
  std::string text;
  for (int i = 0; i < 40; ++i) text += kText;
  std::ofstream(file) << text;
  const Symbols bytes({}, ""), tokens(of_tokens(1 << 20), fixture("tiny_roberta"));
  const SymbolText of_bytes({.files = {file}}, bytes), read({.files = {file}}, tokens);
  std::string joined;
  for (const TextPart part : {TextPart::train, TextPart::validation, TextPart::test}) {
    const SymbolText::Range range = read.part(part), other = of_bytes.part(part);
    joined += read.bytes(range);
    EXPECT_NEAR(static_cast<double>(read.bytes(range).size()),
                static_cast<double>(of_bytes.bytes(other).size()), 4);
    const std::vector<std::int32_t> ids = read.ids(range.begin, range.size());
    EXPECT_EQ(ids, tokens.encode(read.bytes(range), "part"));
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(count_words(" two  words\n"), 2);
  EXPECT_EQ(count_words(""), 0);
}

}  // namespace
}  // namespace longformer::tasks::symbols_test
