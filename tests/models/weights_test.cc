// The weights of a folder, in every form that it may have them: one file or several, of either
// format.
#include "formats/weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"
#include "models/registry.h"

namespace longformer::models::weights_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

const fs::path kFixtures = fixtures_folder();

/// A copy of tiny_bert without weights, and the weights that it had.
class WeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "longformer-weights-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    const auto file =
        formats::SafetensorsFile::open((kFixtures / "tiny_bert" / "model.safetensors").string());
    tensors_ = {file.tensors().begin(), file.tensors().end()};
  }
  void TearDown() override { fs::remove_all(folder_); }

  Weights open() const { return Weights::open(folder_.string(), family_of("bert", "").names); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// The tensors in two files of this ending, with the index of the ending.
  void write_shards(const std::string& ending) const {
    const std::string stem = ending == ".bin" ? "pytorch_model" : "model";
    Json map = Json::object();
    for (std::size_t half = 0; half < 2; ++half) {
      const std::string name = fmt::format("{}-0000{}-of-00002{}", stem, half + 1, ending);
      NamedTensors part;
      for (std::size_t i = half; i < tensors_.size(); i += 2) part.push_back(tensors_[i]);
      if (ending == ".bin") {
        formats::write_torch_file(path(name), part);
      } else {
        formats::write_safetensors(path(name), part);
      }
      for (const auto& [tensor, value] : part) map[tensor] = name;
    }
    write_index(stem + ending, map);
  }

  void write_index(const std::string& name, const Json& map) const {
    const Json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", map}};
    formats::write_file(path(name + ".index.json"), index.dump());
  }

  Json map_of(const std::string& name) const {
    return formats::read_json(path(name + ".index.json")).at("weight_map");
  }

  void expect_the_tensors_of_tiny_bert() const {
    const Weights weights = open();
    for (const auto& [name, tensor] : tensors_) {
      SCOPED_TRACE(name);
      const Tensor found = weights.get(name, tensor.shape(), {});
      EXPECT_EQ(found.dtype(), tensor.dtype());
      EXPECT_EQ(std::memcmp(found.raw(), tensor.raw(), tensor.bytes()), 0);
    }
  }

  std::string error() const {
    try {
      open();
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message;
    }
    return "";
  }

  void expect_error(const std::vector<std::string>& parts) const {
    const std::string message = error();
    EXPECT_NE(message, "");
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
    }
  }

  fs::path folder_;
  NamedTensors tensors_;
};

TEST_F(WeightsTest, OldNamesViewsAndBuffersOfBothTorchFormats) {
  for (const char* name : {"tiny_bert_zip.bin", "tiny_bert_stream.bin"}) {
    SCOPED_TRACE(name);
    fs::copy_file(kFixtures / "torch" / name, path("pytorch_model.bin"),
                  fs::copy_options::overwrite_existing);
    expect_the_tensors_of_tiny_bert();
    const Weights weights = open();
    EXPECT_EQ(weights.names().size(), tensors_.size() + 1);
    EXPECT_TRUE(weights.is_buffer("embeddings.position_ids"));
    EXPECT_FALSE(weights.is_buffer("embeddings.LayerNorm.weight"));
    EXPECT_EQ(weights.format(), name[10] == 'z' ? "PyTorch zip" : "PyTorch stream");
  }
}

TEST_F(WeightsTest, ShardsOfBothFormats) {
  for (const std::string ending : {".bin", ".safetensors"}) {
    SCOPED_TRACE(ending);
    write_shards(ending);
    expect_the_tensors_of_tiny_bert();
  }
}

TEST_F(WeightsTest, PrefersWhatTransformersPrefers) {
  const auto chosen = [&] { return fs::path(formats::weights_file(folder_.string())).filename(); };
  write_shards(".bin");
  EXPECT_EQ(chosen(), "pytorch_model.bin.index.json");
  formats::write_torch_file(path("pytorch_model.bin"), tensors_);
  EXPECT_EQ(chosen(), "pytorch_model.bin");
  write_shards(".safetensors");
  EXPECT_EQ(chosen(), "model.safetensors.index.json");
  formats::write_safetensors(path("model.safetensors"), tensors_);
  EXPECT_EQ(chosen(), "model.safetensors");
}

TEST_F(WeightsTest, SameWeightsHaveTheSameFingerprint) {
  formats::write_safetensors(path("model.safetensors"), tensors_);
  const std::uint64_t first = open().fingerprint();
  fs::remove(path("model.safetensors"));
  write_shards(".bin");
  EXPECT_EQ(open().fingerprint(), first);
}

TEST_F(WeightsTest, ReleasedTensorsReadAgain) {
  write_shards(".bin");
  const Weights weights = open();
  for (const auto& [name, tensor] : tensors_) {
    const Tensor found = weights.get(name, tensor.shape(), {});
    weights.release(found);
    EXPECT_EQ(std::memcmp(found.raw(), tensor.raw(), tensor.bytes()), 0) << name;
  }
}

TEST_F(WeightsTest, MissingShard) {
  write_shards(".safetensors");
  fs::remove(path("model-00002-of-00002.safetensors"));
  expect_error({"model.safetensors.index.json", "expected the file",
                "\"model-00002-of-00002.safetensors\"", "found none"});
}

TEST_F(WeightsTest, TensorThatIsNotWhereTheIndexSaysItIs) {
  write_shards(".safetensors");
  Json map = map_of("model.safetensors");
  const std::string name = map.begin().key();
  map[name] = "model-00002-of-00002.safetensors";
  write_index("model.safetensors", map);
  expect_error({"model-00002-of-00002.safetensors", "expected the tensor \"" + name + "\"",
                "index.json says", "found none"});
}

TEST_F(WeightsTest, TensorInTwoShards) {
  write_shards(".safetensors");
  formats::write_safetensors(path("model-00002-of-00002.safetensors"), tensors_);
  expect_error({"each tensor in one file", "found", "in two"});
}

TEST_F(WeightsTest, IndexThatLeadsElsewhere) {
  write_shards(".safetensors");
  for (const Json& bad : std::vector<Json>{"../model.safetensors", "/etc/passwd", "x\\y.bin", "",
                                           "..", "config.json", 3, nullptr, Json::array()}) {
    SCOPED_TRACE(bad.dump());
    Json map = map_of("model.safetensors");
    map.begin().value() = bad;
    write_index("model.safetensors", map);
    expect_error({"weight_map", "expected the name of a file beside it"});
  }
}

TEST_F(WeightsTest, IndexThatIsNone) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {}})",
                           R"({"weight_map": null})"}) {
    SCOPED_TRACE(text);
    formats::write_file(path("pytorch_model.bin.index.json"), text);
    expect_error({"pytorch_model.bin.index.json"});
  }
}

TEST_F(WeightsTest, CutShard) {
  write_shards(".bin");
  fs::resize_file(path("pytorch_model-00001-of-00002.bin"), 1000);
  expect_error({"pytorch_model-00001-of-00002.bin"});
}

TEST_F(WeightsTest, NoWeights) {
  expect_error({"expected model.safetensors or pytorch_model.bin, found neither"});
  formats::write_file(path("flax_model.msgpack"), "x");
  expect_error({"found flax_model.msgpack"});
}

}  // namespace
}  // namespace longformer::models::weights_test
