#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "longformer/text.h"

namespace longformer {
namespace {

/// Value below which `share` of the sorted numbers lie, interpolated between neighbours.
double percentile(const std::vector<std::int64_t>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = position - static_cast<double>(below);
  return (1 - weight) * static_cast<double>(sorted[below]) +
         weight * static_cast<double>(sorted[above]);
}

double share_over(const std::vector<std::int64_t>& sorted, std::int64_t limit) {
  const auto over = sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), limit);
  return static_cast<double>(over) / static_cast<double>(sorted.size());
}

}  // namespace

TokenStatistics token_statistics(std::vector<std::int64_t> lengths) {
  require(!lengths.empty(), "no document could be read, so there are no lengths to show");
  std::sort(lengths.begin(), lengths.end());
  const auto documents = static_cast<std::int64_t>(lengths.size());
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  return {.documents = documents,
          .tokens = tokens,
          .mean = static_cast<double>(tokens) / static_cast<double>(documents),
          .median = percentile(lengths, 0.5),
          .p95 = percentile(lengths, 0.95),
          .max = lengths.back(),
          .share_over_512 = share_over(lengths, 512),
          .share_over_4096 = share_over(lengths, 4096)};
}

}  // namespace longformer
