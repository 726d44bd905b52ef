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

std::vector<Index> BestRows::next(Index count) {
  // Those that are likely to be the best, and then all that may be better than one of them.
  const Index missing = std::max<Index>(count - std::ssize(scored_), 0);
  std::vector<Index> likely = kernels::best(bounds_, missing);
  std::erase_if(likely, [this](Index row) { return bounds_[at(row)] == -kInfinity; });
  look_at(likely);
  const Index found = std::min(count, std::ssize(scored_));
  const auto end = scored_.begin() + found;
  std::nth_element(scored_.begin(), end - (found > 0 ? 1 : 0), scored_.end(), goes_first);
  if (found == count && count > 0) {
    const float last = scored_[at(count - 1)].score;
    std::vector<Index> rivals;
    for (Index row = 0; row < std::ssize(bounds_); ++row) {
      if (bounds_[at(row)] >= last && bounds_[at(row)] > -kInfinity) rivals.push_back(row);
    }
    look_at(rivals);
  }
  std::partial_sort(scored_.begin(), scored_.begin() + found, scored_.end(), goes_first);
  std::vector<Index> rows;
  for (Index i = 0; i < found; ++i) rows.push_back(scored_[at(i)].row);
  scored_.erase(scored_.begin(), scored_.begin() + found);
  return rows;
}

}  // namespace longformer::tasks
