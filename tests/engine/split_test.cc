// Splits of data sets, and weights of classes.
#include "engine/frame/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "engine/frame/class_weights.h"
#include "error_testing.h"

namespace longformer::engine::split_test {
namespace {

/// So many examples of each class, in turns, each with a key of its own.
std::vector<SplitRecord> records_of(std::vector<Index> counts) {
  std::vector<SplitRecord> records;
  const auto left = [&] { return std::accumulate(counts.begin(), counts.end(), Index{0}); };
  for (std::size_t next = 0; left() > 0; ++next) {
    Index& count = counts[next % counts.size()];
    if (count == 0) continue;
    --count;
    records.push_back({.keys = {split_key("text", std::to_string(records.size()))},
                       .stratum = static_cast<std::int32_t>(next % counts.size())});
  }
  return records;
}

SplitPlan share(double value, std::vector<std::string> classes = {}, std::uint64_t seed = 42) {
  return {.path = "data.csv", .seed = seed, .share = value, .classes = std::move(classes)};
}

std::vector<Index> counts_of(const std::vector<SplitRecord>& records,
                             const std::vector<Index>& chosen) {
  return stratum_counts(records, chosen, 3);
}

TEST(SplitTest, SharesAreThoseOfScikitLearn) {
  // train_test_split(stratify=y, test_size=0.1): ceil(n·share) examples, classes by their
  // remainders.
  const auto records = records_of({60, 30, 11});
  const auto chosen = validation_part(records, share(0.1, {"a", "b", "c"}));
  EXPECT_EQ(chosen.size(), 11u);
  EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
  EXPECT_EQ(counts_of(records, chosen), (std::vector<Index>{7, 3, 1}));
  EXPECT_EQ(validation_part(records_of({30}), share(0.1)).size(), 3u) << "0.1·30 is 3, not 4";
}

TEST(SplitTest, FollowsTheSeedAlone) {
  const auto records = records_of({50, 50});
  const auto first = validation_part(records, share(0.2, {"a", "b"}, 1));
  EXPECT_EQ(first, validation_part(records, share(0.2, {"a", "b"}, 1)));
  EXPECT_NE(first, validation_part(records, share(0.2, {"a", "b"}, 2)));
}

TEST(SplitTest, FoldsPartTheExamples) {
  const auto records = records_of({17, 9, 5});
  std::set<Index> seen;
  std::vector<std::vector<Index>> counts;
  for (Index fold = 1; fold <= 4; ++fold) {
    const auto chosen = validation_part(
        records, {.path = "data", .seed = 7, .folds = 4, .fold = fold, .classes = {"a", "b", "c"}});
    seen.insert(chosen.begin(), chosen.end());
    counts.push_back(counts_of(records, chosen));
    EXPECT_TRUE(chosen.size() == 7 || chosen.size() == 8) << chosen.size();
  }
  EXPECT_EQ(seen.size(), records.size());
  for (std::size_t c = 0; c < 3; ++c) {
    Index least = 100, most = 0, sum = 0;
    for (const auto& fold : counts) {
      least = std::min(least, fold[c]);
      most = std::max(most, fold[c]);
      sum += fold[c];
    }
    EXPECT_LE(most - least, 1) << c;
    EXPECT_EQ(sum, (std::vector<Index>{17, 9, 5})[c]);
  }
}

TEST(SplitTest, WhatSharesAKeyStaysTogether) {
  auto records = records_of({40, 40});
  // Chains: 0–1 by a text, 1–2 by an id, as documents in several parts have them.
  for (std::size_t i = 0; i + 2 < records.size(); i += 4) {
    records[i + 1].keys.push_back(records[i].keys.front());
    records[i + 1].keys.push_back(split_key("id", std::to_string(i)));
    records[i + 2].keys.push_back(split_key("id", std::to_string(i)));
  }
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const auto chosen = validation_part(records, share(0.25, {}, seed));
    const std::set<Index> set(chosen.begin(), chosen.end());
    for (Index i = 0; i + 2 < std::ssize(records); i += 4) {
      EXPECT_EQ(set.count(i), set.count(i + 1)) << i;
      EXPECT_EQ(set.count(i), set.count(i + 2)) << i;
    }
    EXPECT_NEAR(static_cast<double>(chosen.size()), 20, 3);
  }
}

TEST(SplitTest, ErrorsNameDataAndNumbers) {
  const auto error = [](const std::vector<SplitRecord>& records, const SplitPlan& plan) {
    return error_of([&] { validation_part(records, plan); });
  };
  expect_error(error(records_of({20, 1}), share(0.2, {"good", "bad"})),
               {"data.csv", "two examples or more of each class", "1 of \"bad\""});
  expect_error(error(records_of({1}), share(0.5)), {"validation_split", "2 examples", "found 1"});
  expect_error(error(records_of({10, 10, 10}), share(0.05, {"a", "b", "c"})),
               {"validation_split", "3 examples", "found 2"});
  expect_error(error(records_of({10}), share(0.99)), {"validation_split", "0.99"});
  expect_error(error(records_of({3}), {.path = "data.csv", .folds = 5, .fold = 1}),
               {"folds", "5 examples", "data.csv", "found 3"});
  auto copies = records_of({10});
  for (SplitRecord& one : copies) one.keys = copies.front().keys;
  expect_error(error(copies, share(0.5)), {"2 examples", "found 1", "equal ids or texts"});
}

ClassCounts counted(std::vector<Index> counts, Index total, bool is_multi_label = false) {
  return {.counts = std::move(counts), .total = total, .is_multi_label = is_multi_label};
}

TEST(ClassWeightsTest, BalancedIsThatOfScikitLearn) {
  // compute_class_weight("balanced"): n ÷ (k · count); classes without examples do not count.
  const ClassWeights found = class_weights("balanced", {"a", "b", "c"}, counted({6, 3, 0}, 9));
  EXPECT_EQ(found.right, (std::vector<double>{0.75, 1.5, 1}));
  EXPECT_TRUE(found.other.empty());
  const ClassWeights several = class_weights("balanced", {"a", "b"}, counted({2, 8}, 8, true));
  EXPECT_EQ(several.right, (std::vector<double>{2, 1}));
  EXPECT_TRUE(std::abs(several.other[0] - 8.0 / 12) <= 1e-15);
  EXPECT_EQ(several.other[1], 1) << "every example has it";
}

TEST(ClassWeightsTest, WeightsThatAreGiven) {
  const ClassCounts counts = counted({1, 1, 1}, 3);
  EXPECT_EQ(class_weights("b=2.5,x=y=3", {"a", "b", "x=y"}, counts).right,
            (std::vector<double>{1, 2.5, 3}));
  EXPECT_EQ(class_weights(R"({"b,c": 2})", {"a", "b,c", "d"}, counts).right,
            (std::vector<double>{1, 2, 1}));
  EXPECT_TRUE(class_weights("", {"a"}, {}).empty());
  const auto error = [&](const char* text) {
    return error_of([&] { class_weights(text, {"a", "b", "c"}, counts); });
  };
  expect_error(error("d=1"), {"class_weights", "a, b, c", "\"d\""});
  expect_error(error("a=1,a=2"), {"class_weights", "once", "\"a\""});
  expect_error(error("a=0"), {"class_weights", "1e-06 to 1e+06", "\"a\""});
  expect_error(error("a=-1"), {"class_weights", "1e-06"});
  expect_error(error("a=1e300"), {"class_weights", "1e+06"});
  expect_error(error("so, b=1"), {"class_weights", "JSON object"});
  expect_error(error("a=nan"), {"class_weights"});
  expect_error(error("a"), {"class_weights", "label=weight", "'a'"});
  expect_error(error("a=1,"), {"class_weights", "label=weight"});
  expect_error(error("{\"a\": \"2\"}"), {"class_weights", "number"});
  expect_error(error("{\"a\": "), {"class_weights", "JSON object"});
  expect_error(error_of([&] { class_weights("balanced", {}, {}); }), {"class_weights", "classes"});
}

}  // namespace
}  // namespace longformer::engine::split_test
