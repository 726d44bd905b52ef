// BigBird, whose tokens see blocks (docs/spec/other-attentions.md#h1).
#pragma once

#include "models/registry.h"

namespace longformer::models {

/// A key of ours in config.json: whether blocks are drawn while training ("seeded") or not
/// ("none").
inline constexpr const char* kRandomBlocksKey = "random_blocks";

/// BERT's traits become those of BigBird.
Family big_bird(EncoderTraits bert);

}  // namespace longformer::models
