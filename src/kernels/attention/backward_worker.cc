// One task at a time: its keys are packed chunk by chunk, and each tile of its queries sends back
// to the keys that it sees (docs/spec/performance.md#p6, with the tiles outside).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <type_traits>
#include <utility>

#include "core/memory.h"
#include "kernels/attention/backward.h"
#include "kernels/row_copies.h"

namespace longformer::kernels {
namespace {

/// Keys between which probabilities stay in the first-level cache.
constexpr Index kBlock = 64;
/// Rows of zeros that blocks of keys may reach into.
constexpr Index kRowsBeyond = 16;

/// Rows that are fetched ahead where they lie apart, as those of one head of an output do.
constexpr std::size_t kRowsAhead = 16;

/// Calls body with a pointer to element `at`.
template <typename Values, typename Body>
auto with_numbers(Values& tensor, Index at, Body&& body) {
  return tensor.dtype() == DType::f32 ? body(tensor.template data<float>() + at)
                                      : body(tensor.template data<BFloat16>() + at);
}

/// The units of the kernels that begin with element `at`.
const float* units_at(const Tensor& tensor, Index at) {
  return with_numbers(tensor, at,
                      [](const auto* from) { return reinterpret_cast<const float*>(from); });
}

void copy(const Tensor& tensor, Index at, Index count, float* to) {
  read_rows(tensor, {at, count}, {to, 1, count, count});
}

void write(const float* from, Index count, Tensor& tensor, Index at) {
  write_rows({from, 1, count, count}, tensor, {at, count});
}

void add(float* row, const float* from, Index count) {
  for (Index i = 0; i < count; ++i) row[i] += from[i];
}

}  // namespace

BackwardWorker::BackwardWorker(const BackwardPlan& plan) : plan_(plan) {
  allocate();
  work_.queries = query_.lanes;
  work_.query_rows = query_.rows;
  work_.gradients = gradient_.lanes;
  work_.gradient_rows = gradient_.rows;
  work_.exponent = exponents_;
  work_.mean = means_;
  work_.added = added_;
  work_.columns = columns_;
  const AttentionSpec& spec = plan.spec;
  const Index dims = plan.dims;
  const Index pack = plan.kernels.pack;
  if (spec.dropout.active()) {
    work_.dropout = {starts_, twists_, spec.dropout.threshold(), spec.dropout.kept_factor()};
  }
  work_.units = divide_up(spec.head_size, pack);
  work_.row_units = dims / pack;
  work_.dims = dims;
  work_.scale =
      static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(spec.head_size)));
  if (plan.distances > 0) {
    // Places may lie anywhere.
    const Index most = spec.rows->places ? plan.distances : plan.chunk_rows + plan.queries_per_task;
    relative_.emplace(plan.kernels, spec.head_size, plan.distances, most);
    const Tensor* scores = plan.in.relative->kind_scores;
    if (scores != nullptr) {
      kinds_.emplace(*scores, spec.rows->places->key_kinds, plan.kernels.lanes, plan.chunk_rows);
    }
  }
  if (spec.distance_bias) bias_.emplace(*plan.in.distance_bias, plan.kernels.lanes);
  if (spec.distance_keys) {
    distance_keys_.emplace(plan.kernels, spec.head_size, *plan.in.distance_keys, plan.chunk_rows);
  }
  row_.resize(static_cast<std::size_t>(dims));
  tile_rows_.resize(static_cast<std::size_t>(plan.kernels.lanes * dims));
  lane_numbers_.resize(static_cast<std::size_t>(plan.kernels.lanes));
  places_.resize(static_cast<std::size_t>(plan.chunk_rows));
  key_numbers_.resize(places_.size());
  rank_.resize(places_.size() + 1);
}

/// All arrays of floats side by side, each from a whole line on, zeros at first.
void BackwardWorker::allocate() {
  const Index lanes = plan_.kernels.lanes;
  const Index pack = plan_.kernels.pack;
  const Index dims = plan_.dims;
  const bool relative = plan_.distances > 0;
  const Index rows = plan_.chunk_rows + kRowsBeyond;
  const Index tiles = divide_up(plan_.queries_per_task, lanes);
  std::vector<std::pair<float**, Index>> wanted;
  for (Side* side : {&query_, &position_query_, &gradient_}) {
    wanted.emplace_back(&side->lanes, round_up(dims / pack, 4) * lanes);
    wanted.emplace_back(&side->rows, lanes / pack * dims);
  }
  const bool keeps_weights = relative || plan_.spec.distance_keys;
  const Index weight_rows = keeps_weights ? rows : kBlock + kRowsBeyond;
  wanted.insert(wanted.end(), {{&stage_, round_up(dims / pack, 4) * lanes},
                               {&exponents_, lanes},
                               {&means_, lanes},
                               {&work_.first, lanes},
                               {&work_.last, lanes},
                               {reinterpret_cast<float**>(&starts_), lanes},
                               {reinterpret_cast<float**>(&twists_), lanes},
                               {reinterpret_cast<float**>(&columns_), rows},
                               {&keys_, rows * dims / pack},
                               {&values_, rows * dims / pack},
                               {&key_sums_, rows * dims},
                               {&value_sums_, rows * dims},
                               {&query_sums_, tiles * dims * lanes},
                               {&work_.block, plan_.kernels.rows * lanes},
                               {&work_.kept, (kBlock + kRowsBeyond) * lanes / pack},
                               {&work_.weights, weight_rows * lanes / pack}});
  if (pack == 2) {
    wanted.emplace_back(&key_pairs_, rows * dims / pack);
    wanted.emplace_back(&work_.weight_pairs, (kBlock + kRowsBeyond) * lanes / pack);
  }
  if (relative) {
    wanted.emplace_back(&position_sums_, tiles * dims * lanes);
  }
  if (has_position_term(plan_.spec)) wanted.emplace_back(&added_, rows * lanes);
  Index floats = 0;
  for (const auto& [part, count] : wanted) floats += round_up(count, 16);
  memory_ = allocate_aligned(static_cast<std::size_t>(floats) * sizeof(float));
  float* next = static_cast<float*>(memory_.get());
  std::fill_n(next, floats, 0.0f);
  for (const auto& [part, count] : wanted) *part = std::exchange(next, next + round_up(count, 16));
  if (pack == 1) key_pairs_ = keys_;
}

void BackwardWorker::run(Index head, Range queries, HeadSums& sums) {
  head_ = head;
  sums.key_factor = plan_.kernels.pack == 1 ? 1.0f : score_scale();
  if (relative_) relative_->start_head(plan_.in.relative->keys, head);
  if (distance_keys_) distance_keys_->start_head(head);
  if (bias_) {
    bias_->start_head(*plan_.in.distance_bias, head, plan_.spec.heads[head].dilation,
                      std::sqrt(static_cast<float>(plan_.spec.head_size)));
  }
  tasks_.clear();
  for (const AttentionDocument& document : plan_.spec.rows->documents) {
    const Range own = {std::max<Index>(queries.begin - document.query_begin, 0),
                       std::min(queries.end - document.query_begin, document.query_count)};
    if (own.begin >= own.end) continue;
    plan_.rows.add(document, head, own, plan_.queries_per_task, plan_.kernels.lanes, tasks_);
  }
  for (const Task& task : tasks_) {
    run(task, sums);
    // Sums in fp32 are those of a task.
    if (plan_.in.distance_bias_gradient != nullptr) bias_->finish(sums.distance_bias);
  }
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
    take_chunk(task, keys, {begin, end}, sums);
    const ChunkKeys chunk = {work_.keys, work_.row_units, packed_, work_.key_pairs};
    if (distance_keys_) {
      distance_keys_->start_chunk();
      distance_keys_->take_keys(chunk);
    }
    for (Index tile = 0; tile < tile_count(); ++tile) {
      if (!sees_chunk(tile, {begin, end}, keys.global_count())) continue;
      load_tile(tile);
      next_lane_ = (tile + 1) * plan_.kernels.lanes;
      for (Index i = 0; i < plan_.kernels.lanes; ++i) {
        const Index lane = std::min<Index>(tile * plan_.kernels.lanes + i, lanes_.size() - 1);
        lane_numbers_[i] = plan_.rows.query_number(lanes_[lane], dilation);
        if (kinds_) kinds_->take_query(i, lanes_[lane].row);
      }
      send_back(tile, &Lane::window, end, sums);
      send_back(tile, &Lane::globals, end, sums);
    }
    if (distance_keys_) {
      distance_keys_->finish_chunk(chunk, plan_.kernels.pack == 1 ? score_scale() : 1.0f,
                                   work_.key_gradient, sums.distance_queries.data<float>());
    }
    if (!in_place_) add_key_sums(keys, sums);
  }
  write_query_gradients(sums);
}

void BackwardWorker::select_lanes(const Task& task) {
  plan_.rows.collect(task, lanes_, blind_);
  for (const Index row : blind_) write_zeros(row);
  std::size_t ahead = kRowsAhead;
  std::erase_if(lanes_, [&](const Lane& lane) {
    if (ahead < lanes_.size()) prefetch(plan_.in.out_gradient, output_offset(lanes_[ahead++].row));
    if (plan_.sends_back(head_, lane.row)) return false;
    write_zeros(lane.row);
    return true;
  });
}

/// Windows move on from lane to lane; global keys are in the first chunks.
bool BackwardWorker::sees_chunk(Index tile, Range places, Index globals) const {
  const Index first = tile * plan_.kernels.lanes;
  const auto last = std::min<Index>(first + plan_.kernels.lanes, lanes_.size()) - 1;
  return places.begin < globals ||
         (lanes_[first].window.begin < places.end && lanes_[last].window.end > places.begin);
}

/// Whether the keys are rows side by side, of the dtype of the kernels. Blocks may reach beyond the
/// last one: into its own document only.
bool BackwardWorker::lies_in_rows(const Task& task, const KeySequence& keys, Range places) const {
  const AttentionDocument& document = *task.document;
  if (plan_.widen || plan_.dims != plan_.spec.head_size) return false;
  if (keys.stride != 1 || places.begin < keys.global_count()) return false;
  const Index first = keys.row(places.begin);
  const Index count = places.end - places.begin;
  if (first + count + kRowsBeyond > document.key_begin + document.key_count) return false;
  return keys.kept == nullptr ||
         std::memchr(keys.kept + first, 0, static_cast<std::size_t>(count)) == nullptr;
}

/// Takes the keys at some places as the next chunk.
void BackwardWorker::take_chunk(const Task& task, const KeySequence& keys, Range places,
                                HeadSums& sums) {
  in_place_ = lies_in_rows(task, keys, places);
  if (in_place_) {
    const auto& in = plan_.in;
    const Index row = keys.row(places.begin);
    const Index from = (row - sums.keys.begin) * plan_.dims;
    work_.keys = units_at(in.key, head_offset(in.key, row));
    work_.values = units_at(in.value, head_offset(in.value, row));
    work_.key_pairs = plan_.kernels.pack == 1 ? work_.keys : key_pairs_;
    work_.key_gradient = sums.key.data<float>() + from;
    work_.value_gradient = sums.value.data<float>() + from;
  } else {
    work_.keys = keys_;
    work_.values = values_;
    work_.key_pairs = key_pairs_;
    work_.key_gradient = key_sums_;
    work_.value_gradient = value_sums_;
  }
  pack_keys(keys, places);
}

void BackwardWorker::pack_keys(const KeySequence& keys, Range places) {
  const auto& in = plan_.in;
  const Index d = plan_.spec.head_size;
  const Index dims = plan_.dims;
  chunk_begin_ = places.begin;
  packed_ = 0;
  rank_[0] = 0;
  for (Index place = places.begin; place < places.end; ++place) {
    if (keys.keeps(place)) {
      const Index row = keys.row(place);
      const Index from = head_offset(in.key, row);
      places_[packed_] = place;
      key_numbers_[packed_] = plan_.rows.key_number(keys, place);
      if (kinds_) kinds_->take_key(packed_, row);
      columns_[packed_] = static_cast<std::uint32_t>(row) * DropoutRow::kColumnStep;
      if (in_place_) {
        // Nothing is copied.
      } else if (plan_.kernels.pack == 2) {
        std::memcpy(reinterpret_cast<BFloat16*>(keys_) + packed_ * dims,
                    in.key.data<BFloat16>() + from, 2 * d);
        std::memcpy(reinterpret_cast<BFloat16*>(values_) + packed_ * dims,
                    in.value.data<BFloat16>() + from, 2 * d);
      } else {
        copy(in.key, from, d, keys_ + packed_ * dims);
        copy(in.value, from, d, values_ + packed_ * dims);
      }
      ++packed_;
    }
    rank_[place + 1 - places.begin] = packed_;
  }
  if (!in_place_) {
    end_rows_at(packed_);
    std::fill_n(key_sums_, (packed_ + kRowsBeyond) * dims, 0.0f);
    std::fill_n(value_sums_, (packed_ + kRowsBeyond) * dims, 0.0f);
  }
  pair_keys();
}

/// Blocks of keys may reach beyond the last one, where nothing may turn into NaN.
void BackwardWorker::end_rows_at(Index packed) {
  const Index floats = plan_.dims / plan_.kernels.pack;
  for (float* rows : {keys_, values_}) {
    std::fill_n(rows + packed * floats, kRowsBeyond * floats, 0.0f);
  }
}

/// Rows of bf16 in pairs, for sums over the keys.
void BackwardWorker::pair_keys() {
  if (plan_.kernels.pack == 1) return;
  const auto* rows = reinterpret_cast<const BFloat16*>(work_.keys);
  for (Index pair = 0; pair < (packed_ + kRowsBeyond) / 2; ++pair) {
    const BFloat16* even = rows + 2 * pair * plan_.dims;
    interleave(even, even + plan_.dims, plan_.dims, key_pairs_ + pair * plan_.dims);
  }
}

/// Lanes without a query do like the last one, with a gradient of zero.
void BackwardWorker::load_tile(Index tile) {
  const auto& in = plan_.in;
  const Index lanes = plan_.kernels.lanes;
  const Index d = plan_.spec.head_size;
  const auto last = static_cast<Index>(lanes_.size()) - 1;
  const auto row_of = [&](Index lane) { return lanes_[std::min(tile * lanes + lane, last)].row; };
  const auto load_queries = [&](const Side& side, const Tensor* bias) {
    const float* own = bias != nullptr ? bias->data<float>() + head_ * d : nullptr;
    for (Index lane = 0; lane < lanes; ++lane) {
      load_row(side, in.query, head_offset(in.query, row_of(lane)), own, lane);
    }
    finish_side(side);
  };
  load_queries(query_, relative_ ? &in.relative->content_bias : nullptr);
  // Gradients of keys are exact at once; rows of bf16 would be rounded.
  if (plan_.kernels.pack == 1) {
    const float scale = score_scale();
    for (Index i = 0; i < lanes * plan_.dims; ++i) query_.rows[i] *= scale;
  }
  if (relative_) load_queries(position_query_, &in.relative->position_bias);
  for (Index lane = 0; lane < lanes; ++lane) {
    const Index row = row_of(lane);
    const bool present = tile * lanes + lane <= last;
    load_row(gradient_, in.out_gradient, present ? output_offset(row) : -1, nullptr, lane);
    means_[lane] = present ? load_statistics(row, lane) : 0.0f;
    if (!present) exponents_[lane] = exponents_[last - tile * lanes];
    const DropoutRow mask = dropout_row(plan_.spec.dropout, head_, row);
    starts_[lane] = mask.start;
    twists_[lane] = mask.twist;
  }
  finish_side(gradient_);
}

void BackwardWorker::prefetch(const Tensor& tensor, Index offset) const {
  constexpr Index kLine = 64;
  const auto size = static_cast<Index>(element_size(tensor.dtype()));
  const auto* row = static_cast<const std::byte*>(tensor.raw()) + offset * size;
  for (Index at = 0; at < plan_.spec.head_size * size; at += kLine) __builtin_prefetch(row + at);
}

/// Fetches a few of the rows that the next tile will load.
void BackwardWorker::prefetch_queries() {
  constexpr Index kRows = 4;
  const auto& in = plan_.in;
  const auto count = static_cast<Index>(lanes_.size());
  for (const Index end = std::min(next_lane_ + kRows, count); next_lane_ < end; ++next_lane_) {
    const Index row = lanes_[next_lane_].row;
    prefetch(in.query, head_offset(in.query, row));
    prefetch(in.out_gradient, output_offset(row));
    prefetch(in.out, output_offset(row));
  }
}

/// Takes d numbers of a tensor, plus the bias, as a row of a tile; zeros for offset −1.
void BackwardWorker::load_row(const Side& side, const Tensor& tensor, Index offset,
                              const float* bias, Index lane) {
  const Index d = plan_.spec.head_size;
  float* row = row_.data();
  if (plan_.kernels.pack == 1) {
    row = side.rows + lane * plan_.dims;
  } else if (offset >= 0 && bias == nullptr) {
    std::memcpy(tile_rows_.data() + lane * plan_.dims, tensor.data<BFloat16>() + offset, 2 * d);
    return;
  }
  if (offset >= 0) {
    copy(tensor, offset, d, row);
  } else {
    std::fill_n(row, d, 0.0f);
  }
  if (bias != nullptr) {
    for (Index c = 0; c < d; ++c) row[c] += bias[c];
  }
  if (plan_.kernels.pack == 1) return;
  for (Index c = 0; c < d; ++c) tile_rows_[lane * plan_.dims + c] = BFloat16(row[c]);
}

/// Brings the rows of a tile into both of their layouts.
void BackwardWorker::finish_side(const Side& side) {
  constexpr Index kPiece = 16;
  const Index lanes = plan_.kernels.lanes;
  const Index dims = plan_.dims;
  const bool bf16 = plan_.kernels.pack == 2;
  const Index bytes = dims * (bf16 ? 2 : 4);
  const auto* rows = bf16 ? reinterpret_cast<const std::byte*>(tile_rows_.data())
                          : reinterpret_cast<const std::byte*>(side.rows);
  for (Index lane = 0; lane < lanes; ++lane) {
    // The stage is laid out like TileWork::stage.
    float* to = stage_ + lane % 4 * lanes + lane / 4 * 4;
    for (Index done = 0; done < bytes; done += kPiece, to += 4 * lanes) {
      std::memcpy(to, rows + lane * bytes + done, kPiece);
    }
  }
  plan_.kernels.transpose(stage_, side.lanes, work_.units);
  if (!bf16) return;
  for (Index lane = 0; lane < lanes; lane += 2) {
    const BFloat16* even = tile_rows_.data() + lane * dims;
    interleave(even, even + dims, dims, side.rows + lane / 2 * dims);
  }
}

/// Sets the exponent of a query and returns Σ gradient · output.
float BackwardWorker::load_statistics(Index row, Index lane) {
  const auto& in = plan_.in;
  exponents_[lane] = static_cast<float>(-std::numbers::log2e * plan_.logsumexp(head_, row));
  const Index from = output_offset(row);
  const Index d = plan_.spec.head_size;
  return with_numbers(in.out, from, [&](const auto* out) {
    using Number = std::remove_cvref_t<decltype(*out)>;
    float mean;
    multiply_rows(out, in.out_gradient.data<Number>() + from, 1, d, &mean);
    return mean;
  });
}

/// Handles the part that the lanes see, in one of their ranges, of the chunk that ends at place
/// `end`.
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
  if (bias_) bias_->scores(lane_numbers_, key_numbers_, {begin, all.end}, added_);
  if (distance_keys_) {
    const RelativeTile queries = {query_.lanes, query_.rows, lane_numbers_, key_numbers_};
    distance_keys_->scores(queries, {begin, all.end}, 1.0f, added_);
    send_back(begin, all.end);
    return distance_keys_->send_back(queries, {begin, all.end}, work_.weights, work_.query_gradient,
                                     sums.distance_keys.data<float>());
  }
  if (!relative_) return send_back(begin, all.end);
  const RelativeTile relative = {position_query_.lanes, position_query_.rows, lane_numbers_,
                                 key_numbers_};
  relative_->scores(relative, {begin, all.end}, 1.0f, added_);
  if (kinds_) {
    const float factor = std::sqrt(static_cast<float>(plan_.spec.head_size));
    kinds_->add_scores(head_, {begin, all.end}, factor, added_);
  }
  send_back(begin, all.end);
  if (kinds_) send_kinds_back({begin, all.end});
  relative_->send_back(relative, {begin, all.end}, work_.weights,
                       position_sums_ + tile * plan_.dims * lanes,
                       sums.relative_keys.data<float>());
}

/// This goes block by block. Relative positions and keys of distances need the gradients of all
/// scores afterwards.
void BackwardWorker::send_back(Index begin, Index end) {
  GradientWork block = work_;
  for (Index first = begin; first < end; first += kBlock) {
    if (relative_ || distance_keys_) {
      block.weights = work_.weights + (first - begin) * plan_.kernels.lanes / plan_.kernels.pack;
    }
    prefetch_queries();
    const Index last = std::min(first + kBlock, end);
    plan_.kernels.send_back(block, first, last);
    if (plan_.in.distance_bias_gradient != nullptr) send_biases_back({first, last}, block.weights);
  }
}

void BackwardWorker::send_kinds_back(Range keys) {
  Tensor& gradient = *plan_.in.relative_gradients->kind_scores;
  const float* weights = work_.weights;
  if (plan_.kernels.pack == 1) {
    kinds_->send_back(head_, keys, weights, gradient);
  } else {
    kinds_->send_back(head_, keys, reinterpret_cast<const BFloat16*>(weights), gradient);
  }
}

void BackwardWorker::send_biases_back(Range keys, const float* weights) {
  if (plan_.kernels.pack == 1) {
    bias_->send_back(lane_numbers_, key_numbers_, keys, weights);
  } else {
    bias_->send_back(lane_numbers_, key_numbers_, keys, reinterpret_cast<const BFloat16*>(weights));
  }
}

void BackwardWorker::add_key_sums(const KeySequence& keys, HeadSums& sums) const {
  const Index d = plan_.spec.head_size;
  const auto& globals = plan_.spec.rows->global_keys;
  for (Index i = 0; i < packed_; ++i) {
    const Index row = keys.row(places_[i]);
    float* key_to = sums.key.data<float>() + (row - sums.keys.begin) * d;
    float* value_to = sums.value.data<float>() + (row - sums.keys.begin) * d;
    if (places_[i] < keys.global_count()) {
      const Index at = std::lower_bound(globals.begin(), globals.end(), row) - globals.begin();
      key_to = sums.global_key.data() + at * d;
      value_to = sums.global_value.data() + at * d;
    }
    add(key_to, key_sums_ + i * plan_.dims, d);
    add(value_to, value_sums_ + i * plan_.dims, d);
  }
}

float BackwardWorker::score_scale() const {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(plan_.spec.head_size)));
}

void BackwardWorker::write_query_gradients(HeadSums& sums) {
  const Index d = plan_.spec.head_size;
  const Index lanes = plan_.kernels.lanes;
  const float scale = score_scale();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const Index lane = static_cast<Index>(i);
    const Index at = lane / lanes * plan_.dims * lanes + lane % lanes;
    for (Index c = 0; c < d; ++c) row_[c] = scale * query_sums_[at + c * lanes];
    if (relative_) {
      for (Index c = 0; c < d; ++c) {
        const float position = scale * position_sums_[at + c * lanes];
        sums.content_bias[c] += row_[c];
        sums.position_bias[c] += position;
        row_[c] += position;
      }
    }
    Tensor& to = plan_.in.query_gradient;
    write(row_.data(), d, to, head_offset(to, lanes_[i].row));
  }
}

void BackwardWorker::write_zeros(Index row) {
  std::fill(row_.begin(), row_.end(), 0.0f);
  Tensor& to = plan_.in.query_gradient;
  write(row_.data(), plan_.spec.head_size, to, head_offset(to, row));
}

}  // namespace longformer::kernels
