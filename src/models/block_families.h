// BigBird, BlockBERT and the Sparse Transformer as an encoder, whose tokens see some of all tokens
// (docs/spec/other-attentions.md#h1, #h2-encoder, #h5).
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

/// Likewise those of a Sparse Transformer.
EncoderTraits with_sparse_keys(EncoderTraits traits);

/// The blocks of config.json; none where everything is seen.
std::optional<BlockRecipe> block_recipe(const formats::ConfigReader& config);

}  // namespace longformer::models
