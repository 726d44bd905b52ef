// All kinds of attention of language models with all positions: what one configuration for all of
// them reads, refuses and writes.
#include "models/language_model_attentions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "error_testing.h"

namespace longformer::models::language_model_attentions_test {
namespace {

using Json = nlohmann::ordered_json;

LanguageModelConfig parsed(const Json& json) {
  return parse_language_model(formats::ConfigReader(json, "config.json"));
}

/// Keys for all kinds; windows are refused where they mean nothing.
Json small(std::string_view attention) {
  Json json = {{"model_type", kLanguageModelType},
               {"attention", attention},
               {"vocabulary", "text8"},
               {"hidden_size", 8},
               {"num_hidden_layers", 2},
               {"num_attention_heads", 2},
               {"segment_length", 6},
               {"compression", "dilated"},
               {"features", 16},
               {"attn_layers", {"local", "lsh"}},
               {"axial_pos_shape", {4, 8}},
               {"axial_pos_embds_dim", {2, 6}},
               {"pattern", "fixed"},
               {"stride", 4},
               {"max_span", 9},
               {"span_ramp", 3},
               {"clusters", 3},
               {"tree_neighbors", 2}};
  if (attention == "window") json["windows"] = {3, 5};
  return json;
}

TEST(LanguageModelAttentions, HaveTheirPositionsAndNoOthers) {
  for (const LmAttentionTraits& traits : lm_attentions()) {
    for (int number = 0; number <= static_cast<int>(Positions::tree_keys); ++number) {
      const auto positions = static_cast<Positions>(number);
      Json json = small(traits.name);
      json["positions"] = name_of(positions);
      const bool is_possible =
          std::ranges::find(traits.positions, positions) != traits.positions.end();
      const std::string said = longformer::error_of([&] { parsed(json); });
      const std::string where = std::string(traits.name) + " " + std::string(name_of(positions));
      if (is_possible) {
        EXPECT_EQ(said, "") << where;
        EXPECT_EQ(parsed(json).positions, positions) << where;
      } else {
        EXPECT_TRUE(said.starts_with("config.json: positions: expected ")) << where << ": " << said;
        EXPECT_NE(said.find(std::string(traits.name)), said.npos) << said;
      }
    }
    EXPECT_EQ(parsed(small(traits.name)).positions, traits.positions[0]) << traits.name;
  }
}

TEST(LanguageModelAttentions, ReadBackWhatTheyWrite) {
  for (const LmAttentionTraits& traits : lm_attentions()) {
    for (const Positions positions : traits.positions) {
      Json json = small(traits.name);
      json["positions"] = name_of(positions);
      const LanguageModelConfig config = parsed(json);
      const Json written = to_json(config);
      const LanguageModelConfig again = parsed(written);
      EXPECT_EQ(to_json(again), written) << traits.name;
      EXPECT_EQ(written.at("attention"), traits.name);
      // The weights are those of the same model.
      EXPECT_EQ(again.windows, config.windows) << traits.name;
      EXPECT_EQ(again.max_positions, config.max_positions) << traits.name;
    }
  }
}

TEST(LanguageModelAttentions, WriteTheirOwnKeysAlone) {
  for (const LmAttentionTraits& traits : lm_attentions()) {
    const Json written = to_json(parsed(small(traits.name)));
    for (const LmAttentionTraits& other : lm_attentions()) {
      if (other.attention == traits.attention) continue;
      const bool is_shared =
          traits.attention == LmAttention::compressive && other.attention == LmAttention::recurrent;
      for (const std::string_view key : other.keys) {
        EXPECT_TRUE(is_shared || !written.contains(std::string(key)))
            << traits.name << " wrote " << key;
      }
    }
  }
}

TEST(LanguageModelAttentions, HaveKeysOnce) {
  std::set<std::string_view> keys, names;
  for (const LmAttentionTraits& traits : lm_attentions()) {
    EXPECT_TRUE(names.insert(traits.name).second) << traits.name;
    for (const std::string_view key : traits.keys) EXPECT_TRUE(keys.insert(key).second) << key;
  }
}

}  // namespace
}  // namespace longformer::models::language_model_attentions_test
