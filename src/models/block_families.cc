#include "models/block_families.h"

#include <array>
#include <cmath>
#include <string_view>

#include "core/error.h"
#include "models/attention/attention.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

constexpr std::array<std::string_view, 1> kBigBird = {"bert."};
constexpr std::array<TensorNames::Rename, 1> kBigBirdNames = {{{"pooler.dense.", "pooler."}}};

void read_big_bird(const formats::ConfigReader& config, EncoderConfig& model) {
  if (!config.has("hidden_act")) model.activation = Activation::gelu_tanh;
  // The layer of documents has the activation of the layers.
  model.head.activation = model.activation;
  model.sep_token_id = config.integer("sep_token_id", 66, 0, kMaxVocabulary);
  if (config.boolean("rescale_embeddings", false)) {
    model.embedding_scale = std::sqrt(static_cast<double>(model.hidden_size));
  }
  LayerRecipe& recipe = model.recipe;
  recipe.attention_bias = config.boolean("use_bias", true);
  recipe.attention_output_bias = true;
  recipe.drops_before_norm = true;
  require(!config.boolean("is_decoder", false),
          "{}: is_decoder: expected false, found true: BigBird's decoder is not run",
          config.name());
  constexpr std::array<std::string_view, 2> kTypes = {"block_sparse", "original_full"};
  const bool is_dense = config.choice("attention_type", kTypes, "block_sparse") == 1;
  const Index most = model.max_position_embeddings;
  constexpr std::array<std::string_view, 2> kRandomBlocks = {"seeded", "none"};
  const BlockRecipe blocks = {
      .size = config.integer("block_size", 64, 1, most),
      .random = config.integer("num_random_blocks", 3, 0, most),
      .draws_in_training = config.choice(kRandomBlocksKey, kRandomBlocks, "seeded") == 0};
  if (!is_dense) recipe.blocks = blocks;
}

}  // namespace

Family big_bird(EncoderTraits bert) {
  bert.defaults.vocab_size = 50358;
  bert.defaults.max_position_embeddings = 4096;
  bert.attention = bigbird_attention;
  bert.read = read_big_bird;
  bert.document_layer = {.name = "classifier.dense"};
  bert.document_classifier = "classifier.out_proj";
  bert.span_classifier = "qa_classifier.qa_outputs";
  bert.span_block = "qa_classifier";
  bert.hides_questions = true;
  bert.span_dropout = {"hidden_dropout_prob", 0.1};
  bert.tokenizer_class = "BigBirdTokenizer";
  return {.model_type = "big_bird",
          .class_prefix = "BigBird",
          .names = {.prefixes = kBigBird, .renames = kBigBirdNames},
          .encoder = bert};
}

}  // namespace longformer::models
