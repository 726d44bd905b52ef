#include "kernels/attention/distance_keys.h"

#include <utility>

#include "core/memory.h"
#include "kernels/attention/distance_rows.h"

namespace longformer::kernels {

DistanceKeyTerm::DistanceKeyTerm(const TileKernels& kernels, Index head_size,
                                 const DistanceKeys& distances, Index chunk_rows)
    : kernels_(kernels),
      distances_(distances),
      units_(divide_up(head_size, kernels.pack)),
      dims_(padded_dims(kernels, head_size)),
      padded_(padded_rows(distances)),
      chunk_rows_(round_up(chunk_rows + 2 * kRowsBeyond, 2)) {
  const Index rows = padded_ * dims_ / kernels.pack, lanes = kernels.lanes;
  const Index products = chunk_rows_ * padded_;
  std::vector<std::pair<float**, Index>> wanted = {
      {&key_rows_, rows},     {&query_rows_, rows}, {&query_columns_, units_ * padded_},
      {&products_, products}, {&sums_, products},   {&skewed_, padded_ * lanes}};
  if (kernels.pack == 2) {
    const Index most = std::max(products, padded_ * lanes) / 2;
    wanted.insert(
        wanted.end(),
        {{&key_pairs_, rows}, {&query_pairs_, rows}, {&narrow_, most}, {&narrow_pairs_, most}});
  }
  Index floats = 0;
  for (const auto& [part, count] : wanted) floats += round_up(count, 16);
  memory_ = allocate_aligned(static_cast<std::size_t>(floats) * sizeof(float));
  float* next = static_cast<float*>(memory_.get());
  std::fill_n(next, floats, 0.0f);
  for (const auto& [part, count] : wanted) *part = std::exchange(next, next + round_up(count, 16));
  if (kernels.pack == 1) {
    key_pairs_ = key_rows_;
    query_pairs_ = query_rows_;
  }
  uneven_.resize(distances.rows.size(), 0);
  for (std::size_t i = 1; i < uneven_.size(); ++i) {
    uneven_[i] = uneven_[i - 1] + (distances.rows[i] != distances.rows[i - 1] + 1 ? 1 : 0);
  }
}

void DistanceKeyTerm::start_head(Index head) {
  const auto take = [&](const Tensor* from, float* rows, float* pairs) {
    if (from == nullptr) return;
    if (kernels_.pack == 1) return copy_head(*from, head, dims_, rows);
    copy_head(*from, head, dims_, reinterpret_cast<BFloat16*>(rows));
    pair_rows(rows, padded_, dims_, pairs);
  };
  take(distances_.keys, key_rows_, key_pairs_);
  take(distances_.queries, query_rows_, query_pairs_);
  if (distances_.queries == nullptr) return;
  for (Index row = 0; row < distances_.count(); ++row) {
    for (Index unit = 0; unit < units_; ++unit) {
      query_columns_[unit * padded_ + row] = query_rows_[row * (dims_ / kernels_.pack) + unit];
    }
  }
}

void DistanceKeyTerm::start_chunk() {
  const Index used = std::min(keys_taken_ + kRowsBeyond, chunk_rows_);
  std::fill_n(products_, used * padded_, 0.0f);
  std::fill_n(sums_, used * padded_, 0.0f);
  keys_taken_ = 0;
}

void DistanceKeyTerm::take_keys(const ChunkKeys& keys) {
  if (distances_.queries != nullptr && keys.count > keys_taken_) {
    const Index first = keys_taken_ / kernels_.rows * kernels_.rows;
    const Index rows = round_up(keys.count - first, kernels_.rows);
    float* to = products_ + first * padded_;
    std::fill_n(to, rows * padded_, 0.0f);
    kernels_.add({.a = keys.rows + first * keys.row_units,
                  .a_row = keys.row_units,
                  .a_step = 1,
                  .b = query_columns_,
                  .b_step = padded_,
                  .c = to,
                  .c_row = padded_,
                  .rows = rows,
                  .columns = padded_,
                  .steps = units_});
  }
  keys_taken_ = keys.count;
}

DistanceKeyTerm::Meeting DistanceKeyTerm::meeting(bool consecutive, Index steps) const {
  const Index reach = static_cast<Index>(distances_.rows.size()) / 2;
  const Index last = steps + kernels_.lanes - 1;
  if (!consecutive) return Meeting::any;
  if (row_at(distances_, steps) == row_at(distances_, last)) return Meeting::same;
  if (steps < -reach || last > reach) return Meeting::any;
  const auto at = [reach](Index distance) { return static_cast<std::size_t>(distance + reach); };
  return uneven_[at(steps)] == uneven_[at(last)] ? Meeting::ascending : Meeting::any;
}

/// Rows that occur between the queries and the keys, from an even one on.
Range DistanceKeyTerm::rows_between(const RelativeTile& tile, Range keys) const {
  const Index nearest = tile.query_numbers.front() - tile.key_numbers[keys.end - 1];
  const Index farthest = tile.query_numbers.back() - tile.key_numbers[keys.begin];
  return {row_at(distances_, nearest) / 2 * 2, row_at(distances_, farthest) + 1};
}

void DistanceKeyTerm::scores(const RelativeTile& tile, Range keys, float factor, float* added) {
  const Index lanes = kernels_.lanes;
  const Range rows = rows_between(tile, keys);
  if (distances_.keys != nullptr) {
    const Index count = round_up(rows.end - rows.begin, kernels_.rows);
    std::fill_n(skewed_, count * lanes, 0.0f);
    kernels_.add({.a = key_rows_ + rows.begin * (dims_ / kernels_.pack),
                  .a_row = dims_ / kernels_.pack,
                  .a_step = 1,
                  .b = tile.queries,
                  .b_step = lanes,
                  .c = skewed_,
                  .c_row = lanes,
                  .rows = count,
                  .columns = lanes,
                  .steps = units_});
  }
  const bool consecutive = are_consecutive(tile.query_numbers);
  for (Index key = keys.begin; key < keys.end; ++key) {
    float* to = added + key * lanes;
    const float* own = products_ + key * padded_;
    const Index number = tile.key_numbers[key], first = tile.query_numbers.front() - number;
    const Index row = row_at(distances_, first);
    const float* from = skewed_ + (row - rows.begin) * lanes;
    switch (meeting(consecutive, first)) {
      case Meeting::same:
        for (Index lane = 0; lane < lanes; ++lane) to[lane] = from[lane] + factor * own[row];
        break;
      case Meeting::ascending:
        for (Index lane = 0; lane < lanes; ++lane) {
          to[lane] = from[lane * (lanes + 1)] + factor * own[row + lane];
        }
        break;
      case Meeting::any:
        for (Index lane = 0; lane < lanes; ++lane) {
          const Index at = row_at(distances_, tile.query_numbers[lane] - number);
          to[lane] = skewed_[(at - rows.begin) * lanes + lane] + factor * own[at];
        }
    }
  }
  const Index rest = round_up(keys.end - keys.begin, kernels_.rows) - (keys.end - keys.begin);
  std::fill_n(added + keys.end * lanes, rest * lanes, 0.0f);
}

template <typename Number>
void DistanceKeyTerm::sum_up(const RelativeTile& tile, Range keys, Range rows,
                             const Number* weights) {
  const Index lanes = kernels_.lanes;
  const bool consecutive = are_consecutive(tile.query_numbers);
  for (Index key = keys.begin; key < keys.end; ++key, weights += lanes) {
    float* own = sums_ + key * padded_;
    const Index number = tile.key_numbers[key], first = tile.query_numbers.front() - number;
    const Index row = row_at(distances_, first);
    float* to = skewed_ + (row - rows.begin) * lanes;
    const auto weight = [weights](Index lane) { return static_cast<float>(weights[lane]); };
    switch (meeting(consecutive, first)) {
      case Meeting::same: {
        float sum = 0;
        for (Index lane = 0; lane < lanes; ++lane) to[lane] += weight(lane);
        for (Index lane = 0; lane < lanes; ++lane) sum += weight(lane);
        own[row] += sum;
        break;
      }
      case Meeting::ascending:
        for (Index lane = 0; lane < lanes; ++lane) to[lane * (lanes + 1)] += weight(lane);
        for (Index lane = 0; lane < lanes; ++lane) own[row + lane] += weight(lane);
        break;
      case Meeting::any:
        for (Index lane = 0; lane < lanes; ++lane) {
          const Index at = row_at(distances_, tile.query_numbers[lane] - number);
          skewed_[(at - rows.begin) * lanes + lane] += weight(lane);
          own[at] += weight(lane);
        }
    }
  }
}

void DistanceKeyTerm::narrow(const float* from, Index rows, Index width) {
  auto* to = reinterpret_cast<BFloat16*>(narrow_);
  for (Index i = 0; i < rows * width; ++i) to[i] = BFloat16(from[i]);
  pair_rows(narrow_, rows, width, narrow_pairs_);
}

void DistanceKeyTerm::send_back(const RelativeTile& tile, Range keys, const float* weights,
                                float* query_gradient, float* distance_key_gradient) {
  const Index lanes = kernels_.lanes, pack = kernels_.pack;
  const Range rows = rows_between(tile, keys);
  const Index count = round_up(rows.end - rows.begin, std::max<Index>(kernels_.rows, 2));
  std::fill_n(skewed_, count * lanes, 0.0f);
  if (pack == 2) {
    sum_up(tile, keys, rows, reinterpret_cast<const BFloat16*>(weights));
  } else {
    sum_up(tile, keys, rows, weights);
  }
  if (distances_.keys == nullptr) {
    // Scores have no products of queries.
    std::fill_n(skewed_, count * lanes, 0.0f);
    return;
  }
  if (pack == 2) narrow(skewed_, count, lanes);
  kernels_.add({.a = pack == 2 ? narrow_ : skewed_,
                .a_row = lanes / pack,
                .a_step = 1,
                .b = tile.query_rows,
                .b_step = dims_,
                .c = distance_key_gradient + rows.begin * dims_,
                .c_row = dims_,
                .rows = count,
                .columns = dims_,
                .steps = lanes / pack});
  kernels_.add({.a = key_pairs_ + rows.begin / pack * dims_,
                .a_row = 1,
                .a_step = dims_,
                .b = pack == 2 ? narrow_pairs_ : skewed_,
                .b_step = lanes,
                .c = query_gradient,
                .c_row = lanes,
                .rows = dims_,
                .columns = lanes,
                .steps = count / pack});
}

void DistanceKeyTerm::finish_chunk(const ChunkKeys& keys, float factor, float* key_gradient,
                                   float* distance_query_gradient) {
  if (distances_.queries == nullptr || keys.count == 0) return;
  const Index pack = kernels_.pack;
  const Index count = round_up(keys.count, std::max<Index>(kernels_.rows, 2));
  for (Index i = 0; i < keys.count * padded_; ++i) sums_[i] *= factor;
  if (pack == 2) narrow(sums_, count, padded_);
  kernels_.add({.a = pack == 2 ? narrow_ : sums_,
                .a_row = padded_ / pack,
                .a_step = 1,
                .b = query_pairs_,
                .b_step = dims_,
                .c = key_gradient,
                .c_row = dims_,
                .rows = count,
                .columns = dims_,
                .steps = padded_ / pack});
  kernels_.add({.a = pack == 2 ? narrow_pairs_ : sums_,
                .a_row = 1,
                .a_step = padded_,
                .b = pack == 2 ? keys.pairs : keys.rows,
                .b_step = dims_,
                .c = distance_query_gradient,
                .c_row = dims_,
                .rows = padded_,
                .columns = dims_,
                .steps = pack == 2 ? divide_up(keys.count, 2) : keys.count});
}

}  // namespace longformer::kernels
