// One task at a time: its keys are packed chunk by chunk, and each tile of its queries sends back
// to the keys that it sees (performance.md §4.4, with the tiles outside).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <utility>

#include "core/memory.h"
#include "kernels/attention_backward.h"

namespace longformer::kernels {
namespace {

/// Keys between which probabilities stay in the first-level cache.
constexpr Index kBlock = 64;
/// Rows of zeros that blocks of keys may reach into.
constexpr Index kRowsBeyond = 16;

float number(const Tensor& tensor, Index at) {
  return tensor.dtype() == DType::f32 ? tensor.data<float>()[at]
                                      : static_cast<float>(tensor.data<BFloat16>()[at]);
}

void set_number(Tensor& tensor, Index at, float value) {
  if (tensor.dtype() == DType::f32) {
    tensor.data<float>()[at] = value;
  } else {
    tensor.data<BFloat16>()[at] = BFloat16(value);
  }
}

void add(std::vector<float>& to, Index at, const float* from, Index count, float factor) {
  float* row = to.data() + at;
  for (Index i = 0; i < count; ++i) row[i] += factor * from[i];
}

}  // namespace

BackwardWorker::BackwardWorker(const BackwardPlan& plan) : plan_(plan) {
  const Index lanes = plan.kernels.lanes;
  const Index pack = plan.kernels.pack;
  const Index dims = plan.dims;
  const bool relative = plan.distances > 0;
  const Index rows = plan.chunk_rows + kRowsBeyond;
  const Index tiles = divide_up(plan.queries_per_task, lanes);
  const Index units = divide_up(plan.spec.head_size, pack);
  // Parts are multiples of `lanes` or `dims` floats; each starts at a whole line.
  std::vector<std::pair<float**, Index>> wanted;
  for (Side* side : {&query_, &position_query_, &gradient_}) {
    wanted.emplace_back(&side->lanes, round_up(units, 4) * lanes);
    wanted.emplace_back(&side->rows, lanes / pack * dims);
  }
  const Index weight_rows = relative ? rows : kBlock + kRowsBeyond;
  wanted.insert(wanted.end(), {{&stage_, round_up(units, 4) * lanes},
                               {&exponents_, lanes},
                               {&means_, lanes},
                               {&work_.first, lanes},
                               {&work_.last, lanes},
                               {reinterpret_cast<float**>(&starts_), lanes},
                               {reinterpret_cast<float**>(&twists_), lanes},
                               {reinterpret_cast<float**>(&columns_), rows},
                               {&keys_, rows * dims / pack},
                               {&values_, rows * dims / pack},
                               {&work_.key_gradient, rows * dims},
                               {&work_.value_gradient, rows * dims},
                               {&query_sums_, tiles * dims * lanes},
                               {&work_.block, plan.kernels.rows * lanes},
                               {&work_.kept, (kBlock + kRowsBeyond) * lanes / pack},
                               {&work_.weights, weight_rows * lanes / pack}});
  if (pack == 2) {
    wanted.emplace_back(&key_pairs_, rows * dims / pack);
    wanted.emplace_back(&work_.weight_pairs, (kBlock + kRowsBeyond) * lanes / pack);
  }
  if (relative) {
    wanted.emplace_back(&added_, rows * lanes);
    wanted.emplace_back(&position_sums_, tiles * dims * lanes);
    relative_.emplace(plan.kernels, plan.spec.head_size, plan.distances,
                      plan.chunk_rows + plan.queries_per_task);
  }
  Index floats = 0;
  for (const auto& [part, count] : wanted) floats += round_up(count, 16);
  memory_ = allocate_aligned(static_cast<std::size_t>(floats) * sizeof(float));
  float* next = static_cast<float*>(memory_.get());
  std::fill_n(next, floats, 0.0f);
  for (const auto& [part, count] : wanted) *part = std::exchange(next, next + round_up(count, 16));
  if (pack == 1) key_pairs_ = keys_;

  work_.queries = query_.lanes;
  work_.query_rows = query_.rows;
  work_.gradients = gradient_.lanes;
  work_.gradient_rows = gradient_.rows;
  work_.exponent = exponents_;
  work_.mean = means_;
  work_.keys = keys_;
  work_.values = values_;
  work_.key_pairs = key_pairs_;
  work_.added = added_;
  work_.columns = columns_;
  if (plan.spec.dropout.active()) {
    work_.dropout = {starts_, twists_, plan.spec.dropout.threshold(),
                     plan.spec.dropout.kept_factor()};
  }
  work_.units = units;
  work_.row_units = dims / pack;
  work_.dims = dims;
  work_.scale =
      static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(plan.spec.head_size)));
  row_.resize(static_cast<std::size_t>(dims));
  narrow_row_.resize(row_.size());
  lane_numbers_.resize(static_cast<std::size_t>(lanes));
  places_.resize(static_cast<std::size_t>(plan.chunk_rows));
  key_numbers_.resize(places_.size());
  rank_.resize(places_.size() + 1);
}

void BackwardWorker::run(Index head, Range queries, HeadSums& sums) {
  head_ = head;
  if (relative_) relative_->start_head(plan_.in.relative->keys, head);
  tasks_.clear();
  for (const AttentionDocument& document : plan_.spec.documents) {
    const Range own = {std::max<Index>(queries.begin - document.query_begin, 0),
                       std::min(queries.end - document.query_begin, document.query_count)};
    if (own.begin >= own.end) continue;
    plan_.rows.add(document, head, own, plan_.queries_per_task, plan_.kernels.lanes, tasks_);
  }
  for (const Task& task : tasks_) run(task, sums);
}

void BackwardWorker::run(const Task& task, HeadSums& sums) {
  select_lanes(task);
  if (lanes_.empty()) return;
  const KeySequence keys = plan_.rows.keys_of(task, lanes_);
  const Index dilation = task.sees_everything ? 1 : plan_.spec.heads[head_].dilation;
  const Index tile_floats = plan_.dims * plan_.kernels.lanes;
  std::fill_n(query_sums_, tile_count() * tile_floats, 0.0f);
  if (relative_) std::fill_n(position_sums_, tile_count() * tile_floats, 0.0f);
  for (Index begin = 0; begin < keys.count; begin += plan_.chunk_rows) {
    const Index end = std::min(begin + plan_.chunk_rows, keys.count);
    pack_keys(keys, begin, end);
    for (Index tile = 0; tile < tile_count(); ++tile) {
      load_tile(tile);
      for (Index i = 0; i < plan_.kernels.lanes; ++i) {
        const Index lane = std::min<Index>(tile * plan_.kernels.lanes + i, lanes_.size() - 1);
        lane_numbers_[i] = floor_divide(lanes_[lane].position, dilation);
      }
      send_back(tile, &Lane::window, end, sums);
      send_back(tile, &Lane::globals, end, sums);
    }
    add_key_sums(keys, sums);
  }
  write_query_gradients(sums);
}

/// Only queries that see something and whose output has a gradient have work to do.
void BackwardWorker::select_lanes(const Task& task) {
  plan_.rows.collect(task, lanes_, blind_);
  for (const Index row : blind_) write_zeros(row);
  std::erase_if(lanes_, [this](const Lane& lane) {
    if (sends_back(lane.row)) return false;
    write_zeros(lane.row);
    return true;
  });
}

bool BackwardWorker::sends_back(Index row) const {
  const auto& in = plan_.in;
  const float logsumexp = in.logsumexp.data<float>()[head_ * in.logsumexp.dimension(1) + row];
  if (logsumexp == -std::numeric_limits<float>::infinity()) return false;
  const Index from = output_offset(row);
  for (Index c = 0; c < plan_.spec.head_size; ++c) {
    if (number(in.out_gradient, from + c) != 0) return true;
  }
  return false;
}

void BackwardWorker::pack_keys(const KeySequence& keys, Index begin, Index end) {
  const auto& in = plan_.in;
  const Index d = plan_.spec.head_size;
  const Index dims = plan_.dims;
  chunk_begin_ = begin;
  packed_ = 0;
  rank_[0] = 0;
  for (Index place = begin; place < end; ++place) {
    if (keys.keeps(place)) {
      const Index row = keys.row(place);
      const Index from = head_offset(in.key, row);
      places_[packed_] = place;
      key_numbers_[packed_] = keys.number(place);
      columns_[packed_] = static_cast<std::uint32_t>(row) * DropoutRow::kColumnStep;
      if (plan_.kernels.pack == 2) {
        const BFloat16* key = in.key.data<BFloat16>() + from;
        auto* pair = reinterpret_cast<BFloat16*>(key_pairs_) + packed_ / 2 * 2 * dims + packed_ % 2;
        std::memcpy(reinterpret_cast<BFloat16*>(keys_) + packed_ * dims, key, 2 * d);
        std::memcpy(reinterpret_cast<BFloat16*>(values_) + packed_ * dims,
                    in.value.data<BFloat16>() + from, 2 * d);
        for (Index c = 0; c < d; ++c) pair[2 * c] = key[c];
      } else {
        for (Index c = 0; c < d; ++c) {
          keys_[packed_ * dims + c] = number(in.key, from + c);
          values_[packed_ * dims + c] = number(in.value, from + c);
        }
      }
      ++packed_;
    }
    rank_[place + 1 - begin] = packed_;
  }
  clear_rows_from(packed_);
  std::fill_n(work_.key_gradient, (packed_ + kRowsBeyond) * dims, 0.0f);
  std::fill_n(work_.value_gradient, (packed_ + kRowsBeyond) * dims, 0.0f);
}

/// Blocks of keys may reach beyond the last one, where nothing may turn into NaN.
void BackwardWorker::clear_rows_from(Index packed) {
  const Index floats = plan_.dims / plan_.kernels.pack;
  for (float* rows : {keys_, values_}) {
    std::fill_n(rows + packed * floats, kRowsBeyond * floats, 0.0f);
  }
  if (plan_.kernels.pack == 1) return;
  std::fill_n(key_pairs_ + divide_up(packed, 2) * plan_.dims, kRowsBeyond / 2 * plan_.dims, 0.0f);
  if (packed % 2 == 0) return;
  auto* pair = reinterpret_cast<BFloat16*>(key_pairs_ + packed / 2 * plan_.dims);
  for (Index c = 0; c < plan_.dims; ++c) pair[2 * c + 1] = BFloat16();
}

/// Lanes without a query do like the last one, with a gradient of zero.
void BackwardWorker::load_tile(Index tile) {
  const auto& in = plan_.in;
  const Index lanes = plan_.kernels.lanes;
  const Index d = plan_.spec.head_size;
  const auto last = static_cast<Index>(lanes_.size()) - 1;
  const auto transpose = [&](const Side& side) {
    plan_.kernels.transpose(stage_, side.lanes, work_.units);
  };
  const auto row_of = [&](Index lane) { return lanes_[std::min(tile * lanes + lane, last)].row; };
  const float* content = relative_ ? in.relative->content_bias.data<float>() + head_ * d : nullptr;
  for (Index lane = 0; lane < lanes; ++lane) {
    load_side(query_, in.query, head_offset(in.query, row_of(lane)), content, lane);
  }
  transpose(query_);
  if (relative_) {
    const float* bias = in.relative->position_bias.data<float>() + head_ * d;
    for (Index lane = 0; lane < lanes; ++lane) {
      load_side(position_query_, in.query, head_offset(in.query, row_of(lane)), bias, lane);
    }
    transpose(position_query_);
  }
  for (Index lane = 0; lane < lanes; ++lane) {
    const Index row = row_of(lane);
    const bool present = tile * lanes + lane <= last;
    load_side(gradient_, in.out_gradient, present ? output_offset(row) : -1, nullptr, lane);
    means_[lane] = present ? load_statistics(row, lane) : 0.0f;
    if (!present) exponents_[lane] = exponents_[last - tile * lanes];
    const DropoutRow mask = dropout_row(plan_.spec.dropout, head_, row);
    starts_[lane] = mask.start;
    twists_[lane] = mask.twist;
  }
  transpose(gradient_);
}

/// Puts d numbers of a tensor, plus the bias, into the stage and the rows; zeros for offset −1.
void BackwardWorker::load_side(const Side& side, const Tensor& tensor, Index offset,
                               const float* bias, Index lane) {
  const Index lanes = plan_.kernels.lanes;
  const Index d = plan_.spec.head_size;
  const bool exact = bias == nullptr && !plan_.widen;
  const void* source = row_.data();
  if (offset >= 0 && exact) {
    source = static_cast<const std::byte*>(tensor.raw()) +
             offset * static_cast<Index>(element_size(tensor.dtype()));
  } else {
    for (Index c = 0; c < d; ++c) {
      row_[c] = offset < 0 ? 0.0f : number(tensor, offset + c) + (bias != nullptr ? bias[c] : 0.0f);
    }
    if (plan_.kernels.pack == 2) {
      for (Index c = 0; c < d; ++c) narrow_row_[c] = BFloat16(row_[c]);
      source = narrow_row_.data();
    }
  }
  if (plan_.kernels.pack == 2) {
    const auto* from = static_cast<const BFloat16*>(source);
    auto* rows = reinterpret_cast<BFloat16*>(side.rows) + lane / 2 * 2 * plan_.dims + lane % 2;
    for (Index c = 0; c < d; ++c) rows[2 * c] = from[c];
  } else {
    std::memcpy(side.rows + lane * plan_.dims, source, d * sizeof(float));
  }
  // As TileWork::stage is laid out.
  constexpr Index kPiece = 16;
  const Index bytes = d * (plan_.kernels.pack == 2 ? 2 : 4);
  float* to = stage_ + lane % 4 * lanes + lane / 4 * 4;
  for (Index done = 0; done < bytes; done += kPiece, to += 4 * lanes) {
    if (done + kPiece > bytes) std::memset(to, 0, kPiece);
    std::memcpy(to, static_cast<const std::byte*>(source) + done, std::min(kPiece, bytes - done));
  }
}

/// Sets the exponent of a query and returns Σ gradient · output.
float BackwardWorker::load_statistics(Index row, Index lane) {
  const auto& in = plan_.in;
  const float logsumexp = in.logsumexp.data<float>()[head_ * in.logsumexp.dimension(1) + row];
  exponents_[lane] = static_cast<float>(-std::numbers::log2e * logsumexp);
  const Index from = output_offset(row);
  float mean = 0;
  for (Index c = 0; c < plan_.spec.head_size; ++c) {
    mean += number(in.out_gradient, from + c) * number(in.out, from + c);
  }
  return mean;
}

/// What the lanes see, in one of their ranges, of the chunk that ends at place `end`.
void BackwardWorker::send_back(Index tile, Range Lane::*range, Index end, HeadSums& sums) {
  const Index lanes = plan_.kernels.lanes;
  const auto last = static_cast<Index>(lanes_.size()) - 1;
  Range all = {packed_, 0};
  for (Index i = 0; i < lanes; ++i) {
    const Range seen = lanes_[std::min(tile * lanes + i, last)].*range;
    Range packed = {0, 0};
    if (seen.begin < std::min(seen.end, end) && seen.end > chunk_begin_) {
      packed = {rank_[std::max(seen.begin, chunk_begin_) - chunk_begin_],
                rank_[std::min(seen.end, end) - chunk_begin_]};
    }
    work_.first[i] = static_cast<float>(packed.begin);
    work_.last[i] = static_cast<float>(packed.end);
    if (packed.begin >= packed.end) continue;
    all.begin = std::min(all.begin, packed.begin);
    all.end = std::max(all.end, packed.end);
  }
  if (all.begin >= all.end) return;
  work_.query_gradient = query_sums_ + tile * plan_.dims * lanes;
  const Index begin = all.begin / plan_.kernels.pack * plan_.kernels.pack;
  if (!relative_) return send_back(begin, all.end);
  const RelativeTile relative = {position_query_.lanes, position_query_.rows, lane_numbers_,
                                 key_numbers_};
  relative_->scores(relative, {begin, all.end}, 1.0f, added_);
  send_back(begin, all.end);
  relative_->send_back(relative, {begin, all.end}, work_.weights,
                       position_sums_ + tile * plan_.dims * lanes,
                       sums.relative_keys.data<float>());
}

/// Block by block. Relative positions need the gradients of all scores afterwards.
void BackwardWorker::send_back(Index begin, Index end) const {
  GradientWork block = work_;
  for (Index first = begin; first < end; first += kBlock) {
    if (relative_) {
      block.weights = work_.weights + (first - begin) * plan_.kernels.lanes / plan_.kernels.pack;
    }
    plan_.kernels.send_back(block, first, std::min(first + kBlock, end));
  }
}

void BackwardWorker::add_key_sums(const KeySequence& keys, HeadSums& sums) const {
  const Index d = plan_.spec.head_size;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  const auto& globals = plan_.spec.global_keys;
  for (Index i = 0; i < packed_; ++i) {
    const Index row = keys.row(places_[i]);
    const float* key = work_.key_gradient + i * plan_.dims;
    const float* value = work_.value_gradient + i * plan_.dims;
    if (places_[i] < keys.global_count()) {
      const Index at = std::lower_bound(globals.begin(), globals.end(), row) - globals.begin();
      add(sums.global_key, at * d, key, d, scale);
      add(sums.global_value, at * d, value, d, 1);
    } else {
      add(sums.key, (row - sums.keys.begin) * d, key, d, scale);
      add(sums.value, (row - sums.keys.begin) * d, value, d, 1);
    }
  }
}

void BackwardWorker::write_query_gradients(HeadSums& sums) {
  const Index d = plan_.spec.head_size;
  const Index lanes = plan_.kernels.lanes;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const Index lane = static_cast<Index>(i);
    const Index at = lane / lanes * plan_.dims * lanes + lane % lanes;
    const Index to = head_offset(plan_.in.query_gradient, lanes_[i].row);
    for (Index c = 0; c < d; ++c) {
      const float content = scale * query_sums_[at + c * lanes];
      const float position = relative_ ? scale * position_sums_[at + c * lanes] : 0.0f;
      set_number(plan_.in.query_gradient, to + c, content + position);
      if (!relative_) continue;
      sums.content_bias[c] += content;
      sums.position_bias[c] += position;
    }
  }
}

void BackwardWorker::write_zeros(Index row) {
  const Index to = head_offset(plan_.in.query_gradient, row);
  for (Index c = 0; c < plan_.spec.head_size; ++c) {
    set_number(plan_.in.query_gradient, to + c, 0.0f);
  }
}

}  // namespace longformer::kernels
