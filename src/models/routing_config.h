// Clusters of a Routing Transformer in config.json (arXiv 2003.05997;
// docs/spec/other-attentions.md#routing).
#pragma once

#include <string>

#include "core/dtype.h"
#include "formats/json.h"

namespace longformer::models {

/// How a head's rows are normed before they are routed.
enum class RoutingNorm {
  layer,  ///< LayerNorm without weights, of queries and keys (the paper)
  unit    ///< keys get the length of 1, queries stay (routing-transformer of the Python index)
};

struct RoutingConfig {
  /// k: centroids of a head.
  Index clusters = 16;
  /// w: tokens of a cluster; 0: n / k of a text of n tokens, rounded up.
  Index size = 0;
  /// The first so many heads see a window instead.
  Index local_heads = 0;
  /// Tokens before its own one that a token sees there.
  Index window = 256;
  RoutingNorm norm = RoutingNorm::layer;
  /// A token sees itself; else only where its cluster has no earlier token.
  bool sees_itself = false;
  /// λ: the part of a centroid that stays in a step of a training.
  double decay = 0.999;
  /// The loss gets this times the mean squared distance of tokens from their centroids.
  double commitment = 1e-4;

  /// Tokens of a cluster in a text of n.
  Index members(Index n) const;
  /// Clusters that a text of n tokens has: one where a cluster holds it whole.
  Index clusters_of(Index n) const { return members(n) < n ? clusters : 1; }
};

/// Throws Error that names file, key, expected and found.
RoutingConfig read_routing(const formats::ConfigReader& config, Index heads);
void write_routing(const RoutingConfig& routing, nlohmann::ordered_json& json);
/// "4 heads see …", for people.
std::string description_of(const RoutingConfig& routing, Index heads);

}  // namespace longformer::models
