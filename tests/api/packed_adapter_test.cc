// Adapters for models whose files pack projections that are modules of their own in `transformers`:
// against peft (tests/fixtures/make_packed_adapters.py), and against adapters with the names of
// files.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "longformer/checkpoint.h"
#include "longformer/model.h"
#include "longformer/options.h"
#include "models/adapter.h"
#include "models/config.h"
#include "models/registry.h"
#include "temporary_folder.h"

namespace longformer::packed_adapter_test {
namespace {

using Json = nlohmann::ordered_json;
using Named = std::vector<std::pair<std::string, Tensor>>;
constexpr double kTolerance = 1e-5;

/// Tokens, and what peft makes of them.
struct Expected {
  std::vector<std::int32_t> ids, mask, types;
  std::vector<float> states;
};

class PackedAdapter : public testing::TestWithParam<std::string> {
 protected:
  static std::string base() { return (fixtures_folder() / ("tiny_" + GetParam())).string(); }
  static std::string adapter() {
    return (fixtures_folder() / "packed_adapters" / GetParam()).string();
  }

  static std::vector<Expected> expected() {
    const auto file = formats::SafetensorsFile::open(adapter() + "/expected.safetensors");
    std::vector<Expected> cases;
    for (int i = 0; i < 3; ++i) {
      const auto integers = [&](const std::string& key) {
        const auto found = file.tensors().find(std::to_string(i) + "." + key);
        if (found == file.tensors().end()) return std::vector<std::int32_t>();
        const auto* data = found->second.data<std::int32_t>();
        return std::vector<std::int32_t>(data, data + found->second.size());
      };
      cases.push_back({integers("input_ids"), integers("attention_mask"),
                       integers("token_type_ids"),
                       file.tensors().at(std::to_string(i) + ".last_hidden_state").to_floats()});
    }
    return cases;
  }

  static std::vector<float> states(const Model& model, const Expected& given) {
    const DocumentInput input = {.ids = given.ids,
                                 .attention_mask = given.mask,
                                 .token_type_ids = given.types,
                                 .position_ids = {},
                                 .global_attention_mask = {}};
    return model.forward({&input, 1})[0].last_hidden_state;
  }

  /// Largest difference of visible rows from peft.
  static double difference(const Model& model) {
    double largest = 0;
    for (const Expected& given : expected()) {
      const std::vector<float> found = states(model, given);
      if (found.size() != given.states.size()) return NAN;
      const std::size_t width = found.size() / given.ids.size();
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (given.mask[i / width] == 0) continue;
        const double here = std::abs(double{found[i]} - double{given.states[i]});
        if (!(here <= largest)) largest = here;
      }
    }
    return largest;
  }

  static Model load(const std::string& folder, const std::string& with = {}) {
    LoadOptions options;
    options.adapter = with;
    return Model::load(folder, options);
  }
};

TEST_P(PackedAdapter, MergedWhileLoadedGivesWhatPeftGives) {
  EXPECT_LE(difference(load(base(), adapter())), kTolerance);
  EXPECT_FALSE(difference(load(base())) <= 0.01);
}

TEST_P(PackedAdapter, BesideSharedLayersGivesWhatPeftGives) {
  LoadOptions options;
  options.layers = shared_layers();
  const Model plain = Model::load(base(), options);
  options.adapter = adapter();
  const Model adapted = Model::load(base(), options);
  EXPECT_LE(difference(adapted), kTolerance);
  const Expected given = expected()[0];
  EXPECT_EQ(states(plain, given), states(load(base()), given));
}

TEST_P(PackedAdapter, ConvertMergesItIntoAFolder) {
  const TemporaryFolder folder;
  const std::string target = folder.name() + "/merged";
  ConvertOptions options;
  options.merge_adapter = adapter();
  convert(base(), target, options);
  EXPECT_LE(difference(load(target)), kTolerance);
  const auto before = formats::SafetensorsFile::open(base() + "/model.safetensors");
  const auto after = formats::SafetensorsFile::open(target + "/model.safetensors");
  EXPECT_EQ(before.tensors().size(), after.tensors().size());
  for (const auto& [name, tensor] : before.tensors()) {
    ASSERT_TRUE(after.tensors().contains(name)) << name;
    EXPECT_EQ(after.tensors().at(name).shape(), tensor.shape()) << name;
  }
}

Tensor drawn(const Shape& shape, std::mt19937& random) {
  Tensor tensor(shape, DType::f32);
  std::normal_distribution<float> normal(0, 0.2f);
  for (Index i = 0; i < tensor.size(); ++i) tensor.data<float>()[i] = normal(random);
  return tensor;
}

void write(const TemporaryFolder& folder, const Named& tensors, const Json& alphas) {
  formats::write_safetensors(folder.name() + "/adapter_model.safetensors", tensors);
  const Json config = {
      {"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 3}, {"alpha_pattern", alphas}};
  formats::write_file(folder.name() + "/adapter_config.json", config.dump());
}

/// The tensors of an adapter for all linear layers, with the names of files, and the same one for
/// the class of `transformers`.
std::pair<Named, Named> both_forms(const std::string& base) {
  const models::TensorNames names = models::read_config(base + "/config.json").family->names;
  const auto file = formats::SafetensorsFile::open(base + "/model.safetensors");
  const std::string prefix(models::kPeftPrefix);
  std::mt19937 random(3);
  Named of_file, of_modules;
  for (const auto& [name, tensor] : file.tensors()) {
    const std::string layer = names.model_name(name.substr(0, name.rfind('.')) + ".");
    const bool is_linear = layer.starts_with("encoder.layer") && tensor.shape().size() == 2;
    if (!is_linear) continue;
    const std::string stored = prefix + name.substr(0, name.rfind('.'));
    const Tensor a = drawn({2, tensor.columns()}, random), b = drawn({tensor.rows(), 2}, random);
    of_file.emplace_back(stored + models::kLowRankA, a);
    of_file.emplace_back(stored + models::kLowRankB, b);
    const auto modules = names.modules_of(layer.substr(0, layer.size() - 1));
    const Index rows = b.rows() / std::ssize(modules);
    for (std::size_t i = 0; i < modules.size(); ++i) {
      const std::string module = prefix + names.module_layer(modules[i]);
      of_modules.emplace_back(module + models::kLowRankA, a);
      of_modules.emplace_back(module + models::kLowRankB,
                              b.slice_rows(static_cast<Index>(i) * rows, rows));
    }
  }
  return {of_file, of_modules};
}

TEST_P(PackedAdapter, NamesOfFilesAreReadToo) {
  const auto [of_file, of_modules] = both_forms(base());
  EXPECT_LT(of_file.size(), of_modules.size());
  const TemporaryFolder first, second;
  write(first, of_file, Json::object());
  write(second, of_modules, Json::object());
  const Expected given = expected()[0];
  const std::vector<float> found = states(load(base(), first.name()), given);
  EXPECT_EQ(found, states(load(base(), second.name()), given));
  EXPECT_NE(found, states(load(base()), given));
}

TEST_P(PackedAdapter, PatternsAreOfTheNamesThatTheAdapterHas) {
  const auto [of_file, of_modules] = both_forms(base());
  const TemporaryFolder first, second;
  const bool is_gte = GetParam() == "gte";
  write(first, of_file, {{is_gte ? "qkv_proj" : "Wqkv", 7}});
  write(second, of_modules, {{"q_proj", 7}, {"k_proj", 7}, {"v_proj", 7}});
  const Expected given = expected()[0];
  const std::vector<float> found = states(load(base(), first.name()), given);
  EXPECT_EQ(found, states(load(base(), second.name()), given));
  const auto names = models::read_config(base() + "/config.json").family->names;
  const auto renamed = models::Adapter::open(first.name(), names);
  EXPECT_EQ(renamed->config().scale("layers.0.self_attn.k_proj", 2), 3.5f);
  EXPECT_EQ(renamed->config().scale("layers.0.self_attn.o_proj", 2), 1.5f);
}

TEST_P(PackedAdapter, RefusesOtherShapesAndLayers) {
  const std::string prefix(models::kPeftPrefix);
  const std::string layer = prefix + "layers.0.self_attn.q_proj";
  const auto error = [&](const std::string& name, Index rows) {
    std::mt19937 random(1);
    const TemporaryFolder folder;
    write(folder,
          {{name + models::kLowRankA, drawn({2, 24}, random)},
           {name + models::kLowRankB, drawn({rows, 2}, random)}},
          Json::object());
    return error_of([&] { load(base(), folder.name()); });
  };
  EXPECT_EQ(error(layer, 24), "");
  expect_error(error(layer, 72), {"layers.0.self_attn.q_proj", "expected [24, 24]", "[72, 24]"});
  expect_error(error(prefix + "layers.9.self_attn.q_proj", 24), {"layers.9.self_attn.q_proj"});
  if (GetParam() == "nomic_bert") {
    // Its layers have no bias that one of the adapter could be added to.
    std::mt19937 random(1);
    const TemporaryFolder folder;
    write(folder,
          {{layer + models::kLowRankA, drawn({2, 24}, random)},
           {layer + models::kLowRankB, drawn({24, 2}, random)},
           {layer + ".lora_B.bias", drawn({24}, random)}},
          Json::object());
    expect_error(error_of([&] { load(base(), folder.name()); }),
                 {"lora_bias", "layers.0.self_attn.q_proj", "which has none"});
  }
  const bool is_gte = GetParam() == "gte";
  const std::string packed = is_gte                       ? "encoder.layer.0.attention.qkv_proj"
                             : GetParam() == "nomic_bert" ? "encoder.layers.0.attn.Wqkv"
                                                          : "encoder.layers.0.mixer.Wqkv";
  expect_error(error(prefix + packed, 73), {packed, "as many rows for each", "73"});
}

INSTANTIATE_TEST_SUITE_P(Families, PackedAdapter,
                         testing::Values("nomic_bert", "gte", "jina_embeddings_v3"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace longformer::packed_adapter_test
