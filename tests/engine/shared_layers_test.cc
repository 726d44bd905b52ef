// Models of one folder with adapters of all kinds that share its layers, against those that merge
// their adapters.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "longformer/model.h"
#include "models/adapter.h"
#include "models/layers.h"
#include "models/registry.h"
#include "temporary_folder.h"

namespace longformer::shared_layers_test {
namespace {

using Json = nlohmann::ordered_json;
using Named = std::vector<std::pair<std::string, Tensor>>;

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

Tensor drawn(const Shape& shape, std::mt19937& random, float deviation) {
  Tensor tensor(shape, DType::f32);
  std::normal_distribution<float> normal(0, deviation);
  for (Index i = 0; i < tensor.size(); ++i) tensor.data<float>()[i] = normal(random);
  return tensor;
}

/// An adapter of a kind, drawn.
struct Kind {
  std::string name;
  /// Endings of layers that get low-rank additions.
  std::vector<std::string> targets;
  bool lora_bias = false;
  /// Whether the adapter has a tensor of the model whole.
  std::function<bool(const std::string& tensor)> whole = {};
  /// Names that only the adapter has, and the tensors that they are copies of.
  std::vector<std::pair<std::string, std::string>> copies = {};
};

bool ends_with_any(const std::string& name, const std::vector<std::string>& endings) {
  return std::ranges::any_of(endings,
                             [&](const std::string& ending) { return name.ends_with(ending); });
}

void write(const std::string& folder, const Kind& kind, const std::string& base) {
  std::mt19937 random(5);
  Named tensors;
  const auto file = formats::SafetensorsFile::open(base + "/model.safetensors");
  const std::string prefix(models::kPeftPrefix);
  for (const auto& [name, tensor] : file.tensors()) {
    const std::string layer = name.substr(0, name.rfind('.'));
    if (name.ends_with(".weight") && ends_with_any(layer, kind.targets)) {
      tensors.emplace_back(prefix + layer + models::kLowRankA,
                           drawn({3, tensor.columns()}, random, 0.3f));
      tensors.emplace_back(prefix + layer + models::kLowRankB,
                           drawn({tensor.rows(), 3}, random, 0.3f));
      if (kind.lora_bias) {
        tensors.emplace_back(prefix + layer + ".lora_B.bias", drawn({tensor.rows()}, random, 0.2f));
      }
    }
    if (kind.whole && kind.whole(name)) {
      tensors.emplace_back(prefix + name, drawn(tensor.shape(), random, 0.2f));
    }
  }
  for (const auto& [name, of] : kind.copies) {
    tensors.emplace_back(prefix + name, drawn(file.tensors().at(of).shape(), random, 0.2f));
  }
  formats::write_safetensors(folder + "/adapter_model.safetensors", tensors);
  const Json config = {{"peft_type", "LORA"}, {"r", 3},
                       {"lora_alpha", 6},     {"target_modules", kind.targets},
                       {"bias", "none"},      {"lora_bias", kind.lora_bias}};
  std::ofstream(folder + "/adapter_config.json") << config.dump();
}

const std::vector<std::string> kQueryValue = {".query", ".value"};
/// The last three are layers of a Longformer alone.
const std::vector<std::string> kGlobal = {".query", ".query_global", ".key_global",
                                          ".value_global"};
const std::vector<std::string> kAllLayers = {".query", ".key", ".value", ".dense"};

std::vector<Kind> kinds() {
  const auto is_bias = [](const std::string& name) {
    return name.find("encoder.layer") != name.npos && name.ends_with(".bias");
  };
  return {
      {"query and value", kQueryValue},
      {"all layers", kAllLayers},
      {"biases of additions", kAllLayers, true},
      {"projections of global tokens", kGlobal},
      {"biases of projections of global tokens", kGlobal, true},
      {"a projection of global tokens whole", kGlobal, false,
       [](const std::string& name) {
         return name.ends_with("layer.0.attention.self.key_global.weight");
       }},
      {"all biases", kQueryValue, false, is_bias},
      {"a layer whole", kQueryValue, false,
       [](const std::string& name) {
         return name.ends_with("layer.0.intermediate.dense.weight") ||
                name.ends_with("layer.0.intermediate.dense.bias");
       }},
      {"word embeddings whole", kQueryValue, false,
       [](const std::string& name) { return name.ends_with("word_embeddings.weight"); }},
  };
}

std::vector<std::int32_t> ids() {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 19; ++i) ids.push_back(5 + i * 7 % 17);
  return ids;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

/// States and, where there is a masked-LM head, its logits.
std::vector<float> numbers_of(const Model& model, bool has_words) {
  const std::vector<std::int32_t> tokens = ids();
  std::vector<float> numbers;
  // A global token, and so many that all tokens are projected for them.
  for (const std::size_t globals : {1, 12}) {
    std::vector<std::int32_t> mask(tokens.size(), 0);
    std::fill_n(mask.begin(), globals, 1);
    DocumentInput input = {.ids = tokens,
                           .attention_mask = {},
                           .token_type_ids = {},
                           .position_ids = {},
                           .global_attention_mask = {}};
    if (model.info().has_global_attention) input.global_attention_mask = mask;
    const std::vector<float> found =
        has_words ? model.masked_lm_logits(input, {})
                  : model.forward({&input, 1}, {.head = false})[0].last_hidden_state;
    numbers.insert(numbers.end(), found.begin(), found.end());
  }
  return numbers;
}

class SharedLayers : public testing::TestWithParam<std::string> {};

TEST_P(SharedLayers, AnAdapterGivesWhatItGivesMerged) {
  const std::string base = fixture(GetParam());
  const bool has_words = GetParam() == "tiny_roberta" || GetParam() == "tiny_longformer_mlm";
  for (const char* dtype : {"fp32", "bf16"}) {
    LoadOptions options = {.dtype = dtype, .threads = 2};
    options.layers = shared_layers();
    for (const Kind& kind : kinds()) {
      SCOPED_TRACE(kind.name + " " + dtype);
      const TemporaryFolder folder;
      write(folder.name(), kind, base);
      LoadOptions alone = {.dtype = dtype, .threads = 2};
      alone.adapter = options.adapter = folder.name();
      const std::vector<float> merged = numbers_of(Model::load(base, alone), has_words);
      // The model itself may come before its adapters or behind them.
      const std::vector<float> shared = numbers_of(Model::load(base, options), has_words);
      const bool is_exact = std::string(dtype) == "fp32";
      EXPECT_LE(largest_difference(shared, merged), is_exact ? 2e-5 : 0.2);
      options.adapter = alone.adapter = {};
      const std::vector<float> own = numbers_of(Model::load(base, alone), has_words);
      EXPECT_EQ(numbers_of(Model::load(base, options), has_words), own);
      EXPECT_GT(largest_difference(shared, own), 0.01);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SharedLayers,
                         testing::Values("tiny_bert", "tiny_roberta", "tiny_longformer",
                                         "tiny_longformer_mlm"),
                         [](const auto& info) { return info.param; });

// peft keeps both names of the bias of a tied decoder, of which the model's file has one.
TEST(SharedLayersOfOneModel, ABiasThatOnlyTheAdapterHas) {
  const std::string base = fixture("tiny_roberta");
  const TemporaryFolder folder;
  Kind kind = {"bias of the decoder", kQueryValue};
  kind.copies = {{"lm_head.decoder.bias", "lm_head.bias"}};
  write(folder.name(), kind, base);
  LoadOptions options;
  options.adapter = folder.name();
  const std::vector<float> merged = numbers_of(Model::load(base, options), true);
  options.layers = shared_layers();
  EXPECT_LE(largest_difference(numbers_of(Model::load(base, options), true), merged), 2e-5);
}

TEST(SharedLayersOfOneModel, ProjectionsOfGlobalTokensAreInMemoryOnce) {
  const std::string base = fixture("tiny_longformer");
  const TemporaryFolder folder;
  write(folder.name(), {"projections of global tokens", kGlobal}, base);
  const models::EncoderConfig config = models::read_config(base + "/config.json");
  const std::string name = "encoder.layer.0.attention.self.key_global";
  const auto together = shared_layers();
  const auto read = [&](const std::string& adapter) {
    models::Weights weights = models::Weights::open(base, config.family->names, adapter);
    weights.share(together);
    return models::matrix_fp32({.weights = weights}, name, {.out = 16, .in = 16});
  };
  const models::AddedMatrix own = read(""), adapted = read(folder.name());
  EXPECT_TRUE(adapted.matrix.is_same_as(own.matrix));
  EXPECT_TRUE(own.addition.empty());
  EXPECT_EQ(adapted.addition.a.rows(), 3);
}

TEST(SharedLayersOfOneModel, NumbersThatAreNoneAreTold) {
  const std::string base = fixture("tiny_bert");
  const TemporaryFolder folder;
  write(folder.name(), {"query and value", kQueryValue}, base);
  const std::string path = folder.name() + "/adapter_model.safetensors";
  Named tensors;
  {
    const auto file = formats::SafetensorsFile::open(path);
    for (const auto& [name, tensor] : file.tensors()) tensors.emplace_back(name, tensor.copied());
  }
  tensors[0].second.data<float>()[0] = std::nanf("");
  formats::write_safetensors(path, tensors);
  std::vector<std::string> notes;
  LoadOptions options;
  options.note = [&notes](const std::string& note) { notes.push_back(note); };
  options.adapter = folder.name();
  options.layers = shared_layers();
  Model::load(base, options);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("lora_A"), notes[0].npos) << notes[0];
}

}  // namespace
}  // namespace longformer::shared_layers_test
