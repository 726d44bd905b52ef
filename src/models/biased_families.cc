#include "models/biased_families.h"

#include <algorithm>
#include <array>
#include <string>

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
  // The activation of config.json is that of the masked-LM head alone.
  model.head.activation = model.activation;
  model.activation = Activation::gelu;
  model.activation_dropout = model.hidden_dropout;
  model.recipe.feed_forward_dropout = 0;
}

constexpr std::array<std::string_view, 1> kDeberta = {"deberta."};
constexpr std::array<BiasedRename, 4> kDebertaNames = {{
    {".attention.self.query.", ".attention.self.query_proj."},
    {".attention.self.key.", ".attention.self.key_proj."},
    {".attention.self.value.", ".attention.self.value_proj."},
    {"context_pooler.dense.", "pooler.dense."},
}};
constexpr std::array<Told, 1> kDebertaTold = {{{"legacy", "false"}}};
constexpr MaskedLmNames kLegacyDebertaMaskedLm = {
    .dense = "cls.predictions.transform.dense",
    .norm = "cls.predictions.transform.LayerNorm",
    .decoder = "cls.predictions.decoder",
    .bias = {"cls.predictions.decoder.bias", "cls.predictions.bias"},
    .activation = std::nullopt};
constexpr MaskedLmNames kDebertaMaskedLm = {
    .dense = "lm_predictions.lm_head.dense",
    .norm = "lm_predictions.lm_head.LayerNorm",
    .decoder = "lm_predictions.lm_head.decoder",
    .bias = {"lm_predictions.lm_head.bias", "lm_predictions.lm_head.bias"},
    .activation = std::nullopt};
/// The head of published encoders that tells tokens which were replaced.
constexpr std::array<std::string_view, 4> kDebertaUnread = {
    "mask_predictions.dense.weight", "mask_predictions.dense.bias",
    "mask_predictions.classifier.weight", "mask_predictions.classifier.bias"};

/// pos_att_type is a list, or names between bars.
bool has_term(const ConfigReader& config, const char* term) {
  config.note_asked("pos_att_type");
  if (!config.has("pos_att_type")) return false;
  const auto& given = config.at("pos_att_type");
  if (given.is_string()) return given.get<std::string>().find(term) != std::string::npos;
  require(given.is_array(), "{}: pos_att_type: expected a list of p2c and c2p, found {}",
          config.name(), formats::shown(given));
  return std::any_of(given.begin(), given.end(), [&](const auto& one) { return one == term; });
}

/// Throws Error for parts of layers that are not computed.
void check_deberta(const ConfigReader& config, const EncoderConfig& model) {
  for (const char* key : {"embedding_size", "pooler_hidden_size", "attention_head_size"}) {
    const bool of_head = std::string_view(key) == "attention_head_size";
    const Index usual = of_head ? model.head_size() : model.hidden_size;
    const Index found = config.integer(key, usual, 1, 1 << 20);
    require(found == usual, "{}: {}: expected {}, found {}: not supported", config.name(), key,
            usual, found);
  }
}

/// The convolution behind the first layer.
std::optional<ConvolutionRecipe> convolution_of(const ConfigReader& config,
                                                const EncoderConfig& model) {
  const Index taps = config.integer("conv_kernel_size", 0, 0, 1023);
  const Index groups = config.integer("conv_groups", 1, 1, model.hidden_size);
  const Activation activation = activation_of(config, "conv_act", "tanh");
  if (taps == 0) return std::nullopt;
  require(taps % 2 == 1,
          "{}: conv_kernel_size: expected an odd number, so that there are as many rows behind the "
          "convolution, found {}",
          config.name(), taps);
  require(model.hidden_size % groups == 0,
          "{}: conv_groups: expected a divisor of hidden_size = {}, found {}", config.name(),
          model.hidden_size, groups);
  return ConvolutionRecipe{.taps = taps, .groups = groups, .activation = activation};
}

void read_deberta(const ConfigReader& config, EncoderConfig& model) {
  check_deberta(config, model);
  constexpr Index kMostDistances = 1 << 20;
  const Index buckets = config.integer("position_buckets", -1, -1, kMostDistances);
  Index most = config.integer("max_relative_positions", -1, -1, kMostDistances);
  if (most < 1) most = model.max_position_embeddings;
  require(
      buckets < 1 || most > buckets / 2 + 1,
      "{}: max_relative_positions: expected more than half of the {} position_buckets, found {}",
      config.name(), buckets, most);
  const std::string norm = config.string("norm_rel_ebd", "none");
  model.recipe.distance_keys =
      DistanceKeyRecipe{.buckets = {.count = std::max<Index>(buckets, 0), .most = most},
                        .has_keys = has_term(config, "c2p"),
                        .has_queries = has_term(config, "p2c"),
                        .has_table = config.boolean("relative_attention", false),
                        .shares_projections = config.boolean("share_att_key", false),
                        .has_norm = norm.find("layer_norm") != std::string::npos};
  model.recipe.convolution = convolution_of(config, model);
  model.recipe.has_position_table = config.boolean("position_biased_input", true);
  const Activation pooling = activation_of(config, "pooler_hidden_act");
  // Masked LM has the activation of the layers.
  if (!model.architecture.ends_with("MaskedLM")) model.head.activation = pooling;
  const double dropout = config.number("pooler_dropout", 0);
  require(dropout == 0, "{}: pooler_dropout: expected 0, found {}: not supported", config.name(),
          dropout);
  config.note_asked("legacy");
}

}  // namespace

Family mpnet(EncoderTraits roberta) {
  roberta.has_token_types = false;
  roberta.read = read_mpnet;
  roberta.document_dropout = {};
  return {.model_type = "mpnet",
          .class_prefix = "MPNet",
          .names = {.prefixes = kMpnet, .renames = kMpnetNames},
          .encoder = roberta};
}

Family jina_v2(EncoderTraits bert, bool is_gated) {
  bert.position_type = "alibi";
  bert.read = read_jina_v2;
  Family family = {.model_type = "bert",
                   .told_by = kJinaV2Told,
                   .class_prefix = "JinaBert",
                   .names = {.prefixes = kJinaV2},
                   .encoder = bert};
  if (!is_gated) return family;
  family.told_by = kGatedJinaV2Told;
  family.names.renames = kJinaV2Names;
  return family;
}

Family deberta_v2(bool is_legacy) {
  constexpr DocumentLayer kPooled = {
      .name = "context_pooler.dense", .activation = Activation::gelu, .drops_input = false};
  EncoderTraits traits = {.defaults = {.vocab_size = 128100,
                                       .hidden_size = 1536,
                                       .layers = 24,
                                       .heads = 24,
                                       .intermediate_size = 6144,
                                       .types = 0,
                                       .layer_norm_eps = 1e-7},
                          .attention = disentangled_attention,
                          .read = read_deberta,
                          .document_layer = kPooled,
                          .choice_layer = kPooled,
                          .masked_lm = is_legacy ? kLegacyDebertaMaskedLm : kDebertaMaskedLm,
                          .unread = kDebertaUnread,
                          .document_dropout = {"cls_dropout"},
                          .choice_dropout = {"cls_dropout"},
                          .tokens_drop_as_layers = true,
                          .tokenizer_class = "DebertaV2Tokenizer"};
  Family family = {.model_type = "deberta-v2",
                   .class_prefix = "DebertaV2",
                   .names = {.prefixes = kDeberta, .renames = kDebertaNames},
                   .encoder = traits};
  if (!is_legacy) family.told_by = kDebertaTold;
  return family;
}

}  // namespace longformer::models
