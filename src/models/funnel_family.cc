#include "models/funnel_family.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/error.h"
#include "models/config_limits.h"
#include "models/funnel.h"
#include "models/rates.h"

namespace longformer::models {
namespace {

using KeyName = std::pair<std::string_view, std::string_view>;

constexpr std::array<std::string_view, 1> kFunnelPrefixes = {"funnel."};
constexpr std::array<TensorNames::Rename, 2> kNames = {
    {{"encoder.decoder.layers.", "decoder.layers."}, {".LayerNorm.", ".layer_norm."}}};
constexpr std::array<KeyName, 6> kKeys = {{{"hidden_size", "d_model"},
                                           {"num_attention_heads", "n_head"},
                                           {"intermediate_size", "d_inner"},
                                           {"num_hidden_layers", ""},
                                           {"hidden_dropout_prob", "hidden_dropout"},
                                           {"attention_probs_dropout_prob", "attention_dropout"}}};
constexpr std::array<std::string_view, 2> kAliases = {"hidden_size", "num_attention_heads"};
/// The head of pretraining, which tells tokens that were replaced.
constexpr std::array<std::string_view, 4> kUnread = {
    "discriminator_predictions.dense.weight", "discriminator_predictions.dense.bias",
    "discriminator_predictions.dense_prediction.weight",
    "discriminator_predictions.dense_prediction.bias"};

/// Numbers from 1 up, of as many blocks as there are.
std::vector<Index> blocks_of(const formats::ConfigReader& config, const std::string& key,
                             std::vector<Index> otherwise) {
  if (!config.has(key)) return otherwise;
  const auto& value = config.at(key);
  require(value.is_array() && !value.empty(), "{}: {}: expected a list of numbers, found {}",
          config.name(), key, formats::shown(value));
  std::vector<Index> numbers;
  for (const auto& number : value) {
    require(number.is_number_integer() && number >= 1 && number <= kMaxLayers,
            "{}: {}: expected whole numbers from 1 to {}, found {}", config.name(), key, kMaxLayers,
            formats::shown(number));
    numbers.push_back(number.get<Index>());
  }
  return numbers;
}

/// Heads of documents read the blocks alone, as in `transformers`.
bool has_decoder(const EncoderConfig& model) {
  constexpr std::array<std::string_view, 3> kBase = {"BaseModel", "ForSequenceClassification",
                                                     "ForMultipleChoice"};
  return std::none_of(kBase.begin(), kBase.end(), [&](std::string_view ending) {
    return model.architecture.ends_with(ending);
  });
}

FunnelRecipe recipe_of(const formats::ConfigReader& config, const EncoderConfig& model) {
  FunnelRecipe funnel;
  funnel.block_sizes = blocks_of(config, "block_sizes", {4, 4, 4});
  const std::size_t blocks = funnel.block_sizes.size();
  funnel.block_repeats = blocks_of(config, "block_repeats", std::vector<Index>(blocks, 1));
  require(funnel.block_repeats.size() == blocks,
          "{}: block_repeats: expected {} numbers, as block_sizes has, found {}", config.name(),
          blocks, funnel.block_repeats.size());
  funnel.decoder_layers = config.integer("num_decoder_layers", 2, 0, kMaxLayers);
  funnel.has_decoder = has_decoder(model);
  constexpr std::array<std::string_view, 2> kPooling = {"mean", "max"};
  funnel.takes_largest = config.choice("pooling_type", kPooling, "mean") == 1;
  // Both are the same numbers.
  constexpr std::array<std::string_view, 2> kForms = {"relative_shift", "factorized"};
  config.choice("attention_type", kForms, "relative_shift");
  funnel.separates_first = config.boolean("separate_cls", true);
  funnel.drops_last = config.boolean("truncate_seq", true);
  funnel.pools_queries_only = config.boolean("pool_q_only", true);
  funnel.term_range = config.number("initializer_range", 0.1);
  return funnel;
}

void read_funnel(const formats::ConfigReader& config, EncoderConfig& model) {
  if (!config.has("hidden_act")) model.activation = Activation::gelu_tanh;
  LayerRecipe& recipe = model.recipe;
  recipe.has_position_table = recipe.has_type_table = false;
  recipe.has_padding_row = config.has("pad_token_id");
  recipe.head_size = config.integer("d_head", 64, 1, kMaxHidden);
  recipe.funnel = recipe_of(config, model);
  require(model.hidden_size % 2 == 0,
          "{}: d_model: expected an even number, half of it sines of distances, found {}",
          config.name(), model.hidden_size);
  const Index layers = std::ssize(funnel_places(*recipe.funnel));
  require(layers <= kMaxLayers,
          "{}: block_sizes: expected at most {} layers with their repeats, found {}", config.name(),
          kMaxLayers, layers);
  const auto pattern = model.patterns[0];
  model.layers = layers;
  model.patterns.assign(static_cast<std::size_t>(layers), pattern);
  model.activation_dropout = rate_of(config, "activation_dropout", 0);
  recipe.initial.by_shape = !config.has("initializer_std");
  recipe.initial.deviation = config.number("initializer_std", 1);
  if (recipe.initial.by_shape) recipe.initial.others = {{"word_embeddings.weight", 1}};
}

}  // namespace

Family funnel_family() {
  EncoderTraits traits = {
      .defaults = {.types = 3, .layer_norm_eps = 1e-9},
      .keys = kKeys,
      .aliases = kAliases,
      .read = read_funnel,
      .document_layer = {.name = "classifier.linear_hidden", .drops_input = false},
      .document_classifier = "classifier.linear_out",
      .choice_layer = {.name = "classifier.linear_hidden", .drops_input = false},
      .choice_classifier = "classifier.linear_out",
      .masked_lm = MaskedLmNames{.dense = {},
                                 .norm = {},
                                 .decoder = "lm_head",
                                 .bias = {"lm_head.bias", "lm_head.bias"}},
      .unread = kUnread,
      .tokenizer_class = "FunnelTokenizer"};
  return {.model_type = "funnel",
          .class_prefix = "Funnel",
          .names = {.prefixes = kFunnelPrefixes, .renames = kNames},
          .encoder = traits};
}

}  // namespace longformer::models
