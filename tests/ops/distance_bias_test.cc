// Buckets and slopes of biases by distance, and rows of keys of distances, against numbers of the
// published code.
#include "ops/distance_bias.h"

#include <gtest/gtest.h>

#include <utility>

#include "ops/distance_keys.h"

namespace longformer::ops::distance_bias_test {
namespace {

struct Runs {
  DistanceBuckets buckets;
  /// Each first distance of a bucket, and the bucket, in the order of distances.
  std::vector<std::pair<Index, Index>> first;
};

/// From MPNetEncoder.relative_position_bucket of transformers 5.23.
TEST(DistanceBias, BucketsAreThoseOfTransformers) {
  const std::vector<Runs> cases = {
      {{32, 128},
       {{-131, 15}, {-90, 14}, {-63, 13}, {-45, 12}, {-31, 11}, {-22, 10}, {-15, 9}, {-11, 8},
        {-7, 7},    {-6, 6},   {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},   {-1, 1},  {0, 0},
        {1, 17},    {2, 18},   {3, 19},   {4, 20},   {5, 21},   {6, 22},   {7, 23},  {8, 24},
        {12, 25},   {16, 26},  {23, 27},  {32, 28},  {46, 29},  {64, 30},  {91, 31}}},
      {{12, 10},
       {{-13, 5},
        {-6, 4},
        {-4, 3},
        {-2, 2},
        {-1, 1},
        {0, 0},
        {1, 7},
        {2, 8},
        {3, 9},
        {5, 10},
        {7, 11}}},
      {{64, 100},
       {{-103, 31}, {-89, 30}, {-79, 29}, {-70, 28}, {-63, 27}, {-56, 26}, {-50, 25}, {-44, 24},
        {-39, 23},  {-35, 22}, {-31, 21}, {-28, 20}, {-25, 19}, {-22, 18}, {-20, 17}, {-17, 16},
        {-15, 15},  {-14, 14}, {-13, 13}, {-12, 12}, {-11, 11}, {-10, 10}, {-9, 9},   {-8, 8},
        {-7, 7},    {-6, 6},   {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},   {-1, 1},   {0, 0},
        {1, 33},    {2, 34},   {3, 35},   {4, 36},   {5, 37},   {6, 38},   {7, 39},   {8, 40},
        {9, 41},    {10, 42},  {11, 43},  {12, 44},  {13, 45},  {14, 46},  {15, 47},  {16, 48},
        {18, 49},   {21, 50},  {23, 51},  {26, 52},  {29, 53},  {32, 54},  {36, 55},  {40, 56},
        {45, 57},   {51, 58},  {57, 59},  {64, 60},  {71, 61},  {80, 62},  {90, 63}}},
      {{32, 1000},
       {{-1003, 15}, {-546, 14}, {-299, 13}, {-163, 12}, {-89, 11}, {-48, 10}, {-26, 9}, {-14, 8},
        {-7, 7},     {-6, 6},    {-5, 5},    {-4, 4},    {-3, 3},   {-2, 2},   {-1, 1},  {0, 0},
        {1, 17},     {2, 18},    {3, 19},    {4, 20},    {5, 21},   {6, 22},   {7, 23},  {8, 24},
        {15, 25},    {27, 26},   {49, 27},   {90, 28},   {164, 29}, {300, 30}, {547, 31}}}};
  for (const auto& [buckets, first] : cases) {
    std::size_t run = 0;
    for (Index t = first[0].first; t <= -first[0].first; ++t) {
      if (run + 1 < first.size() && t == first[run + 1].first) ++run;
      ASSERT_EQ(distance_bucket(t, buckets), first[run].second) << buckets.count << ", " << t;
    }
  }
}

/// From make_log_bucket_position of DeBERTa-v2 in transformers 5.23, with the clamping behind it.
TEST(DistanceKeys, RowsAreThoseOfTransformers) {
  struct Rows {
    LogBuckets buckets;
    std::vector<std::pair<Index, Index>> first;
  };
  const std::vector<Rows> cases = {
      {{8, 32},
       {{-40, 0},
        {-31, 1},
        {-15, 2},
        {-7, 3},
        {-4, 4},
        {-3, 5},
        {-2, 6},
        {-1, 7},
        {0, 8},
        {1, 9},
        {2, 10},
        {3, 11},
        {4, 12},
        {5, 13},
        {8, 14},
        {16, 15}}},
      {{16, 512},
       {{-600, 0}, {-511, 1}, {-282, 2}, {-155, 3}, {-86, 4}, {-47, 5}, {-26, 6},  {-14, 7},
        {-8, 8},   {-7, 9},   {-6, 10},  {-5, 11},  {-4, 12}, {-3, 13}, {-2, 14},  {-1, 15},
        {0, 16},   {1, 17},   {2, 18},   {3, 19},   {4, 20},  {5, 21},  {6, 22},   {7, 23},
        {8, 24},   {9, 25},   {15, 26},  {27, 27},  {48, 28}, {87, 29}, {156, 30}, {283, 31}}},
      {{0, 7},
       {{-9, 0},
        {-6, 1},
        {-5, 2},
        {-4, 3},
        {-3, 4},
        {-2, 5},
        {-1, 6},
        {0, 7},
        {1, 8},
        {2, 9},
        {3, 10},
        {4, 11},
        {5, 12},
        {6, 13}}}};
  for (const auto& [buckets, first] : cases) {
    const Index farthest = -first[0].first;
    const std::vector<std::int32_t> rows = distance_rows(buckets, farthest);
    std::size_t run = 0;
    for (Index t = -farthest; t <= farthest; ++t) {
      if (run + 1 < first.size() && t == first[run + 1].first) ++run;
      ASSERT_EQ(rows[static_cast<std::size_t>(t + farthest)], first[run].second) << t;
    }
  }
  // The 512 rows of deberta-v3: the sum of distance · row over the first distance of each.
  const std::vector<std::int32_t> third = distance_rows({256, 512}, 700);
  Index sum = 0, runs = 0;
  for (std::size_t i = 0; i < third.size(); ++i) {
    if (i > 0 && third[i] == third[i - 1]) continue;
    sum += (static_cast<Index>(i) - 700) * third[i];
    ++runs;
  }
  EXPECT_EQ(runs, 512);
  EXPECT_EQ(sum, 15838789);
}

/// From the code of train-short-test-long (ALiBi).
TEST(DistanceBias, SlopesAreThoseOfThePublishedCode) {
  const std::vector<double> eight = {0.5,     0.25,     0.125,     0.0625,
                                     0.03125, 0.015625, 0.0078125, 0.00390625};
  EXPECT_EQ(distance_slopes(1), std::vector<double>{0.00390625});
  EXPECT_EQ(distance_slopes(3), (std::vector<double>{0.0625, 0.00390625, 0.25}));
  EXPECT_EQ(distance_slopes(8), eight);
  const std::vector<double> twelve = distance_slopes(12);
  EXPECT_EQ(std::vector<double>(twelve.begin(), twelve.begin() + 8), eight);
  const std::vector<double> further = {0.7071067811865476, 0.35355339059327384, 0.17677669529663692,
                                       0.08838834764831849};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(twelve[8 + i], further[i], 1e-15);

  MemoryPool memory;
  const Tensor biases = slope_biases({.memory = memory}, 3, 2);
  EXPECT_EQ(biases.shape(), (Shape{3, 5}));
  EXPECT_EQ(biases.to_floats()[0], -0.125f);
  EXPECT_EQ(biases.to_floats()[2], 0.0f);
  EXPECT_EQ(biases.to_floats()[13], -0.25f);
}

}  // namespace
}  // namespace longformer::ops::distance_bias_test
