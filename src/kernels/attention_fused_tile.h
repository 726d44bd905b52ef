// The inner loops of fused attention: one tile of queries against one chunk of packed keys.
//
// Each vector lane holds one query, so the softmax needs no reduction across lanes. Everything is
// laid out in units of 32 bits: one fp32 number, or two adjacent bf16 numbers that one instruction
// multiplies and adds in pairs.
#pragma once

#include "core/dtype.h"

namespace longformer::kernels {

/// A tile of queries and the state of its online softmax. Arrays have one float per lane.
struct QueryTile {
  float* queries = nullptr;  ///< [units rounded up to 4][lanes]
  float* output = nullptr;   ///< [dims][lanes], the weighted sum of values so far
  float* shift = nullptr;    ///< minus the exponent of two that is taken as the maximum
  float* limit = nullptr;    ///< a score above it becomes the maximum
  float* sum = nullptr;      ///< softmax denominator, times 2^shift
  float* first = nullptr;    ///< the query sees the keys first … last − 1 of the chunk
  float* last = nullptr;
};

/// Keys and values of up to a few thousand positions, copied into the layout that the loops read.
/// At least `rows` rows of zeros follow the last one.
struct KeyChunk {
  float* keys = nullptr;    ///< [key][units]
  float* values = nullptr;  ///< [dims / rows][key / pack][rows], pack keys in each unit
  Index panel_stride = 0;   ///< units from one panel of `rows` dimensions to the next
};

struct TileWork {
  QueryTile tile;
  KeyChunk chunk;
  float* stage = nullptr;  ///< like queries, but four units of one query are adjacent
  float* probabilities = nullptr;
  Index units = 0;
  Index dims = 0;
  float scale = 0;  ///< from a product of query and key to the exponent of two
};

struct TileKernels {
  Index lanes = 0;
  Index column_lanes = 0;  ///< of one vector
  Index rows = 0;          ///< keys, and output dimensions, that are computed at a time
  Index pack = 0;          ///< numbers in a unit
  Index key_tile = 0;      ///< keys whose probabilities are kept at a time

  /// Transposes the stage into tile.queries and clears the state of the softmax.
  void (*start)(const TileWork&) = nullptr;
  /// Adds the keys that the lanes see of the chunk to their softmax.
  void (*attend)(const TileWork&) = nullptr;
  /// Divides the output by the sum and transposes it into the stage.
  void (*finish)(const TileWork&) = nullptr;
};

/// Limit of a lane that has not seen a key.
inline constexpr float kUnsetLimit = -1e30f;

/// Kernels for packed fp32 on this CPU.
TileKernels fp32_tile_kernels();

/// Kernels for packed bf16 with bf16 multiply instructions; only for CpuIsa::avx512_bf16.
TileKernels bf16_tile_kernels();

}  // namespace longformer::kernels
