// Edges between tokens of a document, which see each other along them beside their windows
// (docs/spec/other-attentions.md#edges): kinds of edges, and lists of them for a batch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "formats/json.h"
#include "kernels/attention/edges.h"
#include "kernels/attention/spec.h"

namespace longformer::models {

struct EncoderConfig;

/// The token `query` sees the token `key`; the kind is its number in EncoderConfig::edges.
struct Edge {
  std::int32_t query = 0, key = 0, kind = 0;
  bool operator==(const Edge&) const = default;
  bool operator<(const Edge& other) const {
    return std::tie(query, key, kind) < std::tie(other.query, other.key, other.kind);
  }
};

/// Kinds by rules that a task has: equal names, and titles with what is said under them.
inline constexpr std::string_view kNameEdges = "names", kTitleEdges = "titles";
inline constexpr std::array kEdgeKinds = {kNameEdges, kTitleEdges};

/// Key of config.json: a list of kinds.
inline constexpr const char* kEdgesKey = "edges";
/// How names of tables of labels end: [H, kinds, d], one for each layer.
inline constexpr std::string_view kEdgeTable = ".edge_keys";

/// "names and titles, each at most once" where a list has anything else; else empty.
std::string expected_edge_kinds(std::span<const std::string> kinds);

/// Whether tokens of such a model can have edges: those of a Longformer without decoder.
bool can_have_edges(const EncoderConfig& config);

/// Reads the key into the configuration, which has its patterns. Throws Error.
void read_edges(const formats::ConfigReader& reader, EncoderConfig& config);

/// Lists of the edges of a batch of so many rows. Of several edges between two tokens that of the
/// first kind counts.
std::shared_ptr<const kernels::EdgeRows> edge_lists(std::vector<Edge> edges, Index rows);

/// Edges whose keys are not in the windows of their queries: no key counts twice.
std::shared_ptr<const kernels::EdgeRows> edges_beyond_windows(const kernels::EdgeRows& edges,
                                                              const kernels::HeadPattern& window,
                                                              const kernels::AttentionRows& rows);

}  // namespace longformer::models
