// BigBird, whose tokens see blocks (docs/spec/other-attentions.md#h1).
#pragma once

#include <optional>

#include "models/registry.h"

namespace longformer::models {

/// BERT's traits become those of BigBird.
Family big_bird(EncoderTraits bert);

/// The blocks of config.json; none where everything is seen.
std::optional<BlockRecipe> block_recipe(const formats::ConfigReader& config);

}  // namespace longformer::models
