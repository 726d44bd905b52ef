// The layers of an encoder as data, which a family fills in from its config.json
// (docs/spec/modern-encoders.md#layers).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "models/rotary_config.h"
#include "ops/feed_forward.h"

namespace longformer::models {

/// The defaults are those of BERT.
struct LayerRecipe {
  /// Norms come before the sub-layers, whose results are added; else behind the sums.
  bool norm_first = false;
  /// The attention of the first layer reads the embeddings as they are: their norm is its own.
  bool first_norm_is_identity = false;
  /// A norm behind the last layer.
  bool has_final_norm = false;
  /// Norms add a bias, and take the mean off their rows: else they are RMS norms.
  bool norm_bias = true, centres_norms = true;
  /// Projections of attention, and the layers of the feed-forward block, have biases.
  bool attention_bias = true, up_bias = true, down_bias = true;
  /// Query, key and value are one tensor.
  bool packs_projections = false;
  /// The feed-forward block is gated; its activation is that of the configuration.
  bool is_gated = false;
  /// Whether the second half of the wide rows is activated, not the first, and whether the halves
  /// are two tensors, "intermediate.first" and "intermediate.second".
  bool activates_second = false, splits_gate = false;
  /// A norm behind the embeddings.
  bool embeds_with_norm = true;
  /// Tables of positions, and of token types, are added to the embeddings.
  bool has_position_table = true, has_type_table = true;
  /// Rotary positions of the kinds of layers, and the kind of each layer; empty for none.
  std::vector<RotaryConfig> rotations = {};
  std::vector<std::size_t> rotation_of_layer = {};
  /// Names of the kinds in rope_parameters; empty where that is one object for all layers.
  std::vector<std::string_view> rotation_names = {};
  /// Dropout behind the output projection of attention; absent: that of sub-layers.
  std::optional<double> attention_output_dropout = std::nullopt;
  /// Dropout of the result of the feed-forward block; absent: that of sub-layers.
  std::optional<double> feed_forward_dropout = std::nullopt;
};

/// The layer that heads have before their last one, where config.json describes it.
struct HeadRecipe {
  std::optional<kernels::Activation> activation = std::nullopt;
  bool has_bias = true;
  /// Documents are the mean of their tokens, not their first token.
  bool pools_mean = false;
  /// The decoder of a masked-LM head adds a bias.
  bool decoder_bias = true;
};

}  // namespace longformer::models
