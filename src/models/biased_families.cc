#include "models/biased_families.h"

#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/attention/attention.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;
using BiasedRename = TensorNames::Rename;

constexpr std::array<std::string_view, 1> kMpnet = {"mpnet."};
constexpr std::array<BiasedRename, 5> kMpnetNames = {{
    {".attention.self.query.", ".attention.attn.q."},
    {".attention.self.key.", ".attention.attn.k."},
    {".attention.self.value.", ".attention.attn.v."},
    {".attention.output.dense.", ".attention.attn.o."},
    {".attention.output.LayerNorm.", ".attention.LayerNorm."},
}};

/// Embeddings of `transformers` have the row of padding here, whatever config.json says, and it
/// counts in so many buckets.
constexpr Index kMpnetPadding = 1, kMpnetBuckets = 32;

void read_mpnet(const ConfigReader& config, EncoderConfig& model) {
  require(model.pad_token_id == kMpnetPadding,
          "{}: pad_token_id: expected {} in an mpnet, found {}", config.name(), kMpnetPadding,
          model.pad_token_id);
  model.recipe.distance_bias = DistanceBias::buckets;
  constexpr Index kMostBuckets = 4096;
  model.recipe.bucket_rows =
      config.integer("relative_attention_num_buckets", kMpnetBuckets, kMpnetBuckets, kMostBuckets);
}

constexpr std::array<std::string_view, 1> kJinaV2 = {"bert."};
constexpr std::array<BiasedRename, 3> kJinaV2Names = {{
    {".intermediate.dense.", ".mlp.gated_layers."},
    {".output.dense.", ".mlp.wo.", "encoder.layer.", ".attention."},
    {".output.LayerNorm.", ".mlp.layernorm.", "encoder.layer.", ".attention."},
}};
using Told = std::pair<std::string_view, std::string_view>;
constexpr std::array<Told, 1> kJinaV2Told = {{{"position_embedding_type", "alibi"}}};
constexpr std::array<Told, 2> kGatedJinaV2Told = {
    {{"position_embedding_type", "alibi"}, {"feed_forward_type", "geglu"}}};

void read_jina_v2(const ConfigReader& config, EncoderConfig& model) {
  const std::string feed_forward = config.string("feed_forward_type", "original");
  require(feed_forward == "original" || feed_forward == "geglu",
          "{}: feed_forward_type: expected geglu or original, found {}: not supported",
          config.name(), formats::quote(feed_forward));
  const std::string pooling = config.string("emb_pooler", "mean");
  require(pooling == "mean", "{}: emb_pooler: expected mean, found {}: not supported",
          config.name(), formats::quote(pooling));
  // The same keys stand for other layers in this code.
  if (config.has("auto_map")) {
    require(config.at("auto_map").dump().find("qk-post-norm") == std::string::npos,
            "{}: auto_map: expected jina-bert-implementation, found jina-bert-v2-qk-post-norm, "
            "whose norms of queries and keys are not computed here",
            config.name());
  }
  for (const char* key : {"auto_map", "model_max_length"}) config.note_asked(key);
  model.recipe.has_position_table = false;
  model.recipe.distance_bias = DistanceBias::slopes;
  if (feed_forward == "original") return;
  model.recipe.up_bias = false;
  model.recipe.is_gated = true;
  model.activation = Activation::gelu;
  model.activation_dropout = model.hidden_dropout;
  model.recipe.feed_forward_dropout = 0;
}

}  // namespace

Family mpnet(EncoderTraits roberta) {
  roberta.has_token_types = false;
  roberta.read = read_mpnet;
  roberta.document_dropout = {};
  return {.model_type = "mpnet",
          .class_prefix = "MPNet",
          .names = {.prefixes = kMpnet, .renames = kMpnetNames},
          .encoder = std::move(roberta)};
}

Family jina_v2(EncoderTraits bert, bool is_gated) {
  bert.position_type = "alibi";
  bert.read = read_jina_v2;
  Family family = {.model_type = "bert",
                   .told_by = kJinaV2Told,
                   .class_prefix = "JinaBert",
                   .names = {.prefixes = kJinaV2},
                   .encoder = std::move(bert)};
  if (!is_gated) return family;
  family.told_by = kGatedJinaV2Told;
  family.names.renames = kJinaV2Names;
  return family;
}

}  // namespace longformer::models
