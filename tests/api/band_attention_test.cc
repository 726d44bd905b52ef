// band_attention of the public interface: what its options mean, and what it refuses.
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "longformer/analysis.h"
#include "longformer/error.h"

namespace longformer::band_attention_test {
namespace {

constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kSize = 4;

std::vector<float> random_values(std::int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(kHeads * n * kSize));
  for (float& value : values) value = normal(generator);
  return values;
}

/// The rule in words of the header, key by key.
bool visible(const BandAttentionOptions& options, std::int64_t head, std::int64_t i,
             std::int64_t j) {
  const auto global = [&](std::int64_t row) {
    return std::count(options.global_positions.begin(), options.global_positions.end(), row) > 0;
  };
  if (options.causal && j > i) return false;
  if (global(i) || global(j)) return true;
  const std::int64_t dilation =
      options.dilation.size() == 1 ? options.dilation[0] : options.dilation[head];
  const std::int64_t side = options.causal ? options.window : options.window / 2;
  return (j - i) % dilation == 0 && std::abs(j - i) / dilation <= side;
}

std::vector<double> expected(const std::vector<float>& q, const std::vector<float>& k,
                             const std::vector<float>& v, const BandAttentionOptions& options) {
  const std::int64_t n = static_cast<std::int64_t>(q.size()) / kHeads / kSize;
  std::vector<double> out(q.size());
  for (std::int64_t row = 0; row < kHeads * n; ++row) {
    const std::int64_t head = row / n;
    double denominator = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      if (!visible(options, head, row % n, j)) continue;
      const std::int64_t key = head * n + j;
      double score = 0;
      for (std::int64_t c = 0; c < kSize; ++c) {
        score += double(q[row * kSize + c]) * double(k[key * kSize + c]) / std::sqrt(double(kSize));
      }
      denominator += std::exp(score);
      for (std::int64_t c = 0; c < kSize; ++c) {
        out[row * kSize + c] += std::exp(score) * double(v[key * kSize + c]);
      }
    }
    for (std::int64_t c = 0; c < kSize; ++c) out[row * kSize + c] /= denominator;
  }
  return out;
}

void expect_right(BandAttentionOptions options, const std::vector<std::string>& backends,
                  std::int64_t n = 61) {
  const auto q = random_values(n, 1);
  const auto k = random_values(n, 2);
  const auto v = random_values(n, 3);
  const auto truth = expected(q, k, v, options);
  for (const std::string& backend : backends) {
    options.backend = backend;
    const std::vector<float> out = band_attention(q, k, v, kHeads, kSize, options);
    ASSERT_EQ(out.size(), truth.size()) << backend;
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_TRUE(std::abs(out[i] - truth[i]) <= 3e-6) << backend << " value " << i;
    }
  }
}

const std::vector<std::string> kAll = {"fused", "loop", "chunks", "full"};
const std::vector<std::string> kAllButChunks = {"fused", "loop", "full"};

TEST(BandAttention, WindowIsTheTotalOfBothSides) {
  for (const std::int64_t n : {1, 2, 61}) {
    for (const std::int64_t window : {0, 2, 10, 1000}) expect_right({.window = window}, kAll, n);
  }
}

TEST(BandAttention, CausalWindowIsTheNumberOfPreviousKeys) {
  for (const std::int64_t window : {0, 1, 5, 1000}) {
    expect_right({.window = window, .causal = true}, kAllButChunks);
  }
}

TEST(BandAttention, DilationOfAllHeadsOrEach) {
  expect_right({.window = 6, .dilation = {3}}, kAllButChunks);
  expect_right({.window = 6, .dilation = {1, 4}}, kAllButChunks);
  expect_right({.window = 5, .dilation = {2, 1}, .causal = true}, kAllButChunks);
}

TEST(BandAttention, GlobalRowsSeeAndAreSeenOnce) {
  expect_right({.window = 4, .global_positions = {0, 30}}, kAll);
  expect_right({.window = 4, .global_positions = {60, 7, 7, 0, 8}}, kAll);
  expect_right({.window = 3, .causal = true, .global_positions = {0, 30}}, kAllButChunks);
}

std::string error_of(const BandAttentionOptions& options, std::size_t keys = 80,
                     std::int64_t head_size = kSize) {
  const std::vector<float> q(80, 0.5f);
  const std::vector<float> k(keys, 0.5f);
  try {
    band_attention(q, k, q, kHeads, head_size, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(BandAttention, SaysWhatIsWrong) {
  EXPECT_EQ(error_of({}), "no error");
  EXPECT_EQ(error_of({.window = 7}),
            "band attention: expected an even window, half on each side, found 7");
  EXPECT_EQ(error_of({.window = -2}), "band attention: expected a window of at least 0, found -2");
  EXPECT_EQ(error_of({.dilation = {1, 2, 3}}),
            "band attention: expected 1 dilation or one for each of 2 heads, found 3");
  EXPECT_EQ(error_of({.dilation = {0}}),
            "band attention: expected a dilation of at least 1, found 0");
  EXPECT_EQ(error_of({.global_positions = {10}}),
            "band attention: expected global positions in 0 … 9, found 10");
  EXPECT_EQ(error_of({.global_positions = {-1}}),
            "band attention: expected global positions in 0 … 9, found -1");
  EXPECT_EQ(error_of({.backend = "dense"}),
            "attention backend: expected loop, chunks, fused, full or opencl, found \"dense\"");
  EXPECT_EQ(error_of({.causal = true, .backend = "chunks"}),
            "attention backend chunks: overlapping blocks cannot be causal");
  EXPECT_EQ(error_of({.threads = -1}),
            "threads: expected 0 (as many as there are) to 1024, found -1");
  EXPECT_EQ(error_of({}, 72),
            "band attention: expected as many keys and values as queries, 80 numbers, found 72 and "
            "80");
  EXPECT_EQ(error_of({}, 80, 3), "band attention: expected queries [2, n, 3], found 80 values");
  EXPECT_EQ(
      error_of({}, 80, 0),
      "band attention: expected at least 1 head and a head size of at least 1, found 2 and 0");
}

}  // namespace
}  // namespace longformer::band_attention_test
