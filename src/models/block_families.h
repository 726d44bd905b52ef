// BigBird, whose tokens see blocks (docs/spec/other-attentions.md#h1).
#pragma once

#include "models/registry.h"

namespace longformer::models {

/// BERT's traits become those of BigBird.
Family big_bird(EncoderTraits bert);

}  // namespace longformer::models
