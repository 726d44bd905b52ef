#include "models/routing_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "models/config_limits.h"
#include "models/rates.h"

namespace longformer::models {
namespace {

constexpr Index kMostClusters = Index{1} << 16;
constexpr std::array<std::string_view, 2> kNorms = {"layer", "unit"};

}  // namespace

Index RoutingConfig::members(Index n) const {
  return std::min(n, size > 0 ? size : (n + clusters - 1) / clusters);
}

RoutingConfig read_routing(const formats::ConfigReader& config, Index heads) {
  RoutingConfig routing;
  routing.clusters = config.integer("clusters", routing.clusters, 1, kMostClusters);
  routing.size = config.integer("cluster_size", 0, 0, kMaxPositions);
  routing.local_heads = config.integer("local_heads", heads / 2, 0, heads);
  require(routing.local_heads < heads,
          "{}: local_heads: expected fewer than the {} heads, as the others are routed, found {}",
          config.name(), heads, routing.local_heads);
  routing.window = config.integer("local_window", routing.window, 1, kMaxPositions);
  routing.norm = static_cast<RoutingNorm>(config.choice("routing_norm", kNorms, "layer"));
  routing.sees_itself = config.boolean("routing_self", false);
  routing.decay = rate_of(config, "centroid_decay", routing.decay);
  routing.commitment = config.number("commitment_loss", routing.commitment);
  require(routing.commitment >= 0 && routing.commitment <= 1,
          "{}: commitment_loss: expected a number from 0 to 1, found {}", config.name(),
          routing.commitment);
  return routing;
}

void write_routing(const RoutingConfig& routing, nlohmann::ordered_json& json) {
  json["clusters"] = routing.clusters;
  json["cluster_size"] = routing.size;
  json["local_heads"] = routing.local_heads;
  json["local_window"] = routing.window;
  json["routing_norm"] = kNorms[static_cast<std::size_t>(routing.norm)];
  json["routing_self"] = routing.sees_itself;
  json["centroid_decay"] = routing.decay;
  json["commitment_loss"] = routing.commitment;
}

std::string description_of(const RoutingConfig& routing, Index heads) {
  const std::string size = routing.size > 0 ? fmt::format("{} tokens", routing.size)
                                            : fmt::format("1/{} of the text", routing.clusters);
  const Index routed = heads - routing.local_heads;
  std::string text = fmt::format("{} clusters of {} in {} head{}", routing.clusters, size, routed,
                                 routed == 1 ? "" : "s");
  if (routing.local_heads > 0) {
    text += fmt::format(", the last {} tokens in {}", routing.window, routing.local_heads);
  }
  return text;
}

}  // namespace longformer::models
