#include "models/block_families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "models/attention/attention.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

constexpr const char* kBlockHeadsKey = "block_heads";
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
  recipe.blocks = block_recipe(config);
}

/// A sixth of the heads for each block that is not a token's own, as in the paper: 10 and 2 of 12,
/// or 8, 2 and 2.
std::vector<Index> usual_heads(Index blocks, Index heads) {
  std::vector<Index> of_shift(static_cast<std::size_t>(blocks), std::max<Index>(1, heads / 6));
  of_shift[0] = heads - std::accumulate(of_shift.begin() + 1, of_shift.end(), Index{0});
  return of_shift;
}

void read_blockwise(const formats::ConfigReader& config, EncoderConfig& model) {
  ShiftedBlockRecipe blocks = {.blocks = config.integer("blocks", 2, 1, kMaxHidden)};
  if (config.has(kBlockHeadsKey)) {
    const auto& value = config.at(kBlockHeadsKey);
    const bool fits = value.is_array() && std::ssize(value) == blocks.blocks;
    require(fits, ConfigKey{config.name(), kBlockHeadsKey},
            "expected a list of {} numbers, one for each block, found {}", blocks.blocks,
            formats::shown(value));
    for (const auto& heads : value) {
      require(heads.is_number_integer() && heads >= 0 && heads <= model.heads,
              ConfigKey{config.name(), kBlockHeadsKey},
              "expected integers from 0 to the {} heads, found {}", model.heads,
              formats::shown(heads));
      blocks.heads_of_shift.push_back(heads.get<Index>());
    }
    const Index sum =
        std::accumulate(blocks.heads_of_shift.begin(), blocks.heads_of_shift.end(), Index{0});
    require(sum == model.heads, ConfigKey{config.name(), kBlockHeadsKey},
            "expected the {} heads in sum, found {}", model.heads, sum);
  } else {
    require(blocks.blocks <= model.heads, ConfigKey{config.name(), "blocks"},
            "expected at most as many as the {} heads, unless those of each are given, found {}",
            model.heads, blocks.blocks);
    blocks.heads_of_shift = usual_heads(blocks.blocks, model.heads);
  }
  model.recipe.shifted_blocks = std::move(blocks);
}

}  // namespace

EncoderTraits with_shifted_blocks(EncoderTraits traits) {
  traits.attention = blockwise_attention;
  traits.read = read_blockwise;
  return traits;
}

void write_shifted_blocks(const ShiftedBlockRecipe& blocks, nlohmann::ordered_json& json) {
  json["blocks"] = blocks.blocks;
  json[kBlockHeadsKey] = blocks.heads_of_shift;
}

EncoderTraits with_sparse_keys(EncoderTraits traits) {
  traits.attention = sparse_attention;
  traits.read = [](const formats::ConfigReader& config, EncoderConfig& model) {
    model.recipe.sparse = read_sparse(config, model.heads);
  };
  return traits;
}

std::optional<BlockRecipe> block_recipe(const formats::ConfigReader& config) {
  constexpr std::array<std::string_view, 2> kTypes = {"block_sparse", "original_full"};
  constexpr std::array<std::string_view, 2> kRandomBlocks = {"seeded", "none"};
  const bool is_dense = config.choice("attention_type", kTypes, "block_sparse") == 1;
  const BlockRecipe blocks = {
      .size = config.integer("block_size", 64, 1, kMaxPositions),
      .random = config.integer("num_random_blocks", 3, 0, kMaxLayers),
      .draws_in_training = config.choice(kRandomBlocksKey, kRandomBlocks, "seeded") == 0};
  return is_dense ? std::nullopt : std::optional(blocks);
}

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
