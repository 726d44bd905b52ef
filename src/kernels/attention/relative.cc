#include "kernels/attention/relative.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/memory.h"
#include "kernels/attention/distance_rows.h"

namespace longformer::kernels {
RelativeTerm::RelativeTerm(const TileKernels& kernels, Index head_size, Index distances,
                           Index most_distances)
    : kernels_(kernels),
      distances_(distances),
      units_(divide_up(head_size, kernels.pack)),
      dims_(padded_dims(kernels, head_size)) {
  const Index row_floats = (distances + kRowsBeyond) * dims_ / kernels.pack;
  const Index skewed_floats = (std::min(distances, most_distances) + kRowsBeyond) * kernels.lanes;
  const bool pairs = kernels.pack == 2;
  const Index floats = (pairs ? 2 : 1) * (row_floats + skewed_floats);
  memory_ = allocate_aligned(static_cast<std::size_t>(floats) * sizeof(float));
  float* next = static_cast<float*>(memory_.get());
  std::fill_n(next, floats, 0.0f);
  rows_ = std::exchange(next, next + row_floats);
  pairs_ = pairs ? std::exchange(next, next + row_floats) : rows_;
  skewed_ = std::exchange(next, next + skewed_floats);
  skewed_pairs_ = pairs ? next : skewed_;
}

void RelativeTerm::start_head(const Tensor& keys, Index head) {
  if (kernels_.pack == 1) return copy_head(keys, head, dims_, rows_);
  copy_head(keys, head, dims_, reinterpret_cast<BFloat16*>(rows_));
  pair_rows(rows_, distances_, dims_, pairs_);
}

/// Distances that occur between the queries and the keys, from an even one on. Rows without a place
/// come first.
Range RelativeTerm::distances_of(const RelativeTile& tile, Range keys) const {
  const auto first_place = [](std::span<const Index> numbers) {
    return std::ranges::find_if(numbers, [](Index n) { return n > RowPlaces::kNone; });
  };
  const auto queries = tile.query_numbers;
  const auto seen = tile.key_numbers.subspan(static_cast<std::size_t>(keys.begin),
                                             static_cast<std::size_t>(keys.end - keys.begin));
  const auto query = first_place(queries), key = first_place(seen);
  if (query == queries.end() || key == seen.end()) return {};
  const Index nearest = *query - seen.back();
  const Index farthest = queries.back() - *key;
  return {std::max<Index>(nearest, 0) / 2 * 2, std::min(farthest + 1, distances_)};
}

void RelativeTerm::scores(const RelativeTile& tile, Range keys, float factor, float* added) {
  const Index lanes = kernels_.lanes;
  const Range distances = distances_of(tile, keys);
  const Index count = round_up(std::max<Index>(distances.end - distances.begin, 0), kernels_.rows);
  std::fill_n(skewed_, count * lanes, 0.0f);
  kernels_.add({.a = rows_ + distances.begin * (dims_ / kernels_.pack),
                .a_row = dims_ / kernels_.pack,
                .a_step = 1,
                .b = tile.queries,
                .b_step = lanes,
                .c = skewed_,
                .c_row = lanes,
                .rows = count,
                .columns = lanes,
                .steps = units_});
  const bool consecutive = are_consecutive(tile.query_numbers);
  for (Index key = keys.begin; key < keys.end; ++key) {
    float* to = added + key * lanes;
    const Index number = tile.key_numbers[key];
    const Index first = tile.query_numbers.front() - number;
    if (consecutive && distances.begin <= first && first + lanes <= distances.end) {
      const float* from = skewed_ + (first - distances.begin) * lanes;
      for (Index lane = 0; lane < lanes; ++lane) to[lane] = factor * from[lane * (lanes + 1)];
      continue;
    }
    for (Index lane = 0; lane < lanes; ++lane) {
      const Index distance = tile.query_numbers[lane] - number;
      const bool inside = distances.begin <= distance && distance < distances.end;
      to[lane] = inside ? factor * skewed_[(distance - distances.begin) * lanes + lane] : 0.0f;
    }
  }
  const Index rest = round_up(keys.end - keys.begin, kernels_.rows) - (keys.end - keys.begin);
  std::fill_n(added + keys.end * lanes, rest * lanes, 0.0f);
}

template <typename Number>
void RelativeTerm::skew_back(const RelativeTile& tile, Range keys, Range distances,
                             const float* weights) {
  const Index lanes = kernels_.lanes;
  const auto* from = reinterpret_cast<const Number*>(weights);
  auto* rows = reinterpret_cast<Number*>(skewed_);
  const bool consecutive = are_consecutive(tile.query_numbers);
  for (Index key = keys.begin; key < keys.end; ++key, from += lanes) {
    const Index number = tile.key_numbers[key] + distances.begin;
    const Index first = tile.query_numbers.front() - number;
    if (consecutive && 0 <= first && first + lanes <= distances.end - distances.begin) {
      Number* to = rows + first * lanes;
      for (Index lane = 0; lane < lanes; ++lane) to[lane * (lanes + 1)] = from[lane];
      continue;
    }
    for (Index lane = 0; lane < lanes; ++lane) {
      const Index row = tile.query_numbers[lane] - number;
      if (row < 0 || row >= distances.end - distances.begin) continue;
      rows[row * lanes + lane] = from[lane];
    }
  }
}

void RelativeTerm::send_back(const RelativeTile& tile, Range keys, const float* weights,
                             float* query_gradient, float* key_gradient) {
  const Index lanes = kernels_.lanes;
  const Index pack = kernels_.pack;
  const Range distances = distances_of(tile, keys);
  if (distances.begin >= distances.end) return;
  const Index count = round_up(distances.end - distances.begin, kernels_.rows);
  std::fill_n(skewed_, count * lanes / pack, 0.0f);
  if (pack == 2) {
    skew_back<BFloat16>(tile, keys, distances, weights);
    pair_rows(skewed_, count, lanes, skewed_pairs_);
  } else {
    skew_back<float>(tile, keys, distances, weights);
  }
  kernels_.add({.a = skewed_,
                .a_row = lanes / pack,
                .a_step = 1,
                .b = tile.query_rows,
                .b_step = dims_,
                .c = key_gradient + distances.begin * dims_,
                .c_row = dims_,
                .rows = count,
                .columns = dims_,
                .steps = lanes / pack});
  kernels_.add({.a = pairs_ + distances.begin / pack * dims_,
                .a_row = 1,
                .a_step = dims_,
                .b = skewed_pairs_,
                .b_step = lanes,
                .c = query_gradient,
                .c_row = lanes,
                .rows = dims_,
                .columns = lanes,
                .steps = count / pack});
}

}  // namespace longformer::kernels
