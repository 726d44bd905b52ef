#include "kernels/attention/products_backward.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/memory.h"
#include "kernels/row_copies.h"

namespace longformer::kernels {

ProductBackwardWorker::ProductBackwardWorker(const BackwardPlan& plan)
    : plan_(plan), kernels_(row_kernels()) {
  Index longest = 0;
  for (const AttentionDocument& document : plan.spec.rows->documents) {
    longest = std::max(longest, document.key_count);
  }
  longest = std::max(longest, static_cast<Index>(plan.spec.rows->global_keys.size()));
  const Index columns = std::min(kProductKeys, round_up(longest, kProductTile)) + kProductTile;
  const Index d = round_up(plan.spec.head_size, 16);
  const Index floats = kProductTile * (3 * columns + 2 * d + 6);
  memory_ = allocate_aligned(at(floats) * sizeof(float));
  float* next = static_cast<float*>(memory_.get());
  const auto take = [&next](Index count) { return std::exchange(next, next + count); };
  scores_ = take(kProductTile * columns);
  changes_ = take(kProductTile * columns);
  weights_ = reinterpret_cast<BFloat16*>(take(kProductTile * columns / 2));
  slopes_ = reinterpret_cast<BFloat16*>(take(kProductTile * columns / 2));
  gathered_queries_ = reinterpret_cast<BFloat16*>(take(kProductTile * d / 2));
  gradients_ = reinterpret_cast<BFloat16*>(take(kProductTile * d / 2));
  query_gradients_ = take(kProductTile * d);
  for (float** one : {&first_, &last_, &exponents_, &means_}) *one = take(kProductTile);
  starts_ = reinterpret_cast<std::uint32_t*>(take(kProductTile));
  twists_ = reinterpret_cast<std::uint32_t*>(take(kProductTile));
}

void ProductBackwardWorker::run(Index head, Range queries, HeadSums& sums) {
  head_ = head;
  tasks_.clear();
  for (const AttentionDocument& document : plan_.spec.rows->documents) {
    const Range own = {std::max<Index>(queries.begin - document.query_begin, 0),
                       std::min(queries.end - document.query_begin, document.query_count)};
    if (own.begin >= own.end) continue;
    plan_.rows.add(document, head, own, round_up(plan_.queries_per_task, kProductTile),
                   kProductTile, tasks_);
  }
  for (const Task& task : tasks_) run(task, sums);
}

void ProductBackwardWorker::run(const Task& task, HeadSums& sums) {
  plan_.rows.collect(task, lanes_, blind_);
  for (const Index row : blind_) write_zeros(row);
  std::erase_if(lanes_, [this](const Lane& lane) {
    if (plan_.sends_back(head_, lane.row)) return false;
    write_zeros(lane.row);
    return true;
  });
  if (lanes_.empty()) return;
  sequence_ = plan_.rows.keys_of(task, lanes_);
  keys_.start(sequence_, HeadMatrix(plan_.in.key, head_), HeadMatrix(plan_.in.value, head_),
              !plan_.spec.rows->key_mask.empty());
  gathered_keys_.assign(at(keys_.gathered_rows() * plan_.spec.head_size), 0.0f);
  gathered_values_.assign(gathered_keys_.size(), 0.0f);
  const auto count = static_cast<Index>(lanes_.size());
  for (Index first = 0; first < count; first += kProductTile) {
    send_back_tile(std::span(lanes_).subspan(at(first), at(std::min(kProductTile, count - first))),
                   sums);
  }
  add_gathered(sums);
}

void ProductBackwardWorker::send_back_tile(std::span<const Lane> lanes, HeadSums& sums) {
  load_queries(lanes);
  Range window = lanes[0].window, globals = lanes[0].globals;
  for (const Lane& lane : lanes) {
    window = {std::min(window.begin, lane.window.begin), std::max(window.end, lane.window.end)};
    globals.end = std::max(globals.end, lane.globals.end);
  }
  fresh_ = true;
  const auto send = [&](Range Lane::*range) {
    return [=, this, &sums](const KeyBlock& block) { send_back(lanes, range, block, sums); };
  };
  keys_.for_blocks(window, send(&Lane::window));
  keys_.for_blocks(globals, send(&Lane::globals));
  write_query_gradients(lanes);
}

/// Queries, gradients of the output and statistics of a tile; zeros where it has fewer queries.
void ProductBackwardWorker::load_queries(std::span<const Lane> lanes) {
  const auto& in = plan_.in;
  const Index d = plan_.spec.head_size;
  const Index heads = static_cast<Index>(plan_.spec.heads.size());
  const HeadMatrix all(in.query, head_);
  const auto count = static_cast<Index>(lanes.size());
  static_assert(HeadSums::kRowsBehind >= kProductTile);
  const bool in_place = count == kProductTile && lanes.back().row - lanes.front().row == count - 1;
  queries_ = in_place ? all.row(lanes.front().row) : gathered_queries_;
  if (count < kProductTile) {
    std::fill_n(gathered_queries_, kProductTile * d, BFloat16());
    std::fill_n(gradients_, kProductTile * d, BFloat16());
    for (float* numbers : {exponents_, means_}) std::fill_n(numbers, kProductTile, 0.0f);
  }
  for (Index i = 0; i < count; ++i) {
    const Index row = lanes[at(i)].row;
    const Index from = (row * heads + head_) * d;
    const BFloat16* gradient = in.out_gradient.data<BFloat16>() + from;
    if (!in_place) std::copy_n(all.row(row), d, gathered_queries_ + i * d);
    std::copy_n(gradient, d, gradients_ + i * d);
    multiply_rows(in.out.data<BFloat16>() + from, gradient, 1, d, &means_[i]);
    exponents_[i] = static_cast<float>(-std::numbers::log2e * plan_.logsumexp(head_, row));
    const DropoutRow mask = dropout_row(plan_.spec.dropout, head_, row);
    starts_[i] = mask.start;
    twists_[i] = mask.twist;
  }
}

SoftmaxGradientRows ProductBackwardWorker::gradient_rows(const KeyBlock& block) {
  const double scale = 1 / std::sqrt(static_cast<double>(plan_.spec.head_size));
  const Dropout& dropout = plan_.spec.dropout;
  SoftmaxGradientRows rows;
  rows.scores = scores_;
  rows.changes = changes_;
  rows.weights = weights_;
  rows.slopes = slopes_;
  rows.columns = block.columns;
  rows.first = first_;
  rows.last = last_;
  rows.exponent = exponents_;
  rows.mean = means_;
  const auto kept = keys_.kept(block);
  rows.kept = kept.empty() ? nullptr : kept.data();
  rows.scale = static_cast<float>(std::numbers::log2e * scale);
  rows.slope_scale = static_cast<float>(scale);
  if (!dropout.active()) return rows;
  rows.starts = starts_;
  rows.twists = twists_;
  rows.key_columns = keys_.dropout_columns(block);
  rows.threshold = dropout.threshold();
  rows.kept_factor = dropout.kept_factor();
  return rows;
}

/// P are the weights and S the scores of a block: dV += Pᵀ·dO, dK += dSᵀ·Q, dQ += dS·K.
void ProductBackwardWorker::send_back(std::span<const Lane> lanes, Range Lane::*range,
                                      const KeyBlock& block, HeadSums& sums) {
  for (Index i = 0; i < kProductTile; ++i) {
    const bool present = i < static_cast<Index>(lanes.size());
    const Range columns = present ? block.columns_of(lanes[at(i)].*range) : Range();
    first_[i] = static_cast<float>(columns.begin);
    last_[i] = static_cast<float>(columns.end);
  }
  const Index d = plan_.spec.head_size;
  const GemmShape across = {.m = block.columns, .n = kProductTile, .k = d, .transpose_b = true};
  products_.run(across, block.keys, queries_, scores_);
  products_.run(across, block.values, gradients_, changes_);
  kernels_.softmax_gradient(gradient_rows(block));
  const Index first = (block.gathered ? block.first_row : block.first_row - sums.keys.begin) * d;
  const GemmShape to_keys = {.m = block.columns, .n = d, .k = kProductTile, .beta = 1};
  products_.run(to_keys, weights_, gradients_,
                (block.gathered ? gathered_values_.data() : sums.value.data<float>()) + first);
  products_.run(to_keys, slopes_, queries_,
                (block.gathered ? gathered_keys_.data() : sums.key.data<float>()) + first);
  products_.run({.m = kProductTile,
                 .n = d,
                 .k = block.columns,
                 .transpose_a = true,
                 .beta = fresh_ ? 0.0f : 1.0f},
                slopes_, block.keys, query_gradients_);
  fresh_ = false;
}

void ProductBackwardWorker::add_gathered(HeadSums& sums) const {
  const Index d = plan_.spec.head_size;
  const auto& globals = plan_.spec.rows->global_keys;
  keys_.for_gathered([&](Index from, Index place) {
    const Index row = sequence_.row(place);
    const bool global = place < sequence_.global_count();
    if (!global && !sequence_.keeps(place)) return;
    const Index to =
        (global ? std::lower_bound(globals.begin(), globals.end(), row) - globals.begin()
                : row - sums.keys.begin) *
        d;
    float* key = (global ? sums.global_key.data() : sums.key.data<float>()) + to;
    float* value = (global ? sums.global_value.data() : sums.value.data<float>()) + to;
    for (Index c = 0; c < d; ++c) {
      key[c] += gathered_keys_[at(from * d + c)];
      value[c] += gathered_values_[at(from * d + c)];
    }
  });
}

void ProductBackwardWorker::write_query_gradients(std::span<const Lane> lanes) const {
  const Index d = plan_.spec.head_size;
  Tensor& to = plan_.in.query_gradient;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    kernels_.write({.sums = query_gradients_ + static_cast<Index>(i) * d,
                    .factor = 1,
                    .count = d,
                    .out = to.data<BFloat16>() + (head_ * to.dimension(1) + lanes[i].row) * d});
  }
}

void ProductBackwardWorker::write_zeros(Index row) const {
  const Index d = plan_.spec.head_size;
  Tensor& to = plan_.in.query_gradient;
  std::fill_n(to.data<BFloat16>() + (head_ * to.dimension(1) + row) * d, d, BFloat16());
}

}  // namespace longformer::kernels
