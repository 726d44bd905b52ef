// BlockBERT: which tokens the heads of each shift see, and its keys of config.json
// (docs/spec/other-attentions.md#h5; tests/parity/blockwise_parity.py has the numbers).
#include "models/attention/blockwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "kernels/reference.h"
#include "models/config.h"

namespace longformer::models::blockwise_test {
namespace {

using Json = nlohmann::ordered_json;

TEST(ShiftedBlocks, AreSeenByTheTokensThatTheMaskOfThePaperHas) {
  // Blocks of several lengths, texts shorter than there are blocks, and one of nothing but them.
  const std::vector<Index> starts = {0, 7, 8, 10, 40, 43};
  kernels::AttentionRows all = kernels::self_attention_rows(starts);
  all.key_mask.assign(43, 1);
  all.key_mask[3] = all.key_mask[20] = 0;
  for (const Index blocks : {1, 2, 3, 5}) {
    const ShiftedBlockRecipe recipe = {.blocks = blocks, .heads_of_shift = {}};
    for (Index shift = 0; shift < blocks; ++shift) {
      const kernels::AttentionSpec spec = {
          {.head_size = 4, .heads = {{kernels::kUnlimitedReach, kernels::kUnlimitedReach}}},
          kernels::shared(shifted_block_rows(recipe, shift, all))};
      check(spec);
      std::vector<int> seen(43 * 43, 0);
      for (const auto& document : spec.rows->documents) {
        for (Index i = document.query_begin; i < document.query_begin + document.query_count; ++i) {
          for (Index j = document.key_begin; j < document.key_begin + document.key_count; ++j) {
            seen[i * 43 + j] += kernels::sees(spec, document, 0, i, j) ? 1 : 0;
          }
        }
      }
      for (std::size_t text = 0; text + 1 < starts.size(); ++text) {
        const Index begin = starts[text], n = starts[text + 1] - begin;
        const ops::ScoreTerm term = shifted_block_term(recipe, shift, n);
        for (Index i = 0; i < n; ++i) {
          for (Index row = 0; row < 43; ++row) {
            const Index j = row - begin;
            const bool in_text = j >= 0 && j < n && all.key_mask[row] != 0;
            const bool right = in_text && (i * blocks / n + shift) % blocks == j * blocks / n;
            ASSERT_EQ(seen[(begin + i) * 43 + row], right ? 1 : 0)
                << blocks << " blocks, shift " << shift << ", token " << i << " of " << n << ", "
                << j;
            if (in_text) {
              ASSERT_EQ(std::isfinite(term(i, j)), right);
            }
          }
        }
      }
    }
  }
}

EncoderConfig parsed(const Json& changes) {
  Json json = formats::read_json((fixtures_folder() / "tiny_bert" / "config.json").string());
  json["model_type"] = "blockwise";
  json["base_model_type"] = "bert";
  json["hidden_size"] = 48;
  json["num_attention_heads"] = 12;
  json.update(changes);
  return parse_config(formats::ConfigReader(json, "config.json"));
}

TEST(ShiftedBlocks, AreThoseOfThePaperUnlessToldOtherwise) {
  const auto heads = [](const Json& changes) {
    return parsed(changes).recipe.shifted_blocks->heads_of_shift;
  };
  EXPECT_EQ(heads(Json::object()), (std::vector<Index>{10, 2}));
  EXPECT_EQ(heads({{"blocks", 3}}), (std::vector<Index>{8, 2, 2}));
  EXPECT_EQ(heads({{"blocks", 1}}), (std::vector<Index>{12}));
  EXPECT_EQ(heads({{"blocks", 3}, {"block_heads", {0, 12, 0}}}), (std::vector<Index>{0, 12, 0}));
  EXPECT_EQ(description_of(*parsed({{"blocks", 3}}).recipe.shifted_blocks),
            "3 blocks; 8 heads see their own, 2 the one 1 behind it, 2 the one 2 behind it");
}

TEST(ShiftedBlocks, ThatDoNotFitAreRefused) {
  struct Bad {
    Json changes;
    std::vector<std::string> parts;
  };
  const std::vector<Bad> cases = {
      {{{"blocks", 0}}, {"blocks", "found 0"}},
      {{{"blocks", 13}}, {"blocks", "12 heads", "found 13"}},
      {{{"block_heads", 12}}, {"block_heads", "2 numbers", "found 12"}},
      {{{"block_heads", {6, 5, 1}}}, {"block_heads", "2 numbers"}},
      {{{"block_heads", {6, 5}}}, {"block_heads", "12 heads in sum", "found 11"}},
      {{{"block_heads", {13, -1}}}, {"block_heads", "found 13"}},
      {{{"base_model_type", "distilbert"}}, {"base_model_type", "distilbert"}},
  };
  for (const Bad& bad : cases) {
    const std::string message = error_of([&] { parsed(bad.changes); });
    for (const std::string& part : bad.parts) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
    }
  }
}

}  // namespace
}  // namespace longformer::models::blockwise_test
