#include "models/sequence_families.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "models/attention/attention.h"
#include "models/attention/global_local.h"
#include "models/block_families.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

using Rename = TensorNames::Rename;
using KeyName = std::pair<std::string_view, std::string_view>;

constexpr std::array<std::string_view, 2> kLed = {"led.", "model."};
constexpr std::array<std::string_view, 1> kBart = {"model."};
/// The encoder's names inside an encoder with a decoder, whose own keep the names of the file.
template <std::size_t count>
constexpr auto encoder_renames(const std::array<Rename, count>& attention) {
  constexpr std::array<Rename, 8> kOthers = {{
      {"embeddings.word_embeddings.", "shared."},
      {"embeddings.position_embeddings.", "encoder.embed_positions."},
      {"embeddings.LayerNorm.", "encoder.layernorm_embedding."},
      {"encoder.layer.", "encoder.layers."},
      {".attention.output.LayerNorm.", ".self_attn_layer_norm.", "encoder.layer"},
      {".intermediate.dense.", ".fc1.", "encoder.layer"},
      {".output.dense.", ".fc2.", "encoder.layer"},
      {".output.LayerNorm.", ".final_layer_norm.", "encoder.layer"},
  }};
  std::array<Rename, count + kOthers.size()> all = {};
  std::copy(attention.begin(), attention.end(), all.begin());
  std::copy(kOthers.begin(), kOthers.end(), all.begin() + count);
  return all;
}
constexpr auto kLedNames = encoder_renames(std::array<Rename, 2>{{
    {".attention.output.dense.", ".self_attn.output.", "encoder.layer"},
    {".attention.self.", ".self_attn.longformer_self_attn.", "encoder.layer"},
}});
/// Projections of BART's attention, which its kin have too.
constexpr std::array<Rename, 4> kApartProjections = {{
    {".attention.output.dense.", ".self_attn.out_proj.", "encoder.layer"},
    {".attention.self.query.", ".self_attn.q_proj.", "encoder.layer"},
    {".attention.self.key.", ".self_attn.k_proj.", "encoder.layer"},
    {".attention.self.value.", ".self_attn.v_proj.", "encoder.layer"},
}};
constexpr auto kBartNames = encoder_renames(kApartProjections);
constexpr std::array<KeyName, 10> kLedKeys = {
    {{"hidden_size", "d_model"},
     {"num_hidden_layers", "encoder_layers"},
     {"num_attention_heads", "encoder_attention_heads"},
     {"intermediate_size", "encoder_ffn_dim"},
     {"max_position_embeddings", "max_encoder_position_embeddings"},
     {"hidden_act", "activation_function"},
     {"hidden_dropout_prob", "dropout"},
     {"attention_probs_dropout_prob", "attention_dropout"},
     {"initializer_range", "init_std"},
     {"layer_norm_eps", ""}}};
constexpr std::array<KeyName, 9> kBartKeys = {
    {{"hidden_size", "d_model"},
     {"num_hidden_layers", "encoder_layers"},
     {"num_attention_heads", "encoder_attention_heads"},
     {"intermediate_size", "encoder_ffn_dim"},
     {"hidden_act", "activation_function"},
     {"hidden_dropout_prob", "dropout"},
     {"attention_probs_dropout_prob", "attention_dropout"},
     {"initializer_range", "init_std"},
     {"layer_norm_eps", ""}}};
constexpr std::array<std::string_view, 5> kLedAliases = {
    "hidden_size", "num_hidden_layers", "num_attention_heads", "attention_probs_dropout_prob",
    "initializer_range"};
/// Those of BART and its kin.
constexpr std::array<std::string_view, 4> kBigBirdPegasusAliases = {
    "hidden_size", "num_hidden_layers", "num_attention_heads", "attention_probs_dropout_prob"};
constexpr std::array<std::string_view, 3> kSizeKeys = {"hidden_size", "num_hidden_layers",
                                                       "num_attention_heads"};

/// Sizes of the class defaults of LED and BART.
constexpr EncoderDefaults large(Index positions) {
  return {.vocab_size = 50265,
          .pad_token_id = 1,
          .hidden_size = 1024,
          .layers = 12,
          .heads = 16,
          .intermediate_size = 4096,
          .max_position_embeddings = positions,
          .layer_norm_eps = 1e-5,
          .attention_dropout = 0};
}

/// The names of families with a norm behind the last layer, which come before the others.
template <std::size_t count>
constexpr auto with_final_norm(const std::array<Rename, count>& names, std::string_view norm) {
  std::array<Rename, count + 1> all = {};
  all[0] = {"encoder.final_norm.", norm};
  std::copy(names.begin(), names.end(), all.begin() + 1);
  return all;
}
constexpr std::string_view kOwnFinalNorm = "encoder.layer_norm.";
// The norm that BART has before its layers is behind them here.
constexpr auto kBigBirdPegasusNames =
    with_final_norm(encoder_renames(std::array<Rename, 2>{{
                        {".attention.output.dense.", ".self_attn.output.", "encoder.layer"},
                        {".attention.self.", ".self_attn.self.", "encoder.layer"},
                    }}),
                    "encoder.layernorm_embedding.");
constexpr auto kPegasusNames = with_final_norm(kBartNames, kOwnFinalNorm);
constexpr auto kPegasusXNames = with_final_norm(
    encoder_renames(std::array<Rename, 6>{{
        kApartProjections[0],
        kApartProjections[1],
        kApartProjections[2],
        kApartProjections[3],
        {".attention.global.LayerNorm.", ".global_self_attn_layer_norm.", "encoder.layer"},
        {"embeddings.global.", "encoder.embed_global."},
    }}),
    kOwnFinalNorm);

/// Norms of Pegasus and its kin.
void norm_first(EncoderConfig& model) {
  model.recipe.norm_first = true;
  model.recipe.has_final_norm = true;
}

void even_width(const formats::ConfigReader& config, const EncoderConfig& model, Index least) {
  require(model.hidden_size % 2 == 0 && model.hidden_size >= least,
          "{}: d_model: expected an even number of at least {}, for sines and cosines, found {}",
          config.name(), least, model.hidden_size);
}

void read_pegasus(const formats::ConfigReader& config, EncoderConfig& model) {
  norm_first(model);
  model.recipe.norms_embeddings = false;
  model.recipe.position_rows = PositionRows::sinusoids;
  even_width(config, model, 2);
}

void read_pegasus_x(const formats::ConfigReader& config, EncoderConfig& model) {
  norm_first(model);
  LayerRecipe& recipe = model.recipe;
  recipe.norms_embeddings = false;
  recipe.attention_bias = false;
  recipe.position_rows = PositionRows::rounded_sinusoids;
  even_width(config, model, 4);
  const GlobalLocalRecipe read = {.block = config.integer("block_size", 512, 1, kMaxPositions),
                                  .globals = config.integer("num_global_tokens", 32, 1, kMaxHidden),
                                  .staggers = config.boolean("stagger_local_blocks", true)};
  require(!read.staggers || read.block % 2 == 0,
          "{}: block_size: expected an even number with stagger_local_blocks, found {}",
          config.name(), read.block);
  recipe.global_local = read;
}

void read_mbart(const formats::ConfigReader&, EncoderConfig& model) { norm_first(model); }

void read_bigbird_pegasus(const formats::ConfigReader& config, EncoderConfig& model) {
  norm_first(model);
  if (!config.has("hidden_act")) model.activation = Activation::gelu_tanh;
  model.recipe.norms_embeddings = false;
  model.recipe.attention_bias = config.boolean("use_bias", false);
  model.recipe.blocks = block_recipe(config);
}

/// Traits of BART's kin.
EncoderTraits kin(const EncoderDefaults& defaults, std::string_view tokenizer_class) {
  return {.defaults = defaults,
          .keys = kBartKeys,
          .aliases = kSizeKeys,
          .has_token_types = false,
          .attention = dense_attention,
          .tokenizer_class = tokenizer_class};
}

EncoderTraits pegasus(EncoderDefaults defaults) {
  defaults.pad_token_id = 0;
  return kin(defaults, "PegasusTokenizer");
}

/// Sizes of the class defaults of BigBird-Pegasus and PegasusX.
EncoderDefaults longer(Index positions) {
  EncoderDefaults defaults = large(positions);
  defaults.vocab_size = 96103;
  defaults.layers = 16;
  return defaults;
}

DecoderTraits pegasus_decoder(Index positions, std::string_view final_norm) {
  return {.positions_key = "max_position_embeddings",
          .positions = positions,
          .can_scale_embeddings = true,
          .final_norm = final_norm,
          .norms_embeddings = false,
          .start_token = 0,
          .begin_token = std::nullopt,
          .end_token = 1,
          .answers_questions = false};
}

}  // namespace

Family led_family() {
  return {.model_type = "led",
          .class_prefix = "LED",
          .names = {.prefixes = kLed, .renames = kLedNames},
          .encoder = EncoderTraits{.defaults = large(16384),
                                   .keys = kLedKeys,
                                   .aliases = kLedAliases,
                                   .has_token_types = false,
                                   .has_windows = true,
                                   .has_global_attention = true,
                                   .attention = longformer_attention,
                                   .tokenizer_class = "RobertaTokenizer"},
          .decoder = DecoderTraits{.positions_key = "max_decoder_position_embeddings"}};
}

Family bart_family() {
  return {.model_type = "bart",
          .class_prefix = "Bart",
          .names = {.prefixes = kBart, .renames = kBartNames},
          .encoder = EncoderTraits{.defaults = large(1024),
                                   .keys = kBartKeys,
                                   .aliases = kSizeKeys,
                                   .reserved_positions = 2,
                                   .has_token_types = false,
                                   .attention = dense_attention,
                                   .tokenizer_class = "RobertaTokenizer"},
          .decoder = DecoderTraits{.positions_key = "max_position_embeddings",
                                   .can_scale_embeddings = true}};
}

Family bigbird_pegasus_family() {
  EncoderTraits encoder = pegasus(longer(4096));
  encoder.aliases = kBigBirdPegasusAliases;
  encoder.attention = bigbird_attention;
  encoder.read = read_bigbird_pegasus;
  DecoderTraits decoder = pegasus_decoder(4096, "layernorm_embedding");
  decoder.scales_embeddings = true;
  decoder.start_token = decoder.begin_token = 2;
  decoder.answers_questions = true;
  return {.model_type = "bigbird_pegasus",
          .class_prefix = "BigBirdPegasus",
          .names = {.prefixes = kBart, .renames = kBigBirdPegasusNames},
          .encoder = encoder,
          .decoder = decoder};
}

Family pegasus_family() {
  EncoderTraits encoder = pegasus(large(1024));
  encoder.read = read_pegasus;
  return {.model_type = "pegasus",
          .class_prefix = "Pegasus",
          .names = {.prefixes = kBart, .renames = kPegasusNames},
          .encoder = encoder,
          .decoder = pegasus_decoder(1024, "layer_norm")};
}

Family pegasus_x_family() {
  EncoderTraits encoder = pegasus(longer(16384));
  encoder.attention = global_local_attention;
  encoder.read = read_pegasus_x;
  DecoderTraits decoder = pegasus_decoder(16384, "layer_norm");
  decoder.scales_embeddings = true;
  return {.model_type = "pegasus_x",
          .class_prefix = "PegasusX",
          .names = {.prefixes = kBart, .renames = kPegasusXNames},
          .encoder = encoder,
          .decoder = decoder};
}

Family mbart_family() {
  EncoderTraits encoder = kin(large(1024), "MBartTokenizer");
  encoder.reserved_positions = 2;
  encoder.read = read_mbart;
  DecoderTraits decoder = {.positions_key = "max_position_embeddings",
                           .can_scale_embeddings = true,
                           .final_norm = "layer_norm",
                           .start_token = std::nullopt};
  return {.model_type = "mbart",
          .class_prefix = "MBart",
          .names = {.prefixes = kBart, .renames = kPegasusNames},
          .encoder = encoder,
          .decoder = decoder};
}

}  // namespace longformer::models
