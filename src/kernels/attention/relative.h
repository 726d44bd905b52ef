// The term of relative positions for a tile of queries: its products with the relative keys of a
// head are the scores of an attention of their own, only skewed, because the distance of a key is
// another one for each query.
#pragma once

#include <memory>
#include <span>

#include "core/tensor.h"
#include "kernels/attention/fused_tile.h"
#include "kernels/attention/tasks.h"

namespace longformer::kernels {

/// The queries of a tile, with v, and the keys of a chunk. Numbers count within the residue class
/// of the dilation, or are those of places, and are ascending; the distance of a key is their
/// difference.
struct RelativeTile {
  const float* queries = nullptr;     ///< [units][lanes]
  const float* query_rows = nullptr;  ///< [lanes / pack][dims]; only in the backward pass
  std::span<const Index> query_numbers;
  std::span<const Index> key_numbers;
};

class RelativeTerm {
 public:
  /// For tiles that span at most `most_distances` distances.
  RelativeTerm(const TileKernels& kernels, Index head_size, Index distances, Index most_distances);

  /// Takes over the relative keys [H, m, d] of one head.
  void start_head(const Tensor& keys, Index head);

  /// Writes factor · (query · relative key) to added [key][lanes] for the keys begin … end − 1, and
  /// zeros for the rest of their last block.
  void scores(const RelativeTile& tile, Range keys, float factor, float* added);

  /// From the gradients of the scores of the keys begin … end − 1, [key − begin][lanes / pack]:
  /// adds to the gradients of the queries [dims][lanes] and of the relative keys [m + 16][dims].
  void send_back(const RelativeTile& tile, Range keys, const float* weights, float* query_gradient,
                 float* key_gradient);

  /// Rows that gradients of relative keys have beyond the last distance.
  static constexpr Index kRowsBeyond = 16;

 private:
  Range distances_of(const RelativeTile& tile, Range keys) const;
  template <typename Number>
  void skew_back(const RelativeTile& tile, Range keys, Range distances, const float* weights);

  TileKernels kernels_;
  Index distances_, units_, dims_;
  std::shared_ptr<void> memory_;
  float* rows_;    ///< [m + 16][dims / pack]
  float* pairs_;   ///< [(m + 16) / pack][dims]
  float* skewed_;  ///< [distance][lanes]
  float* skewed_pairs_;
};

}  // namespace longformer::kernels
