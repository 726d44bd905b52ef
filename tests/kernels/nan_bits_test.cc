// A NaN of any bits shows in every result: processors keep its low bits, and kernels that compute
// in the bits of numbers could make a number of some. Graphics cards write 0x7fffffff.
//
// Reruns: tsan isa
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "kernels/attention/merge.h"
#include "kernels/attention/row.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/normalization.h"
#include "kernels/row_copies.h"

namespace longformer::kernels::nan_bits_test {
namespace {

constexpr std::uint32_t kBits[] = {0x7fc00000, 0xffc00000, 0x7fffffff, 0xffffffff, 0x7fc00001,
                                   0x7fffc000, 0x7fffe000, 0x7f800001, 0xff800001, 0x7fbfffff};
/// More than the lanes of every vector, so that a NaN stands in a whole one and in the rest.
constexpr Index kCount = 43;

/// Calls use(numbers), one of which is a NaN: each NaN at the first, a middle and the last place.
template <typename Use>
void with_each_nan(const Use& use) {
  for (const std::uint32_t bits : kBits) {
    for (const Index place : {Index{0}, Index{20}, kCount - 1}) {
      SCOPED_TRACE(fmt::format("{:08x} at {}", bits, place));
      std::vector<float> numbers(at(kCount), 0.5f);
      numbers[at(place)] = std::bit_cast<float>(bits);
      use(numbers, place);
    }
  }
}

TEST(NanBits, OfALogitShow) {
  with_each_nan([](std::vector<float> logits, Index) {
    std::vector<float> gradient = logits;
    EXPECT_TRUE(std::isnan(softmax_cross_entropy(gradient.data(), kCount, {.label = 3}, 1)));
    for (const float one : gradient) ASSERT_TRUE(std::isnan(one));
    log_softmax(logits.data(), kCount);
    for (const float one : logits) ASSERT_TRUE(std::isnan(one));
  });
}

TEST(NanBits, OfARowShowInItsNorm) {
  const std::vector<float> gamma(at(kCount), 1.0f);
  for (const bool centres : {true, false}) {
    with_each_nan([&](std::vector<float> x, Index) {
      Tensor wide({kCount}, DType::f32), narrow({kCount}, DType::bf16);
      for (Tensor* out : {&wide, &narrow}) {
        add_layer_norm({.x = x.data(),
                        .gamma = gamma.data(),
                        .epsilon = 1e-5f,
                        .rows = 1,
                        .columns = kCount,
                        .centres = centres},
                       out->raw(), out->dtype());
        for (const float one : out->to_floats()) ASSERT_TRUE(std::isnan(one));
      }
    });
  }
}

TEST(NanBits, StayWhereNumbersAreRoundedToBf16) {
  with_each_nan([](const std::vector<float>& x, Index place) {
    Tensor copied({kCount}, DType::bf16), rounded({kCount}, DType::bf16);
    copy_rows({x.data(), 1, kCount, kCount}, {copied.data<BFloat16>(), 1, kCount, kCount});
    narrow_all(x.data(), rounded.data<BFloat16>(), kCount);
    for (const Tensor* one : {&copied, &rounded}) {
      const std::vector<float> found = one->to_floats();
      for (Index i = 0; i < kCount; ++i) ASSERT_EQ(std::isnan(found[at(i)]), i == place) << i;
    }
  });
}

TEST(NanBits, OfAQueryAKeyAndAValueShow) {
  for (const int which : {0, 1, 2}) {
    with_each_nan([&](const std::vector<float>& spoiled, Index place) {
      const Index keys = 200;
      std::vector<float> query(at(kCount), 0.2f), key(at(kCount * keys), 0.1f), value = key;
      std::vector<float>& one = which == 0 ? query : which == 1 ? key : value;
      std::copy(spoiled.begin(), spoiled.end(), one.begin() + (which == 0 ? 0 : 150 * kCount));
      std::vector<float> out(at(kCount));
      const float sum = attend_row({.query = query.data(),
                                    .keys = key.data(),
                                    .values = value.data(),
                                    .head_size = kCount,
                                    .count = keys},
                                   out.data());
      EXPECT_EQ(std::isnan(sum), which < 2);
      for (Index c = 0; c < kCount; ++c) {
        ASSERT_EQ(std::isnan(out[at(c)]), which < 2 || c == place) << c;
      }
    });
  }
}

/// The scores NaN and −∞, in both orders: neither is above the other.
TEST(AttendRow, NaNShowsBesideScoresOfMinusInfinity) {
  const float query = 1e20f, bad = std::nanf(""), value = 1;
  for (const std::vector<float>& key : {std::vector<float>{bad, -1e20f}, {-1e20f, bad}}) {
    const std::vector<float> values(key.size(), value);
    float out = 0;
    const float sum = attend_row(
        {.query = &query, .keys = key.data(), .values = values.data(), .head_size = 1, .count = 2},
        &out);
    EXPECT_TRUE(std::isnan(sum) && std::isnan(out)) << sum << " " << out;
  }
}

TEST(MergedAttention, NaNShowsBesidePartsThatSawNothing) {
  for (const bool is_first : {true, false}) {
    const float nothing = -std::numeric_limits<float>::infinity(), bad = std::nanf("");
    const auto part_of = [](float out, float logsumexp) {
      return AttentionPart{Tensor::from(std::vector<float>{out}, {1, 1}),
                           Tensor::from(std::vector<float>{logsumexp}, {1, 1})};
    };
    std::vector<AttentionPart> parts = {part_of(bad, bad), part_of(0, nothing)};
    if (!is_first) std::swap(parts[0], parts[1]);
    Tensor out({1, 1}, DType::f32), logsumexp({1, 1}, DType::f32);
    merge_attention(parts, out, logsumexp, 1);
    EXPECT_TRUE(std::isnan(out.data<float>()[0]) && std::isnan(logsumexp.data<float>()[0]));
  }
}

/// Scores that are all −∞ in the first step weigh nothing beside later ones.
TEST(AttendRow, MayBeginWithScoresOfMinusInfinity) {
  const Index keys = 200, first = 128;
  const float query = 1e20f;
  std::vector<float> key(at(keys), -1e20f), value(at(keys));
  for (Index i = 0; i < keys; ++i) {
    value[at(i)] = static_cast<float>(i);
    if (i >= first) key[at(i)] = 1e-20f;
  }
  float out = 0;
  attend_row(
      {.query = &query, .keys = key.data(), .values = value.data(), .head_size = 1, .count = keys},
      &out);
  EXPECT_TRUE(std::abs(out - 163.5f) <= 1e-4f) << out;
}

}  // namespace
}  // namespace longformer::kernels::nan_bits_test
