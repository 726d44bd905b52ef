// Encoders of the Sparse Transformer: which tokens heads see, and the keys of config.json
// (docs/spec/other-attentions.md#h2-encoder; tests/parity/sparse_encoder_parity.py has the
// numbers).
#include "models/attention/sparse_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "kernels/reference.h"
#include "models/config.h"

namespace longformer::models::sparse_encoder_test {
namespace {

using Json = nlohmann::ordered_json;

constexpr Index kHeads = 5;
constexpr Index kRows = 63;

/// Texts of no token, of one, shorter than a stride, and longer.
const std::vector<Index>& starts() {
  static const std::vector<Index> starts = {0, 7, 8, 8, 11, 50, 63};
  return starts;
}

kernels::AttentionRows texts() {
  kernels::AttentionRows rows = kernels::self_attention_rows(starts());
  rows.key_mask.assign(kRows, 1);
  for (const Index masked : {3, 20, 21, 49, 62}) rows.key_mask[masked] = 0;
  return rows;
}

/// Columns of a text of n tokens that are number `set` of their blocks, counted from their ends.
std::vector<bool> columns(const SparseConfig& sparse, Index set, Index n) {
  std::vector<bool> found(static_cast<std::size_t>(n), false);
  for (Index begin = 0; begin < n; begin += sparse.stride) {
    const Index end = std::min(begin + sparse.stride, n);
    for (Index place = set * sparse.summary; place < (set + 1) * sparse.summary; ++place) {
      if (end - 1 - place >= begin) found[end - 1 - place] = true;
    }
  }
  return found;
}

/// Whether token i of a text of n tokens sees token j, by the formulas.
bool should_see(const SparseConfig& sparse, const SparseHeads& heads, Index i, Index j, Index n) {
  if (sparse.pattern == SparsePattern::strided) {
    return (heads.sees_near && std::abs(i - j) < sparse.stride) ||
           (heads.sees_far && (i - j) % sparse.stride == 0);
  }
  const Index set = sparse.stride / sparse.summary - 1 -
                    (heads.column - sparse.stride % sparse.summary) / sparse.summary;
  return (heads.sees_near && i / sparse.stride == j / sparse.stride) ||
         (heads.sees_far && columns(sparse, set, n)[j]);
}

/// How often each row sees each other one, in all parts together.
std::vector<int> times_seen(const std::vector<kernels::AttentionSpec>& specs, Index head) {
  std::vector<int> seen(kRows * kRows, 0);
  for (const kernels::AttentionSpec& spec : specs) {
    check(spec);
    for (const auto& text : spec.rows->documents) {
      for (Index i = text.query_begin; i < text.query_begin + text.query_count; ++i) {
        for (Index j = text.key_begin; j < text.key_begin + text.key_count; ++j) {
          seen[i * kRows + j] += kernels::sees(spec, text, head, i, j) ? 1 : 0;
        }
      }
    }
  }
  return seen;
}

void expect_formulas(const SparseConfig& sparse, const SparseHeads& heads) {
  const kernels::AttentionRows rows = texts();
  const auto specs = sparse_specs({.head_size = 4, .heads = {}}, sparse, heads, rows);
  double pairs = 0, counted = 0;
  for (const auto& spec : specs) pairs += kernels::visible_pairs(spec);
  const std::vector<int> seen = times_seen(specs, 0);
  for (std::size_t text = 0; text + 1 < starts().size(); ++text) {
    const Index begin = starts()[text], n = starts()[text + 1] - begin;
    const ops::ScoreTerm term = sparse_term(sparse, heads, n);
    for (Index i = 0; i < n; ++i) {
      for (Index row = 0; row < kRows; ++row) {
        const Index j = row - begin;
        const bool in_text = j >= 0 && j < n;
        const bool right = in_text && should_see(sparse, heads, i, j, n);
        const bool is_masked = rows.key_mask[row] == 0;
        ASSERT_EQ(seen[(begin + i) * kRows + row], right && !is_masked ? 1 : 0)
            << description_of(sparse, true) << ", token " << i << " of " << n << ", " << j;
        counted += right && !is_masked ? 1 : 0;
        if (in_text) {
          ASSERT_EQ(std::isfinite(term(i, j)), right);
        }
      }
    }
  }
  EXPECT_EQ(pairs, counted * static_cast<double>(heads.heads.size()));
}

TEST(SparseEncoder, TokensSeeEachOnceWhatTheFormulasSay) {
  for (const SparsePattern pattern : {SparsePattern::strided, SparsePattern::fixed}) {
    for (const Integration integration :
         {Integration::merged, Integration::interleaved, Integration::heads}) {
      for (const Index stride : {2, 3, 8, 13, 100}) {
        for (const Index summary : {Index{1}, Index{2}, stride}) {
          for (const bool by_head : {false, true}) {
            const SparseConfig sparse = {pattern, integration, stride, summary, by_head};
            for (const Index layer : {0, 1}) {
              for (const SparseHeads& heads : sparse_heads(sparse, layer, kHeads)) {
                expect_formulas(sparse, heads);
              }
            }
          }
        }
      }
    }
  }
}

EncoderConfig parsed(const Json& changes) {
  Json json = formats::read_json((fixtures_folder() / "tiny_bert" / "config.json").string());
  json["model_type"] = "sparse";
  json["base_model_type"] = "bert";
  json.update(changes);
  return parse_config(formats::ConfigReader(json, "config.json"));
}

TEST(SparseEncoder, HasTheKeysOfTheLanguageModel) {
  const SparseConfig strided =
      *parsed({{"pattern", "strided"}, {"stride", 6}, {"integration", "heads"}}).recipe.sparse;
  EXPECT_EQ(description_of(strided, true),
            "strided: tokens less than 6 away, and every 6th on both sides; each seen by half of "
            "the heads");
  const SparseConfig fixed = *parsed({{"pattern", "fixed"}, {"stride", 16}}).recipe.sparse;
  EXPECT_EQ(fixed.summary, 4);
  EXPECT_EQ(description_of(fixed, true),
            "fixed: a block of 16 tokens, and of each block 4 tokens, of which there are 4 choices "
            "for heads; seen in one softmax");
}

TEST(SparseEncoder, RefusesKeysThatDoNotFit) {
  struct Bad {
    Json changes;
    std::vector<std::string> parts;
  };
  const std::vector<Bad> cases = {
      {{{"stride", 8}}, {"pattern", "strided or fixed", "found none"}},
      {{{"pattern", "diagonal"}, {"stride", 8}}, {"pattern", "strided", "fixed", "diagonal"}},
      {{{"pattern", "strided"}}, {"stride", "from 2 to", "found none"}},
      {{{"pattern", "strided"}, {"stride", 0}}, {"stride", "found 0"}},
      {{{"pattern", "strided"}, {"stride", -4}}, {"stride", "found -4"}},
      {{{"pattern", "strided"}, {"stride", 8}, {"summary", 2}}, {"summary", "strided"}},
      {{{"pattern", "fixed"}, {"stride", 8}, {"summary", 9}},
       {"summary", "stride of 8", "found 9"}},
      {{{"pattern", "fixed"}, {"stride", 8}, {"summary", 0}}, {"summary", "found 0"}},
      {{{"pattern", "fixed"}, {"stride", 8}, {"integration", "sum"}}, {"integration", "sum"}},
      {{{"pattern", "fixed"}, {"stride", 8}, {"base_model_type", "distilbert"}},
       {"base_model_type", "distilbert"}},
  };
  for (const Bad& bad : cases) {
    const std::string message = error_of([&] { parsed(bad.changes); });
    for (const std::string& part : bad.parts) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
    }
  }
}

}  // namespace
}  // namespace longformer::models::sparse_encoder_test
