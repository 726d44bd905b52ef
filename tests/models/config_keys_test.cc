// Keys of config.json: each key of the configuration classes of transformers is read, reported, or
// changes nothing (tests/fixtures/make_config_keys.py); formats of our own have no other keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/unused_keys.h"
#include "models/config.h"
#include "models/language_model_config.h"

namespace longformer::models::config_keys_test {
namespace {

using formats::ConfigReader;
using Json = nlohmann::ordered_json;

const Json& table() {
  static const Json json = formats::read_json((fixtures_folder() / "config_keys.json").string());
  return json;
}

struct Outcome {
  bool is_read = false, is_told = false, is_error = false;
};

/// Outcome of one key in a file that has no other.
Outcome outcome_of(const std::string& family, const std::string& key, const Json& value) {
  const Json object = {{"model_type", family}, {key, value}};
  const ConfigReader reader(object, "config.json");
  Outcome outcome;
  try {
    const EncoderConfig config = parse_config(reader);
    outcome.is_told = config.unused_keys.find('"' + key + '"') != std::string::npos;
  } catch (const Error&) {
    outcome.is_error = true;
  }
  const std::vector<std::string> unread = reader.unread();
  outcome.is_read = std::find(unread.begin(), unread.end(), key) == unread.end();
  return outcome;
}

TEST(ConfigKeys, EachKeyOfTransformersIsReadToldOrChangesNothing) {
  for (const auto& [family, keys] : table().at("families").items()) {
    EXPECT_GT(keys.size(), 20u) << family;
    for (const auto& [key, entry] : keys.items()) {
      const std::string name = family + ": " + key;
      const Outcome usual = outcome_of(family, key, entry.at("default"));
      EXPECT_FALSE(usual.is_told || usual.is_error) << name;
      const Outcome other = outcome_of(family, key, entry.at("other"));
      if (entry.at("changes") == "nothing") {
        EXPECT_FALSE(other.is_told) << name;
      } else {
        EXPECT_TRUE(other.is_read || other.is_told || other.is_error) << name;
      }
    }
  }
}

TEST(ConfigKeys, WhatNothingReadsIsToldWithItsValue) {
  const auto told = [](const std::string& text) {
    const Json object = formats::parse_json(text, "config.json");
    return parse_config(ConfigReader(object, "config.json")).unused_keys;
  };
  EXPECT_EQ(told(R"({"model_type": "bert", "attention_windw": 64, "rotary": true})"),
            "config.json: ignored, as nothing here reads it: \"attention_windw\": 64, "
            "\"rotary\": true");
  EXPECT_EQ(told(R"({"model_type": "longformer", "attention_windw": 64})"),
            "config.json: ignored, as nothing here reads it: \"attention_windw\": 64 (did you mean "
            "\"attention_window\"?)");
  EXPECT_EQ(told(R"({"model_type": "bart", "encoder_layerdrop": 0.1})"),
            "config.json: ignored, as nothing here reads it: \"encoder_layerdrop\": 0.1");
  EXPECT_EQ(told(R"({"model_type": "bart", "encoder_layerdrop": 0, "rotary": null})"), "");
  EXPECT_EQ(told(R"({"model_type": "bert", "pruned_heads": {}, "use_cache": false})"), "");
  EXPECT_NE(told(R"({"model_type": "bert", "pruned_heads": {"0": [1]}})"), "");
}

TEST(ConfigKeys, OtherNamesOfSizesCountAsInTransformers) {
  const auto parsed = [](const std::string& text) {
    const Json object = formats::parse_json(text, "config.json");
    return parse_config(ConfigReader(object, "config.json"));
  };
  for (const std::string family : {"distilbert", "bart"}) {
    const EncoderConfig config =
        parsed(R"({"model_type": ")" + family +
               R"(", "dim": 60, "d_model": 60, "hidden_size": 48, "num_hidden_layers": 3,
                  "n_layers": 5, "num_attention_heads": 4, "decoder_attention_heads": 4})");
    EXPECT_EQ(config.hidden_size, 48) << family;
    EXPECT_EQ(config.layers, 3) << family;
    EXPECT_EQ(config.heads, 4) << family;
  }
}

TEST(ConfigKeys, FormatsOfOurOwnHaveNoOtherKeys) {
  const auto refused = [](const std::string& text) {
    const Json object = formats::parse_json(text, "config.json");
    const ConfigReader reader(object, "config.json");
    return error_of([&] { parse_language_model(reader); });
  };
  const std::string begin = R"({"model_type": "longformer-lm", "num_hidden_layers": 2, )";
  const std::string windows = begin + R"("attention": "window", "windows": [4, 4], )";
  EXPECT_EQ(refused(windows + R"("dilation": [0, 1]})"),
            "config.json: expected only keys that are read here, found \"dilation\": did you mean "
            "\"dilations\"?");
  EXPECT_EQ(refused(windows + R"("dropuot": 0.1})"),
            "config.json: expected only keys that are read here, found \"dropuot\": did you mean "
            "\"dropout\"?");
  EXPECT_EQ(refused(windows + R"("zzzzzzzzzz": 1})"),
            "config.json: expected only keys that are read here, found \"zzzzzzzzzz\"");
  // A key of another attention is no mistake.
  EXPECT_EQ(refused(begin + R"("attention": "dense", "windows": [4, 4]})"), "");
  EXPECT_NE(refused(begin + R"("attention": "dense", "window": [4, 4]})"), "");
  EXPECT_EQ(refused(windows + R"("transformers_version": "5.0", "dropout": 0.1})"), "");
  // The written configuration of each attention is read back.
  for (const std::string attention : {"dense", "recurrent", "compressive", "performer"}) {
    const Json object = formats::parse_json(begin + R"("attention": ")" + attention + "\"}", "a");
    const Json written = to_json(parse_language_model(ConfigReader(object, "a")));
    EXPECT_EQ(refused(written.dump()), "") << attention;
  }
}

TEST(ConfigKeys, LinformersAndPerformersHaveTheKeysOfTheirBaseAndTheirOwn) {
  const auto refused = [](const std::string& text) {
    const Json object = formats::parse_json(text, "config.json");
    return error_of([&] { parse_config(ConfigReader(object, "config.json")); });
  };
  const std::string linformer = R"({"model_type": "linformer", "base_model_type": "bert", )";
  EXPECT_EQ(refused(linformer + R"("projected_lenght": 8})"),
            "config.json: expected only keys that are read here, found \"projected_lenght\": did "
            "you mean \"projected_length\"?");
  EXPECT_NE(refused(linformer + R"("attention_window": 8})"), "");
  EXPECT_EQ(refused(linformer + R"("projected_length": 8, "use_cache": true, "rotary": null})"),
            "");
}

}  // namespace
}  // namespace longformer::models::config_keys_test
