#include "models/reformer_family.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/error.h"
#include "models/config_limits.h"
#include "models/rates.h"

namespace longformer::models {
namespace {

using KeyName = std::pair<std::string_view, std::string_view>;

constexpr std::array<std::string_view, 1> kReformerPrefixes = {"reformer."};
// The norm of attention comes first, because the end of its name is that of the feed-forward's.
constexpr std::array<TensorNames::Rename, 8> kReformerNames = {{
    {"encoder.layer.", "encoder.layers."},
    {".attention.self.", ".attention.self_attention."},
    {".attention.output.LayerNorm.", ".attention.layer_norm."},
    {".intermediate.dense.", ".feed_forward.dense.dense."},
    {.model = ".output.dense.", .file = ".feed_forward.output.dense.", .without = ".attention."},
    {".output.LayerNorm.", ".feed_forward.layer_norm."},
    {"encoder.final_norm.", "encoder.layer_norm."},
    {.model = "position_embeddings.weight",
     .file = "position_embeddings.embedding.weight",
     .without = "position_embeddings.weights."},
}};
constexpr std::array<KeyName, 2> kReformerKeys = {
    {{"intermediate_size", "feed_forward_size"},
     {"attention_probs_dropout_prob", "local_attention_probs_dropout_prob"}}};

constexpr DocumentLayer kReformerHead = {.name = "classifier.dense", .halves = true};

/// Positions of one table, or of two.
void read_positions(const formats::ConfigReader& config, EncoderConfig& model,
                    ReformerConfig& reformer) {
  reformer.longest = model.max_position_embeddings;
  for (const char* key : {"axial_pos_shape", "axial_pos_embds_dim", "axial_norm_std"}) {
    config.note_asked(key);
  }
  model.recipe.has_position_table = !config.boolean("axial_pos_embds", true);
  if (model.recipe.has_position_table) return;
  read_axial(config, model.hidden_size, reformer);
  reformer.axial_norm_std = config.number("axial_norm_std", 1);
  require(reformer.axial_norm_std >= 0, "{}: axial_norm_std: expected a number from 0 on, found {}",
          config.name(), reformer.axial_norm_std);
  const Index positions = reformer.axial_shape[0] * reformer.axial_shape[1];
  model.max_position_embeddings = std::min(model.max_position_embeddings, positions);
}

void read_reformer_model(const formats::ConfigReader& config, EncoderConfig& model) {
  if (!config.has("hidden_act")) model.activation = Activation::relu;
  ReformerConfig reformer = read_reformer_encoder(config);
  // Only how many rows of logits are made at a time.
  config.note_asked("chunk_size_lm_head");
  // In transformers too attn_layers says how many there are.
  const auto pattern = model.patterns[0];
  model.layers = std::ssize(reformer.layers);
  model.patterns.assign(reformer.layers.size(), pattern);
  reformer.lsh_dropout = rate_of(config, "lsh_attention_probs_dropout_prob", 0);
  require(!config.boolean("tie_word_embeddings", false),
          "{}: tie_word_embeddings: expected false, as last rows have {} numbers and those of the "
          "table {}, found true",
          config.name(), 2 * model.hidden_size, model.hidden_size);
  model.tie_word_embeddings = false;
  LayerRecipe& recipe = model.recipe;
  recipe.head_size = config.integer("attention_head_size", 64, 1, kMaxHidden);
  recipe.norm_first = recipe.has_final_norm = true;
  recipe.attention_bias = recipe.norms_embeddings = recipe.has_padding_row = false;
  read_positions(config, model, reformer);
  model.reformer = std::move(reformer);
}

}  // namespace

Family reformer_family() {
  EncoderTraits traits = {
      .defaults = {.vocab_size = 320,
                   .hidden_size = 256,
                   .intermediate_size = 512,
                   .max_position_embeddings = 4096,
                   .hidden_dropout = 0.05,
                   .attention_dropout = 0.05},
      .keys = kReformerKeys,
      .decoder_advice =
          "as a decoder it is a language model, of which `longformer convert SOURCE "
          "TARGET --to longformer-lm` makes one that runs here",
      .has_token_types = false,
      .read = read_reformer_model,
      .document_layer = kReformerHead,
      .document_classifier = "classifier.out_proj",
      .choice_layer = kReformerHead,
      .choice_classifier = "classifier.out_proj",
      .masked_lm = MaskedLmNames{.dense = {},
                                 .norm = {},
                                 .decoder = "lm_head.decoder",
                                 .bias = {"lm_head.decoder.bias", "lm_head.bias"},
                                 .trains_bias = false},
      .document_dropout = {"classifier_dropout"},
      .choice_dropout = {"classifier_dropout"},
      .tokenizer_class = "PreTrainedTokenizerFast"};
  return {.model_type = "reformer",
          .class_prefix = "Reformer",
          .names = {.prefixes = kReformerPrefixes, .renames = kReformerNames},
          .encoder = traits};
}

ReformerLayers reformer_layers(const EncoderConfig& config) {
  return {.reformer = *config.reformer,
          .hidden_size = config.hidden_size,
          .heads = config.heads,
          .head_size = config.head_size(),
          .intermediate_size = config.intermediate_size,
          .activation = config.activation,
          .causal = false,
          .packs_projections = false,
          .dropout = config.hidden_dropout,
          .attention_dropout = config.attention_dropout,
          .name = [](Index layer, std::string_view part) {
            constexpr std::array<KeyName, 5> kParts = {
                {{"attention_output", "attention.output.dense"},
                 {"attention_norm", "attention.output.LayerNorm"},
                 {"up", "intermediate.dense"},
                 {"down", "output.dense"},
                 {"feed_forward_norm", "output.LayerNorm"}}};
            const auto* found = std::find_if(kParts.begin(), kParts.end(),
                                             [&](const KeyName& one) { return one.first == part; });
            if (found == kParts.end()) {
              return fmt::format("encoder.layer.{}.attention.self.{}", layer, part);
            }
            return fmt::format("encoder.layer.{}.{}", layer, found->second);
          }};
}

}  // namespace longformer::models
