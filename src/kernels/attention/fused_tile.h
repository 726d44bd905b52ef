// The inner loops of fused attention, forward and backward: one tile of queries against one chunk
// of packed keys.
//
// Each vector lane holds one query, so the softmax needs no reduction across lanes. Everything is
// laid out in units of 32 bits: one fp32 number, or two adjacent bf16 numbers that one instruction
// multiplies and adds in pairs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/dtype.h"
#include "kernels/softmax_weight.h"

namespace longformer::kernels {

/// A tile of queries and the state of its online softmax. Arrays have one float per lane.
struct QueryTile {
  float* queries = nullptr;           ///< [units rounded up to 4][lanes]
  float* position_queries = nullptr;  ///< for RelativeTerm; may be null
  float* output = nullptr;            ///< [dims][lanes], the weighted sum of values so far
  float* shift = nullptr;             ///< minus the exponent of two that is taken as the maximum
  float* limit = nullptr;             ///< a score above it becomes the maximum
  float* sum = nullptr;               ///< softmax denominator, times 2^shift
  float* first = nullptr;             ///< the query sees the keys first … last − 1 of the chunk
  float* last = nullptr;
};

/// Keys and values of up to a few thousand positions, copied into the layout that the loops read.
/// At least `rows` rows of zeros follow the last one.
struct KeyChunk {
  float* keys = nullptr;    ///< [key][units]
  float* values = nullptr;  ///< [dims / rows][key / pack][rows], pack keys in each unit
  Index panel_stride = 0;   ///< units from one panel of `rows` dimensions to the next
};

/// The masks of a tile: DropoutRow of each lane, against the columns of keys.
struct TileDropout {
  const std::uint32_t* start = nullptr;  ///< [lanes]
  const std::uint32_t* twist = nullptr;  ///< [lanes]
  std::uint32_t threshold = 0;           ///< 0 where nothing is dropped
  float kept_factor = 1;
};

struct TileWork {
  QueryTile tile;
  KeyChunk chunk;
  float* stage = nullptr;  ///< like queries, but four units of one query are adjacent
  float* probabilities = nullptr;
  Index units = 0;
  Index dims = 0;
  float scale = 0;  ///< from a product of query and key to the exponent of two
  // Only attend_training looks at these.
  const float* added = nullptr;  ///< added to the scores, [key][lanes]; may be null
  const std::uint32_t* columns =
      nullptr;  ///< columns of dropout masks, times DropoutRow::kColumnStep
  TileDropout dropout;
};

/// c [rows, columns] += a · b in fp32, with a and b in units. Rows are a multiple of those of the
/// kernels, columns of those of one vector.
struct TileProduct {
  const float* a = nullptr;
  Index a_row = 0, a_step = 0;  ///< from one row, and from one step, to the next
  const float* b = nullptr;
  Index b_step = 0;
  float* c = nullptr;
  Index c_row = 0;
  Index rows = 0, columns = 0, steps = 0;
};

/// One tile of queries, and the keys of a chunk, in the backward pass. "Rows" have one query or key
/// each, in `dims` numbers; in bf16 what is summed over queries, or over keys, is packed in pairs
/// of them.
struct GradientWork {
  const float* queries = nullptr;        ///< [units][lanes], with u where there is one
  const float* query_rows = nullptr;     ///< [lanes / pack][dims]
  const float* gradients = nullptr;      ///< gradient of the output, [units][lanes]
  const float* gradient_rows = nullptr;  ///< [lanes / pack][dims]
  const float* exponent = nullptr;       ///< minus the logsumexp, as an exponent of two
  const float* mean = nullptr;           ///< Σ gradient · output
  float* query_gradient = nullptr;       ///< [dims][lanes]
  float* first = nullptr;                ///< as in QueryTile
  float* last = nullptr;
  const float* keys = nullptr;       ///< [key][row_units]
  const float* values = nullptr;     ///< [key][row_units]
  const float* key_pairs = nullptr;  ///< [key / pack][dims]
  float* key_gradient = nullptr;     ///< [key][dims]
  float* value_gradient = nullptr;
  const float* added = nullptr;  ///< added to the scores, [key][lanes]; may be null
  const std::uint32_t* columns =
      nullptr;  ///< columns of dropout masks, times DropoutRow::kColumnStep
  TileDropout dropout;
  float* block = nullptr;         ///< [rows][lanes], working memory
  float* kept = nullptr;          ///< [key − begin][lanes / pack] probabilities after dropout
  float* weights = nullptr;       ///< [key − begin][lanes / pack] gradients of the scores
  float* weight_pairs = nullptr;  ///< [(key − begin) / pack][lanes]
  Index units = 0;
  Index row_units = 0;
  Index dims = 0;
  float scale = 0;
};

struct TileKernels {
  Index lanes = 0;
  Index column_lanes = 0;  ///< lanes of one vector
  Index rows = 0;          ///< keys, and output dimensions, that are computed at a time
  Index pack = 0;          ///< numbers in a unit
  Index key_tile = 0;      ///< keys whose probabilities are kept at a time

  /// Transposes the stage into tile.queries and clears the state of the softmax.
  void (*start)(const TileWork&) = nullptr;
  /// Adds the keys that the lanes see of the chunk to their softmax.
  void (*attend)(const TileWork&) = nullptr;
  void (*attend_training)(const TileWork&) = nullptr;
  /// Divides the output by the sum and transposes it into the stage.
  void (*finish)(const TileWork&) = nullptr;

  /// Transposes a stage into [units][lanes].
  void (*transpose)(const float* stage, float* to, Index units) = nullptr;
  void (*add)(const TileProduct&) = nullptr;
  /// Adds what the keys begin … end − 1 send back; begin is a multiple of `pack`.
  void (*send_back)(const GradientWork&, Index begin, Index end) = nullptr;
};

/// Numbers of a row in the backward pass: whole vectors, and whole blocks of the kernels.
inline Index padded_dims(const TileKernels& kernels, Index head_size) {
  const Index unit = std::max(kernels.column_lanes, kernels.rows);
  return (head_size + unit - 1) / unit * unit;
}

/// Two rows of bf16 into one of units.
inline void interleave(const BFloat16* even, const BFloat16* odd, Index count, float* to) {
  auto* pairs = reinterpret_cast<std::uint32_t*>(to);
  for (Index i = 0; i < count; ++i) pairs[i] = even[i].bits | std::uint32_t{odd[i].bits} << 16;
}

/// Limit of a lane that has not seen a key.
inline constexpr float kUnsetLimit = -1e30f;

/// Kernels for packed fp32 on this CPU.
TileKernels fp32_tile_kernels();

/// Kernels for packed bf16 with bf16 multiply instructions; from CpuIsa::avx512_bf16 on.
TileKernels bf16_tile_kernels();

}  // namespace longformer::kernels
