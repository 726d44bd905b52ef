// Inputs of requests that want much: answers of a size, and ids that are searched for.
// Links: library
#include "inputs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "failure.h"
#include "fixtures.h"

namespace longformer::server::inputs_test {
namespace {

Tokenizer tokenizer_of(const char* name) {
  return Tokenizer::load((fixtures_folder() / name).string());
}

template <typename Call>
int status_of(const Call& call) {
  try {
    call();
    return 200;
  } catch (const Failure& failure) {
    return failure.status();
  }
}

TEST(Inputs, AnswersHaveASize) {
  EXPECT_EQ(status_of([] { check_answer_size(1e9, "inputs"); }), 200);
  EXPECT_EQ(status_of([] { check_answer_size(2e9, "inputs"); }), 422);
  const Tokenizer tokenizer = tokenizer_of("tiny_roberta");
  const std::vector<Input> inputs = {{.text = "the of and the"}, {.text = "", .ids = {5, 6, 7, 8}}};
  const auto numbers = [&](std::int64_t most_tokens, double of_token) {
    return status_of([&] { check_numbers(tokenizer, inputs, most_tokens, of_token); });
  };
  // Twelve bytes for each number.
  const auto tokens = 4 + std::ssize(encoded(tokenizer, inputs[0].text, false).ids);
  const double most = (1 << 30) / 12.0 / static_cast<double>(tokens);
  EXPECT_EQ(numbers(INT64_MAX, 0.99 * most), 200);
  EXPECT_EQ(numbers(INT64_MAX, 1.01 * most), 422);
  // Two tokens of each text.
  EXPECT_EQ(numbers(2, 1.01 * most), 200);
}

TEST(Inputs, IdsAreNotSearchedForEverywhere) {
  const Tokenizer tokenizer = tokenizer_of("tiny_roberta");
  // A byte that is no character becomes one of three bytes, in which the ids of the first half are
  // found again at each place.
  const std::vector<std::int32_t> pieces = encoded(tokenizer, "\uFFFD", false).ids;
  std::int32_t stray = 5;
  while (tokenizer.decode(std::vector{stray}) != "\uFFFD") ++stray;
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 300'000; ++i) ids.insert(ids.end(), pieces.begin(), pieces.end());
  ids.insert(ids.end(), 300'000, stray);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of([&] { input_of_ids(tokenizer, ids, "inputs"); }), 422);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace longformer::server::inputs_test
