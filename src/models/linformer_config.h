// Settings of a Linformer's projections in config.json (docs/spec/low-rank-and-kernels.md#e2 to
// #e4).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "models/weights.h"

namespace longformer::models {

/// How many rows become few.
enum class Projection { linear, mean, largest, convolution, full_convolution };

/// Who has projections of its own: nobody (one for all layers), every layer, keys and values of
/// every layer, or both of every head.
enum class ProjectionSharing { layerwise, key_value, headwise, none };

/// How projections begin.
enum class ProjectionStart { xavier, pooled, gaussian, orthogonal };

struct LinformerConfig {
  Projection projection = Projection::linear;
  ProjectionSharing sharing = ProjectionSharing::layerwise;
  /// k of each layer.
  std::vector<Index> lengths = {};
  ProjectionStart start = ProjectionStart::xavier;
  bool is_frozen = false;
  /// N, the most tokens of a document.
  Index most = 0;

  bool is_linear() const { return projection == Projection::linear; }
  bool has_weights() const {
    return projection != Projection::mean && projection != Projection::largest;
  }
  /// Keys and values are made with weights of their own.
  bool has_two_sides() const {
    return has_weights() &&
           (sharing == ProjectionSharing::headwise || sharing == ProjectionSharing::none);
  }
  /// Rows of a window, where windows become slots.
  Index window(Index layer) const { return most / lengths[at(layer)]; }
};

/// Throws Error that names file, key, expected and found.
LinformerConfig read_linformer(const formats::ConfigReader& config, Index layers, Index most);
/// "256 rows for all tokens (linear, layerwise)".
std::string description_of(const LinformerConfig& linformer);
void write_linformer(const LinformerConfig& linformer, nlohmann::ordered_json& json);

/// E of keys ("key") or F of values ("value") of a layer: [k, N], [H, k, N], or the weights [D, s]
/// or [D, D·s] of a convolution. F is E where they are shared.
Tensor projection_weights(const LinformerConfig& linformer, const Weights& weights, Index layer,
                          Index heads, Index width, const std::string& part);

}  // namespace longformer::models
