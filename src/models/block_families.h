// BigBird and BlockBERT, whose tokens see blocks (docs/spec/other-attentions.md#h1, #h5).
#pragma once

#include <optional>

#include "models/registry.h"

namespace longformer::models {

/// A key of ours in config.json: whether blocks are drawn while training ("seeded") or not
/// ("none").
inline constexpr const char* kRandomBlocksKey = "random_blocks";

/// BERT's traits become those of BigBird.
Family big_bird(EncoderTraits bert);

/// The traits of BERT or RoBERTa become those of a BlockBERT, a format of our own
/// (docs/spec/file-formats.md#o2).
EncoderTraits with_shifted_blocks(EncoderTraits traits);

/// The keys that say its blocks.
void write_shifted_blocks(const ShiftedBlockRecipe& blocks, nlohmann::ordered_json& json);

/// The blocks of config.json; none where everything is seen.
std::optional<BlockRecipe> block_recipe(const formats::ConfigReader& config);

}  // namespace longformer::models
