// Tables of positions that are added to tokens: learned ones, and sines and cosines
// (docs/spec/led-and-generation.md#b15).
#pragma once

#include <string>

#include "models/layer_recipe.h"
#include "models/layers.h"

namespace longformer::models {

/// The table `name` [rows, width], fp32 where it is computed. `padding` is a learned row that gets
/// no gradient; −1 is none.
Tensor position_table(const LayerSource& source, PositionRows kind, const std::string& name,
                      LinearShape shape, Index padding = -1);

}  // namespace longformer::models
