// Encoders with a decoder: LED and BART, and those whose norms come before the sub-layers
// (docs/spec/led-and-generation.md#b1, #b15).
#pragma once

#include "models/registry.h"

namespace longformer::models {

Family led_family();
Family bart_family();
/// BigBird's blocks in the encoder.
Family bigbird_pegasus_family();
Family pegasus_family();
/// Blocks and global tokens in the encoder.
Family pegasus_x_family();
/// Texts begin with a language.
Family mbart_family();

}  // namespace longformer::models
