// Scores of kinds in a tile of queries: each query has a number for every kind of key, which is
// added to the scores of the keys of that kind (RowPlaces::key_kinds). Next to the products of a
// tile they cost the sum of each of its rows with another one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "kernels/attention/spec.h"

namespace longformer::kernels {

class KindTerm {
 public:
  /// For scores [H, n, K] fp32 and the kind of each key row, in tiles of so many queries and chunks
  /// of so many keys.
  KindTerm(const Tensor& scores, std::span<const std::uint8_t> kinds, Index lanes, Index keys);

  /// The rows of a key of the chunk, and of a query of the tile.
  void take_key(Index place, Index row) { chunk_[at(place)] = kinds_of_rows_[at(row)]; }
  void take_query(Index lane, Index row) { rows_[at(lane)] = row; }

  /// Adds the numbers of the queries, times a factor, to added [key][lanes] for the keys begin …
  /// end − 1 of the chunk.
  void add_scores(Index head, Range keys, float factor, float* added);

  /// Adds the gradients of the scores of the keys begin … end − 1, [key − begin][lanes], to those
  /// of the numbers, [H, n, K] fp32. Of rows that are given twice all but one have zeros.
  template <typename Number>
  void send_back(Index head, Range keys, const Number* weights, Tensor& gradient);

 private:
  /// Number of the first score of a lane's query.
  Index of_query(Index head, Index lane) const {
    return (head * scores_.dimension(1) + rows_[at(lane)]) * kinds_;
  }

  const Tensor& scores_;
  std::span<const std::uint8_t> kinds_of_rows_;
  Index lanes_, kinds_;
  std::vector<Index> rows_;
  std::vector<std::uint8_t> chunk_;
  /// [K][lanes]
  std::vector<float> tile_;
};

}  // namespace longformer::kernels
