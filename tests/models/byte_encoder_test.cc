// Keys of encoders that read bytes (docs/spec/file-formats.md#o10).
#include "models/byte_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "error_testing.h"
#include "formats/json.h"
#include "models/encoder.h"

namespace longformer::models::byte_encoder_test {
namespace {

EncoderConfig with_keys(const std::string& type, const std::string& keys) {
  const std::string text = R"({"model_type": )" + type + R"(, "vocabulary": "bytes")" + keys + "}";
  const nlohmann::ordered_json object = formats::parse_json(text, "config.json");
  return parse_config(formats::ConfigReader(object, "config.json"));
}

constexpr const char* kRoberta = R"("roberta")";

TEST(ByteEncoder, HasTheIdsOfBytes) {
  for (const char* type : {kRoberta, R"("bert")", R"("longformer")", R"("big_bird")",
                           R"("modernbert")", R"("linformer", "base_model_type": "bert")",
                           R"("performer", "base_model_type": "roberta")"}) {
    const EncoderConfig config = with_keys(type, "");
    EXPECT_EQ(config.vocab_size, 260) << type;
    EXPECT_EQ(config.pad_token_id, 0) << type;
    EXPECT_EQ(config.sep_token_id, 2) << type;
    EXPECT_EQ(config.head.pooling, DocumentPooling::first) << type;
    EXPECT_EQ(config.unused_keys, "") << type;
  }
  EXPECT_EQ(with_keys(kRoberta, R"(, "vocab_size": 264)").vocab_size, 264);
  EXPECT_EQ(with_keys(kRoberta, R"(, "max_position_embeddings": 9)").max_tokens(), 8);
}

TEST(ByteEncoder, NormsMayComeFirst) {
  const EncoderConfig usual = with_keys(kRoberta, R"(, "norm_first": false)");
  EXPECT_FALSE(usual.recipe.norm_first);
  EXPECT_FALSE(usual.recipe.has_final_norm);
  for (const char* type : {kRoberta, R"("longformer")", R"("big_bird")",
                           R"("performer", "base_model_type": "roberta")"}) {
    const EncoderConfig config =
        with_keys(type, R"(, "norm_first": true, "classifier_pooling": "mean", "hidden_size": 8,
                 "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8,
                 "max_position_embeddings": 16)");
    EXPECT_TRUE(config.recipe.norm_first && config.recipe.has_final_norm) << type;
    EXPECT_EQ(config.head.pooling, DocumentPooling::mean) << type;
    const std::vector<WeightRecord> tensors = encoder_tensors(config);
    const bool has_norm = std::any_of(tensors.begin(), tensors.end(), [](const WeightRecord& one) {
      return one.name == "encoder.final_norm.weight" && one.shape == Shape{8};
    });
    EXPECT_TRUE(has_norm) << type;
  }
}

TEST(ByteEncoder, BadValuesAreNamed) {
  const auto error = [](const std::string& type, const std::string& keys) {
    return error_of([&] { with_keys(type, keys); });
  };
  expect_error(error(kRoberta, R"(, "vocab_size": 259)"),
               {"config.json: vocab_size: expected at least 260", "found 259"});
  expect_error(error(kRoberta, R"(, "pad_token_id": 1)"),
               {"pad_token_id: expected 0 for the vocabulary bytes, found 1"});
  expect_error(error(R"("longformer")", R"(, "sep_token_id": 3)"),
               {"sep_token_id: expected 2", "found 3"});
  expect_error(error(R"("modernbert")", R"(, "norm_first": false)"),
               {"norm_first: expected true for a modernbert", "found false"});
  expect_error(error(R"("funnel")", R"(, "norm_first": true)"),
               {"norm_first: expected false for a funnel", "found true"});
  expect_error(error(R"("bert")", R"(, "classifier_pooling": "mean")"),
               {"classifier_pooling: expected cls for a bert", "found mean"});
  expect_error(error(kRoberta, R"(, "classifier_pooling": "max")"),
               {"classifier_pooling", "cls", "mean", "max"});
  expect_error(error(R"("led")", ""), {"vocabulary: expected a tokenizer for a led", "bytes"});
  expect_error(error(kRoberta, R"(, "norm_first": 1)"), {"norm_first", "found 1"});
}

TEST(ByteEncoder, OtherVocabulariesAreRefused) {
  const nlohmann::ordered_json object =
      formats::parse_json(R"({"model_type": "bert", "vocabulary": "letters"})", "config.json");
  expect_error(error_of([&] { parse_config(formats::ConfigReader(object, "config.json")); }),
               {"vocabulary", "tokenizer", "bytes", "letters"});
}

TEST(ByteEncoder, ItsKeysCountWithBytesOnly) {
  const nlohmann::ordered_json object =
      formats::parse_json(R"({"model_type": "roberta", "norm_first": true})", "config.json");
  const EncoderConfig config = parse_config(formats::ConfigReader(object, "config.json"));
  EXPECT_FALSE(config.recipe.norm_first);
  EXPECT_NE(config.unused_keys.find("norm_first"), std::string::npos);
}

}  // namespace
}  // namespace longformer::models::byte_encoder_test
