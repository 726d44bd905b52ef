#include "models/sparse_config.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "core/error.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;

constexpr Index kMaxStride = Index{1} << 20;
constexpr std::array<std::string_view, 2> kPatterns = {"strided", "fixed"};
constexpr std::array<std::string_view, 3> kIntegrations = {"heads", "interleaved", "merged"};

bool is_fixed(const SparseConfig& sparse) { return sparse.pattern == SparsePattern::fixed; }

/// Sets of columns that a block has.
Index summaries(const SparseConfig& sparse) {
  return is_fixed(sparse) && sparse.summary_by_head ? sparse.stride / sparse.summary : 1;
}

/// Heads first … end − 1 that see far keys, together where their columns are the same.
void add_far(const SparseConfig& sparse, Index first, Index end, bool sees_near,
             std::vector<SparseHeads>& all) {
  const Index sets = std::min(summaries(sparse), end - first);
  for (Index set = 0; set < sets; ++set) {
    SparseHeads alike = {.heads = {}, .sees_near = sees_near, .sees_far = true};
    if (is_fixed(sparse)) alike.column = sparse.stride - (set + 1) * sparse.summary;
    for (Index head = first + set; head < end; head += sets) alike.heads.push_back(head);
    all.push_back(std::move(alike));
  }
}

SparseHeads near_heads(Index count) {
  SparseHeads near = {.heads = std::vector<Index>(at(count)), .sees_near = true};
  std::iota(near.heads.begin(), near.heads.end(), 0);
  return near;
}

}  // namespace

std::vector<SparseHeads> sparse_heads(const SparseConfig& sparse, Index layer, Index heads) {
  std::vector<SparseHeads> all;
  switch (sparse.integration) {
    case Integration::merged:
      add_far(sparse, 0, heads, true, all);
      break;
    case Integration::interleaved:
      if (layer % 2 == 0) return {near_heads(heads)};
      add_far(sparse, 0, heads, false, all);
      break;
    case Integration::heads:
      all.push_back(near_heads((heads + 1) / 2));
      add_far(sparse, (heads + 1) / 2, heads, false, all);
      break;
  }
  return all;
}

SparseConfig read_sparse(const ConfigReader& config, Index heads) {
  SparseConfig sparse;
  require(config.has("pattern"), ConfigKey{config.name(), "pattern"},
          "expected strided or fixed, found none");
  sparse.pattern = static_cast<SparsePattern>(config.choice("pattern", kPatterns, ""));
  const std::string_view pattern = kPatterns[static_cast<std::size_t>(sparse.pattern)];
  for (const char* key : {"windows", "dilations", "dilated_heads"}) {
    require(!config.has(key), ConfigKey{config.name(), key},
            "expected none beside the pattern {}, which has a stride", pattern);
  }
  require(config.has("stride"), ConfigKey{config.name(), "stride"},
          "expected a number from 2 to {}, found none", kMaxStride);
  sparse.stride = config.integer("stride", 0, 2, kMaxStride);
  if (is_fixed(sparse)) {
    const Index usual = std::max<Index>(1, sparse.stride / 4);
    sparse.summary = config.integer("summary", usual, 1, kMaxStride);
    require(sparse.summary <= sparse.stride, ConfigKey{config.name(), "summary"},
            "expected at most the stride of {}, found {}", sparse.stride, sparse.summary);
    sparse.summary_by_head = config.boolean("summary_by_head", true);
  } else {
    for (const char* key : {"summary", "summary_by_head"}) {
      require(!config.has(key), ConfigKey{config.name(), key},
              "expected none with the pattern strided");
    }
  }
  sparse.integration =
      static_cast<Integration>(config.choice("integration", kIntegrations, "merged"));
  require(sparse.integration != Integration::heads || heads >= 2,
          ConfigKey{config.name(), "integration"},
          "expected interleaved or merged with {} head, found heads", heads);
  return sparse;
}

void write_sparse(const SparseConfig& sparse, nlohmann::ordered_json& json) {
  json["pattern"] = kPatterns[static_cast<std::size_t>(sparse.pattern)];
  json["stride"] = sparse.stride;
  if (is_fixed(sparse)) {
    json["summary"] = sparse.summary;
    json["summary_by_head"] = sparse.summary_by_head;
  }
  json["integration"] = kIntegrations[static_cast<std::size_t>(sparse.integration)];
}

std::string description_of(const SparseConfig& sparse, bool looks_both_ways) {
  const Index sets = summaries(sparse);
  const std::string strided =
      looks_both_ways
          ? fmt::format("strided: tokens less than {} away, and every {}th on both sides",
                        sparse.stride, sparse.stride)
          : fmt::format("strided: the last {} tokens, and every {}th before", sparse.stride,
                        sparse.stride);
  const std::string keys =
      is_fixed(sparse)
          ? fmt::format("fixed: a block of {} tokens, and of each {} {} tokens{}", sparse.stride,
                        looks_both_ways ? "block" : "block before it", sparse.summary,
                        sets > 1 ? fmt::format(", of which there are {} choices for heads", sets)
                                 : ", the last ones")
          : strided;
  constexpr std::array<std::string_view, 3> kSeen = {
      "each seen by half of the heads", "each seen by every second layer", "seen in one softmax"};
  return fmt::format("{}; {}", keys, kSeen[static_cast<std::size_t>(sparse.integration)]);
}

}  // namespace longformer::models
