#include "models/rms_families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/attention/attention.h"
#include "models/config_limits.h"
#include "models/layer_kinds.h"
#include "models/rotary_families.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;
using formats::ConfigReader;
using formats::shown;
using Rename = TensorNames::Rename;
using KeyName = std::pair<std::string_view, std::string_view>;

constexpr std::array<std::string_view, 1> kModel = {"model."};

/// The first ends like the names of projections, and so comes before them; the last is part of
/// other names.
constexpr std::array<Rename, 14> kLlamaNames = {{
    {".attention.self.query.LayerNorm.", ".self_attn.q_norm."},
    {".attention.self.key.LayerNorm.", ".self_attn.k_norm."},
    {"embeddings.word_embeddings.", "embed_tokens."},
    {"encoder.layer.", "layers."},
    {".attention.self.query.", ".self_attn.q_proj."},
    {".attention.self.key.", ".self_attn.k_proj."},
    {".attention.self.value.", ".self_attn.v_proj."},
    {".attention.output.dense.", ".self_attn.o_proj."},
    {".attention.output.LayerNorm.", ".input_layernorm."},
    {".intermediate.first.", ".mlp.gate_proj."},
    {".intermediate.second.", ".mlp.up_proj."},
    {".output.dense.", ".mlp.down_proj."},
    {".output.LayerNorm.", ".post_attention_layernorm."},
    {"encoder.final_norm.", "norm."},
}};
/// Gemma has norms of results too, one of which has a name that is that of another norm in Llama.
constexpr std::array<Rename, 16> kGemmaNames = {{
    {".attention.result.LayerNorm.", ".post_attention_layernorm."},
    {".attention.self.query.LayerNorm.", ".self_attn.q_norm."},
    {".attention.self.key.LayerNorm.", ".self_attn.k_norm."},
    {"embeddings.word_embeddings.", "embed_tokens."},
    {"encoder.layer.", "layers."},
    {".attention.self.query.", ".self_attn.q_proj."},
    {".attention.self.key.", ".self_attn.k_proj."},
    {".attention.self.value.", ".self_attn.v_proj."},
    {".attention.output.dense.", ".self_attn.o_proj."},
    {".attention.output.LayerNorm.", ".input_layernorm."},
    {".intermediate.first.", ".mlp.gate_proj."},
    {".intermediate.second.", ".mlp.up_proj."},
    {".output.dense.", ".mlp.down_proj."},
    {".output.LayerNorm.", ".pre_feedforward_layernorm."},
    {".result.LayerNorm.", ".post_feedforward_layernorm."},
    {"encoder.final_norm.", "norm."},
}};
constexpr std::array<Rename, 9> kNeoBertNames = {{
    {"embeddings.word_embeddings.weight", "encoder.weight"},
    {"encoder.layer.", "transformer_encoder."},
    {".attention.self.query_key_value.", ".qkv."},
    {".attention.output.dense.", ".wo."},
    {".attention.output.LayerNorm.", ".attention_norm."},
    {".intermediate.dense.", ".ffn.w12."},
    {".output.dense.", ".ffn.w3."},
    {".output.LayerNorm.", ".ffn_norm."},
    {"encoder.final_norm.", "layer_norm."},
}};

constexpr std::array<KeyName, 3> kLlamaKeys = {
    {{"layer_norm_eps", "rms_norm_eps"},
     {"hidden_dropout_prob", ""},
     {"attention_probs_dropout_prob", "attention_dropout"}}};
constexpr std::array<KeyName, 4> kGemmaKeys = {
    {{"hidden_act", "hidden_activation"},
     {"layer_norm_eps", "rms_norm_eps"},
     {"hidden_dropout_prob", ""},
     {"attention_probs_dropout_prob", "attention_dropout"}}};
constexpr std::array<KeyName, 5> kNeoBertKeys = {{{"max_position_embeddings", "max_length"},
                                                  {"layer_norm_eps", "norm_eps"},
                                                  {"hidden_act", ""},
                                                  {"hidden_dropout_prob", ""},
                                                  {"attention_probs_dropout_prob", ""}}};

constexpr DocumentLayer kEuroBertLayer = {
    .name = "dense", .activation = Activation::gelu, .drops_input = false};
constexpr DocumentLayer kNeoBertLayer = {
    .name = "dense", .activation = Activation::tanh, .drops_input = true};
constexpr std::array<std::string_view, 1> kLanguageHead = {"lm_head.weight"};

/// Heads of `transformers` for decoders: one layer, for documents behind their last token.
void set_heads(EncoderTraits& traits) {
  traits.document_classifier = traits.token_classifier = "score";
  traits.document_dropout = traits.choice_dropout = traits.span_dropout = {"", 0.0};
  traits.token_dropout = DropoutKey{"classifier_dropout", 0.1};
}
constexpr HeadRecipe kLastTokenHead = {.pooling = DocumentPooling::last, .classifier_bias = false};

/// Sets what the layers of all these families have.
void set_layers(EncoderConfig& model) {
  LayerRecipe& recipe = model.recipe;
  recipe.norm_first = true;
  recipe.has_final_norm = true;
  recipe.norm_bias = false;
  recipe.centres_norms = false;
  recipe.attention_bias = false;
  recipe.up_bias = false;
  recipe.down_bias = false;
  recipe.is_gated = true;
  recipe.norms_embeddings = false;
  recipe.has_position_table = false;
  recipe.has_type_table = false;
  recipe.rotation_of_layer.assign(model.patterns.size(), kFullLayer);
}

/// Heads of keys and values, and the size of a head. Where a key is null, `transformers` has as
/// many heads of keys as others.
void read_heads(const ConfigReader& config, Index key_heads, Index head_size,
                EncoderConfig& model) {
  const bool is_null = config.object().contains("num_key_value_heads");
  const Index keys =
      config.integer("num_key_value_heads", is_null ? model.heads : key_heads, 1, model.heads);
  require(model.heads % keys == 0,
          "{}: num_key_value_heads: expected a divisor of num_attention_heads = {}, found {}",
          config.name(), model.heads, keys);
  const Index size = config.integer("head_dim", head_size, 1, kMaxHidden);
  require(size * model.heads <= kMaxHidden,
          "{}: head_dim: expected at most {} numbers in all heads, found {} in each of {}",
          config.name(), kMaxHidden, size, model.heads);
  if (keys != model.heads) model.recipe.key_heads = keys;
  if (size * model.heads != model.hidden_size) model.recipe.head_size = size;
}

void read_llama(const ConfigReader& config, EncoderConfig& model) {
  set_layers(model);
  model.recipe.attention_bias = config.boolean("attention_bias", false);
  const bool has_bias = config.boolean("mlp_bias", false);
  model.recipe.up_bias = has_bias;
  model.recipe.down_bias = has_bias;
  model.recipe.splits_gate = true;
  model.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  for (const char* key : {"bos_token_id", "eos_token_id", "pretraining_tp"}) {
    config.note_asked(key);
  }
}

void read_eurobert(const ConfigReader& config, EncoderConfig& model) {
  read_llama(config, model);
  if (!config.has("hidden_act")) model.activation = Activation::silu;
  read_heads(config, model.heads, model.hidden_size / model.heads, model);
  model.recipe.rotations = {rotation_of(config, model, 10000)};
  constexpr std::array<std::string_view, 3> kPooling = {"bos", "mean", "late"};
  // "clf_pooling" is the name of before.
  const bool is_older = config.has("clf_pooling") && !config.has("classifier_pooling");
  const std::string key = is_older ? "clf_pooling" : "classifier_pooling";
  model.head = {.pooling = static_cast<DocumentPooling>(config.choice(key, kPooling, "late")),
                .decoder_bias = model.recipe.up_bias};
  config.note_asked("clf_pooling");
}

void read_neobert(const ConfigReader& config, EncoderConfig& model) {
  set_layers(model);
  model.activation = Activation::silu;
  model.tie_word_embeddings = false;
  // The wide rows are as many numbers as in a plain block with so many.
  constexpr Index kMultiple = 8;
  const Index inner = 2 * model.intermediate_size / 3;
  model.intermediate_size = (inner + kMultiple - 1) / kMultiple * kMultiple;
  const Index size = config.integer("dim_head", model.head_size(), 1, model.hidden_size);
  require(size == model.head_size(), "{}: dim_head: expected {} = hidden_size / heads, found {}",
          config.name(), model.head_size(), size);
  model.recipe.packs_projections = true;
  model.recipe.packs_by_head = true;
  model.recipe.rotations = {
      RotaryConfig{.trained_positions = model.max_position_embeddings, .pairs_neighbours = true}};
  for (const char* key : {"classifier_init_range", "decoder_init_range", "embedding_init_range",
                          "kwargs", "trust_remote_code", "tie_word_embeddings"}) {
    config.note_asked(key);
  }
}

void set_windows(const HeadPattern& window, EncoderConfig& model) {
  for (std::size_t layer = 0; layer < model.patterns.size(); ++layer) {
    if (model.recipe.rotation_of_layer[layer] == kFullLayer) continue;
    std::ranges::fill(model.patterns[layer], window);
  }
}

void read_qwen3(const ConfigReader& config, EncoderConfig& model) {
  read_llama(config, model);
  if (!config.has("hidden_act")) model.activation = Activation::silu;
  if (!config.has("pad_token_id")) model.pad_token_id = -1;
  model.head = kLastTokenHead;
  read_heads(config, 32, 128, model);
  model.recipe.norms_heads = true;
  model.recipe.is_causal = config.boolean("is_causal", true);
  // `transformers` has windows only where this is true.
  const bool has_windows = config.boolean("use_sliding_window", false);
  const Index window = config.integer("sliding_window", 4096, 1, kMaxWindow);
  const Index first = config.integer("max_window_layers", 28, 0, kMaxLayers);
  model.recipe.rotation_of_layer =
      layer_kinds(config, model.patterns.size(), [&](std::size_t layer) {
        return has_windows && static_cast<Index>(layer) >= first ? kSlidingLayer : kFullLayer;
      });
  const bool is_sliding = std::ranges::count(model.recipe.rotation_of_layer, kSlidingLayer) > 0;
  require(!is_sliding || (has_windows && model.recipe.is_causal),
          "{}: layer_types: expected sliding_attention only with use_sliding_window and without "
          "is_causal false, found it",
          config.name());
  set_windows({window - 1, 0, 1}, model);
  // Both kinds of layers turn alike.
  std::ranges::fill(model.recipe.rotation_of_layer, 0);
  model.recipe.rotations = {rotation_of(config, model, 10000)};
}

/// Full layers and those with windows have an own base each; rope_scaling is for full ones.
RotaryConfig gemma_rotation(const ConfigReader& config, LayerKind kind, EncoderConfig& model) {
  const double theta = kind == kFullLayer ? config.number("rope_theta", 1000000)
                                          : config.number("rope_local_base_freq", 10000);
  const RotaryConfig otherwise = {.theta = theta,
                                  .trained_positions = model.max_position_embeddings};
  config.note_asked("rope_scaling");
  const auto own = rotation_of_kind(config, kind, otherwise, model.unused_keys);
  if (own) return *own;
  if (kind == kSlidingLayer || !config.has("rope_scaling")) return otherwise;
  return read_rotary(ConfigReader(config.at("rope_scaling"), config.name() + ": rope_scaling"),
                     otherwise, model.unused_keys);
}

void read_gemma3(const ConfigReader& config, EncoderConfig& model) {
  read_llama(config, model);
  require_whole_heads(config);
  model.tie_word_embeddings = true;
  if (!config.has("hidden_act")) model.activation = Activation::gelu_tanh;
  model.head = kLastTokenHead;
  read_heads(config, 4, 256, model);
  LayerRecipe& recipe = model.recipe;
  recipe.norms_heads = true;
  recipe.norms_results = true;
  recipe.rotation_names.assign(kLayerKinds.begin(), kLayerKinds.end());
  recipe.gain_offset = 1;
  recipe.is_causal = !config.boolean("use_bidirectional_attention", false);
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden_size));
  require(!config.has("attn_logit_softcapping"),
          "{}: attn_logit_softcapping: expected null, found {}: not supported", config.name(),
          shown(config.object().value("attn_logit_softcapping", Json())));
  const Index every = config.integer("sliding_window_pattern", 6, 1, kMaxLayers);
  recipe.rotation_of_layer = layer_kinds(config, model.patterns.size(), [&](std::size_t layer) {
    return (static_cast<Index>(layer) + 1) % every != 0 ? kSlidingLayer : kFullLayer;
  });
  const Index window = config.integer("sliding_window", 4096, 1, kMaxWindow);
  const Index reach = recipe.is_causal ? window - 1 : window / 2;
  set_windows({reach, recipe.is_causal ? 0 : reach, 1}, model);
  // Scores are divided by the root of another number than the head size; queries and keys turn
  // with a half of that factor each.
  const double scalar = config.number("query_pre_attn_scalar", 256);
  require(scalar > 0, "{}: query_pre_attn_scalar: expected a number above 0, found {}",
          config.name(), scalar);
  for (const LayerKind kind : {kFullLayer, kSlidingLayer}) {
    RotaryConfig rotation = gemma_rotation(config, kind, model);
    rotation.score_root = std::pow(static_cast<double>(model.head_size()) / scalar, 0.25);
    recipe.rotations.push_back(rotation);
  }
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping",
                          "_sliding_window_pattern", "tie_word_embeddings"}) {
    config.note_asked(key);
  }
}

}  // namespace

Family eurobert_family() {
  return {
      .model_type = "eurobert",
      .class_prefix = "EuroBert",
      .names = {.prefixes = kModel, .renames = kLlamaNames},
      .encoder = EncoderTraits{.defaults = {.vocab_size = 128256,
                                            .pad_token_id = 128001,
                                            .max_position_embeddings = 8192,
                                            .layer_norm_eps = 1e-5,
                                            .hidden_dropout = 0,
                                            .attention_dropout = 0},
                               .keys = kLlamaKeys,
                               .has_token_types = false,
                               .attention = dense_attention,
                               .read = read_eurobert,
                               .document_layer = kEuroBertLayer,
                               .choice_layer = kEuroBertLayer,
                               .masked_lm = MaskedLmNames{.dense = "",
                                                          .norm = "",
                                                          .decoder = "lm_head",
                                                          .bias = {"lm_head.bias", "lm_head.bias"}},
                               .document_dropout = {"", 0.0},
                               .choice_dropout = {"", 0.0},
                               .span_dropout = {"", 0.0},
                               .tokenizer_class = "PreTrainedTokenizerFast"}};
}

Family neobert_family() {
  return {
      .model_type = "neobert",
      .class_prefix = "NeoBERT",
      .names = {.prefixes = kModel, .renames = kNeoBertNames},
      .encoder = EncoderTraits{.defaults = {.layers = 28,
                                            .max_position_embeddings = 4096,
                                            .layer_norm_eps = 1e-6,
                                            .hidden_dropout = 0,
                                            .attention_dropout = 0},
                               .keys = kNeoBertKeys,
                               .has_token_types = false,
                               .attention = dense_attention,
                               .read = read_neobert,
                               .document_layer = kNeoBertLayer,
                               .choice_layer = kNeoBertLayer,
                               .masked_lm = MaskedLmNames{.dense = "",
                                                          .norm = "",
                                                          .decoder = "decoder",
                                                          .bias = {"decoder.bias", "decoder.bias"}},
                               .document_dropout = {"classifier_dropout", 0.1},
                               .choice_dropout = {"classifier_dropout", 0.1},
                               .span_dropout = {"", 0.0}}};
}

Family qwen3_family() {
  Family family = {.model_type = "qwen3",
                   .class_prefix = "Qwen3",
                   .names = {.prefixes = kModel, .renames = kLlamaNames},
                   .encoder = EncoderTraits{.defaults = {.vocab_size = 151936,
                                                         .hidden_size = 4096,
                                                         .layers = 32,
                                                         .heads = 32,
                                                         .intermediate_size = 22016,
                                                         .max_position_embeddings = 32768,
                                                         .layer_norm_eps = 1e-6,
                                                         .hidden_dropout = 0,
                                                         .attention_dropout = 0},
                                            .keys = kLlamaKeys,
                                            .has_token_types = false,
                                            .attention = dense_attention,
                                            .read = read_qwen3,
                                            .unread = kLanguageHead,
                                            .tokenizer_class = "Qwen2Tokenizer"}};
  set_heads(*family.encoder);
  return family;
}

Family gemma3_family() {
  Family family = {.model_type = "gemma3_text",
                   .class_prefix = "Gemma3Text",
                   .names = {.prefixes = kModel, .renames = kGemmaNames},
                   .encoder = EncoderTraits{.defaults = {.vocab_size = 262208,
                                                         .hidden_size = 2304,
                                                         .layers = 26,
                                                         .heads = 8,
                                                         .intermediate_size = 9216,
                                                         .max_position_embeddings = 131072,
                                                         .layer_norm_eps = 1e-6,
                                                         .hidden_dropout = 0,
                                                         .attention_dropout = 0},
                                            .keys = kGemmaKeys,
                                            .has_token_types = false,
                                            .attention = dense_attention,
                                            .read = read_gemma3,
                                            .unread = kLanguageHead,
                                            .tokenizer_class = "GemmaTokenizer"}};
  set_heads(*family.encoder);
  return family;
}

}  // namespace longformer::models
