#include "kernels/attention/fused.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/cpu.h"
#include "core/memory.h"
#include "core/threads.h"
#include "kernels/attention/distance_bias.h"
#include "kernels/attention/distance_keys.h"
#include "kernels/attention/few_queries.h"
#include "kernels/attention/fused_tile.h"
#include "kernels/attention/key_kinds.h"
#include "kernels/attention/products.h"
#include "kernels/attention/relative.h"
#include "kernels/attention/tasks.h"
#include "kernels/attention/visible_row.h"

namespace longformer::kernels {
namespace {

/// Queries whose windows slide through one packed chunk of keys: few enough for the second-level
/// cache, enough to spread the cost of packing.
constexpr Index kQueriesPerTask = 512;
constexpr Index kChunkBytes = Index{512} << 10;
constexpr Index kPieceBytes = 16;
constexpr Index kLineBytes = 64;

/// Up to this many queries that see everything are cheaper one by one than as lanes of a tile: with
/// one global token of 4,096 the layer costs 1 % more instead of 6 %.
constexpr std::size_t kFewQueries = 8;

/// Data shared by all tasks of a call.
struct Plan {
  const AttentionSpec& spec;
  const AttentionArguments& in;
  TileKernels kernels;
  /// Inputs are bf16 and the kernels fp32.
  bool widen;
  /// The spec has dropout, or terms of positions.
  bool training;
  /// Relative distances; 0 without.
  Index distances;
  Index element_bytes;
  Index units;
  Index dims;
  Index chunk_rows;
  /// Tiles whose state is kept while a task goes through chunks of keys.
  Index kept_tiles;
  AttentionTasks rows;
  std::vector<Task> tasks;
  int workers;

  Plan(const AttentionSpec& spec, const AttentionArguments& in);

 private:
  Index queries_per_task(Index queries) const;
  void plan_memory(Index queries_per_task);
};

Plan::Plan(const AttentionSpec& spec_in, const AttentionArguments& in_in)
    : spec(spec_in), in(in_in), rows(spec_in) {
  const bool bf16 = in.query.dtype() == DType::bf16;
  widen = bf16 && cpu_isa() < CpuIsa::avx512_bf16;
  kernels = bf16 && !widen ? bf16_tile_kernels() : fp32_tile_kernels();
  training = spec.dropout.active() || has_position_term(spec);
  distances = spec.relative_positions ? in.relative->keys.dimension(1) : 0;
  element_bytes = static_cast<Index>(element_size(in.query.dtype()));
  units = divide_up(spec.head_size, kernels.pack);
  dims = round_up(spec.head_size, kernels.rows);

  const Index heads = static_cast<Index>(spec.heads.size());
  Index most_queries = 0;
  for (const AttentionDocument& document : spec.rows->documents) {
    most_queries = std::max(most_queries, document.query_count);
  }
  plan_memory(queries_per_task(most_queries));

  for (const AttentionDocument& document : spec.rows->documents) {
    const Index queries = queries_per_task(document.query_count);
    for (Index head = 0; head < heads; ++head) {
      rows.add(document, head, {0, document.query_count}, queries, kernels.lanes, tasks);
    }
  }
  workers = static_cast<int>(std::min<Index>(std::max(in.threads, 1), tasks.size()));
}

/// This depends on the document alone: then its result has the same bits whatever else is in the
/// batch.
Index Plan::queries_per_task(Index queries) const {
  const auto heads = static_cast<Index>(spec.heads.size());
  const Index share = divide_up(queries * heads, Index{8} * std::max(in.threads, 1));
  return round_up(std::clamp<Index>(share, kernels.lanes, kQueriesPerTask), kernels.lanes);
}

/// Tasks whose keys fit in one chunk go through it tile by tile; others, chunk by chunk.
void Plan::plan_memory(Index queries_per_task) {
  Index longest_document = 0;
  for (const AttentionDocument& document : spec.rows->documents) {
    longest_document = std::max(longest_document, document.key_count);
  }
  const auto globals = static_cast<Index>(spec.rows->global_keys.size());
  Index longest = 0;
  for (const HeadPattern& head : spec.heads) {
    const Index reach = std::min(head.most_left(), longest_document) +
                        std::min(head.most_right(), longest_document);
    longest = std::max(longest, std::min(reach + queries_per_task, longest_document) + globals);
  }
  const bool dense_rows = spec.global_queries == GlobalQueries::see_everything && globals > 0;
  const Index bytes_per_key = 8 * dims / kernels.pack;
  const Index most = std::max<Index>(kChunkBytes / bytes_per_key, 256);
  const Index needed = dense_rows ? std::max(longest, longest_document) : longest;
  chunk_rows = round_up(std::clamp<Index>(needed, 1, most), kernels.rows);
  kept_tiles = 1;
  if (longest > chunk_rows) kept_tiles = queries_per_task / kernels.lanes;
  if (dense_rows && longest_document > chunk_rows) {
    const Index dense_tiles = divide_up(std::min(globals, queries_per_task), kernels.lanes);
    kept_tiles = std::max(kept_tiles, dense_tiles);
  }
}

/// Working memory of one thread, and the steps of a task.
class Worker {
 public:
  explicit Worker(const Plan& plan);

  void run(const Task& task);

 private:
  void attend(const KeySequence& keys);
  void attend_alone(const Lane& lane);
  void prepare_training();
  void start_tile(Index tile);
  void stage_queries(Index tile, const float* bias);
  const std::byte* with_bias(const std::byte* row, const float* bias);
  void attend_in_training(Index tile);
  /// Factor of what is added to scores: these are exponents of two where queries hold the scale,
  /// see ScoreUnit.
  float added_factor() const {
    return plan_.kernels.pack == 1 ? std::numbers::log2e_v<float>
                                   : std::sqrt(static_cast<float>(plan_.spec.head_size));
  }
  void pack_until(const KeySequence& keys, Index end);
  void prefetch_packed(Index count);
  void pack_key(const std::byte* row, Index at);
  void pack_value(const std::byte* row, Index at);
  void pack_value_pair(const std::byte* even_row, const std::byte* odd_row, Index at);
  void clear_rows_from(Index at);
  Index last_key_of(Index tile) const;
  void attend_ranges(Index tile, Range Lane::*range, Index end);
  void prefetch_next(const KeySequence& keys, Index tile);
  void finish_tile(Index tile);
  void write_row(Index lane_in_tile, const Lane& lane);
  void write_zeros(Index row);
  bool all_finite(const std::byte* row) const;

  const std::byte* row_of(const Tensor& tensor, Index row) const {
    const Index rows = tensor.dimension(1);
    return static_cast<const std::byte*>(tensor.raw()) +
           (head_ * rows + row) * plan_.spec.head_size * plan_.element_bytes;
  }
  /// The row as the kernels take it.
  const std::byte* converted(const std::byte* row);
  Index tile_count() const {
    return divide_up(static_cast<Index>(lanes_.size()), plan_.kernels.lanes);
  }
  std::byte* out_row(Index row) const {
    const Index heads = static_cast<Index>(plan_.spec.heads.size());
    return static_cast<std::byte*>(plan_.in.out.raw()) +
           (row * heads + head_) * plan_.spec.head_size * plan_.element_bytes;
  }
  /// First four units of a lane in the stage; the next four are 4 · lanes further.
  float* stage_of(Index lane) const {
    return work_.stage + lane % 4 * plan_.kernels.lanes + lane / 4 * 4;
  }

  const Plan& plan_;
  std::shared_ptr<void> memory_;
  TileWork work_;
  std::vector<QueryTile> tiles_;
  std::vector<float> widened_;
  std::vector<float> row_;
  std::vector<BFloat16> narrow_;
  std::vector<Lane> lanes_;
  std::vector<Index> blind_;
  /// How many keys of the chunk before a place in the sequence were kept.
  std::vector<Index> rank_;
  /// The chunk starts at place chunk_begin_ of the sequence; packed_ keys before packed_until_ are
  /// in it. The values of the last even one wait for their partner.
  Index chunk_begin_ = 0;
  Index packed_until_ = 0;
  Index packed_ = 0;
  const std::byte* even_value_ = nullptr;
  const AttentionDocument* document_ = nullptr;
  Index head_ = 0;
  Index dilation_ = 1;

  // Used only in training.
  std::optional<RelativeTerm> relative_;
  bool relative_started_ = false;
  std::optional<DistanceBias> bias_;
  std::optional<DistanceKeyTerm> distance_keys_;
  std::optional<KindTerm> kinds_;
  float* added_ = nullptr;
  std::uint32_t* starts_ = nullptr;
  std::uint32_t* twists_ = nullptr;
  std::uint32_t* columns_ = nullptr;
  /// Numbers of the lanes of a tile, and of the packed keys, in the residue class.
  std::vector<Index> lane_numbers_, key_numbers_;
};

Worker::Worker(const Plan& plan) : plan_(plan) {
  const Index lanes = plan.kernels.lanes;
  const Index rows = plan.chunk_rows + 2 * plan.kernels.rows;
  const Index query_floats = round_up(plan.units, 4) * lanes;
  const bool relative = plan.distances > 0;
  const Index tile_floats = (relative ? 2 : 1) * query_floats + plan.dims * lanes + 5 * lanes;
  const Index key_floats = round_up(rows * plan.units, 16);
  const Index value_floats = round_up(rows / plan.kernels.pack * plan.dims, 16);
  const Index probability_floats =
      std::max((plan.kernels.key_tile + plan.kernels.rows) * lanes, query_floats);
  // Lanes are a multiple of four; tiles stay aligned to whole vectors because every part is one of
  // `lanes` floats.
  const bool adds = has_position_term(plan.spec);
  const Index added_floats = adds ? rows * lanes : 0;
  const Index dropout_floats = plan.training ? 2 * lanes + round_up(rows, 16) : 0;
  const Index floats = key_floats + value_floats + probability_floats +
                       plan.kept_tiles * tile_floats + added_floats + dropout_floats;
  memory_ = allocate_aligned(static_cast<std::size_t>(floats) * sizeof(float));
  float* next = static_cast<float*>(memory_.get());
  const auto take = [&next](Index count) { return std::exchange(next, next + count); };

  work_.chunk = {take(key_floats), take(value_floats),
                 rows / plan.kernels.pack * plan.kernels.rows};
  work_.probabilities = take(probability_floats);
  // They are never needed at the same time, and then the stage is in the first-level cache.
  work_.stage = work_.probabilities;
  for (Index i = 0; i < plan.kept_tiles; ++i) {
    tiles_.push_back({take(query_floats), relative ? take(query_floats) : nullptr,
                      take(plan.dims * lanes), take(lanes), take(lanes), take(lanes), take(lanes),
                      take(lanes)});
  }
  std::fill(work_.stage, work_.stage + query_floats, 0.0f);
  work_.units = plan.units;
  work_.dims = plan.dims;
  work_.scale =
      static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(plan.spec.head_size)));
  if (plan.training) {
    starts_ = reinterpret_cast<std::uint32_t*>(take(lanes));
    twists_ = reinterpret_cast<std::uint32_t*>(take(lanes));
    columns_ = reinterpret_cast<std::uint32_t*>(take(round_up(rows, 16)));
    added_ = adds ? take(added_floats) : nullptr;
    prepare_training();
  }
  if (plan.widen || relative) widened_.resize(static_cast<std::size_t>(plan.spec.head_size));
  rank_.resize(static_cast<std::size_t>(plan.chunk_rows) + 1);
}

void Worker::prepare_training() {
  const auto& dropout = plan_.spec.dropout;
  work_.columns = columns_;
  if (dropout.active()) {
    work_.dropout = {starts_, twists_, dropout.threshold(), dropout.kept_factor()};
  }
  lane_numbers_.resize(static_cast<std::size_t>(plan_.kernels.lanes));
  key_numbers_.resize(static_cast<std::size_t>(plan_.chunk_rows));
  work_.added = added_;
  if (plan_.spec.distance_bias) bias_.emplace(*plan_.in.distance_bias, plan_.kernels.lanes);
  if (plan_.spec.distance_keys) {
    distance_keys_.emplace(plan_.kernels, plan_.spec.head_size, *plan_.in.distance_keys,
                           plan_.chunk_rows);
  }
  if (plan_.distances == 0) return;
  narrow_.resize(static_cast<std::size_t>(plan_.spec.head_size));
  const bool anywhere = plan_.spec.rows->places.has_value();
  relative_.emplace(plan_.kernels, plan_.spec.head_size, plan_.distances,
                    anywhere ? plan_.distances : plan_.chunk_rows + kQueriesPerTask);
  if (plan_.in.relative->kind_scores == nullptr) return;
  kinds_.emplace(*plan_.in.relative->kind_scores, plan_.spec.rows->places->key_kinds,
                 plan_.kernels.lanes, plan_.chunk_rows);
}

void Worker::run(const Task& task) {
  if (relative_ && (task.head != head_ || !relative_started_)) {
    relative_->start_head(plan_.in.relative->keys, task.head);
    relative_started_ = true;
  }
  dilation_ = task.sees_everything ? 1 : plan_.spec.heads[task.head].dilation;
  head_ = task.head;
  if (bias_) bias_->start_head(*plan_.in.distance_bias, head_, dilation_, added_factor());
  if (distance_keys_) distance_keys_->start_head(head_);
  document_ = task.document;
  plan_.rows.collect(task, lanes_, blind_);
  for (const Index row : blind_) write_zeros(row);
  const bool one_by_one = task.sees_everything && lanes_.size() <= kFewQueries;
  if (one_by_one && !plan_.training) {
    for (const Lane& lane : lanes_) attend_alone(lane);
  } else if (!lanes_.empty()) {
    attend(plan_.rows.keys_of(task, lanes_));
  }
}

/// One query without a tile.
void Worker::attend_alone(const Lane& lane) {
  row_.resize(static_cast<std::size_t>(plan_.spec.head_size));
  const float logsumexp = attend_visible(plan_.spec, {plan_.in.query, plan_.in.key, plan_.in.value},
                                         *document_, head_, lane.row, row_.data());
  std::byte* out = out_row(lane.row);
  if (plan_.in.query.dtype() == DType::bf16) {
    std::transform(row_.begin(), row_.end(), reinterpret_cast<BFloat16*>(out),
                   [](float value) { return BFloat16(value); });
  } else {
    std::memcpy(out, row_.data(), row_.size() * sizeof(float));
  }
  if (plan_.in.logsumexp != nullptr) {
    plan_.in.logsumexp->data<float>()[head_ * plan_.spec.rows->query_count() + lane.row] =
        logsumexp;
  }
}

const std::byte* Worker::converted(const std::byte* row) {
  if (!plan_.widen) return row;
  const auto* from = reinterpret_cast<const BFloat16*>(row);
  for (std::size_t i = 0; i < widened_.size(); ++i) widened_[i] = static_cast<float>(from[i]);
  return reinterpret_cast<const std::byte*>(widened_.data());
}

void Worker::start_tile(Index tile) {
  if (relative_) {
    const Index first = head_ * plan_.spec.head_size;
    stage_queries(tile, plan_.in.relative->position_bias.data<float>() + first);
    plan_.kernels.transpose(work_.stage, work_.tile.position_queries, plan_.units);
    stage_queries(tile, plan_.in.relative->content_bias.data<float>() + first);
  } else {
    stage_queries(tile, nullptr);
  }
  plan_.kernels.start(work_);
}

void Worker::stage_queries(Index tile, const float* bias) {
  const Index lanes = plan_.kernels.lanes;
  const Index row_bytes = plan_.spec.head_size * (plan_.kernels.pack == 1 ? 4 : 2);
  const Index last = static_cast<Index>(lanes_.size()) - 1;
  for (Index lane = 0; lane < lanes; ++lane) {
    // Lanes without a query repeat the last one, so that they cost no masks.
    const Lane& query = lanes_[std::min(tile * lanes + lane, last)];
    const std::byte* from = with_bias(row_of(plan_.in.query, query.row), bias);
    float* to = stage_of(lane);
    Index done = 0;
    for (; done + kPieceBytes <= row_bytes; done += kPieceBytes, to += 4 * lanes) {
      std::memcpy(to, from + done, kPieceBytes);
    }
    if (done < row_bytes) {
      std::memset(to, 0, kPieceBytes);
      std::memcpy(to, from + done, row_bytes - done);
    }
  }
}

/// The row plus the bias, if there is one, as the kernels take it.
const std::byte* Worker::with_bias(const std::byte* row, const float* bias) {
  if (bias == nullptr) return converted(row);
  const bool bf16 = plan_.in.query.dtype() == DType::bf16;
  for (std::size_t i = 0; i < widened_.size(); ++i) {
    widened_[i] = bias[i] + (bf16 ? static_cast<float>(reinterpret_cast<const BFloat16*>(row)[i])
                                  : reinterpret_cast<const float*>(row)[i]);
  }
  if (plan_.kernels.pack == 1) return reinterpret_cast<const std::byte*>(widened_.data());
  std::transform(widened_.begin(), widened_.end(), narrow_.begin(),
                 [](float value) { return BFloat16(value); });
  return reinterpret_cast<const std::byte*>(narrow_.data());
}

/// Adds the keys that the lanes see, chunk by chunk. Keys are packed just before the first tile
/// that sees them, when they have been fetched during the tile before.
void Worker::attend(const KeySequence& keys) {
  Index begin = 0;
  do {
    const Index end = std::min(begin + plan_.chunk_rows, keys.count);
    chunk_begin_ = packed_until_ = begin;
    packed_ = 0;
    rank_[0] = 0;
    if (distance_keys_) distance_keys_->start_chunk();
    for (Index tile = 0; tile < tile_count(); ++tile) {
      work_.tile = tiles_[keys.count > plan_.chunk_rows ? tile : 0];
      if (begin == 0) start_tile(tile);
      pack_until(keys, std::min(end, std::max(keys.global_count(), last_key_of(tile))));
      prefetch_next(keys, tile);
      // Global keys last: the window has set the maxima by then.
      attend_ranges(tile, &Lane::window, end);
      attend_ranges(tile, &Lane::globals, end);
      if (end == keys.count) finish_tile(tile);
    }
    begin = end;
  } while (begin < keys.count);
}

/// Copies the keys and values of the chunk before place `end` of the sequence.
void Worker::pack_until(const KeySequence& keys, Index end) {
  if (packed_until_ >= end) return;
  prefetch_packed(end - packed_until_);
  for (; packed_until_ < end; ++packed_until_) {
    if (keys.keeps(packed_until_)) {
      const Index row = keys.row(packed_until_);
      pack_key(row_of(plan_.in.key, row), packed_);
      if (plan_.training) {
        columns_[packed_] = static_cast<std::uint32_t>(row) * DropoutRow::kColumnStep;
        key_numbers_[packed_] = plan_.rows.key_number(keys, packed_until_);
        if (kinds_) kinds_->take_key(packed_, row);
      }
      const std::byte* value = row_of(plan_.in.value, row);
      if (plan_.kernels.pack == 1) {
        pack_value(value, packed_);
      } else if (packed_ % 2 == 0) {
        even_value_ = value;
      } else {
        pack_value_pair(even_value_, value, packed_ - 1);
      }
      ++packed_;
    }
    rank_[packed_until_ + 1 - chunk_begin_] = packed_;
  }
  clear_rows_from(packed_);
  if (distance_keys_) distance_keys_->take_keys({work_.chunk.keys, plan_.units, packed_});
  if (plan_.kernels.pack == 2 && packed_ % 2 == 1) {
    pack_value_pair(even_value_, nullptr, packed_ - 1);
  }
}

/// Fetches where the next keys will be packed, for the same reason as the rows of the output.
void Worker::prefetch_packed(Index count) {
  const auto prefetch = [](const float* from, Index floats) {
    for (Index i = 0; i < floats; i += kLineBytes / 4) __builtin_prefetch(from + i, 1);
  };
  count = std::min(count, plan_.kernels.lanes);
  const Index rows = plan_.kernels.rows;
  const Index pack = plan_.kernels.pack;
  prefetch(work_.chunk.keys + packed_ * plan_.units, count * plan_.units);
  for (Index panel = 0; panel * rows < plan_.dims; ++panel) {
    prefetch(work_.chunk.values + panel * work_.chunk.panel_stride + packed_ / pack * rows,
             count / pack * rows);
  }
}

void Worker::pack_key(const std::byte* row, Index at) {
  float* to = work_.chunk.keys + at * plan_.units;
  const Index size = plan_.spec.head_size;
  if (plan_.kernels.pack == 2) {
    to[plan_.units - 1] = 0;
    std::memcpy(to, row, size * sizeof(BFloat16));
  } else {
    std::memcpy(to, converted(row), size * sizeof(float));
  }
}

void Worker::pack_value(const std::byte* row, Index at) {
  const std::byte* from = converted(row);
  const Index bytes = plan_.spec.head_size * static_cast<Index>(sizeof(float));
  const Index panel_bytes = plan_.kernels.rows * static_cast<Index>(sizeof(float));
  float* to = work_.chunk.values + at * plan_.kernels.rows;
  Index done = 0;
  for (; done + panel_bytes <= bytes; done += panel_bytes, to += work_.chunk.panel_stride) {
    for (Index i = 0; i < panel_bytes; i += kPieceBytes) {
      std::memcpy(reinterpret_cast<std::byte*>(to) + i, from + done + i, kPieceBytes);
    }
  }
  if (done == bytes) return;
  std::memset(to, 0, panel_bytes);
  std::memcpy(to, from + done, bytes - done);
}

void Worker::pack_value_pair(const std::byte* even_row, const std::byte* odd_row, Index at) {
  constexpr Index kPanel = 8;
  const auto* even = reinterpret_cast<const std::uint16_t*>(even_row);
  const auto* odd = reinterpret_cast<const std::uint16_t*>(odd_row);
  const Index size = plan_.spec.head_size;
  float* unit = work_.chunk.values + at / 2 * kPanel;
  for (Index dim = 0; dim < size; dim += kPanel, unit += work_.chunk.panel_stride) {
    std::array<std::uint16_t, 2 * kPanel> pairs = {};
    if (odd != nullptr && dim + kPanel <= size) {
      for (Index i = 0; i < kPanel; ++i) {
        pairs[2 * i] = even[dim + i];
        pairs[2 * i + 1] = odd[dim + i];
      }
    } else {
      for (Index i = 0; i < std::min(kPanel, size - dim); ++i) {
        pairs[2 * i] = even[dim + i];
        pairs[2 * i + 1] = odd != nullptr ? odd[dim + i] : 0;
      }
    }
    std::memcpy(unit, pairs.data(), sizeof(pairs));
  }
}

/// Blocks of keys may reach beyond the last one, where nothing may turn into NaN.
void Worker::clear_rows_from(Index at) {
  const Index rows = plan_.kernels.rows;
  const Index pack = plan_.kernels.pack;
  std::fill_n(work_.chunk.keys + at * plan_.units, rows * plan_.units, 0.0f);
  for (Index panel = 0; panel * rows < plan_.dims; ++panel) {
    float* values = work_.chunk.values + panel * work_.chunk.panel_stride;
    std::fill_n(values + at / pack * rows, (rows / pack + 1) * rows, 0.0f);
  }
}

/// Place after the last key that a lane of the tile sees.
Index Worker::last_key_of(Index tile) const {
  const Index first = tile * plan_.kernels.lanes;
  const Index end = std::min(first + plan_.kernels.lanes, static_cast<Index>(lanes_.size()));
  Index last = 0;
  for (Index i = first; i < end; ++i) last = std::max(last, lanes_[i].window.end);
  return last;
}

/// Adds what the lanes see of the chunk that ends at `end`.
void Worker::attend_ranges(Index tile, Range Lane::*range, Index end) {
  const Index lanes = plan_.kernels.lanes;
  const Index last = static_cast<Index>(lanes_.size()) - 1;
  const Index column = plan_.kernels.column_lanes;
  bool any = false;
  for (Index i = 0; i < lanes; ++i) {
    // Lanes without a query do like the last one, so that they cost no masks, unless their whole
    // column is without: then it is left out.
    const bool left_out = tile * lanes + i / column * column > last;
    const Range seen = left_out ? Range() : lanes_[std::min(tile * lanes + i, last)].*range;
    Index from = 0;
    Index to = 0;
    if (seen.begin < std::min(seen.end, end) && seen.end > chunk_begin_) {
      from = rank_[std::max(seen.begin, chunk_begin_) - chunk_begin_];
      to = rank_[std::min(seen.end, end) - chunk_begin_];
    }
    work_.tile.first[i] = static_cast<float>(from);
    work_.tile.last[i] = static_cast<float>(to);
    any = any || from < to;
  }
  if (!any) return;
  if (plan_.training) return attend_in_training(tile);
  plan_.kernels.attend(work_);
}

void Worker::attend_in_training(Index tile) {
  const Index lanes = plan_.kernels.lanes;
  const auto last = static_cast<Index>(lanes_.size()) - 1;
  Range keys = {packed_, 0};
  for (Index i = 0; i < lanes; ++i) {
    const Lane& lane = lanes_[std::min(tile * lanes + i, last)];
    const DropoutRow mask = dropout_row(plan_.spec.dropout, head_, lane.row);
    starts_[i] = mask.start;
    twists_[i] = mask.twist;
    lane_numbers_[i] = plan_.rows.query_number(lane, dilation_);
    if (kinds_) kinds_->take_query(i, lane.row);
    if (work_.tile.first[i] >= work_.tile.last[i]) continue;
    keys.begin = std::min(keys.begin, static_cast<Index>(work_.tile.first[i]));
    keys.end = std::max(keys.end, static_cast<Index>(work_.tile.last[i]));
  }
  keys.begin = keys.begin / plan_.kernels.pack * plan_.kernels.pack;
  if (bias_) {
    bias_->scores(lane_numbers_, key_numbers_, keys, added_);
    const Index rest =
        round_up(keys.end - keys.begin, plan_.kernels.rows) - (keys.end - keys.begin);
    std::fill_n(added_ + keys.end * lanes, rest * lanes, 0.0f);
  }
  if (distance_keys_) {
    const RelativeTile queries = {work_.tile.queries, nullptr, lane_numbers_, key_numbers_};
    distance_keys_->scores(queries, keys, plan_.kernels.pack == 1 ? work_.scale : 1.0f, added_);
  }
  if (relative_) {
    const RelativeTile relative = {work_.tile.position_queries, nullptr, lane_numbers_,
                                   key_numbers_};
    // Queries in fp32 hold the scale, see ScoreUnit.
    relative_->scores(relative, keys, plan_.kernels.pack == 1 ? work_.scale : 1.0f, added_);
  }
  if (kinds_) kinds_->add_scores(head_, keys, added_factor(), added_);
  plan_.kernels.attend_training(work_);
}

/// Fetches what the next tile will pack while this one computes.
void Worker::prefetch_next(const KeySequence& keys, Index tile) {
  const Index lanes = plan_.kernels.lanes;
  const Index bytes = plan_.spec.head_size * plan_.element_bytes;
  const auto prefetch = [bytes](const std::byte* row) {
    for (Index at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at);
  };
  for (Index i = packed_until_; i < std::min(packed_until_ + lanes, keys.count); ++i) {
    if (!keys.keeps(i)) continue;
    const Index row = keys.row(i);
    prefetch(row_of(plan_.in.key, row));
    prefetch(row_of(plan_.in.value, row));
  }
  const auto count = static_cast<Index>(lanes_.size());
  for (Index i = (tile + 1) * lanes; i < std::min((tile + 2) * lanes, count); ++i) {
    prefetch(row_of(plan_.in.query, lanes_[i].row));
  }
}

void Worker::finish_tile(Index tile) {
  const Index lanes = plan_.kernels.lanes;
  const Index count = std::min(lanes, static_cast<Index>(lanes_.size()) - tile * lanes);
  const QueryTile& state = work_.tile;
  // Stores that miss the cache wait for each other; fetched together they do not.
  const Index bytes = plan_.spec.head_size * plan_.element_bytes;
  for (Index i = 0; i < count; ++i) {
    const std::byte* out = out_row(lanes_[tile * lanes + i].row);
    for (Index at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(out + at, 1);
  }
  plan_.kernels.finish(work_);
  for (Index i = 0; i < count; ++i) {
    const Lane& lane = lanes_[tile * lanes + i];
    // A score that is NaN sets no limit, but shows in the sum.
    if (state.limit[i] == kUnsetLimit && !std::isnan(state.sum[i])) {
      write_zeros(lane.row);
      continue;
    }
    write_row(i, lane);
    // A value that is not finite shows in the whole tile, weighed with 0 or not.
    if (!plan_.training && !all_finite(out_row(lane.row))) {
      attend_alone(lane);
      continue;
    }
    if (plan_.in.logsumexp == nullptr) continue;
    const double exponent = std::log2(state.sum[i]) - double{state.shift[i]};
    plan_.in.logsumexp->data<float>()[head_ * plan_.spec.rows->query_count() + lane.row] =
        static_cast<float>(exponent * std::numbers::ln2);
  }
}

void Worker::write_row(Index lane_in_tile, const Lane& lane) {
  const Index size = plan_.spec.head_size;
  const Index row_bytes = size * (plan_.kernels.pack == 1 ? 4 : 2);
  std::byte* out = out_row(lane.row);
  std::byte* to = plan_.widen ? reinterpret_cast<std::byte*>(widened_.data()) : out;
  const float* from = stage_of(lane_in_tile);
  Index done = 0;
  for (; done + kPieceBytes <= row_bytes; done += kPieceBytes, from += 4 * plan_.kernels.lanes) {
    std::memcpy(to + done, from, kPieceBytes);
  }
  std::memcpy(to + done, from, row_bytes - done);
  if (!plan_.widen) return;
  auto* narrow = reinterpret_cast<BFloat16*>(out);
  for (Index i = 0; i < size; ++i) narrow[i] = BFloat16(widened_[i]);
}

bool Worker::all_finite(const std::byte* row) const {
  const Index size = plan_.spec.head_size;
  // Numbers of ones in place of bools, which g++ 12 sums up in vectors.
  const auto count = [size](const auto* bits, unsigned exponent) {
    unsigned wrong = 0;
    for (Index i = 0; i < size; ++i) wrong += (bits[i] & exponent) == exponent ? 1u : 0u;
    return wrong;
  };
  return (plan_.in.query.dtype() == DType::bf16
              ? count(reinterpret_cast<const std::uint16_t*>(row), 0x7f80u)
              : count(reinterpret_cast<const std::uint32_t*>(row), 0x7f800000u)) == 0;
}

void Worker::write_zeros(Index row) {
  std::memset(out_row(row), 0, plan_.spec.head_size * plan_.element_bytes);
  if (plan_.in.logsumexp != nullptr) {
    plan_.in.logsumexp->data<float>()[head_ * plan_.spec.rows->query_count() + row] =
        -std::numeric_limits<float>::infinity();
  }
}

void attend_tiles(const AttentionSpec& spec, const AttentionArguments& in) {
  const Plan plan(spec, in);
  if (plan.tasks.empty()) return;
  std::vector<Worker> workers;
  workers.reserve(plan.workers);
  for (int i = 0; i < plan.workers; ++i) workers.emplace_back(plan);
  parallel_for(plan.workers, static_cast<Index>(plan.tasks.size()),
               [&](Index i) { workers[thread_number()].run(plan.tasks[i]); });
}

}  // namespace

void attention_fused(const AttentionSpec& spec, const AttentionArguments& in) {
  const auto& documents = spec.rows->documents;
  const auto is_few = [&](const AttentionDocument& document) {
    return has_few_queries(spec, document);
  };
  if (!std::all_of(documents.begin(), documents.end(), is_few)) {
    if (prefers_products() && !why_not_products(spec, in.query.dtype())) {
      attention_products(spec, in);
    } else {
      attend_tiles(spec, in);
    }
  }
  // They have the same bits whatever else is in the batch.
  if (std::any_of(documents.begin(), documents.end(), is_few)) attend_few_queries(spec, in);
}

}  // namespace longformer::kernels
