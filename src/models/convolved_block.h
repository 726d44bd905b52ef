// A layer beside which a convolution reads the same rows
// (docs/spec/modern-encoders.md#disentangled).
#pragma once

#include <memory>

#include "models/blocks.h"

namespace longformer::models {

/// LayerNorm(layer(x) + activation(dropout(convolution(x)))) with the first layer of an encoder.
/// Masked rows are zeros for the convolution.
std::unique_ptr<Block> convolved_block(const EncoderConfig& config, const LayerSource& source,
                                       std::unique_ptr<Block> layer);

}  // namespace longformer::models
