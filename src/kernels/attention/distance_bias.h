// Biases by distance in a tile of queries: numbers that are added to scores, one for each head and
// distance from query to key. Next to the products of a tile they cost a copy of each of its rows.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "kernels/attention/tasks.h"

namespace longformer::kernels {

/// Biases of one head in plain loops.
struct HeadBiases {
  /// The bias of distance 0; null for a head without biases.
  const float* centre = nullptr;
  Index reach = 0;

  HeadBiases() = default;
  /// One row of biases [H, 2R + 1], or none.
  HeadBiases(const Tensor* biases, Index head);

  /// The bias of a key so many positions behind the query; farther ones take the last.
  float at(Index distance) const {
    return centre == nullptr ? 0.0f : centre[std::clamp(distance, -reach, reach)];
  }
};

/// Numbers of queries and keys count within the residue class of the dilation and are ascending, as
/// in RelativeTile; here steps are differences of numbers, from key to query.
class DistanceBias {
 public:
  /// For biases [H, 2R + 1], in tiles of so many queries.
  DistanceBias(const Tensor& biases, Index lanes);

  /// Takes over the biases of one head, times a factor.
  void start_head(const Tensor& biases, Index head, Index dilation, float factor);

  /// Writes them to added [key][lanes] for the keys begin … end − 1.
  void scores(std::span<const Index> queries, std::span<const Index> keys, Range range,
              float* added) const;

  /// Adds the gradients of the scores of the keys begin … end − 1, [key − begin][lanes], to sums by
  /// steps.
  template <typename Number>
  void send_back(std::span<const Index> queries, std::span<const Index> keys, Range range,
                 const Number* weights);

  /// Adds these sums to the gradient of the head [2R + 1], and starts again.
  void finish(std::span<double> gradient);

 private:
  /// Place of a number of steps in the row of a head, whose ends are repeated for a whole tile.
  Index place(Index steps) const { return steps + steps_ + lanes_; }
  /// Place of the first query of a tile whose queries have consecutive numbers.
  Index first_place(Index steps) const {
    return place(std::clamp(steps, -steps_ - lanes_, steps_));
  }
  /// Column of the biases.
  Index column(Index place) const {
    return reach_ + std::clamp(-(place - steps_ - lanes_) * dilation_, -reach_, reach_);
  }
  Index places() const { return 2 * (steps_ + lanes_) + 1; }

  Index lanes_, reach_;
  Index dilation_ = 1, steps_ = 0;
  std::vector<float> row_, sums_;
};

}  // namespace longformer::kernels
