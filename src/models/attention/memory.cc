#include "models/attention/memory.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "ops/attention_usage.h"
#include "ops/embedding.h"
#include "ops/key_ring.h"
#include "ops/loss.h"
#include "ops/value_probes.h"

namespace longformer::models {
namespace {

/// MemoryAttention::Keys::kind of rows that are kept.
constexpr std::uint64_t kCompressed = std::uint64_t{1} << 32, kRecent = std::uint64_t{2} << 32;

/// Nothing that is computed with it is part of the backward pass.
ops::Context without_tape(ops::Context context) {
  context.tape = nullptr;
  return context;
}

}  // namespace

Tensor rows_of_streams(const ops::Context& context, std::span<const Tensor> parts, Index streams,
                       Index first, Index count) {
  if (streams == 1 && parts.size() == 1 && !wants_gradient(parts[0])) {
    return parts[0].slice_rows(first, count);
  }
  std::vector<Index> order;
  for (Index s = 0; s < streams; ++s) {
    Index before = 0, place = 0;
    for (const Tensor& part : parts) {
      const Index rows = part.rows() / streams;
      const Index begin = std::clamp<Index>(first - place, 0, rows);
      const Index end = std::clamp<Index>(first + count - place, 0, rows);
      for (Index row = begin; row < end; ++row) order.push_back(before + s * rows + row);
      before += part.rows();
      place += rows;
    }
  }
  return ops::select_rows(context, ops::joined_rows(context, parts), order);
}

/// State of a layer. Keys and values follow from the rows; without training they are kept too.
class Memory final : public LayerState {
 public:
  Memory(const LanguageModelConfig& config, Index streams, DType dtype)
      : hidden_size_(config.hidden_size),
        heads_(config.heads),
        head_size_(config.head_size),
        least_compressed_(config.is_compressive() ? config.least_compressed() : 1),
        begins_with_zeros_(config.begins_with_zeros),
        dtype_(dtype),
        streams_(streams) {
    begin(config.lengths);
  }

  /// Nothing was read yet.
  void begin(const MemoryLengths& of_streams) {
    lengths = of_streams;
    if (!begins_with_zeros_) return;
    const auto zeros = [&](Index rows) {
      return rows == 0 ? Tensor() : Tensor::zeros({streams_ * rows, hidden_size_}, dtype_);
    };
    recent = zeros(lengths.memory);
    compressed = zeros(lengths.compressed);
  }

  std::unique_ptr<LayerState> copy() const override {
    auto same = std::make_unique<Memory>(*this);
    if (running_keys) same->running_keys = running_keys->copied();
    return same;
  }
  std::int64_t bytes() const override {
    std::size_t sum = recent.bytes() + compressed.bytes() + relative_keys.bytes() +
                      compressed_relative_keys.bytes();
    for (const auto* keys : {&recent_keys, &compressed_keys}) {
      for (const Tensor& tensor : *keys) sum += tensor.bytes();
    }
    for (const Tensor& part : running) sum += part.bytes();
    return (running_keys ? running_keys->bytes() : 0) + static_cast<std::int64_t>(sum);
  }
  void reorder(std::span<const Index> sources) override;
  std::vector<Tensor> saved() const override;
  void restore(std::span<const Tensor> saved) override;
  std::vector<Tensor*> trained() override { return {&compressed}; }

  Index streams() const { return streams_; }
  /// Rows of each stream.
  Index recent_count() const { return recent.empty() ? 0 : recent.rows() / streams_; }
  Index compressed_count() const { return compressed.empty() ? 0 : compressed.rows() / streams_; }
  Index kept_count() const { return compressed_count() + recent_count(); }
  Index running_count() const {
    Index count = 0;
    for (const Tensor& part : running) count += part.rows() / streams_;
    return count;
  }

  MemoryLengths lengths;
  /// [B·s, D]; empty without rows.
  Tensor recent, compressed;
  /// Rows of the segment, as they came.
  std::vector<Tensor> running;
  /// Queries, keys and values of recent and compressed rows; none when not yet made.
  std::vector<Tensor> recent_keys, compressed_keys;
  std::optional<ops::KeyRing> running_keys;
  /// W_r·R of all distances.
  Tensor relative_keys, compressed_relative_keys;

  /// A ring that no row was put into.
  ops::KeyRing fresh_ring() const {
    return {
        {.heads = heads_, .head_size = head_size_, .past = lengths.segment, .streams = streams_},
        dtype_};
  }

 private:
  Index hidden_size_, heads_, head_size_, least_compressed_;
  bool begins_with_zeros_;
  DType dtype_;
  Index streams_;
};

void Memory::reorder(std::span<const Index> sources) {
  MemoryPool pool;
  const ops::Context context = {.memory = pool};
  const auto chosen = [&](Tensor& rows) {
    if (rows.empty()) return;
    const Index count = rows.rows() / streams_;
    std::vector<Index> order;
    for (const Index source : sources) {
      for (Index row = 0; row < count; ++row) order.push_back(source * count + row);
    }
    rows = ops::select_rows(context, rows, order);
  };
  chosen(recent);
  chosen(compressed);
  for (Tensor& part : running) chosen(part);
  recent_keys.clear();
  compressed_keys.clear();
  if (running_keys) running_keys->reorder(sources);
  streams_ = std::ssize(sources);
}

std::vector<Tensor> Memory::saved() const {
  MemoryPool pool;
  const Tensor rows =
      running.empty() ? Tensor()
                      : rows_of_streams({.memory = pool}, running, streams_, 0, running_count());
  std::vector<Tensor> tensors;
  for (const Tensor& kind : {recent, compressed, rows}) {
    tensors.push_back(kind.empty() ? Tensor::zeros({0, hidden_size_}, dtype_) : kind);
  }
  if (running.empty()) return tensors;
  // They would have other bits if they were computed again, all at once.
  if (running_keys) std::ranges::move(running_keys->saved(), std::back_inserter(tensors));
  return tensors;
}

void Memory::restore(std::span<const Tensor> saved) {
  const std::array<Index, 3> most = {lengths.memory + std::max(lengths.segment, least_compressed_),
                                     lengths.compressed, lengths.segment - 1};
  require(saved.size() >= most.size(), "state: expected rows of {} kinds, found {}", most.size(),
          saved.size());
  std::array<Tensor, 3> rows = {};
  for (std::size_t kind = 0; kind < most.size(); ++kind) {
    const Tensor& kept = saved[kind];
    const bool fits = kept.shape().size() == 2 && kept.dimension(1) == hidden_size_ &&
                      kept.dtype() == dtype_ && kept.rows() % streams_ == 0 &&
                      kept.rows() <= streams_ * most[kind];
    require(fits,
            "state: expected up to {} rows of {} numbers in {} for each of {} streams, found "
            "{} of {}",
            most[kind], hidden_size_, name_of(dtype_), streams_, to_string(kept.shape()),
            name_of(kept.dtype()));
    if (kept.rows() > 0) rows[kind] = kept;
  }
  recent = rows[0];
  compressed = rows[1];
  running.clear();
  recent_keys.clear();
  compressed_keys.clear();
  running_keys.reset();
  if (rows[2].empty()) return;
  running = {rows[2]};
  std::size_t next = most.size();
  const Index rest = std::ssize(saved) - static_cast<Index>(next);
  require(rest == 0 || rest == 2 * streams_,
          "state: expected keys and values of {} streams, found {} tensors", streams_, rest);
  const Shape shape = {heads_, rows[2].rows() / streams_, head_size_};
  if (rest > 0) running_keys = fresh_ring();
  for (Index s = 0; s < streams_ && rest > 0; ++s, next += 2) {
    const Tensor &key = saved[next], &value = saved[next + 1];
    require(key.shape() == shape && value.shape() == shape && key.dtype() == dtype_ &&
                value.dtype() == dtype_,
            "state: expected keys and values {} of {}, found {} of {}", to_string(shape),
            name_of(dtype_), to_string(key.shape()), name_of(key.dtype()));
    running_keys->append_to(s, key, value);
  }
}

void set_lengths(LayerState& state, const MemoryLengths& lengths) {
  static_cast<Memory&>(state).begin(lengths);
}

void end_pass(LayerState& state) {
  auto& memory = static_cast<Memory&>(state);
  memory.compressed = ops::stop_gradient(memory.compressed);
}

const MemoryLengths& lengths_of(const LayerState& state) {
  return static_cast<const Memory&>(state).lengths;
}

MemoryAttention::MemoryAttention(const LanguageModelConfig& config, Index layer,
                                 const LayerSource& source)
    : config_(config), layer_(layer), query_key_value_(config, layer, source) {
  if (config.positions == Positions::relative) {
    content_bias_ = source.weights.get_fp32(
        config.shares_relative_biases ? "relative_content" : name_in(layer, "relative_content"),
        {config.heads, config.head_size}, Init::normal(source.initial.deviation));
    distances_ = distances_of(source, "");
    if (config.is_compressive() && config.separate_positions) {
      compressed_distances_ = distances_of(source, "compressed_");
    }
  }
  if (config.is_compressive()) compressor_.emplace(config, layer, source);
}

MemoryAttention::Distances MemoryAttention::distances_of(const LayerSource& source,
                                                         const std::string& kind) const {
  const std::string bias = kind + "relative_position";
  return {.bias = source.weights.get_fp32(
              config_.shares_relative_biases ? bias : name_in(layer_, bias),
              {config_.heads, config_.head_size}, Init::normal(source.initial.deviation)),
          .relative_key = linear(source, name_in(layer_, kind + "relative_key"),
                                 {config_.heads * config_.head_size, config_.hidden_size},
                                 {.has_bias = false})};
}

std::unique_ptr<LayerState> MemoryAttention::start(DType dtype, Index streams) const {
  return std::make_unique<Memory>(config_, streams, dtype);
}

/// The rows of a stream follow each other. Infused positions count all that is seen, from the
/// oldest row on; these are the rows from `first` on.
std::vector<Tensor> MemoryAttention::project(const ops::Context& context, const Tensor& rows,
                                             Index first, const LayerInput& in,
                                             const Memory& memory) const {
  if (!query_key_value_.is_infused()) return query_key_value_.project(context, rows);
  const Index count = rows.rows() / memory.streams();
  std::vector<Index> places;
  for (Index row = 0; row < rows.rows(); ++row) places.push_back(row % count);
  std::vector<Index> positions(at(count));
  std::iota(positions.begin(), positions.end(), first);
  return query_key_value_.project(
      context, rows, ops::select_rows(context, in.shared.distances(), positions), places);
}

/// r [H, count, d] of the distances from 0 on.
Tensor MemoryAttention::relative_keys(const ops::Context& context, const Distances& distances,
                                      Index count, const LayerInput& in,
                                      const Memory& memory) const {
  const Index farthest = memory.lengths.clamp > 0 ? memory.lengths.clamp : count - 1;
  std::vector<Index> rows;
  for (Index distance = 0; distance < count; ++distance) {
    rows.push_back(std::min(distance, farthest));
  }
  const Tensor table = ops::select_rows(context, in.shared.distances(), rows);
  return ops::project_heads(context, table, distances.relative_key, config_.heads,
                            config_.head_size)[0];
}

/// Keys and values of a kind of rows, where those of each stream begin, and how many there are.
struct MemoryAttention::Keys {
  Tensor key, value;
  std::vector<Index> begins;
  Index count;
  /// Distance of the first of them from the first query.
  Index offset;
  /// Which rows they are: a number far from those of places where others drop.
  std::uint64_t kind = 0;

  static Keys of(const std::vector<Tensor>& projected, Index streams, Index offset) {
    Keys keys = {projected[1], projected[2], {}, projected[1].dimension(1) / streams, offset};
    for (Index s = 0; s < streams; ++s) keys.begins.push_back(s * keys.count);
    return keys;
  }
};

ops::KeyGroup MemoryAttention::group_of(const ops::Context& context, const Keys& keys,
                                        Index queries,
                                        const std::optional<ops::RelativePositions>& positions,
                                        const Memory& memory) const {
  ops::KeyGroup group = {{}, keys.key, keys.value, positions};
  const Index reach =
      memory.lengths.same_length ? memory.lengths.memory - 1 : kernels::kUnlimitedReach;
  group.spec.head_size = config_.head_size;
  group.spec.heads.assign(at(config_.heads), {.reach_left = reach});
  group.spec.causal = true;
  group.spec.relative_positions = positions.has_value();
  // Every kind of rows has a place of its own, as their numbers all begin with 0.
  group.spec.dropout = context.dropout(config_.attention_dropout, layer_place(layer_) + keys.kind);
  kernels::AttentionRows rows;
  for (Index s = 0; s < memory.streams(); ++s) {
    rows.documents.push_back({.query_begin = s * queries,
                              .query_count = queries,
                              .key_begin = keys.begins[at(s)],
                              .key_count = keys.count,
                              .query_offset = keys.offset});
  }
  // The empty document takes the rows that nobody sees.
  rows.documents.push_back(
      {.query_begin = memory.streams() * queries, .key_begin = keys.key.dimension(1)});
  group.spec.rows = kernels::shared(std::move(rows));
  return group;
}

/// The rows of the segment. One that comes in pieces keeps its keys and values in a ring.
MemoryAttention::Keys MemoryAttention::running_keys(const ops::Context& context,
                                                    const std::vector<Tensor>& projected,
                                                    const LayerInput& in, Memory& memory) const {
  const Index streams = memory.streams(), before = memory.running_count();
  const Index count = projected[1].dimension(1) / streams;
  if (before == 0 && count == memory.lengths.segment) return Keys::of(projected, streams, 0);
  require(context.tape == nullptr, "language model: expected whole segments of {} in training",
          memory.lengths.segment);
  auto& ring = memory.running_keys;
  if (!ring) ring = memory.fresh_ring();
  const auto append = [&](const std::vector<Tensor>& rows) {
    std::vector<Index> starts;
    for (Index s = 0; s <= streams; ++s) starts.push_back(s * rows[1].dimension(1) / streams);
    ring->append(rows[1], rows[2], starts);
  };
  if (ring->count(0) < before) {
    const Tensor rows = rows_of_streams(context, memory.running, streams, 0, before);
    append(project(context, rows, memory.kept_count(), in, memory));
  }
  append(projected);
  Keys keys = {ring->keys(), ring->values(), {}, before + count, before};
  for (Index s = 0; s < streams; ++s) {
    keys.begins.push_back(ring->begin(s) + ring->count(s) - keys.count);
  }
  return keys;
}

/// Keys and values of rows that are kept; where nothing is trained they are kept too.
MemoryAttention::Keys MemoryAttention::kept_keys(const ops::Context& context, const Tensor& rows,
                                                 Index offset, std::vector<Tensor>& kept,
                                                 const LayerInput& in, const Memory& memory) const {
  const auto projected = [&] {
    const bool is_recent = &kept == &memory.recent_keys;
    return project(context, rows, is_recent ? memory.compressed_count() : 0, in, memory);
  };
  if (context.tape != nullptr) return Keys::of(projected(), memory.streams(), offset);
  if (kept.empty()) kept = projected();
  return Keys::of(kept, memory.streams(), offset);
}

/// The positions belong to one kind of rows; where nothing is trained the keys of distances are
/// kept.
std::optional<ops::RelativePositions> MemoryAttention::relative_positions(
    const ops::Context& context, const Distances& of, Tensor& kept, const LayerInput& in,
    const Memory& memory, Index queries) const {
  if (context.tape != nullptr) {
    const Index count = memory.kept_count() + queries;
    return ops::RelativePositions{content_bias_, of.bias,
                                  relative_keys(context, of, count, in, memory)};
  }
  const Index most = memory.lengths.most_rows(config_.least_compressed());
  if (kept.empty()) kept = relative_keys(context, of, most, in, memory);
  return ops::RelativePositions{content_bias_, of.bias, kept};
}

/// The queries of a segment and what they see.
struct MemoryAttention::Segment {
  Tensor query;
  std::vector<ops::KeyGroup> groups;
};

/// Compressed rows, recent rows and those of the segment, as far as there are any. Queries are
/// those that the segment's last keys belong to.
std::vector<ops::KeyGroup> MemoryAttention::groups_of(const ops::Context& context,
                                                      const Keys& running, Index queries,
                                                      const LayerInput& in, Memory& memory) const {
  const Index before = running.count - queries;
  const Index recent = memory.recent_count(), older = memory.compressed_count();
  std::optional<ops::RelativePositions> near, far;
  if (distances_) {
    near = relative_positions(context, *distances_, memory.relative_keys, in, memory, queries);
    far = near;
  }
  if (older > 0 && compressed_distances_) {
    far = relative_positions(context, *compressed_distances_, memory.compressed_relative_keys, in,
                             memory, queries);
  }
  std::vector<ops::KeyGroup> groups;
  if (older > 0) {
    const Index between = compressed_distances_ ? 0 : recent;
    Keys keys = kept_keys(context, memory.compressed, before + older + between,
                          memory.compressed_keys, in, memory);
    keys.kind = kCompressed;
    groups.push_back(group_of(context, keys, queries, far, memory));
  }
  if (recent > 0) {
    Keys keys = kept_keys(context, memory.recent, before + recent, memory.recent_keys, in, memory);
    keys.kind = kRecent;
    groups.push_back(group_of(context, keys, queries, near, memory));
  }
  groups.push_back(group_of(context, running, queries, near, memory));
  return groups;
}

Tensor MemoryAttention::forward(const ops::Context& context, const Tensor& x,
                                const LayerInput& in) const {
  auto& memory = *static_cast<Memory*>(in.state);
  const Index queries = x.rows() / memory.streams(), before = memory.running_count();
  const auto projected = project(context, x, memory.kept_count() + before, in, memory);
  const Keys running = running_keys(context, projected, in, memory);
  const Segment segment = {projected[0], groups_of(context, running, queries, in, memory)};
  const Tensor attended = ops::attention_over(context, segment.query, segment.groups);
  if (in.shares != nullptr) {
    add_shares(context, segment.query, segment.groups, memory, *in.shares);
  }
  if (in.observer != nullptr) {
    observe_groups(context, segment, memory.compressed_count(), *in.observer);
  }
  memory.running.push_back(ops::stop_gradient(x));
  if (before + queries == memory.lengths.segment) end_segment(context, in, segment, memory);
  return attended;
}

/// Probabilities of compressed rows are in `global`, those of all others in `local`.
void MemoryAttention::observe_groups(const ops::Context& context, const Segment& segment,
                                     Index compressed, const HeadObserver& observer) const {
  ops::probabilities_over(
      context, segment.query, segment.groups, observer.heads, [&](Index head, const Tensor& all) {
        observer.observe({.which = {0, head},
                          .local = ops::columns_of(all, compressed, all.columns() - compressed),
                          .global = ops::columns_of(all, 0, compressed)});
      });
}

/// While memories fill, how much goes to them says how full they are.
void MemoryAttention::add_shares(const ops::Context& context, const Tensor& query,
                                 std::span<const ops::KeyGroup> groups, const Memory& memory,
                                 AttentionShares& shares) const {
  const MemoryLengths& lengths = memory.lengths;
  if (memory.compressed_count() < lengths.compressed) return;
  if (memory.recent_count() < lengths.memory) return;
  std::vector<Index> sizes = {lengths.segment};
  std::vector<ops::AgeShares*> kinds = {&shares.segment};
  const auto put_before = [&](Index size, ops::AgeShares& kind) {
    if (size == 0) return;
    sizes.insert(sizes.begin(), size);
    kinds.insert(kinds.begin(), &kind);
  };
  put_before(memory.recent_count(), shares.memory);
  put_before(memory.compressed_count(), shares.compressed);
  const auto queries = static_cast<double>(query.dimension(1));
  const auto found = ops::attention_shares(context, query, groups, sizes);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    for (std::size_t age = 0; age < found[kind].size(); ++age) {
      (*kinds[kind])[age] += found[kind][age] * queries;
    }
  }
  shares.queries += queries;
}

/// Only a full segment moves the memories: its rows become recent ones, and recent ones that no
/// longer have a place are compressed, or forgotten.
void MemoryAttention::end_segment(const ops::Context& context, const LayerInput& in,
                                  const Segment& segment, Memory& memory) const {
  const Index streams = memory.streams(), rate = config_.compression_rate;
  std::vector<Tensor> parts;
  if (!memory.recent.empty()) parts.push_back(memory.recent);
  parts.insert(parts.end(), memory.running.begin(), memory.running.end());
  const Index all = memory.recent_count() + memory.running_count();
  const Index over = std::max<Index>(0, all - memory.lengths.memory);
  Index evicted = over;
  if (config_.is_compressive()) {
    evicted = over < config_.least_compressed() ? 0 : over / rate * rate;
  }
  const ops::Context quiet = without_tape(context);
  if (config_.is_compressive() && evicted > 0 && memory.lengths.compressed > 0) {
    compress(context, rows_of_streams(quiet, parts, streams, 0, evicted), in, segment, memory);
  }
  memory.recent =
      all > evicted ? rows_of_streams(quiet, parts, streams, evicted, all - evicted) : Tensor();
  memory.running.clear();
  memory.recent_keys.clear();
  // Infused positions count from the oldest row, of which there may be more now.
  if (query_key_value_.is_infused()) memory.compressed_keys.clear();
  if (memory.running_keys) memory.running_keys->clear();
}

/// Numbers of the oldest rows that this segment looked at most. One that came in pieces is looked
/// at as a whole.
std::vector<Index> MemoryAttention::most_used(const ops::Context& context, const LayerInput& in,
                                              const Segment& segment, Index old,
                                              Memory& memory) const {
  const Index streams = memory.streams(), length = memory.lengths.segment;
  const ops::UsedRows rows = {.streams = streams,
                              .memory = memory.recent_count(),
                              .segment = length,
                              .old = old,
                              .kept = old / config_.compression_rate};
  if (segment.query.dimension(1) == streams * length) {
    return ops::most_used_rows(context, segment.query, segment.groups, rows);
  }
  const Tensor all = rows_of_streams(context, memory.running, streams, 0, length);
  const auto projected = project(context, all, memory.kept_count(), in, memory);
  const auto groups = groups_of(context, Keys::of(projected, streams, 0), length, in, memory);
  return ops::most_used_rows(context, projected[0], groups, rows);
}

/// Appends rows that stand for `old`, the oldest recent rows of the streams.
void MemoryAttention::compress(const ops::Context& context, const Tensor& old, const LayerInput& in,
                               const Segment& segment, Memory& memory) const {
  const Index streams = memory.streams();
  const ops::Context quiet = without_tape(context);
  const Tensor fewer = compressor_->fewer(context, old, streams, [&] {
    return most_used(context, in, segment, old.rows() / streams, memory);
  });
  if (config_.has_compression_loss() && in.losses != nullptr) {
    in.losses->emplace_back(kCompressionLoss,
                            config_.compression_loss == CompressionLoss::autoencoding
                                ? compressor_->autoencoding_loss(context, old, fewer)
                                : reconstruction_loss(context, old, fewer, memory));
  }
  // The segments of this pass that are still to come teach the compression what they look for.
  const bool is_unrolled = config_.compression_loss == CompressionLoss::backpropagation;
  std::vector<Tensor> parts;
  if (!memory.compressed.empty()) parts.push_back(memory.compressed);
  parts.push_back(is_unrolled ? fewer : ops::stop_gradient(fewer));
  const Index all = memory.compressed_count() + fewer.rows() / streams;
  const Index kept = std::min(all, memory.lengths.compressed);
  memory.compressed =
      rows_of_streams(is_unrolled ? context : quiet, parts, streams, all - kept, kept);
  memory.compressed_keys.clear();
}

/// How far what the segment finds in the compressed rows, by content alone, is from what it finds
/// in the old ones. Everything but the compressed rows is constant.
Tensor MemoryAttention::reconstruction_loss(const ops::Context& context, const Tensor& old,
                                            const Tensor& fewer, const Memory& memory) const {
  const Index streams = memory.streams(), segment = memory.running_count();
  const ops::Context quiet = without_tape(context);
  // If the memory is shorter than a segment, the segment's own first rows are among the old.
  const Index first = std::max<Index>(0, old.rows() / streams - memory.recent_count());
  const Index queries = segment - first;
  const Tensor query = query_key_value_.project(
      quiet, rows_of_streams(quiet, memory.running, streams, first, queries))[0];
  const auto found = [&](const ops::Context& own, const Tensor& rows) {
    const auto projected = query_key_value_.project(own, rows, ops::WeightsAre::constant);
    kernels::AttentionSpec spec;
    spec.head_size = config_.head_size;
    spec.heads.assign(at(config_.heads), {.reach_left = kernels::kUnlimitedReach,
                                          .reach_right = kernels::kUnlimitedReach});
    kernels::AttentionRows places;
    const Index keys = rows.rows() / streams;
    for (Index s = 0; s < streams; ++s) {
      places.documents.push_back({.query_begin = s * queries,
                                  .query_count = queries,
                                  .key_begin = s * keys,
                                  .key_count = keys});
    }
    spec.rows = kernels::shared(std::move(places));
    return ops::attention(own, spec, query, projected[1], projected[2]);
  };
  const Tensor before = found(quiet, old);
  return ops::mean_square_difference(context, found(context, fewer), before);
}

}  // namespace longformer::models
