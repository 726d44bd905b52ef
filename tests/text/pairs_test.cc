// Tokenizers as Gemma, Llama, Qwen and GPT-4 have them, against what the `tokenizers` package
// encodes (tests/fixtures/make_tokenizer_fixtures.py).
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tokenizer_cases.h"

namespace longformer::pairs_test {
namespace {

TEST(PairsJson, ExpressionOfLlama3) { expect_cases("llama3", "llama3"); }
TEST(PairsJson, ExpressionOfQwen2) { expect_cases("qwen2", "qwen2"); }
TEST(PairsJson, Gemma) { expect_cases("gemma", "gemma"); }
TEST(PairsJson, Llama2) { expect_cases("llama2", "llama2"); }
TEST(PairsJson, WordLevel) { expect_cases("word_level", "word_level"); }

TEST(Pairs, KindsHaveNames) {
  EXPECT_EQ(Tokenizer::load(fixture("llama3")).kind(), "byte-level BPE");
  EXPECT_EQ(Tokenizer::load(fixture("gemma")).kind(), "BPE");
  EXPECT_EQ(Tokenizer::load(fixture("word_level")).kind(), "WordLevel");
  const auto gemma = Tokenizer::load(fixture("gemma"));
  EXPECT_EQ(gemma.special_tokens().bos, gemma.id("<bos>"));
  EXPECT_EQ(gemma.special_tokens().eos, gemma.id("<eos>"));
}

TEST(Pairs, MegabytesTakeLinearTime) {
  for (const auto* name : {"llama3", "qwen2", "gemma", "llama2", "word_level"}) {
    const auto tokenizer = Tokenizer::load(fixture(name));
    for (const std::string unit : {"a", " ", "\n", "\u65e5", "\u0301", "1", "'", "zz "}) {
      std::string text;
      while (text.size() < (1u << 18)) text += unit;
      const auto start = std::chrono::steady_clock::now();
      EXPECT_GE(tokenizer.encode(text).ids.size(), 1u);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      EXPECT_LT(taken.count(), 20.0) << name << " " << unit;
    }
  }
}

}  // namespace
}  // namespace longformer::pairs_test
