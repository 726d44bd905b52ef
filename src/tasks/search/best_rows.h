// The best rows by exact scores, of which bounds are known at first.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace longformer::tasks {

/// Gives rows by their exact scores, the best first and the lower row first of equal ones. It asks
/// for the exact scores of no more rows than the bounds leave in question, and where these are more
/// than a thousand and three for each row that is wanted, only of those with the highest bounds:
/// among vectors that are nearly equal all would be.
class BestRows {
 public:
  /// Exact scores of some rows.
  using Exact = std::function<std::vector<float>(std::span<const Index>)>;

  /// `bounds` [n] are at least the exact scores; −∞ leaves a row out, and of NaN nothing is known.
  BestRows(std::vector<float> bounds, Exact exact);

  /// The next rows in this order, fewer than `count` ≥ 0 where there are no more.
  std::vector<Index> next(Index count);

 private:
  struct Scored {
    float score = 0;
    Index row = 0;
  };
  static bool goes_first(const Scored& a, const Scored& b);

  std::vector<Index> highest(Index count, float least) const;
  void look_at(const std::vector<Index>& rows);

  /// Rows that were looked at have −∞.
  std::vector<float> bounds_;
  Exact exact_;
  /// Rows that were looked at, and not given.
  std::vector<Scored> scored_;
};

}  // namespace longformer::tasks
