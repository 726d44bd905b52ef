// Names of tensors in files and of modules in `transformers`, which differ in some families.
#include "models/tensor_names.h"

#include <gtest/gtest.h>

#include "models/registry.h"

namespace longformer::models::tensor_names_test {
namespace {

const TensorNames& names_of(const char* family) { return family_of(family, "").names; }

struct Names {
  const char *family, *model, *file, *module;
};

TEST(TensorNames, ModulesHaveNamesOfTheirOwn) {
  const std::vector<Names> all = {
      {"bert", "encoder.layer.1.attention.self.query.", "encoder.layer.1.attention.self.query.",
       "encoder.layer.1.attention.self.query."},
      {"modernbert", "encoder.layer.1.attention.self.query_key_value.", "layers.1.attn.Wqkv.",
       "layers.1.attn.Wqkv."},
      {"nomic_bert", "encoder.layer.11.output.dense.", "encoder.layers.11.mlp.fc2.",
       "layers.11.mlp.down_proj."},
      {"nomic_bert", "encoder.layer.1.intermediate.second.", "encoder.layers.1.mlp.fc12.",
       "layers.1.mlp.gate_proj."},
      {"nomic_bert", "embeddings.LayerNorm.", "emb_ln.", "embeddings.LayerNorm."},
      {"gte", "encoder.layer.1.output.dense.", "encoder.layer.1.mlp.down_proj.",
       "layers.1.mlp.down_proj."},
      {"gte", "lm_head.norm.", "lm_head.norm.", "lm_head.layer_norm."},
      {"jina_embeddings_v3", "encoder.layer.1.attention.output.dense.",
       "encoder.layers.1.mixer.out_proj.", "layers.1.self_attn.o_proj."},
      {"jina_embeddings_v3", "encoder.layer.1.output.LayerNorm.", "encoder.layers.1.norm2.",
       "layers.1.post_mlp_layernorm."},
      {"jina_embeddings_v3", "lm_head.layer_norm.", "lm_head.layer_norm.", "lm_head.layer_norm."}};
  for (const auto& [family, model, file, module] : all) {
    SCOPED_TRACE(std::string(family) + " " + model);
    const TensorNames& names = names_of(family);
    EXPECT_EQ(names.model_name(file), model);
    EXPECT_EQ(names.file_name(model), file);
    EXPECT_EQ(names.module_name(model), module);
    EXPECT_EQ(names.model_name_of_module(module), model);
    EXPECT_EQ(names.model_name_of_module(std::string(names.prefixes[0]) + module), model);
    EXPECT_EQ(names.model_name_of_module(file), model);
  }
}

TEST(TensorNames, PackedLayersConsistOfModules) {
  const TensorNames& gte = names_of("gte");
  const std::string self = "encoder.layer.3.attention.self.", layer = self + "query_key_value";
  EXPECT_EQ(gte.modules_of(layer),
            (std::vector<std::string>{self + "query", self + "key", self + "value"}));
  const TensorNames::Place place = gte.place_of(self + "value");
  EXPECT_EQ(place.layer, layer);
  EXPECT_EQ(place.index, 2);
  EXPECT_EQ(place.count, 3);
  EXPECT_EQ(gte.place_of("encoder.layer.3.intermediate.second").layer,
            "encoder.layer.3.intermediate.dense");
  EXPECT_EQ(gte.module_layer("encoder.layer.3.intermediate.second"), "layers.3.mlp.gate_proj");
  EXPECT_EQ(names_of("jina_embeddings_v3").modules_of("encoder.layer.3.intermediate.dense"),
            std::vector<std::string>{"encoder.layer.3.intermediate.dense"});
  EXPECT_EQ(names_of("modernbert").modules_of(layer), std::vector<std::string>{layer});
  EXPECT_EQ(names_of("bert").place_of(self + "query").layer, self + "query");
}

}  // namespace
}  // namespace longformer::models::tensor_names_test
