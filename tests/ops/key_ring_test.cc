// Keys and values that later tokens still see.
#include "ops/key_ring.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/memory.h"
#include "core/random.h"

namespace longformer::ops::key_ring_test {
namespace {

/// Two streams that are read at once, then token by token: a ring that kept their ends has the same
/// tokens as one that was given all of them.
TEST(KeyRing, AnEndStandsForAllThatWasRead) {
  constexpr Index kHeads = 2, kSize = 3;
  for (const Index past : {1, 4, 16}) {
    for (const auto& starts : std::vector<std::vector<Index>>{{0, 9, 11}, {0, 0, 7}, {0, 1, 40}}) {
      KeyRing whole({.heads = kHeads, .head_size = kSize, .past = past, .streams = 2}, DType::f32);
      KeyRing ends = whole.copied();
      const Index rows = starts.back();
      const Tensor key = random_normal_tensor({kHeads, rows, kSize}, 1.0f, 1),
                   value = random_normal_tensor({kHeads, rows, kSize}, 1.0f, 2);
      whole.append(key, value, starts);
      ends.begin_with(key, value, starts);
      EXPECT_EQ(
          ends.most_rows(),
          std::min(past, starts[2] - starts[1] > starts[1] ? starts[2] - starts[1] : starts[1]));
      for (std::uint64_t step = 0; step < 20; ++step) {
        const Tensor next = random_normal_tensor({kHeads, 2, kSize}, 1.0f, 3 + step);
        const std::vector<Index> each = {0, 1, 2};
        whole.append(next, next, each);
        ends.append(next, next, each);
        for (Index s = 0; s < 2; ++s) {
          ASSERT_EQ(ends.count(s), whole.count(s));
          EXPECT_EQ(ends.kept_keys(s).to_floats(), whole.kept_keys(s).to_floats());
          EXPECT_EQ(ends.kept_values(s).to_floats(), whole.kept_values(s).to_floats());
        }
      }
    }
  }
}

TEST(Zeros, AreZerosOfAllSizesAgainAndAgain) {
  for (int again = 0; again < 3; ++again) {
    for (const Index size : {1, 1000, 524287, 524288, 524289, 3000000}) {
      Tensor zeros = Tensor::zeros({size}, DType::f32);
      for (Index i = 0; i < size; ++i) {
        ASSERT_EQ(zeros.data<float>()[i], 0.0f);
        zeros.data<float>()[i] = 1;
      }
    }
  }
}

}  // namespace
}  // namespace longformer::ops::key_ring_test
