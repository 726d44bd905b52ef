// Result of info for a folder, read from config.json and file headers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "longformer/checkpoint.h"

namespace longformer::info_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = fixtures_folder();

/// A copy of a fixture that goes away with the test.
class InfoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "longformer-info-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::copy(kFixtures / "tiny_bert", folder_, fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
  }
  void set(const std::string& key, const nlohmann::ordered_json& value) const {
    auto json = formats::read_json((folder_ / "config.json").string());
    json[key] = value;
    write("config.json", json.dump());
  }
  /// The one line about what is not used.
  std::string unsupported() const {
    const FolderInfo info = inspect(folder_.string());
    EXPECT_EQ(info.unsupported.size(), 1u);
    return info.unsupported.empty() ? "" : info.unsupported.front();
  }

  fs::path folder_;
};

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
  }
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST_F(InfoTest, DescribesASentenceEncoder) {
  const FolderInfo info = inspect(folder_.string());
  EXPECT_EQ(info.model_type, "bert");
  EXPECT_EQ(info.architecture, "BertModel");
  // Tables (58 + 24 + 2)·16 and norm 32; layer 4·(256 + 16) + 24·16 + 24 + 16·24 + 16 + 64; pooler.
  EXPECT_EQ(info.parameters, 84 * 16 + 32 + 2 * (4 * 272 + 808 + 64) + 272);
  EXPECT_EQ(info.layers, 2);
  EXPECT_EQ(info.hidden_size, 16);
  EXPECT_EQ(info.heads, 2);
  EXPECT_EQ(info.intermediate_size, 24);
  EXPECT_EQ(info.vocabulary_size, 58);
  EXPECT_EQ(info.max_tokens, 24);
  EXPECT_EQ(info.type_vocabulary_size, 2);
  EXPECT_EQ(info.activation, "gelu");
  EXPECT_TRUE(info.windows.empty());
  EXPECT_EQ(info.receptive_field, 24);
  EXPECT_EQ(info.dtype, "fp32");
  EXPECT_EQ(info.tokenizer, "WordPiece");
  EXPECT_TRUE(info.has_pooler);
  EXPECT_FALSE(info.has_masked_lm_head);
  EXPECT_EQ(info.pooling, "mean");
  EXPECT_TRUE(info.normalize);
  EXPECT_TRUE(info.unsupported.empty());
}

TEST(Info, DescribesALongformer) {
  const FolderInfo info = inspect((kFixtures / "tiny_longformer").string());
  EXPECT_EQ(info.windows, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(info.receptive_field, 6);
  EXPECT_EQ(info.max_tokens, 40);
  EXPECT_EQ(info.tokenizer, "");
  EXPECT_EQ(info.pooling, "");
  EXPECT_FALSE(info.normalize);
  EXPECT_TRUE(info.unsupported.empty());
}

TEST(Info, CountsTheUntiedHead) {
  const FolderInfo info = inspect((kFixtures / "tiny_longformer_mlm").string());
  EXPECT_TRUE(info.has_masked_lm_head);
  EXPECT_FALSE(info.has_pooler);
  EXPECT_TRUE(info.unsupported.empty());
  // Tables (58 + 42 + 2)·16 and norm; layer 7·272 + 808 + 64; head 272 + 32 + 58·16 + 58.
  EXPECT_EQ(info.parameters, 102 * 16 + 32 + 2 * (7 * 272 + 808 + 64) + 304 + 59 * 58 - 58 * 42);
}

TEST(Info, TiedHeadHasNoDecoderOfItsOwn) {
  const FolderInfo info = inspect((kFixtures / "tiny_roberta").string());
  EXPECT_TRUE(info.has_masked_lm_head);
  EXPECT_EQ(info.activation, "gelu_new");
  EXPECT_EQ(info.tokenizer, "byte-level BPE");
  EXPECT_EQ(info.parameters, (300 + 22 + 1) * 16 + 32 + 2 * (4 * 272 + 808 + 64) + 304 + 300);
}

TEST_F(InfoTest, NotesTheFormatAndTheBuffersOfATorchFile) {
  EXPECT_EQ(inspect(folder_.string()).weights_file, "model.safetensors");
  EXPECT_EQ(inspect(folder_.string()).weights_format, "safetensors");
  fs::remove(folder_ / "model.safetensors");
  fs::copy(kFixtures / "torch" / "tiny_bert_stream.bin", folder_ / "pytorch_model.bin");
  const FolderInfo info = inspect(folder_.string());
  EXPECT_EQ(info.weights_file, "pytorch_model.bin");
  EXPECT_EQ(info.weights_format, "PyTorch stream");
  EXPECT_EQ(info.ignored_buffers, std::vector<std::string>{"embeddings.position_ids"});
  EXPECT_EQ(info.unsupported, std::vector<std::string>{});
}

TEST_F(InfoTest, PredictsMoreMemoryForMoreTokens) {
  fs::remove(folder_ / "model.safetensors");
  set("hidden_size", 768);
  set("num_attention_heads", 12);
  set("num_hidden_layers", 12);
  set("intermediate_size", 3072);
  set("max_position_embeddings", 4096);
  const FolderInfo small = inspect(folder_.string());
  set("max_position_embeddings", 8192);
  const FolderInfo large = inspect(folder_.string());
  // 85 million packed weights, and per token the table rows, five activations and the result.
  EXPECT_GT(small.memory_fp32, 85'000'000 * 4);
  EXPECT_GT(small.memory_fp32, small.memory_bf16 + 85'000'000 * 2);
  EXPECT_GE(large.memory_fp32 - small.memory_fp32, 4096 * 768 * 4 * 6);
  EXPECT_LE(large.memory_fp32 - small.memory_fp32, 4096 * 768 * 4 * 9);
}

TEST_F(InfoTest, SaysWhatIsNotUsed) {
  write("pytorch_model.bin", "x");
  expect_parts(unsupported(), {"not read", "pytorch_model.bin"});
  fs::remove(folder_ / "pytorch_model.bin");

  set("architectures", {"BertForSequenceClassification"});
  expect_parts(unsupported(), {"BertForSequenceClassification", "not its head"});
  set("architectures", {"BertModel"});

  write("modules.json",
        R"([{"type": "sentence_transformers.models.Transformer"}, {"type": "models.Dense"}])");
  expect_parts(unsupported(), {"modules.json", "models.Dense"});
  write("modules.json", "[");
  expect_parts(unsupported(), {"modules.json", "syntax error"});
  fs::remove(folder_ / "modules.json");

  write("1_Pooling/config.json", R"({"pooling_mode_weightedmean_tokens": true})");
  expect_parts(unsupported(), {"1_Pooling", "weightedmean"});
  fs::remove_all(folder_ / "1_Pooling");

  fs::remove(folder_ / "model.safetensors");
  expect_parts(unsupported(), {"expected model.safetensors"});
}

TEST_F(InfoTest, SaysWhichTensorsAreUnusedMissingOrOfAnotherShape) {
  const std::string path = (folder_ / "model.safetensors").string();
  std::vector<std::pair<std::string, Tensor>> tensors;
  {
    const auto file = formats::SafetensorsFile::open(path);
    tensors.assign(file.tensors().begin(), file.tensors().end());
  }
  tensors.emplace_back("classifier.weight", Tensor::zeros({2, 16}, DType::f32));
  formats::write_safetensors(path, tensors);
  expect_parts(unsupported(), {"not used", "\"classifier.weight\""});
  tensors.pop_back();
  std::erase_if(tensors, [](const auto& t) { return t.first.starts_with("encoder.layer.0."); });
  formats::write_safetensors(path, tensors);
  const FolderInfo info = inspect(folder_.string());
  ASSERT_EQ(info.unsupported.size(), 6u);
  expect_parts(info.unsupported[0], {"encoder.layer.0.attention.self.query.weight", "found none"});
  expect_parts(info.unsupported[5], {"11 more tensors"});
}

TEST_F(InfoTest, DescribesAModelWithAnAdapter) {
  const fs::path adapter = folder_ / "adapter";
  fs::create_directory(adapter);
  fs::copy(folder_ / "config.json", adapter);
  auto config = formats::read_json((adapter / "config.json").string());
  config["architectures"] = {"BertForSequenceClassification"};
  config["id2label"] = {{"0", "bad"}, {"1", "good"}, {"2", "ugly"}};
  write("adapter/config.json", config.dump());
  write("adapter/adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 2})");
  const std::string query = "base_model.model.bert.encoder.layer.0.attention.self.query";
  std::vector<std::pair<std::string, Tensor>> tensors = {
      {query + ".lora_A.weight", Tensor::zeros({2, 16}, DType::f32)},
      {query + ".lora_B.weight", Tensor::zeros({16, 2}, DType::f32)},
      {"base_model.model.classifier.weight", Tensor::zeros({3, 16}, DType::f32)},
      {"base_model.model.classifier.bias", Tensor::zeros({3}, DType::f32)}};
  formats::write_safetensors((adapter / "adapter_model.safetensors").string(), tensors);
  const FolderInfo alone = inspect(folder_.string());
  const FolderInfo info = inspect(folder_.string(), adapter.string());
  EXPECT_EQ(alone.head, "");
  EXPECT_EQ(info.head, "sequence-classification");
  EXPECT_EQ(info.labels, (std::vector<std::string>{"bad", "good", "ugly"}));
  EXPECT_EQ(info.unsupported, std::vector<std::string>{});
  EXPECT_EQ(info.parameters, alone.parameters + 3 * 16 + 3);
  EXPECT_EQ(info.dtype, "fp32");
  EXPECT_EQ(info.tokenizer, alone.tokenizer);
  EXPECT_EQ(info.pooling, alone.pooling);
  tensors[1].second = Tensor::zeros({8, 2}, DType::f32);
  formats::write_safetensors((adapter / "adapter_model.safetensors").string(), tensors);
  EXPECT_THROW(inspect(folder_.string(), adapter.string()), Error);
  EXPECT_THROW(inspect(folder_.string(), (folder_ / "1_Pooling").string()), Error);
}

TEST_F(InfoTest, FailsWhereNothingCanBeSaid) {
  const auto error = [&] {
    try {
      inspect(folder_.string());
    } catch (const Error& found) {
      return std::string(found.what());
    }
    return std::string();
  };
  write("model.safetensors", "123");
  expect_parts(error(), {"model.safetensors", "at least 8 bytes"});
  write("config.json", "{}");
  expect_parts(error(), {"config.json", "model_type"});
  fs::remove(folder_ / "config.json");
  expect_parts(error(), {"config.json", "No such file"});
  fs::remove_all(folder_);
  expect_parts(error(), {"config.json", "No such file"});
}

}  // namespace
}  // namespace longformer::info_test
