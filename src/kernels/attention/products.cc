#include "kernels/attention/products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "core/cpu.h"
#include "core/memory.h"
#include "core/threads.h"
#include "kernels/attention/product_keys.h"
#include "kernels/attention/visible_row.h"

namespace longformer::kernels {
namespace {

constexpr Index kQueriesPerTask = 512;

/// Up to this many queries that see everything are cheaper one by one than as a tile.
constexpr std::size_t kFewQueries = 8;

template <typename T>
using PerQuery = std::array<T, kProductTile>;

/// Tasks of all heads and documents.
std::vector<Task> tasks_of(const AttentionSpec& spec, const AttentionTasks& rows, int threads) {
  const auto heads = static_cast<Index>(spec.heads.size());
  std::vector<Task> tasks;
  for (const AttentionDocument& document : spec.rows->documents) {
    // The rule is that of Plan::queries_per_task in fused.cc.
    const Index share = divide_up(document.query_count * heads, Index{8} * std::max(threads, 1));
    const Index most = round_up(std::clamp(share, kProductTile, kQueriesPerTask), kProductTile);
    for (Index head = 0; head < heads; ++head) {
      rows.add(document, head, {0, document.query_count}, most, kProductTile, tasks);
    }
  }
  return tasks;
}

/// Working memory of one thread, and the steps of a task.
class Worker {
 public:
  Worker(const AttentionSpec& spec, const AttentionArguments& in, const AttentionTasks& rows);

  void run(const Task& task);

 private:
  void attend_tile(std::span<const Lane> lanes);
  const BFloat16* queries_of(std::span<const Lane> lanes);
  void add_block(const BFloat16* queries, std::span<const Lane> lanes, Range Lane::*range,
                 const KeyBlock& block);
  void rescale_output();
  void hide(std::span<const std::uint8_t> kept);
  void finish(std::span<const Lane> lanes);
  void attend_alone(const Lane& lane);
  void write_zeros(Index row);
  void set_logsumexp(Index row, float value) const;

  Index head_size() const { return spec_.head_size; }
  BFloat16* out_row(Index row) const {
    const auto heads = static_cast<Index>(spec_.heads.size());
    return in_.out.data<BFloat16>() + (row * heads + head_) * head_size();
  }

  const AttentionSpec& spec_;
  const AttentionArguments& in_;
  const AttentionTasks& rows_;
  RowKernels kernels_;
  PreparedProducts products_;
  ProductKeys keys_;
  const AttentionDocument* document_ = nullptr;
  Index head_ = 0;
  std::vector<Lane> lanes_;
  std::vector<Index> blind_;

  std::shared_ptr<void> memory_;
  float* scores_ = nullptr;
  float* output_ = nullptr;
  float* numbers_ = nullptr;
  float* hidden_ = nullptr;
  BFloat16* weights_ = nullptr;
  BFloat16* queries_ = nullptr;
  PerQuery<Index> first_, last_;
  PerQuery<float> shift_, sum_, factor_;
  PerQuery<DropoutRow> dropout_;
  /// Nothing has been added to the output of the tile yet.
  bool fresh_ = true;
  std::vector<float> row_;
};

Worker::Worker(const AttentionSpec& spec, const AttentionArguments& in, const AttentionTasks& rows)
    : spec_(spec), in_(in), rows_(rows), kernels_(row_kernels()) {
  Index longest = 0;
  for (const AttentionDocument& document : spec.rows->documents) {
    longest = std::max(longest, document.key_count);
  }
  const Index columns = std::min(kProductKeys, round_up(longest, kProductTile)) + kProductTile;
  const Index d = round_up(spec.head_size, 16);
  const Index floats = kProductTile * (columns + columns / 2 + d + d / 2) + 2 * columns;
  memory_ = allocate_aligned(at(floats) * sizeof(float));
  float* next = static_cast<float*>(memory_.get());
  const auto take = [&next](Index count) { return std::exchange(next, next + count); };
  scores_ = take(kProductTile * columns);
  weights_ = reinterpret_cast<BFloat16*>(take(kProductTile * columns / 2));
  output_ = take(kProductTile * d);
  queries_ = reinterpret_cast<BFloat16*>(take(kProductTile * d / 2));
  numbers_ = take(columns);
  hidden_ = take(columns);
  for (Index c = 0; c < columns; ++c) numbers_[c] = static_cast<float>(c);
  row_.resize(at(spec.head_size));
}

void Worker::run(const Task& task) {
  document_ = task.document;
  head_ = task.head;
  rows_.collect(task, lanes_, blind_);
  for (const Index row : blind_) write_zeros(row);
  if (task.sees_everything && lanes_.size() <= kFewQueries && !spec_.dropout.active()) {
    for (const Lane& lane : lanes_) attend_alone(lane);
    return;
  }
  if (lanes_.empty()) return;
  const KeySequence sequence = rows_.keys_of(task, lanes_);
  keys_.start(sequence, HeadMatrix(in_.key, head_), HeadMatrix(in_.value, head_),
              !spec_.rows->key_mask.empty());
  const auto count = static_cast<Index>(lanes_.size());
  for (Index first = 0; first < count; first += kProductTile) {
    attend_tile(std::span(lanes_).subspan(at(first), at(std::min(kProductTile, count - first))));
  }
}

/// Softmax of the scores of a tile block by block, each added to the output.
void Worker::attend_tile(std::span<const Lane> lanes) {
  const BFloat16* queries = queries_of(lanes);
  Range window = lanes[0].window, globals = lanes[0].globals;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    window = {std::min(window.begin, lanes[i].window.begin),
              std::max(window.end, lanes[i].window.end)};
    globals.end = std::max(globals.end, lanes[i].globals.end);
    if (spec_.dropout.active()) dropout_[i] = dropout_row(spec_.dropout, head_, lanes[i].row);
  }
  shift_.fill(0);
  sum_.fill(0);
  fresh_ = true;
  const auto add = [&](Range Lane::*range) {
    return [=, this](const KeyBlock& block) { add_block(queries, lanes, range, block); };
  };
  keys_.for_blocks(window, add(&Lane::window));
  keys_.for_blocks(globals, add(&Lane::globals));
  finish(lanes);
}

/// The queries of a tile as a matrix: in place where their rows follow each other.
const BFloat16* Worker::queries_of(std::span<const Lane> lanes) {
  const HeadMatrix all(in_.query, head_);
  const Index first = lanes.front().row;
  const auto count = static_cast<Index>(lanes.size());
  if (lanes.back().row - first == count - 1 && first + kProductTile <= all.readable_rows) {
    return all.row(first);
  }
  std::fill_n(queries_, kProductTile * head_size(), BFloat16());
  for (Index i = 0; i < count; ++i) {
    std::copy_n(all.row(lanes[at(i)].row), head_size(), queries_ + i * head_size());
  }
  return queries_;
}

/// out = out · e^(old maximum − new) + softmax numerators · V
void Worker::add_block(const BFloat16* queries, std::span<const Lane> lanes, Range Lane::*range,
                       const KeyBlock& block) {
  first_.fill(0);
  last_.fill(0);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Range columns = block.columns_of(lanes[i].*range);
    first_[i] = columns.begin;
    last_[i] = columns.end;
  }
  const auto kept = keys_.kept(block);
  hide(kept);
  const Index d = head_size();
  products_.run({.m = kProductTile, .n = block.columns, .k = d, .transpose_b = true}, queries,
                block.keys, scores_);
  SoftmaxRows rows;
  rows.scores = scores_;
  rows.weights = weights_;
  rows.columns = block.columns;
  rows.numbers = numbers_;
  rows.first = first_.data();
  rows.last = last_.data();
  rows.hidden = kept.empty() ? nullptr : hidden_;
  rows.scale = static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(d)));
  rows.shift = shift_.data();
  rows.sum = sum_.data();
  rows.factor = factor_.data();
  if (spec_.dropout.active()) {
    rows.dropout = {dropout_.data(), keys_.dropout_columns(block), spec_.dropout.threshold(),
                    spec_.dropout.kept_factor()};
  }
  kernels_.softmax(rows);
  if (!fresh_) rescale_output();
  products_.run({.m = kProductTile, .n = d, .k = block.columns, .beta = fresh_ ? 0.0f : 1.0f},
                weights_, block.values, output_);
  fresh_ = false;
}

void Worker::rescale_output() {
  for (Index query = 0; query < kProductTile; ++query) {
    const float factor = factor_[at(query)];
    if (factor == 1) continue;
    float* row = output_ + query * head_size();
    for (Index c = 0; c < head_size(); ++c) row[c] *= factor;
  }
}

void Worker::hide(std::span<const std::uint8_t> kept) {
  for (std::size_t c = 0; c < kept.size(); ++c) hidden_[c] = kept[c] != 0 ? 0.0f : kHiddenScore;
}

void Worker::finish(std::span<const Lane> lanes) {
  for (Index query = 0; query < static_cast<Index>(lanes.size()); ++query) {
    const Lane& lane = lanes[at(query)];
    const float sum = sum_[at(query)];
    if (sum == 0) {
      write_zeros(lane.row);
    } else if (kernels_.write(
                   {output_ + query * head_size(), 1 / sum, head_size(), out_row(lane.row)}) ||
               spec_.dropout.active()) {
      const double exponent = std::log2(sum) - double{shift_[at(query)]};
      set_logsumexp(lane.row, static_cast<float>(exponent * std::numbers::ln2));
    } else {
      attend_alone(lane);
    }
  }
}

/// One query without a tile.
void Worker::attend_alone(const Lane& lane) {
  const float logsumexp = attend_visible(spec_, {in_.query, in_.key, in_.value}, *document_, head_,
                                         lane.row, row_.data());
  std::transform(row_.begin(), row_.end(), out_row(lane.row),
                 [](float value) { return BFloat16(value); });
  set_logsumexp(lane.row, logsumexp);
}

void Worker::write_zeros(Index row) {
  std::fill_n(out_row(row), head_size(), BFloat16());
  set_logsumexp(row, -std::numeric_limits<float>::infinity());
}

void Worker::set_logsumexp(Index row, float value) const {
  if (in_.logsumexp == nullptr) return;
  in_.logsumexp->data<float>()[head_ * spec_.rows->query_count() + row] = value;
}

}  // namespace

RowKernels row_kernels() {
  return cpu_isa() >= CpuIsa::avx512_bf16 ? bf16_row_kernels() : portable_row_kernels();
}

std::optional<std::string> why_not_products(const AttentionSpec& spec, DType dtype) {
  if (dtype != DType::bf16) return "products of tiles are in bf16";
  if (spec.relative_positions) return "relative positions are left to the tiles in registers";
  if (spec.distance_bias || spec.distance_keys) {
    return "biases and keys of distances are left to the tiles in registers";
  }
  return std::nullopt;
}

bool prefers_products() { return cpu_isa() >= CpuIsa::amx_bf16; }

void attention_products(const AttentionSpec& spec, const AttentionArguments& in) {
  const AttentionTasks rows(spec);
  const std::vector<Task> tasks = tasks_of(spec, rows, in.threads);
  if (tasks.empty()) return;
  const auto count = static_cast<Index>(tasks.size());
  const int threads = static_cast<int>(std::clamp<Index>(in.threads, 1, count));
  std::vector<Worker> workers;
  workers.reserve(at(threads));
  for (int i = 0; i < threads; ++i) workers.emplace_back(spec, in, rows);
  parallel_for(threads, count,
               [&](Index i) { workers[threads == 1 ? 0 : at(thread_number())].run(tasks[at(i)]); });
}

}  // namespace longformer::kernels
