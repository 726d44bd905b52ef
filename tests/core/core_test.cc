// Reruns: tsan
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "core/cpu.h"
#include "core/error.h"
#include "core/finite.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/tensor.h"
#include "core/threads.h"
#include "core/words.h"
#include "error_testing.h"
#include "longformer/report.h"

namespace longformer::core_test {
namespace {

TEST(Half, RoundsToTheNearestAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value)))) << bits;
      continue;
    }
    ASSERT_EQ(float_to_half(value), half) << bits;
    if ((half & 0x7fffu) >= 0x7bffu) continue;
    // Half way to the next number it goes to the even one, beside that to the nearer one.
    const float next = half_to_float(static_cast<std::uint16_t>(half + 1));
    const float middle = 0.5f * (value + next);
    ASSERT_EQ(float_to_half(middle), (half & 1u) == 0 ? half : half + 1) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, value)), half) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, next)), half + 1) << bits;
  }
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(-1e30f), 0xfc00);
  EXPECT_EQ(float_to_half(1e-30f), 0);
}

TEST(Half, TensorsThatDoNotFitAreAnError) {
  const Tensor good = Tensor::from(std::vector<float>{1, -2, INFINITY}, {3}).to(DType::f16);
  EXPECT_EQ(good.to_floats(), (std::vector<float>{1, -2, INFINITY}));
  EXPECT_THROW(Tensor::from(std::vector<float>{70000}, {1}).to(DType::f16), Error);
}

TEST(BFloat16, RoundsToNearestEven) {
  const auto rounded = [](float x) { return static_cast<float>(BFloat16(x)); };
  EXPECT_EQ(rounded(1.0f), 1.0f);
  EXPECT_EQ(rounded(1.0f + 0x1p-8f), 1.0f);                // a tie goes to the even neighbour
  EXPECT_EQ(rounded(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);  // and here too
  EXPECT_EQ(rounded(1.0f + 0x1.8p-8f), 1.0f + 0x1p-7f);
  EXPECT_EQ(rounded(-INFINITY), -INFINITY);
  EXPECT_TRUE(std::isnan(rounded(NAN)));
}

TEST(Half, ConvertsEveryKindOfNumber) {
  EXPECT_EQ(half_to_float(0x3c00), 1.0f);
  EXPECT_EQ(half_to_float(0xc000), -2.0f);
  EXPECT_EQ(half_to_float(0x7bff), 65504.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24f);  // the smallest denormal
  EXPECT_EQ(half_to_float(0x83ff), -1023 * 0x1p-24f);
  EXPECT_EQ(half_to_float(0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(half_to_float(0x7e00)));
}

TEST(Tensor, LargeOnesAreConvertedWhole) {
  const Index count = 3 * (Index{1} << 16) + 5;
  std::vector<float> values(at(count));
  for (Index i = 0; i < count; ++i) values[at(i)] = static_cast<float>(i % 251) - 100;
  const Tensor wide = Tensor::from(values, {count});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const int threads : {1, 3}) {
      const ThreadLimit limit(threads);
      EXPECT_EQ(wide.to(dtype).to(DType::f32).to_floats(), values) << name_of(dtype);
    }
  }
}

TEST(Tensor, SlicesShareAndConvertCopies) {
  Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  Tensor rows = x.slice_rows(1, 2);
  rows.data<float>()[0] = 30;
  EXPECT_EQ(x.to_floats(), (std::vector<float>{1, 2, 30, 4, 5, 6}));
  const Tensor narrow = x.to(DType::bf16);
  EXPECT_EQ(narrow.bytes(), 12u);
  EXPECT_EQ(narrow.to_floats(), x.to_floats());
  EXPECT_EQ(to_string(x.shape()), "[3, 2]");
  EXPECT_THROW(Tensor::from(std::vector<float>{1}, {2}), Error);
  EXPECT_THROW(Tensor({1}, DType::i64).to_floats(), Error);
}

TEST(MemoryPool, HandsFreedBuffersOutAgain) {
  MemoryPool pool;
  const void* first = nullptr;
  {
    const Tensor a = pool.tensor({1000}, DType::f32);
    first = a.raw();
  }
  const Tensor b = pool.tensor({990}, DType::f32);
  EXPECT_EQ(b.raw(), first);
  const Tensor c = pool.tensor({990}, DType::f32);
  EXPECT_NE(c.raw(), first);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.raw()) % 64, 0u);
}

TEST(MemoryPool, HoldsLittleMoreThanWasInUseAtOnce) {
  MemoryPool pool;
  std::size_t most = 0;
  for (std::uint64_t round = 0; round < 200; ++round) {
    // Documents of any length, whose tensors live side by side.
    std::vector<Tensor> tensors;
    std::size_t used = 0;
    for (std::uint64_t i = 0; i < 5; ++i) {
      const auto length = static_cast<Index>(1000 + random_bits(round, i) % 100000);
      tensors.push_back(pool.tensor({length}, DType::f32));
      used += tensors.back().bytes();
    }
    most = std::max(most, used);
    // A buffer may be an eighth larger than what is asked for, and a quarter is slack.
    EXPECT_LE(pool.bytes(), most + most / 4 + most / 8 + 5 * 4096);
  }
  pool.clear();
  EXPECT_EQ(pool.bytes(), 0u);
}

TEST(MemoryPool, LeavesAMuchLargerBufferToOthers) {
  MemoryPool pool;
  const Tensor kept = pool.tensor({1 << 20}, DType::f32);
  const std::size_t wide = pool.tensor({1 << 20}, DType::f32).bytes();
  EXPECT_EQ(pool.bytes(), kept.bytes() + wide);
  const Tensor narrow = pool.tensor({3 << 18}, DType::f32);
  EXPECT_EQ(pool.bytes(), kept.bytes() + narrow.bytes());
}

TEST(MemoryPool, ShrinksByWhatIsAskedFor) {
  MemoryPool pool;
  const Tensor kept = pool.tensor({1000}, DType::f32);
  {
    const Tensor small = pool.tensor({2000}, DType::f32), large = pool.tensor({9000}, DType::f32);
    pool.shrink(1);
    EXPECT_EQ(pool.bytes(), 48000u) << "nothing of it is unused";
  }
  pool.shrink(0);
  EXPECT_EQ(pool.bytes(), 48000u);
  pool.shrink(5000);
  EXPECT_EQ(pool.bytes(), 40000u) << "the smallest one that is enough";
  pool.shrink(1 << 20);
  EXPECT_EQ(pool.bytes(), 4000u);
}

TEST(MemoryPool, TensorsEndOnAnyThread) {
  MemoryPool pool;
  constexpr int kTensors = 2000;
  std::vector<Tensor> left;
  for (int i = 0; i < kTensors; ++i) left.push_back(pool.tensor({1 + i % 7}, DType::f32));
  std::thread other([&] { left.clear(); });
  for (int i = 0; i < kTensors; ++i) pool.tensor({1 + i % 5}, DType::f32).data<float>()[0] = 1;
  other.join();
  EXPECT_LE(pool.bytes(), std::size_t{kTensors} * 8 * sizeof(float));
}

TEST(MemoryPool, TensorsOutliveThePool) {
  Tensor survivor;
  {
    MemoryPool pool;
    survivor = pool.tensor({4}, DType::f32);
  }
  survivor.data<float>()[3] = 7;
  EXPECT_EQ(survivor.data<float>()[3], 7);
}

TEST(ParallelFor, VisitsEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> visits(137);
    parallel_for(threads, 137, [&](Index i) { ++visits[static_cast<std::size_t>(i)]; });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
  }
  EXPECT_GE(available_threads(), 1);
}

TEST(Finite, CountsNanAndBothInfinitiesOfEveryType) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  // Longer than a piece that is looked at as a whole, with an odd rest.
  std::vector<float> values(200003, 1.5f);
  values[1] = std::numeric_limits<float>::denorm_min();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    values[0] = dtype == DType::f16 ? 65504.0f : 3e38f;
    values[7] = values[70000] = values.back() = 2;
    EXPECT_EQ(count_nonfinite(Tensor::from(values, {200003}).to(dtype)), 0) << name_of(dtype);
    EXPECT_TRUE(all_finite(values));
    values[7] = nan;
    EXPECT_FALSE(all_finite(values));
    values[70000] = kInfinite;
    values.back() = -kInfinite;
    EXPECT_EQ(count_nonfinite(Tensor::from(values, {200003}).to(dtype)), 3) << name_of(dtype);
  }
  EXPECT_TRUE(all_finite({}));
  Tensor doubles({3}, DType::f64);
  const std::array<double, 3> wide = {1e300, -kInfinite, std::nan("")};
  std::copy(wide.begin(), wide.end(), doubles.data<double>());
  EXPECT_EQ(count_nonfinite(doubles), 2);
}

TEST(CheckedThreads, AreThoseOfAMachine) {
  EXPECT_EQ(checked_threads(0), available_threads());
  EXPECT_EQ(checked_threads(3), 3);
  EXPECT_EQ(checked_threads(kMostThreads), kMostThreads);
  for (const std::int64_t wrong :
       {std::int64_t{-1}, std::int64_t{kMostThreads} + 1, std::int64_t{1} << 40}) {
    expect_error(error_of([wrong] { checked_threads(wrong); }),
                 {"threads", "to 1024", fmt::format("found {}", wrong)});
  }
}

/// Rates of single elements, of neighbours in a row and in a column, and of elements whose rows and
/// columns are both shifted: what a weak mix of row and column would show.
TEST(Dropout, MaskOfARowHasItsRateAndIndependentNeighbours) {
  constexpr Index kRows = 1000, kColumns = 1000;
  for (const float rate : {0.1f, 0.2f, 0.5f}) {
    const Dropout dropout = {.rate = rate, .seed = 77};
    std::vector<std::uint8_t> dropped(kRows * kColumns);
    for (Index row = 0; row < kRows; ++row) {
      const DropoutRow bits = dropout.row(static_cast<std::uint64_t>(row));
      for (Index column = 0; column < kColumns; ++column) {
        dropped[static_cast<std::size_t>(row * kColumns + column)] =
            bits.bits(static_cast<std::uint32_t>(column)) < dropout.threshold();
      }
    }
    const auto share_of_pairs = [&](Index down, Index right) {
      double both = 0;
      for (Index row = 0; row + down < kRows; ++row) {
        for (Index column = 0; column + right < kColumns; ++column) {
          const Index at = row * kColumns + column;
          both += dropped[static_cast<std::size_t>(at)] &
                  dropped[static_cast<std::size_t>(at + down * kColumns + right)];
        }
      }
      return both / static_cast<double>((kRows - down) * (kColumns - right));
    };
    // Four standard deviations of 10⁶ independent draws.
    const double p = rate;
    EXPECT_NEAR(share_of_pairs(0, 0), p, 4e-3 * std::sqrt(p * (1 - p)));
    for (const auto& [down, right] : {std::pair<Index, Index>{0, 1},
                                      {0, 2},
                                      {0, 16},
                                      {1, 0},
                                      {1, 1},
                                      {2, 0},
                                      {16, 0},
                                      {3, 5}}) {
      EXPECT_NEAR(share_of_pairs(down, right), p * p, 4.2e-3 * std::sqrt(p * p * (1 - p * p)))
          << "rate " << rate << ", " << down << " down, " << right << " right";
    }
  }
}

TEST(Dropout, MasksOfOtherSeedsAndRowsDiffer) {
  const auto equal_bits = [](DropoutRow a, DropoutRow b) {
    int equal = 0;
    for (std::uint32_t column = 0; column < 4096; ++column) {
      equal += a.bits(column) == b.bits(column) ? 1 : 0;
    }
    return equal;
  };
  const Dropout first = {.rate = 0.1f, .seed = 1};
  const Dropout second = {.rate = 0.1f, .seed = 2};
  EXPECT_EQ(equal_bits(first.row(5), first.row(5)), 4096);
  EXPECT_LE(equal_bits(first.row(5), first.row(6)), 1);
  EXPECT_LE(equal_bits(first.row(5), second.row(5)), 1);
  // Starts one step apart: without the twist the second row would be the first one shifted.
  const DropoutRow row = first.row(9);
  const DropoutRow shifted = {row.start + DropoutRow::kColumnStep, row.twist + 1};
  int equal = 0;
  for (std::uint32_t column = 0; column < 4096; ++column) {
    equal += row.bits(column + 1) == shifted.bits(column) ? 1 : 0;
  }
  EXPECT_LE(equal, 1);
}

TEST(Random, IsOfStandardNormalShapeAndRepeats) {
  const Tensor a = random_normal_tensor({100000}, 2.0f, 5);
  double sum = 0, square = 0;
  for (const float x : a.to_floats()) {
    sum += x;
    square += static_cast<double>(x) * x;
  }
  EXPECT_TRUE(std::abs(sum / 1e5) < 0.03);
  EXPECT_TRUE(std::abs(std::sqrt(square / 1e5) - 2.0) < 0.03);
  EXPECT_EQ(a.to_floats(), random_normal_tensor({100000}, 2.0f, 5).to_floats());
  EXPECT_NE(a.to_floats(), random_normal_tensor({100000}, 2.0f, 6).to_floats());
}

class Stop {};

/// Loops of `threads` threads until the interruption that throws from its second question on.
int loops_until_interrupted(int threads) {
  std::atomic<int> questions = 0;
  const Interruption interruption([&] {
    if (++questions == 2) throw Stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  int whole = 0;
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
    parallel_for(threads, 500, [](Index) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      // A loop within a loop leaves the question to the outer one.
      parallel_for(2, 2, [](Index) {});
    });
    ++whole;
  }
  return whole;
}

TEST(Interruption, EndsParallelLoopsOfAnyNumberOfThreads) {
  for (const int threads : {1, 3}) {
    EXPECT_THROW(loops_until_interrupted(threads), Stop) << threads;
    std::atomic<int> done = 0;
    parallel_for(threads, 10, [&](Index) { ++done; });
    EXPECT_EQ(done, 10) << "nobody interrupts any more";
  }
}

TEST(Interruption, IsOfItsThreadAloneAndOfTheInnermost) {
  const auto wait = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    Interruption::poll();
  };
  int outer_questions = 0, inner_questions = 0;
  const Interruption outer([&] { ++outer_questions; });
  std::thread(wait).join();
  EXPECT_EQ(outer_questions, 0);
  {
    const Interruption inner([&] { ++inner_questions; });
    wait();
    Interruption::poll();
    EXPECT_EQ(inner_questions, 1) << "not more often than ten times a second";
  }
  EXPECT_EQ(outer_questions, 0);
  Interruption::poll();
  EXPECT_EQ(outer_questions, 1);
}

TEST(Words, NumbersAreWholeTexts) {
  EXPECT_EQ(parsed_number<std::int64_t>("-12"), -12);
  EXPECT_EQ(finite_number<double>("2.5e3"), 2500.0);
  for (const char* text : {"", " 1", "1 ", "1x", "+1", "0x10", "9223372036854775808"}) {
    EXPECT_FALSE(parsed_number<std::int64_t>(text).has_value()) << text;
  }
  for (const char* text : {"nan", "inf", "-inf", "1e999", "one"}) {
    EXPECT_FALSE(finite_number<double>(text).has_value()) << text;
  }
}

TEST(Words, ListsHaveWhatStandsBetweenCommas) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(parts_of_list("a, b c ,d"), (Parts{"a", "b c", "d"}));
  EXPECT_EQ(parts_of_list(""), Parts{""});
  EXPECT_EQ(parts_of_list(" ,a,"), (Parts{"", "a", ""}));
}

TEST(Words, AlternativesEndWithOr) {
  const std::vector<std::string_view> names = {"a", "b", "c"};
  EXPECT_EQ(alternatives(names), "a, b or c");
  EXPECT_EQ(alternatives(std::span(names).first(2)), "a or b");
  EXPECT_EQ(alternatives(std::span(names).first(1)), "a");
}

TEST(DType, NamesOfOptions) {
  EXPECT_EQ(compute_dtype("bf16"), DType::bf16);
  EXPECT_THROW(compute_dtype("fp16"), Error);
  EXPECT_EQ(name_of(CpuIsa::avx2), "avx2");
}

}  // namespace
}  // namespace longformer::core_test
