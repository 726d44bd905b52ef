#include "tasks/search/best_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/vector_scan.h"

namespace longformer::tasks {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

BestRows::BestRows(std::vector<float> bounds, Exact exact)
    : bounds_(std::move(bounds)), exact_(std::move(exact)) {
  for (float& bound : bounds_) {
    if (std::isnan(bound)) bound = kInfinity;
  }
}

bool BestRows::goes_first(const Scored& a, const Scored& b) {
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

void BestRows::look_at(const std::vector<Index>& rows) {
  if (rows.empty()) return;
  const std::vector<float> scores = exact_(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    scored_.push_back({std::isnan(scores[i]) ? -kInfinity : scores[i], rows[i]});
    bounds_[at(rows[i])] = -kInfinity;
  }
}

/// Rows that were not looked at, with bounds of at least `least`: so many of the highest.
std::vector<Index> BestRows::highest(Index count, float least) const {
  std::vector<Index> rows = kernels::best(bounds_, count);
  std::erase_if(
      rows, [&](Index row) { return bounds_[at(row)] == -kInfinity || bounds_[at(row)] < least; });
  return rows;
}

std::vector<Index> BestRows::next(Index count) {
  constexpr Index kRivals = 1000;
  count = std::clamp<Index>(count, 0, std::ssize(bounds_));
  if (count == 0) return {};
  // Those that are likely to be the best, and then those that may be better than one of them.
  look_at(highest(std::max<Index>(count - std::ssize(scored_), 0), -kInfinity));
  const Index found = std::min(count, std::ssize(scored_));
  if (found == 0) return {};
  std::nth_element(scored_.begin(), scored_.begin() + (found - 1), scored_.end(), goes_first);
  if (found == count) look_at(highest(kRivals + 2 * count, scored_[at(count - 1)].score));
  std::partial_sort(scored_.begin(), scored_.begin() + found, scored_.end(), goes_first);
  std::vector<Index> rows;
  for (Index i = 0; i < found; ++i) rows.push_back(scored_[at(i)].row);
  scored_.erase(scored_.begin(), scored_.begin() + found);
  return rows;
}

}  // namespace longformer::tasks
