#include "models/reformer_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "core/error.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;
using formats::shown;

constexpr Index kMostBuckets = Index{1} << 20, kMostHashes = 64;
constexpr Index kMostChunksAside = 64;

std::vector<ChunkLayer> layers_of(const ConfigReader& config, const nlohmann::ordered_json& list) {
  std::vector<ChunkLayer> layers;
  for (const auto& name : list) {
    const bool is_known = name == "local" || name == "lsh";
    require(is_known, "{}: attn_layers: expected local or lsh, found {}", config.name(),
            shown(name));
    layers.push_back(name == "lsh" ? ChunkLayer::lsh : ChunkLayer::local);
  }
  return layers;
}

ReformerConfig::Chunks read_chunks(const ConfigReader& config, const std::string& kind) {
  return {.length = config.integer(kind + "_attn_chunk_length", 64, 1, kMaxPositions),
          .before = config.integer(kind + "_num_chunks_before", 1, 0, kMostChunksAside),
          .after = config.integer(kind + "_num_chunks_after", 0, 0, kMostChunksAside)};
}

Index bucket_number(const ConfigReader& config, const nlohmann::ordered_json& value) {
  const bool good = value.is_number_integer() && value >= 2 &&
                    value <= std::int64_t{kMostBuckets} && value.get<Index>() % 2 == 0;
  require(good,
          "{}: num_buckets: expected even numbers from 2 to {}, as a direction and its opposite "
          "are two buckets, found {}",
          config.name(), kMostBuckets, shown(value));
  return value.get<Index>();
}

std::vector<Index> read_buckets(const ConfigReader& config) {
  if (!config.has("num_buckets")) return {};
  const auto& value = config.at("num_buckets");
  if (!value.is_array()) return {bucket_number(config, value)};
  require(value.size() == 1 || value.size() == 2,
          "{}: num_buckets: expected null, a number or two factors, found {}", config.name(),
          shown(value));
  std::vector<Index> factors;
  for (const auto& factor : value) factors.push_back(bucket_number(config, factor));
  const Index all = std::accumulate(factors.begin(), factors.end(), Index{1}, std::multiplies<>());
  require(all <= kMostBuckets, "{}: num_buckets: expected at most {} together, found {}",
          config.name(), kMostBuckets, all);
  return factors;
}

void require_nothing_behind(const ConfigReader& config, const char* kind, Index after) {
  require(after == 0,
          "{}: {}_num_chunks_after: expected 0, as no token sees those behind it, found {}",
          config.name(), kind, after);
}

/// All but the layers.
ReformerConfig read_chunks_and_hashes(const ConfigReader& config) {
  ReformerConfig reformer;
  reformer.local = read_chunks(config, "local");
  reformer.lsh = read_chunks(config, "lsh");
  reformer.hashes = config.integer("num_hashes", 1, 1, kMostHashes);
  reformer.buckets = read_buckets(config);
  constexpr Index kMostSeed = (Index{1} << 32) - 1;
  reformer.hash_seed = static_cast<std::uint64_t>(config.integer("hash_seed", 0, 0, kMostSeed));
  return reformer;
}

std::array<Index, 2> pair_of(const ConfigReader& config, const std::string& key, Index most,
                             std::array<Index, 2> otherwise) {
  if (!config.has(key)) return otherwise;
  const auto& list = config.at(key);
  const auto is_good = [most](const auto& value) {
    return value.is_number_integer() && value >= 1 && value <= std::int64_t{most};
  };
  require(list.is_array() && list.size() == 2 && std::all_of(list.begin(), list.end(), is_good),
          "{}: {}: expected two numbers from 1 to {}, found {}", config.name(), key, most,
          shown(list));
  return {list[0].template get<Index>(), list[1].template get<Index>()};
}

}  // namespace

bool ReformerConfig::has(ChunkLayer kind) const {
  return std::find(layers.begin(), layers.end(), kind) != layers.end();
}

Index ReformerConfig::padded(Index tokens) const {
  Index shortest = 0, whole = 1;
  for (const ChunkLayer kind : {ChunkLayer::local, ChunkLayer::lsh}) {
    if (!has(kind)) continue;
    const Index length = kind == ChunkLayer::lsh ? lsh.length : local.length;
    shortest = shortest == 0 ? length : std::min(shortest, length);
    whole = std::lcm(whole, length);
  }
  return tokens <= shortest ? tokens : (tokens + whole - 1) / whole * whole;
}

std::vector<Index> ReformerConfig::buckets_for(Index padded) const {
  if (!buckets.empty()) return buckets;
  const auto chunks = static_cast<std::uint64_t>(2 * std::max<Index>(1, padded / lsh.length));
  const int power = static_cast<int>(std::bit_width(chunks)) - 1;
  const Index number = Index{1} << power;
  const Index most_chunks = longest / lsh.length;
  const auto root = static_cast<Index>(std::sqrt(static_cast<double>(most_chunks)));
  if (number <= 2 * std::max(root, lsh.length)) return {number};
  return {Index{1} << (power / 2), Index{1} << (power - power / 2)};
}

std::string description_of(const ReformerConfig& reformer) {
  const auto around = [](const ReformerConfig::Chunks& chunks) {
    return fmt::format("{} with {} before and {} behind", chunks.length, chunks.before,
                       chunks.after);
  };
  std::vector<std::string> kinds;
  if (reformer.has(ChunkLayer::local)) {
    kinds.push_back("chunks of neighbours: " + around(reformer.local));
  }
  if (reformer.has(ChunkLayer::lsh)) {
    kinds.push_back(fmt::format("chunks sorted by hashes (rounds {}, seed {}): {}", reformer.hashes,
                                reformer.hash_seed, around(reformer.lsh)));
  }
  return fmt::format("{}", fmt::join(kinds, "; "));
}

ReformerConfig read_reformer(const ConfigReader& config, Index layers) {
  config.check_present("attn_layers");
  const auto& list = config.at("attn_layers");
  require(list.is_array() && std::ssize(list) == layers,
          "{}: attn_layers: expected a list of {} names, one for each layer, found {}",
          config.name(), layers, shown(list));
  ReformerConfig reformer = read_chunks_and_hashes(config);
  reformer.layers = layers_of(config, list);
  require_nothing_behind(config, "local", reformer.local.after);
  require_nothing_behind(config, "lsh", reformer.lsh.after);
  return reformer;
}

ReformerConfig read_reformer_encoder(const ConfigReader& config) {
  ReformerConfig reformer = read_chunks_and_hashes(config);
  const nlohmann::ordered_json usual = {"local", "lsh", "local", "lsh", "local", "lsh"};
  const auto& list = config.has("attn_layers") ? config.at("attn_layers") : usual;
  require(list.is_array() && !list.empty() && std::ssize(list) <= kMaxLayers,
          "{}: attn_layers: expected a list of 1 to {} names, one for each layer, found {}",
          config.name(), kMaxLayers, shown(list));
  reformer.layers = layers_of(config, list);
  return reformer;
}

void read_axial(const ConfigReader& config, Index width, ReformerConfig& reformer) {
  reformer.axial_shape = pair_of(config, "axial_pos_shape", kMaxPositions, {64, 64});
  reformer.axial_sizes =
      pair_of(config, "axial_pos_embds_dim", kMaxHidden, {width / 4, width - width / 4});
  const auto& [rows, columns] = reformer.axial_shape;
  require(rows * columns <= kMaxPositions,
          "{}: axial_pos_shape: expected at most {} positions, found {} × {} = {}", config.name(),
          kMaxPositions, rows, columns, rows * columns);
  const auto& [first, second] = reformer.axial_sizes;
  require(first + second == width,
          "{}: axial_pos_embds_dim: expected two numbers whose sum is the hidden_size of {}, found "
          "{} + {} = {}",
          config.name(), width, first, second, first + second);
}

void write_reformer(const ReformerConfig& reformer, bool is_axial, nlohmann::ordered_json& json) {
  json["attn_layers"] = nlohmann::ordered_json::array();
  for (const ChunkLayer layer : reformer.layers) {
    json["attn_layers"].push_back(layer == ChunkLayer::lsh ? "lsh" : "local");
  }
  json["local_attn_chunk_length"] = reformer.local.length;
  json["local_num_chunks_before"] = reformer.local.before;
  json["lsh_attn_chunk_length"] = reformer.lsh.length;
  json["lsh_num_chunks_before"] = reformer.lsh.before;
  json["num_hashes"] = reformer.hashes;
  if (reformer.buckets.size() == 1) {
    json["num_buckets"] = reformer.buckets[0];
  } else if (!reformer.buckets.empty()) {
    json["num_buckets"] = reformer.buckets;
  }
  json["hash_seed"] = reformer.hash_seed;
  json["lsh_attention_dropout"] = reformer.lsh_dropout;
  if (!is_axial) return;
  json["axial_pos_shape"] = reformer.axial_shape;
  json["axial_pos_embds_dim"] = reformer.axial_sizes;
}

}  // namespace longformer::models
