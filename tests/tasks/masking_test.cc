// Packing of documents and RoBERTa's masking: what must hold exactly, and shares within four
// standard deviations.
#include "tasks/masked_lm/masking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "error_testing.h"
#include "fixtures.h"

namespace longformer::tasks::masking_test {
namespace {

using Ids = std::vector<std::int32_t>;
using Rows = std::vector<Ids>;

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = Tokenizer::load((fixtures_folder() / "tiny_bert").string());
  return loaded;
}

Rows packed(const Rows& documents, PackingRules rules) {
  DocumentPacker packer(tokenizer(), rules);
  Rows rows;
  for (const Ids& document : documents) packer.add(document, rows);
  packer.finish(rows);
  return rows;
}

TEST(Packing, AcrossDocumentsWithASeparatorBetween) {
  const std::int32_t cls = *tokenizer().special_tokens().cls;
  const std::int32_t sep = *tokenizer().special_tokens().sep;
  const Rows documents = {{11, 12, 13}, {}, {14}, {15, 16, 17, 18}};
  const PackingRules rules = {.tokens = 6, .across_documents = true};
  const Rows expected = {
      {cls, 11, 12, 13, sep, sep}, {cls, 14, sep, 15, 16, sep}, {cls, 17, 18, sep}};
  EXPECT_EQ(packed(documents, rules), expected);
}

TEST(Packing, WithinDocuments) {
  const std::int32_t cls = *tokenizer().special_tokens().cls;
  const std::int32_t sep = *tokenizer().special_tokens().sep;
  const Rows documents = {{11, 12, 13}, {}, {14}, {15, 16, 17, 18, 19}};
  const PackingRules rules = {.tokens = 6, .across_documents = false};
  const Rows expected = {
      {cls, 11, 12, 13, sep}, {cls, 14, sep}, {cls, 15, 16, 17, 18, sep}, {cls, 19, sep}};
  EXPECT_EQ(packed(documents, rules), expected);
  EXPECT_TRUE(packed({}, rules).empty());
}

TEST(Packing, LosesNothing) {
  for (const Index tokens : {3, 7, 64}) {
    Rows documents(20);
    std::size_t count = 0;
    for (std::size_t d = 0; d < documents.size(); ++d) {
      documents[d].resize(d * d % 50, static_cast<std::int32_t>(10 + d));
      count += documents[d].size();
    }
    for (const bool across : {true, false}) {
      std::size_t found = 0;
      for (const Ids& row : packed(documents, {.tokens = tokens, .across_documents = across})) {
        EXPECT_LE(static_cast<Index>(row.size()), tokens);
        for (const std::int32_t id : row) found += id >= 10 ? 1 : 0;
      }
      EXPECT_EQ(found, count);
    }
  }
  expect_error(error_of([] { DocumentPacker(tokenizer(), {.tokens = 2}); }),
               {"at least 3 tokens", "found 2"});
}

class Masking : public testing::Test {
 protected:
  static constexpr std::size_t kTokens = 200000;
  MaskingRules rules_ = {.mask_id = 4, .vocabulary_size = 1000, .special_ids = {0, 2, 3, 4}};
  Ids ids_ = Ids(kTokens, 77);

  /// Whether a count is within four standard deviations of a binomial's mean.
  static void expect_share(std::size_t count, std::size_t of, double share) {
    const auto n = static_cast<double>(of);
    const double deviation = std::sqrt(n * share * (1 - share));
    EXPECT_TRUE(std::abs(static_cast<double>(count) - n * share) <= 4 * deviation)
        << count << " of " << of;
  }
};

TEST_F(Masking, SharesAreThoseOfRoberta) {
  const MaskedRow row = mask_row(ids_, rules_, 5, 0);
  expect_share(row.positions.size(), kTokens, 0.15);
  std::size_t masked = 0, kept = 0;
  std::map<std::int32_t, int> random;
  for (const Index position : row.positions) {
    const std::int32_t id = row.ids[static_cast<std::size_t>(position)];
    masked += id == 4 ? 1 : 0;
    kept += id == 77 ? 1 : 0;
    if (id != 4 && id != 77) ++random[id];
  }
  // A random token is the mask or the token itself once in a thousand.
  expect_share(masked, row.positions.size(), 0.8 + 0.1 / 1000);
  expect_share(kept, row.positions.size(), 0.1 + 0.1 / 1000);
  EXPECT_GT(random.size(), 900u);
  EXPECT_GE(random.begin()->first, 0);
  EXPECT_LT(random.rbegin()->first, 1000);
  EXPECT_EQ(row.labels, Ids(row.positions.size(), 77));
}

TEST_F(Masking, OnlyChosenTokensChange) {
  for (std::size_t i = 0; i < kTokens; i += 3) ids_[i] = rules_.special_ids[i / 3 % 4];
  const MaskedRow row = mask_row(ids_, rules_, 5, 0);
  Ids restored = row.ids;
  for (std::size_t i = 0; i < row.positions.size(); ++i) {
    const auto position = static_cast<std::size_t>(row.positions[i]);
    EXPECT_NE(position % 3, 0u) << "special tokens are never chosen";
    restored[position] = row.labels[i];
  }
  EXPECT_EQ(restored, ids_);
}

TEST_F(Masking, DependsOnSeedAndRowAlone) {
  const auto positions = [this](std::uint64_t seed, std::uint64_t row) {
    return mask_row(ids_, rules_, seed, row).positions;
  };
  const auto base = positions(5, 0);
  EXPECT_EQ(base, positions(5, 0));
  for (const auto& other : {positions(6, 0), positions(5, 1)}) {
    std::vector<Index> both;
    std::set_intersection(base.begin(), base.end(), other.begin(), other.end(),
                          std::back_inserter(both));
    expect_share(both.size(), kTokens, 0.15 * 0.15);
  }
}

TEST_F(Masking, NeighboursAreIndependent) {
  const MaskedRow row = mask_row(ids_, rules_, 8, 3);
  std::size_t pairs = 0;
  for (std::size_t i = 1; i < row.positions.size(); ++i) {
    pairs += row.positions[i] == row.positions[i - 1] + 1 ? 1 : 0;
  }
  expect_share(pairs, kTokens - 1, 0.15 * 0.15);
}

TEST_F(Masking, EveryKth) {
  const Ids ids = {2, 10, 11, 3, 12, 13, 14, 3};
  const MaskedRow row = mask_every(ids, rules_, 2, 1);
  EXPECT_EQ(row.positions, (std::vector<Index>{2, 5}));
  EXPECT_EQ(row.labels, (Ids{11, 13}));
  EXPECT_EQ(row.ids, (Ids{2, 10, 4, 3, 12, 4, 14, 3}));
  // All starts together choose every ordinary token once.
  std::size_t all = 0;
  for (Index first = 0; first < 3; ++first) {
    all += mask_every(ids, rules_, 3, first).positions.size();
  }
  EXPECT_EQ(all, 5u);
  expect_error(error_of([&] { mask_every(ids, rules_, 0, 0); }), {"at least 1", "found 0"});
}

TEST(MaskingRulesOf, ATokenizer) {
  const MaskingRules rules = masking_rules(tokenizer());
  EXPECT_EQ(rules.mask_id, *tokenizer().special_tokens().mask);
  EXPECT_EQ(rules.vocabulary_size, tokenizer().vocabulary_size());
  EXPECT_GE(rules.special_ids.size(), 5u);
}

}  // namespace
}  // namespace longformer::tasks::masking_test
