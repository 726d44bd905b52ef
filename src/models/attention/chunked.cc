#include "models/attention/chunked.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "models/language_model_config.h"
#include "ops/heads.h"
#include "ops/key_ring.h"

namespace longformer::models {

using kernels::AttentionDocument;
using kernels::ChunkedDocument;

/// Keys and values that were read, and in hashed layers their buckets.
struct ChunkedPast final : public LayerState {
  /// For each head and round.
  using Numbers = std::vector<std::vector<std::int32_t>>;
  struct Stream {
    Index tokens = 0;
    /// Factors of the number of buckets; none while there are too few tokens for chunks.
    std::vector<Index> factors = {};
    /// Bucket of every token, and the tokens in the order of their buckets.
    Numbers buckets = {}, order = {};

    void keep(std::span<const std::int32_t> all, Index count);
    void add(std::span<const std::int32_t> of_token);
  };

  ChunkedPast(ops::KeyRing ring, Index streams) : ring(std::move(ring)), streams(at(streams)) {}

  std::unique_ptr<LayerState> copy() const override {
    auto same = std::make_unique<ChunkedPast>(*this);
    same->ring = ring.copied();
    return same;
  }
  std::int64_t bytes() const override {
    std::int64_t sum = ring.bytes();
    for (const Stream& stream : streams) {
      sum += 8 * std::ssize(stream.buckets) * (stream.buckets.empty() ? 0 : stream.tokens);
    }
    return sum;
  }
  void reorder(std::span<const Index> sources) override {
    ring.reorder(sources);
    std::vector<Stream> ordered;
    for (const Index source : sources) ordered.push_back(streams[at(source)]);
    streams = std::move(ordered);
  }
  /// Training reads whole texts, so nobody goes on from a file.
  std::vector<Tensor> saved() const override {
    fail("state: expected a model whose state is kept in files, found attention reformer");
  }
  void restore(std::span<const Tensor> /*saved*/) override { saved(); }

  ops::KeyRing ring;
  std::vector<Stream> streams;
};

void ChunkedPast::Stream::keep(std::span<const std::int32_t> all, Index count) {
  const auto sorted = kernels::bucket_order(all, count, count, 1);
  for (Index begin = 0; begin < std::ssize(all); begin += count) {
    buckets.emplace_back(all.begin() + begin, all.begin() + begin + count);
    order.emplace_back(sorted.begin() + begin, sorted.begin() + begin + count);
  }
}

void ChunkedPast::Stream::add(std::span<const std::int32_t> of_token) {
  for (std::size_t row = 0; row < of_token.size(); ++row) {
    auto& own = buckets[row];
    const auto place = std::upper_bound(
        order[row].begin(), order[row].end(), of_token[row],
        [&own](std::int32_t bucket, std::int32_t token) { return bucket < own[at(token)]; });
    order[row].insert(place, static_cast<std::int32_t>(own.size()));
    own.push_back(of_token[row]);
  }
}

namespace {

std::vector<std::int32_t> numbers_from(Index first, Index count) {
  std::vector<std::int32_t> numbers(at(count));
  std::iota(numbers.begin(), numbers.end(), static_cast<std::int32_t>(first));
  return numbers;
}

/// One query, the last key, with the keys of a list for each head and round, or for all heads.
ChunkedDocument one_query(const AttentionDocument& rows, const ChunkedPast::Numbers& lists,
                          Index rounds) {
  const auto own = static_cast<std::int32_t>(rows.query_offset);
  Index longest = 1;
  for (const auto& list : lists) longest = std::max(longest, std::ssize(list));
  ChunkedDocument document = {
      .rows = rows, .rounds = rounds, .places = 2 * longest, .chunk = longest, .before = 1};
  for (const auto& list : lists) {
    const std::size_t begin = document.order.size();
    document.order.resize(begin + at(document.places), -1);
    std::remove_copy(list.begin(), list.end(), &document.order[begin], own);
    document.order[begin + at(longest)] = own;
  }
  return document;
}

/// The chunk of a token in the order of a row, and those before it, around the circle of all.
std::vector<std::int32_t> chunk_of(std::span<const std::int32_t> order, std::int32_t token,
                                   const ReformerConfig::Chunks& chunks) {
  const Index n = std::ssize(order);
  const Index place = std::find(order.begin(), order.end(), token) - order.begin();
  const Index first = (place / chunks.length - chunks.before) * chunks.length;
  std::vector<std::int32_t> seen;
  for (Index i = 0; i < (1 + chunks.before) * chunks.length; ++i) {
    seen.push_back(order[at(((first + i) % n + n) % n)]);
  }
  return seen;
}

ops::Linear projections_of(const ReformerLayers& layers, Index layer, const LayerSource& source) {
  const bool hashes = layers.reformer.layers[at(layer)] == ChunkLayer::lsh;
  std::vector<std::string_view> parts = {"query", "key", "value"};
  if (hashes) parts = {"query_key", "value"};
  const Index inner = layers.heads * layers.head_size;
  if (layers.packs_projections) {
    return linear(source, layers.name(layer, "query_key_value"),
                  {std::ssize(parts) * inner, layers.hidden_size},
                  {.has_bias = layers.attention_bias});
  }
  std::vector<std::string> names;
  for (const std::string_view part : parts) names.push_back(layers.name(layer, part));
  return stacked_linear(source, names, {inner, layers.hidden_size}, layers.attention_bias);
}

/// The mask of a document; empty where nothing is masked.
std::span<const std::uint8_t> mask_of(const SharedInput& shared, Index begin, Index count) {
  if (!shared.rows || shared.rows->key_mask.empty()) return {};
  return std::span(shared.rows->key_mask).subspan(at(begin), at(count));
}

}  // namespace

ChunkedAttention::ChunkedAttention(const ReformerLayers& layers, Index layer,
                                   const LayerSource& source,
                                   std::shared_ptr<const Rotations> rotations)
    : reformer_(layers.reformer),
      kind_(layers.reformer.layers[at(layer)]),
      causal_(layers.causal),
      chunks_(layers.reformer.chunks(layer)),
      heads_(layers.heads),
      head_size_(layers.head_size),
      dropout_(hashes() ? layers.reformer.lsh_dropout : layers.attention_dropout),
      place_(layer_place(layer)),
      query_key_value_(projections_of(layers, layer, source)),
      rotations_(std::move(rotations)) {
  const std::vector<float> ones(at(head_size_), 1.0f);
  key_norm_ = {
      .weight = Tensor::from(ones, {head_size_}), .bias = {}, .epsilon = 1e-6f, .centres = false};
}

std::unique_ptr<LayerState> ChunkedAttention::start(DType dtype, Index streams) const {
  const Index nearest = (1 + chunks_.before) * chunks_.length - 1;
  return std::make_unique<ChunkedPast>(ops::KeyRing({.heads = heads_,
                                                     .head_size = head_size_,
                                                     .past = hashes() ? kMaxReach : nearest,
                                                     .streams = streams},
                                                    dtype),
                                       streams);
}

ChunkedDocument ChunkedAttention::whole_text(const ops::Context& context, const Tensor& key,
                                             const AttentionDocument& rows,
                                             std::span<const std::uint8_t> visible,
                                             ChunkedPast* past, std::size_t stream) const {
  const Index n = rows.query_count, padded = reformer_.padded(n);
  ChunkedDocument document = {.rows = rows, .places = padded, .order = numbers_from(0, n)};
  document.order.resize(at(padded), -1);
  document.visible.assign(visible.begin(), visible.end());
  if (padded <= chunks_.length) {
    document.chunk = std::max<Index>(1, padded);
    return document;
  }
  document.chunk = chunks_.length;
  document.before = chunks_.before;
  document.after = chunks_.after;
  if (!hashes()) return document;
  const std::vector<Index> factors = reformer_.buckets_for(padded);
  auto buckets =
      kernels::hash_buckets(key, rows.key_begin, n, *rotations_->of(factors), context.threads);
  // Masked tokens have a bucket of their own, behind all others of a round.
  const auto behind = static_cast<std::int32_t>(
      std::accumulate(factors.begin(), factors.end(), Index{1}, std::multiplies<>()));
  for (std::size_t i = 0; i < buckets.size() && !visible.empty(); ++i) {
    if (visible[i % at(n)] == 0) buckets[i] = behind;
  }
  document.rounds = reformer_.hashes;
  document.order = kernels::bucket_order(buckets, n, padded, context.threads);
  if (past != nullptr) {
    past->streams[stream].factors = factors;
    past->streams[stream].keep(buckets, n);
  }
  return document;
}

ChunkedDocument ChunkedAttention::next_token(const ops::Context& context, const Tensor& key,
                                             const AttentionDocument& rows, ChunkedPast& past,
                                             std::size_t stream) const {
  ChunkedPast::Stream& own = past.streams[stream];
  const Index n = rows.key_count;
  if (!hashes()) {
    const Index begin =
        std::max<Index>(0, (own.tokens / chunks_.length - chunks_.before) * chunks_.length);
    const Index skipped = own.tokens + 1 - n;
    return one_query(rows, {numbers_from(begin - skipped, own.tokens + 1 - begin)}, 1);
  }
  const auto hashed = [&](Index first, Index count) {
    return kernels::hash_buckets(key, rows.key_begin + first, count, *rotations_->of(own.factors),
                                 context.threads);
  };
  if (own.buckets.empty()) {
    if (n >= chunks_.length) {
      own.factors = reformer_.buckets_for(n);
      own.keep(hashed(0, n), n);
    }
    return one_query(rows, {numbers_from(0, n)}, 1);
  }
  own.add(hashed(n - 1, 1));
  ChunkedPast::Numbers lists;
  for (const auto& order : own.order) {
    lists.push_back(chunk_of(order, static_cast<std::int32_t>(n - 1), chunks_));
  }
  return one_query(rows, lists, reformer_.hashes);
}

std::vector<ChunkedDocument> ChunkedAttention::documents(const ops::Context& context,
                                                         const Tensor& key,
                                                         const LayerInput& in) const {
  auto* past = static_cast<ChunkedPast*>(in.state);
  const std::vector<Index>& starts = in.shared.starts;
  std::vector<ChunkedDocument> documents;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    const Index count = starts[s + 1] - starts[s];
    AttentionDocument rows = {starts[s], count, starts[s], count, 0};
    if (past != nullptr) {
      const auto stream = static_cast<Index>(s);
      rows.key_begin = past->ring.begin(stream);
      rows.key_count = past->ring.count(stream);
      rows.query_offset = rows.key_count - count;
    }
    const bool goes_on = past != nullptr && past->streams[s].tokens > 0;
    require(!goes_on || count == 1,
            "state: expected one token after those that were read, found {}", count);
    documents.push_back(
        goes_on ? next_token(context, key, rows, *past, s)
                : whole_text(context, key, rows, mask_of(in.shared, starts[s], count), past, s));
    if (past != nullptr) past->streams[s].tokens += count;
  }
  return documents;
}

void ChunkedAttention::observe(const ops::Context& context, const LayerInput& in,
                               const ops::SortedChunks& seen,
                               const ops::ProbabilityInputs& inputs) const {
  ops::AttentionSpec dense;
  dense.head_size = head_size_;
  dense.heads.assign(at(heads_), {kernels::kUnlimitedReach, kernels::kUnlimitedReach});
  dense.rows = in.shared.rows_without_globals;
  ops::chunk_probabilities(context, dense, seen, inputs, in.observer->heads, in.observer->observe);
}

Tensor ChunkedAttention::forward(const ops::Context& context, const Tensor& x, const LayerInput& in,
                                 std::shared_ptr<const ops::SortedChunks>& seen) const {
  const std::vector<Tensor> projected =
      ops::project_heads(context, x, query_key_value_, heads_, head_size_);
  const Tensor& query = projected[0];
  const Tensor& value = projected.back();
  const Tensor key = hashes() ? ops::norm_heads(context, query, key_norm_) : projected[1];
  auto* past = static_cast<ChunkedPast*>(in.state);
  if (past != nullptr) past->ring.append(key, value, in.shared.starts);
  const Tensor& keys = past == nullptr ? key : past->ring.keys();
  if (!seen) {
    seen = std::make_shared<const ops::SortedChunks>(
        ops::SortedChunks{.heads = heads_,
                          .head_size = head_size_,
                          .scale = 1 / std::sqrt(static_cast<float>(head_size_)),
                          .sees_itself = !hashes(),
                          .causal = causal_,
                          .dropout = context.dropout(dropout_, place_),
                          .documents = documents(context, keys, in)});
  }
  if (in.observer != nullptr) observe(context, in, *seen, {.query = query, .key = keys});
  return ops::chunk_attention(context, seen, query, keys,
                              past == nullptr ? value : past->ring.values());
}

}  // namespace longformer::models
