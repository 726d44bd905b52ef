// The terms of DeBERTa in a tile of queries: products of queries with keys of distances, and of
// keys with queries of distances. Far distances share rows, so a tile, or a chunk of keys, is
// multiplied with a few hundred rows at most; n² numbers are never stored.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/fused_tile.h"
#include "kernels/attention/relative.h"
#include "kernels/attention/tasks.h"

namespace longformer::kernels {

/// Row of the distance from key to query.
inline Index row_at(const DistanceKeys& distances, Index distance) {
  const Index reach = static_cast<Index>(distances.rows.size()) / 2;
  return distances.rows[static_cast<std::size_t>(std::clamp(distance, -reach, reach) + reach)];
}

/// Keys of a chunk as a worker has them.
struct ChunkKeys {
  const float* rows = nullptr;  ///< [key][row_units]
  Index row_units = 0, count = 0;
  const float* pairs = nullptr;  ///< [key / pack][dims]; only in the backward pass
};

class DistanceKeyTerm {
 public:
  /// Rows beyond the last, which blocks of the kernels may reach into.
  static constexpr Index kRowsBeyond = 16;
  /// Rows [P] with those beyond, as gradients have them.
  static Index padded_rows(const DistanceKeys& distances) {
    return round_up(distances.count() + kRowsBeyond, kRowsBeyond);
  }

  /// For chunks of so many keys.
  DistanceKeyTerm(const TileKernels& kernels, Index head_size, const DistanceKeys& distances,
                  Index chunk_rows);

  void start_head(Index head);

  /// Begins with a chunk that has no keys yet.
  void start_chunk();
  /// Multiplies the keys that have come to the chunk since the last call.
  void take_keys(const ChunkKeys& keys);

  /// Writes the terms of the keys begin … end − 1 to added [key][lanes], and zeros for the rest of
  /// their last block. Products of keys are multiplied by the factor, which queries may hold.
  void scores(const RelativeTile& tile, Range keys, float factor, float* added);

  /// Takes the gradients of the scores of the keys begin … end − 1, [key − begin][lanes / pack]:
  /// adds to those of the queries [dims][lanes] and of the keys of distances [rows][dims].
  void send_back(const RelativeTile& tile, Range keys, const float* weights, float* query_gradient,
                 float* distance_key_gradient);
  /// From all tiles since start_chunk, times the factor: adds to the gradients of the keys
  /// [key][dims] and of the queries of distances [rows][dims].
  void finish_chunk(const ChunkKeys& keys, float factor, float* key_gradient,
                    float* distance_query_gradient);

 private:
  /// Places of a tile's rows that a key meets: the same for all lanes, one row further for each
  /// lane, or anything else.
  enum class Meeting { same, ascending, any };
  Meeting meeting(bool consecutive, Index steps) const;
  Range rows_between(const RelativeTile& tile, Range keys) const;
  template <typename Number>
  void sum_up(const RelativeTile& tile, Range keys, Range rows, const Number* weights);
  /// Numbers of fp32 in bf16, rows and pairs of rows, in narrow_ and narrow_pairs_.
  void narrow(const float* from, Index rows, Index width);

  TileKernels kernels_;
  DistanceKeys distances_;
  Index units_, dims_, padded_, chunk_rows_;
  Index keys_taken_ = 0;
  std::shared_ptr<void> memory_;
  float* key_rows_ = nullptr;       ///< [P][dims / pack]
  float* key_pairs_ = nullptr;      ///< [P / pack][dims]
  float* query_rows_ = nullptr;     ///< [P][dims / pack]
  float* query_pairs_ = nullptr;    ///< [P / pack][dims]
  float* query_columns_ = nullptr;  ///< [units][P]
  float* products_ = nullptr;       ///< [key][P]
  float* sums_ = nullptr;           ///< [key][P], gradients of these
  float* skewed_ = nullptr;         ///< [P][lanes]
  float* narrow_ = nullptr;
  float* narrow_pairs_ = nullptr;
  /// For each distance, how many before it have a row that is not the one after the last.
  std::vector<Index> uneven_;
};

}  // namespace longformer::kernels
