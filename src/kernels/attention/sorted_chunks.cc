#include "kernels/attention/sorted_chunks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "core/threads.h"
#include "kernels/attention/backends.h"
#include "kernels/attention/fused_tile.h"
#include "kernels/attention/tasks.h"
#include "kernels/softmax_weight.h"

namespace longformer::kernels {
namespace {

constexpr float kUnseen = -std::numeric_limits<float>::infinity();
/// Is added to the score of a pair that is not seen: it sets no maximum, and weighs nothing.
constexpr float kHidden = -1e38f;
/// Rows of zeros that blocks of keys may reach into.
constexpr Index kRowsBeyond = 16;
/// Keys between which probabilities stay in the first-level cache on the way back.
constexpr Index kBackwardKeys = 64;

/// One head of one document.
struct HeadOfDocument {
  const SortedChunks& spec;
  const ChunkedDocument& document;
  Index head;

  const std::int32_t* order(Index round) const {
    const Index first = document.by_head() ? head * document.rounds : 0;
    return document.order.data() + (first + round) * document.places;
  }
  Index chunks_of_round() const { return document.places / document.chunk; }
  Index chunks() const { return document.rounds * chunks_of_round(); }
  const std::int32_t* chunk(Index number) const {
    return order(number / chunks_of_round()) + number % chunks_of_round() * document.chunk;
  }
  Index first_query(const Tensor& query) const {
    return head * query.dimension(1) + document.rows.query_begin;
  }
  Index first_key(const Tensor& key) const {
    return head * key.dimension(1) + document.rows.key_begin;
  }
  /// Row of a query among those of all heads, [n, H·d] as [n·H, d].
  Index token(Index query) const { return (document.rows.query_begin + query) * spec.heads + head; }
};

void copy_floats(const Tensor& x, Index row, Index d, float* to) {
  if (x.dtype() == DType::f32) {
    std::copy_n(x.data<float>() + row * d, d, to);
  } else {
    const BFloat16* from = x.data<BFloat16>() + row * d;
    for (Index c = 0; c < d; ++c) to[c] = static_cast<float>(from[c]);
  }
}

void write_floats(const float* from, Index first, Index count, Tensor& x) {
  if (x.dtype() == DType::f32) {
    std::copy_n(from, count, x.data<float>() + first);
  } else {
    BFloat16* to = x.data<BFloat16>() + first;
    for (Index c = 0; c < count; ++c) to[c] = BFloat16(from[c]);
  }
}

/// The queries of a chunk and the keys that some of them see: numbers within the document.
struct ChunkRows {
  std::vector<std::int32_t> queries, keys;
  /// Place of each key among all that are there, masked or not, times DropoutRow::kColumnStep.
  std::vector<std::uint32_t> columns;

  void fill(const HeadOfDocument& head, Index chunk);
};

void ChunkRows::fill(const HeadOfDocument& head, Index chunk) {
  const ChunkedDocument& document = head.document;
  const auto first = static_cast<std::int32_t>(document.rows.query_offset);
  const Index all = head.chunks();
  queries.clear();
  keys.clear();
  columns.clear();
  const std::int32_t* here = head.chunk(chunk);
  for (Index i = 0; i < document.chunk; ++i) {
    if (here[i] >= first) queries.push_back(here[i] - first);
  }
  if (queries.empty()) return;
  std::uint32_t place = 0;
  for (Index step = -document.before; step <= document.after; ++step) {
    // Farther than around the circle is the chunk itself, as in transformers.
    const Index from = std::abs(step) > all ? chunk : (chunk + step + all) % all;
    const std::int32_t* places = head.chunk(from);
    for (Index i = 0; i < document.chunk; ++i) {
      if (places[i] < 0) continue;
      if (document.is_visible(places[i])) {
        keys.push_back(places[i]);
        columns.push_back(place * DropoutRow::kColumnStep);
      }
      ++place;
    }
  }
  // Blocks of keys may reach beyond the last one.
  columns.resize(columns.size() + at(kRowsBeyond));
}

/// Most keys that the queries of a chunk see.
Index most_keys(const SortedChunks& spec) {
  Index most = 1;
  for (const ChunkedDocument& document : spec.documents) {
    const Index seen = document.chunk * (document.before + 1 + document.after);
    most = std::max(most, seen);
  }
  return most;
}

/// Parts of both passes: the tiles of queries of a chunk, in fp32, with one query in each lane.
class ChunkTiles {
 public:
  explicit ChunkTiles(const SortedChunks& spec)
      : spec_(spec), kernels_(fp32_tile_kernels()), most_keys_(most_keys(spec)) {}

 protected:
  using Wanted = std::vector<std::pair<float**, Index>>;

  /// Arrays of floats side by side, each from a whole line on, zeros at first.
  void allocate(Wanted wanted);
  Index lanes() const { return kernels_.lanes; }
  Index tiles() const { return divide_up(std::ssize(rows_.queries), lanes()); }
  /// Queries of a tile. Lanes without one repeat the last.
  Index count_of(Index tile) const {
    return std::min(lanes(), std::ssize(rows_.queries) - tile * lanes());
  }
  Index query_of(Index tile, Index lane) const {
    return rows_.queries[at(tile * lanes() + std::min(lane, count_of(tile) - 1))];
  }
  /// First four numbers of a lane in a stage; the next four are 4 · lanes further.
  float* stage_of(float* stage, Index lane) const {
    return stage + lane % 4 * lanes() + lane / 4 * 4;
  }
  /// So many lanes, or all of the vectors that they begin, see all keys.
  void set_ranges(Index count);
  bool hides_pairs() const { return spec_.causal || !spec_.sees_itself; }
  void hide_pairs(const HeadOfDocument& head, Index tile) {
    if (spec_.causal) {
      hide_behind(head, tile);
    } else if (!spec_.sees_itself) {
      hide_own(head, tile);
    }
  }
  void set_dropout(const HeadOfDocument& head, Index chunk, Index tile);
  TileDropout dropout() const {
    if (!spec_.dropout.active()) return {};
    return {starts_, twists_, spec_.dropout.threshold(), spec_.dropout.kept_factor()};
  }

  const SortedChunks& spec_;
  TileKernels kernels_;
  Index most_keys_;
  ChunkRows rows_;
  float* first_ = nullptr;
  float* last_ = nullptr;
  /// [key][lanes], kHidden for pairs that are not seen.
  float* added_ = nullptr;
  std::uint32_t* starts_ = nullptr;
  std::uint32_t* twists_ = nullptr;

 private:
  void hide_behind(const HeadOfDocument& head, Index tile);
  void hide_own(const HeadOfDocument& head, Index tile);

  std::shared_ptr<void> memory_;
  /// Place of each query in its chunk, and what hide_own has hidden last.
  std::vector<std::int32_t> place_;
  std::vector<float*> hidden_;
};

void ChunkTiles::allocate(Wanted wanted) {
  const Index added = hides_pairs() ? (most_keys_ + kRowsBeyond) * lanes() : 0;
  wanted.insert(wanted.end(), {{&first_, lanes()},
                               {&last_, lanes()},
                               {&added_, added},
                               {reinterpret_cast<float**>(&starts_), lanes()},
                               {reinterpret_cast<float**>(&twists_), lanes()}});
  Index floats = 0;
  for (const auto& [part, count] : wanted) floats += round_up(count, 16);
  memory_ = allocate_aligned(at(floats) * sizeof(float));
  float* next = static_cast<float*>(memory_.get());
  std::fill_n(next, floats, 0.0f);
  for (const auto& [part, count] : wanted) *part = std::exchange(next, next + round_up(count, 16));
}

void ChunkTiles::set_ranges(Index count) {
  const Index with_query = round_up(count, kernels_.column_lanes);
  for (Index lane = 0; lane < lanes(); ++lane) {
    first_[lane] = 0;
    last_[lane] = lane < with_query ? static_cast<float>(rows_.keys.size()) : 0.0f;
  }
}

/// Keys behind a query, and maybe itself.
void ChunkTiles::hide_behind(const HeadOfDocument& head, Index tile) {
  std::array<std::int32_t, 64> end = {};
  const Index seen = head.document.rows.query_offset + (spec_.sees_itself ? 1 : 0);
  for (Index lane = 0; lane < lanes(); ++lane) {
    end[at(lane)] = static_cast<std::int32_t>(query_of(tile, lane) + seen);
  }
  float* to = added_;
  for (const std::int32_t key : rows_.keys) {
    for (Index lane = 0; lane < lanes(); ++lane) to[lane] = key < end[at(lane)] ? 0.0f : kHidden;
    to += lanes();
  }
}

/// Every query itself, in whatever rounds: a few pairs, which the next tile shows again.
void ChunkTiles::hide_own(const HeadOfDocument& head, Index tile) {
  const AttentionDocument& rows = head.document.rows;
  for (float* pair : hidden_) *pair = 0;
  hidden_.clear();
  place_.resize(std::max(place_.size(), at(rows.query_count)));
  const Index first = tile * lanes(), end = first + count_of(tile);
  for (Index i = first; i < end; ++i) {
    place_[at(rows_.queries[at(i)])] = static_cast<std::int32_t>(i);
  }
  for (Index key = 0; key < std::ssize(rows_.keys); ++key) {
    const Index query = rows_.keys[at(key)] - rows.query_offset;
    if (query < 0) continue;
    // Those of other tiles are from before.
    const Index place = place_[at(query)];
    if (place < first || place >= end || rows_.queries[at(place)] != query) continue;
    // Lanes without a query repeat the last.
    const Index lanes_end = place + 1 == end ? lanes() : place - first + 1;
    for (Index lane = place - first; lane < lanes_end; ++lane) {
      hidden_.push_back(added_ + key * lanes() + lane);
      *hidden_.back() = kHidden;
    }
  }
}

void ChunkTiles::set_dropout(const HeadOfDocument& head, Index chunk, Index tile) {
  if (!spec_.dropout.active()) return;
  const Index round = chunk / head.chunks_of_round();
  for (Index lane = 0; lane < lanes(); ++lane) {
    const Index token = head.token(query_of(tile, lane));
    const DropoutRow mask =
        spec_.dropout.row(static_cast<std::uint64_t>(token * head.document.rounds + round));
    starts_[lane] = mask.start;
    twists_[lane] = mask.twist;
  }
}

class ForwardTiles final : ChunkTiles {
 public:
  ForwardTiles(const SortedChunks& spec, const SortedChunksArguments& in);

  void run(const HeadOfDocument& head);

 private:
  bool is_alone(const ChunkedDocument& document) const {
    return document.rows.query_count == 1 && !spec_.dropout.active();
  }
  void pack_keys(const HeadOfDocument& head);
  void attend(const HeadOfDocument& head, Index chunk, Index tile);
  void attend_alone(const HeadOfDocument& head);
  void add(Index query, float logsumexp);
  void write(const HeadOfDocument& head);

  const SortedChunksArguments& in_;
  TileWork work_;
  std::vector<float> row_, key_, scores_;
  /// Sums over what the queries of a head have seen so far, relative to the highest logsumexp.
  std::vector<float> highest_, denominator_, out_;
};

ForwardTiles::ForwardTiles(const SortedChunks& spec, const SortedChunksArguments& in)
    : ChunkTiles(spec), in_(in) {
  row_.resize(at(round_up(spec.head_size, kernels_.rows)));
  key_.resize(at(spec.head_size));
  const auto alone = [this](const ChunkedDocument& one) { return is_alone(one); };
  if (std::all_of(spec.documents.begin(), spec.documents.end(), alone)) return;
  const Index d = spec.head_size, rows = most_keys_ + 2 * kernels_.rows;
  const Index query_floats = round_up(d, 4) * lanes();
  QueryTile& tile = work_.tile;
  work_.units = d;
  work_.dims = round_up(d, kernels_.rows);
  work_.scale = std::numbers::log2e_v<float> * spec.scale;
  work_.chunk.panel_stride = rows * kernels_.rows;
  allocate({{&work_.chunk.keys, rows * d},
            {&work_.chunk.values, rows * work_.dims},
            {&work_.probabilities,
             std::max((kernels_.key_tile + kernels_.rows) * lanes(), query_floats)},
            {&tile.queries, query_floats},
            {&tile.output, work_.dims * lanes()},
            {&tile.shift, lanes()},
            {&tile.limit, lanes()},
            {&tile.sum, lanes()}});
  tile.first = first_;
  tile.last = last_;
  // They are never needed at the same time.
  work_.stage = work_.probabilities;
  work_.added = hides_pairs() ? added_ : nullptr;
  work_.dropout = dropout();
}

void ForwardTiles::run(const HeadOfDocument& head) {
  const Index n = head.document.rows.query_count;
  highest_.assign(at(n), kUnseen);
  denominator_.assign(at(n), 0.0f);
  out_.assign(at(n * spec_.head_size), 0.0f);
  for (Index chunk = 0; chunk < head.chunks(); ++chunk) {
    rows_.fill(head, chunk);
    if (rows_.queries.empty() || rows_.keys.empty()) continue;
    if (is_alone(head.document)) {
      attend_alone(head);
      continue;
    }
    pack_keys(head);
    work_.columns = rows_.columns.data();
    for (Index tile = 0; tile < tiles(); ++tile) attend(head, chunk, tile);
  }
  write(head);
}

void ForwardTiles::pack_keys(const HeadOfDocument& head) {
  const Index d = spec_.head_size, rows = kernels_.rows, count = std::ssize(rows_.keys);
  const Index first = head.first_key(in_.key), first_value = head.first_key(in_.value);
  for (Index i = 0; i < count; ++i) {
    const Index key = rows_.keys[at(i)];
    copy_floats(in_.key, first + key, d, work_.chunk.keys + i * d);
    copy_floats(in_.value, first_value + key, d, row_.data());
    float* to = work_.chunk.values + i * rows;
    for (Index c = 0; c < work_.dims; c += rows, to += work_.chunk.panel_stride) {
      std::copy_n(row_.data() + c, rows, to);
    }
  }
  // Blocks of keys may reach beyond the last one, where nothing may turn into NaN.
  std::fill_n(work_.chunk.keys + count * d, rows * d, 0.0f);
  for (Index panel = 0; panel * rows < work_.dims; ++panel) {
    float* values = work_.chunk.values + panel * work_.chunk.panel_stride;
    std::fill_n(values + count * rows, rows * rows, 0.0f);
  }
}

void ForwardTiles::attend(const HeadOfDocument& head, Index chunk, Index tile) {
  const Index d = spec_.head_size;
  for (Index lane = 0; lane < lanes(); ++lane) {
    copy_floats(in_.query, head.first_query(in_.query) + query_of(tile, lane), d, row_.data());
    float* to = stage_of(work_.stage, lane);
    for (Index c = 0; c < d; c += 4, to += 4 * lanes()) std::copy_n(row_.data() + c, 4, to);
  }
  kernels_.start(work_);
  hide_pairs(head, tile);
  set_dropout(head, chunk, tile);
  if (hides_pairs() || spec_.dropout.active()) {
    set_ranges(lanes());
    kernels_.attend_training(work_);
  } else {
    set_ranges(count_of(tile));
    kernels_.attend(work_);
  }
  kernels_.finish(work_);
  for (Index lane = 0; lane < count_of(tile); ++lane) {
    const float sum = work_.tile.sum[lane];
    // A score that is NaN sets no limit, but shows in the sum.
    if (work_.tile.limit[lane] == kUnsetLimit && !std::isnan(sum)) continue;
    const double exponent = std::log2(sum) - double{work_.tile.shift[lane]};
    const float* from = stage_of(work_.stage, lane);
    for (Index c = 0; c < d; c += 4, from += 4 * lanes()) std::copy_n(from, 4, row_.data() + c);
    std::fill(row_.begin() + d, row_.end(), 0.0f);
    add(query_of(tile, lane), static_cast<float>(exponent * std::numbers::ln2));
  }
}

/// One query without a tile, as texts have it that go on token by token.
void ForwardTiles::attend_alone(const HeadOfDocument& head) {
  const Index d = spec_.head_size, own = head.document.rows.query_offset;
  std::erase_if(rows_.keys, [&](std::int32_t key) {
    return (spec_.causal && key > own) || (!spec_.sees_itself && key == own);
  });
  if (rows_.keys.empty()) return;
  copy_floats(in_.query, head.first_query(in_.query), d, row_.data());
  scores_.clear();
  for (const std::int32_t key : rows_.keys) {
    copy_floats(in_.key, head.first_key(in_.key) + key, d, key_.data());
    scores_.push_back(spec_.scale * dot(row_.data(), key_.data(), d));
  }
  const float logsumexp = softmax_in_place(scores_.data(), std::ssize(scores_));
  std::fill(row_.begin(), row_.end(), 0.0f);
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    copy_floats(in_.value, head.first_key(in_.value) + rows_.keys[i], d, key_.data());
    for (Index c = 0; c < d; ++c) row_[at(c)] += scores_[i] * key_[at(c)];
  }
  add(0, logsumexp);
}

/// Adds what a query has seen in one chunk: a row.
void ForwardTiles::add(Index query, float logsumexp) {
  const Index d = spec_.head_size;
  float& highest = highest_[at(query)];
  const float raised = highest_of(highest, logsumexp);
  const float before = highest == kUnseen ? 0.0f : softmax_weight(highest - raised);
  const float own = softmax_weight(logsumexp - raised);
  highest = raised;
  denominator_[at(query)] = denominator_[at(query)] * before + own;
  float* to = out_.data() + query * d;
  for (Index c = 0; c < d; ++c) to[c] = to[c] * before + row_[at(c)] * own;
}

void ForwardTiles::write(const HeadOfDocument& head) {
  const Index d = spec_.head_size;
  const AttentionDocument& rows = head.document.rows;
  float* logsumexp = in_.logsumexp.data<float>() + head.first_query(in_.query);
  for (Index i = 0; i < rows.query_count; ++i) {
    float* out = out_.data() + i * d;
    const float denominator = denominator_[at(i)];
    if (highest_[at(i)] == kUnseen) {
      copy_floats(in_.value, head.first_key(in_.value) + rows.query_offset + i, d, out);
      logsumexp[i] = kUnseen;
    } else {
      for (Index c = 0; c < d; ++c) out[c] /= denominator;
      logsumexp[i] = highest_[at(i)] + std::log(denominator);
    }
    write_floats(out, head.token(i) * d, d, in_.out);
  }
}

class BackwardTiles final : ChunkTiles {
 public:
  BackwardTiles(const SortedChunks& spec, const SortedChunksBackwardArguments& in);

  void run(const HeadOfDocument& head);

 private:
  /// Queries of a tile, or the gradients of their results, as the kernels read them.
  struct Side {
    float* lanes = nullptr;  ///< [units][lanes]
    float* rows = nullptr;   ///< [lanes][dims]
  };

  void start(const HeadOfDocument& head);
  void pack_keys(const HeadOfDocument& head);
  void load_tile(const HeadOfDocument& head, Index tile);
  void finish_side(const Side& side);
  void send_back(const HeadOfDocument& head, Index chunk, Index tile);
  void add_key_sums();
  void write(const HeadOfDocument& head);

  const SortedChunksBackwardArguments& in_;
  GradientWork work_;
  Side query_, gradient_;
  float* stage_ = nullptr;
  float* exponents_ = nullptr;
  float* means_ = nullptr;
  float* keys_ = nullptr;
  float* values_ = nullptr;
  /// Σ gradient · output of each query of the document, and whether it sends anything back.
  std::vector<float> mean_;
  std::vector<std::uint8_t> sends_;
  std::vector<float> row_, gradient_row_;
  /// Gradients of each row of the document.
  std::vector<float> query_sums_, key_sums_, value_sums_;
};

BackwardTiles::BackwardTiles(const SortedChunks& spec, const SortedChunksBackwardArguments& in)
    : ChunkTiles(spec), in_(in) {
  const Index d = spec.head_size, dims = padded_dims(kernels_, d), rows = most_keys_ + kRowsBeyond;
  const Index block = (kBackwardKeys + kRowsBeyond) * lanes();
  work_.units = d;
  work_.row_units = work_.dims = dims;
  work_.scale = std::numbers::log2e_v<float> * spec.scale;
  allocate({{&query_.lanes, dims * lanes()},
            {&query_.rows, lanes() * dims},
            {&gradient_.lanes, dims * lanes()},
            {&gradient_.rows, lanes() * dims},
            {&stage_, dims * lanes()},
            {&exponents_, lanes()},
            {&means_, lanes()},
            {&keys_, rows * dims},
            {&values_, rows * dims},
            {&work_.key_gradient, rows * dims},
            {&work_.value_gradient, rows * dims},
            {&work_.query_gradient, dims * lanes()},
            {&work_.block, kernels_.rows * lanes()},
            {&work_.kept, block},
            {&work_.weights, block}});
  work_.queries = query_.lanes;
  work_.query_rows = query_.rows;
  work_.gradients = gradient_.lanes;
  work_.gradient_rows = gradient_.rows;
  work_.exponent = exponents_;
  work_.mean = means_;
  work_.first = first_;
  work_.last = last_;
  work_.keys = work_.key_pairs = keys_;
  work_.values = values_;
  work_.added = hides_pairs() ? added_ : nullptr;
  work_.dropout = dropout();
  row_.resize(at(d));
  gradient_row_.resize(at(d));
}

void BackwardTiles::run(const HeadOfDocument& head) {
  start(head);
  for (Index chunk = 0; chunk < head.chunks(); ++chunk) {
    rows_.fill(head, chunk);
    std::erase_if(rows_.queries, [&](std::int32_t query) { return sends_[at(query)] == 0; });
    if (rows_.queries.empty() || rows_.keys.empty()) continue;
    pack_keys(head);
    for (Index tile = 0; tile < tiles(); ++tile) {
      load_tile(head, tile);
      send_back(head, chunk, tile);
    }
    add_key_sums();
  }
  write(head);
}

/// Takes the queries of the document: one that saw but itself, against the rule, sends all of its
/// gradient to its value.
void BackwardTiles::start(const HeadOfDocument& head) {
  const Index d = spec_.head_size;
  const AttentionDocument& rows = head.document.rows;
  query_sums_.assign(at(rows.query_count * d), 0.0f);
  key_sums_.assign(at(rows.key_count * d), 0.0f);
  value_sums_.assign(key_sums_.size(), 0.0f);
  mean_.assign(at(rows.query_count), 0.0f);
  sends_.assign(at(rows.query_count), 0);
  const float* logsumexp = in_.logsumexp.data<float>() + head.first_query(in_.query);
  for (Index i = 0; i < rows.query_count; ++i) {
    copy_floats(in_.out, head.token(i), d, row_.data());
    copy_floats(in_.out_gradient, head.token(i), d, gradient_row_.data());
    if (logsumexp[i] == kUnseen) {
      float* to = value_sums_.data() + (rows.query_offset + i) * d;
      for (Index c = 0; c < d; ++c) to[c] += gradient_row_[at(c)];
      continue;
    }
    for (Index c = 0; c < d; ++c) {
      mean_[at(i)] += row_[at(c)] * gradient_row_[at(c)];
      // A NaN is sent back too.
      if (gradient_row_[at(c)] != 0) sends_[at(i)] = 1;
    }
  }
}

void BackwardTiles::pack_keys(const HeadOfDocument& head) {
  const Index d = spec_.head_size, dims = work_.dims, count = std::ssize(rows_.keys);
  const Index first = head.first_key(in_.key), first_value = head.first_key(in_.value);
  // Numbers behind those of a row stay zero.
  for (Index i = 0; i < count; ++i) {
    copy_floats(in_.key, first + rows_.keys[at(i)], d, keys_ + i * dims);
    copy_floats(in_.value, first_value + rows_.keys[at(i)], d, values_ + i * dims);
  }
  for (float* rows : {keys_, values_}) std::fill_n(rows + count * dims, kRowsBeyond * dims, 0.0f);
  for (float* sums : {work_.key_gradient, work_.value_gradient}) {
    std::fill_n(sums, (count + kRowsBeyond) * dims, 0.0f);
  }
}

/// Lanes without a query do like the last one, with a gradient of zero.
void BackwardTiles::load_tile(const HeadOfDocument& head, Index tile) {
  const Index d = spec_.head_size, dims = work_.dims, count = count_of(tile);
  const Index first = head.first_query(in_.query);
  const float* logsumexp = in_.logsumexp.data<float>() + first;
  for (Index lane = 0; lane < lanes(); ++lane) {
    const Index query = query_of(tile, lane);
    copy_floats(in_.query, first + query, d, query_.rows + lane * dims);
    if (lane < count) {
      copy_floats(in_.out_gradient, head.token(query), d, gradient_.rows + lane * dims);
    } else {
      std::fill_n(gradient_.rows + lane * dims, d, 0.0f);
    }
    means_[lane] = lane < count ? mean_[at(query)] : 0.0f;
    exponents_[lane] = -std::numbers::log2e_v<float> * logsumexp[query];
  }
  finish_side(query_);
  finish_side(gradient_);
  // Then gradients of keys are exact at once.
  for (Index i = 0; i < lanes() * dims; ++i) query_.rows[i] *= spec_.scale;
}

/// Brings the rows of a tile into their other layout.
void BackwardTiles::finish_side(const Side& side) {
  for (Index lane = 0; lane < lanes(); ++lane) {
    float* to = stage_of(stage_, lane);
    const float* from = side.rows + lane * work_.dims;
    for (Index c = 0; c < work_.dims; c += 4, to += 4 * lanes()) std::copy_n(from + c, 4, to);
  }
  kernels_.transpose(stage_, side.lanes, work_.units);
}

void BackwardTiles::send_back(const HeadOfDocument& head, Index chunk, Index tile) {
  const Index d = spec_.head_size, keys = std::ssize(rows_.keys);
  set_ranges(lanes());
  hide_pairs(head, tile);
  set_dropout(head, chunk, tile);
  work_.columns = rows_.columns.data();
  std::fill_n(work_.query_gradient, work_.dims * lanes(), 0.0f);
  for (Index first = 0; first < keys; first += kBackwardKeys) {
    kernels_.send_back(work_, first, std::min(first + kBackwardKeys, keys));
  }
  for (Index lane = 0; lane < count_of(tile); ++lane) {
    float* to = query_sums_.data() + query_of(tile, lane) * d;
    for (Index c = 0; c < d; ++c) to[c] += spec_.scale * work_.query_gradient[c * lanes() + lane];
  }
}

void BackwardTiles::add_key_sums() {
  const Index d = spec_.head_size;
  for (std::size_t i = 0; i < rows_.keys.size(); ++i) {
    const Index to = rows_.keys[i] * d, from = static_cast<Index>(i) * work_.dims;
    for (Index c = 0; c < d; ++c) {
      key_sums_[at(to + c)] += work_.key_gradient[from + c];
      value_sums_[at(to + c)] += work_.value_gradient[from + c];
    }
  }
}

void BackwardTiles::write(const HeadOfDocument& head) {
  const auto write_rows = [&](const std::vector<float>& from, Index first, Tensor& to) {
    write_floats(from.data(), first * spec_.head_size, std::ssize(from), to);
  };
  write_rows(query_sums_, head.first_query(in_.query), in_.query_gradient);
  write_rows(key_sums_, head.first_key(in_.key), in_.key_gradient);
  write_rows(value_sums_, head.first_key(in_.value), in_.value_gradient);
}

/// Runs every head of every document on the workers of a pass, one for each thread.
template <typename Worker, typename Arguments>
void run_heads(const SortedChunks& spec, const Arguments& in) {
  const Index tasks = std::ssize(spec.documents) * spec.heads;
  if (tasks == 0) return;
  const int threads = static_cast<int>(std::clamp<Index>(in.threads, 1, tasks));
  std::vector<Worker> workers;
  workers.reserve(at(threads));
  for (int i = 0; i < threads; ++i) workers.emplace_back(spec, in);
  parallel_for(threads, tasks, [&](Index i) {
    const ChunkedDocument& document = spec.documents[at(i / spec.heads)];
    if (document.rows.query_count == 0) return;
    workers[threads == 1 ? 0 : at(thread_number())].run({spec, document, i % spec.heads});
  });
}

}  // namespace

void sorted_chunks(const SortedChunks& spec, const SortedChunksArguments& in) {
  run_heads<ForwardTiles>(spec, in);
}

void sorted_chunks_backward(const SortedChunks& spec, const SortedChunksBackwardArguments& in) {
  run_heads<BackwardTiles>(spec, in);
}

std::vector<std::uint16_t> times_seen(const SortedChunks& spec, Index document, Index head) {
  const HeadOfDocument one = {spec, spec.documents[at(document)], head};
  const AttentionDocument& rows = one.document.rows;
  const Index keys = rows.key_count;
  std::vector<std::uint16_t> times(at(rows.query_count * keys));
  ChunkRows seen;
  for (Index chunk = 0; chunk < one.chunks(); ++chunk) {
    seen.fill(one, chunk);
    for (const Index query : seen.queries) {
      const Index own = query + rows.query_offset;
      for (const Index key : seen.keys) {
        const bool hidden = (spec.causal && key > own) || (!spec.sees_itself && key == own);
        times[at(query * keys + key)] += hidden ? 0 : 1;
      }
    }
  }
  for (Index query = 0; query < rows.query_count; ++query) {
    const auto row = times.begin() + query * keys;
    const bool is_blind =
        std::all_of(row, row + keys, [](std::uint16_t count) { return count == 0; });
    if (is_blind) row[query + rows.query_offset] = 1;
  }
  return times;
}

double sorted_chunks_flops(const SortedChunks& spec) {
  double pairs = 0;
  for (const ChunkedDocument& document : spec.documents) {
    pairs += static_cast<double>(document.rows.query_count * document.rounds) *
             static_cast<double>(document.chunk * (document.before + 1 + document.after));
  }
  return 4 * pairs * static_cast<double>(spec.heads * spec.head_size);
}

}  // namespace longformer::kernels
