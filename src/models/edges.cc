#include "models/edges.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "models/config.h"

namespace longformer::models {

std::string expected_edge_kinds(std::span<const std::string> kinds) {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const bool is_known = std::ranges::count(kEdgeKinds, kinds[i]) > 0;
    const auto before = kinds.first(i);
    if (is_known && std::count(before.begin(), before.end(), kinds[i]) == 0) continue;
    return fmt::format("{}, each at most once",
                       fmt::join(kEdgeKinds.begin(), kEdgeKinds.end(), " and "));
  }
  return {};
}

bool can_have_edges(const EncoderConfig& config) {
  return config.has_global_projections() && !config.decoder;
}

void read_edges(const formats::ConfigReader& reader, EncoderConfig& config) {
  if (!can_have_edges(config) || !reader.has(kEdgesKey)) return;
  const auto& value = reader.at(kEdgesKey);
  const bool is_list = value.is_array() && std::all_of(value.begin(), value.end(),
                                                       [](const auto& x) { return x.is_string(); });
  require(is_list, "{}: {}: expected a list of names, found {}", reader.name(), kEdgesKey,
          formats::shown(value));
  config.edges = value.template get<std::vector<std::string>>();
  const std::string expected = expected_edge_kinds(config.edges);
  require(expected.empty(), "{}: {}: expected {}, found {}", reader.name(), kEdgesKey, expected,
          formats::shown(value));
  for (std::size_t layer = 0; layer < config.patterns.size() && !config.edges.empty(); ++layer) {
    const auto& heads = config.patterns[layer];
    const bool are_alike = std::all_of(heads.begin(), heads.end(), [&](const HeadPattern& head) {
      return head.dilation == heads[0].dilation;
    });
    require(are_alike,
            "{}: attention_dilation: expected one number for all heads of layer {} beside {}, "
            "found several",
            reader.name(), layer, kEdgesKey);
  }
}

std::shared_ptr<const kernels::EdgeRows> edge_lists(std::vector<Edge> edges, Index rows) {
  std::sort(edges.begin(), edges.end());
  const auto ends_alike = [](const Edge& a, const Edge& b) {
    return a.query == b.query && a.key == b.key;
  };
  edges.erase(std::unique(edges.begin(), edges.end(), ends_alike), edges.end());
  kernels::EdgeRows lists;
  lists.begin.assign(at(rows + 1), 0);
  for (const Edge& edge : edges) {
    ++lists.begin[at(edge.query + 1)];
    lists.key.push_back(edge.key);
    lists.label.push_back(edge.kind);
  }
  for (std::size_t row = 1; row < lists.begin.size(); ++row) {
    lists.begin[row] += lists.begin[row - 1];
  }
  return std::make_shared<const kernels::EdgeRows>(std::move(lists));
}

std::shared_ptr<const kernels::EdgeRows> edges_beyond_windows(const kernels::EdgeRows& edges,
                                                              const kernels::HeadPattern& window,
                                                              const kernels::AttentionRows& rows) {
  kernels::EdgeRows beyond;
  beyond.begin.reserve(edges.begin.size());
  for (const kernels::AttentionDocument& document : rows.documents) {
    for (Index query = 0; query < document.query_count; ++query) {
      const auto [first, end] = window.window(query);
      const std::size_t row = at(document.query_begin + query);
      for (Index edge = edges.begin[row]; edge < edges.begin[row + 1]; ++edge) {
        const Index key = edges.key[at(edge)] - document.key_begin;
        const Index place = key / window.dilation;
        const bool is_in_step = (key - query) % window.dilation == 0;
        if (is_in_step && place >= first && place < end) continue;
        beyond.key.push_back(edges.key[at(edge)]);
        beyond.label.push_back(edges.label[at(edge)]);
      }
      beyond.begin.push_back(beyond.edges());
    }
  }
  return std::make_shared<const kernels::EdgeRows>(std::move(beyond));
}

}  // namespace longformer::models
